"""The observed path: what it may look like, and what is said of one that cannot have happened."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import tether
from tether import MDP, Path
from tether.observation.path import observe

# "operate" is possible only when sick; the dead stay dead.
CLINIC = MDP.from_table(
    ["sick", "sick", "sick", "sick", "well", "well", "dead"],
    ["wait", "wait", "operate", "operate", "wait", "wait", "wait"],
    ["sick", "dead", "well", "dead", "well", "sick", "dead"],
    [0.75, 0.25, 0.875, 0.125, 0.9375, 0.0625, 1.0],
)


def refuse(states, actions, mdp=CLINIC):
    with pytest.raises(tether.PathError) as caught:
        observe(mdp, Path(states, actions))
    return caught.value


def test_what_is_wrong_is_told_by_fields():
    error = refuse(["sick", "sun", "dead", "dead"], ["wait", "fly", "operate"])
    told = [(one.place, one.time, one.value, one.what, one.fix) for one in error.problems]
    assert told == [
        ("t = 1", 1, "sun", "the model has no state 'sun'", "it has 3 states: 'sick', 'well', 'dead'"),
        ("t = 1", 1, "fly", "the model has no action 'fly'", "it has 2 actions: 'wait', 'operate'"),
        ("t = 2", 2, "operate", "action 'operate' is not available in state 'dead'", "available are 'wait'"),
    ]
    assert "t = 1: the model has no state 'sun'; it has 3 states: 'sick', 'well', 'dead'" in str(error)


def test_of_very_many_problems_only_some_are_kept():
    error = refuse(["sun"] * 501, ["wait"] * 500)
    assert (len(error.problems), error.total) == (100, 501)
    assert str(error).endswith("… and 493 more")


def test_a_path_is_found_in_the_model():
    seen = observe(CLINIC, Path(["sick", "sick", "well"], ["wait", "operate"]))
    assert seen.T == 2
    assert seen.states.tolist() == [0, 0, 1]
    assert seen.actions.tolist() == [0, 1]
    assert seen.pairs.tolist() == [0, 1]
    for array in (seen.states, seen.actions, seen.pairs):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_last_outcome_may_be_missing():
    path = Path(["sick", "well"], ["operate", "wait"])
    assert not path.last_recorded
    assert path.T == len(path) == 2
    seen = observe(CLINIC, path)
    assert seen.states.tolist() == [0, 1, -1]
    assert seen.pairs.tolist() == [1, 2]


@pytest.mark.parametrize("kind", [list, tuple, np.array, iter])
def test_any_kind_of_list(kind):
    path = Path(kind([0, 1]), kind([5]))
    assert path == Path([0, 1], [5])
    assert {type(label) for label in (*path.states, *path.actions)} == {int}


def test_dataframe_columns():
    class Column:
        def __iter__(self):
            raise AssertionError("to_list is there to be used")

        def to_list(self):
            return ["sick", "well"]

    assert Path(Column(), ["wait"]).states == ("sick", "well")


def test_a_path_prints_on_one_line():
    assert repr(Path(["sick"], ["wait"])) == "<Path: 1 step, 'sick' –'wait'→ ?>"
    four = Path([0, 1, 2, 3, 4], list("abcd"))
    assert repr(four) == "<Path: 4 steps, 0 –'a'→ 1 –'b'→ 2 –'c'→ 3 –'d'→ 4>"
    five = Path(range(6), list("abcde"))
    assert repr(five) == "<Path: 5 steps, 0 –'a'→ 1 –'b'→ 2 … –'e'→ 5>"
    long = Path(range(9), ["up"] * 8)
    assert repr(long) == "<Path: 8 steps, 0 –'up'→ 1 –'up'→ 2 … –'up'→ 8>"


def test_a_path_shows_as_a_table_and_escapes_what_it_shows():
    html = Path(["<b>sick</b>", "a & b"], ["<i>"])._repr_html_()
    assert html == (
        "<table><tr><th>t</th><th>state</th><th>action</th></tr>"
        "<tr><td>0</td><td>&lt;b&gt;sick&lt;/b&gt;</td><td>&lt;i&gt;</td></tr>"
        "<tr><td>1</td><td>a &amp; b</td><td></td></tr></table>"
    )
    assert "<td>1</td><td>not recorded</td><td></td>" in Path(["a"], ["x"])._repr_html_()


def test_a_path_is_immutable():
    path = Path(["sick", "well"], ["operate"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        path.states = ()
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        path.note = "x"
    states = ["sick", "well"]
    path = Path(states, ["operate"])
    states[0] = "dead"
    assert path.states == ("sick", "well")


def test_paths_are_equal_by_content_and_survive_pickling():
    path = Path(["sick", "well"], ["operate"])
    assert path == Path(("sick", "well"), ("operate",))
    assert hash(path) == hash(Path(("sick", "well"), ("operate",)))
    assert path != Path(["sick", "dead"], ["operate"])
    assert path != Path(["sick"], ["operate"])
    for twin in (pickle.loads(pickle.dumps(path)), copy.deepcopy(path)):
        assert twin == path
        assert twin.last_recorded


# Paths of the wrong form.


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (["a"], [], "a path needs at least one action; got 1 state and no actions"),
        ([], [], "a path needs at least one action; got 0 states and no actions"),
        (
            ["a", "b", "c"],
            ["x"],
            "a path of 1 action has 2 states, or 1 if the last outcome was not recorded; got 3",
        ),
        (["a"], ["x", "y"], "a path of 2 actions has 3 states, or 2 if the last outcome was not recorded; got 1"),
        ("ab", ["x"], "states must be a list of names, not 'ab'"),
        (["a"], "x", "actions must be a list of names, not 'x'"),
        (None, ["x"], "states must be a list of names, not None"),
        (3, ["x"], "states must be a list of names, not 3"),
        (
            ["a", ["b"]],
            ["x"],
            "t = 1: the state ['b'] cannot be a name, it is not hashable; use a tuple",
        ),
        (
            ["a", "b"],
            [{"dose": 1}],
            "t = 0: the action {'dose': 1} cannot be a name, it is not hashable; use a tuple",
        ),
    ],
)
def test_a_path_of_the_wrong_form(states, actions, message):
    with pytest.raises(tether.PathError) as caught:
        Path(states, actions)
    assert str(caught.value) == message


def test_an_unhashable_label_says_when():
    with pytest.raises(tether.PathError) as caught:
        Path(np.array([[0, 0], [0, 1]]), ["x"])
    assert (caught.value.problems[0].time, caught.value.problems[0].value) == (0, [0, 0])


# Paths that cannot have happened.


def test_an_unknown_state():
    error = refuse(["sick", "Sick", "well"], ["wait", "operate"])
    assert str(error) == "t = 1: the model has no state 'Sick'; it has 3 states: 'sick', 'well', 'dead'"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.time, problem.value) == ("Sick", None, 1, "Sick")


def test_an_unknown_last_state_is_not_taken_for_missing():
    error = refuse(["sick", "cured"], ["operate"])
    assert str(error).startswith("t = 1: the model has no state 'cured'")
    assert str(refuse(["sick", None], ["operate"])).startswith("t = 1: the model has no state None")


def test_an_unknown_action():
    error = refuse(["sick", "sick"], ["pray"])
    assert str(error) == "t = 0: the model has no action 'pray'; it has 2 actions: 'wait', 'operate'"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.time, problem.value) == (None, "pray", 0, "pray")


def test_a_label_of_another_type():
    mdp = MDP.from_arrays([[[1.0]]])
    assert str(refuse(["0", 0], [0], mdp)) == (
        "t = 0: the model has no state '0'; it has 1 state: 0 (there is 0, a name of type int, but '0' is a str)"
    )


def test_an_action_that_is_not_available():
    error = refuse(["sick", "well", "well"], ["operate", "operate"])
    assert str(error) == "t = 1: action 'operate' is not available in state 'well'; available are 'wait'"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.time, problem.value) == ("well", "operate", 1, "operate")


def test_a_state_with_no_action_at_all():
    mdp = MDP.from_table(["a"], ["x"], ["a"], [1], states=["a", "b"])
    assert str(refuse(["b", "a"], ["x"], mdp)) == (
        "t = 0: action 'x' is not available in state 'b'; the model gives no action there"
    )


def test_a_step_of_probability_0_says_what_could_have_happened():
    error = refuse(["sick", "dead", "well"], ["wait", "wait"])
    assert str(error) == (
        "t = 1: state 'dead', action 'wait' cannot lead to 'well', the model gives it probability 0; "
        "it could have led to 'dead' (1)"
    )
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state) == ("dead", "wait", "well")
    assert (problem.time, problem.value) == (1, 0.0)


def test_no_state_is_excused():
    """The first state of the model has the index 0, which is not "no outcome"."""
    assert str(refuse(["sick", "dead", "sick"], ["operate", "wait"])) == (
        "t = 1: state 'dead', action 'wait' cannot lead to 'sick', the model gives it probability 0; "
        "it could have led to 'dead' (1)"
    )


def test_six_outcomes_are_all_told():
    mdp = MDP.from_arrays([[[1 / 6] * 6 + [0.0]]] + [[[0.0] * 6 + [1.0]]] * 6)
    listed = ", ".join(f"{j} (0.167)" for j in range(6))
    assert str(refuse([0, 6], [0], mdp)).endswith(f"it could have led to {listed}")


def test_what_could_have_happened_comes_by_probability_and_is_cut():
    n = 20
    chances = np.arange(1, n + 1) / (n * (n + 1) / 2)
    mdp = MDP.from_table(
        [0] * n + list(range(1, n + 2)),
        ["x"] * (2 * n + 1),
        [*range(1, n + 1), *range(1, n + 2)],
        [*chances, *[1] * (n + 1)],
    )
    listed = ", ".join(f"{j} ({chances[j - 1]:.3g})" for j in range(20, 14, -1))
    assert str(refuse([0, 21], ["x"], mdp)).endswith(f"it could have led to {listed}, … (20 in all)")


def test_every_problem_of_a_path_is_told():
    error = refuse(["well", "dead", "ill", "sick", "well"], ["wait", "wait", "wait", "jump"])
    assert str(error).splitlines() == [
        "3 problems:",
        "  - t = 2: the model has no state 'ill'; it has 3 states: 'sick', 'well', 'dead'",
        "  - t = 0: state 'well', action 'wait' cannot lead to 'dead', the model gives it probability 0; "
        "it could have led to 'well' (0.938), 'sick' (0.0625)",
        "  - t = 3: the model has no action 'jump'; it has 2 actions: 'wait', 'operate'",
    ]
    assert [problem.time for problem in error.problems] == [2, 0, 3]


def test_many_problems_of_a_path_are_counted():
    error = refuse(["ill"] * 41, ["wait"] * 40)
    assert error.total == 41
    assert str(error).startswith("41 problems:\n")
    assert str(error).endswith("… and 33 more")


def test_more_steps_than_rewards():
    mdp = MDP.from_arrays([[[1.0]]], np.zeros((2, 1, 1)))
    assert str(refuse([0, 0, 0, 0], [0, 0, 0], mdp)).startswith(
        "the path has 3 steps, but the model is valid for up to 2 only"
    )
    assert observe(mdp, Path([0, 0, 0], [0, 0])).T == 2


def test_a_model_and_a_path_are_asked_for():
    with pytest.raises(tether.PathError) as caught:
        tether.counterfactual(CLINIC, {"states": ["sick", "well"], "actions": ["operate"]})
    assert str(caught.value) == "expected a tether.Path, not dict: tether.Path(states, actions)"
    with pytest.raises(tether.PathError) as caught:  # two lists are indices
        tether.counterfactual(CLINIC, (["sick", "well"], ["operate"]))
    told = "states must be a list of whole numbers, the model's indices; got ['sick', 'well']"
    assert str(caught.value) == told
    with pytest.raises(tether.QueryError) as caught:
        tether.counterfactual(Path(["sick"], ["wait"]), CLINIC)
    assert str(caught.value) == "expected a tether.MDP, not Path: tether.MDP.from_arrays(P, R), …"


# --- What was earned -------------------------------------------------------------------------------


def test_a_path_keeps_what_was_earned():
    path = tether.Path(["a", "b", "c"], ["x", "y"], rewards=np.array([1, np.nan]))
    assert path.rewards == (1.0, None)
    assert path == tether.Path(["a", "b", "c"], ["x", "y"], [1, None])
    assert path != tether.Path(["a", "b", "c"], ["x", "y"])
    assert hash(path) == hash(tether.Path(["a", "b", "c"], ["x", "y"], [1.0, None]))
    assert tether.Path(["a", "b"], ["x"]).rewards is None
    assert tether.Path(["a", "b"], ["x"], [None]).rewards is None  # nothing is known either way
    assert "<th>reward</th>" in path._repr_html_()
    assert "<td>b</td><td>y</td><td></td>" in path._repr_html_()
    assert pickle.loads(pickle.dumps(path)) == path


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([1], "a path of 2 actions has 2 rewards, one per action; got 1"),
        ([1, 2, 3], "a path of 2 actions has 2 rewards, one per action; got 3"),
        ([1, np.inf], "t = 1: the reward inf is not a finite number; give None where it is not known"),
        ([1, "2"], "t = 1: the reward '2' is not a finite number; give None where it is not known"),
        ([True, 2], "t = 0: the reward True is not a finite number; give None where it is not known"),
        ([[], 2], "t = 0: the reward [] is not a finite number; give None where it is not known"),
        ([10**400, 2], None),
        (5, "rewards must be a list of numbers, one per step, not 5"),
        ("12", "rewards must be a list of numbers, one per step, not '12'"),
    ],
)
def test_rewards_that_are_none(rewards, message):
    with pytest.raises(tether.PathError) as caught:
        tether.Path(["a", "b", "c"], ["x", "y"], rewards)
    if message is not None:
        assert str(caught.value) == message
