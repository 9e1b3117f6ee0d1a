"""What a rule changes: b instead of a, b always, a never; for whole actions, or for one part of composed ones.

Actions may be composed: names such as ``"antibiotics + ventilation"``, beside one for nothing of it (``"no
treatment"``), or tuples with named parts. Then an edit may be about one part: ``"no ventilation"`` instead of
``"ventilation"``, whatever else is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

from tether._foundation.words import folded, shown
from tether.errors import Problem, QueryError
from tether.io.names_as_text import find_index
from tether.model.names import Names, name_list

KINDS = ("instead", "always", "never")
_WITHOUT = ("no ", "without ")


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of each action, by index: another action, itself, or -1: whatever else is usual.

    Attributes
    ----------
    instead_of, do : str or None
        In words; None where any action is replaced, or where whatever else is usual is done.
    to : tuple of int
    """

    instead_of: str | None
    do: str | None
    to: tuple[int, ...]

    def __str__(self) -> str:
        if self.do is None:
            return f"never {self.instead_of}"
        return f"always {self.do}" if self.instead_of is None else f"{self.do} instead of {self.instead_of}"


class Actions:
    """The actions of a model, and the parts that they are composed of."""

    def __init__(self, names: Names) -> None:
        self.names = names

    @cached_property
    def parts(self) -> dict[str, list[Any]]:
        """For each kind of part, its value in each action; empty if actions are not composed.

        A part of a text is there or not (True, False); a part of a tuple has a value.
        """
        names = list(self.names)
        fields = getattr(names[0], "_fields", ()) if names else ()
        if fields and all(getattr(one, "_fields", ()) == fields for one in names):
            return {one: [getattr(name, one) for name in names] for one in fields}
        if not all(isinstance(name, str) for name in names):
            return {}
        split = [tuple(part.strip() for part in name.split(" + ")) for name in names]
        found = list(dict.fromkeys(part for parts in split if len(parts) > 1 for part in parts))
        alone = [parts[0] for parts in split if len(parts) == 1 and parts[0] not in found]
        if len(found) < 2 or len(alone) > 1:
            return {}
        return {part: [part in parts for parts in split] for part in found}

    def read(self, instead_of: Any, do: Any) -> Edit:
        """The edit that is meant by names of actions, or of parts of them."""
        if instead_of is None and do is None:
            fix = "give do= (what is done), instead_of= (what is not done any more), or both"
            raise QueryError(Problem("the rule changes nothing", fix=fix))
        whole = [None if one is None else find_index(self.names, one) for one in (instead_of, do)]
        if all(one is None or one >= 0 for one in whole):
            return self._of_actions(*whole)
        edit = self._of_part(instead_of, do)
        if edit is not None:
            return edit
        wrong = instead_of if whole[0] == -1 else do
        there = f"actions: {name_list(self.names)}"
        if self.parts:
            there += f"; parts of them: {', '.join(self.parts)}, each also with 'no' before it"
        raise QueryError(
            Problem(f"the rule names {wrong!r}, which is no action", value=wrong, fix=f"there are {there}")
        )

    def all_edits(self, kinds: Any = None) -> list[Edit]:
        """The edits to search in: by default every part of composed actions, else every action instead of every other.

        ``kinds`` are some of "instead", "always", "never", or pairs (instead of, do).
        """
        chosen = ["instead"] if kinds is None else [kinds] if isinstance(kinds, str) else list(kinds)
        found: list[Edit] = []
        for kind in chosen:
            if isinstance(kind, Edit):
                found.append(kind)
            elif isinstance(kind, str) and kind not in KINDS:
                message = f"edits are 'instead', 'always', 'never', or pairs of actions, not {kind!r}"
                raise QueryError(Problem(message, value=kind, argument="edits"))
            elif not isinstance(kind, str):
                found.append(self.read(*kind))
            elif self.parts:
                found += self._part_edits(kind)
            else:
                every = range(len(self.names))
                pairs: Iterable[tuple[int | None, int | None]] = permutations(every, 2)
                if kind != "instead":
                    pairs = [(None, b) if kind == "always" else (b, None) for b in every]
                found += [self._of_actions(*pair) for pair in pairs]
        return list(dict.fromkeys(found))

    def _of_actions(self, a: int | None, b: int | None) -> Edit:
        to = list(range(len(self.names)))
        for i in to if a is None else [a]:
            to[i] = -1 if b is None else b
        words = [None if one is None else shown(self.names[one]) for one in (a, b)]
        return Edit(words[0], words[1], tuple(to))

    def _of_part(self, instead_of: Any, do: Any) -> Edit | None:
        before, after = (None if one is None else self._part(str(one)) for one in (instead_of, do))
        given = before or after
        if given is None or (instead_of is not None and before is None) or (do is not None and after is None):
            return None
        part, value = given
        if before is not None and after is not None and before[0] != after[0]:
            return None
        if after is None:
            return self._without(part, value)
        return self._set_part(part, None if before is None else before[1], after[1])

    def _part(self, text: str) -> tuple[str, Any] | None:
        """The part and the value that a text means: ``"ventilation"``, ``"no ventilation"``, ``"dose = high"``."""
        for part, values in self.parts.items():
            for value in dict.fromkeys(values):
                if folded(text) in {folded(one) for one in _spellings(part, value)}:
                    return part, value
        return None

    def _part_edits(self, kind: str) -> list[Edit]:
        edits = []
        for part, given in self.parts.items():
            values = list(dict.fromkeys(given))
            if kind == "instead":
                edits += [self._set_part(part, *pair) for pair in permutations(values, 2)]
            else:
                edits += [self._set_part(part, None, v) if kind == "always" else self._without(part, v) for v in values]
        return edits

    def _without(self, part: str, value: Any) -> Edit:
        """Never a value of a part: the only other one instead; of several, whatever else is usual."""
        others = [one for one in dict.fromkeys(self.parts[part]) if one != value]
        if len(others) == 1:
            return self._set_part(part, value, others[0])
        to = tuple(-1 if one == value else i for i, one in enumerate(self.parts[part]))
        return Edit(_spellings(part, value)[0], None, to)

    def _set_part(self, part: str, before: Any, after: Any) -> Edit:
        rows = [tuple(values[i] for values in self.parts.values()) for i in range(len(self.names))]
        number, place = {row: i for i, row in enumerate(rows)}, list(self.parts).index(part)
        to = []
        for i, row in enumerate(rows):
            wanted = (*row[:place], after, *row[place + 1 :])
            touched = row[place] != after and (before is None or row[place] == before)
            to.append(number.get(wanted, i) if touched else i)
        others = [one for one in dict.fromkeys(self.parts[part]) if one != after]
        before = others[0] if before is None and len(others) == 1 else before
        said = None if before is None else _spellings(part, before)[0]
        return Edit(said, _spellings(part, after)[0], tuple(to))


def _spellings(part: str, value: Any) -> list[str]:
    words = part.replace("_", " ")
    if value is True:
        return [words]
    if value is False:
        return [f"{one}{words}" for one in _WITHOUT]
    return [f"{words} = {shown(value)}", f"{words} {shown(value)}"]
