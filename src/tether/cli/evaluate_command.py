"""``tether evaluate``: exactly what to expect of a policy in this episode."""

from __future__ import annotations

from typing import Any

import click

from tether._foundation.rounding import gain_of
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import Episode, about_an_episode, as_json, with_influence, with_policy_columns, with_property


@command(
    epilog="""\b
Examples:
  tether evaluate case:sepsis --policy optimal
  tether evaluate case:epidemic --policy policy.csv

\b
policy.csv has the columns state and action; with a column t the policy
depends on time, with a column probability it is random."""
)
@about_an_episode
@click.option("--policy", required=True, metavar="FILE", help="A file; or optimal, observed, random.")
@with_policy_columns
@with_influence
@with_property
@as_json
def evaluate(
    episode: Episode, policy: str, policy_columns: dict[str, str], influence: Any, objective: Any, as_json: bool
) -> None:
    """What to expect of a policy in this episode, exactly.

    The policy is a file, or one of these: optimal (the best for anyone, in the model without the observation),
    observed (what was done), random (any action that is available).
    """
    from tether.cli.screen import progress, put
    from tether.cli.steps_table import legend, steps_table
    from tether.explanation.about_episode import left_to_chance
    from tether.explanation.answer_data import objective_data
    from tether.explanation.sentences import policy_sentences
    from tether.explanation.steps import explained_steps
    from tether.io import open_policy
    from tether.plan.best_values import observed_value
    from tether.plan.in_question import in_question
    from tether.plan.objective import asked

    cf, objective = in_question(episode.replay(), objective)
    with progress() as say:
        say("evaluating the policy")
        world = asked(cf, objective)
        outlook = cf.evaluate(open_policy(policy, cf, columns=policy_columns), influence=influence, objective=objective)
        steps = explained_steps(cf, outlook, world=world)
    seen = observed_value(world)
    if as_json:
        print_json(
            "evaluate",
            **episode.named,
            policy=policy,
            T=cf.T,
            influence=str(influence),
            objective=objective_data(objective)["objective"],
            discount=cf.mdp.discount,
            value=outlook.value,
            std=outlook.std,
            observed_value=seen,
            gain=gain_of(outlook.value, seen),
            outcomes=outlook.outcomes(),
            steps=steps,
            tailoring=outlook.tailoring,
        )
        return
    put(f"{episode.model}: what to expect of the policy {policy}, with the luck of this episode.")
    put(*policy_sentences(cf, outlook, steps, seen, objective), "")
    luck = left_to_chance(asked(cf, objective), outlook.chain)
    put(steps_table(steps, "the policy", luck, episode.name))
    put(legend(steps, objective, luck), style="dim")
