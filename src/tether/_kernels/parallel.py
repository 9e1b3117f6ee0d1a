"""When a kernel may run on all cores, and when it must wait for the kernels of other threads.

Threads do not survive a fork: in a forked child the libraries behind numba's parallel kernels wait for threads that do
not exist, or end the process. So a child of ``multiprocessing`` runs the serial kernels; its siblings use the other
cores anyway. numba's threading layer ``workqueue`` ends the process if two threads start a parallel kernel at the same
time. With this layer, threads take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LARGE = 32_768
"""A layer with at least this many nodes is worth starting threads for."""

CHUNKS = 64
"""A large layer is cut into this many pieces: more than there are cores, so that uneven pieces balance out."""

_PROCESS = os.getpid()
_TURN = threading.Lock()
_SAFE_LAYERS = ("tbb", "omp")


def use_cores(size: int) -> bool:
    """Whether a task of ``size`` nodes is worth all cores, and this process may use them."""
    return size >= LARGE and os.getpid() == _PROCESS


@contextmanager
def turn() -> Iterator[None]:
    """Wait for the parallel kernels of other threads, if the threading layer cannot run two at a time."""
    if _layer() in _SAFE_LAYERS:
        yield
    else:
        with _TURN:
            yield


def _layer() -> str:
    """The threading layer in use; empty before the first parallel kernel has run."""
    from numba.np.ufunc import parallel

    ask: Callable[[], str] = parallel.threading_layer
    try:
        return ask()
    except ValueError:
        return ""
