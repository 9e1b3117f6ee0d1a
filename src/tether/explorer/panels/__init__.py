"""The contents of each part of the page: records of the library, sentences about them, drawings. One function per part.

The page asks for a part by name, and asks again when something in the address that the part ``needs`` has changed. Slow
parts of a large model are parts within a part that ``can_wait``: the page asks for them when everything else is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tether.explanation.verdicts import Nouns
from tether.explorer.answer_cache import EpisodeAnswer, Memory
from tether.explorer.view import View

_LIMITS = ("e", "k", "m", "rule", "influence", "objective")


@dataclass(frozen=True)
class Asked:
    """A view, and where its answer is kept; ``check`` ends a computation that is not needed any more."""

    view: View
    memory: Memory
    check: Callable[[], None]

    @property
    def answer(self) -> EpisodeAnswer:
        """The answers for the view's episode within its limits."""
        return self.memory.answer(self.view, self.check)

    @property
    def nouns(self) -> Nouns:
        """What its episode and steps are called."""
        offered = self.memory.offered
        return offered.entry(self.view.episode or offered.first).nouns


@dataclass(frozen=True)
class Part:
    """A part of the page: its template, its contents, what it needs from the address, and whether it can wait."""

    template: str
    contents: Callable[[Asked], dict[str, Any]]
    needs: tuple[str, ...] = _LIMITS
    can_wait: bool = False

    def attributes(self, name: str) -> str:
        """The attributes of the element of the page for this part."""
        return f'data-part="{name}"{" data-later" if self.can_wait else ""} data-needs="{" ".join(self.needs)}"'


def parts() -> dict[str, Part]:
    """Every part, by name."""
    from tether.explorer.panels import (
        answer_panel,
        decisions_panel,
        episodes_panel,
        if_panel,
        over_time_panel,
        question_panel,
        take_panel,
        timeline_panel,
        why_panel,
    )

    of_episode = ("e", "rule", "influence", "objective")
    return {
        "controls": Part("controls", question_panel.controls, of_episode),
        "limits": Part("limits", question_panel.limits, (*_LIMITS, "tab")),
        "table": Part("table", question_panel.table, (*_LIMITS, "tab"), can_wait=True),
        "headline": Part("headline", question_panel.headline_part),
        "first": Part("first", answer_panel.first),
        "cards": Part("cards", answer_panel.first_cards),
        "timeline": Part("timeline", timeline_panel.timeline, (*_LIMITS, "if", "vs"), can_wait=True),
        "sentences": Part("sentences", answer_panel.sentences),
        "beyond": Part("beyond", answer_panel.beyond_part, can_wait=True),
        "ladder": Part("ladder", answer_panel.ladder, ("e", "m", *of_episode[1:])),
        "rungs": Part("rungs", answer_panel.rungs, ("e", "m", *of_episode[1:]), can_wait=True),
        "sure": Part("sure", answer_panel.sure),
        "steps": Part("steps", answer_panel.steps),
        "time": Part("time", over_time_panel.over_time_part),
        "if": Part("if", if_panel.what_if_part, (*_LIMITS, "if", "vs")),
        "if-time": Part("time", if_panel.if_over_time_part, ("e", "if", *of_episode[1:])),
        "why": Part("why", why_panel.why_part, (*_LIMITS, "t", "state", "action", "q", "if", "vs")),
        "decisions": Part("decisions", decisions_panel.decisions_part, (*_LIMITS, "vs")),
        "states": Part("states", over_time_panel.states_part, (*_LIMITS, "if", "vs")),
        "episodes": Part("episodes", episodes_panel.episodes_part, ("e", "q", "outcome", "order", "page")),
        "take": Part("take", take_panel.take_part, (*_LIMITS, "if")),
    }
