"""Processes that write without end, for tests that kill them; and what a reader finds meanwhile."""

from __future__ import annotations

import itertools
from pathlib import Path

from tether._foundation import writing
from tether._foundation.writing import read_together, written, written_into
from tether.errors import FileError


def write_for_ever(folder: str, kind: str, exchange: str, who: int | str) -> None:
    """Write four files with the same content, again and again: as one directory, or each into an existing one."""
    if exchange == "no":
        writing._exchanger = lambda: None
    for i in itertools.count():
        with written(f"{folder}/model") if kind == "directory" else written_into(folder) as made:
            made.mkdir(exist_ok=True)
            for name in "abcd":
                (made / name).write_text(f"{who} {i}")


def place_of(folder: Path, kind: str) -> Path:
    return folder / "model" if kind == "directory" else folder


def version_of(place: Path) -> str:
    """The content of the four files, if it is the same in all."""

    def read() -> set[str]:
        try:
            return {(place / name).read_text() for name in "abcd"}
        except FileNotFoundError as error:
            raise FileError(str(error)) from None

    found = read_together([place / name for name in "abcd"] + [place], read)
    assert len(found) == 1
    return found.pop()
