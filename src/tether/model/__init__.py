"""What is the world like? A finite Markov decision process in one sparse tabular form, checked once.

`mdp` is the model; `form` the arrays behind it; `names` how states and actions are known; `from_arrays`, `from_table`
and `from_function` build it; `describe` counts what is there; `storage` keeps a model on disk.
May import: _kernels, _foundation, errors.
"""
