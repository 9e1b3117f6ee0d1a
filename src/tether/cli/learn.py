"""``tether learn``: a model from a log of episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tether.cli.answers import print_json
from tether.cli.doing import READING
from tether.cli.options import as_json, with_times
from tether.cli.parsing import renamed_columns

if TYPE_CHECKING:
    from tether.learning.kinds import Kinds
    from tether.observation.episodes import Episodes

__all__ = ["learn"]


@click.command(
    epilog="""\b
Examples:
  tether learn log.csv learned-model
  tether learn log.csv learned-model --prior 0.5 --minimum 5
  tether learn log.csv learned-model --column state=status,lactate
  tether learn log.csv learned-model --time hour --step 4

\b
and then, for the episode 17 of the log:
  tether explain learned-model log.csv#17 -k 3 -m 2 --draws 200"""
)
@click.argument("log", metavar="EPISODES")
@click.argument("out")
@click.option("--prior", type=float, default=0.0, show_default=True,
              help="Add this number to the count of each possible outcome; 0 takes the shares of the log.")  # fmt: skip
@click.option("--minimum", type=click.IntRange(min=1), default=1, show_default=True,
              help="How often a state and action must be seen for the action to be available there.")  # fmt: skip
@click.option("--support", type=click.Choice(["seen", "all"]), default="seen", show_default=True,
              help="What an action may lead to: states that it was seen to lead to, or any state. With all, use "
              "--influence effective:EPS: by support, every step would count as influenced.")  # fmt: skip
@click.option("--rewards", type=click.Choice(["transition", "pair"]), default="transition", show_default=True,
              help="Mean rewards of each transition, or of each state and action.")  # fmt: skip
@click.option("--empty-rewards", type=click.Choice(["zero", "mean"]),
              help="What an empty reward counts as: 0, or the mean of the same transition. Needed if some rewards "
              "are empty, unless only the last rows of episodes have one.")  # fmt: skip
@click.option("--end", default="(end)", show_default=True, metavar="NAME",
              help="Name of the state after an action whose outcome was never recorded.")  # fmt: skip
@click.option("--column", "columns", multiple=True, callback=renamed_columns, metavar="OURS=YOURS",
              help="A column of EPISODES that has another name: episode=patient. A state may be made of "
              "several: state=status,lactate. The outcome of an episode: outcome=died. May be repeated.")  # fmt: skip
@with_times
@as_json
def learn(
    log: str,
    out: str,
    prior: float,
    minimum: int,
    support: Any,
    rewards: Any,
    empty_rewards: Any,
    end: str,
    columns: dict[str, str],
    time: str | None,
    step: str | None,
    as_json: bool,
) -> None:
    """Learn a model from a log of episodes.

    EPISODES is a table (CSV, Parquet, Arrow, Excel) with the columns episode, t, state, action and, where known,
    reward, next_state and outcome (how the episode ended: it becomes a terminal state). OUT without a suffix is a
    saved model: it keeps the counts, which credible intervals need. A table does not keep them.
    """
    from tether.cli.screen import progress, put
    from tether.explanation.answers import as_data
    from tether.explanation.naming import shown
    from tether.io.finding import word_to_label
    from tether.io.models import write_model
    from tether.io.opening import must_exist
    from tether.learning.front_doors import read_log
    from tether.learning.learn import learn as fit
    from tether.learning.learned import learned

    must_exist(log)
    with progress() as say:
        say(f"reading {log}", READING)
        episodes = read_log(log, columns=columns, time=time, step=step)
        say("counting")
        mdp = fit(
            episodes,
            prior,
            minimum=minimum,
            support=support,
            rewards=rewards,
            empty_rewards=empty_rewards,
            end=word_to_label(end),
        )
        say(f"writing {out}")
        write_model(mdp, out)
    found = learned(mdp)
    if as_json:
        sizes = {"states": mdp.n_states, "actions": mdp.n_actions, "transitions": mdp.n_transitions}
        print_json("learn", log=log, output=out, **(as_data(found) | sizes))
        return
    put(*found.sentences(shown))
    if found.unplaced:
        put("(On the command line: --rewards pair.)")
    if episodes.reward is None:
        put(_without_rewards(episodes))
    put(f"Written to {out}.")


def _without_rewards(episodes: Episodes | Kinds) -> str:
    """What to do with a model without rewards."""
    text = "The log has no column reward: all rewards of the model are 0, and no plan can gain anything"
    if not episodes.outcomes:
        return f"{text}."
    return f"{text}. Ask for an outcome instead: --objective 'avoid {episodes.outcomes[0]}', or 'reach …'."
