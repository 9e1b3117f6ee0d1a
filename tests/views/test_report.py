"""The report: what it says against the library's numbers, whatever the model and the plan."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from deciding import asked
from hypothesis import given
from hypothesis import strategies as st
from pages import ODD, PLANS, Page, read, undrawn, walk, write, written_once
from worlds import FEWER, RULES, criteria_for, in_package, rules_and_criteria, worlds

import tether
from tether._foundation.words import number as words_number
from tether._foundation.words import percent
from tether.conditioning.layers import reached_states
from tether.explanation import about_episode
from tether.influence.classes import CLASSES, classify_layers, classify_reachable
from tether.plan import tether_record as tethered
from tether.views import figures
from tether.views.report.report_limits import sweep_around

SECTIONS = [
    "Mistake or luck?",
    "About this episode?",
    "How sure?",
    "Mistakes and luck, step by step",
    "Decisions that mattered",
    "Step by step",
    "Other limits",
    "For the analyst",
    "What this answer cannot know",
    "What made this report",
]


def limits_of(page):
    """The k × m table."""
    return next(table for table in page.tables if table[0][1:2] == ["m = 0"])


def number(text):
    return float(text.replace("−", "-").replace(",", ""))


# --- The case studies --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param("sepsis", marks=pytest.mark.compiled), "epidemic", "grid_world", "toy"])
def test_the_case_studies(name, tmp_path_factory):
    plan, file = PLANS[name](), written_once(name, tmp_path_factory)
    assert file.stat().st_size < 200_000  # far below the megabyte that mail takes easily
    page = read(file)
    assert page.headings == SECTIONS
    steps = plan.explain().steps
    assert len(page.steps) == len(steps)
    gains = [row[5] for row in page.steps]
    assert sum(number(gain) for gain in gains if gain) == pytest.approx(plan.gain, rel=1e-3, abs=1e-9)


@pytest.mark.usefixtures("only_words")
def test_the_title_and_the_place_are_the_caller_s(tmp_path):
    file = PLANS["toy"]().report(tmp_path / "a page.html", title="Case A")
    assert file == tmp_path / "a page.html"
    assert "Case A" in read(file).text


def test_it_needs_nothing_but_itself(outbreak):
    _, page = outbreak
    assert "script" not in page.tags
    assert not {"img", "iframe", "object", "embed", "form"} & page.tags
    elsewhere = [value for name, value in page.attributes if name in ("src", "href", "action", "srcset")]
    assert {value for value in elsewhere if not value.startswith("#")} == {"data:,"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in [value for _, value in page.attributes]


def test_the_style_sheet_loads_nothing(tmp_path_factory):
    html = written_once("toy", tmp_path_factory).read_text(encoding="utf-8")
    style = html[html.index("<style>") : html.index("</style>")]
    assert not re.search(r"url\(|@import|http", style)
    assert not re.search(r"https?://", html)


def test_nothing_is_loaded_before_it_is_needed(tmp_path):
    """`import tether`, and what records but plans show in a notebook, need neither templates nor figures."""
    code = """
import sys, tether
toy = tether.cases.toy()
plan = tether.counterfactual(toy.mdp, toy.path).plan(2, 1)
plan.explain()._repr_html_(), plan.cf.sweep()._repr_html_()
print("matplotlib" in sys.modules, "jinja2" in sys.modules)
plan.report(sys.argv[1])
print("matplotlib.pyplot" in sys.modules, "pyarrow" in sys.modules)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "report.html")]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.split() == ["False"] * 4


# --- What it says --------------------------------------------------------------------------------------


def test_the_summary_is_the_library_s(outbreak):
    plan, page = outbreak
    found = plan.explain().verdicts(str)
    assert found.change.replace("-", "−") in page.parts["How sure?"]
    assert found.foreseen in page.parts[""]
    for one in found:
        assert one.word in page.parts[one.question]
        assert all(sentence.replace("-", "−") in page.parts[one.question] for sentence in one.sentences)
    # Two measures, two names, strength first: both as the library says them, and not one for the other.
    explanation, analyst = plan.explain(), page.parts["For the analyst"]
    strength = about_episode.strength(plan.cf, explanation.outlook, explanation.steps)
    influenced = about_episode.influenced_steps(explanation.outlook.tailoring, 7)
    assert analyst.index(strength) < analyst.index(influenced)
    beside = {row[0]: row[1:3] for table in page.tables if table[0][0] == "In numbers" for row in table[1:]}
    # V(k = 7, m = 4) = -11.28 against -38, as the sweep of the epidemic has it.
    assert beside["Expected return (score)"] == ["−38", "−11.28"]
    about, known = "About this episode, from the first change on", "Steps on known ground (of 7)"
    assert list(beside).index(about) < list(beside).index(known)
    assert (beside[about][1], beside[known][1]) == ("0 %", "1")
    assert beside["Ends with a lower score than what happened"] == ["–", "0 %"]
    for sentence in plan.explain().beyond.sentences():
        assert sentence.replace("-", "−") in page.parts["Other limits"]
    assert "the best that changes at most 4 actions (m = 4)" in analyst


def test_the_waterfall_and_the_picture_are_the_library_s(outbreak):
    plan, page = outbreak
    explanation = plan.explain()
    assert page.drawings[:2] == [explanation.replay(str).text] * 2  # for a desk and for a phone
    assert page.drawings[2] == figures.review_in_text(explanation.review)


HOLDS = "For the analyst"


def _flat(page, part):
    return " ".join(page.parts[part].replace("−", "-").split())


def test_the_certificate_is_the_library_s(outbreak):
    plan, page = outbreak
    found, text = plan.certify(), _flat(page, HOLDS)
    assert found.sentence in text
    for name, worst, best in found.ranges:
        line = f"{name}{words_number(worst)} at worst, {words_number(best)} at best"
        assert line.replace(" ", "") in text.replace(" ", "")
    assert sum("causal model" in name for name in page.drawings) == 2


@pytest.mark.usefixtures("only_words")
def test_a_guaranteed_plan_is_reported_as_one(tmp_path):
    case = tether.cases.grid_world()
    plan = tether.robust(case.mdp, case.path, assume="nothing").plan(6, 1)
    page = write(plan, tmp_path)
    assert "Guaranteed return" in _flat(page, HOLDS)
    call = "tether.robust(mdp, path, assume='nothing').plan(k=6, m=1, rule='definition', influence='support')"
    assert call in page.text
    assert "This was not asked." in write(plan, tmp_path, certificate=False).parts[HOLDS]


def test_the_steps_are_the_library_s(outbreak):
    plan, page = outbreak
    steps = plan.explain().steps
    rows = page.steps
    for row, step in zip(rows, steps, strict=True):
        assert row[0] == str(step.t)
        assert row[1] in (str(step.observed_state), "as before")
        if step.outcome is not None:
            assert row[3].endswith(f"{step.outcome} {percent(step.outcome_probability)}")
        elif step.state_probability < 1:
            assert row[3] == f"{step.state} {percent(step.state_probability)}"
    assert [row[4].strip() for row in rows[:-1]] == ["as done", "V_I", "V_I", "V_I", "V_I", "as done", "as done"]
    assert [row[6].strip() for row in rows] == ["10 %", *["0 %"] * 6, ""]


def test_the_table_is_the_sweep(outbreak):
    plan, page = outbreak
    sweep = plan.cf.sweep()
    head, *rows = limits_of(page)
    assert head == ["k, m", "m = 0", "m = 1", "m = 2", "m = 3", "m = 4", "m = 5 … 7"]
    assert [row[0] for row in rows] == ["k = 1 … 2", "k = 3", "k = 4", "k = 5", "k = 6", "k = 7", "k = 8"]
    for row, k in zip(rows, [1, 3, 4, 5, 6, 7, 8], strict=True):
        np.testing.assert_allclose([number(cell) for cell in row[1:]], sweep.values[k - 1, :6], atol=0.005)


def test_the_suggested_k_is_said_in_words(outbreak):
    plan, page = outbreak
    part = page.parts["Other limits"]
    gain = plan.cf.sweep().value(7, 4) + 38
    assert (
        "Suggested: k = 7. It is the shortest tether that gives at least 90 % of what the longest one (k = 7)" in part
    )
    assert f"It gains {gain:.3g}, which is 72 % of what could be gained without a tether at all." in part  # 26.7 of 37


@pytest.mark.usefixtures("only_words")
def test_no_k_is_suggested_where_none_helps(tmp_path):
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    assert "There is no k to suggest: without any change, nothing can be gained" in write(cf.plan(3, 0), tmp_path).text
    mdp = tether.MDP.from_table(
        ["s", "s", "t", "u", "u"], ["a", "b", "a", "a", "b"], ["t", "u", "t", "u", "u"], [1.0] * 5, [0, 5, 0, 0, 0]
    )
    away = tether.counterfactual(mdp, tether.Path(["s", "t", "t"], ["a", "a"])).plan(3, 1)
    text = write(away, tmp_path).text
    assert "something can be gained only without a tether (k = 3), namely 5." in text
    assert "The tether (k = 3): no tether; the answer may be what the model expects of anyone." in text


def test_what_made_it(outbreak):
    _, page = outbreak
    part = page.parts["What made this report"]
    assert "2,541 states" in part
    assert "7 steps from (9, 1, 20), the last outcome recorded" in part
    assert "cf.plan(k=7, m=4, rule='definition', influence='support')" in part
    assert f"Tether {tether.__version__}, NumPy {np.__version__}, numba " in part
    assert "gumbel-max: exact probabilities" in part


@pytest.mark.usefixtures("only_words")
def test_settings_in_words(tmp_path):
    cf = walk(6, 5)
    text = write(cf.plan(3, 2, influence=tether.tv(0.5)), tmp_path, about={"read from": "<a> file.csv"}).text
    assert "influence=tether.tv(0.5)" in text
    assert "within 0.5 (total variation)" in text
    assert "read from<a> file.csv" in text
    text = write(cf.plan(3, 2, rule="assured", influence=tether.effective(0.25)), tmp_path).text
    assert "the plan never takes 3 steps in a row off known ground" in text
    assert "by more than 0.25" in text
    assert (
        "of one that the observed steps could have led to at any time"
        in write(cf.plan(2, 2, rule="printed"), tmp_path).text
    )
    objective = cf.mdp.with_objective(discount=0.9, final_reward=float)
    sampled = tether.counterfactual(objective, cf.path, "gumbel-max-sampled", samples=20, rng=1)
    text = write(sampled.plan(9, 9), tmp_path).text
    assert "discounted by 0.9 per step; and a reward for the last state" in text
    assert "estimated from 20 draws" in text
    assert "every action is allowed everywhere" in text


@pytest.mark.usefixtures("only_words")
def test_a_plan_that_was_not_made_for_value_says_so(tmp_path):
    front = walk(8, 6).pareto(m=3)
    text = write(front.points[-1].plan, tmp_path).text
    assert "is the best that" not in text
    assert "This plan was not made for the best return within its limits" in text


@pytest.mark.usefixtures("only_words")
def test_nothing_to_change(tmp_path):
    page = write(PLANS["toy"](), tmp_path)
    assert "Nothing is changed: no plan within these limits does better than what was done." in page.text
    assert "Whatever k and m, nothing is gained: the expected return stays 0." in page.text
    assert "the plan may change the action" not in page.text


@pytest.mark.usefixtures("only_words")
def test_an_outcome_that_was_not_recorded(tmp_path):
    page = write(walk(20, 20, last=False).plan(9, 3), tmp_path)
    assert page.steps[-1][1] == "not recorded"
    assert "the last outcome not recorded" in page.text


@pytest.mark.usefixtures("only_words")
def test_of_many_steps_those_that_change_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("tether.views.report.report_steps._SHOWN", 20)
    plan = walk(4, 30).plan(3, 2)
    page = write(plan, tmp_path)
    explanation = plan.explain()
    listed = {int(row[0]) for row in page.steps}
    assert len(listed) == 20
    assert {step.t for step in explanation.changes} <= listed
    assert f"{len(explanation.steps) - 20} steps not shown" in page.text


@pytest.mark.usefixtures("only_words")
def test_long_stretches_without_a_change_are_one_line_that_opens(tmp_path):
    plan = PLANS["sepsis"]()
    page = write(plan, tmp_path)
    line = "Step 5 … 9: what happened: died. Likeliest under the plan: died (42 % to 76 %); +2,000 of the score in all."
    assert line in page.parts["Step by step"]
    assert [row[0] for row in page.steps] == [str(t) for t in range(11)]
    # An outcome is called by its name, every time.
    assert [row[1] for row in page.steps[3:]] == ["died"] * 8
    assert not [row for row in page.steps[3:] if row[3].startswith(("as ", "the same"))]
    page = write(walk(6, 30).plan(9, 0), tmp_path)
    assert "the plan does what was done, and the same happens again." in page.parts["Step by step"]


@pytest.mark.usefixtures("only_words")
@pytest.mark.parametrize(
    "options", [{"objective": tether.avoid("died")}, {"minimise": True}], ids=["avoid", "minimise"]
)
def test_another_objective_has_a_page_too(options, tmp_path):
    """Where the likeliest state decides the property, the plan ends: there is no action to tell."""
    patient = tether.cases.sepsis()
    plan = tether.counterfactual(patient.mdp, patient.path).plan(9, 2, **options)
    page = write(plan, tmp_path)
    assert page.headings == SECTIONS
    assert plan.explain().verdicts(str).hindsight.replace("-", "−") in page.parts[""]
    assert ("the plan ends" in page.text) == ("objective" in options)
    ended = "Paths end where it is decided whether died is avoided" in page.parts["For the analyst"]
    assert ended == ("objective" in options)


@pytest.mark.usefixtures("only_words")
def test_a_learned_model_is_called_learned(tmp_path):
    """By how many episodes, how often what is advised was seen, what the log leaves open; none of it without a log."""
    seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
    mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
    mdp = mdp.with_objective(final_reward={"well": 1.0})
    plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(2, 1)
    page = write(plan, tmp_path, draws=20)
    assert "The model is learned, from 13 episodes: at step 0, treat was seen 10 times in that state." in page.text
    assert "Learned from 13 episodes of 13 steps in all." in page.parts["For the analyst"]
    assert "learned from 13 episodes" in page.parts["What this answer cannot know"]
    assert "There is a gain in" not in write(plan, tmp_path, draws=0).text
    assert "learned" not in write(PLANS["toy"](), tmp_path).text


def test_the_decisions_are_the_library_s(outbreak):
    plan, page = outbreak
    decisions = plan.cf.decisions()
    assert str(plan.shares()) in page.parts["For the analyst"]
    listed = next(
        table for table in page.tables if table[0] == ["Step", "Done", "Could be known then", "With hindsight"]
    )
    worst = sorted((step for step in plan.explain().review.steps if step.mistake > 0), key=lambda step: -step.cost)[:5]
    assert [int(row[0]) for row in listed[1:]] == [step.t for step in worst]
    tables = [table for table in page.tables if table[0][:3] == ["action", "mistake", "expected return"]]
    assert len(tables) == sum(not decisions.is_idle(t) for t in range(plan.T))
    for column, name in ((1, "mistake"), (2, "value")):
        values = [number(row[column]) for table in tables for row in table[1:]]
        wanted = [getattr(row, name) for row in decisions.rows if not decisions.is_idle(row.t)]
        assert sorted(values) == pytest.approx(sorted(wanted), abs=5e-3)


@pytest.mark.usefixtures("only_words")
def test_a_large_model_is_looked_at_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr("tether.views.report.report_limits._WORK", 0.0)
    plan = walk(8, 6).plan(3, 2)
    page = write(plan, tmp_path)
    assert "The model is large: only some limits were computed." in page.text
    free = plan.cf.sweep().value(7, 2) - plan.value
    more = f"{free:.4g} more" if free > 1e-9 else "nothing more"
    assert f"Without a tether (k = 7) the plan could gain {more}." in page.text
    assert "With one more change (m = 3) the plan could gain" in page.text
    assert limits_of(page)[0] == ["k, m", "m = 0", "m = 1", "m = 2", "m = 3"]


@pytest.mark.usefixtures("only_words")
def test_the_suggested_k_and_the_first_m_are_always_among_the_limits(tmp_path, monkeypatch):
    """A table of 101 × 101 leaves most limits out; a model too large for the table has only a few of them."""
    plan = walk(10, 100).plan(70, 30)
    suggested = plan.cf.plan(m=30).k  # what is taken if no k is asked for
    assert suggested not in (1, 70, 101)
    head, *rows = limits_of(write(plan, tmp_path))

    def holds(names, letter, number):
        spans = [[int(end) for end in name.removeprefix(f"{letter} = ").split(" … ")] for name in names]
        return any(span[0] <= number <= span[-1] for span in spans)

    assert all(holds(head[1:], "m", m) for m in (0, 1, 2, 3, 30, 100))
    assert all(holds([row[0] for row in rows], "k", k) for k in (1, suggested, 70, 101))
    monkeypatch.setattr("tether.views.report.report_limits._WORK", 0.0)
    table = sweep_around(plan)
    assert not table.is_complete
    assert suggested in table.ks
    assert {0, 1, 2, 3} <= set(table.ms.tolist())


# --- Any plan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD)
def test_odd_plans(name, tmp_path_factory):
    assert read(written_once(name, tmp_path_factory)).headings == SECTIONS


@FEWER
@given(worlds(), rules_and_criteria(), st.data())
def test_any_plan_has_a_page(tmp_path_factory, world, chosen, data):
    rule, criterion = chosen
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    with undrawn():
        page = write(plan, tmp_path_factory.mktemp("any"))
    explanation = plan.explain()
    assert page.headings == SECTIONS
    assert ("Nothing is changed" in page.text) == (not explanation.changes)
    assert len(page.steps) == world.T + 1
    cells = [cell for table in page.tables for row in table for cell in row if len(cell) < 20]
    assert not [cell for cell in cells if cell.strip() in ("nan", "inf", "−inf", "None")]


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=worlds())
def test_classes_of_what_is_reachable(rule, data, world):
    """At once and without a look at other states: the same as state by state (test_classify has their definition)."""
    influence = in_package(data.draw(criteria_for(rule)))
    k = data.draw(st.integers(1, world.T + 1))
    found = classify_reachable(world.cf, world.cf.tether(rule=rule, influence=influence).thresholds(k), k)
    for t, codes in enumerate(found):
        classes = world.cf.classify(k=k, t=t, rule=rule, influence=influence)
        assert [CLASSES[code] for code in codes] == [classes[state] for state in world.cf.reachable(t)]


@FEWER
@given(one=asked(RULES), data=st.data())
def test_classes_where_a_property_is_asked_for(one, data):
    """What is drawn are the states that paths come to before they end; their classes are those of `classify`."""
    cf, k = one.world.conditioned(), data.draw(st.integers(1, one.world.T + 1))
    options = {"rule": one.rule, "influence": in_package(one.criterion), "objective": one.objective}
    question = cf.tether(**options)
    ended = question.asked.graph.ended.mask
    layers = reached_states(question.asked.graph)
    codes = classify_layers(question.asked, question.thresholds(k), layers, k)
    come_to = {int(cf.observation.states[0])}
    for t in range(cf.T + 1):
        assert layers[t].tolist() == sorted(come_to)
        classes = cf.classify(t=t, k=k, **options)
        assert [CLASSES[code] for code in codes[t]] == [classes[cf.mdp.states[s]] for s in sorted(come_to)]
        going_on = [cf.mdp.states[s] for s in come_to if not ended[s]] if t < cf.T else []
        rows = (cf.row(t, state, action)[0] for state in going_on for action in cf.mdp.actions_in(state))
        come_to = {cf.mdp.state_index(after) for row in rows for after in row}
    kappa = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tethered, "thresholds", lambda *given, **up_to: kappa.append(given))
        ax = figures.plot_classes(cf, k, **options)  # it asks the same question, whose κ is known
        assert figures.is_graph(cf, k, **options) == any((one.get_gid() or "").startswith("node") for one in ax.patches)
    figures.forget(ax.figure)
    assert not kappa


class Told(tether.GumbelMax):
    name = "as told"


@pytest.mark.usefixtures("only_words")
def test_a_mechanism_of_the_user_s_own_goes_by_its_name(tmp_path):
    case = tether.cases.toy()
    part = write(tether.counterfactual(case.mdp, case.path, Told()).plan(2, 1), tmp_path).parts["What made this report"]
    assert "luckas told" in part


@pytest.mark.usefixtures("only_words")
def test_a_gain_of_nothing_to_speak_of_is_not_called_one(tmp_path):
    mdp = tether.MDP.from_table(["s", "s"], ["a", "b"], ["s", "s"], [1.0, 1.0], [1.0, 1.0 + 1e-10])
    page = write(tether.counterfactual(mdp, tether.Path(["s", "s"], ["a"])).plan(2, 1), tmp_path)
    assert page.steps[0][5] == "0"
    assert "No other single decision would have changed anything." in page.parts["Decisions that mattered"]


# --- Small parts --------------------------------------------------------------------------------------------------


def test_a_page_read_strictly_finds_what_is_not_closed():
    with pytest.raises(AssertionError):
        Page("<p><b>text</p>")
