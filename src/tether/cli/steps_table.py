"""The table of an explanation: one row per step, what happened beside what the plan would do."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from tether._foundation.words import percent, shown, strength_in_words
from tether.cli.screen import decimals, plain_table, signed
from tether.explanation.state_words import differences, outcome_name, short
from tether.observation.changes import is_change, nothing_left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tether.explanation.steps import ExplainedStep
    from tether.model.model_record import ModelRecord
    from tether.model.properties import Property
    from tether.observation.path import Path

_OF_INFLUENCE = (
    "strength: the part of the probability that the observation moves. known ground: what happened tells how "
    "chance would have fallen there; k counts it."
)

_CHANGED = "bold dark_orange3"
"""How an action that is changed looks on a terminal with colours."""

_LONG = 41
"""Up to this many rows (40 steps and the end) every step has its own."""

_RARE = 0.05
"""Less likely changes than this are not shown beside the action in the likeliest state."""


def legend(
    steps: Sequence[ExplainedStep], objective: Property | None = None, luck: bool = True, minimise: bool = False
) -> str:
    """What the marks and columns of a table are, for the return or for a property; see `steps_table`."""
    value = "return" if objective is None else f"chance that {objective.in_words},"
    sentences = []
    if any(_is_changed(step) or _is_changed_elsewhere(step) for step in steps):
        elsewhere = any(map(_is_changed_elsewhere, steps))
        sentences.append(
            f"* the action changes{'; elsewhere: in other states than the likeliest' if elsewhere else ''}."
        )
    if not all(_is_certain(step) for step in steps):
        sentences.append("% how likely, where it is not certain.")
    if minimise:
        sentences.append(f"adds: what the step takes from the {value} against what was observed.")
    else:
        sentences.append(f"adds: what the step adds to the {value} over what was observed.")
    return " ".join([*sentences, _OF_INFLUENCE] if luck else sentences)


def steps_table(
    steps: Sequence[ExplainedStep],
    who: str = "the plan",
    luck: bool = True,
    name: Callable[[Any], str] = shown,
    noun: str = "t",
    times: Sequence[float] | None = None,
) -> Table:
    """One row per step: what happened, what ``who`` would do, what it gains, its strength, whether it is known ground.

    In a long episode, steps at which nothing changes share a row. ``name`` turns an action into text; ``noun`` is what
    a step is called, and ``times`` are the log's own times, in place of t.

    Without ``luck`` no step is random: the observation can influence nothing, and there is no column of influence.
    """
    in_full = short([step.observed_state for step in steps] + [step.state for step in steps])
    places = decimals(step.gain for step in steps)
    of_influence = ("strength", "known ground") if luck else ()
    table = plain_table(noun, "what happened", who, "adds", *of_influence, right=[0, *range(3, 4 + len(of_influence))])

    def label(i: int) -> str:
        return str(steps[i].t) if times is None or i >= len(times) else f"{times[i]:g}"

    for first, last in _stretches(steps):
        step, before = steps[first], steps[first - 1] if first else None
        if last > first:
            gain = sum(one.gain for one in steps[first : last + 1])
            table.add_row(
                f"{label(first)}–{label(last)}",
                "…",
                f"{last - first + 1} steps, no change",
                signed(gain, places),
                style="dim",
            )
            continue
        table.add_row(
            label(first),
            _happened(step, before, in_full, name),
            _planned(step, in_full, name),
            signed(step.gain, places),
            *(() if not luck else ("", "") if step is steps[-1] else _influence(step)),
            style="" if _is_changed(step) or _is_changed_elsewhere(step) else "dim",
        )
    return table


def _stretches(steps: Sequence[ExplainedStep]) -> list[tuple[int, int]]:
    """First and last step of each row: one step, or many of a long episode without a change nearby."""
    whole = [(i, i) for i in range(len(steps))]
    if len(steps) <= _LONG:
        return whole
    near = {
        i + by for i, one in enumerate(steps) if _is_changed(one) or _is_changed_elsewhere(one) for by in (-1, 0, 1)
    }
    near |= {0, len(steps) - 1}
    found: list[tuple[int, int]] = []
    for shown_alone, run in groupby(range(len(steps)), key=lambda i: i in near):
        several = list(run)
        found += [(i, i) for i in several] if shown_alone or len(several) < 3 else [(several[0], several[-1])]
    return found


def path_table(mdp: ModelRecord, path: Path, observed: Path) -> Table:
    """One row per step of an episode that might have been, beside the observed one; outcomes by their names."""
    in_full = short([*path.states, *observed.states])
    table = plain_table("t", "state and action", right=[0])
    for t, state in enumerate(path.states):
        seen = observed.states[t] if t < len(observed.states) else None
        outcome = outcome_name(mdp, [state])
        if outcome is not None:
            outcome = _outcome(state, outcome, in_full)
        if t == path.T:
            table.add_row(str(t), outcome or shown(state))
            continue
        text = shown(state) if in_full or seen is None else differences(state, seen)
        text = "the same" if state == seen and outcome is None else outcome or text
        action, done = path.actions[t], observed.actions[t]
        s, pair = np.array([mdp.state_index(state)]), np.array([mdp.pair_index(state, action)])
        if nothing_left(mdp.form, t, s)[0]:
            table.add_row(str(t), Text(text))
            continue
        changes = is_change(mdp.form, s, pair, mdp.actions.find(done))[0]
        table.add_row(
            str(t), _with_action(text, f"{shown(action)}{'*' if changes else ''}", _CHANGED if changes else "")
        )
    return table


def _happened(step: ExplainedStep, before: ExplainedStep | None, in_full: bool, name: Callable[[Any], str]) -> Text:
    if step.observed_state is None:
        state = "not recorded"
    elif step.observed_outcome is not None:
        state = _outcome(step.observed_state, step.observed_outcome, in_full)
    elif in_full or before is None or step.observed_action is None:
        state = shown(step.observed_state)
    else:
        state = differences(step.observed_state, before.observed_state) or "as before"
    return _with_action(state, "" if step.observed_action is None else name(step.observed_action))


def _planned(step: ExplainedStep, in_full: bool, name: Callable[[Any], str]) -> Text:
    same = step.state == step.observed_state
    if step.outcome is not None:
        alone = abs((step.outcome_probability or 0.0) - step.state_probability) <= 1e-9
        state = _outcome(step.state, step.outcome, in_full and alone)
    elif same and step.action is not None:
        state = "the same"
    elif in_full or step.observed_state is None or step.action is None:
        state = shown(step.state)
    else:
        state = differences(step.state, step.observed_state)
    likely = step.state_probability if step.outcome_probability is None else step.outcome_probability
    state += _unless_certain(likely)
    if _is_changed_elsewhere(step):
        there = "" if step.action is None else f"{name(step.action)}{_unless_certain(step.action_probability)}"
        text = _with_action(state, there)
        return text.append("; elsewhere ").append(f"{name(step.instead)}*", style=_CHANGED)
    if step.action is None or (same and not _is_changed(step)):
        return Text(state)
    changes = _is_changed(step)
    action = f"{name(step.action)}{'*' if changes else ''}{_unless_certain(step.action_probability)}"
    return _with_action(state, action, _CHANGED if changes else "")


def _is_certain(step: ExplainedStep) -> bool:
    return step.state_probability > 1 - 1e-9 and (step.action is None or step.action_probability > 1 - 1e-9)


def _is_changed(step: ExplainedStep) -> bool:
    """Whether another action is taken in the likeliest state."""
    return step.differs


def _is_changed_elsewhere(step: ExplainedStep) -> bool:
    """Whether another action is taken, and not so rarely, in other states than the likeliest only."""
    return step.changed > _RARE and not _is_changed(step)


def _outcome(state: Any, name: str, in_full: bool) -> str:
    """An outcome by its name, after the name of its state if that is short, so that no two outcomes look the same."""
    return f"{shown(state)}, {shown(name)}" if in_full and shown(state) != shown(name) else shown(name)


def _with_action(state: str, action: str, style: str = "") -> Text:
    text = Text(state)
    if action:
        text.append(" → ")
        text.append(action, style=style)
    return text


def _unless_certain(share: float) -> str:
    return "" if share > 1 - 1e-9 else f" ({percent(share, short=True)})"


def _influence(step: ExplainedStep) -> tuple[str, str]:
    """Strength, and whether the step is known ground, which k counts."""
    sure = "no" if step.influenced < 1e-9 else "yes" if step.influenced > 1 - 1e-9 else percent(step.influenced, True)
    return strength_in_words(step.strength, short=True), sure
