"""The timeline: what was done at each step; behind each, what if and why not."""

from __future__ import annotations

from typing import Any

from tether._foundation.words import three_digits
from tether.explanation.decisions import Decision
from tether.explanation.replay import of_hundred
from tether.explanation.reviewing import ending
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked

_STEPS, _OTHERS = 20, 6
"""Steps of the timeline, and other actions of a step, that are shown."""


def timeline(asked: Asked) -> dict[str, Any]:
    """Each step with its other actions: what each would have gained alone, and which tether allows it."""
    answer, view = asked.answer, asked.view
    cf = answer.cf
    rows: dict[int, list[Decision]] = {}
    for row in answer.question.decisions.rows:
        rows.setdefault(row.t, []).append(row)
    asked.check()
    changed = {step.t for step in answer.explanation.changes}
    steps = []
    for t in range(min(cf.T, _STEPS)):
        others = sorted((row for row in rows.get(t, []) if not row.is_observed), key=_by_gain)
        if not others and t not in changed:
            continue  # the episode is over: nothing is decided
        steps.append(
            {
                "t": t,
                "state": answer.naming.state(cf.path.states[t]),
                "done": answer.naming.any(cf.path.actions[t]),
                "changed": t in changed,
                "others": [_other(asked, answer, row) for row in others[:_OTHERS]],
                "more": max(0, len(others) - _OTHERS),
                "all": view.address(tab="why", t=t, state=-1, action=-1),
            }
        )
    return {"steps": steps, "more": max(0, cf.T - _STEPS)}


def _by_gain(row: Decision) -> float:
    return float("inf") if row.gain is None else -row.gain


def _other(asked: Asked, answer: EpisodeAnswer, row: Decision) -> dict[str, Any]:
    view, k = asked.view, answer.plan.k
    a = answer.cf.mdp.actions.find(row.action)
    found = answer.question.decisions
    if row.gain is None:
        text = "a later action of this episode may then not be available."
    elif row.necessity is not None and found.outcome is not None:
        text = f"{of_hundred(1 - row.necessity)} of 100 replays end {ending(found.outcome)}; {_gain(row.gain)}."
    else:
        text = f"{_gain(row.gain)}."
    allowed = "allowed" if row.needed_k <= k else "not allowed"
    from_k = "no tether allows it" if row.needed_k > answer.cf.T else f"it takes k ≥ {row.needed_k}"
    return {
        "name": answer.naming.action_at(a),
        "text": text,
        "because": f"With k = {k} {allowed}: {from_k}.",
        "what_if": view.address(tab="if", chosen=view.chosen.choosing(row.t, a)),
        "why": view.address(tab="why", t=row.t, state=-1, action=a),
    }


def _gain(gain: float) -> str:
    if gain == 0:
        return "the score stays"
    return f"the score {'gains' if gain > 0 else 'loses'} {three_digits(abs(gain))}"
