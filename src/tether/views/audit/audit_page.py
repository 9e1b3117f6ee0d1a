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
from tether._foundation.markup import with_minus_signs
from tether._foundation.words import counted, cut, number, percent
from tether.auditing.audit_record import AuditRecord
from tether.auditing.tables import NO_OUTCOME
from tether.errors import FileError, Problem, QueryError
from tether.evaluation.outcomes import UNDER_WAY
from tether.explanation.verdicts import Nouns
from tether.views.audit.audit_sections import sections
from tether.views.audit.audit_words import is_certified, name_in_words, outcome_in_words, settings
from tether.views.pages import date_of_page, drawing, facts_of, source, write_page
from tether.views.report import report as report_plan

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
    facts = facts_of(about)
    is_policy = audit.question["policy"] is not None
    if reports is None:
        reports = 0 if is_policy else _REPORTS
    reports = whole_number("reports", reports, 0)
    if reports and is_policy:
        raise QueryError("reports of single episodes are about plans; this audit is about a policy: leave reports out")
    day, say = date_of_page(date), nouns or Nouns()
    links = _write_reports(audit, Path(file), reports, day, say, hide_ids)
    script = source("audit.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return write_page(
        file,
        "audit.html",
        day,
        nouns=say,
        title=title or say(_title(audit)),
        under="" if title is None else say(_title(audit)),
        source=str(facts.get("model file", facts.get("model", ""))),
        script=drawing(script),
        digest=drawing(digest),
        reports=len(links),
        listed=listed_episodes(audit, links, say, hide_ids),
        settings=settings(audit, facts, day.isoformat()),
        directory="" if audit.directory is None else str(audit.directory),
        **sections(audit, hide_ids),
    )


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


# ---- The listed episodes -------------------------------------------------------------------------------------------
# The table of the top episodes: what happened, what would have happened, and what to change.


_LISTED = 200
"""How many episodes the page lists. The file of the table has them all."""

_CHANGES = 3
"""How many changes of an episode are shown."""

_SURE = 0.99
"""From this probability on a mistake is listed without it."""

_OF_PLANS = ("about_episode", "verdict", "least_seen")
"""What says something of a plan only if it changes something."""


def listed_episodes(audit: AuditRecord, links: dict[Any, str], nouns: Nouns, hide_ids: bool = False) -> dict[str, Any]:
    """The head, the rows, and what to filter them by.

    For a policy, the episodes with the largest losses are listed as well. With ``hide_ids`` the number in the list
    stands for the name of an episode.
    """
    records = audit.listed(_LISTED).to_pylist()
    columns = _columns(audit, nouns)
    rows = []
    for rank, one in enumerate(records, start=1):
        link = links.get(one["episode"], "")
        if hide_ids:
            one["episode"] = rank
        cells = [_cell(kind, field, one, audit) for _, kind, field in columns]
        filters = {"outcome": _ended(audit, one["outcome"]), "show": " ".join(_kinds(one))}
        rows.append({"link": link, "cells": cells, **filters})
    return {
        "head": [{"name": name, "kind": kind} for name, kind, _ in columns],
        "rows": rows,
        "outcomes": list(dict.fromkeys(row["outcome"] for row in rows)),
        "most": _LISTED,
        "is_policy": audit.question["policy"] is not None,
    }


def _columns(audit: AuditRecord, nouns: Nouns) -> list[tuple[str, str, str]]:
    """Name, kind and field of each column."""
    question = audit.question
    found = [
        (nouns.episode, "id", "episode"),
        ("ended", "outcome", "outcome"),
        ("score", "number", "observed"),
        ("largest mistake", "mistake", "largest_mistake"),
        ("cost of mistakes", "number", "claimed"),
        ("gain" if question["policy"] else "what hindsight adds", "number", "gain"),
    ]
    if question["policy"] is None:
        found += [("what hindsight changes", "changes", "changes")]
        if "about_episode" in audit.table.column_names:
            found += [(f"about this {nouns.episode}", "share", "about_episode")]
    if is_certified(question):
        found.append(("holds?", "text", "verdict"))
    if audit.placebo is not None:
        found += [("least seen", "whole", "least_seen")]
    if question["draws"]:
        found += [("credible interval", "interval", "credible_low")]
    return found


def _cell(kind: str, field: str, row: dict[str, Any], audit: AuditRecord) -> dict[str, Any]:
    """The text of a cell, and the number to sort it by; None to sort by the text."""
    value, key = row[field], None
    if value is None or (field in _OF_PLANS and not audit.question["policy"] and not row["changes"]):
        text = ""
    elif kind in ("number", "whole"):
        text, key = with_minus_signs(number(value)), value
    elif kind == "mistake":
        sure = (
            "" if value["probability"] >= _SURE else f" ({percent(value['probability'], short=True)} likely to be one)"
        )
        text = _instead(value["t"], value["action"], value["best"], audit) + sure
    elif kind == "interval":
        text, key = with_minus_signs(f"{number(value)} to {number(row['credible_high'])}"), value
    elif kind == "changes":
        changes = [_change(one, audit) for one in value[:_CHANGES]]
        more = f"; and {len(value) - _CHANGES} more" if len(value) > _CHANGES else ""
        text = "; ".join(changes) + more
    elif kind == "outcome":
        text = cut(_ended(audit, value), 80)
    elif kind == "share":
        text, key = percent(value, short=True), value
    else:
        text = cut(str(value), 80)
        key = value if isinstance(value, int) else None
    return {"text": text, "key": key}


def _ended(audit: AuditRecord, outcome: str | None) -> str:
    return UNDER_WAY if outcome == NO_OUTCOME else outcome_in_words(audit.mdp, outcome)


def _kinds(one: dict[str, Any]) -> list[str]:
    """Which cards show an episode: mistake, hindsight, harm; gain and loss of a policy."""
    gain, mistaken = one["gain"] or 0.0, one["largest_mistake"] is not None
    kinds = {"mistake": mistaken, "hindsight": gain > 0 and not mistaken, "harm": one["verdict"] == "could do harm"}
    kinds["worse-end"] = bool(one["worse_end"]) and gain > 0
    return [name for name, holds in {**kinds, "gain": gain > 0, "loss": gain < 0}.items() if holds]


def _change(one: dict[str, Any], audit: AuditRecord) -> str:
    often = "" if one["probability"] > 1 - 1e-9 else f" ({percent(one['probability'], short=True)})"
    if one["observed_action"] is None:  # it had ended, and nothing was done
        advised = cut(name_in_words(audit.mdp.actions, one["advised_action"]), 60)
        return f"step {one['t']}, if it goes on: {advised}{often}"
    return _instead(one["t"], one["advised_action"], one["observed_action"], audit) + often


def _instead(t: int, action: Any, other: Any, audit: AuditRecord) -> str:
    first, second = (cut(name_in_words(audit.mdp.actions, one), 60) for one in (action, other))
    return f"step {t}: {first} instead of {second}"
