"""Usual practice with rules, in the plain model: what is done, what it is worth, where it leads. No causal model.

Rules are applied to what usual practice does, one after the other. As a matrix over pairs of state and action, K[x, y]
is the chance that y is done where x would have been; π_rule = π_b·K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, summed
from tether.core.replays import Practice
from tether.errors import Problem, QueryError
from tether.mdp import MDP
from tether.model.labels import name_text
from tether.ruling.conditions import Condition, Variable, find_states
from tether.ruling.edits import Actions, Edit
from tether.ruling.recorded import RuleWorld

_LISTED = 5
"""How many states are listed where a condition holds in none."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rule in a model: its condition with its states, and its edit.

    ``to`` is the pair that each pair becomes: itself, another one, or -1 for whatever else is usual.
    """

    condition: Condition
    states: Flags
    edit: Edit
    to: Ints

    @classmethod
    def of(cls, world: RuleWorld, condition: Condition, states: Flags, edit: Edit) -> Candidate:
        """The rule in a model; it changes nothing where the action that it asks for is not available."""
        form, actions = world.mdp.form, np.array(edit.to)
        pairs = np.arange(form.pair_action.size)
        wanted = actions[form.pair_action]
        open_ones = (states & ~world.closed)[world.pair_state] & (wanted != form.pair_action)
        to = pairs.copy()
        key = world.pair_state * world.mdp.n_actions + form.pair_action
        at = np.searchsorted(key, world.pair_state * world.mdp.n_actions + wanted)
        at = np.minimum(at, pairs.size - 1)
        there = key[at] == world.pair_state * world.mdp.n_actions + wanted
        to[open_ones & there] = at[open_ones & there]
        to[open_ones & (wanted < 0)] = -1
        return cls(condition, states, edit, to)

    @classmethod
    def read(cls, world: RuleWorld, rule: Any, variables: dict[str, Variable], actions: Actions) -> Candidate:
        """The candidate of a rule of the user."""
        states = find_states(world.mdp, rule.condition, variables)
        return cls.of(world, rule.condition, states, actions.read(rule.instead_of, rule.do))

    @property
    def touched(self) -> Flags:
        """The pairs that it changes."""
        found: Flags = self.to != np.arange(self.to.size)
        return found

    def check(self, world: RuleWorld, visits: Ints, learned: bool) -> None:
        """Refuse a rule that touches nobody, or that asks for what nobody ever did there."""
        mdp, here = world.mdp, (self.states & ~world.closed)[world.pair_state]
        done = summed(mdp.form.pair_action[here], visits[here], mdp.n_actions)
        there = ", ".join(f"{mdp.actions[a]!s} {int(done[a]):,} times" for a in np.argsort(-done) if done[a] > 0)
        if not here.any() or not done.any():
            message = f"the rule touches nobody: nothing is ever decided where {self.condition}"
            times = summed(world.pair_state, np.where(world.closed[world.pair_state], 0, visits), mdp.n_states)
            often = [s for s in np.argsort(-times, kind="stable")[:_LISTED].tolist() if times[s] > 0]
            states = ", ".join(f"{name_text(mdp.states[s])} ({int(times[s]):,} times)" for s in often)
            more = f", and {left:,} more" if (left := int(np.count_nonzero(times)) - len(often)) else ""
            fix = f"the log has decisions in {states}{more}" if often else "the log has no decisions"
            raise QueryError(Problem(message, value=str(self.condition), fix=fix))
        fix = f"what was done there: {there}"
        wanted = np.array(self.edit.to)[mdp.form.pair_action]
        meant = here & (visits > 0) & (wanted != mdp.form.pair_action)
        if not meant.any():
            other = self.edit.instead_of or "anything else"
            message = f"the rule touches nobody: where {self.condition}, nobody did {other}"
            raise QueryError(Problem(message, value=str(self.edit), fix=fix))
        others = summed(world.pair_state, np.where(self.to >= 0, visits, 0), mdp.n_states)[world.pair_state]
        if self.edit.do is None and not (others[meant] > 0).any():
            message = (
                f"the rule touches nobody: where {self.condition}, nothing but {self.edit.instead_of} is ever done"
            )
            raise QueryError(Problem(message, value=str(self.edit), fix=f"say what to do there, with do=; {fix}"))
        asked = self.to[self.touched & (visits > 0)]
        if asked.size == 0 or (learned and self.edit.do is not None and not visits[asked].any()):
            message = f"where {self.condition}, nobody ever did {self.edit.do}: the log cannot say what it leads to"
            raise QueryError(Problem(message, value=self.edit.do, fix=fix))


def usual_shares(world: RuleWorld, visits: Ints) -> Floats:
    """Usual practice, π_b(a|s) = n_sa / n_s; each action equally where nobody ever was."""
    n = summed(world.pair_state, visits, world.mdp.n_states)[world.pair_state]
    width = np.diff(world.mdp.form.pair_start)[world.pair_state]
    return np.where(n > 0, visits / np.maximum(n, 1), 1.0 / width)


def apply_rules(usual: Floats, pair_state: Ints, rules: Sequence[Candidate]) -> Any:
    """K of some rules, one after the other, as a sparse matrix."""
    from scipy import sparse

    n = usual.size
    found = sparse.identity(n, format="csr")
    for rule in rules:
        share = usual if found.nnz == n else np.asarray(usual @ found).ravel()
        rows, columns, values = [], [], []
        plain = np.flatnonzero(rule.to >= 0)
        rows, columns, values = [plain], [rule.to[plain]], [np.ones(plain.size)]
        for x in np.flatnonzero(rule.to < 0).tolist():
            own = np.flatnonzero(pair_state == pair_state[x])
            others = own[(rule.to[own] >= 0)]
            weight = share[others]
            if weight.sum() <= 0:  # nothing else is ever done there
                others, weight = np.array([x]), np.ones(1)
            rows.append(np.full(others.size, x))
            columns.append(others)
            values.append(weight / weight.sum())
        arrays = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        found = (found @ sparse.csr_matrix(arrays, shape=(n, n))).tocsr()
    return found


def practice_of(usual: Floats, ruled: Any) -> Practice:
    """Usual practice changed by K, as replays take it."""
    matrix = ruled.tocsr()
    matrix.sum_duplicates()
    matrix.sort_indices()
    count = np.diff(matrix.indptr)
    stays = (count == 1) & (matrix.indices[matrix.indptr[:-1]] == np.arange(usual.size))
    kept = np.repeat(~stays, count)
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(stays, 0, count), dtype=np.int64)))
    share = np.asarray(usual @ matrix).ravel()
    return Practice(share, start, matrix.indices[kept].astype(np.int64), matrix.data[kept].astype(np.float64))


@dataclass(frozen=True, eq=False)
class Values:
    """What a practice is worth in the plain model, and where it leads; larger is better.

    Attributes
    ----------
    world : RuleWorld
    mdp : MDP
        The model whose rows count: that of the world, or one that was learned from a part of the log.
    share : array (pairs,)
    """

    world: RuleWorld
    mdp: MDP
    share: Floats

    @cached_property
    def _tables(self) -> dict[int, list[Floats]]:
        return {}

    def tables(self, horizon: int) -> list[Floats]:
        """V_t of every state, t = 0 … horizon."""
        timed = self.world.worth.reward.shape[0] > 1
        if not timed:
            steps = max(horizon, self.world.horizon)
            if steps not in self._tables:
                self._tables[steps] = self._solve(steps)
            every = self._tables[steps]
            return every[steps - horizon :]
        if horizon not in self._tables:
            self._tables[horizon] = self._solve(horizon)
        return self._tables[horizon]

    def _solve(self, horizon: int) -> list[Floats]:
        worth, found = self.world.worth, []
        value = worth.final.copy()
        found.append(value)
        over = self.world.is_over
        states = np.flatnonzero(over)
        for t in range(horizon - 1, -1, -1):
            value = summed(self.world.pair_state, self.share * self.action_values(t, value), value.size)
            value[states] = self.world.at_end(states, np.full(states.size, horizon - t))
            found.append(value)
        return found[::-1]

    def action_values(self, t: int, after: Floats) -> Floats:
        """Q_t of every pair, from V_{t + 1}."""
        worth, form = self.world.worth, self.mdp.form
        reward = worth.reward[t if worth.reward.shape[0] > 1 else 0]
        onward = form.probability * worth.discount * after[form.next_state]
        if worth.by_entry:
            onward = onward + form.probability * reward
        found: Floats = np.add.reduceat(onward, form.row_start[:-1])
        return found if worth.by_entry else found + reward

    def of_starts(self, state: Ints, horizon: Ints) -> Floats:
        """The value of beginning in each of some states, with so many steps."""
        found = np.empty(state.size)
        for steps in np.unique(horizon).tolist():
            some = horizon == steps
            found[some] = self.tables(steps)[0][state[some]]
        return found

    def occupancy(self, state: Ints, weight: Floats, horizon: int) -> list[Floats]:
        """The probability of each state at t = 0 … horizon - 1, from some first states; 0 where all is over."""
        form, over = self.mdp.form, self.world.is_over
        chance = summed(state, weight / weight.sum(), self.world.mdp.n_states)
        entry_share = np.repeat(np.arange(self.share.size), np.diff(form.row_start))
        found = []
        for _ in range(horizon):
            chance = np.where(over, 0.0, chance)
            found.append(chance)
            taken = self.share * chance[self.world.pair_state]
            chance = summed(form.next_state, taken[entry_share] * form.probability, chance.size)
        return found

    def end_chances(self, states: Flags, first: Ints, horizon: Ints) -> Floats:
        """The chance to end in some states, of each of some first states with so many steps."""
        form, found = self.mdp.form, np.empty(first.size)
        value = states.astype(float)
        for k in range(int(horizon.max(initial=0)) + 1):
            if k:
                after = np.add.reduceat(form.probability * value[form.next_state], form.row_start[:-1])
                new = summed(self.world.pair_state, self.share * after, value.size)
                value = np.where(self.world.is_over, value, new)
            found[horizon == k] = value[first[horizon == k]]
        return found

    def end_chance(self, states: Flags, first: Ints, horizon: Ints, weight: Floats) -> float:
        """The mean chance to end in some states, from some first states with these weights."""
        return float(weight @ self.end_chances(states, first, horizon) / weight.sum())
