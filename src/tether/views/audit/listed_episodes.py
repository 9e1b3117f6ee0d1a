"""The table of the top episodes: what happened, what would have happened, and what to change."""

from __future__ import annotations

from typing import Any

from tether._foundation.markup import with_minus_signs
from tether._foundation.words import cut, number, percent
from tether.auditing.audit_record import AuditRecord
from tether.auditing.tables import NO_OUTCOME
from tether.evaluation.outcomes import UNDER_WAY
from tether.explanation.verdicts import Nouns
from tether.views.audit.audit_words import is_certified, name_in_words, outcome_in_words

__all__ = ["listed_episodes"]

_LISTED = 200
"""How many episodes the page lists. The file of the table has them all."""

_CHANGES = 3
"""How many changes of an episode are shown."""

_SURE = 0.99
"""From this probability on a mistake is listed without it."""

_OF_PLANS = ("about_episode", "verdict", "least_seen")
"""What says something of a plan only if it changes something."""


def listed_episodes(audit: AuditRecord, links: dict[Any, str], nouns: Nouns, hide_ids: bool = False) -> dict[str, Any]:
    """The head, the rows, and what to filter them by.

    For a policy, the episodes with the largest losses are listed as well. With ``hide_ids`` the number in the list
    stands for the name of an episode.
    """
    records = audit.listed(_LISTED).to_pylist()
    columns = _columns(audit, nouns)
    rows = []
    for rank, one in enumerate(records, start=1):
        link = links.get(one["episode"], "")
        if hide_ids:
            one["episode"] = rank
        cells = [_cell(kind, field, one, audit, nouns) for _, kind, field in columns]
        filters = {"outcome": _ended(audit, one["outcome"]), "show": " ".join(_kinds(one))}
        rows.append({"link": link, "cells": cells, **filters})
    return {
        "head": [{"name": name, "kind": kind} for name, kind, _ in columns],
        "rows": rows,
        "outcomes": list(dict.fromkeys(row["outcome"] for row in rows)),
        "most": _LISTED,
        "is_policy": audit.question["policy"] is not None,
    }


def _columns(audit: AuditRecord, nouns: Nouns) -> list[tuple[str, str, str]]:
    """Name, kind and field of each column."""
    question = audit.question
    found = [
        (nouns.episode, "id", "episode"),
        ("ended", "outcome", "outcome"),
        ("score", "number", "observed"),
        ("largest mistake", "mistake", "largest_mistake"),
        ("cost of mistakes", "number", "claimed"),
        ("gain" if question["policy"] else "what hindsight adds", "number", "gain"),
    ]
    if question["policy"] is None:
        found += [("what hindsight changes", "changes", "changes")]
        if "about_episode" in audit.table.column_names:
            found += [(f"about this {nouns.episode}", "share", "about_episode")]
    if is_certified(question):
        found.append(("holds?", "text", "verdict"))
    if audit.placebo is not None:
        found += [("least seen", "whole", "least_seen")]
    if question["draws"]:
        found += [("credible interval", "interval", "credible_low")]
    return found


def _cell(kind: str, field: str, row: dict[str, Any], audit: AuditRecord, nouns: Nouns) -> dict[str, Any]:
    """The text of a cell, and the number to sort it by; None to sort by the text."""
    value, key = row[field], None
    if value is None or (field in _OF_PLANS and not audit.question["policy"] and not row["changes"]):
        text = ""
    elif kind in ("number", "whole"):
        text, key = with_minus_signs(number(value)), value
    elif kind == "mistake":
        sure = (
            "" if value["probability"] >= _SURE else f" ({percent(value['probability'], short=True)} likely to be one)"
        )
        text = _instead(value["t"], value["action"], value["best"], audit, nouns) + sure
    elif kind == "interval":
        text, key = with_minus_signs(f"{number(value)} to {number(row['credible_high'])}"), value
    elif kind == "changes":
        changes = [_change(one, audit, nouns) for one in value[:_CHANGES]]
        more = f"; and {len(value) - _CHANGES} more" if len(value) > _CHANGES else ""
        text = "; ".join(changes) + more
    elif kind == "outcome":
        text = cut(_ended(audit, value), 80)
    elif kind == "share":
        text, key = percent(value, short=True), value
    else:
        text = cut(str(value), 80)
        key = value if isinstance(value, int) else None
    return {"text": text, "key": key}


def _ended(audit: AuditRecord, outcome: str | None) -> str:
    return UNDER_WAY if outcome == NO_OUTCOME else outcome_in_words(audit.mdp, outcome)


def _kinds(one: dict[str, Any]) -> list[str]:
    """Which cards show an episode: mistake, hindsight, harm; gain and loss of a policy."""
    gain, mistaken = one["gain"] or 0.0, one["largest_mistake"] is not None
    kinds = {"mistake": mistaken, "hindsight": gain > 0 and not mistaken, "harm": one["verdict"] == "could do harm"}
    kinds["worse-end"] = bool(one["worse_end"]) and gain > 0
    return [name for name, holds in {**kinds, "gain": gain > 0, "loss": gain < 0}.items() if holds]


def _change(one: dict[str, Any], audit: AuditRecord, nouns: Nouns) -> str:
    often = "" if one["probability"] > 1 - 1e-9 else f" ({percent(one['probability'], short=True)})"
    if one["observed_action"] is None:  # it had ended, and nothing was done
        advised = cut(name_in_words(audit.mdp.actions, one["advised_action"]), 60)
        return f"{nouns.step} {one['t']}, if it goes on: {advised}{often}"
    return _instead(one["t"], one["advised_action"], one["observed_action"], audit, nouns) + often


def _instead(t: int, action: Any, other: Any, audit: AuditRecord, nouns: Nouns) -> str:
    first, second = (cut(name_in_words(audit.mdp.actions, one), 60) for one in (action, other))
    return f"{nouns.step} {t}: {first} instead of {second}"
