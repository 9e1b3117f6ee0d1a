"""Remembering that the files of a model were checked, so that they are read through once and not at every opening.

What is remembered is a digest of ``model.json`` and, for each array, of device, inode, size and times of its file. The
time of the last change (ctime) is set by the system: a file cannot be exchanged or rewritten and keep it. The memory
is an empty file, called as the digest is, in a directory that only this user can write to. So neither a damaged nor a
crafted directory can pass for one that was checked. Where there is no such directory, models are checked every time.
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
"""Which checks were made; what was remembered of others does not count."""

_SETTLED = 250_000_000
"""A file that changed so many nanoseconds ago, or less, may change again within one tick of the system's clock."""

_KEPT = 1000
"""How many versions are remembered; the oldest half is forgotten beyond."""


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
        """Whether any later change of a file will be seen from its times. To be asked before files are checked."""
        return time.time_ns() - max((one.st_ctime_ns for one in self.files), default=0) > _SETTLED

    def was_checked(self) -> bool:
        """Whether this version is remembered."""
        memory = _memory()
        return memory is not None and (memory / self._name).is_file()

    def remember(self) -> None:
        """Remember that this version was checked; without a place for it, nothing happens."""
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
