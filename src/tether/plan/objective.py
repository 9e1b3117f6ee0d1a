"""Objectives: a property in place of the return, and the smallest value instead of the largest.

The probability that a property holds is a return: the only reward is 1, for ending where it holds. A state that decides
the property ends the episode for a plan; what follows does not matter. So the question is asked in a copy of the
counterfactual MDP in which episodes *rest* where the property is decided:

- every action of such a state leads back to it, and the final reward is 1 or 0;
- no influence is required there, and no change is counted (`Graph.ended`);
- the observed path rests too, so its value is 1 or 0.

The rows of all other states are those of the original: the original model is conditioned, in which nothing is made
absorbing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints, read_only
from tether.conditioning.counterfactual_record import CounterfactualRecord, cached_with
from tether.conditioning.horizon import Rest
from tether.conditioning.layers import Ended, Graph, Layer, nominal_rollout
from tether.conditioning.model_sets import ModelSet
from tether.errors import Problem, QueryError
from tether.model.form import Rewards, pair_states
from tether.model.model_record import ModelRecord
from tether.model.properties import Decided, Property
from tether.observation.path import Observation
from tether.plan.afterwards import rest_of
from tether.plan.resting import entries_at_rest, resting_model
from tether.plan.standard import Standard


def asked(
    cf: CounterfactualRecord,
    objective: Property | None,
    minimise: bool = False,
    policy: Any = None,
    *,
    widely: bool = False,
) -> CounterfactualRecord:
    """The counterfactual MDP in which the values are returns: itself, or one in which only a property counts.

    If it is asked about beyond the record (`tether.conditioning.horizon`), its final reward is what each state is worth
    there: with ``minimise`` the smallest, where the best acts. A ``policy`` that is evaluated acts then, too.
    ``widely``: also for states that only other causal models lead to.

    Examples
    --------
    >>> import tether
    >>> from tether.plan.best_values import observed_value
    >>> grid = tether.cases.grid_world()
    >>> observed_value(asked(tether.counterfactual(grid.mdp, grid.path), tether.reach("danger")))
    1.0
    """
    if objective is None and cf.after is None:
        return cf
    if cf.after is None:
        minimise, policy, widely = False, None, False  # they matter only after the record
    if policy is not None:
        return _beyond(_resting(cf, objective), cf, objective, minimise, policy, widely)
    key = asked_key(objective, minimise, widely)
    return cached_with(cf, key, lambda: _beyond(_resting(cf, objective), cf, objective, minimise, None, widely))


def best_within(cf: CounterfactualRecord, objective: Property | None, minimise: bool = False) -> Standard:
    """The best of the plain model over the steps of the record: at its end each state is worth what follows it."""
    standard = Standard(cf.mdp, "best", objective, minimise)
    if cf.after is None:
        return standard
    return replace(standard, ended=asked(cf, objective, minimise, widely=True).mdp)


def asked_key(objective: Property | None, minimise: bool = False, widely: bool = False) -> tuple[Any, ...]:
    """The key under which `asked` caches its answer with a counterfactual MDP."""
    return "asked", objective, minimise, widely


def with_rest(world: CounterfactualRecord, rest: Rest) -> CounterfactualRecord:
    """A counterfactual MDP whose last states are worth what follows the record."""
    mdp = replace(world.mdp, final_reward=rest.worth)
    return replace(world, mdp=mdp, graph=replace(world.graph, mdp=mdp), rest=rest)


def _beyond(
    world: CounterfactualRecord,
    cf: CounterfactualRecord,
    objective: Property | None,
    minimise: bool,
    policy: Any,
    widely: bool,
) -> CounterfactualRecord:
    """The world with the worth of what follows the record, if anything does."""
    if cf.after is None:
        return world
    decided = None if objective is None else objective.on(cf.mdp)
    after = cf.after if policy is None or cf.after.until is None else replace(cf.after, then=policy)
    states = (nominal_rollout(cf.graph) if widely else cf.graph).last_states
    return with_rest(world, rest_of(cf.mdp, after, cf.T, states, world.mdp, decided, objective, minimise))


def asked_set(models: ModelSet, objective: Property | None, minimise: bool = False, policy: Any = None) -> ModelSet:
    """The set of causal models in which the values are returns: itself, or one in which only a property counts.

    The observed steps, and what they imply, are those of ``models``.
    """
    if objective is None and models.gumbel.after is None:
        return models
    mdp = models.gumbel.mdp
    ask = partial(asked, objective=objective, minimise=minimise, policy=policy, widely=True)
    if objective is None:
        return replace(models, gumbel=ask(models.gumbel), given_possible=lambda: ask(models.possible))
    form, ended = mdp.form, objective.on(mdp).ended
    intervals = models.intervals
    if intervals is not None:
        kept, certain = entries_at_rest(form, ended)[1:]
        lower, upper = intervals.lower[kept], intervals.upper[kept]
        lower[certain] = upper[certain] = 1.0
        intervals = replace(intervals, lower=lower, upper=upper)
    # In this world no action is taken after the decision: no pair there leads to the states observed later.
    steps = tuple(
        step._replace(pair=-1) if ended[pair_states(form.pair_start, step.pair)] else step for step in models.steps
    )
    return replace(
        models,
        gumbel=ask(models.gumbel),
        intervals=intervals,
        given_steps=steps,
        given_possible=lambda: ask(models.possible),
    )


def negated(graph: Graph) -> Graph:
    """A copy of the graph with negated rewards: the best plan there has the smallest return here."""
    return replace(graph, mdp=negated_model(graph.mdp))


def negated_model(mdp: ModelRecord) -> ModelRecord:
    """A copy of the model with negated rewards."""
    rewards = Rewards(np.negative(mdp.rewards.values), mdp.rewards.by_entry)
    final = None if mdp.final_reward is None else np.negative(mdp.final_reward)
    return replace(mdp, form=replace(mdp.form, rewards=rewards), final_reward=final)


def _resting(cf: CounterfactualRecord, objective: Property | None) -> CounterfactualRecord:
    """The counterfactual MDP in which only a property counts, if there is one; without what follows the record."""
    return cf if objective is None else resting_world(cf, objective, objective.on(cf.mdp))


def resting_world(cf: CounterfactualRecord, objective: Property, decided: Decided) -> CounterfactualRecord:
    """The counterfactual MDP in which episodes rest where a property is decided, and only that counts."""
    first = int(cf.observation.states[0])
    if decided.ended[first]:
        state, verdict = cf.mdp.states[first], "holds" if decided.holds[first] else "fails"
        message = f"{objective}: it is decided at t = 0: the episode begins in state {state!r}, where it {verdict}"
        raise QueryError(Problem(f"{message}. There is nothing to ask", state, time=0))
    mdp = resting_model(cf.mdp, decided)
    return replace(cf, mdp=mdp, graph=_resting_graph(cf.graph, mdp, decided))


def _resting_graph(graph: Graph, mdp: ModelRecord, decided: Decided) -> Graph:
    ended, form = decided.ended, graph.mdp.form
    split: dict[int, tuple[Ints, Ints]] = {}  # remembered, because many times have the same array
    layers: list[Layer] = []
    for layer in graph.layers:
        if id(layer.states) not in split:
            over = ended[layer.states]
            split[id(layer.states)] = read_only(layer.states[~over]), read_only(layer.states[over])
        edits = layer.edits.take(np.flatnonzero(~ended[pair_states(form.pair_start, layer.edits.pairs)]))
        meeting = layer.meeting[~ended[pair_states(form.pair_start, layer.meeting)]]
        states = split[id(layer.states)][0]
        layers.append(Layer(states, edits, layer.observed, read_only(meeting)))
    beyond = tuple(split[id(layer.states)][1] for layer in graph.layers)
    seen = _resting_path(graph.observation, mdp, decided)
    return replace(graph, mdp=mdp, observation=seen, layers=tuple(layers), ended=Ended(ended, beyond))


def _resting_path(seen: Observation, mdp: ModelRecord, decided: Decided) -> Observation:
    """The observed path, at rest after the property is decided. The observed actions are not changed."""
    met = np.flatnonzero(decided.ended[seen.states[: seen.T]])
    if met.size == 0:
        return seen
    states, pairs = seen.states.copy(), seen.pairs.copy()
    rest = int(states[met[0]])
    states[met[0] :] = rest
    for t in range(int(met[0]), seen.T):
        pair = mdp.find_pair(rest, int(seen.actions[t]))
        pairs[t] = pair if pair >= 0 else mdp.form.pair_start[rest]
    return replace(seen, states=read_only(states), pairs=read_only(pairs), rewards=None)
