"""How numbers are put into words, in messages and reports."""

from __future__ import annotations

__all__ = ["counted", "number"]


def counted(n: int, noun: str) -> str:
    """``n`` of something.

    >>> counted(1, "step"), counted(2541, "state")
    ('1 step', '2,541 states')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def number(value: float) -> str:
    """A value as a sentence tells it.

    >>> number(-6850.4), number(0.48801)
    ('-6,850', '0.488')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
