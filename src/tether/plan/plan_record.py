"""The best policy for one k and m."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, places_among
from tether._foundation.arrow import Tabular
from tether._foundation.checks import whole_number
from tether._foundation.kinds_of_records import as_kind
from tether._foundation.rounding import gain_of
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import Graph
from tether.core.batch import Nodes
from tether.core.chain import Chain, Taken, Visits
from tether.influence.advisable import Advisable
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property, objective_name
from tether.observation.changes import is_change
from tether.plan.objective import asked
from tether.plan.walks import graph_chain

if TYPE_CHECKING:
    import pyarrow

    from tether.plan.constrained import Constraint
    from tether.plan.sweep import Sweep
    from tether.plan.tether_record import TetherRecord


@dataclass(frozen=True, eq=False, repr=False)
class PlanRecord(Tabular):
    """The data of a plan, and its look-ups; `tether.records.Plan` says what the fields are, and adds the questions."""

    cf: CounterfactualRecord
    k: int
    m: int
    rule: Rule
    influence: Influence
    value: float
    observed_value: float
    nodes: tuple[Nodes, ...]
    choices: tuple[Ints, ...]
    influenced: tuple[Ints, ...]
    price: float = 0.0
    is_best: bool = False
    objective: Property | None = None
    minimise: bool = False
    constraint: Constraint | None = None
    advisable: Advisable | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # As the question it answers: its nodes and choices are as large as everything that s_0 reaches.
        if self.is_best:
            about = self.rule, self.influence, self.objective, self.minimise, self.advisable
            return _asked_again, (type(self), self.cf, self.k, self.m, *about, self.value)
        return type(self), tuple(getattr(self, one.name) for one in fields(self))

    @property
    def gain(self) -> float:
        """The gain over the observed path: how much larger the value is; with ``minimise``, how much smaller."""
        return gain_of(self.value, self.observed_value, self.minimise)

    @cached_property
    def policy(self) -> Ints:
        """What to do, as an array (T, states, m + 1): the index of the action at t, in a state, with changes left.

        It is -1 where the plan never gets, and where no action is taken; see `action`. Under the rule `assured` there
        is one more axis: how many uninfluenced steps were just passed.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=6, m=2)
        >>> plan.policy.shape, case.mdp.actions[int(plan.policy[0, 0, 2])]
        ((11, 16, 3), 'right')
        """
        from tether.plan.plan_tables import policy_array

        return policy_array(self)

    @cached_property
    def values(self) -> Floats:
        """What is still expected under the plan, as an array (T + 1, states, m + 1): from t on, discounted from t.

        With the luck of this episode, as `value`; NaN where the plan never gets. Axes are those of `policy`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=6, m=2)
        >>> abs(plan.values[0, 0, 2] - plan.value) < 1e-9
        np.True_
        """
        from tether.plan.plan_tables import values_array

        return values_array(self)

    @cached_property
    def paid(self) -> float:
        """Expected price of the changes (``cost``), discounted; 0 if changes cost nothing.

        The value does not include it: the plan has the largest value less this price.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> plan = cf.plan(k=7, m=4, cost=5)
        >>> round(plan.value, 3), round(plan.paid, 3), round(plan.sweep().value(7, 4), 3)
        (-13.569, 15.0, -28.569)
        """
        about, form, total = self.advisable, self.cf.mdp.form, 0.0
        if about is None or about.cost is None:
            return 0.0
        for t, (decided, mass) in enumerate(zip(self.chain.taken, self.chain.occupancy(), strict=False)):
            states, observed = self.chain.visits[t].states[decided.source], int(self.cf.observation.actions[t])
            some = np.flatnonzero(is_change(form, states, decided.pairs, observed) & ~self.chain.at_rest(t))
            weight = mass[decided.source[some]] * decided.probability[some]
            total += self.asked.mdp.discount**t * float(weight @ about.prices(t, decided.pairs[some]))
        return total

    @property
    def question(self) -> TetherRecord:
        """The question that the plan answers, for any k and m."""
        from tether.plan.tether_record import tether

        return tether(self.cf, self.rule, self.influence, self.objective, self.minimise, self.advisable)

    @property
    def asked(self) -> CounterfactualRecord:
        """The counterfactual MDP in which the values are returns (`tether.plan.objective`)."""
        return asked(self.cf, self.objective, self.minimise)

    @property
    def logged_return(self) -> float | None:
        """Return of the observed path by its own rewards (`tether.records.Earned`); None for a path without rewards."""
        earned = self.cf.earned
        return None if earned is None else earned.logged

    @property
    def T(self) -> int:
        """Number of steps."""
        return self.cf.T

    def action(self, t: int, state: Any, changes_left: int, *, uninfluenced: int = 0) -> Any:
        """What to do at step ``t`` in ``state`` with ``changes_left``.

        ``uninfluenced`` is the number of uninfluenced steps just passed; only the rule `assured` uses it. The answer is
        None if no action is allowed, if the plan never gets there, or if the property asked for is already decided: the
        plan ends there.
        """
        t, s = self.cf.time(t), self.cf.mdp.state_index(state)
        changes_left = whole_number("changes_left", changes_left, 0)
        run = whole_number("uninfluenced", uninfluenced, 0) if self.rule == "assured" else 0
        ended = self.asked.graph.ended
        node = self.covered.visits[t].find(s, changes_left, run)
        if node < 0 or (ended is not None and ended.mask[s]):
            return None
        pair = int(self.covered.taken[t].pairs[node])
        return self.cf.mdp.actions[int(self.cf.mdp.form.pair_action[pair])]

    @cached_property
    def chain(self) -> Chain:
        """All nodes that the plan can visit, from s_0 with m changes left."""
        return self.chain_for(self.asked.graph)

    @cached_property
    def covered(self) -> Chain:
        """All nodes that the plan has to say an action for: those it can visit; see `RobustPlan.covered`."""
        return self.chain

    def chain_for(self, graph: Graph) -> Chain:
        """All nodes that the plan can visit in a graph whose nodes it knows, from s_0 with m changes left."""
        first = graph.states_of_copies(int(graph.observation.states[0]))
        start = Visits(first, np.full(first.size, self.m), np.zeros(first.size, np.int64))
        return graph_chain(graph, start, self._decide)

    def _decide(self, t: int, visits: Visits) -> Taken:
        form, choice = self.cf.mdp.form, self.choices[t]
        node = self.places(t, visits.states, visits.runs)
        local = choice[node, np.minimum(visits.changes, choice.shape[1] - 1)]
        pairs = form.pair_start[visits.states] + local
        changed = is_change(form, visits.states, pairs, int(self.cf.observation.actions[t]))
        onward = np.zeros(visits.size, np.int64)
        if self.rule == "assured":
            onward = np.where(np.isin(pairs, self.influenced[t]), 0, visits.runs + 1)
        return Taken.for_certain(pairs, visits.changes - changed, onward)

    def places(self, t: int, states: Ints, runs: Ints) -> Ints:
        """Where nodes are among those of a layer; ``runs`` only counts for the rule `assured`."""
        nodes = self.nodes[t]
        if nodes.runs.size == 0:
            found: Ints = places_among(nodes.states, states)
            return found
        width = self.T + 2
        return np.searchsorted(nodes.states.astype(np.int64) * width + nodes.runs, states * width + runs)

    def sweep(self, ks: Iterable[int] | None = None, ms: Iterable[int] | None = None) -> Sweep:
        """Values of plans of the same kind for every k and m, or for the given ones.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).sweep(ks=[8], ms=[1]).values
        array([[-1.]])
        """
        return self.question.sweep(ks=ks, ms=ms)

    def to_arrow(self) -> pyarrow.Table:
        """All nodes that the plan can visit, as an Arrow table; ``.to_pandas()`` makes a dataframe of it.

        One row per node, t = 0 … T: t, state, changes_left (and, for the rule `assured`, the uninfluenced steps just
        passed), the probability of visiting it (0 in a `RobustPlan` where only other causal models than Gumbel-max
        lead), the value, which is what is still expected from there on (empty where the probability is 0 for that
        reason); and what the plan does there: action, observed_action, changed, influenced, strength, all empty at T.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).to_arrow()
        >>> table.num_rows, table.slice(1, 1).select(["t", "state", "changes_left", "action"]).to_pylist()
        (32, [{'t': 1, 'state': {'S': 8, 'I': 2, 'V': 20}, 'changes_left': 4, 'action': 'V_I'}])
        """
        from tether.plan.plan_tables import plan_table

        return plan_table(self)

    def __repr__(self) -> str:
        about = objective_name(self.objective, self.minimise)
        return (
            f"<Plan: k = {self.k}, m = {self.m}, {self.rule}, {self.influence}: "
            f"{'value' if self.objective is None else 'probability'} {self.value:.4g}, "
            f"observed {self.observed_value:.4g}{', ' if about else ''}{about}>"
        )


def _asked_again(
    kind: type[PlanRecord],
    cf: CounterfactualRecord,
    k: int,
    m: int,
    rule: Rule,
    influence: Influence,
    objective: Property | None,
    minimise: bool,
    advisable: Advisable | None,
    value: float,
) -> PlanRecord:
    """A plan from a pickle. Its value is the pickled one, however this machine's kernels round."""
    from tether.plan.tether_record import tether

    return as_kind(kind, tether(cf, rule, influence, objective, minimise, advisable).plan(k, m), value=value)
