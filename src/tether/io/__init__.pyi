# What stands under `tether.io`: `__init__.py` and type checkers read this list, and there is no other.

from .caselist import CaseEntry as CaseEntry
from .caselist import cases as cases
from .caselist import write_case as write_case
from .checking import Check as Check
from .checking import check as check
from .conversion import Conversion as Conversion
from .conversion import convert as convert
from .datasets import from_dataset as from_dataset
from .drn import read_drn as read_drn
from .drn import write_drn as write_drn
from .gym import from_gymnasium as from_gymnasium

from .intervals import IntervalModel as IntervalModel
from .logs import read_episodes as read_episodes
from .logs import write_episodes as write_episodes
from .matrices import read_arrays as read_arrays
from .matrices import write_arrays as write_arrays
from .model_tables import from_dataframe as from_dataframe
from .model_tables import read_table as read_table
from .model_tables import write_table as write_table
from .models import read_model as read_model
from .models import write_model as write_model
from .opening import open_model as open_model
from .opening import open_path as open_path
from .paths import read_path as read_path
from .paths import write_path as write_path
from .policies import open_policy as open_policy
from .policies import write_policy as write_policy
from .prism import read_prism as read_prism
from .prism import write_prism as write_prism
from .recording import record as record
from .results import read_plan as read_plan
from .results import read_sweep as read_sweep
from .storm import from_stormpy as from_stormpy
from .storm import read_storm as read_storm
from .typed_models import read_types as read_types
