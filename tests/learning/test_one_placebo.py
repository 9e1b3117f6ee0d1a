"""One log, with a real effect and with its actions permuted within each state: what every answer says of it."""

import numpy as np
import pytest

import tether

STATES = ("s0", "s1", "s2")
RIGHT = tether.rule("s0", instead_of="b", do="a")


def log_of(seed, n=160):
    """In s0 the action a mostly ends well, b mostly does not; elsewhere nothing that is done has an effect."""
    rng, log = np.random.default_rng(seed), []
    for _ in range(n):
        states, actions = [STATES[rng.integers(3)]], []
        while states[-1] in STATES and len(actions) < 4:
            actions.append("ab"[rng.integers(2)])
            well = 0.5 if states[-1] != "s0" else 0.9 if actions[-1] == "a" else 0.1
            states.append(STATES[rng.integers(3)] if rng.random() < 0.5 else "well" if rng.random() < well else "dead")
        log.append(tether.Path(states, actions))
    return log


def permuted(log, seed):
    """The same log with the actions permuted within each state: no action has an effect, nothing else changes."""
    rng = np.random.default_rng(seed)
    steps = [step for path in log for step in zip(path.states, path.actions, strict=False)]
    done = {state: rng.permutation([did for here, did in steps if here == state]).tolist() for state in STATES}
    return [tether.Path(path.states, [done[state].pop() for state in path.states[:-1]]) for path in log]


def asked(log):
    """What the review of each episode, the audit and the search for rules say."""
    mdp = tether.learn(log).with_objective(final_reward={"well": 1.0})
    reviews = [tether.review(mdp, path) for path in log[:20]]
    return reviews, tether.audit(mdp, log, k=3, certify=False), tether.rules(mdp, log)


@pytest.mark.parametrize("seed", [1, 2])
def test_where_nothing_is_there_nothing_is_claimed(seed):
    reviews, audit, rules = asked(permuted(log_of(seed), seed))
    assert not any(one.claimed for one in reviews)
    assert not audit.summary.mistaken.size
    assert audit.placebo.shows_nothing
    assert "no more than chance" in audit.sentences()[0]
    assert not rules.chosen


def test_where_an_effect_is_there_all_find_it():
    log = log_of(1)
    reviews, audit, rules = asked(log)
    wrong = [path for path in log if ("s0", "b") in zip(path.states, path.actions, strict=False)]
    for path, one in zip(log, reviews, strict=False):
        assert (one.claimed > 0) == (path in wrong)
    assert audit.summary.mistaken.size == len(wrong)
    assert not audit.placebo.shows_nothing
    assert [str(one.rule) for one in rules.chosen] == [str(RIGHT)]
    assert rules.placebo == 0
