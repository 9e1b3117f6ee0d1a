"""From functions to a model: what is reached, in which order, how far, and what is said of functions that misbehave."""

import functools
from collections import ChainMap, OrderedDict, defaultdict
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether import MDP


def one(_state):
    return ["go"]


def stay(state, _action):
    return {state: 1.0}


def climb(state, action):
    """Up by one, or by two, for ever."""
    return {state + 1: 0.5, state + 2: 0.5} if action == "go" else {state: 1.0}


def refuse(initial=0, actions=one, step=stay, reward=None, horizon=None, **options):
    with pytest.raises(tether.ModelError) as caught:
        MDP.from_function(initial, actions, step, reward, horizon, **options)
    return caught.value


def message(*args, **options):
    return str(refuse(*args, **options))


def test_only_what_can_be_reached():
    """The states of a random walk on 0 … 9 in steps of 2: from 4, the even ones."""
    mdp = MDP.from_function(4, one, lambda s, a: {max(s - 2, 0): 0.25, min(s + 2, 8): 0.75})
    assert sorted(mdp.states) == [0, 2, 4, 6, 8]
    assert mdp.horizon is None
    states, probabilities = mdp.row(4, "go")
    assert dict(zip(states, probabilities, strict=True)) == {2: 0.25, 6: 0.75}


def test_states_come_in_the_order_they_are_met():
    mdp = MDP.from_function("b", lambda s: ["z", "y"], lambda s, a: {s: 0.5, s + a: 0.5}, horizon=2)
    # Breadth first: the start; its outcomes, action by action; theirs.
    assert list(mdp.states) == ["b", "bz", "by", "bzz", "bzy", "byz", "byy"]
    assert list(mdp.actions) == ["z", "y"]


def test_exploring_twice_gives_the_same_model():
    first, second = (MDP.from_function(0, one, climb, lambda s, a, j: s * j, horizon=6) for _ in range(2))
    assert list(first.states) == list(second.states)
    assert np.array_equal(first.form.next_state, second.form.next_state)
    assert np.array_equal(first.rewards.values, second.rewards.values)


def test_any_hashable_is_a_state():
    mdp = MDP.from_function((0, frozenset()), one, lambda s, a: {(s[0], s[1] | {"x"}): 1.0})
    assert list(mdp.states) == [(0, frozenset()), (0, frozenset({"x"}))]


def test_numpy_states_are_plain_labels():
    mdp = MDP.from_function(np.int64(0), one, lambda s, a: {np.int64((s + 1) % 3): 1.0})
    assert repr(mdp.states) == "Names(0 … 2)"
    assert mdp.row(np.int64(2), "go")[0] == (0,)


def test_outcomes_of_probability_0_are_not_reached():
    mdp = MDP.from_function(0, one, lambda s, a: {0: 1.0, 1: 0.0})
    assert list(mdp.states) == [0]


def test_actions_may_differ_and_may_be_any_iterable():
    def actions(state):
        yield "up"
        if state > 0:
            yield "down"

    mdp = MDP.from_function(0, actions, lambda s, a: {min(s + 1, 2) if a == "up" else s - 1: 1.0})
    assert mdp.actions_in(0) == ("up",)
    assert mdp.actions_in(1) == ("up", "down")


def test_a_list_is_several_initial_states():
    mdp = MDP.from_function([3, 1, 3], one, stay)
    assert list(mdp.states) == [3, 1]
    assert list(MDP.from_function((3, 1), one, stay).states) == [(3, 1)]


# Rewards.


class Callable:
    def __call__(self, s, a, j):
        return 100 * s + j


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (lambda s, a: 10 * s, lambda s, j: 10 * s),
        (lambda s, a, j: 10 * s + j, lambda s, j: 10 * s + j),
        (lambda s, a, k=7: 10 * s + k, lambda s, j: 10 * s + 7),
        (lambda *args: sum(args[::2]), lambda s, j: s + j),
        (functools.partial(lambda k, s, a: k * s, 3), lambda s, j: 3 * s),
        (Callable(), lambda s, j: 100 * s + j),
        (lambda s, a: np.float32(s), lambda s, j: s),
    ],
    ids=["two", "three", "default", "star", "partial", "object", "numpy"],
)
def test_a_reward_takes_two_arguments_or_three(reward, expected):
    mdp = MDP.from_function(0, one, climb, reward, horizon=3)
    for s in (0, 1, 2):
        for j in (s + 1, s + 2):
            assert mdp.reward(s, "go", j) == expected(s, j)


def test_a_builtin_that_does_not_say_what_it_takes_gets_three():
    mdp = MDP.from_function(0, lambda s: [1], lambda s, a: {s + 3: 1.0}, max, horizon=1)
    assert mdp.reward(0, 1, 3) == 3


def test_without_reward_it_is_0():
    assert MDP.from_function(0, one, stay).reward(0, "go") == 0.0


def test_a_reward_of_two_is_asked_once_a_pair():
    asked = []
    MDP.from_function(0, one, climb, lambda s, a: asked.append((s, a)) or 1.0, horizon=3)
    assert asked == [(s, "go") for s in (0, 1, 2, 3, 4)]


# What functions may give.


@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType, ChainMap, functools.partial(defaultdict, float)])
def test_any_mapping_will_do(kind):
    mdp = MDP.from_function(0, one, lambda s, a: kind({0: 0.25, 1: 0.5, 2: 0.25}))
    assert [mdp.row(0, "go")[0], mdp.row(0, "go")[1].tolist()] == [(0, 1, 2), [0.25, 0.5, 0.25]]


@pytest.mark.parametrize(
    "half",
    [0.5, np.float32(0.5), np.float64(0.5), np.array(0.5), Fraction(1, 2), Decimal("0.5")],
    ids=lambda half: type(half).__name__,
)
def test_any_number_will_do(half):
    mdp = MDP.from_function("a", one, lambda s, a: {"a": half, "b": half}, lambda s, a, j: half)
    assert mdp.row("a", "go")[1].tolist() == [0.5, 0.5]
    assert mdp.reward("a", "go", "b") == 0.5
    assert MDP.from_function("a", one, lambda s, a: {"a": 1, "b": 0 * half}).n_states == 1


def test_something_that_is_neither_zero_nor_not():
    """An array of two numbers has no truth value: it is no number, and said to be none."""
    error = message("s", one, lambda s, a: {"s": np.array([0.5, 0.5])})
    assert error == "state 's', action 'go', next state 's': the probability array([0.5, 0.5]) is not a number"


@given(
    st.integers(1, 6),
    st.lists(
        st.lists(st.dictionaries(st.integers(0, 5), st.integers(1, 4), min_size=1), min_size=1, max_size=3),
        min_size=6,
        max_size=6,
    ),
    st.integers(1, 4),
)
def test_against_a_walk_in_a_few_lines(first, rows, horizon):
    """Names, in the order met, and rows, against the obvious loop."""
    first -= 1

    def outcomes(s, a):
        return {j: w / sum(rows[s][a].values()) for j, w in rows[s][a].items()}

    mdp = MDP.from_function(first, lambda s: range(len(rows[s])), outcomes, lambda s, a, j: 10 * s + j, horizon)
    met, acts, layer = [first], [], [first]
    expected = {}
    for _ in range(horizon):
        reached = []
        for s in layer:
            for a in range(len(rows[s])):
                acts += [a] if a not in acts else []
                expected[s, a] = outcomes(s, a)
                reached += [j for j in rows[s][a] if j not in met and j not in reached]
        met, layer = met + reached, reached
    assert list(mdp.states) == met
    assert list(mdp.actions) == acts
    assert {(s, a) for s in mdp.states for a in mdp.actions_in(s)} == set(expected)
    for (s, a), row in expected.items():
        states, probabilities = mdp.row(s, a)
        assert dict(zip(states, probabilities, strict=True)) == pytest.approx(row, rel=1e-15)
        assert [mdp.reward(s, a, j) for j in states] == [10 * s + j for j in states]


def test_a_long_way_does_not_take_a_longer_time_for_each_step():
    """A chain of 50,000 states, one a layer: the walk looks at each layer once."""
    n = 50_000
    mdp = MDP.from_function(0, one, lambda s, a: {min(s + 1, n): 1.0})
    assert mdp.n_states == n + 1


# Horizon.


def test_exploring_stops_at_the_horizon():
    mdp = MDP.from_function(0, one, climb, horizon=3)
    assert list(mdp.states) == [0, 1, 2, 3, 4, 5, 6]  # twice 3 steps is the farthest
    assert mdp.horizon == 3
    assert [mdp.actions_in(s) for s in range(7)] == [("go",)] * 5 + [()] * 2  # 5 and 6 are met at depth 3 only
    assert "up to 3 steps" in repr(mdp)


def test_a_model_explored_to_the_end_has_no_horizon():
    assert MDP.from_function(0, one, stay, horizon=5).horizon is None
    assert MDP.from_function(0, one, lambda s, a: {min(s + 1, 3): 1.0}, horizon=3).horizon == 3
    assert MDP.from_function(0, one, lambda s, a: {min(s + 1, 3): 1.0}, horizon=4).horizon is None


def test_whole_numbers_of_numpy_are_horizons():
    assert MDP.from_function(0, one, climb, horizon=np.int64(2)).horizon == 2


def test_a_path_as_long_as_the_horizon():
    mdp = MDP.from_function(0, one, climb, horizon=3)
    cf = tether.counterfactual(mdp, tether.Path([0, 1, 2, 4], ["go"] * 3))
    assert cf.row(2, 2, "go")[0] == (4,)


def test_a_path_longer_than_the_horizon():
    mdp = MDP.from_function(0, one, climb, horizon=3)
    with pytest.raises(tether.PathError) as caught:
        tether.counterfactual(mdp, tether.Path([0, 1, 2, 3, 4], ["go"] * 4))
    assert str(caught.value) == (
        "the path has 4 steps, but the model is valid for up to 3 only; "
        "explore it further (horizon=), give rewards for more steps, or cut the path"
    )


def test_a_path_that_starts_elsewhere_and_leads_beyond_what_was_explored():
    """From 2, two steps may lead to 5 or 6, which were met but not explored; the observed path itself stays inside."""
    mdp = MDP.from_function(0, lambda s: ["go", "stay"], climb, horizon=3)
    path = tether.Path([2, 2, 2, 2], ["stay"] * 3)
    with pytest.raises(tether.PathError) as caught:
        tether.counterfactual(mdp, path)
    assert str(caught.value) == (
        "t = 2: state 5 can be reached, but the model has no action there; the model was explored from other "
        "initial states or to a smaller horizon; explore it from this path's first state"
    )
    assert (caught.value.problems[0].state, caught.value.problems[0].time) == (5, 2)
    longer = MDP.from_function(2, lambda s: ["go", "stay"], climb, horizon=3)
    assert tether.counterfactual(longer, path).T == 3


@pytest.mark.parametrize("name", ["horizon", "max_states"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "3", True])
def test_limits_are_whole_numbers(name, value):
    assert message(**{name: value}) == f"{name} must be a whole number ≥ 1, or None for no limit; got {value!r}"


def test_too_many_states():
    assert message(step=climb, max_states=1000) == (
        "more than 1,000 states can be reached; raise max_states=, or give horizon= to stop after so many steps"
    )
    assert MDP.from_function(0, one, lambda s, a: {(s + 1) % 10: 1.0}, max_states=10).n_states == 10
    assert message(step=lambda s, a: {(s + 1) % 10: 1.0}, max_states=9).startswith("more than 9 states can be reached")


# Functions that misbehave.


def test_an_error_in_a_function_keeps_its_type_and_says_where():
    def step(state, action):
        if state == 2:
            raise ZeroDivisionError("no")
        return {state + 1: 1.0}

    with pytest.raises(ZeroDivisionError, match="no") as caught:
        MDP.from_function(0, one, step)
    assert caught.value.__notes__ == ["while exploring the model: step(2, 'go')"]


def test_errors_in_actions_and_reward_say_where():
    def actions(state):
        raise KeyError(state)

    def later(state):
        yield "go"
        raise KeyError(state)

    def reward(state, action, after):
        raise OSError("file")

    for function in (actions, later):
        with pytest.raises(KeyError) as caught:
            MDP.from_function("s", function, stay)
        assert caught.value.__notes__ == [f"while exploring the model: {function.__name__}('s')"]
    with pytest.raises(OSError, match="file") as caught:
        MDP.from_function("s", one, stay, reward)
    assert caught.value.__notes__ == ["while exploring the model: reward('s', 'go', 's')"]


def test_a_callable_without_a_name_is_noted_too():
    with pytest.raises(TypeError) as caught:
        MDP.from_function("s", functools.partial(one, "too many"), stay)
    assert caught.value.__notes__[0].startswith("while exploring the model: functools.partial(<function one")


def test_actions_must_be_a_list():
    error = refuse("s", lambda s: "go")
    assert str(error) == "state 's': actions() must give a list, not 'go'"
    assert error.problems[0].state == "s"
    assert message("s", lambda s: None) == "state 's': actions() must give a list, not None"


def test_actions_must_not_be_none():
    error = refuse("s", lambda s: [])
    assert str(error) == "state 's': actions() gave none; if episodes end there, say so: terminal=['s']"
    assert error.problems[0].state == "s"


def test_an_action_given_twice():
    error = refuse("s", lambda s: ["go", "go"])
    assert str(error) == "state 's': actions() gave 'go' twice"
    assert (error.problems[0].state, error.problems[0].action) == ("s", "go")


def test_an_action_that_cannot_be_a_label():
    error = refuse("s", lambda s: [["go"]])
    assert str(error) == "state 's': the action ['go'] is not hashable; use a tuple"
    assert error.problems[0].value == ["go"]
    assert message("s", lambda s: [None]) == "action 0: the name is missing (None); give it one"


def test_step_must_give_a_mapping():
    error = refuse("s", one, lambda s, a: [(1.0, "s")])
    assert str(error) == "state 's', action 'go': step() must give {next state: probability}, not [(1.0, 's')]"
    assert (error.problems[0].state, error.problems[0].action) == ("s", "go")


@pytest.mark.parametrize("outcomes", [{}, {"s": 0.0}])
def test_something_must_happen(outcomes):
    error = refuse("s", one, lambda s, a: outcomes)
    assert str(error) == "state 's', action 'go': step() gave no outcome of positive probability"
    assert error.problems[0].value == outcomes


@pytest.mark.parametrize("value", ["0.5", None, [0.5], b"1", 10**400])
def test_probabilities_and_rewards_are_numbers(value):
    error = refuse("s", one, lambda s, a: {"s": 0.5, "t": value})  # also where the first is one
    assert str(error) == f"state 's', action 'go', next state 't': the probability {value!r} is not a number"
    problem = error.problems[0]
    assert (problem.state, problem.action, problem.next_state, problem.value) == ("s", "go", "t", value)
    error = refuse("s", one, stay, lambda s, a: value)
    assert str(error) == f"state 's', action 'go', next state 's': the reward {value!r} is not a number"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (-1, "-1.0 is negative"),
        (float("nan"), "nan is not a finite number"),
        (float("inf"), "inf is not a finite number"),
    ],
)
def test_probabilities_that_are_none(value, what):
    error = refuse("s", one, lambda s, a: {s: value})
    assert str(error) == f"state 's', action 'go', next state 's': the probability {what}"
    assert error.problems[0].row is None


def test_rewards_that_are_not_finite():
    error = refuse("s", one, stay, lambda s, a: float("nan"))
    assert str(error) == "state 's', action 'go', next state 's': the reward nan is not a finite number"


def test_rows_that_do_not_sum_to_1():
    error = refuse("s", one, lambda s, a: {s: 0.5})
    assert str(error) == "state 's', action 'go': probabilities sum to 0.5; expected 1 (tolerance 1e-06)"
    assert MDP.from_function("s", one, lambda s, a: {s: 0.5}, tolerance=0.5).row("s", "go")[1].tolist() == [1.0]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_value_is_no_state(missing):
    error = refuse("s", one, lambda s, a: {missing: 1.0})
    assert str(error) == (
        f"state 's', action 'go': step() gave the next state {missing!r}, "
        "which stands for a missing value and cannot be a state"
    )
    assert (error.problems[0].state, error.problems[0].action) == ("s", "go")
    assert message(missing) == f"initial is {missing!r}, which stands for a missing value and cannot be a state"


def test_initial_states_are_checked():
    assert message([]) == "initial= is an empty list; give a state, or a list of states"
    assert message([0, [1]]) == "the state [1] is not hashable; use a tuple"
    assert message(np.array([1, 2])) == "the state array([1, 2]) is not hashable; use a tuple"


def test_functions_are_functions():
    assert message(actions=["go"]) == "actions must be a function, not ['go']"
    assert message(step={0: 1.0}) == "step must be a function, not {0: 1.0}"
    assert message(reward=0) == "reward must be a function, not 0"
    assert message(reward=lambda s: s) == (
        "reward must take (state, action) or (state, action, next_state), but it takes 1"
    )


# --- Where episodes end ------------------------------------------------------------------------------------


def ruin(terminal, **options):
    """A gambler who bets one coin at a time; nothing is asked about 0 and 4."""

    def actions(state):
        assert state not in (0, 4)
        return ["bet", "bold"] if state == 2 else ["bet"]

    def step(state, action):
        stake = 2 if action == "bold" else 1
        return {state - stake: 0.5, state + stake: 0.5}

    return MDP.from_function(2, actions, step, lambda s, a, j: float(j == 4), terminal=terminal, **options)


@pytest.mark.parametrize("terminal", [[0, 4], (4, 0), {0, 4}, iter([0, 4]), lambda s: s in (0, 4), np.array([0, 4])])
def test_terminal_states_are_the_same_for_every_way_of_building_a_model(terminal):
    mdp = ruin(terminal)
    assert mdp.horizon is None
    for end in (0, 4):
        assert mdp.actions_in(end) == ("bet", "bold")
        assert mdp.row(end, "bold")[0] == (end,)
        assert mdp.reward(end, "bet") == 0
    assert set(mdp.labels) == {"0", "4"}
    pairs = [(s, a) for s in (1, 2, 3) for a in mdp.actions_in(s)]
    rows = [(s, a, j, 0.5, mdp.reward(s, a, j)) for s, a in pairs for j in mdp.row(s, a)[0]]
    named = {"states": mdp.states, "actions": mdp.actions}
    table = MDP.from_table(*zip(*rows, strict=True), **named, terminal=lambda s: s in (0, 4))
    P, R = np.zeros((5, 2, 5)), np.zeros((5, 2, 5))
    for s, a, j, p, r in rows:
        at = mdp.states.index(s), mdp.actions.index(a), mdp.states.index(j)
        P[at], R[at] = p, r
    arrays = MDP.from_arrays(P, R, **named, terminal=[0, 4])
    for twin in (table, arrays):
        assert twin.form.terminal.tolist() == mdp.form.terminal.tolist()
        for name in ("pair_start", "pair_action", "row_start", "next_state", "probability"):
            np.testing.assert_array_equal(getattr(twin.form, name), getattr(mdp.form, name))
        np.testing.assert_array_equal(twin.rewards.values, mdp.rewards.values)


def test_terminal_states_at_the_horizon_and_beyond_it():
    mdp = ruin(lambda s: s in (0, 4), horizon=1)  # 0 and 4 are met at once, 1 and 3 are not explored
    assert mdp.horizon == 1
    assert set(mdp.labels) == {"0", "4"}
    assert mdp.actions_in(1) == ()
    far = MDP.from_function(0, lambda s: ["on"], lambda s, a: {s + 1: 1.0}, horizon=2, terminal=[99])
    assert list(far.states) == [0, 1, 2]


@pytest.mark.parametrize(
    ("terminal", "expected"),
    [
        ([0, 4, 9], "terminal=: the model has no state 9; it has 5 states: 2, 1, 3, 0, 4"),
        ("04", "terminal= takes a list of states, not '04'"),
        (4, "terminal= takes a list of states, not 4: terminal=[4]"),
        (None, "terminal= takes a list of states, not None"),
        ([[0], [4]], "terminal=: the state [0] is not hashable; use a tuple"),
        (lambda s: None, "terminal=: the function gave None for state 2, not True or False"),
        (lambda s: True, "the model is empty: it has no transitions"),
    ],
)
def test_terminal_states_that_cannot_be(terminal, expected):
    with pytest.raises(tether.ModelError) as caught:
        ruin(terminal)
    assert expected in str(caught.value)


def test_an_error_in_terminal_says_where():
    with pytest.raises(AttributeError) as caught:
        ruin(lambda s: s.over)
    assert caught.value.__notes__ == ["while looking for terminal states: state 2"]
