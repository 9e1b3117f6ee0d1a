"""The table of the top episodes: what happened, what would have happened, and what to change."""

from __future__ import annotations

from typing import Any

from tether._foundation.markup import with_minus_signs
from tether._foundation.words import cut, number, percent
from tether.auditing.result import Audit
from tether.views.audit.words import is_certified, name_in_words, outcome_in_words

__all__ = ["listed_episodes"]

_LISTED = 200
"""How many episodes the page lists. The file of the table has them all."""

_CHANGES, _ENDS = 3, 2
"""How many changes and ends of an episode are shown."""


def listed_episodes(audit: Audit, links: dict[Any, str]) -> dict[str, Any]:
    """The head, the rows, and what to filter them by.

    For a policy, the episodes with the largest losses are listed as well.
    """
    records = [one | {"cost": (one["largest_mistake"] or {}).get("cost")} for one in audit.listed(_LISTED).to_pylist()]
    columns = _columns(audit)
    rows = []
    for one in records:
        cells = [_cell(kind, field, one, audit) for _, kind, field in columns]
        filters = {"outcome": outcome_in_words(audit.mdp, one["outcome"]), "verdict": one["verdict"] or ""}
        rows.append({"link": links.get(one["episode"], ""), "cells": cells, **filters})
    return {
        "head": [{"name": name, "kind": kind} for name, kind, _ in columns],
        "rows": rows,
        "outcomes": list(dict.fromkeys(row["outcome"] for row in rows)),
        "verdicts": list(dict.fromkeys(row["verdict"] for row in rows if row["verdict"])),
        "most": _LISTED,
        "is_policy": audit.question["policy"] is not None,
    }


def _columns(audit: Audit) -> list[tuple[str, str, str]]:
    """Name, kind and field of each column."""
    question = audit.question
    found = [
        ("episode", "id", "episode"),
        ("steps", "whole", "steps"),
        ("ended", "outcome", "outcome"),
        ("mistake", "mistake", "largest_mistake"),
        ("its cost", "number", "cost"),
        ("would have ended", "ends", "ends"),
        ("observed", "number", "observed"),
        ("with the policy" if question["policy"] else "with hindsight", "number", "value"),
        ("gain" if question["policy"] else "what hindsight adds", "number", "gain"),
    ]
    if question["policy"] is None:
        found += [("what hindsight changes", "changes", "changes")]
    if is_certified(question):
        found += [("guaranteed gain", "number", "guaranteed_gain"), ("verdict", "text", "verdict")]
    if question["draws"]:
        found += [("credible interval", "interval", "credible_low")]
    if question["policy"] is None and question["k"] is None:
        found += [("k", "whole", "k")]
    return found


def _cell(kind: str, field: str, row: dict[str, Any], audit: Audit) -> dict[str, Any]:
    """The text of a cell, and the number to sort it by; None to sort by the text."""
    value, key = row[field], None
    if value is None:
        text = ""
    elif kind in ("number", "whole"):
        text, key = with_minus_signs(number(value)), value
    elif kind == "mistake":
        sure = "" if value["probability"] == 1.0 else f", {percent(value['probability'], short=True)} likely"
        text = _instead(value["t"], value["action"], value["best"], audit) + sure
    elif kind == "interval":
        text, key = with_minus_signs(f"{number(value)} to {number(row['credible_high'])}"), value
    elif kind == "ends":
        likely = sorted(value, key=lambda one: -one["probability"])[:_ENDS]
        text = ", ".join(
            f"{cut(outcome_in_words(audit.mdp, one['outcome']), 40)}: {percent(one['probability'], short=True)}"
            for one in likely
        )
    elif kind == "changes":
        changes = [_change(one, audit) for one in value[:_CHANGES]]
        more = f"; and {len(value) - _CHANGES} more" if len(value) > _CHANGES else ""
        text = "; ".join(changes) + more
    elif kind == "outcome":
        text = cut(outcome_in_words(audit.mdp, value), 80)
    else:
        text = cut(str(value), 80)
        key = value if isinstance(value, int) else None
    return {"text": text, "key": key}


def _change(one: dict[str, Any], audit: Audit) -> str:
    often = "" if one["probability"] > 1 - 1e-9 else f" ({percent(one['probability'], short=True)})"
    return _instead(one["t"], one["advised_action"], one["observed_action"], audit) + often


def _instead(t: int, action: Any, other: Any, audit: Audit) -> str:
    first, second = (cut(name_in_words(audit.mdp.actions, one), 60) for one in (action, other))
    return f"t = {t}: {first} instead of {second}"
