"""``tether audit``: the same question for every episode of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tether.cli.doing import note_continued, note_doing, signals_as_ctrl_c, spoken
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import (
    ModelOptions,
    PlanOptions,
    about_a_model,
    as_json,
    who_acts,
    with_certificate,
    with_hiding,
    with_horizon,
    with_limits,
    with_names,
    with_policy_columns,
    with_times,
)
from tether.cli.parsing import refuse_columns_alone, renamed_columns


@command(
    epilog="""\b
Examples:
  tether audit learned-model log.csv -o audit
  tether audit learned-model log.csv -o audit -k 3 -m 2 --workers 4
  tether audit learned-model log.csv -o died --episodes 'outcome == "died"'
  tether audit model.csv log-parts/ -o audit --policy policy.csv

\b
If it is stopped, the same command continues where it was. At the end DIR
contains audit.html (the overview), episodes.parquet (one row per episode),
decisions.parquet, outcomes.parquet, and the reports of the top episodes."""
)
@about_a_model
@click.argument("log", metavar="EPISODES")
@click.option("-o", "--output", "out", required=True, metavar="DIR", help="The directory for the results.")
@with_limits
@click.option("--policy", metavar="FILE", help="Evaluate a policy instead: a file; or optimal, observed, random.")
@with_policy_columns
@click.option("--episodes", "where", metavar="CONDITION",
              help="Which episodes to ask about: 'outcome == \"died\" and steps > 5'. It may use episode, "
              "steps, observed, logged and outcome.")  # fmt: skip
@click.option("--log-column", "log_columns", multiple=True, callback=renamed_columns, metavar="OURS=YOURS",
              help="A column of EPISODES that has another name. A state may be made of several: "
              "state=sex,age. If MODEL is no table, --column does the same.")  # fmt: skip
@with_times
@with_horizon
@with_certificate
@click.option(
    "--draws", type=click.IntRange(min=2), help="For a learned model: how many models to draw for credible intervals."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="The seed of the draws, the folds and the placebos.")  # fmt: skip
@click.option("--folds", type=click.IntRange(min=0), metavar="N",
              help="For a learned model: plans are chosen and valued by models of different folds of the log, which "
              "have not seen the episode; 0 for one model that does both.  [default: 2]")  # fmt: skip
@click.option("--gamma", type=click.FloatRange(min=1.0), metavar="TIMES",
              help="Say how many gains survive hidden causes that changed the odds of an action so much.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="How many processes to use.  [default: as many as cores]")
@click.option("--scheduler", metavar="ADDRESS", help="Let the workers of a Dask cluster answer: tcp://host:8786.")
@click.option("--reports", type=click.IntRange(min=0), metavar="N",
              help="How many of the top episodes get a report of their own.  [default: 10, policy: 0]")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Start again, even if DIR contains results.")
@click.option("--strict", is_flag=True, help="Stop at the first batch with an episode that cannot be answered.")
@with_names
@with_hiding
@as_json
def audit(
    source: ModelOptions,
    log: str,
    out: str,
    limits: PlanOptions,
    policy: str | None,
    policy_columns: dict[str, str],
    log_columns: dict[str, str],
    horizon: int | None,
    then: str,
    certificate: bool,
    draws: int | None,
    scheduler: str | None,
    reports: int | None,
    fresh: bool,
    hide_ids: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer the same question for every episode of a log.

    EPISODES is a table, as for tether learn, or a directory of Parquet files. For each episode
    the best plan within k and m is found, or the policy is evaluated. Broken episodes are listed with the reason.

    MODEL may be a directory with the models of several types: the plans are then for somebody who does not see the
    type, and DIR has episodes.parquet alone.
    """
    from tether.cli.explaining_types import audit_types
    from tether.cli.pipes import input_file
    from tether.cli.screen import progress, put
    from tether.io.opening import must_exist
    from tether.io.policies import open_policy
    from tether.io.typed_models import is_types
    from tether.objects.audit_object import audit as ask

    click.get_current_context().with_resource(signals_as_ctrl_c())
    file = input_file(log, "EPISODES")
    must_exist(file)
    refuse_columns_alone(policy, policy_columns)
    if policy is not None and reports:
        raise click.UsageError("--reports writes reports of plans; with --policy there are none")
    own, of_log = source.split_columns()
    source, log_columns = replace(source, columns=own), {**of_log, **log_columns}
    if is_types(source.model):
        refused = {"--policy": policy, "--horizon": horizon, "--then": then != "best", "--draws": draws}
        refused |= {"--scheduler": scheduler, "--reports": reports, "--fresh": fresh, "--hide-ids": hide_ids}
        refused |= {f"--{name}": given.pop(name) for name in ("folds", "workers", "seed")}
        refused["--episodes"] = given.pop("where")
        with progress_of(f"auditing {log}", None) as tell:
            given |= {"certify": certificate, "columns": log_columns or None, "progress": tell}
            audit_types(source, file, out, limits, given, as_json, refused)
        return
    mdp = source.open()
    with client_of(scheduler) as client, progress_of(f"auditing {log}", fresh) as tell:
        found = ask(
            mdp,
            file,
            limits.k,
            limits.m,
            **limits.tethering,
            **limits.judging,
            horizon=horizon,
            then=who_acts(then, mdp),
            **limits.advising(mdp),
            certify=certificate,
            out=out,
            client=client,
            policy=None if policy is None else open_policy(policy, mdp, columns=policy_columns),
            draws=draws or 0,
            fresh=fresh,
            columns=log_columns or None,
            progress=tell,
            **given,
        )
    page = Path(out) / "audit.html"
    with progress() as say:
        say(f"writing {page}, and the reports of the top episodes")
        found.report(
            page,
            reports=reports,
            about={"model file": source.model, "log file": log},
            nouns=spoken(),
            hide_ids=hide_ids,
        )
    if as_json:
        print_json(
            "audit",
            model=source.model,
            log=log,
            output=out,
            page=str(page),
            question=found.question,
            episodes=len(found),
            problems=found.summary.episodes - found.summary.answered,
            placebo=None if found.placebo is None else found.placebo.to_dict(),
            outcomes=found.outcomes.to_pylist(),
            sentences=found.sentences(),
        )
        return
    put(*found.sentences())
    put(f"Written to {out}: audit.html, episodes.parquet, decisions.parquet, outcomes.parquet.")


@contextmanager
def client_of(scheduler: str | None) -> Iterator[Any]:
    if scheduler is None:
        yield None
        return
    from tether.auditing.cluster import connect

    client = connect(scheduler)
    try:
        yield client
    finally:
        client.close(timeout=2)


@contextmanager
def progress_of(doing: str, fresh: bool | None) -> Iterator[Callable[[int, int], None]]:
    """A bar with a rate and the time left, on standard error and only in a terminal; and a note that parts are kept.

    ``fresh`` is whether the work begins again; None if nothing of it is kept.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    def kept(_done: int, _rows: int) -> None:
        if fresh is not None:
            note_continued("the same command without --fresh" if fresh else "the same command")

    note_doing(doing)
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        yield kept
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(doing, total=None, rate="the first audit compiles code, once")

        def tell(done: int, rows: int) -> None:
            kept(done, rows)
            speed: Any = bar.tasks[0].speed
            rate = f"{speed:,.0f} rows per second" if speed else ""
            bar.update(task, completed=done, total=rows, rate=rate)

        yield tell
