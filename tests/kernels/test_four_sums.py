"""Four sums at a time are the same, bit for bit, as one after the other."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether._kernels import four_sums

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)

pytestmark = pytest.mark.compiled


@numba.njit
def _compiled(next_state, probability, start, stop, values, base, step):
    return four_sums.four_sums(next_state, probability, start, stop, values, base, step)


@given(st.data())
def test_four_sums_are_those_of_the_row_one_by_one(data):
    n_states, step = data.draw(st.integers(1, 6)), data.draw(st.integers(4, 9))
    values = np.array(data.draw(st.lists(NUMBERS, min_size=n_states * step + 3, max_size=n_states * step + 3)))
    next_state = np.array(data.draw(st.lists(st.integers(0, n_states - 1), max_size=9)), np.int32)
    probability = np.array(data.draw(st.lists(NUMBERS, min_size=next_state.size, max_size=next_state.size)), float)
    start = data.draw(st.integers(0, next_state.size))
    stop = data.draw(st.integers(start, next_state.size))
    places = [np.uint64(start), np.uint64(stop)], [np.uint64(data.draw(st.integers(0, step - 1))), np.uint64(step)]
    with np.errstate(all="ignore"):
        expected = four_sums._one_by_one(next_state, probability, *places[0], values, *places[1])
    found = _compiled(next_state, probability, *places[0], values, *places[1])
    assert np.array_equal(np.array(found), np.array(expected), equal_nan=True)
    zeros = np.array(expected) == 0
    assert np.array_equal(np.signbit(np.array(found)[zeros]), np.signbit(np.array(expected)[zeros]))


def test_a_row_without_outcomes_sums_to_nothing():
    none = np.uint64(0)
    found = _compiled(np.empty(0, np.int32), np.empty(0), none, none, np.ones(4), none, np.uint64(4))
    assert found == (0.0, 0.0, 0.0, 0.0)
