"""A page as a person meets it, in a browser: sizes of letters, what stands on the first screen, what axe finds."""

from __future__ import annotations

from typing import Any

import pytest

PHONE, DESK = 400, 1280

_LETTERS = """() => {  // the smallest letters that are shown, and a piece of their text
    let least = [99, ""];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        const one = text.parentElement;
        if (!text.data.trim() || !one.checkVisibility() || one.closest("script, style, title")) continue;
        const svg = one.closest("svg");
        const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
        const size = parseFloat(getComputedStyle(one).fontSize) * scale;
        if (size < least[0]) least = [size, text.data.trim().slice(0, 40)];
    }
    return least; }"""

_FIRST_CHART = """() => Math.min(...[...document.querySelectorAll("main svg")].filter(one => one.checkVisibility())
    .map(one => one.getBoundingClientRect().top + scrollY))"""

_WORDS = """high => {  // the words that stand above a line
    let words = 0;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        const one = text.parentElement;
        if (!one.checkVisibility() || one.closest("script, style, title, svg")) continue;
        if (one.getBoundingClientRect().top + scrollY >= high) continue;
        for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            words += range.getBoundingClientRect().bottom + scrollY <= high;
        }
    }
    return words; }"""

OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter(one => one.checkVisibility() && (!one.closest(".scroll") || one.matches(".scroll")))
    .filter(one => { const box = one.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1; })
    .map(one => one.outerHTML.slice(0, 200))"""


class Visit:
    """A page that was opened: what it asked for, and what it complained of."""

    def __init__(self, browser: Any, address: str, width: int = DESK) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)  # until all that the page names is loaded
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: Any) -> None:
        self.page.close()

    def width(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 900})

    def fits(self) -> None:
        """Nothing is wider than the screen, and everything can be read."""
        width = self.page.viewport_size["width"]
        assert self.page.evaluate("document.documentElement.scrollWidth") <= width
        assert self.page.evaluate(OUTSIDE) == []
        self.legible()

    def legible(self) -> None:
        """No letters are smaller than 12 pixels, also in drawings."""
        size, text = self.page.evaluate(_LETTERS)
        assert size >= 11.95, f"{size:.1f} px: {text}"

    def first_chart(self) -> float:
        return float(self.page.evaluate(_FIRST_CHART))

    def words_above(self, high: float) -> int:
        return int(self.page.evaluate(_WORDS, high))

    def accessible(self, within: str | None = None) -> None:
        """axe finds nothing, in light and in dark: names, order of headings, landmarks, contrast."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            found = axe.run(self.page, within).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], scheme
        self.page.emulate_media(color_scheme="light")
