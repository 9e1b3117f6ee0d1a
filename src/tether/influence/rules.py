"""The rules of k-step influence, by name; their definitions are in `tether.core.thresholds`."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tether.errors import QueryError
from tether.influence.one_step import Influence, Support

__all__ = ["Rule", "make_rule"]

Rule = Literal["definition", "published", "printed", "assured"]


def make_rule(rule: Any, influence: Influence) -> Rule:
    """The rule by name; refuses an influence test that does not go with it."""
    if rule not in get_args(Rule):
        raise QueryError(f"rule must be one of {', '.join(map(repr, get_args(Rule)))}, not {rule!r}")
    if rule in ("published", "printed") and not isinstance(influence, Support):
        raise QueryError(
            f"the rule {rule!r} is made of supports and takes only influence='support'; "
            f"{influence} is a test on pairs and goes with 'definition' and 'assured'"
        )
    checked: Rule = rule
    return checked
