"""``tether explain``: what should have been done differently, step by step and in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tether.cli.answers import (
    PlanAnswer,
    StepAnswer,
    TailoringAnswer,
    label,
    plan_fields,
    step_answer,
    tailoring_answer,
)
from tether.cli.options import Episode, Limits, about_an_episode, as_json, with_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tether.explanation.explain import Explanation
    from tether.learning.uncertainty import PlanUncertainty
    from tether.plan.limits import Limit
    from tether.plan.plan import Plan

__all__ = ["ExplainAnswer", "explain", "explanation_answer"]

_LEVEL = 0.9


@click.command(
    epilog="""\b
Examples:
  tether explain case:epidemic -k 3 -m 1
  tether explain case:sepsis -m 2 --features heart_rate,glucose
  tether explain model.csv path.csv -k 3 -m 2
  tether explain learned-model log.csv#17 -k 4 --draws 200"""
)
@with_limits
@about_an_episode
@click.option("--features", metavar="NAMES", help="Parts of the states to show; states alike in them are one: S,I.")
@click.option("--draws", type=click.IntRange(min=2), help="For a learned model: how sure, from so many draws of it.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For the draws.")
@as_json
def explain(
    episode: Episode, limits: Limits, features: str | None, draws: int | None, seed: int, as_json: bool
) -> None:
    """What should have been done differently, and is that about this episode?

    For each step: what happened, what the best plan within k and m would do, what that gains, how strongly the
    observation influences it, and whether it passes the test that k counts. Before that, the answer in a few sentences.
    """
    from tether.cli.answers import print_json
    from tether.cli.screen import progress, put
    from tether.explanation.naming import only, shown

    plan = limits.plan(episode.replay())
    with progress() as say:
        say("putting it beside what happened")
        explanation = plan.explain(None if features is None else only(_names(features)))
        say("looking at larger k and m")
        _ = explanation.beyond
        sure = None if draws is None else _draw(plan, draws, seed, say)
    if as_json:
        print_json(explanation_answer(explanation, episode.model, episode.path_source, sure))
        return
    _print(explanation, episode, suggested=limits.k is None)
    if sure is not None:
        put("", *sure.sentences(shown))


def _names(features: str) -> list[str]:
    return [name.strip() for name in features.split(",") if name.strip()]


def _draw(plan: Plan, draws: int, seed: int, say: Callable[[str], None]) -> PlanUncertainty:
    from tether.learning.posterior import posterior

    drawn = posterior(plan.cf.mdp, draws, rng=seed)
    return drawn.of(plan, lambda done, of: say(f"drawing models the log leaves possible: {done} of {of}"))


def _print(explanation: Explanation, episode: Episode, suggested: bool) -> None:
    from tether.cli.screen import put
    from tether.cli.steps import LEGEND, steps_table
    from tether.explanation.naming import shown

    put(*explanation.sentences(shown), "")
    put(*_settings(explanation.plan, episode, suggested), "")
    put(steps_table(explanation.steps))
    put(LEGEND, style="dim")
    put("", *_beyond(explanation))


def _beyond(explanation: Explanation) -> list[str]:
    mdp = explanation.plan.cf.mdp
    if mdp.describe().reward_range == (0.0, 0.0) and mdp.final_reward is None:
        return ["All rewards of the model are 0: no plan can gain anything."]
    return explanation.beyond.sentences()


def _settings(plan: Plan, episode: Episode, suggested: bool) -> list[str]:
    from tether._words import counted
    from tether.explanation.terms import limits_in_words

    mdp = plan.cf.mdp
    about = f"{episode.model}: {counted(mdp.n_states, 'state')}, {counted(mdp.n_actions, 'action')}"
    where = "" if episode.path is None else f" from {episode.path}"
    about += f"; an episode of {counted(plan.T, 'step')}{where}."
    return [about, limits_in_words(plan, suggested)]


class LimitAnswer(msgspec.Struct):
    """Another k or m, the value there, and what that adds."""

    k: int
    m: int
    value: float | None
    added: float | None


class BeyondAnswer(msgspec.Struct):
    """What larger k and m would add."""

    longer: LimitAnswer | None
    free: LimitAnswer
    more: LimitAnswer | None
    most: LimitAnswer


class FirmnessAnswer(msgspec.Struct):
    """How firm a change is; see `tether.uncertainty.ChangedAction`."""

    t: int
    state: Any
    observed: Any
    action: Any
    same: float
    reached: float


class UncertaintyAnswer(msgspec.Struct):
    """How sure one can be, of a learned model; see `tether.uncertainty.PlanUncertainty`."""

    draws: int
    level: float
    interval: tuple[float, float]
    mean: float
    std: float
    probability_better: float
    off_plan: float
    changes: list[FirmnessAnswer]
    sentences: list[str]


class ExplainAnswer(PlanAnswer, kw_only=True):
    """What ``tether explain --json`` prints."""

    value: float | None
    std: float | None
    observed_value: float
    logged_return: float | None
    gain: float | None
    steps: list[StepAnswer]
    tailoring: TailoringAnswer
    beyond: BeyondAnswer
    sentences: list[str]
    uncertainty: UncertaintyAnswer | None


def explanation_answer(
    explanation: Explanation, model: str, path: str, sure: PlanUncertainty | None = None
) -> ExplainAnswer:
    """An explanation as JSON."""
    plan, outlook = explanation.plan, explanation.outlook
    beyond = explanation.beyond
    return ExplainAnswer(
        command="explain",
        **plan_fields(plan, model, path),
        value=plan.value,
        std=outlook.std,
        observed_value=plan.observed_value,
        logged_return=plan.logged_return,
        gain=plan.gain,
        steps=[step_answer(step) for step in explanation.steps],
        tailoring=tailoring_answer(outlook),
        beyond=BeyondAnswer(*(_limit(one) for one in (beyond.longer, beyond.free, beyond.more, beyond.most))),
        sentences=[*explanation.sentences(str), *_beyond(explanation)],
        uncertainty=None if sure is None else _uncertainty(sure),
    )


def _uncertainty(sure: PlanUncertainty) -> UncertaintyAnswer:
    return UncertaintyAnswer(
        draws=sure.draws,
        level=_LEVEL,
        interval=sure.interval(_LEVEL),
        mean=sure.mean,
        std=sure.std,
        probability_better=sure.probability_better,
        off_plan=float(sure.off_plan.mean()),
        changes=[
            FirmnessAnswer(one.t, label(one.state), label(one.observed), label(one.action), one.same, one.reached)
            for one in sure.changes
        ],
        sentences=sure.sentences(str),
    )


def _limit(limit: Limit | None) -> Any:
    return None if limit is None else LimitAnswer(limit.k, limit.m, limit.value, limit.added)
