"""What the command is doing just now: told to a person who waits, and in the error if memory runs out."""

from __future__ import annotations

import click

__all__ = ["DOING", "note_doing"]

DOING = "tether.doing"
"""Where the context of a command keeps it: what is being done, and what would need less memory."""

_LESS = {
    "reading": "a saved model (tether convert MODEL DIRECTORY) is opened without being read as a whole",
    "replaying": "a shorter path needs less",
    "planning": "fewer k and m, or a shorter path, need less",
    "looking": "fewer k and m, or a shorter path, need less",
    "drawing": "fewer draws need less",
}


def note_doing(doing: str) -> None:
    """Remember what is being done, as in ``reading model.csv``."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        first = next((word for word in _LESS if doing.startswith(word)), "")
        ctx.meta[DOING] = (doing, _LESS.get(first, ""))
