"""Models of hidden types from a log: of types that some episodes name, or of types that only their courses tell apart.

All types share the transitions of one model of the whole log (`tether.learn`). The row of a type is drawn towards the
row of all,

    P_z(j|s,a) = (n_z(s,a,j) + α·P(j|s,a)) / (n_z(s,a) + α)

as if α more steps of everybody had been seen: a pair that a type never took has the row of all. With ``by`` the counts
are those of the episodes of a type. With ``k`` nobody knows who is of which type, and expectation-maximisation finds
models for which the log is likely: each episode counts for a type with the probability that it is of it,

    ρ_z ∝ w_z·Π_t P_z(s_{t+1}|s_t,a_t)

from several random starts; the likeliest result is kept. An episode of a single step says nothing of a type that
stays: what one step leads to is a mixture that any models explain. So there must be episodes of two steps or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether._foundation.words import counted, percent
from tether.errors import Problem, QueryError
from tether.io.datasets import read_if_dataset
from tether.io.logs import read_episodes
from tether.io.names_as_text import text_of
from tether.learning.learn import learn
from tether.logs.extra_columns import ExtraColumns
from tether.mdp import MDP
from tether.model.form import all_pair_states
from tether.model.names import plain
from tether.model.several_types import Types
from tether.observation.episodes import Episodes
from tether.observation.path import Path
from tether.plan.policy import shares_of_pairs

__all__ = ["LearnedTypes", "learn_types"]

_SETTLED = 1e-8
"""EM stops when the log-likelihood of a step of the log grows by less than this."""

_MOST_ROUNDS = 500


class LearnedTypes(Types, Displayed):
    """Types that were learned from a log; made by `tether.learn_types`. A `tether.Types`, and what it rests on.

    Attributes
    ----------
    shares : mapping of name to float
        How frequent each type is in the log.
    responsibilities : array (episodes, types)
        How likely each episode of the log is of each type; 0 and 1 with ``by``.
    log_likelihood : float
        Of the outcomes of the log.
    bic : mapping of int to float
        For each number of types up to ``k``, the Bayesian information criterion: smaller is better. Empty with ``by``.
    stability : float or None
        The log in two halves by episode, models of each half: the share of all episodes that both call the same type.
    by_chance : float or None
        What that share would be if the two said nothing of each other.
    starts : int
        From how many random starts it was searched.
    reached : int
        How many of them came to the same likelihood as the best.

    Examples
    --------
    >>> import tether
    >>> sick = lambda rate, seed: tether.MDP.from_table(
    ...     ["sick"] * 2, ["wait"] * 2, ["sick", "well"], [rate, 1 - rate], terminal=["well"]
    ... ).simulate("random", 12, rng=seed, start="sick")
    >>> log = [sick(0.95 if seed % 2 else 0.1, seed) for seed in range(80)]
    >>> types = tether.learn_types(log, k=2)
    >>> types
    <Types: type 1 54 %, type 2 46 %>
    >>> types.best_k, types.stability > types.by_chance
    (2, True)
    """

    shares: Mapping[str, float]
    responsibilities: Floats
    log_likelihood: float
    bic: Mapping[int, float]
    stability: float | None
    by_chance: float | None
    starts: int
    reached: int
    by: str | None

    @property
    def best_k(self) -> int | None:
        """The number of types with the smallest criterion, of those that were tried; None with ``by``."""
        return min(self.bic, key=self.bic.__getitem__) if self.bic else None

    def sentences(self) -> list[str]:
        """What was learned, and how far to trust it."""
        listed = ", ".join(f"{name} ({percent(share)})" for name, share in self.shares.items())
        n = counted(len(self.responsibilities), "episode")
        if self.by is not None:
            return [f"{n} of the types {listed}, as their {self.by} says."]
        k = len(self.models)
        said = [f"{n}; {counted(k, 'type')} that nobody recorded: {listed}."]
        tried = ", ".join(f"{value:,.1f} for {size}" for size, value in self.bic.items())
        better = "" if self.best_k == k else f" The log does not show {k} types: {self.best_k} explain it better."
        said.append(f"The Bayesian information criterion is {tried} (smaller is better).{better}")
        if self.stability is not None and self.by_chance is not None:
            said.append(
                f"Learned from two halves of the log apart, they agree on {percent(self.stability)} of the episodes; "
                f"by chance it would be {percent(self.by_chance)}."
            )
        said.append(f"{self.reached} of {self.starts} random starts came to this result.")
        return said

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def learn_types(
    episodes: Any,
    k: int | None = None,
    *,
    by: str | Mapping[Any, Any] | Sequence[Any] | None = None,
    prior: float = 1.0,
    starts: int = 10,
    seed: int = 0,
    by_first_state: bool = False,
    **reading: Any,
) -> LearnedTypes:
    """Learn models of several types from a log.

    Parameters
    ----------
    episodes : Episodes, paths, or the name of a log
        As `tether.learn` takes them.
    k : int, optional
        How many types nobody recorded: they are found by expectation-maximisation.
    by : str, mapping or sequence, optional
        What says the type, and stays the same during an episode: a part of the states, ``"diabetes"``, which the models
        of the types leave out; or a further column of a log that is a file or a table. Or the type of each episode
        itself: by its name, or in the order of the log. Give ``by`` or ``k``.
    prior : float
        α: how many steps of everybody count in each row of a type.
    starts, seed : int
        With ``k``: from how many random starts to search, and the seed of the first.
    by_first_state : bool
        Whether how frequent types are depends on the first state of an episode.
    **reading
        Further arguments of `tether.learn`: ``rewards``, ``empty_rewards``, ``columns``, …

    Examples
    --------
    >>> import tether
    >>> from collections import namedtuple
    >>> State = namedtuple("State", ["health", "diabetes"])
    >>> log = [
    ...     tether.Path([State("sick", diabetic), State(end, diabetic)], ["wait"])
    ...     for diabetic, ends in ((True, ["dead"] * 3 + ["well"]), (False, ["dead"] + ["well"] * 3))
    ...     for end in ends
    ... ]
    >>> types = tether.learn_types(log, by="diabetes")
    >>> types
    <Types: diabetes = False 50 %, diabetes = True 50 %>
    >>> types.models["diabetes = True"].row(("sick",), "wait")
    ((State(health='dead'), State(health='well')), array([0.7, 0.3]))

    The type may also be a further column of the log, which is not a part of the states:

    >>> import pandas as pd
    >>> ends = ["d", "w", "w", "w", "d", "d", "d", "w"]
    >>> rows = [(i, t, state, "wait", i > 3) for i, end in enumerate(ends) for t, state in enumerate(["s", end])]
    >>> table = pd.DataFrame(rows, columns=["episode", "t", "state", "action", "frail"])
    >>> tether.learn_types(table, by="frail").models["frail = True"].row("s", "wait")
    (('d', 'w'), array([0.7, 0.3]))

    Of paths the types can be given beside them:

    >>> paths = [tether.Path(["s", end], ["wait"]) for end in ends]
    >>> tether.learn_types(paths, by=["robust"] * 4 + ["frail"] * 4)
    <Types: frail 50 %, robust 50 %>
    """
    if (by is None) == (k is None):
        raise QueryError(
            "give by=, a part of the states or a column that says the type, or k=, how many types nobody recorded"
        )
    if not isinstance(prior, int | float) or isinstance(prior, bool) or not prior > 0:
        raise QueryError(Problem("prior is a number above 0: how many steps of everybody count in a row", value=prior))
    log = _opened(episodes, reading)
    groups = None
    if by is not None:
        log, groups = _by_type(episodes, log, by, reading)
    mdp = learn(log, **{name: one for name, one in reading.items() if name in _LEARNING})
    steps = _Steps.of(log, mdp, float(prior))
    if groups is not None:
        names = sorted(set(groups), key=repr)
        labels = [f"{by} = {name}" if isinstance(by, str) else str(name) for name in names]
        certain = np.array([[float(group == name) for name in names] for group in groups])
        fitted = _Fitted(*steps.models_of(certain), certain, 0.0)
        fitted = replace(fitted, log_likelihood=steps.likelihood(fitted))
        return _made(mdp, fitted, labels, steps, by_first_state, by=by if isinstance(by, str) else "type")
    k = whole_number("k", k, 1)
    starts, seed = whole_number("starts", starts, 1), whole_number("seed", seed, 0)
    steps.check_informative(k)
    tried = {size: steps.search(size, starts, seed) for size in range(1, k + 1)}
    best, reached = tried[k]
    bic = {size: steps.bic(one, size) for size, (one, _) in tried.items()}
    stability, by_chance = steps.stability(k, starts, seed) if k > 1 else (None, None)
    order = np.argsort(-best.weights, kind="stable")
    best = replace(best, weights=best.weights[order], rows=best.rows[order], shares=best.shares[:, order])
    names = [f"type {i + 1}" for i in range(k)]
    about = {"bic": bic, "stability": stability, "by_chance": by_chance, "starts": starts, "reached": reached}
    return _made(mdp, best, names, steps, by_first_state, **about)


_LEARNING = ("rewards", "empty_rewards", "states", "actions", "end", "minimum")
_READING = ("columns", "time", "step", "decimal", "encoding", "day_first", "fold_case")


def _opened(episodes: Any, reading: Mapping[str, Any]) -> Episodes:
    unknown = [name for name in reading if name not in (*_LEARNING, *_READING)]
    if unknown:
        raise QueryError(f"learn_types has no argument {unknown[0]!r}")
    episodes = read_if_dataset(episodes)
    if isinstance(episodes, Episodes):
        return episodes
    how = {name: one for name, one in reading.items() if name in _READING}
    if (isinstance(episodes, Mapping) and not _is_table(episodes)) or (isinstance(episodes, list | tuple) and episodes):
        return Episodes.from_paths(episodes)
    return read_episodes(episodes, **how)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Weights and rows (types, entries) of models, and how likely each episode is of each type."""

    weights: Floats
    rows: Floats
    shares: Floats
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class _Steps:
    """The recorded steps of a log as entries of its model, each with its episode."""

    n: int
    episode: Ints
    entry: Ints
    owner: Ints
    everybody: Floats
    prior: float
    first: tuple[Any, ...]

    @classmethod
    def of(cls, log: Episodes, mdp: MDP, prior: float) -> _Steps:
        form = mdp.form
        pair_of = all_pair_states(form.row_start)
        keys = pair_of * mdp.n_states + form.next_state
        episode, entry, first = [], [], []
        for i, name in enumerate(log):
            seen = log.observation(name, mdp)
            first.append(mdp.states[int(seen.states[0])])
            known = np.flatnonzero(seen.states[1:] >= 0)
            episode.append(np.full(known.size, i))
            entry.append(
                np.searchsorted(keys, seen.pairs[known].astype(np.int64) * mdp.n_states + seen.states[1:][known])
            )
        joined = np.concatenate(episode), np.concatenate(entry)
        return cls(len(log), *joined, pair_of, form.probability, prior, tuple(first))

    def check_informative(self, k: int) -> None:
        """Two steps or more must say something: outcomes of pairs that have several."""
        several = np.bincount(self.owner)[self.owner[self.entry]] > 1
        if k > 1 and np.bincount(self.episode[several], minlength=self.n).max(initial=0) < 2:
            raise QueryError(
                "no episode has two steps whose outcome could have been another: nothing tells hidden types apart. If "
                "a part of the states says the type, give by="
            )

    def models_of(self, shares: Floats) -> tuple[Floats, Floats]:
        """Weights and rows if each episode is of each type with some probability."""
        rows = np.empty((shares.shape[1], self.everybody.size))
        for z in range(shares.shape[1]):
            seen = np.bincount(self.entry, shares[self.episode, z], minlength=self.everybody.size)
            total = np.bincount(self.owner, seen)
            rows[z] = (seen + self.prior * self.everybody) / (total + self.prior)[self.owner]
        weights: Floats = shares.mean(axis=0)
        return weights, rows

    def _logs(self, weights: Floats, rows: Floats) -> Floats:
        """Log w_z + Σ_t log P_z(s_{t+1}|s_t,a_t) of each episode and type."""
        with np.errstate(divide="ignore"):
            each = np.log(rows)[:, self.entry]
            found = np.stack([np.bincount(self.episode, one, minlength=self.n) for one in each], axis=1)
            made: Floats = (found + np.log(weights)).astype(np.float64)
        return made

    def likelihood(self, fitted: _Fitted) -> float:
        """The log-likelihood of the log, if the types of its episodes are known."""
        logs = self._logs(fitted.weights, fitted.rows)
        return float(logs[fitted.shares > 0.5].sum())

    def responsible(self, weights: Floats, rows: Floats) -> tuple[Floats, float]:
        """How likely each episode is of each type, and the log-likelihood of the log."""
        logs = self._logs(weights, rows)
        most = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - most)
        total = shares.sum(axis=1, keepdims=True)
        return shares / total, float((most + np.log(total)).sum())

    def _penalty(self, rows: Floats) -> float:
        """What the prior adds to the log-likelihood that EM makes larger."""
        return self.prior * float((self.everybody * np.log(rows)).sum())

    def maximise(self, shares: Floats) -> _Fitted:
        """EM from some first probabilities until nothing grows."""
        last, weights, rows = -np.inf, *self.models_of(shares)
        for _ in range(_MOST_ROUNDS):
            shares, found = self.responsible(weights, rows)
            aim = found + self._penalty(rows)
            if aim - last <= _SETTLED * max(1, self.entry.size):
                break
            last = aim
            weights, rows = self.models_of(shares)
        return _Fitted(weights, rows, shares, found)

    def search(self, k: int, starts: int, seed: int) -> tuple[_Fitted, int]:
        """The likeliest of several starts, and how many came to it."""
        if k == 1:
            return self.maximise(np.ones((self.n, 1))), starts
        rng = np.random.default_rng(seed)
        found = [self.maximise(rng.dirichlet(np.ones(k), size=self.n)) for _ in range(starts)]
        aims = np.array([one.log_likelihood + self._penalty(one.rows) for one in found])
        near = 1e-4 * max(1.0, self.entry.size / 100.0)
        return found[int(np.argmax(aims))], int((aims >= aims.max() - near).sum())

    def bic(self, fitted: _Fitted, k: int) -> float:
        """-2 log L + p·log n, with a parameter for each outcome of each pair but one, for each type; n: episodes."""
        pairs_seen = np.unique(self.owner[self.entry])
        of_rows = int((np.bincount(self.owner)[pairs_seen] - 1).sum())
        return -2.0 * fitted.log_likelihood + (k * of_rows + k - 1) * float(np.log(self.n))

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
            fitted, _ = own.search(k, starts, seed)
            called.append(self.responsible(fitted.weights, fitted.rows)[0].argmax(axis=1))
        table = np.zeros((k, k))
        np.add.at(table, tuple(called), 1.0 / self.n)
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(-table)
        chance = float(table.sum(axis=1)[rows] @ table.sum(axis=0)[columns])
        return float(table[rows, columns].sum()), chance


def _made(
    mdp: MDP, fitted: _Fitted, names: list[str], steps: _Steps, by_first_state: bool, **about: Any
) -> LearnedTypes:
    models = {
        name: replace(mdp, form=replace(mdp.form, probability=rows), counts=None)
        for name, rows in zip(names, fitted.rows, strict=True)
    }
    prior: dict[str, Any] = {name: float(share) for name, share in zip(names, fitted.weights, strict=True)}
    if by_first_state:
        groups: dict[Any, list[int]] = {}
        for i, state in enumerate(steps.first):
            groups.setdefault(state, []).append(i)
        means = {state: fitted.shares[some].mean(axis=0) for state, some in groups.items()}
        prior = {name: {state: float(mean[z]) for state, mean in means.items()} for z, name in enumerate(names)}
    made = LearnedTypes(models, prior)
    made.usual = shares_of_pairs(mdp)
    made.shares = {name: float(share) for name, share in zip(names, fitted.weights, strict=True)}
    made.responsibilities, made.log_likelihood = fitted.shares, fitted.log_likelihood
    made.bic, made.by = about.get("bic", {}), about.get("by")
    made.stability, made.by_chance = about.get("stability"), about.get("by_chance")
    made.starts, made.reached = about.get("starts", 0), about.get("reached", 0)
    return made


def _is_table(given: Any) -> bool:
    """Whether a mapping has columns; otherwise it has paths."""
    return isinstance(given, Mapping) and {"state", "action"} <= {*map(str, given)}


def _by_type(
    given: Any, log: Episodes, by: str | Mapping[Any, Any] | Sequence[Any], reading: Mapping[str, Any]
) -> tuple[Episodes, list[Any]]:
    """The episodes with states that do not say the type, and the type of each."""
    if not isinstance(by, str):
        return log, _given_types(log, by)
    in_memory = isinstance(given, Episodes | Mapping | list | tuple) and not _is_table(given)
    if by in _names(log.states[0]) or in_memory:
        return _without(log, by)
    values = ExtraColumns(given, reading).read(by, fixed=True)
    unknown = [name for name in log if text_of(name) not in values]
    if unknown:
        message = f"{counted(len(unknown), 'episode')} without a value of {by}, the first is {unknown[0]!r}"
        raise QueryError(Problem(message, value=by, fix="leave such episodes out, or give the unknown a name"))
    return log, [values[text_of(name)] for name in log]


def _given_types(log: Episodes, by: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
    """The type of each episode, given by its name or in the order of the log."""
    if isinstance(by, Mapping):
        unknown = [name for name in log if name not in by]
        if unknown:
            message = f"{counted(len(unknown), 'episode')} without a type in by=, the first is {unknown[0]!r}"
            raise QueryError(Problem(message, value=unknown[0], fix="name the type of every episode"))
        return [by[name] for name in log]
    found = plain(by)
    if len(found) != len(log):
        message = f"by= has {counted(len(found), 'type')} for {counted(len(log), 'episode')}"
        raise QueryError(Problem(message, fix="give the type of each episode, in the order of the log"))
    return found


def _without(log: Episodes, by: str) -> tuple[Episodes, list[Any]]:
    """The episodes with states that leave a part out, and what the part says of each episode."""
    kinds: dict[type, type] = {}
    paths, groups = {}, []
    for name, path in log.items():
        values = {_part(state, by) for state in path.states}
        if len(values) != 1:
            listed = ", ".join(sorted(map(repr, values)))
            raise QueryError(
                Problem(
                    f"episode {name!r}: {by} changes ({listed}); a type stays the same during an episode", value=name
                )
            )
        groups.append(values.pop())
        states = [_left(state, by, kinds) for state in path.states]
        paths[name] = Path(states, path.actions, path.rewards, path.outcome)
    return Episodes.from_paths(paths), groups


def _names(state: Any) -> list[str]:
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return list(state._fields)
    if is_dataclass(state) and not isinstance(state, type):
        return [one.name for one in fields(state)]
    return []


def _part(state: Any, by: str) -> Any:
    if by not in _names(state):
        known = ", ".join(_names(state)) or "no parts with names"
        raise QueryError(Problem(f"state {state!r} has no part {by!r}; it has {known}", state=state, value=by))
    return getattr(state, by)


def _left(state: Any, by: str, kinds: dict[type, type]) -> Any:
    """A state without one of its parts: a named tuple of the others."""
    from collections import namedtuple

    kind = type(state)
    names = [name for name in _names(state) if name != by]
    if kind not in kinds:
        if not names:
            raise QueryError(Problem(f"the states have no part but {by}; nothing would be left of them", value=by))
        kinds[kind] = namedtuple(kind.__name__, names)
    return kinds[kind](*(getattr(state, name) for name in names))
