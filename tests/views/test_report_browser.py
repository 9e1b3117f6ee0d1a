"""The report, and the overview of an audit, in a browser: headless Chromium opens them, as a phone and a desk do."""

import datetime as dt
import re

import pytest
from as_read import DESK, PHONE, Visit
from pages import BROKEN, ODD, written_once

import tether

pytestmark = pytest.mark.compiled  # what a browser makes of the page does not depend on how it was computed


@pytest.mark.parametrize("name", ["epidemic", "a hundred steps", "evil labels", "long labels", "one state"])
def test_it_opens_quietly_and_fits(browser, tmp_path_factory, name):
    file = written_once(name, tmp_path_factory)
    with Visit(browser, file.as_uri(), PHONE) as visit:
        check(visit, file)


def check(visit, file):
    """Nothing but the page itself is asked for; it fits a small phone, a phone and a desk; and nothing goes wrong."""
    assert [url for url in visit.requests if url != file.as_uri() and not url.startswith("data:")] == []
    for width in (PHONE, DESK):
        visit.width(width)
        visit.fits()
    visit.width(320)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 320
    visit.legible()  # drawings scroll
    assert visit.complaints == []


def test_the_first_screen_of_a_report(browser, tmp_path_factory):
    """The verdict, three cards and the picture come first; everybody can read them; paper has titles and numbers."""
    file = written_once("sepsis", tmp_path_factory)
    with Visit(browser, file.as_uri()) as visit:
        check(visit, file)
        visit.width(DESK)
        assert visit.first_chart() < 700
        assert visit.words_above(900) <= 250
        cards = visit.page.locator(".card")
        assert [one.split("\n")[0] for one in cards.all_inner_texts()] == [
            "Mistake or luck?",
            "About this episode?",
            "How sure?",
        ]
        visit.accessible()
        visit.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        visit.fits()
        visit.accessible()
        visit.width(PHONE)
        assert visit.first_chart() < 1100
        visit.fits()
        printed = visit.page.pdf(format="A4", prefer_css_page_size=True)
        assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


def test_the_first_screen_of_a_hidden_type(browser, tmp_path):
    """The page of somebody whose type was never recorded begins in the same way."""
    case = tether.cases.hidden_diabetes()
    file = tether.counterfactual(case.types, case.path).plan(m=2).report(tmp_path / "types.html")
    with Visit(browser, file.as_uri()) as visit:
        check(visit, file)
        visit.width(DESK)
        assert visit.first_chart() < 700
        assert visit.words_above(900) <= 250
        assert visit.page.locator(".card").count() == 3
        visit.accessible()
        visit.width(PHONE)
        assert visit.first_chart() < 1100


HEADS = """() => [...document.styleSheets].flatMap(sheet => [...sheet.cssRules])
    .filter(rule => rule instanceof CSSPageRule).map(rule => rule.cssText)"""


def test_paper_says_whose_page_it_is(browser, tmp_path):
    """On every sheet: the title, the date and the number, whatever the title is."""
    title = 'Bed 2: "worse" </style>'
    file = ODD["one step"]().report(tmp_path / "report.html", title=title, date=dt.date(2026, 11, 18))
    with Visit(browser, file.as_uri()) as visit:
        heads = " ".join(visit.page.evaluate(HEADS))
        for said in (
            "@top-left",
            "@top-right",
            "18 November 2026",
            "@bottom-right",
            'counter(page) " / " counter(pages)',
        ):
            assert said in heads
        assert '2: \\"worse\\" </style>' in heads


def test_everybody_can_read_the_rules(browser, tmp_path):
    ward = tether.cases.ward()
    log = [ward.mdp.simulate("random", 4, start="sick", rng=seed) for seed in range(40)]
    file = tether.rules(ward.mdp, log).report(tmp_path / "rules.html")
    with Visit(browser, file.as_uri()) as visit:
        check(visit, file)
        visit.accessible()
        visit.width(640)  # as at 200 % zoom on a desk
        visit.fits()


def test_a_label_cannot_run(browser, tmp_path):
    """Names that are scripts and broken images show as text."""
    file = ODD["evil labels"]().report(tmp_path / "report.html", title="<script>document.title = 'run'</script>")
    with Visit(browser, file.as_uri()) as visit:
        assert visit.page.title() == "<script>document.title = 'run'</script>"
        assert visit.page.locator("script, img").count() == 0
        assert "<script>alert(1)</script>" in visit.page.inner_text("main")


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
    with Visit(browser, plan.report(tmp_path / "report.html").as_uri()) as visit:
        for width in (PHONE, DESK):
            visit.width(width)
            assert visit.page.evaluate(BROKEN) == []
            assert visit.page.evaluate(WIDER) == []


def test_it_prints(browser, tmp_path_factory):
    """On A4, a few pages: nothing wide is cut, what is folded is open, and the head of a long table comes again."""
    with Visit(browser, written_once("a hundred steps", tmp_path_factory).as_uri()) as visit:
        assert visit.page.pdf(format="A4").startswith(b"%PDF")
        visit.page.emulate_media(media="print")
        visit.page.set_viewport_size({"width": 680, "height": 900})  # about what A4 has between its margins
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 680
        head = "getComputedStyle(document.querySelector('.steps thead')).display"
        assert visit.page.evaluate(head) == "table-header-group"
        assert visit.page.evaluate("document.querySelector('details .steps').checkVisibility()")


@pytest.fixture(scope="module")
def overview(tmp_path_factory):
    """The overview of an audit of forty episodes, with one report."""
    mdp = tether.cases.grid_world().mdp
    log = {f"p{seed}": mdp.simulate("optimal", 8, rng=seed, noise=0.4) for seed in range(40)}
    audit = tether.audit(mdp, log, k=4, m=2, workers=1)
    return audit, audit.report(tmp_path_factory.mktemp("audit") / "audit.html", reports=1)


CUT = """() => [...document.querySelectorAll("#listed td:not(.none)")].filter(one => one.checkVisibility())
    .filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.outerHTML)"""


def test_the_first_screen_of_an_audit(browser, overview):
    """How they ended, mistakes first, cards, two bars; a phone needs few screens; on paper the head comes again."""
    _, file = overview
    with Visit(browser, file.as_uri()) as visit:
        check(visit, file)
        visit.width(DESK)
        visit.accessible()
        visit.width(PHONE)
        assert visit.page.evaluate("document.documentElement.scrollHeight") < 8000
        assert visit.page.evaluate(CUT) == []  # a row is a card, and no cell is cut
        assert visit.page.pdf(format="A4").startswith(b"%PDF")


ROWS = """() => [...document.querySelectorAll("#listed tbody tr")].filter(one => one.checkVisibility())
    .map(one => one.cells[0].innerText)"""


def test_episodes_are_sorted_and_filtered(browser, overview):
    """With the keyboard alone; by the numbers, not by their text; 25 at a time."""
    audit, file = overview
    table = {name: audit.table.column(name).to_pylist() for name in ("episode", "observed", "outcome")}
    observed, outcome = (dict(zip(table["episode"], table[name], strict=True)) for name in ("observed", "outcome"))
    ranked = audit.listed(200).column("episode").to_pylist()
    assert len(ranked) > 25
    with Visit(browser, file.as_uri()) as visit:
        page = visit.page

        def everyone():
            while page.locator("#more").is_visible():
                page.locator("#more").press("Enter")
            return page.evaluate(ROWS)

        assert page.evaluate(ROWS) == ranked[:25]
        assert everyone() == ranked
        page.locator("#listed th button", has_text="score").press("Enter")
        assert everyone() == sorted(ranked, key=lambda one: -observed[one])
        page.locator("#listed th button", has_text="score").press("Enter")
        assert everyone() == sorted(ranked, key=lambda one: observed[one])
        assert page.locator("#listed th[aria-sort=ascending]").inner_text().strip().startswith("score")
        page.locator("#find").fill(ranked[0])
        assert set(page.evaluate(ROWS)) == {one for one in ranked if ranked[0] in one}
        page.locator("#find").fill("no such episode")
        assert page.evaluate(ROWS) == []
        assert page.locator("#shown").inner_text() == f"0 of {len(ranked)} episodes"
        page.locator("#find").fill("")
        page.locator("#outcome").select_option("danger")
        page.set_viewport_size({"width": 400, "height": 800})
        page.locator("#sort").select_option("score, smallest first")
        wanted = [one for one in sorted(ranked, key=lambda one: observed[one]) if outcome[one] == "danger"]
        assert everyone() == wanted
        page.locator("#outcome").select_option("any")
        page.locator("button.card", has_text="mistakes").press("Enter")
        mistaken = set(audit.table.filter(audit.table.column("mistakes").is_valid()).column("episode").to_pylist())
        assert set(everyone()) <= mistaken
        page.locator("button.card", has_text="mistakes").press("Enter")
        everyone()
        page.locator("#listed a").first.click()
        page.wait_for_url("**/0001.html")
        assert page.title() == f"Episode {ranked[0]}"
        assert visit.complaints == []
