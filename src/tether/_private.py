"""Directories that only this user can have made: what is found in one was put there by ourselves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["private_cache", "private_directory"]


def private_directory(path: Path) -> Path | None:
    """``path``, made if need be, if it is a directory of this user that nobody else may enter; else None."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except (OSError, ValueError):
        return None
    if os.name != "posix":  # who may enter is told by other means there
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return None
    return path


def private_cache(name: str) -> Path | None:
    """The directory ``name`` of this package in the user's cache (``XDG_CACHE_HOME``, else ``~/.cache``), or None."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):  # as the specification says; also a home that is not known
        return None
    return private_directory(Path(base, "tether", name)) if private_directory(Path(base, "tether")) else None
