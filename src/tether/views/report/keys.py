"""What marks and shades mean, beside the drawings."""

from __future__ import annotations

from tether._html import told

__all__ = ["INFLUENCE", "VALUES", "key", "over_time_key"]

_LINE = "<line class='{}' x1='0' x2='26' y1='6' y2='6'/>"
_DOT = "<circle class='plan-mark' cx='13' cy='6' r='2.7'/>"
_SQUARE = "<rect class='seen-mark' x='10' y='3' width='6' height='6'/>"

_OVER_TIME = (
    (_LINE.format("seen") + _SQUARE, "what was observed"),
    (_LINE.format("plan") + _DOT, "plan, on average"),
    (
        "<rect class='band' width='26' height='12'/>",
        "the middle 80 % of what the plan may lead to (of the return: one standard deviation either way)",
    ),
)

_SHADES = "".join(
    f"<rect class='cell' x='{x}' width='8' height='12' fill-opacity='{shade}'/>"
    for x, shade in ((0, 0.15), (9, 0.5), (18, 1))
)

INFLUENCE = (
    ("<rect class='outline' x='1' y='1' width='24' height='10'/>", "how often the observation speaks"),
    ("<rect class='strength' x='1' y='1' width='24' height='10'/>", "how strongly, on average"),
    ("<polygon class='change-mark' points='8,10 18,10 13,2'/>", "the plan may change the action here"),
)
"""Of the influence over time."""

VALUES = (
    (_LINE.format("plan") + _DOT, "best expected return with m = {m}"),
    (_LINE.format("free"), "without a tether"),
    (_LINE.format("seen"), "observed"),
    ("<circle class='chosen' cx='13' cy='6' r='4.5'/>", "this plan, k = {k}"),
    ("<circle class='suggested' cx='13' cy='6' r='5'/>", "suggested, k = {suggested}"),
)
"""Of the value against k."""


def over_time_key(strips: bool) -> list[tuple[str, str]]:
    """Of the features over time; ``strips``: some are shaded."""
    return [*_OVER_TIME, *([(_SHADES, "how likely under the plan, 0 to 100 %")] if strips else [])]


def key(*items: tuple[str, str]) -> str:
    """A list of marks and what they mean."""
    listed = "".join(
        f"<li><svg viewBox='0 0 26 12' aria-hidden='true'>{mark}</svg>{told(text)}</li>" for mark, text in items
    )
    return f"<ul class='key'>{listed}</ul>"
