"""The k × m table: shaded where the terminal has colours, readable where it has none, cut where it is too wide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tether.cli.screen import decimals, grid

if TYPE_CHECKING:
    from tether.plan.sweep import Sweep

__all__ = ["heat_tables"]

_LOW, _HIGH = np.array([239, 243, 255]), np.array([8, 81, 156])


def heat_tables(table: Sweep) -> list[Table | str]:
    """The table, rows and columns that are all the same taken together; below each other where it is too wide."""
    rows, columns = _runs(table.values), _runs(table.values.T)
    places = decimals(table.values.reshape(-1).tolist())
    shaded = Console().color_system in ("256", "truecolor")  # with fewer colours, ink and paper may be the same
    heads = [_range(table.ms[columns[j] : columns[j + 1]]) for j in range(len(columns) - 1)]
    cells = [
        [_cell(table, rows[i], columns[j], places, shaded) for j in range(len(heads))] for i in range(len(rows) - 1)
    ]
    width = 2 + max(*(len(head) for head in heads), *(cell.cell_len for row in cells for cell in row))
    side = [_range(table.ks[rows[i] : rows[i + 1]]) for i in range(len(rows) - 1)]
    per_block = max(1, (Console().width - max(len(name) for name in [*side, "k \\ m"]) - 2) // width)
    made: list[Table | str] = []
    for first in range(0, len(heads), per_block):
        last = min(first + per_block, len(heads))
        block = grid("k \\ m", *heads[first:last], right=range(last - first + 1))
        for name, row in zip(side, cells, strict=True):
            block.add_row(Text(name, style="bold"), *row[first:last])
        made += [block] if not made else ["", block]
    return made


def _runs(values: Any) -> list[int]:
    """Where a new row begins that is not the same as the one before; and the end."""
    new = [0, *(i for i in range(1, len(values)) if not np.array_equal(values[i], values[i - 1]))]
    return [*new, len(values)]


def _range(numbers: Any) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"


def _cell(table: Sweep, i: int, j: int, places: int, shaded: bool) -> Text:
    value = float(table.values[i, j])
    if not np.isfinite(value):
        return Text("–")
    finite = table.values[np.isfinite(table.values)]
    low, high = float(finite.min()), float(finite.max())
    text = Text(f"{value:,.{places}f}")
    if shaded and high > low:
        share = (value - low) / (high - low)
        red, green, blue = (_LOW + share * (_HIGH - _LOW)).astype(int)
        text.stylize(f"{'rgb(0,0,0)' if share < 0.5 else 'rgb(255,255,255)'} on rgb({red},{green},{blue})")
    return text
