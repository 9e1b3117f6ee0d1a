"""How do models and episodes come in and go out? Files and ecosystems, one small file per format.

Nothing heavy is loaded before it is needed: a file of this folder, and what it imports, when it is first used.
May import: cases, and what they may.

>>> import tempfile, tether
>>> case = tether.cases.grid_world()
>>> with tempfile.TemporaryDirectory() as folder:
...     tether.io.write_model(case.mdp, f"{folder}/maze.csv")
...     tether.io.read_model(f"{folder}/maze.csv")
<MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
"""

import lazy_loader as lazy

# The names are the imports of the stub `__init__.pyi`; each is loaded when it is first used.
__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
