"""States and actions in words. Beside another state, only the parts that differ are written."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.words import in_parts, shown
from tether.errors import QueryError
from tether.evaluation.outcomes import is_end

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

Name = Callable[[Any], str]
"""Turns a state or an action into text."""

_WORD = re.compile(r"[^\W\d_]{3}")
"""Three letters in a row."""

_SHORT = 24
"""The longest name that fits into a table, in characters."""


def is_in_words(label: Any) -> bool:
    """Whether a name explains itself: text with a word in it, or a type that writes itself in words.

    >>> from tether.cases.epidemic import EpidemicState
    >>> is_in_words("critical"), is_in_words("s17"), is_in_words(17), is_in_words(EpidemicState(9, 1, 20))
    (True, False, False, False)
    """
    if isinstance(label, str):
        return _WORD.search(label) is not None
    own = any("__str__" in vars(kind) for kind in type(label).__mro__[:-1])
    return own and not isinstance(label, int | float)


def acting(action: Any, name: Callable[[Any], str]) -> str:
    """An action in a sentence, by its name; one that has no words says that it is an action.

    >>> acting("treat", str), acting(2, str)
    ('treat', 'action 2')
    """
    return name(action) if isinstance(action, str) else f"action {name(action)}"


def short(labels: Iterable[Any]) -> bool:
    """Whether names are short enough to be written out every time.

    >>> short(["well", "sick"])
    True
    """
    return all(len(shown(label)) <= _SHORT for label in labels)


def differences(label: Any, reference: Any) -> str:
    """How a state differs from another, in words: only the parts that differ, if both have the same parts.

    >>> from tether.cases.epidemic import EpidemicState
    >>> differences(EpidemicState(9, 1, 20), EpidemicState(9, 2, 19)), differences("well", "sick")
    ('I 1, V 20', 'well')
    """
    parts = getattr(label, "_fields", ())
    if not parts or getattr(reference, "_fields", ()) != parts:
        return shown(label)
    other = {part: value for part, value, then in zip(parts, label, reference, strict=True) if value != then}
    return shown(label.in_words(other) if hasattr(label, "in_words") else in_parts(other.items()))


def outcome_name(mdp: ModelRecord, states: Sequence[Any]) -> str | None:
    """The name of some states if they are one outcome: their label, or the name of the one absorbing state; else None.

    >>> import tether
    >>> mdp = tether.cases.grid_world().mdp
    >>> outcome_name(mdp, [15]), outcome_name(mdp, [3])
    ('goal', None)
    """
    indices = np.array([mdp.state_index(state) for state in states])
    for name, members in mdp.label_sets.ends.items():
        if np.isin(indices, members).all():
            return name
    return shown(states[0]) if len(states) == 1 and is_end(mdp, indices)[0] else None


def only(names: Sequence[str], start: Any) -> Callable[[Any], Any]:
    """A function that reduces a state to some of its parts; states with the same parts become one.

    ``start`` is a state that must have these parts: the one an episode begins in. A state that is a word has none (an
    outcome of a log, beside states of several columns): it stays as it is.

    >>> from tether.cases.epidemic import EpidemicState
    >>> part = only(["S", "I"], EpidemicState(9, 1, 20))
    >>> print(part(EpidemicState(9, 1, 20)), part("over"), sep="; ")
    S 9, I 1; over
    """
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        raise QueryError("no part of a state is named; name some, as in S, I")

    def of(state: Any) -> Any:
        known = getattr(state, "_fields", ())
        missing = [name for name in wanted if name not in known]
        if missing:
            has = f"they have {', '.join(known)}" if known else "their names have no named parts"
            raise QueryError(f"the states have no {', '.join(missing)}; {has}")
        return _parts(wanted)(*(getattr(state, name) for name in wanted))

    of(start)
    return lambda state: state if isinstance(state, str) else of(state)


@lru_cache(maxsize=1)
def _parts(names: tuple[str, ...]) -> Any:
    """A class of states with only these parts."""

    def text(state: Any) -> str:
        return shown(in_parts(zip(names, state, strict=True)))

    return type("State", (namedtuple("State", names),), {"__slots__": (), "__str__": text})
