"""The overview of an audit as one page, and the reports of its top episodes beside it.

`page` writes; `contents` makes each section, from the three tables of the audit; `episodes` is the table of the top
episodes; `words` names states and describes the question.
"""

from tether.views.audit.page import report

__all__ = ["report"]
