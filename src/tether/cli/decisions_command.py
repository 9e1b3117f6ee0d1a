"""``tether decisions``: which decisions mattered, step by step and action by action."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tether.cli.doing import LIMITS
from tether.cli.helping import command
from tether.cli.options import Episode, QuestionOptions, about_an_episode, as_json, with_rule_and_objective

if TYPE_CHECKING:
    from rich.table import Table

    from tether.explanation.decisions import Decision, Decisions


@command(
    epilog="""\b
Examples:
  tether decisions case:sepsis
  tether decisions case:grid-world -m 2
  tether decisions case:sepsis --objective 'avoid died'
  tether decisions model.csv path.csv --json"""
)
@about_an_episode
@click.option(
    "-m",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many actions may change in all.",
)
@with_rule_and_objective
@as_json
def decisions(episode: Episode, m: int, question: QuestionOptions, as_json: bool) -> None:
    """Which decisions mattered?

    One row per step and available action. Each has its mistake, by what could be known at the time; the expected return
    if only this action had been different; with -m 2 or more, the best return with this action and at most m changes in
    all; the probability that the observed outcome would not have happened; and the shortest tether that allows the
    action.

    MODEL may be a directory with the models of several types: returns are then averaged over what the episode says of
    the type.
    """
    from tether.cli.explaining_types import about_types, decisions_for_types
    from tether.cli.json_output import print_json
    from tether.cli.screen import progress, put

    if about_types(episode, {}, None):
        decisions_for_types(episode, m, question, as_json)
        return
    cf = episode.replay()
    with progress() as say:
        say("computing every other action", LIMITS)
        found = cf.decisions(m=m, **question.tethering, **question.judging)
    if as_json:
        print_json(
            "decisions",
            **episode.named,
            T=cf.T,
            m=found.m,
            **question.in_json,
            discount=cf.mdp.discount,
            observed_value=found.observed_value,
            outcome=found.outcome,
            decisions=found.rows,
            sentences=found.sentences(str),
        )
        return
    put(*found.sentences(episode.name), "")
    put(_table(found, episode.name))
    put(_legend(found), style="dim")


def _table(decisions: Decisions, name: Callable[[Any], str]) -> Table:
    from tether.cli.screen import decimals, plain_table

    has_mistakes = any(row.mistake is not None for row in decisions.rows)
    value = "return" if decisions.objective is None else "chance"
    names = ["t", "action", *(["mistake"] if has_mistakes else []), value]
    names += [f"best, m = {decisions.m}"] if decisions.m > 1 else []
    names += [_missed(decisions)] if decisions.outcome is not None else []
    names += ["strength", "from k"]
    table = plain_table(*names, right=[0, *range(2, len(names))])
    numbers = ((row.mistake, row.value, row.best) for row in decisions.rows)
    places = decimals(number for some in numbers for number in some if number is not None)
    for first, last in decisions.stretches():
        if last > first:
            table.add_row(f"{first}–{last}", "any: nothing changes")
            continue
        for i, row in enumerate(decisions.at(first)):
            table.add_row("" if i else str(first), *_cells(decisions, row, places, name))
    return table


def _missed(decisions: Decisions) -> str:
    return "lost" if decisions.ended_well else "avoided"


def _legend(decisions: Decisions) -> str:
    value = "return: expected, had only this action been different."
    if decisions.objective is not None:
        value = f"chance: that {decisions.objective.in_words}, had only this action been different."
    sentences = ["* what was done.", value]
    if any(row.mistake is not None for row in decisions.rows):
        sentences.insert(1, "mistake: what it costs by what could be known at the time; 0 is the best.")
    if decisions.outcome is not None:
        sentences.append(f"{_missed(decisions)}: how likely the outcome would then not have happened.")
    sentences.append("strength: the part of the probability that the observation moves.")
    sentences.append("from k: the shortest tether that allows the action.")
    if any(row.value is None for row in decisions.rows):
        sentences.append("–: the action can lead to a state where a later observed action is not available.")
    return " ".join(sentences)


def _cells(decisions: Decisions, row: Decision, places: int, name: Callable[[Any], str]) -> list[str]:
    from tether._foundation.words import percent, strength_in_words

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:,.{places}f}"

    cells = [name(row.action) + (" *" if row.is_observed else "")]
    if any(one.mistake is not None for one in decisions.rows):
        cells.append("0" if row.mistake == 0 else number(row.mistake))
    cells.append(number(row.value))
    cells += [number(row.best)] if decisions.m > 1 else []
    if decisions.outcome is not None:
        cells.append("–" if row.necessity is None else percent(row.necessity, short=True))
    return [*cells, strength_in_words(row.strength, short=True), str(row.needed_k)]
