"""One-step influence: three tests on a pair, against their definitions, and where they must agree."""

from itertools import pairwise

import numpy as np
import pytest
from brute import influenced
from hypothesis import given
from hypothesis import strategies as st
from twins import episodes, normalised
from worlds import EPS, SUPPORT, Criterion, World, criteria, in_package, worlds

import tether
from tether.influence.kappa import thresholds
from tether.influence.one_step import make_influence


def found(cf, influence):
    """The pairs that the package calls influenced, by label, for each time; of states that s_0 can reach."""
    mdp, form = cf.mdp, cf.mdp.form
    layers = thresholds(cf.graph, "definition", make_influence(influence)).influenced
    states = [np.searchsorted(form.pair_start, pairs, side="right") - 1 for pairs in layers]
    return [
        [(mdp.states[s], mdp.actions[form.pair_action[x]]) for s, x in zip(of, pairs, strict=True)]
        for of, pairs in zip(states, layers, strict=True)
    ]


def expected(world: World, criterion: Criterion):
    """The same from the definition."""
    hits = influenced(world, criterion)
    return [{pair for pair in hits[t] if pair[0] in world.cf.reachable(t)} for t in range(world.T)]


# --- By hand -------------------------------------------------------------------------------------

# In state "here" the action "seen" led to x. Distances to the observed row (1/2, 1/2, 0), and
# counterfactual rows, are worked out by hand.
ROWS = {
    "seen": {"x": 0.5, "y": 0.5},  # distance 0;   P_cf = (1, 0, 0),       strength 1/2
    "same": {"x": 0.5, "y": 0.5},  # distance 0;   P_cf = (1, 0, 0),       strength 1/2
    "more": {"x": 0.25, "y": 0.75},  # distance 1/4; P_cf = (1/2, 1/2, 0),   strength 1/4
    "half": {"y": 0.5, "z": 0.5},  # distance 1/2; P_cf = (0, 1/3, 2/3),   strength 1/6
    "sure": {"x": 1.0},  # distance 1/2; a point mass stays one,   strength 0
    "rare": {"y": 0.25, "z": 0.75},  # distance 3/4
    "else": {"z": 1.0},  # distance 1
}


def fork(*, recorded: bool = True) -> World:
    ends = {(s, "seen"): {s: 1.0} for s in "xyz"}
    weights = {("here", a): row for a, row in ROWS.items()} | ends
    path = tether.Path(["here", "x"] if recorded else ["here"], ["seen"])
    return World(["here", "x", "y", "z"], list(ROWS), weights, path)


BELOW = np.nextafter


@pytest.mark.parametrize(
    ("influence", "actions"),
    [
        ("support", "seen same more half sure rare"),
        (tether.tv(0), "seen same"),
        (tether.tv(BELOW(0.25, 0)), "seen same"),
        (tether.tv(0.25), "seen same more"),
        (tether.tv(BELOW(0.5, 0)), "seen same more"),
        (tether.tv(0.5), "seen same more half sure"),
        (tether.tv(0.75), "seen same more half sure rare"),
        (tether.tv(BELOW(1.0, 0)), "seen same more half sure rare"),
        (tether.effective(), "seen same more half rare"),
        (tether.effective(0.16), "seen same more half"),
        (tether.effective(0.17), "seen same more"),
        (tether.effective(0.24), "seen same more"),
        (tether.effective(0.26), "seen same"),
        (tether.effective(0.49), "seen same"),
        (tether.effective(0.51), "seen"),
        (tether.effective(0.99), "seen"),
    ],
    ids=str,
)
def test_by_hand(influence, actions):
    assert [a for _, a in found(fork().cf, influence)[0]] == actions.split()


@pytest.mark.parametrize(
    ("influence", "actions"),
    [
        ("support", "seen same more half sure rare"),
        (tether.tv(0.25), "seen same more"),
        (tether.effective(), "seen"),  # the rows stay nominal, so only the observed pair counts
    ],
    ids=str,
)
def test_an_outcome_that_was_not_recorded(influence, actions):
    assert [a for _, a in found(fork(recorded=False).cf, influence)[0]] == actions.split()


def test_overlap_is_not_influence_on_the_sepsis_path():
    # Checked by independent brute force over all 11,520 pairs: from t = 3 on the catastrophic path sits in a
    # state that absorbs, 16 rows overlap with the observed one a step, and none of them changes.
    case = tether.cases.sepsis()
    cf = tether.counterfactual(case.mdp, case.paths["catastrophic"])
    overlapping, moved = found(cf, "support"), found(cf, tether.effective())
    for t in range(3, cf.T):
        reachable = set(cf.reachable(t))
        meeting = [
            (s, a)
            for s in case.mdp.states
            for a in case.mdp.actions_in(s)
            if cf.path.states[t] in case.mdp.row(s, a)[0]
        ]
        assert len(meeting) == 16
        assert overlapping[t] == [pair for pair in meeting if pair[0] in reachable]
        assert all(cf.strength(t, *pair) == 0 for pair in meeting)
        assert moved[t] == [(cf.path.states[t], cf.path.actions[t])]


# --- Against the definitions, over random worlds -------------------------------------------------


@given(worlds(), criteria())
def test_every_pair_as_the_definition_says(world, criterion):
    pairs = found(world.cf, in_package(criterion))
    assert [set(layer) for layer in pairs] == expected(world, criterion)
    assert all(len(layer) == len(set(layer)) for layer in pairs)


@given(episodes())
def test_effective_without_a_threshold_asks_whether_the_row_changes_at_all(episode):
    cf = tether.counterfactual(episode.mdp(), episode.path)
    for t, layer in enumerate(found(cf, tether.effective(0))):
        observed = (episode.path.states[t], episode.path.actions[t])
        moved = {
            (s, a)
            for s, a in episode.weights
            if s in cf.reachable(t) and episode.exact(t, s, a) != normalised(episode.row(s, a))
        }
        assert set(layer) == moved | {observed}


@given(worlds())
def test_the_observed_pair_is_always_influenced(world):
    strictest = ["support", tether.tv(0), tether.tv(0.5), tether.effective(0), tether.effective(BELOW(1.0, 0))]
    for influence in strictest:
        for t, layer in enumerate(found(world.cf, influence)):
            assert world.observed[t] in layer


@pytest.mark.parametrize("weights", [[4, 4, 2, 3, 4, 3], [3, 3, 4, 3], [1] * 10, [0.1, 0.7, 0.2]])
def test_a_row_is_at_distance_zero_from_itself(weights):
    # The first two do not sum to 1 in floating point, however they are normalised.
    states = list(range(len(weights)))
    world = World(
        states, ["go"], {(s, "go"): dict(enumerate(weights)) for s in states}, tether.Path([0, 1, 1], ["go"] * 2)
    )
    assert found(world.cf, tether.tv(0)) == [[(0, "go")], [(1, "go")]]


@given(worlds())
def test_every_test_implies_overlapping_supports(world):
    overlapping = [set(layer) for layer in found(world.cf, "support")]
    for test in (tether.tv(0.3), tether.tv(BELOW(1.0, 0)), tether.effective(0), tether.effective(0.3)):
        assert all(set(layer) <= over for layer, over in zip(found(world.cf, test), overlapping, strict=True))


@given(worlds().filter(lambda world: all(w >= 1 for row in world.weights.values() for w in row.values())))
def test_tv_just_below_one_is_support(world):
    # Not so with outcomes as rare as the rounding of 1: they are beyond "just below".
    assert found(world.cf, tether.tv(1 - 1e-9)) == found(world.cf, "support")


@given(worlds(), st.sampled_from(["tv", "effective"]))
def test_tv_admits_more_and_effective_fewer_as_the_threshold_grows(world, kind):
    by_eps = [found(world.cf, in_package((kind, eps))) for eps in EPS]
    for lower, higher in pairwise(by_eps):
        for few, many in zip(lower, higher, strict=True):
            assert set(few) <= set(many) if kind == "tv" else set(few) >= set(many)


@given(worlds())
def test_influenced_pairs_come_in_ascending_order(world):
    for influence in ("support", tether.tv(0.4), tether.effective(0.1)):
        for pairs in thresholds(world.cf.graph, "definition", make_influence(influence)).influenced:
            assert np.all(np.diff(pairs) > 0)


# --- As records ----------------------------------------------------------------------------------


def test_tests_are_plain_records():
    assert tether.tv(0.25) == tether.tv(0.25) != tether.tv(0.5)
    assert tether.tv(0.25) != tether.effective(0.25)
    assert tether.effective() == tether.effective(0.0) == tether.effective(0)
    assert len({tether.tv(0.25), tether.tv(0.25), tether.effective(0.25)}) == 2
    assert [str(test) for test in (make_influence("support"), tether.tv(0.25), tether.effective())] == [
        "support",
        "tv(0.25)",
        "effective(0)",
    ]
    assert tether.tv(np.float64(0.25)) == tether.tv(0.25)
    assert make_influence(make_influence("support")) == make_influence("support")


@pytest.mark.parametrize("make", [tether.tv, tether.effective])
@pytest.mark.parametrize(
    "eps", [-0.1, -1e-300, 1, 1.0, 1.5, float("nan"), float("inf"), -float("inf"), "0.5", None, True, False, [0.5], 1j]
)
def test_a_threshold_outside_its_range(make, eps):
    with pytest.raises(tether.QueryError, match=r"eps must be a number with 0 ≤ eps < 1, not"):
        make(eps)


UNKNOWN = r"influence must be 'support', tether.tv\(eps\) or tether.effective\(eps\), not"


@pytest.mark.parametrize(
    ("influence", "message"),
    [(unknown, UNKNOWN) for unknown in ("supports", "tv", "effective", "", None, 0.5, 3)]
    + [(tether.tv, r"tether.tv lacks its eps; write tether.tv\(0.5\)")]
    + [(tether.effective, r"tether.effective lacks its eps; write tether.effective\(0.5\)")],
)
def test_an_unknown_influence(influence, message):
    cf = fork().cf
    for ask in (
        lambda: cf.plan(1, 1, influence=influence),
        lambda: cf.sweep(influence=influence),
        lambda: cf.choose_k(1, 0.0, influence=influence),
    ):
        with pytest.raises(tether.QueryError, match=message):
            ask()


@pytest.mark.parametrize("rule", ["published", "printed"])
@pytest.mark.parametrize("influence", [tether.tv(0.5), tether.effective(0)], ids=str)
def test_tests_on_pairs_do_not_go_with_rules_made_of_supports(rule, influence):
    cf = fork().cf
    message = rf"'{rule}' is made of supports and takes only influence='support'; .* with 'definition' and 'assured'"
    for ask in (
        lambda: cf.plan(1, 1, rule=rule, influence=influence),
        lambda: cf.sweep(rule=rule, influence=influence),
        lambda: cf.choose_k(1, 0.0, rule=rule, influence=influence),
    ):
        with pytest.raises(tether.QueryError, match=message):
            ask()


def test_support_goes_with_every_rule():
    cf = fork().cf
    for rule in ("definition", "published", "printed", "assured"):
        assert str(cf.plan(1, 1, rule=rule, influence=in_package(SUPPORT)).influence) == "support"
