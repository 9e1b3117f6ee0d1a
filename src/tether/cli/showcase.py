"""``tether demo`` and ``tether reproduce``: two episodes, and published experiments."""

from __future__ import annotations

from pathlib import Path

import click

from tether.cli.answers import print_json
from tether.cli.options import as_json

__all__ = ["demo", "reproduce"]


@click.command(
    epilog="""\b
Example:
  tether demo"""
)
@as_json
def demo(as_json: bool) -> None:
    """Two episodes, and what should have been done differently.

    Leaves a report of each in tether-demo/, to open in a browser.
    """
    from tether.cli import demo as shown
    from tether.explanation.answers import explanation_data

    if not as_json:
        shown.main()
        return
    stories = []
    for story, source in zip(shown.stories(), ("case:epidemic", "case:sepsis"), strict=True):
        named = {"model": source, "path": source}
        stories.append(
            {"title": story.title, "explanations": [named | explanation_data(one) for one in story.explanations()]}
        )
    print_json("demo", stories=stories)


@click.command(
    epilog="""\b
Examples:
  tether reproduce
  tether reproduce toy epidemic --out paper
  tether reproduce --check"""
)
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tether-reproduction"),
    show_default=True,
    help="Directory for the page, figures and numbers.",
)
@click.option(
    "--sepsis-table", type=click.Path(path_type=Path), help="A copy of the sampled table (.npz, array tx_mat)."
)
@click.option("--check", "check_only", is_flag=True, help="Only check the exact numbers; write nothing.")
@as_json
def reproduce(cases: tuple[str, ...], out: Path, sepsis_table: Path | None, check_only: bool, as_json: bool) -> int:
    """Published experiments, the paper's and others, beside the published numbers.

    CASE is any of toy, grid_world, epidemic, sepsis, motivation, hidden_diabetes, notions; of other papers robust,
    few_changes, off_policy; all by default. With --check, exit code 1 if a number has changed.
    """
    from tether.reproduce.screen import print_check, run_and_print

    if check_only:
        return 0 if print_check(cases, sepsis_table, as_json) else 1
    run_and_print(cases, out, sepsis_table, as_json)
    return 0
