"""What was seen too rarely is not advised, in plans and audits; what was observed stays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether


def ward(seed, episodes=40, T=4):
    """Episodes of a small random ward in which some treatments are rare."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), size=(4, 3))
    paths = []
    for _ in range(episodes):
        s, states, actions, rewards = 0, [0], [], []
        for _ in range(T):
            a = int(rng.choice(3, p=[0.7, 0.25, 0.05]))
            s = int(rng.choice(4, p=P[s, a]))
            states.append(s)
            actions.append(a)
            rewards.append(float(s))
        paths.append(tether.Path(states, actions, rewards))
    return paths


@given(st.integers(0, 500), st.integers(2, 12), st.integers(1, 5), st.integers(1, 3))
def test_no_plan_changes_to_what_was_seen_too_rarely(seed, minimum, k, m):
    log = ward(seed)
    mdp = tether.learn(log, prior=1.0, minimum=minimum)
    allowed = mdp.learned.advisable
    plan = tether.counterfactual(mdp, log[0]).plan(k, m)
    for t, taken in enumerate(plan.chain.taken):
        observed = mdp.form.pair_action[taken.pairs] == plan.cf.observation.actions[t]
        assert np.all(allowed[taken.pairs] | observed)
    free = tether.counterfactual(tether.learn(log, prior=1.0), log[0]).plan(k, m)
    assert plan.observed_value - 1e-9 <= plan.value <= free.value + 1e-9


def test_the_best_plan_is_the_best_of_those_that_may_be_advised():
    """By enumeration: one change at one step, then the observed actions."""
    log = ward(3)
    mdp = tether.learn(log, prior=1.0, minimum=9)
    cf = tether.counterfactual(mdp, log[1])
    T = cf.T
    best = cf.plan(T + 1, 0).value
    for t in range(T):
        s = log[1].states[t]
        for a in mdp.actions_in(s):
            if mdp.learned.advisable[mdp.pair_index(s, a)]:
                best = max(best, cf.what_if({t: a}).value)
    assert cf.plan(T + 1, 1).value == pytest.approx(best, rel=1e-12)
    assert cf.plan(T + 1, 1).value < tether.counterfactual(tether.learn(log, prior=1.0), log[1]).plan(T + 1, 1).value


def test_an_audit_keeps_to_it_too():
    log = ward(5)
    mdp = tether.learn(log, prior=1.0, minimum=9)
    table = tether.audit(mdp, log[:6], k=5, m=2, certify=False, folds=0).table.to_pylist()
    for row, path in zip(table, log, strict=False):
        assert row["value"] == pytest.approx(tether.counterfactual(mdp, path).plan(5, 2).value, rel=1e-12)
