"""The best plan of the plain model, without an observation: backward induction over a horizon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number
from tether._foundation.markup import html_table, paragraphs
from tether.core.batch import NO_EDITS, NO_RUNS, Layer, Nodes, starts
from tether.errors import Problem, QueryError
from tether.model.form import model_of
from tether.model.model_record import ModelRecord
from tether.model.names import name_list
from tether.model.product import memory_of
from tether.model.properties import Decided, Property, make_property, objective_name, value_name
from tether.observation.path import time_index
from tether.plan.best_values import final_rewards
from tether.plan.in_question import plain_in_question
from tether.plan.resting import asked_model
from tether.plan.rewards import ExpectedRewards


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
        t, form = time_index(t, self.horizon - 1), self.mdp.form
        s = self.mdp.state_index(state) if t else initial_state(self.mdp, state)
        local = int(self.choices[t, s])
        return None if local < 0 else self.mdp.actions[int(form.pair_action[form.pair_start[s] + local])]

    __call__ = action

    def value(self, state: Any = None, t: int = 0) -> float:
        """Expected return from ``state`` at time t = 0 … horizon on; -∞ if states without actions cannot be avoided.

        By default the state is the one in which episodes start, as in `MDP.simulate`. For a property, the probability
        that it holds; where a state was met before matters, of an episode that begins in the state. With ``minimise``,
        ∞ if such states cannot be avoided.
        """
        time = time_index(t, self.horizon)
        s = self.mdp.state_index(state) if time and state is not None else initial_state(self.mdp, state, "state")
        return float(self.values[time, s])

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
    every = np.arange(mdp.n_states)
    mdp, wanted, T = plain_in_question(mdp, make_property(objective), number_of_steps(mdp, steps), every)
    every = np.arange(mdp.n_states, dtype=np.int32)
    values, choices = np.empty((T + 1, mdp.n_states)), np.empty((T, mdp.n_states), dtype=choice_type(mdp))
    for t, table in backward_values(*asked_model(mdp, wanted), (every,) * T, tuple(choices[:, :, None]), minimise):
        values[t] = table[:, 1]
    values = 0.0 - values if minimise else values
    if wanted is not None:
        values[np.isfinite(values)] = np.clip(values[np.isfinite(values)], 0.0, 1.0)
    values.flags.writeable = choices.flags.writeable = False
    return Solution(mdp, T, values, choices, wanted, bool(minimise))


def choice_type(mdp: ModelRecord) -> type[np.signedinteger[Any]]:
    """A small integer type that can number the actions of a state."""
    return np.int8 if mdp.n_actions < np.iinfo(np.int8).max else np.int32


def backward_values(
    world: ModelRecord, decided: Decided | None, states: Sequence[Ints], choices: Sequence[Ints], minimise: bool
) -> Iterator[tuple[int, Floats]]:
    """Backward induction without any limit, t = T … 0: yields the time and a table by state, valid for ``states[t]``.

    The table has two columns: the size of the numbers that were added up, which rounding errors are relative to, and V
    (negated with ``minimise``). It is overwritten two times later. ``choices[t]`` is written: for each of these states,
    which of its pairs is the best, -1 if it has none. What can follow a state must be among the states one step later.
    """
    from tether.core.plan import Goal, Limits, Numbers, OnPath, plan_layer

    T, sign, n = len(states), -1.0 if minimise else 1.0, world.n_states
    model, expected, final = model_of(world.form), ExpectedRewards(world), sign * final_rewards(world)
    every_pair, nowhere_free = np.empty(0, np.int16), np.empty(0, np.bool_)
    limits, numbers = Limits(every_pair, np.zeros(1, np.int64), every_pair, nowhere_free, every_pair), Numbers(1, 1, 1)
    nowhere = np.full(1, -1)
    path = OnPath(nowhere, nowhere, np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros((1, 1), np.int64), 0, 0)
    every = np.arange(n, dtype=np.int32)
    after = Layer(Nodes(np.array([0, n]), every, NO_RUNS, np.zeros(n + 1, np.int64)), NO_EDITS)
    values = np.zeros((n, numbers.width))
    values[:, 0], values[:, 1] = np.abs(final), final
    tables = np.zeros((2, n, 2))
    tables[T % 2] = values[:, :2]
    yield T, tables[T % 2]
    for t in range(T - 1, -1, -1):
        here = states[t].astype(np.int64)
        count = world.form.pair_start[here + 1] - world.form.pair_start[here]
        over = np.zeros(here.size, bool) if decided is None else decided.ended[here]
        stuck, resting = (count == 0) & ~over, over & (count > 0)
        count[over] = 0
        layer = Layer(Nodes(np.array([0, here.size]), states[t], NO_RUNS, starts(count)), NO_EDITS)
        before, reward = np.empty((here.size, numbers.width)), sign * expected.of_pairs(t, states[t])
        goal = Goal(reward, np.empty(0), final, world.discount, nowhere)
        plan_layer(model, layer, after.nodes, limits, goal, before, numbers, values, numbers, choices[t], path, True)
        before[stuck, 1] = -np.inf
        choices[t][stuck], choices[t][resting] = -1, 0  # after the decision the action does not matter
        after, values = layer, before
        tables[t % 2][here] = before[:, :2]
        yield t, tables[t % 2]


def initial_state(mdp: ModelRecord, start: Any, argument: str = "start") -> int:
    """The index of the state in which an episode starts: the given one, the only one labelled ``init``, or the first.

    Models of PRISM and Storm have the label ``init``. If several states have it, one must be given.
    """
    memory = memory_of(mdp)
    if memory is not None:
        own = memory.mdp.states.find(start)
        if start is not None and own < 0:
            return mdp.state_index(start)
        first = own if own >= 0 else initial_state(memory.mdp, None, argument)
        return int(memory.onward(np.array([memory.automaton.first]), np.array([first]))[0])
    if start is not None:
        return mdp.state_index(start)
    initial = mdp.label_sets.get("init", np.zeros(1, np.int64))
    if initial.size > 1:
        several = name_list([mdp.states[s] for s in initial[:12].tolist()]) + (", …" if initial.size > 12 else "")
        what = f"in which state does it start? The model has {initial.size:,} with the label 'init': {several}"
        raise QueryError(Problem(what, fix=f"give one: {argument}={mdp.states[int(initial[0])]!r}", argument=argument))
    return int(initial[0]) if initial.size else 0


def number_of_steps(mdp: ModelRecord, steps: Any) -> int:
    """How many steps an episode has: ``steps``, or the horizon of the model."""
    if steps is None:
        if mdp.horizon is None:
            what = "how many steps? This model has no horizon"
            raise QueryError(Problem(what, fix="give a number: steps=10", argument="steps"))
        return mdp.horizon
    T = whole_number("the number of steps", steps, 1)
    if mdp.horizon is not None and mdp.horizon < T:
        raise QueryError(f"{T} steps are more than the horizon of the model ({mdp.horizon:,})")
    return T
