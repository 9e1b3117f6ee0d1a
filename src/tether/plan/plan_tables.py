"""Plans, sweeps, fronts and thresholds as Arrow tables: one row per node, per k and m, per point, per pair.

Plans also as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tether._foundation.arrays import Floats, Ints, read_only, summed
from tether._foundation.arrow import NameColumn
from tether.conditioning.layers import replay
from tether.core.chain import Visits
from tether.model.form import model_of, pair_states
from tether.observation.changes import is_change
from tether.plan.best_values import final_rewards

if TYPE_CHECKING:
    from tether.plan.pareto import Front
    from tether.plan.plan_record import PlanRecord
    from tether.plan.sweep import Sweep
    from tether.plan.tether_record import TetherRecord


def plan_table(plan: PlanRecord) -> pa.Table:
    """One row per node that the plan covers; see `Plan.to_arrow`."""
    cf, chain = plan.cf, plan.covered
    actions = NameColumn(cf.mdp.actions)
    sizes = [visits.size for visits in chain.visits]
    # No action is taken at T, nor after the plan's objective is decided.
    last = np.concatenate([*(chain.at_rest(t) for t in range(plan.T)), np.ones(sizes[-1], dtype=bool)])

    def each(parts: list[Any], kind: Any) -> Any:
        """A column over the nodes of t < T, empty if no action is taken."""
        padded = np.concatenate([*parts, np.zeros(sizes[-1], dtype=kind)])
        return pa.array(padded, mask=last)

    pairs = [taken.pairs for taken in chain.taken]
    chosen = [cf.mdp.form.pair_action[some].astype(np.int64) for some in pairs]
    seen = [np.full(some.size, cf.observation.actions[t]) for t, some in enumerate(pairs)]
    columns = {
        "t": pa.array(np.repeat(np.arange(plan.T + 1), sizes)),
        "state": NameColumn(cf.mdp.states).take(np.concatenate([visits.states for visits in chain.visits])),
        "changes_left": pa.array(np.concatenate([visits.changes for visits in chain.visits])),
        "uninfluenced": pa.array(np.concatenate([visits.runs for visits in chain.visits])),
        "probability": pa.array(np.concatenate(_over_covered(plan, plan.chain.occupancy(), 0.0))),
        "value": pa.array(np.concatenate(_over_covered(plan, _values(plan), np.nan)), from_pandas=True),
        "action": actions.take(np.concatenate(chosen), last),
        "observed_action": actions.take(np.concatenate(seen), last),
        "changed": each([_changes(plan, t, some) for t, some in enumerate(pairs)], bool),
        "influenced": each([np.isin(some, plan.influenced[t]) for t, some in enumerate(pairs)], bool),
        "strength": each([_strengths(plan, t, some) for t, some in enumerate(pairs)], float),
    }
    if plan.rule != "assured":  # only this rule uses it
        del columns["uninfluenced"]
    return pa.table(columns)


def policy_array(plan: PlanRecord) -> Ints:
    """Indices of actions by time, state and changes left; see `Plan.policy`."""
    cf, chosen = plan.cf, _by_node(plan, plan.T, np.int64, -1)
    for t, (visits, taken) in enumerate(zip(plan.covered.visits, plan.covered.taken, strict=False)):
        going = np.flatnonzero(~plan.covered.at_rest(t))
        actions = cf.mdp.form.pair_action[taken.pairs[going]]
        chosen[(t, *_address(plan, visits, taken.source[going]))] = actions
    return read_only(chosen)


def values_array(plan: PlanRecord) -> Floats:
    """What is still expected, by time, state and changes left; see `Plan.values`."""
    found = _by_node(plan, plan.T + 1, np.float64, np.nan)
    for t, value in enumerate(_values(plan)):
        found[(t, *_address(plan, plan.chain.visits[t], slice(None)))] = value
    return read_only(found)


def _values(plan: PlanRecord) -> list[Floats]:
    """What is still expected in each node that the plan can visit, at each time."""
    world, chain = plan.asked, plan.chain
    found = [final_rewards(world.mdp)[chain.visits[-1].states]]
    for t in range(plan.T - 1, -1, -1):
        link = chain.links[t]
        worth = link.probability * (link.reward + world.mdp.discount * found[-1][link.target])
        found.append(summed(link.source, worth, chain.visits[t].size))
    return found[::-1]


def _by_node(plan: PlanRecord, times: int, kind: Any, empty: Any) -> Any:
    runs = (plan.T + 1,) if plan.rule == "assured" else ()
    return np.full((times, plan.cf.mdp.n_states, plan.m + 1, *runs), empty, kind)


def _address(plan: PlanRecord, visits: Visits, some: Any) -> tuple[Ints, ...]:
    """Where nodes are in an array by state, changes left and, for the rule `assured`, uninfluenced steps."""
    address = visits.states[some], visits.changes[some]
    return (*address, visits.runs[some]) if plan.rule == "assured" else address


def thresholds_table(tied: TetherRecord) -> pa.Table:
    """One row per pair that s_0 can reach; see `Tethered.to_arrow`."""
    found, mdp = tied.thresholds(), tied.cf.mdp
    model, T = model_of(found.graph.mdp.form), found.graph.T
    layers = found.layers[:-1]
    parts: dict[str, list[Any]] = {"state": [], "uninfluenced": [], "action": [], "influenced": []}
    for t, layer in enumerate(layers):
        pairs, node = layer.pairs(model), layer.node_of(np.arange(layer.n_pairs))
        parts["state"].append(layer.nodes.states[node].astype(np.int64))
        parts["uninfluenced"].append(layer.nodes.runs[node] if layer.nodes.runs.size else np.zeros(node.size))
        parts["action"].append(model.pair_action[pairs].astype(np.int64))
        parts["influenced"].append(np.isin(pairs, found.influenced[t]))
    whole = {name: np.concatenate(some) for name, some in parts.items()}
    kappa = np.concatenate(found.kappa).astype(np.int64)
    columns = {
        "t": np.repeat(np.arange(T), [layer.n_pairs for layer in layers]),
        "state": NameColumn(mdp.states).take(whole["state"]),
        "uninfluenced": whole["uninfluenced"].astype(np.int64),
        "action": NameColumn(mdp.actions).take(whole["action"]),
        "influenced": whole["influenced"],
        "kappa": pa.array(kappa, mask=kappa > T + 1),
    }
    if tied.rule != "assured":
        del columns["uninfluenced"]
    return pa.table(columns)


def sweep_table(table: Sweep) -> pa.Table:
    """One row per k and m; see `Sweep.to_arrow`."""
    rows, columns = table.values.shape
    measured = {"about_episode": table.about_episode, "std": table.std}
    return pa.table(
        {
            "k": np.repeat(table.ks, columns),
            "m": np.tile(table.ms, rows),
            "value": np.ascontiguousarray(table.values).reshape(-1),
            "gain": table.gains.reshape(-1),
            "size": np.repeat(table.sizes, columns),
            **{name: np.ascontiguousarray(one).reshape(-1) for name, one in measured.items() if one is not None},
        }
    )


def front_table(front: Front) -> pa.Table:
    """One row per point; see `Front.to_arrow`."""
    return pa.table(
        {
            "price": np.array([point.price for point in front.points]),
            "value": front.values,
            str(front.against): front.measures,
            "k": np.array([point.plan.k for point in front.points]),
            "m": np.array([point.plan.m for point in front.points]),
        }
    )


def _changes(plan: PlanRecord, t: int, pairs: Ints) -> Any:
    """Whether the plan changes the observed action in each node."""
    decided, visits = plan.covered.taken[t], plan.covered.visits[t]
    return is_change(plan.cf.mdp.form, visits.states[decided.source], pairs, int(plan.cf.observation.actions[t]))


def _over_covered(plan: PlanRecord, of_visits: Iterable[Floats], elsewhere: float) -> list[Floats]:
    """Numbers of the nodes that a plan can visit, for each that it covers; at each time."""
    found = []
    for covered, visits, numbers in zip(plan.covered.visits, plan.chain.visits, of_visits, strict=True):
        column = np.full(covered.size, elsewhere)
        column[covered.locate(visits)] = numbers
        found.append(column)
    return found


def _strengths(plan: PlanRecord, t: int, pairs: Ints) -> Any:
    """Total variation between the counterfactual and the nominal row of each pair."""
    cf = plan.cf
    layer, posterior = cf.graph.layers[t], cf.posteriors[t]
    at, strength = layer.edits.locate(pairs), np.zeros(pairs.size)
    strength[at >= 0] = layer.edits.strengths(at[at >= 0])
    # Rows of states that the mechanism never leads to are not stored.
    beyond = np.flatnonzero(~np.isin(pair_states(cf.mdp.form.pair_start, pairs), layer.states))
    if beyond.size and posterior is not None:
        distinct, place = np.unique(pairs[beyond], return_inverse=True)
        strength[beyond] = replay(cf.mdp, posterior, distinct).strength[place]
    return strength
