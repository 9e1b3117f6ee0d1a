"""The command line: parse, call, print. It computes nothing itself.

Exit codes: 0 all is well; 1 a check found that a number moved; 2 wrong use or bad input; 130 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tether._version import __version__
from tether.errors import TetherError

__all__ = ["main"]


class _Group(click.Group):
    """Turns the package's own errors into one sentence and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TetherError as error:
            click.echo(f"tether: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tether")
def main() -> None:
    """What should have been done differently, and is that answer still about this episode?"""


@main.command()
def demo() -> None:
    """Show two episodes, what happened, and what should have been done differently."""
    from tether.demo import main as show

    show()


@main.command()
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
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON instead of tables.")
def reproduce(cases: tuple[str, ...], out: Path, sepsis_table: Path | None, check_only: bool, as_json: bool) -> None:
    """Run the paper's experiments and put them beside the published numbers.

    CASE is any of toy, grid_world, epidemic, sepsis, motivation, hidden_diabetes, notions; all by default.
    """
    from tether.reproduce.screen import print_check, run_and_print

    if check_only:
        if not print_check(cases, sepsis_table, as_json):
            raise SystemExit(1)
        return
    run_and_print(cases, out, sepsis_table, as_json)


if __name__ == "__main__":
    main()
