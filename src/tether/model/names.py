"""Names: the users' names of states and actions, and the index of each name.

A name is any hashable object. Inside, everything is an index; `Names` translates between the two.
Names 0 … n-1 cost no memory, whatever n is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import repeat
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from tether._foundation.markup import Displayed
from tether._foundation.words import counted
from tether.errors import ModelError, Problem

_LISTED = 12
"""How many names an error message lists; if there are more, it gives a summary."""

_COMPARED = 20
"""For how many unknown names of a batch of episodes, or of one list, it is said which name might be meant."""


class Names(Sequence[Any], Displayed):
    """Distinct names in the model's order: an immutable sequence that also finds a name's index.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(["rain"], ["wait"], ["rain"], [1.0])
    >>> mdp.states[0], "sun" in mdp.states, mdp.states.index("rain")
    ('rain', False, 0)
    """

    __slots__ = ()

    @property
    @abstractmethod
    def _items(self) -> Sequence[Any]:
        """All names, in order."""

    @abstractmethod
    def find(self, name: Any) -> int:
        """Index of ``name``, or -1."""

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        return self._items[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def find_all(self, names: Sequence[Any]) -> npt.NDArray[np.int32]:
        """Index of each of ``names``, -1 for unknown ones."""
        return np.fromiter(map(self.find, names), dtype=np.int32, count=len(names))

    def __contains__(self, name: object) -> bool:
        return self.find(name) >= 0

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        i = self.find(name)
        if i < max(start, 0) or (stop is not None and i >= stop):
            raise ValueError(f"{name!r} is not among the names")
        return i

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), self[0] if len(self) else None))

    def known(self, noun: str) -> str:
        """Which names there are, in a few words, for an error message."""
        n = len(self)
        if n <= _LISTED:
            return f"it has {counted(n, noun)}: " + name_list(self)
        return f"it has {n:,} {noun}s, {self[0]!r} … {self[n - 1]!r}"

    def missing(self, name: Any, noun: str, *, is_compared: bool = True, **fields: Any) -> Problem:
        """That ``name`` is unknown, and which name might be meant; ``fields`` are further ones of `Problem`."""
        near = self.near(name) if is_compared else ""
        about = {"value": name, noun: name, "fix": f"{self.known(noun)}{near}"}
        return Problem(f"the model has no {noun} {name!r}", **(about | fields))

    def near(self, name: Any) -> str:
        """A hint which name might be meant by an unknown one, or empty."""
        if isinstance(name, list):
            return f" (a list cannot be a name; did you mean the tuple {tuple(name)!r}?)"
        twin = {str(one): one for one in self[:10_000]}
        if str(name) in twin:
            found = twin[str(name)]
            return (
                f" (there is {found!r}, a name of type {type(found).__name__}, but {name!r} is a {type(name).__name__})"
            )
        if isinstance(name, str) and len(self) > _LISTED:
            close = get_close_matches(name, [one for one in twin.values() if isinstance(one, str)], n=1)
            if close:
                return f" (did you mean {close[0]!r}?)"
        return ""


class Unknown:
    """The problems of many unknown names. To compare a name with all others takes time: it is done once, and for few.

    >>> unknown = Unknown()
    >>> [unknown.problem(trusted_names(["sun"]), "rain", "state", time=t).time for t in (1, 2)]
    [1, 2]
    """

    def __init__(self) -> None:
        self._compared: dict[tuple[str, str], Problem] = {}

    def problem(self, names: Names, name: Any, noun: str, **fields: Any) -> Problem:
        """That ``name`` is not among the names; see `Names.missing`."""
        key = noun, repr(name)
        if key not in self._compared:
            if len(self._compared) == _COMPARED:
                return names.missing(name, noun, is_compared=False, **fields)
            self._compared[key] = names.missing(name, noun)
        return replace(self._compared[key], **fields)


class _Counted(Names):
    """The names 0 … n-1."""

    __slots__ = ("_items",)
    _items: range

    def __init__(self, n: int) -> None:
        self._items = range(n)

    def find(self, name: Any) -> int:
        try:
            i = hash(name)  # a small whole number is its own hash, also as a float or a NumPy scalar
        except TypeError:
            return -1
        return i if 0 <= i < len(self._items) and i == name else -1

    def __repr__(self) -> str:
        return f"Names(0 … {len(self) - 1:,})" if len(self) else "Names()"


class _Listed(Names):
    """Any other names, each listed."""

    __slots__ = ("_index", "_items")
    _items: tuple[Any, ...]

    def __init__(self, items: tuple[Any, ...], index: dict[Any, int]) -> None:
        self._items = items
        self._index = index

    def find(self, name: Any) -> int:
        if isinstance(name, np.generic):
            name = name.item()  # as in `plain`: a datetime64 does not equal its date
        try:
            return self._index.get(name, -1)
        except TypeError:
            return -1

    def find_all(self, names: Sequence[Any]) -> npt.NDArray[np.int32]:
        try:
            return np.fromiter(map(self._index.get, names, repeat(-1)), dtype=np.int32, count=len(names))
        except TypeError:  # one cannot be hashed
            return super().find_all(names)

    def __repr__(self) -> str:
        if len(self) <= _LISTED:
            return f"Names({name_list(self)})"
        return f"Names({self[0]!r}, {self[1]!r}, … {self[len(self) - 1]!r}: {len(self):,} names)"


def name_list(names: Iterable[Any], limit: int = _LISTED) -> str:
    """``'a', 'b', 'c'``, cut after ``limit``.

    >>> name_list("abcd", limit=2)
    "'a', 'b', … (4 in all)"
    """
    items = list(names)
    text = ", ".join(repr(item) for item in items[:limit])
    return text if len(items) <= limit else f"{text}, … ({len(items):,} in all)"


def names_in_use(names: Sequence[Any], *codes: npt.NDArray[Any]) -> tuple[Names, list[npt.NDArray[np.int64]]]:
    """The names that occur among some indices, and the indices among these; -1 stays -1.

    >>> used, codes = names_in_use("abc", np.array([2, 0, -1]))
    >>> list(used), codes[0].tolist()
    (['a', 'c'], [1, 0, -1])
    """
    used = np.unique(np.concatenate([one[one >= 0] for one in codes]))
    at = np.full(len(names) + 1, -1, dtype=np.int64)
    at[used] = np.arange(used.size)
    return make_names([names[int(i)] for i in used], None, "name"), [at[one] for one in codes]


def plain(values: Any) -> list[Any]:
    """Names as a list of plain Python objects, from a list, an array, a pandas or Arrow column, a range.

    >>> import numpy as np
    >>> plain(np.array([3, 1]))
    [3, 1]
    """
    for name in ("to_pylist", "to_list", "tolist"):
        method = getattr(values, name, None)
        if callable(method):
            return list(method())
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def make_names(given: Any, count: int | None, noun: str) -> Names:
    """Build names, checked: as many as ``count`` (if given), each hashable, none twice.

    Parameters
    ----------
    given : iterable of hashable, or None
        ``None`` stands for 0 … count-1.
    count : int, optional
        How many there must be.
    noun : str
        "state" or "action", for the error message.
    """
    if given is None:
        assert count is not None
        return _Counted(count)
    if not isinstance(given, Iterable):
        raise ModelError(f"{noun}s= takes a list of names, not {given!r}")
    items = tuple(given) if isinstance(given, Names) else tuple(plain(given))
    if count is not None and len(items) != count:
        given_count = counted(len(items), "name")
        raise ModelError(f"{noun}s= gives {given_count}, but the model has {counted(count, noun)}")
    index: dict[Any, int] = {}
    for i, item in enumerate(items):
        if not isinstance(item, Hashable):
            raise ModelError(_unhashable(f"{noun} {i}", item, ""))
        if is_missing(item):
            what = f"the name is missing ({item!r})"
            raise ModelError(Problem(what, value=item, place=f"{noun} {i}", fix="give it one"))
        try:
            first = index.setdefault(item, i)
        except TypeError as error:
            raise ModelError(_unhashable(f"{noun} {i}", item, f" ({error})")) from None
        if first != i:
            raise ModelError(
                Problem(f"the {noun} name {item!r} is given twice, at positions {first} and {i}", value=item)
            )
    if _is_count(items):
        return _Counted(len(items))
    return _Listed(items, index)


def as_array(column: Any) -> npt.NDArray[Any] | None:
    """The column as a flat array if it is one already (NumPy, pandas, polars, Arrow), else None."""
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = np.asarray(column)
    return column if isinstance(column, np.ndarray) and column.ndim == 1 else None


def _unhashable(place: str, item: Any, why: str) -> Problem:
    return Problem(f"the name {item!r} cannot be hashed{why}", value=item, place=place, fix="use a tuple")


def is_missing(item: Any) -> bool:
    """Whether a name is missing: None, or a value that does not equal itself, such as NaN, NaT and pandas' NA."""
    if item is None:
        return True
    try:
        return bool(item != item)  # noqa: PLR0124
    except TypeError:  # the comparison with NA is not a truth value
        return True


def trusted_names(items: Sequence[Any]) -> Names:
    """Names that are known to be distinct, hashable and not missing.

    >>> trusted_names([0, 1, 2]), trusted_names(["a", "b"])
    (Names(0 … 2), Names('a', 'b'))
    """
    items = tuple(items)
    if _is_count(items):
        return _Counted(len(items))
    return _Listed(items, dict(zip(items, range(len(items)), strict=True)))


def _is_count(items: tuple[Any, ...]) -> bool:
    return all(type(item) is int and item == i for i, item in enumerate(items))


class Tracked(NamedTuple):
    """The name of a state together with the status of a property.

    Attributes
    ----------
    state : hashable
        The state's own name.
    status : str
        "open", "holds" or "fails": whether the property is decided, and how. Of a formula, what remains to be met.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_arrays([[[0, 1], [1, 0]], [[1, 0], [0, 1]]], [[1, 0], [0, 0]], actions=["go", "stay"])
    >>> cf = tether.counterfactual(mdp, tether.Path([0, 0, 0], ["stay", "stay"]))
    >>> front = cf.pareto(k=3, m=2, against=tether.reach([1]))
    >>> front.points[0].plan.cf.mdp.states[3]  # state 1 can be left: that it was reached has to be remembered
    1 [holds]
    """

    state: Any
    status: str

    def __repr__(self) -> str:
        return f"{self.state!r} [{self.status}]"

    def __str__(self) -> str:
        return f"{self.state} [{self.status}]" if self.status.isalpha() else str(self.state)
