"""The explorer as a person uses it: headless Chromium, one server, one browser."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import BROKEN, EVIL, walk

import tether
from tether.explorer.offered import Cases, LogEpisodes, One
from tether.explorer.server import Explorer
from tether.learning.folds import unseen

pytestmark = pytest.mark.compiled

WARD = Path(__file__).parent.parent.parent / "examples" / "ward.csv"
OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter(one => !one.closest(".scroll, .skip, svg") && one.checkVisibility())
    .filter(one => { const box = one.getBoundingClientRect(); return box.right > innerWidth + 1; })
    .map(one => one.outerHTML.slice(0, 200))"""


def serving(offered):
    explorer = Explorer(offered)
    thread = explorer.start()
    yield explorer
    explorer.stop()
    thread.join(5)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def cases():
    yield from serving(Cases())


class Visit:
    """A page that is open: what it asked for, what it complained of."""

    def __init__(self, browser, explorer, view="", width=1280, scheme="light"):
        self.requests, self.complaints = [], []
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(f"{explorer.address}&{view}" if view else explorer.address)
        self.quiet()

    def quiet(self):
        self.page.wait_for_selector("body[data-quiet]", timeout=120_000)

    def close(self):
        self.context.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.complaints == []
        assert {urlsplit(url).hostname for url in self.requests if not url.startswith("data:")} == {"127.0.0.1"}
        self.close()

    def value(self, name="now"):
        return float(self.page.get_attribute(f"#{name}", "data-value"))

    def slide(self, name, to):
        """As a hand does it: with the arrow keys."""
        slider = self.page.locator(f"#{name}")
        now = int(slider.input_value())
        slider.focus()
        for _ in range(abs(to - now)):
            self.page.keyboard.press("ArrowRight" if to > now else "ArrowLeft")
        assert int(slider.input_value()) == to
        self.quiet()

    @property
    def query(self):
        return urlsplit(self.page.url).query


def test_a_patient_k_and_m_and_back_again(browser, cases):
    """Sepsis: sliders, the table, what-if and why; numbers are the library's; reload and back bring a view again."""
    case = tether.cases.sepsis()
    cf = tether.counterfactual(case.mdp, case.path)
    with Visit(browser, cases, "e=case:sepsis&m=2&tab=take") as visit:
        page = visit.page
        assert "token" not in page.url
        assert visit.value() == cf.plan(None, 2).value
        visit.slide("k", 10)
        assert visit.query == "e=case:sepsis&m=2&tab=take&k=10"
        assert visit.value() == cf.plan(10, 2).value
        page.fill("#m", "3")
        page.keyboard.press("Enter")
        visit.quiet()
        assert visit.value() == cf.plan(10, 3).value
        assert page.locator("input[type=range]").count() == 1  # one slider
        page.reload()
        visit.quiet()
        assert visit.value() == cf.plan(10, 3).value
        assert page.input_value("#k") == "10"
        page.click(".heat tbody tr:first-child td:nth-of-type(2) a")
        visit.quiet()
        assert (page.input_value("#k"), visit.value()) == ("1", -6850.0)
        page.go_back()
        visit.quiet()
        assert (page.input_value("#k"), page.input_value("#m")) == ("10", "3")
        assert visit.value() == cf.plan(10, 3).value
        assert "With hindsight:" in page.inner_text("#headline")


def test_what_if_is_what_the_library_evaluates(browser, cases):
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    with Visit(browser, cases, "e=case:epidemic&tab=decisions") as visit:
        page = visit.page
        page.click("table.grid tbody tr:nth-child(2) td:nth-of-type(4) a")  # V_I at t = 3
        visit.quiet()
        assert visit.query == "e=case:epidemic&tab=if&if=3:1"
        asked = cf.what_if({3: case.mdp.actions[1]})
        assert visit.value("if-value") == asked.value == cf.evaluate(asked.policy).value
        page.select_option("[data-choice='5']", "2")
        visit.quiet()
        assert visit.value("if-value") == cf.what_if({3: case.mdp.actions[1], 5: case.mdp.actions[2]}).value
        page.click("text=Keep to compare")
        visit.quiet()
        page.click("[aria-label='Best from step 4 on']")
        visit.quiet()
        assert visit.query == "e=case:epidemic&tab=if&if=3:1,best:4&vs=3:1,5:2"
        assert visit.value("if-value") == cf.what_if({3: case.mdp.actions[1]}, best_from=4).value
        assert page.locator(".compared thead th").count() == 5
        page.click("text=Undo")
        visit.quiet()
        assert visit.value("if-value") == asked.value
        page.click("#k-ticks a >> text=/^5$/")  # made before the what-if was: it changes k alone
        visit.quiet()
        assert visit.query == "e=case:epidemic&tab=if&if=3:1&vs=3:1,5:2&k=5"
        page.go_back()
        visit.quiet()
        page.click("text=Reset")
        visit.quiet()
        assert visit.value("if-value") == -38.0
        assert visit.query == "e=case:epidemic&tab=if"


def test_why_and_the_layers(browser, cases):
    toy = tether.cases.toy()
    cf = tether.counterfactual(toy.mdp, toy.path)
    with Visit(browser, cases, "e=case:toy&tab=states&k=2") as visit:
        page = visit.page
        node = page.locator("svg a", has_text="s1 at t = 1")
        assert node.locator("title").text_content() == f"s1 at t = 1: {cf.classify(t=1, k=2)['s1']}"
        node.click(force=True)
        visit.quiet()
        assert "s1" in page.inner_text("#panel-why h2")
        page.goto(f"{cases.address}&e=case:toy&tab=why&k=2&t=0&action=1")
        visit.quiet()
        text = page.inner_text("#panel-why .told").replace("\N{NO-BREAK SPACE}", " ")
        assert text == cf.why(0, "s0", "a1", k=2).in_words(str)
        states, chance = cf.row(0, "s0", "a1")
        rows = page.locator(".leads tbody tr")
        assert rows.count() == len(states)
        assert rows.first.locator("td").nth(2).inner_text() == f"{100 * max(chance):.0f}\N{NO-BREAK SPACE}%"


def test_a_learned_log(browser):
    """The list, a search, and an episode that is opened from it; in less than a second, as a person waits."""
    episodes = tether.io.read_episodes(WARD)
    mdp = tether.learn(episodes, prior=1)
    for explorer in serving(LogEpisodes(mdp, episodes)):
        with Visit(browser, explorer, "tab=episodes") as visit:
            page = visit.page
            assert page.locator(".episodes tbody tr").count() == min(25, len(episodes))
            page.fill("#episodes-q", "10")
            page.wait_for_url("**q=10*")
            visit.quiet()
            names = page.locator(".episodes tbody th").all_inner_texts()
            assert names
            assert all("10" in name for name in names)
            assert page.evaluate("document.activeElement.id") == "episodes-q"
            page.click(".episodes tbody th a >> text=/^10$/")
            visit.quiet()
            seen = episodes.observation(10, mdp)
            cf = tether.counterfactual(unseen(mdp, seen), seen)  # a model that has not seen this patient
            assert visit.value() == cf.plan(None, 1).value
            visit.slide("k", 1)
            assert visit.value() == cf.plan(1, 1).value


def test_without_a_mouse(browser, cases):
    with Visit(browser, cases, "e=case:epidemic&tab=take") as visit:
        page = visit.page
        page.focus(".heat a[aria-current]")
        assert page.locator(".heat a[tabindex='0']").count() == 1  # one stop of the tab key
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        visit.quiet()
        assert page.input_value("#k") == "6"
        assert page.evaluate("document.activeElement.closest('.heat') !== null")  # the focus stays where it was
        page.focus("[role=tab][aria-selected=true]")
        page.keyboard.press("ArrowLeft")
        assert page.get_attribute("#tab-episodes", "aria-selected") == "true"
        assert page.evaluate("document.activeElement.id") == "tab-episodes"
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        page.keyboard.press("End")
        visit.quiet()
        assert "tether explain case:epidemic -k 6 -m 1" in page.inner_text("#take-command")


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_it_fits(browser, cases, width, scheme):
    with Visit(browser, cases, "e=case:sepsis&tab=if&if=2:1", width, scheme) as visit:
        for tab in ("if", "why", "decisions", "episodes", "take"):
            visit.page.click(f"#tab-{tab}")
            visit.quiet()
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            assert visit.page.evaluate(OUTSIDE) == []


def test_a_label_cannot_run(browser):
    names = [f"{EVIL}{i}" for i in range(3)] + ["x" * 10_000]
    for explorer in serving(One(walk(4, 3, names, [f"{EVIL}a", "שלום", "c"]), EVIL)):
        with Visit(browser, explorer, "m=2&tab=why") as visit:
            for tab in ("take", "decisions"):
                visit.page.click(f"#tab-{tab}")
                visit.quiet()
            assert visit.page.title() == "Tether: what if?"
            assert visit.page.locator("main script, main img, aside script, aside img").count() == 0
            assert "<script>alert(1)</script>" in visit.page.inner_text("main")


def test_a_page_without_its_token_is_refused(browser, cases):
    context = browser.new_context()
    page = context.new_page()
    refused = page.goto(cases.address.partition("?")[0])
    assert refused.status == 403
    assert "token" in page.inner_text("body")
    assert page.goto(re.sub("token=.*", "token=wrong", cases.address)).status == 403
    context.close()


@contextmanager
def notebook(text):
    """Another page of this machine, under another name."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()


def test_in_a_notebook(browser):
    """In an iframe of another page of this machine, where cookies of other sites are not sent."""
    toy = tether.cases.toy()
    inline = tether.counterfactual(toy.mdp, toy.path).explore(height=600)
    context = browser.new_context()
    page = context.new_page()
    with notebook(inline._repr_html_()) as port:
        page.goto(f"http://localhost:{port}/")
        frame = page.frame_locator("iframe")
        frame.locator("#headline", has_text="With hindsight: no").wait_for()
        context.close()
    inline.stop()
    assert inline.address in repr(inline)


@pytest.mark.parametrize("width", [1280, 400])
def test_no_word_of_a_long_name_is_broken(browser, width):
    ill, well = "ward Notaufnahme, diagnosis chronisch-obstruktive Lungenerkrankung", "discharged home"
    drug = "broad-spectrum antibiotics (piperacillin/tazobactam)"
    mdp = tether.MDP.from_table(
        state=[ill] * 4,
        action=["wait", "wait", drug, drug],
        next_state=[ill, well] * 2,
        probability=[0.7, 0.3, 0.4, 0.6],
        reward=[-1.0, 0.0, -1.0, 0.0],
        terminal=[well],
    )
    cf = tether.counterfactual(mdp, tether.Path([ill] * 3, [drug, "wait"]))
    for explorer in serving(One(cf, "an episode")):
        with Visit(browser, explorer, width=width) as visit:
            assert visit.page.evaluate(BROKEN) == []


def test_the_first_screen(browser, cases):
    """One patient, one slider over two bars, the picture; hints once; what if behind a step; axe finds nothing."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with Visit(browser, cases) as visit:
        page = visit.page
        assert page.inner_text("h1") == "Patient 10: sick, waited four times, died."
        assert page.locator("#hints li").count() == 3
        page.click("#hints-off")
        page.reload()
        visit.quiet()
        assert not page.is_visible("#hints")
        assert page.locator(".meter").count() == 2
        top = page.evaluate("document.querySelector('main svg').getBoundingClientRect().top + scrollY")
        assert top < 700
        before = page.locator(".meter-name").all_inner_texts()
        visit.slide("k", 1)  # shorter: more about this patient, and less help
        assert before != page.locator(".meter-name").all_inner_texts()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = axe.run(page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], scheme
        page.click(".timeline button >> nth=2")
        page.click("[popover]:popover-open a >> text=What if?")
        visit.quiet()
        assert "if=2:1" in visit.query
        assert page.is_visible("#panel-if")
        page.set_viewport_size({"width": 400, "height": 800})
        box = page.locator("#k").bounding_box()
        assert 640 < box["y"] < 800  # in reach of the thumb
        page.set_viewport_size({"width": 320, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
