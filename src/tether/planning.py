"""Planning: the best (k, m)-CF policy, for one k and m or for all of them.

A (k, m)-CF policy (the paper's Definition 5) maximises the expected return of the counterfactual MDP
among policies that take allowed pairs only (`tether.rules`) and change at most m actions:

    V_t(s, c) = max over allowed a of R + γ·Σ_s' P_cf,t(s'|s,a)·V_{t+1}(s', c - [a ≠ a_t])        c ≥ 0

with V_T the final reward and -∞ where nothing is allowed. One backward pass gives every c; ties go to
the observed action, then to the lowest index, so that nothing is changed without reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.chain import Chain, Decisions, Visits, build_chain
from tether.counterfactual import CounterfactualMDP
from tether.errors import Problem, QueryError
from tether.form import Floats, Ints
from tether.graph import everywhere
from tether.influence import Influence, make_influence
from tether.markup import facts, heat
from tether.rules import CHUNKS, LARGE, Nodes, Rule, Thresholds, layer_rows, make_rule, run_count, thresholds
from tether.scratch import room

if TYPE_CHECKING:
    import os
    import pathlib

    import pyarrow
    from matplotlib.axes import Axes

    from tether._kernels.layer import LayerNodes, LayerRows
    from tether._kernels.plan import Limits, Objective, Scratch, Values
    from tether.evaluation import Evaluation, Trajectories
    from tether.explain import Explanation
    from tether.model import MDP

__all__ = [
    "Plan",
    "Sweep",
    "choice_type",
    "choose_k",
    "observed_value",
    "plan",
    "solve_backward",
    "sweep",
    "whole_number",
]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The best policy for one k and m.

    Attributes
    ----------
    value : float
        Expected return from s_0, exactly.
    observed_value : float
        Return of the observed path.
    k, m : int
        The limits it keeps to (m at most T, k at most T + 1).
    rule, influence
        What "allowed" means.
    price : float
        What the plan was ready to give away for influence (`CounterfactualMDP.pareto`); 0 for the best plan.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
    >>> plan
    <Plan: k = 7, m = 4, definition, support: value -11.28, observed -38>
    >>> plan.action(1, (8, 2, 20), 4)
    'V_I'
    """

    cf: CounterfactualMDP
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

    @property
    def gain(self) -> float:
        """What is gained over the observed path."""
        return self.value - self.observed_value

    @property
    def T(self) -> int:
        """Number of steps."""
        return self.cf.T

    def action(self, t: int, state: Any, changes_left: int, uninfluenced: int = 0) -> Any:
        """What to do at step ``t`` in ``state`` with so many changes left.

        ``uninfluenced`` is the number of uninfluenced steps just passed; only the rule `assured` looks at it.
        None where no allowed action keeps the promise, or the plan never gets there.
        """
        t, s = self.cf.time(t), self.cf.mdp.state_index(state)
        changes_left = whole_number("changes_left", changes_left, 0)
        run = whole_number("uninfluenced", uninfluenced, 0) if self.rule == "assured" else 0
        node = self.chain.visits[t].find(s, changes_left, run)
        if node < 0:
            return None
        pair = int(self.chain.decisions[t].pairs[node])
        return self.cf.mdp.actions[int(self.cf.mdp.form.pair_action[pair])]

    @cached_property
    def chain(self) -> Chain:
        """All that the plan can visit, from s_0 with m changes left."""
        graph = self.cf.graph
        start = Visits(*(np.array([value]) for value in (int(graph.observation.states[0]), self.m, 0)))
        return build_chain(self.cf.mdp, lambda t: graph.layers[t].edits, start, self._decide, self.T)

    def _decide(self, t: int, visits: Visits) -> Decisions:
        form, nodes, choice = self.cf.mdp.form, self.nodes[t], self.choices[t]
        runs = np.zeros(nodes.size, np.int64) if nodes.runs is None else nodes.runs.astype(np.int64)
        width = self.T + 2
        node = np.searchsorted(nodes.states.astype(np.int64) * width + runs, visits.states * width + visits.runs)
        local = choice[node, np.minimum(visits.changes, choice.shape[1] - 1)]
        pairs = form.pair_start[visits.states] + local
        changed = form.pair_action[pairs] != self.cf.observation.actions[t]
        onward = np.zeros(visits.size, np.int64)
        if nodes.runs is not None:
            onward = np.where(np.isin(pairs, self.influenced[t]), 0, visits.runs + 1)
        return Decisions(np.arange(visits.size), pairs, np.ones(visits.size), visits.changes - changed, onward)

    def evaluate(self) -> Evaluation:
        """Exactly what to expect under the plan: states, returns and influence, at each time."""
        from tether.evaluation import evaluate_plan

        return evaluate_plan(self)

    def explain(self, group: Callable[[Any], Any] | None = None) -> Explanation:
        """The plan beside what happened, step by step and in sentences.

        ``group`` names the states as they are to be shown, and takes those of one name together: a function
        of the label, the label itself by default.
        """
        from tether.explain import explain

        return explain(self, group)

    def sample(self, n: int = 1, rng: Any = None) -> Trajectories:
        """Draw ``n`` counterfactual trajectories under the plan."""
        from tether.evaluation import sample_plan

        return sample_plan(self, n, rng)

    def to_arrow(self) -> pyarrow.Table:
        """All that the plan can visit, as an Arrow table; ``.to_pandas()`` makes a dataframe of it.

        One row a node, t = 0 … T: t, state, changes_left (and, for the rule `assured`, the uninfluenced steps just
        passed), the probability of visiting it; and what the plan does there: action, observed_action, changed,
        influenced, strength, all empty at T.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).to_arrow()
        >>> table.num_rows, table.slice(1, 1).select(["t", "state", "changes_left", "action"]).to_pylist()
        (32, [{'t': 1, 'state': {'S': 8, 'I': 2, 'V': 20}, 'changes_left': 4, 'action': 'V_I'}])
        """
        from tether.arrow import plan_table

        return plan_table(self)

    def plot(self, what: Any = "return", ax: Axes | None = None) -> Axes:
        """Draw the plan over time, beside what was observed; returns the axes.

        ``what`` is "return" (so far), "influence" (of the observation), or a feature of the states as
        `Evaluation.feature` takes it: a name of a field, a function of the label, or a mapping.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).plot("I").get_ylabel()
        'I'
        """
        from tether.plot import plot_plan

        return plot_plan(self, what, ax)

    def report(
        self,
        file: str | os.PathLike[str] = "report.html",
        *,
        features: Any = None,
        state_name: Callable[[Any], str] | None = None,
        action_name: Callable[[Any], str] | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> pathlib.Path:
        """Write the plan, beside what happened, as one self-contained HTML file; see `tether.report.report`.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan.report(f"{folder}/outbreak.html", features={"infected": lambda state: state.I}).name
        'outbreak.html'
        """
        from tether.report import report

        return report(
            self, file, features=features, state_name=state_name, action_name=action_name, title=title, about=about
        )

    def _repr_html_(self) -> str:
        rows = [
            ("k, m", f"{self.k}, {self.m}"),
            ("rule, influence", f"{self.rule}, {self.influence}"),
            ("value", f"{self.value:.6g}"),
            ("observed", f"{self.observed_value:.6g}"),
            ("gain", f"{self.gain:.6g}"),
        ]
        if sum(layer.size for layer in self.nodes) <= LARGE:  # else it would take a while
            rows.append(("plan", self.explain().sentences(str)[0]))
        return facts(rows)

    def __repr__(self) -> str:
        return (
            f"<Plan: k = {self.k}, m = {self.m}, {self.rule}, {self.influence}: "
            f"value {self.value:.4g}, observed {self.observed_value:.4g}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The value of the best policy for every k and m.

    Attributes
    ----------
    ks, ms : array
        The k and m asked for; 1 … T + 1 and 0 … T by default.
    values : array (ks, ms)
        ``values[k - 1, m]`` by default.
    sizes : array (ks,)
        Nodes (t, s), t = 0 … T, that s_0 reaches through allowed pairs.
    distinct : array
        The values of k at which anything changes.
    observed_value : float

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> table.values[3 - 1, 1].round(3), table.sizes
    (np.float64(-37.111), array([  8,  10,  14,  26,  58, 121, 171, 215]))
    """

    cf: CounterfactualMDP
    rule: Rule
    influence: Influence
    ks: Ints
    ms: Ints
    values: Floats
    sizes: Ints
    distinct: Ints
    observed_value: float

    def value(self, k: int, m: int) -> float:
        """The value for one k and m of those asked for; k beyond T + 1 means T + 1, m beyond T means T."""
        T = self.cf.T
        row = np.flatnonzero(self.ks == min(whole_number("k", k, 1), T + 1))
        column = np.flatnonzero(self.ms == min(whole_number("m", m, 0), T))
        if not (row.size and column.size):
            raise QueryError(f"k = {k}, m = {m} was not asked for in this sweep")
        return float(self.values[row[0], column[0]])

    @cached_property
    def layered_sizes(self) -> Ints:
        """The paper's count: nodes of the pruned graph grown from every state that keeps an allowed pair at t = 0.

        It looks at the whole model, at every time, so it is computed when asked for.
        """
        graph = everywhere(self.cf.graph, self.cf.posteriors)
        found = thresholds(graph, self.rule, self.influence, up_to=int(self.ks.max(initial=1)))
        return found.sizes(self.ks)

    def lost(self, m: int) -> Floats:
        """What each k costs at ``m``: the value without influence constraints less the value at k."""
        T = self.cf.T
        column = np.flatnonzero(self.ms == min(whole_number("m", m, 0), T))
        if not (column.size and np.any(self.ks == T + 1)):
            raise QueryError(f"the loss needs m = {m} and k = {T + 1} among those asked for in the sweep")
        values = self.values[:, column[0]]
        loss: Floats = values[self.ks == T + 1][0] - values
        return loss

    def to_arrow(self) -> pyarrow.Table:
        """The table in rows k, m, value, gain, size, as an Arrow table; ``.to_pandas()`` makes a dataframe of it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).sweep(ks=[3], ms=[0, 1])
        >>> table.to_arrow().select(["k", "m", "size"]).to_pylist()
        [{'k': 3, 'm': 0, 'size': 14}, {'k': 3, 'm': 1, 'size': 14}]
        """
        from tether.arrow import sweep_table

        return sweep_table(self)

    def plot(self, m: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw the table, shaded, or for one ``m`` the value against k; returns the axes.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).sweep()
        >>> table.plot().get_ylabel(), table.plot(m=2).get_xlabel()
        ('length of the tether, $k$ (steps)', 'length of the tether, $k$ (steps)')
        """
        from tether.plot import plot_sweep

        return plot_sweep(self, m, ax)

    def __repr__(self) -> str:
        return (
            f"<Sweep: k = {self.ks[0]} … {self.ks[-1]}, m = {self.ms[0]} … {self.ms[-1]}, {self.rule}, "
            f"{self.influence}: values {self.values.min():.4g} … {self.values.max():.4g}, "
            f"observed {self.observed_value:.4g}>"
        )

    def __str__(self) -> str:
        width = max(8, *(len(f"{value:.2f}") for value in self.values.reshape(-1))) + 1
        head = "k \\ m".rjust(6) + "".join(f"{m:>{width}}" for m in self.ms)
        rows = [
            f"{k:>6}" + "".join(f"{value:>{width}.2f}" for value in row)
            for k, row in zip(self.ks, self.values, strict=True)
        ]
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        return heat(self.ks, self.ms, self.values, self.observed_value)


def plan(cf: CounterfactualMDP, k: int, m: int, rule: Any = "definition", influence: Any = "support") -> Plan:
    """The best policy within k and m; see `CounterfactualMDP.plan`."""
    test = make_influence(influence)
    chosen = make_rule(rule, test)
    k = min(whole_number("k", k, 1), cf.T + 1)
    m = min(whole_number("m", m, 0), cf.T)
    found = thresholds(cf.graph, chosen, test, up_to=k)
    solved = solve_backward(found, np.array([k]), m, keep=True)
    return Plan(
        cf,
        k,
        m,
        chosen,
        test,
        float(solved.values[0, m]),
        observed_value(cf),
        solved.nodes,
        solved.choices,
        found.influenced,
    )


def sweep(
    cf: CounterfactualMDP,
    rule: Any = "definition",
    influence: Any = "support",
    ks: Iterable[int] | None = None,
    ms: Iterable[int] | None = None,
) -> Sweep:
    """The value for every k and m; see `CounterfactualMDP.sweep`."""
    test = make_influence(influence)
    chosen = make_rule(rule, test)
    T = cf.T
    rows = _asked("ks", ks, range(1, T + 2), 1, T + 1)
    columns = _asked("ms", ms, range(T + 1), 0, T)
    found = thresholds(cf.graph, chosen, test, up_to=int(rows.max()))
    distinct = found.distinct()
    asked = np.unique(np.searchsorted(distinct, rows, side="right") - 1)
    solved = solve_backward(found, distinct[asked], int(columns.max()))
    which = np.searchsorted(distinct[asked], rows, side="right") - 1
    values = solved.values[which][:, columns]
    for array in (values, rows, columns):
        array.flags.writeable = False
    return Sweep(cf, chosen, test, rows, columns, values, found.sizes(rows), distinct, observed_value(cf))


def choose_k(
    cf: CounterfactualMDP, m: int, at_least: float, rule: Any = "definition", influence: Any = "support"
) -> int | None:
    """The smallest k whose best value with m changes reaches a threshold; None if none does."""
    number = isinstance(at_least, int | float | np.integer | np.floating) and not isinstance(at_least, bool)
    if not number or not np.isfinite(at_least):
        raise QueryError(f"at_least must be a finite number, not {at_least!r}")
    table = sweep(cf, rule, influence, ms=[m])
    reached = np.flatnonzero(table.values[:, 0] >= at_least)
    return int(table.ks[reached[0]]) if reached.size else None


def observed_value(cf: CounterfactualMDP) -> float:
    """Return of the observed path; expected, for a last step whose outcome was not recorded."""
    mdp, seen = cf.mdp, cf.observation
    total = 0.0
    for t in range(cf.T):
        entries = mdp.entries(int(seen.pairs[t]))
        next_state, outcome = mdp.form.next_state[entries], int(seen.states[t + 1])
        chance = mdp.form.probability[entries] if outcome < 0 else (next_state == outcome).astype(float)
        values = mdp.rewards.at(t)
        reward = values[entries] @ chance if mdp.rewards.by_entry else values[seen.pairs[t]]
        total += mdp.discount**t * float(reward)
        if t == cf.T - 1 and mdp.final_reward is not None:
            total += mdp.discount**cf.T * float(mdp.final_reward[next_state] @ chance)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What backward induction found.

    ``values[i, c]`` is V_0(s_0, c) for the i-th k. Where choices were kept, ``choices[t][node, c]`` is the number of
    the chosen pair among those of the node's state.
    """

    values: Floats
    nodes: tuple[Nodes, ...]
    choices: tuple[Ints, ...]


def solve_backward(
    found: Thresholds,
    ks: Ints,
    m: int,
    *,
    keep: bool = False,
    bonus: tuple[Floats, ...] | None = None,
    rewarded: bool = True,
) -> Solved:
    """Backward induction over the nodes that s_0 can reach, for each of ``ks`` (ascending) and c = 0 … m changes.

    ``keep`` keeps the choices, of a single k. ``bonus`` is added to the rewards of each step's edited rows,
    for trade-offs; without ``rewarded`` it is all there is.
    """
    from tether._kernels.plan import Limits, Objective, Values, scratch_for

    graph, mdp, T = found.graph, found.graph.mdp, found.graph.T
    index_of_k = np.searchsorted(ks, np.arange(T + 3)).astype(np.int16)
    kept, first_k = _worth_planning(found, ks, index_of_k)
    nodes = tuple(layer.only(which) for layer, which in zip(found.nodes, kept, strict=True))
    rows_of_values = run_count(found.nodes) * mdp.n_states * ks.size
    touched = max(layer.size for layer in nodes) * ks.size
    layers = [room((rows_of_values, _columns(m, left)), np.float64, touched=touched).reshape(-1) for left in (T, T - 1)]
    final = None if mdp.final_reward is None or not rewarded else mdp.final_reward
    after = layers[T % 2][: rows_of_values * _columns(m, 0)]
    _write_final_values(after, final, nodes[T], mdp.n_states, ks.size * _columns(m, 0))
    scratch, stride = scratch_for(mdp.n_actions, CHUNKS)
    choices: list[Ints] = []
    with np.errstate(invalid="ignore"):  # with the JIT off NumPy warns of 0·(-∞); the kernel knows what it means
        for t in range(T - 1, -1, -1):
            left = T - t  # steps, and so changes, that can still be made
            choice = np.empty((nodes[t].size, min(m, left) + 1 if keep else 0), dtype=choice_type(mdp))
            before = layers[t % 2][: rows_of_values * _columns(m, left)]
            reward = mdp.rewards.at(t) if rewarded else np.zeros_like(mdp.rewards.at(t))
            _backward_step(
                nodes[t].arguments(mdp.n_states),
                layer_rows(graph, t, found.influenced[t]),
                Limits(found.kappa[t], found.offsets[t][kept[t]], index_of_k, first_k[t], ks.size),
                Objective(
                    reward,
                    mdp.rewards.by_entry,
                    np.empty(0) if bonus is None else bonus[t],
                    mdp.discount,
                    int(graph.observation.actions[t]),
                ),
                Values(after, _columns(m, left - 1), before, _columns(m, left), choice),
                scratch,
                stride,
            )
            after = before
            choice.flags.writeable = False
            choices.append(choice)
    start = int(graph.observation.states[0])
    first = after.reshape(-1, mdp.n_states, ks.size, _columns(m, T))[0, start]
    return Solved(first[:, : m + 1].copy(), nodes, tuple(reversed(choices)))


def _columns(m: int, left: int) -> int:
    """Columns of V with so many steps left, one for each number of changes: a multiple of four, as the kernel wants."""
    return (min(m, left) // 4 + 1) * 4


def choice_type(mdp: MDP) -> type[np.signedinteger[Any]]:
    """The smallest integer that can number the actions of a state; choices are the bulk of a large plan."""
    return np.int8 if mdp.n_actions < 128 else np.int16


def _worth_planning(found: Thresholds, ks: Ints, index_of_k: Ints) -> tuple[list[Ints], list[Ints]]:
    """Positions of the nodes of each layer that some of ``ks`` reaches, and the index of the first k that does.

    For a single k that index says nothing and is left out; nodes that no allowed pair leads to may then be among
    them where a layer is so large that finding out would cost as much as planning for them.
    """
    if ks.size == 1:
        return found.within(int(ks[0])), [np.empty(0, np.int16)] * found.graph.T
    kept = [np.flatnonzero(reach <= ks[-1]) for reach in found.reach]
    T = found.graph.T
    return kept, [index_of_k[np.minimum(found.reach[t][kept[t]], T + 2)] for t in range(T)]


def _backward_step(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    scratch: Scratch,
    stride: int,
) -> None:
    """One layer of backward induction, on all cores where the layer is large; see `tether._kernels.plan`."""
    from tether._kernels.plan import plan_layer, plan_layer_parallel

    if nodes.states.size < LARGE:
        plan_layer(nodes, rows, limits, goal, values, scratch)
    else:
        plan_layer_parallel(nodes, rows, limits, goal, values, scratch, stride, CHUNKS)


def _write_final_values(values: Floats, final_reward: Floats | None, nodes: Nodes, n_states: int, width: int) -> None:
    """V_T(s, c): the same in each of the ``width`` columns, one for each k and c."""
    final = np.zeros(nodes.size) if final_reward is None else final_reward[nodes.states]
    rows = nodes.states if nodes.runs is None else nodes.runs.astype(np.int64) * n_states + nodes.states
    values.reshape(-1, width)[rows] = final[:, None]


def whole_number(name: str, value: Any, least: int) -> int:
    """``value`` as an int, or an error that says what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise QueryError(Problem(f"{name} must be a whole number ≥ {least}, not {value!r}", value=value))
    return int(value)


def _asked(name: str, given: Iterable[int] | None, default: range, least: int, most: int) -> Ints:
    if given is not None and not isinstance(given, Iterable):
        raise QueryError(f"{name} must be a list of whole numbers ≥ {least}, not {given!r}")
    items = list(default if given is None else given)
    if not items:
        raise QueryError(f"{name} is empty; leave it out for all of {least} … {most}")
    return np.array([min(whole_number(name, item, least), most) for item in items], dtype=np.int64)
