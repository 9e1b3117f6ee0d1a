"""The counterfactual MDP: which states and rows it holds, against brute force, and how it answers."""

from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from twins import episodes, normalised, tv

import tether


@pytest.fixture(scope="module")
def grid():
    return tether.cases.grid_world()


@pytest.fixture(scope="module")
def cf(grid):
    return tether.counterfactual(grid.mdp, grid.path)


def edits(cf, t):
    """Pairs with an edited row at step t, by label."""
    mdp, form = cf.mdp, cf.mdp.form
    pairs = cf.graph.layers[t].edits.pairs
    states = np.searchsorted(form.pair_start, pairs, side="right") - 1
    return [(mdp.states[s], mdp.actions[a]) for s, a in zip(states, form.pair_action[pairs], strict=True)]


# --- Against brute force over random models ------------------------------------------------------


@given(episodes())
def test_layers_are_what_can_be_reached(episode):
    cf = tether.counterfactual(episode.mdp(), episode.path)
    layers = episode.layers()
    assert len(layers) == cf.T + 1 == episode.path.T + 1
    for t, layer in enumerate(layers):
        assert list(cf.reachable(t)) == [s for s in episode.states if s in layer]  # in the model's order


@given(episodes())
def test_a_walk_on_all_cores_finds_the_same(episode):
    mdp = episode.mdp()
    alone = tether.counterfactual(mdp, episode.path).graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tether._kernels.parallel.LARGE", 1)
        together = tether.counterfactual(mdp, episode.path).graph
    for t in range(alone.T):
        np.testing.assert_array_equal(together.states(t + 1), alone.states(t + 1))
        np.testing.assert_array_equal(together.layers[t].edits.pairs, alone.layers[t].edits.pairs)


@given(episodes())
def test_every_row_is_exact_whether_it_can_be_reached_or_not(episode):
    cf = tether.counterfactual(episode.mdp(), episode.path)
    for t in range(cf.T):
        for s, a in episode.weights:
            exact = episode.exact(t, s, a)
            labels, row = cf.row(t, s, a)
            assert list(labels) == [j for j, x in zip(episode.states, exact, strict=True) if x]
            assert max(abs(Fraction(x) - y) for x, y in zip(row, filter(None, exact), strict=True)) < 1e-12
            strength = float(tv(exact, normalised(episode.row(s, a))))
            assert abs(cf.strength(t, s, a) - strength) < 1e-12
            assert (cf.strength(t, s, a) == 0) == (strength == 0)


@given(episodes())
def test_only_reachable_rows_that_meet_the_observed_one_are_edited(episode):
    cf = tether.counterfactual(episode.mdp(), episode.path)
    layers = episode.layers()
    for t in range(cf.T):
        expected = {(s, a) for s, a in episode.weights if s in layers[t] and episode.meets(t, s, a)}
        assert len(edits(cf, t)) == len(expected)
        assert set(edits(cf, t)) == expected
    assert cf.n_edited == sum(len(edits(cf, t)) for t in range(cf.T))


@given(episodes())
def test_the_observed_episode_is_repeated_by_the_observed_actions(episode):
    cf = tether.counterfactual(episode.mdp(), episode.path)
    path = episode.path
    for t, (s, a) in enumerate(zip(path.states, path.actions, strict=False)):
        assert s in cf.reachable(t)
        if t + 1 < len(path.states):
            assert cf.row(t, s, a)[0] == (path.states[t + 1],)


@given(episodes())
def test_the_same_question_gets_the_same_bits(episode):
    one, two = (tether.counterfactual(episode.mdp(), episode.path) for _ in range(2))
    for t in range(one.T):
        for s, a in episode.weights:
            first, again, other = one.row(t, s, a), one.row(t, s, a), two.row(t, s, a)
            assert first[0] == again[0] == other[0]
            assert first[1].tobytes() == again[1].tobytes() == other[1].tobytes()


# --- Small models by hand ----------------------------------------------------------------------


def test_a_model_of_one_state():
    mdp = tether.MDP.from_table(["here"], ["wait"], ["here"], [1.0])
    cf = tether.counterfactual(mdp, tether.Path(["here", "here"], ["wait"]))
    assert cf.T == 1
    assert cf.reachable(0) == cf.reachable(1) == ("here",)
    assert cf.row(0, "here", "wait")[0] == ("here",)
    assert cf.strength(0, "here", "wait") == 0.0
    assert repr(cf).startswith("<CounterfactualMDP: 1 step, 2 states reachable over time, 1 row")


FORK = (["a", "a", "b", "c"], ["go", "go", "go", "go"], ["b", "c", "b", "c"], [0.25, 0.75, 1.0, 1.0])


def test_what_was_observed_rules_the_rest_out():
    cf = tether.counterfactual(tether.MDP.from_table(*FORK), tether.Path(["a", "b"], ["go"]))
    assert cf.reachable(1) == ("b",)
    assert cf.row(0, "a", "go")[0] == ("b",)
    assert cf.row(0, "a", "go")[1].tolist() == [1.0]
    assert cf.strength(0, "a", "go") == 0.75  # TV of (1, 0) and (1/4, 3/4)


def test_an_outcome_nobody_wrote_down_says_nothing():
    cf = tether.counterfactual(tether.MDP.from_table(*FORK), tether.Path(["a"], ["go"]))
    assert cf.T == 1
    assert cf.reachable(1) == ("b", "c")
    assert cf.row(0, "a", "go")[0] == ("b", "c")
    assert cf.row(0, "a", "go")[1].tolist() == [0.25, 0.75]
    assert cf.strength(0, "a", "go") == 0.0
    assert cf.standard_error(0, "a", "go").tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mechanism", ["gumbel-max", "gumbel-max-sampled"])
def test_an_unrecorded_last_step_is_nominal_bit_for_bit(grid, mechanism):
    path = tether.Path(grid.path.states[:3], grid.path.actions[:3])  # 0 → 1 → 2 → ?
    cf = tether.counterfactual(grid.mdp, path, mechanism=mechanism)
    assert not path.last_recorded
    for s in grid.mdp.states:
        for a in grid.mdp.actions:
            labels, nominal = cf.nominal_row(2, s, a)
            assert cf.row(2, s, a)[0] == labels
            assert cf.row(2, s, a)[1].tobytes() == nominal.tobytes()
            assert cf.strength(2, s, a) == 0.0
            assert cf.standard_error(2, s, a).tolist() == [0.0] * len(labels)
    assert cf.strength(1, 1, "up") > 0  # the steps before were recorded


def test_the_pit_by_hand(cf):
    # t = 2: in cell 2, down (9/10 to 6; 1/30 each to 1, 2, 3) led to 6. Asked: left (9/10 to 1; 1/30 each to 2, 3, 6).
    # r_1 = 1/27, r_2 = r_3 = 1, r_6 = 27; D(1/27) = 1, D(1) = 28/15, D(27) = 27, so P(6) = 1/27.
    # F gains 26/27 · 15/28 = 65/126 up to 1, and 26 / (28/15 · 27) = 65/126 from there to 27:
    # P(2) = P(3) = 1/30 · 65/126 = 13/756 and P(1) = 9/10 · 130/126 = 13/14. The nominal row gives 1 only 9/10.
    labels, row = cf.row(2, 2, "left")
    assert labels == (1, 2, 3, 6)
    np.testing.assert_allclose(row, [13 / 14, 13 / 756, 13 / 756, 1 / 27], rtol=1e-13)
    # TV: what 1 and 6 gain, 13/14 - 9/10 + 1/27 - 1/30.
    assert cf.strength(2, 2, "left") == pytest.approx(13 / 14 - 9 / 10 + 1 / 27 - 1 / 30, abs=1e-15)


def test_the_toy_of_the_paper():
    # s3 cannot be reached: (s0, a0) led to s2, and a1 leads to s1.
    toy = tether.cases.toy()
    cf = tether.counterfactual(toy.mdp, toy.path)
    assert [cf.reachable(t) for t in range(5)] == [("s0",), ("s1", "s2"), ("s4", "s5"), ("s7",), ("s7",)]
    assert cf.row(0, "s0", "a0")[0] == ("s2",)
    assert cf.row(0, "s3", "a1")[0] == ("s6",)  # still a question one may ask


# --- Questions -----------------------------------------------------------------------------------

ASK = {
    "row": lambda cf, t: cf.row(t, 0, "up"),
    "nominal_row": lambda cf, t: cf.nominal_row(t, 0, "up"),
    "strength": lambda cf, t: cf.strength(t, 0, "up"),
    "standard_error": lambda cf, t: cf.standard_error(t, 0, "up"),
}


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK.keys())
@pytest.mark.parametrize("t", [-1, 11, 1.0, "0", None, True], ids=repr)
def test_a_time_that_does_not_exist(cf, ask, t):
    with pytest.raises(tether.QueryError, match="t must be a whole number from 0 to 10, not") as error:
        ask(cf, t)
    assert str(error.value).endswith(f"not {t!r}")
    assert error.value.problems[0].value == t


@pytest.mark.parametrize("t", [-1, 12, 11.0, "0", None, False], ids=repr)
def test_a_time_nobody_can_be_reached_at(cf, t):
    with pytest.raises(tether.QueryError, match="t must be a whole number from 0 to 11, not") as error:
        cf.reachable(t)
    assert str(error.value).endswith(f"not {t!r}")


def test_true_is_not_the_time_1():
    cf = tether.counterfactual(tether.MDP.from_table(*FORK), tether.Path(["a", "b"], ["go"]))
    with pytest.raises(tether.QueryError, match="not True"):
        cf.reachable(True)


def test_times_may_be_numpy_integers(cf):
    assert cf.reachable(np.int64(11)) == cf.reachable(11)
    assert cf.row(np.int32(0), 0, "up")[0] == cf.row(0, 0, "up")[0]


ASK_PAIR = {
    "row": lambda cf, *pair: cf.row(0, *pair),
    "nominal_row": lambda cf, *pair: cf.nominal_row(0, *pair),
    "strength": lambda cf, *pair: cf.strength(0, *pair),
    "standard_error": lambda cf, *pair: cf.standard_error(0, *pair),
}


@pytest.mark.parametrize("ask", ASK_PAIR.values(), ids=ASK_PAIR.keys())
def test_states_and_actions_that_do_not_exist(ask):
    mdp = tether.MDP.from_table(
        ["a", "a", "b"], ["go", "stay", "stay"], ["b", "a", "b"], [1.0, 1.0, 1.0], actions=["go", "stay"]
    )
    cf = tether.counterfactual(mdp, tether.Path(["a", "b"], ["go"]))
    with pytest.raises(tether.QueryError, match="the model has no state 'z'; it has 2 states: 'a', 'b'") as error:
        ask(cf, "z", "go")
    assert error.value.problems[0].state == "z"
    with pytest.raises(
        tether.QueryError, match="the model has no action 'fly'; it has 2 actions: 'go', 'stay'"
    ) as error:
        ask(cf, "a", "fly")
    assert error.value.problems[0].action == "fly"
    with pytest.raises(tether.QueryError, match="state 'b': action 'go' is not available; available are 'stay'"):
        ask(cf, "b", "go")


def test_a_state_the_model_was_not_explored_in():
    # Explored for two steps from 0: state 2 is known as an outcome only. From 1 it is reached after one step.
    mdp = tether.MDP.from_function(0, lambda s: ["stay", "up"], lambda s, a: {s + (a == "up"): 1.0}, horizon=2)
    tether.counterfactual(mdp, tether.Path([0, 0, 0], ["stay", "stay"]))
    with pytest.raises(tether.PathError, match="t = 1: state 2 can be reached, but the model has no action") as error:
        tether.counterfactual(mdp, tether.Path([1, 1, 1], ["stay", "stay"]))
    assert error.value.problems[0].state == 2
    assert error.value.problems[0].time == 1


# --- What it is made of --------------------------------------------------------------------------


def test_it_cannot_be_changed(cf):
    with pytest.raises(FrozenInstanceError):
        cf.mdp = None
    with pytest.raises(FrozenInstanceError):
        cf.graph.layers = ()
    layer = cf.graph.layers[0]
    kept = layer.edits
    arrays = [layer.states, cf.graph.last_states, *kept.arrays]
    arrays += [cf.observation.states, cf.observation.actions, cf.observation.pairs]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_an_answer_is_a_copy(cf):
    before = cf.row(2, 2, "left")[1].copy()
    for row in (cf.row(2, 2, "left")[1], cf.nominal_row(2, 2, "left")[1]):
        row[:] = 0.5
    assert cf.row(2, 2, "left")[1].tobytes() == before.tobytes()
    assert cf.nominal_row(2, 2, "left")[1][0] == pytest.approx(0.9)


def test_it_prints_in_one_line(cf):
    nodes = sum(len(cf.reachable(t)) for t in range(12))
    expected = (
        f"<CounterfactualMDP: 11 steps, {nodes} states reachable over time, {cf.n_edited} rows edited, gumbel-max>"
    )
    assert repr(cf) == expected


def test_it_is_small(cf, grid):
    # Held dense, it would take a copy of P (S × A × S floats) for each of the steps.
    dense = cf.T * grid.mdp.n_states**2 * grid.mdp.n_actions * 8
    assert 0 < cf.nbytes < dense / 2


def test_it_remembers_what_it_was_made_of(cf, grid):
    assert cf.mdp is grid.mdp
    assert cf.path is grid.path
    assert cf.mechanism == tether.GumbelMax()
    assert cf.observation.states.tolist() == list(grid.path.states)  # the grid's labels are its indices
    assert cf.T == 11


@given(episodes())
def test_edited_rows_hold_only_what_can_happen(episode):
    mdp = episode.mdp()
    cf, form = tether.counterfactual(mdp, episode.path), mdp.form
    for layer in cf.graph.layers:
        rows = layer.edits
        assert np.all(rows.probability > 0)
        for i, pair in enumerate(rows.pairs):
            next_state, probability = rows.row(i)
            assert np.all(np.diff(next_state) > 0)
            assert np.isin(next_state, form.next_state[mdp.entries(int(pair))]).all()
            assert probability.sum() == pytest.approx(1.0)


@given(episodes())
def test_items_of_edited_rows_are_found_among_the_entries_of_the_model(episode):
    mdp = episode.mdp()
    cf, form = tether.counterfactual(mdp, episode.path), mdp.form
    for layer in cf.graph.layers:
        rows = layer.edits
        at = np.arange(rows.pairs.size)[::-1]  # in any order
        owner, entry, probability = rows.expand(form, at)
        for n, i in enumerate(at):
            here = owner == n
            assert form.next_state[entry[here]].tolist() == rows.row(i)[0].tolist()
            assert probability[here].tolist() == rows.row(i)[1].tolist()
            of_model = mdp.entries(int(rows.pairs[i]))
            assert np.isin(entry[here], np.arange(of_model.start, of_model.stop)).all()
