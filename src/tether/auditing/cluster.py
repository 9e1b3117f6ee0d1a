"""Many machines: batches answered by the workers of a Dask cluster, each written by the worker that answered it.

The directory of results must be on a disk that all workers share. The question is in a file there, with the model, or
with its place if it was opened from disk: so a worker that starts later has them, too, and nothing is lost with a
worker that dies. The scheduler gives its batch to another one. Dask is imported only if a client is given.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether._foundation.writing import written
from tether._version import __version__
from tether.auditing.engine import Answering, Work
from tether.auditing.workers import pickled, unpickled
from tether.errors import FileError, Problem, QueryError
from tether.logs.cohort import Cohort
from tether.mdp import MDP

if TYPE_CHECKING:
    from tether.auditing.directory import Parts

_RETRIES = 3
"""How often a batch is given to another worker."""

_PATIENCE = 15.0
"""Seconds without a connection to the scheduler after which it counts as gone."""


@dataclass(frozen=True, slots=True)
class Written:
    """A batch whose answers a worker has written; it reports only the episodes without an answer."""

    wrong: list[tuple[Any, str]]


def connect(address: str) -> Any:
    """A client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        raise QueryError("a cluster needs dask.distributed: pip install 'tether[cluster]'") from None
    try:
        return Client(address, timeout="20s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise QueryError(f"no scheduler answers at {address}: {error or type(error).__name__}") from error


@dataclass(frozen=True, slots=True)
class _Task:
    """What the workers of an audit are told with every batch; ``checksum`` is that of the file with the question."""

    file: Path
    checksum: str
    parts: Parts
    id_type: Any
    version: str


class Cluster:
    """The workers of a Dask cluster."""

    def __init__(self, client: Any, mdp: MDP, work: Work, parts: Parts, id_type: Any) -> None:
        self._client, self._parts = client, parts
        self._check_workers()
        sent = pickled(mdp, work)
        file = parts.folder / f".question-{secrets.token_hex(16)}"
        self._task = _Task(file, hashlib.sha256(sent).hexdigest(), parts, id_type, __version__)
        with written(file) as partial:
            partial.write_bytes(sent)

    def _check_workers(self) -> None:
        """Refuse workers of another version, and workers that do not see the directory."""
        try:
            found = self._safely(lambda: self._client.run(_about_worker, self._parts))
        except (ImportError, AttributeError) as error:
            raise QueryError(f"a worker of the cluster has no tether {__version__}: {error}") from error
        if not found:
            raise QueryError("the cluster has no workers")
        for worker, (version, sees) in found.items():
            if version != __version__:
                raise QueryError(f"the worker {worker} has tether {version}, here is {__version__}; install the same")
            if not sees:
                raise QueryError(
                    f"the worker {worker} does not see the directory {self._parts.folder}; "
                    "give one on a disk that all workers share"
                )

    def answers(self, batches: Iterable[tuple[int, Cohort]]) -> Iterator[tuple[int, Any]]:
        """Batches as they are done; the scheduler has a few per worker at a time."""
        from distributed.client import FIRST_COMPLETED, wait

        under_way: dict[Any, int] = {}
        numbered = iter(batches)
        last_seen = time.monotonic()
        while True:
            most = 4 * max(1, sum(self._client.ncores().values())) if self._is_connected() else 0
            while len(under_way) < most and (one := next(numbered, None)) is not None:
                under_way[self._submit(*one)] = one[0]
            if not under_way and most:
                return
            if self._is_connected():
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > _PATIENCE or self._client.status == "closed":
                raise self._gone()
            try:
                with self._client.as_current():
                    done = wait(list(under_way), timeout=1.0, return_when=FIRST_COMPLETED).done
            except (TimeoutError, ValueError):  # nothing is done yet; or there is no client any more
                continue
            for future in sorted(done, key=under_way.__getitem__):
                number = under_way.pop(future)
                yield number, Written(self._safely(future.result))

    def _submit(self, number: int, cohort: Cohort) -> Any:
        asked = self._task, number, cohort
        return self._safely(lambda: self._client.submit(_answer, *asked, pure=False, retries=_RETRIES))

    def _is_connected(self) -> bool:
        return bool(self._client.status == "running" and self._client.scheduler is not None)

    def _safely(self, ask: Callable[[], Any]) -> Any:
        """The result of a call; a tether error if the scheduler is gone, or if a batch made its workers end."""
        from concurrent.futures import CancelledError

        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        try:
            return ask()
        except KilledWorker as error:
            raise QueryError(
                f"a batch made {_RETRIES + 1} workers end, as they do where memory runs out; what was done is kept in "
                f"{self._parts.folder.parent}"
            ) from error
        except (CancelledError, CommClosedError, TimeoutError, ConnectionError) as error:
            raise self._gone() from error

    def _gone(self) -> QueryError:
        place = self._parts.folder.parent
        return QueryError(f"the scheduler is gone; what was done is kept in {place}, and the same call goes on there")

    def close(self) -> None:
        """Release what the workers prepared; the client belongs to the caller."""
        self._task.file.unlink(missing_ok=True)
        if self._is_connected():
            self._safely(lambda: self._client.run(_release, self._task, on_error="ignore"))


def _about_worker(parts: Parts) -> tuple[str, bool]:
    """Of a worker, its version of tether, and whether it sees the directory."""
    return __version__, parts.folder.is_dir()


class _Prepared:
    """On a worker: what was prepared for an audit, and of it what no thread is using."""

    def __init__(self, task: _Task) -> None:
        sent = task.file.read_bytes()
        if hashlib.sha256(sent).hexdigest() != task.checksum:
            raise FileError(Problem("it was changed or damaged while the audit ran", file=str(task.file)))
        self._make = unpickled(sent)
        self._free: list[Answering] = []

    def __call__(self, cohort: Cohort) -> Any:
        try:
            answer = self._free.pop()
        except IndexError:
            answer = self._make()
        found = answer(cohort)
        self._free.append(answer)
        return found


_prepared: dict[_Task, _Prepared] = {}
_preparing = threading.Lock()
"""On a worker: by audit, what was prepared for it; several threads, or workers of one process, share it."""


def _answer(task: _Task, number: int, cohort: Cohort) -> list[tuple[Any, str]]:
    """On a worker: answer a batch and write the answers. A worker that joined later may have another version."""
    if task.version != __version__:
        raise QueryError(f"a worker has tether {__version__}, where {task.version} asks; install the same")
    with _preparing:
        if task not in _prepared:
            _prepared[task] = _Prepared(task)
        prepared = _prepared[task]
    found = prepared(cohort)
    task.parts.write(number, found, task.id_type)
    wrong: list[tuple[Any, str]] = found.wrong
    return wrong


def _release(task: _Task) -> None:
    """On a worker: forget what was prepared for an audit."""
    _prepared.pop(task, None)
