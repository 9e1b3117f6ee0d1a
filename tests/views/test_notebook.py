"""What records show in a notebook: small tables, balanced and escaped, whatever the labels."""

import warnings

import pytest
from pages import ODD, Page, walk

import tether
from tether._foundation.words import number


def records(cf):
    plan = cf.plan(3, 2)
    outlook = plan.evaluate()
    state, action = cf.path.states[0], cf.path.actions[0]
    return {
        "model": cf.mdp,
        "path": cf.path,
        "counterfactual": cf,
        "plan": plan,
        "sweep": cf.sweep(),
        "evaluation": outlook,
        "nominal evaluation": cf.mdp.evaluate("random", 2, start=state),
        "course": outlook.returns,
        "tailoring": outlook.tailoring,
        "explanation": plan.explain(),
        "trajectories": plan.sample(3, rng=0),
        "classes": cf.classify(k=2, t=1),
        "front": cf.pareto(m=1),
        "point": cf.pareto(m=1).points[0],
        "why": cf.why(0, state, action, k=2),
        "solution": cf.mdp.solve(3),
        "case": tether.cases.Case("a <case>", cf.mdp, {"observed": cf.path}),
    }


EVERY = list(records(ODD["evil labels"]().cf))


@pytest.mark.parametrize("name", EVERY)
def test_labels_are_text_and_nothing_else(name):
    page = Page(f"<div>{records(ODD['evil labels']().cf)[name]._repr_html_()}</div>")
    drawn = {"b", "svg", "title", "g", "path", "defs", "use", "clippath", "rect", "style", "text", "metadata", "tspan"}
    assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"} | (drawn if name == "plan" else set())
    assert not [attribute for attribute, _ in page.attributes if attribute.startswith("on")]


@pytest.mark.parametrize("name", ["path", "evaluation", "explanation", "trajectories", "classes", "solution", "why"])
def test_labels_are_shown(name):
    shown = Page(records(ODD["evil labels"]().cf)[name]._repr_html_()).text
    assert "<script>alert(1)</script>" in shown


@pytest.fixture(scope="module")
def long():
    return records(walk(40, 120))


@pytest.mark.parametrize("name", [name for name in EVERY if name != "path"])  # a path shows all its steps
def test_long_episodes_and_many_states_stay_small(long, name):
    assert len(long[name]._repr_html_()) < 60_000


def rows(record):
    return Page(record._repr_html_()).tables[0]


def test_what_is_shown():
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    plan = cf.plan(7, 4)
    facts = dict(rows(plan))
    assert (facts["k, m"], facts["return"], facts["observed"]) == ("7, 4", number(plan.value), "-38")
    shown = plan._repr_html_()  # sentences, then the picture, then the table
    assert shown.index("Mistake or luck?") < shown.index("<svg") < shown.index("<table")
    head, *steps = rows(plan.explain())
    assert head[:3] == ["t", "observed", "done"]
    assert steps[1][:6] == ["1", "(8, 2, 20)", "NIL", "(8, 2, 20)", "1", "V_I"]
    assert len(steps) == 8
    head, *times = rows(plan.evaluate())
    assert head[-2:] == ["action changed", "known ground"]
    assert times[3][4] == f"{plan.evaluate().changed[3]:.3g}"
    assert rows(cf.mdp.evaluate("random", 2, start=(9, 1, 20)))[0][-1] == "return so far"
    classes = cf.classify(k=3, t=1)
    assert {row[0]: int(row[1].replace(",", "")) for row in rows(classes)[1:]} == classes.counts()
    front = cf.pareto(m=1)
    assert [row[1] for row in rows(front)[1:]] == ["-1", "-38"]
    assert dict(rows(front.points[0]))["measure"] == "0 of 7"
    why = cf.why(0, (9, 1, 20), "V_I", k=3)
    assert dict(rows(why)) == {"allowed": "no", "it takes": "k ≥ 8", "why": why.sentence}
    assert dict(rows(cf))["edited"] == "7 rows"
    assert rows(plan.evaluate().returns)[-1] == ["7", f"{plan.value:.6g}", f"{plan.evaluate().returns.std[7]:.4g}"]


def test_many_states_of_a_solution_are_shown_in_part():
    html = tether.cases.epidemic().mdp.solve(2)._repr_html_()
    assert "the first of 2,541 states" in html


def test_a_plan_of_a_large_model_does_not_wait(monkeypatch):
    monkeypatch.setattr("tether.objects.plan_object.LARGE", 0)
    plan = walk(5, 4).plan(2, 1)
    assert "<svg" not in plan._repr_html_()


CELLS = [
    "import tether\ncase = tether.cases.toy()\ncf = tether.counterfactual(case.mdp, case.path)",
    "plan = cf.plan(2, 1)\nplan.plot()",
    "ax = cf.sweep().plot()",  # no value to show, and not even the last line
    "cf.plot(2);\nax = None",
    "from pathlib import Path\nplan.report('report.html').name",
    "types = tether.Types({'one': case.mdp, 'same': case.mdp}, prior={'one': 0.5, 'same': 0.5})\n"
    "tether.counterfactual(types, case.path).plan(m=1)",  # its drawing is within it
]


def test_a_figure_appears_below_the_cell_that_draws_it(tmp_path, monkeypatch):
    """In a real kernel: once for each drawing, whatever becomes of the axes; and not for those of a report."""
    import nbclient
    import nbformat

    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # as quick as compiling, here
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel's own: event loops, sockets
        nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [[list(output.get("data", {})) for output in cell.outputs] for cell in book.cells]
    pictures = [sum("image/png" in kinds for kinds in outputs) for outputs in shown]
    assert pictures == [0, 1, 1, 1, 0, 0]


def test_every_public_result_displays_itself():
    """But for arrays to compute with, and for what a search tells while it runs."""
    import inspect

    records = {name: found for name, found in vars(tether.records).items() if inspect.isclass(found)}
    silent = {name for name, found in records.items() if not hasattr(found, "_repr_html_")}
    assert silent == {"ModelArrays", "Tracked"}
    ward = tether.cases.ward()
    plan = tether.counterfactual(ward.mdp, ward.path).plan(1, 1)
    for shown in (plan.risk, plan.explain().verdicts(str), tether.audit(ward.mdp, [ward.path]), plan.question):
        Page(shown._repr_html_())  # every tag that opens closes


def test_plans_of_every_kind_begin_with_the_verdict():
    """Also for hidden types and with a limit on whole paths; pictures before tables, and no names of code."""
    hidden, grid = tether.cases.hidden_diabetes(), tether.cases.grid_world()
    typed = tether.counterfactual(hidden.types, hidden.path)
    for plan in (typed.plan(m=2), tether.counterfactual(grid.mdp, grid.path).plan(m=6, budget=9)):
        shown = plan._repr_html_()
        verdicts = plan.explain().verdicts(str)
        assert [line in Page(shown).text for line in verdicts.lines] == [True] * len(verdicts.lines)
        assert shown.index("With hindsight") < shown.index("<table")
        assert not {"root", "minimise", "observed_value"} & set(Page(shown).text.split())
    assert "<svg" in typed.plan(m=2)._repr_html_()
    assert "diabetic" in Page(typed._repr_html_()).text
    assert "20 % before an episode" in Page(hidden.types._repr_html_()).text
    assert "assuming nothing" in Page(tether.robust(grid.mdp, grid.path, "nothing")._repr_html_()).text
