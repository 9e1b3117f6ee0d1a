"""The contents of each section of the page of an audit, from the three tables of the audit alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.markup import shade
from tether._foundation.words import number, percent, three_digits
from tether.auditing.result import Audit
from tether.auditing.tables import NO_OUTCOME, NOT_RECORDED
from tether.views import figures
from tether.views.audit.words import VERDICTS, audit_question_in_words, is_certified, name_in_words, outcome_in_words
from tether.views.pages import drawing
from tether.views.report.drawings import Drawing, chart

__all__ = ["sections"]

_PROBLEMS = 10
"""How many episodes without an answer are listed."""

_DECISIONS = 20
"""How many decisions are listed."""

_OUTCOMES = 8
"""How many outcomes the matrix has down and across; the rest is one more."""

_REST = "(others)"

_ENDS = ("observed", "counterfactual")

_NOTES = {
    NO_OUTCOME: "the last state has no label and is not absorbing.",
    NOT_RECORDED: "the outcome of the last step is not in the log.",
    _REST: "all other outcomes together; outcomes.parquet, or audit.outcomes, has each of them.",
}


def sections(audit: Audit) -> dict[str, Any]:
    """The sections by the names that the template has for them."""
    return {
        "question": audit_question_in_words(audit.question),
        "is_policy": audit.question["policy"] is not None,
        "sentences": audit.sentences(),
        "cards": _cards(audit),
        "problems": _problems(audit),
        "matrix": _matrix(audit),
        "gains": _gains(audit.summary.gains),
        "helped": _helped(audit),
        "decisions": _decisions(audit),
        "verdicts": _verdicts(audit),
    }


def _cards(audit: Audit) -> list[tuple[str, str, str]]:
    """The main numbers: name, value, and a note."""
    summary = audit.summary
    answered, gained = summary.answered, summary.gained
    some, wrong = gained.size, summary.episodes - answered
    cards = [("Episodes", f"{answered:,}", f"{wrong:,} without an answer" if wrong else "all answered")]
    if not answered:
        return cards
    bad, harm = summary.mistaken, summary.verdicts.get("could do harm", 0)
    cost = f"cost {three_digits(float(bad.mean()))} each" if bad.size else "in no episode"
    cards.append(("Foreseeable mistakes", f"{bad.size:,}", cost))
    if audit.question["policy"] is not None:
        worse = summary.lost.size
        cards.append(("Something to gain", f"{some:,}", f"{percent(some / answered)} of them"))
        cards.append(("Something to lose", f"{worse:,}", f"{percent(worse / answered)} of them"))
    else:
        only = summary.hindsight_only
        cards.append(("Hindsight only", f"{only:,}", "a gain that nobody could know of"))
        cards.append(("Nothing to gain", f"{answered - some:,}", f"{percent((answered - some) / answered)} of them"))
    if is_certified(audit.question) and some:
        cards.append(("Could do harm", f"{harm:,}", "under another causal model"))
    return cards


def _problems(audit: Audit) -> dict[str, Any]:
    count = audit.summary.episodes - audit.summary.answered
    first = audit.first_problems(_PROBLEMS).to_pylist() if count else []
    rows = [("(no episode)" if one["episode"] is None else one["episode"], one["problem"]) for one in first]
    return {"count": count, "rows": rows, "more": count - len(rows)}


def _matrix(audit: Audit) -> dict[str, Any] | None:
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
    return {"figures": [_spread(some), _ranked(some)], "sentences": sentences}


def _spread(gain: Floats) -> Drawing:
    ax = figures.plot_gains(gain, chart(190.0))
    return Drawing("How much is gained", drawing(figures.inline_svg(ax, "gains", "Histogram of the gains")))


def _ranked(gain: Floats) -> Drawing:
    ax = figures.plot_ranked_gains(gain, chart(190.0))
    return Drawing("The gains, ranked", drawing(figures.inline_svg(ax, "ranked", "Gains from the largest on")))


def _helped(audit: Audit) -> list[dict[str, Any]]:
    """For each observed outcome: how many episodes, and in how many something is gained or lost."""
    rows: list[dict[str, Any]] = []
    for name, helped in audit.summary.outcomes.items():
        all_of, some, worse = helped.episodes, helped.gained, helped.lost
        same = all_of - some - worse
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


def _decisions(audit: Audit) -> dict[str, Any]:
    """The decisions whose mistakes cost most, states and actions in words."""
    table, mdp = audit.decisions, audit.mdp
    rows = [
        {
            "state": name_in_words(mdp.states, one["state"]),
            "done": name_in_words(mdp.actions, one["action"]),
            "best": name_in_words(mdp.actions, one["best"]),
            "times": one["times"],
            "mistakes": one["mistakes"],
            "cost": one["mean_cost"],
            "effect": one["effect"],
            "better": None if one["better"] is None else percent(one["better"], short=True),
        }
        for one in table.slice(0, _DECISIONS).to_pylist()
        if one["mistakes"]
    ]
    return {"rows": rows, "count": table.num_rows, "learned": any(row["better"] is not None for row in rows)}


def _verdicts(audit: Audit) -> list[dict[str, Any]] | None:
    """For the episodes with a gain: under which causal models it holds; None if this was not asked."""
    some, counts = audit.summary.gained.size, audit.summary.verdicts
    if not is_certified(audit.question) or not some:
        return None
    rows = [(name, words, counts.get(name, 0)) for name, words in VERDICTS.items()]
    left = some - sum(count for _, _, count in rows)
    if left:
        rows.append(("not computed", "The model is large: tether certify can do it for a single episode.", left))
    return [
        {"name": name, "words": words, "episodes": count, "percent": percent(count / some), "bar": 100 * count / some}
        for name, words, count in rows
    ]
