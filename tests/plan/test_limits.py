"""What lies beyond a plan's limits: against the whole table of values."""

import numpy as np
import pytest

import tether
from tether.plan.limits import number


@pytest.mark.parametrize(("k", "m"), [(1, 0), (3, 1), (4, 1), (6, 2), (6, 7), (7, 4), (8, 1), (8, 7)])
def test_it_agrees_with_the_sweep(epidemic, k, m):
    table, plan = epidemic.sweep().values, epidemic.plan(k, m)
    beyond = plan.explain().beyond
    by_k, by_m = table[:, m], table[k - 1]
    longer = [kk for kk in range(k + 1, 9) if by_k[kk - 1] > plan.value + 1e-9]
    more = [mm for mm in range(m + 1, 8) if by_m[mm] > plan.value + 1e-9]
    assert (beyond.longer.k if beyond.longer else None) == (longer[0] if longer else None)
    assert (beyond.more.m if beyond.more else None) == (more[0] if more else None)
    assert beyond.free.value == by_k[-1]
    assert beyond.most.value == pytest.approx(by_m.max())
    assert beyond.most.m == max(m, int(np.flatnonzero(by_m >= by_m.max() - 1e-9)[0]))
    for limit in (beyond.longer, beyond.free, beyond.more, beyond.most):
        if limit is not None:
            assert limit.value == table[limit.k - 1, limit.m]
            assert limit.added == limit.value - plan.value


@pytest.mark.parametrize(
    ("k", "m", "message"),
    [
        (3, 1, ["A longer tether would add 1.92 with k = 4, and 36.11 without any (k = 8).",
                "More changes (a larger m) would add nothing."]),
        (6, 2, ["A longer tether would add 6.495 with k = 7, and 25.08 without any (k = 8).",
                "More changes would add 2.21 with m = 3, and 3.177 at most (m = 4)."]),
        (7, 4, ["Only without a tether (k = 8) could more be gained: 10.28 more.",
                "More changes would add 1.056 with m = 5, and no more beyond."]),
        (8, 1, ["A longer tether (a larger k) would add nothing.", "More changes (a larger m) would add nothing."]),
    ],
)  # fmt: skip
def test_sentences(epidemic, k, m, message):
    # Differences of the values that `test_it_agrees_with_the_sweep` looks at: -35.19 less -37.11, and so on.
    assert epidemic.plan(k, m).explain().beyond.sentences() == message


def test_a_tether_beyond_which_nothing_is_gained():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    first = cf.plan(1, 4).explain().beyond.sentences()[0]
    assert first == "A longer tether would add 1,272 with k = 6, and no more beyond."


def test_the_rule_and_the_influence_are_the_plans(grid):
    plan = grid.plan(3, 2, rule="assured", influence=tether.effective(0))
    table = grid.sweep(rule="assured", influence=tether.effective(0))
    assert plan.explain().beyond.free.value == table.value(12, 2)


def test_numbers_in_sentences():
    assert [number(value) for value in (-22.8961, 1234.5, 0.0, 1e-7)] == ["-22.9", "1,234", "0", "1e-07"]
