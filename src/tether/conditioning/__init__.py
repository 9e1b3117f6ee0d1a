"""What would this episode have been under other actions? The model, replayed with the luck of one observed path.

`mechanism` infers the noise of a step and replays it; `layers` is the graph over time; `counterfactual_record` the
counterfactual MDP.
May import: observation, model, and what these may.
"""
