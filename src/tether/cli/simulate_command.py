"""``tether simulate``: a first episode of a model, or a log of many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tether.cli.doing import DRAWING
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import ModelOptions, about_a_model, as_json, with_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tether.observation.path import Path as Observed

_SHOWN = 3


@command(
    epilog="""\b
Examples:
  tether simulate case:grid-world -o path.csv
  tether simulate model.drn --policy random --steps 8 --seed 1 -o path.csv
  tether simulate model.drn --steps 8 -n 100 -o log.csv"""
)
@about_a_model
@click.option("--policy", metavar="POLICY", default="random", show_default=True,
              help="Who acts: optimal, random, or a file, as in tether evaluate.")  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), help="How many steps.  [default: the horizon of the model]")
@click.option("--start", metavar="STATE", help="Where it starts.  [default: the state labelled init, or the first]")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the draws.  [default: other draws each time]")
@click.option("-n", type=click.IntRange(min=1), help="How many episodes, as a log.  [default: one, as a path]")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write, with rewards.")
@with_names
@as_json
def simulate(
    source: ModelOptions,
    policy: str,
    steps: int | None,
    start: str | None,
    seed: int | None,
    n: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Draw an episode of a model: a path to ask about.

    Nothing is observed here: it is what the model alone expects. With -n it draws a log of episodes.
    """
    from tether._foundation.words import counted, number
    from tether.cli.pipes import PIPE, refuse_both, written_to
    from tether.cli.screen import progress, put
    from tether.io import open_policy
    from tether.io.logs import write_episodes
    from tether.io.names_as_text import find_name
    from tether.io.paths import write_path
    from tether.observation.earned import rewarded

    refuse_both(output, as_json)
    source.refuse_other_columns()
    mdp = source.open()
    first = None if start is None else find_name(mdp.states, start, "state")
    with progress() as say:
        say("drawing", DRAWING)
        drawn = mdp.simulate(open_policy(policy, mdp), steps, n=1 if n is None else n, start=first, rng=seed)
        known = [rewarded(mdp, path) for path in drawn.values()]
        paths, returns = [path for path, _ in known], [value for _, value in known]
        if output is not None:
            say(f"writing {output}")
            with written_to(output) as file:
                if n is None:
                    write_path(paths[0], file)
                else:
                    write_episodes(paths, file)
    if str(output) == PIPE:
        return
    mean = sum(returns) / len(returns)
    if as_json:
        print_json(
            "simulate",
            model=source.model,
            policy=policy,
            seed=seed,
            n=n,
            mean=mean,
            output=None if output is None else str(output),
            episodes=[
                {"states": path.states, "actions": path.actions, "rewards": path.rewards, "value": value}
                for path, value in known
            ],
        )
        return
    what = "mean return" if len(paths) > 1 else "return"
    put(f"{counted(len(paths), 'episode')} of {counted(paths[0].T, 'step')}, policy {policy}: {what} {number(mean)}.")
    for path in paths[:_SHOWN]:
        put("", _table(path))
    if len(paths) > _SHOWN:
        put("", f"… and {len(paths) - _SHOWN:,} more; --json prints all, --output writes them to a file.")
    if output is not None:
        put("", f"Written to {output}.")


def _table(path: Observed) -> Table:
    from tether._foundation.words import number, shown
    from tether.cli.screen import plain_table

    table = plain_table("t", "state", "action", "reward", right=[0, 3])
    rewards: Sequence[float | None] = path.rewards or ()
    for t, (action, reward) in enumerate(zip(path.actions, rewards, strict=True)):
        table.add_row(str(t), shown(path.states[t]), shown(action), "" if reward is None else number(reward))
    table.add_row(str(path.T), shown(path.states[path.T]), "", "")
    return table
