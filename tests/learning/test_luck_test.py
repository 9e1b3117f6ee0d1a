"""Whether a log and a learned model agree: against sums by hand, and on logs of one or two known worlds."""

from collections import defaultdict

import numpy as np
import pytest
from hospital import hospital, learned, log_of

import tether
from tether.auditing.consistency import luck_test
from tether.learning.folds import BLOCKS, counted_by_block
from tether.logs.batches import open_log
from tether.observation.episodes import Episodes


def agreement(mdp, log):
    return luck_test(mdp, counted_by_block(mdp, [one for _, one in open_log(log).batches(mdp)], 2, 0))


def together(one, other):
    """Two logs as one; the ids of the second follow those of the first."""
    ids = tether.model.names.make_names(range(len(one) + len(other)), None, "episode")
    start = np.concatenate((one.start, one.start[-1] + other.start[1:]))
    columns = (np.concatenate((getattr(one, name), getattr(other, name)))
               for name in ("state", "action", "next_state", "reward"))  # fmt: skip
    return Episodes(ids, one.states, one.actions, start, *columns)


def by_hand(mdp, mine, others):
    """Luck against the mean of the others, step by step; each pair weighted by the share that the others have of it."""
    usual = tether.practice(mdp)
    leads = defaultdict(lambda: ([], []))
    for which, log in enumerate((mine, others)):
        for s, a, j, r in zip(log.state, log.action, log.next_state, log.reward, strict=True):
            value = 0.0 if log.states[j] in ("died", "well") else usual.value(log.states[j])
            leads[s, a][which].append(r + value)
    luck, variance, differing = 0.0, 0.0, 0.0
    for here, there in leads.values():
        if here and there:
            n, m = len(here), len(there)
            one = m / (n + m) * sum(step - np.mean(there) for step in here)
            spread = n * m / (n + m) * np.var(here + there, ddof=1)
            luck, variance = luck + one, variance + spread
            differing += one**2 / spread if n * m / (n + m) >= 5 and spread > 1e-12 else 0.0
    return luck, variance**0.5, differing


def test_luck_against_sums_by_hand():
    truth = hospital(0, 0.6)
    log, other = log_of(truth, 400, 0), log_of(hospital(0, 0.6), 100, 1)
    mdp = learned(log)
    known = {(s, a, j) for s, a, j in zip(log.state, log.action, log.next_state, strict=True)}
    seen = np.array([key in known for key in zip(other.state, other.action, other.next_state, strict=True)])
    whole = np.logical_and.reduceat(seen, other.start[:-1])  # an episode with an unknown step cannot be asked about
    keep = np.repeat(whole, np.diff(other.start))
    start = np.concatenate(([0], np.cumsum(np.diff(other.start)[whole])))
    ids = tether.model.names.make_names(range(int(whole.sum())), None, "episode")
    columns = (getattr(other, name)[keep] for name in ("state", "action", "next_state", "reward"))
    other = Episodes(ids, other.states, other.actions, start, *columns)
    found = agreement(mdp, other)
    assert found.against == "other"
    assert (found.luck, found.standard_error, found.differing) == pytest.approx(by_hand(mdp, other, log), rel=1e-9)


SEEDS = range(40)


def test_one_world_is_rejected_as_rarely_as_said_and_two_are_told_apart():
    """At 5 %: the log that taught the model, another one of the same world and other habits, and another world's."""
    rejected = defaultdict(list)
    for seed in SEEDS:
        truth = hospital(seed, 0.6)
        log, again = log_of(truth, 400, seed), log_of(truth, 400, 1000 + seed)
        habits = type(truth)(truth.P, np.full_like(truth.usual, 0.25))
        elsewhere = log_of(hospital(500 + seed, 0.6), 400, 2000 + seed)
        mdp, both = learned(log), learned(together(log, elsewhere))
        for name, model, asked in (
            ("halves", mdp, log), ("same", mdp, again), ("habits", mdp, log_of(habits, 400, 3000 + seed)),
            ("other", mdp, elsewhere), ("rest", both, log),
        ):  # fmt: skip
            found = agreement(model, asked)
            assert found.against == (name if name in ("halves", "rest") else "other")
            rejected[name].append(not found.holds)
    shares = {name: np.mean(one) for name, one in rejected.items()}
    assert max(shares[name] for name in ("halves", "same", "habits")) <= 0.1
    assert min(shares[name] for name in ("other", "rest")) >= 0.7


def test_what_an_audit_says():
    truth = hospital(0, 0.6)
    mdp = learned(log_of(truth, 400, 0))
    same, other = log_of(truth, 60, 2), log_of(hospital(500, 1.0), 400, 1)
    for log, holds in ((same, True), (other, False)):
        audit = tether.audit(mdp, log, policy="random", certify=False)
        assert audit.consistency.holds is holds
        assert str(audit.consistency) in audit.sentences()
        assert ("may mislead" in str(audit.consistency)) is not holds


def test_nothing_to_compare():
    mdp = tether.learn([tether.Path(["a", "b"], ["go"])] * 3)
    own = np.zeros((2 * BLOCKS, mdp.form.next_state.size), dtype=np.int64)
    assert luck_test(mdp, own) is None  # nothing is earned
