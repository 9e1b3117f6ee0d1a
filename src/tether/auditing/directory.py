"""The directory of an audit: what was asked, the parts that are done, and the tables at the end.

::

    audit.json            what was asked, of which model and log; and whether all is done
    parts/000000.parquet  the answers to a batch, by index; each appears when it is complete
    episodes.parquet      the tables, which appear when all batches are done; the parts are then removed
    decisions.parquet
    outcomes.parquet

A process may be stopped at any moment: the next one continues with the missing batches. Only one process at a time
works in a directory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tether._foundation.writing import written, written_into
from tether._version import __version__
from tether.auditing.answers import Answers
from tether.auditing.tables import TableMaker, Tally
from tether.errors import FileError, Problem

__all__ = ["TABLES", "Directory", "opened_directory"]

TABLES = ("episodes", "decisions", "outcomes")
_ABOUT, _PARTS, _LOCK = "audit.json", "parts", ".lock"
_ROWS = 1 << 16
"""How many rows of the table of episodes are written at once."""

_CHANGED = {
    "model": "the model is another one",
    "log": "the log is another one, or changed",
    "question": "another question was asked",
    "version": "another version of tether made it",
}


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that this process alone works in.

    Attributes
    ----------
    place : Path
    about : dict
        What was asked, with digests of the model and the log.
    complete : bool
        Whether all was done before.
    """

    place: Path
    about: dict[str, Any]
    complete: bool

    def done(self) -> set[int]:
        """The batches whose answers are there."""
        return {int(file.stem) for file in (self.place / _PARTS).glob("*.parquet") if file.stem.isdigit()}

    def part(self, number: int) -> Path:
        """The file of a batch."""
        return self.place / _PARTS / f"{number:06d}.parquet"

    def finish(self, naming: TableMaker, batches: int) -> None:
        """Make the tables of all parts, which appear when all are complete; then the parts go."""
        from pyarrow import parquet

        tally = Tally()
        with written_into(self.place) as work:
            writer = None
            for table in self._chunks(naming, tally, batches):
                writer = writer or parquet.ParquetWriter(str(work / "episodes.parquet"), table.schema)
                writer.write_table(table, row_group_size=_ROWS)
            if writer is not None:
                writer.close()
            parquet.write_table(tally.decisions(naming), str(work / "decisions.parquet"))
            parquet.write_table(tally.outcomes(naming), str(work / "outcomes.parquet"))
        with written(self.place / _ABOUT) as partial:  # after the tables: stopped before, an audit makes them again
            partial.write_bytes(_described({**self.about, "complete": True}))
        shutil.rmtree(self.place / _PARTS, ignore_errors=True)

    def _chunks(self, naming: TableMaker, tally: Tally, batches: int) -> Iterator[Any]:
        """The table of episodes, many parts at a time."""
        import pyarrow as pa

        waiting: list[Any] = []
        for number in range(batches):
            found = read_part(self.part(number), naming.n_labels)
            tally.add(found)
            waiting.append(naming.episodes(found))
            if sum(table.num_rows for table in waiting) >= _ROWS:
                yield pa.concat_tables(waiting)
                waiting = []
        if waiting:
            yield pa.concat_tables(waiting)

    def table(self, name: str) -> Any:
        """One of the tables."""
        from pyarrow import parquet

        return parquet.read_table(self.place / f"{name}.parquet")


def write_part(file: Path, found: Answers, id_type: Any) -> None:
    """Write the answers to a batch; the file appears when it is complete."""
    from pyarrow import parquet

    with written(file) as partial:
        parquet.write_table(found.to_arrow(id_type), str(partial))


def read_part(file: Path, n_labels: int) -> Answers:
    """The answers to a batch."""
    from pyarrow import parquet

    return Answers.from_arrow(parquet.read_table(file), n_labels)


@contextmanager
def opened_directory(place: str | os.PathLike[str], about: dict[str, Any], *, fresh: bool) -> Iterator[Directory]:
    """A directory to work in: a new one, or one with the same audit in it, which is continued.

    ``fresh`` removes what another audit left there.
    """
    folder = Path(place)
    if not os.fspath(place) or folder.is_file():
        what = "this is a file, not a directory" if os.fspath(place) else "the name of the directory is empty"
        raise FileError(Problem(what, file=os.fspath(place) or None, fix="give another name"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(Problem(f"it cannot be made: {error.strerror or error}", file=str(folder))) from error
    about = {"format": "tether audit", "version": __version__, **about}
    with _alone(folder):
        before = None if fresh else _read(folder)
        if before is not None:
            _check_same(folder, before, about)
            complete = bool(before.get("complete"))
        else:
            _clear(folder)
            complete = False
            with written(folder / _ABOUT) as partial:
                partial.write_bytes(_described({**about, "complete": False}))
        if not complete:
            _make_parts(folder)
        yield Directory(folder, about, complete)


def _make_parts(folder: Path) -> None:
    try:
        (folder / _PARTS).mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(Problem(f"it cannot be made: {error.strerror or error}", file=str(folder / _PARTS))) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process work in the directory; the system releases it when this process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        why = f"it cannot be written to: {error.strerror or error}"
        raise FileError(Problem(why, file=str(folder))) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        why = "another audit is at work in this directory"
        raise FileError(Problem(why, file=str(folder), fix="wait for it, or give another directory")) from None
    try:
        yield
    finally:
        os.close(handle)  # the file stays: another process may have it open already


def _described(about: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n"


def _read(folder: Path) -> dict[str, Any] | None:
    """The description in the directory; None if there is no audit in it."""
    file = folder / _ABOUT
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(Problem(f"it cannot be read: {error.strerror or error}", file=str(file))) from error
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError:
        found = {}
    if found.get("format") != "tether audit":
        fix = "give another directory, or begin again: fresh=True"
        raise FileError(Problem("this is not what an audit wrote", file=str(file), fix=fix, argument="fresh"))
    return found


def _check_same(folder: Path, before: dict[str, Any], about: dict[str, Any]) -> None:
    """Refuse to mix two audits."""
    differ = [why for name, why in _CHANGED.items() if before.get(name) != about.get(name)]
    if differ:
        what = f"there is another audit in this directory: {'; '.join(differ)}"
        fix = "give another directory, or begin again: fresh=True"
        raise FileError(Problem(what, file=str(folder), fix=fix, argument="fresh"))


def _clear(folder: Path) -> None:
    """Remove what an audit left; other files stay."""
    shutil.rmtree(folder / _PARTS, ignore_errors=True)
    for name in (_ABOUT, *(f"{table}.parquet" for table in TABLES)):
        (folder / name).unlink(missing_ok=True)
