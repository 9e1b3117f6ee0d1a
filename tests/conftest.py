"""Hypothesis profiles (every run draws the same examples; fewer with the JIT off, where a kernel is slow) and cases."""

import os

import pytest
from hypothesis import HealthCheck, settings

import tether

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("interpreted", settings.get_profile("default"), max_examples=15)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="module")
def grid():
    case = tether.cases.grid_world()
    return tether.counterfactual(case.mdp, case.path)


@pytest.fixture(scope="module")
def epidemic():
    case = tether.cases.epidemic()
    return tether.counterfactual(case.mdp, case.path)
