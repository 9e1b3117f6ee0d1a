"""The value of a plan, or of each plan of a sweep, in drawn models; and the best plan of each drawn model.

Drawn models come in blocks, side by side (`tether.learning.worlds`): every question is answered once per block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only, summed
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.core.chain import Chain
from tether.evaluation.evaluate import whole_chain
from tether.evaluation.outcomes import outcome_chances
from tether.learning.follower import Follower, expected_return
from tether.learning.uncertainty import ChangedAction, PlanUncertainty, SweepUncertainty
from tether.learning.worlds import asked_of_each, observed_values
from tether.model.model_record import ModelRecord
from tether.observation.changes import changes_something
from tether.plan.best_values import solve_backward
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep
from tether.plan.tether_record import tether


class _Change(NamedTuple):
    """A step in which a plan, in its likeliest state, changes the observed action."""

    t: int
    state: int
    action: int


class _OfBlock(NamedTuple):
    """The results of a plan in a block of draws, draw by draw; ``actions`` are those of the best plans, by change."""

    values: Floats
    observed: Floats
    best: Floats
    off_plan: Floats
    actions: Ints
    outcomes: dict[str, Floats]


def plan_in_draws(plan: PlanRecord, blocks: Iterable[CounterfactualRecord]) -> PlanUncertainty:
    """The value of a plan in drawn models, followed without changes."""
    follower, changes = Follower([plan], [plan.m]), _changes(plan)
    found = [_plan_in_block(plan, follower, changes, worlds) for worlds in blocks]
    values, observed, best, off_plan = (
        read_only(np.concatenate([getattr(one, name) for one in found]))
        for name in ("values", "observed", "best", "off_plan")
    )
    actions = np.concatenate([one.actions for one in found])
    changed = tuple(_changed_action(plan, change, actions[:, i]) for i, change in enumerate(changes))
    names = dict.fromkeys(name for one in found for name in one.outcomes)
    outcomes = {
        name: read_only(np.concatenate([one.outcomes.get(name, np.zeros(one.values.size)) for one in found]))
        for name in names
    }
    in_the_model = (plan.k, plan.m, plan.value, plan.observed_value)
    about: Any = {"objective": plan.objective, "minimise": plan.minimise}
    return PlanUncertainty(*in_the_model, values, observed, best, off_plan, changed, outcomes, **about)


def sweep_in_draws(sweep: Sweep, blocks: Iterable[CounterfactualRecord]) -> SweepUncertainty:
    """The value of each plan of a sweep in drawn models, followed without changes."""
    ks, ms = np.unique(sweep.ks), np.unique(sweep.ms)
    row, column = np.searchsorted(ks, sweep.ks), np.searchsorted(ms, sweep.ms)
    about = sweep.rule, sweep.influence, sweep.objective, sweep.minimise, sweep.advisable
    question = tether(sweep.cf, *about)
    follower = Follower([question.plan(int(k), int(ms[-1])) for k in ks], ms.tolist())
    values, best, observed = [], [], []
    for worlds in blocks:
        asked = asked_of_each(worlds, sweep.cf, sweep.objective, sweep.minimise)
        asked_of_each(worlds, sweep.cf, sweep.objective, not sweep.minimise)  # thresholds are those of either direction
        values.append(follower.follow(asked)[0][:, row][:, :, column])
        again = tether(worlds, *about)
        best.append(again.values(again.thresholds(int(sweep.ks.max())), sweep.ks, sweep.ms))
        observed.append(observed_values(asked))
    of_plans, of_best, of_path = (read_only(np.concatenate(parts)) for parts in (values, best, observed))
    return SweepUncertainty(sweep.ks, sweep.ms, of_plans, of_best, of_path, sweep.minimise)


def _plan_in_block(
    plan: PlanRecord, follower: Follower, changes: list[_Change], worlds: CounterfactualRecord
) -> _OfBlock:
    asked = asked_of_each(worlds, plan.cf, plan.objective, plan.minimise)
    asked_of_each(worlds, plan.cf, plan.objective, not plan.minimise)  # thresholds are those of either direction
    chain, lost = follower.walk(asked)
    values, off_plan = expected_return(asked, chain, lost)
    best, actions = _best_in_block(plan, changes, worlds)
    ends = _outcomes(plan.asked.mdp, whole_chain(asked, chain))
    return _OfBlock(values, observed_values(asked), best, off_plan, actions, ends)


def _best_in_block(plan: PlanRecord, changes: list[_Change], worlds: CounterfactualRecord) -> tuple[Floats, Ints]:
    """The value of the best plan within the same limits in each world, and its actions where ``plan`` changes."""
    question = tether(worlds, plan.rule, plan.influence, plan.objective, plan.minimise, plan.advisable)
    found = question.thresholds_for(plan.k)
    solved = solve_backward(question.weighed(found), np.array([plan.k]), plan.m, keep=True, advisable=plan.advisable)
    best: Floats = question.signed(solved.of_copies[:, 0, plan.m])
    actions = np.empty((best.size, len(changes)), np.int64)
    if changes:
        of_first = (float(best[0]), plan.observed_value, solved.nodes, solved.choices, found.influenced)
        again = PlanRecord(worlds, plan.k, plan.m, plan.rule, plan.influence, *of_first)
        chain = again.chain_for(question.asked.graph)
        mass = chain.occupancy(np.ones(best.size))
        for i, change in enumerate(changes):
            actions[:, i] = _actions(worlds, chain, mass[change.t], change.t, change.state)
    return best, actions


def _actions(worlds: CounterfactualRecord, chain: Chain, mass: Floats, t: int, state: int) -> Ints:
    """The action that the plan of each world most likely takes in a state at t; -1 if never there, or it has ended."""
    likeliest = np.full(worlds.graph.copies, -1)
    if chain.ended is not None and chain.ended[state]:
        return likeliest
    world, states = np.divmod(chain.visits[t].states, worlds.mdp.n_states // worlds.graph.copies)
    here = np.flatnonzero(states == state)
    action = worlds.mdp.form.pair_action[chain.taken[t].pairs[here]]
    weight = np.full((likeliest.size, worlds.mdp.n_actions), -1.0)  # for actions that are not taken
    weight[world[here], action] = 0.0
    np.add.at(weight, (world[here], action), mass[here])
    likeliest[world[here]] = np.argmax(weight[world[here]], axis=1)
    return likeliest


def _outcomes(mdp: ModelRecord, chain: Chain) -> dict[str, Floats]:
    """Probability of each outcome at the end, in each world."""
    n = chain.visits[0].size
    world, states = np.divmod(chain.visits[-1].states, mdp.n_states)
    distinct, which = np.unique(states, return_inverse=True)
    chance = np.zeros((n, distinct.size))
    np.add.at(chance, (world, which.reshape(-1)), chain.occupancy(np.ones(n))[-1])
    return outcome_chances(mdp, distinct, chance)


def _changes(plan: PlanRecord) -> list[_Change]:
    chain, mass, found = plan.chain, plan.chain.occupancy(), []
    for t in range(plan.T):
        states, which = np.unique(chain.visits[t].states, return_inverse=True)
        s = int(states[np.argmax(summed(which.reshape(-1), mass[t], states.size))])
        (action,) = _actions(plan.cf, chain, mass[t], t, s).tolist()
        pair, done = plan.cf.mdp.find_pair(s, action), int(plan.cf.observation.actions[t])
        if action >= 0 and changes_something(plan.asked.mdp.form, t, np.array([s]), np.array([pair]), done)[0]:
            found.append(_Change(t, s, action))
    return found


def _changed_action(plan: PlanRecord, change: _Change, actions: Ints) -> ChangedAction:
    """A change of the plan, and how often the best plans of the draws take the same action."""
    mdp, t = plan.cf.mdp, change.t
    names = mdp.states[change.state], plan.cf.path.actions[t], mdp.actions[change.action]
    return ChangedAction(t, *names, float(np.mean(actions == change.action)), float(np.mean(actions >= 0)))
