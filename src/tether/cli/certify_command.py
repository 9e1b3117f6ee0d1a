"""``tether certify``: what holds for a plan, or for any policy, under every causal model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tether.cli.doing import LIMITS
from tether.cli.helping import command
from tether.cli.options import (
    Episode,
    PlanOptions,
    about_an_episode,
    as_json,
    with_gamma,
    with_limits,
    with_policy_columns,
)
from tether.cli.parsing import refuse_columns_alone

if TYPE_CHECKING:
    from rich.table import Table

    from tether.evaluation.certificate import Certificate

_LEGEND = (
    "every causal model: every one that agrees with the model and the episode, and in which the luck of one step says "
    "nothing about the luck of another. stable: the observed outcome changes to another one only if the other action "
    "makes that one relatively likelier."
)


@command(
    epilog="""\b
Examples:
  tether certify case:sepsis -k 9 -m 2
  tether certify case:epidemic --policy optimal
  tether certify case:epidemic -k 3 -m 1 --gamma 2
  tether certify model.csv path.csv --policy policy.csv

\b
policy.csv has the columns state and action; with a column t the policy
depends on time, with a column probability it is random. It must say what to
do in every state that some causal model can lead to."""
)
@with_limits
@about_an_episode
@click.option("--policy", metavar="FILE", help="A file; or optimal, observed, random.  [default: the plan for k and m]")
@with_policy_columns
@with_gamma
@as_json
def certify(
    episode: Episode,
    limits: PlanOptions,
    policy: str | None,
    policy_columns: dict[str, str],
    gamma: float,
    practice: str | None,
    as_json: bool,
) -> None:
    """What holds for a plan or policy under every causal model.

    The numbers of a plan rest on one causal model, Gumbel-max. Other causal models agree with the same MODEL and PATH.
    This command shows the worst and the best value over all of those in which the luck of one step says nothing about
    the luck of another; beside it the range if luck may be related over time, and how strong a hidden cause must be to
    undo the gain. It asks about the best plan within k and m, or about --policy.

    MODEL may be a directory with the models of several types: the plan is then for somebody who does not see the type.
    """
    from tether.cli.explaining_types import about_types, certify_for_types
    from tether.cli.json_output import print_json
    from tether.cli.screen import progress, put
    from tether.evaluation.certificate import certificate_of
    from tether.explanation.answer_data import objective_data, plan_data
    from tether.explanation.terms import limits_in_words
    from tether.io import open_policy

    refuse_columns_alone(policy, policy_columns)
    if policy is not None:
        _without_limits()
    if about_types(episode, {}, None):
        certify_for_types(episode, limits, gamma, practice, as_json, {"--policy": policy})
        return
    cf = episode.replay()
    plan = limits.plan(cf) if policy is None else None
    with progress() as say:
        say("computing other causal models", LIMITS)
        given = plan if policy is None else open_policy(policy, cf, columns=policy_columns)
        usual = None if practice is None else open_policy(practice, cf)
        judging = {} if policy is None else limits.judging
        found = certificate_of(cf, given, gamma=gamma, practice=usual, **judging)
    if as_json:
        about = {"T": cf.T, **objective_data(limits.objective, limits.minimise), "discount": cf.mdp.discount}
        asked = about if plan is None else plan_data(plan)
        print_json("certify", **episode.named, policy=policy, **asked, certificate=found)
        return
    what = f"the policy {policy}" if plan is None else "the best plan"
    put(f"{episode.model}: {what}, under other causal models of this episode.")
    if plan is not None:
        put(limits_in_words(plan, limits.k is None))
    put("", found.sentence, "", _table(found))
    put(_LEGEND, style="dim")


def _without_limits() -> None:
    """A policy has no k and m: an error if some were given."""
    ctx = click.get_current_context()
    given = [
        param.opts[0]
        for param in ctx.command.params
        if param.name in ("k", "m", "rule", "influence")
        and ctx.get_parameter_source(param.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{' and '.join(given)}: these make a plan; with --policy there is none to make.")


def _table(certificate: Certificate) -> Table:
    from tether._foundation.rounding import gain_of
    from tether._foundation.words import number
    from tether.cli.screen import plain_table

    table = plain_table("causal models", "worst", "Gumbel-max", "best", "guaranteed gain", right=range(1, 5))
    for name, worst, best in certificate.ranges:
        gain = gain_of(worst, certificate.observed_value, certificate.minimise)
        table.add_row(name, *(number(value) for value in (worst, certificate.value, best, gain)))
    return table
