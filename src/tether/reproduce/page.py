"""Writing a study out: figures as SVG and PNG, numbers as CSV and JSON, and one self-contained page.

Everything is made in a temporary directory first and moved into place together at the end: an interrupted run leaves
what was there before.
"""

from __future__ import annotations

import base64
import csv
import platform
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path

import msgspec
import numpy as np

from tether._version import __version__
from tether._writing import written_into
from tether.errors import QueryError
from tether.reproduce.compare import compact
from tether.reproduce.published import published
from tether.reproduce.records import Figure, Section, Table
from tether.reproduce.study import Study

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
    with written_into(out) as made:
        for section in study.sections:
            for figure in section.figures:
                progress(figure.name)
                _draw(figure, made)
            _write_csv(section, made / f"{section.name}.csv")
        (made / "numbers.json").write_bytes(_numbers(study))
        (made / "index.html").write_text(_page(study, made), encoding="utf-8")
        names = sorted((file.name for file in made.iterdir()), key=lambda name: (name != "index.html", name))
    return [out / name for name in names]


def _draw(figure: Figure, folder: Path) -> None:
    from tether.views.figures import save

    drawn = figure.draw()
    for suffix in ("svg", "png"):
        save(drawn, folder / f"{figure.name}.{suffix}")


def _write_csv(section: Section, file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        head = ("quantity", "of", "k", "m", "t", "exact", "published", "sampled mean", "sampled error", "verdict")
        writer.writerow(head)
        for one in section.comparisons:
            numbers = (one.ours, one.published, one.expected, one.error)
            where = (one.quantity, one.of, one.k, one.m, one.t)
            writer.writerow([*("" if item is None else item for item in (*where, *numbers)), one.verdict])


def _numbers(study: Study) -> bytes:
    record = {
        "tether": __version__,
        "source": published().source,
        "seconds": round(study.seconds, 3),
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "text": list(section.text),
                "comparisons": [
                    {
                        "quantity": one.quantity,
                        "of": one.of,
                        "k": one.k,
                        "m": one.m,
                        "t": one.t,
                        "exact": one.ours,
                        "published": one.published,
                        "sampled_mean": one.expected,
                        "sampled_error": one.error,
                        "verdict": one.verdict,
                    }
                    for one in section.comparisons
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


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.7rem; } h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; } figcaption { color: #444; font-size: .9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; } th, td { padding: .15rem .6rem; text-align: right; }
th { border-bottom: 1px solid #888; } td:first-child, th:first-child, td.text { text-align: left; }
nav a { margin-right: 1rem; } footer { margin-top: 3rem; color: #555; font-size: .85rem; }
@media print { h2 { break-before: page; } nav { display: none; } }
"""


def _page(study: Study, folder: Path) -> str:
    links = "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in study.sections)
    body = "".join(_section(section, folder) for section in study.sections)
    made = f"Tether {__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Counterfactual influence in MDPs, reproduced</title><style>{_STYLE}</style></head><body>"
        "<h1>Counterfactual influence in Markov decision processes, reproduced</h1>"
        f"<p>Published numbers: {escape(published().source)} Ours are exact: no sampling. Where a difference is put down "
        "to sampling, the paper's method was run again with 1,000 draws, repeatedly, and the published number lies within "
        "three standard errors of what it gives.</p>"
        f"<p>Run time in the paper: {escape(published().run_time)}. Here: {study.seconds:.1f} s of computing for "
        f"all that is on this page.</p><nav>{links}</nav>{body}<footer>{escape(made)}</footer></body></html>\n"
    )


def _section(section: Section, folder: Path) -> str:
    text = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in section.text)
    figures = "".join(_figure(figure, folder) for figure in section.figures)
    tables = list(section.tables)
    if any(one.published is not None for one in section.comparisons):
        tables.append(compact(section.comparisons))
    shown = "".join(_table(table) for table in tables)
    return (
        f"<section id='{section.name}'><h2>{escape(section.title)}</h2>{text}"
        f"<div class='figures'>{figures}</div>{shown}</section>"
    )


def _figure(figure: Figure, folder: Path) -> str:
    data = base64.b64encode((folder / f"{figure.name}.svg").read_bytes()).decode()
    caption = escape(figure.caption)
    image = f"<img alt='{escape(figure.caption, quote=True)}' src='data:image/svg+xml;base64,{data}'>"
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(_td(cell) for cell in row) + "</tr>" for row in table.rows)
    return f"<div class='wide'><table><caption>{escape(table.title)}</caption><tr>{head}</tr>{rows}</table></div>"


def _td(cell: str) -> str:
    words = any(character.isalpha() for character in cell)
    return f"<td class='text'>{escape(cell)}</td>" if words else f"<td>{escape(cell)}</td>"
