"""The four classes of states: the paper's figures, and the classes of any state from their definitions."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from brute import allowed, can_take, depths, dist, influenced, node_distance
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, World, criteria_for, in_package, worlds

import tether

OBSERVED, REACHABLE, UNREACHABLE, NOT = (
    "observed",
    "influenced and reachable",
    "influenced but unreachable",
    "not influenced",
)


# --- The paper's figures -----------------------------------------------------------------------------

# For each k and t, the states of each class, as the figures on k = 1 and k = 2 draw them over the nominal rollout.
FIGURES = {
    (1, 1): {OBSERVED: {"s2"}, REACHABLE: {"s3"}, NOT: {"s1"}},
    (1, 2): {OBSERVED: {"s5"}, UNREACHABLE: {"s4", "s6"}},
    (2, 1): {OBSERVED: {"s2"}, REACHABLE: {"s3"}, UNREACHABLE: {"s1"}},
    (2, 2): {OBSERVED: {"s5"}, REACHABLE: {"s6"}, UNREACHABLE: {"s4"}},
}


@pytest.mark.parametrize(("k", "t"), FIGURES)
def test_the_figures_of_the_paper(toy, k, t):
    classes = toy.classify(k=k, t=t, rollout="nominal")
    for name, states in FIGURES[k, t].items():
        for state in states:
            assert classes[state] == name, state


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_the_observation_rules_a_state_out(toy, k):
    assert toy.classify(k=k, t=1)["s3"] == UNREACHABLE  # (s0, a0) led to s2
    assert toy.classify(k=k, t=1)["s2"] == OBSERVED


def test_what_two_more_steps_of_tether_open(toy):
    assert toy.classify(k=2, t=1)["s1"] == UNREACHABLE  # (s0, a1) is three steps from influence
    assert toy.classify(k=3, t=1)["s1"] == REACHABLE
    assert toy.classify(k=3, t=2)["s4"] == REACHABLE


# --- From the definitions ------------------------------------------------------------------------------


class Nominal(World):
    """The same world without the luck of the observation: what it would do again is drawn anew."""

    def __init__(self, world):
        vars(self).update({name: value for name, value in vars(world).items() if name != "rows"})

    @property
    def rows(self):
        return [self.nominal] * self.T


def is_near(world, rule, hits, k, t, pair):
    """Whether a pair is within k of influence at t by the rule alone, whatever its successors can do."""
    if t + k > world.T:
        return True
    if rule == "published":
        nodes = [(t, pair[0]), *((t + 1, j) for j in world.rows[t][pair])]
        return all(node_distance(world, *node) <= k for node in nodes)
    if rule == "printed":
        depth = depths(world)
        return all(depth.get(j, math.inf) <= k for j in world.nominal[pair])
    return dist(world, hits, t, pair) <= k  # what "assured" promises of every path, some path has to have


def reached(world, rule, hits, k, t):
    """States that s_0 reaches at t through allowed pairs; with each, what it knows of the run before it."""
    kept = None if rule == "assured" else allowed(world, rule, hits, k)
    layer = {(world.path.states[0], ())}
    for u in range(t):
        layer = {
            (j, (*flags, (s, a) in hits[u]) if kept is None else ())
            for s, flags in layer
            for a in world.available(s)
            if (can_take(world, hits, k, (s, a), list(flags)) if kept is None else (s, a) in kept[u])
            for j in world.rows[u][s, a]
        }
    return {s for s, _ in layer}


@pytest.mark.parametrize("rollout", ["counterfactual", "nominal"])
@pytest.mark.parametrize("rule", ["definition", "published", "printed", "assured"])
@FEWER
@given(data=st.data(), world=worlds(max_states=5, max_actions=2, max_steps=4, widest=2))
def test_every_state_is_in_its_class(rule, rollout, data, world):
    criterion = data.draw(criteria_for(rule))
    hits = influenced(world, criterion)
    k = data.draw(st.integers(1, world.T + 1))
    drawn = Nominal(world) if rollout == "nominal" else world
    for t in range(world.T + 1):
        classes = world.cf.classify(k=k, t=t, rule=rule, influence=in_package(criterion), rollout=rollout)
        check_classes(classes, world, drawn, rule, hits)


def check_classes(classes, world, drawn, rule, hits):
    k, t = classes.k, classes.t
    there = reached(drawn, rule, hits, k, t)
    for s in world.states:
        near = t + k > world.T or any(is_near(drawn, rule, hits, k, t, (s, a)) for a in world.available(s))
        if t < len(world.path.states) and s == world.path.states[t]:
            expected = OBSERVED
        elif s in there:
            assert near  # what is reached through allowed pairs has one
            expected = REACHABLE
        else:
            expected = UNREACHABLE if near else NOT
        assert classes[s] == expected, s


@FEWER
@given(data=st.data(), world=worlds(max_states=5, max_steps=4))
def test_a_longer_tether_takes_nothing_away(data, world):
    t = data.draw(st.integers(0, world.T))
    rule = data.draw(st.sampled_from(["definition", "published", "printed", "assured"]))
    order = [NOT, UNREACHABLE, REACHABLE, OBSERVED]
    before = [0] * len(world.states)
    for k in range(1, world.T + 2):
        classes = world.cf.classify(k=k, t=t, rule=rule)
        now = [order.index(classes[s]) for s in world.states]
        assert all(b <= n for b, n in zip(before, now, strict=True))
        before = now
    reachable = set(world.cf.reachable(t))
    for s in world.states:  # without a limit, all that can be reached is
        assert (classes[s] in (OBSERVED, REACHABLE)) == (s in reachable)
        assert classes[s] != NOT


def test_what_a_path_does_not_record_is_not_observed():
    case = tether.cases.toy()
    path = tether.Path(case.path.states[:2], case.path.actions[:2])  # s0 → s2 → ?
    classes = tether.counterfactual(case.mdp, path).classify(k=1, t=2)
    assert classes.counts()[OBSERVED] == 0
    assert classes["s5"] == REACHABLE


def test_a_test_of_influence_decides_also_over_the_nominal_rollout(grid):
    # What the observation moves is one thing, where one could have been without it another.
    counts = {
        eps: grid.classify(k=1, t=1, influence=tether.effective(eps), rollout="nominal").counts()[NOT]
        for eps in (0.0, 0.05, 0.2, 0.9)
    }
    assert list(counts.values()) == sorted(counts.values())
    assert counts[0.0] < counts[0.9] == 15


def test_what_the_observation_moves_is_allowed_over_the_nominal_rollout_too():
    # "stay" (½, ½ to 0, 1) led to 0. "mix" (¼, ¼, ½) shares half of it: r = 2, 2, 0, so P(0) = 1/D(2) = ½, P(2) = ½,
    # P(1) = 0, moved by ¼. Everywhere "stay" is the observed row, moved by ½.
    P = np.array([[[0.5, 0.5, 0], [0.25, 0.25, 0.5]]] * 3)
    cf = tether.counterfactual(
        tether.MDP.from_arrays(P, actions=["stay", "mix"]), tether.Path([0, 0, 0], ["stay", "stay"])
    )
    assert cf.strength(0, 0, "mix") == pytest.approx(0.25)
    for eps, state_2 in ((0.1, REACHABLE), (0.3, UNREACHABLE)):
        test = tether.effective(eps)
        assert list(cf.classify(k=1, t=1, influence=test).values()) == [OBSERVED, UNREACHABLE, state_2]
        nominal = cf.classify(k=1, t=1, influence=test, rollout="nominal")
        assert list(nominal.values()) == [OBSERVED, REACHABLE, state_2]


# --- A mapping -------------------------------------------------------------------------------------------


def test_classes_are_a_mapping(grid):
    classes = grid.classify(k=3, t=2)
    assert isinstance(classes, Mapping)
    assert list(classes) == list(range(16))
    assert len(classes) == 16
    assert set(classes.values()) <= {OBSERVED, REACHABLE, UNREACHABLE, NOT}
    assert 2 in classes
    assert 16 not in classes
    assert classes.get(16) is None
    assert (classes.k, classes.t) == (3, 2)
    with pytest.raises(KeyError, match="16"):
        classes[16]
    with pytest.raises(ValueError, match="read-only"):
        classes.codes[0] = 0


def test_states_and_counts_of_a_class(toy):
    classes = toy.classify(k=2, t=2, rollout="nominal")
    assert classes.counts() == {name: len(classes.states(name)) for name in (OBSERVED, REACHABLE, UNREACHABLE, NOT)}
    assert sum(classes.counts().values()) == 8
    assert classes.states(OBSERVED) == ("s5",)
    assert classes.states(REACHABLE) == ("s6",)
    assert classes.states(NOT) == tuple(s for s in toy.mdp.states if classes[s] == NOT)
    counts = ", ".join(f"{n} {name}" for name, n in classes.counts().items())
    assert repr(classes) == f"<Classes at t = 2 for k = 2: {counts}>"
    with pytest.raises(tether.QueryError, match="there is no 'reachable'"):
        classes.states("reachable")


def test_k_beyond_the_end_is_the_end(toy):
    assert toy.classify(k=99, t=1).k == 5
    assert dict(toy.classify(k=99, t=1)) == dict(toy.classify(k=5, t=1))


def test_the_rollout_is_counterfactual_unless_said_otherwise(toy):
    assert dict(toy.classify(k=1, t=1)) == dict(toy.classify(k=1, t=1, rollout="counterfactual"))
    assert dict(toy.classify(k=1, t=1)) != dict(toy.classify(k=1, t=1, rollout="nominal"))


# --- Refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [-1, 5, 1.0, "1", None, True], ids=repr)
def test_a_time_that_is_none(toy, t):
    with pytest.raises(tether.QueryError, match=f"t must be a whole number from 0 to 4, not {t!r}"):
        toy.classify(k=1, t=t)


@pytest.mark.parametrize("k", [0, -2, 1.0, "1", True], ids=repr)
def test_a_k_that_is_none(toy, k):
    with pytest.raises(tether.QueryError, match=f"k must be a whole number ≥ 1, not {k!r}"):
        toy.classify(k=k, t=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rollout": "real"}, "rollout must be 'counterfactual' or 'nominal', not 'real'"),
        ({"rule": "best"}, "rule must be one of"),
        ({"influence": 0.5}, "influence must be 'support'"),
        ({"rule": "published", "influence": tether.effective(0)}, "the rule 'published' is made of supports"),
    ],
)
def test_options_that_are_none(toy, options, message):
    with pytest.raises(tether.QueryError, match=message):
        toy.classify(k=1, t=1, **options)
