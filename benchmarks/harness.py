"""What every benchmark shares: records, timing, memory, slopes, the machine's facts."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")

HERE = Path(__file__).parent
RESULTS = HERE / "results"
FIGURES = HERE.parent / "docs" / "figures"


@dataclass(frozen=True)
class Result:
    """One measured ratio, time or size.

    ``target`` is in words, ``met`` None where there is none. ``memory`` is the peak, in bytes, beyond all that was
    held before the measured call (the model's arrays among it); None where it was not measured.
    """

    name: str
    value: float
    unit: str
    detail: str
    target: str = ""
    met: bool | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Anew:
    """A question to something that keeps its answers: what is asked is made for each run, and that is not measured."""

    make: Callable[[], Any]
    ask: Callable[[Any], Any]

    def __call__(self) -> Any:
        return self.ask(self.make())

    def made(self) -> Callable[[], Any]:
        """The question to what is made now."""
        return partial(self.ask, self.make())


def seconds_of(job: Callable[[], Any]) -> float:
    """Seconds of one run."""
    return timed(job.made() if isinstance(job, Anew) else job)[0]


def timed(job: Callable[[], Made]) -> tuple[float, Made]:
    """Seconds of one run, and what it made."""
    start = time.perf_counter()
    made = job()
    return time.perf_counter() - start, made


def median_time(function: Callable[[], Any], repeats: int) -> float:
    """Median seconds of several warm runs."""
    function()
    return statistics.median(seconds_of(function) for _ in range(repeats))


def time_for(function: Callable[[], Any], seconds: float, least: int = 3, most: int = 1000) -> float:
    """Median seconds of as many warm runs as fit into ``seconds``."""
    each = (seconds_of(function) + seconds_of(function)) / 2
    return median_time(function, max(least, min(most, int(seconds / max(each, 1e-6)))))


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Exponent of the power of ``sizes`` that ``times`` grow with: the least-squares line of their logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(time) for time in times]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return rise / sum((a - mean_x) ** 2 for a in x)


# --- In processes of their own -----------------------------------------------------------------


def in_fresh_process(module: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run ``benchmarks/<module>.py`` by itself and read the JSON it prints last."""
    command = [sys.executable, str(HERE / f"{module}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def peak_of(module: str, job: str) -> int:
    """Peak memory of ``JOBS[job]()`` of a module, beyond what it was given, in a process of its own."""
    return int(in_fresh_process("peak", module, job)["peak"])


def peak_beyond(function: Callable[[], Any]) -> int:
    """Peak resident memory of a warm call, in bytes, beyond what the process held before it.

    What the first call loads for good (compiled code, pages of a mapped model) is held by then; what it freed is given
    back to the system first, lest the second call find it again and seem to need none.
    """
    function()
    function = function.made() if isinstance(function, Anew) else function
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    before = peak_memory()
    clear = Path("/proc/self/clear_refs")
    if clear.exists():  # Linux: the high-water mark starts anew
        clear.write_text("5")
        before = _status("VmRSS")
    function()
    return max(0, (_status("VmHWM") if clear.exists() else peak_memory()) - before)


def anonymous_memory() -> int:
    """Resident memory that is not of a file, in bytes; all of it where the system does not tell the two apart."""
    if Path("/proc/self/status").exists():
        return _status("RssAnon")
    return peak_memory()


def peak_memory() -> int:
    """Peak resident memory of this process so far, in bytes.

    Not what `resource` says on Linux: there a process begins with the peak of the one that started it.
    """
    if Path("/proc/self/status").exists():
        return _status("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


# --- The machine ---------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Facts about the machine and the libraries, to be kept beside the figures."""
    import tether

    facts: dict[str, Any] = {"tether": tether.__version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "scipy", "quantecon", "pymdptoolbox"):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            continue
    return facts | {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": f"{_total_memory() / 2**30:.1f} GiB",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _total_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return math.nan
