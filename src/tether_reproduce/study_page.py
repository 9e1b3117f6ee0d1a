"""Writing a study out: figures as SVG and PNG, numbers as CSV and JSON, and one self-contained page.

Everything is written to a temporary directory first and moved into place at the end: an interrupted run leaves the
earlier files as they were.
"""

from __future__ import annotations

import csv
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import tether
from tether.errors import QueryError
from tether.views.figures import forget, inline_svg, save
from tether.views.pages import drawing, render
from tether_reproduce.findings import (
    Comparison,
    Figure,
    Section,
    comparison_table,
    figure_verdicts,
    footnotes,
    published,
    summary,
    together,
)
from tether_reproduce.study import Study


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
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as temporary:
        folder = Path(temporary)
        for section in study.sections:
            for figure in section.figures:
                progress(figure.name)
                drawings[figure.name] = _draw(figure, folder)
            _write_csv(section, folder / f"{section.name}.csv")
        (folder / "numbers.json").write_bytes(_numbers(study))
        (folder / "index.html").write_text(_page(study, drawings), encoding="utf-8")
        names = sorted((file.name for file in folder.iterdir()), key=lambda name: (name != "index.html", name))
        for name in names:
            os.replace(folder / name, out / name)
    return [out / name for name in names]


def _draw(figure: Figure, folder: Path) -> Any:
    """Write a figure to its files; returns it for the page."""
    drawn = figure.draw().figure
    for suffix in ("svg", "png"):
        save(drawn, folder / f"{figure.name}.{suffix}")
    inline = drawing(inline_svg(drawn, figure.name, figure.caption))
    forget(drawn)
    return inline


def _write_csv(section: Section, file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(name.replace("_", " ") for name in Comparison("", 0.0).record())
        writer.writerows(comparison.record().values() for comparison in section.comparisons)


def _numbers(study: Study) -> bytes:
    record = {
        "tether": tether.__version__,
        "source": published().source,
        "seconds": round(study.seconds, 3),
        "figures": [{**asdict(verdict), "cause": verdict.cause} for verdict in figure_verdicts(study.sections)],
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "text": section.text,
                "comparisons": [comparison.record() for comparison in section.comparisons],
                "tables": section.tables,
            }
            for section in study.sections
        ],
    }
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def _page(study: Study, drawings: dict[str, Any]) -> str:
    verdicts = figure_verdicts(study.sections)
    return render(
        "reproduction.html",
        package="tether_reproduce",
        title="Counterfactual influence in Markov decision processes, reproduced",
        source=published().source,
        run_time=published().run_time,
        seconds=study.seconds,
        summary=summary(verdicts),
        notes=list(footnotes(verdicts)),
        together=together(study.sections),
        sections=[_section(section, drawings) for section in study.sections],
        made=f"Tether {tether.__version__}, NumPy {np.__version__}, Python {platform.python_version()}",
    )


def _section(section: Section, drawings: dict[str, Any]) -> dict[str, Any]:
    """A section for the template: its figures as drawings, its numbers as one more table with footnotes."""
    notes = footnotes(figure_verdicts([section]))
    numbers = [comparison_table(section.published, notes)] if section.published else []
    return {
        "name": section.name,
        "title": section.title,
        "text": section.text,
        "figures": [{"caption": figure.caption, "svg": drawings[figure.name]} for figure in section.figures],
        "tables": [*section.tables, *numbers],
        "notes": list(notes),
    }
