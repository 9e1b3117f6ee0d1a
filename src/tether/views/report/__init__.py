"""The report: a plan put beside what happened, as one HTML file that can be mailed.

The page needs nothing but itself: no script, no font, no picture from elsewhere. The same plan and date give the same
bytes. `page` computes and writes it; `contents` says what each section holds; `features` finds what to draw over time,
`drawings` draws it, `steps`, `limits` and `settings` list; the templates of `tether.views` put it together.
"""

from tether.views.report.page import report

__all__ = ["report"]
