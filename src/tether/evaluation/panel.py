"""Does the advice depend on the mechanism? One plan per mechanism, each evaluated under every mechanism.

No data can decide between mechanisms. So the plan of each mechanism is evaluated, exactly, as if another one were true.
A plan knows what to do in the nodes (time, state, changes left) that it can visit under its own mechanism. If another
mechanism leads to another node, the plan takes the observed action there, or if that is not available, the action of
lowest index. Neither uses up a change. The answer says how likely this is.

Until the first change a plan stays on the observed path, under every mechanism. So its first change is certain, and
can be compared: `Advice`. Later actions are compared by probability: ``agreement[i, j]`` is the probability, when plan
i is followed under its own mechanism, that plan j would have taken the same action at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.rounding import gain_of
from tether._foundation.words import counted
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.mechanisms import EXACT
from tether.core.chain import Chain, Taken, Visits
from tether.errors import QueryError
from tether.evaluation.evaluate import evaluate_chain
from tether.model.model_record import ModelRecord
from tether.observation.changes import pairs_with
from tether.observation.path import Path
from tether.plan.objective import asked
from tether.plan.tether_record import tether
from tether.plan.walks import build_chain

if TYPE_CHECKING:
    import pyarrow

    from tether.influence.one_step import GivenInfluence as Influence
    from tether.influence.rules import GivenRule as Rule
    from tether.plan.plan_record import PlanRecord

_CERTAIN = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class Advice(Displayed):
    """The first change of a plan: at step ``t`` in ``state``, ``action`` instead of ``observed``.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tether.compare_mechanisms(case.mdp, case.path, k=8, m=1).advice[0].t
    0
    """

    t: int
    state: Any
    observed: Any
    action: Any

    def __str__(self) -> str:
        return f"t = {self.t}: {self.action!r} instead of {self.observed!r}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MechanismPanel(Tabular):
    """The value of each mechanism's plan under every mechanism; made by `compare_mechanisms`.

    Attributes
    ----------
    mechanisms : tuple of str
        Their names, in the order of the rows and columns below.
    k, m : int
        The limits of every plan.
    observed_value : float
        The observed return.
    values : array (plans, mechanisms)
        ``values[i, j]``: expected return of the plan made under mechanism i if mechanism j is true.
    agreement : array (plans, plans)
        ``agreement[i, j]``: probability, following plan i under its own mechanism, that plan j takes the same action at
        every step.
    unfamiliar : array (plans, mechanisms)
        ``unfamiliar[i, j]``: probability that plan i under mechanism j meets a node that it does not know, where it
        takes the observed action.
    unavailable : array (plans, mechanisms)
        The part of ``unfamiliar`` in which the observed action is not available in some such node, and the action of
        lowest index is taken.
    advice : tuple of Advice or None
        The first change of each plan; None where it changes nothing.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> panel = tether.compare_mechanisms(grid.mdp, grid.path, k=6, m=1)
    >>> panel
    <MechanismPanel: k = 6, m = 1, 4 mechanisms: all plans take the same actions>
    >>> print(panel.advice[0])
    t = 2: 'right' instead of 'down'
    """

    mechanisms: tuple[str, ...]
    k: int
    m: int
    observed_value: float
    values: Floats
    agreement: Floats
    unfamiliar: Floats
    unavailable: Floats
    advice: tuple[Advice | None, ...]

    @property
    def first_change_agrees(self) -> bool:
        """Whether all plans advise the same first change, or none advises any."""
        return all(one == self.advice[0] for one in self.advice)

    @property
    def agrees(self) -> bool:
        """Whether all plans take the same actions in every node that they can reach."""
        return bool(np.all(self.agreement >= _CERTAIN))

    @property
    def worst(self) -> Floats:
        """For each plan, its lowest value under any of these mechanisms."""
        lowest: Floats = self.values.min(axis=1)
        return lowest

    @property
    def verdict(self) -> str:
        """Whether the advice depends on the mechanism, in a few words."""
        if self.agrees:
            return "all plans take the same actions"
        if self.first_change_agrees:
            return "the first change agrees, later actions do not always"
        return "the first change depends on the mechanism"

    def to_arrow(self) -> pyarrow.Table:
        """One row per plan and mechanism, as an Arrow table.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> table = tether.compare_mechanisms(grid.mdp, grid.path, k=6, m=1).to_arrow()
        >>> table.num_rows, table.column_names
        (16, ['plan', 'mechanism', 'value', 'gain', 'agreement', 'unfamiliar', 'unavailable'])
        """
        import pyarrow as pa

        n = len(self.mechanisms)
        return pa.table(
            {
                "plan": np.repeat(self.mechanisms, n).tolist(),
                "mechanism": list(self.mechanisms) * n,
                "value": self.values.reshape(-1),
                "gain": gain_of(self.values.reshape(-1), self.observed_value),
                "agreement": self.agreement.reshape(-1),
                "unfamiliar": self.unfamiliar.reshape(-1),
                "unavailable": self.unavailable.reshape(-1),
            }
        )

    def __str__(self) -> str:
        wide = max(len(_CORNER), *(len(name) for name in self.mechanisms))
        cells = [[f"{value:.6g}" for value in row] for row in self.values]
        widths = [max(len(name), *(len(row[j]) for row in cells)) for j, name in enumerate(self.mechanisms)]
        head = "  ".join(f"{name:>{width}}" for name, width in zip(self.mechanisms, widths, strict=True))
        lines = [f"{_CORNER:<{wide}}  {head}"]
        for name, row in zip(self.mechanisms, cells, strict=True):
            lines.append(f"{name:<{wide}}  " + "  ".join(f"{x:>{w}}" for x, w in zip(row, widths, strict=True)))
        return "\n".join([*lines, f"observed: {self.observed_value:.6g}; {self.verdict}"])

    def __repr__(self) -> str:
        many = counted(len(self.mechanisms), "mechanism")
        return f"<MechanismPanel: k = {self.k}, m = {self.m}, {many}: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = [
            (name, *(f"{value:.6g}" for value in row), "changes nothing" if advice is None else advice)
            for name, row, advice in zip(self.mechanisms, self.values, self.advice, strict=True)
        ]
        below = paragraphs([f"observed: {self.observed_value:.6g}; {self.verdict}"])
        return html_table((_CORNER, *self.mechanisms, "first change"), rows) + below


_CORNER = "plan \\ if true"


def compare_mechanisms(
    mdp: ModelRecord,
    path: Path,
    k: int | None = None,
    m: int = 1,
    *,
    mechanisms: Sequence[str | Mechanism] = EXACT,
    rule: Rule = "definition",
    influence: str | Influence = "support",
    horizon: int | None = None,
    then: Any = "best",
) -> MechanismPanel:
    r"""The plan of each mechanism, evaluated exactly under every mechanism; and whether their advice agrees.

    Parameters
    ----------
    mdp, path
        As in `counterfactual`.
    k, m, rule, influence
        As in `CounterfactualMDP.plan`. Without k, all plans use the k that is enough under the first mechanism.
    horizon, then
        Up to which time, and who acts after the record; as in `counterfactual`.
    mechanisms : sequence of str or Mechanism
        At least two, as names or objects; by default all that are exact.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> print(tether.compare_mechanisms(case.mdp, case.path, k=8, m=1))
    plan \ if true  gumbel-max  independent  comonotone  maximal
    gumbel-max              -1           -1          -1       -1
    independent             -1           -1          -1       -1
    comonotone              -1           -1          -1       -1
    maximal                 -1           -1          -1       -1
    observed: -38; all plans take the same actions
    """
    if isinstance(mechanisms, str) or len(mechanisms) < 2:
        raise QueryError(f"mechanisms must be at least two to compare, not {mechanisms!r}")
    worlds = [
        CounterfactualRecord.of(mdp, path, mechanism=mechanism, horizon=horizon, then=then) for mechanism in mechanisms
    ]
    first = tether(worlds[0], rule, influence).plan(k, m)
    plans = [first, *(tether(cf, rule, influence).plan(first.k, m) for cf in worlds[1:])]
    n = len(plans)
    values, unfamiliar, unavailable, agreement = (np.zeros((n, n)) for _ in range(4))
    for i, plan in enumerate(plans):
        for j, cf in enumerate(worlds):
            values[i, j], unfamiliar[i, j], unavailable[i, j] = _follow(plan, cf)
            agreement[i, j] = _agreement(plan, plans[j])
    for array in (values, agreement, unfamiliar, unavailable):
        array.flags.writeable = False
    names = tuple(cf.mechanism.name for cf in worlds)
    advice = tuple(_first_change(plan) for plan in plans)
    return MechanismPanel(names, first.k, m, first.observed_value, values, agreement, unfamiliar, unavailable, advice)


def _follow(plan: PlanRecord, cf: CounterfactualRecord) -> tuple[float, float, float]:
    """Value of a plan under a mechanism; how likely it meets unknown nodes, and how likely ones without the action."""
    start = Visits(*(np.array([value]) for value in (int(cf.observation.states[0]), plan.m, 0)))
    strange: list[Ints] = []
    lacking: list[Ints] = []

    def decide(t: int, visits: Visits) -> Taken:
        decided, unknown, unavailable = _decide(plan, t, visits)
        strange.append(unknown)
        lacking.append(unavailable)
        return decided

    mdp = asked(cf, None, widely=True).mdp
    chain = build_chain(mdp, lambda t: cf.graph.layers[t].edits, start, decide, cf.T)
    value = evaluate_chain(mdp, chain, None, ()).mean
    return value, 1.0 - _never(chain, strange), 1.0 - _never(chain, lacking)


def _decide(plan: PlanRecord, t: int, visits: Visits) -> tuple[Taken, Ints, Ints]:
    """What a plan does in some nodes; which nodes it does not know; and which of these lack the observed action."""
    form, known = plan.cf.mdp.form, plan.covered.taken[t]
    at = plan.covered.visits[t].locate(visits)
    unknown = at < 0
    observed, available = _observed_pairs(plan.cf, t, visits.states)
    pairs = np.where(unknown, np.where(available, observed, form.pair_start[visits.states]), known.pairs[at])
    changes = np.where(unknown, visits.changes, known.changes[at])
    runs = np.where(unknown, 0, known.runs[at])
    if plan.rule == "assured":
        runs = np.where(unknown & ~np.isin(pairs, plan.influenced[t]), visits.runs + 1, runs)
    decided = Taken.for_certain(pairs, changes, runs)
    return decided, unknown, unknown & ~available


def _observed_pairs(cf: CounterfactualRecord, t: int, states: Ints) -> tuple[Ints, Ints]:
    """The pair of each state with the observed action of step t, and whether there is one."""
    pairs = pairs_with(cf.mdp.form, states, int(cf.observation.actions[t]))
    return pairs, pairs >= 0


def _agreement(plan: PlanRecord, other: PlanRecord) -> float:
    """Probability that following ``plan``, under its own mechanism, ``other`` takes the same action at every step."""
    differs = [
        _decide(other, t, visits)[0].pairs != decided.pairs
        for t, (visits, decided) in enumerate(zip(plan.chain.visits, plan.chain.taken, strict=False))
    ]
    return _never(plan.chain, differs)


def _never(chain: Chain, flagged: list[Ints]) -> float:
    """Probability that a chain never visits a flagged node."""
    mass: Floats = np.ones(1)
    for link, flags, after in zip(chain.links, flagged, chain.visits[1:], strict=True):
        mass = np.where(flags, 0.0, mass)
        mass = summed(link.target, mass[link.source] * link.probability, after.size)
    return float(min(mass.sum(), 1.0))


def _first_change(plan: PlanRecord) -> Advice | None:
    """Where a plan leaves the observed path; before that, every mechanism repeats the path."""
    cf = plan.cf
    for t, (visits, decided) in enumerate(zip(plan.chain.visits, plan.chain.taken, strict=False)):
        node = visits.find(int(cf.observation.states[t]), plan.m, 0)
        pair, observed = int(decided.pairs[node]), int(cf.observation.actions[t])
        action = int(cf.mdp.form.pair_action[pair])
        if action != observed:
            state = cf.mdp.states[int(cf.observation.states[t])]
            return Advice(t, state, cf.mdp.actions[observed], cf.mdp.actions[action])
    return None
