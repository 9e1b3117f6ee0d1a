"""A rule: in which states, what is done instead of what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tether._foundation.markup import Displayed
from tether.ruling.conditions import Condition, read_condition


@dataclass(frozen=True, slots=True)
class OneRule(Displayed):
    """One rule for everybody; made by `tether.rule`, or found by `tether.rules`.

    Attributes
    ----------
    condition : Condition
        In which states.
    instead_of, do : optional
        What is not done any more, and what is done; None where any action is replaced, or where whatever else is usual
        is done.

    Examples
    --------
    >>> import tether
    >>> print(tether.rule("blood pressure = normal", instead_of="vasopressors", do="no vasopressors"))
    Where blood pressure = normal: no vasopressors instead of vasopressors.
    """

    condition: Condition
    instead_of: Any = None
    do: Any = None

    @property
    def words(self) -> str:
        """The rule in a sentence."""
        what = f"{self.do} instead of {self.instead_of}"
        if self.do is None:
            what = f"never {self.instead_of}"
        elif self.instead_of is None:
            what = f"always {self.do}"
        return f"Where {self.condition}: {what}."

    def __str__(self) -> str:
        return self.words


def rule(condition: Any, *, instead_of: Any = None, do: Any = None) -> OneRule:
    """One rule of one's own, for `tether.evaluate_rules`: in some states, something else is done from now on.

    Parameters
    ----------
    condition : str or dict
        In which states: a state variable and its value (``"heart rate = low"``), a label, or a state; several joined by
        ``and``; or a mapping ``{"heart rate": "low"}``.
    instead_of : optional
        The action that is not done any more. Without it, every other action is replaced (``do`` always).
    do : optional
        The action that is done. Without it, whatever else is usual there is done (``instead_of`` never). Where actions
        are composed, both may be a part: ``"ventilation"``, ``"no ventilation"``.

    Examples
    --------
    >>> import tether
    >>> print(tether.rule("worse", instead_of="wait", do="treat"))
    Where worse: treat instead of wait.
    >>> print(tether.rule("worse", do="treat"), tether.rule("worse", instead_of="wait"))
    Where worse: always treat. Where worse: never wait.
    """
    from tether.errors import Problem, QueryError

    if instead_of is None and do is None:
        fix = "give do= (what is done), instead_of= (what is not done any more), or both"
        raise QueryError(Problem("the rule changes nothing", fix=fix))
    if instead_of is not None and instead_of == do:
        message = f"the rule changes nothing: {do} is done instead of {do}"
        raise QueryError(Problem(message, value=do, fix="leave instead_of= out: then it is always done"))
    return OneRule(read_condition(condition), instead_of, do)
