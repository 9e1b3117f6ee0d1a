"""``tether review``: mistake or luck, step by step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tether.cli.helping import command
from tether.cli.options import Episode, about_an_episode, as_json, with_objective, with_policy_columns

if TYPE_CHECKING:
    from rich.table import Table

    from tether.explanation.mistakes import Review, ReviewedStep

_STANDARDS = ("best", "usual")


@command(
    epilog="""\b
Examples:
  tether review case:sepsis
  tether review case:grid-world --objective 'avoid danger'
  tether review clinic log.csv#17 --against usual
  tether review model.csv path.csv --json"""
)
@about_an_episode
@click.option(
    "--against",
    metavar="POLICY",
    default="best",
    show_default=True,
    help="What decisions are judged against: best, usual (for a learned model, as often as in its log), random, or a "
    "file, as in tether evaluate.",
)
@with_policy_columns
@with_objective
@as_json
def review(
    episode: Episode,
    against: str,
    policy_columns: dict[str, str],
    objective: Any,
    minimise: bool,
    as_json: bool,
) -> None:
    """Mistake or luck?

    What each decision cost, judged by what could be known at the time: the model and the state. And what chance added.
    One row per step. Expected, less mistakes, plus luck is what happened.

    MODEL may be a directory with the models of several types: decisions are then judged by the best for somebody who
    does not see the type.
    """
    from tether.cli.explaining_types import about_types, replayed_for_types
    from tether.cli.json_output import print_json
    from tether.cli.screen import progress, put
    from tether.explanation.answer_data import objective_data
    from tether.explanation.reviewing import review_word
    from tether.io import open_policy

    judged: Callable[[], Review]
    if about_types(episode, {}, None):
        refused = {"--against": against != "best", "--policy-column": policy_columns}
        typed, _ = replayed_for_types(episode, None, None, refused)
        judged = partial(typed.review, objective=objective, minimise=minimise)
    else:
        cf = episode.replay()
        policy = against if against in _STANDARDS else open_policy(against, cf, columns=policy_columns)
        judged = partial(cf.review, policy, objective=objective, minimise=minimise)
    with progress() as say:
        say("solving the model")
        found = judged()
        sentences = found.sentences(str if as_json else episode.name)
    if as_json:
        numbers = ("expected", "mistakes", "claimed", "luck", "observed", "unlike", "foreseeable", "outcome", "steps")
        print_json(
            "review",
            **episode.named,
            T=found.T,
            against=against,
            horizon=found.horizon,
            **objective_data(objective, minimise),
            discount=found.mdp.discount,
            **{name: getattr(found, name) for name in numbers},
            sentences=sentences,
        )
        return
    put(f"Mistake or luck? {review_word(found)}", style="bold")
    put(*sentences, "")
    put(_table(found, episode.name))
    put(_legend(found), style="dim")


def _table(review: Review, name: Callable[[Any], str]) -> Table:
    from tether.cli.screen import decimals, plain_table

    sure = ["likely"] if review.may_err else []
    head = ["t", "done", _instead(review), "expected", "mistake", *sure, "luck"]
    table = plain_table(*head, right=[0, *range(3, len(head))])
    steps = [step for step in review.steps if step.action is not None]
    places = decimals(value for step in review.steps for value in (step.expected, step.mistake, step.luck))
    for step in steps:
        table.add_row(str(step.t), *_cells(review, step, places, name))
    if len(steps) < review.T:
        first = next(step.t for step in review.steps if step.action is None)
        last = review.T - 1
        table.add_row(str(first) if first == last else f"{first}–{last}", "ended: nothing to decide")
    return table


def _instead(review: Review) -> str:
    return "better" if review.is_best else "the policy"


def _cells(review: Review, step: ReviewedStep, places: int, name: Callable[[Any], str]) -> list[str]:
    from tether.cli.screen import signed
    from tether.explanation.reviewing import likelihood

    better = name(step.best) if step.best != step.action else ""
    cost = f"{step.mistake:,.{places}f}" if step.mistake else "0"
    sure = [likelihood(step) if step.mistake else ""] if review.may_err else []
    return [name(step.action), better, f"{step.expected:,.{places}f}", cost, *sure, signed(step.luck, places)]


def _legend(review: Review) -> str:
    from tether._foundation.words import percent
    from tether.evaluation.review import SURE

    value = "the return" if review.objective is None else f"the chance that {review.objective.in_words}"
    mistake = "what the decision cost"
    if not review.is_best:
        mistake += ", compared with the policy; negative where it gained"
    sentences = [f"expected: {value} from here on, before the decision.", f"mistake: {mistake}."]
    if review.may_err:
        sentences.append(f"likely: how likely it is that this is a mistake; it is called one from {percent(SURE)} on.")
    sentences.append("luck: what the outcome added.")
    if review.mdp.discount < 1:
        sentences.append("Later steps count less, by the discount.")
    return " ".join(sentences)
