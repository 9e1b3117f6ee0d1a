"""Following a policy in a counterfactual MDP, or in the plain model: `tether.core.follow` for an episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Flags, Floats
from tether.conditioning.edited_rows import EditedRows, replaced
from tether.conditioning.layers import Graph
from tether.core.chain import Chain, Decide, Taken, Visits
from tether.errors import Problem, QueryError
from tether.model.form import model_of
from tether.model.model_record import ModelRecord


def chain_value(mdp: ModelRecord, chain: Chain, occupancy: list[Floats] | None = None) -> float:
    """Expected return, discounted, of what is visited; ``occupancy`` has the probability of each node, if known."""
    mass, total = chain.occupancy() if occupancy is None else occupancy, 0.0
    for t, link in enumerate(chain.links):
        total += mdp.discount**t * float(np.sum(mass[t][link.source] * link.probability * link.reward))
    if mdp.final_reward is not None:
        total += mdp.discount**chain.T * float(mass[-1] @ mdp.final_reward[chain.visits[-1].states])
    return total


def graph_chain(graph: Graph, start: Visits, decide: Decide) -> Chain:
    """Follow a policy through a graph, from ``start`` to T; it rests where paths end."""
    ended = None if graph.ended is None else graph.ended.mask
    return build_chain(graph.mdp, lambda t: graph.layers[t].edits, start, decide, graph.T, ended)


def build_chain(
    mdp: ModelRecord,
    edits: Callable[[int], EditedRows | None],
    start: Visits,
    decide: Decide,
    T: int,
    ended: Flags | None = None,
    first: int = 0,
) -> Chain:
    """Follow a policy from ``start`` for T steps, from the time ``first`` on.

    ``edits(t)`` are the edited rows of step t, None for the nominal model. ``ended`` marks the states of the model in
    which an episode rests: every action there must lead back.
    """
    from tether.core.follow import walk

    def decided(t: int, visits: Visits) -> Taken:
        return decide(t, visits) if ended is None else or_rest(mdp, t, visits, decide, ended)

    chain = walk(
        model_of(mdp.form),
        start,
        range(first, first + T),
        decided,
        lambda t, taken: replaced(edits(t), taken.pairs),
        lambda t: (mdp.rewards.at(t), mdp.rewards.by_entry),
    )
    return replace(chain, ended=ended)


def or_rest(mdp: ModelRecord, t: int, visits: Visits, decide: Decide, ended: Flags) -> Taken:
    """What a policy does where something is left to do; elsewhere the first action, which leads back to the state."""
    rests = ended[visits.states]
    going, over = np.flatnonzero(~rests), np.flatnonzero(rests)
    if over.size == 0:
        return decide(t, visits)
    pairs = mdp.form.pair_start[visits.states[over]].astype(np.int64)
    stuck = over[pairs == mdp.form.pair_start[visits.states[over] + 1]]
    if stuck.size:
        state = mdp.states[int(visits.states[stuck[0]])]
        message = f"the model has no action in state {state!r}: no episode can rest there"
        raise QueryError(Problem(message, state, time=t, place=f"t = {t}"))
    nothing = Taken(over, pairs, np.ones(over.size), visits.changes[over], np.zeros(over.size, np.int64))
    if going.size == 0:
        return nothing
    some = decide(t, Visits(visits.states[going], visits.changes[going], visits.runs[going]))
    source = np.concatenate((going[some.source], over))
    order = np.argsort(source, kind="stable")
    both = (
        np.concatenate((getattr(some, name), getattr(nothing, name)))[order]
        for name in ("pairs", "probability", "changes", "runs")
    )
    return Taken(source[order], *both)
