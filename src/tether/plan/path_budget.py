"""A budget for whole paths: the total distance along every path that a plan can take is at most b.

The distance of a pair is how far its row is from the observed one, d = ½ Σ|P(·|s_t,a_t) - P(·|s,a)| (the paper's
appendix on notions of influence). With r the part of the budget that is left,

    V_t(s, c, r) = max over allowed a with d ≤ r of R + γ·Σ_j P_cf,t(j|s,a)·V_{t+1}(j, c - [a ≠ a_t], r - d)

and -∞ where nothing is left to take, or where some next state has nothing. As a function of r it only grows, and only
at the finitely many sums of distances that can be left: it is kept as these steps, and exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.layers import Graph, expand
from tether.errors import Problem, QueryError
from tether.influence.kappa import Thresholds
from tether.influence.one_step import distances
from tether.model.form import model_of, pair_states
from tether.observation.changes import is_change
from tether.observation.earned import model_return
from tether.plan.best_values import final_rewards
from tether.plan.limited import Key, LimitedPlanRecord, follow_limited
from tether.plan.tether_record import TetherRecord, refuse_price

_DIGITS = 12
"""Sums of distances that agree to so many decimals are the same."""

_CLOSE = 1e-9
"""By how much a sum may exceed the budget: rounding."""

_SAME = 1e-12
"""Values that differ by less, in proportion, are tied."""


class _Stairs(NamedTuple):
    """A function of what is left: from ``least[i]`` on it is ``value[i]``, and ``pair[i]`` is taken."""

    least: Floats
    value: Floats
    pair: Ints

    def at(self, left: Any) -> Any:
        """The number of the stair for what is left; -1 below the first."""
        return np.searchsorted(self.least, np.asarray(left) + _CLOSE, side="right") - 1


def budgeted(tied: TetherRecord, k: int, m: int, budget: Any) -> LimitedPlanRecord:
    """The best plan whose paths all have at most this total distance."""
    refuse_price(tied.advisable, "budget=")
    if tied.rule == "assured":
        raise QueryError("rule 'assured' counts runs, and a budget counts distances: give one of them")
    if not isinstance(budget, int | float) or isinstance(budget, bool) or not budget >= 0:
        raise QueryError(Problem("budget is a number from 0: the total distance along a path", value=budget))
    found = tied.thresholds()
    graph = tied.weighed(found).graph
    made = _Budget(found, graph, k, m, float(budget))
    start = Key(int(graph.observation.states[0]), m, float(budget))
    stairs = made.stairs(0, start.state, m)
    number = int(stairs.at(start.memory))
    nodes = follow_limited(graph.T, start, made.decide)
    least = min(cast(float, key.memory) for key in nodes[-1])
    return LimitedPlanRecord(
        tied.cf, k, m, tied.rule, tied.influence, float(tied.signed(stairs.value[number])),
        float(tied.signed(model_return(graph.mdp, graph.observation))), nodes, tied.objective, tied.minimise,
        budget=float(budget), spent=float(budget) - least,
    )  # fmt: skip


class _Budget:
    """The stairs of all nodes, from the last step to the first."""

    def __init__(self, found: Thresholds, graph: Graph, k: int, m: int, budget: float) -> None:
        self.graph, self.k, self.m, self.budget = graph, k, m, budget
        self.final = final_rewards(graph.mdp)
        self.rows: list[dict[int, tuple[Ints, Floats, float, float, int]]] = []
        for t in range(graph.T):
            self.rows.append(self._rows_at(found, t))
        self._stairs: list[dict[tuple[int, int], _Stairs]] = [{} for _ in range(graph.T + 1)]
        for t in range(graph.T - 1, -1, -1):
            pairs_of: dict[int, list[int]] = {}
            for pair in self.rows[t]:
                pairs_of.setdefault(self._state(pair), []).append(pair)
            for s, pairs in pairs_of.items():
                for left in range(min(m, graph.T - t) + 1):
                    self._stairs[t][s, left] = self._best(t, pairs, left)

    def _state(self, pair: int) -> int:
        return int(np.searchsorted(self.graph.mdp.form.pair_start, pair, side="right")) - 1

    def _rows_at(self, found: Thresholds, t: int) -> dict[int, tuple[Ints, Floats, float, float, int]]:
        """For each allowed pair: next states, probabilities, expected reward, distance, and whether it is a change."""
        graph, form, layer = self.graph, self.graph.mdp.form, self.graph.layers[t]
        pairs = found.layers[t].pairs(model_of(form))
        owner = pair_states(form.pair_start, pairs)
        kept = found.kappa[t] <= self.k
        owner, pairs = owner[kept], pairs[kept]
        far = np.ones(pairs.size)
        at = layer.edits.locate(pairs)
        far[at >= 0] = distances(graph, t)[at[at >= 0]]
        far[pairs == int(graph.observation.pairs[t])] = 0.0
        changes = is_change(form, owner, pairs, int(graph.observation.actions[t]))
        row, entry, chance = expand(graph.mdp, layer.edits, pairs)
        rewards = graph.mdp.rewards.at(t)
        earned: Floats = rewards[pairs]
        if graph.mdp.rewards.by_entry:
            earned = np.bincount(row, chance * rewards[entry], minlength=pairs.size).astype(np.float64)
        begin = np.searchsorted(row, np.arange(pairs.size + 1))
        made = {}
        for i, pair in enumerate(pairs.tolist()):
            some = slice(int(begin[i]), int(begin[i + 1]))
            possible = chance[some] > 0.0
            after = form.next_state[entry[some]][possible]
            made[pair] = after, chance[some][possible], float(earned[i]), float(far[i]), int(changes[i])
        return made

    def stairs(self, t: int, s: int, left: int) -> _Stairs:
        """What a node is worth, by what is left of the budget."""
        over = self.graph.ended is not None and bool(self.graph.ended.mask[s])
        if t == self.graph.T or over:
            return _Stairs(np.zeros(1), self.final[s : s + 1], np.array([-1]))
        return self._stairs[t].get((s, min(left, self.graph.T - t)), _NOTHING)

    def _best(self, t: int, pairs: Sequence[int], left: int) -> _Stairs:
        observed = int(self.graph.observation.actions[t])
        action = self.graph.mdp.form.pair_action
        order = sorted(pairs, key=lambda pair: (action[pair] != observed, pair))
        found = [(pair, self._of_pair(t, pair, left)) for pair in order]
        found = [(pair, one) for pair, one in found if one.least.size]
        if not found:
            return _NOTHING
        least = np.unique(np.concatenate([one.least for _, one in found]))
        value, taken = np.full(least.size, -np.inf), np.full(least.size, -1)
        for pair, one in found:
            at = one.at(least)
            worth = np.where(at >= 0, one.value[np.maximum(at, 0)], -np.inf)
            better = worth > value + _SAME * np.maximum(1.0, np.abs(np.where(np.isinf(value), 0.0, value)))
            value, taken = np.where(better, worth, value), np.where(better, pair, taken)
        before = np.concatenate(([-np.inf], np.maximum.accumulate(value)[:-1]))
        kept = value > before + np.where(np.isinf(before), 0.0, _SAME * np.maximum(1.0, np.abs(value)))
        return _Stairs(least[kept], value[kept], taken[kept])

    def _of_pair(self, t: int, pair: int, left: int) -> _Stairs:
        after, chance, earned, far, change = self.rows[t][pair]
        if change > left or far > self.budget + _CLOSE:
            return _NOTHING
        onward = [self.stairs(t + 1, j, left - change) for j in after.tolist()]
        if any(not one.least.size for one in onward):
            return _NOTHING
        first = max(float(one.least[0]) for one in onward)
        least = np.unique(np.round(np.concatenate([one.least for one in onward]), _DIGITS))
        least = least[(least >= first - _CLOSE) & (least + far <= self.budget + _CLOSE)]
        value = np.full(least.size, earned)
        for likely, one in zip(chance, onward, strict=True):
            value += self.graph.mdp.discount * likely * one.value[one.at(least)]
        return _Stairs(np.round(least + far, _DIGITS), value, np.full(least.size, pair))

    def decide(self, t: int, key: Key) -> tuple[int, dict[int, tuple[float, Key]]]:
        """What the best plan does at a node."""
        rest = cast(float, key.memory)
        if self.graph.ended is not None and self.graph.ended.mask[key.state]:
            return int(self.graph.mdp.form.pair_start[key.state]), {key.state: (1.0, key)}
        stairs = self.stairs(t, key.state, key.left)
        pair = int(stairs.pair[int(stairs.at(rest))])
        after, chance, _, far, change = self.rows[t][pair]
        left = min(key.left - change, self.graph.T - t - 1)
        rest = round(rest - far, _DIGITS)
        return pair, {j: (float(likely), Key(j, left, rest)) for j, likely in zip(after.tolist(), chance, strict=True)}


_NOTHING = _Stairs(np.empty(0), np.empty(0), np.empty(0, np.int64))
