"""How long a tether is long enough: against the definition, over any table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, in_package, rules_and_criteria, worlds

import tether
from tether.plan.limits import enough_k


@FEWER
@given(worlds(), rules_and_criteria(), st.data())
def test_the_shortest_that_is_enough(world, chosen, data):
    rule, criterion = chosen
    table = world.cf.sweep(rule=rule, influence=in_package(criterion))
    m, share = data.draw(st.integers(0, world.T)), data.draw(st.sampled_from([0.25, 0.5, 0.9, 1.0]))
    k = enough_k(table, m, share)
    gains = {one: table.value(one, m) - table.observed_value for one in range(1, world.T + 1)}
    small = 1e-9 * max(1.0, abs(table.observed_value))
    if k is None:
        assert max(gains.values()) <= small
        return
    assert gains[k] >= share * max(gains.values()) - small
    assert all(gains[one] < share * max(gains.values()) for one in range(1, k))


def test_the_epidemic(epidemic):
    # The column m = 1 of the sweep: 0, 0, 0.9, 2.8, 4.1, 8.4, 10.2 gained for k = 1 … 7.
    table = epidemic.sweep()
    assert [enough_k(table, 1, share) for share in (0.05, 0.25, 0.4, 0.8, 1.0)] == [3, 4, 5, 6, 7]


def test_more_than_can_change_is_all(epidemic):
    table = epidemic.sweep()
    assert enough_k(table, 99) == enough_k(table, 7)


@pytest.mark.parametrize("share", [0, -1, 1.5, np.nan, "a", True])
def test_shares_that_are_none(epidemic, share):
    with pytest.raises(tether.QueryError, match="share must be a number above 0 and at most 1"):
        enough_k(epidemic.sweep(ks=[1, 8], ms=[1]), 1, share)


def test_what_was_not_asked_for(epidemic):
    with pytest.raises(tether.QueryError, match="m = 2 was not asked for in this sweep"):
        enough_k(epidemic.sweep(ms=[1]), 2)
