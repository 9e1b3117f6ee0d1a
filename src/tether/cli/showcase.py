"""``tether demo`` and ``tether reproduce``: two episodes, and the paper's experiments."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from tether.cli.answers import Answer, print_json
from tether.cli.explain import ExplainAnswer, explanation_answer
from tether.cli.options import as_json

__all__ = ["DemoAnswer", "demo", "reproduce"]


class StoryAnswer(msgspec.Struct):
    """An episode of the demonstration; its states are written as the demonstration shows them."""

    title: str
    explanations: list[ExplainAnswer]


class DemoAnswer(Answer, kw_only=True):
    """What ``tether demo --json`` prints."""

    stories: list[StoryAnswer]


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

    if not as_json:
        shown.main()
        return
    told = []
    for story, source in zip(shown.stories(), ("case:epidemic", "case:sepsis"), strict=True):
        told.append(StoryAnswer(story.title, [explanation_answer(one, source, source) for one in story.explanations()]))
    print_json(DemoAnswer(command="demo", stories=told))


@click.command(
    epilog="""\b
Examples:
  tether reproduce
  tether reproduce toy epidemic --out paper
  tether reproduce --check"""
)
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tether-reproduction"),
    show_default=True,
    help="Directory for the page, figures and numbers.",
)
@click.option(
    "--sepsis-table", type=click.Path(path_type=Path), help="A copy of the sampled table (.npz, array tx_mat)."
)
@click.option("--check", "check_only", is_flag=True, help="Only check that no exact number has moved; write nothing.")
@as_json
def reproduce(cases: tuple[str, ...], out: Path, sepsis_table: Path | None, check_only: bool, as_json: bool) -> int:
    """The paper's experiments, beside the published numbers.

    CASE is any of toy, grid_world, epidemic, sepsis, motivation, hidden_diabetes, notions; all by default. With
    --check, exit code 1 if a number has moved.
    """
    from tether.reproduce.screen import print_check, run_and_print

    if check_only:
        return 0 if print_check(cases, sepsis_table, as_json) else 1
    run_and_print(cases, out, sepsis_table, as_json)
    return 0
