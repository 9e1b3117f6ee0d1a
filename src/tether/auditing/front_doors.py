"""What an audit passes on to a later folder: its report, which `tether.views` makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datetime as dt
    import pathlib

__all__ = ["AuditDoors"]


class AuditDoors:
    """The report of `tether.records.Audit`; ``self`` is typed as Any, as that class is defined after this one."""

    def report(
        self: Any,
        file: str | os.PathLike[str],
        *,
        reports: int | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
        date: dt.date | None = None,
    ) -> pathlib.Path:
        """Write an overview as one HTML file, and the reports of the top episodes beside it.

        The page loads nothing. Its one script sorts and filters the table of episodes; the page can be read without it.
        It lists the top episodes only: `table` has all of them.

        Parameters
        ----------
        file : path
            Where to write it, such as ``audit.html``. The reports of single episodes then are in ``audit-episodes``.
        reports : int, optional
            How many of the top episodes get a report of their own: 10 by default; 0 for a policy, which has none.
        title : str, optional
        about : mapping, optional
            Further lines for the settings at the end, such as the files that were read.
        date : datetime.date, optional
            The date that the page carries: by default today, or the day of ``SOURCE_DATE_EPOCH`` where that is set.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> audit = tether.audit(case.mdp, {"ann": case.path}, k=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = audit.report(f"{folder}/audit.html", reports=0)
        ...     "ann" in page.read_text(encoding="utf-8")
        True
        """
        from tether.views.audit import report

        return report(self, file, reports=reports, title=title, about=about, date=date)
