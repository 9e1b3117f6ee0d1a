"""The directory of an audit: what was asked, the parts that are done, and the tables at the end.

::

    audit.json                       what was asked, of which model and log; at the end, the checksums of the tables
    parts/000000-<checksum>.parquet  the answers to a batch, by index; each appears when it is complete
    episodes.parquet                 the tables, made when all batches are done; the parts are then removed
    decisions.parquet
    outcomes.parquet

A process may be stopped at any moment: the next one continues with the missing batches. Every file is verified when it
is read. A part that is damaged counts as missing and is computed again; a damaged table is refused. Only one process at
a time works in a directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tether._foundation.checked_json import decode_checked, digest_of, encode_checked
from tether._foundation.writing import written
from tether._version import __version__
from tether.auditing.answer_arrays import Answers
from tether.auditing.tables import TableMaker, Tally
from tether.errors import FileError, Problem

TABLES = ("episodes", "decisions", "outcomes")
_FORMAT = "tether audit 5"
_ABOUT, _PARTS, _LOCK = "audit.json", "parts", ".lock"
_PART = re.compile(r"(?P<number>[0-9]{6,})-(?P<checksum>[0-9a-f]{32})\.parquet", re.ASCII)
_ROWS = 1 << 16
"""How many rows of the table of episodes are written at once."""

_AGAIN = "begin again: fresh=True"
_CHANGED = {
    "model": "the model is another one",
    "log": "the log is another one, or changed",
    "question": "another question was asked",
    "version": "another version of tether made it",
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The answers to finished batches, one file each. A checksum of contents, batch and audit is in the file's name.

    Attributes
    ----------
    folder : Path
    identity : str
        A digest of what the audit is about: a part of another audit does not verify.
    """

    folder: Path
    identity: str

    def make_folder(self) -> None:
        """Create the folder of the parts, if it is not there."""
        with _system_errors(self.folder, "it cannot be made"):
            self.folder.mkdir(exist_ok=True)

    def write(self, number: int, answers: Any, id_type: Any) -> None:
        """Write the answers to a batch; the file appears when it is complete."""
        from pyarrow import parquet

        sink = pa.BufferOutputStream()
        parquet.write_table(answers.to_arrow(id_type), sink)
        content = memoryview(sink.getvalue())
        with written(self.folder / f"{number:06d}-{self._checksum(number, content)}.parquet") as partial:
            partial.write_bytes(content)

    def find_sound(self) -> dict[int, Path]:
        """The files of finished batches, by number; files whose checksum is wrong are removed."""
        found: dict[int, Path] = {}
        for file in self._files():
            name = _PART.fullmatch(file.name)
            if name is None:
                continue
            number = int(name["number"])
            if self._content(number, file) is None:
                _remove(file)
            else:
                found[number] = file
        return found

    def read(self, number: int, file: Path | None) -> Any:
        """The answers to a batch that was found to be sound before, as a table."""
        from pyarrow import parquet

        content = None if file is None else self._content(number, file)
        if content is None:
            name = file or self.folder / f"{number:06d}-….parquet"
            what = "this part of the audit was changed or removed while the audit ran"
            fix = "the other parts are kept, and the same call computes this one again"
            raise FileError(Problem(what, file=str(name), fix=fix))
        return parquet.read_table(pa.BufferReader(content))

    def remove(self) -> None:
        """Remove the parts, after the tables were made."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        try:
            return sorted(self.folder.iterdir())
        except OSError:  # it was removed meanwhile: every part of it is missing
            return []

    def _content(self, number: int, file: Path) -> bytes | None:
        """The verified contents of a part; None if there is no such file, or if it is damaged."""
        name = _PART.fullmatch(file.name)
        try:
            content = file.read_bytes()
        except OSError:
            return None
        return content if name is not None and name["checksum"] == self._checksum(number, content) else None

    def _checksum(self, number: int, content: bytes | memoryview) -> str:
        digest = hashlib.blake2b(f"{self.identity} {number} ".encode(), digest_size=16)
        digest.update(content)
        return digest.hexdigest()


@dataclass(slots=True)
class Tables:
    """The tables of a finished audit; a file is verified before it is read, and again if it was replaced since.

    Attributes
    ----------
    folder : Path
    checksums : dict
        The checksum of each table, by name.
    placebo : dict or None
        What the placebos of the audit have (`tether.auditing.placebos.Measured`), if there are any.
    """

    folder: Path
    checksums: dict[str, str]
    placebo: dict[str, Any] | None = None
    _verified: dict[str, Any] = field(default_factory=dict)

    def file(self, name: str) -> Path:
        """The verified file of a table."""
        file = self.folder / f"{name}.parquet"
        if not self.folder.is_dir():
            raise FileError(Problem("the directory of the audit is gone", file=str(self.folder), fix="audit again"))
        try:
            stamp = _stamp(file)
            if self._verified.get(name) != stamp:
                if _checksum_of(file) != self.checksums.get(name):
                    raise _damaged(file, "this table is not what the audit wrote: it was changed or damaged")
                self._verified[name] = stamp
        except FileNotFoundError:
            raise _damaged(file, "this table of the audit was removed") from None
        except OSError as error:
            raise FileError(Problem(f"it cannot be read: {error.strerror or error}", file=str(file))) from error
        return file

    def read(self, name: str, columns: list[str] | None = None) -> Any:
        """A table, or some of its columns, in memory."""
        from pyarrow import parquet

        return parquet.read_table(self.file(name), columns=columns)


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that this process alone works in.

    Attributes
    ----------
    place : Path
    about : dict
        What was asked, with digests of the model and the log.
    parts : Parts
    tables : Tables or None
        The tables, if all was done before.
    """

    place: Path
    about: dict[str, Any]
    parts: Parts
    tables: Tables | None

    def finish(self, naming: TableMaker, batches: int, placebo: dict[str, Any] | None = None) -> Tables:
        """Make the tables of all parts, which are then removed. The description, written last, says that it is done."""
        from pyarrow import parquet

        tally = Tally()
        with written(self._file("episodes")) as partial:
            writer = None
            for table in self._chunks(naming, tally, batches):
                writer = writer or parquet.ParquetWriter(str(partial), table.schema)
                writer.write_table(table, row_group_size=_ROWS)
            if writer is not None:
                writer.close()
        for name, table in (("decisions", tally.decisions(naming)), ("outcomes", tally.outcomes(naming))):
            with written(self._file(name)) as partial:
                parquet.write_table(table, str(partial))
        checksums = {name: _checksum_of(self._file(name)) for name in TABLES}
        _write_description(self.place, {**self.about, "tables": checksums, "placebo": placebo})
        self.parts.remove()
        return Tables(self.place, checksums, placebo)

    def _file(self, name: str) -> Path:
        return self.place / f"{name}.parquet"

    def _chunks(self, naming: TableMaker, tally: Tally, batches: int) -> Iterator[Any]:
        """The table of episodes, many parts at a time."""
        files, waiting = self.parts.find_sound(), list[Any]()
        for number in range(batches):
            answers = Answers.from_arrow(self.parts.read(number, files.get(number)), naming.n_labels)
            tally.add(answers)
            waiting.append(naming.episodes(answers))
            if sum(table.num_rows for table in waiting) >= _ROWS:
                yield pa.concat_tables(waiting)
                waiting = []
        if waiting:
            yield pa.concat_tables(waiting)


@contextmanager
def open_directory(
    place: str | os.PathLike[str], about: dict[str, Any], incomparable: str = "", *, fresh: bool
) -> Iterator[Directory]:
    """A directory to work in: a new one, or one with the same audit in it, which is continued.

    ``about`` says what was asked, of which model and log. ``incomparable`` says why the question cannot be compared
    with that of an earlier call, if it cannot; then nothing is continued. ``fresh`` removes what another audit left
    there.
    """
    folder = Path(place)
    if not os.fspath(place) or folder.is_file():
        what = "this is a file, not a directory" if os.fspath(place) else "the name of the directory is empty"
        raise FileError(Problem(what, file=os.fspath(place) or None, fix="give another name"))
    with _system_errors(folder, "it cannot be made"):
        folder.mkdir(parents=True, exist_ok=True)
    about = {"version": __version__, **about}
    parts = Parts(folder.absolute() / _PARTS, digest_of(about))
    with _locked(folder):
        before = None if fresh else _read_description(folder)
        tables = None
        if before is None:
            _clear(folder)
            _write_description(folder, about)
        else:
            _check_same(folder, before, about, incomparable)
            tables = Tables(folder, before["tables"], before.get("placebo")) if before["tables"] else None
        if tables is None:
            parts.make_folder()
        yield Directory(folder, about, parts, tables)


def open_tables(place: str | os.PathLike[str]) -> Tables:
    """The tables of a finished audit in a directory.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.auditing.directory import open_tables
    >>> case = tether.cases.epidemic()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     audit = tether.audit(case.mdp, [case.path], k=3, out=folder)
    ...     open_tables(folder).read("episodes", ["verdict"]).to_pylist()
    [{'verdict': 'holds'}]
    """
    found = _read_description(Path(place))
    if found is None or not found["tables"]:
        what = "there is no audit in this directory" if found is None else "this audit is not finished"
        raise FileError(
            Problem(what, file=os.fspath(place), fix="tether.audit(…, out=…) makes one, or goes on with it")
        )
    return Tables(Path(place), found["tables"], found.get("placebo"))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let no other process work in the directory; the system releases the lock when this process ends."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        why = "another audit is at work in this directory"
        raise FileError(Problem(why, file=str(folder), fix="wait for it, or give another directory")) from None
    except (OSError, NotImplementedError) as error:
        why = f"it cannot be written to: {getattr(error, 'strerror', None) or error}"
        raise FileError(Problem(why, file=str(folder))) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _system_errors(file: Path, what: str) -> Iterator[None]:
    """Errors of the system about a file, as ours."""
    try:
        yield
    except OSError as error:
        raise FileError(Problem(f"{what}: {error.strerror or error}", file=str(file))) from error


def _write_description(folder: Path, about: dict[str, Any]) -> None:
    with written(folder / _ABOUT) as partial:
        partial.write_bytes(encode_checked({"format": _FORMAT, "tables": None, **about}))


def _read_description(folder: Path) -> dict[str, Any] | None:
    """The verified description in the directory; None if there is no audit in it."""
    file = folder / _ABOUT
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(Problem(f"it cannot be read: {error.strerror or error}", file=str(file))) from error
    found, is_sound = decode_checked(content)
    if not str(found.get("format", "")).startswith("tether audit"):
        what = "this is not what an audit wrote, or it is damaged"
    elif found["format"] == _FORMAT and not is_sound:
        what = "the description of the audit is damaged"
    elif found["format"] != _FORMAT:
        what = "another version of tether made it"
    else:
        return found
    fix = f"give another directory, or {_AGAIN}"
    raise FileError(Problem(what, file=str(file), fix=fix, argument="fresh"))


def _check_same(folder: Path, before: dict[str, Any], about: dict[str, Any], incomparable: str) -> None:
    """Refuse to mix two audits."""
    differ = [why for name, why in _CHANGED.items() if before.get(name) != about.get(name)]
    if differ or incomparable:
        what = f"there is another audit in this directory: {'; '.join(differ)}"
        if not differ:
            what = f"whether the audit in this directory asked the same cannot be told: {incomparable}"
        fix = f"give another directory, or {_AGAIN}"
        raise FileError(Problem(what, file=str(folder), fix=fix, argument="fresh"))


def _clear(folder: Path) -> None:
    """Remove what an audit left; other files stay."""
    shutil.rmtree(folder / _PARTS, ignore_errors=True)
    for name in (_ABOUT, *(f"{table}.parquet" for table in TABLES)):
        _remove(folder / name)


def _remove(file: Path) -> None:
    with _system_errors(file, "it cannot be removed"):
        file.unlink(missing_ok=True)


def _damaged(file: Path, what: str) -> FileError:
    return FileError(Problem(what, file=str(file), fix=_AGAIN, argument="fresh"))


def _checksum_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _stamp(file: Path) -> tuple[int, ...]:
    """What changes when a file is replaced or written to."""
    found = file.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
