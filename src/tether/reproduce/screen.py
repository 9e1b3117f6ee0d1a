"""What `tether reproduce` shows in the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from tether.errors import QueryError
from tether.reproduce.compare import compact
from tether.reproduce.page import check_writable, write
from tether.reproduce.records import Section, Table
from tether.reproduce.study import CASES, check, reproduce
from tether.reproduce.verdicts import figure_verdicts, footnotes, summary

__all__ = ["print_check", "run_and_print"]


def print_check(cases: Iterable[str], sepsis_table: Path | None, as_json: bool) -> bool:
    """Check the exact numbers and print the result; True if none has changed."""
    if list(cases):
        raise QueryError("--check checks every number; it takes no CASE")
    moved = check(sepsis_table, every_section=True)
    console = Console(highlight=False)
    if as_json:
        console.print(msgspec.json.encode({"moved": moved}).decode(), soft_wrap=True, markup=False)
    elif moved:
        for sentence in moved:
            console.print(sentence, style="bold")
    else:
        console.print("No number has moved.")
    return not moved


def run_and_print(cases: tuple[str, ...], out: Path, sepsis_table: Path | None, as_json: bool) -> None:
    """Compute, write and print; progress goes to standard error."""
    for name in cases:
        if name not in CASES:
            raise QueryError(f"there is no case {name!r}; there are {', '.join(CASES)}")
    check_writable(out)
    progress = Console(stderr=True)
    start = time.perf_counter()
    with progress.status("computing …") as status:
        study = reproduce(cases, sepsis_table, lambda name: status.update(f"computing {name} …"))
        files = write(study, out, lambda name: status.update(f"drawing {name} …"))
    total = time.perf_counter() - start
    console = Console(highlight=False)
    if as_json:
        console.print((out / "numbers.json").read_text(encoding="utf-8"), soft_wrap=True, markup=False)
        return
    verdicts = figure_verdicts(study.sections)
    if verdicts:
        console.print(_grid(summary(verdicts)))
        for reason, number in footnotes(verdicts).items():
            console.print(f"[{number}] {reason}.", markup=False)
    for section in study.sections if cases else ():
        _show(console, section)
    if not cases:
        console.print("For the numbers of one case, name it: tether reproduce grid_world. All of them are on the page.")
    console.print(
        f"Computed in {study.seconds:.1f} s, with drawing {total:.1f} s: {files[0]} and {len(files) - 1} more files beside it"
    )


def _show(console: Console, section: Section) -> None:
    console.print(f"\n[bold]{section.title}[/]  ({section.seconds:.2f} s)")
    for paragraph in section.text:
        console.print(paragraph, markup=False)
    if any(comparison.published is not None for comparison in section.comparisons):
        console.print(_grid(compact(section.comparisons, footnotes(figure_verdicts([section])))))
    else:
        for table in section.tables:
            console.print(_grid(table))


def _grid(table: Table) -> Grid:
    grid = Grid(title=table.title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for i, column in enumerate(table.columns):
        words = any(character.isalpha() for row in table.rows for character in row[i])
        grid.add_column(column, justify="left" if words else "right")
    for row in table.rows:
        grid.add_row(*row)
    return grid
