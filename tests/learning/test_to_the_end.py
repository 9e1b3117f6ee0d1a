"""What is said of one episode of a learned log agrees: the headline, the ends, the replays, the review and the audit.

An episode that died early would have gone on; every number of its answer is of how it ends, not of its last step.
"""

import numpy as np
import pytest
from hospital import STATES, hospital, learned, log_of, placebo_of

import tether


@pytest.fixture(scope="module")
def log():
    return log_of(hospital(2, 1.0), 1000, 2)


@pytest.fixture(scope="module")
def mdp(log):
    return learned(log)


@pytest.fixture(scope="module")
def explained(log, mdp):
    """Some who died early, and whose plans lead on after their last step."""
    found = []
    for i in range(200):
        path = log[i]
        if path.states[-1] == "died" and path.T <= 4:
            plan = tether.counterfactual(mdp, path).plan(m=1)
            explanation = plan.explain(certificate=False, draws=0)
            if plan.gain > 1e-6 and explanation.outcomes.plan[-1, -1] > 0.1:
                found.append((i, path, explanation))
        if len(found) == 3:
            return found
    return found


def test_the_ends_add_up_and_are_those_of_usual_practice(explained, mdp):
    usual = tether.practice(mdp)
    assert len(explained) == 3
    for _, path, explanation in explained:
        ends = {one.name: one for one in explanation.outcomes.every_end}
        for who in ("observed", "plan", "optimal"):
            assert sum(getattr(one, who) for one in ends.values()) == pytest.approx(1.0, abs=1e-9)
        states, chance = explanation.outlook.distribution(path.T)
        well = sum(
            p * (usual.value(s) if s in STATES[:-2] else s == "well") for s, p in zip(states, chance, strict=True)
        )
        assert ends["well"].plan == pytest.approx(well, abs=1e-9)
        assert explanation.plan.value == pytest.approx(well, abs=1e-9)


def test_the_headline_and_the_replays_say_how_they_end(explained):
    for _, _, explanation in explained:
        ends = {one.name: one.plan for one in explanation.outcomes.end}
        first = explanation.verdicts(str)
        assert f"{100 * ends['died']:.0f} of 100 replays still end in death" in first.hindsight
        assert explanation.risk.better == pytest.approx(ends["well"], abs=1e-6)
        assert explanation.risk.worse == 0
        assert any(one.startswith("Died in the end: ") for one in explanation.sentences(str))


def test_a_review_of_one_episode_is_that_of_the_audit(explained, log, mdp):
    audit = tether.audit(mdp, log, folds=0, certify=False, where=f"episode <= {max(i for i, *_ in explained)}")
    rows = {row["episode"]: row for row in audit.table.to_pylist()}
    for i, path, explanation in explained:
        for review in (explanation.review, tether.review(mdp, path)):
            assert review.horizon == mdp.counts.longest
            assert (review.expected, review.mistakes) == pytest.approx((rows[i]["expected"], rows[i]["mistakes"]))
            assert review.claimed == pytest.approx(rows[i]["claimed"])


def test_a_change_that_helps_later_is_foreseen(explained):
    """The fair plan knows that the living go on after the record: judged at the last step it would change nothing."""
    shares = [explanation.hindsight.foresight / explanation.plan.gain for _, _, explanation in explained]
    assert max(shares) > 0.5


def test_where_no_effect_is_shown_no_decision_is_called_good():
    truth = hospital(5, 0.6)
    placebo = placebo_of(log_of(truth, 300, 5), 5)
    mdp = learned(placebo)
    assert mdp.learned.pooling.rho == 0
    path = next(placebo[i] for i in range(300) if placebo[i].states[-1] == "died")
    explanation = tether.counterfactual(mdp, path).plan(m=1).explain(certificate=False, draws=0)
    said = explanation.verdicts(str)
    assert said.foreseen == "Knowing what could be known then: the log does not show it."
    assert said.luck.word == "Not shown."
    assert not any("best at the time" in one for one in explanation.sentences(str))
    assert np.isclose(explanation.plan.gain, 0.0)
