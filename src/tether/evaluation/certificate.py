"""Certificates: does a gain hold under every causal model, only under stable ones, or only under Gumbel-max?

Here and everywhere, "every causal model" means every one that agrees with the MDP and with the observed episode, and in
which the luck of one step says nothing about the luck of another. The MDP itself is taken as right. Two numbers go
beyond these models: the range if the luck of different steps may be related in any way (`tether.core.related`), and how
strong hidden causes of actions and outcomes must be to undo the gain (`tether.conditioning.model_sets.Confounding`).
If the MDP was learned, the sentence says so; and no gain is said to hold if some advised action was seen fewer than
`ENOUGH` times: the probabilities of such a plan are too often wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed, html_table
from tether._foundation.rounding import gain_of, rounding_of
from tether._foundation.words import counted, number, percent, three_digits
from tether.conditioning.model_sets import (
    EVERY_MODEL,
    IN_WORDS,
    UNRELATED_LUCK,
    Assumption,
    check_gamma,
    has_copies,
    is_practice_assumed,
    left_with_hidden_causes,
    model_set,
)
from tether.conditioning.sampled import SampledGumbelMax
from tether.errors import QueryError
from tether.evaluation.following import follow
from tether.evaluation.plan_risk import chances_over, replays_in_words
from tether.evaluation.ranges import Range, ranges_with_breakdown, survival
from tether.evaluation.sightings import ENOUGH, least_sightings
from tether.model.practice import strongest_in_words
from tether.model.properties import Property, make_property
from tether.plan.best_values import observed_value
from tether.plan.in_question import in_question
from tether.plan.limited import LimitedPlanRecord
from tether.plan.objective import asked, asked_set
from tether.plan.plan_record import PlanRecord
from tether.plan.policy import shares_of_pairs

if TYPE_CHECKING:
    import pyarrow

    from tether.conditioning.counterfactual_record import CounterfactualRecord

Verdict = Literal[
    "holds", "holds if stable", "never worse", "never worse if stable", "could do harm", "seen too rarely"
]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

MOST_NODES = 20_000
"""How many states over time a plan can reach for its certificate to take about half a second. Other causal models can
lead to many more."""

_SENTENCES: dict[Verdict, str] = {
    "holds": f"It is expected to do better than what happened, under {EVERY_MODEL}.",
    "holds if stable": f"It is expected to do better than what happened under {IN_WORDS['stability']}, not under every "
    "one.",
    "never worse": f"It is not expected to do worse than what happened, under {EVERY_MODEL}. That it does better rests "
    "on an assumption that no data can test.",
    "never worse if stable": f"It is not expected to do worse than what happened under {IN_WORDS['stability']}, but "
    "under others it could do harm. That it does better rests on an assumption that no data can test.",
    "could do harm": "It rests on the causal model: under others it could do harm.",
    "seen too rarely": "No gain can be said to hold under every causal model: an advised action was seen {}, and "
    f"{ENOUGH} times are needed.",
}


_NOTHING_WORSE = "It could not have ended worse. That it ends better rests on an assumption that no data can test."


@dataclass(frozen=True, slots=True)
class Certified(Displayed):
    """What is guaranteed for a plan or policy under one assumption.

    Attributes
    ----------
    assume : str
    worst, best : float
        The range of its expected return over the causal models that meet the assumption.
    gain : float
        The guaranteed gain: the worst case less the observed return.
    breakdown : float
        How far from Gumbel-max, towards the worst model of the set, the truth may be before nothing is gained: 0 to 1.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> one = tether.counterfactual(case.mdp, case.path).plan(k=6, m=4).certify().nothing
    >>> one.assume, round(one.gain, 2), one.breakdown
    ('nothing', 11.21, 1.0)
    """

    assume: Assumption
    worst: float
    best: float
    gain: float
    breakdown: float


@dataclass(frozen=True, slots=True, repr=False)
class Certificate(Tabular):
    """What holds for a plan or policy under every causal model; made by `tether.certify` and `Plan.certify`.

    "Every causal model" means every one that agrees with the MDP and with the observed episode, and in which the luck
    of one step says nothing about the luck of another. The MDP itself is taken as right.

    Attributes
    ----------
    value : float
        Its expected return under Gumbel-max.
    observed_value : float
    nothing, stability : Certified
        What is guaranteed under every causal model, and under every one that is counterfactually stable.
    verdict : str
        "holds", "holds if stable", "never worse", "never worse if stable" or "could do harm"; "never worse" also if
        nothing can change at all. "seen too rarely" in place of the first two, if some advised action is in the log of
        a learned model fewer than 30 times.
    gamma : float
        How strong the hidden causes are that ``worst`` and ``best`` allow for: they change the odds of every action in
        every state at most so many times, at each step anew. 1 is none.
    worst, best : float
        The range of its expected return under every causal model and with hidden causes up to ``gamma``.
    gamma_star : float
        How strong hidden causes must be to undo the gain. Infinite if none can, as long as outcomes of probability 0
        stay impossible; 1 if no gain is guaranteed even without them.
    related : (float, float)
        The worst and the best expected return if the luck of different steps may be related in any way: bounds that
        hold, and are not always attained.
    objective, minimise
        What the plan was made for.
    observations, least_seen : int or None
        For a learned model: how many steps with an outcome it was learned from, and how often they have the advised
        action that they have least often; None if nothing is advised.
    worse, better : (float, float) or None
        (smallest, largest) chance that a single replay ends worse, and better, than what happened, over every causal
        model (`tether.records.Risk`). None if there are too many different returns.
    practice_assumed : bool
        Whether ``gamma`` and ``gamma_star`` take all actions as usually taken equally often, because nothing says how
        often they are.
    compared : str
        For a learned model, beside a finite ``gamma_star``: how strong a recorded variable would have been, in words.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1)
    >>> plan.certify()
    <Certificate: holds: from -37.12 to -37.01, observed -38, breakdown 1>
    >>> found = plan.certify(gamma=2.0)
    >>> round(found.worst, 3), round(found.gamma_star, 3)
    (-37.309, 5.547)
    >>> [round(end, 3) for end in found.related]
    [-37.137, -37.0]
    """

    value: float
    observed_value: float
    nothing: Certified
    stability: Certified
    verdict: Verdict
    gamma: float
    worst: float
    best: float
    gamma_star: float
    related: tuple[float, float]
    objective: Property | None = None
    minimise: bool = False
    observations: int | None = None
    least_seen: int | None = None
    worse: tuple[float, float] | None = None
    better: tuple[float, float] | None = None
    practice_assumed: bool = False
    compared: str = ""

    @property
    def gain(self) -> float:
        """The gain that is guaranteed under every causal model; below 0 if the plan could do harm."""
        return self.nothing.gain

    def to_arrow(self) -> pyarrow.Table:
        """One row per assumption: assume, worst, best, the guaranteed gain.

        "nothing" and "stability" are sets of causal models; "hidden causes" are those up to ``gamma``; "related luck"
        is luck that may be related over time in any way.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).plan(k=6, m=4).certify().to_arrow()
        >>> table["assume"].to_pylist(), round(table["gain"][0].as_py(), 2)
        (['nothing', 'stability', 'hidden causes', 'related luck'], 11.21)
        """
        import pyarrow as pa

        every, stable = self.nothing, self.stability
        named = {
            "nothing": (every.worst, every.best),
            "stability": (stable.worst, stable.best),
            "hidden causes": (self.worst, self.best),
            "related luck": self.related,
        }
        gains = [gain_of(worst, self.observed_value, self.minimise) for worst, _ in named.values()]
        worst, best = zip(*named.values(), strict=True)
        return pa.table({"assume": list(named), "worst": worst, "best": best, "gain": gains})

    @property
    def is_certain(self) -> bool:
        """Whether every causal model gives the observed return, as it does if nothing changes."""
        off = max(abs(self.nothing.best - self.observed_value), abs(self.gain))
        return off <= rounding_of(self.observed_value)

    @property
    def _value_is(self) -> str:
        return "expected return" if self.objective is None else f"chance that {self.objective.in_words}"

    @property
    def sentence(self) -> str:
        """The verdict, with the numbers.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> print(cf.plan(k=3, m=1).certify().sentence)  # doctest: +NORMALIZE_WHITESPACE
        It is expected to do better than what happened, under every causal model in which the luck of one step says
        nothing about the luck of another.
        The expected return is from -37.12 to -37.01 over all of these that agree with the model and the episode;
        observed -38.
        If the luck of different steps may be related, it is from -37.14 to -37.
        The gain survives hidden reasons that changed the odds of an action by less than 5.54 times, if all
        actions are usually taken equally often.
        """
        if self.is_certain:
            which = EVERY_MODEL if self._related() else "every causal model that agrees with the model and the episode"
            if self.objective is not None:
                return f"Under {which}, the {self._value_is} stays {number(self.observed_value)}."
            return f"{which[0].upper()}{which[1:]} gives the observed return."
        every, stable = self.nothing, self.stability
        verdict = self._verdict()
        which = "all of these" if UNRELATED_LUCK in verdict else f"all causal models {UNRELATED_LUCK} and"
        ranges = f"The {self._value_is} is {_span(every.worst, every.best)} over {which} that agree with the model and "
        ranges += "the episode"
        if _span(every.worst, every.best) != _span(stable.worst, stable.best):
            ranges += f", {_span(stable.worst, stable.best)} over the stable ones"
        ranges += f"; observed {number(self.observed_value)}."
        return " ".join(
            [
                verdict,
                ranges,
                *self._related(),
                *replays_in_words(self.worse),
                *self._breakdown(),
                *self.hidden_causes,
            ]
        )

    def _related(self) -> list[str]:
        """The range if luck is related over time; empty if it is the same."""
        wider = _span(*self.related)
        if wider == _span(self.nothing.worst, self.nothing.best):
            return []
        lost = self.gain > 0.0 and gain_of(self.related[0], self.observed_value, self.minimise) <= 0.0
        guaranteed = ", and no gain is guaranteed" if lost else ""
        return [f"If the luck of different steps may be related, it is {wider}{guaranteed}."]

    @property
    def hidden_causes(self) -> list[str]:
        """What is left of the gain with hidden causes of actions and outcomes; empty if there is no gain to lose.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> plan = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4)
        >>> for sentence in plan.certify(gamma=2, practice="random").hidden_causes:
        ...     print(sentence)
        With hidden reasons that changed the odds of an action up to 2 times, it is from 34.51 to 549.9.
        No hidden reason for the actions can undo the gain, if what the model calls impossible is impossible.
        """
        star = self.gamma_star if self.gain > 0.0 else None
        left = left_with_hidden_causes(self.gamma, _span(self.worst, self.best), star, self.practice_assumed)
        return [*left, self.compared] if star is not None and self.compared else left

    @property
    def ranges(self) -> list[tuple[str, float, float]]:
        """Each set of causal models with the worst and the best of it, as tables name them.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> for name, worst, best in tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4).certify(gamma=2).ranges:
        ...     print(f"{name}: {worst:.0f} to {best:.0f}")
        every causal model: 359 to 434
        every stable one: 359 to 389
        luck related over time: 338 to 467
        hidden causes up to 2: 35 to 550
        """
        sets = (("every causal model", self.nothing), ("every stable one", self.stability))
        rows = [(name, one.worst, one.best) for name, one in sets]
        rows.append(("luck related over time", *self.related))
        hidden = [(f"hidden causes up to {three_digits(self.gamma)}", self.worst, self.best)] if self.gamma > 1 else []
        return rows + hidden

    def _verdict(self) -> str:
        """The verdict in a sentence; a different one if Gumbel-max itself expects a loss."""
        rounding = rounding_of(self.observed_value)
        sign = -1.0 if self.minimise else 1.0
        if sign * (self.nothing.best - self.observed_value) < -rounding:
            return self._if_right(f"Worse than what was done, under {EVERY_MODEL}.")
        if sign * (self.value - self.observed_value) < -rounding:
            return "Gumbel-max expects it to be worse than what was done; another causal model can make it better."
        if self.verdict == "never worse" and self.worse is not None and self.worse[1] == 0.0:
            return self._if_right(_NOTHING_WORSE)
        seen = "once" if self.least_seen == 1 else counted(self.least_seen or 0, "time")
        return self._if_right(_SENTENCES[self.verdict].format(seen))

    def _if_right(self, sentence: str) -> str:
        """The sentence, with what it takes as right if the model was learned."""
        if self.observations is None:
            return sentence
        learned = f"the probabilities learned from {counted(self.observations, 'observed step')}"
        return f"{sentence.removesuffix('.')}; this takes {learned} as right."

    def _breakdown(self) -> list[str]:
        """How far from Gumbel-max the truth may be before nothing is gained; empty if something is always gained."""
        point = self.nothing.breakdown
        if point in (0.0, 1.0) or point > 0.995:
            return []
        return [f"Nothing is gained any more at {percent(point)} of the way from Gumbel-max to the worst of them."]

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return (
            f"<Certificate: {self.verdict}: from {self.nothing.worst:.4g} to {self.nothing.best:.4g}, "
            f"observed {self.observed_value:.4g}, breakdown {self.nothing.breakdown:.3g}>"
        )

    def _repr_html_(self) -> str:
        head = ("causal models", "worst", "Gumbel-max", "best", "guaranteed gain")
        rows = []
        for name, worst, best in self.ranges:
            gain = gain_of(worst, self.observed_value, self.minimise)
            rows.append((name, *(number(x) for x in (worst, self.value, best, gain))))
        return html_table(head, rows)


def certificate_of(
    cf: CounterfactualRecord,
    policy: Any,
    *,
    gamma: float = 1.0,
    practice: Any = None,
    objective: Property | None = None,
    minimise: bool = False,
    compare: bool = True,
) -> Certificate:
    """What holds for a plan or policy under every causal model of an episode; see `tether.certify`.

    ``compare``: whether to say how strong a recorded variable would have been.
    """
    if isinstance(policy, PlanRecord | LimitedPlanRecord):
        if objective is not None or minimise:
            raise QueryError("a plan is judged by its own objective: leave out objective= and minimise=")
        objective, minimise = policy.objective, policy.minimise
    cf, objective = in_question(cf, make_property(objective))
    hidden = check_gamma(gamma), shares_of_pairs(cf.mdp, practice)
    observed = observed_value(asked(cf, objective, minimise))
    sets = model_set(cf, "nothing"), model_set(cf, "stability")
    followed = follow(sets[0], policy, objective, minimise)
    every, stable = ranges_with_breakdown(sets, followed, observed, objective, minimise)
    certified = _certified("nothing", every, observed, minimise), _certified("stability", stable, observed, minimise)
    least, counts = least_sightings(cf, policy), cf.mdp.counts
    verdict = VERDICTS[int(verdict_number(certified[0].gain, certified[1].gain, ENOUGH if least is None else least))]
    worse, better = chances_over(asked_set(sets[0], objective), followed, observed, minimise) or (None, None)
    left = survival(sets[0], followed, observed, *hidden, objective, minimise)
    return Certificate(
        every.value,
        observed,
        *certified,
        verdict,
        gamma=hidden[0],
        worst=left.worst,
        best=left.best,
        gamma_star=left.gamma_star,
        related=left.related,
        objective=objective,
        minimise=minimise,
        observations=None if counts is None else int(counts.transitions.sum()),
        least_seen=least,
        worse=worse,
        better=better,
        practice_assumed=is_practice_assumed(cf.mdp, practice),
        compared=strongest_in_words(cf.mdp) if compare and 1.0 < left.gamma_star < np.inf else "",
    )


def _certified(assume: Assumption, values: Range, observed: float, minimise: bool) -> Certified:
    gain = gain_of(values.worst, observed, minimise)
    return Certified(assume, values.worst, values.best, gain, values.breakdown)


def why_uncertified(plan: PlanRecord) -> str:
    """Why the certificate of a plan is left out of explanations, in a sentence; empty if it is not left out.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> sampled = tether.counterfactual(case.mdp, case.path, mechanism=tether.SampledGumbelMax(100, rng=1))
    >>> print(why_uncertified(sampled.plan(k=3, m=1)))
    Other causal models were not considered: the rows of this one are sampled. `tether certify` considers them.
    """
    if has_copies(plan.cf):
        return "Other causal models were not considered: what the plan does depends on what was met before."
    if isinstance(plan.cf.mechanism, SampledGumbelMax):
        reason = "the rows of this one are sampled"
    else:
        nodes = sum(visits.size for visits in plan.chain.visits)
        if nodes <= MOST_NODES:
            return ""
        reason = f"the plan can reach {counted(nodes, 'state')} over time"
    return f"Other causal models were not considered: {reason}. `tether certify` considers them."


def _span(worst: float, best: float) -> str:
    low, high = number(worst), number(best)
    return low if low == high else f"from {low} to {high}"


def verdict_number(every: Any, stable: Any, seen: Any = ENOUGH) -> Any:
    """The verdict from the guaranteed gains under every causal model and under every stable one; for one plan or many.

    ``seen`` is how often the advised action that a log has least often is in it.

    >>> VERDICTS[verdict_number(0.0, 2.5)], VERDICTS[verdict_number(0.0, 2.5, seen=29)]
    ('holds if stable', 'seen too rarely')
    """
    found = np.select((every > 0.0, stable > 0.0, every == 0.0, stable == 0.0), range(4), 4)
    return np.where((found < 2) & (np.asarray(seen) < ENOUGH), VERDICTS.index("seen too rarely"), found)
