"""When a kernel may run on all cores, and whose turn it is.

Threads do not survive a fork: in a forked child the libraries behind numba's parallel kernels wait for threads that are
not there, or end the process. A child of ``multiprocessing`` therefore runs the serial kernels; its siblings use the
other cores anyway. And of numba's threading layers ``workqueue`` ends the process when two threads start a parallel
kernel at the same time: there they take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["CHUNKS", "LARGE", "turn", "use_cores"]

LARGE = 32_768
"""A layer of at least so many nodes is worth starting threads for."""

CHUNKS = 64
"""Pieces a large layer is cut into: more than cores, so that uneven pieces even out."""

_PROCESS = os.getpid()
_TURN = threading.Lock()
_SAFE_LAYERS = ("tbb", "omp")


def use_cores(size: int) -> bool:
    """Whether a task of ``size`` nodes is worth all cores, and this process may use them."""
    return size >= LARGE and os.getpid() == _PROCESS


@contextmanager
def turn() -> Iterator[None]:
    """Wait for the parallel kernels of other threads, where the threading layer cannot run two at a time."""
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
