"""Plans with a limit on whole paths: a budget of total distance, or a chance to lose touch with the episode.

Their action depends on more than the state and the changes that are left: on what is left of the budget, or on how many
uninfluenced steps were just passed. `LimitedPlanRecord` has them as the nodes that can be met;
`tether.records.LimitedPlan` adds the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether._foundation.arrow import Tabular, name_array
from tether._foundation.rounding import gain_of
from tether._foundation.words import number
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property
from tether.observation.changes import is_change

if TYPE_CHECKING:
    import pyarrow


class Key(NamedTuple):
    """A node of such a plan: a state, the changes that are left, and what else it remembers."""

    state: int
    left: int
    memory: Hashable


class Where(NamedTuple):
    """What a plan does at a node, how likely it gets there, and which node each next state is."""

    chance: float
    pair: int
    after: dict[int, Key]


Decide = Callable[[int, Key], tuple[int, dict[int, tuple[float, Key]]]]
"""For a time and a node, the pair that is taken; and for each next state its probability and its node."""


@dataclass(frozen=True, eq=False, repr=False)
class LimitedPlanRecord(Tabular):
    """The best plan with a limit on whole paths; made by `CounterfactualMDP.plan` with ``budget`` or ``lost``.

    Attributes
    ----------
    value, observed_value : float
        As of `tether.records.Plan`.
    k, m : int
    budget : float or None
        How large the total distance along a path may be; ``spent`` is the largest of the plan.
    lost : float or None
        How likely k uninfluenced steps in a row may be; ``probability`` is how likely they are under the plan.
    mixture_value : float or None
        What drawing one of two plans before the episode would be worth, if they together met ``lost`` exactly.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> plan = cf.plan(m=6, budget=9)
    >>> plan, round(plan.spent, 3)
    (<LimitedPlan: k = 12, m = 6, total distance at most 9: value 472.3, observed -897>, 8.867)
    >>> plan = cf.plan(k=8, m=6, lost=0.01)
    >>> round(plan.value, 1), round(plan.probability, 6)
    (472.3, 4.5e-05)
    """

    cf: CounterfactualRecord
    k: int
    m: int
    rule: Rule
    influence: Influence
    value: float
    observed_value: float
    nodes: tuple[dict[Key, Where], ...]
    objective: Property | None = None
    minimise: bool = False
    budget: float | None = None
    spent: float | None = None
    lost: float | None = None
    probability: float | None = None
    mixture_value: float | None = None

    @property
    def gain(self) -> float:
        """The gain over the observed path; with ``minimise``, how much smaller the value is."""
        return gain_of(self.value, self.observed_value, self.minimise)

    def action(self, states: Iterable[Any]) -> Any:
        """What to do at step t, after the states s_0 … s_t were met; None if the plan does not lead there.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9)
        >>> plan.action([0]), plan.action([0, 1, 2])
        ('right', 'right')
        """
        mdp, key = self.cf.mdp, next(iter(self.nodes[0]))
        met = [mdp.state_index(state) for state in states]
        if not met or met[0] != key.state or len(met) > self.cf.T:
            return None
        for t, state in enumerate(met[1:]):
            after = self.nodes[t][key].after
            if state not in after:
                return None
            key = after[state]
        return mdp.actions[int(mdp.form.pair_action[self.nodes[len(met) - 1][key].pair])]

    def is_change(self, t: int, key: Key, where: Where) -> bool:
        """Whether what is done at a node counts as a change."""
        over = self.objective is not None and bool(self.objective.on(self.cf.mdp).ended[key.state])
        pair, observed = np.array([where.pair]), int(self.cf.observation.actions[t])
        return not over and bool(is_change(self.cf.mdp.form, np.array([key.state]), pair, observed)[0])

    def distribution(self, t: int) -> dict[Any, float]:
        """States that can be at time t = 0 … T, and their probabilities."""
        found: dict[Any, float] = {}
        for key, where in self.nodes[self.cf.time(t, last=self.cf.T)].items():
            name = self.cf.mdp.states[key.state]
            found[name] = found.get(name, 0.0) + where.chance
        return found

    def to_arrow(self) -> pyarrow.Table:
        """One row per node that can be met before T: t, state, changes_left, memory, probability, action.

        The memory is what is left of the budget, or the run of uninfluenced steps just passed.
        """
        import pyarrow as pa

        mdp = self.cf.mdp
        rows = [(t, key, where) for t, layer in enumerate(self.nodes[:-1]) for key, where in layer.items()]
        memory = [key.memory[0] if isinstance(key.memory, tuple) else key.memory for _, key, _ in rows]
        return pa.table({
            "t": [t for t, _, _ in rows],
            "state": name_array([mdp.states[key.state] for _, key, _ in rows], mdp.states),
            "changes_left": [key.left for _, key, _ in rows],
            "memory": memory,
            "probability": [where.chance for _, _, where in rows],
            "action": name_array([mdp.actions[int(mdp.form.pair_action[w.pair])] for _, _, w in rows], mdp.actions),
            "observed_action": name_array([self.cf.path.actions[t] for t, _, _ in rows], mdp.actions),
        })  # fmt: skip

    def __repr__(self) -> str:
        distance = "" if self.budget is None else f"total distance at most {self.budget:g}"
        limit = distance or f"lost with at most {self.lost:g}"
        value, observed = number(self.value), number(self.observed_value)
        return f"<LimitedPlan: k = {self.k}, m = {self.m}, {limit}: value {value}, observed {observed}>"


def follow_limited(T: int, start: Key, decide: Decide) -> tuple[dict[Key, Where], ...]:
    """The nodes that can be met from the first one."""
    layers: list[dict[Key, Where]] = []
    here = {start: 1.0}
    for t in range(T):
        layer, onward = {}, dict[Key, float]()
        for key, chance in here.items():
            pair, leads = decide(t, key)
            layer[key] = Where(chance, pair, {state: after for state, (_, after) in leads.items()})
            for likely, after in leads.values():
                onward[after] = onward.get(after, 0.0) + chance * likely
        layers.append(layer)
        here = onward
    return (*layers, {key: Where(chance, -1, {}) for key, chance in here.items()})
