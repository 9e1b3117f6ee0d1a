"""What is the world like? A finite Markov decision process in one sparse tabular form, checked once.

`mdp` is the model; `form` has the arrays behind it; `names` the names of states and actions; `from_arrays`,
`from_table` and `from_function` build it; `describe` counts its contents; `storage` keeps a model on disk.
May import: core, _kernels, _foundation, errors.
"""
