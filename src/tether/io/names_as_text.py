"""Names as text, and back: a state is the text ``(9, 1, 20)`` in a file, and a tuple of numbers in the model.

Where names are typed, or stand in a text file, ``7`` may mean the number or the text. The model's own names decide.
"""

from __future__ import annotations

import ast
import re
from ast import literal_eval
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tether.errors import FileError, Problem, QueryError
from tether.mdp import MDP
from tether.model.names import Names
from tether.observation.path import Path

_VALUES = re.compile(r"\((?:[-+0-9.,() ]|[Tt]rue|[Ff]alse){1,1000}\)|[Tt]rue|[Ff]alse")
"""The pattern of numbers and truth values in a tuple, or of a truth value alone; PRISM writes ``(1,true,0)``.

A tuple with texts is found only if it is written exactly as in the model.
"""


def text_of(name: Any) -> str:
    """A name as text: text as it is, a tuple, named or not, as a plain tuple.

    Examples
    --------
    >>> import tether
    >>> from tether.io.names_as_text import text_of
    >>> text_of("sick"), text_of(7), text_of(tether.cases.epidemic().mdp.states[0])
    ('sick', '7', '(0, 0, 0)')
    """
    return repr(_bare(name)) if isinstance(name, tuple | np.generic) else str(name)


def are_whole(names: Names) -> bool:
    """Whether all names are whole numbers, as a column of 64 bits holds them."""
    return all(type(name) is int and -(2**63) <= name < 2**63 for name in names)


def texts_of(names: Names, noun: str, file: str, *, trimmed: bool) -> list[str]:
    """All names as text, if each can be recognised when the file is read.

    ``trimmed`` says that readers of the file drop the spaces around a text.
    """
    texts = [text_of(name) for name in names]
    seen: dict[str, int] = {}
    for i, text in enumerate(texts):
        first = seen.setdefault(text, i)
        wrong = ""
        if first != i:
            wrong = f"is written like the name {names[first]!r}"
        elif not text:
            wrong = "is empty"
        elif "\0" in text or not _is_unicode(text):
            wrong = "holds characters that a file cannot hold"
        elif trimmed and text != text.strip():
            wrong = "has spaces around it, which are lost when a text file is read"
        if wrong:
            what, fix = f"the {noun} name {names[i]!r} {wrong}", f"rename it: mdp.with_names({noun}s=…)"
            raise FileError(Problem(what, value=names[i], file=file, fix=fix))
    return texts


def find_index(names: Names, value: Any) -> int:
    """The index of the name that a value from a file means, or -1.

    It is the name that equals the value; else the one with the same text; else the tuple of numbers and truth values in
    the text, or its truth value; else the named tuple that an answer or an error writes in this way.

    Examples
    --------
    >>> import tether
    >>> from tether.io.names_as_text import find_index
    >>> states = tether.cases.epidemic().mdp.states
    >>> find_index(states, "(9, 1, 20)") == find_index(states, "(9,1,20)") == states.index((9, 1, 20))
    True
    >>> find_index(states, "(99, 1, 20)")
    -1
    """
    found = names.find(value)
    if found >= 0:
        return found
    if isinstance(value, list):
        return names.find(_tupled(value))
    text = text_of(value)
    found = _by_text(names).get(text, -1)
    if found == _SEVERAL:
        same = [name for name in names if text_of(name) == text]
        message = f"{value!r} could be any of {len(same)} names: {', '.join(map(repr, same[:5]))}; rename them"
        raise QueryError(Problem(message, value=value))
    if found < 0 or text_of(names[found]) != text:  # the index may be that of equal names: False equals 0
        found = _find_spelled(names, text)
    return found if found >= 0 else max(-1, _as_shown(names).get(text, -1))


def in_names_of(mdp: MDP, path: Path) -> Path:
    """A path in the names of a model, found by their text if necessary; unknown names stay as they are.

    Examples
    --------
    >>> import tether
    >>> from tether.io.names_as_text import in_names_of
    >>> in_names_of(tether.cases.grid_world().mdp, tether.Path(["0", "elsewhere"], ["right"])).states
    (0, 'elsewhere')
    """

    def known(names: Names, given: Any) -> Any:
        place = find_index(names, given)
        return given if place < 0 else names[place]

    states = [known(mdp.states, one) for one in path.states]
    return Path(states, [known(mdp.actions, one) for one in path.actions], path.rewards, path.outcome)


_SEVERAL = -2


@lru_cache(maxsize=4)  # the states and actions of a model, while a file is read against them
def _by_text(names: Names) -> dict[str, int]:
    index: dict[str, int] = {}
    for i, name in enumerate(names):
        if index.setdefault(text_of(name), i) != i:
            index[text_of(name)] = _SEVERAL
    return index


@lru_cache(maxsize=4)
def _as_shown(names: Names) -> dict[str, int]:
    """Named tuples by what answers (`str`) and errors (`repr`) call them, where only one is called so."""
    index: dict[str, int] = {}
    for i, name in enumerate(names):
        if isinstance(name, tuple) and hasattr(name, "_fields"):
            for shown in (str(name), repr(name)):
                if index.setdefault(shown, i) != i:
                    index[shown] = _SEVERAL
    return index


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bare(name: Any) -> Any:
    """A value without the class names of named tuples and the types of NumPy, which its text would show."""
    if isinstance(name, tuple):
        return tuple(_bare(one) for one in name)
    return name.item() if isinstance(name, np.generic) else name


def _tupled(value: Any) -> Any:
    return tuple(_tupled(one) for one in value) if isinstance(value, list) else value


def _find_spelled(names: Names, text: str) -> int:
    """The index of the tuple of numbers and truth values, or of the truth value, that a text spells; or -1."""
    value = _spelled(text)
    found = -1 if value is None else names.find(value)
    return found if found >= 0 and _truths(names[found]) == _truths(value) else -1


def _spelled(text: str) -> Any:
    """The tuple or truth value that a text spells, however it is spaced; None for any other text."""
    if not _VALUES.fullmatch(text):
        return None
    try:
        value = ast.literal_eval(text.replace("true", "True").replace("false", "False"))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return value if isinstance(value, tuple | bool) else None


def _truths(value: Any) -> Any:
    """Where a value has truth values: True equals 1, but does not mean the same."""
    return tuple(map(_truths, value)) if isinstance(value, tuple) else isinstance(value, bool)


def find_name(names: Names, word: Any, noun: str) -> Any:
    """The name that ``word`` means: the name itself, or one that is written so.

    Parameters
    ----------
    names : Names
        Of a model: ``mdp.states`` or ``mdp.actions``.
    word : object
        What was given. Text that is no name is read as a number, a tuple or list (``(9, 1, 20)``, ``[9, 1, 20]``),
        or as what a name prints as.
    noun : {"state", "action"}
        For the error message.

    Examples
    --------
    >>> import tether
    >>> from tether.io.names_as_text import find_name
    >>> find_name(tether.cases.epidemic().mdp.states, "(9, 1, 20)", "state")
    (9, 1, 20)
    >>> find_name(tether.cases.grid_world().mdp.states, "15", "state")
    15
    """
    return Words(names, noun).find(word)


@dataclass(frozen=True)
class Words:
    """Finds name after name; looks at how all are written only once."""

    names: Names
    noun: str

    def find(self, word: Any) -> Any:
        """The name that ``word`` means."""
        i = find_index(self.names, word)
        if i < 0 and isinstance(word, str):
            i = self._as_written(word.strip())
        if i < 0:
            raise QueryError(self._missing(word))
        return self.names[i]

    def _as_written(self, word: str) -> int:
        meant = _literal(word)
        i = -1 if meant is None else find_index(self.names, meant)
        return i if i >= 0 else self._written.get(word, -1)

    @cached_property
    def _written(self) -> dict[str, int]:
        return {shown: i for i, name in reversed(list(enumerate(self.names))) for shown in (repr(name), str(name))}

    def _missing(self, word: Any) -> Problem:
        named = any(character.isalpha() for character in str(word))  # among numbers, all are close
        near = get_close_matches(str(word), list(self._written)[:10_000], n=1) if named else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        fix = f"{self.names.known(self.noun)}{hint}"
        return Problem(f"the model has no {self.noun} {str(word)!r}", value=word, fix=fix)


def _literal(word: str) -> Any:
    try:
        return literal_eval(word)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def word_to_label(word: str) -> Any:
    """What a word means where no model says: a whole number written plainly, else the text."""
    return int(word) if re.fullmatch(r"0|-?[1-9][0-9]*", word) else word
