"""The table of episodes, some columns or some rows at a time, and its summary, computed in one pass.

The table is in memory, or in a file that may be larger. Of the summary, only eight bytes per episode with a gain or a
loss are kept, to draw their distribution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tether._foundation.arrays import Floats, Ints
from tether._foundation.rounding import rounding_of
from tether.auditing.consistency import Consistency
from tether.evaluation.outcomes import UNDER_WAY
from tether.plan.limits import ABOUT

_AT_ONCE = 1 << 16
"""How many rows are read together."""

_JUDGED = ("mistakes", "claimed", "gain", "gamma_star", "verdict", "changes", "worse_end", "about_episode", "p_worse")
_COLUMNS = ("observed", "outcome", *_JUDGED, "problem")
_COMPARED = ("value", "model_value")


class EpisodeRows(Protocol):
    """The rows of the table of episodes, in the log's order."""

    def __len__(self) -> int: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns, many rows at a time."""
        ...

    def take(self, places: Ints) -> pa.Table:
        """Some rows, in the order in which they are named."""
        ...


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table in memory."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All at once: they are in memory already."""
        if len(self):
            yield self.table.select(list(columns))

    def take(self, places: Ints) -> pa.Table:
        """Rows of the table by index."""
        return self.table.take(places)


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a Parquet file; only the part in use is in memory. ``file`` returns it, verified, whenever it is read."""

    file: Callable[[], Path]

    def _opened(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self.file())

    def __len__(self) -> int:
        with self._opened() as opened:
            return int(opened.metadata.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The columns in the batches of rows that were written together."""
        with self._opened() as opened:
            for batch in opened.iter_batches(_AT_ONCE, columns=list(columns)):
                yield pa.Table.from_batches([batch])

    def take(self, places: Ints) -> pa.Table:
        """Some rows; only the parts of the file that hold them are read."""
        places = np.asarray(places, dtype=np.int64)
        order = np.argsort(places, kind="stable")
        ascending, found, begin = places[order], [], 0
        with self._opened() as opened:
            for group in range(opened.metadata.num_row_groups):
                end = begin + opened.metadata.row_group(group).num_rows
                here = ascending[(ascending >= begin) & (ascending < end)] - begin
                if here.size:
                    found.append(opened.read_row_group(group).take(here))
                begin = end
            joined = pa.concat_tables(found) if found else opened.schema_arrow.empty_table()
        return joined.take(np.argsort(order, kind="stable"))


def is_more(values: Floats, observed: Floats) -> Any:
    """Where values are above 0 by more than rounding, relative to the observed return."""
    with np.errstate(invalid="ignore"):
        return values > rounding_of(observed)


def find_top(
    rows: EpisodeRows, n: int, by: str = "gain", *, losses: bool = False, hindsight_only: bool = False,
    worse_end: bool | None = None, apart: bool = False,
) -> Ints:  # fmt: skip
    """The positions of the n episodes with the largest gains, or losses; equal ones are in the log's order.

    ``by="claimed"`` finds the costliest mistakes instead; ``hindsight_only`` leaves out the episodes that have any.
    ``worse_end`` says whether only episodes whose plan has a worse end are wanted, or only the others; ``apart``, that
    no gain counts of an episode that is still under way.
    """
    columns = dict.fromkeys([by, "observed", "outcome", "worse_end", *(["claimed"] if hindsight_only else [])])
    kept_values, kept_places = np.empty(0), np.empty(0, np.int64)
    before = 0
    for table in rows.batches(list(columns)):
        values, observed = (table.column(name).to_numpy() for name in (by, "observed"))
        values = -values if losses else values
        wanted = values > 0 if by == "claimed" else is_more(values, observed)
        if hindsight_only:
            wanted &= ~(table.column("claimed").to_numpy() > 0)
        if worse_end is not None:
            wanted &= _is_worse_end(table) == worse_end
        if apart and by != "claimed":
            wanted &= ~_is_under_way(table)
        here = np.flatnonzero(wanted)
        kept_values = np.concatenate((kept_values, values[here]))
        kept_places = np.concatenate((kept_places, here + before))
        best = np.lexsort((kept_places, -kept_values))[:n]
        kept_values, kept_places = kept_values[best], kept_places[best]
        before += table.num_rows
    return kept_places


def _is_worse_end(table: pa.Table) -> Any:
    return np.asarray(table.column("worse_end").fill_null(False))


def _is_under_way(table: pa.Table) -> Any:
    return np.asarray(pc.equal(table.column("outcome"), UNDER_WAY).fill_null(False))


def find_problems(rows: EpisodeRows, most: int | None = None) -> pa.Table:
    """The episodes without an answer: ``episode`` and ``problem``; with ``most``, only the first ones."""
    found, count = [], 0
    for table in rows.batches(["episode", "problem"]):
        found.append(table.filter(pc.is_valid(table.column("problem"))))
        count += found[-1].num_rows
        if most is not None and count >= most:
            break
    if not found:
        return rows.take(np.empty(0, np.int64)).select(["episode", "problem"])
    joined = pa.concat_tables(found)
    return joined if most is None else joined.slice(0, most)


@dataclass(slots=True)
class Helped:
    """For one observed outcome: how many episodes have it, have a mistake, gain something, lose something.

    Of episodes that are still under way, told apart, no gain and no loss is counted.
    """

    episodes: int = 0
    mistaken: int = 0
    gained: int = 0
    lost: int = 0


@dataclass(slots=True)
class Changed:
    """One action in place of another: in how many episodes it is the first change, and how many have each verdict."""

    observed: Any
    advised: Any
    episodes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of an audit.

    Attributes
    ----------
    episodes, answered : int
    mistaken : array
        What the claimed mistakes of an episode cost, for those that have some, in the log's order.
    unsure : int
        How many episodes have none, but decisions that the model does not call the best: only where it was learned.
    hindsight_only : int
        How many episodes gain something without any claimed mistake: nobody could know it at the time.
    unfinished : int
        How many episodes are still under way and told apart (`tether.auditing.answer_arrays.sets_apart`): they count
        among those with mistakes, but not among those that gain, lose or hold.
    worse_ends : int
        In how many episodes with a gain the plan makes a good end less likely, or a bad one likelier.
    gains : array
        Of the episodes that gain something, or lose something (below 0), in the log's order.
    strengths : array
        The strength of hidden causes that undoes the gain, of the episodes that gain something and have a certificate.
    held : array
        The same, of those whose gain holds under every causal model.
    about : int
        How many of the plans that gain something are about their episode (`tether.plan.limits.ABOUT`).
    p_worse : float or None
        The chance of a replay of these plans to end worse than what happened, on average, or its upper bound; None if
        it is not known of some.
    verdicts : mapping
        How many of the episodes that gain something have each verdict.
    is_certified : bool
        Whether any episode has a verdict.
    outcomes : mapping from str to Helped
        By observed outcome, in the order in which they first appear.
    changed : list of Changed
        What hindsight changes first, by pair of actions; those with most gains that hold first.
    consistency : Consistency or None
        Of a policy's values and the model's.
    """

    episodes: int
    answered: int
    mistaken: Floats
    unsure: int
    hindsight_only: int
    gains: Floats
    strengths: Floats
    held: Floats
    verdicts: dict[str, int]
    is_certified: bool
    outcomes: dict[str, Helped]
    changed: list[Changed]
    consistency: Consistency | None
    unfinished: int = 0
    worse_ends: int = 0
    about: int = 0
    p_worse: float | None = None

    @property
    def ended(self) -> int:
        """How many episodes were answered, without those that are told apart."""
        return self.answered - self.unfinished

    @property
    def gained(self) -> Floats:
        """The gains of those that gain something."""
        return self.gains[self.gains > 0]

    @property
    def lost(self) -> Floats:
        """The gains, below 0, of those that lose something."""
        return self.gains[self.gains < 0]


def summarize(rows: EpisodeRows, *, apart: bool = False) -> Summary:
    """Go through the table of episodes once; ``apart``: episodes that are still under way are counted apart."""
    found, compared = _Found(apart), _Compared()
    for table in rows.batches((*_COLUMNS, *_COMPARED)):
        found.add(table)
        compared.add(table.select(list(_COMPARED)).drop_null())
    kept = found.mistaken, found.gains, found.strengths, found.held
    mistaken, gains, strengths, held = (np.concatenate([np.empty(0), *parts]) for parts in kept)
    judged = (mistaken, found.unsure, found.hindsight_only)
    p_worse = np.concatenate([np.empty(0), *found.p_worse])
    mean = float(p_worse.mean()) if p_worse.size and np.isfinite(p_worse).all() else None
    changed = sorted(found.changed.values(), key=lambda one: (-one.verdicts["holds"], -one.episodes))
    return Summary(
        found.episodes, found.answered, *judged, gains, strengths, held, dict(found.verdicts), found.is_certified,
        found.outcomes, changed, compared.result(), found.unfinished, found.worse_ends, found.about, mean,
    )  # fmt: skip


@dataclass(slots=True)
class _Found:
    apart: bool
    unfinished: int = 0
    worse_ends: int = 0
    episodes: int = 0
    answered: int = 0
    mistaken: list[Floats] = field(default_factory=list)
    unsure: int = 0
    hindsight_only: int = 0
    gains: list[Floats] = field(default_factory=list)
    strengths: list[Floats] = field(default_factory=list)
    held: list[Floats] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    is_certified: bool = False
    outcomes: dict[str, Helped] = field(default_factory=dict)
    changed: dict[str, Changed] = field(default_factory=dict)
    about: int = 0
    p_worse: list[Floats] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        self.episodes += table.num_rows
        self.answered += table.column("problem").null_count
        names = "gain", "observed", "mistakes", "claimed"
        gain, observed, mistakes, claimed = (table.column(name).to_numpy() for name in names)
        gained, lost, bad = is_more(gain, observed), is_more(-gain, observed), claimed > 0
        if self.apart:
            under_way = _is_under_way(table)
            gained, lost = gained & ~under_way, lost & ~under_way
            self.unfinished += int(np.count_nonzero(under_way))
        self.worse_ends += int(np.count_nonzero(gained & _is_worse_end(table)))
        self.mistaken.append(claimed[bad])
        self.unsure += int(np.count_nonzero((mistakes > 0) & ~bad))
        self.hindsight_only += int(np.count_nonzero(gained & ~bad))
        self.gains.append(gain[gained | lost])
        self.about += int(np.count_nonzero(table.column("about_episode").to_numpy()[gained] >= ABOUT))
        self.p_worse.append(table.column("p_worse").to_numpy()[gained])
        verdict = table.column("verdict")
        strength = table.column("gamma_star").to_numpy()
        known, holds = gained & ~np.isnan(strength), np.asarray(pc.equal(verdict, "holds").fill_null(False))
        self.strengths.append(strength[known])
        self.held.append(strength[known & holds])
        self.is_certified |= verdict.null_count < table.num_rows
        for one in pc.value_counts(verdict.filter(gained)).to_pylist():
            if one["values"] is not None:
                self.verdicts[one["values"]] += one["counts"]
        self._add_outcomes(table.column("outcome"), bad, gained, lost)
        self._add_changes(table.column("changes").filter(gained), verdict.filter(gained))

    def _add_changes(self, changes: Any, verdict: Any) -> None:
        some = pc.fill_null(pc.greater(pc.list_value_length(changes), 0), False)
        if not pc.any(some).as_py():
            return
        first = pc.list_element(changes.filter(some), 0)
        pairs = zip(first.to_pylist(), verdict.filter(some).to_pylist(), strict=True)
        for one, judged in pairs:
            observed, advised = one["observed_action"], one["advised_action"]
            here = self.changed.setdefault(repr((observed, advised)), Changed(observed, advised))
            here.episodes += 1
            here.verdicts[judged or ""] += 1

    def _add_outcomes(self, outcome: Any, *which: Any) -> None:
        codes = outcome.combine_chunks().dictionary_encode()
        at, n = np.asarray(codes.indices.fill_null(len(codes.dictionary))), len(codes.dictionary) + 1
        counts = [np.bincount(at[some], minlength=n) for some in (slice(None), *which)]
        for i, name in enumerate(codes.dictionary.to_pylist()):
            here = self.outcomes.setdefault(name, Helped())
            here.episodes += int(counts[0][i])
            here.mistaken += int(counts[1][i])
            here.gained += int(counts[2][i])
            here.lost += int(counts[3][i])


@dataclass(slots=True)
class _Compared:
    """Means of two columns and of their difference, and its squared deviations, batch after batch (Chan et al.)."""

    n: int = 0
    means: Floats = field(default_factory=lambda: np.zeros(3))
    squares: float = 0.0

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        ours, model = (table.column(i).to_numpy() for i in (0, 1))
        apart = ours - model
        means, n = np.array([ours.mean(), model.mean(), apart.mean()]), table.num_rows
        total, moved = self.n + n, means - self.means
        self.squares += float(((apart - means[2]) ** 2).sum()) + float(moved[2]) ** 2 * self.n * n / total
        self.means, self.n = self.means + moved * (n / total), total

    def result(self) -> Consistency | None:
        if not self.n:
            return None
        error = float(np.sqrt(self.squares / (self.n - 1) / self.n)) if self.n > 1 else float("inf")
        ours, model, apart = self.means.tolist()
        return Consistency(self.n, ours, model, apart, error)
