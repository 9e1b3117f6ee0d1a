"""One thread that computes: one question at a time, off the event loop. A newer question replaces an older one.

Kernels cannot be stopped in the middle. But no question waits behind an answer that is not needed any more: only the
newest question of each part of a tab is answered; a question whose asker has gone is dropped; and a computation that
is not needed ends at its next stage (`Asker.check`). Each time step of a plan is a stage.
There is one thread, because matplotlib's settings are global, and because two computations would only share the same
cores.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

_TABS = 1000
"""How many parts of tabs are remembered."""

_WAITING = 200
"""How many questions may wait."""


class SupersededError(Exception):
    """A newer question has taken the place of this one."""


class BusyError(Exception):
    """Too many questions wait already."""


class TooLongError(Exception):
    """The answer takes longer than a response may take; it is still being computed."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a part of a tab, and the number of its question."""

    asking: Asking
    who: Any
    number: int

    def check(self) -> None:
        """End here if a newer question has been asked."""
        if self.asking.latest(self.who) != self.number:
            raise SupersededError


class Asking:
    """The thread that computes, and the questions that wait for it."""

    def __init__(self, patience: float = 120.0) -> None:
        self.patience = patience
        self._latest: OrderedDict[Any, int] = OrderedDict()
        self._numbers = count(1)
        self._queue: queue.Queue[Any] = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def latest(self, who: Any) -> int | None:
        """The number of the newest question of somebody."""
        with self._lock:
            return self._latest.get(who)

    async def ask(self, who: Any, compute: Callable[[Asker], Any], gone: Awaitable[Any] | None = None) -> Any:
        """The answer of ``compute``, or an error: its own, `SupersededError`, `BusyError` or `TooLongError`.

        ``gone`` ends when the answer is not needed any more.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            number = next(self._numbers)
            self._latest[who] = number
            self._latest.move_to_end(who)
            while len(self._latest) > _TABS:
                self._latest.popitem(last=False)
        self._start()
        try:
            self._queue.put_nowait((Asker(self, who, number), compute, loop, answer))
        except queue.Full:
            raise BusyError from None
        left = None if gone is None else asyncio.ensure_future(gone)
        try:
            await asyncio.wait(
                {answer} if left is None else {answer, left}, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED
            )
            if answer.done():
                return answer.result()
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # no warning
            if left is not None and left.done():
                self._withdraw(who, number)
                raise SupersededError
            raise TooLongError
        finally:
            if left is not None:
                left.cancel()

    def _withdraw(self, who: Any, number: int) -> None:
        """Drop a question, unless a newer one has taken its place already."""
        with self._lock:
            if self._latest.get(who) == number:
                del self._latest[who]

    def close(self) -> None:
        """No more questions: the thread ends after its present one; nothing waits for that."""
        if self._thread is not None:
            self._queue.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                # A daemon: Ctrl-C ends the program also in the middle of a long computation.
                self._thread = threading.Thread(target=self._run, name="tether-explorer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (asked := self._queue.get()) is not None:
            asker, compute, loop, answer = asked
            try:
                asker.check()
                found = compute(asker)
                asker.check()
            except Exception as error:
                self._tell(loop, answer, error, failed=True)
            else:
                self._tell(loop, answer, found, failed=False)

    @staticmethod
    def _tell(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], what: Any, failed: bool) -> None:
        def tell() -> None:
            if not answer.done():
                answer.set_exception(what) if failed else answer.set_result(what)

        if not loop.is_closed():
            loop.call_soon_threadsafe(tell)
