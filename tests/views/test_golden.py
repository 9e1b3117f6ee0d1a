"""What each surface says first, word for word: the ward's patient 10, who was sick, waited four times and died.

The golden sentences stand here and nowhere else: whoever improves a word changes this file. Other tests look at fields.
"""

import numpy as np
import pytest
from asking import KEYS, ask
from commands import words
from pages import read, undrawn

import tether
from tether.explorer.app import make_app
from tether.explorer.offered import Cases
from tether.records import Nouns

PATIENT = Nouns("patient")


@pytest.fixture(scope="module")
def ward():
    return tether.cases.ward()


@pytest.fixture(scope="module")
def plan(ward):
    return tether.counterfactual(ward.mdp, ward.path).plan(1, 1)


def test_the_verdicts(plan):
    found = plan.explain().verdicts(str, PATIENT)
    assert (found.ended, found.foreseen, found.hindsight, found.change) == (
        "4 steps, dead at step 4",
        "Knowing what could be known then: yes, treat instead of wait at step 0.",
        "With hindsight: in part, 74 of 100 replays still end in death.",
        "With hindsight, the best change within the limits: treat instead of wait at step 3.",
    )
    assert [(one.question, one.word, " ".join(one.sentences)) for one in found] == [
        (
            "Mistake or luck?",
            "Both.",
            "4 decisions were mistakes that could be known at the time; together they cost 22.3. The largest: at step "
            "0, wait instead of treat cost 7.5 of the expected return. Bad luck cost 73.7 more, most of it at step 3.",
        ),
        (
            "About this patient?",
            "Yes.",
            "Tied to this patient at every step. From the first change on, 59 % of it is about this patient.",
        ),
        (
            "How sure?",
            "Yes, if the model is right.",
            "Something is gained on average, under every causal model in which luck is unrelated over time.",
        ),
    ]


def test_the_report(plan, tmp_path):
    with undrawn():
        page = read(plan.report(tmp_path / "page.html", title="Ward patient", nouns=PATIENT))
    first = page.parts[""]
    for said in ("Would other decisions have helped?", "74 of 100 replays still end in death"):
        assert said in first
    assert "Score added: what that step adds to what happened, on average; together it is the gain." in page.text
    assert page.headings[:3] == ["Mistake or luck?", "About this patient?", "How sure?"]
    assert "It is not a rule for the next one, and not a verdict on those who decided." in page.text


def test_the_terminal():
    said = words("what-if", "case:ward", "--at", "3=treat")
    assert said.startswith(
        "At step 3 treat instead of wait; everything else as observed. It changes 1 of the 4 actions"
    )
    assert "Dead by step 4: 74 % instead of certain; still under way: 26 % instead of 0 %." in said
    assert "0 sick → wait the same 0 0.45 yes" in said
    assert words("review", "case:ward").startswith("Mistake or luck? Both. 4 decisions were mistakes")
    said = words("explain", "case:ward", "-k", 2)
    assert "k = 2: wherever the plan leads, it could be back on known ground within 2 steps." in said
    assert "known ground: what happened tells how chance would have fallen there; k counts it." in said
    assert said.startswith(
        "Patient 10 · 4 steps, dead at step 4 Knowing what could be known then: yes, treat instead of wait at step 0. "
        "With hindsight: in part, 29 of 100 replays still end in death."
    )
    assert "(half of the replays between -100 and 0) instead of -100" in said
    assert not {"±", "influenced"} & set(said.replace("(", " ").split())


def test_a_hidden_type(tmp_path):
    """The paper's patient, whose diabetes was never recorded."""
    case = tether.cases.hidden_diabetes()
    plan = tether.counterfactual(case.types, case.path).plan(m=2)
    found = plan.explain().verdicts(str, PATIENT)
    assert [(one.question, one.word) for one in found] == [
        ("Mistake or luck?", "Luck."),
        ("About this patient?", "Partly."),
        ("How sure?", "Not sure."),
    ]
    assert found.about.sentences == (
        "By what happened, the type is diabetic with a chance of 100 %; before it was 20 %.",
        "At step 2, the luck of this patient moves 0 % of what is to be expected of antibiotics; what it says of the "
        "type moves 32 %.",
    )
    assert found.change == (
        "With hindsight, the best change within the limits: antibiotics instead of antibiotics + ventilation at step "
        "2; later steps depend on what is met."
    )
    page = read(plan.report(tmp_path / "page.html", nouns=PATIENT))
    assert "Patient of 10 steps, died at step 3" in page.text
    assert page.headings[:3] == [one.question for one in found]
    assert found.hindsight in page.parts[""]
    said = words("explain", "case:hidden-diabetes", "-m", 2)
    assert said.startswith(
        "Hidden diabetes patient · 10 steps, died at step 3 Knowing what could be known then: no. "
        "With hindsight: a little, 85 of 100 replays still end in death. Mistake or luck? Luck. Every decision was"
    )
    assert "antibiotics (18 %) → antibiotics + ventilation*" in said
    assert "5–9 ended most likely ended too" in said


def test_the_audit(ward, tmp_path):
    audit = tether.audit(ward.mdp, ward.paths)
    assert audit.sentences()[0] == "4 episodes: 2 dead, 1 well, 1 still under way."
    with undrawn():
        page = read(audit.report(tmp_path / "audit.html", nouns=PATIENT, reports=0, hide_ids=True))
    assert "4 patients, at most 1 decision changed in each" in page.text
    assert "patient 10" not in page.text
    (pairs,) = (table for table in page.tables if table[0][:3] == ["done", "better", "mistakes"])
    assert pairs[1][:2] == ["wait", "treat"]
    (changes,) = (table for table in page.tables if table[0][:2] == ["done", "hindsight"])
    assert changes[1][:3] == ["wait", "treat", "1"]
    assert "nobody could know then what hindsight knows" in page.text


def test_the_rules(ward):
    rng = np.random.default_rng(1)
    log = [ward.mdp.simulate("random", 4, start="sick", rng=rng) for _ in range(40)]
    (one,) = tether.evaluate_rules(ward.mdp, log, [tether.rule("worse", instead_of="wait", do="treat")], holdout=0)
    assert one.split()[0].startswith(f"Of {one.touched} episodes that it touches, ")


def test_the_explorer():
    app = make_app(Cases(), KEYS)
    assert "Patient 10: sick, waited four times, died." in ask(app, "/part/controls").text
    headline = " ".join(ask(app, "/part/headline?k=1").text.split())
    assert headline.startswith("Treat instead of wait at step 3.")
    meters = ask(app, "/part/limits?k=1").text.replace("\N{NO-BREAK SPACE}", " ")
    assert "Replays that end in death" in meters
    assert "74 of 100" in meters
    assert "About this patient" in meters
    popover = " ".join(ask(app, "/part/timeline?k=1").text.split()).replace("\N{NO-BREAK SPACE}", " ")
    assert "74 of 100 replays end in death; the score gains 25.9. With k = 1 allowed: it takes k ≥ 1." in popover
