"""Where compiled kernels are kept between runs, and what is done when they cannot be.

Compiling takes seconds, so its results are kept on disk. They are machine code in a pickle: whoever can write them runs
code as the person who loads them. So they are kept only in a directory that nobody else can have made or can write to,
and nowhere if there is none. The places tried, in this order:

1. ``NUMBA_CACHE_DIR``, if it is set;
2. the ``__pycache__`` of the kernels' sources;
3. the user's cache directory;
4. the system's temporary directory, if others cannot replace there what is ours.

The directory is named by a hash of every kernel's source and of the versions of numba, LLVM and Python. A kernel holds
a copy of the kernels it calls, so a change in one file must also renew the kernels of other files; numba's own cache
looks at one file at a time. Each compiled function is one file that begins with a checksum.

No cache is needed to answer. Trouble with it (a full disk, a damaged file, no place to write) is one warning per
process; the kernel is then compiled in memory.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching, serialize
from numba.core.compiler import CompileResult

from tether._foundation.private import can_others_write, is_private, private_directory
from tether._kernels.ahead import wait_for

__all__ = ["KernelCache", "find_place", "source_key"]

_PREFIX = "tether-kernels-"
_KEYS_KEPT = 8
"""How many of the directories of other sources or versions stay; those used longest ago are removed."""

_DIGEST = hashlib.sha256().digest_size


class KernelCache(caching._Cache):
    """The compiled forms of one kernel on disk: what numba asks before it compiles, and tells afterwards."""

    def __init__(self, function: Callable[..., Any], find: Callable[[], Path | None]) -> None:
        self._function = function
        self._find = find
        self._enabled = True

    @property
    def cache_path(self) -> Path | None:
        """The directory, None where there is none."""
        return self._find()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for a signature; None where it has to be compiled."""
        target_context.refresh()
        place = self._find() if self._enabled else None
        if place is None:
            return None
        key = self._key(sig, target_context.codegen())
        file = place / self._file_name(key)
        try:
            if not file.exists() and not wait_for(self._stem(), file):
                return None
            content = file.read_bytes()
        except FileNotFoundError:  # removed by another process
            return None
        except OSError as error:
            _warn_once(f"cannot be read ({error})")
            return None
        checksum, data = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(data).digest() != checksum:
            _warn_once(f"has a damaged file ({file}), which is made anew")
            return None
        stored_key, payload = pickle.loads(data)
        rebuild: Callable[..., Any] = CompileResult._rebuild
        return rebuild(target_context, *payload) if stored_key == key else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function."""
        place = self._find() if self._enabled else None
        if place is None or any(not part.can_cache for part in data.lifted) or data.library.has_dynamic_globals:
            return
        key = self._key(sig, data.codegen)
        pickled: Callable[..., bytes] = serialize.dumps
        content = pickled((key, data._reduce()))
        try:
            _write_whole(place / self._file_name(key), hashlib.sha256(content).digest() + content)
        except OSError as error:
            _warn_once(f"cannot be written ({error})")

    def enable(self) -> None:
        """Use the disk from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Compile in memory from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Forget this kernel's compiled forms."""
        place = self._find()
        if place is not None:
            for file in place.glob(f"{self._stem()}-*"):
                file.unlink(missing_ok=True)

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """What a compiled function is good for: argument types, processor, and the function itself."""
        return (sig, codegen.magic_tuple(), self._function.__code__.co_code)

    def _stem(self) -> str:
        return f"{self._function.__module__.rpartition('.')[2]}.{self._function.__qualname__}".replace("<locals>", "")

    def _file_name(self, key: tuple[Any, ...]) -> str:
        return f"{self._stem()}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}"


def _write_whole(file: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def _once() -> list[str]:
    """What was said in this process."""
    return []


def _warn_once(what: str) -> None:
    if not _once():
        _once().append(what)
        message = (
            f"the cache of compiled kernels {what}; the answers are the same, but kernels are compiled again, which "
            "takes seconds. NUMBA_CACHE_DIR can name a directory for it"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)


@lru_cache(maxsize=1)
def find_place() -> Path | None:
    """The directory for the kernels of this installation, made if needed; None where there is no safe one."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    if not sources:  # imported from an archive
        _warn_once("is not used, because the kernels' sources are not files")
        return None
    name = f"{_PREFIX}{source_key(sources)}"
    places = (private_directory(parent, name) for parent in _parents())
    place = next((place for place in places if place is not None and _can_write(place)), None)
    if place is None:
        _warn_once("has no place: no directory was found that this account can write to and others cannot")
        return None
    with suppress(OSError):
        os.utime(place)  # when it was last used
    _remove_old_keys(place)
    return place


def source_key(sources: Iterable[Path]) -> str:
    """A hash of the kernels' sources and of what compiles them."""
    versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag, sys.version)
    digest = hashlib.sha256(repr(versions).encode())
    for source in sources:
        content = source.read_bytes()
        digest.update(f"\0{source.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:24]


def _parents() -> Iterator[Path]:
    """Directories in which ours may lie, best first."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen)
        return
    yield Path(__file__).parent / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # an account without a home
        yield Path(home) if home else Path("~/.cache").expanduser()
    temporary = Path(tempfile.gettempdir())
    if _keeps_entries(temporary):
        yield temporary


def _can_write(place: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _keeps_entries(parent: Path) -> bool:
    """Whether others cannot rename or remove our entries of a directory: it is ours alone, or sticky."""
    try:
        found = parent.stat()
    except OSError:
        return False
    if not hasattr(os, "geteuid"):
        return True
    if found.st_uid not in (0, os.geteuid()):
        return False
    return bool(found.st_mode & stat.S_ISVTX) or not can_others_write(found)


def _remove_old_keys(place: Path) -> None:
    """Remove our directories of other sources and versions beside ``place``, but for those used last."""
    with suppress(OSError):  # others may be at it; nothing depends on it
        others = [one for one in place.parent.glob(f"{_PREFIX}*") if one != place and is_private(one)]
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for one in others[_KEYS_KEPT:]:
            shutil.rmtree(one, ignore_errors=True)
