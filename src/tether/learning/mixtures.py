"""Types that nobody recorded, from what the episodes of a log have in common: expectation-maximisation.

Each episode counts for a type with the probability that it is of it, and the rows of a type are its counts and α steps
of everybody,

    ρ_z ∝ w_z·Π_t P_z(s_{t+1}|s_t,a_t)          P_z(j|s,a) = (n_z(s,a,j) + α·P(j|s,a)) / (n_z(s,a) + α)

one after the other, from several random starts; the likeliest result is kept. Rows of every action are many numbers:
among them types could be found that are nothing but the chance by which an action did well in some episodes and badly
in others. So rows of states, the same for all their actions, are tried as well, and the Bayesian information criterion
chooses. An episode of a single step says nothing of a type that stays: what one step leads to is a mixture that any
models explain. So there must be episodes of two steps or more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import QueryError
from tether.learning.learn import relearned
from tether.mdp import MDP
from tether.model.pooling import state_counts
from tether.model.practice import learned_counts
from tether.observation.episodes import Episodes

_SETTLED = 1e-8
"""EM stops when the log-likelihood of a step of the log grows by less than this."""

_MOST_ROUNDS = 500


@dataclass(frozen=True, eq=False)
class Grain:
    """Which entries of a model have a probability in common: those of a row each its own, or those of all actions.

    Attributes
    ----------
    cell : array (entries,)
        The number that each entry counts for.
    owner : array (entries,)
        The row of numbers that it is in: that of its pair, or of its state.
    everybody : array (entries,)
        The probability in the whole log.
    """

    cell: Ints
    owner: Ints
    everybody: Floats

    def rows(self, seen: Floats, prior: float) -> Floats:
        """The probability of each entry, from how often each was seen."""
        together, total = np.bincount(self.cell, seen)[self.cell], np.bincount(self.owner, seen)[self.owner]
        found: Floats = (together + prior * self.everybody) / (total + prior)
        return found

    def once(self) -> Ints:
        """Indices of the first occurrence of each number."""
        return np.unique(self.cell, return_index=True)[1]

    def free(self, entry: Ints) -> int:
        """How many free numbers rows have of which an entry was seen: one less than outcomes, for each."""
        outcomes = np.bincount(self.owner[self.once()])
        return int((outcomes[np.unique(self.owner[entry])] - 1).sum())


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights and rows (types, entries) of models, and how likely each episode is of each type.

    ``bic`` is -2 log L + p·log n, with the p free numbers of the rows of all types, and of the weights; n: episodes.
    """

    weights: Floats
    rows: Floats
    shares: Floats
    log_likelihood: float
    bic: float = np.inf
    reached: int = 1

    def by_weight(self) -> Fitted:
        """The types in the order of how frequent they are, the most frequent first."""
        order = np.argsort(-self.weights, kind="stable")
        return replace(self, weights=self.weights[order], rows=self.rows[order], shares=self.shares[:, order])


@dataclass(frozen=True, eq=False)
class Steps:
    """The recorded steps of a log as entries of its model, each with its episode."""

    n: int
    episode: Ints
    entry: Ints
    by_pair: Grain
    by_state: Grain
    prior: float
    first: tuple[Any, ...]

    @classmethod
    def of(cls, log: Episodes, mdp: MDP, prior: float) -> Steps:
        """The steps of a log, in the indices of its model."""
        form, of_states = mdp.form, state_counts(mdp.form, learned_counts(mdp).transitions)
        keys = of_states.entry_pair * mdp.n_states + form.next_state
        episode, entry, first = [], [], []
        for i, name in enumerate(log):
            seen = log.observation(name, mdp)
            first.append(mdp.states[int(seen.states[0])])
            known = np.flatnonzero(seen.states[1:] >= 0)
            episode.append(np.full(known.size, i))
            entry.append(
                np.searchsorted(keys, seen.pairs[known].astype(np.int64) * mdp.n_states + seen.states[1:][known])
            )
        by_pair = Grain(np.arange(keys.size), of_states.entry_pair, form.probability)
        state = of_states.pair_state[of_states.entry_pair]
        by_state = Grain(of_states.group, state, of_states.share[of_states.group])
        joined = np.concatenate(episode), np.concatenate(entry)
        return cls(len(log), *joined, by_pair, by_state, prior, tuple(first))

    def check_informative(self, k: int) -> None:
        """Two steps or more must say something: outcomes of pairs that have several."""
        owner = self.by_pair.owner
        several = np.bincount(owner)[owner[self.entry]] > 1
        if k > 1 and np.bincount(self.episode[several], minlength=self.n).max(initial=0) < 2:
            raise QueryError(
                "no episode has two steps whose outcome could have been another: nothing tells hidden types apart. If "
                "a part of the states says the type, give by="
            )

    def _seen(self, shares: Floats) -> Floats:
        """How often each entry was seen, if each episode counts with a share."""
        found: Floats = np.bincount(self.entry, shares[self.episode], minlength=self.by_pair.cell.size).astype(
            np.float64
        )
        return found

    def rows_of(self, shares: Floats, grain: Grain) -> Floats:
        """Rows (types, entries), if each episode is of each type with some probability."""
        return np.stack([grain.rows(self._seen(of_type), self.prior) for of_type in shares.T])

    def known(self, shares: Floats) -> Fitted:
        """Types that are known: ``shares`` are 0 and 1."""
        weights, rows = shares.mean(axis=0), self.rows_of(shares, self.by_pair)
        return Fitted(weights, rows, shares, float(self._logs(weights, rows)[shares > 0.5].sum()))

    def model_of(self, mdp: MDP, shares: Floats) -> MDP:
        """The pooled model of a type, if each episode is of it with some probability; its counts are not whole."""
        everybody, state = learned_counts(mdp).transitions, self.by_state.owner
        of_state = np.bincount(state, everybody)[state]
        shared = self.prior * everybody / np.maximum(of_state, 1)
        return relearned(mdp, self._seen(shares) + shared, round(float(shares.sum())))

    def _logs(self, weights: Floats, rows: Floats) -> Floats:
        """Log w_z + Σ_t log P_z(s_{t+1}|s_t,a_t) of each episode and type."""
        with np.errstate(divide="ignore"):
            each = np.log(rows)[:, self.entry]
            found = np.stack([np.bincount(self.episode, one, minlength=self.n) for one in each], axis=1)
            made: Floats = (found + np.log(weights)).astype(np.float64)
        return made

    def responsible(self, weights: Floats, rows: Floats) -> tuple[Floats, float]:
        """How likely each episode is of each type, and the log-likelihood of the log."""
        logs = self._logs(weights, rows)
        most = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - most)
        total = shares.sum(axis=1, keepdims=True)
        return shares / total, float((most + np.log(total)).sum())

    def _aim(self, log_likelihood: float, rows: Floats, grain: Grain) -> float:
        """What EM makes larger: the log-likelihood, and what the prior adds to it."""
        once = grain.once()
        return log_likelihood + self.prior * float((grain.everybody * np.log(rows))[:, once].sum())

    def maximise(self, shares: Floats, grain: Grain) -> tuple[Fitted, float]:
        """EM from some first probabilities until nothing grows, and what it made largest."""
        last, weights, rows = -np.inf, shares.mean(axis=0), self.rows_of(shares, grain)
        for _ in range(_MOST_ROUNDS):
            shares, found = self.responsible(weights, rows)
            aim = self._aim(found, rows, grain)
            if aim - last <= _SETTLED * max(1, self.entry.size):
                break
            last = aim
            weights, rows = shares.mean(axis=0), self.rows_of(shares, grain)
        free = weights.size * grain.free(self.entry) + weights.size - 1
        return Fitted(weights, rows, shares, found, free * float(np.log(self.n)) - 2.0 * found), aim

    def search(self, k: int, starts: int, seed: int) -> Fitted:
        """The likeliest of several starts, with rows of actions or of states, by the smaller criterion."""
        return min((self._search(k, starts, seed, one) for one in (self.by_pair, self.by_state)), key=lambda x: x.bic)

    def _search(self, k: int, starts: int, seed: int, grain: Grain) -> Fitted:
        if k == 1:
            return replace(self.maximise(np.ones((self.n, 1)), grain)[0], reached=starts)
        rng = np.random.default_rng(seed)
        found = [self.maximise(rng.dirichlet(np.ones(k), size=self.n), grain) for _ in range(starts)]
        aims = np.array([aim for _, aim in found])
        near = 1e-4 * max(1.0, self.entry.size / 100.0)
        return replace(found[int(np.argmax(aims))][0], reached=int((aims >= aims.max() - near).sum()))

    def stability(self, k: int, starts: int, seed: int) -> tuple[float | None, float | None]:
        """The share of episodes that models of two halves call the same type, and what it would be by chance."""
        order = np.random.default_rng(seed).permutation(self.n)
        if self.n < 4:
            return None, None
        called = []
        for half in (order[: self.n // 2], order[self.n // 2 :]):
            place = np.full(self.n, -1)
            place[half] = np.arange(half.size)
            kept = place[self.episode] >= 0
            own = replace(self, n=half.size, episode=place[self.episode[kept]], entry=self.entry[kept])
            fitted = own.search(k, starts, seed)
            called.append(self.responsible(fitted.weights, fitted.rows)[0].argmax(axis=1))
        table = np.zeros((k, k))
        np.add.at(table, tuple(called), 1.0 / self.n)
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(-table)
        chance = float(table.sum(axis=1)[rows] @ table.sum(axis=0)[columns])
        return float(table[rows, columns].sum()), chance
