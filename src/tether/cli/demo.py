"""`make demo`: two patients, what happened, and what should have been done differently.

Prints to the terminal and leaves a report of each in ``tether-demo/``, as a page for the browser.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from tether._foundation.words import shown
from tether.cases import sepsis, toy, ward
from tether.cases.case import Case
from tether.cli.screen import COMPILING, put
from tether.explanation.explain import Explanation
from tether.explanation.verdicts import Nouns
from tether.objects.counterfactual_object import counterfactual
from tether.objects.plan_object import Plan

_TARGET = Path("tether-demo")

_PATIENCE = 1.0
"""Seconds of compiling before it is said."""


@dataclass(frozen=True)
class Story:
    """An episode to show, the limits to explain it within, and how to write its states."""

    name: str
    title: str
    case: Callable[[], Case]
    limits: tuple[tuple[int, int], ...]
    state_name: Callable[[Any], str]

    def name_of(self, name: Any) -> str:
        """An action in words, where the case has them."""
        return self.case().words.get(name, shown(name)) if isinstance(name, str) else shown(name)

    def explanations(self) -> list[Explanation]:
        """The best plan for each of the limits, beside what happened."""
        case = self.case()
        cf = counterfactual(case.mdp, case.path)
        return [cf.plan(k, m).explain(group=self.state_name) for k, m in self.limits]


def stories() -> tuple[Story, ...]:
    """A patient of the ward, whose answer is about this patient; and one of the sepsis model, whose answer is not."""
    return (
        Story("ward", "A patient of a ward: sick, waited four times, died", ward, ((1, 1), (2, 1)), str),
        Story(
            "sepsis",
            "A sepsis patient, diabetic, who died at the third step",
            sepsis,
            ((8, 2),),
            _vital_signs,
        ),
    )


def main() -> None:
    """Show both stories, and write a report of each."""
    _TARGET.mkdir(exist_ok=True)
    put(Text("Tether: mistake or luck? And is the answer still about this episode?", "bold"), "")
    _compile()
    start = time.perf_counter()
    answers = [(story, _show(story)) for story in stories()]
    computed = time.perf_counter() - start
    pages = [
        plan.report(_TARGET / f"{story.name}.html", title=story.title, nouns=Nouns(story.case().noun))
        for story, plan in answers
    ]
    drawn, tether = time.perf_counter() - start - computed, _command()
    put(
        f"Computed exactly, without sampling, in {computed:.1f} s; reports drawn in {drawn:.1f} s.",
        "Where to look next:",
        f"- pages for others: {', '.join(map(str, pages))}",
        f"- one answer step by step: {tether} explain case:ward",
        f"- a page to play with: {tether} explore",
        f"- your own files: {tether} explain MODEL PATH",
    )


def _command() -> str:
    """How ``tether`` is called from here: by its name if the shell finds it, else by its place."""
    place = Path(sys.executable).with_name("tether")
    return "tether" if shutil.which("tether") is not None else os.path.relpath(place)


def _compile() -> None:
    """Answer a small question once, so that the computing time does not include compiling; say so if it takes long."""
    waiting = threading.Timer(_PATIENCE, lambda: put(COMPILING))
    waiting.daemon = True
    waiting.start()
    small = toy()
    counterfactual(small.mdp, small.path).plan().explain().sentences()
    waiting.cancel()


def _show(story: Story) -> Plan:
    """Print the verdicts on a story, for its shortest tether; and what a longer one adds. Returns that plan."""
    case, (first, *others) = story.case(), story.explanations()
    nouns = Nouns(case.noun)
    found = first.verdicts(story.name_of, nouns)
    put(Text(f"{story.title} (k = {first.plan.k}, m = {first.plan.m})", "bold"))
    put(found.foreseen, found.hindsight)
    for one in found:
        put(Text.assemble((f"{one.question} {one.word} ", "bold"), " ".join(one.sentences)))
    put(found.change)
    for other in others:
        more = other.verdicts(story.name_of, nouns)
        longer = f"A longer tether (k = {other.plan.k}) helps more, and is less about this {case.noun}."
        put(f"{longer} {more.hindsight} {more.about.sentences[-1]}")
    put("")
    return Plan.over(first.plan)


def _vital_signs(state: Any) -> str:
    signs = {"heart_rate": "heart rate", "systolic_bp": "bp", "oxygen": "oxygen", "glucose": "glucose"}
    off = [f"{name} {getattr(state, sign)}" for sign, name in signs.items() if getattr(state, sign) != "normal"]
    return "died" if state.abnormal >= 3 else ", ".join(off) or "all normal"


if __name__ == "__main__":
    main()
