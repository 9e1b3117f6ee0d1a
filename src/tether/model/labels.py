"""Labels: named sets of states, such as "died" or "goal".

A state has a name of its own; a label is a word for several states. Labels come from `tether.MDP.with_labels`, from
files of PRISM and Storm, and with the cases. A state that was declared terminal when the model was built is a label by
itself, for that one state. Its name is the state's name as text: ``"dead"``, ``"15"``, ``"(0, 3, 20)"``.

Inside, a label is an ascending array of state indices: four bytes per state.

A label may be marked good or bad: how an episode should end, and how it should not. Where no label of a model is
marked, a name that says it by itself counts as marked ("dead", "recovered", "died=1").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Literal

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether._foundation.problems import Complaints, Source
from tether._foundation.words import counted
from tether.errors import ModelError, Problem, QueryError
from tether.model.finish import says_yes
from tether.model.names import Names, Tracked, Unknown, as_array, name_list, plain

ErrorKind = type[ModelError] | type[QueryError]

Side = Literal["bad", "good", ""]
"""Whether an outcome is bad, good, or neither."""

_BAD = {"died", "dead", "death", "danger", "hole", "fell", "crashed", "failed", "lost"}
_GOOD = {"discharged", "well", "goal", "recovered", "survived", "survival", "alive", "home", "safe"}
_YES, _NO = {"1", "true", "yes", "1.0"}, {"0", "false", "no", "0.0"}


class StateSet(Set[Any]):
    """The states of a label: an immutable set of state names, in the model's order.

    Attributes
    ----------
    indices : array of int32
        The states by index, ascending (read-only).

    Examples
    --------
    >>> import tether
    >>> goal = tether.cases.grid_world().mdp.labels["goal"]
    >>> goal, 15 in goal, len(goal), goal == {15}
    (StateSet(15), True, 1, True)
    """

    __slots__ = ("_states", "indices")

    def __init__(self, states: Names, indices: Ints) -> None:
        self._states = states
        self.indices = indices

    def __contains__(self, state: object) -> bool:
        s = self._states.find(state)
        at = int(np.searchsorted(self.indices, s))
        return s >= 0 and at < self.indices.size and int(self.indices[at]) == s

    def __iter__(self) -> Iterator[Any]:
        return (self._states[s] for s in self.indices.tolist())

    def __len__(self) -> int:
        return int(self.indices.size)

    def __hash__(self) -> int:
        return self._hash()

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return frozenset(it)  # the result of `&`, `|` and `-`

    def __repr__(self) -> str:
        first = [self._states[s] for s in self.indices[:12].tolist()]
        rest = f", … ({len(self):,} in all)" if len(self) > len(first) else ""
        return f"StateSet({name_list(first)}{rest})"


class LabelSets(Mapping[str, Ints]):
    """The labels of a model as it keeps them: for each the indices of its states, ascending, read-only.

    ``sides`` says which labels are marked good or bad; terminal states, which are labels by themselves, may be.
    """

    __slots__ = ("_sets", "sides")

    def __init__(self, sets: Mapping[str, Any] | None = None, sides: Mapping[str, Side] | None = None) -> None:
        self._sets: dict[str, Ints] = {}
        self.sides: dict[str, Side] = dict(sides or {})
        for name, given in (sets or {}).items():
            indices = np.ascontiguousarray(given, dtype=np.int32)
            indices.flags.writeable = False
            self._sets[name] = indices

    def __getitem__(self, name: str) -> Ints:
        return self._sets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def ends(self) -> dict[str, Ints]:
        """The labels that can say how an episode ended: all except ``init``, which marks where one starts."""
        return {name: states for name, states in self._sets.items() if name != "init"}

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor: a pickle does not keep arrays read-only.
        return LabelSets, (self._sets, self.sides)

    def marked(self, side: Side) -> tuple[str, ...]:
        """The labels that are marked so."""
        return tuple(name for name, one in self.sides.items() if one == side)


class Labels(Mapping[str, StateSet]):
    """The labels of a model: an immutable mapping from the name of a label to its states.

    First the given labels, in their order; then the terminal states, each a label by itself.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(["on"], ["press"], ["off"], [1.0], terminal=["off"])
    >>> mdp.labels
    Labels(off: 1 state)
    >>> mdp.with_labels({"lit": ["on"]}).labels["lit"]
    StateSet('on')
    """

    __slots__ = ("_sets", "_states", "_terminal")

    def __init__(self, states: Names, sets: LabelSets, terminal: Ints) -> None:
        self._states, self._sets, self._terminal = states, sets, terminal

    def __getitem__(self, name: str) -> StateSet:
        given = self._sets.get(name)
        if given is None:
            given = terminal_set(self._states, self._terminal, name)
        if given.size == 0 and name not in self._sets:
            raise KeyError(name)
        return StateSet(self._states, given)

    def __iter__(self) -> Iterator[str]:
        yield from self._sets
        # Two terminal states may have the same text (1 and "1"), also as a given label: this is one label.
        texts = dict.fromkeys(name_text(self._states[s]) for s in self._terminal.tolist())
        yield from (text for text in texts if text not in self._sets)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: Any) -> StateSet:
        """The states of a label, or an error that says what labels there are.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.labels.find("danger")
        StateSet(6)
        """
        if isinstance(name, str) and name in self:
            return self[name]
        raise QueryError(Problem(f"the model has no label {name!r}; {self.known()}", value=name))

    def side(self, name: str) -> Side:
        """Whether an outcome is good or bad: as it is marked, or by its name where no label of the model is marked.

        Examples
        --------
        >>> import tether
        >>> labels = tether.cases.sepsis().mdp.labels
        >>> labels.side("died"), labels.side("discharged"), labels.side("s7")
        ('bad', 'good', '')
        """
        if not self._sets.sides:
            return side_in_words(name)
        parts = [name] if name in self._sets.sides else name.split(", ")  # states with several labels
        sides = {self._sets.sides.get(part, "") for part in parts}
        return "bad" if "bad" in sides else "good" if "good" in sides else ""

    def on_side(self, side: Side) -> Flags:
        """Which states are a good end, or a bad one: for each state of the model whether it has such a label."""
        found = np.zeros(len(self._states), dtype=bool)
        for name, states in self._sets.ends.items():
            if self.side(name) == side:
                found[states] = True
        for s in self._terminal.tolist():
            found[s] |= self.side(name_text(self._states[s])) == side
        return found

    def known(self) -> str:
        """Say in a few words what labels there are, for an error message."""
        names = list(self)
        return f"its labels are {name_list(names)}" if names else "it has none: give some with mdp.with_labels({…})"

    def __repr__(self) -> str:
        parts = [f"{name}: {counted(len(self[name]), 'state')}" for _, name in zip(range(12), self, strict=False)]
        rest = f", … ({len(self):,} in all)" if len(self) > len(parts) else ""
        return f"Labels({', '.join(parts)}{rest})"


def name_text(name: Any) -> str:
    """The name of a state as text: text as it is, a tuple, named or not, as a plain tuple.

    >>> name_text("dead"), name_text((0, 3))
    ('dead', '(0, 3)')
    """
    if isinstance(name, Tracked):
        return f"{name_text(name.state)} [{name.status}]" if name.status.isalpha() else name_text(name.state)
    return repr(tuple(name)) if isinstance(name, tuple) else str(name)


def side_in_words(name: str) -> Side:
    """Whether an outcome is bad or good, if its name says it by itself.

    >>> side_in_words("Died"), side_in_words("goal"), side_in_words("died=0"), side_in_words("s7")
    ('bad', 'good', 'good', '')
    """
    word, _, value = name.lower().partition("=")
    side: Side = "bad" if word in _BAD else "good" if word in _GOOD else ""
    if not value or not side or value in _YES:
        return side
    other: Side = "good" if side == "bad" else "bad"
    return other if value in _NO else ""


def terminal_set(states: Names, terminal: Ints, text: Any) -> Ints:
    """The terminal states whose names are written as ``text``; usually none."""
    found = [s for s in terminal.tolist() if name_text(states[s]) == text]
    return np.array(found, dtype=np.int32)


def with_label_sets(
    states: Names, sets: LabelSets, terminal: Ints, given: Any, good: Any = None, bad: Any = None
) -> LabelSets:
    """Labels with some added, and some marked good or bad; see `tether.MDP.with_labels`."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise ModelError(f'labels are given as a mapping, {{"died": [state, …]}}, not {given!r}')
    merged: dict[str, Ints] = dict(sets)
    for name, value in given.items():
        if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
            message = f"the label {name!r} cannot be: a label is a text, without spaces around it"
            raise ModelError(Problem(message, value=name))
        if value is None:
            if merged.pop(name, None) is None:
                there = Labels(states, sets, terminal)
                why = "it is a terminal state" if name in there else f"there is none; {there.known()}"
                raise ModelError(Problem(f"the label {name!r} cannot be removed: {why}", value=name))
            continue
        indices = member_indices(states, f"the label {name!r}", value)
        if indices.size == 0:
            raise ModelError(Problem(f"the label {name!r}: no state has it", value=name))
        if name in merged and not np.array_equal(merged[name], indices):
            message = f"the label {name!r} exists already, for other states: {StateSet(states, merged[name])!r}"
            raise ModelError(Problem(f"{message}; choose another name, or take it away with None first", value=name))
        merged[name] = indices
    check_names(states, merged, terminal)
    kept: dict[str, Side] = {name: side for name, side in sets.sides.items() if given.get(name, ()) is not None}
    return LabelSets(merged, kept | _sides(Labels(states, LabelSets(merged), terminal), good, bad))


def _sides(labels: Labels, good: Any, bad: Any) -> dict[str, Side]:
    """Which labels are newly marked good or bad, checked."""
    found: dict[str, Side] = {}
    given: tuple[tuple[Side, Any], ...] = (("good", good), ("bad", bad))
    for side, names in given:
        if names is not None and not isinstance(names, str) and not isinstance(names, Iterable):
            raise ModelError(Problem(f"{side}= takes the name of a label, or several, not {names!r}", value=names))
        for name in [] if names is None else [names] if isinstance(names, str) else names:
            if not isinstance(name, str) or name not in labels:
                message = f"{side}={name!r}: the model has no such label; {labels.known()}"
                raise ModelError(Problem(message, value=name))
            if found.setdefault(name, side) != side:
                raise ModelError(Problem(f"the label {name!r} cannot be both good and bad", value=name))
    return found


def check_names(states: Names, sets: Mapping[str, Ints], terminal: Ints) -> None:
    """Refuse a label with the name of a terminal state, which is a label by itself, but with other states."""
    for name, indices in sets.items():
        own = terminal_set(states, terminal, name)
        if own.size and not np.array_equal(own, indices):
            message = f"the label {name!r} has the name of a terminal state, which is a label by itself; rename one"
            raise ModelError(Problem(message, value=name))


def member_indices(states: Names, what: str, value: Any, error: ErrorKind = ModelError) -> Ints:
    """The states of a set, ascending, from a predicate, a column of truth values, or a list of states.

    ``what`` names the set in messages, and ``error`` is the kind of error that they are.
    """
    if isinstance(value, StateSet):
        value = list(value)
    if callable(value):
        return _where(states, what, value, error)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        message = f"{what} takes a list of states, a function of a name, or a column of truth values"
        raise error(Problem(f"{message}, not {value!r}: [{value!r}]", value=value))
    array = None if isinstance(value, list | tuple | Set) else as_array(value)
    if array is not None and array.dtype == np.bool_:
        return _of_column(states, what, array, error)
    items = plain(value)
    if items and all(isinstance(item, bool) for item in items) and not _has_truth_values(states):
        return _of_column(states, what, np.array(items), error)
    found, complaints, unknown = [], Complaints(Source(), error), Unknown()
    for item in items:
        s = states.find(item)
        if s < 0:
            complaints.add(unknown.problem(states, item, "state", place=what))
        found.append(s)
    complaints.raise_any()
    return np.unique(np.array(found, dtype=np.int32))


def _where(states: Names, what: str, predicate: Callable[[Any], Any], kind: ErrorKind) -> Ints:
    wanted = f"the states of {what}"
    return np.array(
        [s for s, name in enumerate(states) if says_yes(predicate, name, what, wanted, kind)], dtype=np.int32
    )


def _of_column(states: Names, what: str, column: Ints, error: ErrorKind) -> Ints:
    if column.size != len(states):
        message = f"{what}: the column has {counted(column.size, 'truth value')}"
        raise error(f"{message}, but the model has {counted(len(states), 'state')}")
    return np.flatnonzero(column).astype(np.int32)


def _has_truth_values(states: Names) -> bool:
    """Whether states are named True and False; numbers equal to them do not count."""
    return any(s >= 0 and isinstance(states[s], bool) for s in (states.find(True), states.find(False)))
