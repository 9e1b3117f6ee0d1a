"""``tether explain``: what should have been done differently, step by step and in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tether.cli.options import Episode, Limits, about_an_episode, as_json, with_certificate, with_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tether.explanation.explain import Explanation
    from tether.learning.uncertainty import PlanUncertainty
    from tether.plan.plan import Plan

__all__ = ["explain", "names_of", "print_explanation", "uncertainty_data"]

_LEVEL = 0.9


@click.command(
    epilog="""\b
Examples:
  tether explain case:epidemic -k 3 -m 1
  tether explain case:sepsis -m 2 --features heart_rate,glucose
  tether explain case:sepsis -m 2 --objective 'avoid died'
  tether explain model.csv path.csv -k 3 -m 2
  tether explain learned-model log.csv#17 -k 4 --draws 200"""
)
@with_limits
@about_an_episode
@click.option("--features", metavar="NAMES", help="Parts of the states to show; states alike in them are one: S,I.")
@click.option("--draws", type=click.IntRange(min=2), help="For a learned model: how sure, from so many draws of it.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For the draws.")
@with_certificate
@as_json
def explain(
    episode: Episode,
    limits: Limits,
    features: str | None,
    draws: int | None,
    seed: int,
    certificate: bool,
    as_json: bool,
) -> None:
    """What should have been done differently, and is that about this episode?

    For each step: what happened, what the best plan within k and m would do, what that gains, how strongly the
    observation influences it, and whether it passes the test that k counts. Before that, the answer in a few sentences;
    the last of them says whether it holds under other causal models.
    """
    from tether.cli.answers import print_json
    from tether.cli.screen import progress, put
    from tether.explanation.answers import explanation_data
    from tether.explanation.naming import only, shown

    plan = limits.plan(episode.replay())
    with progress() as say:
        say("putting it beside what happened")
        explanation = plan.explain(None if features is None else only(names_of(features)), certificate=certificate)
        say("looking at larger k and m")
        _ = explanation.beyond
        say("looking at other causal models")
        _ = explanation.certificate
        sure = None if draws is None else _draw(plan, draws, seed, say)
    if as_json:
        print_json(
            "explain",
            **episode.named,
            **explanation_data(explanation),
            uncertainty=None if sure is None else uncertainty_data(sure),
        )
        return
    print_explanation(explanation, episode, suggested=limits.k is None)
    if sure is not None:
        put("", *sure.sentences(shown))


def names_of(features: str) -> list[str]:
    """Names written with commas between them."""
    return [name.strip() for name in features.split(",") if name.strip()]


def _draw(plan: Plan, draws: int, seed: int, say: Callable[[str], None]) -> PlanUncertainty:
    from tether.learning.posterior import posterior

    drawn = posterior(plan.cf.mdp, draws, rng=seed)
    return drawn.of(plan, lambda done, of: say(f"drawing models the log leaves possible: {done} of {of}"))


def print_explanation(explanation: Explanation, episode: Episode, suggested: bool) -> None:
    """The sentences, the settings, the steps, and what larger limits would add."""
    from tether.cli.screen import put
    from tether.cli.steps import legend, steps_table
    from tether.explanation.naming import shown
    from tether.explanation.terms import beyond_sentences

    put(*explanation.sentences(shown), "")
    put(*_settings(explanation.plan, episode, suggested), "")
    put(steps_table(explanation.steps))
    put(legend(explanation.plan.objective), style="dim")
    put("", *beyond_sentences(explanation))


def _settings(plan: Plan, episode: Episode, suggested: bool) -> list[str]:
    from tether._words import counted
    from tether.explanation.terms import limits_in_words

    mdp = plan.cf.mdp
    about = f"{episode.model}: {counted(mdp.n_states, 'state')}, {counted(mdp.n_actions, 'action')}"
    where = "" if episode.path is None else f" from {episode.path}"
    about += f"; an episode of {counted(plan.T, 'step')}{where}."
    return [about, limits_in_words(plan, suggested)]


def uncertainty_data(sure: PlanUncertainty) -> dict[str, Any]:
    """How sure one can be of a plan, as plain data."""
    from tether.explanation.answers import as_data

    data: dict[str, Any] = as_data(sure)
    return data | {
        "level": _LEVEL,
        "interval": sure.interval(_LEVEL),
        "off_plan": float(sure.off_plan.mean()),
        "sentences": sure.sentences(str),
    }
