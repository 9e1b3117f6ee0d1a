"""From a word to the name it means.

Where names are typed, or stand in a text file, ``7`` may mean the number or the text, and ``(9, 1, 20)`` a tuple.
The model's own names decide.
"""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from tether.errors import Problem, QueryError
from tether.io.names_as_text import find_index
from tether.model.names import Names

__all__ = ["Words", "find_name", "word_to_label"]


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
    >>> from tether.io.finding import find_name
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
