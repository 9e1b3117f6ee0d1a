"""What learning passes on to later folders, which are imported when called: `tether.io` reads a log in files.

A log larger than memory comes piece by piece, as in `tether.audit`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tether.learning.kinds import Kinds, gather_kinds
from tether.observation.episodes import Episodes

__all__ = ["read_log"]


def read_log(
    log: str | os.PathLike[str],
    *,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
) -> Episodes | Kinds:
    """The episodes of a file, or the kinds of steps of a log that is read piece by piece."""
    from tether.auditing.logs import open_pieces
    from tether.io.logs import read_episodes

    pieces = open_pieces(log, columns=columns or None, time=time, step=step)
    if pieces is None:
        return read_episodes(log, columns=columns, time=time, step=step)
    return gather_kinds(pieces.sound())
