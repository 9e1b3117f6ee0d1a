"""`make demo`: two episodes, what happened, and what should have been done differently.

Prints to the terminal and leaves a report of each in ``tether-demo/``, as a page for the browser.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tether.cases import epidemic, sepsis
from tether.cases.case import Case
from tether.counterfactual.conditioned import counterfactual
from tether.explanation.explain import ExplainedStep, Explanation

__all__ = ["Story", "main", "stories"]

_TARGET = Path("tether-demo")


@dataclass(frozen=True)
class Story:
    """An episode to show, the limits to explain it within, and how to write its states and actions."""

    name: str
    title: str
    note: str
    case: Callable[[], Case]
    limits: tuple[tuple[int, int], ...]
    state_name: Callable[[Any], str]
    action_name: Callable[[Any], str]

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
            "S susceptible, I infected; V_I and V_S vaccinate an infected or a susceptible person. "
            "The return is minus the infected, summed over time.",
            epidemic,
            ((3, 1), (6, 4), (8, 1)),
            lambda state: f"S {state.S}, I {state.I}",
            str,
        ),
        Story(
            "sepsis",
            "A sepsis patient, diabetic, who died at the third step",
            "Shown are the vital signs out of range; three or more are death. A antibiotics, E ventilation, "
            "P vasopressors, – no treatment.",
            sepsis,
            ((7, 8), (8, 8), (11, 8)),
            _vital_signs,
            _treatment,
        ),
    )


def main() -> None:
    """Show the epidemic and one sepsis patient, and write a report of each."""
    start = time.perf_counter()
    _TARGET.mkdir(exist_ok=True)
    console = Console(highlight=False, width=min(Console().width, 110))
    console.print(
        "\n[bold]Tether[/]: what should have been done differently, and is that answer still about this episode?\n"
        "k is the length of the tether: how far a plan may go without the observation saying anything. "
        "m is how many actions may change.\n"
    )
    pages = [_show(console, story) for story in stories()]
    console.print(f"Computed exactly, without sampling, in {time.perf_counter() - start:.1f} s.")
    console.print("Reports to show to others (open in a browser):", ", ".join(map(str, pages)))


def _show(console: Console, story: Story) -> Path:
    explanations = story.explanations()
    console.print(f"[bold]{story.title}[/]\n{story.note}")
    console.print(_side_by_side(explanations, story.action_name))
    for explanation in explanations:
        plan = explanation.plan
        console.print(f"[bold]k = {plan.k}, m = {plan.m}[/]", *explanation.sentences(story.action_name))
    console.print()
    return explanations[1].plan.report(_TARGET / f"{story.name}.html", title=story.title)


def _side_by_side(explanations: list[Explanation], action_name: Callable[[Any], str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("t", justify="right")
    table.add_column("what happened")
    for explanation in explanations:
        table.add_column(f"best, k = {explanation.plan.k}, m = {explanation.plan.m}")
    for steps in zip(*(explanation.steps for explanation in explanations), strict=True):
        happened = str(steps[0].observed_state)
        if steps[0].observed_action is not None:
            happened += f" → {action_name(steps[0].observed_action)}"
        table.add_row(str(steps[0].t), happened, *(_cell(step, action_name) for step in steps))
    table.caption = (
        "Each cell: the most likely state (how likely, if not certain) and the action there; * the action changes; "
        "● the observation still speaks here, ◐ sometimes, ○ no longer."
    )
    return table


def _cell(step: ExplainedStep, action_name: Callable[[Any], str]) -> Text:
    likely = "" if step.state_probability > 0.9995 else f" {100 * step.state_probability:.0f} %"
    text = Text(f"{step.state}{likely}")
    if step.action is not None:
        changed = step.action != step.observed_action
        text.append(f" → {action_name(step.action)}{'*' if changed else ''}", style="bold" if changed else "")
        text.append(" ●" if step.influenced > 0.9995 else " ◐" if step.influenced > 0 else " ○")
    return text


def _vital_signs(state: Any) -> str:
    short = {"heart_rate": "hr", "systolic_bp": "bp", "oxygen": "oxygen", "glucose": "glucose"}
    off = [f"{name} {getattr(state, sign)}" for sign, name in short.items() if getattr(state, sign) != "normal"]
    return "dead" if state.abnormal >= 3 else ", ".join(off) or "all normal"


def _treatment(action: str) -> str:
    letters = {"antibiotics": "A", "ventilation": "E", "vasopressors": "P", "no treatment": "–"}
    return "".join(letters[part] for part in action.split(" + "))


if __name__ == "__main__":
    main()
