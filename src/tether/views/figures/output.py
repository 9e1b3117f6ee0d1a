"""Figures to files, byte for byte the same each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tether._writing import written
from tether.errors import QueryError
from tether.views.figures.style import figure_of, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["save"]

_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}


def save(what: Axes | Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as SVG or PNG, by the suffix of the name.

    The same figure gives the same bytes, on any day. The file appears when it is complete: it is written
    under another name first.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.views.figures import plot_values, save
    >>> case = tether.cases.epidemic()
    >>> ax = plot_values(tether.counterfactual(case.mdp, case.path).sweep())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(ax, f"{folder}/values.svg").name
    'values.svg'
    """
    from matplotlib.axes import Axes

    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _UNDATED:
        raise QueryError(f"figures are written as .svg or .png; {target.name!r} ends in neither")
    figure = figure_of(what) if isinstance(what, Axes) else what
    drawn = BytesIO()
    with styled(), _undisturbed(figure):
        figure.savefig(drawn, format=kind, dpi=200, metadata=_UNDATED[kind])
    with written(target) as partial:
        partial.write_bytes(drawn.getvalue())
    return target


@contextmanager
def _undisturbed(figure: Figure) -> Iterator[None]:
    """Put the axes back where they were: layout starts from there, and must do so again."""
    before = [
        (ax, ax.get_position(True).frozen(), ax.get_position().frozen(), ax.get_in_layout()) for ax in figure.axes
    ]
    try:
        yield
    finally:
        for ax, original, active, laid_out in before:
            ax.set_position(original, which="original")
            ax.set_position(active, which="active")
            ax.set_in_layout(laid_out)
