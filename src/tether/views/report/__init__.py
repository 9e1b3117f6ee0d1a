"""The report: a plan put beside what happened, as one HTML file that can be mailed.

The page needs nothing but itself: no script, no font, no picture from elsewhere. It holds no date either; the
same plan gives the same bytes. `page` writes it and `sections` put it together; `words` says it in sentences,
`features` finds what to draw over time, `charts`, `limits` and `layers` draw, `tables` and `settings` list.
"""

from tether.views.report.page import report

__all__ = ["report"]
