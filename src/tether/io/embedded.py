"""The embedded cases, by the names a user types: ``case:sepsis``, ``case:sepsis-suboptimal``."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from types import ModuleType

from tether.cases import Case
from tether.errors import Problem, QueryError
from tether.observation.path import Path

__all__ = ["PREFIX", "about_case", "case_names", "is_case", "open_case", "path_names"]

PREFIX = "case:"

_NAMES = ("toy", "grid_world", "epidemic", "sepsis", "icu_sepsis")


def case_names() -> tuple[str, ...]:
    """The cases there are, as they are written after ``case:``.

    Examples
    --------
    >>> from tether.io.sources import case_names
    >>> case_names()[:4]
    ('toy', 'grid-world', 'epidemic', 'sepsis')
    """
    return tuple(_typed(name) for name in _NAMES)


def is_case(source: str) -> bool:
    """Whether a source names a case."""
    return source.startswith(PREFIX)


def open_case(source: str) -> tuple[Case, Path]:
    """The case a source names, and its path: the one named after a dash, or the first.

    Examples
    --------
    >>> from tether.io.sources import open_case
    >>> case, path = open_case("case:sepsis-suboptimal")
    >>> case, path == case.paths["suboptimal"]
    (<Case sepsis: 1,440 states, 8 actions; paths catastrophic, suboptimal>, True)
    """
    wanted = _typed(source.removeprefix(PREFIX).strip())
    fitting = [name for name in case_names() if wanted == name or wanted.startswith(f"{name}-")]
    if not fitting:
        near = get_close_matches(wanted, case_names(), n=1)
        hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
        there = ", ".join(PREFIX + name for name in case_names())
        raise QueryError(Problem(f"there is no case {source!r}; there are {there}{hint}", value=source))
    name = max(fitting, key=len)
    case = _made(name)
    return case, _path_of(case, name, wanted[len(name) + 1 :], source)


@lru_cache(maxsize=1)
def _made(name: str) -> Case:
    """A case by its name; kept, as a command asks for its model and then for its path."""
    case: Case = getattr(_module(name), name.replace("-", "_"))()
    return case


def path_names(name: str, case: Case) -> dict[str, str]:
    """What names each path of a case on a command line, and its name in ``case.paths``."""
    first, *others = case.paths
    return {f"{PREFIX}{name}": first} | {f"{PREFIX}{name}-{_typed(one)}": one for one in others}


def about_case(name: str) -> str:
    """What a case is about, in a line."""
    told = _module(name).__doc__ or ""
    return told.partition("\n\n")[0].replace("\n", " ").strip()


def _path_of(case: Case, name: str, wanted: str, source: str) -> Path:
    by_name = {_typed(given): path for given, path in case.paths.items()}
    if not wanted:
        return case.path
    if wanted not in by_name:
        there = ", ".join(path_names(name, case))
        message = f"{source!r}: the case {name} has no path {wanted!r}; its paths are {there}"
        raise QueryError(Problem(message, value=source))
    return by_name[wanted]


def _typed(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")


def _module(name: str) -> ModuleType:
    """The file of a case, which has a function of its own name."""
    return import_module(f"tether.cases.{name.replace('-', '_')}")
