"""``tether sample``: episodes as they might have gone under the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tether.cli.doing import DRAWING
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import Episode, PlanOptions, about_an_episode, as_json, with_limits

if TYPE_CHECKING:
    from tether.evaluation.trajectories import Trajectories
    from tether.objects.plan_object import Plan

_SHOWN = 5


@command(
    epilog="""\b
Examples:
  tether sample case:epidemic -k 6 -m 4 -n 100
  tether sample case:epidemic -k 6 -m 4 -n 1000 --seed 1 -o log.csv"""
)
@with_limits
@about_an_episode
@click.option("-n", type=click.IntRange(min=1), default=5, show_default=True, help="How many episodes.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the draws.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write them to a file, as a log of episodes.")
@as_json
def sample(episode: Episode, limits: PlanOptions, n: int, seed: int, output: Path | None, as_json: bool) -> None:
    """Draw episodes of the plan: how this episode might have gone."""
    from tether.cli.pipes import PIPE, refuse_both, written_to
    from tether.cli.screen import progress
    from tether.explanation.answer_data import plan_data

    refuse_both(output, as_json)
    plan = limits.plan(episode.replay())
    with progress() as say:
        say("drawing", DRAWING)
        drawn = plan.sample(n, seed)
        if output is not None:
            from tether.io.logs import write_episodes
            from tether.observation.earned import rewarded

            say(f"writing {output}")
            with written_to(output) as file:
                write_episodes([rewarded(plan.cf.mdp, path)[0] for path in drawn.paths], file)
    if str(output) == PIPE:
        return
    if as_json:
        print_json(
            "sample",
            **episode.named,
            **plan_data(plan),
            n=n,
            seed=seed,
            value=plan.value,
            mean=float(drawn.returns.mean()),
            trajectories=[
                {"states": path.states, "actions": path.actions, "value": value}
                for path, value in zip(drawn.paths, drawn.returns, strict=True)
            ],
        )
    else:
        _print(plan, drawn, output)


def _what(plan: Plan) -> str:
    return "mean return" if plan.objective is None else f"share in which {plan.objective.in_words}"


def _print(plan: Plan, drawn: Trajectories, output: Path | None) -> None:
    from tether._foundation.words import counted, number
    from tether.cli.screen import put
    from tether.cli.steps_table import path_table

    n, mean = len(drawn), number(float(drawn.returns.mean()))
    put(
        f"k = {plan.k}, m = {plan.m}: {counted(n, 'episode')} drawn, {_what(plan)} {mean}; "
        f"expected, exactly, {number(plan.value)}."
    )
    for i, path in enumerate(drawn.paths[:_SHOWN]):
        value = float(drawn.returns[i])
        text = f"return {number(value)}" if plan.objective is None else "it holds" if value else "it does not hold"
        put("", f"{i}: {text}")
        put(path_table(plan.cf.mdp, path, plan.cf.path))
    if n > _SHOWN:
        put("", f"… and {n - _SHOWN:,} more; --json prints all, --output writes them to a file.")
    if output is not None:
        put("", f"Written to {output}.")
