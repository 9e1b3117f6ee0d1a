"""Reach, not size: the same episode in grids of a hundred thousand to ten million cells.

The models are saved and opened again, so that their arrays are mapped from files: what a process holds beyond them is
then plain to see, as memory that is not of a file. Each size is asked in processes of its own.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness import Anew, Result, anonymous_memory, in_fresh_process, peak_beyond, seconds_of, time_for, timed

T, K, M = 20, 4, 3


def measure(quick: bool) -> list[Result]:
    sizes = (100_000, 1_000_000) if quick else (100_000, 1_000_000, 10_000_000)
    found = {}
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        for n in sizes:
            place = f"{folder}/{n}"
            built = in_fresh_process("reach", "build", str(n), place)
            asked = in_fresh_process("reach", "ask", str(n), place, "0.3" if quick else "2")
            found[n] = built | asked | in_fresh_process("reach", "peak", str(n), place)
    return [_opening(found, sizes), *_asking(found, sizes), _memory(found, sizes)]


def _opening(told: dict[int, Any], sizes: tuple[int, ...]) -> Result:
    last = told[sizes[-1]]
    gigabytes = last["bytes"] / 1e9
    detail = (
        f"MDP.load of {sizes[-1]:,} states, {gigabytes:.2f} GB, every byte verified: {last['open']:.2f} s; "
        f"built in {last['build']:.1f} s, saved in {last['save']:.1f} s"
    )
    rate = last["open"] / gigabytes
    return Result("reach: opening the largest", rate, "s/GB", detail, "< 1 s/GB", rate < 1)


def _asking(told: dict[int, Any], sizes: tuple[int, ...]) -> list[Result]:
    first, last = told[sizes[0]], told[sizes[-1]]
    assert all(one["value"] == first["value"] for one in told.values()), "the same episode must have the same answer"
    results = []
    for n in sizes:
        one = told[n]
        detail = (
            f"T = {T}, k = {K}, m = {M}: conditioning {one['condition'] * 1e3:.2f} ms, thresholds and plan "
            f"{one['plan'] * 1e3:.2f} ms; the episode reaches {one['reached']:,} nodes"
        )
        results.append(Result(f"reach: {n:,} states", one["total"] * 1e3, "ms", detail, memory=one["peak"]))
    ratio = last["total"] / first["total"]
    detail = f"time for everything after the model is built, {sizes[-1]:,} against {sizes[0]:,} states"
    results.append(Result("reach: largest / smallest", ratio, "×", detail, "< 1.5×", ratio < 1.5))
    return results


def _memory(told: dict[int, Any], sizes: tuple[int, ...]) -> Result:
    """Flat, but for pages: of a large array the system hands out 2 MB at a time where a byte is touched."""
    first, last = told[sizes[0]], told[sizes[-1]]
    share = (last["peak"] - first["peak"]) / (last["bytes"] - first["bytes"]) * 100
    detail = (
        "what the peak beyond the model's arrays grows by, of what the arrays grow by; peaks "
        + ", ".join(f"{told[n]['peak'] / 1e6:.2f} MB" for n in sizes)
        + "; all the process holds that is not of a file: "
        + ", ".join(f"{told[n]['anonymous'] / 1e6:.0f} MB" for n in sizes)
    )
    # In the quick run the largest model is small, and a few pages are more of it.
    limit = 3 if len(sizes) == 2 else 1
    return Result("reach: memory, growth", share, "%", detail, f"flat: < {limit} %", share < limit)


# --- In processes of their own -----------------------------------------------------------------


def build(n: int, place: str) -> dict[str, float]:
    from models import local_model

    build, mdp = timed(lambda: local_model(n))
    return {"build": build, "save": seconds_of(lambda: mdp.save(place)), "bytes": mdp.nbytes}


def ask(n: int, place: str, seconds: str) -> dict[str, float]:
    from models import local_path

    import tether

    opening, mdp = timed(lambda: tether.MDP.load(place))
    path = local_path(n, T)
    condition = partial(tether.counterfactual, mdp, path)
    cf = condition()
    return {
        "open": opening,
        "total": time_for(_question(mdp, path), float(seconds), least=9),
        "condition": time_for(condition, float(seconds), least=9),
        "plan": time_for(Anew(condition, lambda cf: cf.plan(k=K, m=M)), float(seconds), least=9),
        "value": cf.plan(k=K, m=M).value,
        "reached": sum(int(cf.graph.states(t).size) for t in range(T + 1)),
        "anonymous": anonymous_memory(),
    }


def peak(n: int, place: str) -> dict[str, float]:
    from models import local_path

    import tether

    return {"peak": peak_beyond(_question(tether.MDP.load(place), local_path(n, T)))}


def _question(mdp: Any, path: Any) -> Callable[[], Any]:
    import tether

    return lambda: tether.counterfactual(mdp, path).plan(k=K, m=M)


if __name__ == "__main__":
    what, size, folder, *rest = sys.argv[1:]
    print(json.dumps({"build": build, "ask": ask, "peak": peak}[what](int(size), str(Path(folder)), *rest)))
