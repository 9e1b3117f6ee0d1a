"""Shares of a plan's changed steps: Shapley's rule by all orders, values by following every episode."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from brute import is_influenced
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, SUPPORT, World, worlds

import tether
from tether.errors import QueryError
from tether.evaluation import shares


class UnsayableError(Exception):
    """Neither the plan nor the observed episode says what to do."""


def followed(world: World, plan: tether.records.Plan, times: frozenset[int]) -> float:
    """v(C'): the plan at ``times``, what was done elsewhere; episode by episode."""
    choices = plan.choices

    def planned(t: int, s: Any, left: int, run: int) -> Any:
        """What the plan would do, from its own tables; None where it has no answer."""
        index, form = plan.cf.mdp.state_index(s), plan.cf.mdp.form
        runs = [0] * plan.nodes[t].size if plan.nodes[t].runs.size == 0 else plan.nodes[t].runs.tolist()
        at = [i for i, key in enumerate(zip(plan.nodes[t].states.tolist(), runs, strict=True)) if key == (index, run)]
        if not at:
            return None
        local = int(choices[t][at[0], min(left, choices[t].shape[1] - 1)])
        return None if local < 0 else plan.cf.mdp.actions[int(form.pair_action[form.pair_start[index] + local])]

    def value(t: int, s: Any, left: int, run: int) -> float:
        if t == world.T:
            return world.last(s)
        done, there = world.path.actions[t], world.available(s)
        idle = all(world.changed(t, s, a) == 0 for a in there) and done not in there
        wanted = planned(t, s, left, run)
        observed = done if done in there else None
        action = wanted if t in times else observed
        if action is None:
            action = observed if t in times else (wanted if idle else None)
        if action is None and idle:
            action = there[0]
        if action is None:
            raise UnsayableError
        onward = 0
        if plan.rule == "assured":
            onward = 0 if is_influenced(world, SUPPORT, t, (s, action)) else run + 1
        left -= world.changed(t, s, action)
        return sum(
            p * (world.earn(t, s, action, j) + world.discount * value(t + 1, j, left, onward))
            for j, p in world.rows[t][s, action].items()
        )

    return value(0, world.path.states[0], plan.m, 0)


def by_orders(values: dict[frozenset[int], float], times: list[int]) -> dict[int, float]:
    """The mean of what each time adds, over all orders."""
    orders = list(permutations(times))
    total = dict.fromkeys(times, 0.0)
    for order in orders:
        for i, t in enumerate(order):
            total[t] += values[frozenset(order[: i + 1])] - values[frozenset(order[:i])]
    return {t: sum_ / len(orders) for t, sum_ in total.items()}


@FEWER
@given(
    worlds(max_states=5, max_steps=4), st.integers(1, 5), st.integers(0, 4), st.sampled_from(["definition", "assured"])
)
def test_shares_are_the_mean_over_all_orders(world: World, k: int, m: int, rule: str) -> None:
    plan = world.cf.plan(k, m, rule=rule)
    times = [t for t, share in enumerate(plan.evaluate().changed) if share > 0]
    subsets = [frozenset(some) for n in range(len(times) + 1) for some in combinations(times, n)]
    try:
        values = {some: followed(world, plan, some) for some in subsets}
    except UnsayableError:
        with pytest.raises(QueryError, match="the gain cannot be shared"):
            plan.shares()
        return
    found = plan.shares()
    near = {"rel": 1e-9, "abs": 1e-8}
    assert values[frozenset()] == pytest.approx(plan.observed_value, **near)
    assert values[frozenset(times)] == pytest.approx(plan.value, **near)
    assert [one.t for one in found.steps] == times
    expected = by_orders(values, times)
    for one in found.steps:
        assert one.share == pytest.approx(expected[one.t], **near)
        assert one.alone == pytest.approx(values[frozenset([one.t])] - plan.observed_value, **near)
    assert sum(one.share for one in found.steps) == pytest.approx(plan.gain, **near)


def test_one_change_has_the_whole_gain() -> None:
    case = tether.cases.epidemic()
    plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=1)
    (only,) = plan.shares().steps
    assert only.share == pytest.approx(plan.gain)
    assert only.alone == pytest.approx(plan.gain)
    assert only.changed == 1.0


def test_no_change_has_no_share() -> None:
    case = tether.cases.epidemic()
    nothing = tether.counterfactual(case.mdp, case.path).plan(k=1, m=1).shares()
    assert nothing.steps == ()
    assert str(nothing) == "The plan changes nothing: there is no gain to share."


def test_too_many_changed_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares.MOST == 12
    monkeypatch.setattr(shares, "MOST", 7)  # the same, of 2^7 subsets
    P = [[[1.0], [1.0]]]
    mdp = tether.MDP.from_arrays(P, [[0.0, 1.0]], actions=["wait", "earn"])
    cf = tether.counterfactual(mdp, tether.Path([0] * 9, ["wait"] * 8))
    with pytest.raises(QueryError, match="at 8 times; shares can be computed for up to 7"):
        cf.plan(k=9, m=8).shares()
    seven = cf.plan(k=9, m=7).shares()
    assert [one.share for one in seven.steps] == pytest.approx([1.0] * 7)
    assert "1 come from step 1" in str(seven)
    assert "share of the gain" in seven._repr_html_()
