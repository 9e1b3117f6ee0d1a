"""What the command is doing now: shown in a terminal, and in the error if memory runs out."""

from __future__ import annotations

import click

__all__ = ["DOING", "DRAWING", "LIMITS", "READING", "REPLAYING", "note_doing"]

DOING = "tether.doing"
"""The key in the context of a command: what is being done, and what would need less memory."""

READING = "a saved model (tether convert MODEL DIRECTORY) need not be read as a whole"
REPLAYING = "a shorter path needs less"
LIMITS = "fewer k and m, or a shorter path, need less"
DRAWING = "fewer draws need less"


def note_doing(doing: str, less: str = "") -> None:
    """Remember what is being done, as in ``reading model.csv``; ``less`` says what would need less memory."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[DOING] = (doing, less)
