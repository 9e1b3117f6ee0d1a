"""Properties as PRISM and Storm write them: ``P=? [ F "goal" ]``, ``Pmax=? [ G !"bad" ]``, ``P=? [ x<3 U "goal" ]``.

A set of states is made of labels in quotation marks, of variables of the states' names (``x=2``, ``wet``), of ``true``
and ``false``, with ``!``, ``&``, ``|``, ``=>`` and parentheses. What else these languages have is refused by its name.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tether._foundation.arrays import Flags
from tether.errors import Problem, QueryError

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

__all__ = ["StateFormula", "is_formal", "parse_formal"]

_TOKEN = re.compile(
    r'\s*(?:(?P<label>"[^"]*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<word>[A-Za-z_]\w*)|(?P<sign>=\?|=>|<=|>=|!=|[=<>!&|()\[\]{},]))'
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_REFUSED = {"X": "X (next)", "W": "W (weak until)", "R": "R (release)"}
_OPERATORS = frozenset({"F", "G", "U", *_REFUSED})

Tree = tuple[Any, ...]
Kind = Literal["reach", "avoid", "until"]


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
    return re.match(r"\s*[PRS](?:max|min)?\s*(?:=\s*\?|[<>]|\{)", text) is not None


def parse_formal(text: str) -> tuple[Kind, tuple[str | StateFormula, ...]]:
    """The kind of a property and its sets of states.

    >>> parse_formal('P=? [ F "goal" & !"pit" ]')
    ('reach', (<StateFormula: "goal" & !"pit">,))
    >>> parse_formal('Pmax=? [ G !"died" ]')
    ('avoid', ('died',))
    """
    return _Parser(text).property()


class _Parser:
    """Recursive descent; a set ends where no operator of sets follows."""

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

    def property(self) -> tuple[Kind, tuple[str | StateFormula, ...]]:
        head = self._take()
        if head in ("R", "Rmax", "Rmin", "S"):
            what = "a long-run probability" if head == "S" else "an expected reward"
            raise self._error(f"{what} is not a property", head, "leave the objective out: returns are then asked for")
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
        found = self._path()
        self._expect("]")
        if self.at < len(self.tokens):
            raise self._error(f"{self._next()!r} follows its end", self._next())
        return found

    def _path(self) -> tuple[Kind, tuple[str | StateFormula, ...]]:
        word = self._next()
        if word in ("F", "G"):
            self.at += 1
            self._refuse_bound()
            start = self._place()
            tree = self._set()
            self._refuse_paths()
            if word == "F":
                return "reach", (self._as_set(tree, start),)
            inner = tree[1] if tree[0] == "not" else ("not", tree)
            return "avoid", (self._as_set(inner, start, negated=tree[0] == "not"),)
        start = self._place()
        hold = self._set()
        kept = self._as_set(hold, start)
        if self._next() != "U":
            self._refuse_paths()
            raise self._error("it has no F, G or U: it is about one state, not about an episode", self.text)
        self.at += 1
        self._refuse_bound()
        start = self._place()
        goal = self._as_set(self._set(), start)
        self._refuse_paths()
        return ("reach", (goal,)) if hold == ("constant", True) else ("until", (kept, goal))

    def _set(self) -> Tree:
        tree = self._any()
        while self._next() == "=>":
            self.at += 1
            tree = ("or", ("not", tree), self._any())
        return tree

    def _any(self) -> Tree:
        tree = self._all()
        while self._next() == "|":
            self.at += 1
            tree = ("or", tree, self._all())
        return tree

    def _all(self) -> Tree:
        tree = self._one()
        while self._next() == "&":
            self.at += 1
            tree = ("and", tree, self._one())
        return tree

    def _one(self) -> Tree:
        if self._next() == "!":
            self.at += 1
            return ("not", self._one())
        if self._next() == "(":
            self.at += 1
            tree = self._set()
            self._expect(")")
            return tree
        kind, word = self.tokens[self.at][:2] if self.at < len(self.tokens) else ("", "")
        if word in _OPERATORS and kind == "word":
            self._refuse_paths(nested=True)
        self.at += 1
        if kind == "label":
            return ("label", word[1:-1])
        if kind != "word":
            raise self._error("a set of states is missing" if not word else f"{word!r} is not a set of states", word)
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

    def _as_set(self, tree: Tree, start: int, *, negated: bool = False) -> str | StateFormula:
        """A label alone stays a label: sentences and figures know it."""
        if tree[0] == "label":
            return str(tree[1])
        end = self.tokens[self.at - 1][3]
        text = self.text[start:end].strip()
        if negated:
            text = text[1:].strip()
        elif tree[0] == "not" and not text.startswith("!"):
            text = f"!({text})"
        return StateFormula(tree, text)

    def _refuse_bound(self) -> None:
        if self._next() in ("<", "<=", ">", ">=", "=", "[", "{"):
            fix = "a property is about all steps of the episode; for its first 8 steps, ask about "
            fix += "tether.Path(path.states[:9], path.actions[:8])"
            raise self._error("a bound on the number of steps is not taken", self._next(), fix)

    def _refuse_paths(self, *, nested: bool = False) -> None:
        word = self._next()
        if word in _OPERATORS:
            what = _REFUSED.get(word, f"{word} within a set of states or after another path" if nested else word)
            fix = "a property is one of F, G and U over sets of states"
            raise self._error(f"{what} is not supported: properties are not nested or joined", word, fix)

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
