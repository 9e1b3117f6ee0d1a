"""What it costs to start: importing the package, and the first answer with kernels cached on disk."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from harness import Result

IMPORT = "import tether"
ANSWER = "import tether; c = tether.cases.grid_world(); tether.counterfactual(c.mdp, c.path).row(2, 2, 'left')"


def run(quick: bool) -> list[Result]:
    repeats = 3 if quick else 7
    empty, imported, answered = (_median(code, repeats) for code in ("pass", IMPORT, ANSWER))
    return [
        Result(
            "start: import tether", (imported - empty) * 1e3, "ms", f"above the {empty * 1e3:.0f} ms of Python itself"
        ),
        Result("start: first row", (answered - empty) * 1e3, "ms", "fresh process, kernels cached on disk"),
    ]


def _median(code: str, repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):  # the first fills the cache
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
