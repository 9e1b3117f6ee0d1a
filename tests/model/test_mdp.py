"""The model: one and the same from three constructors, asked by label, immutable, and able to describe itself."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether import MDP

WEATHER = MDP.from_table(
    state=["sun", "sun", "rain", "rain", "rain"],
    action=["walk", "walk", "walk", "walk", "dance"],
    next_state=["sun", "rain", "rain", "sun", "sun"],
    probability=[0.75, 0.25, 0.5, 0.5, 1.0],
    reward=[4, -4, -2, 6, 9],
)


def refuse(ask):
    with pytest.raises(tether.QueryError) as caught:
        ask()
    return caught.value


@st.composite
def arrays(draw):
    """P and R of a small random model; in every state the first action is available, others perhaps not."""
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    size = n_states * n_actions * n_states
    weights = np.array(draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)), dtype=float)
    weights = weights.reshape(n_states, n_actions, n_states)
    for s in range(n_states):
        if not weights[s, 0].any():
            weights[s, 0, draw(st.integers(0, n_states - 1))] = 1.0
    total = weights.sum(axis=2, keepdims=True)
    P = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    values = draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size))
    R = np.array(values, dtype=float).reshape(P.shape)
    if draw(st.booleans()):
        R = R[:, :, 0]
    return P, R


@given(arrays(), st.randoms(use_true_random=False))
def test_the_three_constructors_build_the_same_model(given_arrays, random):
    P, R = given_arrays
    n_states, n_actions, _ = P.shape
    states = [f"s{i}" for i in range(n_states)]
    actions = [("a", i) for i in range(n_actions)]
    full = R if R.ndim == 3 else np.repeat(R[:, :, None], n_states, axis=2)
    rows = [(states[s], actions[a], states[j], P[s, a, j], full[s, a, j]) for s, a, j in np.argwhere(P > 0)]
    random.shuffle(rows)
    from_arrays = MDP.from_arrays(P, R, states=states, actions=actions)
    from_table = MDP.from_table(*zip(*rows, strict=True), states=states, actions=actions)
    from_function = MDP.from_function(
        states,
        lambda s: [action for a, action in enumerate(actions) if P[states.index(s), a].any()],
        lambda s, a: dict(zip(states, P[states.index(s), actions.index(a)], strict=True)),
        lambda s, a, j: full[states.index(s), actions.index(a), states.index(j)],
    )
    for other in (from_table, from_function):
        assert set(other.states) == set(states)
        assert other.n_pairs == from_arrays.n_pairs
        for state in states:
            assert set(other.actions_in(state)) == set(from_arrays.actions_in(state))
            for action in other.actions_in(state):
                names, probabilities = other.row(state, action)
                expected, expected_probabilities = from_arrays.row(state, action)
                assert names == expected
                assert probabilities.tolist() == expected_probabilities.tolist()
                for after in names:
                    assert other.reward(state, action, after) == from_arrays.reward(state, action, after)
                assert other.reward(state, action) == from_arrays.reward(state, action)
    assert from_table.describe() == from_arrays.describe()


@given(arrays())
def test_a_description_counts_what_the_arrays_hold(given_arrays):
    P, _ = given_arrays
    n_states, n_actions, _ = P.shape
    there = [(s, a) for s in range(n_states) for a in range(n_actions) if P[s, a].any()]
    found = MDP.from_arrays(P).describe()
    assert found.pairs == len(there)
    assert found.unavailable == n_states * n_actions - len(there)
    assert found.transitions == np.count_nonzero(P)
    assert found.largest_row == max(np.count_nonzero(P[pair]) for pair in there)
    assert found.deterministic == sum(P[pair].max() == 1.0 for pair in there)
    assert found.absorbing == sum(
        all(P[s, a, s] == 1.0 for a in range(n_actions) if P[s, a].any()) for s in range(n_states)
    )


# Questions.


def test_sizes():
    assert (WEATHER.n_states, WEATHER.n_actions, WEATHER.n_pairs, WEATHER.n_transitions) == (2, 2, 3, 5)
    assert WEATHER.horizon is None
    # 3 + 3 + 4 offsets and pairs: 8 bytes an offset, 4 an index, 8 a number.
    assert WEATHER.nbytes == 3 * 8 + 3 * 4 + 4 * 8 + 5 * 4 + 5 * 8 + 5 * 8


def test_rows_come_in_the_order_of_the_model():
    states, probabilities = WEATHER.row("rain", "walk")
    assert states == ("sun", "rain")
    assert probabilities.tolist() == [0.5, 0.5]
    assert WEATHER.row("rain", "dance")[0] == ("sun",)
    assert WEATHER.actions_in("sun") == ("walk",)
    assert WEATHER.actions_in("rain") == ("walk", "dance")


def test_a_row_is_a_copy():
    WEATHER.row("sun", "walk")[1][:] = 0.0
    assert WEATHER.row("sun", "walk")[1].tolist() == [0.75, 0.25]


def test_rewards_of_transitions_and_pairs():
    assert WEATHER.reward("sun", "walk", "rain") == -4.0
    assert WEATHER.reward("sun", "walk") == 0.75 * 4 - 0.25 * 4
    assert WEATHER.reward("rain", "dance") == 9.0
    assert WEATHER.reward("sun", "walk", t=1000) == 2.0  # the same at any time


def test_rewards_over_time():
    mdp = MDP.from_arrays([[[1.0]]], [[[1.0]], [[2.0]]], states=["a"], actions=["x"])
    assert mdp.reward("a", "x") == 1.0
    assert mdp.reward("a", "x", t=np.int64(1)) == 2.0
    error = refuse(lambda: mdp.reward("a", "x", t=2))
    assert str(error) == "t = 2: rewards are given for t = 0 … 1"
    assert (error.problems[0].time, error.problems[0].value) == (2, 2)


@pytest.mark.parametrize("t", [-1, 0.0, "0", None, True])
def test_a_time_is_a_whole_number(t):
    error = refuse(lambda: WEATHER.reward("sun", "walk", t=t))
    assert str(error) == f"t must be a whole number ≥ 0, not {t!r}"
    assert error.problems[0].value is t


def test_a_transition_that_never_happens_has_no_reward():
    error = refuse(lambda: WEATHER.reward("rain", "dance", "rain"))
    assert str(error) == "state 'rain', action 'dance' never leads to 'rain'"
    problem = error.problems[0]
    assert (problem.state, problem.action, problem.next_state) == ("rain", "dance", "rain")


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: WEATHER.row(s, "walk"),
        WEATHER.actions_in,
        lambda s: WEATHER.reward(s, "walk"),
        lambda s: WEATHER.reward("sun", "walk", s),
        WEATHER.state_index,
    ],
)
def test_an_unknown_state(ask):
    error = refuse(lambda: ask("snow"))
    assert str(error) == "the model has no state 'snow'; it has 2 states: 'sun', 'rain'"
    assert error.problems[0].state == "snow"


def test_an_unknown_action():
    error = refuse(lambda: WEATHER.row("sun", "swim"))
    assert str(error) == "the model has no action 'swim'; it has 2 actions: 'walk', 'dance'"
    assert error.problems[0].action == "swim"


def test_an_action_that_is_not_available():
    error = refuse(lambda: WEATHER.row("sun", "dance"))
    assert str(error) == "state 'sun': action 'dance' is not available; available are 'walk'"
    assert (error.problems[0].state, error.problems[0].action) == ("sun", "dance")
    bare = MDP.from_table(["a"], ["x"], ["a"], [1], states=["a", "b"])
    assert str(refuse(lambda: bare.row("b", "x"))) == "state 'b': action 'x' is not available; no action is"


def test_an_unhashable_label_is_unknown():
    assert str(refuse(lambda: WEATHER.row(["sun"], "walk"))).startswith("the model has no state ['sun']")


def test_other_labels():
    mdp = WEATHER.with_names(states=["Sonne", "Regen"], actions=[0, 1])
    assert mdp.row("Regen", 0)[0] == ("Sonne", "Regen")
    assert mdp.form is WEATHER.form
    assert WEATHER.with_names().states == WEATHER.states
    with pytest.raises(tether.ModelError, match="states= gives 3 names, but the model has 2 states"):
        WEATHER.with_names(states="abc")
    with pytest.raises(tether.ModelError, match="the action name 'x' is given twice, at positions 0 and 1"):
        WEATHER.with_names(actions="xx")


# Description.

MIXED = MDP.from_table(
    #       two outcomes  | loops | one action loops | leads on
    state=["a", "a", "a", "b", "c", "c", "d"],
    action=["x", "x", "y", "x", "x", "y", "x"],
    next_state=["a", "b", "c", "b", "c", "end", "a"],
    probability=[0.5, 0.5000004, 1.0, 1.0, 1.0, 1.0, 0.9999998],
    reward=[1, 2, -3.5, 0, 0, 7, 0],
    states=["a", "b", "c", "d", "nowhere", "end"],
    terminal=["end"],
)


def test_a_description_counts_right():
    found = MIXED.describe()
    assert dataclasses.asdict(found) == {
        "states": 6,
        "actions": 2,
        "pairs": 8,  # 6 given, and 2 of "end"
        "transitions": 9,  # 7 given, and 2 of "end"
        "largest_row": 2,
        "deterministic": 7,  # all but (a, x)
        "absorbing": 2,  # "b" and "end"; "c" can be left, "nowhere" has no action
        "terminal": 1,
        "unavailable": 4,  # (b, y), (d, y), and both of "nowhere"
        "rewards": "R(s, a, s')",
        "reward_range": (-3.5, 7.0),
        "normalised_rows": 2,
        "largest_deviation": pytest.approx(4e-7, rel=1e-6),
        "tolerance": 1e-6,
        "horizon": None,
        "labels": {},
        "nbytes": MIXED.nbytes,
    }


def test_a_description_prints():
    assert (
        str(MIXED.describe())
        == repr(MIXED.describe())
        == "\n".join(
            [
                "states        6 (2 absorbing, 1 of them declared terminal)",
                "actions       2",
                "pairs         8 state–action pairs (4 not available)",
                "transitions   9 (1.12 per pair, at most 2; 7 pairs deterministic)",
                "rewards       R(s, a, s'), from -3.5 to 7",
                "probabilities 2 rows did not sum to 1 and were normalised (off by at most 4e-07; tolerance 1e-06)",
                f"memory        {MIXED.nbytes} B",
            ]
        )
    )


def test_a_description_of_one_of_everything():
    mdp = MDP.from_arrays([[[1.0]]], [[[2.5]]], reward_axes="tsa")
    assert str(mdp.describe()).splitlines() == [
        "states        1 (1 absorbing)",
        "actions       1",
        "pairs         1 state–action pair (0 not available)",
        "transitions   1 (1 per pair, at most 1; 1 pair deterministic)",
        "rewards       R(s, a) for 1 step, from 2.5 to 2.5",
        "probabilities every row sums to 1",
        "horizon       valid for episodes of up to 1 step",
        "memory        56 B",
    ]


def test_rounding_below_a_billionth_of_a_thousandth_is_not_called_normalising():
    mdp = MDP.from_table(["a"] * 3, ["x"] * 3, ["a", "b", "c"], [0.1, 0.2, 0.7], terminal=["b", "c"])
    assert mdp.describe().normalised_rows == 0
    assert "every row sums to 1\n" in str(mdp.describe()) + "\n"
    assert mdp.describe().largest_deviation < 1e-15


@pytest.mark.parametrize(
    ("nbytes", "message"), [(999, "999 B"), (1000, "1 kB"), (4_321_000, "4.32 MB"), (2_500_000_000, "2.5 GB")]
)
def test_memory_is_told_in_readable_units(nbytes, message):
    assert str(dataclasses.replace(MIXED.describe(), nbytes=nbytes)).endswith(f"memory        {message}")


def test_a_description_is_immutable_and_survives_pickling():
    found = MIXED.describe()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.states = 7
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_description_shows_as_a_table_and_escapes_what_it_shows():
    html = MIXED._repr_html_()
    assert html == MIXED.describe()._repr_html_()
    assert html.startswith("<table><tr><th>states</th><td>6 (2 absorbing, 1 of them declared terminal)</td></tr>")
    assert "R(s, a, s&#x27;)" in html


def test_a_model_prints_on_one_line():
    assert repr(WEATHER) == "<MDP: 2 states, 2 actions, 3 pairs, 5 transitions>"
    assert repr(MDP.from_arrays([[[1.0]]])) == "<MDP: 1 state, 1 action, 1 pair, 1 transition>"
    assert repr(MDP.from_arrays([[[1.0]]], np.zeros((1000, 1, 1)))).endswith("1 transition, up to 1,000 steps>")


# Nothing changes a model.


def arrays_of(mdp):
    form = mdp.form
    return [
        form.pair_start,
        form.pair_action,
        form.row_start,
        form.next_state,
        form.probability,
        form.rewards.values,
        form.terminal,
        *([] if mdp.final_reward is None else [mdp.final_reward]),
    ]


BUILT = {
    "table": WEATHER,
    "terminal": MIXED,
    "objective": WEATHER.with_objective(discount=0.5, final_reward={"sun": 3}),
    "arrays": MDP.from_arrays(np.eye(2)[:, None, :], np.zeros((3, 2, 1))),
    "function": MDP.from_function(0, lambda s: [0], lambda s, a: {s + 1: 1.0}, lambda s, a: s, horizon=2),
}


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("again", [lambda mdp: mdp, lambda mdp: pickle.loads(pickle.dumps(mdp)), copy.deepcopy])
def test_a_model_is_immutable_also_after_pickling(name, again):
    mdp = again(BUILT[name])
    for field in ("states", "actions", "form", "horizon"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mdp, field, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp.form.probability = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp.rewards.values = None
    for array in arrays_of(mdp):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(TypeError):
        mdp.states[0] = "x"


@pytest.mark.parametrize("name", BUILT)
def test_models_survive_pickling(name):
    mdp = BUILT[name]
    twin = pickle.loads(pickle.dumps(mdp))
    assert twin is not mdp
    assert twin.states == mdp.states
    assert twin.actions == mdp.actions
    assert (twin.horizon, twin.discount) == (mdp.horizon, mdp.discount)
    assert all(np.array_equal(a, b) for a, b in zip(arrays_of(twin), arrays_of(mdp), strict=True))
    assert twin.describe() == mdp.describe()
    assert twin.row(mdp.states[0], mdp.actions[0])[0] == mdp.row(mdp.states[0], mdp.actions[0])[0]


def test_models_are_equal_only_to_themselves():
    """Two models may be too large to compare by accident; `==` is identity."""
    twin = pickle.loads(pickle.dumps(WEATHER))
    assert twin != WEATHER
    assert len({WEATHER, twin, WEATHER}) == 2


@pytest.mark.parametrize("discount", [-0.1, 1.1, float("nan"), "0.9", True, [1]])
def test_a_discount_is_a_number_from_0_to_1(discount):
    with pytest.raises(tether.ModelError, match="discount must be a number from 0 to 1, not"):
        tether.cases.toy().mdp.with_objective(discount=discount)


def test_a_final_reward_by_function_mapping_and_array():
    mdp = tether.cases.toy().mdp
    by_function = mdp.with_objective(final_reward=lambda state: 3.0 if state == "s7" else 0.0)
    by_mapping = mdp.with_objective(final_reward={"s7": 3.0})
    by_array = mdp.with_objective(final_reward=[0, 0, 0, 0, 0, 0, 0, 3])
    assert by_function.final_reward.tolist() == by_mapping.final_reward.tolist() == by_array.final_reward.tolist()
    assert mdp.final_reward is None
    with pytest.raises(ValueError, match="read-only"):
        by_array.final_reward[0] = 1.0


@pytest.mark.parametrize(
    ("final_reward", "message"),
    [
        ({"s9": 1.0}, "final_reward: the model has no state 's9'"),
        ([1.0, 2.0], r"final_reward has shape \(2,\)"),
        (lambda state: "much", "final_reward is not made of numbers"),
        ([0, 0, 0, 0, 0, 0, 0, float("inf")], "state 's7': the final reward inf is not"),
    ],
)
def test_a_final_reward_that_is_none(final_reward, message):
    with pytest.raises(tether.ModelError, match=message):
        tether.cases.toy().mdp.with_objective(final_reward=final_reward)


# --- Rewards too large to be added up ------------------------------------------------------------


@pytest.mark.parametrize("value", [-1e308, 1e308, 1.1e150, -1.7e308])
def test_rewards_that_could_not_be_added_up_are_refused(value):
    message = f"the reward {value!r} is too large to be added up; expected at most 1e+150; give rewards in another unit"
    for by in (lambda: MDP.from_arrays(np.ones((1, 1, 1)), [[value]]),
               lambda: MDP.from_arrays(np.ones((1, 1, 1)), [[[value]]], reward_axes="tsa"),
               lambda: MDP.from_table([0], [0], [0], [1.0], [value]),
               lambda: MDP.from_function(0, lambda s: [0], lambda s, a: {0: 1.0}, lambda s, a: value)):  # fmt: skip
        with pytest.raises(tether.ModelError) as caught:
            by()
        assert message in str(caught.value)
    with pytest.raises(tether.ModelError, match=r"state 0: the final reward .* is too large to be added up"):
        MDP.from_table([0], [0], [0], [1.0]).with_objective(final_reward=[value])


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_rewards_give_numbers(sign):
    """Two states at random for 1,000 steps: sums and spreads stay numbers."""
    size = sign * 1e150
    mdp = MDP.from_arrays(np.full((2, 2, 2), 0.5), [[size, -size], [0.0, size]])
    mdp = mdp.with_objective(final_reward=[size, -size])
    path = tether.Path([0] * 1001, [0] * 1000)
    plan = tether.counterfactual(mdp, path).plan(k=1001, m=2)
    assert np.isfinite([plan.value, plan.observed_value]).all()
    assert plan.value >= plan.observed_value
    for found in (mdp.evaluate("random", 1000), tether.counterfactual(mdp, path).evaluate(lambda s: 1)):
        assert np.isfinite([found.mean, found.std]).all()
    assert np.isfinite(mdp.solve(1000).values).all()
