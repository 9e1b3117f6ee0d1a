"""Tether: exact counterfactuals for Markov decision processes that stay about the episode they started from.

The way through the package: a model (`MDP`), an observation (`Path`), and the counterfactual MDP
that follows from the two (`counterfactual`). Models and episodes come from code, from files
(`tether.io`) or are learned from logs (`learn`). The results that calls return are classes of `tether.records`.
"""

import lazy_loader as lazy

# The public names are the imports of the stub `__init__.pyi`; each is loaded when it is first used.
__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
