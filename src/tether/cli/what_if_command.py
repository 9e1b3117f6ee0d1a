"""``tether what-if``: exactly what would have followed from other actions at some steps."""

from __future__ import annotations

from typing import Any

import click

from tether.cli.doing import spoken
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import Episode, QuestionOptions, about_an_episode, as_json, with_rule_and_property


@command(
    "what-if",
    epilog="""\b
Examples:
  tether what-if case:ward --at 3=treat
  tether what-if case:sepsis --at 2=antibiotics --best-from 3
  tether what-if model.csv log.csv#17 --time hour --at 24.2=treat""",
)
@about_an_episode
@click.option(
    "--at",
    multiple=True,
    metavar="STEP=ACTION",
    help="Another action at a step; with --time, at the log's own hour. May be repeated.",
)
@click.option("--best-from", type=click.IntRange(min=0), help="From this step on the best actions, without a tether.")
@with_rule_and_property
@as_json
def what_if(
    episode: Episode,
    at: tuple[str, ...],
    best_from: int | None,
    question: QuestionOptions,
    as_json: bool,
) -> None:
    """What would have followed from other actions, exactly?

    Everything else is done as it was. First the answer in sentences, with the shortest tether that allows it; then a
    table with one row per step.
    """
    from rich.text import Text

    from tether.cli.screen import put
    from tether.cli.steps_table import legend, steps_table
    from tether.explanation.about_episode import left_to_chance

    cf, hours = episode.replay(), episode.hours()
    chosen = dict(_chosen(words, cf, hours) for words in at)
    if not chosen and best_from is None:
        raise click.UsageError("What is to be different? --at STEP=ACTION, or --best-from STEP.")
    asked = cf.what_if(chosen, best_from, **question.tethering, objective=question.objective)
    if as_json:
        print_json(
            "what-if",
            **episode.named,
            at=[{"t": t, "action": action} for t, action in sorted(chosen.items())],
            best_from=best_from,
            **question.in_json,
            value=asked.value,
            observed_value=asked.observed_value,
            gain=asked.gain,
            changes=asked.changes,
            needed_k=asked.needed_k,
            outcomes=asked.outcomes(),
            certificate=asked.certificate,
            steps=asked.steps,
            sentences=asked.sentences(str),
        )
        return
    noun = spoken().step
    if hours is not None:
        put(Text("; ".join(f"{noun} {hours[t]:g} (step {t})" for t in sorted(chosen)) + ":"), "")
    put(*asked.sentences(episode.name))
    if asked.certificate is not None:
        put(asked.certificate.sentence)
    luck = left_to_chance(cf if question.objective is None else asked.policy.world, asked.outlook.chain)
    noun = "t" if noun == "step" else noun
    put("", steps_table(asked.steps, "what if", luck, episode.name, noun, hours))
    put(legend(asked.steps, question.objective, luck), style="dim")


def _chosen(words: str, cf: Any, hours: list[float] | None) -> tuple[int, Any]:
    """A step and an action from ``3=treat``; with hours, from ``24.2=treat``."""
    from tether.io.names_as_text import find_name

    when, sign, action = words.partition("=")
    try:
        time = float(when)
    except ValueError:
        sign = ""
    if not sign or not action.strip():
        raise click.BadParameter(f"{words!r} is not of the form STEP=ACTION, as in 3=treat.", param_hint="--at")
    if hours is None:
        if time != int(time) or not 0 <= time < cf.T:
            raise click.BadParameter(
                f"there is no step {when}: the steps are 0 to {cf.T - 1}. For the log's own times, name their column: "
                "--time COLUMN.",
                param_hint="--at",
            )
        t = int(time)
    elif time not in hours[: cf.T]:
        known = ", ".join(f"{hour:g}" for hour in hours[: min(cf.T, 8)])
        raise click.BadParameter(f"there is no time {when}; the times are {known} …", param_hint="--at")
    else:
        t = hours.index(time)
    return t, find_name(cf.mdp.actions, action.strip(), "action")
