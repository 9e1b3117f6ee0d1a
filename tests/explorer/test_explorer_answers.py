"""What the explorer's server answers: what the library does, episode after episode of a log."""

from __future__ import annotations

import html
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import KEYS, ask, log_of

import tether
from tether.errors import QueryError
from tether.explorer.answer_cache import Memory
from tether.explorer.app import make_app
from tether.explorer.asking import SupersededError
from tether.explorer.offered import LogEpisodes, One, Opening
from tether.explorer.panels import Asked, parts
from tether.explorer.panels.take_panel import command_line, python_lines
from tether.explorer.view import Choices, View

pytestmark = pytest.mark.compiled


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
        assert f" {best:.4g}, if only this had been different" in text
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
    assert "The what-if over time" in text
    assert "the plan may change" not in text


def test_a_large_model_answers_before_its_table_is_made(app, cases, monkeypatch):
    """What takes long comes as parts of its own, with the same numbers."""
    view = "e=case:epidemic&k=6&m=2"
    names = ("limits", "ladder", "beyond")
    quick = dict(zip(names, ask(app, *(f"/part/{name}?{view}" for name in names)), strict=True))
    assert "data-later" not in "".join(found.text for found in quick.values())
    for place in ("answer_cache._QUICK", "panels.answer_panel._AT_ONCE"):
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
    assert "Mistake or luck?" in found.text
    assert found.text.lstrip().lower().startswith("<!doctype html>")


def test_an_error_of_the_library_is_told_where_the_part_would_be(app):
    found = ask(app, "/part/limits?e=case:epidemic&rule=published&influence=tv:0.5")
    assert found.status_code == 200
    assert "published" in found.text


def test_a_log_is_ranked_searched_and_opened():
    episodes, grid = log_of(60)
    log = LogEpisodes(grid, episodes, Opening(("grid", "log.csv#{episode}"), ("path = log[{episode!r}]",)))
    listed = log.listed()
    values = [one.value for one in listed]
    assert values == sorted(values)
    assert len(listed) == 60
    app = make_app(log, KEYS)
    page = ask(app, "/part/episodes").text
    assert page.count("<tr") == 26
    assert "Page 1 of 3" in page
    assert ask(app, "/part/episodes?page=2").text.count("<tr") == 11
    ended = sum(one.outcome != "" for one in listed)
    assert 0 < ended < 60
    pages = "".join(ask(app, f"/part/episodes?page={n}").text for n in range(3))
    assert pages.count("still under way") == 60 - ended
    assert ask(app, "/part/episodes?q=17").text.count("<tr") == 2
    for order, first in (("most", max(values)), ("", min(values))):
        rows = re.findall(r'<td data-name="Return">([^<]*)</td></tr>', ask(app, f"/part/episodes?order={order}").text)
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
