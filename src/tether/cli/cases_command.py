"""``tether cases``: the embedded models, listed or written out as files."""

from __future__ import annotations

from pathlib import Path

import click

from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import as_json


@command(
    epilog="""\b
Examples:
  tether cases
  tether cases epidemic outbreak
  tether check outbreak/model.csv outbreak/path.csv"""
)
@click.argument("name", required=False)
@click.argument("out", required=False)
@as_json
def cases(name: str | None, out: str | None, as_json: bool) -> None:
    """List the embedded cases; or write one as files that you can read and change.

    Writes OUT/model.csv, OUT/path.csv and one file per other path. OUT must be empty, or not exist.
    """
    if name is None:
        _list(as_json)
        return
    if out is None:
        from tether.io.embedded import PREFIX, find_case, is_typed_case

        if not is_typed_case(PREFIX + name.removeprefix(PREFIX)):
            find_case(name)  # an unknown case is reported first
        raise click.UsageError(f"OUT is missing: the directory to write the case {name} to.")
    _export(name, Path(out), as_json)


def _list(as_json: bool) -> None:
    from tether.cli.screen import plain_table, progress, put
    from tether.io.caselist import cases as listed

    with progress() as say:
        say("building the cases")
        entries = listed()
    if as_json:
        print_json("cases", cases=entries, files=[])
        return
    table = plain_table("case", "states", "actions", "paths", right=[1, 2])
    for case in entries:
        sizes = ("–", "–") if case.states is None else (f"{case.states:,}", f"{case.actions:,}")
        paths = case.missing or ", ".join(f"{path} ({steps} steps)" for path, steps in case.paths.items())
        table.add_row(f"case:{case.name}", *sizes, paths)
        table.add_row("", "", "", case.about, style="dim")
        for path, story in case.stories.items():
            table.add_row("", "", "", story if len(case.stories) == 1 else f"{path}: {story}", style="dim")
        if case.words:
            actions = "; ".join(f"{action}: {words}" for action, words in case.words.items())
            table.add_row("", "", "", f"Actions: {actions}.", style="dim")
    put(table)


def _export(name: str, out: Path, as_json: bool) -> None:
    from tether.cli.screen import progress, put
    from tether.io.caselist import case_entry, write_case

    with progress() as say:
        say(f"writing {out}")
        files = write_case(name, out)
    if as_json:
        plain = name.removeprefix("case:")
        print_json("cases", cases=[case_entry(plain)], files=[str(out / file) for file in files])
        return
    put(f"Written to {out}: {', '.join(files)}.", f"Try: tether explain {out / files[0]} {out / files[1]}")
