"""``tether report``: the answer as one HTML file that can be mailed."""

from __future__ import annotations

from pathlib import Path

import click

from tether.cli.doing import spoken
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import (
    Episode,
    PlanOptions,
    about_an_episode,
    as_json,
    with_certificate,
    with_draws,
    with_hiding,
    with_limits_and_risk,
)


@command(
    epilog="""\b
Examples:
  tether report case:sepsis -k 8 -m 3 -o patient.html
  tether report case:hidden-diabetes -m 2 -o patient.html
  tether report model.csv path.csv -k 3 -m 2 --title "Ward 7, bed 2\""""
)
@with_limits_and_risk
@about_an_episode
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="report.html",
    show_default=True,
    help="Where to write it.",
)
@click.option("--title", help="The title of the page.")
@click.option("--features", metavar="NAMES", help="Parts of the states to draw over time: S,I.  [default: all]")
@with_hiding
@with_draws
@with_certificate
@as_json
def report(
    episode: Episode,
    limits: PlanOptions,
    output: Path,
    title: str | None,
    features: str | None,
    hide_ids: bool,
    draws: int | None,
    seed: int,
    certificate: bool,
    as_json: bool,
) -> None:
    """Write the answer as one HTML file, with figures.

    The file needs no network and has no script. Without -k, the report is about the plan of `tether explain`.

    MODEL may be a directory with the models of several types: the page is then for somebody who does not see the type.
    """
    from tether.cli.explaining_types import about_types, report_types
    from tether.cli.screen import progress, put
    from tether.explanation.answer_data import plan_data
    from tether.views.report import report as write

    if about_types(episode, {}, None):
        refused = {"--features": features, "--draws": draws, "--hide-ids": hide_ids}
        report_types(episode, limits, output, title, certificate, as_json, refused)
        return
    nouns = spoken()
    cf = episode.replay()
    plan = limits.plan(cf, every_k=True)
    with progress() as say:
        say(f"writing {output}")
        write(
            plan,
            output,
            title=title or episode.title(nouns.episode, hide_ids),
            nouns=nouns,
            action_name=episode.name,
            features=None if features is None else [name.strip() for name in features.split(",")],
            certificate=certificate,
            draws=draws,
            rng=seed,
            about={
                "model file": episode.model,
                "path file": episode.path_source.partition("#")[0] if hide_ids else episode.path_source,
            },
        )
    size = output.stat().st_size
    if as_json:
        print_json(
            "report",
            **episode.named,
            **plan_data(plan),
            value=plan.value,
            observed_value=plan.observed_value,
            file=str(output),
            bytes=size,
        )
    else:
        put(f"k = {plan.k}, m = {plan.m}. Written to {output} ({size / 1000:.0f} kB).")
