"""From columns to a model: every kind of column, the order of labels, and every way a table can be wrong."""

from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from columnlike import Column

import tether
from tether import MDP
from tether.model import finish

# Three states, two actions; "treat" is not available in "well". Rows are not sorted.
STATE = ["sick", "well", "sick", "sick", "sick", "well"]
ACTION = ["treat", "wait", "wait", "treat", "wait", "wait"]
NEXT = ["well", "well", "dead", "sick", "sick", "sick"]
PROBABILITY = [0.75, 0.875, 0.25, 0.25, 0.75, 0.125]
REWARD = [1.0, 10.0, -100.0, 0.0, 0.0, 5.0]


def clinic(kind=list, **options):
    columns = [kind(column) for column in (STATE, ACTION, NEXT, PROBABILITY, REWARD)]
    return MDP.from_table(*columns, terminal=["dead"], **options)


def refuse(*columns, **options):
    with pytest.raises(tether.ModelError) as caught:
        MDP.from_table(*columns, **options)
    return caught.value


def message(*columns, **options):
    return str(refuse(*columns, **options))


@pytest.mark.parametrize("kind", [list, tuple, np.array, Column, iter])
def test_any_kind_of_column(kind):
    mdp = clinic(kind)
    assert list(mdp.states) == ["sick", "well", "dead"]
    assert list(mdp.actions) == ["treat", "wait"]
    assert (mdp.n_pairs, mdp.n_transitions) == (5, 8)  # 3 pairs and 6 rows given, 2 actions in "dead"
    assert mdp.actions_in("well") == ("wait",)
    states, probabilities = mdp.row("sick", "treat")
    assert states == ("sick", "well")
    assert probabilities.tolist() == [0.25, 0.75]
    assert mdp.row("sick", "wait")[0] == ("sick", "dead")
    assert mdp.reward("sick", "treat", "well") == 1.0
    assert mdp.reward("sick", "wait", "dead") == -100.0
    assert mdp.reward("well", "wait") == 0.875 * 10 + 0.125 * 5


def test_a_terminal_state_stays_where_it_is_for_nothing_whatever_is_done():
    mdp = clinic()
    assert mdp.actions_in("dead") == ("treat", "wait")
    for action in ("treat", "wait"):
        states, probabilities = mdp.row("dead", action)
        assert states == ("dead",)
        assert probabilities.tolist() == [1.0]
        assert mdp.reward("dead", action) == 0.0
        assert mdp.reward("dead", action, "dead") == 0.0


def test_terminal_states_between_others():
    """Their rows are put in where they belong, also the first and the last, with rewards by pair or by transition."""
    for reward in ([1, 2, 3, 4], [1, 1, 3, 3]):
        mdp = MDP.from_table([1, 1, 3, 3], ["a"] * 4, [0, 3, 2, 4], [0.5] * 4, reward, terminal=[0, 4, 2])
        assert list(mdp.states) == [0, 1, 2, 3, 4]
        assert [mdp.row(s, "a")[0] for s in mdp.states] == [(0,), (0, 3), (2,), (2, 4), (4,)]
        assert [mdp.reward(s, "a") for s in mdp.states] == [0, sum(reward[:2]) / 2, 0, sum(reward[2:]) / 2, 0]
        assert mdp.describe().terminal == 3


def test_tuples_are_labels():
    mdp = MDP.from_table([(0, 0), (0, 1)], [("go", 1)] * 2, [(0, 1), (0, 1)], [1, 1])
    assert mdp.row((0, 0), ("go", 1))[0] == ((0, 1),)


def test_whole_numbers_ascend_and_others_come_as_they_appear():
    mdp = MDP.from_table([7, -3, 5], ["z", "b", "z"], [5, 7, 5], [1, 1, 1])
    assert list(mdp.states) == [-3, 5, 7]
    assert list(mdp.actions) == ["z", "b"]


def test_the_order_of_labels_can_be_given():
    mdp = clinic(states=["dead", "sick", "well"], actions=["wait", "treat"])
    assert list(mdp.states) == ["dead", "sick", "well"]
    assert mdp.actions_in("sick") == ("wait", "treat")
    assert mdp.row("sick", "wait")[0] == ("dead", "sick")
    assert mdp.reward("sick", "wait", "dead") == -100.0


def test_given_labels_may_be_more_than_the_table_uses():
    mdp = MDP.from_table(["a"], ["x"], ["a"], [1], states=["b", "a"], actions=["y", "x"])
    assert mdp.n_states == 2
    assert mdp.actions_in("b") == ()
    assert mdp.actions_in("a") == ("x",)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint64, np.int64])
def test_narrow_and_wide_numbers(dtype):
    """127 - (-128) does not fit an int8, nor 255 - 0 its neighbours."""
    low, high = max(np.iinfo(dtype).min, -128), min(np.iinfo(dtype).max, 255)
    states = np.array([low, high, 1], dtype=dtype)
    mdp = MDP.from_table(states, np.zeros(3, dtype=dtype), states[[1, 2, 1]], [1, 1, 1])
    assert list(mdp.states) == sorted([low, 1, high])
    assert mdp.row(low, 0)[0] == (high,)
    assert mdp.row(1, 0)[0] == (high,)


def test_huge_numbers():
    states = np.array([2**63 + 5, 2**63 + 4], dtype=np.uint64)
    mdp = MDP.from_table(states, [0, 0], states[::-1], [1, 1])
    assert list(mdp.states) == [2**63 + 4, 2**63 + 5]
    assert mdp.row(2**63 + 5, 0)[0] == (2**63 + 4,)


def test_mixed_types():
    mdp = MDP.from_table(["a", 1, (2,)], [0, "go", 0], [1, (2,), "a"], [1, 1, 1])
    assert list(mdp.states) == ["a", 1, (2,)]
    assert list(mdp.actions) == [0, "go"]
    assert mdp.row(1, "go")[0] == ((2,),)


def test_rows_of_probability_0_are_left_out():
    mdp = MDP.from_table(["a", "a", "b"], ["x"] * 3, ["a", "b", "b"], [1.0, 0.0, 1.0], [1, float("nan"), 2])
    assert mdp.n_transitions == 2
    assert mdp.row("a", "x")[0] == ("a",)
    assert mdp.reward("a", "x") == 1.0


def test_a_state_met_only_with_probability_0_needs_no_rows():
    assert MDP.from_table(["a", "a"], ["x"] * 2, ["a", "b"], [1.0, 0.0]).actions_in("b") == ()


@pytest.mark.parametrize(
    "probability", [[1, 1], [True, True], np.array([True, True]), [Fraction(1), Fraction(1)], np.ones(2, np.float32)]
)
def test_any_numbers(probability):
    mdp = MDP.from_table([0, 1], ["x"] * 2, [1, 1], probability)
    assert mdp.row(0, "x")[1].tolist() == [1.0]
    assert mdp.row(0, "x")[1].dtype == np.float64


def test_without_rewards_they_are_0():
    assert MDP.from_table([0], [0], [0], [1]).reward(0, 0) == 0.0


def test_a_reward_that_never_depends_on_the_next_state_is_kept_by_pair():
    columns = [0, 0, 1], ["x"] * 3, [0, 1, 1], [0.5, 0.5, 1]
    assert not MDP.from_table(*columns, [3, 3, 4]).rewards.by_entry
    assert MDP.from_table(*columns, [3, 2, 4]).rewards.by_entry


def test_sorted_or_not_the_model_is_the_same():
    order = np.random.default_rng(1).permutation(len(STATE))
    columns = [[column[i] for i in order] for column in (STATE, ACTION, NEXT, PROBABILITY, REWARD)]
    names = {"states": ["sick", "well", "dead"], "actions": ["treat", "wait"]}
    shuffled, mdp = MDP.from_table(*columns, terminal=["dead"], **names), clinic()
    for field in ("pair_start", "pair_action", "row_start", "next_state", "probability"):
        assert np.array_equal(getattr(shuffled.form, field), getattr(mdp.form, field))
    assert np.array_equal(shuffled.rewards.values, mdp.rewards.values)


def test_long_rows_are_summed_accurately():
    """100,000 times 1e-5: summed one by one, rounding would add up to 3e-12 (checked below); pairwise it does not."""
    n = 100_000
    mdp = MDP.from_table(np.zeros(n, int), np.zeros(n, int), np.arange(n), np.full(n, 1e-5), terminal=range(1, n))
    naive = np.cumsum(np.full(n, 1e-5))[-1]
    assert abs(naive - 1) > 1e-12
    assert mdp.describe().largest_deviation < 1e-14
    assert mdp.describe().normalised_rows == 0
    assert mdp.row(0, 0)[1].tolist() == pytest.approx([1e-5] * n, rel=1e-14)


# Bad input: what is wrong, where, and how to mend it.


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (-0.25, "-0.25 is negative"),
        (float("nan"), "nan is not a finite number"),
        (None, "nan is not a finite number"),
        (float("inf"), "inf is not a finite number"),
        (float("-inf"), "-inf is not a finite number"),
    ],
)
def test_a_bad_probability(value, what):
    error = refuse(["a", "b", "b"], ["x"] * 3, ["a", "a", "b"], [1, value, 0.5])
    assert str(error) == f"row 1: state 'b', action 'x', next state 'a': the probability {what}"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state, problem.row) == ("b", "x", "a", 1)
    assert str(problem.value) == what.split()[0]


@pytest.mark.parametrize(
    ("probability", "expected"),
    [([0.5, 0.25], "0.75"), ([0.5, 0.500002], "1.000002"), ([1e308, 1e308], "inf"), ([1 - 1e-13, 1e-5], "1.00001")],
)
def test_a_row_that_does_not_sum_to_1(probability, expected):
    error = refuse(["a", "a", "b"], ["x"] * 3, ["a", "b", "b"], [*probability, 1])
    assert str(error) == f"state 'a', action 'x': probabilities sum to {expected}; expected 1 (tolerance 1e-06)"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.value) == ("a", "x", pytest.approx(float(expected)))


def test_a_stricter_tolerance_shows_the_digits_that_matter():
    assert message(["a"], ["x"], ["a"], [1 - 2**-53], tolerance=0) == (
        "state 'a', action 'x': probabilities sum to 0.9999999999999999; expected 1 (tolerance 0)"
    )


def test_rounding_is_normalised_and_told():
    third = [0.3333333, 0.3333333, 0.3333333]  # a table written with 7 digits: off by 1e-7
    mdp = MDP.from_table(["a"] * 3 + ["b"], ["x"] * 4, ["a", "b", "c", "b"], [*third, 1.0], terminal=["c"])
    assert mdp.row("a", "x")[1].tolist() == pytest.approx([1 / 3] * 3, abs=1e-16)
    description = mdp.describe()
    assert description.normalised_rows == 1
    assert description.largest_deviation == pytest.approx(1e-7, rel=1e-6)
    assert "1 row did not sum to 1 and was normalised (off by at most 1e-07; tolerance 1e-06)" in str(description)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_rows_are_normalised_in_any_number_of_chunks(chunk, monkeypatch):
    monkeypatch.setattr(finish, "_CHUNK", chunk)
    names, lengths = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3], [3, 2, 4, 1]
    given = np.concatenate([np.full(n, (1 + 1e-7 * n) / n) for n in lengths])
    mdp = MDP.from_table(names, ["x"] * 10, [0, 1, 2, 0, 1, 0, 1, 2, 3, 3], given)
    assert [mdp.row(s, "x")[1].tolist() for s in range(4)] == [pytest.approx([1 / n] * n, abs=1e-15) for n in lengths]
    assert mdp.describe().normalised_rows == 4


@pytest.mark.parametrize("off", [0.999e-6, -0.999e-6])
def test_the_tolerance_is_a_millionth(off):
    mdp = MDP.from_table(["a"], ["x"], ["a"], [1 + off])
    assert mdp.row("a", "x")[1].tolist() == [1.0]
    with pytest.raises(tether.ModelError, match="tolerance 1e-06"):
        MDP.from_table(["a"], ["x"], ["a"], [1 + 1.002 * off])


def test_another_tolerance():
    assert MDP.from_table(["a"], ["x"], ["a"], [0.9], tolerance=0.2).row("a", "x")[1].tolist() == [1.0]
    assert "tolerance 0.05" in message(["a"], ["x"], ["a"], [0.9], tolerance=0.05)


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf"), "0.1", None])
def test_a_tolerance_is_a_number(tolerance):
    assert (
        message(["a"], ["x"], ["a"], [1], tolerance=tolerance) == f"tolerance must be a number ≥ 0, not {tolerance!r}"
    )


def test_the_same_transition_twice():
    error = refuse(["a", "b", "a", "a"], ["x"] * 4, ["a", "b", "b", "a"], [0.25, 1, 0.5, 0.25])
    assert str(error) == (
        "row 3: state 'a', action 'x', next state 'a': this transition is given twice (first in row 0); "
        "add the two up or drop one"
    )
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state, problem.row) == ("a", "x", "a", 3)


def test_the_same_next_state_in_the_next_row_is_no_repetition():
    assert MDP.from_table([0, 0, 1], ["x", "y", "x"], [1, 1, 1], [1, 1, 1]).n_transitions == 3


def test_a_next_state_without_rows():
    error = refuse(["a", "a"], ["x"] * 2, ["a", "end"], [0.5, 0.5])
    assert str(error) == (
        "row 1: state 'a', action 'x', next state 'end': no row says what happens in state 'end'; "
        "give its rows, or declare it terminal (absorbing, reward 0): terminal=['end']"
    )
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state, problem.row) == ("a", "x", "end", 1)
    assert problem.value == "end"
    fixed = MDP.from_table(["a", "a"], ["x"] * 2, ["a", "end"], [0.5, 0.5], terminal=["end"])
    assert fixed.row("end", "x")[0] == ("end",)


def test_each_next_state_without_rows_is_told_once():
    error = refuse(["a"] * 3 + ["b"] * 3, ["x"] * 6, ["a", "c", "d"] * 2, [0.5, 0.25, 0.25] * 2)
    assert error.total == 2
    assert [problem.value for problem in error.problems] == ["c", "d"]
    assert [problem.row for problem in error.problems] == [1, 2]


def test_a_next_state_of_another_type():
    assert message([1], ["x"], ["1"], [1]) == (
        "row 0: state 1, action 'x', next state '1': no row says what happens in state '1'; "
        "there are rows for 1 of type int, but this is a str: use one type for both columns"
    )


def test_a_pair_whose_every_probability_is_0():
    error = refuse(["a", "a", "a", "a"], ["x", "y", "y", "x"], ["a", "a", "b", "b"], [1, 0, 0, 0])
    assert str(error) == (
        "row 1: state 'a', action 'y': every probability is 0; leave the rows out if the action is not available there"
    )
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.value, problem.row) == ("a", "y", 0.0, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None])
def test_a_reward_that_is_not_finite(value):
    error = refuse(["a", "b"], ["x"] * 2, ["b", "b"], [1, 1], [0, value])
    shown = float("nan") if value is None else value
    assert str(error) == f"row 1: state 'b', action 'x', next state 'b': the reward {shown} is not a finite number"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state, problem.row) == ("b", "x", "b", 1)
    assert not np.isfinite(problem.value)


@pytest.mark.parametrize("value", ["0.5", "high", b"0.5", 1j, [0.5], {}, 10**400])
@pytest.mark.parametrize("name", ["probability", "reward"])
def test_what_is_no_number(name, value):
    columns = {"probability": [1.0, 1.0], "reward": [0.0, 0.0]}
    columns[name][1] = value
    error = refuse(["a", "b"], ["x"] * 2, ["b", "b"], **columns)
    assert str(error) == f"row 1: the {name} {value!r} is not a number"
    assert (error.problems[0].row, error.problems[0].value) == (1, value)


@pytest.mark.parametrize(
    "column", [np.array(["1", "1"]), np.array([1, 1j]), np.array([1, "1"], dtype=object), Column(["1.0", "1"])]
)
def test_arrays_of_no_numbers(column):
    assert "is not a number" in message(["a", "b"], ["x"] * 2, ["b", "b"], column)


def test_moments_are_no_numbers():
    column = np.array(["2020-01-01T00"], dtype="datetime64[ns]")  # NumPy gives these as whole numbers
    assert message(["a"], ["x"], ["a"], column) == "the column probability is not a flat list of numbers"


def test_columns_of_different_lengths():
    assert message(["a", "b"], ["x"] * 2, ["a", "b"], [1]) == (
        "the columns differ in length: state 2, action 2, next_state 2, probability 1"
    )
    assert message(["a", "b"], ["x"], ["a", "b"], [1, 1], [0, 0, 0]) == (
        "the columns differ in length: state 2, action 1, next_state 2, probability 2, reward 3"
    )


@pytest.mark.parametrize("value", ["state", 5, None])
def test_what_is_no_column(value):
    assert message(value, ["x"], ["a"], [1]) == (
        f"the column state must be a list or array with one item per transition, not {value!r}"
    )


def test_columns_are_flat():
    assert message(["a"], ["x"], ["a"], np.ones((1, 1))) == (
        "the column probability must be flat; got an array of shape (1, 1)"
    )
    assert message(np.array([[0], [1]]), ["x"] * 2, [0, 1], [1, 1]) == (
        "the column state must be flat; got an array of shape (2, 1)"
    )


@pytest.mark.parametrize("columns", [([], [], [], []), (np.array([]),) * 4])
def test_an_empty_table(columns):
    assert message(*columns) == "the model is empty: it has no transitions"


def test_missing_and_unhashable_labels_name_their_row():
    nan = float("nan")
    assert message(["a", None], ["x"] * 2, ["a", "a"], [1, 1]) == "row 1: the state is missing (None)"
    assert message(["a", "b"], ["x", nan], ["a", "a"], [1, 1]) == "row 1: the action is missing (nan)"
    assert message(np.array([0.0, nan]), ["x"] * 2, [0.0, 0.0], [1, 1]) == "row 1: the state is missing (nan)"
    error = refuse(["a", "b"], ["x"] * 2, ["a", ["a"]], [1, 1])
    assert str(error) == "row 1: the next state ['a'] cannot be a name, it is not hashable; use a tuple"
    assert error.problems[0].row == 1


def test_labels_given_twice_or_not_at_all():
    assert message(["a"], ["x"], ["a"], [1], states=["a", "b", "a"]) == (
        "the state name 'a' is given twice, at positions 0 and 2"
    )
    assert message(["a"], ["x"], ["a"], [1], actions=["y"]) == (
        "row 0: the action 'x' is not among the names given by actions="
    )


def test_terminal_takes_a_list_of_known_states():
    columns = ["a"], ["x"], ["end"], [1]
    assert message(*columns, terminal="end") == "terminal= takes a list of states, not 'end': terminal=['end']"
    assert message(*columns, terminal=5) == "terminal= takes a list of states, not 5: terminal=[5]"
    assert message(*columns, terminal=None) == "terminal= takes a list of states, not None"
    error = refuse(*columns, terminal=["End"])
    assert str(error) == "terminal=: the model has no state 'End'; it has 2 states: 'a', 'end'"
    assert error.problems[0].value == "End"


@pytest.mark.parametrize("terminal", [("end",), {"end"}, np.array(["end", "end"]), iter(["end"])])
def test_terminal_takes_any_kind_of_list(terminal):
    assert MDP.from_table(["a"], ["x"], ["end"], [1], terminal=terminal).describe().terminal == 1


def test_a_terminal_state_has_no_rows():
    error = refuse(["a", "a", "b"], ["x", "y", "x"], ["a", "a", "b"], [1, 1, 1], terminal=["b", "a"])
    assert str(error).splitlines() == [
        "2 problems:",
        "  - state 'a' is declared terminal but has rows (for 'x', 'y'); drop one or the other",
        "  - state 'b' is declared terminal but has rows (for 'x'); drop one or the other",
    ]
    assert [problem.state for problem in error.problems] == ["a", "b"]


def test_input_is_left_alone():
    columns = [np.array(column) for column in (STATE, ACTION, NEXT, PROBABILITY, REWARD)]
    before = [column.copy() for column in columns]
    mdp = MDP.from_table(*columns, terminal=["dead"])
    assert all(np.array_equal(column, old) for column, old in zip(columns, before, strict=True))
    assert all(column.flags.writeable for column in columns)
    assert not any(np.shares_memory(mdp.form.probability, column) for column in columns)
    columns[3][:] = 0.5
    assert mdp.row("sick", "treat")[1].tolist() == [0.25, 0.75]


def test_a_sorted_table_is_not_aliased():
    probability, reward = np.array([1.0, 1.0]), np.array([1.0, 2.0])
    mdp = MDP.from_table(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), probability, reward)
    probability[:] = reward[:] = 7.0
    assert mdp.row(0, 0)[1].tolist() == [1.0]
    assert mdp.reward(0, 0) == 1.0


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_other_libraries(library):
    library = import_module(library)
    make = getattr(library, "Series", None) or library.array
    mdp = MDP.from_table(make(["a", "b"]), make(["go", "go"]), make(["b", "b"]), make([1.0, 1.0]), make([2, 0]))
    assert list(mdp.states) == ["a", "b"]
    assert mdp.reward("a", "go") == 2
