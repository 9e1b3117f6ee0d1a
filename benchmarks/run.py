"""`make bench`: every benchmark, one after the other, as a table and as JSON.

Ratios come from one run on one machine; `--quick` takes smaller models and fewer repeats. To add a benchmark, write a
module here with ``measure(quick: bool) -> list[harness.Result]`` and name it in SECTIONS; if it also has
``line(results) -> str``, that sentence is printed under the table. A full run also puts its figures into
docs/performance.md and draws the growth curves there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from typing import Any

import document
from harness import RESULTS, Result, machine
from rich.console import Console
from rich.table import Table

from tether._foundation.writing import written

SECTIONS = (
    "price",  # a counterfactual against the plain solution of the same model, and the limit
    "reach",  # what is paid for is what an episode can reach, not the size of the model
    "sweeps",  # every k and every m against one plan; the rules against each other
    "dense",  # a model in which every row of every step is an edited one
    "rows",  # exact rows against sampled ones, over support sizes
    "growth",  # slopes in T, m, k, actions, support size, and their plots
    "exploring",  # from functions to a model; the epidemic with a population of 200
    "audit",  # many episodes against a loop over them, on one worker and on two
    "rules",  # rules for everybody: a search, and replays against the call for one episode
    "robust",  # what a guarantee costs: robust plans, certificates, closed forms against programmes
    "building",  # from matrices to a model of a million states, and its memory
    "reading",  # a table of transitions as a file, against Arrow's own reader
    "trust",  # learning with pooled rows against rows learned apart
    "explorer",  # the page in the browser: moving a slider
    "startup",  # import, --help, the first answer
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller models, fewer repeats")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 180)
    results: dict[str, list[Result]] = {}
    lines: list[str] = []
    seconds: dict[str, float] = {}
    failed: list[str] = []
    for name in given.names or SECTIONS:
        module = importlib.import_module(name)
        start = time.perf_counter()
        try:
            with console.status(f"measuring {name} …"):
                found = module.measure(given.quick)
        except Exception:  # the other sections are measured all the same; told again at the end
            console.print_exception()
            failed.append(name)
            continue
        seconds[name] = round(time.perf_counter() - start, 1)
        console.print(f"{name}: {seconds[name]:.0f} s", highlight=False)
        results[name] = found
        lines += [module.line(found)] if hasattr(module, "line") else []
    every = [result for found in results.values() for result in found]
    console.print(_table(every))
    for line in lines:
        console.print(line)
    facts = machine()
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))
    console.print(f"took {sum(seconds.values()):.0f} s: " + ", ".join(f"{n} {s:.0f}" for n, s in seconds.items()))
    record = {
        "quick": given.quick,
        "machine": facts,
        "seconds": seconds,
        "lines": lines,
        "results": [{"section": name, **asdict(result)} for name, found in results.items() for result in found],
    }
    _keep(console, record, f"{'-'.join(given.names) or 'results'}{'-quick' if given.quick else ''}.json")
    if not given.quick and not given.names:
        document.write(record)
        console.print("the figures of docs/performance.md are those of this run")
    if failed:
        raise SystemExit(f"not measured, what stood on the page is left as it was: {', '.join(failed)}")
    if any(result.met is False for result in every):
        raise SystemExit("a target was missed")


def _keep(console: Console, record: dict[str, Any], name: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    with written(RESULTS / name) as partial:
        partial.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    console.print(f"written to {(RESULTS / name).relative_to(RESULTS.parent.parent)}")


def _table(results: list[Result]) -> Table:
    table = Table(title="Tether benchmarks")
    columns = (("measured", "left"), ("value", "right"), ("memory", "right"), ("target", "left"), ("how", "left"))
    for column, justify in columns:
        table.add_column(column, justify=justify)
    for result in results:
        verdict = "" if result.met is None else (" ✓" if result.met else " ✗ missed")
        memory = "" if result.memory is None else f"{result.memory / 1e6:,.1f} MB"
        table.add_row(
            result.name,
            f"{document.number(result.value)} {result.unit}",
            memory,
            result.target + verdict,
            result.detail,
        )
    return table


if __name__ == "__main__":
    main()
