"""Reports when kernels are being compiled, so that a command can say why its first answer takes longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["compiling", "told_of_compiling"]

_listeners: list[Callable[[bool], None]] = []
_under_way: list[None] = []


@contextmanager
def told_of_compiling(tell: Callable[[bool], None]) -> Iterator[None]:
    """Call ``tell`` with True when compiling begins, and with False when it is over."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


@contextmanager
def compiling() -> Iterator[None]:
    """Compile within this; one kernel may be compiled within another."""
    outermost = not _under_way
    _under_way.append(None)
    try:
        _tell(outermost, True)
        yield
    finally:
        _under_way.pop()
        _tell(outermost, False)


def _tell(outermost: bool, begins: bool) -> None:
    for tell in tuple(_listeners) if outermost else ():
        tell(begins)
