"""Formulas about episodes: what holds first, later, always, within so many steps; and how far each is met.

A formula is a tree over sets of states:

    ("set", given), ("not set", given)          about the state of now
    ("and", a, b, …), ("or", a, b, …)
    ("next", a), ("weak next", a)                a holds from the next state on; where there is none: no, yes
    ("until", a, b), ("until", a, b, n)          b holds now or later, n steps later at most, and a at every time before
    ("release", a, b), ("release", a, b, n)      b holds at every time, up to and including the first at which a does
    ("within", n, a)                             a holds of the next n steps alone

An episode has a last state: what is still to come there never comes. So a formula and its negation never hold both, and
one of them always does.

*Progression* reads an episode state by state: what remains to be met after a state is a formula again, about the states
after it. The remaining formulas are the memory of a deterministic automaton. There are finitely many, because each is
kept as alternatives, none of them superfluous, of sets of parts of the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.errors import Problem, QueryError

Tree = tuple[Any, ...]

ALWAYS: Tree = ("and",)
"""What every episode does."""

NEVER: Tree = ("or",)
"""What no episode does."""

_MOST = 2000
"""How many different formulas may remain; for longer bounds or deeper formulas the answer would take very long."""

_OPPOSITE = {
    "set": "not set", "and": "or", "until": "release", "next": "weak next", "within": "within",
    "not set": "set", "or": "and", "release": "until", "weak next": "next",
}  # fmt: skip

_Left = frozenset[frozenset[Tree]]
"""What remains: alternatives, each of which is a set of trees that must all hold."""

_MET: _Left = frozenset([frozenset()])
_FAILED: _Left = frozenset()


def negation(tree: Tree) -> Tree:
    """The formula that holds where another does not.

    >>> negation(("until", ALWAYS, ("set", "goal")))
    ('release', ('or',), ('not set', 'goal'))
    """
    kind, *parts = tree
    if kind in ("set", "not set"):
        return _OPPOSITE[kind], parts[0]
    if kind == "within":
        return kind, parts[0], negation(parts[1])
    return _OPPOSITE[kind], *(negation(part) if isinstance(part, tuple) else part for part in parts)


def sets_of(tree: Tree) -> list[Any]:
    """The sets of states that a formula is about, each once, in the order in which they are met.

    >>> sets_of(("and", ("set", "wet"), ("not set", "pit"), ("set", "wet")))
    ['wet', 'pit']
    """
    kind, *parts = tree
    if kind in ("set", "not set"):
        return [parts[0]]
    return list(dict.fromkeys(given for part in parts if isinstance(part, tuple) for given in sets_of(part)))


def steps_looked_at(tree: Tree) -> int | None:
    """After how many steps a formula is decided, whatever happens; None if there is no such number.

    >>> steps_looked_at(("until", ALWAYS, ("set", "goal"), 8)), steps_looked_at(("until", ALWAYS, ("set", "goal")))
    (8, None)
    """
    kind, *parts = tree
    if kind in ("set", "not set"):
        return 0
    if kind == "within":
        inner = steps_looked_at(parts[1])
        return int(parts[0]) if inner is None else min(int(parts[0]), inner)
    each = [steps_looked_at(part) for part in parts if isinstance(part, tuple)]
    known = [one for one in each if one is not None]
    if len(known) < len(each) or (kind in ("until", "release") and len(parts) == 2):
        return None
    later = 1 if kind in ("next", "weak next") else int(parts[2]) if kind in ("until", "release") else 0
    return max(known, default=0) + later


def one_after_other(tree: Tree, last: Tree) -> Tree | None:
    """``F (a & X …)`` with one more goal at its end; None for other formulas."""
    if tree[:2] != ("until", ALWAYS) or len(tree) > 3:
        return None
    goal = tree[2]
    if goal[0] == "set":
        return ("until", ALWAYS, ("and", goal, ("next", last)))
    if goal[0] == "and" and len(goal) == 3 and goal[1][0] == "set" and goal[2][0] == "next":
        inner = one_after_other(goal[2][1], last)
        return None if inner is None else ("until", ALWAYS, ("and", goal[1], ("next", inner)))
    return None


def shortened(tree: Tree, steps: int) -> Tree:
    """A formula without bounds that an episode of so many steps always keeps."""
    if tree[0] == "within" and tree[1] >= steps:
        return shortened(tree[2], steps)
    if tree[0] in ("until", "release") and len(tree) > 3 and tree[3] >= steps:
        return tree[:3]
    if tree[0] in ("and", "or"):
        return (tree[0], *(shortened(part, steps) for part in tree[1:]))
    return tree


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """What remains of a formula after each state of an episode.

    Attributes
    ----------
    after : array (memories, states)
        The memory after a state, by the memory before it.
    first : int
        The memory before the first state.
    ended, holds : array (memories,)
        Whether the formula is decided; and whether it holds, if the episode ends with this memory.
    remains : tuple of str
        What remains to be met, by memory; "holds" and "fails" where it is decided.
    """

    after: Ints
    first: int
    ended: Flags
    holds: Flags
    remains: tuple[str, ...]


def automaton(tree: Tree, masks: dict[Any, Flags], name: Callable[[Any], str]) -> Automaton:
    """The automaton of a formula on the states of a model; ``masks`` says which states are in each of its sets."""
    sets = list(masks)
    table = np.array([masks[given] for given in sets])
    letters, of_state = np.unique(table, axis=1, return_inverse=True)
    read = [frozenset(given for given, there in zip(sets, column, strict=True) if there) for column in letters.T]
    number: dict[_Left, int] = {_MET: 0, _FAILED: 1, frozenset([frozenset([tree])]): 2}
    waiting, rows = list(number), []
    for left in waiting:  # grows on the way
        row = []
        for letter in read:
            after = _progress(left, letter)
            if after not in number:
                if len(number) >= _MOST:
                    what = f"more than {_MOST:,} different formulas can remain of it: it is too long, or a bound is"
                    raise QueryError(Problem(what, value=text_of(tree, name)))
                number[after] = len(number)
                waiting.append(after)
            row.append(number[after])
        rows.append(row)
    remains = ["holds", "fails", *(text_of(_as_tree(left), name) for left in list(number)[2:])]
    remains = [text if text not in remains[:i] else f"{text} [{i}]" for i, text in enumerate(remains)]
    by_letter = np.array(rows, dtype=np.int64)
    ended = np.arange(len(number)) < 2
    holds = np.array([_ends_well(left) for left in number])
    return Automaton(by_letter[:, of_state.reshape(-1)], 2, ended, holds, tuple(remains))


def _progress(left: _Left, letter: frozenset[Any]) -> _Left:
    return _any(_all(_after(tree, letter) for tree in alternative) for alternative in left)


def _after(tree: Tree, letter: frozenset[Any]) -> _Left:
    """What remains of a formula after a state that is in the sets of ``letter``."""
    return _AFTER[tree[0]](tree, letter)


def _after_set(tree: Tree, letter: frozenset[Any]) -> _Left:
    return _MET if (tree[1] in letter) == (tree[0] == "set") else _FAILED


def _after_parts(tree: Tree, letter: frozenset[Any]) -> _Left:
    each = (_after(part, letter) for part in tree[1:])
    return _all(each) if tree[0] == "and" else _any(each)


def _after_next(tree: Tree, _letter: frozenset[Any]) -> _Left:
    same = "until" if tree[0] == "next" else "release"  # what these say of an episode without a next state
    later = tree[1] if tree[1][0] == same else ("then" if tree[0] == "next" else "if any", tree[1])
    return _alone(later)


def _after_last(tree: Tree, letter: frozenset[Any]) -> _Left:
    """There is a next state: it was read now."""
    return _after(tree[1], letter)


def _after_within(tree: Tree, letter: frozenset[Any]) -> _Left:
    steps, inner = tree[1:]
    found = _progress(inner if isinstance(inner, frozenset) else _alone(inner), letter)
    if found in (_MET, _FAILED):
        return found
    if steps == 0:
        return _MET if _ends_well(found) else _FAILED
    return _alone(("within", steps - 1, found))


def _after_until(tree: Tree, letter: frozenset[Any]) -> _Left:
    one, other, is_until = _after(tree[1], letter), _after(tree[2], letter), tree[0] == "until"
    again = _alone(tree)
    if len(tree) > 3:
        again = _alone((*tree[:3], tree[3] - 1)) if tree[3] else _FAILED if is_until else _MET
    return _any([other, _all([one, again])]) if is_until else _all([other, _any([one, again])])


def _alone(tree: Tree) -> _Left:
    return frozenset([frozenset([tree])])


_AFTER: dict[str, Callable[[Tree, frozenset[Any]], _Left]] = {
    "set": _after_set, "not set": _after_set, "and": _after_parts, "or": _after_parts, "next": _after_next,
    "weak next": _after_next, "then": _after_last, "if any": _after_last, "within": _after_within,
    "until": _after_until, "release": _after_until,
}  # fmt: skip


def _any(each: Iterable[_Left]) -> _Left:
    """Alternatives together, without those that another one makes superfluous."""
    every = {_reduced(one) for left in each for one in left}
    said = {one: one.union(*map(_implied, one)) for one in every}
    return frozenset(one for one in every if not any(other <= said[one] for other in every if other != one))


def _reduced(one: frozenset[Tree]) -> frozenset[Tree]:
    """Formulas that all hold, without those that another one of them implies."""
    implied = frozenset[Tree]().union(*map(_implied, one))
    return one - implied if implied else one


@lru_cache(maxsize=10_000)
def _implied(tree: Tree) -> frozenset[Tree]:
    """What one after the other implies: ``F (a & X F b)`` that b comes, too."""
    if tree[:2] == ("until", ALWAYS) and tree[2][0] == "and":
        parts = [part[1] for part in tree[2][1:] if part[0] == "next"]
        later = [part for part in parts if len(part) == 3 and part[:2] == ("until", ALWAYS)]
        return frozenset(later).union(*map(_implied, later))
    return frozenset()


def _all(each: Iterable[_Left]) -> _Left:
    found = _MET
    for left in each:
        found = _any([frozenset(one | other for one in found for other in left)])
    return found


def _ends_well(left: _Left) -> bool:
    """Whether what remains holds where no state is left."""
    return any(all(_holds_of_nothing(tree) for tree in alternative) for alternative in left)


def _holds_of_nothing(tree: Tree) -> bool:
    kind, *parts = tree
    if kind in ("and", "or"):
        return (all if kind == "and" else any)(_holds_of_nothing(part) for part in parts)
    if kind == "within":
        return _ends_well(parts[1]) if isinstance(parts[1], frozenset) else _holds_of_nothing(parts[1])
    return kind in ("release", "weak next", "if any")


def text_of(tree: Tree, name: Callable[[Any], str]) -> str:
    """A formula as PRISM and Storm write it; ``name`` says how a set of states is written.

    >>> goal, pit = ("until", ALWAYS, ("set", "goal")), ("release", NEVER, ("not set", "pit"))
    >>> text_of(("and", (*goal, 8), pit), repr)
    "(F<=8 'goal') & (G !'pit')"
    """
    kind, *parts = tree
    if tree in (ALWAYS, NEVER):
        return "true" if tree == ALWAYS else "false"
    if kind in ("and", "or"):
        return f" {'&' if kind == 'and' else '|'} ".join(_within_brackets(part, name, kind) for part in parts)
    if kind != "within":
        return _temporal_text(tree, name)
    inner = _as_tree(parts[1]) if isinstance(parts[1], frozenset) else parts[1]
    return f"({text_of(inner, name)}) within {parts[0]}"


def _temporal_text(tree: Tree, name: Callable[[Any], str]) -> str:
    kind, *parts = tree[:3]
    bound = f"<={tree[3]}" if len(tree) > 3 else ""
    if kind in ("set", "not set"):
        return f"{'!' if kind == 'not set' else ''}{name(parts[0])}"
    last = _within_brackets(parts[-1], name)
    if len(parts) == 1:
        return {"next": "X ", "weak next": "!X !"}.get(kind, "") + last
    if parts[0] == (ALWAYS if kind == "until" else NEVER):
        return f"{'F' if kind == 'until' else 'G'}{bound} {last}"
    return f"{_within_brackets(parts[0], name)} {'U' if kind == 'until' else 'R'}{bound} {last}"


def _within_brackets(tree: Tree, name: Callable[[Any], str], outer: str = "") -> str:
    text = text_of(tree, name)
    alone = tree[0] in ("set", "not set") or tree in (ALWAYS, NEVER)
    return text if alone or tree[0] == outer else f"({text})"


def _as_tree(left: _Left) -> Tree:
    """What remains, as one formula."""

    def together(kind: str, parts: Iterable[Tree]) -> Tree:
        ordered = sorted(parts, key=repr)
        return ordered[0] if len(ordered) == 1 else (kind, *ordered)

    return together("or", (together("and", alternative) for alternative in left))
