"""The embedded cases, by the names a user types: ``case:sepsis``, ``case:sepsis-suboptimal``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import Any

from tether.cases import Case, TypedCase, hidden_diabetes
from tether.errors import Problem, QueryError
from tether.observation.path import Path

PREFIX = "case:"

TYPED = "hidden-diabetes"
"""The case of hidden types: sepsis patients, where nobody recorded who has diabetes."""

_ABOUT = {
    "ward": "A ward in four states: sick, worse, well, dead. Made up, for first steps.",
    "toy": "The eight-state example of the paper's figures on k = 1 and k = 2.",
    "twelve-states": "The twelve-state example of the paper's appendix on notions of influence.",
    "grid-world": "A robot on a 4×4 grid: from the top left to the goal at the bottom right, past a pit.",
    "epidemic": "An epidemic in a small population, with a stock of vaccine (the paper's appendix).",
    "sepsis": "Sepsis patients under treatment (Oberst & Sontag, 2019), built from the simulator's rules, exactly.",
    "icu-sepsis": (
        "ICU-Sepsis (Choudhary, Gupta and Thomas, 2024): "
        "patients with sepsis in intensive care, estimated from MIMIC-III."
    ),
}
"""The cases, and what each is about; a case is a file of `tether.cases` with a function of its own name."""


def case_names() -> tuple[str, ...]:
    """All cases, as they are written after ``case:``.

    Examples
    --------
    >>> from tether.io.embedded import case_names
    >>> case_names()[:4]
    ('ward', 'toy', 'twelve-states', 'grid-world')
    """
    return tuple(_ABOUT)


def is_case(source: str) -> bool:
    """Whether a source names a case."""
    return source.startswith(PREFIX)


def open_case(source: str) -> tuple[Case, Path]:
    """The case a source names, and its path: the one named after a dash, or the first.

    Examples
    --------
    >>> from tether.io.embedded import open_case
    >>> case, path = open_case("case:sepsis-suboptimal")
    >>> case, path == case.paths["suboptimal"]
    (<Case sepsis: 1,440 states, 8 actions; paths catastrophic, suboptimal>, True)
    """
    name = find_case(source)
    case = _make_case(name)
    return case, _path_of(case, name, _wanted(source)[len(name) + 1 :], source)


def is_typed_case(source: str) -> bool:
    """Whether a source names the case of hidden types, or one of its paths.

    >>> is_typed_case("case:hidden-diabetes-unclear"), is_typed_case("case:sepsis")
    (True, False)
    """
    name = _wanted(source)
    return is_case(source) and (name == TYPED or name.startswith(f"{TYPED}-"))


def open_typed_case(source: str) -> tuple[TypedCase, Path]:
    """The case of hidden types, and the path a source names.

    >>> case, path = open_typed_case("case:hidden-diabetes-unclear")
    >>> path == case.paths["unclear"]
    True
    """
    case = hidden_diabetes()
    return case, _path_of(case, TYPED, _wanted(source)[len(TYPED) + 1 :], source)


def find_case(source: str) -> str:
    """The name of the case in a source, without building the case; the path in the source is ignored.

    >>> find_case("case:sepsis-suboptimal")
    'sepsis'
    """
    wanted = _wanted(source)
    fitting = [name for name in case_names() if wanted == name or wanted.startswith(f"{name}-")]
    if not fitting:
        near = get_close_matches(wanted, (*case_names(), TYPED), n=1)
        hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
        there = ", ".join(PREFIX + name for name in (*case_names(), TYPED))
        raise QueryError(Problem(f"there is no case {source!r}; there are {there}{hint}", value=source))
    return max(fitting, key=len)


@lru_cache(maxsize=1)
def _make_case(name: str) -> Case:
    """A case by its name; kept, because a command uses its model and then its path."""
    written = name.replace("-", "_")
    case: Case = getattr(import_module(f"tether.cases.{written}"), written)()
    return case


def path_names(name: str, case: Case | TypedCase) -> dict[str, str]:
    """How each path of a case is written on a command line, and its name in ``case.paths``."""
    first, *others = case.paths
    return {f"{PREFIX}{name}": first} | {f"{PREFIX}{name}-{_typed(one)}": one for one in others}


def about_case(name: str) -> str:
    """What a case is about, in a line."""
    return _ABOUT[_typed(name)]


def title_of(source: str, noun: str) -> str:
    """A person's name for an episode of a case.

    >>> title_of("case:icu-sepsis", "patient"), title_of("case:ward-patient-4", "patient")
    ('ICU sepsis patient', 'Patient 4')
    """
    name = TYPED if is_typed_case(source) else find_case(source)
    wanted = _wanted(source)[len(name) + 1 :].replace("-", " ")
    if not wanted and name != TYPED:
        wanted = next(iter(_make_case(name).paths))
    if wanted.startswith(noun):
        return wanted.capitalize()
    text = f"{name.replace('icu', 'ICU').replace('-', ' ')} {noun}"
    return f"{text[0].upper()}{text[1:]}"


def words_of(source: str) -> Mapping[Any, str]:
    """The actions of a case in words, where their names are abbreviations; none for another source.

    >>> words_of("case:epidemic")["V_I"], dict(words_of("model.csv"))
    ('vaccinate an infected person', {})
    """
    return _make_case(find_case(source)).words if is_case(source) and not is_typed_case(source) else {}


def _path_of(case: Case | TypedCase, name: str, wanted: str, source: str) -> Path:
    by_name = {_typed(given): path for given, path in case.paths.items()}
    if not wanted:
        return case.path
    if wanted not in by_name:
        there = ", ".join(path_names(name, case))
        message = f"{source!r}: the case {name} has no path {wanted!r}; its paths are {there}"
        raise QueryError(Problem(message, value=source))
    return by_name[wanted]


def _wanted(source: str) -> str:
    return _typed(source.removeprefix(PREFIX).strip())


def _typed(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")
