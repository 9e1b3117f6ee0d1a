"""Which episodes to ask about: ``outcome == "died" and steps > 5``, a tiny language that runs no code.

Names are columns that are known before an episode is answered; constants are numbers and texts in quotes; comparisons
are ``== != < <= > >= in``, joined by ``and``, ``or`` and ``not``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tether.errors import Problem, QueryError

__all__ = ["COLUMNS", "Where", "make_where"]

COLUMNS = ("episode", "steps", "observed", "logged", "outcome")
"""The columns that a condition can use; `tether.auditing.tables` describes them."""

Known = Mapping[str, Any]
Test = Callable[[Known], Any]

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LONGEST = 2000


class Where:
    """A condition on episodes; ``names`` are the columns it uses.

    Examples
    --------
    >>> from tether.auditing.where import make_where
    >>> where = make_where('outcome == "died" and 5 < steps <= 9')
    >>> where.holds({"outcome": "died", "steps": 7}), where.holds({"outcome": "died", "steps": 5})
    (True, False)
    """

    def __init__(self, text: str, test: Test, names: frozenset[str]) -> None:
        self.text, self._test, self.names = text, test, names

    def holds(self, known: Known) -> bool:
        """Whether it holds for an episode, given its columns."""
        return bool(self._test(known))


def make_where(text: str) -> Where:
    """Read a condition; if it is not one, the error says what can be written."""
    names: set[str] = set()
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise _wrong(text, "it is not a text of up to 2,000 characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _wrong(text, "it cannot be read") from None
    try:
        test = _condition(text, tree.body, names)
    except RecursionError:
        raise _wrong(text, "it is too deep") from None
    return Where(text, test, frozenset(names))


def _condition(text: str, node: ast.expr, names: set[str]) -> Test:
    if isinstance(node, ast.BoolOp):
        parts = [_condition(text, one, names) for one in node.values]
        join = all if isinstance(node.op, ast.And) else any
        return lambda known: join(part(known) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _condition(text, node.operand, names)
        return lambda known: not inner(known)
    if isinstance(node, ast.Compare):
        sides = [_value(text, one, names) for one in (node.left, *node.comparators)]
        links = [_link(text, kind) for kind in node.ops]
        return lambda known: all(link(sides[i](known), sides[i + 1](known)) for i, link in enumerate(links))
    raise _wrong(text, f"{ast.unparse(node)!r} is no comparison")


def _link(text: str, kind: ast.cmpop) -> Callable[[Any, Any], bool]:
    compare = _COMPARED.get(type(kind))
    if compare is None:
        raise _wrong(text, "only == != < <= > >= in are known")

    def link(one: Any, other: Any) -> bool:
        if isinstance(kind, _ORDERED):
            if one is None or other is None:
                return False
            if isinstance(one, str) != isinstance(other, str):
                raise _wrong(text, f"{one!r} and {other!r} have no order: one is a number, one a text")
        return bool(compare(one, other))

    return link


def _value(text: str, node: ast.expr, names: set[str]) -> Test:
    if isinstance(node, ast.Name):
        if node.id not in COLUMNS:
            fix = f'; a text stands in quotes: "{node.id}"'
            raise _wrong(text, f"there is no column {node.id!r}; it can be one of {', '.join(COLUMNS)}{fix}")
        names.add(node.id)
        name = node.id
        return lambda known: known[name]
    if isinstance(node, ast.List | ast.Tuple):
        items = [_value(text, one, names) for one in node.elts]
        return lambda known: [item(known) for item in items]
    try:
        constant = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        constant = None
    if isinstance(constant, bool) or not isinstance(constant, int | float | str):
        raise _wrong(text, f"{ast.unparse(node)!r} is neither a column, a number nor a text")
    return lambda _known: constant


def _wrong(text: Any, why: str) -> QueryError:
    expected = 'a condition such as outcome == "died" and steps > 5'
    return QueryError(Problem(f"{text!r}: {why}", value=text, place="the condition on episodes", expectation=expected))
