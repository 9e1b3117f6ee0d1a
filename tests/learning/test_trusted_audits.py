"""Audits of logs whose truth is known: what they claim is there, and where nothing is there they claim nothing.

docs/trusting-a-log.md shows more of these numbers.
"""

import numpy as np
import pytest
from hospital import audited, hospital, learned, log_of, placebo_of

import tether

SIZES = (500, 2000, 8000)
SEEDS = {500: (101, 102, 103, 111, 112, 113), 2000: (101, 102, 103), 8000: (101, 102, 103)}
"""Hospitals; a small log says less, so it takes more of them. 0 to 4 and 100 to 115 were used to choose how folds are
pooled; the table of docs/trusting-a-log.md is of others."""


@pytest.fixture(scope="module")
def real():
    worlds = {seed: hospital(seed, 0.6) for seed in SEEDS[500]}
    return {size: [audited(worlds[seed], log_of(worlds[seed], size, seed)) for seed in SEEDS[size]] for size in SIZES}


@pytest.mark.parametrize("size", SIZES)
def test_what_an_audit_claims_of_its_plans_is_what_they_are_worth(size, real):
    claimed, true = (np.mean([getattr(one, name).mean() for one in real[size]]) for name in ("claimed", "true"))
    assert claimed == pytest.approx(true, rel=0.25)
    assert true > 0.01


def test_small_logs_of_fresh_hospitals_claim_no_more_than_is_true():
    """With the mean of the likely ρ in place of ρ, the claims were 1.27 times as large as the truth."""
    claimed, true = [], []
    for seed in range(140, 152):
        truth = hospital(seed, 0.6)
        one = audited(truth, log_of(truth, 400, seed), 96)
        claimed.append(one.claimed.mean())
        true.append(one.true.mean())
    assert np.mean(claimed) < 1.15 * np.mean(true)
    assert np.mean(claimed) > 0.75 * np.mean(true)


def test_more_data_gains_more_and_is_less_often_wrong(real):
    """A false claim: a gain of more than 0.01 where the plan truly loses."""
    true = [np.mean([one.true.mean() for one in real[size]]) for size in SIZES]
    assert true == sorted(true)
    wrong = [np.mean([np.mean((one.claimed > 0.01) & (one.true < 0)) for one in real[size]]) for size in SIZES]
    assert wrong[-1] <= wrong[0] + 0.01


def test_intervals_of_plans_cover_the_truth_as_often_as_they_say():
    covered = []
    for seed in (121, 122, 123):
        truth = hospital(seed, 0.6)
        one = audited(truth, log_of(truth, 500, seed), 32, draws=20)
        covered += ((one.low <= one.true) & (one.true <= one.high))[np.abs(one.claimed) > 1e-9].tolist()
    assert len(covered) > 40
    assert 0.8 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("size", [100, 500, 2000])
def test_a_placebo_finds_nothing(size):
    found = []
    for seed in range(104, 108):
        truth = hospital(seed, 0.6)
        placebo = placebo_of(log_of(truth, size, seed), seed)
        found.append(audited(truth, placebo, 64).claimed.mean() if learned(placebo).learned.pooling.rho else 0.0)
    assert np.mean(np.array(found) == 0.0) >= 0.5
    assert np.mean(found) < 0.004


def test_an_audit_of_a_small_log_shows_nothing():
    log = log_of(hospital(1, 0.3), 60, 1)
    audit = tether.audit(learned(log), log, certify=False)
    assert audit.placebo.found_gain < 0.02
