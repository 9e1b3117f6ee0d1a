"""Options that several commands share; what they describe is in `tether.cli.described`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, cast

import click

from tether.cli.described import Episode, ModelOptions, PlanOptions, QuestionOptions, who_acts
from tether.cli.doing import call_things
from tether.cli.parsing import (
    also_named,
    also_smallest,
    influence_of,
    objective_of,
    refuse_rewards,
    renamed_columns,
    subject_to_of,
    worth_of,
)

__all__ = ["Episode", "ModelOptions", "PlanOptions", "QuestionOptions", "who_acts"]  # passed on to the commands

F = TypeVar("F", bound=Callable[..., Any])

with_certificate = click.option(
    "--no-certificate",
    "certificate",
    flag_value=False,
    default=True,
    help="Leave out what holds under other causal models.",
)


_GAMMA = [
    click.option(
        "--gamma",
        type=click.FloatRange(min=1.0),
        default=1.0,
        metavar="TIMES",
        help="Allow for hidden causes that changed the odds of an action up to so many times.  [default: 1, none]",
    ),
    click.option(
        "--practice",
        metavar="FILE",
        help="How often each action is usually taken: a policy file, or random.  [default: as in the log of a learned "
        "model, otherwise random]",
    ),
]
_DRAWS = [
    click.option(
        "--draws",
        type=click.IntRange(min=0),
        help="For a learned model: how many of the models that its log leaves possible to draw, to say how sure "
        "the answer is; 0 for none.  [default: 100, fewer for a large model]",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the draws."),
]
with_policy_columns = click.option(
    "--policy-column",
    "policy_columns",
    multiple=True,
    callback=renamed_columns,
    metavar="OURS=YOURS",
    help="A column of the policy's file that has another name.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


_TIMES = [
    click.option("--time", metavar="COLUMN", help="A column of times, in place of t: numbers or timestamps."),
    click.option("--step", metavar="SIZE", help="How far apart the times are, to find gaps: 4, or 4h for timestamps."),
]


def _named(_ctx: click.Context, option: click.Parameter, word: str | None) -> None:
    call_things(**{str(option.name).removesuffix("_name"): word})


_NAMED = [
    click.option("--episode-name", metavar="WORD", callback=_named, expose_value=False,
                 help="What an episode is called: patient.  [default: episode]"),
    click.option("--step-name", metavar="WORD", callback=_named, expose_value=False,
                 help="What a step is called: hour.  [default: step]"),
]  # fmt: skip

_HIDING = [
    click.option("--hide-ids", is_flag=True, help="Leave the names of episodes out of the pages; tables keep them."),
]

_WRITTEN = [
    click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True,
                 help="The decimal sign in a text file."),
    click.option("--encoding", metavar="NAME", default="", help="The encoding of a text file, if not UTF-8: latin-1."),
    click.option("--day-first", is_flag=True, help="Dates are written dd/mm/yyyy."),
    click.option("--fold-case", is_flag=True,
                 help="Names that differ only in case, spaces or accents are one name, in lower case."),
]  # fmt: skip

_READING = [
    click.option("--format", metavar="NAME", help="The format of MODEL, if its name does not say it."),
    click.option(
        "--column",
        "columns",
        multiple=True,
        callback=renamed_columns,
        metavar="OURS=YOURS",
        help="A column of MODEL that has another name: state=s. Or an array: P=T, R=cost; R= for no rewards. "
        "May be repeated.",
    ),
    click.option("--order", metavar="AXES", help="Axes of transitions in an array file: SAS, ASS or SSA."),
    click.option(
        "--reward-order", metavar="AXES", help="Axes of rewards in such a file: S, SA, AS, SAS, ASS, SSA, TSA."
    ),
    click.option("--terminal", multiple=True, metavar="STATE", help="A state that ends episodes. May be repeated."),
    click.option("--discount", type=float, help="The discount per step, from 0 to 1."),
    click.option(
        "--final-reward",
        multiple=True,
        callback=worth_of,
        metavar="STATE=VALUE",
        help="The reward for ending in a state; 0 for other states. May be repeated.",
    ),
    click.option(
        "--reward-model",
        callback=also_named,
        metavar="NAME",
        help="Which rewards to take, if a DRN or PRISM model has several.",
    ),
    click.option("--state-rewards", metavar="FILE", help="State rewards of a PRISM model, if they are not beside it."),
    click.option("--transition-rewards", metavar="FILE", help="Its transition rewards, if they are not beside it."),
    click.option("--constants", metavar="N=3,…", help="Constants that a PRISM or JANI program leaves open."),
    click.option(
        "--tolerance",
        type=float,
        help="How far from 1 the probabilities of an action may sum, in a file of few digits.",
    ),
]

_MODEL = [click.argument("model"), *_READING]

_EPISODE = [
    click.argument("model"),
    click.argument("path", required=False),
    *_READING,
    click.option(
        "--path-column",
        "path_columns",
        multiple=True,
        callback=renamed_columns,
        metavar="OURS=YOURS",
        help="A column of PATH that has another name. A state may be made of several: state=status,lactate.",
    ),
    *_TIMES,
    *_NAMED,
]

_HORIZON = [
    click.option(
        "--horizon",
        type=click.IntRange(min=1),
        help="Up to which step to ask: an episode that ended early might have gone on.  [default: the horizon of the "
        "model after an early end; for a learned model, until it would have ended under usual practice]",
    ),
    click.option(
        "--then",
        metavar="POLICY",
        default="best",
        show_default=True,
        help="Who acts after the last recorded step: best, usual (for a learned model, as often as in its log), "
        "random, or a file, as in tether evaluate.",
    ),
]

_RULE = [
    click.option(
        "--rule",
        type=click.Choice(["definition", "published", "printed", "assured"]),
        default="definition",
        show_default=True,
        help="What k means; with assured there are never k steps in a row off known ground.",
    ),
    click.option(
        "--influence",
        callback=influence_of,
        metavar="TEST",
        default="support",
        show_default=True,
        help="When a step is known ground: support, tv:EPS, effective:EPS.",
    ),
]

_OBJECTIVE = [
    click.option(
        "--objective",
        callback=objective_of,
        metavar="PROPERTY",
        help="What to ask for instead of the return: 'reach GOAL', 'avoid BAD' or 'until HOLD GOAL', with labels of "
        "the model or names of states; 'reach A within 8', 'reach A then B', 'reach A and avoid B'; or a property as "
        "PRISM and Storm write it.",
    ),
    click.option(
        "--minimise",
        is_flag=True,
        callback=also_smallest,
        help="Ask for the smallest value, not the largest: for costs.",
    ),
]

_LIMITS = [
    click.option(
        "-k",
        type=click.IntRange(min=1),
        help="Length of the tether.  [default: the largest gain of the plans that are about this episode; if none is, "
        "the shortest that gives 90 % of what the longest, k = T, gives]",
    ),
    click.option("-m", type=click.IntRange(min=0), default=1, show_default=True, help="How many actions may change."),
]


_ADVISABLE = [
    click.option(
        "--only",
        multiple=True,
        metavar="CHANGE",
        help="Advise only this change: a step (2, or 2-4), an action, or 'step=2-4 state=STATE action=ACTION'. May be "
        "repeated.",
    ),
    click.option("--never", multiple=True, metavar="CHANGE", help="Never advise this change. May be repeated."),
    click.option(
        "--cost", multiple=True, metavar="PRICE", help="The price of a change: 5, or ACTION=5. May be repeated."
    ),
]


_SUBJECT_TO = click.option(
    "--subject-to",
    callback=subject_to_of,
    metavar="'PROPERTY P'",
    help="Only plans under which a property has at most probability P: 'reach died 0.1'.",
)


def _with(options: list[Any]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _gathered(options: list[Any], record: type, argument: str) -> Callable[[F], F]:
    """A decorator: the command gets these options as one record."""

    def decorate(command: F) -> F:
        names = [field.name for field in fields(record)]

        @functools.wraps(command)
        def gathering(**given: Any) -> Any:
            refuse_rewards(given.get("objective"))
            one = record(**{name: given.pop(name) for name in names if name in given})
            if isinstance(one, Episode):
                call_things(episode=one.case_noun)
            return command(**{argument: one}, **given)

        return cast(F, _with(options)(gathering))

    return decorate


about_a_model = _gathered(_MODEL, ModelOptions, "source")
about_a_record = _gathered(_EPISODE, Episode, "episode")
about_an_episode = _gathered([*_EPISODE, *_HORIZON], Episode, "episode")
about_an_episode_or_none = _gathered(
    [click.argument("model", required=False), *_EPISODE[1:], *_HORIZON], Episode, "episode"
)
with_horizon = _with(_HORIZON)
with_limits = _gathered([*_LIMITS, *_RULE, *_OBJECTIVE, *_ADVISABLE], PlanOptions, "limits")
with_limits_and_risk = _gathered([*_LIMITS, *_RULE, *_OBJECTIVE, _SUBJECT_TO, *_ADVISABLE], PlanOptions, "limits")
with_question = _gathered([*_RULE, *_OBJECTIVE, *_ADVISABLE], QuestionOptions, "question")
with_rule_and_objective = _gathered([*_RULE, *_OBJECTIVE], QuestionOptions, "question")
with_rule_and_property = _gathered([*_RULE, *_OBJECTIVE[:1]], QuestionOptions, "question")
with_guarantee = _gathered([*_RULE[:1], *_OBJECTIVE, *_ADVISABLE], QuestionOptions, "question")
with_k_and_m = _with(_LIMITS)
with_gamma = _with(_GAMMA)
with_draws = _with(_DRAWS)
with_objective = _with(_OBJECTIVE)
with_property = _with(_OBJECTIVE[:1])
with_names = _with(_NAMED)
with_hiding = _with(_HIDING)
with_times = _with(_TIMES)
with_writing = _with(_WRITTEN)
with_influence = _with(_RULE[1:])
