"""What the command is doing now: shown in a terminal, in the error if memory runs out, and when it is stopped."""

from __future__ import annotations

import click

__all__ = ["CONTINUED", "DOING", "DRAWING", "LIMITS", "READING", "REPLAYING", "note_continued", "note_doing"]

DOING = "tether.doing"
"""The key in the context of a command: what is being done, and what would need less memory."""

CONTINUED = "tether.continued"
"""The key in the context of a command: what continues it, if parts of its work are kept."""

READING = "a saved model (tether convert MODEL FILE) is not held in memory as a whole"
REPLAYING = "a shorter path needs less"
LIMITS = "fewer k and m, or a shorter path, need less"
DRAWING = "fewer draws need less"


def note_doing(doing: str, less: str = "") -> None:
    """Remember what is being done, as in ``reading model.csv``; ``less`` says what would need less memory."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[DOING] = (doing, less)


def note_continued(by: str) -> None:
    """Remember that parts of the work are kept, and what continues it, as in ``the same command``."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[CONTINUED] = by
