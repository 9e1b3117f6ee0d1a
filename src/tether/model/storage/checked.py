"""Remembers that the files of a model were checked, so that they are read completely once, and not at every opening.

It remembers a digest of ``model.json`` and, for each array, of device, inode, size and times of its file. The system
sets the time of the last change (ctime): a file that is exchanged or rewritten gets a new one. The memory is an empty
file, named by the digest, in a directory that only this user can write to. So neither a damaged nor a crafted directory
counts as checked. If there is no such directory, models are checked every time.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tether._foundation.private import private_cache

__all__ = ["Version"]

_CHECKS = 1
"""The version of the checks; files checked by another version count as not checked."""

_SETTLED = 250_000_000
"""Nanoseconds: a file that changed less than this ago may change again within one tick of the system's clock."""

_KEPT = 1000
"""How many versions are remembered; beyond this, the oldest half is forgotten."""


@dataclass(frozen=True)
class Version:
    """One version of the files of a model."""

    described: bytes
    files: tuple[os.stat_result, ...]

    @cached_property
    def _name(self) -> str:
        digest = hashlib.sha256(self.described)
        for one in self.files:
            digest.update(f" {one.st_dev} {one.st_ino} {one.st_size} {one.st_mtime_ns} {one.st_ctime_ns}".encode())
        return f"{digest.hexdigest()}-{_CHECKS}"

    def is_settled(self) -> bool:
        """Whether any later change of a file will change its times. Must be called before the files are checked."""
        return time.time_ns() - max((one.st_ctime_ns for one in self.files), default=0) > _SETTLED

    def was_checked(self) -> bool:
        """Whether this version is remembered."""
        memory = _memory()
        return memory is not None and (memory / self._name).is_file()

    def remember(self) -> None:
        """Remember that this version was checked; without a directory for it, do nothing."""
        memory = _memory()
        if memory is None:
            return
        try:
            _forget_oldest(list(memory.iterdir()))
            (memory / self._name).touch()
        except OSError:  # a full disk: the model is checked again next time
            return


def _memory() -> Path | None:
    """Where versions are remembered; None on systems whose ctime is not the time of the last change (Windows)."""
    return private_cache("models") if os.name == "posix" else None


def _forget_oldest(remembered: Iterable[Path]) -> None:
    aged = sorted(remembered, key=lambda file: file.stat().st_mtime_ns)
    if len(aged) > _KEPT:
        for file in aged[: len(aged) // 2]:
            file.unlink(missing_ok=True)
