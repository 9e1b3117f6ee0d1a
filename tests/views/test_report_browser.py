"""The report, and the overview of an audit, in a browser: headless Chromium opens them, as a phone and a desk do."""

import pytest
from pages import BROKEN, ODD, PLANS, written_once

import tether

pytestmark = pytest.mark.compiled  # what a browser makes of the page does not depend on how it was computed

WIDTHS = (390, 1280)  # of a phone and of a desk

OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter(one => !one.closest(".scroll") || one.matches(".scroll"))
    .filter(one => { const box = one.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1; })
    .map(one => one.outerHTML.slice(0, 200))"""

SMALLEST = """() => Math.min(...[...document.querySelectorAll("svg text")].map(one => {
    const svg = one.ownerSVGElement;
    return parseFloat(getComputedStyle(one).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}))"""


class Visit:
    """A page that was opened: what it asked for, and what it complained of."""

    def __init__(self, browser, file, width):
        self.requests, self.complaints = [], []
        self.page = browser.new_page(viewport={"width": width, "height": 800})
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())  # until all that the page names is loaded
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def close(self):
        self.page.close()


@pytest.mark.parametrize("name", PLANS)
def test_it_opens_quietly_and_fits(browser, tmp_path_factory, name):
    file = written_once(name, tmp_path_factory)
    check(browser, file, WIDTHS)


def check(browser, file, widths):
    visit = Visit(browser, file, widths[0])
    try:
        outside = [url for url in visit.requests if url != file.as_uri() and not url.startswith("data:")]
        assert outside == []
        for width in widths:
            visit.page.set_viewport_size({"width": width, "height": 800})
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            assert visit.page.evaluate(OUTSIDE) == []
            assert visit.page.evaluate(SMALLEST) >= 8.0  # pixels: small, but to be read
        assert visit.complaints == []
    finally:
        visit.close()


def test_a_label_cannot_run(browser, tmp_path):
    """Names that are scripts and broken images show as text."""
    file = ODD["evil labels"]().report(tmp_path / "report.html", title="<script>document.title = 'run'</script>")
    visit = Visit(browser, file, 1280)
    try:
        assert visit.page.title() == "<script>document.title = 'run'</script>"
        assert visit.page.locator("script, img").count() == 0
        assert "<script>alert(1)</script>" in visit.page.inner_text("main")
    finally:
        visit.close()


WIDER = """() => [...document.querySelectorAll(".steps td")].filter(one => one.checkVisibility())
    .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText)"""


def test_long_names_and_small_gains_stay_in_their_columns(browser, tmp_path):
    drug, small = "antibiotics (piperacillin/tazobactam)", 0.0002268
    mdp = tether.MDP.from_table(
        state=["acute_decompensation", "acute_decompensation"] * 2 + ["compensated", "compensated"],
        action=["wait", "wait", drug, drug, "wait", drug],
        next_state=["acute_decompensation", "compensated"] * 2 + ["compensated", "compensated"],
        probability=[0.7, 0.3, 0.4, 0.6, 1.0, 1.0],
        reward=[-small, 0.0, -small, 0.0, 0.0, -3 * small],
    )
    seen = "acute_decompensation"
    plan = tether.counterfactual(mdp, tether.Path([seen] * 4, [drug, "wait", "wait"])).plan(k=3, m=2)
    visit = Visit(browser, plan.report(tmp_path / "report.html"), 1280)
    try:
        for width in WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 800})
            assert visit.page.evaluate(BROKEN) == []
            assert visit.page.evaluate(WIDER) == []
    finally:
        visit.close()


def test_it_prints(browser, tmp_path_factory):
    """On A4, a few pages: nothing wide is cut, and the head of a long table comes again."""
    visit = Visit(browser, written_once("a hundred steps", tmp_path_factory), 1280)
    try:
        printed = visit.page.pdf(format="A4")
        visit.page.emulate_media(media="print")
        visit.page.set_viewport_size({"width": 680, "height": 900})  # about what A4 has between its margins
        assert printed.startswith(b"%PDF")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 680
        assert visit.page.evaluate("getComputedStyle(document.querySelector('.steps thead')).display") == (
            "table-header-group"
        )
    finally:
        visit.close()


@pytest.fixture(scope="module")
def overview(tmp_path_factory):
    """The overview of an audit of twenty episodes, with one report."""
    mdp = tether.cases.grid_world().mdp
    log = {f"p{seed}": mdp.simulate("optimal", 8, rng=seed, noise=0.4) for seed in range(20)}
    audit = tether.audit(mdp, log, k=4, m=2, workers=1)
    return audit, audit.report(tmp_path_factory.mktemp("audit") / "audit.html", reports=1)


def test_an_overview_opens_quietly_and_fits(browser, overview):
    check(browser, overview[1], WIDTHS)


def test_on_a_phone_a_row_is_a_card_and_no_cell_is_cut(browser, overview):
    cut = """() => [...document.querySelectorAll(".rows td:not(.none)")]
        .filter(one => one.offsetWidth < 0.8 * one.parentElement.offsetWidth || one.scrollWidth > one.clientWidth)
        .map(one => one.outerHTML)"""
    visit = Visit(browser, overview[1], 400)
    try:
        assert visit.page.evaluate(cut) == []
    finally:
        visit.close()


def test_episodes_are_sorted_and_filtered(browser, overview):
    """With the keyboard alone; by the numbers, not by their text."""
    audit, file = overview
    visit = Visit(browser, file, 1280)
    page = visit.page
    rows = "[...document.querySelectorAll('#listed tbody tr:not([hidden])')]"
    shown = f"() => {rows}.map(one => one.cells[0].innerText)"
    ranked = audit.listed(200).column("episode").to_pylist()
    try:
        assert page.evaluate(shown) == ranked
        page.locator("#listed th button", has_text="observed").press("Enter")
        observed = dict(zip(*(audit.table.column(name).to_pylist() for name in ("episode", "observed")), strict=True))
        assert page.evaluate(shown) == sorted(ranked, key=lambda one: -observed[one])
        page.locator("#listed th button", has_text="observed").press("Enter")
        assert page.evaluate(shown) == sorted(ranked, key=lambda one: observed[one])
        assert page.locator("#listed th[aria-sort=ascending]").inner_text() == "observed"
        page.locator("#find").fill(ranked[0])
        assert set(page.evaluate(shown)) == {one for one in ranked if ranked[0] in one}
        page.locator("#find").fill("no such episode")
        assert page.evaluate(shown) == []
        assert page.locator("#shown").inner_text() == f"0 of {len(ranked)} episodes"
        page.locator("#find").fill("")
        outcome = dict(zip(*(audit.table.column(name).to_pylist() for name in ("episode", "outcome")), strict=True))
        page.locator("#outcome").select_option("danger")
        page.set_viewport_size({"width": 400, "height": 800})
        page.locator("#sort").select_option("observed, smallest first")
        assert page.evaluate(shown) == [
            one for one in sorted(ranked, key=lambda one: observed[one]) if outcome[one] == "danger"
        ]
        page.locator("#outcome").select_option("any")
        page.locator("#listed a").click()
        page.wait_for_url("**/0001.html")
        assert page.title() == f"Episode {ranked[0]}"
        assert visit.complaints == []
    finally:
        visit.close()
