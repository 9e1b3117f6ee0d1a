"""What the tests of figures share: the words on their axes, and how to find lines and marks on them."""

import numpy as np

K, M, T_ = "length of the tether k (steps)", "actions that may change, m", "step"
VALUE = "value of the initial state"


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


def is_hollow(one):
    return one.get_markerfacecolor() == "none"


def drawn(ax):
    """Draw the figure completely: layout and rendering must not warn either."""
    figure = ax.figure.figure
    figure.draw_without_rendering()
    return figure


def nearest(ax, a, b):
    """The smallest distance in points between marks of two lines, as printed; draw the figure first."""
    here, there = (ax.transData.transform(one.get_xydata()) * 72 / ax.figure.dpi for one in (a, b))
    return np.sqrt(((here[:, None] - there[None]) ** 2).sum(-1)).min()
