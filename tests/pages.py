"""Reading a report: its text, its tables and its references; and models that are hard to show."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tether
from tether.views.report import report_sections as contents
from tether.views.report.drawings import Drawing

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> & \x00 \ud800 $\\frac$ &lt;b&gt;"


class Page(HTMLParser):
    """A page, read strictly: every tag that opens closes, in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.headings: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.inside: list[list[list[str]]] = []  # open tables, the innermost last
        self.kinds: list[str] = []  # their classes
        self.steps: list[list[str]] = []  # rows of the step-by-step table, folded or not
        self.parts: dict[str, str] = {"": ""}
        self.drawings: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "h2":
            self.headings.append("")
        if tag == "svg":
            self.drawings.append(dict(attrs).get("aria-label") or "")
        if tag == "table":
            self.tables.append([])
            self.inside.append(self.tables[-1])
            self.kinds.append(dict(attrs).get("class") or "")
        if tag == "tr":
            self.inside[-1].append([])
        if tag in ("td", "th"):
            self.inside[-1][-1].append("")
            first = len(self.inside[-1][-1]) == 1
            if tag == "td" and first and "steps" in self.kinds[-1] and "colspan" not in dict(attrs):
                self.steps.append(self.inside[-1][-1])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "table":
            self.inside.pop()
            self.kinds.pop()

    def handle_data(self, data: str) -> None:
        data = data.replace("\N{NO-BREAK SPACE}", " ")
        if self.open and self.open[-1] == "h2":
            self.headings[-1] += data
            self.parts.setdefault(self.headings[-1], "")
            return
        if {"style", "head", "script"} & set(self.open):
            return
        if {"td", "th"} & set(self.open) and self.inside[-1] and self.inside[-1][-1]:
            self.inside[-1][-1][-1] += data
        if "title" not in self.open:  # a drawing shows its titles only under the pointer
            self.parts[self.headings[-1] if self.headings else ""] += data

    @property
    def text(self) -> str:
        return "\n".join(self.parts.values())


def read(file: Any) -> Page:
    return Page(file.read_text(encoding="utf-8"))


def write(plan: tether.records.Plan, folder: Any, **options: Any) -> Page:
    return read(plan.report(folder / "report.html", **options))


@dataclasses.dataclass(frozen=True)
class Position:
    x: int
    warm: bool
    zone: str
    level: str = "same"


def walk(n: int, T: int, labels: Any = None, actions: Any = None, last: bool = True, seed: int = 1) -> Any:
    """A walk over n places in a line for T steps."""
    rng = np.random.default_rng(seed)
    P = np.zeros((n, 3, n))
    for s in range(n):
        for a in range(3):
            np.add.at(P[s, a], np.clip(s + a - 1 + np.array([-1, 0, 1]), 0, n - 1), [0.2, 0.5, 0.3])
    mdp = tether.MDP.from_arrays(P, rng.normal(size=(n, 3)), states=labels, actions=actions)
    states, did = [n // 2], []
    for _ in range(T):
        did.append(int(rng.integers(3)))
        states.append(int(rng.choice(n, p=P[states[-1], did[-1]])))
    seen = [mdp.states[s] for s in states]
    return tether.counterfactual(mdp, tether.Path(seen if last else seen[:-1], [mdp.actions[a] for a in did]))


LONG = ["w" * 300, "another rather long action name with words " * 5, "c"]
ONE = tether.MDP.from_table(["a"], ["x"], ["a"], [1.0], [2.0])

# Plans whose report easily goes wrong: they are long, have odd labels, or leave nothing to say.
ODD: dict[str, Callable[[], tether.records.Plan]] = {
    "one step": lambda: walk(5, 1).plan(1, 1),
    "one step, no tether": lambda: walk(5, 1).plan(2, 1),
    "a hundred steps": lambda: walk(10, 100).plan(20, 4),
    "no last outcome": lambda: walk(20, 20, last=False).plan(9, 3),
    "hundreds of states": lambda: walk(400, 12, [f"ward {i // 20} bed {i % 20}" for i in range(400)]).plan(4, 3),
    "evil labels": lambda: walk(4, 3, [f"{EVIL}{i}" for i in range(4)], [f"{EVIL}a", f"{EVIL}b", "c"]).plan(3, 2),
    "long labels": lambda: walk(4, 6, ["x" * 500 + str(i) for i in range(4)], LONG).plan(3, 2),
    "dataclasses": lambda: walk(12, 8, [Position(i, i % 2 == 0, "abc"[i // 4]) for i in range(12)]).plan(4, 2),
    "tuples": lambda: walk(12, 8, [(i / 3, i % 2) for i in range(12)]).plan(4, 2, influence=tether.effective(0.1)),
    "one state": lambda: tether.counterfactual(ONE, tether.Path(["a", "a", "a"], ["x", "x"])).plan(2, 1),
    "no change": lambda: walk(5, 6).plan(3, 0),
    "assured": lambda: walk(5, 6).plan(3, 3, rule="assured"),
    "not for value": lambda: walk(8, 6).pareto(m=3).points[-1].plan,
}


def _case(name: str, k: int, m: int, path: str = "observed") -> tether.records.Plan:
    made = getattr(tether.cases, name)()
    return tether.counterfactual(made.mdp, made.paths[path]).plan(k, m)


# These plans, and the case studies.
PLANS: dict[str, Callable[[], tether.records.Plan]] = {
    "sepsis": lambda: _case("sepsis", 8, 3, "catastrophic"),
    "epidemic": lambda: _case("epidemic", 7, 4),
    "grid_world": lambda: _case("grid_world", 6, 4),
    "toy": lambda: _case("toy", 2, 1),
    **ODD,
}


def written_once(name: str, factory: pytest.TempPathFactory) -> Path:
    """The report on one of these plans: one file for all tests that only read it, in any process."""
    shared = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    file = shared / f"{name}.html"
    if not file.exists():  # a report is moved into place complete, so two writers only cost time
        PLANS[name]().report(file)
    return file


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Reports without drawings, which take the most time and have their own tests; the text is complete."""

    nothing = Drawing("", "")
    with pytest.MonkeyPatch.context() as patch:
        for name in vars(contents):
            if name.startswith("draw_"):
                drawn = (nothing, False) if name == "draw_classes" else nothing
                patch.setattr(contents, name, lambda *given, drawn=drawn, **options: drawn)
        for name in ("_spread",):
            patch.setattr(f"tether.views.audit.audit_sections.{name}", lambda gain: nothing)
        yield


BROKEN = """() => {  // words of the table of steps whose letters are on several lines
    const found = [], texts = document.createTreeWalker(document.querySelector(".steps"), NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode())
        for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(word[0]);
        }
    return found; }"""
"""A script for the browser: which words of the table of steps are broken inside."""
