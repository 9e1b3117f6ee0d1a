"""The question for every episode of a log, checked once; a small record that goes to every worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tether._foundation.checks import whole_number
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.mechanisms import make_mechanism
from tether.conditioning.model_sets import check_gamma
from tether.errors import Problem, QueryError
from tether.influence.advisable import Advisable
from tether.influence.one_step import Influence, make_influence
from tether.influence.own import InfluenceTest, TetherRule
from tether.influence.rules import Rule, make_rule
from tether.learning.folds import Folds
from tether.mdp import MDP
from tether.model.model_record import ModelRecord
from tether.model.properties import Property, make_property

GUMBEL: Mechanism = GumbelMax()


@dataclass(frozen=True, slots=True)
class Question:
    """The question for every episode.

    Attributes
    ----------
    k : int or None
        The length of the tether; None: the suggested one, episode by episode.
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
    folds : int
        In how many folds the log of a learned model is cut, so that plans are valued by models that did not choose
        them; 0 for none. ``split`` has the counts of each (`tether.learning.folds`).
    advisable : Advisable or None
        Which changes may be advised, and what they cost.
    gamma : float or None
        How strong the hidden causes are for which the sentences say in how many episodes the gain survives.
    longest : int
        How many steps the longest episode of the log has: one that ended early is judged over as many.
    horizon, then
        Up to which time, and who acts after the records; as in `tether.counterfactual`.
    mechanism : Mechanism
        The causal model.
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
    gamma: float | None = None
    longest: int = 0
    folds: int = 0
    split: Folds | None = None
    advisable: Advisable | None = None
    horizon: int | None = None
    then: Any = "best"
    mechanism: Mechanism = GUMBEL

    @property
    def steps(self) -> int | None:
        """How many steps of each episode it is about; None for all of them."""
        about = None if self.objective is None else self.objective.about_steps
        return None if about is None else max(about, 1)

    @property
    def named(self) -> dict[str, Any]:
        """The question in plain values, for files and pages."""
        plans = self.policy is None
        return {
            "k": self.k if plans else None,
            "m": self.m if plans else None,
            "rule": str(self.rule) if plans else None,
            "influence": str(self.influence),
            "objective": None if self.objective is None else str(self.objective),
            "minimise": self.minimise,
            "certify": self.certify,
            "policy": None if plans else _policy_name(self.policy),
            **({} if self.advisable is None else {"advisable": str(self.advisable)}),
            "draws": self.draws,
            "seed": self.seed,
            "folds": self.folds,
            "gamma": self.gamma,
            "horizon": self.horizon,
            "then": _policy_name(self.then),
            "mechanism": self.mechanism.name,
        }

    @property
    def is_certified(self) -> bool:
        """Whether certificates are asked for: they are about returns."""
        return self.certify and self.objective is None

    def bound(self, mdp: ModelRecord) -> Question:
        """The question for a model: a test or a rule of the user's own knows its names."""
        about: dict[str, Any] = {name: one.bound(mdp) for name, one in self.own.items()}
        return replace(self, **about)

    @property
    def own(self) -> dict[str, InfluenceTest | TetherRule]:
        """The rule and the test of influence, if they are the user's own."""
        given = {"rule": self.rule, "influence": self.influence}
        return {name: one for name, one in given.items() if isinstance(one, InfluenceTest | TetherRule)}


def digest_of_question(mdp: MDP, question: Question, longest: Callable[[], int]) -> tuple[str | None, str]:
    """A digest of what the names of a question do not say; or None, and why it cannot be compared with another one.

    Policies and functions about changes are digested by what they decide, other functions by their code. ``longest``
    returns the number of steps of the longest episode.
    """
    from tether.logs.fingerprint import digest_of_changes, digest_of_mechanism, digest_of_policy, digest_of_values

    def steps() -> int:
        return max(longest(), question.horizon or 0, mdp.horizon or 0)

    found = []
    if question.objective is not None:
        decided = question.objective.on(mdp)
        found += [decided.ended.tobytes().hex(), decided.holds.tobytes().hex()]
    about = [digest_of_mechanism(question.mechanism), *(one.digest for one in question.own.values())]
    about += [] if question.advisable is None else [digest_of_changes(mdp, question.advisable, steps)]
    about += [digest_of_policy(mdp, one, steps) for one in (question.policy, question.then) if one is not None]
    for digest, why in about:
        if digest is None:
            return None, why
        found.append(digest)
    return digest_of_values(found), ""


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
    folds: int = 0,
    gamma: Any = None,
    advisable: Advisable | None = None,
    horizon: Any = None,
    then: Any = "best",
    mdp: ModelRecord | None = None,
    mechanism: Any = GUMBEL,
) -> Question:
    """Check what is asked; of ``mdp``, if it is known already."""
    wanted = _about_a_log(make_property(objective))
    test = make_influence(influence, mdp)
    checked = make_rule(rule, test, mdp)
    k = None if k is None else whole_number("k", k, 1)
    m = whole_number("m", m, 0)
    draws, seed = whole_number("draws", draws, 0), whole_number("seed", seed, 0)
    if policy is not None and k is not None:
        raise QueryError("a policy is evaluated as it is: leave k out, or leave the policy out to plan within k and m")
    if policy is not None and draws:
        raise QueryError("credible intervals are those of plans: leave draws out, or leave the policy out")
    if draws and not folds and (wanted is not None or minimise):
        raise QueryError("credible intervals are those of the largest return: leave draws out, or the objective")
    if policy is not None and minimise:
        raise QueryError("a policy is evaluated as it is: there is nothing to minimise")
    if isinstance(policy, str) and policy not in ("observed", "optimal", "random"):
        raise QueryError(f"a policy by name is 'observed', 'optimal' or 'random', not {policy!r}")
    if policy is not None and advisable is not None:
        raise QueryError("a policy is evaluated as it is: leave out only=, never= and cost=")
    gamma = None if gamma is None else check_gamma(gamma)
    horizon = None if horizon is None else whole_number("horizon", horizon, 1)
    about: Any = {
        "objective": wanted,
        "minimise": bool(minimise),
        "gamma": gamma,
        "advisable": advisable,
        "folds": folds,
        "horizon": horizon,
        "then": then,
        "mechanism": mechanism if mdp is None else make_mechanism(mechanism, {}, mdp),
    }
    return Question(k, m, checked, test, bool(certify), policy, draws, seed, **about)


def _about_a_log(objective: Property | None) -> Property | None:
    """A property as it is decided in the episodes of a log, which are cut at its bound (`PreparedQuestion.of`)."""
    if objective is None or (objective.about_steps is None and not objective.remembers):
        return objective
    if objective.remembers:
        message = f"{objective}: an audit asks about one of tether.reach, avoid and until, not about several joined"
        fix = "ask about single episodes: tether.counterfactual(mdp, path).plan(objective=…)"
        raise QueryError(Problem(message, value=str(objective), fix=fix, argument="objective"))
    return objective.of_cut(max(objective.about_steps or 1, 1))


def _policy_name(policy: Any) -> str:
    return policy if isinstance(policy, str) else getattr(policy, "__name__", type(policy).__name__)
