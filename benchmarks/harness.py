"""What every benchmark shares: timing, memory, the machine's facts, the printed table."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Result:
    """One measured ratio or size; ``target`` in words, ``met`` None where there is none."""

    name: str
    value: float
    unit: str
    detail: str
    target: str = ""
    met: bool | None = None


def median_time(function: Callable[[], Any], repeats: int) -> float:
    """Median seconds of several warm runs."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_fresh_process(module: str, *arguments: str) -> dict[str, Any]:
    """Run ``benchmarks/<module>.py`` by itself and read the JSON it prints: for memory and start-up."""
    done = subprocess.run(
        [sys.executable, str(HERE / f"{module}.py"), *arguments], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def peak_memory() -> int:
    """Peak resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> dict[str, Any]:
    """Facts about the machine and the libraries, to be kept beside the figures."""
    import numba
    import numpy
    import scipy

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
