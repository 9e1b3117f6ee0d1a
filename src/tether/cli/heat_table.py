"""The k × m table: shaded if the terminal has colours, readable without them, in several parts if it is too wide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tether._foundation.arrays import Floats
from tether.cli.screen import decimals, plain_table

if TYPE_CHECKING:
    from tether.plan.sweep import Sweep
    from tether.plan.typed_plan import TypedSweep

_LOW, _HIGH = np.array([240, 246, 251]), np.array([127, 184, 217])


def heat_tables(table: Sweep | TypedSweep) -> list[Table | str]:
    """The table; equal neighbouring rows or columns become one. If it is too wide, it comes in parts."""
    rows, columns = _runs(table.values), _runs(table.values.T)
    places = decimals(table.values.reshape(-1).tolist())
    coloured = Console().color_system in ("256", "truecolor")  # with fewer colours, text and background may be the same
    shares = _shares(table.gains) if coloured else np.full(table.values.shape, np.nan)
    heads = [_range(table.ms[columns[j] : columns[j + 1]]) for j in range(len(columns) - 1)]
    cells = [[_cell(table.values[i, j], shares[i, j], places) for j in columns[:-1]] for i in rows[:-1]]
    width = 2 + max(*(len(head) for head in heads), *(cell.cell_len for row in cells for cell in row))
    side = [_range(table.ks[rows[i] : rows[i + 1]]) for i in range(len(rows) - 1)]
    per_block = max(1, (Console().width - max(len(name) for name in [*side, "k \\ m"]) - 2) // width)
    made: list[Table | str] = []
    for first in range(0, len(heads), per_block):
        last = min(first + per_block, len(heads))
        block = plain_table("k \\ m", *heads[first:last], right=range(last - first + 1))
        for name, row in zip(side, cells, strict=True):
            block.add_row(Text(name, style="bold"), *row[first:last])
        made += [block] if not made else ["", block]
    return made


def _runs(values: Any) -> list[int]:
    """Where a row begins that differs from the one before; and the end."""
    new = [0, *(i for i in range(1, len(values)) if not np.array_equal(values[i], values[i - 1]))]
    return [*new, len(values)]


def _range(numbers: Any) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"


def _shares(gains: Floats) -> Floats:
    """How strongly each cell is shaded, from 0 for the worst to 1 for the best; NaN for no shade."""
    finite = gains[np.isfinite(gains)]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    shares: Floats = (gains - low) / (high - low) if high > low else np.full(gains.shape, np.nan)
    return shares


def _cell(value: float, share: float, places: int) -> Text:
    if not np.isfinite(value):
        return Text("–")
    text = Text(f"{value:,.{places}f}")
    if np.isfinite(share):
        red, green, blue = (_LOW + share * (_HIGH - _LOW)).astype(int)
        text.stylize(f"rgb(0,0,0) on rgb({red},{green},{blue})")
    return text
