"""``tether check``: is this model sound, is this path possible in it, and what is there?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether.cli.helping import command
from tether.cli.hints import hints
from tether.cli.json_output import print_json
from tether.cli.options import Episode, about_a_record, as_json, with_influence

if TYPE_CHECKING:
    from rich.table import Table

    from tether.conditioning.counterfactual_record import CounterfactualRecord
    from tether.influence.coverage import Coverage
    from tether.io.checking import Check

_SHOWN = 100


@command(
    epilog="""\b
Examples:
  tether check model.csv
  tether check model.csv path.csv
  tether check case:sepsis"""
)
@about_a_record
@with_influence
@as_json
def check(episode: Episode, influence: Any, as_json: bool) -> int:
    """Is this model sound, and is this path possible in it?

    Prints sizes, sparsity and absorbing states. With a path: how many states can be reached from its start, and how
    many state-action pairs it influences. All problems are listed at once, with their lines. The exit code is 1 if
    there are any, and 2 if a file does not exist.
    """
    report = _look(episode, influence)
    if as_json:
        print_json("check", **_answer(episode, report))
    else:
        _print(episode, report)
    return 1 if report.problems else 0


def _look(episode: Episode, influence: Any) -> Check:
    from tether.io.checking import check_opened
    from tether.io.models import format_by_suffix

    alone = episode.path is None and not episode.model.startswith("case:")
    if alone:
        episode.refuse_options_of_path()
    path = None if alone else episode.open_path
    format = episode.format or format_by_suffix(episode.file)
    return check_opened(episode.open, path, episode.replay, influence, format)


def _print(episode: Episode, report: Check) -> None:
    from tether._foundation.words import counted, shown
    from tether.cli.screen import plain_table, put

    if report.mdp is not None:
        put(f"{episode.model}: a sound model.", "")
        table = plain_table("", "", header=False)
        for name, text in report.mdp.describe().facts():
            table.add_row(name, text)
        put(table)
        if report.mdp.learned is not None:
            put("", *report.mdp.learned.details(shown))
        put(*[line for note in report.notes for line in ("", note)])
    if report.coverage is not None and report.cf is not None:
        put("", *_path_lines(episode, report.cf, report.coverage), "")
        put(_coverage_table(report.coverage))
    if report.problems:
        put(*([""] if report.mdp is not None else []), f"{counted(report.total, 'problem')}:")
        listed = report.problems[:_SHOWN]
        put(*(f"- {problem.message}" for problem in listed))
        if report.total > len(listed):
            put(f"… and {report.total - len(listed):,} more")
        put(*hints(listed))


def _path_lines(episode: Episode, cf: CounterfactualRecord, coverage: Coverage) -> list[str]:
    from tether._foundation.words import counted, number
    from tether.plan.best_values import observed_value

    likely = coverage.likelihood[~np.isnan(coverage.likelihood)].prod()
    ended = "" if cf.path.last_recorded else "; the last outcome is not recorded"
    return [
        f"{episode.path_source}: a possible episode of {counted(cf.T, 'step')}, return "
        f"{number(observed_value(cf))}{ended}. The model gives what happened, under these actions, a probability of "
        f"{likely:.3g}.",
        f"Its start can reach {counted(coverage.ever, 'state')} of {cf.mdp.n_states:,}. Of the state–action pairs it "
        f"can come to, {_share(coverage)} are known ground, where the episode tells how chance would have fallen.",
    ]


def _share(coverage: Coverage) -> str:
    share = 100 * coverage.influenced.sum() / coverage.pairs.sum()
    return f"{share:.3g} %"


def _coverage_table(coverage: Coverage) -> Table:
    from tether.cli.screen import plain_table

    table = plain_table("t", "states reached", "pairs there", "known ground", "chance of what happened", right=range(5))
    for t, states in enumerate(coverage.states):
        if t == coverage.pairs.size:
            table.add_row(str(t), f"{states:,}", "", "", "")
            continue
        likely = coverage.likelihood[t]
        table.add_row(
            str(t),
            f"{states:,}",
            f"{coverage.pairs[t]:,}",
            f"{coverage.influenced[t]:,}",
            "not recorded" if np.isnan(likely) else f"{likely:.3g}",
        )
    return table


def _answer(episode: Episode, report: Check) -> dict[str, Any]:
    return {
        "model": episode.model,
        "path": None if episode.path is None and not episode.model.startswith("case:") else episode.path_source,
        "sound": not report.problems,
        "total_problems": report.total,
        "problems": report.problems,
        "notes": report.notes,
        "description": None if report.mdp is None else report.mdp.describe(),
        "T": None if report.cf is None else report.cf.T,
        "coverage": report.coverage,
    }
