"""The plain MDP, without an observation: solve it, simulate it, evaluate policies on it.

This gives the interventional answer (what the model expects of anyone), to compare with the counterfactual one (what it
expects of this episode). Both use the same planner and the same arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, places_among
from tether._foundation.checks import random_generator, whole_number
from tether._foundation.markup import html_table, paragraphs
from tether.conditioning.conditioned import CounterfactualMDP
from tether.conditioning.layers import Graph, nominal_rollout
from tether.errors import Problem, QueryError
from tether.evaluation.evaluate import Evaluation, evaluate_chain, evaluate_decider, visit
from tether.influence.one_step import Support
from tether.model.names import name_list
from tether.model.properties import Property, make_property
from tether.model.record import ModelRecord
from tether.observation.path import Path, time_index
from tether.plan.chain import Taken, Visits, build_chain
from tether.plan.objective import asked, objective_name, value_name
from tether.plan.policy import decider, make_policy, noisy
from tether.plan.resting import asked_model
from tether.plan.standard import backward_values, choice_type

__all__ = ["Solution", "best_for_anyone", "evaluate_nominal", "simulate", "solve"]


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The optimal plan of the plain model: what to do and what to expect, in every state at every time.

    A solution is itself a policy: ``solution(t, state)`` is the action. For a property, values are the probability that
    it holds; after it is decided, the action does not matter.

    Examples
    --------
    >>> import tether
    >>> solution = tether.cases.grid_world().mdp.solve(11)
    >>> solution.action(0, 0), round(solution.value(0), 2)
    ('down', 540.78)
    """

    mdp: ModelRecord
    horizon: int
    values: Floats
    choices: Ints
    objective: Property | None = None
    minimise: bool = False

    def action(self, t: int, state: Any) -> Any:
        """The best action at step t; None in a state without actions. Ties go to the lowest index."""
        t, s, form = time_index(t, self.horizon - 1), self.mdp.state_index(state), self.mdp.form
        local = int(self.choices[t, s])
        return None if local < 0 else self.mdp.actions[int(form.pair_action[form.pair_start[s] + local])]

    __call__ = action

    def value(self, state: Any = None, t: int = 0) -> float:
        """Expected return from ``state`` at time t = 0 … horizon on; -∞ if states without actions cannot be avoided.

        By default the state is the one in which episodes start, as in `MDP.simulate`. For a property, the probability
        that it holds. With ``minimise``, ∞ if such states cannot be avoided.
        """
        return float(self.values[time_index(t, self.horizon), _start(self.mdp, state, "state")])

    def __repr__(self) -> str:
        about = objective_name(self.objective, self.minimise)
        return f"<Solution: {self.horizon} steps, {self.mdp.n_states:,} states{', ' if about else ''}{about}>"

    def _repr_html_(self) -> str:
        few = range(min(self.mdp.n_states, 30))
        rows = [
            (state, self.action(0, state), f"{self.value(state):.6g}") for state in (self.mdp.states[s] for s in few)
        ]
        head = ("state", f"best action, {self.horizon} steps to go", f"expected {value_name(self.objective)}")
        return html_table(head, rows) + (
            paragraphs([f"the first of {self.mdp.n_states:,} states"]) if self.mdp.n_states > 30 else ""
        )


def solve(mdp: ModelRecord, steps: int | None = None, objective: Any = None, minimise: bool = False) -> Solution:
    """The optimal plan of the plain model over a horizon; see `MDP.solve`."""
    T, wanted = _length(mdp, steps), make_property(objective)
    every = np.arange(mdp.n_states, dtype=np.int32)
    values, choices = np.empty((T + 1, mdp.n_states)), np.empty((T, mdp.n_states), dtype=choice_type(mdp))
    for t, table in backward_values(*asked_model(mdp, wanted), (every,) * T, tuple(choices[:, :, None]), minimise):
        values[t] = table[:, 1]
    values = 0.0 - values if minimise else values
    if wanted is not None:
        values[np.isfinite(values)] = np.clip(values[np.isfinite(values)], 0.0, 1.0)
    values.flags.writeable = choices.flags.writeable = False
    return Solution(mdp, T, values, choices, wanted, bool(minimise))


def best_for_anyone(cf: CounterfactualMDP, objective: Property | None = None, minimise: bool = False) -> Evaluation:
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
    mdp, asking = cf.mdp, asked(cf, objective)
    world, decided = asked_model(mdp, objective)
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
    T, wanted = _length(mdp, steps), make_property(objective)
    world, decided = asked_model(mdp, wanted)
    ended = None if decided is None else decided.ended
    first = _start(mdp, start)
    chosen = make_policy(mdp, policy, T, objective=wanted)
    chain = build_chain(world, lambda _t: None, visit(first), decider(mdp, chosen), T, ended)
    return evaluate_chain(world, chain, None, ())


def simulate(
    mdp: ModelRecord, policy: Any, steps: int | None = None, *, start: Any = None, rng: Any = None, noise: float = 0.0
) -> Path:
    """Draw one episode from the plain model; see `MDP.simulate`."""
    T = _length(mdp, steps)
    generator = random_generator(rng)
    decide = noisy(mdp, make_policy(mdp, policy, T), noise)
    states, actions = [_start(mdp, start)], []
    for t in range(T):
        answers = decide(t, states[-1])
        pair = answers[generator.choice(len(answers), p=[chance for _, chance in answers])][0]
        entries = mdp.entries(pair)
        chance = mdp.form.probability[entries]
        states.append(int(generator.choice(mdp.form.next_state[entries], p=chance / chance.sum())))
        actions.append(int(mdp.form.pair_action[pair]))
    return Path([mdp.states[s] for s in states], [mdp.actions[a] for a in actions])


def _start(mdp: ModelRecord, start: Any, argument: str = "start") -> int:
    """The index of the state in which an episode starts: the given one, the only one labelled ``init``, or the first.

    Models of PRISM and Storm have the label ``init``. If several states have it, one must be given.
    """
    if start is not None:
        return mdp.state_index(start)
    initial = mdp.label_sets.get("init", np.zeros(1, np.int64))
    if initial.size > 1:
        several = name_list([mdp.states[s] for s in initial[:12].tolist()]) + (", …" if initial.size > 12 else "")
        what = f"in which state does it start? The model has {initial.size:,} with the label 'init': {several}"
        raise QueryError(Problem(what, fix=f"give one: {argument}={mdp.states[int(initial[0])]!r}", argument=argument))
    return int(initial[0]) if initial.size else 0


def _length(mdp: ModelRecord, steps: Any) -> int:
    """How many steps an episode has: ``steps``, or the horizon of the model."""
    if steps is None:
        if mdp.horizon is None:
            raise QueryError("how many steps? This model has no horizon, so give a number: steps=10")
        return mdp.horizon
    T = whole_number("the number of steps", steps, 1)
    if mdp.horizon is not None and mdp.horizon < T:
        raise QueryError(f"{T} steps are more than the horizon of the model ({mdp.horizon:,})")
    return T
