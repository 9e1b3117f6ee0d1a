"""A figure of its own, and in a notebook one that appears below the cell that drew it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(size: tuple[float, float], layout: Any = None) -> Figure:
    """A figure; in a notebook it is registered with pyplot, because the notebook shows the figures of pyplot.

    Everywhere else pyplot is not imported: no window, no backend, no global state.

    >>> float(new_figure((4.0, 3.0)).get_figwidth())
    4.0
    """
    if in_notebook():
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout=layout)
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout=layout)


def in_notebook() -> bool:
    """Whether this code runs in the kernel of a notebook.

    >>> in_notebook()
    False
    """
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return hasattr(shell, "kernel")


def forget(figure: Figure) -> None:
    """Do not show a figure in the notebook after all: it was drawn to be written to a file.

    Examples
    --------
    >>> from tether.views.figures import forget, plot_lines
    >>> forget(plot_lines([1], [1], {}).figure)
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
