"""The rules of k-step influence, by name; their definitions are in `tether.core.thresholds`. Or a rule of one's own."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from tether._foundation.arrays import Floats, Ints
from tether.errors import Problem, QueryError
from tether.influence import own
from tether.influence.one_step import Influence, Support
from tether.influence.own import TetherRule, in_short, is_given
from tether.model.model_record import ModelRecord
from tether.model.product import model_itself

NamedRule = Literal["definition", "published", "printed", "assured"]
Rule = NamedRule | TetherRule
GivenRule = Rule | own.Rule | Ints | Floats | list[Any]
"""What users may give: `make_rule` makes a rule of it."""


def make_rule(rule: Any, influence: Influence, mdp: ModelRecord | None = None) -> Rule:
    """The rule by name, or the user's own, bound to the model; refuses a test that does not go with it."""
    if isinstance(rule, TetherRule):
        return rule if mdp is None else rule.bound(model_itself(mdp))
    if is_given(rule):
        return make_rule(TetherRule(rule), influence, mdp)
    if not isinstance(rule, str) or rule not in get_args(NamedRule):
        message = f"rule must be one of {', '.join(map(repr, get_args(NamedRule)))}, not {in_short(rule)}"
        fix = "a rule of your own is a function f(t, state, action), or a table of whole numbers from 1"
        raise QueryError(Problem(message, value=rule, fix=fix))
    if rule in ("published", "printed") and not isinstance(influence, Support):
        raise QueryError(
            f"the rule {rule!r} is made of supports and takes only influence='support'; "
            f"{influence} is a test on pairs and goes with 'definition' and 'assured'"
        )
    return cast(NamedRule, rule)
