"""The study: the wanted sections, computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tether.errors import QueryError
from tether_reproduce.causal_sets import robust_section
from tether_reproduce.diabetes_section import hidden_section
from tether_reproduce.few_changes import few_changes_section
from tether_reproduce.findings import Section
from tether_reproduce.notions import notions_section
from tether_reproduce.off_policy import off_policy_section
from tether_reproduce.sepsis_cases import load_table, motivation_section, sepsis_section
from tether_reproduce.small_cases import epidemic_section, grid_section, toy_section

CASES: dict[str, Callable[[], Section]] = {
    "toy": toy_section,
    "grid_world": grid_section,
    "epidemic": epidemic_section,
    "sepsis": sepsis_section,
    "motivation": motivation_section,
    "hidden_diabetes": hidden_section,
    "notions": notions_section,
    "robust": robust_section,
    "few_changes": few_changes_section,
    "off_policy": off_policy_section,
}


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The computed sections."""

    sections: tuple[Section, ...]

    @property
    def seconds(self) -> float:
        """Time to compute them all, without drawing."""
        return sum(section.seconds for section in self.sections)


def named_cases(cases: Iterable[str]) -> list[str]:
    """The names of `CASES` that are meant: also by a beginning that only one of them has, ``hidden``.

    >>> named_cases(["hidden", "grid-world", "sepsis"])
    ['hidden_diabetes', 'grid_world', 'sepsis']
    """
    found = []
    for name in cases:
        typed = name.replace("-", "_")
        fitting = [typed] if typed in CASES else [one for one in CASES if typed and one.startswith(typed)]
        if len(fitting) != 1:
            raise QueryError(f"there is no case {name!r}; there are {', '.join(CASES)}")
        found += fitting
    return list(dict.fromkeys(found))


def reproduce(
    cases: Iterable[str] = (),
    sepsis_table: str | Path | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Study:
    """Compute published experiments again: those named, or all.

    Parameters
    ----------
    cases : iterable of str
        Names from `CASES`, or their beginnings; empty for all.
    sepsis_table : path, optional
        A copy of the public sampled table, to run the sepsis section on as well.
    progress : callable
        Called with the name of each section before it is computed.

    Examples
    --------
    >>> from tether_reproduce.study import reproduce
    >>> study = reproduce(["grid_world"])
    >>> study.sections[0].comparisons[0].verdict
    'equal'
    """
    names = named_cases(cases) or list(CASES)
    table = None if sepsis_table is None else load_table(sepsis_table)
    sections = []
    for name in names:
        progress(name)
        sections.append(_timed(CASES[name]))
        if name == "sepsis" and table is not None:
            progress("sepsis, sampled table")
            sections.append(replace(_timed(partial(sepsis_section, table)), name="sepsis_table"))
    return Study(tuple(sections))


def _timed(compute: Callable[[], Section]) -> Section:
    start = time.perf_counter()
    section = compute()
    return replace(section, seconds=time.perf_counter() - start)
