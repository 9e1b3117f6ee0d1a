"""Who answers the batches: this process, or several of them. The answers are the same, bit for bit.

A worker process that dies (the system ends processes where memory runs out) is replaced, and its batch is tried again.
If that batch ends the second process too, it is divided until the episodes are found that do this; they are listed with
this reason, and all others are answered.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import tether_start
from tether.auditing.engine import Answering, Work
from tether.errors import QueryError
from tether.logs.cohort import Cohort
from tether.mdp import MDP

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor


_WORTH, _WORTH_THREADS = 10_000, 4_000
"""From this many steps on, it is worth starting processes, and threads."""

_MOST_FATAL = 8
"""With more episodes than this that end their process, the audit stops: the cause is then not the episodes."""

_FATAL = "the process that answered it was ended by the system, again and again, as where memory runs out"


class NotSentError(QueryError):
    """The model or the question cannot be sent to another process."""


def pickled(mdp: MDP, work: Work) -> bytes:
    """A model and what is asked about it, for another process; also with functions and classes of the caller's own."""
    import cloudpickle

    try:
        sent: bytes = cloudpickle.dumps((mdp, work))
    except Exception as error:  # whatever an object of the caller raises
        raise NotSentError(f"the model or the policy cannot be sent to other processes: {error}") from error
    return sent


def unpickled(sent: bytes) -> Callable[[], Answering]:
    """What `pickled` returned, prepared in another process: each call makes a function that answers batches."""
    try:
        mdp, work = pickle.loads(sent)
    except Exception as error:  # such as a class of a module that is not there
        what = f"the model or the policy cannot be read by other processes: {type(error).__name__}: {error}"
        raise NotSentError(what) from None
    prepared: Callable[[], Answering] = work.prepare(mdp)
    return prepared


class Workers(Protocol):
    """Answers batches, some at a time."""

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Any]]:
        """The answers to batches, with their numbers, in the order in which they are done."""
        ...

    def close(self) -> None:
        """End everything that was started."""
        ...


class Here:
    """The process itself, one batch after the other."""

    def __init__(self, mdp: MDP, work: Work) -> None:
        self._answer = work.prepare(mdp)()

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Any]]:
        """Answer the batches one after the other."""
        for number, cohort in batches:
            yield number, self._answer(cohort)

    def close(self) -> None:
        """Does nothing: nothing was started."""


class Threads:
    """Several threads of this process, for compiled code that runs without Python's lock."""

    def __init__(self, mdp: MDP, work: Work, workers: int) -> None:
        make = work.prepare(mdp)
        self._threads, self._workers = ThreadPoolExecutor(workers), workers
        self._free: queue.SimpleQueue[Answering] = queue.SimpleQueue()
        for _ in range(workers):
            self._free.put(make())

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Any]]:
        """Answer as many batches at a time as there are threads."""
        flow = _Flow(batches, lambda cohort: self._threads.submit(self._ask, cohort), 2 * self._workers)
        while done := flow.wait_for_some():
            for number, _, future in done:
                yield number, future.result()

    def _ask(self, cohort: Cohort) -> Any:
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

    def __init__(self, mdp: MDP, work: Work, workers: int) -> None:
        self._sent, self._mdp, self._work = pickled(mdp, work), mdp, work
        self._workers, self._wanted, self._n_fatal = workers, workers, 0
        self._pool: ProcessPoolExecutor | None = _start(workers, self._sent)

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Any]]:
        """Answer as many batches at a time as there are processes. If one dies, those under way are answered again."""
        flow = _Flow(batches, self._submit, 2 * self._workers)
        while done := flow.wait_for_some():
            if any(_is_lost(future) for _, _, future in done):
                yield from self._answer_again([*done, *flow.wait_for_all()])
                continue
            for number, _, future in done:
                yield number, future.result()

    def _submit(self, cohort: Cohort) -> Future[Any]:
        from loky import BrokenProcessPool

        if self._pool is None:
            self._pool = _start(self._wanted, self._sent)
        try:
            future: Future[Any] = self._pool.submit(_answer, cohort)
        except BrokenProcessPool as error:  # a process died while it had nothing to do
            future = Future()
            future.set_exception(error)
        return future

    def _answer_again(self, under_way: list[_Numbered]) -> Iterator[tuple[int, Any]]:
        """The answers to batches that were under way when a process died, one after the other in one process."""
        self.close()
        self._wanted = 1
        for number, cohort, future in under_way:
            yield number, self._answer_in_halves(cohort) if _is_lost(future) else future.result()
        self.close()
        self._wanted = self._workers

    def _answer_in_halves(self, cohort: Cohort) -> Any:
        """The answers to a batch; if the process dies, to its halves, down to single episodes."""
        future = self._submit(cohort)
        if not _is_lost(future):
            return future.result()
        self.close()
        if len(cohort) == 1:
            return self._list_as_fatal(cohort)
        middle = len(cohort) // 2
        return self._work.join(
            [self._answer_in_halves(cohort.part(*ends)) for ends in ((0, middle), (middle, len(cohort)))]
        )

    def _list_as_fatal(self, cohort: Cohort) -> Any:
        """The answer to an episode that ends the process that answers it: the reason why there is none."""
        self._n_fatal += 1
        if self._n_fatal > _MOST_FATAL:
            raise QueryError(
                f"more than {_MOST_FATAL} episodes ended the processes that answered them, as where memory runs out; "
                "use fewer workers (workers=1). With a directory (out) the finished batches are kept"
            )
        return self._work.unanswered(self._mdp, cohort, _FATAL)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


_Numbered = tuple[int, Cohort, "Future[Any]"]


class _Flow:
    """Numbered batches that are submitted one after the other, a few of them at the same time."""

    def __init__(
        self, batches: Iterable[tuple[int, Cohort]], submit: Callable[[Cohort], Future[Any]], most: int
    ) -> None:
        self._batches, self._submit, self._most = iter(batches), submit, most
        self._under_way: dict[Future[Any], tuple[int, Cohort]] = {}

    def wait_for_some(self) -> list[_Numbered]:
        """Batches that are done, in the order of the log; none if all were returned before."""
        for number, cohort in islice(self._batches, self._most - len(self._under_way)):
            self._under_way[self._submit(cohort)] = number, cohort
        return self._returned(wait(self._under_way, return_when=FIRST_COMPLETED).done if self._under_way else set())

    def wait_for_all(self) -> list[_Numbered]:
        """All batches that were submitted and not returned before, in the order of the log."""
        return self._returned(wait(self._under_way).done)

    def _returned(self, done: set[Future[Any]]) -> list[_Numbered]:
        return sorted(((*self._under_way.pop(one), one) for one in done), key=lambda one: one[0])


def _is_lost(future: Future[Any]) -> bool:
    """Whether the process that was to answer died; waits until this is known."""
    from loky import BrokenProcessPool

    return isinstance(future.exception(), BrokenProcessPool)


def _start(workers: int, sent: bytes) -> ProcessPoolExecutor:
    """Start processes, with what they need to answer; returns when all of them are ready."""
    from loky import ProcessPoolExecutor

    environment = {
        "NUMBA_NUM_THREADS": str(max(1, core_count() // workers)),
        "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",  # caches are meant to grow: no reason to start another process
        "PYTHONFAULTHANDLER": os.environ.get("PYTHONFAULTHANDLER", ""),  # the death of a process is told in a sentence
    }
    others = set(multiprocessing.active_children())
    try:
        begin = tether_start.start_worker, (os.getpid(), sent)
        pool = ProcessPoolExecutor(workers, env=environment, initializer=begin[0], initargs=begin[1])
        with _without_interrupts():  # which the processes inherit: Ctrl-C goes to the parent, which ends them
            ready = [pool.submit(_prepare) for _ in range(workers)]
        for one in ready:
            one.result()
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # else this process would wait for it at its own end
        if not isinstance(error, RuntimeError | OSError | MemoryError | ImportError):
            raise
        raise QueryError(
            f"the processes of the audit ended before they were ready ({_last_words(error)}), as where memory runs "
            "out; use fewer workers (workers=1)"
        ) from error
    return pool


def _last_words(error: BaseException) -> str:
    """The last line of what a process said before it ended, or the first line of the error itself."""
    lines = str(error.__cause__ or "").strip(" \n\"'").splitlines()
    return lines[-1].strip() if lines else (str(error).splitlines() or [type(error).__name__])[0]


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


@cache
def _prepared() -> Answering:
    """What answers batches in this process: prepared once."""
    return unpickled(tether_start.sent())()


def _prepare() -> None:
    """Be ready to answer; from then on, what goes wrong here may be printed."""
    _prepared()
    tether_start.show_errors()


def _answer(cohort: Cohort) -> Any:
    """The answers to a batch."""
    try:
        return _prepared()(cohort)
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


def make_workers(mdp: MDP, work: Work, workers: int | None, n_rows: int) -> Workers:
    """The workers: the given number of threads or processes, or as many as are worth starting.

    Compiled code makes plans, and threads run it side by side; everything else needs processes.
    """
    in_threads = work.is_compiled
    wanted = workers or (core_count() if n_rows >= (_WORTH_THREADS if in_threads else _WORTH) else 1)
    if wanted == 1:
        return Here(mdp, work)
    if in_threads:
        return Threads(mdp, work, wanted)
    try:
        return Processes(mdp, work, wanted)
    except NotSentError as error:
        if workers is None:  # not asked for
            return Here(mdp, work)
        raise QueryError(f"{error}; use workers=1, or a policy that can be pickled") from error


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
