"""How do models and episodes come in and go out? Files and ecosystems, one small file per format.

Nothing heavy is loaded before it is needed: pyarrow, scipy, gymnasium and the rest are imported where they are used.
May import: cases, and what they may.

>>> import tempfile, tether
>>> case = tether.cases.grid_world()
>>> with tempfile.TemporaryDirectory() as folder:
...     tether.io.write_model(case.mdp, f"{folder}/maze.csv")
...     tether.io.read_model(f"{folder}/maze.csv")
<MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
"""

from tether.io.caselist import CaseEntry, cases, write_case
from tether.io.checking import Check, check
from tether.io.convert import Conversion, convert
from tether.io.datasets import from_dataset
from tether.io.drn import read_drn, write_drn
from tether.io.gym import from_gymnasium
from tether.io.intervals import IntervalModel
from tether.io.logs import read_episodes, write_episodes
from tether.io.matrices import read_arrays, write_arrays
from tether.io.model_tables import from_dataframe, read_table, write_table
from tether.io.models import read_model, write_model
from tether.io.opening import open_model, open_path
from tether.io.paths import read_path, write_path
from tether.io.policies import open_policy, write_policy
from tether.io.prism import read_prism, write_prism
from tether.io.recording import record
from tether.io.results import read_plan, read_sweep
from tether.io.storm import from_stormpy, read_storm
from tether.io.typed_models import read_types

__all__ = [
    "CaseEntry",
    "Check",
    "Conversion",
    "IntervalModel",
    "cases",
    "check",
    "convert",
    "from_dataframe",
    "from_dataset",
    "from_gymnasium",
    "from_stormpy",
    "open_model",
    "open_path",
    "open_policy",
    "read_arrays",
    "read_drn",
    "read_episodes",
    "read_model",
    "read_path",
    "read_plan",
    "read_prism",
    "read_storm",
    "read_sweep",
    "read_table",
    "read_types",
    "record",
    "write_arrays",
    "write_case",
    "write_drn",
    "write_episodes",
    "write_model",
    "write_path",
    "write_policy",
    "write_prism",
    "write_table",
]
