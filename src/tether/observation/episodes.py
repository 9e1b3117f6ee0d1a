"""Episodes: many observed paths, kept as arrays, as a log has them and as learning needs them.

One of them is a `tether.Path`. Episodes were observed; `tether.records.Trajectories` are drawn from a policy.

A log has a row for each step: (episode, t, state, action[, reward, next_state, outcome]);
`tether.observation.arrange` says how its rows become episodes. `tether.io.logs` reads and writes logs as files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, spans, starts
from tether._foundation.arrow import NameColumn, Tabular
from tether._foundation.checks import columns_in_full
from tether._foundation.markup import html_table, paragraphs
from tether._foundation.problems import Complaints, Source, common_length
from tether._foundation.words import counted
from tether.errors import PathError, Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.model.names import Names
from tether.observation.arrange import Steps, arrange_log
from tether.observation.cells import code
from tether.observation.ends import outcome_names
from tether.observation.indices import observe_indices
from tether.observation.path import Observation, Path, observe

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 10
"""How many episodes a notebook shows."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Episodes(Steps, Mapping[Any, Path], Tabular):
    """Observed episodes by id: a mapping from ids to paths. Build it with `from_columns` or `from_paths`.

    Attributes
    ----------
    ids : Names
        The episodes' ids, whole numbers in ascending order, others as they first appear.
    states, actions : Names
        The names that occur, in the same kind of order.
    start : array (episodes + 1,)
        Episode i has the steps ``start[i] … start[i + 1] - 1``.
    state, action, next_state : array (steps,)
        What happened in each step, by index; ``next_state`` is -1 for a last outcome that was not recorded.
    reward : array (steps,) or None
        The reward of each step, NaN if unknown; None for a log without rewards.
    outcomes : Names or None
        How episodes ended, by the log's own column, such as "died"; None for a log without one.
    outcome : array (episodes,) or None
        Which of these, -1 if the log does not say it.

    Examples
    --------
    >>> import tether
    >>> episodes = tether.Episodes.from_columns(
    ...     episode=["ann", "ann", "ann", "bob"],
    ...     t=[0, 1, 2, 0],
    ...     state=["sick", "sick", "well", "sick"],
    ...     action=["wait", "treat", None, "wait"],
    ... )
    >>> episodes
    <Episodes: 2 episodes, 3 steps, 2 states, 2 actions; 1 last outcome not recorded>
    >>> episodes["ann"]
    <Path: 2 steps, 'sick' –'wait'→ 'sick' –'treat'→ 'well'>
    >>> list(episodes)
    ['ann', 'bob']
    """

    def __post_init__(self) -> None:
        for array in (self.start, self.state, self.action, self.next_state, self.reward, self.outcome):
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor: a pickle does not keep arrays read-only.
        return Episodes, tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def from_columns(
        cls,
        episode: Any,
        t: Any,
        state: Any,
        action: Any,
        reward: Any = None,
        next_state: Any = None,
        outcome: Any = None,
    ) -> Episodes:
        """Episodes from the columns of a log, one row per step, in any order.

        Parameters
        ----------
        episode, state : sequence of hashable
            Lists, arrays or dataframe columns.
        t : sequence of int
            The step; it goes up by 1 within an episode, from any first number. A path's own time begins at 0.
        action : sequence of hashable
            Empty (None, NaN or "") in an episode's last row if that is only the last state.
        reward : sequence of float, optional
            The reward of the step; empty if unknown.
        next_state : sequence of hashable, optional
            What the action led to. Needed only in an episode's last row. In other rows it may be empty; otherwise it
            must be the state of the next row.
        outcome : sequence of str, optional
            How the episode ended, such as "died": in all of its rows, or in some, empty in the others. Numbers and
            truth values are named after the column: ``outcome=1``.

        Raises
        ------
        PathError
            With every gap, repetition and contradiction, and the row (from 0) of each.

        Examples
        --------
        >>> import tether
        >>> tether.Episodes.from_columns([7, 7], [1, 3], ["a", "b"], ["go", "go"])
        Traceback (most recent call last):
        ...
        tether.errors.PathError: row 1: episode 7: t goes from 1 to 3; t = 2 is missing
        """
        given = {"episode": episode, "t": t, "state": state, "action": action}
        more = {"reward": reward, "next_state": next_state, "outcome": outcome}
        given |= {name: column for name, column in more.items() if column is not None}
        columns = columns_in_full(given, "row", PathError)
        complaints = Complaints(Source(), PathError)
        if "outcome" in columns:
            columns["outcome"] = outcome_names(columns["outcome"], "outcome", complaints)
        if common_length(columns, PathError) == 0:
            raise PathError("the log is empty: it has no rows")
        return cls.of(arrange_log(columns, complaints))

    @classmethod
    def from_paths(cls, paths: Iterable[Path] | Mapping[Any, Path]) -> Episodes:
        """Episodes from paths: a mapping by id, or a list, whose ids are then 0, 1, 2, …

        Parameters
        ----------
        paths : iterable of Path, or mapping to Path
            With their own rewards and outcomes, if they have any.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world().mdp
        >>> tether.Episodes.from_paths(grid.simulate("optimal", 6, rng=seed, noise=0.1) for seed in range(20))
        <Episodes: 20 episodes, 120 steps, 10 states, 4 actions>
        """
        if isinstance(paths, Path):
            raise PathError("expected a list of paths; for a single one: [path]")
        named = dict(paths) if isinstance(paths, Mapping) else dict(enumerate(paths))
        if not named:
            raise PathError("there are no paths")
        for name, path in named.items():
            if not isinstance(path, Path):
                raise PathError(f"episode {name!r}: expected a tether.Path, not {type(path).__name__}")
        lengths = np.array([path.T for path in named.values()], dtype=np.int64)
        reward = _joined_rewards(list(named.values()))
        complaints = Complaints(Source(in_rows=False), PathError)
        ids, _ = code([list(named)], ["episode"], complaints)
        before = [state for path in named.values() for state in path.states[: path.T]]
        after = [state for path in named.values() for state in [*path.states, None][1 : path.T + 1]]
        states, (state, next_state) = code([before, after], ["state", "next_state"], complaints)
        actions, (action,) = code([[a for path in named.values() for a in path.actions]], ["action"], complaints)
        complaints.raise_any()
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        empty = np.flatnonzero((state < 0) | (action < 0))
        if empty.size or len(ids) != len(named):
            raise PathError("a state, an action or an id of the paths is empty (None, NaN or ''); give each a name")
        ends = _joined_outcomes(list(named.values()))
        return _ordered(Steps(ids, states, actions, start, state, action, next_state, reward, *ends), list(named))

    @classmethod
    def of(cls, steps: Steps) -> Episodes:
        """Episodes from what `tether.observation.arrange.arrange_log` made of a log."""
        return cls(*(getattr(steps, field.name) for field in fields(cls)))

    @property
    def n_steps(self) -> int:
        """How many steps there are, over all episodes."""
        return int(self.state.size)

    @property
    def unrecorded(self) -> int:
        """How many episodes lack their last outcome."""
        return int(np.count_nonzero(self.next_state < 0))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids)

    def __contains__(self, episode: object) -> bool:
        return episode in self.ids

    def __getitem__(self, episode: Any) -> Path:
        return self._path(self._place_of(episode))

    def get(self, episode: Any, default: Any = None) -> Any:
        """The path of an episode, or ``default`` if there is none of that id."""
        if episode not in self:
            return default
        return self[episode]

    def rewards(self, episode: Any) -> Floats | None:
        """The rewards of an episode's steps, NaN if unknown; None for a log without rewards.

        Examples
        --------
        >>> import tether
        >>> tether.Episodes.from_columns([1, 1], [0, 1], ["a", "b"], ["go", "go"], reward=[0.5, 2.0]).rewards(1)
        array([0.5, 2. ])
        """
        steps = self._steps_of(self._place_of(episode))
        return None if self.reward is None else self.reward[steps]

    def observation(self, episode: Any, mdp: ModelRecord) -> Observation:
        """An episode in the indices of a model, as `tether.counterfactual` takes it; its rewards come with it.

        Only the names that occur in the episode are looked up, each once.

        Examples
        --------
        >>> import tether
        >>> log = tether.Episodes.from_paths({"ann": tether.Path(["sick", "well"], ["treat"], [3])})
        >>> mdp = tether.learn(log)
        >>> tether.counterfactual(mdp, log.observation("ann", mdp)).plan(k=1, m=0).logged_return
        3.0
        """
        place = self._place_of(episode)
        steps = self._steps_of(place)
        states = np.append(self.state[steps], self.next_state[steps.stop - 1])
        recorded = states[: states.size - (states[-1] < 0)]
        found = _places(mdp.states, self.states, recorded)
        actions = _places(mdp.actions, self.actions, self.action[steps])
        path = self._path(place)
        if found.min() < 0 or actions.min() < 0 or path.outcome is not None:
            return observe(mdp, path)  # it reports unknown names, and finds the outcome in the model
        return replace(observe_indices(mdp, found, actions), rewards=path.rewards)

    def _place_of(self, episode: Any) -> int:
        i = self.ids.find(episode)
        if i < 0:
            message = f"there is no episode {episode!r}; {_known(self.ids)}{self.ids.near(episode)}"
            raise QueryError(Problem(message, value=episode))
        return i

    def _steps_of(self, place: int) -> slice:
        return slice(int(self.start[place]), int(self.start[place + 1]))

    def _path(self, place: int) -> Path:
        steps = self._steps_of(place)
        states = [self.states[s] for s in self.state[steps].tolist()]
        last = int(self.next_state[steps.stop - 1])
        if last >= 0:
            states.append(self.states[last])
        actions = [self.actions[a] for a in self.action[steps].tolist()]
        rewards = None if self.reward is None else self.reward[steps]
        return Path(states, actions, rewards, outcome=self.outcome_of(place))

    def outcome_of(self, place: int) -> str | None:
        """How an episode ended by the log's own column, by its position among the ids; None if the log does not say.

        Examples
        --------
        >>> import tether
        >>> log = tether.Episodes.from_columns([7, 7], [0, 1], ["a", "b"], ["go", "go"], outcome=[None, "died"])
        >>> log.outcome_of(0), log[7].outcome
        ('died', 'died')
        """
        if self.outcomes is None or self.outcome is None or self.outcome[place] < 0:
            return None
        return str(self.outcomes[int(self.outcome[place])])

    def to_arrow(self) -> pyarrow.Table:
        """One row per step, and one for each last state that is known: episode, t, state, action; reward, outcome.

        `tether.learn` and `tether.io.read_episodes` take such a table, too.

        Examples
        --------
        >>> import tether
        >>> log = tether.cases.ward().mdp.simulate("random", 3, start="sick", n=100, rng=1)
        >>> log.to_arrow().column_names, tether.learn(log.to_pandas()).n_states
        (['episode', 't', 'state', 'action'], 4)
        """
        return table_of_steps(self, lambda names, _, codes: NameColumn(names).take(np.maximum(codes, 0), codes < 0))

    def __repr__(self) -> str:
        sizes = ", ".join((
            counted(len(self), "episode"),
            counted(self.n_steps, "step"),
            counted(len(self.states), "state"),
            counted(len(self.actions), "action"),
        ))  # fmt: skip
        rewards = "" if self.reward is None else ", with rewards"
        lacking = f"; {counted(self.unrecorded, 'last outcome')} not recorded" if self.unrecorded else ""
        ends = "" if self.outcomes is None else f", {counted(len(self.outcomes), 'outcome')}"
        return f"<Episodes: {sizes}{rewards}{ends}{lacking}>"

    def _repr_html_(self) -> str:
        rows = [(name, self[name].in_short) for name in self.ids[:_SHOWN]]
        if len(self) > _SHOWN:
            rows.append(("…", f"{len(self) - _SHOWN:,} more"))
        return paragraphs([repr(self)[1:-1]]) + html_table(("episode", "path"), rows)


def table_of_steps(log: Episodes, column: Callable[[Names, str, Ints], Any]) -> pyarrow.Table:
    """The table of `Episodes.to_arrow`; ``column`` makes one of names, what they are, and their codes (-1: none)."""
    import pyarrow as pa

    last = log.next_state[log.start[1:] - 1]
    ended = last >= 0
    lengths = np.diff(log.start) + ended
    owner, t = spans(np.zeros_like(lengths), lengths)
    final = (starts(lengths)[:-1] + lengths - 1)[ended]
    step = np.ones(owner.size, dtype=bool)
    step[final] = False
    state, action = np.empty(owner.size, dtype=np.int64), np.full(owner.size, -1, dtype=np.int64)
    state[step], action[step], state[final] = log.state, log.action, last[ended]
    columns = {
        "episode": column(log.ids, "episode", owner),
        "t": pa.array(t),
        "state": column(log.states, "state", state),
        "action": column(log.actions, "action", action),
    }
    if log.reward is not None:
        reward = np.full(owner.size, np.nan)
        reward[step] = log.reward
        columns["reward"] = pa.array(reward, mask=np.isnan(reward))
    if log.outcomes is not None and log.outcome is not None:
        columns["outcome"] = column(log.outcomes, "outcome", log.outcome[owner])
    return pa.table(columns)


def _places(known: Names, names: Names, codes: Ints) -> Ints:
    """The model's indices for the codes of a log; -1 for names that the model does not have."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    return np.array([known.find(names[int(one)]) for one in distinct], dtype=np.int64)[inverse]


def _known(ids: Names) -> str:
    few = len(ids) <= 6
    listed = ", ".join(repr(one) for one in ids) if few else f"{ids[0]!r} … {ids[len(ids) - 1]!r}"
    return f"there {'is' if len(ids) == 1 else 'are'} {counted(len(ids), 'episode')}: {listed}"


def _joined_rewards(paths: list[Path]) -> Floats | None:
    """The reward of each step, NaN if a path does not have it; None if no path has rewards."""
    if all(path.rewards is None for path in paths):
        return None
    each = [[None] * path.T if path.rewards is None else path.rewards for path in paths]
    return np.array([np.nan if reward is None else reward for rewards in each for reward in rewards])


def _joined_outcomes(paths: list[Path]) -> tuple[Names | None, Ints | None]:
    """The outcomes of paths, and which of them each has; None if no path has one."""
    found = [path.outcome for path in paths]
    if all(one is None for one in found):
        return None, None
    names, (codes,) = code([found], ["outcome"], Complaints(Source(in_rows=False), PathError))
    return names, codes.astype(np.int64)


def _ordered(steps: Steps, given: list[Any]) -> Episodes:
    """The episodes in the order of their names: whole numbers ascending, whatever the given order."""
    place = np.array([steps.ids.find(one) for one in given])
    if np.array_equal(place, np.arange(place.size)):
        return Episodes.of(steps)
    order = np.argsort(place, kind="stable")
    lengths = np.diff(steps.start)[order]
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    moved = np.arange(steps.state.size) + np.repeat(steps.start[:-1][order] - start[:-1], lengths)
    reward = None if steps.reward is None else steps.reward[moved]
    arrays = (steps.state[moved], steps.action[moved], steps.next_state[moved], reward)
    ends = steps.outcomes, None if steps.outcome is None else steps.outcome[order]
    return Episodes(steps.ids, steps.states, steps.actions, start, *arrays, *ends)
