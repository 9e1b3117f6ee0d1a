"""How numbers are put into words, in messages and reports."""

from __future__ import annotations

__all__ = ["counted"]


def counted(n: int, noun: str) -> str:
    """``n`` of something.

    >>> counted(1, "step"), counted(2541, "state")
    ('1 step', '2,541 states')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
