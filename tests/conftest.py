"""Hypothesis profiles, and the cases that many tests ask for.

``default`` draws the same examples in every run; ``interpreted`` fewer of them, for kernels with the JIT off;
``quick`` a handful, to work with; ``random`` many, and others each time (``make test-random``).
"""

import os

import pytest
from hypothesis import HealthCheck, settings

import tether

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "random",
    settings.get_profile("default"),
    derandomize=False,
    max_examples=500,
    print_blob=True,
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=8)
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
