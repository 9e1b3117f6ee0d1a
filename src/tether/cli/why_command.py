"""``tether why``: why an action is allowed for k, or is not."""

from __future__ import annotations

from typing import Any

import click

from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import Episode, QuestionOptions, about_an_episode, as_json, with_rule_and_objective

_PAIR = ("t", "state", "action")


@command(
    epilog="""\b
Examples:
  tether why case:epidemic -t 0 -k 3 --action V_I
  tether why case:epidemic -t 2 -k 3 --state "(7, 3, 20)"
  tether why model.csv path.csv -t 1 -k 2"""
)
@about_an_episode
@click.option("-t", type=click.IntRange(min=0), required=True, help="The step, from 0.")
@click.option("-k", type=click.IntRange(min=1), help="Length of the tether.  [default: as in tether explain]")
@click.option("--state", help="A state.  [default: the observed one]")
@click.option("--action", help="An action.  [default: each that is available there]")
@click.option(
    "--uninfluenced",
    type=click.IntRange(min=0),
    default=0,
    help="Steps off known ground just before; for --rule assured.",
)
@with_rule_and_objective
@as_json
def why(
    episode: Episode,
    t: int,
    k: int | None,
    state: str | None,
    action: str | None,
    uninfluenced: int,
    question: QuestionOptions,
    as_json: bool,
) -> None:
    """Say why an action is allowed for k, or is not.

    One sentence per action: where the nearest known ground is, and which k allows the action.
    """
    from tether._foundation.words import shown
    from tether.cli.screen import plain_table, put
    from tether.explanation.answer_data import as_data
    from tether.io.names_as_text import find_name

    cf = episode.replay()
    where = None if state is None else find_name(cf.mdp.states, state, "state")
    pair = where, None if action is None else find_name(cf.mdp.actions, action, "action")
    found: Any = cf.why(t, *pair, k=k, uninfluenced=uninfluenced, **(question.tethering | question.judging))
    answers = found if isinstance(found, tuple) else (found,)
    where, k = answers[0].state, answers[0].k
    if as_json:
        print_json(
            "why",
            **episode.named,
            t=t,
            state=where,
            k=k,
            **question.in_json,
            answers=[
                as_data(one) | {"path": [dict(zip(_PAIR, pair, strict=True)) for pair in one.path]} for one in answers
            ],
        )
        return
    put(f"t = {t}, k = {k}, in state {shown(where)}:", "")
    table = plain_table("", "", header=False)
    for one in answers:
        table.add_row(shown(one.action), f"{'allowed' if one.allowed else 'not allowed'}: {one.reason_in_words(shown)}")
    put(table)
