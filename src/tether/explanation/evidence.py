"""What a learned model knows about the actions that a plan advises, and what its log leaves open, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tether._foundation.checks import whole_number
from tether._foundation.words import counted, number, percent
from tether.errors import QueryError
from tether.explanation.outcomes import goes_on

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation
    from tether.learning.uncertainty import PlanUncertainty
    from tether.model.mdp import MDP
    from tether.plan.plan import Plan

__all__ = ["DRAWS", "Evidence", "default_draws", "evidence_of", "learned_sentences", "usual_draws"]

DRAWS = 100
"""How many models are drawn for a learned model, by default: enough for an interval, in about a second."""

_ENTRIES, _FEWEST = 200_000, 20
"""The number of transitions up to which the default draws are fast; and the number of draws for the largest models."""

_LISTED = 3
"""For how many changes a sentence says how often they were seen."""

_FEW = 10
"""An action seen less often than this is hardly known."""


@dataclass(frozen=True, slots=True)
class Evidence:
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

    Examples
    --------
    >>> import tether
    >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
    >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
    >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
    >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
    >>> plan.explain().evidence
    (Evidence(t=0, state='sick', action='treat', observed='wait', times=10, observed_times=3, outcomes=2),)
    """

    t: int
    state: Any
    action: Any
    observed: Any
    times: int
    observed_times: int
    outcomes: int


def default_draws(plan: Plan, draws: int | None) -> int:
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
        return usual_draws(mdp)
    draws = whole_number("draws", draws, 0)
    if draws == 1:
        raise QueryError("one draw does not show how sure an answer is: draws must be 0, for none, or at least 2")
    if draws and mdp.counts is None:
        raise QueryError("this model was not learned from episodes, so it is unknown how sure it is; see tether.learn")
    return draws


def usual_draws(mdp: MDP) -> int:
    """How many models are drawn for a learned model by default: fewer for a large one."""
    return max(_FEWEST, DRAWS * _ENTRIES // max(mdp.n_transitions, _ENTRIES))


def evidence_of(explanation: Explanation) -> tuple[Evidence, ...]:
    """How often each change of a plan is in the log of a learned model; empty for a model that was not learned."""
    mdp, path = explanation.plan.cf.mdp, explanation.plan.cf.path
    if mdp.counts is None:
        return ()
    found = []
    for step in explanation.changes:
        state = explanation.advised_states[step.t]
        s, action, done = mdp.state_index(state), step.instead, path.actions[step.t]
        times, outcomes = _seen(mdp, s, action)
        found.append(Evidence(step.t, state, action, done, times, _seen(mdp, s, done)[0], outcomes))
    return tuple(found)


def _seen(mdp: MDP, s: int, action: Any) -> tuple[int, int]:
    """How often an action was seen in a state, and how many outcomes it has in the model."""
    pair = mdp.find_pair(s, mdp.actions.find(action))
    if pair < 0 or mdp.counts is None:
        return 0, 0
    first, last = (int(end) for end in mdp.form.row_start[pair : pair + 2])
    return int(mdp.counts.transitions[first:last].sum()), last - first


# ---- in sentences ------------------------------------------------------------------------------------------------


def learned_sentences(explanation: Explanation, name: Callable[[Any], str]) -> list[str]:
    """That the model was learned, how often the advised actions were seen, and what the log leaves open.

    Examples
    --------
    >>> import tether
    >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
    >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
    >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
    >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
    >>> for sentence in learned_sentences(plan.explain(), str):
    ...     print(sentence)
    The model is learned, from 13 episodes: at t = 0, treat was seen 10 times in that state.
    There is a gain in 100 % of 100 models that the log leaves possible.
    In 90 % of them: the return 0.5341 to 0.8901; well: 53 % to 89 %; dead: 11 % to 47 %.
    """
    counts = explanation.plan.cf.mdp.counts
    if counts is None:
        return []
    source = counted(counts.episodes, "episode") if counts.episodes else "a log"
    sentences = [f"The model is learned, from {source}{_how_often(explanation, name)}."]
    sure = explanation.uncertainty
    if sure is None or not explanation.changes:
        return sentences
    return sentences + _left_open(sure, name, goes_on(explanation.plan.cf, explanation.outlook))


def _how_often(explanation: Explanation, name: Callable[[Any], str]) -> str:
    evidence = explanation.evidence
    if not evidence:
        return ""
    if len(evidence) > _LISTED:
        least = min(evidence, key=lambda one: one.times)
        return f"; of the changes, {_one(least, name)} is the one seen least often: {_times(least)}"
    parts = []
    for one in evidence:
        certain = explanation.steps[one.t].state_probability > 0.9995
        where = "in that state" if certain else "in the state where it is done most often"
        parts.append(f"{_one(one, name)} was seen {_times(one)} {where}")
    always = [one for one in evidence if one.outcomes == 1]
    few = [one for one in evidence if one.times < _FEW and one.outcomes > 1]
    if always:
        parts.append(f"{_it(always, evidence)} always led to the same state: the log cannot say what else is possible")
    elif few:
        parts.append(f"that is few: what {_it(few, evidence)} leads to is hardly known")
    return f": {'; '.join(parts)}"


def _one(one: Evidence, name: Callable[[Any], str]) -> str:
    return f"at t = {one.t}, {name(one.action)}"


def _it(some: list[Evidence], evidence: tuple[Evidence, ...]) -> str:
    return "it" if len(evidence) == 1 else f"what is done at t = {' and '.join(str(one.t) for one in some)}"


def _times(one: Evidence) -> str:
    only = "only " if one.times < _FEW else ""
    return f"{only}{'once' if one.times == 1 else counted(one.times, 'time')}"


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
