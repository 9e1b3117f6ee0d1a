"""``tether learn``: a model from a log of episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tether.cli.doing import READING
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import as_json, with_names, with_times, with_writing
from tether.cli.parsing import prior_of, renamed_columns

if TYPE_CHECKING:
    from tether.model.learned import Learned


@command(
    epilog="""\b
Examples:
  tether learn log.csv learned-model
  tether learn log.csv learned-model --minimum 20
  tether learn log.csv learned-model --column state=status,lactate
  tether learn log.csv learned-model --time hour --step 4

\b
and then, for the episode 17 of the log:
  tether explain learned-model log.csv#17 -k 3 -m 2 --draws 200"""
)
@click.argument("log", metavar="EPISODES")
@click.argument("out")
@click.option("--prior", callback=prior_of, default="pooled", show_default=True, metavar="pooled|NUMBER",
              help="pooled: actions of a state differ only as far as the log shows it. A number is added to the count "
              "of each possible outcome; 0 takes the shares of the log.")  # fmt: skip
@click.option("--minimum", type=click.IntRange(min=1), default=1, show_default=True,
              help="How often an action must be seen in a state to be advised there.")  # fmt: skip
@click.option("--support", type=click.Choice(["seen", "all"]),
              help="With a number as prior, what an action may lead to: states that it was seen to lead to (default), "
              "or any state. With all, use --influence effective:EPS: by support, every step would be known "
              "ground.")  # fmt: skip
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
@with_names
@with_writing
@click.option("--skip-broken", is_flag=True, help="Leave out broken episodes, and say how many there are.")
@as_json
def learn(
    log: str,
    out: str,
    prior: Any,
    end: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Learn a model from a log of episodes.

    EPISODES is a table (CSV, Parquet, Arrow, Excel) with the columns episode, t, state, action and, where known,
    reward, next_state and outcome (how the episode ended: it becomes a terminal state). OUT without a suffix is a
    saved model: it keeps the counts, which credible intervals need. A table does not keep them.
    """
    from tether._foundation.words import shown
    from tether.cli.pipes import read_from
    from tether.cli.screen import progress, put
    from tether.explanation.answer_data import as_data
    from tether.io.models import write_model
    from tether.io.names_as_text import word_to_label
    from tether.io.opening import must_exist
    from tether.learning.learn import learn as fit

    with progress() as say, read_from(log, "EPISODES") as file:
        must_exist(file)
        say(f"reading {log}", READING)
        mdp = fit(
            file,
            prior,
            end=word_to_label(end),
            **given,
        )
        say(f"writing {out}")
        write_model(mdp, out)
    found = mdp.learned
    assert found is not None
    if as_json:
        sizes = {"states": mdp.n_states, "actions": mdp.n_actions, "transitions": mdp.n_transitions}
        print_json("learn", log=log, output=out, **(as_data(found) | sizes))
        return
    put(*found.details(shown))
    if found.unplaced:
        put("(On the command line: --rewards pair.)")
    if not mdp.rewards.values.any():
        put(_without_rewards(found))
    put(f"Written to {out}.")


def _without_rewards(found: Learned) -> str:
    """What to do with a model without rewards."""
    text = "No reward of the log is other than 0, so no plan can gain anything"
    if not found.ended:
        return f"{text}."
    end = found.ended[0][0]
    return f"{text}. Ask for an outcome instead: --objective 'avoid {end}', or 'reach {end}'."
