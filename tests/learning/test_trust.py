"""Models learned from logs whose truth is known: they claim what is there, and nothing where there is nothing.

Each number is a mean over hospitals at random (tests/hospital.py), all seeded. docs/trusting-a-log.md shows more.
"""

import numpy as np
import pytest
from hospital import hospital, learned, log_of, mean_claims, placebo_of, promises, values_covered

import tether

SIZES = (500, 2000, 8000)
SEEDS = range(16)


@pytest.fixture(scope="module")
def real():
    return {size: mean_claims(size, SEEDS)[0] for size in SIZES}


@pytest.fixture(scope="module")
def placebo():
    return {size: mean_claims(size, SEEDS, placebo=True) for size in SIZES}


@pytest.mark.parametrize("size", SIZES)
def test_a_placebo_shows_no_effect_in_most_logs_and_next_to_none_in_the_others(size, real, placebo):
    claims, rho = placebo[size]
    assert np.mean(rho == 0) >= 0.9  # a test at 1 %; half is what is asked for
    assert claims.claimed <= 0.25 * real[size].claimed


def test_a_placebo_of_few_patients_shows_nothing_either():
    claims, rho = mean_claims(100, SEEDS, placebo=True)
    assert np.mean(rho == 0) >= 0.85
    assert claims.claimed < 0.001


@pytest.mark.parametrize("size", SIZES)
def test_what_is_claimed_is_what_is_there(size, real):
    assert real[size].claimed == pytest.approx(real[size].true, rel=0.25)


def test_more_data_shows_more_of_what_is_there_and_no_larger_share_of_claims_is_false(real):
    """False is a claim that an action is better with a probability of 95 % that is not better at all.

    What must not grow is the share of claims that are false, and what is claimed beside the truth. The plain number of
    false claims is another matter: 500 patients show so little that none is false; 2,000 show ten times as much.
    """
    shown = [real[size].true / real[size].possible for size in SIZES]
    assert shown == sorted(shown)
    assert shown[-1] > 0.9
    assert all(real[size].sure > 0.04 for size in SIZES)  # at each size there is something that could be false
    wrong = {size: real[size].false / real[size].sure for size in SIZES}
    assert all(share <= 0.01 for share in wrong.values())  # 0, 0.6 %, 0.3 %: as good as none, five times less than said
    assert wrong[8000] <= wrong[2000]
    beside = [abs(real[size].claimed - real[size].true) / real[size].possible for size in SIZES]
    assert beside == sorted(beside, reverse=True)


@pytest.mark.parametrize("size", [100, *SIZES])
def test_intervals_of_advantages_cover_the_truth_as_often_as_they_say(size, real):
    covered = real[size].covered if size in real else mean_claims(size, SEEDS)[0].covered
    assert 0.8 <= covered <= 0.99


@pytest.mark.parametrize("size", [500, 2000])
def test_intervals_of_values_cover_the_truth_as_often_as_they_say(size):
    covered = []
    for seed in range(10):
        truth = hospital(seed, 0.6)
        covered.append(values_covered(learned(log_of(truth, size, seed)), truth, 60, seed))
    assert 0.8 <= np.mean(covered) <= 0.99


def test_rows_learned_apart_claim_as_much_of_a_placebo_as_of_the_real_log():
    """What pooling is for: with a flat prior the best actions promise as much where nothing has an effect."""

    def promised(log):
        mdp = learned(log, prior=1)
        return mdp.solve(10).value(mdp.states[9]) - tether.practice(mdp).value(mdp.states[9])

    truth = hospital(3, 0.3)
    log = log_of(truth, 500, 3)
    assert promised(placebo_of(log, 3)) > 0.5 * promised(log) > 0.05


def test_guarantees_hold_as_often_as_they_say():
    """At 95 %, in the worst causal model of the truth; the same with the learned rows taken as right does not."""
    sure = promises(range(40), 0.95)
    some = sure.promised > 1e-9  # 0 is promised to anyone
    assert some.sum() >= 25
    assert sure.held[some].mean() >= 0.93
    assert promises(range(12), None).held.mean() < 0.8
