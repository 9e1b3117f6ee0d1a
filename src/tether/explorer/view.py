"""A view: everything that the page shows, as written in the address bar. A link or a reload shows it again.

States and actions are numbers in the address, their places in the model: names can be any text, of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args
from urllib.parse import urlencode

from tether.errors import Problem, QueryError
from tether.influence.one_step import Influence, effective, tv
from tether.influence.rules import NamedRule

TABS = {
    "answer": "Answer",
    "time": "Over time",
    "if": "What if",
    "why": "Why?",
    "decisions": "Decisions",
    "states": "States",
    "episodes": "Episodes",
    "take": "Take away",
}
"""The panels, and what they are called on the page."""

_LARGEST = 10**9


@dataclass(frozen=True, slots=True)
class Choices:
    """A what-if: (time, action) in the order of choosing, where the last choice for a time counts; and ``best_from``.

    Examples
    --------
    >>> some = Choices.read("3:1,5:0,best:7")
    >>> some.actions, some.best_from, some.written()
    ({3: 1, 5: 0}, 7, '3:1,5:0,best:7')
    >>> some.undone().written()
    '3:1,5:0'
    """

    made: tuple[tuple[int | None, int], ...] = ()

    @property
    def actions(self) -> dict[int, int]:
        """Actions by time."""
        return {t: action for t, action in self.made if t is not None}

    @property
    def best_from(self) -> int | None:
        """The time from which the best action is taken."""
        return next((t for when, t in reversed(self.made) if when is None), None)

    def undone(self) -> Choices:
        """These choices without the last one."""
        return Choices(self.made[:-1])

    def choosing(self, t: int, action: int) -> Choices:
        """These choices and one more; an earlier choice for that time is forgotten."""
        return Choices((*(one for one in self.made if one[0] != t), (t, action)))

    def best(self, t: int) -> Choices:
        """These choices and the best from some time on; choices for later times are forgotten."""
        return Choices((*(one for one in self.made if one[0] is not None and one[0] < t), (None, t)))

    def written(self) -> str:
        """The choices as text in an address."""
        return ",".join(f"best:{number}" if t is None else f"{t}:{number}" for t, number in self.made)

    @classmethod
    def read(cls, text: str) -> Choices:
        """The choices that a text in an address means."""
        made: list[tuple[int | None, int]] = []
        for part in text.split(",") if text else ():
            when, _, number = part.partition(":")
            made.append((None if when == "best" else _whole("if", when), _whole("if", number)))
        return cls(tuple(made))


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows.

    Attributes
    ----------
    episode : str
        Which of the episodes that are offered; empty: the first.
    k : int or None
        None: the suggested one.
    m, rule, influence, objective
        The other limits, as on the command line.
    tab : str
        The panel that is open.
    chosen : Choices
        The what-if.
    beside : Choices or None
        Another what-if, to compare it with.
    t, state, action : int
        What "Why?" is asked about; state -1: the observed one; action -1: none.
    search, outcome, order, page
        What is listed of the episodes.

    Examples
    --------
    >>> view = read_view({"k": "3", "if": "5:1", "tab": "if"})
    >>> view.k, view.m, view.chosen.actions
    (3, 1, {5: 1})
    >>> view.address(k=4)
    '?k=4&tab=if&if=5:1'
    """

    episode: str = ""
    k: int | None = None
    m: int = 1
    rule: NamedRule = "definition"
    influence: str = "support"
    objective: str = ""
    tab: str = "answer"
    chosen: Choices = Choices()
    beside: Choices | None = None
    t: int = 0
    state: int = -1
    action: int = -1
    search: str = ""
    outcome: str = ""
    order: str = ""
    page: int = 0

    def address(self, **changes: Any) -> str:
        """The address of this view, with some changes; only values that differ from their defaults are in it."""
        view = replace(self, **changes)
        given = {}
        for field in fields(View):
            value, usual = getattr(view, field.name), field.default
            if value != usual and value is not None:
                given[_NAMES.get(field.name, field.name)] = (
                    value.written() if isinstance(value, Choices) else str(value)
                )
        return "?" + urlencode(given, safe=":,")

    @property
    def test(self) -> str | Influence:
        """The test of influence, as the library takes it."""
        name, _, eps = self.influence.partition(":")
        if name == "support":
            return name
        try:
            number = float(eps or 0.0)
        except ValueError:
            raise _wrong("influence", self.influence, "support, tv:EPS or effective:EPS") from None
        return tv(number) if name == "tv" else effective(number)

    @property
    def wanted(self) -> tuple[str, int] | None:
        """The property that is asked for in place of the return: its kind, and which label of the model."""
        kind, _, label = self.objective.partition(":")
        return (kind, int(label)) if self.objective else None

    @property
    def limits(self) -> tuple[Any, ...]:
        """What decides the answer, within an episode."""
        return self.k, self.m, self.rule, self.influence, self.objective


_NAMES = {"chosen": "if", "beside": "vs", "episode": "e", "search": "q"}


def read_view(query: Mapping[str, str]) -> View:
    """The view of an address; what it does not name has its default. Unknown names are ignored."""
    given: dict[str, Any] = {}
    for field in fields(View):
        text = query.get(_NAMES.get(field.name, field.name))
        if text is not None and (text or field.name == "beside"):
            given[field.name] = _READERS.get(field.name, _text)(field.name, text)
    view = View(**given)
    _ = view.test  # raises here if it is not a test
    return view


def _text(name: str, text: str) -> str:
    if len(text) > 200:
        raise _wrong(name, f"{text[:20]}…", "at most 200 characters")
    return text


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal()) or abs(int(text[:12])) > _LARGEST or len(text) > 10:
        raise _wrong(name, text[:40], "a whole number")
    return int(text)


def _at_least(least: int) -> Any:
    def read(name: str, text: str) -> int:
        number = _whole(name, text)
        if number < least:
            raise _wrong(name, text, f"a whole number, {least} or more")
        return number

    return read


def _one_of(*known: str) -> Any:
    def read(name: str, text: str) -> str:
        if text not in known:
            raise _wrong(name, text[:40], f"one of {', '.join(known)}")
        return text

    return read


def _objective(name: str, text: str) -> str:
    kind, _, label = text.partition(":")
    if kind not in ("reach", "avoid"):
        raise _wrong(name, text[:40], "reach:NUMBER or avoid:NUMBER, the number of a label")
    return f"{kind}:{_whole(name, label)}"


def _influence(name: str, text: str) -> str:
    if text.partition(":")[0] not in ("support", "tv", "effective"):
        raise _wrong(name, text[:40], "support, tv:EPS or effective:EPS")
    return text[:40]


_READERS: dict[str, Any] = {
    "k": _at_least(1),
    "m": _at_least(0),
    "rule": _one_of(*get_args(NamedRule)),
    "influence": _influence,
    "objective": _objective,
    "tab": _one_of(*TABS),
    "chosen": lambda _name, text: Choices.read(text),
    "beside": lambda _name, text: Choices.read(text),
    "t": _at_least(0),
    "state": _at_least(-1),
    "action": _at_least(-1),
    "page": _at_least(0),
}


def _wrong(name: str, value: str, expected: str) -> QueryError:
    message = f"the address of this page has {name} = {value!r}; expected {expected}"
    return QueryError(Problem(message, value=value))
