"""The exception tree: one root, problems as records, messages that count what they leave out."""

import copy
import pickle

import pytest

import tether
from tether.errors import SHOWN


def broken(n):
    """The error of a model in which ``n`` rows sum to 0.5."""
    states = list(range(n))
    with pytest.raises(tether.ModelError) as caught:
        tether.MDP.from_table(states, ["wait"] * n, states, [0.5] * n)
    return caught.value


@pytest.mark.parametrize("kind", [tether.ModelError, tether.PathError, tether.QueryError])
def test_every_error_is_a_tether_error_and_a_value_error(kind):
    assert issubclass(kind, tether.TetherError)
    assert issubclass(kind, ValueError)
    others = {tether.ModelError, tether.PathError, tether.QueryError} - {kind}
    assert not any(issubclass(kind, other) for other in others)


def test_one_problem_is_the_message():
    error = broken(1)
    assert str(error) == "state 0, action 'wait': probabilities sum to 0.5, not 1 (tolerance 1e-06)"
    assert error.total == 1
    assert error.problems == (tether.Problem(str(error), state=0, action="wait", value=0.5),)


def test_a_few_problems_are_all_spelled_out():
    lines = str(broken(SHOWN)).splitlines()
    assert lines[0] == "8 problems:"
    assert lines[1:] == [
        f"  - state {s}, action 'wait': probabilities sum to 0.5, not 1 (tolerance 1e-06)" for s in range(SHOWN)
    ]


def test_many_problems_are_counted_and_cut():
    error = broken(1234)
    lines = str(error).splitlines()
    assert lines[0] == "1,234 problems:"
    assert len(lines) == 1 + SHOWN + 1
    assert lines[-1] == "  … and 1,226 more"
    assert error.total == 1234
    # form.py keeps 100 of a kind as records, in the order of the states.
    assert [problem.state for problem in error.problems] == list(range(100))


def test_problems_of_different_kinds_come_in_one_error():
    with pytest.raises(tether.ModelError) as caught:
        tether.MDP.from_table(
            ["a", "a", "a", "b"], ["x"] * 4, ["a", "b", "b", "b"], [-0.5, 0.5, 0.5, 1.0], [0, 0, 0, float("inf")]
        )
    assert str(caught.value).splitlines() == [
        "3 problems:",
        "  - row 0: state 'a', action 'x', next state 'a': the probability -0.5 is negative",
        "  - row 2: state 'a', action 'x', next state 'b': this transition is given twice (first in row 1); "
        "add the two up or drop one",
        "  - row 3: state 'b', action 'x', next state 'b': the reward inf is not a finite number",
    ]


@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_errors_survive_pickling(again):
    error = broken(1234)
    twin = again(error)
    assert type(twin) is tether.ModelError
    assert str(twin) == str(error)
    assert twin.problems == error.problems
    assert twin.total == 1234


@pytest.mark.parametrize("kind", [tether.PathError, tether.QueryError])
def test_errors_of_one_sentence_survive_pickling(kind):
    error = kind("no")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is kind
    assert str(twin) == "no"
    assert twin.problems == (tether.Problem("no"),)


def test_a_problem_is_immutable():
    problem = tether.Problem("wrong", state="a", value=3)
    with pytest.raises(AttributeError):
        problem.value = 4
    assert pickle.loads(pickle.dumps(problem)) == problem
