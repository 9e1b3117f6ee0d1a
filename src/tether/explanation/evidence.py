"""What a learned model knows about the actions that a plan advises, and what its log leaves open, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether._foundation.words import counted, number, percent
from tether.errors import QueryError
from tether.explanation.outcome_chances import goes_on
from tether.model.practice import practice

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation
    from tether.learning.uncertainty import PlanUncertainty
    from tether.model.counts import Counts
    from tether.model.model_record import ModelRecord
    from tether.plan.plan_record import PlanRecord

_LISTED = 3
"""For how many changes a sentence says how often they were seen."""

_FEW = 10
"""An action seen less often than this is hardly known."""


@dataclass(frozen=True, slots=True)
class Evidence(Displayed):
    """How often an action that a plan advises is in the log of a learned model.

    Attributes
    ----------
    t : int
    state : name
        Where the plan most often takes the action at t.
    action, observed : name
        The advised action there, and the observed one.
    times : int
        How often this action was seen in this state, with its outcome.
    observed_times : int
        The same for the observed action; 0 if it is not available in that state.
    outcomes : int
        How many different states the action can lead to in the model. If 1, the outcome is certain in the model.
    advantage : float
        What the action does for anyone in this state, this once, compared with usual practice (`tether.practice`).
    low, high : float
        The 90 % interval of that.
    better : float
        How likely it is that the action is better than usual practice.
    end : name or None
        A terminal state to which the advised action can lead at once: a bad one, if there is one
        (`tether.MDP.with_labels`), else the one in which the episode ended.
    ended, observed_ended : int
        How often the advised and the observed action, taken in this state, led there.
    at_most : float
        The largest probability that the advised action leads there with which these counts are compatible: the exact
        binomial limit, with a confidence of 95 %.

    Examples
    --------
    >>> import tether
    >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
    >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
    >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
    >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
    >>> one = plan.explain().evidence[0]
    >>> one.t, one.state, one.action, one.observed, one.times, one.observed_times, one.outcomes
    (0, 'sick', 'treat', 'wait', 10, 3, 2)
    >>> one.end, one.ended, one.observed_ended, round(one.at_most, 2)
    ('dead', 2, 3, 0.51)
    """

    t: int
    state: Any
    action: Any
    observed: Any
    times: int
    observed_times: int
    outcomes: int
    advantage: float = 0.0
    low: float = 0.0
    high: float = 0.0
    better: float = 0.5
    end: Any = None
    ended: int = 0
    observed_ended: int = 0
    at_most: float = 1.0


def default_draws(plan: PlanRecord, draws: int | None) -> int:
    """How many models to draw: ``draws``, or by default some for a learned model and none for any other.

    >>> import tether
    >>> case = tether.cases.toy()
    >>> default_draws(tether.counterfactual(case.mdp, case.path).plan(k=2, m=1), None)
    0
    """
    mdp = plan.cf.mdp
    if draws is None:
        if mdp.counts is None:
            return 0
        from tether.learning.posterior import usual_draws

        return usual_draws(mdp)
    draws = whole_number("draws", draws, 0)
    if draws == 1:
        raise QueryError("one draw does not show how sure an answer is: draws must be 0, for none, or at least 2")
    if draws and mdp.counts is None:
        raise QueryError("this model was not learned from episodes, so it is unknown how sure it is; see tether.learn")
    return draws


def evidence_of(explanation: Explanation) -> tuple[Evidence, ...]:
    """How often each change of a plan is in the log of a learned model; empty for a model that was not learned."""
    mdp, observed = explanation.plan.cf.mdp, explanation.plan.cf.observation
    from scipy.special import betainccinv

    if mdp.counts is None:
        return ()
    usual, ends = practice(mdp), _ends_to_count(mdp, int(observed.states[-1]))
    found = []
    for step in explanation.changes:
        state = explanation.advised_states[step.t]
        s, done = mdp.state_index(state), int(observed.actions[step.t])
        advised, other = (mdp.find_pair(s, a) for a in (mdp.actions.find(step.instead), done))
        one = Evidence(step.t, state, step.instead, mdp.actions[done], 0, _seen(mdp, mdp.counts, other)[0], 0)
        if advised >= 0:
            effect = usual.advantage(advised)
            low, high = effect.interval(0.9)
            times, outcomes = _seen(mdp, mdp.counts, advised)
            one = replace(one, times=times, outcomes=outcomes, better=effect.better)
            one = replace(one, advantage=effect.advantage, low=low, high=high)
        reached = [] if advised < 0 else mdp.form.next_state[mdp.entries(advised)].tolist()
        end = next((one for one in ends if one in reached), -1)
        if end >= 0:
            ended, before = _led_to(mdp, mdp.counts, advised, end), _led_to(mdp, mdp.counts, other, end)
            limit = float(betainccinv(ended + 1, one.times - ended, 0.05)) if ended < one.times else 1.0
            one = replace(one, end=mdp.states[end], ended=ended, observed_ended=before, at_most=limit)
        found.append(one)
    return tuple(found)


def _ends_to_count(mdp: ModelRecord, last: int) -> list[int]:
    """The ends whose counts say most: the bad ones, that of the episode first; then that of the episode."""
    terminal = mdp.form.terminal.tolist()
    bad = np.flatnonzero(mdp.labels.on_side("bad")).tolist()
    found = [one for one in (last, *bad) if one in bad and one in terminal]
    return list(dict.fromkeys([*found, *([last] if last in terminal else [])]))


def _seen(mdp: ModelRecord, counts: Counts, pair: int) -> tuple[int, int]:
    """How often a pair was seen, and how many outcomes it has in the model."""
    if pair < 0:
        return 0, 0
    entries = mdp.entries(pair)
    return int(counts.transitions[entries].sum()), entries.stop - entries.start


def _led_to(mdp: ModelRecord, counts: Counts, pair: int, end: int) -> int:
    """How often a pair led to a state."""
    if pair < 0:
        return 0
    entries = mdp.entries(pair)
    return int(counts.transitions[entries][mdp.form.next_state[entries] == end].sum())


# ---- in sentences ------------------------------------------------------------------------------------------------


def learned_sentences(explanation: Explanation, name: Callable[[Any], str]) -> list[str]:
    """Sentences: that the model was learned, how often the advised actions were seen, and what the log leaves open.

    Examples
    --------
    >>> import tether
    >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
    >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
    >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
    >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
    >>> for sentence in learned_sentences(plan.explain(), str):  # doctest: +NORMALIZE_WHITESPACE
    ...     print(sentence)
    The model is learned, from 13 episodes: at step 0, treat was seen 10 times in that state.
    For anyone in that state, treat this once is worth 0.09954 more than usual practice (90 %: -0.04154 to 0.2406).
    In that state 2 of 10 times treat led to dead, 3 of 3 times wait; 2 of 10 is compatible with 51 %.
    Where it was not chosen, in the other half of the log, such a plan is worth 0.6978 (90 %: 0.3171 to 0.9415); the
    model that chose it says 0.75.
    There is a gain in 100 % of 100 models that the log leaves possible.
    In 90 % of them: the return 0.5341 to 0.8901; well: 53 % to 89 %; dead: 11 % to 47 %.
    """
    counts = explanation.plan.cf.mdp.counts
    if counts is None:
        return []
    which = "other episode" if counts.left_out else "episode"
    source = counted(counts.episodes, which) if counts.episodes else "a log"
    sentences = [f"The model is learned, from {source}{_how_often(explanation, name)}."]
    if counts.pooling is not None and counts.pooling.rho == 0:
        sentences.append(counts.pooling.sentence)
    elif len(explanation.evidence) <= _LISTED and explanation.plan.objective is None:
        sentences += [_for_anyone(one, name) for one in explanation.evidence]
    sentences += [_ends(one, name) for one in explanation.evidence if one.end is not None]
    sure, fair = explanation.uncertainty, explanation.crossfit
    if sure is None or not explanation.changes:
        return sentences
    if fair is not None:
        sentences.append(fair.sentence)
    return sentences + _left_open(sure, name, goes_on(explanation.plan.cf, explanation.outlook))


def _how_often(explanation: Explanation, name: Callable[[Any], str]) -> str:
    evidence = explanation.evidence
    if not evidence:
        return ""
    if len(evidence) > _LISTED:
        least = min(evidence, key=lambda one: one.times)
        return f"; of the changes, {_change_in_words(least, name)} is the one seen least often: {_times(least)}"
    parts = []
    for one in evidence:
        certain = explanation.steps[one.t].state_probability > 0.9995
        where = "in that state" if certain else "in the state where it is done most often"
        parts.append(f"{_change_in_words(one, name)} was seen {_times(one)} {where}")
    always = [one for one in evidence if one.outcomes == 1]
    few = [one for one in evidence if one.times < _FEW and one.outcomes > 1]
    if always:
        always_done = _what_is_done(always, evidence)
        parts.append(f"{always_done} always led to the same state: the log cannot say what else is possible")
    elif few:
        parts.append(f"that is few: what {_what_is_done(few, evidence)} leads to is hardly known")
    return f": {'; '.join(parts)}"


def _for_anyone(evidence: Evidence, name: Callable[[Any], str]) -> str:
    """What an advised action does for anyone in its state."""
    than = "more" if evidence.advantage >= 0 else "less"
    ends = sorted((evidence.low, evidence.high) if evidence.advantage >= 0 else (-evidence.high, -evidence.low))
    worth = f"{number(abs(evidence.advantage))} {than}"
    return (
        f"For anyone in that state, {name(evidence.action)} this once is worth {worth} than "
        f"usual practice (90 %: {number(ends[0])} to {number(ends[1])})."
    )


def _ends(evidence: Evidence, name: Callable[[Any], str]) -> str:
    """How often the advised and the observed action led at once to how the episode ended."""
    end = name(evidence.end)
    text = f"In that state {evidence.ended:,} of {evidence.times:,} times {name(evidence.action)} led to {end}"
    if evidence.observed_times:
        text += f", {evidence.observed_ended:,} of {evidence.observed_times:,} times {name(evidence.observed)}"
    return f"{text}; {evidence.ended:,} of {evidence.times:,} is compatible with {percent(evidence.at_most)}."


def _change_in_words(evidence: Evidence, name: Callable[[Any], str]) -> str:
    return f"at step {evidence.t}, {name(evidence.action)}"


def _what_is_done(some: list[Evidence], evidence: tuple[Evidence, ...]) -> str:
    return "it" if len(evidence) == 1 else f"what is done at step {' and '.join(str(one.t) for one in some)}"


def _times(evidence: Evidence) -> str:
    only = "only " if evidence.times < _FEW else ""
    return f"{only}{'once' if evidence.times == 1 else counted(evidence.times, 'time')}"


def _left_open(sure: PlanUncertainty, name: Callable[[Any], str], after: bool) -> list[str]:
    """``after``: the episode can go on after the property is decided, so its last state says nothing about the plan."""
    low, high = sure.interval()
    parts = [f"the return {_range(number(low), number(high))}"]
    if sure.objective is not None:
        parts = [f"the chance that {sure.objective.in_words} {_range(percent(low), percent(high))}"]
    for outcome in () if after else sure.outcomes:
        ends = sure.outcome_interval(outcome)
        if max(ends) > 1e-9:
            parts.append(f"{name(outcome)}: {_range(*map(percent, ends))}")
    models = f"{sure.draws:,} models that the log leaves possible"
    return [
        f"There is a gain in {percent(sure.probability_better)} of {models}.",
        f"In 90 % of them: {'; '.join(parts)}.",
    ]


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
