"""``tether cases``: the embedded models, listed or written out as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tether.cli.answers import print_json
from tether.cli.options import as_json

if TYPE_CHECKING:
    from tether.cases import Case

__all__ = ["cases"]


@dataclass(frozen=True)
class CaseEntry:
    """A case; ``paths`` maps what to write as PATH to its number of steps. ``missing`` says what it would need."""

    name: str
    about: str
    states: int | None
    actions: int | None
    paths: dict[str, int]
    missing: str | None


@click.command(
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
    """List the embedded cases; or write one out, as files to look at and to change.

    Writes OUT/model.csv and OUT/path.csv, and a file for every further path. OUT must not exist, or be empty.
    """
    if name is None:
        _list(as_json)
        return
    if out is None:
        raise click.UsageError(f"OUT is missing: the directory to write the case {name} to.")
    _export(name, Path(out), as_json)


def _list(as_json: bool) -> None:
    from tether.cli.screen import grid, progress, put
    from tether.io.sources import case_names

    with progress() as say:
        say("building the cases")
        told = [_look(name) for name in case_names()]
    if as_json:
        print_json("cases", cases=told, files=[])
        return
    table = grid("case", "states", "actions", "paths", right=[1, 2])
    for case in told:
        sizes = ("–", "–") if case.states is None else (f"{case.states:,}", f"{case.actions:,}")
        paths = case.missing or ", ".join(f"{path} ({steps} steps)" for path, steps in case.paths.items())
        table.add_row(f"case:{case.name}", *sizes, paths)
        table.add_row("", "", "", case.about, style="dim")
    put(table)


def _look(name: str) -> CaseEntry:
    from tether.errors import QueryError
    from tether.io.embedded import about_case, open_case, path_names

    try:
        case, _ = open_case(f"case:{name}")
    except QueryError as error:  # what it needs is not installed
        return CaseEntry(name, about_case(name), None, None, {}, str(error))
    paths = {source: case.paths[path].T for source, path in path_names(name, case).items()}
    return CaseEntry(name, about_case(name), case.mdp.n_states, case.mdp.n_actions, paths, None)


def _export(name: str, out: Path, as_json: bool) -> None:
    from tether._writing import written
    from tether.cli.screen import progress, put
    from tether.errors import FileError
    from tether.io.sources import open_case

    case, _ = open_case(name if name.startswith("case:") else f"case:{name}")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise FileError(f"{out}: it exists and is not an empty directory; choose another name, or remove it first")
    with progress() as say, written(out) as partial:
        say(f"writing {out}")
        partial.mkdir()
        files = _write(case, partial)
    if as_json:
        plain = name.removeprefix("case:")
        print_json("cases", cases=[_look(plain)], files=[str(out / file) for file in files])
        return
    put(f"Written to {out}: {', '.join(files)}.", f"Try: tether explain {out / files[0]} {out / files[1]}")


def _write(case: Case, folder: Path) -> list[str]:
    from tether.io.models import write_model
    from tether.io.paths import write_path

    write_model(case.mdp, folder / "model.csv")
    files = ["model.csv"]
    for i, (name, path) in enumerate(case.paths.items()):
        file = "path.csv" if i == 0 else f"path-{name.replace(' ', '-')}.csv"
        write_path(path, folder / file)
        files.append(file)
    return files
