"""The plain MDP, without an observation: simulate it, evaluate policies on it; `tether.plan.solution` solves it.

This gives the interventional answer (what the model expects of anyone), to compare with the counterfactual one (what it
expects of this episode). Both use the same planner and the same arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Ints, places_among
from tether._foundation.checks import random_generator
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import Graph, nominal_rollout
from tether.core.chain import Decide, Taken, Visits
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation, evaluate_chain, evaluate_decider, visit
from tether.influence.one_step import Support
from tether.model.model_record import ModelRecord
from tether.model.product import memory_of
from tether.model.properties import Property, make_property
from tether.observation.path import Path
from tether.plan.in_question import plain_in_question
from tether.plan.lifted import LiftedPlan
from tether.plan.objective import asked
from tether.plan.policy import decider, make_policy, noisy
from tether.plan.resting import asked_model
from tether.plan.solution import backward_values, choice_type, initial_state, number_of_steps, solve
from tether.plan.walks import build_chain


def best_for_anyone(cf: CounterfactualRecord, objective: Property | None = None, minimise: bool = False) -> Evaluation:
    """The evaluation, in this episode, of the policy that is best in the plain model.

    The same as ``cf.evaluate(cf.mdp.solve(cf.T))``, but only for states that can be reached from s_0.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> best_for_anyone(cf).value == cf.evaluate(case.mdp.solve(cf.T)).value
    True
    """
    mdp, asking = cf.mdp, asked(cf, objective, minimise, widely=True)
    world, decided = asking.mdp, None if objective is None else objective.on(mdp)
    reached = nominal_rollout(asking.graph)
    states = [_with_ended(reached, t) for t in range(cf.T)]
    choices = [np.full((layer.size, 1), -1, dtype=choice_type(mdp)) for layer in states]
    for _ in backward_values(world, decided, states, choices, minimise):
        pass

    def decide(t: int, visits: Visits) -> Taken:
        local = choices[t][places_among(states[t], visits.states), 0].astype(np.int64)
        if np.any(local < 0):  # the policy itself says what is wrong
            best = solve(mdp, cf.T, objective, minimise)
            return decider(mdp, make_policy(mdp, best, cf.T))(t, visits)
        return Taken.for_certain(mdp.form.pair_start[visits.states] + local)

    return evaluate_decider(asking, decide, Support())


def _with_ended(graph: Graph, t: int) -> Ints:
    """The states of a layer, and those in which a property was just decided."""
    if graph.ended is None or t == graph.T or graph.ended.states[t].size == 0:
        return graph.states(t)
    return np.union1d(graph.states(t), graph.ended.states[t]).astype(np.int32)


def evaluate_nominal(
    mdp: ModelRecord, policy: Any, steps: int | None = None, *, start: Any = None, objective: Any = None
) -> Evaluation:
    """Evaluate a policy on the plain model; see `MDP.evaluate`."""
    first = initial_state(mdp, start)
    T, given = number_of_steps(mdp, steps), make_property(objective)
    mdp, wanted, T = plain_in_question(mdp, given, T, np.array([first]))
    world, decided = asked_model(mdp, wanted)
    ended = None if decided is None else decided.ended
    memory = memory_of(mdp)
    if memory is not None:
        first = int(memory.onward(np.array([memory.automaton.first]), np.array([first]))[0])
    start_node, decide = _followed(mdp, policy, first, T, wanted)
    chain = build_chain(world, lambda _t: None, start_node, decide, T, ended)
    return evaluate_chain(world, chain, None, ())


def _followed(
    mdp: ModelRecord, policy: Any, first: int, T: int, wanted: Property | None = None, noise: float = 0.0
) -> tuple[Visits, Decide]:
    """The node in which a policy, or a plan of another model, starts; and what it does."""
    if isinstance(policy, LiftedPlan):
        return policy.first(first), policy.decide(mdp)
    return visit(first), decider(mdp, noisy(mdp, make_policy(mdp, policy, T, objective=wanted), noise))


def simulate(
    mdp: ModelRecord, policy: Any, steps: int | None = None, *, start: Any = None, rng: Any = None, noise: float = 0.0
) -> Path:
    """Draw one episode from the plain model; see `MDP.simulate`."""
    T = number_of_steps(mdp, steps)
    generator, first = random_generator(rng), initial_state(mdp, start)
    if isinstance(policy, LiftedPlan) and noise:
        raise QueryError("noise= is for policies that look at the state alone; a plan is followed as it is: noise=0")
    visits, decide = _followed(mdp, policy, first, T, noise=noise)
    states, actions = [first], []
    for t in range(T):
        taken = decide(t, visits)
        i = int(generator.choice(taken.pairs.size, p=taken.probability))
        entries = mdp.entries(int(taken.pairs[i]))
        chance = mdp.form.probability[entries]
        states.append(int(generator.choice(mdp.form.next_state[entries], p=chance / chance.sum())))
        actions.append(int(mdp.form.pair_action[taken.pairs[i]]))
        visits = Visits(np.array(states[-1:]), taken.changes[[i]], taken.runs[[i]])
    return Path([mdp.states[s] for s in states], [mdp.actions[a] for a in actions])
