"""What the tests of figures and pages draw and write: made once per file."""

import numpy as np
import pytest
from pages import PLANS, read, undrawn, written_once

import tether


@pytest.fixture(scope="module")
def epidemic_table(epidemic):
    return epidemic.sweep()


@pytest.fixture(scope="module")
def walk():
    """A walk over 20 places for 20 steps: too long for bars and numbers."""
    rng = np.random.default_rng(1)
    probability = np.zeros((20, 3, 20))
    for s in range(20):
        for a in range(3):
            np.add.at(probability[s, a], np.clip(s + a - 1 + np.array([-1, 0, 1]), 0, 19), [0.2, 0.5, 0.3])
    mdp = tether.MDP.from_arrays(probability, rng.normal(size=(20, 3)))
    states = [10]
    for _ in range(20):
        states.append(int(rng.choice(20, p=probability[states[-1], 0])))
    return tether.counterfactual(mdp, tether.Path(states, [0] * 20))


@pytest.fixture(scope="module")
def infected(epidemic):
    return {f"k = {k}, m = {m}": epidemic.plan(k, m).evaluate().feature("I") for k, m in ((3, 1), (7, 4))}


@pytest.fixture(scope="module")
def outbreak(tmp_path_factory):
    return PLANS["epidemic"](), read(written_once("epidemic", tmp_path_factory))


@pytest.fixture
def only_words():
    """For tests of what a page says: its drawings are left out."""
    with undrawn():
        yield
