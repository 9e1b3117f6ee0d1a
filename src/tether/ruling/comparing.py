"""Groups of episodes compared: how they ended, mistakes and luck; and what is left after their case mix.

What was to be expected of an episode is the value of usual practice, of all groups together, from its first state. A
group whose patients were more ill when they came has a lower expectation; what is left is how it did beyond that.
Of many groups one in ten would seem to differ by chance alone, so the intervals of differences hold together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.words import counted, in_points, percent, shown, three_digits
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import UNDER_WAY, outcome_classes
from tether.evaluation.review import horizons, review_batch
from tether.explanation.reviewing import outcome_noun
from tether.io.names_as_text import text_of
from tether.logs.batches import Log
from tether.logs.extra_columns import extras_of
from tether.mdp import MDP
from tether.model.properties import Property
from tether.plan.standard import Standard
from tether.ruling.counting import count_log
from tether.ruling.recorded import Recorded, RuleWorld, bad_states, refuse_unrewarded
from tether.ruling.searching import Part

if TYPE_CHECKING:
    import pyarrow

    from tether.auditing.running import Progress

_LISTED = 8
"""How many groups an error lists."""

_Z = 1.6448536269514722
"""Half the width of a 90 % interval, in standard errors."""

_MISSED = 0.1
"""How often an interval may miss; those of differences, of all groups together."""


@dataclass(frozen=True, slots=True)
class ComparedGroup(Displayed):
    """One group: means per episode, each with its 90 % interval (mean, low, high).

    Attributes
    ----------
    group : value of the column
    episodes : int
    bad : tuple of float
        The share of episodes with a bad end.
    observed, expected : tuple of float
        The return, and what was to be expected of usual practice from the first states.
    mistakes, luck : tuple of float
        What mistakes cost, and what chance added, against the best of the model.
    beyond : tuple of float
        Observed less expected: how the group did after its case mix.
    bad_beyond : tuple of float
        Bad ends less those to be expected.
    difference : tuple of float
        ``beyond`` of this group less that of all others; the 90 % intervals of all groups hold together.
    outcomes : dict
        For each outcome, bad or not, the share of episodes that ended so.

    Examples
    --------
    >>> zero = (0.0, -1.0, 1.0)
    >>> ComparedGroup("A", 20, (0.5, 0.3, 0.7), *[zero] * 7).differs
    False
    """

    group: Any
    episodes: int
    bad: tuple[float, float, float]
    observed: tuple[float, float, float]
    expected: tuple[float, float, float]
    mistakes: tuple[float, float, float]
    luck: tuple[float, float, float]
    beyond: tuple[float, float, float]
    bad_beyond: tuple[float, float, float]
    difference: tuple[float, float, float]
    outcomes: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return self.difference[1] > 0 or self.difference[2] < 0


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """Groups of episodes compared; made by `tether.compare`.

    Attributes
    ----------
    by : str
        The column.
    groups : tuple of ComparedGroup
    bad : str
        What counts as a bad end.
    missing : int
        Episodes without a value in the column; they are left out.
    changing : int
        Episodes with several values in the column; the first one counts.
    objective : str
        The property whose probability is compared; empty for the return.
    minimise : bool

    Examples
    --------
    >>> zero = (0.0, -1.0, 1.0)
    >>> Comparison("ward", (ComparedGroup("A", 20, (0.5, 0.3, 0.7), *[zero] * 7),), "died", 0).sentences()[0][:62]
    'ward A: 20 episodes, 50 % ended in death (30 % to 70 %; 50 % w'
    """

    by: str
    groups: tuple[ComparedGroup, ...]
    bad: str
    missing: int
    changing: int = 0
    objective: str = ""
    minimise: bool = False

    def to_arrow(self) -> pyarrow.Table:
        """One row per group: each mean with its ``…_low`` and ``…_high``, and the share of each outcome."""
        import pyarrow as pa

        columns: dict[str, Any] = {self.by: [shown(one.group) for one in self.groups]}
        columns["episodes"] = [one.episodes for one in self.groups]
        for name in _MEANS:
            for end, place in (("", 0), ("_low", 1), ("_high", 2)):
                columns[f"{name}{end}"] = [getattr(one, name)[place] for one in self.groups]
        keys = ("outcome", "share", "low", "high")
        kind = pa.list_(pa.struct([(keys[0], pa.string()), *((key, pa.float64()) for key in keys[1:])]))
        ends = [
            [dict(zip(keys, (name, *end), strict=True)) for name, end in one.outcomes.items()] for one in self.groups
        ]
        columns["outcomes"] = pa.array(ends, kind)
        return pa.table(columns)

    def sentences(self) -> list[str]:
        """How each group ended, what was to be expected, and whether it differs from the others after its case mix."""
        found = [" ".join(self._of_group(one)) for one in self.groups]
        found.append(
            "To be expected: what usual practice, of all groups together, leads to from the same first states."
        )
        if len(self.groups) > 2:
            found.append(
                f"The intervals of differences hold for all {len(self.groups)} groups together (90 %): one by one, "
                "a tenth of them would miss."
            )
        if self.missing:
            found.append(f"{counted(self.missing, 'episode')} without a value in {self.by} were left out.")
        if self.changing:
            has, counts = ("has", "its") if self.changing == 1 else ("have", "their")
            many = f"{counted(self.changing, 'episode')} {has} several values in {self.by}"
            found.append(f"{many}; {counts} first one counts.")
        return found

    def _of_group(self, group: ComparedGroup) -> list[str]:
        ends = ""
        if self.bad:
            expected = percent(min(max(group.bad[0] - group.bad_beyond[0], 0.0), 1.0))
            ends = f", {_share(group.bad)} {_ended(self.bad)} ({_ends(group.bad)}; {expected} were to be expected)"
        others = [(name, end) for name, end in group.outcomes.items() if name != self.bad]
        ends += "".join(f", {_share(end)} {_ended(name)} ({_ends(end)})" for name, end in others)
        found = [f"{self.by} {shown(group.group)}: {counted(group.episodes, 'episode')}{ends}."]
        if not self.objective:
            observed = three_digits(group.observed[0])
            found.append(f"The return was {observed}; {self._amount(group.expected)} was to be expected.")
        luck = "luck saved" if self.minimise else "luck added"
        found.append(f"Mistakes cost {self._amount(group.mistakes)} per episode, {luck} {self._amount(group.luck)}.")
        if group.differs:
            how = "better" if group.difference[0] > 0 else "worse"
            least, most = sorted((abs(group.difference[1]), abs(group.difference[2])))
            size = self._amount((abs(group.difference[0]), least, most))
            return [*found, f"After case mix it did {how} than the others, by {size}."]
        return [*found, f"After case mix no difference to the others can be shown: {self._amount(group.difference)}."]

    def _amount(self, found: tuple[float, float, float]) -> str:
        """A mean with its interval; of a property in percentage points."""
        mean, low, high = found
        scale = 100.0 if self.objective else 1.0
        ends = f"{three_digits(scale * low)} to {three_digits(scale * high)}"
        return f"{in_points(mean) if self.objective else three_digits(mean)} ({ends})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"<Comparison by {self.by}: {counted(len(self.groups), 'group')}>"

    def _repr_html_(self) -> str:
        rows = []
        for one in self.groups:
            means = (three_digits(getattr(one, name)[0]) for name in _MEANS[1:])
            ended = (f"{_share(end)} ({_ends(end)})" for end in one.outcomes.values())
            rows.append((shown(one.group), f"{one.episodes:,}", *ended, percent(one.bad[0]), *means))
        outcomes = self.groups[0].outcomes if self.groups else ()
        return paragraphs(self.sentences()) + html_table((self.by, "episodes", *outcomes, *_MEANS), rows)


_MEANS = ("bad", "observed", "expected", "mistakes", "luck", "beyond", "bad_beyond", "difference")


def _share(found: tuple[float, float, float]) -> str:
    return percent(found[0])


def _ends(found: tuple[float, float, float]) -> str:
    return f"{percent(found[1])} to {percent(found[2])}"


def _ended(outcome: str) -> str:
    return f"were {outcome}" if outcome == UNDER_WAY else f"ended in {outcome_noun(outcome) or outcome}"


def compare_groups(
    mdp: MDP,
    log: Log,
    by: str,
    objective: Property | None,
    minimise: bool,
    bad: Any,
    where: str | None,
    progress: Progress | None,
) -> Comparison:
    """Compare the groups that a column of a log makes; the log is read twice, and nothing is replayed."""
    from tether.auditing.where import selection_of

    refuse_unrewarded(mdp, objective)
    own, several = extras_of(log).read_changing(by)
    selection = selection_of(where, mdp, log, objective, minimise)
    world = RuleWorld(mdp, objective, minimise, log.longest())
    n_rows, done = 2 * log.n_rows, 0

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, n_rows)

    counts = count_log(world, log, 0.0, 0, selection, tell)
    states, name = bad_states(world, bad, counts.ends)
    usual = Part.of(world, counts, None).values
    standard = Standard(mdp, "best", objective, minimise)
    rows: dict[Any, list[Floats]] = {}
    ends: dict[Any, Counter[str]] = {}
    missing = changing = 0
    names, codes = outcome_classes(mdp, np.arange(mdp.n_states))
    for n, batch in log.batches(mdp):
        cohort = batch if selection is None else selection.of_batch(batch)
        found = Recorded.of(world, cohort)
        tell(n)
        if not len(found):
            continue
        part = cohort.only(found.place)
        reviewed = review_batch(standard, part, horizons(mdp, part, longest=world.horizon))
        ended, expected_bad = np.zeros((2, len(found)))
        if states is not None:
            ended = states[found.end].astype(float)
            expected_bad = usual.end_chances(states, found.first, found.horizon)
        expected = usual.of_starts(found.first, found.horizon)
        numbers = np.stack(
            (ended, world.sign * found.total, world.sign * expected, reviewed.claimed, reviewed.luck,
             found.total - expected, ended - expected_bad), axis=1,
        )  # fmt: skip
        for place, row, end in zip(found.place.tolist(), numbers, codes[found.end].tolist(), strict=True):
            key = text_of(cohort.ids[place])
            value = own.get(key)
            changing += key in several
            said = None if cohort.said is None else cohort.said[place]
            if value is None:
                missing += 1
            else:
                rows.setdefault(value, []).append(row)
                ends.setdefault(value, Counter())[said or names[end] or UNDER_WAY] += 1
    groups = {value: np.array(rows[value]) for value in sorted(rows, key=lambda one: (str(type(one)), one))}
    _check(by, groups)
    often = sum(ends.values(), Counter[str]())
    order = sorted(often, key=lambda one: (one == UNDER_WAY, -often[one], one))
    shares = {
        value: {end: _wilson(ends[value][end] / len(own), len(own)) for end in order} for value, own in groups.items()
    }
    compared = tuple(_group(value, groups, shares[value]) for value in groups)
    return Comparison(by, compared, name, missing, changing, "" if objective is None else str(objective), minimise)


def _check(by: str, groups: Mapping[Any, Floats]) -> None:
    few = list(groups.items())[:_LISTED]
    there = ", ".join(f"{shown(value)} ({counted(len(rows), 'episode')})" for value, rows in few)
    there += f", and {len(groups) - len(few):,} more" if len(groups) > len(few) else ""
    alone = [value for value, rows in groups.items() if len(rows) < 2]
    if len(groups) < 2:
        message = f"the column {by!r} has only one group: there is nothing to compare"
        raise QueryError(Problem(message, value=by, fix=f"groups: {there or 'none'}"))
    if alone:
        message = f"the group {shown(alone[0])} of {by!r} has one episode, which has no spread"
        raise QueryError(Problem(message, value=alone[0], fix=f"join groups, or leave it out; groups: {there}"))


def _group(
    value: Any, groups: Mapping[Any, Floats], outcomes: Mapping[str, tuple[float, float, float]]
) -> ComparedGroup:
    own = groups[value]
    others = np.concatenate([rows for other, rows in groups.items() if other is not value])
    means = [_interval(column) for column in own.T]
    mean = own[:, 5].mean() - others[:, 5].mean()
    half = _half_of_difference(own[:, 5], others[:, 5], len(groups))
    share = _wilson(float(own[:, 0].mean()), len(own))
    difference = float(mean), float(mean) - half, float(mean) + half
    observed, expected, mistakes, luck, beyond, bad_beyond = means[1:]
    return ComparedGroup(
        value, len(own), share, observed, expected, mistakes, luck, beyond, bad_beyond, difference, outcomes
    )


def _half_of_difference(own: Floats, others: Floats, groups: int) -> float:
    """Half the interval of a difference of means, with unequal spreads (Welch); of several groups all together."""
    from scipy.special import stdtrit

    errors = np.array([_error(own), _error(others)])
    if not errors.any():
        return 0.0
    freedom = float(np.sum(errors**2) ** 2 / np.sum(errors**4 / (np.array([own.size, others.size]) - 1)))
    missed = _MISSED / (groups if groups > 2 else 1)  # two groups are one comparison
    return float(stdtrit(freedom, 1 - missed / 2)) * float(np.hypot(*errors))


def _error(column: Floats) -> float:
    return float(column.std(ddof=1) / np.sqrt(column.size))


def _interval(column: Floats) -> tuple[float, float, float]:
    from scipy.special import stdtrit

    mean, half = float(column.mean()), float(stdtrit(column.size - 1, 1 - _MISSED / 2)) * _error(column)
    return mean, mean - half, mean + half


def _wilson(share: float, n: int) -> tuple[float, float, float]:
    """A share with its interval (Wilson), which stays within 0 and 1."""
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * float(np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n * n)))
    return share, middle - half, middle + half
