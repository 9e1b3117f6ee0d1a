"""Every causal model and every transition probability that the log allows: linear programmes over both, properties."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from brute import influenced
from couplings import asked_row, extreme_of, over_intervals, seen_row
from effort import tries
from hypothesis import assume as assume_
from hypothesis import given, settings
from hypothesis import strategies as st
from test_robust import Guaranteed
from worlds import FEWER, RULES, tiny_worlds, worlds

import tether
from tether._kernels.sets import INTERVALS, NOTHING
from tether.conditioning.model_sets import EVERY_MODEL
from tether.model.confidence import row_intervals
from tether.model.counts import Counts


@st.composite
def interval_rows(draw):
    """Intervals of p and q (each holds a row), an outcome that p can have, and values."""
    n = draw(st.integers(1, 4))
    rows = []
    for _ in range(2):
        weights = draw(st.lists(st.sampled_from([0, 1, 1, 2, 5]), min_size=n, max_size=n).filter(any))
        row = np.array(weights, dtype=float) / sum(weights)
        width = np.array(draw(st.lists(st.sampled_from([0.0, 0.05, 0.3, 1.0]), min_size=n, max_size=n)))
        rows.append((np.maximum(row - width, 0.0), np.minimum(row + width, 1.0), row))
    o = draw(st.sampled_from(np.flatnonzero(rows[0][2]).tolist()))
    values = np.array(draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), dtype=float)
    return rows[0], rows[1], o, values


@pytest.mark.parametrize("sign", [1.0, -1.0])
@given(step=interval_rows())
def test_rows_against_a_linear_programme_over_intervals_and_couplings(sign, step):
    (p_low, p_high, p), (q_low, q_high, q), o, values = step
    chance = max(p_low[o], 1.0 - np.delete(p_high, o).sum())
    assume_(chance > 1e-6)
    every = np.arange(values.size)
    row, observed = asked_row(every, q, q_low, q_high), seen_row(every, p, o, -1, chance)
    found, chances = extreme_of(row, values, 0, observed, INTERVALS, sign)
    assert found == pytest.approx(over_intervals(p_low, p_high, q_low, q_high, o, values, sign), abs=1e-8)
    assert chances.sum() == pytest.approx(1.0)


def as_learned(world, data):
    """The model of a world as if it had been learned, with some counts for each transition; it ends with the path."""
    mdp = world.cf.mdp
    times = data.draw(st.lists(st.integers(0, 30), min_size=mdp.n_transitions, max_size=mdp.n_transitions))
    return replace(mdp, counts=Counts(np.array(times, dtype=np.int64), 1.0), horizon=world.T)


class Certain(Guaranteed):
    """V_t(s, c) with the worst row of each pair, and the worst probabilities of both rows."""

    def __init__(self, world, intervals, rule, hits, k):
        super().__init__(world, NOTHING, rule, hits, k)
        mdp = world.cf.mdp
        self.ends = {}
        for pair in world.weights:
            entries = mdp.entries(mdp.pair_index(*pair))
            names = mdp.names_of(mdp.form.next_state[entries])
            ends = np.zeros((2, len(world.states) + 1))  # the last is elsewhere
            ends[1, -1] = intervals.elsewhere[mdp.pair_index(*pair)]
            for i, name in enumerate(names):
                at = entries.start + i
                ends[:, world.states.index(name)] = intervals.lower[at], intervals.upper[at]
            self.ends[pair] = ends

    def least(self, t):
        """What is left at least after a step at t that leads where nobody was seen to go."""
        mdp, T = self.world.cf.mdp, self.world.T
        left = 0.0 if mdp.final_reward is None else mdp.discount ** (T - t) * min(mdp.final_reward)
        left += sum(mdp.discount ** (u - t) * min(mdp.rewards.at(u)) for u in range(t + 1, T))
        return left + (min(mdp.rewards.at(t)) if mdp.rewards.by_entry else 0.0)

    def worst(self, t, pair, values):
        world = self.world
        q_low, q_high = self.ends[pair]
        own = 0.0 if world.cf.mdp.rewards.by_entry else world.cf.mdp.rewards.at(t)[world.cf.mdp.pair_index(*pair)]
        values = np.append(values, own + self.least(t))
        if t + 1 == len(world.path.states):  # nothing was seen: the row itself, at its worst
            return over_intervals(q_low * 0 + 1 / q_low.size, q_low * 0 + 1, q_low, q_high, None, values, 1.0)
        if pair == world.observed[t]:
            return values[world.states.index(world.path.states[t + 1])]
        o = world.states.index(world.path.states[t + 1])
        return over_intervals(*self.ends[world.observed[t]], q_low, q_high, o, values, 1.0)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=tries(4, 30))
@given(world=tiny_worlds(), data=st.data())
def test_plans_against_a_linear_programme_per_pair(rule, world, data):
    assume_(all(p > 1e-5 for row in world.nominal.values() for p in row.values()))
    mdp = as_learned(world, data)
    intervals = row_intervals(mdp, 0.8)
    table = tether.robust(mdp, world.path, "nothing", confidence=0.8).sweep(rule=rule)
    hits = influenced(world, ("support", 0.0))
    for k in range(1, world.T + 2):
        twin = Certain(world, intervals, rule, hits, k)
        for m in range(world.T + 1):
            wanted = twin.value(0, world.path.states[0], m, 0)
            assert table.value(k, m) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@FEWER
@given(world=worlds(), data=st.data())
def test_what_must_hold(world, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    mdp = as_learned(world, data)
    plan = tether.counterfactual(mdp, world.path).plan(k, m)
    exact = tether.robust(mdp, world.path, "nothing")
    values, ranges = [exact.plan(k, m).value], [exact.range(plan)]
    near = 1e-9 * max(1.0, *map(abs, ranges[0]), abs(plan.observed_value))
    for confidence in (0.5, 0.95):
        guaranteed = tether.robust(mdp, world.path, "nothing", confidence=confidence)
        made = guaranteed.plan(k, m)
        values.append(made.value)
        ranges.append(guaranteed.range(plan))
        assert (made.confidence, made.robust.confidence) == (confidence, confidence)
        assert guaranteed.range(made)[0] == pytest.approx(made.value, rel=1e-9, abs=near)
        if len(world.path.states) > world.T:  # replaying what was done is certain
            assert made.value >= plan.observed_value - near
        names, lower, upper = guaranteed.bounds(0, *world.observed[0])
        assert np.all(lower <= upper + 1e-12)
        assert len(names) == len(lower)
    assert np.all(np.diff(values) <= near)  # surer of the intervals, less is guaranteed
    for inner, outer in pairwise(ranges):
        assert outer[0] - near <= inner[0] <= plan.value + near
        assert plan.value - near <= inner[1] <= outer[1] + near


def test_the_worst_model_attains_the_worst_case():
    seen = {("treat", "well"): 8, ("treat", "sick"): 2, ("wait", "well"): 2, ("wait", "sick"): 3, ("treat", "dead"): 1}
    paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    mdp = tether.learn(paths).with_objective(final_reward={"well": 1.0})
    sure = tether.robust(mdp, tether.Path(["sick", "sick", "sick"], ["wait", "wait"]), "nothing", confidence=0.9)
    worst, _ = sure.range(lambda t, state: mdp.actions_in(state)[0])
    assert worst >= 0.0
    with pytest.raises(tether.QueryError, match="may lead where nobody was seen to go"):
        sure.worst_model(lambda t, state: mdp.actions_in(state)[0])
    with pytest.raises(tether.QueryError, match="the file has no state for that"):
        sure.write("episode.drn")
    exact = tether.robust(mdp, tether.Path(["sick", "sick", "sick"], ["wait", "wait"]), "nothing")
    model = exact.worst_model(lambda t, state: mdp.actions_in(state)[0])
    worst, _ = exact.range(lambda t, state: mdp.actions_in(state)[0])
    assert model.evaluate(lambda t, state: mdp.actions_in(state)[0]).value == pytest.approx(worst)


@given(times=st.integers(1, 40), good=st.booleans())
@FEWER
def test_nothing_is_certain_that_was_seen_a_finite_number_of_times(times, good):
    """Whatever an action led to so far, and however often: neither 0 nor 1 is guaranteed."""
    end = "well" if good else "dead"
    paths = [tether.Path(["sick", end], ["treat"])] * times + [tether.Path(["sick", "dead"], ["wait"])] * times
    paths.append(tether.Path(["sick", "well"], ["wait"]))
    mdp = tether.learn(paths, prior=0).with_objective(final_reward={"well": 1.0})
    sure = tether.robust(mdp, tether.Path(["sick", "dead"], ["wait"]), "nothing", confidence=0.95)
    worst, best = sure.range(lambda t, state: "treat" if state == "sick" else mdp.actions_in(state)[0])
    assert worst < 1.0
    assert best > 0.0


def test_it_is_said_and_other_assumptions_are_refused():
    case = tether.cases.epidemic()
    with pytest.raises(tether.QueryError, match="go with assume='nothing' alone, not 'stability'"):
        tether.robust(case.mdp, case.path, "stability", confidence=0.95)
    with pytest.raises(tether.QueryError, match="was not learned from episodes"):
        tether.robust(case.mdp, case.path, confidence=0.95)  # which assumes nothing
    seen = {("treat", "well"): 80, ("treat", "dead"): 2, ("wait", "well"): 20, ("wait", "dead"): 30}
    paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    mdp = tether.learn(paths).with_objective(final_reward={"well": 1.0})
    plan = tether.robust(mdp, tether.Path(["sick", "dead"], ["wait"]), "nothing", confidence=0.95).plan(1, 1)
    sentences = plan.explain().sentences(str)
    assert any(
        f"is guaranteed under {EVERY_MODEL} and all transition probabilities that the log allows (jointly, with "
        "95 % confidence)" in one
        for one in sentences
    )
    assert plan.sweep().value(1, 1) == plan.value
