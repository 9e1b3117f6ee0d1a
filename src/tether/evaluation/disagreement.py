"""Where return and outcome disagree: a plan gains return, but makes a good end less likely, or a bad one likelier.

Which ends are good and bad is marked (`tether.MDP.with_labels`) or said by their names. The return then does not mean
what whoever reads it means by doing well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tether._foundation.arrays import Flags, Ints
from tether._foundation.rounding import rounding_of
from tether._foundation.words import percent
from tether.evaluation.evaluate import Evaluation, evaluate_plan, evaluate_policy

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord
    from tether.plan.plan_record import PlanRecord

_CLOSE = 1e-6
"""Chances of ends that differ by less than this are the same."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A plan that gains return, with the chances of a good and of a bad end under it and as observed.

    ``ask`` is a question that means what these ends mean: "avoid dead".

    Examples
    --------
    >>> import tether
    >>> from tether.evaluation.disagreement import disagreement_of
    >>> done, ends = ["rest", "rest", "drug", "drug"], ["well", "dead"]
    >>> chance, reward = [0.9, 0.1, 0.5, 0.5], [1.0, 0.0, 9.0, 0.0]
    >>> mdp = tether.MDP.from_table(["sick"] * 4, done, ends * 2, chance, reward, terminal=ends)
    >>> cf = tether.counterfactual(mdp, tether.Path(["sick", "well"], ["rest"]))
    >>> print(disagreement_of(cf.plan(k=1, m=1)).sentence)  # doctest: +NORMALIZE_WHITESPACE
    The plan gains return, but makes a good end less likely (56 % instead of certain) and a bad end likelier (44 %
    instead of 0 %).
    """

    good: float
    observed_good: float
    bad: float
    observed_bad: float
    ask: str = ""

    @property
    def sentence(self) -> str:
        """What becomes less likely, and what likelier."""
        parts = []
        if self.good < self.observed_good - _CLOSE:
            parts.append(f"makes a good end less likely ({_instead(self.good, self.observed_good)})")
        if self.bad > self.observed_bad + _CLOSE:
            often = "" if parts else "makes "
            parts.append(f"{often}a bad end likelier ({_instead(self.bad, self.observed_bad)})")
        return f"The plan gains return, but {' and '.join(parts)}."

    def sentences(self) -> list[str]:
        """What disagrees; and what to ask in place of this return."""
        return [
            self.sentence,
            f"Ask for the outcome itself ('{self.ask}'), or say what ends are worth (final rewards).",
        ]


def disagreement_of(plan: PlanRecord, outlook: Evaluation | None = None) -> Disagreement | None:
    """Whether the return and the outcome disagree about a plan; None if they do not, or no end is good or bad.

    ``outlook`` is the evaluation of the plan, if it is known.
    """
    if plan.objective is not None or plan.gain <= rounding_of(plan.observed_value):
        return None
    good, bad = sides_of(plan.cf.mdp)
    if not (good.any() or bad.any()):
        return None
    seen = evaluate_policy(plan.cf, "observed")
    now, before = (_chances(one, good, bad) for one in (outlook or evaluate_plan(plan), seen))
    if not is_worse(now[0], before[0], now[1], before[1]):
        return None
    return Disagreement(now[0], before[0], now[1], before[1], _question(plan.cf.mdp))


def sides_of(mdp: ModelRecord) -> tuple[Flags, Flags]:
    """Which states are a good end, and which a bad one."""
    return mdp.labels.on_side("good"), mdp.labels.on_side("bad")


def is_worse(good: Any, observed_good: Any, bad: Any, observed_bad: Any) -> Any:
    """Where a good end is less likely than it was, or a bad one likelier; not where a chance is not known (NaN)."""
    return (good < observed_good - _CLOSE) | (bad > observed_bad + _CLOSE)


def _chances(outlook: Evaluation, good: Flags, bad: Flags) -> tuple[float, float]:
    states: Ints
    states, chance = outlook.ends
    return float(chance @ good[states]), float(chance @ bad[states])


def _question(mdp: ModelRecord) -> str:
    """The question that means what a good or a bad end means: by the first label that is one."""
    for side, verb in (("bad", "avoid"), ("good", "reach")):
        for name in mdp.labels:
            if mdp.labels.side(name) == side:
                return f"{verb} {name}"
    return ""


def _instead(now: float, before: float) -> str:
    return " instead of ".join("certain" if one >= 1 - _CLOSE else percent(one) for one in (now, before))
