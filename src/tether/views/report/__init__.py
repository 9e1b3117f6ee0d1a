"""The report: a plan put beside what happened, as one HTML file that can be mailed.

The page loads nothing: no script, no font, no picture. The same plan and date give the same bytes. `report_page`
computes and writes it; `report_sections` makes each section; `report_features` finds what to draw over time, `drawings`
draws it; `report_steps`, `report_limits` and `settings` make the tables; the templates of `tether.views` put it
together.
"""

from tether.views.report.report_page import report

__all__ = ["report"]
