"""A second process that compiles kernels while the first answer of an installation is computed.

numba compiles on one core, and a first answer waits for it. So a child process compiles some of the kernels, while this
process reads the model and compiles the kernels that it needs earlier. The child writes to the cache on disk
(`tether._kernels.cache`). This process waits for a kernel that the child is compiling, and does not compile it again.

The child only saves time. It is started only if its kernels are not in the cache and there are at least two cores. It
ends with its parent. If it fails, its kernels are missing from the cache, and this process compiles them.
"""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["compile_share", "second_compiler", "wait_for"]

SHARE = ("thresholds.gather_nodes", "plan.plan_nodes", "sets.sort_by", "robust.followed_values")
"""The kernels that the child compiles, in this order. The other kernels of an explanation take about as long."""

_PATIENCE = 60.0
"""How many seconds to wait for a kernel of the child before it is compiled here."""

_COMMAND = [sys.executable, "-P", __file__]

_at_work: list[subprocess.Popen[bytes]] = []


@contextmanager
def second_compiler() -> Iterator[None]:
    """Let a child compile its share meanwhile, if the cache does not have it; the child has ended on exit."""
    child = _start() if _is_of_use() else None
    if child is None:
        yield
        return
    _at_work.append(child)
    try:
        yield
    finally:
        _at_work.remove(child)
        child.communicate()  # closes its standard input: then it ends


def wait_for(kernel: str, file: Path) -> bool:
    """Wait while a child compiles a kernel into a file; returns whether the file is there."""
    from tether._kernels.compiling import compiling

    until = time.monotonic() + _PATIENCE
    for child in _at_work if kernel in SHARE else ():
        with compiling():
            while child.poll() is None and not file.exists() and time.monotonic() < until:
                time.sleep(0.005)
        return file.exists()
    return False


def _is_of_use() -> bool:
    from tether._kernels.place import find_place  # not at the top: the child would import the whole package

    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or getattr(sys, "frozen", False) or _at_work:
        return False
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    place = find_place() if cores > 1 and sys.executable else None
    return place is not None and not any(any(place.glob(f"{kernel}-*")) for kernel in SHARE)


def _start() -> subprocess.Popen[bytes] | None:
    # The child finds modules in the same places as this process.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    with suppress(OSError):
        quiet = subprocess.DEVNULL
        return subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=environment)
    return None


def compile_share() -> None:
    """Compile the kernels of the share: call each of them with empty arrays."""
    from tether._kernels.layer import LayerNodes, LayerRows
    from tether._kernels.plan import Limits, Objective, Values, plan_nodes
    from tether._kernels.robust import RowsTaken, followed_values
    from tether._kernels.sets import limits_for, row_scratch_for, sort_by
    from tether._kernels.thresholds import gather_nodes

    states, pairs, numbers = _nothing(np.int32), _nothing(np.int64), _nothing(np.float64)
    nodes = LayerNodes(states, states, False, 1)
    rows = LayerRows(pairs, states, pairs, states, numbers, pairs, pairs, states, numbers, pairs)
    whole, real, small = np.empty(0, np.int64), np.empty(0), np.empty(0, np.int16)
    both = np.empty(0, np.int32)
    gather_nodes(nodes, rows, whole, 0, 0, both, both, small, 0, 0)
    limits = Limits(_nothing(np.int16), whole, small, small, 1)
    goal = Objective(numbers, real, 1.0, 0)
    values = Values(real, 1, 1, 1, real, 1, 1, 0, np.empty((0, 1), np.int8))
    plan_nodes(nodes, rows, limits, goal, values, 0, 0, real, real, whole)
    sort_by(real, whole, 0)
    taken = RowsTaken(whole, whole, real, real, whole, real, whole, whole, real, limits_for(0))
    followed_values(taken, np.empty(0, np.uint8), 1.0, 1.0, 1.0, real, real, real, row_scratch_for(0))


def _nothing(kind: Any) -> Any:
    """An empty array that cannot be written to, like the arrays of a model."""
    empty = np.empty(0, kind)
    empty.setflags(write=False)
    return empty


def _leave_with_parent() -> None:
    """End when the parent closes standard input: it needs no more kernels, or has ended."""
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin.read: its lock would be held when this process ends
    _thread.interrupt_main()


def _without_front_doors() -> None:
    """Register the package without its public names: importing them takes a third of a second."""
    package = ModuleType("tether")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["tether"] = package


if __name__ == "__main__":
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(KeyboardInterrupt):
        _without_front_doors()
        compile_share()
