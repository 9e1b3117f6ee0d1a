"""Plans for an individual whose type was never recorded: it stays the same over time, and the planner does not see it.

A type z has its own rows P_z, and the noise is independent over time given z. The episode changes the prior w_z of each
type to the posterior

    ρ_z ∝ w_z · Π_t P_z(s_{t+1} | s_t, a_t)

Given z, the counterfactual world is as for a single model. The planner sees states, not z, and may learn z on the way.
For each node (t, s, changes left) G is the set of vectors (value if type 1, value if type 2, …) that a policy can have:

    G_T(s) = {(F(s), …, F(s))}
    G_t(s, c) = ∪_a ⊕_j diag(P_cf,1(j), P_cf,2(j), …)·(R + γ·G_{t+1}(j, c - [a ≠ a_t]))      ⊕: the Minkowski sum

The value is the largest ρ·v with v in G_0; beliefs never appear. Vectors that are best for no belief are left out: with
two types those below the upper hull, otherwise those that another vector dominates. If more than `MOST` are left, only
the best for the posterior and for each type are kept. The value is then that of a policy, and not always the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.model_sets import model_set
from tether.observation.changes import is_change
from tether.plan.tether_record import tether

__all__ = ["MOST", "Choice", "TypedValues", "worst_and_best"]

MOST = 64
"""How many vectors of a node are kept, with more than two types."""

_SAME = 1e-12
"""Values that differ by less than this, in proportion, are equal."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One vector of a node: its values by type, the action, and for each next state the number of its vector there."""

    values: Floats
    action: int
    after: dict[int, int]


@dataclass(eq=False)
class TypedValues:
    """The vectors of all nodes that plans for several types can reach, made when they are asked for.

    Attributes
    ----------
    cfs : tuple of CounterfactualRecord
        One for each type, of the same path.
    posterior : array
        The probability of each type.
    k : int
        A pair is allowed if it is allowed for every type.
    """

    cfs: Sequence[CounterfactualRecord]
    posterior: Floats
    k: int
    exact: bool = True
    _known: dict[tuple[int, int, int], list[Choice]] = field(default_factory=dict)
    _allowed: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        for cf in self.cfs:
            found = tether(cf).thresholds()
            of_type = []
            for t in range(cf.T):
                states, offsets, kappa = found.nodes[t].states, found.nodes[t].offsets, found.kappa[t]
                of_type.append({
                    int(s): kappa[offsets[i] : offsets[i + 1]] <= self.k for i, s in enumerate(states.tolist())
                })  # fmt: skip
            self._allowed.append(of_type)

    def best(self, t: int, s: int, changes: int, weights: Floats) -> int:
        """The number of the vector of a node that is best for some weights of the types."""
        worth = np.array([weights @ one.values for one in self.at(t, s, changes)])
        return int(np.argmax(worth)) if worth.size else -1

    def at(self, t: int, s: int, changes: int) -> list[Choice]:
        """The vectors of a node; empty if no action is allowed."""
        changes = min(changes, self.cfs[0].T - t)
        key = t, s, changes
        if key not in self._known:
            self._known[key] = self._made(*key)
        return self._known[key]

    def _made(self, t: int, s: int, changes: int) -> list[Choice]:
        first = self.cfs[0]
        if t == first.T:
            final = [0.0 if cf.mdp.final_reward is None else float(cf.mdp.final_reward[s]) for cf in self.cfs]
            return [Choice(np.array(final), -1, {})]
        mdp, observed = first.mdp, int(first.observation.actions[t])
        pairs = np.arange(mdp.form.pair_start[s], mdp.form.pair_start[s + 1])
        counted = is_change(mdp.form, np.full(pairs.size, s), pairs, observed)
        order = np.argsort(mdp.form.pair_action[pairs] != observed, kind="stable")  # what was done comes first
        found: list[Choice] = []
        for local in order.tolist():
            if counted[local] > changes or not self._is_allowed(t, s, local):
                continue
            found += self._of_pair(t, int(pairs[local]), changes - int(counted[local]))
        return self._pruned(found)

    def _is_allowed(self, t: int, s: int, local: int) -> bool:
        """Whether a pair is allowed for every type that can be there."""
        known = [layers[t][s] for layers in self._allowed if s in layers[t]]
        return all(bool(one[local]) for one in known)

    def _of_pair(self, t: int, pair: int, changes: int) -> list[Choice]:
        """The vectors of one action: sums over next states of what each may add."""
        action = int(self.cfs[0].mdp.form.pair_action[pair])
        rows = [_row(cf, t, pair) for cf in self.cfs]
        sums = [Choice(np.array([earned for _, earned in rows]), action, {})]
        for j in sorted(set().union(*(row for row, _ in rows))):
            chance = np.array([row.get(j, 0.0) * cf.mdp.discount for (row, _), cf in zip(rows, self.cfs, strict=True)])
            after = self.at(t + 1, j, changes)
            if not after:
                return []
            sums = self._pruned([
                Choice(one.values + chance * other.values, action, {**one.after, j: number})
                for one in sums for number, other in enumerate(after)
            ])  # fmt: skip
        return sums

    def _pruned(self, found: list[Choice]) -> list[Choice]:
        """Without vectors that are best for no belief; the first of equal ones is kept."""
        if len(found) <= 1:
            return found
        if len(self.cfs) == 2:
            return _hull(found)
        values = np.array([one.values for one in found])
        kept: list[int] = []
        for i in range(len(found)):
            near = _SAME * np.maximum(1.0, np.abs(values[i]))
            others = [j for j in range(len(found)) if j != i and np.all(values[j] >= values[i] - near)]
            if not any(j < i or np.any(values[j] > values[i] + near) for j in others):
                kept.append(i)
        if len(kept) > MOST:
            self.exact = False
            order = np.argsort(-(values[kept] @ self.posterior), kind="stable")[: max(1, MOST - len(self.cfs))]
            best = {kept[int(i)] for i in order} | {kept[int(i)] for i in np.argmax(values[kept], axis=0)}
            kept = sorted(best)
        return [found[i] for i in kept]


def _row(cf: CounterfactualRecord, t: int, pair: int) -> tuple[dict[int, float], float]:
    """The counterfactual row of a pair by next state, and the reward that is to be expected of it."""
    mdp = cf.mdp
    s = int(np.searchsorted(mdp.form.pair_start, pair, side="right")) - 1
    names, chances = cf.row(t, mdp.states[s], mdp.actions[int(mdp.form.pair_action[pair])])
    row = {mdp.states.find(name): float(chance) for name, chance in zip(names, chances, strict=True)}
    rewards = mdp.rewards.at(t)
    if not mdp.rewards.by_entry:
        return row, float(rewards[pair])
    entries = mdp.entries(pair)
    of_entry = dict(zip(mdp.form.next_state[entries].tolist(), rewards[entries].tolist(), strict=True))
    return row, sum(chance * of_entry[j] for j, chance in row.items())


def worst_and_best(values: TypedValues, z: int, root: int, m: int) -> tuple[float, float]:
    """The worst and the best value of a plan for one type, over every causal model (`assume="nothing"`)."""
    cf = values.cfs[z]
    models, mdp = model_set(cf, "nothing"), cf.mdp
    known: dict[Any, float] = {}

    def value(t: int, s: int, left: int, number: int, sign: float) -> float:
        if t == cf.T:
            return 0.0 if mdp.final_reward is None else float(mdp.final_reward[s])
        left = min(left, cf.T - t)
        key = t, s, left, number, sign
        if key not in known:
            known[key] = _extreme(*key)
        return known[key]

    def _extreme(t: int, s: int, left: int, number: int, sign: float) -> float:
        observed, after = int(cf.observation.actions[t]), {}
        if number >= 0:
            choice = values.at(t, s, left)[number]
            pairs, after = [mdp.find_pair(s, choice.action)], choice.after
        else:
            pair = mdp.find_pair(s, observed)
            pairs = [pair] if pair >= 0 else list(range(mdp.form.pair_start[s], mdp.form.pair_start[s + 1]))
        return sign * min(sign * of_pair(t, s, left, pair, after, sign) for pair in pairs)

    def of_pair(t: int, s: int, left: int, pair: int, after: dict[int, int], sign: float) -> float:
        entries, step = mdp.entries(pair), models.steps[t]
        changed = is_change(mdp.form, np.array([s]), np.array([pair]), int(cf.observation.actions[t]))[0]
        rewards = mdp.rewards.at(t)
        earned = np.broadcast_to(
            rewards[entries] if mdp.rewards.by_entry else rewards[pair], entries.stop - entries.start
        )
        worth = earned.astype(np.float64)
        for i, j in enumerate(mdp.form.next_state[entries].tolist()):
            if pair != step.pair or step.outcome < 0 or j == step.outcome:
                worth[i] += mdp.discount * value(t + 1, j, max(left - int(changed), 0), after.get(j, -1), sign)
        return float(models.extremes(t, np.array([pair]), worth, sign)[0][0])

    start = int(cf.observation.states[0])
    return value(0, start, m, root, 1.0), value(0, start, m, root, -1.0)


def _hull(found: list[Choice]) -> list[Choice]:
    """The vectors of two types that are best for some belief: lines over the probability of the first type."""
    values = np.array([one.values for one in found])
    height, slope = values[:, 1], values[:, 0] - values[:, 1]
    near = _SAME * max(1.0, float(np.abs(values).max()))
    kept: list[int] = []
    b = 0.0
    top = np.flatnonzero(height >= height.max() - near)
    at = int(top[np.argmax(slope[top] >= slope[top].max() - near)])
    while True:
        kept.append(at)
        steeper = np.flatnonzero(slope > slope[at] + near)
        if steeper.size == 0:
            break
        where = (height[at] - height[steeper]) / (slope[steeper] - slope[at])
        b = max(b, float(where.min()))
        if b >= 1.0:
            break
        first = steeper[where <= where.min() + _SAME]
        at = int(first[np.argmax(slope[first])])
    return [found[i] for i in sorted(kept)]
