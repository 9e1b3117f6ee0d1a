"""The answer in its four parts, and what is said of learned models."""

import numpy as np
import pytest
from scipy.stats import beta

import tether
from tether.explanation.answer_data import explanation_data
from tether.explanation.evidence import default_draws
from tether.learning.follower import Follower, expected_return
from tether.views.report.report_sections import cannot_know


def clinic(treated=8, prior=1.0):
    """Patients who were treated, some of whom died, and some who were not."""
    seen = [("treat", "well")] * treated + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
    mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=prior)
    return mdp.with_objective(final_reward={"well": 1.0})


def advised(mdp):
    return tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(2, 1)


def test_the_four_parts_are_the_sentences():
    explanation = advised(clinic()).explain(draws=20)
    answer = explanation.answer(str)
    assert answer.change == (
        "Change 1 action: at step 0 (sick) treat instead of wait.",
        "The log does not show that any of the gain could be foreseen.",
    )
    assert answer.follows[0] == "Dead by step 1: 25 % instead of certain; well: 75 % instead of 0 %."
    assert answer.sure[-6:] == (
        "The model is learned, from 13 episodes: at step 0, treat was seen 10 times in that state.",
        answer.sure[-5],
        "In that state 2 of 10 times treat led to dead, 3 of 3 times wait; 2 of 10 is compatible with 51 %.",
        answer.sure[-3],
        f"There is a gain in 100 % of {explanation.draws} models that the log leaves possible.",
        answer.sure[-1],
    )
    assert answer.sure[-3].startswith("Where it was not chosen, in the other half of the log, such a plan is worth ")
    assert answer.sure[-1].startswith("In 90 % of them: the return ")
    assert answer.warning == ()
    sentences = [*answer.mistake, *answer.change, *answer.follows, *answer.episode, *answer.sure]
    assert explanation.sentences(str) == sentences
    data = explanation_data(explanation)
    assert data["sentences"][: len(sentences)] == sentences
    parts = ("mistake", "warning", "change", "follows", "episode", "sure")
    assert data["answer"] == {part: list(getattr(answer, part)) for part in parts}


def test_what_was_seen_is_counted_in_the_log():
    mdp = clinic()
    (one,) = advised(mdp).explain(draws=0).evidence
    assert (one.state, one.action, one.times, one.observed, one.observed_times) == ("sick", "treat", 10, "wait", 3)
    assert one.outcomes == 2
    usual = tether.practice(mdp).advantages[0]
    assert (usual.action, one.advantage, one.better) == ("treat", usual.advantage, usual.better)
    assert (one.low, one.high) == usual.interval(0.9)
    assert (one.end, one.ended, one.observed_ended) == ("dead", 2, 3)
    assert one.at_most == pytest.approx(beta.ppf(0.95, 3, 8))  # exact: two or fewer of ten in 5 % of all logs
    assert tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(2, 0).explain().evidence == ()
    grid = tether.cases.grid_world()
    assert tether.counterfactual(grid.mdp, grid.path).plan(6, 1).explain().evidence == ()


def test_none_of_a_few_is_not_never():
    """25 of 25 survived: compatible with a risk of 11 %."""
    seen = [("treat", "well")] * 25 + [("wait", "well")] * 10 + [("wait", "dead")] * 15
    mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen])
    explanation = advised(mdp.with_objective(final_reward={"well": 1.0})).explain(draws=0)
    (one,) = explanation.evidence
    assert one.at_most == pytest.approx(1 - 0.05 ** (1 / 25))
    said = "In that state 0 of 25 times treat led to dead, 15 of 25 times wait; 0 of 25 is compatible with 11 %."
    assert said in explanation.sentences(str)


def test_where_no_effect_can_be_shown_that_is_said():
    seen = [(did, after) for did in ("treat", "wait") for after in ("well", "dead") for _ in range(4)]
    mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen])
    sentences = advised(mdp.with_objective(final_reward={"well": 1.0})).explain(draws=0).sentences(str)
    assert (
        "No effect of any action can be shown: 2 pairs of state and action differ no more than by chance." in sentences
    )


def test_few_sightings_are_called_few():
    (sentence,) = [one for one in advised(clinic(treated=3)).explain(draws=0).sentences(str) if "is learned" in one]
    assert "treat was seen only 5 times in that state; that is few: what it leads to is hardly known." in sentence
    paths = [tether.Path(["sick", "well"], ["treat"]), tether.Path(["sick", "dead"], ["wait"])]
    mdp = tether.learn(paths, prior=0).with_objective(final_reward={"well": 1.0})
    (sentence,) = [one for one in advised(mdp).explain(draws=0).sentences(str) if "is learned" in one]
    assert "seen only once in that state; it always led to the same state: the log cannot say" in sentence


def test_draws_are_taken_of_learned_models_only():
    plan, toy = advised(clinic()), tether.cases.toy()
    given = tether.counterfactual(toy.mdp, toy.path).plan(2, 1)
    assert (default_draws(plan, None), default_draws(plan, 0), default_draws(plan, 7)) == (100, 0, 7)
    assert default_draws(given, None) == default_draws(given, 0) == 0
    with pytest.raises(tether.QueryError, match="not learned from episodes"):
        given.explain(draws=5)
    with pytest.raises(tether.QueryError, match="one draw does not show"):
        plan.explain(draws=1)
    assert plan.explain(draws=0).uncertainty is None
    assert explanation_data(plan.explain(draws=0))["uncertainty"] is None


def test_outcomes_of_the_drawn_models_are_those_of_the_plan_followed_in_each():
    plan = advised(clinic())
    draws = tether.posterior(plan.cf.mdp, 8, rng=3)
    sure = draws.of(plan)
    conditioned = [tether.counterfactual(model, plan.cf.path).row(0, "sick", "treat") for model in draws.models()]
    expected = [dict(zip(*row, strict=True)).get("dead", 0.0) for row in conditioned]
    np.testing.assert_allclose(sure.outcomes["dead"], expected, atol=1e-12)
    np.testing.assert_allclose(sure.outcomes["dead"] + sure.outcomes["well"], 1.0, atol=1e-12)
    assert sure.outcome_interval("dead") == tuple(np.quantile(sure.outcomes["dead"], [0.05, 0.95]))
    with pytest.raises(tether.QueryError, match="there is no outcome 'gone'; there are '"):
        sure.outcome_interval("gone")


def test_how_sure_a_property_is():
    """That well is reached is a return of 1 for ending there; the smallest chance to die is the same plan."""
    mdp = clinic()
    path = tether.Path(["sick", "dead"], ["wait"])
    cf = tether.counterfactual(mdp, path)
    draws = tether.posterior(mdp, 20, rng=2)
    returns = draws.of(cf.plan(2, 1))
    reached = draws.of(cf.plan(2, 1, objective=tether.reach("well")))
    died = draws.of(cf.plan(2, 1, objective=tether.reach("dead"), minimise=True))
    for name in ("values", "observed", "best", "off_plan"):
        np.testing.assert_allclose(getattr(reached, name), getattr(returns, name), atol=1e-12)
    np.testing.assert_allclose(died.values, 1.0 - returns.values, atol=1e-12)
    assert died.probability_better == reached.probability_better == returns.probability_better == 1.0
    table = draws.of(cf.sweep(objective=tether.reach("dead"), minimise=True))
    np.testing.assert_allclose(table.at(2, 1), died.values, atol=1e-12)
    assert table.probability_better[-1, 1] == 1.0
    sentences = cf.plan(2, 1, objective=tether.reach("well")).explain(draws=20).sentences(str)
    assert sentences[-1].startswith("In 90 % of them: the chance that well is reached ")


def test_a_long_property_is_followed_as_it_is_planned():
    """In the learned model itself the plan, followed by the code for drawn models, is worth what it is worth."""
    grid = tether.cases.grid_world()
    paths = [grid.mdp.simulate("random", 11, rng=seed) for seed in range(40)]
    mdp = tether.learn([*paths, grid.path], prior=1).with_labels({"danger": [6]})
    plan = tether.counterfactual(mdp, grid.path).plan(8, 2, objective=tether.avoid("danger"))
    chain, lost = Follower([plan], [plan.m]).walk(plan.asked)
    assert expected_return(plan.asked, chain, lost)[0] == pytest.approx(plan.value, abs=1e-12)
    assert not any(off.any() for off in lost)


def test_what_cannot_be_known_is_said_of_every_model():
    caveats = dict(cannot_know(clinic()))
    assert "learned from 13 episodes" in caveats["What the model leaves out"]
    assert "taken as given" in dict(cannot_know(tether.cases.epidemic().mdp))["What the model leaves out"]
    assert list(caveats) == ["Hindsight", "Hidden causes", "What the model leaves out"]


def test_an_outcome_is_called_by_its_name_where_its_states_are_likeliest_together():
    """Four ways to die of 20 % each, one to live of 20 %: died is likeliest, though no single state of it is."""
    ends = ["d1", "d2", "d3", "d4", "alive"]
    mdp = tether.MDP.from_table(
        ["s"] * 6, ["a", *["b"] * 5], ["d1", *ends], [1.0, *[0.2] * 5], [0, *[1] * 5], terminal=ends
    )
    mdp = mdp.with_labels({"died": ends[:4]})
    last = tether.counterfactual(mdp, tether.Path(["s", "d1"], ["a"])).plan(2, 1).explain().steps[-1]
    assert (last.outcome, last.outcome_probability, last.state_probability) == ("died", pytest.approx(0.8), 0.2)
