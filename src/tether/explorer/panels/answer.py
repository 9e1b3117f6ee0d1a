"""The answer: in sentences, step by step, for every k, and under other causal models."""

from __future__ import annotations

from typing import Any

from tether._foundation.words import average, number
from tether.evaluation.guarantees import guarantees_by_k
from tether.explanation import sentences as say
from tether.explanation.evidence import learned_sentences
from tether.explanation.terms import beyond_the_limits, question_in_words, suggestion
from tether.explorer.panels import Asked
from tether.views.report.drawings import draw_certificate, draw_guarantees, draw_values
from tether.views.report.steps import step_table

__all__ = ["chart", "ladder", "sentences", "steps", "sure"]

_AS_SENTENCE = 2
"""Up to so many changes are one sentence; more are a list."""

_LISTED = 15
"""How many changes are listed."""

_RUNGS, _WORK = 16, 3e6
"""How many k are compared; and up to how many states over time, times k."""


def sentences(asked: Asked) -> dict[str, Any]:
    """The answer in its parts; how sure it is comes by itself, because it takes longer."""
    answer = asked.answer
    plan, explanation, name = answer.plan, answer.explanation, answer.naming.any
    told = explanation.answer(name)
    many = len(explanation.changes) > _AS_SENTENCE
    return {
        "change": f"Change {say.how_many(explanation)}:" if many else told.change[0],
        "changes": say.changes(explanation, name, _LISTED) if many else [],
        "follows": told.follows,
        "episode": told.episode,
        "beyond": beyond_the_limits(explanation, answer.table, answer.complete),
        "question": question_in_words(plan, answer.table.value(plan.k, plan.m)),
    }


def ladder(asked: Asked) -> dict[str, Any]:
    """The best plan for each k at which something changes: what it gains, and what of it is about this episode."""
    answer, view = asked.answer, asked.view
    cf, table = answer.cf, answer.table
    ks = [int(k) for k in table.distinct if k <= cf.T + 1][:_RUNGS]
    if cf.T + 1 not in ks:
        ks.append(cf.T + 1)
    states = sum(int(cf.graph.states(t).size) for t in range(cf.T + 1))
    if states * len(ks) > _WORK:
        return {"rungs": [], "T": cf.T}
    rungs = []
    for k in ks:
        asked.check()
        plan = answer.tied.plan(k, answer.m)
        tailoring = plan.evaluate().tailoring
        assert tailoring is not None
        rungs.append((k, plan.gain, tailoring.expected_influenced_steps, float(tailoring.strength.mean())))
    most = max((gain for _, gain, _, _ in rungs), default=0.0)
    return {
        "T": cf.T,
        "m": answer.m,
        "rungs": [
            {
                "k": k,
                "address": view.address(k=k),
                "gain": number(gain) if gain > 1e-9 * max(1.0, abs(table.observed_value)) else "0",
                "gain_share": 100.0 * max(0.0, gain) / most if most > 0 else 0.0,
                "influenced": average(influenced),
                "share": 100.0 * influenced / cf.T,
                "strength": f"{strength:.2f}",
            }
            for k, gain, influenced, strength in rungs
        ],
    }


def chart(asked: Asked) -> dict[str, Any]:
    """Value against k, with the suggested k."""
    answer = asked.answer
    suggested, sentence = suggestion(answer.plan, answer.table)
    asked.check()
    return {"drawn": draw_values(answer.table, answer.plan, suggested), "suggestion": sentence}


def sure(asked: Asked) -> dict[str, Any]:
    """What holds whatever the causal model is."""
    explanation, name = asked.answer.certified, asked.answer.naming.any
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
        "drawn": None if found.is_certain else draw_certificate(found),
        "rows": [("every causal model", found.nothing), ("every stable one", found.stability)],
        "by_k": None if by_k is None else draw_guarantees(by_k, explanation.plan.k),
    }


def steps(asked: Asked) -> dict[str, Any]:
    """The step-by-step table of the report."""
    answer = asked.answer
    return {"steps": step_table(answer.explanation, answer.naming.action)}
