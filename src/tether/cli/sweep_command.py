"""``tether sweep`` and ``tether choose-k``: the best value for every k and m."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tether.cli.doing import LIMITS
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import Episode, QuestionOptions, about_an_episode, as_json, with_question

if TYPE_CHECKING:
    from tether.plan.sweep import Sweep


def _numbers(_ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """Whole numbers and ranges of them, from text such as ``2,3,7-9``."""
    if value is None:
        return None
    numbers: list[int] = []
    for part in value.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise click.BadParameter(f"{value!r}: expected numbers and ranges, as in 2,3,7-9", param=param)
        numbers += range(int(first), int(last if dash else first) + 1)
    return numbers


@command(
    epilog="""\b
Examples:
  tether sweep case:epidemic
  tether sweep model.csv path.csv -k 1-5 -m 0-3 --rule assured"""
)
@about_an_episode
@click.option("-k", "ks", callback=_numbers, metavar="NUMBERS", help="Which k: 2,3,7-8.  [default: 1-(T+1)]")
@click.option("-m", "ms", callback=_numbers, metavar="NUMBERS", help="Which m: 0-3.  [default: 0-T]")
@with_question
@as_json
def sweep(
    episode: Episode,
    ks: list[int] | None,
    ms: list[int] | None,
    question: QuestionOptions,
    as_json: bool,
) -> None:
    """Show the best value for every k and m, as a table.

    The tether gets longer down the table, and more actions may change to the right. The value never gets worse in
    either direction. Neighbouring k with the same values share a row, and neighbouring m share a column.

    MODEL may be a directory with the models of several types: the plans are for somebody who does not see the type.
    """
    from tether.cli.explaining_types import about_types, sweep_for_types
    from tether.cli.screen import progress
    from tether.plan.limits import enough_k

    if about_types(episode, {}, None):
        sweep_for_types(episode, ks, ms, question, as_json)
        return
    cf = episode.replay()
    with progress() as say:
        say("planning for every k and m", LIMITS)
        table = cf.sweep(ks=ks, ms=ms, **question.tethering, **question.judging, **question.advising(cf.mdp))
    if not as_json:
        _print(table, episode)
        return
    print_json(
        "sweep",
        **episode.named,
        T=cf.T,
        **question.in_json,
        discount=cf.mdp.discount,
        ks=table.ks,
        ms=table.ms,
        values=table.values,
        sizes=table.sizes,
        observed_value=table.observed_value,
        enough=[enough_k(table, m) for m in table.ms.tolist()],
    )


def _print(table: Sweep, episode: Episode) -> None:
    from tether._foundation.words import number
    from tether.cli.heat_table import heat_tables
    from tether.cli.screen import put
    from tether.explanation.terms import sweep_notes

    which = f"{'smallest' if table.minimise else 'best'} expected return"
    if table.objective is not None:
        which = f"{'smallest' if table.minimise else 'largest'} chance that {table.objective.in_words},"
    put(f"{episode.model}: the {which} within k and m; observed {number(table.observed_value)}.", "")
    put(*heat_tables(table))
    put("", *sweep_notes(table))


@command(
    "choose-k",
    epilog="""\b
Examples:
  tether choose-k case:epidemic -m 2 --at-least -30
  tether choose-k case:sepsis -m 3 --at-least 0.25 --objective 'avoid died'
  tether choose-k model.csv path.csv -m 1 --at-least 0 --rule assured""",
)
@about_an_episode
@click.option("-m", type=click.IntRange(min=0), default=1, show_default=True, help="How many actions may change.")
@click.option("--at-least", type=float, help="The value to reach.")
@click.option("--at-most", type=float, help="With --minimise: the value to get down to.")
@click.option("--about-at-least", type=float, metavar="SHARE",
              help="Only plans of which this share, 0 to 1, is about the episode; alone: the best.")  # fmt: skip
@with_question
@as_json
def choose_k(
    episode: Episode,
    m: int,
    at_least: float | None,
    at_most: float | None,
    about_at_least: float | None,
    question: QuestionOptions,
    as_json: bool,
) -> int:
    """Find the shortest tether that reaches a value.

    The exit code is 1 if none does, not even k = T + 1 (no tether).
    """
    from tether._foundation.words import counted, number
    from tether.cli.screen import progress, put

    wanted = at_most if question.minimise else at_least
    if (wanted is None and about_at_least is None) or (at_least is not None and at_most is not None):
        needed = "--at-most, with --minimise" if question.minimise else "--at-least"
        raise click.UsageError(f"give the value to reach with {needed}, and nothing else.")
    cf = episode.replay()
    with progress() as say:
        say("planning for every k", LIMITS)
        tied = cf.tether(**question.tethering, **question.judging, **question.advising(cf.mdp))
        k = tied.choose_k(m, at_least, at_most=at_most, about_at_least=about_at_least)
    if as_json:
        print_json(
            "choose-k",
            **episode.named,
            T=cf.T,
            m=m,
            **question.in_json,
            discount=cf.mdp.discount,
            at_least=at_least,
            at_most=at_most,
            about_at_least=about_at_least,
            k=k,
        )
    elif wanted is None:
        if k is None:
            put("No plan that helps is about this episode.")
        else:
            put(f"k = {k} has the largest gain of the plans that are about this episode, with {counted(m, 'change')}.")
    elif k is None:
        put(f"No k reaches {number(wanted)} with {counted(m, 'change')}, not even without a tether.")
    else:
        off = " (no tether)" if k > cf.T else ""
        put(f"k = {k}{off} is the smallest that reaches {number(wanted)} with {counted(m, 'change')}.")
    return 1 if k is None else 0
