"""A counterfactual MDP as plain data: its rows as a table, and itself as an ordinary MDP whose states have a time.

The *unfolded* model has a state (t, s) for every state that can be met at time t through allowed pairs; (t, s, c) if
changes are counted, with c of them left; and the run of uninfluenced steps too, under the rule `assured`. An action is
there if it is allowed for k, if enough changes are left for it, and if all that it can lead to is such a state. States
at T, and states that decide a property, are absorbing, and earn the final reward. So the best return of the unfolded
model over T steps is the value of the best plan for k and m.

Formats of other tools hold no final reward and no discount. For them, the ends have one more step, to the state "done",
that earns the final reward; and rewards are discounted beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tether._foundation.arrays import Flags, Floats, Ints, read_only, starts
from tether._foundation.arrow import NameColumn
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether.conditioning.edited_rows import spans
from tether.conditioning.layers import expand
from tether.core.batch import Reached
from tether.errors import QueryError
from tether.influence.kappa import Thresholds
from tether.model.form import Form, model_of
from tether.model.from_table import form_from_codes
from tether.model.model_record import ModelRecord
from tether.model.names import Names, make_names
from tether.observation.changes import is_change
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import TetherRecord

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True, eq=False)
class CounterfactualRows(Displayed):
    """Every row of a counterfactual MDP that s_0 can reach, entry by entry, in the indices of the model.

    Attributes
    ----------
    t, state, action, next_state : array of int
    uninfluenced : array of int
        The run of uninfluenced steps before t; empty except under the rule "assured".
    probability, nominal : array
        With the observation, and without it. A next state that the observation rules out has probability 0.
    strength : array
        Total variation between the two rows, for each of their entries.
    influenced : array of bool
    kappa : array of int
        The smallest k that allows the pair.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> rows = tether.counterfactual(case.mdp, case.path).to_arrays()
    >>> rows.t.size, rows.kappa.max()
    (1137, np.int64(8))
    """

    t: Ints
    state: Ints
    uninfluenced: Ints
    action: Ints
    next_state: Ints
    probability: Floats
    nominal: Floats
    strength: Floats
    influenced: Flags
    kappa: Ints


def rows_of(tied: TetherRecord) -> CounterfactualRows:
    """The rows of the counterfactual MDP of a tethered question; see `CounterfactualMDP.to_arrays`."""
    found = tied.thresholds()
    form, T = found.graph.mdp.form, found.graph.T
    pairs = [_pairs(found, t) for t in range(T)]
    lengths = np.diff(form.row_start)
    cuts = starts(np.array([lengths[some].sum() for some in pairs]))
    columns: dict[str, npt.NDArray[Any]] = {name: np.empty(cuts[-1], kind) for name, kind in _KINDS.items()}
    if not any(found.layers[t].nodes.runs.size for t in range(T)):
        columns["uninfluenced"] = np.empty(0, np.int64)
    for t, some in enumerate(pairs):
        at_t = {name: column[cuts[t] : cuts[t + 1]] for name, column in columns.items()}
        _enter(found, t, some, lengths[some], at_t)
    return CounterfactualRows(**{name: read_only(column) for name, column in columns.items()})


def rows_table(tied: TetherRecord) -> pyarrow.Table:
    """One row per entry; see `CounterfactualMDP.to_arrow`."""
    import pyarrow as pa

    rows, mdp = rows_of(tied), tied.cf.mdp
    columns: dict[str, Any] = {name: getattr(rows, name) for name in CounterfactualRows.__slots__}
    if not rows.uninfluenced.size:
        del columns["uninfluenced"]
    states, actions = NameColumn(mdp.states), NameColumn(mdp.actions)
    columns |= {
        "state": states.take(rows.state),
        "action": actions.take(rows.action),
        "next_state": states.take(rows.next_state),
    }
    return pa.table(columns)


_KINDS = dict.fromkeys(CounterfactualRows.__slots__, np.int64) | {
    "probability": np.float64, "nominal": np.float64, "strength": np.float64, "influenced": np.bool_,
}  # fmt: skip


def _enter(found: Thresholds, t: int, pairs: Ints, lengths: Ints, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Fill the columns at one time; each row of a pair has so many entries."""
    form, nodes, edits = found.graph.mdp.form, found.layers[t].nodes, found.graph.layers[t].edits
    node = np.repeat(np.arange(nodes.size), np.diff(nodes.offsets))
    begin = starts(lengths)
    owner = np.repeat(np.arange(pairs.size, dtype=np.int32), lengths)
    entry = np.arange(owner.size) + (form.row_start[pairs] - begin[:-1])[owner]

    def enter(name: str, values: npt.NDArray[Any], at: Ints) -> None:
        column = columns[name]
        np.take(values.astype(column.dtype, copy=False), at, out=column, mode="clip")  # all of ``at`` are there

    columns["t"][:] = t
    enter("state", nodes.states[node], owner)
    if nodes.runs.size:
        enter("uninfluenced", nodes.runs[node], owner)
    enter("action", form.pair_action[pairs], owner)
    enter("next_state", form.next_state, entry)
    enter("nominal", form.probability, entry)
    enter("influenced", np.isin(pairs, found.influenced[t]), owner)
    enter("kappa", found.kappa[t], owner)
    probability, strength = columns["probability"], columns["strength"]
    probability[:] = columns["nominal"]
    strength[:] = 0.0
    at = edits.locate(pairs)
    edited = np.flatnonzero(at >= 0)
    _, changed = spans(begin[edited], begin[edited + 1])
    strength[changed] = np.repeat(edits.strengths(at[edited]), lengths[edited])
    probability[changed] = 0.0
    of_edited, its_entry, chance = edits.expand(form, at[edited])
    own = edited[of_edited]
    probability[begin[own] + its_entry - form.row_start[pairs[own]]] = chance


class Unfolded(NamedTuple):
    """An unfolded model: names of its states, its form, the final reward of each state, and the discount."""

    states: Names
    actions: Names
    form: Form
    final_reward: Floats | None
    discount: float


class _Step(NamedTuple):
    """What may be taken at one time: visits of nodes with changes left (by key), and the entries of their rows."""

    key: Ints
    pair: Ints
    owner: Ints
    target: Ints
    probability: Floats
    reward: Floats


def unfolded(tied: TetherRecord, k: int | None = None, m: int | None = None, *, done: bool = False) -> Unfolded:
    """The unfolded model within k, with at most m changes; without m, changes are not counted.

    ``done``: for tools without final rewards and discounts; it then has one step more.
    """
    T = tied.asked.T
    k = T + 1 if k is None else min(whole_number("k", k, 1), T + 1)
    most = 0 if m is None else min(whole_number("m", m, 0), T)
    found = tied.thresholds_for(k)
    keys, steps = [np.array([most])], []  # the key of a node with c changes left: node · (most + 1) + c
    for t in range(T):
        steps.append(_step(found, t, k, keys[-1], most, counted=m is not None))
        keys.append(np.unique(steps[-1].target))
    return _as_model(found, tied, _sound(found, keys, steps, most), most, counted=m is not None, done=done)


def _step(found: Thresholds, t: int, k: int, keys: Ints, most: int, *, counted: bool) -> _Step:
    graph, form, layer = found.graph, found.graph.mdp.form, found.layers[t]
    node, left = keys // (most + 1), keys % (most + 1)
    owner, position = spans(layer.nodes.offsets[node], layer.nodes.offsets[node + 1])
    pair, states = _pairs(found, t)[position], layer.nodes.states[node][owner]
    changed = np.zeros(pair.size, np.int64)
    if counted:
        changed = is_change(form, states, pair, int(graph.observation.actions[t])).astype(np.int64)
    kept = np.flatnonzero((found.kappa[t][position] <= k) & (left[owner] >= changed))
    owner, pair, after = owner[kept], pair[kept], left[owner[kept]] - changed[kept]
    distinct, of_distinct = np.unique(pair, return_inverse=True)
    its_row, entry, probability = expand(graph.mdp, graph.layers[t].edits, distinct)
    begin = np.searchsorted(its_row, np.arange(distinct.size + 1))
    visit, item = spans(begin[of_distinct], begin[of_distinct + 1])
    runs = np.zeros(pair.size, np.int64)
    if layer.nodes.runs.size:
        influenced = np.isin(pair, found.influenced[t])
        runs = np.where(influenced, 0, layer.nodes.runs[node[owner]] + 1)
    target = _find(found.layers[t + 1], form.next_state[entry[item]], runs[visit]) * (most + 1) + after[visit]
    rewards = graph.mdp.rewards.at(t)
    reward = rewards[entry[item]] if graph.mdp.rewards.by_entry else rewards[pair[visit]]
    return _Step(keys[owner], pair, visit, target, probability[item], reward)


def _find(layer: Reached, states: Ints, runs: Ints) -> Ints:
    """The node of each of some states, with a run if the nodes have runs."""
    nodes = layer.nodes
    if not nodes.runs.size:
        found: Ints = np.searchsorted(nodes.states, states)
        return found
    width = int(max(nodes.runs.max(), runs.max(initial=0))) + 1
    key = nodes.states.astype(np.int64) * width + nodes.runs
    order = np.argsort(key)
    at = np.searchsorted(key[order], np.asarray(states, np.int64) * width + np.minimum(runs, width - 1))
    wanted: Ints = order[np.minimum(at, order.size - 1)]
    return wanted


def _pairs(found: Thresholds, t: int) -> Ints:
    return found.layers[t].pairs(model_of(found.graph.mdp.form))


def _sound(found: Thresholds, keys: list[Ints], steps: list[_Step], most: int) -> list[_Step]:
    """The steps without visits that can lead to where nothing is allowed any more."""
    sound = keys[-1]
    for t in range(len(steps) - 1, -1, -1):
        step, nodes = steps[t], found.layers[t].nodes
        good = np.ones(step.key.size, bool)
        np.logical_and.at(good, step.owner, np.isin(step.target, sound))
        steps[t] = _taken(step, good)
        ends = nodes.offsets[keys[t] // (most + 1)] == nodes.offsets[keys[t] // (most + 1) + 1]
        sound = np.union1d(steps[t].key, keys[t][ends])
    if not sound.size:
        raise QueryError("nothing is allowed at t = 0 within these limits")
    reached = keys[0]
    for t, step in enumerate(steps):
        steps[t] = _taken(step, np.isin(step.key, reached))
        reached = np.unique(steps[t].target)
    return steps


def _taken(step: _Step, kept: Flags) -> _Step:
    """Some visits of a step."""
    number = np.cumsum(kept) - 1
    some = kept[step.owner]
    return _Step(
        step.key[kept],
        step.pair[kept],
        number[step.owner[some]],
        step.target[some],
        step.probability[some],
        step.reward[some],
    )


def _as_model(
    found: Thresholds, tied: TetherRecord, steps: list[_Step], most: int, *, counted: bool, done: bool
) -> Unfolded:
    mdp = found.graph.mdp
    discount = mdp.discount if done else 1.0
    here = [np.unique(steps[0].key), *(np.unique(step.target) for step in steps)]
    before = np.cumsum([0, *(some.size for some in here)])
    names: list[Any] = [name for t, some in enumerate(here) for name in _names(found, tied, t, some, most, counted)]
    final = np.zeros(len(names)) if mdp.final_reward is None else mdp.final_reward[_states(found, here, most)]
    is_end = np.ones(len(names), bool)
    columns: list[tuple[Any, ...]] = []
    for t, step in enumerate(steps):
        source = before[t] + np.searchsorted(here[t], step.key)
        is_end[source] = False
        action = mdp.form.pair_action[step.pair][step.owner]
        target = before[t + 1] + np.searchsorted(here[t + 1], step.target)
        columns.append((source[step.owner], action, target, step.probability, discount**t * step.reward))
    ends = np.flatnonzero(is_end)
    if done:
        time = np.searchsorted(before, ends, side="right") - 1
        last = np.full(ends.size, len(names)), np.ones(ends.size), discount**time * final[ends]
        columns.append((ends, np.zeros(ends.size, np.int64), *last))
        names.append("done")
    source, action, target, probability, reward = (np.concatenate(some) for some in zip(*columns, strict=True))
    states = make_names(names, None, "state")
    form = form_from_codes(
        states,
        mdp.actions,
        source.astype(np.int64),
        action.astype(np.int64),
        target.astype(np.int64),
        probability,
        reward,
        terminal=["done"] if done else [names[end] for end in ends.tolist()],
        tolerance=1e-6,
    )
    if done:
        return Unfolded(states, mdp.actions, form, None, 1.0)
    return Unfolded(states, mdp.actions, form, read_only(np.where(is_end, final, 0.0)), mdp.discount)


def choices_in(plan: PlanRecord, states: Names) -> dict[Any, Any]:
    """What a plan does in the states of an unfolded model, by name; where it ends, nothing is chosen.

    Where everything is allowed, also under the rule `assured`, states have no run.
    """
    mdp, chosen = plan.cf.mdp, {}
    for t, (visits, taken) in enumerate(zip(plan.covered.visits, plan.covered.taken, strict=False)):
        resting = plan.covered.at_rest(t)
        actions = mdp.form.pair_action[taken.pairs].tolist()
        for i, action in zip(taken.source.tolist(), actions, strict=True):
            state, left, run = int(visits.states[i]), (int(visits.changes[i]),), (int(visits.runs[i]),)
            for name in (_name(mdp, t, state, one, left) for one in ((), run)[: 1 + (plan.rule == "assured")]):
                if not resting[i] and name in states:
                    chosen[name] = mdp.actions[action]
    return chosen


def _states(found: Thresholds, here: list[Ints], most: int) -> Ints:
    return np.concatenate([found.layers[t].nodes.states[some // (most + 1)] for t, some in enumerate(here)])


def _names(
    found: Thresholds, tied: TetherRecord, t: int, keys: Ints, most: int, counted: bool
) -> list[tuple[Any, ...]]:
    """(t, state), with the run and the changes left where they count; a state of several parts is spread out."""
    nodes, names = found.layers[t].nodes, []
    for node, left in zip((keys // (most + 1)).tolist(), (keys % (most + 1)).tolist(), strict=True):
        run = (int(nodes.runs[node]),) if nodes.runs.size else ()
        names.append(_name(tied.cf.mdp, t, int(nodes.states[node]), run, (left,) if counted else ()))
    return names


def _name(mdp: ModelRecord, t: int, state: int, run: tuple[int, ...], left: tuple[int, ...]) -> tuple[Any, ...]:
    name = mdp.states[state]
    return (t, *(tuple(name) if isinstance(name, tuple) else (name,)), *run, *left)
