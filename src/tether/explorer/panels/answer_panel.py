"""The answer: in sentences, step by step, for every k, and under other causal models."""

from __future__ import annotations

from typing import Any

from tether._foundation.words import number, percent
from tether.evaluation.guarantees import guarantees_by_k
from tether.explanation import sentences as say
from tether.explanation.evidence import learned_sentences
from tether.explanation.replay import of_hundred
from tether.explanation.terms import beyond_the_limits, question_in_words
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.views.report.drawings import draw_certificate, draw_guarantees, draw_replay
from tether.views.report.report_steps import step_table

_AS_SENTENCE = 2
"""Up to this many changes are one sentence; more are a list."""

_LISTED = 15
"""How many changes are listed."""

_RUNGS = 16
"""How many k are compared."""

_DESK = 760.0
"""Width of the picture, in points."""

_AT_ONCE = 3e5
"""The amount of work (states over time, times k) up to which every k is compared at once; otherwise later."""


def first_cards(asked: Asked) -> dict[str, Any]:
    """The three verdicts."""
    answer = asked.answer
    return {"verdicts": list(answer.explanation.verdicts(answer.naming.any, asked.nouns))}


def first(asked: Asked) -> dict[str, Any]:
    """The picture of the replay."""
    explanation, name = asked.answer.explanation, asked.answer.naming.any
    picture = draw_replay(explanation.replay(name), "first", nouns=asked.nouns, desk=_DESK)
    asked.check()
    return {"picture": picture}


def sentences(asked: Asked) -> dict[str, Any]:
    """The answer in its parts; how sure it is, is a part of its own, because it takes longer."""
    answer = asked.answer
    explanation, name = answer.explanation, answer.naming.any
    many = len(explanation.changes) > _AS_SENTENCE
    change = f"Change {say.how_many(explanation)}:" if many else say.what_to_change(explanation, name)
    return {
        "change": change,
        "warning": say.disagreeing(explanation),
        "changes": say.changes(explanation, name, _LISTED) if many else [],
        "hindsight": say.in_hindsight(explanation, name),
        "follows": say.what_follows(explanation),
        "episode": say.about_this_episode(explanation),
    }


def beyond_part(asked: Asked) -> dict[str, Any]:
    """What other limits would give; and the question in full."""
    answer = asked.answer
    return {
        "beyond": beyond_the_limits(answer.explanation, answer.table),
        "question": question_in_words(answer.plan, answer.plan.value),
    }


def ladder(asked: Asked) -> dict[str, Any]:
    """What k does in this episode."""
    answer = asked.answer
    ks = _compared(answer)
    at_once = len(ks) * answer.cf.graph.n_nodes <= _AT_ONCE
    return {
        "T": answer.cf.T,
        "any": len(ks) > 1,
        **(rungs(asked) if at_once else {"rungs": None}),
    }


def _compared(answer: EpisodeAnswer) -> list[int]:
    """Every k at which something changes, and no tether at all."""
    found, T = answer.changing, answer.cf.T
    return [*found[:_RUNGS], *([] if T + 1 in found[:_RUNGS] else [T + 1])]


def rungs(asked: Asked) -> dict[str, Any]:
    """The best plan for each k at which something changes: its gain, and how much of it is about this episode."""
    answer, view, T = asked.answer, asked.view, asked.answer.cf.T
    found = [answer.question.rung(k, answer.m, asked.check) for k in _compared(answer)]
    most = max(one.gain for one in found)
    rounding = answer.by_k.rounding
    happened = answer.explanation.replay(answer.naming.any).outcome
    return {
        "T": T,
        "outcome": happened,
        "rungs": [
            {
                "k": one.k,
                "address": view.address(k=one.k),
                "gain": number(one.gain) if one.gain > rounding else "0",
                "gain_share": 100.0 * max(0.0, one.gain) / most if most > rounding else 0.0,
                "ends": of_hundred(one.ends.get(happened or "", 0.0)),
                "share": 100.0 * one.strength,
                "strength": percent(one.strength),
            }
            for one in found
        ],
    }


def sure(asked: Asked) -> dict[str, Any]:
    """What holds under every causal model of this episode."""
    explanation, name = asked.answer.explanation, asked.answer.naming.any
    found = explanation.certificate
    learned = learned_sentences(explanation, name)
    if found is None:
        return {"left_out": explanation.uncertified, "learned": learned}
    asked.check()
    by_k = None if found.is_certain else guarantees_by_k(explanation.plan)
    asked.check()
    return {
        "left_out": "",
        "learned": learned,
        "sentence": found.sentence,
        "certain": found.is_certain,
        "drawn": None if found.is_certain else draw_certificate(found, asked.nouns),
        "rows": found.ranges,
        "by_k": None if by_k is None else draw_guarantees(by_k, explanation.plan.k, asked.nouns),
    }


def steps(asked: Asked) -> dict[str, Any]:
    """The step-by-step table of the report."""
    answer = asked.answer
    return {"steps": step_table(answer.explanation, answer.naming.action, asked.nouns)}
