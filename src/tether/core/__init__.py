"""The engine: arrays in, arrays out; one implementation of each step, for a batch of episodes.

`condition` makes the layers of a batch, `thresholds` finds κ, `plan` is the Bellman step, `follow` the forward walk,
`extremes` the worst and best over sets of causal models. One episode is a batch of one.
May import: _kernels, _foundation, errors.
"""
