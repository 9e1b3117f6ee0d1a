"""Files and directories appear when they are complete, and appear together.

Everything is first written in a private directory beside its place, ``.tether-<where>-<pid>-<random>.tmp``, and renamed
into place at the end:

- a file replaces another in one step;
- a directory is exchanged with another in one step, if the system can do that (Linux, macOS);
- a set of files (`written_into`), and directories on other systems, take a few steps. They happen under a lock on the
  folder, after the private directory got the ending ``.ready``. If they are interrupted, the next process finishes.

A process may be killed at any moment. The next one that writes into the folder removes its remains.
`read_together` reads files that belong together, and never a mixture of two versions.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tether.errors import FileError, Problem

__all__ = ["read_together", "written", "written_into"]

Result = TypeVar("Result")

_BOOT_ERROR = 2.0
"""By how many seconds the start time of a process may be wrong: the boot time is known in whole seconds."""

_LEFT = re.compile(r"\.tether-(?P<where>[0-9a-f]{8})-(?P<pid>[0-9]+)-[0-9a-f]{8}\.(?P<ending>tmp|ready)")
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV)
_SWAP = 2
"""RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS."""

_TRIES = 1000
_PATIENCE = 2.0
"""Seconds to wait for a lock that is held for microseconds."""


@contextmanager
def written(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the name to write a file or a directory under; if no error happens, it then replaces ``target``.

    The old contents stay until then, and for good if anything fails. A symbolic link stays a link: its target is
    replaced. Permissions do not change.
    """
    final = _final(target)
    with _working(final.parent, final) as work:
        partial = work / final.name
        yield partial
        _keep_mode(partial, final)
        _put(work, partial, final)


@contextmanager
def written_into(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a directory to write files into; if no error happens, all of them move to ``folder`` together.

    Other files of the folder stay as they are.
    """
    place = Path(folder)
    _refuse_nul(place)
    if not place.is_dir():
        raise _error(place, "it cannot be written to: there is no such folder")
    with _working(place, place) as work:
        yield work
        for partial in work.iterdir():
            final = _final(place / partial.name)
            if not partial.is_file() or final.is_dir():
                raise _error(final, "it cannot be written: there is a directory of this name")
            if final.parent.stat().st_dev != place.stat().st_dev:
                raise _error(final, f"it cannot be written: the link {place / partial.name} leads to another disk")
            _keep_mode(partial, final)
        _switch(work, place)


def read_together(files: Iterable[str | os.PathLike[str]], read: Callable[[], Result]) -> Result:
    """The result of ``read`` for files that belong together; it is called again if one was replaced meanwhile."""
    paths = [Path(file) for file in files]
    for _ in range(_TRIES):
        before = _settled(paths)
        try:
            found = read()
        except FileError:
            if _stamps(paths) == before:
                raise
            continue
        if _stamps(paths) == before:
            return found
    raise _error(paths[0], "it is replaced again and again while it is read; try again when nothing writes it")


def _settled(paths: list[Path]) -> list[Any]:
    """The versions of files, at a moment when no process is replacing a set of files."""
    with ExitStack() as locks:
        for folder in sorted({path.parent for path in paths}):
            _finish_others(folder, locks.enter_context(_locked(folder)))
        return _stamps(paths)


def _stamps(paths: list[Path]) -> list[Any]:
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
        try:  # one look: what another writer moves away between two looks is no device
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
def _working(folder: Path, final: Path) -> Iterator[Path]:
    """A private directory in ``folder``: on the same disk, so that what is in it can be renamed into place."""
    with _errors_of(final):
        _tidy(folder)
        work = _work_name(folder)
        work.mkdir(mode=0o700)
    try:
        with _errors_of(final):
            yield work
    finally:
        _remove(work)


def _work_name(folder: Path) -> Path:
    return folder / f".tether-{_where()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


@lru_cache
def _where() -> str:
    """The machine, or container, that a process number belongs to."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{zlib.crc32(f'{platform.node()} {space}'.encode()):08x}"


def _put(work: Path, partial: Path, final: Path) -> None:
    """Rename ``partial`` to ``final``, whatever other writers do at the same time."""
    for _ in range(_TRIES):
        both = partial.is_dir() and final.is_dir()
        try:
            if not both:
                partial.replace(final)
            elif not _exchange(partial, final):
                _switch(work, final.parent)
        except FileNotFoundError:
            if not both or not partial.exists():
                raise
        except OSError as error:  # a directory came to be there since we looked
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not final.is_dir():
                raise
        else:
            return
    raise OSError(errno.EBUSY, "other processes replace it again and again")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step; False if this system or disk cannot."""
    call = _exchanger()
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(other))


@lru_cache
def _exchanger() -> Callable[[bytes, bytes], int] | None:
    here = -2 if sys.platform == "darwin" else -100  # AT_FDCWD
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    if os.name != "posix":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return lambda one, other: int(call(here, one, here, other, _SWAP))


def _switch(work: Path, folder: Path) -> None:
    """Move everything in ``work`` to ``folder``. If this is interrupted, the next process continues."""
    ready = work.with_suffix(".ready")
    with _locked(folder) as is_locked:
        _finish_others(folder, is_locked)
        work.rename(ready)
        items = os.listdir(ready)
        try:
            _roll_on(ready, folder)
        except BaseException:
            if os.listdir(ready) == items:  # nothing was moved: leave all as it was
                ready.rename(work)
            raise


def _roll_on(ready: Path, folder: Path) -> None:
    for item in sorted(ready.iterdir()):
        final = _final(folder / item.name)
        if not (item.is_dir() and final.is_dir()):
            item.replace(final)
            continue
        aside = _work_name(folder)
        final.rename(aside)
        try:
            item.rename(final)
        except BaseException:  # also if the user stops it just here
            with suppress(OSError):
                aside.rename(final)
            if final.exists():  # a writer that did not get the lock either put its version there: it is the newer one
                _remove(aside)
            raise
        _remove(aside)
    ready.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Let one process at a time change a set of files in a folder.

    False where the system or the disk has no locks, or where another process keeps the lock for too long: it must not
    stop this one.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError, ValueError):
        yield False
        return
    try:
        if not _lock(lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)):
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked meanwhile holds the handle, too
    finally:
        os.close(handle)


def _lock(attempt: Callable[[], None]) -> bool:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            attempt()
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        except OSError:
            return False
        else:
            return True


def _tidy(folder: Path) -> None:
    """Finish what a process that is dead had made ready, and remove what it had not."""
    if not _left_in(folder):
        return
    with _locked(folder) as is_locked:
        _finish_others(folder, is_locked)
    for name in _left_in(folder):
        if name.endswith(".tmp") and _dead(folder / name) and _owned(folder / name):
            _remove(folder / name)


def _finish_others(folder: Path, is_locked: bool) -> None:
    """Finish what others left ready: whoever is still at work holds the lock, which is ours now."""
    for name in _left_in(folder):
        if name.endswith(".ready") and (is_locked or _dead(folder / name)) and _ours(folder / name):
            with suppress(OSError, FileError):  # a folder that we may only read
                _roll_on(folder / name, folder)


def _left_in(folder: Path) -> list[str]:
    """Private directories in a folder, of whomever."""
    try:
        return [name for name in os.listdir(folder) if _LEFT.fullmatch(name)]
    except (OSError, ValueError):
        return []


def _dead(left: Path) -> bool:
    """Whether the process that made a private directory has ended; False if that cannot be told."""
    found = _LEFT.fullmatch(left.name)
    if found is None or os.name != "posix" or found["where"] != _where():
        return False
    try:
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return _is_another(int(found["pid"]), left)


def _is_another(pid: int, left: Path) -> bool:
    """Whether a living process shares only its number with the maker: it is a zombie, or it began after the last use.

    Numbers of processes are given again. Where the system does not tell, the process counts as the one that made it.
    """
    try:
        state, *numbers = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
        booted = next(
            int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
        )
        began = booted + int(numbers[18]) / os.sysconf("SC_CLK_TCK")
        used = left.lstat().st_ctime
    except (OSError, ValueError, IndexError, StopIteration):
        return False
    return state in "ZX" or began > used + _BOOT_ERROR


def _ours(left: Path) -> bool:
    """Whether this user made a private directory, and nobody else could write into it."""
    return _owned(left) and not left.lstat().st_mode & 0o077


def _owned(left: Path) -> bool:
    """Whether a directory is this user's: one that was put aside keeps its own permissions and may go all the same."""
    try:
        found = left.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _keep_mode(partial: Path, final: Path) -> None:
    """Give a file, or a directory and the files in it, the permissions of what it replaces."""
    try:
        mode = stat.S_IMODE(final.stat().st_mode)
    except OSError:
        return
    if partial.is_dir() != final.is_dir():
        return
    if partial.is_dir():
        for inner in partial.iterdir():
            _keep_mode(inner, final / inner.name)
    partial.chmod(mode)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
