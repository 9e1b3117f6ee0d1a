"""Processes that write without end, for tests that kill them; and what a reader finds meanwhile."""

from __future__ import annotations

import itertools
from pathlib import Path

from tether._foundation.writing import read_together, written, written_into
from tether.errors import FileError


def write_for_ever(folder: str, kind: str, who: int | str) -> None:
    """Write one file, or four with the same content, again and again."""
    for i in itertools.count():
        text = f"{who} {i} " * 1000
        if kind == "file":
            with written(f"{folder}/a") as partial:
                partial.write_text(text)
        else:
            with written_into(folder, last="b") as made:
                for name in "abcd":
                    (made / name).write_text(text)


def version_of(folder: Path, kind: str) -> str:
    """The content of the file, or of the four files, if it is the same in all."""
    files = [folder / name for name in ("a" if kind == "file" else "abcd")]

    def read() -> set[str]:
        try:
            return {file.read_text() for file in files}
        except FileNotFoundError as error:
            raise FileError(str(error)) from None

    found = read() if kind == "file" else read_together(files, read)
    assert len(found) == 1
    text = found.pop()
    version = " ".join(text.split()[:2])
    assert text in (f"{version} " * 1000, "first " * 1000)
    return version
