"""Which episodes to ask about: ``outcome == "died" and steps > 5``, a tiny language that runs no code.

Names are columns that are known before an episode is answered; constants are numbers and texts in quotes; comparisons
are ``== != < <= > >= in``, joined by ``and``, ``or`` and ``not``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.auditing.answer_arrays import UNRECORDED, outcome_codes
from tether.auditing.answering import conditioned_on
from tether.auditing.audit_question import Question, make_question
from tether.auditing.tables import TableMaker
from tether.errors import Problem, QueryError, TetherError
from tether.io.names_as_text import text_of
from tether.logs.batches import Log
from tether.logs.cohort import Cohort
from tether.logs.extra_columns import extras_of
from tether.logs.fingerprint import digest_of_values
from tether.mdp import MDP
from tether.model.properties import Property
from tether.observation.earned import earned
from tether.observation.indices import path_of
from tether.plan.best_values import observed_value
from tether.plan.in_question import in_question
from tether.plan.objective import asked

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


def make_where(text: str, is_column: Callable[[str], bool] = COLUMNS.__contains__) -> Where:
    """Read a condition; if it is not one, the error says what can be written. ``is_column`` knows further columns."""
    names: set[str] = set()
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise _wrong(text, "it is not a text of up to 2,000 characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _wrong(text, "it cannot be read") from None
    try:
        test = _condition(text, tree.body, names, is_column)
    except RecursionError:
        raise _wrong(text, "it is too deep") from None
    return Where(text, test, frozenset(names))


def _condition(text: str, node: ast.expr, names: set[str], is_column: Callable[[str], bool]) -> Test:
    if isinstance(node, ast.BoolOp):
        parts = [_condition(text, one, names, is_column) for one in node.values]
        join = all if isinstance(node.op, ast.And) else any
        return lambda known: join(part(known) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _condition(text, node.operand, names, is_column)
        return lambda known: not inner(known)
    if isinstance(node, ast.Compare):
        sides = [_value(text, one, names, is_column) for one in (node.left, *node.comparators)]
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


def _value(text: str, node: ast.expr, names: set[str], is_column: Callable[[str], bool]) -> Test:
    if isinstance(node, ast.Name):
        if not is_column(node.id):
            fix = f'; a text stands in quotes: "{node.id}"'
            known = f"{', '.join(COLUMNS)}, or another column of the log"
            raise _wrong(text, f"there is no column {node.id!r}; it can be one of {known}{fix}")
        names.add(node.id)
        name = node.id
        return lambda known: known[name]
    if isinstance(node, ast.List | ast.Tuple):
        items = [_value(text, one, names, is_column) for one in node.elts]
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


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The episodes of a log for which a condition holds; ``observed`` in it is the observed value of the objective."""

    where: Where
    mdp: MDP
    question: Question
    naming: TableMaker
    codes: Ints
    extra: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, mdp: MDP, question: Question, log: Log) -> Selection:
        """The episodes of a log that a condition, given as text, selects; it may use further columns of the log."""
        extra: dict[str, dict[str, Any]] = {}

        def is_column(name: str) -> bool:
            if name not in COLUMNS and name not in extra:
                with suppress(TetherError):
                    extra[name] = extras_of(log).read(name)
            return name in COLUMNS or name in extra

        question = replace(question, longest=log.longest())
        return cls(make_where(text, is_column), mdp, question, TableMaker(mdp, None), outcome_codes(mdp), extra)

    def digest(self, log: Log) -> str:
        """A digest of the log, and of the further columns that the condition uses."""
        if not self.extra:
            return log.digest()
        values = ((name, *one) for name, column in sorted(self.extra.items()) for one in sorted(column.items()))
        return digest_of_values((log.digest(), *values))

    def of_batch(self, cohort: Cohort) -> Cohort:
        """The episodes of a batch that are selected; broken ones stay, to be listed."""
        kept = [
            i for i, why in enumerate(cohort.problem) if why is not None or self.where.holds(self._known(cohort, i))
        ]
        return cohort.only(np.array(kept, dtype=np.int64))

    def _known(self, cohort: Cohort, i: int) -> dict[str, Any]:
        """The columns of an episode that the condition uses."""
        seen, names = cohort.observation(i), self.where.names
        known: dict[str, Any] = {"episode": cohort.ids[i], "steps": seen.T}
        if "observed" in names:
            cf, wanted = in_question(conditioned_on(self.mdp, seen, self.question), self.question.objective)
            known["observed"] = observed_value(asked(cf, wanted, self.question.minimise))
        if "logged" in names:
            found = earned(self.mdp, seen, path_of(self.mdp, seen))
            known["logged"] = None if found is None else found.logged
        if "outcome" in names:
            last, said = int(seen.states[-1]), None if cohort.said is None else cohort.said[i]
            known["outcome"] = said or self.naming.outcome_name(UNRECORDED if last < 0 else int(self.codes[last]))
        for name, values in self.extra.items():
            known[name] = values.get(text_of(cohort.ids[i]))
        return known


def selection_of(where: str | None, mdp: MDP, log: Log, objective: Property | None, minimise: bool) -> Selection | None:
    """The episodes of a log that a condition selects, for calls that plan nothing; None without a condition."""
    if where is None:
        return None
    asked = make_question(None, 1, "definition", "support", objective, False, None, 0, 0, minimise)
    return Selection.of(where, mdp, asked, log)
