"""What the command is doing now: shown in a terminal, in the error if memory runs out, and when it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tether.explanation.verdicts import Nouns

DOING = "tether.doing"
"""The key in the context of a command: what is being done, and what would need less memory."""

CONTINUED = "tether.continued"
"""The key in the context of a command: what continues it, if parts of its work are kept."""

NAMES = "tether.names"
"""The key in the context of a command: what its log calls an episode and a step."""

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


def call_things(**names: str | None) -> None:
    """Remember what the log calls an ``episode`` or a ``step``; what was said first stays."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        known = ctx.meta.setdefault(NAMES, {})
        known.update({what: name for what, name in names.items() if name and what not in known})


def spoken() -> Nouns:
    """What an episode and a step are called in this command: as the options say, or as the case does."""
    from tether.explanation.verdicts import Nouns

    ctx = click.get_current_context(silent=True)
    return Nouns(**({} if ctx is None else ctx.meta.get(NAMES, {})))


class EndedBySignal(KeyboardInterrupt):
    """The system, or another program, asks this command to end."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        super().__init__(f"ended by {signal.Signals(number).name}")


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """End by SIGTERM and SIGHUP as by Ctrl-C, with a sentence; one that is ignored (``nohup``) stays ignored."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise EndedBySignal(number)

    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    is_main = threading.current_thread() is threading.main_thread()
    heard = [one for one in wanted if is_main and signal.getsignal(one) is signal.SIG_DFL]
    for one in heard:
        signal.signal(one, stop)
    try:
        yield
    finally:
        for one in heard:
            signal.signal(one, signal.SIG_DFL)
