"""Why a pair is allowed or not: the record and the sentence, against the rules word for word."""

import math

import pytest
from brute import allowed, can_go_on, can_take, depths, dist_by_paths, influenced, node_distance, smallest_k
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, criteria, in_package, worlds

import tether


@pytest.fixture(scope="module")
def climb():
    """Stay or go up, explored for three steps from 0: state 3 is known, but not what one can do there."""
    mdp = tether.MDP.from_function(0, lambda s: ["stay", "up"], lambda s, a: {s + (a == "up"): 1.0}, horizon=3)
    return tether.counterfactual(mdp, tether.Path([0, 0, 0, 0], ["stay", "stay", "stay"]))


SMALL = {"max_states": 5, "max_actions": 2, "max_steps": 4, "widest": 2}


# --- Against the definitions -------------------------------------------------------------------------


def own_threshold(world, rule, hits, t, pair):
    """The smallest k that allows a pair by the rule alone, the end and the successors aside."""
    if rule == "definition":
        return dist_by_paths(world, hits, t, pair)
    if rule == "published":
        nodes = [(t, pair[0]), *((t + 1, j) for j in world.rows[t][pair])]
        return max(1, *(node_distance(world, *node) for node in nodes))
    depth = depths(world)
    return max(1, *(depth.get(j, math.inf) for j in world.nominal[pair]))


def check_path(world, hits, answer):
    """A way through the counterfactual MDP to an influenced pair, with no influenced one before."""
    assert answer.path[0] == (answer.t, answer.state, answer.action)
    for i, (t, s, a) in enumerate(answer.path):
        assert t == answer.t + i
        assert ((s, a) in hits[t]) == (i == len(answer.path) - 1)
        if i:
            before = answer.path[i - 1]
            assert s in world.rows[before[0]][before[1:]]


@pytest.mark.parametrize("rule", ["definition", "published", "printed"])
@FEWER
@given(data=st.data(), world=worlds(**SMALL))
def test_a_pair_of_the_whole_model(rule, data, world):
    criterion = data.draw(criteria()) if rule == "definition" else ("support", 0.0)
    t, k = data.draw(st.integers(0, world.T - 1)), data.draw(st.integers(1, world.T + 1))
    hits = influenced(world, criterion)
    least, kept = smallest_k(world, rule, hits), allowed(world, rule, hits, k)
    for pair in world.weights:  # whether s_0 can get there or not
        answer = world.cf.why(t, *pair, k=k, rule=rule, influence=in_package(criterion))
        assert (answer.t, answer.state, answer.action, answer.k, answer.rule) == (t, *pair, k, rule)
        assert answer.needed == least[t, *pair]
        assert answer.allowed == (pair in kept[t])
        own = own_threshold(world, rule, hits, t, pair)
        if own > k and t + k <= world.T:
            assert answer.reason == "not influenced"
        elif not answer.allowed:
            assert answer.reason == "successor"
        else:
            assert answer.reason == ("end" if t + k > world.T else "influenced")
        if answer.reason == "successor":
            assert answer.successor in world.rows[t][pair]
            assert not any((answer.successor, a) in kept[t + 1] for a in world.available(answer.successor))
        else:
            assert answer.successor is None
        if rule == "definition" and own < math.inf:
            assert answer.nearest == len(answer.path) == own
            check_path(world, hits, answer)
        else:
            assert answer.nearest is None
            assert answer.path == ()
        check_sentence(answer)


def check_sentence(answer):
    verdict = "is allowed" if answer.allowed else "is not allowed"
    start = f"At step {answer.t} {answer.action!r} in state {answer.state!r} {verdict} for k = {answer.k}: "
    assert answer.sentence.startswith(start)
    assert str(answer) == answer.sentence
    assert answer.sentence.endswith("." if answer.allowed else f" It takes k ≥ {answer.needed}.")
    assert ("It takes" in answer.sentence) == (not answer.allowed)
    assert f"({answer.reason})>" in repr(answer)
    if answer.successor is not None:
        assert f"it may lead to {answer.successor!r} at step {answer.t + 1}" in answer.sentence


def nodes_with_runs(world, hits, t):
    """Every (state, uninfluenced steps just passed) at t that some way from any state leads to."""
    layer = {(s, 0) for s in world.states}
    for u in range(t):
        layer = {
            (j, 0 if (s, a) in hits[u] else run + 1)
            for s, run in layer
            for a in world.available(s)
            for j in world.rows[u][s, a]
        }
    return layer


@FEWER
@given(data=st.data(), world=worlds(**SMALL))
def test_a_pair_after_a_run(data, world):
    criterion = data.draw(criteria())
    t, k = data.draw(st.integers(0, world.T - 1)), data.draw(st.integers(1, world.T + 1))
    run = data.draw(st.integers(0, t))
    hits = influenced(world, criterion)
    options = {"rule": "assured", "influence": in_package(criterion), "uninfluenced": run}
    possible = nodes_with_runs(world, hits, t)
    for pair in world.weights:
        if (pair[0], run) not in possible:
            with pytest.raises(tether.QueryError, match=f"no actions lead to state {pair[0]!r} at t = {t} after"):
                world.cf.why(t, *pair, k=k, **options)
            continue
        answer = world.cf.why(t, *pair, k=k, **options)
        hit = pair in hits[t]
        # The question is about what comes: an influenced pair ends the run before it, however long that was.
        past = [True] * t if hit else [True] * (t - run) + [False] * run
        least = [at for at in range(1, world.T + 2) if can_take(world, hits, at, pair, past)]
        assert answer.needed == least[0]
        assert answer.allowed == (k in least)
        if not hit and run + 1 >= k:
            assert answer.reason == "run"
        elif not answer.allowed:
            assert answer.reason == "successor"
            assert answer.successor in world.rows[t][pair]
            assert not can_go_on(world, hits, k, answer.successor, [*past, hit])
        else:
            assert answer.reason == ("influenced" if hit else "run")
        assert answer.nearest is None
        assert answer.path == ()
        check_sentence(answer)


# --- Sentences -----------------------------------------------------------------------------------------

SENTENCES = {
    "directly": (
        ("toy", 0, "s0", "a0", 1, "definition"),
        "it is known ground itself.",
    ),
    "not near enough": (
        ("toy", 0, "s0", "a1", 1, "definition"),
        "the nearest known ground is 3 steps away, through 'a1' in 's0' at step 0, then 'a0' in 's1' at step 1, "
        "then 'a0' in 's4' at step 2. It takes k ≥ 3.",
    ),
    "near enough": (
        ("toy", 1, "s1", "a0", 2, "definition"),
        "the nearest known ground is 2 steps away, through 'a0' in 's1' at step 1, then 'a0' in 's4' at step 2.",
    ),
    "never": (
        ("grid", 0, 15, "up", 1, "definition"),
        "no path from here ever comes back to known ground. It takes k ≥ 12.",
    ),
    "the end": (
        ("grid", 0, 15, "up", 12, "definition"),
        "fewer than k = 12 steps are left, known ground is assumed.",
    ),
    "a successor": (
        ("grid", 0, 0, "up", 1, "definition"),
        "it may lead to 4 at step 1, where no allowed action is left. It takes k ≥ 6.",
    ),
    "published, near": (
        ("toy", 0, "s0", "a0", 1, "published"),
        "it and its successors lie within 1 step of the observed supports.",
    ),
    "published, far": (
        ("toy", 0, "s0", "a1", 1, "published"),
        "it and its successors lie within 2 steps of the observed supports. It takes k ≥ 2.",
    ),
    "published, never": (
        ("grid", 0, 15, "up", 1, "published"),
        "it and its successors do not all come near an observed support again. It takes k ≥ 12.",
    ),
    "published, the end": (
        ("toy", 0, "s0", "a0", 5, "published"),
        "fewer than k = 5 steps are left, known ground is assumed.",
    ),
    "published, a successor": (
        ("grid", 0, 0, "up", 1, "published"),
        "it may lead to 4 at step 1, where no allowed action is left. It takes k ≥ 7.",
    ),
    "printed, near": (
        ("toy", 0, "s0", "a0", 1, "printed"),
        "its successors lie within 1 step of the observed supports.",
    ),
    "printed, far": (
        ("toy", 0, "s0", "a1", 1, "printed"),
        "its successors lie within 2 steps of the observed supports. It takes k ≥ 2.",
    ),
    "printed, never": (
        ("grid", 0, 15, "up", 1, "printed"),
        "its successors do not all come near an observed support again. It takes k ≥ 12.",
    ),
    "assured, influenced": (
        ("toy", 0, "s0", "a0", 1, "assured"),
        "it is known ground, which ends any run off it.",
    ),
    "assured, too long": (
        ("toy", 0, "s0", "a1", 1, "assured"),
        "it makes 1 step in a row off known ground. It takes k ≥ 3.",
    ),
    "assured, a successor": (
        ("toy", 0, "s0", "a1", 2, "assured"),
        "it may lead to 's1' at step 1, where no allowed action is left. It takes k ≥ 3.",
    ),
    "assured, short enough": (
        ("toy", 0, "s0", "a1", 3, "assured"),
        "it makes 1 step in a row off known ground, fewer than 3.",
    ),
    "assured, after a run": (
        ("toy", 1, "s1", "a0", 2, "assured", 1),
        "it makes 2 steps in a row off known ground. It takes k ≥ 3.",
    ),
}


@pytest.mark.parametrize(("asked", "message"), SENTENCES.values(), ids=SENTENCES)
def test_sentences(toy, grid, asked, message):
    case, t, state, action, k, rule, *run = asked
    answer = {"toy": toy, "grid": grid}[case].why(t, state, action, k=k, rule=rule, uninfluenced=run[0] if run else 0)
    check_sentence(answer)
    assert answer.sentence.partition(": ")[2] == message
    assert repr(answer) == (
        f"<Why: t = {t}, {state!r}, {action!r}, k = {k}: {'' if answer.allowed else 'not '}allowed ({answer.reason})>"
    )


def test_other_tests_of_influence(grid):
    # Left from cell 2 at step 2 overlaps what was observed, but is far from it, and barely moved by it.
    assert grid.why(2, 2, "left", k=1).nearest == 1
    distance = 0.9 - 0.1 / 3  # of (9/10 to 1) from (9/10 to 6): what one has more than the other
    assert grid.why(2, 2, "left", k=1, influence=tether.tv(distance + 1e-9)).nearest == 1
    assert grid.why(2, 2, "left", k=1, influence=tether.tv(distance - 1e-9)).nearest != 1
    strength = grid.strength(2, 2, "left")
    assert grid.why(2, 2, "left", k=1, influence=tether.effective(strength - 1e-9)).nearest == 1
    assert grid.why(2, 2, "left", k=1, influence=tether.effective(strength + 1e-9)).nearest != 1


def test_k_beyond_the_end_is_the_end(toy):
    assert toy.why(0, "s0", "a1", k=99).k == 5
    assert toy.why(0, "s0", "a1", k=99).sentence == toy.why(0, "s0", "a1", k=5).sentence


def test_the_successor_that_is_stuck_after_this_run():
    # x was stayed in. From x one may go to y, from where the way back is influenced, or to z, which is for ever.
    ways = [("x", "stay", "x", 1.0), ("x", "go", "y", 0.5), ("x", "go", "z", 0.5), ("y", "stay", "x", 1.0)]
    mdp = tether.MDP.from_table(*zip(*ways, ("z", "stay", "z", 1.0), strict=True))
    cf = tether.counterfactual(mdp, tether.Path(["x"] * 4, ["stay"] * 3))
    answer = cf.why(0, "x", "go", k=2, rule="assured")
    assert (answer.reason, answer.successor, answer.needed) == ("successor", "z", 4)


# --- Where s_0 cannot get ------------------------------------------------------------------------------


def test_a_state_that_the_observation_rules_out(toy):
    answer = toy.why(1, "s3", "a0", k=1)
    assert "s3" not in toy.reachable(1)
    assert answer.allowed
    assert answer.path == ((1, "s3", "a0"),)
    assert toy.why(1, "s3", "a1", k=1).path == ((1, "s3", "a1"), (2, "s6", "a0"))


@pytest.mark.parametrize("rule", ["definition", "published", "printed", "assured"])
def test_a_state_that_was_not_explored_allows_nothing(climb, rule):
    answer = climb.why(0, 2, "up", k=4, rule=rule)
    assert not answer.allowed
    assert answer.needed is None
    assert (answer.reason, answer.successor) == ("successor", 3)
    assert answer.sentence.endswith("it may lead to 3 at step 1, where no allowed action is left. No k allows it.")
    assert climb.why(2, 2, "up", k=4, rule=rule, **({"uninfluenced": 2} if rule == "assured" else {})).allowed


# --- Refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, 1.0, "1", True], ids=repr)
def test_a_k_that_is_none(toy, k):
    with pytest.raises(tether.QueryError, match=f"k must be a whole number ≥ 1, not {k!r}"):
        toy.why(0, "s0", "a0", k=k)


@pytest.mark.parametrize("t", [-1, 4, 0.0, "0", None, False], ids=repr)
def test_a_time_that_is_none(toy, t):
    with pytest.raises(tether.QueryError, match=f"t must be a whole number from 0 to 3, not {t!r}"):
        toy.why(t, "s0", "a0", k=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "s9"}, "the model has no state 's9'"),
        ({"action": "a9"}, "the model has no action 'a9'"),
        ({"state": "s1", "action": "a1"}, "state 's1': action 'a1' is not available; available are 'a0'"),
        ({"rule": "best"}, "rule must be one of 'definition', 'published', 'printed', 'assured', not 'best'"),
        ({"influence": "strong"}, "influence must be 'support'"),
        ({"rule": "printed", "influence": tether.tv(0.5)}, "the rule 'printed' is made of supports"),
        ({"uninfluenced": 1}, "uninfluenced = 1: before t = 0 there can be up to 0 uninfluenced steps"),
        ({"t": 2, "uninfluenced": 1}, "only the rule 'assured' remembers them"),
        ({"rule": "assured", "uninfluenced": -1}, "uninfluenced must be a whole number ≥ 0, not -1"),
        ({"t": 2, "rule": "assured", "uninfluenced": 3}, "before t = 2 there can be up to 2 uninfluenced steps"),
        (
            {"t": 1, "state": "s2", "rule": "assured", "uninfluenced": 1},
            "no actions lead to state 's2' at t = 1 after 1 uninfluenced steps",
        ),
    ],
)
def test_questions_that_are_none(toy, options, message):
    asked = {"t": 0, "state": "s0", "action": "a0", "k": 1, **options}
    with pytest.raises(tether.QueryError, match=message):
        toy.why(**asked)
