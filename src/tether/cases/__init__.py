"""The paper's models, ready to use: `toy`, `grid_world`, `epidemic`, `sepsis`.

And a small `ward`; `hidden_diabetes`, where nobody recorded who is diabetic; and one from real data, `icu_sepsis`.

Each function returns a `Case`: the model, with readable names, and its observed paths by name.
May import: mdp, and what it may.

>>> import tether
>>> case = tether.cases.epidemic()
>>> case.mdp.n_states, case.path.states[0], case.path.actions[0]
(2541, (9, 1, 20), 'NIL')
"""

from tether.cases.case import Case
from tether.cases.epidemic import epidemic
from tether.cases.grid_world import grid_world
from tether.cases.hidden_diabetes import TypedCase, hidden_diabetes
from tether.cases.icu_sepsis import IcuSepsisCase, icu_sepsis
from tether.cases.sepsis import sepsis
from tether.cases.toy import toy
from tether.cases.twelve_states import twelve_states
from tether.cases.ward import ward

__all__ = [
    "Case", "IcuSepsisCase", "TypedCase", "epidemic", "grid_world", "hidden_diabetes", "icu_sepsis", "sepsis", "toy",
    "twelve_states", "ward",
]  # fmt: skip
