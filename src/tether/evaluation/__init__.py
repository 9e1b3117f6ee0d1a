"""What does a policy lead to? Exactly, or drawn: on the counterfactual MDP and on the plain model.

`evaluate` follows a policy exactly: what it earns (`returns`), how much of it is still about the episode (`tailoring`).
`trajectories` draws from a plan; `plain` is the model without an observation; `certificate` and `ranges` are about all
causal models of an episode; `one_change`, `shares` and `necessity` say which decisions mattered, `review` which were
mistakes and what was luck.
May import: plan, and what it may.
"""
