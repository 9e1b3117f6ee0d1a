"""Where compiled kernels are kept between runs.

They are machine code in a pickle: a person who can write them can run code as the person who loads them. So they are
kept only in a directory that nobody else can have made or can write to; if there is none, they are not kept. The places
tried, in this order:

1. ``NUMBA_CACHE_DIR``, if it is set;
2. the ``__pycache__`` of the kernels' sources;
3. the user's cache directory;
4. the system's temporary directory, if others cannot replace our files there.

The directory is named by a hash of every kernel's source and of the versions of numba, LLVM and Python. A compiled
kernel contains the kernels it calls, so a change in one file must also renew the kernels of other files; numba's own
cache checks one file at a time.

The place is found without importing numba, so that it is known early whether there is something to compile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tether._foundation.private import can_others_write, is_private, private_directory

__all__ = ["find_place", "source_key", "warn_once"]

_PREFIX = "tether-kernels-"
_KEYS_KEPT = 8
"""How many directories of other sources or versions are kept; those used longest ago are removed."""


@lru_cache(maxsize=1)
def _once() -> list[str]:
    """The warnings of this process so far."""
    return []


def warn_once(what: str) -> None:
    """Warn of a problem with the cache; only the first one in a process is reported."""
    if not _once():
        _once().append(what)
        message = (
            f"the cache of compiled kernels {what}; the answers are the same, but kernels are compiled again, which "
            "takes seconds. NUMBA_CACHE_DIR can name a directory for it"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)


@lru_cache(maxsize=1)
def find_place() -> Path | None:
    """The directory for the kernels of this installation, made if needed; None if there is no safe one."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    if not sources:  # imported from an archive
        warn_once("is not used, because the kernels' sources are not files")
        return None
    name = f"{_PREFIX}{source_key(sources)}"
    places = (private_directory(parent, name) for parent in _parents())
    place = next((place for place in places if place is not None and _can_write(place)), None)
    if place is None:
        warn_once("has no place: no directory was found that this account can write to and others cannot")
        return None
    with suppress(OSError):
        os.utime(place)  # when it was last used
    _remove_old_keys(place)
    return place


def source_key(sources: Iterable[Path]) -> str:
    """A hash of the kernels' sources and of the versions of their compiler."""
    versions = (_version("numba"), _version("llvmlite"), sys.implementation.cache_tag, sys.version)
    digest = hashlib.sha256(repr(versions).encode())
    for source in sources:
        content = source.read_bytes()
        digest.update(f"\0{source.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:24]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # installed without metadata
        return str(import_module(package).__version__)


def _parents() -> Iterator[Path]:
    """Possible parents of the directory, best first."""
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
    """Whether others cannot rename or remove our entries of a directory: only we can write to it, or it is sticky."""
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
    """Remove our directories of other sources and versions beside ``place``, except for those used last."""
    with suppress(OSError):  # another process may remove them at the same time; nothing depends on it
        others = [one for one in place.parent.glob(f"{_PREFIX}*") if one != place and is_private(one)]
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for one in others[_KEYS_KEPT:]:
            shutil.rmtree(one, ignore_errors=True)
