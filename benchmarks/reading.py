"""Reading a model from a CSV table of 5 million transitions, against what Arrow's own CSV reader needs for the file.

Arrow reads with plain options, into numbers and texts, and stops there. Tether parses the same text, turns names into
indices, sorts, checks every row and builds the model. Both read the same file, in turns, in one process.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Result, in_fresh_process

TARGET = 2.5
N_ACTIONS, N_NEXT = 4, 5


def measure(quick: bool) -> list[Result]:
    n_states, repeats = (25_000, 3) if quick else (250_000, 5)
    results = []
    for labels in ("numbers", "words"):
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "model.csv"))
            in_fresh_process("reading", "write", labels, str(n_states), file)
            facts = in_fresh_process("reading", "read", str(repeats), file)
        for clock in ("wall", "CPU"):
            ours, arrow = facts["tether"][clock], facts["arrow"][clock]
            detail = f"{n_states * N_ACTIONS * N_NEXT:,} rows with rewards, {n_states:,} states, "
            detail += f"{facts['size'] / 1e6:.0f} MB; {clock} time {ours:.2f} s against {arrow:.2f} s"
            met = None if quick else ours / arrow <= TARGET  # small files cost what does not grow with them
            name = f"reading: {labels} as labels / pyarrow.csv, {clock}"
            results.append(Result(name, ours / arrow, "×", detail, f"≤ {TARGET}×", met))
    return results


def _write(labels: str, n_states: int, file: str) -> dict[str, int]:
    """A random model, row by row: by state and action, the next states in no order."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    n_pairs = n_states * N_ACTIONS
    first, stride = rng.integers(0, n_states, n_pairs), rng.integers(1, n_states // N_NEXT, n_pairs)
    after = (first[:, None] + stride[:, None] * np.arange(N_NEXT)) % n_states  # five distinct next states
    state = np.repeat(np.arange(n_states), N_ACTIONS * N_NEXT)
    action = np.tile(np.repeat(np.arange(N_ACTIONS), N_NEXT), n_states)
    states, actions = pa.array(np.arange(n_states)), pa.array(np.arange(N_ACTIONS))
    if labels == "words":
        states = pa.array([f"patient-{i:07}" for i in range(n_states)])
        actions = pa.array(["wait", "treat", "operate", "transfer"])
    columns = {
        "state": states.take(pa.array(state)),
        "action": actions.take(pa.array(action)),
        "next_state": states.take(pa.array(after.reshape(-1))),
        "probability": pa.array(rng.dirichlet(np.ones(N_NEXT), n_pairs).reshape(-1)),
        "reward": pa.array(rng.normal(size=state.size).round(3)),
    }
    csv.write_csv(pa.table(columns), file, csv.WriteOptions(quoting_style="none"))  # as pandas and R write it
    return {"rows": state.size}


def _read(repeats: int, file: str) -> dict[str, Any]:
    from pyarrow import csv

    from tether.io import read_table

    readers: dict[str, Callable[[], Any]] = {"arrow": lambda: csv.read_csv(file), "tether": lambda: read_table(file)}
    times: dict[str, dict[str, list[float]]] = {name: {"wall": [], "CPU": []} for name in readers}
    for turn in range(repeats + 1):
        for name, read in readers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            read()
            if turn:  # the first reading warms the file system and imports
                times[name]["wall"].append(time.perf_counter() - wall)
                times[name]["CPU"].append(time.process_time() - cpu)
    medians = {name: {clock: statistics.median(one) for clock, one in of.items()} for name, of in times.items()}
    return {"size": Path(file).stat().st_size, **medians}


if __name__ == "__main__":
    job, *given = sys.argv[1:]
    print(json.dumps(_write(given[0], int(given[1]), given[2]) if job == "write" else _read(int(given[0]), given[1])))
