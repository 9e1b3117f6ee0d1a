"""`make bench`: every benchmark, one after the other, as a table and as JSON.

Ratios come from one run on one machine; `--quick` takes smaller models and fewer repeats.
"""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import asdict

from harness import RESULTS, Result, machine
from rich.console import Console
from rich.table import Table

BENCHMARKS = ("rows", "planning", "memory", "startup")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller models, fewer repeats")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    given = parser.parse_args()
    console = Console()
    results: list[Result] = []
    for name in given.names or BENCHMARKS:
        with console.status(f"measuring {name} …"):
            results += importlib.import_module(name).run(given.quick)
    console.print(_table(results))
    facts = machine()
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))
    RESULTS.mkdir(exist_ok=True)
    record = {"quick": given.quick, "machine": facts, "results": [asdict(result) for result in results]}
    target = RESULTS / "results.json"
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    temporary.replace(target)
    console.print(f"written to {target.relative_to(RESULTS.parent.parent)}")
    if any(result.met is False for result in results):
        raise SystemExit("a target was missed")


def _table(results: list[Result]) -> Table:
    table = Table(title="Tether benchmarks")
    for column, justify in (("measured", "left"), ("value", "right"), ("target", "left"), ("how", "left")):
        table.add_column(column, justify=justify)
    for result in results:
        verdict = "" if result.met is None else (" ✓" if result.met else " ✗ missed")
        table.add_row(result.name, f"{result.value:,.4g} {result.unit}", result.target + verdict, result.detail)
    return table


if __name__ == "__main__":
    main()
