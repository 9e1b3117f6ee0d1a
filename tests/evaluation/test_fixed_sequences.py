"""The best fixed sequence of actions, against all of them, followed one by one."""

import math
from itertools import product

import pytest
from brute import Promise, influenced, smallest_k
from hypothesis import given
from hypothesis import strategies as st
from planned import close
from worlds import FEWER, RULES, SUPPORT, tiny_worlds

import tether


def episodes(world, actions):
    """Everything that can happen under a sequence, and at which times it changes something; None if it gets stuck."""
    found, does = [(1.0, [], world.path.states[0])], set()
    for t, action in enumerate(actions):
        after = []
        for chance, pairs, s in found:
            a = action
            if a not in world.available(s):
                if not world.stays(s):
                    return None
                same = [b for b in world.available(s) if not world.changed(t, s, b)]
                a = max(same, key=lambda b: world.earn(t, s, b, s))
            elif world.changes_something(t, s, a):
                does.add(t)
            after += [(chance * p, [*pairs, (s, a)], j) for j, p in world.rows[t][s, a].items()]
        found = after
    return found, does


def all_sequences(world, rule, k, m, permits=lambda t, s, a: True):
    """The value of every sequence that can be followed within k and m, and in which every change does something."""
    hits, found = influenced(world, SUPPORT), {}
    least = {} if rule == "assured" else smallest_k(world, rule, hits)
    for actions in product(world.actions, repeat=world.T):
        changed = {t for t, (a, b) in enumerate(zip(actions, world.path.actions, strict=True)) if a != b}
        followed = episodes(world, actions) if len(changed) <= m else None
        if followed is None or not changed <= followed[1]:
            continue
        one = Promise.of(world, followed[0])
        keeps = one.keeps_to(world, rule, hits, k) if rule == "assured" else all(least[at] <= k for at in one.taken)
        if keeps and all(permits(*at) for at in one.taken if world.changed(*at)):
            found[actions] = one.value
    return found


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_against_all_sequences(rule, data, world):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    never, minimise = data.draw(st.sampled_from([None, world.actions[0], 0])), data.draw(st.booleans())
    sign = -1.0 if minimise else 1.0
    if minimise:  # the twin looks for the largest value
        world = world_of_the_opposite(world)
    values = all_sequences(world, rule, k, m, lambda t, s, a: never not in (t, a))
    if minimise:
        world = world_of_the_opposite(world)
    plan = world.cf.plan(k, m, rule=rule, never=never, minimise=minimise)
    found, best = plan.simple, max(values.values())
    close(found.value, sign * best)
    assert found.tried == len(values)
    own = tuple(found.changes.get(t, a) for t, a in enumerate(world.path.actions))
    close(values[own], best)
    assert sign * found.value <= sign * plan.value + 1e-9 * max(1.0, abs(plan.value))
    rounding = 1e-9 * max(1.0, abs(plan.value), abs(plan.observed_value))
    assert found.is_as_good == (best >= sign * plan.value - rounding)
    gain = max(0.0, best - sign * plan.observed_value)
    near = [one for one in values.values() if one >= best - 0.05 * gain - rounding]
    edge = any(abs(one - (best - 0.05 * gain)) <= 3 * rounding for one in values.values() if gain > 100 * rounding)
    assert edge or found.near_equal == len(near) - 1
    if found.is_plan:
        assert found.is_as_good


def world_of_the_opposite(world):
    """The world with rewards of the other sign."""
    final = None if world.final is None else {s: -one for s, one in world.final.items()}
    about = world.states, world.actions, world.weights, world.path, None if world.R is None else -world.R
    return type(world)(*about, world.axes, world.discount, final, world.samples)


@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_a_price_counts_in_both(data, world):
    m = data.draw(st.integers(0, world.T))
    plan = world.cf.plan(world.T + 1, m, cost=0.5)
    found, values = plan.simple, {}
    for actions, value in all_sequences(world, "definition", world.T + 1, m).items():
        happening = episodes(world, actions)[0]
        paid = math.fsum(
            chance * 0.5 * world.discount**t * world.changed(t, s, a)
            for chance, pairs, _ in happening
            for t, (s, a) in enumerate(pairs)
        )
        values[actions] = value - paid
    close(found.value - found.paid, max(values.values()))
    assert found.is_as_good == (found.value - found.paid >= plan.value - plan.paid - 1e-9 * max(1.0, abs(plan.value)))


# --- The numbers of METHOD ---------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2])
def test_on_sepsis_a_fixed_sequence_does_as_well(m):
    case = tether.cases.sepsis()
    plan = tether.counterfactual(case.mdp, case.path).plan(9, m)
    assert plan.simple.is_as_good
    assert plan.simple.value == pytest.approx(plan.value, abs=1e-8)


def test_on_grid_world_it_does_not(grid):
    plan = grid.plan(6, 4)
    assert plan.simple.value == pytest.approx(333.991, abs=5e-4)
    assert plan.value == pytest.approx(374.717, abs=5e-4)
    assert not plan.simple.is_as_good
    assert plan.simple.changes == {2: "right", 3: "down", 4: "down", 5: "down"}


# --- What is said ------------------------------------------------------------------------------------


def test_it_is_said(grid, epidemic):
    said = epidemic.plan(7, 4).explain(certificate=False).answer(str).change
    assert "A fixed sequence has 76 % of the gain, whatever the state: at step 1 V_I, at step 2 V_I, " in said[2]
    assert said[3] == "2 other fixed sequences come within 5 % of its gain."
    assert epidemic.plan(7, 4).explain(certificate=False).simple.near_equal == 2
    assert len(epidemic.plan(3, 1).explain(certificate=False).answer(str).change) == 2  # the plan is one, alone
    said = grid.plan(6, 1).explain(certificate=False).answer(str).change
    assert said[2:] == ("5 other fixed sequences come within 5 % of the gain.",)


def test_too_many_are_not_tried(grid):
    plan = grid.plan(6, 7)
    with pytest.raises(tether.errors.QueryError, match="fixed sequences were not tried: there are 1,"):
        _ = plan.simple
    explanation = plan.explain(certificate=False)
    assert explanation.simple is None
    assert explanation.answer(str).change[-1].startswith("Whether a fixed sequence of actions does as well was not")


def test_plans_that_are_not_compared(epidemic):
    risky = epidemic.plan(k=7, m=4, subject_to=(tether.reach("over"), 0.05))
    with pytest.raises(tether.errors.QueryError, match="not compared with fixed sequences"):
        _ = risky.simple
    robust = tether.robust(epidemic.mdp, epidemic.path).plan(k=7, m=2)
    with pytest.raises(tether.errors.QueryError, match="not compared with fixed sequences"):
        _ = robust.simple
    assert not any("fixed sequence" in one for one in robust.explain().sentences())


@pytest.mark.parametrize("minimise", [False, True])
def test_a_property(minimise):
    case = tether.cases.sepsis()
    plan = tether.counterfactual(case.mdp, case.path).plan(9, 1, objective=tether.reach("died"), minimise=minimise)
    assert 0.0 <= plan.simple.value <= 1.0
    assert plan.simple.is_as_good == (abs(plan.simple.value - plan.value) <= 1e-9)


def test_what_follows_the_record_counts():
    """A patient who died after 3 of 10 steps: the rest of the replay is worth the same after a sequence and a plan."""
    case = tether.cases.sepsis()
    path = tether.Path(case.path.states[:4], case.path.actions[:3])
    plan = tether.counterfactual(case.mdp, path, horizon=10).plan(4, 1)
    assert plan.gain > 0
    assert plan.simple.is_plan
    assert plan.simple.value == pytest.approx(plan.value, abs=1e-8)
    assert plan.simple.value != pytest.approx(
        tether.counterfactual(case.mdp, path, horizon=3).plan(4, 1).value, abs=1.0
    )
