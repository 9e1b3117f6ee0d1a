"""Files appear when they are complete.

A file is written in a temporary directory beside its target, ``.tether-….tmp``, and renamed at the end: whoever reads
the target, and whenever the process is interrupted, finds the old file or the new one. A process that is killed leaves
its temporary directory behind; it can be deleted.

A few files that belong together (`written_into`) are renamed one after another. If one of them is named as ``last``,
an interrupted set of files is a set without it, and `read_together` never reads a mixture of two versions.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tether.errors import FileError, Problem

Result = TypeVar("Result")

_TRIES = 1000
_RENAMING = 0.02
"""Seconds: a set of files is renamed in less."""


@contextmanager
def written(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the name to write a file under; if no error happens, it then replaces ``target``.

    A directory can be written, too, if there is none of this name, or an empty one.
    The old contents stay until then, and for good if anything fails. A symbolic link stays a link: its target is
    replaced. Permissions do not change.
    """
    final = _final(target)
    with _temporary_directory(final.parent, final) as work:
        partial = work / final.name
        yield partial
        _replace(partial, final)


@contextmanager
def written_into(folder: str | os.PathLike[str], *, last: str | None = None) -> Iterator[Path]:
    """Yield a directory to write files into; if no error happens, they are then moved to ``folder``.

    Other files of the folder stay as they are. The file ``last`` is moved after the others, and an older one is removed
    before: whoever finds it finds the others as well.
    """
    place = Path(folder)
    _refuse_nul(place)
    if not place.is_dir():
        raise _error(place, "it cannot be written to: there is no such folder")
    with _temporary_directory(place, place) as work:
        yield work
        finals = {file: _final(place / file.name) for file in sorted(work.iterdir())}
        for file, final in finals.items():
            if final.is_dir():
                raise _error(final, "it cannot be written: there is a directory of this name")
            if final.parent.stat().st_dev != place.stat().st_dev:
                raise _error(final, f"it cannot be written: the link {place / file.name} leads to another disk")
        if last is not None:
            _keep_mode(work / last, finals[work / last])
            finals[work / last].unlink(missing_ok=True)
        for file, final in sorted(finals.items(), key=lambda item: item[0].name == last):
            _replace(file, final)


def read_together(files: Iterable[str | os.PathLike[str]], read: Callable[[], Result]) -> Result:
    """The result of ``read`` for files that belong together; it is called again if one was replaced meanwhile."""
    paths = [Path(file) for file in files]
    for _ in range(_TRIES):
        before = _stamps(paths)
        try:
            found = read()
        except FileError:
            time.sleep(_RENAMING)  # files may just be moved into place
            if _stamps(paths) == before:
                raise
            continue
        if _stamps(paths) == before:
            return found
    raise _error(paths[0], "it is replaced again and again while it is read; try again when nothing writes it")


def _stamps(paths: list[Path]) -> list[Any]:
    """The version of each file: its identity, size and times; None if it does not exist."""
    found: list[Any] = []
    for path in paths:
        try:
            one = path.stat()
        except (OSError, ValueError):
            found.append(None)
        else:
            found.append((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns))
    return found


def _final(target: str | os.PathLike[str]) -> Path:
    """Where the contents go: the target itself, or the target of the link if it is a symbolic link."""
    final = Path(target)
    _refuse_nul(final)
    if final.name in ("", ".."):
        raise _error(final, "it cannot be written: give a name in a folder, not a folder that exists already")
    with _errors_of(final):
        if final.is_symlink():
            final = Path(os.path.realpath(final))
        try:
            mode = final.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return final
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise _error(final, "it cannot be written: this is a device or a pipe, not a file")
    return final


def _refuse_nul(path: Path) -> None:
    if "\0" in str(path):
        raise _error(path, "it cannot be written: no name of a file has the character NUL in it")


@contextmanager
def _temporary_directory(folder: Path, final: Path) -> Iterator[Path]:
    """A directory in ``folder``, on the same disk, so that a file in it can be renamed to a name in ``folder``."""
    with (
        _errors_of(final),
        tempfile.TemporaryDirectory(prefix=".tether-", suffix=".tmp", dir=folder, ignore_cleanup_errors=True) as work,
    ):
        yield Path(work)


def _replace(partial: Path, final: Path) -> None:
    _keep_mode(partial, final)
    partial.replace(final)


def _keep_mode(partial: Path, final: Path) -> None:
    """Give a file the permissions of the file that it replaces."""
    if final.is_file():
        shutil.copymode(final, partial)


@contextmanager
def _errors_of(final: Path) -> Iterator[None]:
    """Say in our own words what the system says about writing ``final``."""
    try:
        yield
    except OSError as error:
        if not final.parent.is_dir():
            raise _error(final, f"it cannot be written: there is no folder {final.parent}") from error
        raise _error(final, f"it cannot be written: {error.strerror or error}") from error


def _error(file: Path, message: str) -> FileError:
    shown = str(file).replace("\0", "\\0")
    return FileError(Problem(message, file=shown))
