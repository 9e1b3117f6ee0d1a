"""The report: a plan put beside what happened, as one HTML file that can be mailed.

The page loads nothing: no script, no font, no picture. The same plan and date give the same bytes. `page` computes and
writes it; `contents` makes each section; `features` finds what to draw over time, `drawings` draws it; `steps`,
`limits` and `settings` make the tables; the templates of `tether.views` put it together.
"""

from tether.views.report.page import report

__all__ = ["report"]
