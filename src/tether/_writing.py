"""Files and directories appear when they are complete: written under another name first, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tether.errors import FileError, Problem

__all__ = ["written"]


@contextmanager
def written(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the name to write a file or a directory under; rename it to ``target`` if all went well, else remove it.

    What was there before stays until then, and for good if anything fails.
    """
    final = Path(target)
    if final.name in ("", ".."):
        raise _error(final, "it cannot be written: give a name in a folder, not a folder that is there already")
    partial = _beside(final, "tmp")
    try:
        yield partial
        if partial.is_dir() and final.is_dir():
            _swap(partial, final)
        else:
            partial.replace(final)
    except OSError as error:
        if not final.parent.is_dir():
            raise _error(final, f"it cannot be written: there is no folder {final.parent}") from error
        raise _error(final, f"it cannot be written: {error.strerror or error}") from error
    finally:
        _remove(partial)


def _beside(final: Path, ending: str) -> Path:
    """A hidden name in the same folder, so that renaming is one step; no other process or thread has it."""
    return final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}.{ending}")


def _swap(partial: Path, final: Path) -> None:
    """Put a new directory in the place of an old one; a directory cannot be renamed onto a full one."""
    old = _beside(final, "old")
    final.replace(old)
    try:
        partial.replace(final)
    except BaseException:  # also if the user stops it just here
        old.replace(final)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _error(file: Path, message: str) -> FileError:
    return FileError(Problem(f"{file}: {message}", file=str(file)))
