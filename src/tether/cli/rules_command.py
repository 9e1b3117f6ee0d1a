"""``tether rules``, ``tether evaluate-rule``, ``tether compare``: rules for everybody, and groups compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tether.cli.audit_command import client_of, progress_of
from tether.cli.doing import signals_as_ctrl_c, spoken
from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import ModelOptions, about_a_model, as_json, with_names, with_objective, with_times
from tether.cli.parsing import renamed_columns

if TYPE_CHECKING:
    from tether.objects.rules_object import Rules

F = TypeVar("F", bound=Callable[..., Any])

_LOG_COLUMN = click.option(
    "--log-column", "log_columns", multiple=True, callback=renamed_columns, metavar="OURS=YOURS",
    help="A column of EPISODES that has another name. A state may be made of several: state=sex,age.",
)  # fmt: skip
_BAD = click.option("--bad", multiple=True, metavar="LABEL",
                    help="What counts as a bad end; not with --objective.  [default: the end whose episodes did "
                    "worst]")  # fmt: skip
_WHERE = click.option("--episodes", "where", metavar="CONDITION",
                      help="Which episodes count: 'ward == \"A\" and steps > 5'.")  # fmt: skip


def _about_a_log(command: F) -> F:
    """The options of a log that is replayed."""
    options = [
        click.argument("log", metavar="EPISODES"),
        click.option("-o", "--output", "out", required=True, metavar="DIR", help="The directory for the results."),
        with_objective,
        _BAD,
        _WHERE,
        click.option("--holdout", type=click.FloatRange(0.0, 1.0, max_open=True), default=0.5, show_default=True,
                     help="The share of episodes that does not help to choose."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                     help="Which episodes are held out."),
        _LOG_COLUMN,
        with_times,
        with_names,
        click.option("--workers", type=click.IntRange(min=1),
                     help="How many threads or processes to use.  [default: as many as cores]"),
        click.option("--scheduler", metavar="ADDRESS", help="Let the workers of a Dask cluster replay: tcp://host:8786."),
        click.option("--fresh", is_flag=True, help="Start again, even if DIR contains results."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@command(
    name="rules",
    epilog="""\b
Examples:
  tether rules learned-model log.csv -o rules
  tether rules learned-model log.csv -o rules --most 3 --harm 0.1
  tether rules model.csv log.csv -o rules --condition pressure --depth 2

\b
If it is stopped, the same command continues where it was. At the end DIR has
rules.html (one screen per rule) and rules.parquet (one row per rule).""",
)
@about_a_model
@_about_a_log
@click.option("--condition", "conditions", multiple=True, metavar="NAME",
              help="A state variable or label to search in.  [default: all variables]")  # fmt: skip
@click.option("--edit", "edits", multiple=True, type=click.Choice(["instead", "always", "never"]),
              help="What rules may change.  [default: instead]")  # fmt: skip
@click.option("--depth", type=click.IntRange(min=1), default=1, show_default=True, help="2: also pairs of conditions.")
@click.option("--most", type=click.IntRange(min=1), default=1, show_default=True, help="How many rules may be chosen.")
@click.option("--harm", type=click.FloatRange(0.0, 1.0),
              help="Only rules that harm at most this share of the episodes that they touch.")  # fmt: skip
@click.option("--by", metavar="COLUMN", help="Also compare the groups of this column of EPISODES.")
@as_json
def rules(
    source: ModelOptions,
    log: str,
    out: str,
    conditions: tuple[str, ...],
    edits: tuple[str, ...],
    depth: int,
    most: int,
    harm: float | None,
    by: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Which rule for everybody would have helped most?

    It also says whom the rule would have harmed.

    EPISODES is a table, as for tether learn. Rules are chosen on one part of it and reported on the other; everyone
    whom a rule touches counts, also those who ended well.
    """
    from tether.objects.rules_object import rules as ask

    options = {
        "conditions": list(conditions) or None,
        "edits": list(edits) or None,
        "depth": depth,
        "most": most,
        "harm": harm,
    }
    mdp, reading = _opened(source, log, given)
    compared = None
    if by is not None:  # first, for it is fast: a wrong column is not noticed only after the search
        from tether.cli.pipes import input_file
        from tether.objects.rules_object import compare as compare_log

        same = {name: given[name] for name in ("objective", "minimise", "where")}
        compared = compare_log(input_file(log, "EPISODES"), by, mdp=mdp, bad=given["bad"] or None, **same, **reading)
    found = _ask("rules", ask, mdp, log, out, given, {**reading, **options})
    _show("rules", found, source, log, out, as_json, compared)


@command(
    name="evaluate-rule",
    epilog="""\b
Example:
  tether evaluate-rule ward log.csv -o rule --where "bp = low" --do treat""",
)
@about_a_model
@_about_a_log
@click.option("--where", "condition", required=True, metavar="CONDITION",
              help="In which states: 'heart rate = low', a label, or a state; several joined by and.")  # fmt: skip
@click.option("--instead-of", metavar="ACTION", help="What is not done any more.  [default: anything else]")
@click.option("--do", "do", metavar="ACTION", help="What is done.  [default: whatever else is usual]")
@as_json
def evaluate_rule(
    source: ModelOptions,
    log: str,
    out: str,
    condition: str,
    instead_of: str | None,
    do: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Judge one rule of your own on everyone whom it touches in a log."""
    from tether.objects.rules_object import evaluate_rules
    from tether.ruling.one_rule import rule

    own = rule(condition, instead_of=instead_of, do=do)
    mdp, reading = _opened(source, log, given)
    found = _ask("evaluate-rule", evaluate_rules, mdp, log, out, given, {**reading, "rules": [own]})
    _show("evaluate-rule", found, source, log, out, as_json, None)


@command(name="compare", epilog="""\b
Example:
  tether compare learned-model log.csv --by ward""")  # fmt: skip
@about_a_model
@click.argument("log", metavar="EPISODES")
@click.option("--by", required=True, metavar="COLUMN", help="A column of EPISODES: one value for each episode.")
@with_objective
@_BAD
@_WHERE
@_LOG_COLUMN
@with_times
@with_names
@as_json
def compare(
    source: ModelOptions, log: str, by: str, objective: Any, minimise: bool, bad: tuple[str, ...], where: str | None,
    log_columns: dict[str, str], time: str | None, step: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare groups of episodes: outcomes, mistakes, luck.

    Also what is left of a difference after the case mix of the groups.
    """
    from tether.cli.pipes import input_file
    from tether.cli.screen import put
    from tether.io.opening import must_exist
    from tether.objects.rules_object import compare as ask

    file = input_file(log, "EPISODES")
    must_exist(file)
    own, of_log = source.split_columns()
    mdp = replace(source, columns=own).open()
    with progress_of(f"comparing {log}", None) as tell:
        found = ask(
            file, by, mdp=mdp, objective=objective, minimise=minimise, bad=bad or None, where=where,
            columns={**of_log, **log_columns} or None, time=time, step=step, progress=tell,
        )  # fmt: skip
    if as_json:
        groups = found.to_arrow().to_pylist()
        print_json("compare", model=source.model, log=log, by=by, groups=groups, sentences=found.sentences())
        return
    put(*found.sentences())


def _opened(source: ModelOptions, log: str, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The model, and how the log is read."""
    from tether.cli.pipes import input_file
    from tether.io.opening import must_exist

    click.get_current_context().with_resource(signals_as_ctrl_c())
    file = input_file(log, "EPISODES")
    must_exist(file)
    own, of_log = source.split_columns()
    mdp = replace(source, columns=own).open()
    columns = {**of_log, **given.pop("log_columns")} or None
    return mdp, {"columns": columns, "time": given.pop("time"), "step": given.pop("step")}


def _ask(
    name: str, ask: Callable[..., Rules], mdp: Any, log: str, out: str, given: dict[str, Any], options: dict[str, Any]
) -> Rules:
    """Ask, and show the progress."""
    from tether.cli.pipes import input_file

    scheduler, bad = given.pop("scheduler"), given.get("bad")
    with client_of(scheduler) as client, progress_of(f"{name}: {log}", given["fresh"]) as tell:
        return ask(
            mdp,
            input_file(log, "EPISODES"),
            **{**given, **options, "bad": bad or None, "out": out, "client": client, "progress": tell},
        )


def _show(name: str, found: Rules, source: ModelOptions, log: str, out: str, as_json: bool, compared: Any) -> None:
    from tether.cli.screen import put
    from tether.io.arrowfiles import write_arrow

    page = found.report(Path(out) / "rules.html", about={"model file": source.model, "log file": log}, nouns=spoken())
    write_arrow(found.table, Path(out) / "rules.parquet", "parquet")
    sentences = [*found.sentences(), *([] if compared is None else compared.sentences())]
    if as_json:
        print_json(
            name, model=source.model, log=log, output=out, page=str(page), rules=found.table.to_pylist(),
            chosen=[str(one.rule) for one in found.chosen], shares=list(found.shares), searched=found.searched,
            placebo=found.placebo, broken=found.broken, sentences=sentences,
        )  # fmt: skip
        return
    put(*sentences)
    put(f"Written to {out}: rules.html, rules.parquet.")
