"""The contents of each section of the page of an audit, from the three tables of the audit alone."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.markup import shade
from tether._foundation.words import counted, number, percent, three_digits
from tether.auditing.audit_record import AuditRecord
from tether.auditing.audit_sentences import audit_in_parts, taken_as_right
from tether.auditing.tables import NO_OUTCOME, NOT_RECORDED
from tether.evaluation.outcomes import UNDER_WAY
from tether.views import figures
from tether.views.audit.audit_words import (
    VERDICTS,
    audit_question_in_words,
    is_certified,
    name_in_words,
    outcome_in_words,
)
from tether.views.pages import drawing
from tether.views.report.drawings import Drawing, chart
from tether.views.report.report_sections import cannot_know

_PROBLEMS = 10
"""How many episodes without an answer are listed."""

_DECISIONS = 10
"""How many decisions are listed."""

_OUTCOMES = 8
"""How many outcomes the matrix has down and across; the rest is one more."""

_REST = "(others)"

_ENDS = ("observed", "counterfactual")

_ENDED = {NO_OUTCOME: UNDER_WAY, NOT_RECORDED: "not recorded"}

_NOTES = {
    NO_OUTCOME: "the last state has no label and is not absorbing.",
    NOT_RECORDED: "the outcome of the last step is not in the log.",
    _REST: "all other outcomes together; outcomes.parquet, or audit.outcomes, has each of them.",
}


def sections(audit: AuditRecord, hide_ids: bool = False) -> dict[str, Any]:
    """The sections by the names that the template has for them."""
    return {
        "question": audit_question_in_words(audit.question),
        "is_policy": audit.question["policy"] is not None,
        "said": audit_in_parts(audit),
        "shows_nothing": audit.placebo is not None and audit.placebo.shows_nothing,
        "cards": _cards(audit),
        "bars": _bars(audit),
        "cannot_know": cannot_know(audit.mdp),
        "problems": _problems(audit, hide_ids),
        "matrix": _matrix(audit),
        "gains": _gains(audit.summary.gains),
        "helped": _helped(audit),
        "decisions": _decisions(audit),
        "pairs": _pairs(audit),
        "changes": _changes(audit),
        "verdicts": _verdicts(audit),
        "hidden": _hidden(audit),
    }


class Card(NamedTuple):
    """One of the main numbers: its name, its value, a note, and which episodes it shows in the table."""

    name: str
    value: str
    beside: str
    show: str = ""


def _cards(audit: AuditRecord) -> list[Card]:
    """The main numbers."""
    summary = audit.summary
    answered, gained = summary.answered, summary.gained
    some, wrong = gained.size, summary.episodes - answered
    if not answered:
        return [Card("Episodes", f"{summary.episodes:,}", "none answered")]
    cards = [Card("Without an answer", f"{wrong:,}", "see below")] if wrong else []
    bad, harm = summary.mistaken, summary.verdicts.get("could do harm", 0)
    cost = f"cost {three_digits(float(bad.mean()))} each, on average" if bad.size else "in no episode"
    cards.append(Card("Foreseeable mistakes", f"{bad.size:,}", cost, "mistake"))
    if audit.question["policy"] is not None:
        worse = summary.lost.size
        cards.append(Card("Something to gain", f"{some:,}", f"{percent(some / answered)} of them", "gain"))
        cards.append(Card("Something to lose", f"{worse:,}", f"{percent(worse / answered)} of them", "loss"))
    else:
        only = summary.hindsight_only
        of_what = "no mistake that the log shows" if summary.unsure else "a gain that nobody could know of"
        cards.append(Card("Hindsight only", f"{only:,}", of_what, "hindsight"))
        neither = "no mistake that the log shows" if summary.unsure else "and no mistake"
        cards.append(Card("Nothing to gain", f"{answered - bad.size - only:,}", neither))
    if summary.worse_ends:
        cards.append(Card("Return against outcome", f"{summary.worse_ends:,}", "more return, a worse end", "worse-end"))
    if is_certified(audit.question) and some:
        cards.append(Card("Could do harm", f"{harm:,}", "under another causal model", "harm"))
    return cards


def _bars(audit: AuditRecord) -> dict[str, Any] | None:
    """How episodes ended, and would have ended, as two bars; None for a log without outcomes.

    Episodes that are told apart because they are still under way are in neither: nobody knows how they ended.
    """
    ends = {who: Counter[str]() for who in _ENDS}
    apart = audit.summary.unfinished > 0
    for one in audit.outcomes.to_pylist():
        if apart and one["observed"] == NO_OUTCOME:
            continue
        for who in _ENDS:
            ends[who][_ENDED.get(one[who], outcome_in_words(audit.mdp, one[who]))] += one["episodes"]
    before, after = (ends[who] for who in _ENDS)
    total = sum(before.values())
    if not total or {*before, *after} <= {*_ENDED.values()}:
        return None
    sides = {name: audit.mdp.labels.side(name) for name in {*before, *after}}
    order = sorted(sides, key=lambda name: (("bad", "", "good").index(sides[name]), -before[name], name))
    m, policy = audit.question["m"], audit.question["policy"]
    would = "the policy" if policy else f"{'one change' if m == 1 else f'{m} changes'}, with hindsight"
    rows = [("what happened", before), (would, after)]
    return {
        "title": f"How {counted(round(total), 'episode')} ended, and would have ended"
        + (", without those that are still under way" if apart else ""),
        "rows": [
            (
                who,
                [
                    {"text": f"{count[name]:,.0f} {name}", "share": round(count[name] / total, 4), "side": sides[name]}
                    for name in order
                    if count[name] > 0.5
                ],
            )
            for who, count in rows
        ],
    }


def _problems(audit: AuditRecord, hide_ids: bool) -> dict[str, Any]:
    count = audit.summary.episodes - audit.summary.answered
    if hide_ids:  # a problem may name its episode: the table has them
        return {"count": count, "rows": [], "more": count}
    first = audit.first_problems(_PROBLEMS).to_pylist() if count else []
    rows = [("(no episode)" if one["episode"] is None else one["episode"], one["problem"]) for one in first]
    return {"count": count, "rows": rows, "more": count - len(rows)}


def _matrix(audit: AuditRecord) -> dict[str, Any] | None:
    """Observed × counterfactual outcomes, in episodes and percent; shaded by the share of the row."""
    found = audit.outcomes.to_pylist()
    cells = [(*(outcome_in_words(audit.mdp, one[end]) for end in _ENDS), one["episodes"]) for one in found]
    total = sum(mass for _, _, mass in cells)
    if not total:
        return None
    down, across = _merged([(one, mass) for one, _, mass in cells]), _merged([(one, mass) for _, one, mass in cells])
    rows_of, columns_of = list(dict.fromkeys(down.values())), list(dict.fromkeys(across.values()))
    table = np.zeros((len(rows_of), len(columns_of)))
    for before, after, mass in cells:
        table[rows_of.index(down[before]), columns_of.index(across[after])] += mass
    return {
        "columns": columns_of,
        "rows": [
            {
                "name": name,
                "cells": [_share(mass, total, mass / row.sum() if row.sum() else 0.0) for mass in row],
                "sum": _share(row.sum(), total),
            }
            for name, row in zip(rows_of, table, strict=True)
        ],
        "sums": [_share(mass, total) for mass in table.sum(axis=0)],
        "total": _share(total, total),
        "notes": [f"{name}: {words}" for name, words in _NOTES.items() if name in {*rows_of, *columns_of}],
        "more": "many" if len(columns_of) > 5 else "some" if len(columns_of) > 2 else "",
    }


def _merged(found: list[tuple[str, float]]) -> dict[str, str]:
    """What each outcome is called in the matrix: its own name, or "others" if there are many."""
    mass: dict[str, float] = {}
    for name, some in found:
        mass[name] = mass.get(name, 0.0) + some
    kept = set(sorted(mass, key=lambda name: -mass[name])[:_OUTCOMES]) if len(mass) > _OUTCOMES + 1 else set(mass)
    return {name: name if name in kept else _REST for name in sorted(mass, key=lambda name: name not in kept)}


def _share(mass: float, total: float, of_row: float | None = None) -> dict[str, str]:
    """Episodes, percent of all, and the shade of the cell."""
    episodes = f"{mass:,.0f}" if abs(mass - round(mass)) < 1e-6 else f"{mass:,.1f}" if mass >= 0.05 else "<0.1"
    share = 100 * mass / total
    text = "0 %" if mass < 1e-9 else f"{share:.1f} %" if share >= 0.05 else "<0.1 %"
    return {"episodes": episodes, "percent": text, "style": shade(of_row) if of_row and of_row > 1e-9 else ""}


def _gains(some: Floats) -> dict[str, Any] | None:
    """How gains are distributed; None if there are none."""
    if some.size == 0:
        return None
    ranked = np.sort(some[some > 0])[::-1]
    sentences = []
    if ranked.size:
        middle, most = number(float(np.median(ranked))), number(float(ranked[0]))
        sentences.append(
            f"Where something is gained, half of the episodes gain {middle} or more; the largest gain is {most}."
        )
    if ranked.size >= 10:
        first = -(-ranked.size // 10)
        sentences.append(
            f"The first {first:,} of them have {percent(float(ranked[:first].sum() / ranked.sum()))} of all gains."
        )
    if np.any(some < 0):
        losses = some[some < 0]
        sentences.append(f"In {losses.size:,} something is lost, {number(float(-losses.mean()))} on average.")
    return {"figures": [_spread(some)], "sentences": sentences}


def _spread(gain: Floats) -> Drawing:
    ax = figures.plot_gains(gain, chart(150.0))
    low, middle, high = (number(float(one)) for one in np.quantile(gain, [0.0, 0.5, 1.0]))
    said = f"Histogram of the gains: from {low} to {high}, half of them {middle} or more"
    return Drawing("How much is gained", drawing(figures.inline_svg(ax, "gains", said)))


def _helped(audit: AuditRecord) -> list[dict[str, Any]]:
    """For each observed outcome: how many episodes, and in how many something is gained or lost."""
    rows: list[dict[str, Any]] = []
    summary = audit.summary
    for name, helped in summary.outcomes.items():
        all_of, some, worse = helped.episodes, helped.gained, helped.lost
        same = all_of - some - worse
        if name == NO_OUTCOME and summary.unfinished:
            continue  # they are told apart: a sentence says how many there are
        rows.append(
            {
                "name": outcome_in_words(audit.mdp, name),
                "episodes": all_of,
                "mistaken": helped.mistaken,
                "gained": some,
                "same": same,
                "lost": worse,
                "share": percent(same / all_of),
            }
        )
    rows.sort(key=lambda row: -row["episodes"])
    rest = rows[_OUTCOMES:]
    if len(rest) > 1:
        sums = {key: sum(row[key] for row in rest) for key in ("episodes", "mistaken", "gained", "same", "lost")}
        rows = [*rows[:_OUTCOMES], {"name": _REST, **sums, "share": percent(sums["same"] / sums["episodes"])}]
    return rows


def _decisions(audit: AuditRecord) -> dict[str, Any]:
    """The decisions whose mistakes cost most, states and actions in words."""
    table, mdp = audit.decisions, audit.mdp
    rows = [
        {
            "state": name_in_words(mdp.states, one["state"]),
            "done": name_in_words(mdp.actions, one["action"]),
            "best": name_in_words(mdp.actions, one["best"]),
            "times": one["times"],
            "mistakes": one["mistakes"],
            "gained": one["gained"],
            "lost": one["lost"],
            "cost": one["mean_cost"],
            "effect": one["effect"],
            "better": None if one["better"] is None else percent(one["better"], short=True),
        }
        for one in table.slice(0, _DECISIONS).to_pylist()
        if one["mistakes"]
    ]
    return {"rows": rows, "count": table.num_rows, "learned": any(row["better"] is not None for row in rows)}


def _pairs(audit: AuditRecord) -> list[dict[str, Any]]:
    """The mistakes by pair of actions, over all states; the costliest pair first."""
    found: dict[tuple[str, str], list[float]] = {}
    for one in audit.decisions.select(["action", "best", "mistakes", "mean_cost"]).to_pylist():
        if one["mistakes"]:
            pair = name_in_words(audit.mdp.actions, one["action"]), name_in_words(audit.mdp.actions, one["best"])
            kept = found.setdefault(pair, [0, 0, 0.0])
            kept[0] += one["mistakes"]
            kept[1] += 1
            kept[2] += one["mistakes"] * one["mean_cost"]
    costliest = sorted(found.items(), key=lambda item: -item[1][2])[:_DECISIONS]
    return [
        {"done": done, "best": best, "mistakes": int(n), "states": counted(int(states), "state"), "cost": cost / n}
        for (done, best), (n, states, cost) in costliest
    ]


def _changes(audit: AuditRecord) -> list[dict[str, Any]]:
    """What hindsight changes first, by pair of actions; those whose gains hold in most episodes first."""
    return [
        {
            "done": name_in_words(audit.mdp.actions, one.observed),
            "instead": name_in_words(audit.mdp.actions, one.advised),
            "episodes": one.episodes,
            "holds": one.verdicts["holds"],
            "harm": one.verdicts["could do harm"],
        }
        for one in audit.summary.changed[:_DECISIONS]
    ]


_STRENGTHS = (1.0, 1.25, 1.5, 2.0, 3.0, np.inf)
"""The limits between which strengths of hidden causes are counted."""


def _hidden(audit: AuditRecord) -> list[dict[str, Any]] | None:
    """How strong hidden causes must be to undo the gain: how many episodes between some limits; None if not asked."""
    found = audit.summary.strengths
    if not is_certified(audit.question) or not found.size:
        return None
    rows = [("not guaranteed even without them", int(np.count_nonzero(found <= 1.0)))]
    for low, high in itertools.pairwise(_STRENGTHS):
        name = f"more than {low:g} times" if np.isinf(high) else f"{low:g} to {high:g} times"
        rows.append((name, int(np.count_nonzero((found > low) & (found <= high) & np.isfinite(found)))))
    rows.append(("nothing can undo it", int(np.count_nonzero(np.isinf(found)))))
    return [
        {"name": name, "episodes": many, "percent": percent(many / found.size), "bar": 100 * many / found.size}
        for name, many in rows
    ]


def _verdicts(audit: AuditRecord) -> list[dict[str, Any]] | None:
    """For the episodes with a gain: under which causal models it holds; None if this was not asked."""
    some, counts = audit.summary.gained.size, audit.summary.verdicts
    if not is_certified(audit.question) or not some:
        return None
    right = taken_as_right(audit)
    words_of = {
        name: f"{words.removesuffix('.')}{right if 'holds' in name else ''}." for name, words in VERDICTS.items()
    }
    rows = [(name, words, counts.get(name, 0)) for name, words in words_of.items()]
    left = some - sum(count for _, _, count in rows)
    if left:
        rows.append(("not computed", "The model is large: tether certify can do it for a single episode.", left))
    return [
        {"name": name, "words": words, "episodes": count, "percent": percent(count / some), "bar": 100 * count / some}
        for name, words, count in rows
    ]
