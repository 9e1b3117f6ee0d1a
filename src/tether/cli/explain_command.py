"""``tether explain``: what should have been done differently, step by step and in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tether.cli.doing import DRAWING, LIMITS, spoken
from tether.cli.explaining_types import about_types, explain_types, shares_of, sources_of
from tether.cli.helping import command
from tether.cli.options import (
    Episode,
    PlanOptions,
    about_an_episode,
    as_json,
    with_certificate,
    with_draws,
    with_limits_and_risk,
)

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation
    from tether.objects.plan_object import Plan
    from tether.plan.plan_record import PlanRecord


@command(
    epilog="""\b
Examples:
  tether explain case:epidemic -k 3 -m 1
  tether explain case:sepsis -m 2 --features heart_rate,glucose
  tether explain case:sepsis -m 2 --objective 'avoid died'
  tether explain case:sepsis -k 9 -m 3 --subject-to 'reach died 0.78'
  tether explain model.csv path.csv -k 3 -m 2
  tether explain learned-model log.csv#17 -k 4 --draws 200
  tether explain case:epidemic -k 6 -m 4 --export e.drn --export best.json
  tether explain case:hidden-diabetes -m 2
  tether explain --type frail=a.csv --type fit=b.csv --prior fit=0.8 p.csv"""
)
@with_limits_and_risk
@about_an_episode
@click.option("--features", metavar="NAMES", help="Parts of states to show: S,I. States that agree in them are one.")
@click.option(
    "--type",
    "types",
    multiple=True,
    callback=sources_of,
    metavar="NAME=MODEL",
    help="For somebody whose type was never recorded: the model of each type, in place of MODEL. May be repeated.",
)
@click.option(
    "--prior",
    "prior_of_types",
    multiple=True,
    callback=shares_of,
    metavar="NAME=SHARE",
    help="How likely each type is before the episode: diabetic=0.2. May be repeated.",
)
@click.option(
    "--export",
    "export",
    multiple=True,
    metavar="FILE",
    help="For a model checker: the episode's model within k and m (.drn for Storm, .tra for PRISM), with the question "
    "whose answer is the value; or the plan as its scheduler (.json for Storm, .txt for PRISM). May be repeated.",
)
@with_draws
@with_certificate
@as_json
def explain(
    episode: Episode,
    limits: PlanOptions,
    types: dict[str, str],
    prior_of_types: dict[str, float] | None,
    features: str | None,
    export: tuple[str, ...],
    draws: int | None,
    seed: int,
    certificate: bool,
    as_json: bool,
) -> None:
    """What should have been done differently, and is that about this episode?

    First the answer in a few sentences. The last ones say whether it holds under other causal models and, for a learned
    model, how much its log leaves open. Then a table with one row per step: what happened, what the best plan within k
    and m would do, its gain, its strength (how much of the probability the observation moves), and whether it passes
    the test that k counts.

    MODEL may be a directory with the models of several types (tether.Types.save), or be given as --type NAME=MODEL: the
    answer is then for somebody who does not see the type.
    """
    from tether._foundation.words import number
    from tether.cli.json_output import print_json
    from tether.cli.screen import progress, put
    from tether.explanation.answer_data import explanation_data
    from tether.explanation.state_words import only

    if about_types(episode, types, prior_of_types):
        refused = {
            "--features": features,
            "--export": export,
            "--draws": draws,
        }
        explain_types(episode, limits, types, prior_of_types, certificate, as_json, refused)
        return
    if export and (limits.subject_to or limits.only or limits.never or limits.cost):
        wrong = "--subject-to, --only, --never or --cost"
        raise click.UsageError(f"--export writes the question within k and m alone: leave out {wrong}.")
    plan = limits.plan(episode.replay(), every_k=True)
    group = None if features is None else only(names_of(features), plan.cf.path.states[0])
    with progress() as say:

        def drawn(done: int, of: int) -> None:
            say(f"drawing models that the log leaves possible: {done:,} of {of:,}", DRAWING)

        explanation = plan.explain(group, certificate=certificate, draws=draws, rng=seed, progress=drawn)
        say("comparing the plan with what happened")
        _ = explanation.outcomes
        say("computing larger k and m", LIMITS)
        _ = explanation.beyond
        say("computing other causal models", LIMITS)
        _ = explanation.certificate
        _ = explanation.uncertainty
        written = [_write(plan, file) for file in export]
    if as_json:
        print_json("explain", **episode.named, **explanation_data(explanation), export=written)
        return
    print_explanation(explanation, episode, suggested=limits.k is None)
    for one in written:
        less = f", less {number(one['shift'])}" if one["shift"] else ""
        put(f"Written to {one['file']}{'.' if one['question'] is None else ': ' + one['question'] + less}")


def _write(plan: Plan, file: str) -> dict[str, Any]:
    """Write the plan, or the model that it is a scheduler of; what was written, and the question for it."""
    if file.lower().endswith((".json", ".txt")):
        plan.write(file)
        return {"file": file, "states": None, "transitions": None, "question": None, "shift": None}
    about: dict[str, Any] = {"rule": plan.rule, "influence": plan.influence, "objective": plan.objective}
    made = plan.cf.write(file, plan.k, plan.m, **about, minimise=plan.minimise)
    sizes = {"states": made.states, "transitions": made.transitions}
    return {"file": made.file, **sizes, "question": made.question, "shift": made.shift}


def names_of(features: str) -> list[str]:
    """Names written with commas between them."""
    return [name.strip() for name in features.split(",") if name.strip()]


def print_explanation(explanation: Explanation, episode: Episode, suggested: bool) -> None:
    """The sentences, the settings, the steps, and what larger limits would add."""
    from tether.cli.screen import put, under_headings
    from tether.cli.steps_table import legend, steps_table
    from tether.explanation.about_episode import left_to_chance
    from tether.explanation.terms import beyond_sentences

    nouns = spoken()
    first = explanation.verdicts(episode.name, nouns)
    put(f"{episode.title(nouns.episode)} · {first.ended}", first.foreseen, first.hindsight, "")
    said = explanation.answer(episode.name)
    luck_and_plan = *said.mistake, *said.warning, *said.change, *said.follows
    put(*under_headings(first, (luck_and_plan, said.episode, said.sure)), "")
    put(*_settings(explanation.plan, episode, suggested), "")
    luck = left_to_chance(explanation.plan.asked, explanation.plan.chain)
    put(steps_table(explanation.steps, luck=luck, name=episode.name, noun="t" if nouns.step == "step" else nouns.step))
    put(legend(explanation.steps, explanation.plan.objective, luck, explanation.plan.minimise), style="dim")
    put("", *beyond_sentences(explanation))
    if explanation.uncertainty is not None and explanation.changes:
        put("", *explanation.uncertainty.changes_in_words(episode.name))


def _settings(plan: PlanRecord, episode: Episode, suggested: bool) -> list[str]:
    from tether._foundation.words import counted
    from tether.explanation.terms import limits_in_words
    from tether.model.product import model_itself

    mdp = model_itself(plan.cf.mdp)
    about = f"{episode.model}: {counted(mdp.n_states, 'state')}, {counted(mdp.n_actions, 'action')}"
    where = "" if episode.path is None else f" from {episode.path}"
    about += f"; an episode of {counted(plan.T, 'step')}{where}."
    return [about, limits_in_words(plan, suggested)]
