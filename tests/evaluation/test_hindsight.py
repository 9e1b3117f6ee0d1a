"""Foresight and hindsight of a plan: the fair plan against all policies, the numbers of METHOD's mistake or luck."""

import math
from functools import cache

import pytest
from brute import Best, Promise, count_policies, follow, influenced, policies, smallest_k, trajectories
from hypothesis import assume, given
from hypothesis import strategies as st
from planned import close
from worlds import FEWER, RULES, SUPPORT, criteria_for, in_package, tiny_worlds, worlds

import tether


def plain_values(world):
    """V*_t(s) of the plain model, by its definition."""

    @cache
    def value(t, s):
        if t == world.T:
            return world.last(s)
        return max((worth(t, s, a) for a in world.available(s)), default=-math.inf)

    def worth(t, s, a):
        row = world.nominal[s, a]
        return math.fsum(p * (world.earn(t, s, a, j) + world.discount * value(t + 1, j)) for j, p in row.items())

    return value, worth


def nominal_worth(world, value, policy, t, s):
    """What those who decide expect of a policy of the counterfactual MDP: V* once the episode is left."""
    if policy is None:
        return world.last(s)
    total, inside = 0.0, world.rows[t][s, policy.action]
    for j, p in world.nominal[s, policy.action].items():
        rest = nominal_worth(world, value, policy.after[j], t + 1, j) if j in inside else value(t + 1, j)
        total += p * (world.earn(t, s, policy.action, j) + world.discount * rest)
    return total


def best_in_foresight(world, rule, hits, k, m):
    """The largest expected value of all policies within k and m."""
    value, start, best = plain_values(world)[0], world.path.states[0], -math.inf
    least = {} if rule == "assured" else smallest_k(world, rule, hits)
    for policy in policies(world, 0, start):
        one = Promise.of(world, list(trajectories(world, policy, 0, start)))
        keeps = one.keeps_to(world, rule, hits, k) if rule == "assured" else all(least[at] <= k for at in one.taken)
        if keeps and one.changes <= m:
            best = max(best, nominal_worth(world, value, policy, 0, start))
    return best


class Fair(Best):
    """The same by a recursion over (t, state, changes left, run)."""

    def __init__(self, world, rule, hits, k):
        super().__init__(world, rule, hits, k)
        self.plain = plain_values(world)[0]

    def action_value(self, t, pair, c, run):
        world = self.world
        after, left = self.run_after(t, pair, run), c - world.changed(t, *pair)
        forbidden = after >= self.k if self.rule == "assured" else pair not in self.kept[t]
        if forbidden or left < 0:
            return -math.inf
        inside, total = world.rows[t][pair], 0.0
        for j, p in world.nominal[pair].items():
            rest = self.value(t + 1, j, left, after) if j in inside else self.plain(t + 1, j)
            if rest == -math.inf:
                return -math.inf
            total += p * (world.earn(t, *pair, j) + world.discount * rest)
        return total

    def expects(self, plan, hits):
        """What those who decide expect of a plan."""

        def go(t, s, c, run):
            if t == self.world.T:
                return self.world.last(s)
            a = plan.action(t, s, c, uninfluenced=run)
            left, onward = c - self.world.changed(t, s, a), 0 if (s, a) in hits[t] else run + 1
            inside, total = self.world.rows[t][s, a], 0.0
            for j, p in self.world.nominal[s, a].items():
                rest = go(t + 1, j, left, onward) if j in inside else self.plain(t + 1, j)
                total += p * (self.world.earn(t, s, a, j) + self.world.discount * rest)
            return total

        return go(0, self.world.path.states[0], plan.m, 0)


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_the_fair_plan_by_all_policies(rule, data, world):
    assume(count_policies(world) <= 300)
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    hits = influenced(world, SUPPORT)
    fair = world.cf.plan(k, m, rule=rule).fair
    close(Fair(world, rule, hits, k).expects(fair, hits), best_in_foresight(world, rule, hits, k, m))


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=worlds(max_steps=4))
def test_the_fair_plan_by_recursion(rule, data, world):
    criterion = data.draw(criteria_for(rule))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    hits = influenced(world, criterion)
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    twin = Fair(world, rule, hits, k)
    close(twin.expects(plan.fair, hits), twin.value(0, world.path.states[0], m, 0))
    happening, _ = follow(world, plan.fair, hits)
    close(plan.fair.value, math.fsum(chance * world.worth(pairs, last) for chance, pairs, last in happening))
    found = plan.hindsight
    close(found.foresight + found.hindsight, plan.gain)
    close(found.foresight, plan.fair.value - plan.observed_value)
    assert plan.value >= plan.fair.value - 1e-9 * max(1.0, abs(plan.value))
    assert found.hindsight >= 0.0


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(world=worlds(max_steps=3), price=st.sampled_from([0.3, 1.0, 2.5]), minimise=st.booleans())
def test_with_a_price_the_parts_are_less_what_is_paid(rule, world, price, minimise):
    assume(not world.samples)
    plan = world.cf.plan(world.T, world.T, rule=rule, cost=price, minimise=minimise)
    found = plan.hindsight
    close(found.gain, plan.gain - plan.paid)
    close(found.foresight, plan.fair.gain - plan.fair.paid)
    close(found.foresight + found.hindsight, found.gain)
    slack = 1e-9 * max(1.0, abs(plan.value), abs(plan.observed_value))
    assert plan.fair.gain - plan.fair.paid <= found.gain + slack
    for value, (low, high) in (
        (found.foresight, found.foresight_range), (found.hindsight, found.hindsight_range),
    ):  # fmt: skip
        assert low - slack <= value <= high + slack


@given(worlds(max_steps=4), st.data())
def test_without_mistakes_nothing_could_be_foreseen(world, data):
    """Decisions that were the best are not second-guessed, whatever k and m are; nor are those that are tied."""
    _, worth = plain_values(world)
    value = plain_values(world)[0]
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    mistakes = [value(t, s) - worth(t, s, a) for t, (s, a) in enumerate(world.observed)]
    size = max(abs(value(t, s)) for t, (s, _) in enumerate(world.observed))  # 1e-297 is a mistake where all is as small
    assume(max(mistakes) <= 1e-13 * size)
    plan = world.cf.plan(k, m)
    assert plan.fair.changes == ()
    assert plan.hindsight.foresight == 0.0


def nothing_left(world, t, s):
    """Whether a state is absorbing, and every action earns the same: what is recorded there is not a decision."""
    rows = [world.nominal[s, a] for a in world.available(s)]
    return all(set(row) == {s} for row in rows) and len({world.earn(t, s, a, s) for a in world.available(s)}) == 1


@given(worlds(max_steps=4), st.booleans())
def test_advised_changes_and_the_values_of_the_plain_model(world, minimise):
    plan = world.cf.plan(world.T + 1, world.T, minimise=minimise)
    if minimise:
        world.R, world.final = (
            None if world.R is None else -world.R,
            world.final and {s: -one for s, one in world.final.items()},
        )
    value, worth = plain_values(world)
    over = {t for t, (s, _) in enumerate(world.observed) if nothing_left(world, t, s)}
    for one in plan.changes:
        done = world.path.actions[one.t]
        assert 0.0 < one.probability <= 1.0
        if one.t in over:
            assert (one.instead_of, one.advantage, one.better_at_the_time) == (None, None, None)
            continue
        assert one.instead_of == done != one.action
        if done not in world.available(one.state):
            assert one.advantage is None
            assert one.better_at_the_time is None
            continue
        apart = worth(one.t, one.state, one.action) - worth(one.t, one.state, done)
        close(one.advantage, apart)
        if abs(apart) > 1e-9 * max(1.0, abs(value(one.t, one.state))):
            assert one.better_at_the_time == (apart > 0)


@pytest.fixture(scope="module")
def sepsis():
    case = tether.cases.sepsis()
    return tether.counterfactual(case.mdp, case.path)


# --- The numbers of METHOD ---------------------------------------------------------------------------


def test_sepsis_is_all_hindsight(sepsis):
    for k, m in ((9, 1), (9, 2), (9, 7), (11, 10)):
        found = sepsis.plan(k, m).hindsight
        assert found.foresight == 0.0
        assert found.foreseeable == 0.0
        assert found.hindsight == sepsis.plan(k, m).gain > 0
        assert found.foresight_range == found.foreseeable_range == (0.0, 0.0)
    change = sepsis.plan(9, 1).changes[0]
    assert change.t == 2
    assert change.better_at_the_time is False
    assert change.advantage == pytest.approx(-2886.5 - -2563.0, abs=0.1)


def test_a_change_that_was_better_at_the_time_is_not_called_hindsight():
    """With a price the fair plan changes nothing here; that the change was better could be known all the same."""
    case = tether.cases.epidemic()
    plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=1, cost=2)
    assert plan.hindsight.foresight == 0.0
    assert [(one.t, one.is_claimed) for one in plan.changes] == [(1, True)]
    assert plan.explain().answer(str).change[1:3] == (
        "It could be known that another action was better at step 1: V_I.",
        "What it gains with no more changes than these takes hindsight.",
    )


def test_nothing_is_advised_instead_of_what_the_dead_were_given(sepsis):
    """The record says "no treatment" after the death: that was no decision."""
    later = [one for one in sepsis.plan(9, 2).changes if one.t >= 3]
    assert later
    assert {(one.instead_of, one.better_at_the_time) for one in later} == {(None, None)}
    assert "no treatment" not in sepsis.plan(9, 2).changes._repr_html_()
    audit = tether.audit(sepsis.mdp, [sepsis.path], k=9, m=2, certify=False).table.column("changes").to_pylist()[0]
    assert [(one["t"], one["observed_action"]) for one in audit] == [(2, "antibiotics + ventilation"), (3, None)]


def test_grid_world_and_epidemic_are_all_foresight(grid, epidemic):
    for cf, limits, foreseeable in (
        (grid, ((6, 1), (6, 4), (12, 11)), 1445.117),
        (epidemic, ((3, 1), (6, 4), (7, 4), (8, 1)), 37.0),
    ):
        for k, m in limits:
            plan = cf.plan(k, m)
            found = plan.hindsight
            assert found.hindsight == pytest.approx(0.0, abs=1e-9)
            assert found.foresight == pytest.approx(plan.gain, abs=1e-9)
            assert found.foreseeable == pytest.approx(foreseeable, abs=5e-4)
            assert plan.changes[0].better_at_the_time
            low, high = found.foresight_range
            assert low - 1e-9 <= found.foresight <= high + 1e-9
            assert found.hindsight_range == (0.0, 0.0)


def test_without_limits_the_fair_plan_is_the_best_of_the_plain_model(grid, epidemic, sepsis):
    for cf in (grid, epidemic, sepsis):
        found = cf.plan(cf.T + 1, cf.T).hindsight
        assert found.foresight == pytest.approx(found.foreseeable, abs=1e-9)


@pytest.mark.parametrize("minimise", [False, True])
def test_properties(sepsis, minimise):
    plan = sepsis.plan(9, 2, objective=tether.reach("died"), minimise=minimise)
    found = plan.hindsight
    assert found.foresight + found.hindsight == pytest.approx(plan.gain, abs=1e-12)
    assert 0.0 <= found.fair.value <= 1.0
    assert found.hindsight >= 0.0
    low, high = found.foreseeable_range
    assert low - 1e-12 <= found.foreseeable <= high + 1e-12


@given(worlds(max_steps=3), st.data())
def test_ranges_contain_what_other_mechanisms_find(world, data):
    """The same two plans, valued with other rows that agree with the model and the episode."""
    assume(not world.samples)
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m)
    found = plan.hindsight
    sets = tether.robust(world.cf.mdp, world.path, assume="nothing")
    for name, one in (("foresight_range", found.fair), ("foreseeable_range", "optimal")):
        low, high = getattr(found, name)
        worst = sets.worst_model(one).evaluate("optimal").value if one == "optimal" else sets.range(one)[0]
        close(low if name == "foresight_range" else min(low, worst - plan.observed_value), worst - plan.observed_value)
        assert low <= high + 1e-12
    low, high = found.hindsight_range
    assert low - 1e-9 <= found.hindsight <= high + 1e-9


def test_plans_that_are_not_compared(epidemic):
    risky = epidemic.plan(k=7, m=4, subject_to=(tether.reach("over"), 0.05))
    with pytest.raises(tether.errors.QueryError, match="not compared with a fair one"):
        _ = risky.hindsight
    robust = tether.robust(epidemic.mdp, epidemic.path).plan(k=7, m=2)
    with pytest.raises(tether.errors.QueryError, match="not compared with a fair one"):
        _ = robust.fair
