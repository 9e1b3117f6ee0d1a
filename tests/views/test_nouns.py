"""A log names its things: every page then speaks of patients and hours, also in the details and in drawings."""

import re

import pytest
from asking import KEYS, ask
from pages import Page, read
from wards import HABIT, until_the_end

import tether
from tether.explorer.app import make_app
from tether.explorer.offered import One
from tether.explorer.panels import parts
from tether.records import Nouns

HOURLY = Nouns("patient", "hour")


@pytest.fixture(scope="module")
def log():
    ward = tether.cases.ward().mdp
    return [until_the_end(ward.simulate(HABIT, 6, start="sick", rng=seed)) for seed in range(60)]


@pytest.fixture(scope="module")
def mdp(log):
    return tether.learn(log).with_objective(final_reward={"well": 1.0})


def other_nouns(page):
    """Where a page says step all the same, or speaks of an episode where it means this one or several."""
    said = " ".join([page.text, *page.drawings])
    said += " ".join(value for name, value in page.attributes if name in ("aria-label", "data-name"))
    wrong = re.compile(r".{0,40}(?:\b[Ss]teps?\b|\b(?:this|each|every|one) episode\b|\b[Ee]pisodes\b(?!\.\w)).{0,30}")
    return [one for one in wrong.findall(said) if "episode by episode" not in one]


def test_of_a_report(mdp, log, tmp_path):
    path = next(one for one in log if one.states[-1] == "dead" and one.T > 2)
    plan = tether.counterfactual(mdp, path).plan(m=1)
    page = read(plan.report(tmp_path / "page.html", nouns=HOURLY, draws=20))
    assert "hour 0: luck" in page.text
    assert other_nouns(page) == []


def test_of_an_audit(mdp, log, tmp_path):
    page = read(tether.audit(mdp, log, m=1).report(tmp_path / "page.html", reports=0, nouns=HOURLY))
    assert page.tables[0][0][0] == "patient"
    assert other_nouns(page) == []


def test_of_rules(mdp, log, tmp_path):
    assert other_nouns(read(tether.rules(mdp, log).report(tmp_path / "page.html", nouns=HOURLY))) == []


def test_of_the_explorer():
    ward = tether.cases.ward()
    app = make_app(One(tether.counterfactual(ward.mdp, ward.path), "10", nouns=HOURLY), KEYS)
    for name in set(parts()) - {"take"}:
        page = Page(ask(app, f"/part/{name}?k=2&m=1&tab=answer&t=2").text)
        assert (name, other_nouns(page)) == (name, [])
    assert other_nouns(Page(ask(app, "/").text)) == []
    assert other_nouns(Page(ask(app, "/take/report.html?k=2").text)) == []


def test_numbers_beside_the_picture_are_those_of_the_verdict():
    """The plan goes on after the record: what is said at the picture and in the verdict is how it ends."""
    mdp = tether.MDP.from_table(
        ["sick"] * 4, ["wait", "wait", "treat", "treat"], ["sick", "dead", "sick", "well"], [0.4, 0.6, 0.4, 0.6],
        [0.0] * 4, terminal=["well", "dead"]
    ).with_objective(final_reward={"well": 1.0})  # fmt: skip
    path = tether.Path(["sick", "dead"], ["wait"])
    found = tether.counterfactual(mdp, path, horizon=3).plan(k=4, m=1).explain()
    (well,) = (one for one in found.replay(str).endings if one.name == "well")
    assert well.end > well.chance[-1]
    assert well.label == f"{100 * well.end:.0f} well in the end"
