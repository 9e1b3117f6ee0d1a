"""Decisions weighed by a property, and what holds of a property under every causal model."""

import copy
import math
from functools import cache

import pytest
from deciding import Asked, allowed, asked
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, SUPPORT, in_package

import tether

NEAR = {"abs": 1e-9, "rel": 1e-9}


# --- Decisions --------------------------------------------------------------------------------------


def only_one_different(one, t, action):
    """The probability had only the action at t been another; None where an observed action is missing on the way."""
    world, seen = one.world, one.world.path

    @cache
    def after(u, s, states):
        if u == world.T or one.decides(s):
            return float(one.holds([*states, s]))
        wanted = action if u == t else seen.actions[u]
        there = world.available(s)
        idle = all(world.cf.mdp.row(s, a)[0] == (s,) for a in there)
        if wanted not in there and not idle:
            return None
        row = world.rows[u][s, wanted if wanted in there else there[0]]
        found = [after(u + 1, j, (*states, s)) for j in row]
        return None if None in found else math.fsum(p * v for p, v in zip(row.values(), found, strict=True))

    return after(0, seen.states[0], ())


@FEWER
@given(asked(("definition",), max_states=5, max_steps=4))
def test_had_only_this_been_different(one):
    world, cf = one.world, one.world.conditioned()
    found = cf.decisions(one.objective)
    assert found.observed_value == pytest.approx(one.observed(), **NEAR)
    question = cf.tether(objective=one.objective)
    over = next((t for t, s in enumerate(world.path.states) if one.decides(s)), world.T + 1)
    for row in found.rows:
        if row.t >= over:
            assert (row.value, row.gain, row.needed_k) == (found.observed_value, 0.0, 1)
            continue
        expected = only_one_different(one, row.t, row.action)
        assert (row.value is None) == (expected is None)
        if expected is not None:
            assert row.value == pytest.approx(expected, **NEAR)
            if world.path.last_recorded:
                assert row.necessity == pytest.approx(abs(expected - found.observed_value), **NEAR)
        assert row.needed_k == question.why(row.t, row.state, row.action, k=1).needed


@FEWER
@given(asked(("definition",), max_states=4, max_steps=3), st.booleans())
def test_the_best_after_it(one, minimise):
    """The best row of the first step is the best plan without a tether; both ways."""
    cf, T = one.world.conditioned(), one.world.T
    m = min(2, T)
    found = cf.decisions(one.objective, m, minimise=minimise)
    best = cf.plan(T + 1, m, objective=one.objective, minimise=minimise)
    values = [row.best for row in found.at(0) if row.best is not None]
    assert (min if minimise else max)(values) == pytest.approx(best.value, **NEAR)
    other = cf.decisions(one.objective, m, minimise=not minimise)
    for row, same in zip(found.rows, other.rows, strict=True):
        assert (row.value is None) == (same.value is None)
        if row.value is not None:
            assert row.value == pytest.approx(same.value, **NEAR)
            assert row.gain == pytest.approx(-same.gain, **NEAR)


def test_decisions_in_words():
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    found = cf.decisions(tether.avoid("danger"))
    sentences = found.sentences(str)
    *first, hindsight, averted, nothing = sentences
    assert first == cf.review(objective=tether.avoid("danger")).verdict(str)
    assert hindsight == (
        "With hindsight, the decision at step 1 mattered most: left instead of right, and nothing else changed, would "
        "have given a chance that danger is avoided of 96 % instead of 0 %. It could be known at the time that it was "
        "better."
    )
    assert averted.startswith("The outcome, danger is reached, could best have been averted at step 1")
    assert nothing == "From the observed state at step 3 on, nothing done could have changed the outcome."
    same = cf.decisions()
    for row, other in zip(found.rows, same.rows, strict=True):
        assert row.necessity == pytest.approx(other.necessity)
    bounds, plain = (one.necessity_bounds(2, "left") for one in (found, same))
    for one, other in zip(bounds, plain, strict=True):
        assert (one.least, one.gumbel_max, one.most) == pytest.approx((other.least, other.gumbel_max, other.most))
    assert found.necessity_bounds(5, "up")[0].most == 0.0
    assert found.to_arrow().num_rows == len(found.rows)
    assert found.plot("best") is not None


# --- Under every causal model --------------------------------------------------------------------------


def possible(one: Asked) -> Asked:
    """The same in what some causal model can do: nominal rows, but for the observed pair, which does what it did."""
    world = copy.copy(one.world)
    rows = []
    for t, pair in enumerate(world.observed):
        recorded = t + 1 < len(world.path.states)
        rows.append({**world.nominal, **({pair: {world.path.states[t + 1]: 1.0}} if recorded else {})})
    world.__dict__["rows"] = rows
    return one._replace(world=world)


def worst_mean(row, share, value):
    """The mean of a value over the worst part, of size ``share``, of a row."""
    left, total = share, 0.0
    for j, q in sorted(row.items(), key=lambda item: value[item[0]]):
        taken = min(q, left)
        total += taken * value[j]
        left -= taken
    return total / share


def guaranteed(one, k, m):
    """The best guaranteed probability within k and m, by recursion, under every causal model."""
    world, hits, start = one.world, one.hits, one.world.path.states[0]
    kept = [] if one.rule == "assured" else allowed(one, hits, k)

    @cache
    def value(t, s, c, run):
        if t == world.T or one.decides(s):
            return float(s not in one.goal if one.kind == "avoid" else s in one.goal)
        best = -math.inf
        recorded = t + 1 < len(world.path.states)
        for a in world.available(s):
            left, after = c - world.changed(t, s, a), 0 if (s, a) in hits[t] else run + 1
            if left < 0 or (after >= k if one.rule == "assured" else (s, a) not in kept[t]):
                continue
            row = world.rows[t][s, a]
            onward = {j: value(t + 1, j, left, after if one.rule == "assured" else 0) for j in row}
            if -math.inf in onward.values():
                continue
            share = world.nominal[world.observed[t]][world.path.states[t + 1]] if recorded else 1.0
            if (s, a) == world.observed[t]:
                share = 1.0
            best = max(best, worst_mean(row, share, onward))
        return best

    return value(0, start, m, 0)


@FEWER
@given(asked(("definition", "assured", "published"), max_states=5, max_steps=4), st.data())
def test_what_is_guaranteed(one, data):
    world = one.world
    world.samples, one = 0, one._replace(criterion=SUPPORT)
    assume(all(min(row.values()) > 1e-12 for row in world.nominal.values()))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    sure = tether.robust(world.cf.mdp, world.path, assume="nothing")
    options = {"rule": one.rule, "objective": one.objective}
    plan = sure.plan(k, m, **options)
    assert plan.value == pytest.approx(guaranteed(possible(one), k, m), **NEAR)
    assert sure.sweep(ks=[k], ms=[m], **options).values == pytest.approx(plan.value, **NEAR)
    assert plan.value >= plan.observed_value - 1e-9
    worst, best = sure.range(plan)
    assert plan.value - 1e-9 <= worst <= plan.evaluate().value + 1e-9 <= best + 2e-9
    assert plan.best_case == best


@FEWER
@given(asked(("definition",), max_states=5, max_steps=4), st.data())
def test_a_certificate_of_a_property(one, data):
    goal = [s for s in one.world.states if s in one.goal]
    assume(one.world.path.states[0] not in goal)
    # Of 1e-300 and 1 - 1e-300 only the first is another number than without it: the two plans need not be the same.
    assume(all(min(row.values()) > 1e-12 for row in one.world.nominal.values()))
    k, m = data.draw(st.integers(1, one.world.T + 1)), data.draw(st.integers(0, one.world.T))
    cf = tether.counterfactual(one.world.cf.mdp, one.world.path)
    avoided = cf.plan(k, m, influence=in_package(one.criterion), objective=tether.avoid(goal))
    reached = cf.plan(k, m, influence=in_package(one.criterion), objective=tether.reach(goal), minimise=True)
    sure, other = avoided.certify(), reached.certify()
    assert sure.value == pytest.approx(avoided.value, **NEAR)
    assert sure.nothing.worst - 1e-9 <= avoided.value <= sure.nothing.best + 1e-9
    assert sure.nothing.worst - 1e-9 <= sure.stability.worst <= avoided.value + 1e-9
    for mine, theirs in ((sure.nothing, other.nothing), (sure.stability, other.stability)):
        assert mine.worst == pytest.approx(1 - theirs.worst, **NEAR)
        assert mine.best == pytest.approx(1 - theirs.best, **NEAR)
        assert mine.gain == pytest.approx(theirs.gain, **NEAR)
        assert mine.breakdown == pytest.approx(theirs.breakdown, abs=1e-6)
    assert (sure.verdict, sure.is_certain) == (other.verdict, other.is_certain)


def test_a_patient_who_might_have_lived_for_sure():
    case = tether.cases.sepsis()
    cf = tether.counterfactual(case.mdp, case.path)
    plan = cf.plan(7, 2, objective=tether.avoid("died"))
    sentence = plan.explain().sentences()[-1]
    assert "the chance that died is avoided is from 0 to" in sentence.lower()
    sure = tether.robust(case.mdp, case.path, assume="nothing").plan(7, 2, objective=tether.avoid("died"))
    assert (sure.value, sure.observed_value) == (0.0, 0.0)
    with pytest.raises(tether.QueryError, match="says nothing about the return"):
        tether.robust(case.mdp, case.path).worst_model(plan)
