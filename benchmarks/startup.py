"""What it costs to start: importing the package, the command line, and the first answer, with kernels cached or not."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness import Result, in_fresh_process, seconds_of

IMPORT = "import tether"
ROW = "import tether; c = tether.cases.grid_world(); tether.counterfactual(c.mdp, c.path).row(2, 2, 'left')"
PLAN = "import tether; c = tether.cases.epidemic(); tether.counterfactual(c.mdp, c.path).plan(k=7, m=3)"
TETHER = Path(sys.executable).with_name("tether")
EXPLAIN = [str(TETHER), "explain", "case:sepsis"]
COMPILING = 12.0  # seconds, on two idle cores


def _code(code: str) -> list[str]:
    return [sys.executable, "-c", code]


STARTS = (
    ("import tether", _code(IMPORT), "", None),
    ("tether --help", [str(TETHER), "--help"], "whole process", 0.3),
    ("first plan, warm", _code(PLAN), "fresh process, kernels cached on disk", None),
    ("first row, warm", _code(ROW), "fresh process, kernels cached on disk", None),
)


def measure(quick: bool) -> list[Result]:
    repeats = 1 if quick else 5
    empty = _median(_code("pass"), repeats)
    results = []
    for name, command, how, limit in STARTS[: 3 if quick else 4]:
        seconds = _median(command, repeats)
        memory = None if quick else float(in_fresh_process("startup", *command)["memory"])
        if limit is None:
            detail = f"{how and how + '; '}above the {empty * 1e3:.0f} ms of Python itself"
            results.append(Result(f"start: {name}", (seconds - empty) * 1e3, "ms", detail, memory=memory))
        else:
            target = f"< {limit * 1e3:.0f} ms"
            results.append(Result(f"start: {name}", seconds * 1e3, "ms", how, target, seconds < limit, memory))
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        seconds = _run(_code(ROW if quick else PLAN), NUMBA_CACHE_DIR=folder)
    what = "first row, cold" if quick else "first plan, cold"
    detail = "fresh process, nothing cached: every kernel it uses is compiled, once for an installation"
    results.append(Result(f"start: {what}", seconds - empty, "s", detail))
    if not quick:
        results.append(_compiling())
    return results


def _compiling() -> Result:
    """What all kernels of a first answer take to compile: the same command with nothing cached, and once more."""
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        cold, warm = (_run(EXPLAIN, NUMBA_CACHE_DIR=folder) for _ in range(2))
    detail = f"tether explain case:sepsis: {cold:.1f} s with nothing cached, {warm:.1f} s with all kernels cached"
    seconds = cold - warm
    return Result("start: compiling", seconds, "s", detail, f"< {COMPILING:g} s", seconds < COMPILING)


def _median(command: Sequence[str], repeats: int) -> float:
    """Median seconds, without the first run, which fills caches."""
    return statistics.median([_run(command) for _ in range(repeats + 1)][1:])


def _run(command: Sequence[str], **environment: str) -> float:
    # As a user's Python: modules are compiled once and kept, whatever the shell of this process says.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment
    return seconds_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment))


if __name__ == "__main__":
    # A child counts the memory of the process it was forked from: this one is smaller than any that is measured.
    import resource

    subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps({"memory": peak * (1 if sys.platform == "darwin" else 1024)}))
