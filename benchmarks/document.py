"""Puts the figures of a full run into docs/performance.md, between the marks that name them.

``<!-- bench: NAME -->`` … ``<!-- /bench -->``, where NAME is a section of the run, "machine", "lines", or "older": what
is said of tables that are older than the last full run, which leaves none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness import HERE

from tether._foundation.writing import written

PAGE = HERE.parent / "docs" / "performance.md"
MARKS = re.compile(r"(?P<begin><!-- bench: (?P<name>[\w ]+) -->\n).*?(?P<end><!-- /bench -->)", re.DOTALL)


def write(record: dict[str, Any], page: Path = PAGE) -> None:
    """Replace what stands between the marks; sections that were not run stay as they are."""
    text = page.read_text(encoding="utf-8")

    def filled(match: re.Match[str]) -> str:
        section = _section(match["name"], record)
        return match.group() if section is None else f"{match['begin']}{section}\n{match['end']}"

    with written(page) as partial:
        partial.write_text(MARKS.sub(filled, text), encoding="utf-8")


def _section(name: str, record: dict[str, Any]) -> str | None:
    if name == "machine":
        return ", ".join(f"{key} {value}" for key, value in record["machine"].items()) + "."
    if name == "older":
        return "Every table on this page is of that run."
    if name == "lines":
        return "\n".join(record["lines"])
    rows = [result for result in record["results"] if result["section"] == name]
    if not rows:
        return None
    head = "| measured | value | memory | target | how |\n|---|--:|--:|---|---|\n"
    return head + "\n".join(_row(result) for result in rows)


def _row(result: dict[str, Any]) -> str:
    value = f"{number(result['value'])} {result['unit']}".strip()
    memory = "" if result["memory"] is None else f"{result['memory'] / 1e6:,.1f} MB"
    target = result["target"] + {None: "", True: " ✓", False: " ✗"}[result["met"]]
    cells = (result["name"], value, memory, target, result["detail"])
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def number(value: float) -> str:
    """Four digits, or all of them."""
    return f"{value:,.0f}" if value >= 1e4 else f"{value:,.4g}"
