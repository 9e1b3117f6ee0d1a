"""Properties as PRISM and Storm write them: ``P=? [ F "goal" ]``, ``Pmax=? [ G !"bad" ]``, ``P=? [ x<3 U "goal" ]``.

A set of states is made of labels in quotation marks, of variables of the states' names (``x=2``, ``wet``), of ``true``
and ``false``, with ``!``, ``&``, ``|``, ``=>`` and parentheses. Paths are made of sets with F, G, X, U, W and R, bounds
on the number of steps (``F<=8``, ``G[2,5]``), and the same signs; ``(…) within 8`` is about the next 8 steps alone,
and no part of these languages. What else they have is refused by its name.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Flags
from tether.errors import Problem, QueryError
from tether.model.path_formula import ALWAYS, negation
from tether.model.path_formula import Tree as PathTree

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

_TOKEN = re.compile(
    r'\s*(?:(?P<label>"[^"]*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<word>[A-Za-z_]\w*)|(?P<sign>=\?|=>|<=|>=|!=|[=<>!&|()\[\]{},]))'
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_UNARY = frozenset({("word", "F"), ("word", "G"), ("word", "X")})
_NOT_TAKEN = {
    "filter": (
        "a filter over states is not taken: the question is about this episode",
        "write what is inside: P=? […]",
    ),
    "multi": ("several questions at once are not taken", "ask for one, and limit another with subject_to="),
    "A": ("whether all paths do something is not a question", "ask P=? […], and whether it is 1"),
    "E": ("whether some path does something is not a question", "ask P=? […], and whether it is above 0"),
    "T": ("expected times are not taken", "give every step the reward 1, and leave the objective out"),
    "S": ("a long-run probability is not a property", "ask about the steps of the episode: P=? […]"),
    "LRA": ("a long-run average is not a property", "ask about the steps of the episode: P=? […]"),
}
"""What these languages have and Tether does not, by its first word: why not, and what to do."""

_HEADS = frozenset({"=?", "<", "<=", ">", ">=", "[", "{"})
_LONGEST = 100_000
"""The longest bound, in steps."""

_LATEST = 100
"""The latest step at which a bound may begin."""

_RETURN = re.compile(r'\s*R\s*(?:\{\s*"([^"]*)"\s*\})?\s*(max|min)?\s*=\s*\?\s*\[\s*C\s*(?:(<=?)\s*(\d{1,9}))?\s*\]\s*')

Tree = tuple[Any, ...]


@dataclass(frozen=True, slots=True, repr=False)
class StateFormula:
    """A set of states as a formula over labels and variables.

    Attributes
    ----------
    tree : tuple
        ("label", name), ("variable", name), ("compare", name, sign, number), ("not", one), ("and", one, other),
        ("or", one, other) or ("constant", truth value).
    text : str
        As it was written.
    """

    tree: Tree
    text: str

    def on(self, mdp: ModelRecord) -> Flags:
        """For each state of a model, whether it is in the set; an error for an unknown label or variable."""
        return _mask(self.tree, mdp)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<StateFormula: {self.text}>"


def is_formal(text: str) -> bool:
    """Whether a text is a property as PRISM and Storm write them.

    >>> is_formal('Pmax=? [ F "goal" ]'), is_formal("reach goal"), is_formal("R=? [ C<=8 ]")
    (True, False, True)
    """
    begins = r"\s*(?:(?:[PRST]|LRA)(?:max|min)?\s*(?:=\s*\?|[<>]|\{)|[AE]\s*\[|(?:filter|multi)\s*\()"
    return re.match(begins, text) is not None


def parse_formal(text: str) -> PathTree:
    """The formula that a property asks about; see `tether.model.path_formula`.

    >>> parse_formal('P=? [ F "goal" & !"pit" ]')
    ('until', ('and',), ('set', <StateFormula: "goal" & !"pit">))
    >>> parse_formal('Pmax=? [ (F<=8 "goal") & G !"died" ]')
    ('and', ('until', ('and',), ('set', 'goal'), 8), ('release', ('or',), ('not set', 'died')))
    """
    return _Parser(text.rstrip().removesuffix(";")).property()  # as in a file of properties


class ReturnAsked(NamedTuple):
    """An expected return as PRISM and Storm ask for it.

    Attributes
    ----------
    name : str or None
        The reward structure; None where it is the only one.
    smallest : bool or None
        Whether the smallest is asked for; None where neither is said.
    steps : int or None
        Over how many steps; None for the whole episode.
    """

    name: str | None
    smallest: bool | None
    steps: int | None


def parse_return(text: str) -> ReturnAsked | None:
    """What a text says about returns; None where it asks for the probability of a property.

    >>> parse_return('R{"fuel"}min=? [ C<=8 ]')
    ReturnAsked(name='fuel', smallest=True, steps=8)
    """
    if not re.match(r"\s*R", text):
        return None
    found = _RETURN.fullmatch(text.rstrip().removesuffix(";"))
    if found is None:
        what = "an expected reward is asked for as R=? [ C ] or R=? [ C<=8 ]: rewards until a state is reached, at one "
        what += "time, or in the long run are not taken"
        fix = 'name a structure as in R{"fuel"}max=? [ C ]'
        raise QueryError(Problem(f"the objective {text!r}: {what}", value=text, fix=fix))
    name, which, sign, steps = found.groups()
    last = None if steps is None else int(steps) - (sign == "<")
    if last is not None and last < 1:
        raise QueryError(Problem(f"the objective {text!r}: it is about no step", value=text, fix="write C<=1 or more"))
    return ReturnAsked(name, None if which is None else which == "min", last)


class _Part(NamedTuple):
    """A part of a property: about one state (``tree`` is that of a `StateFormula`), or about what follows."""

    tree: Tree
    of_states: bool
    start: int
    end: int


class _Parser:
    """Recursive descent, with the precedence of PRISM and Storm: F, G and X take all that follows up to a U or the end.

    So Storm reads ``F a & F b`` as ``F (a & F b)``, which is seldom meant: brackets are asked for.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[tuple[str, str, int, int]] = []
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise self._error(f"{text[place:].strip()[0]!r} is not understood", text[place:].strip())
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind), found.end()))
            place = found.end()

    def property(self) -> PathTree:
        head = self._take()
        if head in ("R", "Rmax", "Rmin"):
            fix = "leave the objective out: returns are then asked for, of the rewards that the model was read with"
            raise self._error("an expected reward is not a property", head, fix)
        if (word := re.sub("(?<=.)(max|min)$", "", head)) in _NOT_TAKEN:
            raise self._error(_NOT_TAKEN[word][0], head, _NOT_TAKEN[word][1])
        if head == "Pmin":
            raise self._error(
                "Pmin is not taken", head, "write P=?, and ask for the smallest: minimise=True, --minimise"
            )
        if head not in ("P", "Pmax"):
            raise self._error("it does not begin with P", head)
        if self._next() in ("<", ">", "<=", ">="):
            raise self._error("a bound on the probability is not a question", self._next(), "write P=?")
        self._expect("=?")
        self._expect("[")
        found = self._until()
        self._expect("]")
        if self.at < len(self.tokens):
            raise self._error(f"{self._next()!r} follows its end", self._next())
        if found.of_states:
            raise self._error("it has no F, G or U: it is about one state, not about an episode", self.text)
        return found.tree

    def _until(self) -> _Part:
        found = self._set()
        if (sign := self._next()) in ("U", "W", "R"):
            self.at += 1
            low, high = self._bound()
            other = self._set(operand=True)
            one = ALWAYS if found.tree == ("constant", True) else self._as_path(found)
            two = self._as_path(other)
            if sign == "U":
                tree = _later(one, two, low, high)
            else:  # a W b: b releases (a or b) from holding
                pair = (two, ("or", one, two)) if sign == "W" else (one, two)
                tree = negation(_later(negation(pair[0]), negation(pair[1]), low, high))
            found = _Part(tree, False, found.start, other.end)
        return found

    def _set(self, *, operand: bool = False) -> _Part:
        found = self._any(operand)
        while self._next() == "=>":
            self.at += 1
            found = self._joined("=>", found, self._any(operand), operand)
        return found

    def _any(self, operand: bool) -> _Part:
        found = self._all(operand)
        while self._next() == "|":
            self.at += 1
            found = self._joined("|", found, self._all(operand), operand)
        return found

    def _all(self, operand: bool) -> _Part:
        found = self._one()
        while self._next() == "&":
            self.at += 1
            found = self._joined("&", found, self._one(), operand)
        return found

    def _joined(self, sign: str, one: _Part, other: _Part, operand: bool = False) -> _Part:
        ends = one.start, other.end
        if one.of_states and other.of_states:
            if sign == "=>":
                return _Part(("or", ("not", one.tree), other.tree), True, *ends)
            return _Part(("and" if sign == "&" else "or", one.tree, other.tree), True, *ends)
        if operand:
            raise self._error(
                f"{sign} between a set of states and a path after F, G, X or U can be read in two ways", sign,
                f"put parentheses: (F a) {sign} (F b), or F (a {sign} (F b)) as Storm reads it",
            )  # fmt: skip
        first, second = self._as_path(one), self._as_path(other)
        if sign == "=>":
            return _Part(("or", negation(first), second), False, *ends)
        kind = "and" if sign == "&" else "or"
        parts = [part for each in (first, second) for part in (each[1:] if each[0] == kind else (each,))]
        return _Part((kind, *parts), False, *ends)

    def _one(self) -> _Part:
        start = self._place()
        if self._next() == "!":
            self.at += 1
            inner = self._one()
            tree = ("not", inner.tree) if inner.of_states else negation(inner.tree)
            return _Part(tree, inner.of_states, start, inner.end)
        if self._next() == "(":
            self.at += 1
            inner = self._until()
            self._expect(")")
            if not inner.of_states and self._next() == "within":
                self.at += 1
                inner = inner._replace(tree=("within", self._steps(), inner.tree))
            return inner._replace(start=start, end=self._end())
        if self.at < len(self.tokens) and self.tokens[self.at][:2] in _UNARY:
            return self._unary()
        tree = self._state()
        return _Part(tree, True, start, self._end())

    def _unary(self) -> _Part:
        start, word = self._place(), self._take()
        low, high = self._bound()
        if word == "X" and (low, high) != (0, None):
            raise self._error("X takes no bound", word, "X is the next step; F<=1 is the next step or now")
        operand = self._set(operand=True)
        inner = self._as_path(operand)
        if word == "X":
            tree: PathTree = ("next", inner)
        elif word == "F":
            tree = _later(ALWAYS, inner, low, high)
        else:
            tree = negation(_later(ALWAYS, negation(inner), low, high))
        return _Part(tree, False, start, operand.end)

    def _bound(self) -> tuple[int, int | None]:
        """The first and the last step that count after F, G or U; the last is None without a bound."""
        sign = self._next()
        if sign == "[":
            self.at += 1
            low = self._steps()
            self._expect(",")
            high = self._steps()
            self._expect("]")
            if low > high:
                raise self._error("a bound ends before it begins", f"[{low},{high}]")
            return self._early(low), high
        if sign not in ("<", "<=", ">", ">=", "="):
            return 0, None
        self.at += 1
        steps = self._steps()
        if sign == "<" and steps == 0:
            raise self._error("there is no step before step 0", "<0", "write <=0 for the first state alone")
        if sign in ("<", "<="):
            return 0, steps - (sign == "<")
        low = self._early(steps + (sign == ">"))
        return low, low if sign == "=" else None

    def _early(self, low: int) -> int:
        if low > _LATEST:
            raise self._error(f"a bound begins at step {_LATEST} at the latest", low)
        return low

    def _steps(self) -> int:
        kind, word = self.tokens[self.at][:2] if self.at < len(self.tokens) else ("", "")
        if kind != "number" or not word.isdigit() or int(word) > _LONGEST:
            fix = "give constants their values: F<=8"
            raise self._error(f"a bound is a whole number of steps, at most {_LONGEST:,}, not {word!r}", word, fix)
        self.at += 1
        return int(word)

    def _state(self) -> Tree:
        kind, word = self.tokens[self.at][:2] if self.at < len(self.tokens) else ("", "")
        self.at += 1
        if kind == "label":
            return ("label", word[1:-1])
        if word in ("P", "R", "S", "A", "E") and self._next() in _HEADS:
            raise self._error(f"{word} within a property is not supported", word, "ask for one probability at a time")
        if kind != "word":
            raise self._error("a set of states is missing" if not word else f"{word!r} is not a set of states", word)
        if re.fullmatch("[FGX]{2,}", word) and self._begins():
            raise self._error(f"{word} is read as one name", word, f"put spaces between: {' '.join(word)}")
        if word in ("true", "false"):
            return ("constant", word == "true")
        if self._next() not in _COMPARE:
            return ("variable", word)
        sign = self._take()
        kind, number = self.tokens[self.at][:2] if self.at < len(self.tokens) else ("", "")
        if kind != "number" and number not in ("true", "false"):
            raise self._error(f"{word} {sign} is followed by no number", number)
        self.at += 1
        return ("compare", word, sign, number == "true" if kind == "word" else float(number))

    def _as_path(self, part: _Part) -> PathTree:
        """A set as a formula about episodes. A label alone stays a label: sentences and figures know it."""
        if not part.of_states:
            return part.tree
        tree, text = part.tree, self.text[part.start : part.end].strip()
        if tree[0] == "label":
            return ("set", str(tree[1]))
        if tree[0] == "not" and tree[1][0] == "label":
            return ("not set", str(tree[1][1]))
        if tree[0] == "not" and text.startswith("!"):
            return ("not set", StateFormula(tree[1], text[1:].strip()))
        return ("set", StateFormula(tree, text))

    def _end(self) -> int:
        return self.tokens[self.at - 1][3]

    def _begins(self) -> bool:
        """Whether a set or a path begins here."""
        kind, word = self.tokens[self.at][:2] if self.at < len(self.tokens) else ("", "")
        return kind == "label" or word in ("(", "!") or (kind == "word" and word not in ("U", "W", "R"))

    def _next(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _place(self) -> int:
        return self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)

    def _take(self) -> str:
        word = self._next()
        self.at += 1
        return word

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            there = f"{self._next()!r}" if self._next() else "its end"
            raise self._error(f"{sign!r} is missing before {there}", self._next())
        self.at += 1

    def _error(self, what: str, value: Any, fix: str = "") -> QueryError:
        return QueryError(Problem(f"the property {self.text!r}: {what}", value=value, fix=fix))


def _later(hold: PathTree, goal: PathTree, low: int, high: int | None) -> PathTree:
    """An until whose goal counts from step ``low`` to step ``high``; ``hold`` is needed before."""
    tree: PathTree = ("until", hold, goal) if high is None else ("until", hold, goal, high - low)
    for _ in range(low):
        tree = ("next", tree) if hold == ALWAYS else ("and", hold, ("next", tree))
    return tree


def _mask(tree: Tree, mdp: ModelRecord) -> Flags:
    kind, *rest = tree
    if kind == "constant":
        return np.full(mdp.n_states, rest[0])
    if kind == "not":
        return ~_mask(rest[0], mdp)
    if kind in ("and", "or"):
        one, other = (_mask(part, mdp) for part in rest)
        return one & other if kind == "and" else one | other
    if kind == "label":
        if rest[0] not in mdp.labels:
            message = f"the model has no label called {rest[0]!r}; {mdp.labels.known()}"
            raise QueryError(Problem(message, value=rest[0]))
        found = np.zeros(mdp.n_states, bool)
        found[mdp.labels.find(rest[0]).indices] = True
        return found
    return _of_variable(kind, rest, mdp)


def _of_variable(kind: str, rest: list[Any], mdp: ModelRecord) -> Flags:
    values = _values(mdp, rest[0])
    if kind == "variable":
        if any(not isinstance(value, bool | np.bool_) for value in values):
            raise QueryError(Problem(f"the variable {rest[0]} is not true or false; compare it with a number"))
        return np.array(values, dtype=bool)
    try:
        return np.array([bool(_COMPARE[rest[1]](value, rest[2])) for value in values])
    except TypeError as error:
        raise QueryError(Problem(f"the variable {rest[0]} cannot be compared with {rest[2]:g}: {error}")) from None


def _values(mdp: ModelRecord, variable: str) -> list[Any]:
    fields = getattr(mdp.states[0], "_fields", ()) if mdp.n_states else ()
    if variable not in fields:
        has = f"they have {', '.join(fields)}" if fields else "their names have no named parts"
        fix = f'a label is written in quotation marks: "{variable}"'
        raise QueryError(Problem(f"the states have no variable {variable!r}; {has}", value=variable, fix=fix))
    return [getattr(state, variable) for state in mdp.states]
