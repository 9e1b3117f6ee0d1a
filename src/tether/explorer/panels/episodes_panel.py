"""The list of episodes, ranked, with search and filter."""

from __future__ import annotations

from typing import Any

from tether._foundation.words import number
from tether.evaluation.outcomes import UNDER_WAY
from tether.explorer.offered import Listed
from tether.explorer.panels import Asked
from tether.explorer.view import View

_PAGE = 25
"""Episodes per page."""

_ORDERS = {"": "smallest return first", "most": "largest return first", "long": "longest first", "name": "by name"}
_AUDITED = {"": "costliest mistakes first", "least": "smallest return first", **dict(list(_ORDERS.items())[1:])}


def episodes_part(asked: Asked) -> dict[str, Any]:
    """One page of the list."""
    view, offered = asked.view, asked.memory.offered
    listed = offered.listed()
    outcomes = sorted({one.outcome for one in listed if one.outcome})
    found = _ordered([one for one in listed if _fits(one, view)], view.order)
    last = max(0, (len(found) - 1) // _PAGE)
    page = min(view.page, last)
    rows = found[page * _PAGE : (page + 1) * _PAGE]
    here = view.episode or offered.first
    return {
        "rows": [
            {
                "name": one.name,
                "steps": "" if one.steps is None else one.steps,
                "outcome": one.outcome or (UNDER_WAY if outcomes and one.steps is not None else ""),
                "value": "" if one.value is None else number(one.value),
                "about": one.about,
                "is_here": one.key == here,
                "address": _opened(view, one.key),
            }
            for one in rows
        ],
        "total": len(listed),
        "found": len(found),
        "page": page,
        "last": last,
        "before": view.address(page=page - 1) if page else None,
        "after": view.address(page=page + 1) if page < last else None,
        "search": view.search,
        "outcomes": outcomes if len(outcomes) > 1 else [],
        "outcome": view.outcome,
        "orders": _ORDERS if getattr(offered, "audited", None) is None else _AUDITED,
        "order": view.order,
        "with_about": any(one.about for one in rows),
        "about": "Audit" if getattr(offered, "audited", None) is not None else "About",
    }


def _opened(view: View, key: str) -> str:
    """Another episode, with the same limits, but without the choices made for this one."""
    plain = View(rule=view.rule, influence=view.influence, m=view.m, objective=view.objective)
    return plain.address(episode=key)


def _fits(listed: Listed, view: View) -> bool:
    wanted = view.search.casefold()
    text = f"{listed.name} {listed.outcome} {listed.about}".casefold()
    return wanted in text and (not view.outcome or listed.outcome == view.outcome)


def _ordered(found: list[Listed], order: str) -> list[Listed]:
    if order == "least":
        return sorted(found, key=lambda one: one.value if one.value is not None else float("inf"))
    if order == "most":
        return sorted(found, key=lambda one: -one.value if one.value is not None else float("inf"))
    if order == "long":
        return sorted(found, key=lambda one: -(one.steps or 0))
    return sorted(found, key=lambda one: one.name) if order == "name" else found
