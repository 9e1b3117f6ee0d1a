"""Writing a study out: figures as SVG and PNG, numbers as CSV and JSON, and one self-contained page.

Everything is written to a temporary directory first and moved into place at the end: an interrupted run leaves the
earlier files as they were.
"""

from __future__ import annotations

import csv
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tether._foundation.writing import written_into
from tether._version import __version__
from tether.errors import QueryError
from tether.reproduce.compare import compact
from tether.reproduce.published import published
from tether.reproduce.records import Figure, Section
from tether.reproduce.study import Study
from tether.reproduce.verdicts import figure_verdicts, footnotes, summary

__all__ = ["check_writable", "write"]


def check_writable(out: Path) -> None:
    """Refuse early, in a sentence, if the output directory cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise QueryError(f"cannot write to {out}: {error.strerror or error}") from None


def write(study: Study, out: Path, progress: Callable[[str], None] = lambda name: None) -> list[Path]:
    """Write all of a study into a directory; returns the files, the page first."""
    check_writable(out)
    drawings: dict[str, Any] = {}
    with written_into(out) as folder:
        for section in study.sections:
            for figure in section.figures:
                progress(figure.name)
                drawings[figure.name] = _draw(figure, folder)
            _write_csv(section, folder / f"{section.name}.csv")
        (folder / "numbers.json").write_bytes(_numbers(study))
        (folder / "index.html").write_text(_page(study, drawings), encoding="utf-8")
        names = sorted((file.name for file in folder.iterdir()), key=lambda name: (name != "index.html", name))
    return [out / name for name in names]


def _draw(figure: Figure, folder: Path) -> Any:
    """Write a figure to its files; returns it for the page."""
    from tether.views.figures import forget, inline_svg, save
    from tether.views.pages import drawing

    drawn = figure.draw()
    for suffix in ("svg", "png"):
        save(drawn, folder / f"{figure.name}.{suffix}")
    inline = drawing(inline_svg(drawn, figure.name, figure.caption))
    forget(drawn)
    return inline


def _write_csv(section: Section, file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        head = (
            "quantity",
            "of",
            "k",
            "m",
            "t",
            "exact",
            "published",
            "sampled mean",
            "sampled error",
            "verdict",
            "reason",
        )
        writer.writerow(head)
        for comparison in section.comparisons:
            numbers = (comparison.ours, comparison.published, comparison.expected, comparison.error)
            where = (comparison.quantity, comparison.about, comparison.k, comparison.m, comparison.t)
            writer.writerow(
                [*("" if item is None else item for item in (*where, *numbers)), comparison.verdict, comparison.reason]
            )


def _numbers(study: Study) -> bytes:
    record = {
        "tether": __version__,
        "source": published().source,
        "seconds": round(study.seconds, 3),
        "figures": [{**asdict(verdict), "cause": verdict.cause} for verdict in figure_verdicts(study.sections)],
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "text": list(section.text),
                "comparisons": [
                    {
                        "quantity": comparison.quantity,
                        "of": comparison.about,
                        "k": comparison.k,
                        "m": comparison.m,
                        "t": comparison.t,
                        "exact": comparison.ours,
                        "published": comparison.published,
                        "sampled_mean": comparison.expected,
                        "sampled_error": comparison.error,
                        "verdict": comparison.verdict,
                        "reason": comparison.reason,
                    }
                    for comparison in section.comparisons
                ],
                "tables": [
                    {"title": table.title, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
                    for table in section.tables
                ],
            }
            for section in study.sections
        ],
    }
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def _page(study: Study, drawings: dict[str, Any]) -> str:
    from tether.views.pages import render

    verdicts = figure_verdicts(study.sections)
    return render(
        "reproduction.html",
        title="Counterfactual influence in Markov decision processes, reproduced",
        source=published().source,
        run_time=published().run_time,
        seconds=study.seconds,
        summary=summary(verdicts),
        notes=list(footnotes(verdicts)),
        sections=[_section(section, drawings) for section in study.sections],
        made=f"Tether {__version__}, NumPy {np.__version__}, Python {platform.python_version()}",
    )


def _section(section: Section, drawings: dict[str, Any]) -> dict[str, Any]:
    """A section for the template: its figures as drawings, its numbers as one more table with footnotes."""
    notes = footnotes(figure_verdicts([section]))
    tables = list(section.tables)
    if any(comparison.published is not None for comparison in section.comparisons):
        tables.append(compact(section.comparisons, notes))
    figures = [{"caption": figure.caption, "svg": drawings[figure.name]} for figure in section.figures]
    return {
        "name": section.name,
        "title": section.title,
        "text": section.text,
        "figures": figures,
        "tables": tables,
        "notes": list(notes),
    }
