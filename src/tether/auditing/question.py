"""The question for every episode of a log, checked once; a small record that goes to every worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tether._foundation.checks import whole_number
from tether.errors import QueryError
from tether.influence.one_step import Influence, make_influence
from tether.influence.rules import Rule, make_rule
from tether.model.properties import Property, make_property

__all__ = ["Question", "make_question"]


@dataclass(frozen=True, slots=True)
class Question:
    """The question for every episode.

    Attributes
    ----------
    k : int or None
        The length of the tether; None: the shortest that is enough, episode by episode.
    m : int
    rule, influence
        What a tether is.
    certify : bool
        Whether to compute what holds under every causal model.
    policy : optional
        A policy to evaluate instead of planning.
    draws : int
        How many models to draw for credible intervals, 0 for none; ``seed`` says which.
    objective, minimise
        A property in place of the return; and whether less is better.
    longest : int
        How many steps the longest episode of the log has: one that ended early is judged over as many.
    """

    k: int | None
    m: int
    rule: Rule
    influence: Influence
    certify: bool
    policy: Any = None
    draws: int = 0
    seed: int = 0
    objective: Property | None = None
    minimise: bool = False
    longest: int = 0

    @property
    def named(self) -> dict[str, Any]:
        """The question in plain values, for files and pages."""
        plans = self.policy is None
        return {
            "k": self.k if plans else None,
            "m": self.m if plans else None,
            "rule": self.rule if plans else None,
            "influence": str(self.influence),
            "objective": None if self.objective is None else str(self.objective),
            "minimise": self.minimise,
            "certify": self.certify,
            "policy": None if plans else _policy_name(self.policy),
            "draws": self.draws,
            "seed": self.seed,
        }


def make_question(
    k: Any,
    m: Any,
    rule: Any,
    influence: Any,
    objective: Any,
    certify: Any,
    policy: Any,
    draws: Any,
    seed: Any,
    minimise: Any = False,
) -> Question:
    """Check what is asked."""
    wanted = make_property(objective)
    test = make_influence(influence)
    checked = make_rule(rule, test)
    k = None if k is None else whole_number("k", k, 1)
    m = whole_number("m", m, 0)
    draws, seed = whole_number("draws", draws, 0), whole_number("seed", seed, 0)
    if policy is not None and k is not None:
        raise QueryError("a policy is evaluated as it is: leave k out, or leave the policy out to plan within k and m")
    if policy is not None and draws:
        raise QueryError("credible intervals are those of plans: leave draws out, or leave the policy out")
    if draws and (wanted is not None or minimise):
        raise QueryError("credible intervals are those of the largest return: leave draws out, or the objective")
    if policy is not None and minimise:
        raise QueryError("a policy is evaluated as it is: there is nothing to minimise")
    if isinstance(policy, str) and policy not in ("observed", "optimal", "random"):
        raise QueryError(f"a policy by name is 'observed', 'optimal' or 'random', not {policy!r}")
    return Question(k, m, checked, test, bool(certify), policy, draws, seed, wanted, bool(minimise))


def _policy_name(policy: Any) -> str:
    return policy if isinstance(policy, str) else getattr(policy, "__name__", type(policy).__name__)
