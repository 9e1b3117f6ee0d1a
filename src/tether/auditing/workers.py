"""Who answers the batches: this process, or several of them. The answers are the same, bit for bit.

A worker process that dies (the system ends processes where memory runs out) is replaced, and its batch is tried again.
If that batch ends the second process too, it is divided until the episodes are found that do this; they are listed with
this reason, and all others are answered.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tether.auditing.answering import PreparedQuestion
from tether.auditing.answers import Answers, gather, join
from tether.auditing.cluster import Written
from tether.auditing.cohort import Cohort
from tether.auditing.compiled import is_usual
from tether.auditing.engine import Answering, prepare
from tether.auditing.question import Question
from tether.errors import QueryError
from tether.model.mdp import MDP
from tether_start import watch_parent

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

__all__ = ["Here", "Processes", "Threads", "Workers", "core_count", "each", "make_workers"]

Item = TypeVar("Item")

_WORTH, _WORTH_THREADS = 10_000, 4_000
"""From this many steps on, it is worth starting processes, and threads."""

_MOST_FATAL = 8
"""With more episodes than this that end their process, the audit stops: the cause is then not the episodes."""

_FATAL = "the process that answered it was ended by the system, again and again, as where memory runs out"


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
        self._answer = prepare(PreparedQuestion.of(mdp, question))

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Answers]]:
        """One after the other."""
        for number, cohort in batches:
            yield number, self._answer(cohort)

    def close(self) -> None:
        """Nothing was started."""


class _Team:
    """Workers of one kind; each batch goes to one that is free."""

    def __init__(self, answering: list[Answering]) -> None:
        self._size, self._threads = len(answering), ThreadPoolExecutor(len(answering))
        self._free: queue.SimpleQueue[Answering] = queue.SimpleQueue()
        for one in answering:
            self._free.put(one)

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Answers]]:
        """As many batches at a time as there are workers."""
        return each(self._threads.submit, self._ask, batches, 2 * self._size)

    def _ask(self, cohort: Cohort) -> Answers:
        answer = self._free.get()
        try:
            return answer(cohort)
        finally:
            self._free.put(answer)

    def close(self) -> None:
        """Wait for the batches under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)


class Threads(_Team):
    """Several threads of this process, for compiled code that runs without Python's lock."""

    def __init__(self, mdp: MDP, question: Question, workers: int) -> None:
        asked = PreparedQuestion.of(mdp, question)
        super().__init__([prepare(asked) for _ in range(workers)])


class Processes(_Team):
    """Several processes, each with the model. Nothing is forked, and nothing of the caller's program is run again."""

    def __init__(self, mdp: MDP, question: Question, workers: int) -> None:
        import cloudpickle

        try:
            sent = cloudpickle.dumps((mdp, question))
        except Exception as error:  # whatever an object of the caller raises
            raise _NotSentError(str(error)) from error
        fatal, threads = _Fatal(len(mdp.label_sets.ends)), max(1, core_count() // workers)
        self._every = [_Process(sent, threads, fatal) for _ in range(workers)]
        super().__init__([one.answer for one in self._every])
        try:
            for ready in [self._threads.submit(one.start) for one in self._every]:
                ready.result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for one in self._every:
            one.end()
        super().close()


class _NotSentError(Exception):
    """The model or the question cannot be sent to another process."""


class _Fatal:
    """The episodes that end the process that answers them, counted for all workers."""

    def __init__(self, n_labels: int) -> None:
        self._n_labels, self._count, self._lock = n_labels, 0, threading.Lock()

    def answer(self, cohort: Cohort) -> Answers:
        """The answer to one such episode: why there is none."""
        with self._lock:
            self._count += 1
            if self._count > _MOST_FATAL:
                raise QueryError(
                    f"more than {_MOST_FATAL} episodes ended the processes that answered them, as where memory runs "
                    "out; use fewer workers (workers=1). Batches that are done are kept, if there is a directory (out)"
                )
        return gather(cohort.ids, [_FATAL], self._n_labels)


class _Process:
    """One worker process and, if it dies, the next one in its place."""

    def __init__(self, sent: bytes, threads: int, fatal: _Fatal) -> None:
        self._sent, self._fatal = sent, fatal
        self._environment = {
            "NUMBA_NUM_THREADS": str(threads),
            "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",  # its caches are meant to grow: no reason to start another one
            "PYTHONFAULTHANDLER": os.environ.get("PYTHONFAULTHANDLER", ""),  # a worker that dies is our own business
        }
        self._pool: ProcessPoolExecutor | None = None
        self._is_ended, self._lock = False, threading.Lock()

    def start(self) -> None:
        """Start the process, and send it the model and the question; once more if it dies meanwhile."""
        from loky import BrokenProcessPool

        try:
            self._start_once()
        except BrokenProcessPool:
            try:
                self._start_once()
            except BrokenProcessPool as error:
                raise QueryError(
                    f"a worker process of the audit ended before it was ready{_last_words(error)}, as where memory "
                    "runs out; use fewer workers (workers=1)"
                ) from error

    def _start_once(self) -> None:
        from loky import ProcessPoolExecutor

        with self._lock:
            if self._is_ended:
                raise QueryError("the audit was stopped")
            self._pool = pool = ProcessPoolExecutor(
                1, env=self._environment, initializer=watch_parent, initargs=(os.getpid(),)
            )
            with _without_interrupts():  # which the process inherits: Ctrl-C goes to the parent, which ends it
                ready = pool.submit(_prepare, self._sent)
        ready.result()

    def answer(self, cohort: Cohort) -> Answers:
        """The answers to a batch; if the process dies twice, to all episodes but those that are the cause."""
        from loky import BrokenProcessPool

        try:
            return self._ask(cohort)
        except BrokenProcessPool:
            self.start()
            return self._ask_in_halves(cohort)

    def _ask_in_halves(self, cohort: Cohort) -> Answers:
        """The answers to a batch; if the process dies, to its halves, down to single episodes."""
        from loky import BrokenProcessPool

        try:
            return self._ask(cohort)
        except BrokenProcessPool:
            self.start()
        if len(cohort) == 1:
            return self._fatal.answer(cohort)
        middle = len(cohort) // 2
        halves = cohort.part(0, middle), cohort.part(middle, len(cohort))
        return join([self._ask_in_halves(half) for half in halves])

    def _ask(self, cohort: Cohort) -> Answers:
        assert self._pool is not None
        found = self._pool.submit(_answer, cohort).result()
        if found is None:  # another process is in its place
            self._pool.submit(_prepare, self._sent).result()
            found = self._pool.submit(_answer, cohort).result()
        assert isinstance(found, Answers)
        return found

    def end(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            self._is_ended = True
            if self._pool is not None:
                self._pool.shutdown(wait=True, kill_workers=True)


def _last_words(error: BaseException) -> str:
    """What a process said before it ended, if it did: the last line of its traceback."""
    lines = str(error.__cause__ or "").strip(" \n\"'").splitlines()
    return f" ({lines[-1].strip()})" if lines else ""


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in this thread, and in the processes that it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- In a worker process ------------------------------------------------------------------------------------

_prepared: Answering | None = None


def _prepare(sent: bytes) -> None:
    """Prepare to answer: once per process."""
    global _prepared  # noqa: PLW0603
    try:
        mdp, question = pickle.loads(sent)
    except Exception as error:  # such as a class of a module that is not there
        raise _NotSentError(f"{type(error).__name__}: {error}") from None
    _prepared = prepare(PreparedQuestion.of(mdp, question))


def _answer(cohort: Cohort) -> Answers | None:
    """The answers to a batch; None if nothing was prepared here."""
    if _prepared is None:
        return None
    try:
        return _prepared(cohort)
    except Exception as error:
        if _is_sendable(error):
            raise
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


def _is_sendable(error: Exception) -> bool:
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        return False
    return True


# --- Which of them -----------------------------------------------------------------------------------------


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
    in_threads = is_usual(mdp, question)
    wanted = workers or (core_count() if n_rows >= (_WORTH_THREADS if in_threads else _WORTH) else 1)
    if wanted == 1:
        return Here(mdp, question)
    if in_threads:
        return Threads(mdp, question, wanted)
    try:
        return Processes(mdp, question, wanted)
    except _NotSentError as error:
        if workers is None:  # not asked for
            return Here(mdp, question)
        raise QueryError(
            f"the model or the policy cannot be sent to other processes ({error}); use workers=1, or a policy that can "
            "be pickled"
        ) from error


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
