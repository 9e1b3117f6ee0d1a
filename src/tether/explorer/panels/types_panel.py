"""The page about somebody whose type was never recorded: the best plan without seeing the type, for any limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tether._foundation.words import number, percent, shown
from tether.explorer.answer_cache import property_labels, property_of
from tether.explorer.offered import OfTypes
from tether.explorer.view import View
from tether.plan.typed_plan import TypedPlanRecord, typed_sweep
from tether.views.history_page import typed_contents

_SWEPT = 16
"""Up to this many steps the values of every k and m are shown."""

_LISTED = 20
"""How many k and m are offered otherwise."""


def types_page(offered: OfTypes, view: View, token: str, check: Callable[[], None]) -> dict[str, Any]:
    """The contents of the page."""
    cf = offered.cf
    mdp = cf.types.bare(cf.possible[0])
    objective = property_of(mdp, view)
    about: dict[str, Any] = {"rule": view.rule, "influence": view.test, "objective": objective, "minimise": False}

    def link(**changes: Any) -> str:
        return f"{view.address(**changes)}&token={token}"

    plan = TypedPlanRecord.of(cf, view.k, view.m, view.rule, view.test, objective, False, 0.0)
    check()
    k, T = plan.k, cf.T
    shown_as = number if objective is None else percent
    if T <= _SWEPT:
        swept = typed_sweep(cf, None, None, {**about, "above": 0.0})
        rows = [
            {"k": one, "cells": [
                {"text": shown_as(float(value)), "link": link(k=one, m=m), "here": (one, m) == (k, plan.m)}
                for m, value in zip(swept.ms, row, strict=True)
            ]}
            for one, row in zip(swept.ks, swept.values, strict=True)
        ]  # fmt: skip
        table: dict[str, Any] = {"ms": list(swept.ms), "rows": rows}
    else:
        table = {"ms": [], "rows": []}
    check()
    labels = [("the return", link(objective=""), not view.objective)]
    labels += [
        (f"{word} {shown(label)}", link(objective=f"{word}:{i}"), view.objective == f"{word}:{i}")
        for i, label in enumerate(property_labels(mdp))
        for word in ("reach", "avoid")
    ]
    contents = typed_contents(plan, True, offered.nouns)
    check()
    of_type = [
        {"name": one.name, "about": one.about, "link": f"one?e={one.key}&token={token}"} for one in offered.listed()
    ]
    ks = [(str(one), link(k=one), one == k) for one in range(1, min(T, _LISTED) + 1)]
    return {
        **contents,
        "title": offered.title or f"{offered.nouns.episode.capitalize()} of {contents['first'].ended}",
        "nouns": offered.nouns,
        "ks": [("no tether", link(k=None), k == T + 1), *ks],
        "ms": [(str(one), link(m=one), one == plan.m) for one in range(min(T, _LISTED) + 1)],
        "wanted": labels,
        "table": table,
        "types_of": of_type,
    }
