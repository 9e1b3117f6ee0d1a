"""The explorer's server, asked without a browser: who is let in, what is answered, what labels cannot do."""

from __future__ import annotations

import asyncio
import html
import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tether

pytest.importorskip("starlette", reason="the explorer is not tested here: starlette is not installed")
httpx = pytest.importorskip("httpx", reason="the explorer is not tested here: httpx is not installed")

from pages import walk  # noqa: E402

from tether.errors import QueryError  # noqa: E402
from tether.explorer.app import make_app  # noqa: E402
from tether.explorer.asking import Asking, BusyError, SupersededError, TooLongError  # noqa: E402
from tether.explorer.memory import Memory  # noqa: E402
from tether.explorer.offered import Cases, LogEpisodes, One, Opening  # noqa: E402
from tether.explorer.panels import Asked, parts  # noqa: E402
from tether.explorer.panels.take import command_line, python_lines  # noqa: E402
from tether.explorer.safety import Keys  # noqa: E402
from tether.explorer.view import Choices, View, read_view  # noqa: E402

pytestmark = pytest.mark.compiled

KEYS = Keys("right", "127.0.0.1", 8000)
OWN = "http://127.0.0.1:8000"
EVIL = [
    "<script>document.title='run'</script>",
    "\"'><img src=x onerror=alert(1)>",
    "nul \x00 and \ud800",
    "x" * 10_000,
    "שלום \u202e turned",
]


def ask(app, *paths, headers=None, method="GET", content=None):
    """Responses to requests that are sent at once; with the right token, unless other headers are given."""
    given = {"cookie": f"tether-8000={KEYS.token}"} if headers is None else headers

    async def each():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=OWN) as client:
            return await asyncio.gather(
                *(client.request(method, path, headers=given, content=content) for path in paths)
            )

    found = asyncio.run(each())
    return found[0] if len(paths) == 1 else found


@pytest.fixture(scope="module")
def cases():
    return Cases()


@pytest.fixture(scope="module")
def app(cases):
    return make_app(cases, KEYS)


# ---- who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"cookie": "tether-8000=wrong"}, 403),
        ({"cookie": "tether-8001=right"}, 403),
        ({"x-tether-token": "wrong"}, 403),
        ({"x-tether-token": "right"}, 200),
        ({"cookie": "tether-8000=right"}, 200),
        ({"cookie": "tether-8000=right", "host": "localhost:8000"}, 200),
        ({"cookie": "tether-8000=right", "host": "evil.example:8000"}, 421),
        ({"cookie": "tether-8000=right", "host": "127.0.0.1:8001"}, 421),
        ({"cookie": "tether-8000=right", "origin": "http://evil.example"}, 403),
        ({"cookie": "tether-8000=right", "origin": "null"}, 403),
        ({"cookie": "tether-8000=right", "origin": "http://127.0.0.1:8000"}, 200),
        ({"cookie": "tether-8000=right", "sec-fetch-site": "cross-site"}, 403),
        ({"cookie": "tether-8000=right", "sec-fetch-site": "same-site"}, 403),
        ({"cookie": "tether-8000=right", "sec-fetch-site": "same-origin"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/", "/part/episodes", "/take/nothing"])
def test_who_is_let_in(app, headers, status, path):
    found = ask(app, path, headers=headers).status_code
    assert found == (404 if status == 200 and path == "/take/nothing" else status)


def test_the_token_of_the_address_is_kept_in_a_cookie(app):
    found = ask(app, "/?token=right", headers={})
    assert found.status_code == 200
    assert found.headers["set-cookie"] == "tether-8000=right; Path=/; HttpOnly; SameSite=Strict"
    assert ask(app, "/?token=wrong", headers={}).status_code == 403
    assert "set-cookie" not in ask(app, "/?token=wrong", headers={}).headers
    assert "right" not in found.text  # and not in the page


@pytest.mark.parametrize("path", ["/", "/part/controls", "/static/main.js", "/nothing", "/?token=wrong"])
def test_the_rules_are_on_every_response(app, path):
    found = ask(app, path)
    rules = dict(rule.split(" ", 1) for rule in found.headers["content-security-policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"


def test_bounds(app):
    assert ask(app, "/part/controls", method="POST", content=b"x").status_code == 405
    assert ask(app, "/part/controls", content=b"x").status_code == 413
    assert ask(app, "/part/controls?q=" + "x" * 20_000).status_code == 414


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e%2fapp.py",
        "/static/..%2f..%2fpyproject.toml",
        "/take/..%2freport.html",
        "/part/..%2fpage",
        "/part/page",
    ],
)
def test_requests_cannot_name_files(app, path):
    assert ask(app, path).status_code == 404


@pytest.mark.parametrize("key", ["/etc/passwd", "pyproject.toml", "case:../sepsis", "gym:FrozenLake-v1", "0"])
def test_only_what_is_offered_is_opened(app, key):
    found = ask(app, f"/part/limits?e={key}")
    assert "there is no episode" in found.text
    assert "problem" in found.text


def test_the_keys_of_other_addresses():
    anywhere = Keys("t", "0.0.0.0", 80)
    assert anywhere.is_host("10.1.2.3:80")
    assert anywhere.is_host("[::1]:80")
    assert not anywhere.is_host("evil.example:80")
    assert Keys.made("127.0.0.1", 1).token != Keys.made("127.0.0.1", 1).token
    assert len(Keys.made("127.0.0.1", 1).token) >= 24  # 144 bits


# ---- the view --------------------------------------------------------------------------------------------------------


def test_an_address_comes_back():
    view = View("7", 3, 2, "assured", "tv:0.25", tab="if", chosen=Choices(((2, 1), (None, 4))), beside=Choices(), t=3)
    query = dict(part.split("=") for part in view.address()[1:].split("&"))
    assert read_view(query) == view
    assert View().address() == "?"
    assert view.chosen.choosing(2, 5).made == ((None, 4), (2, 5))
    assert view.chosen.best(1).made == ((None, 1),)


@pytest.mark.parametrize(
    "query",
    [
        {"k": "0"},
        {"k": "three"},
        {"k": "9" * 30},
        {"m": "-1"},
        {"rule": "none"},
        {"influence": "x"},
        {"influence": "tv:y"},
        {"influence": "tv:7"},
        {"tab": "x"},
        {"if": "1"},
        {"if": "a:b"},
        {"q": "x" * 300},
    ],
)
def test_what_is_wrong_with_an_address_is_said(query):
    with pytest.raises(QueryError):
        read_view(query)


# ---- the answers are the library's -----------------------------------------------------------------------------------


def test_every_part_of_every_case(app):
    names = [
        f"/part/{name}?e={key}&m=2&if=1:0"
        for key in ("case:toy", "case:grid-world", "case:epidemic")
        for name in parts()
        if name not in ("time", "if-time", "outcomes")  # drawings have tests of their own
    ]
    for path, found in zip(names, ask(app, *names), strict=True):
        assert found.status_code == 200, path
        assert "problem" not in found.text, path
        assert len(found.text) > 20, path


def test_the_numbers_are_those_of_the_library(app):
    case = tether.cases.sepsis()
    cf = tether.counterfactual(case.mdp, case.path)
    for k, m in ((1, 1), (8, 2), (11, 10)):
        text = ask(app, f"/part/limits?e=case:sepsis&k={k}&m={m}").text
        assert float(re.search(r'data-value="([^"]+)"', text)[1]) == cf.plan(k, m).value
    data = json.loads(ask(app, "/take/answer.json?e=case:sepsis&k=8&m=2&if=2:1,best:4").text)
    asked = cf.what_if({2: case.mdp.actions[1]}, best_from=4)
    assert data["value"] == cf.plan(8, 2).value
    assert data["what_if"]["value"] == asked.value == cf.evaluate(asked.policy).value
    assert data["what_if"]["needed_k"] == asked.needed_k
    assert data["certificate"]["verdict"] == "never worse"


def test_a_property_in_place_of_the_return(app):
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    labels = list(case.mdp.label_sets)
    wanted = f"avoid:{labels.index('danger')}"
    lived = tether.avoid("danger")
    text = ask(app, f"/part/limits?e=case:grid-world&k=6&m=2&objective={wanted}").text
    assert float(re.search(r'data-value="([^"]+)"', text)[1]) == cf.plan(6, 2, objective=lived).value
    data = json.loads(ask(app, f"/take/answer.json?e=case:grid-world&k=6&m=2&if=2:3&objective={wanted}").text)
    assert data["what_if"]["value"] == cf.what_if({2: case.mdp.actions[3]}, objective=lived).value
    names = [name for name in parts() if name not in ("time", "if-time", "outcomes", "ladder", "rungs", "chart")]
    for name, found in zip(
        names,
        ask(app, *(f"/part/{name}?e=case:grid-world&k=6&if=2:3&objective={wanted}" for name in names)),
        strict=True,
    ):
        assert "problem" not in found.text, name
    assert "tether explain case:grid-world -k 6 -m 1 --objective &#39;avoid danger&#39;" in found.text
    for wrong in ("avoid:99", "avoid:x", "until:1"):
        assert "problem" in ask(app, f"/part/limits?e=case:grid-world&objective={wrong}").text


def test_decisions_are_weighed_by_what_is_wanted(app):
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    label = list(case.mdp.label_sets).index("danger")
    for objective, query in ((None, ""), (tether.avoid("danger"), f"&objective=avoid:{label}")):
        found = cf.decisions(objective)
        best = max(row.value for row in found.rows)
        text = html.unescape(ask(app, f"/part/decisions?e=case:grid-world&m=3{query}").text)
        text = text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")
        assert f" {best:.4g}, had only this been different" in text
        assert found.sentences(str)[0] in text


def test_why_in_the_words_of_the_page(app):
    text = ask(app, "/part/why?e=case:sepsis&t=2&k=5&action=0").text
    assert "SepsisState(" not in text
    reason = re.search(r'<p class="told">(.*?)</p>', text, re.DOTALL)[1]
    assert "no treatment in state heart rate low, bp high" in reason
    assert "it may lead to heart rate low" in reason
    decided = ask(app, "/part/why?e=case:sepsis&t=5&objective=avoid:0").text
    assert "<b>Decided</b>" in decided


def test_a_what_if_is_not_called_a_plan(app):
    text = ask(app, "/part/if-time?e=case:toy&if=0:1").text
    assert "what-if, on average" in text
    assert "plan, on average" not in text
    assert "the plan may change" not in text


def test_a_large_model_answers_before_its_table_is_made(app, cases, monkeypatch):
    """What takes long comes as parts of its own, with the same numbers."""
    view = "e=case:epidemic&k=6&m=2"
    names = ("limits", "ladder", "beyond")
    quick = dict(zip(names, ask(app, *(f"/part/{name}?{view}" for name in names)), strict=True))
    assert "data-later" not in "".join(found.text for found in quick.values())
    for place in ("memory._QUICK", "panels.answer._AT_ONCE"):
        monkeypatch.setattr(f"tether.explorer.{place}", 0)
    memory = Memory(cases)
    seen = View("case:epidemic", 6, 2)
    for name in ("controls", "limits", "headline", "sentences", "ladder", "steps"):
        parts()[name].contents(Asked(seen, memory, lambda: None))
    assert "table" not in vars(memory.answer(seen))
    app = make_app(cases, KEYS)
    first = ask(app, f"/part/limits?{view}").text
    assert first.count("<td") == 7  # each k, of which two are alike, with m = 2
    for name, later in (("limits", "table"), ("ladder", "rungs")):
        assert f'data-part="{later}" data-later' in ask(app, f"/part/{name}?{view}").text
    for name, later in (("limits", "table"), ("ladder", "rungs"), ("beyond", "beyond")):
        assert ask(app, f"/part/{later}?{view}").text.strip() in quick[name].text


def test_a_computation_ends_at_its_next_stage(cases):
    """Each time step of a plan is one; what was not finished is made when it is asked for again."""
    memory, steps = Memory(cases), []

    def leave():
        steps.append(None)
        if len(steps) == 3:
            raise SupersededError

    with pytest.raises(SupersededError):
        _ = memory.answer(View("case:epidemic", 6, 2), leave).plan
    assert len(steps) == 3
    assert memory.answer(View("case:epidemic", 6, 2)).plan.value == pytest.approx(-26.077, abs=5e-4)


def test_k_and_m_beyond_the_episode_are_its_ends(app):
    case = tether.cases.toy()
    cf = tether.counterfactual(case.mdp, case.path)
    text = ask(app, "/part/limits?e=case:toy&k=900&m=900").text
    assert f'data-k="{cf.T + 1}" data-m="{cf.T}"' in text
    for wrong in ("if=77:0", "if=0:99", "tab=why&state=99999"):
        name = "why" if "why" in wrong else "if"
        assert "problem" in ask(app, f"/part/{name}?e=case:toy&{wrong}").text


def test_fifty_at_once(app):
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    asked = [(k, m) for k in range(1, 9) for m in range(7)][:50]
    found = ask(app, *(f"/part/limits?e=case:epidemic&k={k}&m={m}" for k, m in asked))
    values = [float(re.search(r'data-value="([^"]+)"', one.text)[1]) for one in found]
    table = cf.sweep()
    assert values == pytest.approx([table.value(k, m) for k, m in asked], rel=1e-12)


def test_the_report_is_the_report(app):
    found = ask(app, "/take/report.html?e=case:toy&k=2")
    assert found.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "What could have been done differently" in found.text
    assert found.text.lstrip().lower().startswith("<!doctype html>")


# ---- labels cannot do anything ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evil():
    states, actions = [f"{one}{i}" for i, one in enumerate(EVIL)], [f"{one}!" for one in EVIL[:3]]
    return make_app(One(walk(5, 3, states, actions), EVIL[0]), KEYS)


@pytest.mark.parametrize(
    "name", [name for name in parts() if name not in ("controls", "chart", "sure", "ladder", "rungs")]
)
def test_labels_are_shown_and_never_run(evil, name):
    found = ask(evil, f"/part/{name}?m=2&if=1:0&tab=why").text
    assert "problem" not in found
    assert "<script" not in found
    assert "<img" not in found
    assert "\x00" not in found
    assert "\u202e" not in found or name == "steps"  # whose cells are blocks of their own: it ends there
    assert "x" * 2001 not in found
    if name in ("if", "why", "steps"):
        assert html.escape(EVIL[0], quote=False).replace("'", "&#39;") in found


# ---- one thread computes ---------------------------------------------------------------------------------------------


def test_a_newer_question_takes_the_place_of_an_older():
    done = []

    async def several():
        asking = Asking()

        def compute(number):
            def run(asker):
                asker.check()
                done.append(number)
                return number

            return run

        def slow(asker):
            import time

            time.sleep(0.05)
            done.append("slow")
            asker.check()

        first = asyncio.create_task(asking.ask("tab", slow))
        await asyncio.sleep(0.02)
        rest = [asyncio.create_task(asking.ask("tab", compute(i))) for i in range(5)]
        other = asyncio.create_task(asking.ask("another tab", compute("other")))
        found = await asyncio.gather(first, *rest, other, return_exceptions=True)
        asking.close()
        return found

    found = asyncio.run(several())
    assert [type(one) for one in found[:5]] == [SupersededError] * 5
    assert found[5:] == [4, "other"]
    assert done == ["slow", 4, "other"]  # what nobody waited for was not computed


def test_who_has_gone_is_not_waited_for():
    """The asker closes the page: what it asked for ends at the next stage, or is not begun."""
    import threading

    async def leaves():
        asking, begun, left = Asking(), threading.Event(), threading.Event()
        reached = []

        def long(asker):
            begun.set()
            left.wait(5)
            asker.check()
            reached.append("the end")

        gone = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(asking.ask("a", long, gone))]
        await asyncio.to_thread(begun.wait, 5)
        tasks.append(asyncio.create_task(asking.ask("b", lambda _: reached.append("b"), asyncio.shield(gone))))
        await asyncio.sleep(0)
        gone.set_result(None)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        left.set()
        last = await asking.ask("c", lambda _: "c", asyncio.sleep(60))
        asking.close()
        return found, reached, last

    found, reached, last = asyncio.run(leaves())
    assert [type(one) for one in found] == [SupersededError] * 2
    assert (reached, last) == ([], "c")


def test_times_and_queues_are_bounded():
    import threading

    async def long():
        asking, go = Asking(patience=0.02), threading.Event()
        with pytest.raises(TooLongError):
            await asking.ask("a", lambda _: go.wait(5))
        waiting = [asyncio.create_task(asking.ask(i, lambda _: None)) for i in range(250)]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        go.set()
        asking.close()
        return {type(one) for one in found}

    assert asyncio.run(long()) == {TooLongError, BusyError}


def test_an_error_of_the_library_is_told_where_the_part_would_be(app):
    found = ask(app, "/part/limits?e=case:epidemic&rule=published&influence=tv:0.5")
    assert found.status_code == 200
    assert "published" in found.text


# ---- what is kept is bounded -----------------------------------------------------------------------------------------


def log_of(n):
    rng = np.random.default_rng(1)
    grid = tether.cases.grid_world().mdp
    return tether.Episodes.from_paths(grid.simulate("random", 4, rng=rng) for _ in range(n)), grid


def test_episodes_and_questions_are_forgotten():
    episodes, grid = log_of(12)
    memory = Memory(LogEpisodes(grid, episodes))
    first = memory.answer(View("0"))
    assert memory.answer(View("0")) is first
    for key in range(12):
        memory.answer(View(str(key)))
    assert len(memory._episodes) == 8
    assert memory.answer(View("0")) is not first
    cf = memory.answer(View("0")).cf
    for eps in range(20):
        memory.answer(View("0", influence=f"effective:{eps / 100}"))
    assert memory.answer(View("0")).cf is not cf
    assert len(memory._answers) <= 24


def test_what_is_kept_is_bounded_in_bytes():
    episodes, grid = log_of(4)
    memory = Memory(LogEpisodes(grid, episodes), most=1)
    for key in "0123":
        for k in (1, 2, 3):
            _ = memory.answer(View(key, k)).outlook
    assert (len(memory._episodes), len(memory._answers)) == (1, 1)
    assert memory.nbytes > memory.answer(View("3", 3)).nbytes > 0


def test_a_log_is_ranked_searched_and_opened():
    episodes, grid = log_of(60)
    log = LogEpisodes(grid, episodes, Opening(("grid", "log.csv#{episode}"), ("path = log[{episode!r}]",)))
    listed = log.listed()
    values = [one.value for one in listed]
    assert values == sorted(values)
    assert len(listed) == 60
    app = make_app(log, KEYS)
    page = ask(app, "/part/episodes").text
    assert page.count("<tr") == 51
    assert "Page 1 of 2" in page
    assert ask(app, "/part/episodes?page=1").text.count("<tr") == 11
    assert ask(app, "/part/episodes?q=17").text.count("<tr") == 2
    for order, first in (("most", max(values)), ("", min(values))):
        rows = re.findall(r"<td>([^<]*)</td></tr>", ask(app, f"/part/episodes?order={order}").text)
        assert rows[0].replace("\N{MINUS SIGN}", "-") == f"{first:.4g}"
    entry = log.entry("17")
    assert entry.open().path == episodes[17]
    assert (entry.opening.command, entry.opening.python) == (("grid", "log.csv#17"), ("path = log[17]",))
    with pytest.raises(QueryError, match="no episode"):
        log.entry("60")


def test_the_lines_to_take_away_give_the_same_answer(cases):
    memory = Memory(cases)
    view = View("case:sepsis-suboptimal", 5, 2, "assured", "effective:0.0123456789", chosen=Choices(((1, 2),)))
    answer = memory.answer(view)
    assert command_line(answer)[0] == (
        "tether explain case:sepsis case:sepsis-suboptimal -k 5 -m 2 --rule assured --influence effective:0.0123456789"
    )
    names: dict = {"print": lambda *_: None}
    exec("\n".join(python_lines(answer, view)), names)
    assert names["plan"].value == answer.plan.value
    assert names["plan"].influence == answer.plan.influence  # every digit of it
    assert command_line(Memory(One(answer.cf, "x")).answer(View())) == []


def test_threads_may_ask_at_once(app):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: ask(app, f"/part/limits?e=case:toy&k={k}").status_code, [1, 2, 3, 1]))
    assert found == [200] * 4
