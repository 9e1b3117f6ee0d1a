"""Decisions: which mattered, as time × action; a click sets the what-if."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.markup import shade, with_minus_signs
from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import number, percent
from tether.explanation.decisions import Decision
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.explorer.view import Choices

_STEPS, _ACTIONS = 60, 60
"""Steps and actions that are shown."""

_PALE = 0.25
"""How strong the colour of an action is that the tether does not allow, relative to an allowed one."""


def decisions_part(asked: Asked) -> dict[str, Any]:
    """The grid, and the sentences about it."""
    answer = asked.answer
    cf = answer.cf
    found = answer.question.decisions
    asked.check()
    rows = found.rows
    actions = sorted({cf.mdp.actions.find(row.action) for row in rows})
    largest = max((abs(row.gain) for row in rows if row.gain is not None), default=0.0)
    by_place = {(row.t, cf.mdp.actions.find(row.action)): row for row in rows}
    times = range(min(cf.T, _STEPS))
    grid = [
        {
            "name": answer.naming.action_at(a),
            "cells": [_cell(asked, answer, by_place.get((t, a)), t, a, largest) for t in times],
        }
        for a in actions[:_ACTIONS]
    ]
    return {
        "sentences": found.sentences(answer.naming.any),
        "times": list(times),
        "grid": grid,
        "left_out": max(0, cf.T - _STEPS) or max(0, len(actions) - _ACTIONS),
        "outcome": found.outcome,
        "wanted": "" if found.objective is None else found.objective.in_words,
        "k": answer.plan.k,
    }


def _cell(
    asked: Asked, answer: EpisodeAnswer, row: Decision | None, t: int, a: int, largest: float
) -> dict[str, Any] | None:
    if row is None:
        return None
    facts = [f"step {t}, {answer.naming.action_at(a)}"]
    value = "return" if answer.tied.objective is None else "probability"
    if row.is_observed:
        facts.append("this is what was done")
    elif row.value is None:
        facts.append("no value: a later observed action is not available")
    else:
        facts.append(f"{value} {number(row.value)}, if only this had been different")
        if row.necessity is not None:
            facts.append(f"the outcome would not have happened with {percent(row.necessity)}")
    facts.append(f"allowed from k = {row.needed_k} on" if row.needed_k <= answer.cf.T else "no tether allows it")
    share = 0.0 if row.gain is None or largest <= 0 else row.gain / largest
    off = row.needed_k > answer.plan.k
    return {
        "text": "done" if row.is_observed else "?" if row.gain is None else _short(row.gain, largest),
        "style": _colours(_PALE * share if off else share),
        "done": row.is_observed,
        "off": off,
        "title": "; ".join(facts),
        "address": asked.view.address(tab="if", chosen=Choices(((t, a),)) if not row.is_observed else Choices()),
    }


def _short(gain: float, largest: float) -> str:
    if abs(gain) <= rounding_of(largest):
        return "0"
    digits = int(np.clip(2 - np.floor(np.log10(largest)), 0, 4)) if largest > 0 else 0
    text = f"{gain:+,.{digits}f}"
    return with_minus_signs(text) if text.strip("+-0.,") else "≈ 0"


def _colours(share: float) -> str:
    """Blue for a gain, orange for a loss, none for neither; the sign says the same."""
    if share > ROUNDING:
        return shade(share)
    if share < -ROUNDING:
        red, green, blue = (round(255 + (end - 255) * min(1.0, 0.15 - share)) for end in (213, 130, 50))
        return f"background:rgb({red},{green},{blue});color:#1a1a1a;"
    return ""
