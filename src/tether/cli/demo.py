"""`make demo`: two episodes, what happened, and what should have been done differently.

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
from tether.cases import epidemic, sepsis, toy
from tether.cases.case import Case
from tether.cli.screen import COMPILING, put
from tether.cli.steps import legend, steps_table
from tether.conditioning.conditioned import counterfactual
from tether.explanation.explain import Explanation
from tether.plan.plan import Plan

__all__ = ["Story", "main", "stories"]

_TARGET = Path("tether-demo")


@dataclass(frozen=True)
class Story:
    """An episode to show, the limits to explain it within, and how to write its states."""

    name: str
    title: str
    note: str
    case: Callable[[], Case]
    limits: tuple[tuple[int, int], ...]
    state_name: Callable[[Any], str]

    def explanations(self) -> list[Explanation]:
        """The best plan for each of the limits, beside what happened."""
        case = self.case()
        cf = counterfactual(case.mdp, case.path)
        return [cf.plan(k, m).explain(group=self.state_name) for k, m in self.limits]


def stories() -> tuple[Story, ...]:
    """The epidemic and one sepsis patient."""
    return (
        Story(
            "outbreak",
            "An outbreak among ten people, left alone",
            "S susceptible, I infected. NIL does nothing; V_I and V_S vaccinate an infected or a susceptible person. "
            "The return is minus the infected, summed over time.",
            epidemic,
            ((3, 1), (6, 4), (8, 1)),
            lambda state: f"S {state.S}, I {state.I}",
        ),
        Story(
            "sepsis",
            "A sepsis patient, diabetic, who died at the third step",
            "Only the vital signs out of range are shown; three or more mean death.",
            sepsis,
            ((7, 2), (8, 2)),
            _vital_signs,
        ),
    )


def main() -> None:
    """Show the epidemic and one sepsis patient, and write a report of each."""
    _TARGET.mkdir(exist_ok=True)
    put(
        "",
        Text("Tether: what should have been done differently, and is that answer still about this episode?", "bold"),
        "k is the length of the tether: from every step of a plan, a step that counts as influenced can be reached "
        "within k steps. m is how many actions may change.",
        "",
    )
    _compile()
    start = time.perf_counter()
    answers = [(story, _show(story)) for story in stories()]
    computed = time.perf_counter() - start
    pages = [plan.report(_TARGET / f"{story.name}.html", title=story.title) for story, plan in answers]
    drawn, tether = time.perf_counter() - start - computed, _command()
    put(
        f"Computed exactly, without sampling, in {computed:.1f} s; reports drawn in {drawn:.1f} s.",
        "",
        "Where to look next:",
        f"- reports to show to others, in a browser: {', '.join(map(str, pages))}",
        f"- one answer step by step: {tether} explain case:sepsis -m 2",
        f"- an interactive page, in a browser: {tether} explore",
        f"- your own files: {tether} explain MODEL PATH, and docs/start.md",
    )


def _command() -> str:
    """How ``tether`` is called from here: by its name if the shell finds it, else by its place."""
    place = Path(sys.executable).with_name("tether")
    return "tether" if shutil.which("tether") is not None else os.path.relpath(place)


def _compile() -> None:
    """Answer a small question once, so that the computing time does not include compiling; say so if it takes long."""
    waiting = threading.Timer(1.0, lambda: put(COMPILING))
    waiting.daemon = True
    waiting.start()
    small = toy()
    counterfactual(small.mdp, small.path).plan().explain().sentences()
    waiting.cancel()


def _show(story: Story) -> Plan:
    """Print a story; returns the plan that is shown in full."""
    explanations = story.explanations()
    in_full = explanations[1]
    put(Text(story.title, "bold"), story.note, "")
    for explanation in explanations:
        plan = explanation.plan
        put(Text(f"k = {plan.k}, m = {plan.m}", "bold"), *explanation.sentences(shown), "")
    put(f"Step by step, for k = {in_full.plan.k}, m = {in_full.plan.m}:", "")
    put(steps_table(in_full.steps))
    put(legend(in_full.steps), style="dim")
    put("")
    return in_full.plan


def _vital_signs(state: Any) -> str:
    signs = {"heart_rate": "heart rate", "systolic_bp": "bp", "oxygen": "oxygen", "glucose": "glucose"}
    off = [f"{name} {getattr(state, sign)}" for sign, name in signs.items() if getattr(state, sign) != "normal"]
    return "died" if state.abnormal >= 3 else ", ".join(off) or "all normal"


if __name__ == "__main__":
    main()
