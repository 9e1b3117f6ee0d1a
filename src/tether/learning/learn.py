"""Learning a model from episodes: count what each action led to, and turn counts into probabilities.

By default rows are pooled (`tether.model.pooling`): the row of an action is drawn towards that of its state, by as much
as the log demands, so that differences that chance alone would make are not taken for effects.

With a number α as the prior, rows are learned apart. With n(s,a,s') the number of times that a in s led to s', and α
the prior,

    P(s'|s,a) = (n(s,a,s') + α) / Σ_j (n(s,a,j) + α)        j over the possible outcomes of (s,a)

For α = 0 this is maximum likelihood. For α > 0 it is the mean of the Dirichlet posterior: as if, before the
log, every possible outcome of every pair had been seen α times. ``support`` says which outcomes are possible.

Nothing is invented that is not in the log. A pair that was not seen is not available. A state in which no action was
taken is terminal: absorbing, reward 0. A pair whose outcome was never recorded has its state's usual row, if rows are
pooled and its state has one; otherwise it leads to an end state, so that its episodes stay possible. If the log has a
column for how an episode ended, its last action leads there: an outcome such as "died" is a terminal state. The user
must say what an empty reward counts as. `MDP.learned` lists these pairs, states and rewards.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number
from tether.errors import ModelError, Problem, QueryError
from tether.io.datasets import read_if_dataset
from tether.io.logs import read_episodes
from tether.learning.kinds import Kinds, read_log
from tether.learning.learned_rewards import Earnings, fill_empty, mean_rewards, pooled_rewards
from tether.learning.prior import Support, Transitions, add_support, checked_prior, of_states
from tether.mdp import MDP
from tether.model.counts import Counts, Reading
from tether.model.form import TOLERANCE, Form, pair_states
from tether.model.from_table import form_from_codes
from tether.model.names import Names, make_names
from tether.model.pooling import pool, pooled_rows, state_counts
from tether.model.practice import learned_counts
from tether.observation.changes import absorbing
from tether.observation.episodes import Episodes
from tether.observation.path import Path


def learn(
    episodes: Episodes | Kinds | Iterable[Path] | Mapping[Any, Path] | str | os.PathLike[str] | Any,
    prior: float | Literal["pooled"] = "pooled",
    *,
    minimum: int = 1,
    support: Support | None = None,
    rewards: Literal["transition", "pair"] = "transition",
    empty_rewards: Literal["zero", "mean"] | None = None,
    states: Iterable[Any] | None = None,
    actions: Iterable[Any] | None = None,
    end: Any = "(end)",
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    decimal: str = ".",
    encoding: str = "",
    day_first: bool = False,
    fold_case: bool = False,
    skip_broken: bool = False,
) -> MDP:
    """Learn a model from observed episodes.

    Parameters
    ----------
    episodes : Episodes, paths, a dataframe, a dataset, or the name of a log
        What happened. A file or a dataframe (pandas, polars, Arrow) is read as by `tether.io.read_episodes`; a large
        file, or a directory of Parquet files, is read piece by piece, so that it need not fit into memory. A dataset of
        Minari or d3rlpy is read as by `tether.io.from_dataset`. Outcomes of episodes, if there are any, become terminal
        states, in place of the last states.
    prior : "pooled" or float
        "pooled": the row of an action is drawn towards the pooled row of its state, by as much as the log as a whole
        demands; ``mdp.learned.pooling`` says how far. What followed any action of a state may follow all. Values are
        needed to measure effects, so rows are pooled again by `MDP.with_objective`.
        A number is a pseudo-count α, for rows that are learned apart: each possible outcome of a pair counts as seen
        α times more. 0: maximum likelihood. 1: every distribution over the possible outcomes was equally likely before
        the log (Laplace); 0.5 is Jeffreys' choice.
    minimum : int
        A pair seen fewer times may not be advised (``mdp.learned.advisable``). It stays in the model.
    support : {"seen", "all"}, MDP or callable, optional
        With a number as prior: which outcomes of a pair are possible, and so get it. Those that were seen (the default;
        the model stays sparse); all states (it does not); those that another model gives the pair; or those that
        ``support(state, action)`` lists. Outcomes that were seen are always possible. Be careful with "all": every row
        then shares an outcome with the observed one, the influence test `support` is always passed, and k limits
        nothing; use `tether.effective`.
    rewards : {"transition", "pair"}
        Mean rewards of each transition, R(s,a,s'), or of each pair, R(s,a), in the log. A transition that only the
        prior makes possible has the mean of its pair.
    empty_rewards : {"zero", "mean"}, optional
        What an empty reward counts as: 0; or the mean of the same transition (of the same pair, if the transition has
        none; 0, if the pair has none). If only the last steps of episodes have rewards, empty ones count as 0. If other
        steps have rewards too, the meaning of an empty one is unclear: without this argument, learning stops with an
        error.
    states, actions : iterable of hashable, optional
        The names of the model, in their order; at least all names of the log.
    end : hashable
        Pairs whose outcome was never recorded lead to the terminal state of this name; pooled ones only if no outcome
        of any action was recorded in their state. It is added only if it is needed; it may be a state of the log in
        which no action was taken. None: pairs whose outcome was never recorded are not available.
    columns, time, step, decimal, encoding, day_first, fold_case
        How to read a file or a dataframe; see `tether.io.read_episodes`. For a file the model remembers it
        (``mdp.learned.reading``).
    skip_broken : bool
        Whether broken episodes of a file are left out, and counted; otherwise they are an error.

    Returns
    -------
    MDP
        With ``counts``: how often each of its transitions was seen; and ``learned``: what it is based on, in words.

    Examples
    --------
    >>> import tether
    >>> log = tether.Episodes.from_columns(
    ...     episode=[1, 1, 1, 2, 2],
    ...     t=[0, 1, 2, 0, 1],
    ...     state=["sick", "sick", "well", "sick", "well"],
    ...     action=["wait", "wait", None, "wait", None],
    ...     reward=[0, 10, None, 10, None],
    ... )
    >>> mdp = tether.learn(log)
    >>> mdp.row("sick", "wait")
    (('sick', 'well'), array([0.33333333, 0.66666667]))
    >>> tether.learn(log, prior=1).row("sick", "wait")
    (('sick', 'well'), array([0.4, 0.6]))
    >>> mdp.reward("sick", "wait", "well")
    10.0
    """
    reading = Reading.of(
        columns, time, step, decimal=decimal, encoding=encoding, day_first=day_first, fold_case=fold_case
    )
    log, skipped = _kinds(episodes, reading, skip_broken)
    flat = checked_prior(prior, support)
    minimum = whole_number("minimum", minimum, 1)
    if rewards not in ("transition", "pair"):
        raise QueryError(f"rewards must be 'transition' or 'pair', not {rewards!r}")
    earned, empty = fill_empty(log, empty_rewards)
    seen = _see(log, earned, states, actions, end is not None, flat is None)
    seen, dropped = seen.recorded(flat is None and end is not None)
    seen = seen.with_end(end, log)
    table = seen.tally()
    if flat is None:
        table = of_states(table, np.unique(seen.pair), len(seen.states), len(seen.actions))
    elif flat > 0:
        table = add_support(table, seen.states, seen.actions, seen.n_real, support)
    counts = Counts(
        np.empty(0, dtype=np.int64),
        flat or 0.0,
        episodes=log.episodes,
        steps=log.n_steps,
        unrecorded=log.unrecorded,
        minimum=minimum,
        dropped=dropped,
        end=seen.end,
        empty_rewards=empty,
        empty=0 if log.reward is None else int(log.times[np.isnan(log.reward)].sum()),
        unplaced=0 if rewards == "pair" else seen.unplaced,
        longest=log.longest,
        reading=reading if isinstance(episodes, str | os.PathLike) else None,
        skipped=skipped,
    )
    return _model(table, seen, rewards == "pair", counts, flat is None, log.outcomes)


def _kinds(episodes: Any, reading: Reading, skip_broken: bool) -> tuple[Kinds, int]:
    """The steps of a log, as they are counted; and how many broken episodes were left out."""
    skipped = 0
    episodes = read_if_dataset(episodes)
    if isinstance(episodes, str | os.PathLike):
        episodes, skipped = read_log(episodes, skip_broken, **reading.options)
    elif hasattr(episodes, "__arrow_c_stream__"):
        if skip_broken:
            raise QueryError("skip_broken is about files: leave broken episodes out of the dataframe")
        episodes = read_episodes(episodes, **reading.options)
    elif given := [*reading.options, *(["skip_broken"] if skip_broken else [])]:
        raise QueryError(f"{', '.join(given)} say how to read a file; these episodes are read already")
    if isinstance(episodes, Kinds):
        return episodes, skipped
    kinds = Kinds.of(episodes if isinstance(episodes, Episodes) else Episodes.from_paths(_paths(episodes)))
    return kinds, skipped


def _paths(episodes: Any) -> Any:
    if isinstance(episodes, Path) or not isinstance(episodes, Iterable):
        raise QueryError(f"expected Episodes, or a list of paths, not {type(episodes).__name__}: learn([path, …])")
    return episodes


_ENDS = -2
"""Outcome of a step that leads to the end state, because no outcome of its pair was ever recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Steps in the indices of the future model: pair = state · actions + action, and outcome, -1 if not recorded.

    Each occurs ``times`` times. ``end`` is the outcome of pairs whose outcome was never recorded, -1 if there are none.
    States from ``n_real`` on are not in the log.
    """

    states: Names
    actions: Names
    pair: Ints
    outcome: Ints
    reward: Floats | None
    given: Ints
    times: Ints
    n_real: int
    end: int = -1

    def recorded(self, pooled: bool) -> tuple[_Seen, Ints]:
        """The steps without those of pairs that have no outcome; and these pairs: state, action, 0.

        ``pooled``: such a pair is left only if its state has an outcome, of any action.
        """
        pairs, inverse = np.unique(self.pair, return_inverse=True)
        known = np.zeros(pairs.size, dtype=bool)
        known[inverse[self.outcome != -1]] = True
        if pooled:
            states = pairs // len(self.actions)
            known = np.isin(states, states[known])
        lost = pairs[~known]
        dropped = np.stack((*np.divmod(lost, len(self.actions)), np.zeros(lost.size, np.int64)), axis=1)
        if not lost.size:
            return self, dropped.astype(np.int64)
        kept = known[inverse]
        reward = None if self.reward is None else self.reward[kept]
        pair, outcome, given, times = (one[kept] for one in (self.pair, self.outcome, self.given, self.times))
        return replace(self, pair=pair, outcome=outcome, reward=reward, given=given, times=times), dropped

    def with_end(self, end: Any, log: Kinds) -> _Seen:
        """The steps with a state for the outcomes that were never recorded, if there are any left."""
        ends = self.outcome == _ENDS
        if not ends.any():
            return self
        there = log.states.find(end)
        if there >= 0 and np.any(log.state == there):
            message = (
                f"actions whose outcome was never recorded would lead to {end!r}, but the log has a state of that name "
                "in which an action was taken"
            )
            fix = "give the end another name (end='(over)'), or let such actions not be available (end=None)"
            raise ModelError(Problem(message, state=end, value=end, fix=fix, argument="end"))
        states = self.states if end in self.states else make_names([*self.states, end], None, "state")
        found = states.find(end)
        return replace(self, states=states, outcome=np.where(ends, found, self.outcome), end=found)

    @property
    def unplaced(self) -> int:
        """How many rewards of the log belong to no transition."""
        return int(self.times[self.given & (self.outcome < 0)].sum())

    def tally(self) -> Transitions:
        """Each transition once, with how often it was seen."""
        known = self.outcome >= 0
        key = self.pair[known] * len(self.states) + self.outcome[known]
        distinct, inverse = np.unique(key, return_inverse=True)
        return Transitions(*np.divmod(distinct, len(self.states)), _counted(inverse, self.times[known], distinct.size))


def _counted(group: Ints, times: Ints, size: int) -> Ints:
    """How often each group occurs."""
    found = np.zeros(size, dtype=np.int64)
    np.add.at(found, group, times)
    return found


def _see(log: Kinds, reward: Floats | None, states: Any, actions: Any, end: bool, pooled: bool) -> _Seen:
    """The steps in the indices of the model; with ``end``, an outcome for pairs (if ``pooled``, states) without one."""
    state_labels, to_state = _relabel(log.states, states, "state")
    action_labels, to_action = _relabel(log.actions, actions, "action")
    pair = to_state[log.state] * len(action_labels) + to_action[log.action]
    outcome = np.where(log.next_state >= 0, to_state[log.next_state], -1)
    if end:
        lost = outcome < 0
        owner = pair // len(action_labels) if pooled else pair
        outcome[np.flatnonzero(lost)[~np.isin(owner[lost], owner[~lost])]] = _ENDS
    given = np.zeros(pair.size, dtype=bool) if log.reward is None else ~np.isnan(log.reward)
    return _Seen(state_labels, action_labels, pair, outcome, reward, given, log.times, len(state_labels))


def _relabel(found: Names, given: Any, noun: str) -> tuple[Names, Ints]:
    """The names of the model, and the index there of each name of the log."""
    if given is None:
        return found, np.arange(len(found), dtype=np.int64)
    labels = make_names(given, None, noun)
    index = np.array([labels.find(label) for label in found], dtype=np.int64)
    missing = np.flatnonzero(index < 0)
    if missing.size:
        problems = [
            Problem(
                f"the {noun} {found[int(i)]!r} of the log is not among the names given by {noun}s="
                + labels.near(found[int(i)]),
                value=found[int(i)],
            )
            for i in missing[:100]
        ]
        raise ModelError(problems, total=int(missing.size))
    return labels, index


def _model(table: Transitions, seen: _Seen, by_pair: bool, counts: Counts, pooled: bool, outcomes: Any) -> MDP:
    """The model of these transitions; ``counts`` do not yet have the counts of its entries.

    ``outcomes`` are the names of all outcomes, if the log has a column of them.
    """
    states, actions = seen.states, seen.actions
    if table.pair.size == 0:
        raise ModelError(
            "no pair of state and action was seen with its outcome; give more episodes, or a name for unrecorded ends "
            "(end=)"
        )
    first = np.flatnonzero(np.diff(table.pair, prepend=-1))
    owner = np.repeat(np.arange(first.size), np.diff(first, append=table.pair.size))
    # Pooled rows need the values of the whole model: until then, rows as if each outcome had been seen once more.
    weight = table.times + (1.0 if pooled else counts.prior)
    probability = weight / np.add.reduceat(weight, first)[owner]
    reward, reward_rho, reward_sd = None, 0.0, 0.0
    if seen.reward is not None:
        earned = Earnings(seen.pair, seen.outcome, seen.reward, seen.times)
        if pooled:
            reward, reward_rho, reward_sd = pooled_rewards(table, earned, len(states), len(actions), by_pair)
        else:
            reward = mean_rewards(table, earned, len(states), by_pair)
    s, a = np.divmod(table.pair, len(actions))
    ends = np.setdiff1d(np.arange(len(states)), s)
    form = form_from_codes(
        states,
        actions,
        s,
        a,
        table.outcome,
        probability,
        reward,
        terminal=[states[int(i)] for i in ends],
        tolerance=TOLERANCE,
    )
    transitions = _by_entry(form, table, len(states), len(actions))
    counts = replace(counts, transitions=transitions, cut=_cut(form, states, outcomes, counts.end))
    if pooled:
        of_states, pooling = pool(form, counts.transitions, longest=counts.longest)
        form = replace(form, probability=pooled_rows(of_states, pooling.rho))
        counts = replace(counts, pooling=replace(pooling, reward_rho=reward_rho, reward_sd=reward_sd))
    return MDP(states, actions, form, counts=counts)


def _cut(form: Form, states: Names, outcomes: Any, end: int) -> tuple[int, ...]:
    """The states that no action leads out of, and that are no outcome, in a log that names its outcomes."""
    if not outcomes:
        return ()
    closed = np.flatnonzero(absorbing(form, np.arange(len(states))))
    ends = [end, *(states.find(name) for name in outcomes)]
    return tuple(int(s) for s in np.setdiff1d(closed, ends))


def _by_entry(form: Form, table: Transitions, n_states: int, n_actions: int) -> Ints:
    """The counts in the order of the form's entries; 0 for those of terminal states."""
    pairs = np.arange(form.pair_action.size)
    key = pair_states(form.pair_start, pairs) * n_actions + form.pair_action
    key = np.repeat(key, np.diff(form.row_start)) * n_states + form.next_state
    known = table.pair * n_states + table.outcome
    at = np.minimum(np.searchsorted(known, key), known.size - 1)
    return np.where(known[at] == key, table.times[at], 0).astype(np.int64)


def relearned(mdp: MDP, transitions: Ints, episodes: int) -> MDP:
    """A learned model with other counts of the same transitions, such as those of a part of its log; rewards stay.

    How far rows are pooled is found anew. A state that the counts do not have keeps its rows.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.learn import relearned
    >>> mdp = tether.learn([tether.Path(["sick", after], ["wait"]) for after in ("well", "well", "dead", "dead")])
    >>> relearned(mdp, mdp.counts.transitions * [1, 3, 1, 1], 8).row("sick", "wait")
    (('well', 'dead'), array([0.25, 0.75]))
    """
    counts, form = learned_counts(mdp), mdp.form
    changed = replace(counts, transitions=np.array(transitions), episodes=episodes, steps=int(np.sum(transitions)))
    if counts.pooling is not None:
        of_states, found = pool(
            form, changed.transitions, discount=mdp.discount, final_reward=mdp.final_reward, longest=counts.longest
        )
        rho = replace(found, reward_rho=counts.pooling.reward_rho, reward_sd=counts.pooling.reward_sd)
        changed = replace(changed, pooling=rho)
        return replace(mdp, form=replace(form, probability=pooled_rows(of_states, found.rho)), counts=changed)
    return replace(mdp, form=replace(form, probability=_rows(form, changed)), counts=changed)


def _rows(form: Form, counts: Counts) -> Floats:
    """The probabilities of a model's entries from its counts, as they were learned."""
    if counts.pooling is not None:
        return pooled_rows(state_counts(form, counts.transitions), counts.pooling.rho)
    weight = counts.concentration
    total = np.add.reduceat(weight, form.row_start[:-1])
    lengths = np.diff(form.row_start)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.repeat(total > 0, lengths), weight / np.repeat(total, lengths), form.probability)
