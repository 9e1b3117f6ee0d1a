"""The report in a browser: headless Chromium opens it, at the width of a phone and of a desk."""

import shutil

import pytest
from pages import ODD, walk

import tether

api = pytest.importorskip(
    "playwright.sync_api", reason="the report is not opened in a browser here: playwright is not installed"
)

pytestmark = pytest.mark.compiled  # what a browser makes of the page does not depend on how it was computed

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (390, 1280)  # of a phone and of a desk

OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter(one => !one.closest(".scroll") || one.matches(".scroll"))
    .filter(one => { const box = one.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1; })
    .map(one => one.outerHTML.slice(0, 200))"""

SMALLEST = """() => Math.min(...[...document.querySelectorAll("svg text")].map(one => {
    const svg = one.ownerSVGElement;
    return parseFloat(getComputedStyle(one).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}))"""


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"the report is not opened in a browser here: none of {', '.join(BROWSERS)} is installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def case(name, k, m):
    made = getattr(tether.cases, name)()
    return tether.counterfactual(made.mdp, made.path).plan(k, m)


PLANS = {
    "sepsis": lambda: case("sepsis", 8, 3),
    "epidemic": lambda: case("epidemic", 7, 4),
    "grid world": lambda: case("grid_world", 6, 4),
    "toy": lambda: case("toy", 2, 1),
    **ODD,
}


class Visit:
    """A page that was opened: what it asked for, and what it complained of."""

    def __init__(self, browser, file, width):
        self.requests, self.complaints = [], []
        self.page = browser.new_page(viewport={"width": width, "height": 800})
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())
        self.page.wait_for_load_state("networkidle")

    def close(self):
        self.page.close()


@pytest.mark.parametrize("name", PLANS)
def test_it_opens_quietly_and_fits(browser, tmp_path, name):
    file = PLANS[name]().report(tmp_path / "report.html")
    for width in WIDTHS:
        check(browser, file, width)


def check(browser, file, width):
    visit = Visit(browser, file, width)
    try:
        outside = [url for url in visit.requests if url != file.as_uri() and not url.startswith("data:")]
        assert outside == []
        assert visit.complaints == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(OUTSIDE) == []
        assert visit.page.evaluate(SMALLEST) >= 8.0  # pixels: small, but to be read
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


def test_it_prints(browser, tmp_path):
    """On A4, a few pages: nothing wide is cut, and the head of a long table comes again."""
    file = walk(30, 60).plan(20, 5).report(tmp_path / "report.html")
    visit = Visit(browser, file, 1280)
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
