"""Take away: the view as a report, as JSON, and as the Python lines and the command that give the same answer."""

from __future__ import annotations

import shlex
from typing import Any

from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.explanation.answer_data import explanation_data
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.explorer.view import Choices, View
from tether.influence.one_step import Support, in_python, on_the_command_line


def take_part(asked: Asked) -> dict[str, Any]:
    """Everything that can be taken away."""
    answer, view = asked.answer, asked.view
    return {
        "report": f"take/report.html{view.address()}",
        "json": f"take/answer.json{view.address()}",
        "python": "\n".join(python_lines(answer, view)),
        "commands": command_line(answer),
    }


def python_lines(answer: EpisodeAnswer, view: View) -> list[str]:
    """Python that gives the same answer."""
    plan, opening = answer.plan, answer.entry.opening
    opened = opening.python or (
        "import tether",
        "",
        "# mdp and path: the model and the episode that this page was given",
    )
    options = f"rule={plan.rule!r}, influence={in_python(plan.influence)}"
    if plan.objective is not None:
        kind, label = plan.objective.kind, plan.objective.sets[0]
        options += f", objective=tether.{kind}({label!r})"
    lines = [
        *opened,
        f"cf = tether.counterfactual(mdp, path{_beyond(answer.cf)})",
        f"plan = cf.plan(k={plan.k}, m={plan.m}, {options})",
        "print(plan.explain())",
    ]
    return lines + (_what_if_lines(answer, view.chosen, options) if view.chosen.made else [])


def _beyond(cf: CounterfactualRecord) -> str:
    """The horizon of a counterfactual MDP, as it is given in Python; empty if it is the default of the model."""
    if cf.after is None or cf.after.until is None:
        return ""
    then = cf.after.then if isinstance(cf.after.then, str) else None
    acts = "" if then == "best" else ", then=policy" if then is None else f", then={then!r}"
    return f", horizon={cf.after.until}{acts}"


def _what_if_lines(answer: EpisodeAnswer, chosen: Choices, options: str) -> list[str]:
    actions = answer.cf.mdp.actions
    named = ", ".join(f"{t}: {actions[a]!r}" for t, a in sorted(chosen.actions.items()))
    best = "" if chosen.best_from is None else f", best_from={chosen.best_from}"
    return [f"print(cf.what_if({{{named}}}{best}, {options}))"]


def command_line(answer: EpisodeAnswer) -> list[str]:
    """Commands that give the same answer; none if the page was opened from Python."""
    words = answer.entry.opening.command
    if not words:
        return []
    plan = answer.plan
    limits = ["-k", str(plan.k), "-m", str(plan.m)]
    if plan.rule != "definition":
        limits += ["--rule", str(plan.rule)]
    if plan.influence != Support():
        limits += ["--influence", on_the_command_line(plan.influence)]
    if plan.objective is not None:
        limits += ["--objective", str(plan.objective)]
    return [shlex.join(["tether", command, *words, *limits]) for command in ("explain", "report")]


def as_json(answer: EpisodeAnswer, view: View) -> dict[str, Any]:
    """The answer as `tether explain --json` gives it, and the what-if."""
    found = {"episode": answer.entry.name, **explanation_data(answer.explanation)}
    if view.chosen.made:
        asked = answer.question.what_if(view.chosen)
        found["what_if"] = {
            "actions": {str(t): str(answer.cf.mdp.actions[a]) for t, a in sorted(view.chosen.actions.items())},
            "best_from": view.chosen.best_from,
            "value": asked.value,
            "std": asked.outlook.std,
            "gain": asked.gain,
            "changes": asked.changes,
            "needed_k": asked.needed_k,
            "outcomes": asked.outcomes(),
            "sentences": asked.sentences(str),
        }
    return found
