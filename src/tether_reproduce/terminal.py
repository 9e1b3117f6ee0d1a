"""What ``tether reproduce`` shows in the terminal."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from tether_reproduce.exact_numbers import check
from tether_reproduce.findings import Section, Table, comparison_table, figure_verdicts, footnotes, summary, together
from tether_reproduce.study import named_cases, reproduce
from tether_reproduce.study_page import check_writable, write


def print_check(sepsis_table: Path | None, as_json: bool) -> int:
    """Check the exact numbers and print which have changed; the exit code is 1 if one has."""
    moved = check(sepsis_table, every_section=True)
    console = Console(highlight=False)
    if as_json:
        console.print(msgspec.json.encode({"moved": moved}).decode(), soft_wrap=True, markup=False)
        return int(bool(moved))
    for sentence in moved:
        console.print(sentence, style="bold", markup=False)
    if not moved:
        console.print("No number has moved.")
    return int(bool(moved))


def run_and_print(cases: tuple[str, ...], out: Path, sepsis_table: Path | None, as_json: bool) -> None:
    """Compute, write and print; progress goes to standard error."""
    wanted = named_cases(cases)  # an unknown name is reported first
    check_writable(out)
    start = time.perf_counter()
    with Console(stderr=True).status("computing …") as status:
        study = reproduce(wanted, sepsis_table, lambda name: status.update(f"computing {name} …"))
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
        for sentence in together(study.sections):
            console.print(sentence, markup=False)
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
    if section.published:
        console.print(_grid(comparison_table(section.published, footnotes(figure_verdicts([section])))))
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
