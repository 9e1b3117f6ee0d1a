"""The growth curves of docs/performance.md: time against size, both on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness import FIGURES

from tether.figures.style import GREY, axes, explain_with, look
from tether.views.figures import save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = tuple[Sequence[float], Sequence[float]]


def growth_figure(
    name: str,
    label: str,
    curves: Mapping[str, Curve],
    reference: tuple[str, Sequence[float], Sequence[float]] | None = None,
) -> None:
    """Write ``docs/figures/growth-<name>.png``: seconds of each curve, and a thin line to hold them against."""
    with styled():
        ax = axes(None, size=(4.4, 3.2), grid="both")
        handles = []
        if reference is not None:
            curve_name, sizes, times = reference
            handles += ax.plot(sizes, _ms(times), color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), label=curve_name)
        for i, (curve_name, (sizes, times)) in enumerate(curves.items()):
            style = look(i)
            handles += ax.plot(
                sizes, _ms(times), color=style.colour, marker=style.marker, linestyle=style.line, label=curve_name
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        _plain_ticks(ax, [size for sizes, _ in curves.values() for size in sizes])
        ax.set_xlabel(label)
        ax.set_ylabel("time (ms)")
        explain_with(ax, handles)
        FIGURES.mkdir(exist_ok=True)
        save(ax, FIGURES / f"growth-{name}.png")


def _ms(times: Sequence[float]) -> list[float]:
    return [1e3 * time for time in times]


def _plain_ticks(ax: Axes, sizes: Sequence[float]) -> None:
    """The sizes themselves along x, as far as there is room, and plain numbers along y."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    shown = sorted(set(sizes))
    shown = shown[:: -(-len(shown) // 8)]
    ax.set_xticks(shown, [f"{size:,}" for size in shown])
    ax.xaxis.set_minor_locator(NullLocator())
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
