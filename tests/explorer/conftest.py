"""What the tests of the explorer ask."""

from __future__ import annotations

import pytest
from asking import KEYS

from tether.explorer.app import make_app
from tether.explorer.offered import Cases


@pytest.fixture(scope="module")
def cases():
    return Cases()


@pytest.fixture(scope="module")
def app(cases):
    return make_app(cases, KEYS)
