"""Private directories: made by this user, and nobody else can write to them. So their files are this user's own."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["can_others_write", "is_private", "private_directory"]


def private_directory(parent: Path, name: str) -> Path | None:
    """``parent / name``, made for this user alone if it does not exist; None if that fails, or if it is not private."""
    place = parent / name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        return place if is_private(place) else None
    except (OSError, ValueError):
        return None


def is_private(place: Path) -> bool:
    """Whether this is a directory, not a link to one, that belongs to this user and that nobody else can write to."""
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # Windows: temporary and cache directories are the user's own
        return True
    return found.st_uid == os.geteuid() and not can_others_write(found)


def can_others_write(found: os.stat_result) -> bool:
    """Whether a file or directory can be written to by its group or by everybody."""
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
