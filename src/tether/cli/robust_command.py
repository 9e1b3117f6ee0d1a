"""``tether robust``: the plan with the best value that is guaranteed under every causal model of a set."""

from __future__ import annotations

from typing import Any

import click

from tether.cli.doing import LIMITS
from tether.cli.helping import command
from tether.cli.options import (
    Episode,
    QuestionOptions,
    about_an_episode,
    as_json,
    with_gamma,
    with_guarantee,
    with_k_and_m,
)


@command(
    epilog="""\b
Examples:
  tether robust case:epidemic -k 6 -m 4
  tether robust case:sepsis -k 9 -m 2 --assume nothing
  tether robust model.csv path.csv -k 3 -m 2
  tether robust learned log.csv#17 --confidence 0.95
  tether robust case:epidemic -k 3 -m 1 --gamma 2
  tether robust case:epidemic -k 6 -m 4 --export outbreak.drn

\b
--assume says which causal models are possible:
  nothing                 every one that agrees with the model and the episode
  stability               those that are counterfactually stable
  published-stability     a wider set: stable at the observed outcome only
  published-monotonicity  a set that does not always contain Gumbel-max"""
)
@with_k_and_m
@about_an_episode
@with_guarantee
@click.option(
    "--assume",
    type=click.Choice(["nothing", "stability", "published-stability", "published-monotonicity"]),
    help="Which causal models are possible.  [default: stability; nothing with --confidence or --gamma]",
)
@click.option(
    "--confidence",
    type=float,
    metavar="LEVEL",
    help="For a learned model: guarantee the value for all probabilities within intervals that hold together at this "
    "level.",
)
@with_gamma
@click.option(
    "--export",
    metavar="FILE",
    help="Write the interval model within k and m for a model checker: .drn for Storm, .nm or .prism for PRISM.",
)
@click.option("--features", metavar="NAMES", help="Parts of states to show: S,I. States that agree in them are one.")
@as_json
def robust(
    episode: Episode,
    k: int | None,
    m: int,
    question: QuestionOptions,
    assume: Any,
    confidence: float | None,
    gamma: float,
    practice: str | None,
    export: str | None,
    features: str | None,
    as_json: bool,
) -> None:
    """Find the plan with the best guaranteed return.

    Its value is guaranteed under every causal model of a set (see --assume), if MODEL is right. The table shows step by
    step what Gumbel-max expects of the plan. Without -k: the shortest tether that guarantees enough, and 1 if no tether
    guarantees a gain.
    """
    from tether._foundation.words import counted, number
    from tether.cli.explain_command import names_of, print_explanation
    from tether.cli.json_output import print_json
    from tether.cli.screen import progress, put
    from tether.explanation.answer_data import explanation_data
    from tether.explanation.state_words import only as parts
    from tether.io import open_policy
    from tether.model.properties import value_name
    from tether.objects.robust_object import robust as guarantee

    if export is not None and (question.only or question.never or question.cost):
        raise click.UsageError(
            "--export writes a model in which every change may be advised: leave out --only, --never, --cost."
        )
    if export is not None and question.minimise:
        raise click.UsageError("--export writes a model for the largest guaranteed value: leave out --minimise.")
    _ = episode.path_source  # that it is missing is said before a large model is read
    mdp = episode.open()
    path = episode.open_path(mdp)
    with progress() as say:
        say("planning for the worst causal model", LIMITS)
        usual = None if practice is None else open_policy(practice, mdp)
        sure = guarantee(mdp, path, assume, confidence, gamma=gamma, practice=usual, **episode.beyond(mdp))
        plan = sure.plan(k, m, rule=question.rule, **question.judging, **question.advising(mdp))
        written = None
        if export is not None:
            say(f"writing {export}")
            written = sure.write(export, plan.k, plan.m, rule=question.rule, objective=question.objective)
        explanation = plan.explain(None if features is None else parts(names_of(features), path.states[0]))
        say("computing larger k and m", LIMITS)
        _ = explanation.beyond
        say("computing other causal models", LIMITS)
        _ = explanation.certificate
    if as_json:
        print_json("robust", **episode.named, **explanation_data(explanation), export=written)
        return
    print_explanation(explanation, episode, suggested=k is None)
    if written is not None:
        plus = f" plus {number(written.shift)}" if written.shift else ""
        value = value_name(question.objective)
        what = f"{counted(written.states, 'state')}, {counted(written.choices, 'choice')}"
        how = ", if Storm resolves the uncertainty robustly" if written.format == "drn" else ""
        put("", f"Written to {written.file}: {what}. {written.question} is the guaranteed {value}{plus}{how}.")
