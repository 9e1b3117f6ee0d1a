"""The overview of an audit as one page, and the reports of its top episodes beside it.

`audit_page` writes; `audit_sections` makes each section, from the three tables of the audit; `listed_episodes` is the
table of the top episodes; `audit_words` names states and describes the question.
"""

from tether.views.audit.audit_page import report

__all__ = ["report"]
