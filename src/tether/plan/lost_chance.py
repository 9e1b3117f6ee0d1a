"""A limit on the chance to lose touch with the episode: P(k uninfluenced steps in a row) ≤ ε.

Between two rules: with ε = 1 it is the rule `definition`, with ε = 0 `assured`. States remember how many uninfluenced
steps were just passed, and whether it were ever k. Every plan has a value and a chance not to be lost; the plans that
are best for some weights of the two are the vectors of `tether._kernels.vectors`, in one backward pass:

    G_T = {(F, [not lost])}        G_t = hull of ∪_a (R, 0) + Σ_j P_cf,t(j)·diag(γ, 1)·G_{t+1}(j)

The plan is the most valuable of these whose chance to be lost is at most ε. A plan decides by what was met, not by a
draw; if one of two plans may be drawn before the episode, the limit can be met exactly, for `mixture_value`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.errors import Problem, QueryError
from tether.influence.kappa import Thresholds
from tether.model.form import all_pair_states, model_of
from tether.observation.changes import nothing_to_change
from tether.observation.earned import model_return
from tether.plan.best_values import final_rewards
from tether.plan.hidden_types import SideBySide, places_of, reached_states
from tether.plan.limited import Key, LimitedPlanRecord, follow_limited
from tether.plan.tether_record import TetherRecord, refuse_price

if TYPE_CHECKING:
    from tether._kernels.vectors import StepRows, Vectors

_CLOSE = 1e-12
"""Probabilities that differ by less are the same."""


def with_chance(tied: TetherRecord, k: int, m: int, lost: Any) -> LimitedPlanRecord:
    """The best plan that has k uninfluenced steps in a row with at most this chance."""
    refuse_price(tied.advisable, "lost=")
    if tied.rule == "assured":
        raise QueryError("rule 'assured' is lost=0: leave one of them out")
    if not isinstance(lost, int | float) or isinstance(lost, bool) or not 0 <= lost <= 1:
        raise QueryError(Problem("lost is a probability from 0 to 1", value=lost))
    made = _Runs(tied.weighed(tied.thresholds()), k, m)
    vectors = made.cell(0, made.start)
    values, stays = made.layers[0].values[vectors, 0], made.layers[0].values[vectors, 1]
    within = np.flatnonzero(stays >= 1.0 - lost - _CLOSE)
    number = int(within[np.argmax(values[within])])
    beyond = np.flatnonzero((stays < 1.0 - lost - _CLOSE) & (values > values[number]))
    chance, mixture = 1.0 - float(stays[number]), None
    if beyond.size and chance < lost - _CLOSE:
        other = int(beyond[np.argmax(stays[beyond])])
        weight = (stays[number] - (1.0 - lost)) / (stays[number] - stays[other])
        mixture = float(tied.signed(values[number] + weight * (values[other] - values[number])))
    nodes = follow_limited(made.T, Key(made.start.state, made.start.left, (0, number)), made.decide)
    observed = float(tied.signed(model_return(made.graph.mdp, made.graph.observation)))
    return LimitedPlanRecord(
        tied.cf, k, m, tied.rule, tied.influence, float(tied.signed(values[number])), observed, nodes, tied.objective,
        tied.minimise, lost=float(lost), probability=chance if chance > _CLOSE else 0.0, mixture_value=mixture,
    )  # fmt: skip


class _Runs:
    """The vectors (value, chance not to be lost) of all nodes: states with runs 0 … k - 1, and k for lost."""

    def __init__(self, found: Thresholds, k: int, m: int) -> None:
        from tether._kernels.vectors import MANY, Vectors, layer_of_vectors

        self.found, self.graph, self.k, self.m = found, found.graph, k, m
        self.form, self.T = self.graph.mdp.form, self.graph.T
        self.S, self.P = self.graph.mdp.n_states, self.form.pair_action.size
        self.rows, self._steps = SideBySide((self.form,)), dict[int, Any]()
        self.start = Key(int(self.graph.observation.states[0]), m, (0, 0))
        states = self._states(self.T)
        run, own = np.divmod(states, self.S)
        final = np.stack((final_rewards(self.graph.mdp)[own], (run < k).astype(np.float64)), axis=1)
        n, none = states.size, np.zeros(0, np.int64)
        places = places_of(self.S * (k + 1), states)
        made = [Vectors(places, 1, np.arange(n + 1), final, np.full(n, -1), np.zeros(n + 1, np.int64), none)]
        for t in range(self.T - 1, -1, -1):
            states, columns = self._states(t), min(m, self.T - t) + 1
            places, rows = places_of(self.S * (k + 1), states), self.step(t)
            layer, _ = layer_of_vectors(states, places, columns, -1, self._observed(t), rows, made[-1], 1.0, MANY)
            made.append(layer)
        self.layers: list[Vectors] = made[::-1]

    def _states(self, t: int) -> Ints:
        """All states of a time with every run that can be then."""
        here = reached_states(self.graph, t).astype(np.int64)
        runs = [r for r in range(self.k + 1) if r <= t]
        return np.concatenate([here + r * self.S for r in runs])

    def _observed(self, t: int) -> Ints:
        pairs = np.flatnonzero(self.form.pair_action == int(self.graph.observation.actions[t]))
        found = np.full(self.S * (self.k + 1), -1, np.int64)
        states = all_pair_states(self.form.pair_start)[pairs]
        for run in range(self.k + 1):
            found[states + run * self.S] = pairs + run * self.P
        return found

    def step(self, t: int) -> StepRows:
        """The rows of all pairs with every run, in the form that the kernel takes."""
        from tether._kernels.vectors import StepRows

        form, runs = self.form, self.k + 1
        owner = all_pair_states(form.pair_start)
        chance = self.rows.nominal.copy()
        self.rows.edited(0, chance, self.graph.layers[t].edits)
        reward = self.rows.expected(t, chance)[:, 0]
        differs = form.pair_action != int(self.graph.observation.actions[t])
        free = nothing_to_change(form, np.arange(self.S), int(self.graph.observation.actions[t]))
        over = np.zeros(self.S, np.bool_) if self.graph.ended is None else self.graph.ended.mask
        allowed = np.ones(owner.size, np.bool_)
        allowed[self.found.layers[t].pairs(model_of(form))] = self.found.kappa[t] <= self.k
        touched = np.isin(np.arange(owner.size), self.found.influenced[t])
        entry_pair = np.repeat(np.arange(owner.size), np.diff(self.rows.row_start))
        lost, next_state = runs - 1, []
        for run in range(runs):
            onward = np.where(touched, 0, min(run + 1, lost))
            onward = np.where(over[owner], run, onward) if run < lost else np.full(owner.size, lost)
            next_state.append(self.rows.next_state + onward[entry_pair] * self.S)
        both = np.tile(chance * [[self.graph.mdp.discount, 1.0]], (runs, 1))  # a chance is not discounted
        return StepRows(
            _repeated(form.pair_start.astype(np.int64), runs),
            _repeated(self.rows.row_start, runs),
            np.concatenate(next_state),
            both,
            np.stack((np.tile(reward, runs), np.zeros(runs * self.P)), axis=1),
            np.tile(allowed, runs),
            np.tile(differs & ~(free | over)[owner], runs),
        )

    def cell(self, t: int, key: Key) -> slice:
        """Where the vectors of a node are in its layer."""
        layer, (run, _) = self.layers[t], _memory(key)
        at = int(layer.place[key.state + run * self.S]) * layer.columns + min(key.left, layer.columns - 1)
        return slice(int(layer.start[at]), int(layer.start[at + 1]))

    def decide(self, t: int, key: Key) -> tuple[int, dict[int, tuple[float, Key]]]:
        """What a plan does at a node, whose vector it follows."""
        if t not in self._steps:
            self._steps = {t: self.step(t)}  # nodes are asked for time by time
        layer, rows = self.layers[t], self._steps[t]
        at = self.cell(t, key).start + _memory(key)[1]
        pair = int(layer.pair[at])
        entries = slice(int(rows.row_start[pair]), int(rows.row_start[pair + 1]))
        back = layer.back[layer.back_start[at] : layer.back_start[at + 1]]
        left = min(key.left - int(rows.differs[pair]), self.T - t - 1)
        found = {}
        for j, chance, number in zip(rows.next_state[entries], rows.probability[entries, 1], back, strict=True):
            if chance > 0.0:
                run, state = divmod(int(j), self.S)
                found[state] = float(chance), Key(state, left, (run, int(number)))
        return pair % self.P, found


def _memory(key: Key) -> tuple[int, int]:
    assert isinstance(key.memory, tuple)
    return int(key.memory[0]), int(key.memory[1])


def _repeated(start: Ints, times: int) -> Ints:
    """Where rows begin that stand several times one after another."""
    parts = [start[:-1] + i * int(start[-1]) for i in range(times)]
    return np.concatenate((*parts, [times * int(start[-1])]))
