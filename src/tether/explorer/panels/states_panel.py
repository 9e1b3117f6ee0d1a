"""The states over time by class: the layered graph of a small model, counts of a large one."""

from __future__ import annotations

from typing import Any

from tether.explanation.terms import granted
from tether.explorer.panels import Asked
from tether.explorer.panels.why_panel import MEANINGS
from tether.views.report.drawings import draw_classes

__all__ = ["states_part"]


def states_part(asked: Asked) -> dict[str, Any]:
    """The drawing of the report; its nodes show what they are, and are links to "Why?"."""
    answer, view = asked.answer, asked.view
    figure, is_graph = draw_classes(
        answer.plan,
        answer.naming.any,
        answer.naming.any,
        asked.nouns,
        link=lambda t, s: view.address(tab="why", t=t, state=s, action=-1),
    )
    meanings = {name: what for name, what in MEANINGS.items() if name not in ("unreachable", "decided")}
    return {"drawn": figure, "graph": is_graph, "meanings": meanings, "granted": granted(answer.plan)}
