"""How sure an answer is: what can be asked, and how it is told."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from learned import clinic, clinic_plan

import tether
from tether.learning.posterior import posterior
from tether.learning.uncertainty import ChangedAction, PlanUncertainty, SweepUncertainty
from tether.model.counts import Counts

# --- Asking --------------------------------------------------------------------------------------------


def test_progress_is_reported_and_can_interrupt():
    mdp, reported = clinic(), []
    posterior(mdp, 300, rng=0).of(clinic_plan(mdp), progress=lambda done, of: reported.append((done, of)))
    assert reported == [(128, 300), (256, 300), (300, 300)]  # block by block

    def stop(done, _):
        if done == 256:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posterior(mdp, 1000, rng=0).of(clinic_plan(mdp).cf.sweep(), progress=stop)


def test_another_objective_of_the_same_model_may_be_asked_about():
    mdp = clinic()
    doubled = clinic_plan(mdp.with_objective(final_reward={"well": 2.0}))
    draws = posterior(mdp, 5, rng=0)
    np.testing.assert_allclose(draws.of(doubled).values, 2 * draws.of(clinic_plan(mdp)).values, rtol=1e-12)


def test_questions_without_an_answer():
    mdp = clinic()
    with pytest.raises(tether.QueryError, match="this model was not learned from episodes"):
        posterior(tether.cases.toy().mdp)
    with pytest.raises(tether.QueryError, match=r"expected a tether.MDP, not str: tether.posterior\(tether.learn"):
        posterior("model")
    with pytest.raises(tether.QueryError, match="draws must be a whole number ≥ 1, not 0"):
        posterior(mdp, 0)
    with pytest.raises(tether.QueryError, match="draws must be at most 100,000, not 1,000,000,000"):
        posterior(mdp, 10**9)
    with pytest.raises(tether.QueryError, match="rng must be a seed or a numpy Generator, not 'x'"):
        posterior(mdp, rng="x")
    with pytest.raises(tether.QueryError, match="there are 2 draws, 0 … 1; not 2"):
        posterior(mdp, 2).draw(2)
    with pytest.raises(tether.QueryError, match="expected a plan or a sweep, not Evaluation"):
        posterior(mdp, 2).of(clinic_plan(mdp).evaluate())
    with pytest.raises(tether.QueryError, match="made with another model"):
        posterior(mdp, 2).of(clinic_plan(clinic(prior=2.0)))


def test_counts_that_do_not_fit():
    mdp = clinic()
    with pytest.raises(tether.QueryError, match="the model has 8 transitions, but counts for 1"):
        posterior(replace(mdp, counts=Counts(np.array([1]), 1.0)))
    with pytest.raises(tether.QueryError, match="never seen, and its prior is 0"):
        posterior(replace(mdp, counts=Counts(np.zeros(8, dtype=np.int64), 0.0)))


@pytest.mark.parametrize("level", [0, 1, 1.5, "0.9", None, True, float("nan")])
def test_levels(level):
    mdp = clinic()
    sure = posterior(mdp, 2, rng=0).of(clinic_plan(mdp))
    with pytest.raises(tether.QueryError, match="level must be a number between 0 and 1"):
        sure.interval(level)


def test_cells_that_were_not_asked_for():
    mdp = clinic()
    sure = posterior(mdp, 2, rng=0).of(clinic_plan(mdp).cf.sweep(ks=[1]))
    with pytest.raises(tether.QueryError, match="k = 2, m = 0 was not asked for"):
        sure.at(2, 0)
    with pytest.raises(tether.QueryError, match="q must be a number from 0 to 1, not 2"):
        sure.quantile(2)


# --- In words --------------------------------------------------------------------------------------------


def a_plan(**changed):
    plain = {
        "k": 2, "m": 1, "value": 10.0, "observed_value": 4.0, "values": np.arange(1001.0) / 100,
        "observed": np.full(1001, 4.0), "best": np.full(1001, 12.0), "off_plan": np.zeros(1001),
        "changes": (ChangedAction(3, "s", "<wait>", "treat", 0.997, 1.0), ChangedAction(4, "s", "a", "b", 0.5, 0.8)),
    }  # fmt: skip
    return PlanUncertainty(**plain | changed)


def test_a_plan_in_sentences():
    assert str(a_plan()).splitlines() == [
        "The plan is worth 10; in 90 % of 1,001 models that the log leaves possible, 0.5 to 9.5.",
        "It is worth more than what was done (4) in 60 % of them.",
        "At step 3 'treat' instead of '<wait>': the best plan of each model does the same there in over 99 % of them.",
        "At step 4 'b' instead of 'a': the best plan of each model does the same there in 50 % of them.",
    ]
    assert repr(a_plan()) == (
        "<PlanUncertainty: k = 2, m = 1, value 0.5 … 9.5 (90 %), better than observed with probability 0.599, "
        "1,001 draws>"
    )
    assert "&lt;wait&gt;" in a_plan()._repr_html_()
    assert a_plan().sentences(str.upper)[2].startswith("At step 3 TREAT instead of <WAIT>")


def test_a_plan_that_gets_lost_says_so():
    sentences = str(a_plan(off_plan=np.full(1001, 0.25), changes=()))
    assert sentences.splitlines()[-1] == (
        "With probability 0.25 it comes to a state about which the plan says nothing; there it does what was done, "
        "where it can."
    )
    assert "in 0 % of them" in str(a_plan(observed=np.full(1001, 99.0)))
    assert "(5,000) in under 1 %" in str(a_plan(values=np.r_[np.zeros(1000), 9000.0], observed=np.full(1001, 5000.0)))


def test_a_sweep_in_tables():
    values = np.zeros((3, 2, 2))
    values[:, 1, 1] = [1.0, 2.0, 3.0]
    sure = SweepUncertainty(np.array([1, 2]), np.array([0, 3]), values, values, np.array([0.0, 0.0, 5.0]))
    assert repr(sure) == "<SweepUncertainty: k = 1 … 2, m = 0 … 3, 3 draws>"
    first, low, high = str(sure).split("\n\n")
    assert first.splitlines() == [
        "Probability of being worth more than what was done",
        " k \\ m        0        3",
        "     1     0.00     0.00",
        "     2     0.00     0.67",
    ]
    assert low.splitlines()[-1] == "     2     0.00     1.10"
    assert high.splitlines()[-1] == "     2     0.00     2.90"
    assert "<td>1.1 … 2.9, 67 %</td>" in sure._repr_html_()


def test_results_can_be_kept():
    mdp = clinic()
    draws = posterior(mdp, 3, rng=0)
    for asked in (clinic_plan(mdp), clinic_plan(mdp).cf.sweep()):
        sure = draws.of(asked)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(sure)).values, sure.values)
        with pytest.raises(ValueError, match="read-only"):
            sure.values[0] = 0.0


def test_what_is_left_out_draws_the_same_models_everywhere():
    plan = clinic_plan(clinic())
    told = plan.explain().uncertainty
    assert told.draws == 100
    for found in (plan.uncertainty(), posterior(plan.cf.mdp).of(plan)):
        assert np.array_equal(found.values, told.values)
