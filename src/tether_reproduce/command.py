"""The command ``tether reproduce``. The program itself is imported when it runs: ``tether --help`` loads only this."""

from __future__ import annotations

from pathlib import Path

import click

from tether.errors import QueryError


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
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def reproduce(cases: tuple[str, ...], out: Path, sepsis_table: Path | None, check_only: bool, as_json: bool) -> int:
    """Published experiments, the paper's and others, beside the published numbers.

    CASE is any of toy, grid_world, epidemic, sepsis, motivation, hidden_diabetes, notions; of other papers robust,
    few_changes, off_policy; all by default. With --check, exit code 1 if a number has changed.
    """
    from tether_reproduce.terminal import print_check, run_and_print

    if not check_only:
        run_and_print(cases, out, sepsis_table, as_json)
        return 0
    if cases:
        raise QueryError("--check checks every number; it takes no CASE")
    return print_check(sepsis_table, as_json)
