"""The question: which episode, k and m with the values at which something changes, and the k × m table to click."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.words import average, cut, number, percent, shown
from tether.evaluation.tailoring import about_plan
from tether.explanation.about_episode import left_to_chance
from tether.explanation.replay import of_hundred
from tether.explanation.reviewing import outcome_noun
from tether.explanation.terms import tether_in_words
from tether.explanation.verdicts import BEST_CHANGE
from tether.explorer.answer_cache import EpisodeAnswer, property_labels
from tether.explorer.panels import Asked
from tether.explorer.view import View
from tether.plan.sweep import Sweep
from tether.views.pages import drawing
from tether.views.report.report_limits import table_of

_K, _M = "987654301", "987654302"
"""Placeholders for k and m in an address: no episode is this long."""

_LABELS = 40
"""Labels that fit into a menu."""

_CASES = 30
"""Episodes that fit into a menu; more are chosen from the list."""

RULES = {
    "definition": "definition: influence stays possible",
    "assured": "assured: influence is certain to come back",
    "published": "published: as in the paper's released code",
    "printed": "printed: as Algorithm 1 is printed",
}

TESTS = {
    "support": "support: the step shares a possible outcome with the observed one",
    "tv": "tv: its outcomes are distributed almost alike",
    "effective": "effective: the observation moves its probabilities",
}


def headline_part(asked: Asked) -> dict[str, Any]:
    """The answer in one sentence."""
    answer = asked.answer
    found = answer.explanation.verdicts(answer.naming.any, asked.nouns)
    change = found.change.removeprefix(BEST_CHANGE)
    return {"headline": found.hindsight, "change": f"{change[:1].upper()}{change[1:]}", "foreseen": found.foreseen}


def controls(asked: Asked) -> dict[str, Any]:
    """The sliders and menus of an episode."""
    answer, view = asked.answer, asked.view
    listed = asked.memory.offered.listed()
    few = listed if len(listed) <= _CASES else []
    only_support = answer.tied.rule in ("published", "printed")
    name, _, eps = view.influence.partition(":")
    return {
        "title": _title(answer),
        "name": answer.entry.name,
        "key": answer.entry.key,
        "episodes": [(one.key, one.name) for one in few],
        "T": answer.cf.T,
        "k": answer.k,
        "m": answer.m,
        "rules": RULES,
        "rule": answer.tied.rule,
        "tests": {"support": TESTS["support"]} if only_support else TESTS,
        "test": name,
        "eps": eps or "0",
        "objectives": _objectives(answer, view.objective),
    }


def _title(answer: EpisodeAnswer) -> str:
    """Who it is about, and what happened, in one line."""
    entry = answer.entry
    whose = entry.title or f"{entry.nouns.episode.capitalize()} {cut(entry.name, 60)}"
    story = entry.story or f"{entry.nouns(answer.explanation.verdicts(answer.naming.any).ended)}."
    return f"{whose}: {story[:1].lower()}{story[1:]}"


def _objectives(answer: EpisodeAnswer, chosen: str) -> list[tuple[str, str, bool]]:
    """What can be asked for: the return, or that a label is met or avoided."""
    mdp = answer.cf.mdp
    start = int(answer.cf.observation.states[0])
    found = [("", "the return", not chosen)]
    for i, label in enumerate(property_labels(mdp)[:_LABELS]):
        if start not in mdp.label_sets[label]:  # otherwise it is decided before the first action
            for kind in ("avoid", "reach"):
                found.append((f"{kind}:{i}", f"{kind} {cut(shown(label), 40)}", chosen == f"{kind}:{i}"))
    return found


def limits(asked: Asked) -> dict[str, Any]:
    """What k and m mean now, and what they give; for a large model the table comes later."""
    answer, view = asked.answer, asked.view
    plan, suggested = answer.plan, answer.suggested
    return {
        "plan": plan,
        "tether": _in_words(answer),
        "ticks_k": _ticks(answer.changing, 1, plan.T + 1, "k", view),
        "suggested": suggested,
        "suggested_address": None if suggested is None else view.address(k=suggested),
        "meters": _meters(answer),
        "later": not answer.is_quick,
        **_others(answer, view, answer.table if answer.is_quick else answer.by_k),
    }


def table(asked: Asked) -> dict[str, Any]:
    """The table of a large model."""
    return _others(asked.answer, asked.view, asked.answer.table)


def _others(answer: EpisodeAnswer, view: View, table: Sweep) -> dict[str, Any]:
    """What other k and m would give, as a table whose cells are links to them."""
    plan = answer.plan
    anywhere = view.address(k=int(_K), m=int(_M))  # one address for all cells: there may be hundreds
    shown = table_of(table, plan, answer.suggested, lambda k, m: anywhere.replace(_K, str(k)).replace(_M, str(m)))
    return {
        "table": drawing(shown.html()),
        "complete": table.is_complete,
        "what": "Expected return" if plan.objective is None else f"Probability that {plan.objective.in_words}",
    }


def _in_words(answer: EpisodeAnswer) -> str:
    text = tether_in_words(answer.tied.rule, answer.plan.k, answer.plan.T)
    return f"{text[0].upper()}{text[1:]}."


def _meters(answer: EpisodeAnswer) -> list[dict[str, Any]]:
    """The gain, and how much is still about this episode: as k grows, the first grows and the second shrinks."""
    plan, table = answer.plan, answer.table if answer.is_quick else answer.by_k
    limits = "any k and m" if answer.is_quick else "any k with this m"
    replay, noun = answer.explanation.replay(answer.naming.any), answer.entry.nouns.episode
    near = {"name": f"About this {noun}", "kind": "near", **_near(answer)}
    ended = next((one for one in replay.endings if one.name == replay.outcome), None)
    if plan.objective is None and ended is not None and ended.side == "bad":
        left = of_hundred(ended.end)
        word = outcome_noun(ended.name) or ended.name
        counts = {"value": f"{left} of 100", "beside": f"what happened: {word}, 100 of 100"}
        return [
            {"name": f"Replays that end in {word}", "share": ended.end, "kind": "bad", **counts},
            near,
        ]
    most = float(np.max(table.gains[np.isfinite(table.gains)]))
    some = most > table.rounding
    share = max(0.0, plan.gain) / most if some else 0.0
    return [
        {
            "name": "Gain",
            "share": share,
            "value": ("+" if plan.gain > 0 else "") + number(plan.gain) if share else "nothing",
            "beside": f"of {number(most)}, the most that {limits} can give" if some else f"{limits}: nothing",
            "kind": "gain",
        },
        near,
    ]


def _near(answer: EpisodeAnswer) -> dict[str, Any]:
    """First the strength; then how many steps are known ground, as they may be with a strength near 0."""
    plan, tailoring = answer.plan, answer.outlook.tailoring
    assert tailoring is not None
    if not left_to_chance(plan.asked, plan.chain):
        return {"share": 0.0, "value": "no luck to keep", "beside": "no step is random"}
    about = about_plan(plan)
    influenced, steps = average(tailoring.expected_influenced_steps), average(tailoring.expected_steps)
    until = "" if plan.objective is None else " until it is decided"
    return {
        "share": about,
        "value": percent(about),
        "beside": f"{influenced} of {steps} steps{until} are on known ground, which k counts",
    }


def _ticks(values: list[int], low: int, high: int, name: str, view: View) -> list[dict[str, Any]]:
    """Marks of a slider, from left to right, each with the address of its value."""
    width = max(1, high - low)
    crowded = len(values) > 14
    return [
        {
            "at": 100.0 * (value - low) / width,
            "text": "" if crowded and i % (len(values) // 7) else str(value),
            "address": view.address(**{name: value}),
        }
        for i, value in enumerate(values)
    ]
