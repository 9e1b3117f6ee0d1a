"""Who answers the batches: this process, or several of them. The answers are the same, bit for bit."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from tether.auditing.answers import Answers
from tether.auditing.cluster import Written
from tether.auditing.cohort import Cohort
from tether.auditing.question import Question
from tether.auditing.worker import receive, send
from tether.errors import QueryError, TetherError
from tether.model.mdp import MDP

__all__ = ["Here", "Processes", "Threads", "WorkerError", "Workers", "core_count", "each", "make_workers"]

Item = TypeVar("Item")

_WORTH, _WORTH_THREADS = 10_000, 4_000
"""From this many steps on, it is worth starting processes, and threads."""


class Workers(Protocol):
    """Answers batches, some at a time."""

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Answers | Written]]:
        """The answers to batches, with their numbers, in the order in which they are done."""
        ...

    def close(self) -> None:
        """End everything that was started."""
        ...


class Here:
    """The process itself, one batch after the other."""

    def __init__(self, mdp: MDP, question: Question) -> None:
        from tether.auditing.answering import PreparedQuestion
        from tether.auditing.engine import prepare

        self._answer = prepare(PreparedQuestion.of(mdp, question))

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Answers]]:
        """One after the other."""
        for number, cohort in batches:
            yield number, self._answer(cohort)

    def close(self) -> None:
        """Nothing was started."""


class Threads:
    """Several threads of this process, for compiled code that runs without Python's lock."""

    def __init__(self, mdp: MDP, question: Question, workers: int) -> None:
        from tether.auditing.answering import PreparedQuestion
        from tether.auditing.engine import prepare

        asked = PreparedQuestion.of(mdp, question)
        self._threads, self._workers = ThreadPoolExecutor(workers), workers
        self._free: queue.SimpleQueue[Callable[[Cohort], Answers]] = queue.SimpleQueue()
        for _ in range(workers):
            self._free.put(prepare(asked))

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Answers]]:
        """As many at a time as there are threads."""
        return each(self._threads.submit, self._ask, batches, 2 * self._workers)

    def _ask(self, cohort: Cohort) -> Answers:
        answer = self._free.get()
        try:
            return answer(cohort)
        finally:
            self._free.put(answer)

    def close(self) -> None:
        """Wait for the batches under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)


class Processes:
    """Several processes, each with the model. Nothing is forked, and nothing of the caller's program is run again."""

    def __init__(self, mdp: MDP, question: Question, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._every: list[_Process] = []
        self._free: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        try:
            threads = max(1, core_count() // workers)
            self._every += [_Process(threads) for _ in range(workers)]
            for ready in [self._threads.submit(one.ask, (mdp, question)) for one in self._every]:
                ready.result()
        except BaseException:
            self.close()
            raise
        for one in self._every:
            self._free.put(one)

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Answers]]:
        """As many at a time as there are processes."""
        return each(self._threads.submit, self._ask, batches, 2 * len(self._every))

    def _ask(self, cohort: Cohort) -> Answers:
        one = self._free.get()
        try:
            found: Answers = one.ask(cohort)
        finally:
            self._free.put(one)
        return found

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for one in self._every:
            one.end()
        self._threads.shutdown(wait=True, cancel_futures=True)


class _Process:
    def __init__(self, threads: int) -> None:
        environment = {**os.environ, "NUMBA_NUM_THREADS": str(threads)}
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(one for one in sys.path if one))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tether.auditing.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C goes to the parent, which ends it
        )

    def ask(self, what: Any) -> Any:
        """Send a question and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            send(self._process.stdin, what)
            found = receive(self._process.stdout)
        except (EOFError, BrokenPipeError, ValueError) as error:
            code = self._process.wait()
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            raise QueryError(
                f"a worker of the audit ended {how}, as it does where memory runs out; use fewer workers (workers=1)"
            ) from error
        if isinstance(found, TetherError):
            raise found
        if isinstance(found, Exception):
            raise WorkerError(found)
        return found

    def end(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()


class WorkerError(Exception):
    """An error in a worker that is not a tether error."""


def each(
    submit: Callable[..., Any], ask: Callable[[Item], Any], items: Iterable[tuple[int, Item]], most: int
) -> Iterator[tuple[int, Any]]:
    """Results of numbered items as they are done, with at most ``most`` of them under way."""
    under_way: dict[Future[Any], int] = {}
    numbered = iter(items)
    while True:
        for number, item in numbered:
            under_way[submit(ask, item)] = number
            if len(under_way) >= most:
                break
        if not under_way:
            return
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for one in sorted(done, key=lambda one: under_way[one]):
            yield under_way.pop(one), one.result()


def make_workers(mdp: MDP, question: Question, workers: int | None, n_rows: int) -> Workers:
    """The workers: the given number of threads or processes, or as many as are worth starting.

    Compiled code makes plans, and threads run it side by side; everything else needs processes.
    """
    from tether.auditing.engine import is_compiled

    in_threads = is_compiled(question)
    wanted = workers or (core_count() if n_rows >= (_WORTH_THREADS if in_threads else _WORTH) else 1)
    if wanted == 1:
        return Here(mdp, question)
    if in_threads:
        return Threads(mdp, question, wanted)
    try:
        return Processes(mdp, question, wanted)
    except (WorkerError, pickle.PicklingError, AttributeError, TypeError) as error:
        if workers is None:  # not asked for
            return Here(mdp, question)
        raise QueryError(
            f"the model or the policy cannot be sent to other processes ({error}): its names, or its functions, are of "
            "the program itself; put them into a module of their own, or use workers=1"
        ) from error


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
