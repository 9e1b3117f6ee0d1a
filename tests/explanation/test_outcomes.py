"""Outcomes over time: classes that share no state, and their probabilities against every state looked at by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, worlds

import tether
from tether.evaluation.outcomes import absorbing
from tether.explanation.terms import best_for_anyone_in_words
from tether.figures.outcomes_figure import WHO


def class_of(mdp, state):
    """By definition: all labels of a state; the name of an absorbing one without any; else nothing."""
    labels = [name for name, members in mdp.labels.items() if state in members]
    stuck = absorbing(mdp, np.array([mdp.state_index(state)]))[0]
    return ", ".join(labels) or (str(state) if stuck else "")


@FEWER
@given(worlds(), st.data())
def test_every_time_has_each_class_once(world, data):
    mdp = world.cf.mdp
    subsets = st.lists(st.sampled_from(list(mdp.states)), min_size=1, unique=True)
    mdp = mdp.with_labels({"low": data.draw(subsets), "high": data.draw(subsets)})
    cf = tether.counterfactual(mdp, world.cf.path)
    explanation = cf.plan(2, 1).explain()
    outcomes = explanation.outcomes
    by_whom = {"observed": cf.evaluate("observed"), "plan": explanation.outlook, "optimal": cf.evaluate("optimal")}
    assert outcomes.classes[-1] == ""
    assert len(set(outcomes.classes)) == len(outcomes.classes)
    for who in WHO:
        course = getattr(outcomes, who)
        np.testing.assert_allclose(course.sum(axis=1), 1.0, atol=1e-12)
        for t in range(cf.T + 1):
            expected = dict.fromkeys(outcomes.classes, 0.0)
            for state, chance in zip(*by_whom[who].distribution(t), strict=True):
                expected[class_of(mdp, state)] += chance
            np.testing.assert_allclose(course[t], list(expected.values()), atol=1e-12)
        assert {one.name: getattr(one, who) for one in outcomes}.items() >= by_whom[who].outcomes().items()


def test_where_a_model_starts_is_no_outcome():
    """PRISM and Storm mark it by a label of every model; the same, without it, in a single answer and in an audit."""
    grid = tether.cases.grid_world()
    marked = grid.mdp.with_labels({"init": [0, 3]})
    told, plain = (tether.counterfactual(mdp, grid.path).plan(6, 4).explain() for mdp in (marked, grid.mdp))
    assert told.sentences() == plain.sentences()
    assert told.outcomes.classes == plain.outcomes.classes == ("danger", "goal", "")
    assert [step.outcome for step in told.steps] == [step.outcome for step in plain.steps]
    tables = [tether.audit(mdp, {"ann": grid.path}, 6, 4).table for mdp in (marked, grid.mdp)]
    assert tables[0].equals(tables[1])
    assert "init" in marked.labels


def test_of_many_outcomes_the_rarest_are_one():
    ends = [f"end {i}" for i in range(12)]
    chances, rewards = [1.0, *np.arange(1, 13) / 78], [0.0, *[1.0] * 12]
    mdp = tether.MDP.from_table(["s"] * 13, ["a", *["b"] * 12], ["end 3", *ends], chances, rewards, terminal=ends)
    outcomes = tether.counterfactual(mdp, tether.Path(["s", "end 3"], ["a"])).plan(2, 1).explain().outcomes
    assert outcomes.classes == ("end 3", *(f"end {i}" for i in range(11, 4, -1)), "4 others", "")
    assert outcomes.observed[-1].tolist() == [1.0, *[0.0] * 9]
    assert outcomes.plan[-1, -2] == pytest.approx((1 + 2 + 3 + 5) / 78)
    outcomes.plot("optimal")


def test_an_outcome_that_was_not_recorded_has_no_strip():
    grid = tether.cases.grid_world()
    cut = [tether.Path(grid.path.states[:n], grid.path.actions[:3]) for n in (4, 3)]
    whole, part = (tether.counterfactual(grid.mdp, one).plan(3, 2).explain().outcomes for one in cut)
    assert len(part.plot().patches) == len(whole.plot().patches) - 1
    assert not whole.plot("observed").patches
    with pytest.raises(tether.QueryError, match="who must be one of"):
        whole.plot("nobody")


def test_as_tables_and_in_a_notebook():
    patient = tether.cases.sepsis()
    plan = tether.counterfactual(patient.mdp, patient.path).plan(8, 2)
    outcomes, shares = plan.explain().outcomes, plan.shares()
    assert "died" in outcomes._repr_html_()
    frame = outcomes.to_pandas()
    at_the_end = frame[(frame.t == 10) & (frame.outcome == "died")].iloc[0]
    assert (at_the_end.observed, at_the_end.plan) == (1.0, pytest.approx(outcomes[0].plan))
    assert frame[frame.outcome.isna()].shape == (11, 5)
    assert shares.to_pandas()["share"].sum() == pytest.approx(plan.gain)
    assert len(shares.plot().patches) == len(shares.steps) == 2
    nothing = tether.counterfactual(patient.mdp, patient.path).plan(1, 0).shares()
    assert nothing.to_arrow().num_rows == 0
    with pytest.raises(tether.QueryError, match="changes nothing"):
        nothing.plot()


def test_where_the_best_for_anyone_was_done_that_is_said():
    # A patient who was treated as is best on average, and died: "died: 100 %" would sound as if the best were to die.
    case = tether.cases.sepsis()
    plan = tether.counterfactual(case.mdp, case.path).plan(k=8, m=1)
    assert (
        best_for_anyone_in_words(plan.explain()) == "The model's usual advice, ignoring this episode, is what was done."
    )
