"""Why? For a state at a time: its class, from which k on each action is allowed, what the observation does to a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.words import percent, strength_in_words
from tether.errors import QueryError
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.explorer.short_names import Naming
from tether.influence.classes import CLASSES, classify_reachable
from tether.influence.why import Why

_STATES, _LOOKED_AT = 12, 20_000
"""States that are offered; and those that are searched by name."""

_OUTCOMES = 30
"""Outcomes of a row that are drawn."""

MEANINGS = {
    CLASSES[0]: "this state was observed at that time",
    CLASSES[1]: "known ground can be met within k steps, and an allowed plan can get here",
    CLASSES[2]: "known ground can be met within k steps, but no allowed plan gets here",
    CLASSES[3]: "no known ground can be met within k steps from here",
    "unreachable": "with the luck of this episode, no actions lead here at that time",
    "decided": "the property is decided here, one way or the other: no influence is required after that",
}


def why_part(asked: Asked) -> dict[str, Any]:
    """The contents of the part on one state at one time."""
    answer, view = asked.answer, asked.view
    cf, naming = answer.cf, answer.naming
    t = min(view.t, cf.T - 1)
    seen = int(cf.observation.states[t])
    s = seen if view.state < 0 else view.state
    if s >= cf.mdp.n_states:
        raise QueryError(f"the address has state {s}: the model has states 0 to {cf.mdp.n_states - 1}")
    state = cf.mdp.states[s]
    actions = _actions(asked, answer, t, s)
    asked.check()
    which = view.action if any(row["a"] == view.action for row in actions) else int(cf.observation.actions[t])
    if not any(row["a"] == which for row in actions) and actions:
        which = actions[0]["a"]
    kind = _class(answer, t, s)
    return {
        "t": t,
        "T": cf.T,
        "times": [(u, view.address(t=u, state=-1, action=-1)) for u in range(cf.T)] if cf.T <= 40 else [],
        "state": naming.state(state),
        "states": _states(asked, answer, t, s),
        "search": view.search,
        "kind": kind,
        "meaning": MEANINGS[kind],
        "k": answer.plan.k,
        "actions": actions,
        "which": which,
        "row": _row(answer, t, s, which) if actions else None,
    }


def _class(answer: EpisodeAnswer, t: int, s: int) -> str:
    """The class of a state; or that it cannot be reached, or that it decides the objective."""
    world = answer.tied.asked
    ended = world.graph.ended
    if ended is not None and ended.mask[s]:
        return "decided"
    states = world.graph.states(t)
    at = int(np.searchsorted(states, s))
    if at >= states.size or states[at] != s:
        return "unreachable"
    codes = classify_reachable(world, answer.tied.thresholds(answer.plan.k), answer.plan.k)
    return CLASSES[int(codes[t][at])]


def _actions(asked: Asked, answer: EpisodeAnswer, t: int, s: int) -> list[dict[str, Any]]:
    """The actions available there: from which k on each is allowed, and why."""
    cf, view, naming = answer.cf, asked.view, answer.naming
    state, rows = cf.mdp.states[s], []
    for action in cf.mdp.actions_in(state):
        asked.check()
        found = answer.tied.why(t, state, action, k=answer.plan.k)
        a = cf.mdp.actions.find(action)
        rows.append(
            {
                "a": a,
                "name": naming.action_at(a),
                "allowed": found.allowed,
                "needed": found.needed,
                "because": _because(found, naming),
                "sentence": found.in_words(naming.any),
                "strength": strength_in_words(cf.strength(t, state, action)),
                "done": t < cf.T and s == int(cf.observation.states[t]) and a == int(cf.observation.actions[t]),
                "address": view.address(t=t, state=s, action=a),
                "longer": None if found.allowed or found.needed is None else view.address(k=found.needed),
                "try": view.address(tab="if", chosen=view.chosen.choosing(t, a)) if _is_seen(answer, t, s) else None,
            }
        )
    return rows


def _because(why: Why, naming: Naming) -> str:
    """The reason in a few words; the sentence of `why` names the states on the way."""
    if why.reason == "end":
        return "Fewer than k steps are left: known ground is assumed."
    if why.reason == "successor":
        return f"It may lead to {naming.state(why.successor)}, where nothing is allowed for k = {why.k}."
    if why.reason == "run":
        return f"It makes a run off known ground that is {'short enough' if why.allowed else 'too long'}."
    if why.nearest == 1:
        return "It is known ground itself."
    if why.nearest is not None:
        return f"The nearest known ground is {why.nearest} steps away, counting this one."
    because = why.reason_in_words(naming.any)
    return f"{because[0].upper()}{because[1:]}"


def _is_seen(answer: EpisodeAnswer, t: int, s: int) -> bool:
    return s == int(answer.cf.observation.states[t])


def _states(asked: Asked, answer: EpisodeAnswer, t: int, s: int) -> list[dict[str, Any]]:
    """States to choose from: the observed one, the likeliest ones under the plan, and those that a search finds."""
    cf, view, naming = answer.cf, asked.view, answer.naming
    seen = int(cf.observation.states[t])
    visits = answer.explanation.outlook.chain.visits[t].states
    chance = answer.explanation.outlook.occupancy[t]
    likely: dict[int, float] = {}
    for state, share in zip(visits.tolist(), chance.tolist(), strict=True):
        likely[state] = likely.get(state, 0.0) + share
    found: dict[int, str] = {seen: "observed"}
    for state in sorted(likely, key=lambda one: -likely[one])[:_STATES]:
        here = f"the plan is here: {percent(likely[state])}"
        found[state] = f"{found[state]}; {here}" if state in found else here
    if view.search:
        wanted = view.search.casefold()
        for state in cf.graph.states(t)[:_LOOKED_AT].tolist():
            if wanted in str(cf.mdp.states[state]).casefold():
                found.setdefault(state, "found")
            if len(found) >= 3 * _STATES:
                break
    found.setdefault(s, "chosen")
    return [
        {
            "name": naming.state(cf.mdp.states[state]),
            "note": note,
            "is_here": state == s,
            "address": view.address(t=t, state=state, action=-1),
        }
        for state, note in found.items()
    ]


def _row(answer: EpisodeAnswer, t: int, s: int, a: int) -> dict[str, Any]:
    """The nominal and the counterfactual row, outcome by outcome, with the bounds under every causal model."""
    cf, naming = answer.cf, answer.naming
    state, action = cf.mdp.states[s], cf.mdp.actions[a]
    nominal = dict(zip(*cf.nominal_row(t, state, action), strict=True))
    counterfactual = dict(zip(*cf.row(t, state, action), strict=True))
    every, stable = (_bounds(one, t, state, action) for one in answer.question.robust)
    names = sorted(nominal, key=lambda one: -max(nominal[one], counterfactual.get(one, 0.0)))
    rows = []
    for one in names[:_OUTCOMES]:
        low, high = every.get(one, (0.0, 0.0))
        low_stable, high_stable = stable.get(one, (0.0, 0.0))
        rows.append(
            {
                "name": naming.state(one),
                "nominal": 100.0 * float(nominal[one]),
                "counterfactual": 100.0 * float(counterfactual.get(one, 0.0)),
                "low": 100.0 * low,
                "high": 100.0 * high,
                "nominal_text": percent(float(nominal[one])),
                "counterfactual_text": percent(float(counterfactual.get(one, 0.0))),
                "bounds": _span(low, high),
                "stable": _span(low_stable, high_stable),
                "happened": _is_seen(answer, t, s)
                and a == int(cf.observation.actions[t])
                and cf.mdp.states.find(one) == int(cf.observation.states[t + 1]),
            }
        )
    return {
        "action": naming.action_at(a),
        "rows": rows,
        "left_out": max(0, len(names) - _OUTCOMES),
        "strength": strength_in_words(cf.strength(t, state, action)),
    }


def _span(low: float, high: float) -> str:
    return percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"


def _bounds(robust: Any, t: int, state: Any, action: Any) -> dict[Any, tuple[float, float]]:
    names, low, high = robust.bounds(t, state, action)
    return {name: (float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}
