"""The summary of the table of episodes, computed in one pass: counts, gains, outcomes, how the values compare.

Only eight bytes per episode with a gain or a loss are kept, to draw their distribution.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.auditing.consistency import Consistency
from tether.auditing.rows import EpisodeRows, is_more

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Helped", "Summary", "summarize"]

_COLUMNS = ("observed", "outcome", "gain", "verdict", "problem")
_COMPARED = ("value", "model_value")


@dataclass(slots=True)
class Helped:
    """For one observed outcome: how many episodes have it, how many gain something, how many lose something."""

    episodes: int = 0
    gained: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of an audit.

    Attributes
    ----------
    episodes, answered : int
    gains : array
        Of the episodes that gain something, or lose something (below 0), in the log's order.
    verdicts : mapping
        How many of the episodes that gain something have each verdict.
    is_certified : bool
        Whether any episode has a verdict.
    outcomes : mapping from str to Helped
        By observed outcome, in the order in which they first appear.
    consistency : Consistency or None
        Of a policy's values and the model's.
    """

    episodes: int
    answered: int
    gains: Floats
    verdicts: dict[str, int]
    is_certified: bool
    outcomes: dict[str, Helped]
    consistency: Consistency | None

    @property
    def gained(self) -> Floats:
        """The gains of those that gain something."""
        return self.gains[self.gains > 0]

    @property
    def lost(self) -> Floats:
        """The gains, below 0, of those that lose something."""
        return self.gains[self.gains < 0]


def summarize(rows: EpisodeRows) -> Summary:
    """Go through the table of episodes once."""
    found, compared = _Found(), _Compared()
    for table in rows.batches((*_COLUMNS, *_COMPARED)):
        found.add(table)
        compared.add(table.select(list(_COMPARED)).drop_null())
    gains = np.concatenate(found.gains) if found.gains else np.empty(0)
    counts = (dict(found.verdicts), found.is_certified, found.outcomes)
    return Summary(found.episodes, found.answered, gains, *counts, compared.result())


@dataclass(slots=True)
class _Found:
    episodes: int = 0
    answered: int = 0
    gains: list[Floats] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    is_certified: bool = False
    outcomes: dict[str, Helped] = field(default_factory=dict)

    def add(self, table: pyarrow.Table) -> None:
        import pyarrow.compute as pc

        self.episodes += table.num_rows
        self.answered += table.column("problem").null_count
        gain, observed = (table.column(name).to_numpy() for name in ("gain", "observed"))
        gained, lost = is_more(gain, observed), is_more(-gain, observed)
        self.gains.append(gain[gained | lost])
        verdict = table.column("verdict")
        self.is_certified |= verdict.null_count < table.num_rows
        for one in pc.value_counts(verdict.filter(gained)).to_pylist():
            if one["values"] is not None:
                self.verdicts[one["values"]] += one["counts"]
        self._add_outcomes(table.column("outcome"), gained, lost)

    def _add_outcomes(self, outcome: Any, gained: Any, lost: Any) -> None:
        codes = outcome.combine_chunks().dictionary_encode()
        at, n = np.asarray(codes.indices.fill_null(len(codes.dictionary))), len(codes.dictionary) + 1
        counts = [np.bincount(at[which], minlength=n) for which in (slice(None), gained, lost)]
        for i, name in enumerate(codes.dictionary.to_pylist()):
            here = self.outcomes.setdefault(name, Helped())
            here.episodes += int(counts[0][i])
            here.gained += int(counts[1][i])
            here.lost += int(counts[2][i])


@dataclass(slots=True)
class _Compared:
    """Means of two columns and of their difference, and its squared deviations, batch after batch (Chan et al.)."""

    n: int = 0
    means: Floats = field(default_factory=lambda: np.zeros(3))
    squares: float = 0.0

    def add(self, table: pyarrow.Table) -> None:
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
