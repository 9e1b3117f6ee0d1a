"""The page of an audit, put together and written; and the reports of its top episodes beside it."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether._foundation.checks import whole_number
from tether._foundation.words import counted
from tether._foundation.writing import written
from tether.auditing.audit_record import AuditRecord
from tether.errors import FileError, Problem, QueryError
from tether.explanation.verdicts import Nouns
from tether.views.audit.audit_sections import sections
from tether.views.audit.audit_words import settings
from tether.views.audit.listed_episodes import listed_episodes
from tether.views.pages import date_of_page, drawing, in_words, render, source
from tether.views.report import report as report_plan

__all__ = ["report"]

_REPORTS = 10
"""How many of the top episodes get a report of their own, by default."""

_REPORT = re.compile(r"\d{4,}\.html")


def report(
    audit: AuditRecord,
    file: str | os.PathLike[str],
    *,
    reports: int | None = None,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
    date: dt.date | None = None,
    nouns: Nouns | None = None,
    hide_ids: bool = False,
) -> Path:
    """Write the overview of an audit; see `tether.records.Audit.report`."""
    if about is not None and not isinstance(about, Mapping):
        raise QueryError(f"about must map names to values, not {about!r}")
    is_policy = audit.question["policy"] is not None
    if reports is None:
        reports = 0 if is_policy else _REPORTS
    reports = whole_number("reports", reports, 0)
    if reports and is_policy:
        raise QueryError("reports of single episodes are about plans; this audit is about a policy: leave reports out")
    target, day = Path(file), date_of_page(date)
    say = nouns or Nouns()
    links = _write_reports(audit, target, reports, day, say, hide_ids)
    script = source("audit.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    text = render(
        "audit.html",
        nouns=say,
        title=title or say(_title(audit)),
        under="" if title is None else say(_title(audit)),
        source=str((about or {}).get("model file", (about or {}).get("model", ""))),
        date=in_words(day),
        script=drawing(script),
        digest=drawing(digest),
        reports=len(links),
        listed=listed_episodes(audit, links, say, hide_ids),
        settings=settings(audit, about or {}, day.isoformat()),
        directory="" if audit.directory is None else str(audit.directory),
        **sections(audit, hide_ids),
    )
    with written(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return target


def _title(audit: AuditRecord) -> str:
    many, question = counted(len(audit), "episode"), audit.question
    if question["policy"]:
        return f"{many}, had the policy {question['policy']} decided"
    return f"{many}, at most {counted(question['m'], 'decision')} changed in each"


def _write_reports(
    audit: AuditRecord, page: Path, n: int, day: dt.date, nouns: Nouns, hide_ids: bool
) -> dict[Any, str]:
    """Write the reports of the top episodes into a folder beside the page; returns where each of them is."""
    folder = page.parent / f"{page.stem}-episodes"
    top = audit.listed(n).column("episode").to_pylist() if n else []
    if top:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise FileError(Problem(f"it cannot be made: {error.strerror or error}", file=str(folder))) from error
    links = {}
    rank_of = {episode: rank for rank, episode in enumerate(top, start=1)}
    for episode, plan in audit.plans(top) if top else ():
        rank = rank_of[episode]
        name = f"{rank:04d}.html"
        report_plan(
            plan,
            folder / name,
            title=f"{nouns.episode.capitalize()} {rank if hide_ids else episode}",
            nouns=nouns,
            about={"audit": f"number {rank} on the page of the audit"},
            date=day,
            certificate=audit.question["certify"],
        )
        links[episode] = f"{folder.name}/{name}"
    _remove_others(folder, {Path(link).name for link in links.values()})
    return links


def _remove_others(folder: Path, kept: set[str]) -> None:
    """Remove the reports of an earlier page, which have no links any more."""
    for old in folder.glob("*.html") if folder.is_dir() else ():
        if _REPORT.fullmatch(old.name) and old.name not in kept:
            old.unlink()
