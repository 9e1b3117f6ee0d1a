"""What may stand for a model, a path or a policy where only text can be given: on a command line, in a settings file.

A model is a file, also one that `MDP.save` wrote, an embedded case (``case:sepsis``), or an environment of Gymnasium
(``gym:FrozenLake-v1``). A path is a file, an episode of a log (``log.csv#17``), or a path of a case
(``case:sepsis-suboptimal``).
"""

from tether.io.embedded import case_names, open_case
from tether.io.finding import find_name
from tether.io.opening import open_model, open_path
from tether.io.policies import open_policy

__all__ = ["case_names", "find_name", "open_case", "open_model", "open_path", "open_policy"]
