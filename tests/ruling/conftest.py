"""The ward of docs/learning-from-logs.md, its habit, and every episode that it can have."""

import numpy as np
import pytest
from wards import HABIT, until_the_end

import tether


@pytest.fixture(scope="session")
def ward():
    return tether.MDP.from_table(
        state=["sick", "sick", "sick", "sick", "worse", "worse", "worse", "worse"],
        action=["wait", "wait", "treat", "treat", "wait", "wait", "treat", "treat"],
        next_state=["sick", "worse", "well", "worse", "worse", "dead", "sick", "dead"],
        probability=[0.6, 0.4, 0.6, 0.4, 0.5, 0.5, 0.7, 0.3],
        reward=[-1, -1, -3, -3, -1, -21, -3, -23],
        terminal=["well", "dead"],
    )


@pytest.fixture(scope="session")
def habit():
    return HABIT


@pytest.fixture(scope="session")
def ward_log(ward):
    rng = np.random.default_rng(1)
    return [until_the_end(ward.simulate(HABIT, 5, start="sick", rng=rng)) for _ in range(600)]
