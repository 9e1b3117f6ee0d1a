"""What learning passes on to later folders, which are imported when called: `tether.io` reads a log in files.

A log larger than memory comes piece by piece, as in `tether.audit`.
"""

from __future__ import annotations

import os
from typing import Any

from tether.errors import Problem
from tether.learning.kinds import Kinds, gather_kinds
from tether.observation.episodes import Episodes

__all__ = ["read_log"]


def read_log(log: str | os.PathLike[str], skip_broken: bool, **reading: Any) -> tuple[Episodes | Kinds, int]:
    """The episodes of a file, or the kinds of steps of a log that is read piece by piece; and how many are left out."""
    from tether.auditing.logs import open_pieces
    from tether.io.logs import read_episodes, read_sound_episodes

    skipped: list[Problem] = []
    pieces = open_pieces(log, **reading)
    if pieces is not None:
        return gather_kinds(pieces.sound(skipped if skip_broken else None)), len(skipped)
    if not skip_broken:
        return read_episodes(log, **reading), 0
    found = read_sound_episodes(log, **reading)
    return found.sound, len(found.broken) + len(found.alone)
