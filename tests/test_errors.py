"""The exception tree: one root, problems as records, messages that count what they leave out."""

import ast
import copy
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import tether
from tether.errors import SHOWN

SOURCE = Path(tether.__file__).parent


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
    assert str(error) == "state 0, action 'wait': probabilities sum to 0.5; expected 1 (tolerance 1e-06)"
    assert error.total == 1
    assert error.problems == (
        tether.errors.Problem(
            "probabilities sum to 0.5",
            state=0,
            action="wait",
            value=0.5,
            place="state 0, action 'wait'",
            expectation="1 (tolerance 1e-06)",
        ),
    )


def test_a_few_problems_are_all_spelled_out():
    lines = str(broken(SHOWN)).splitlines()
    assert lines[0] == "8 problems:"
    assert lines[1:] == [
        f"  - state {s}, action 'wait': probabilities sum to 0.5; expected 1 (tolerance 1e-06)" for s in range(SHOWN)
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
    assert twin.problems == (tether.errors.Problem("no"),)


def test_a_problem_is_immutable():
    problem = tether.errors.Problem("wrong", state="a", value=3)
    with pytest.raises(AttributeError):
        problem.value = 4
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_the_sentence_is_made_of_the_fields():
    problem = tether.errors.Problem(
        "found 'x'", place="t = 3", expectation="a number", fix="write one", file="a.csv", line=7
    )
    assert problem.message == "a.csv, line 7: t = 3: found 'x'; expected a number; write one"
    assert replace(problem, line=None, row=5).message.startswith("a.csv, row 6: t = 3: ")
    assert replace(problem, line=None, file=None, row=5).message.startswith("row 5: t = 3: ")
    assert tether.errors.Problem("it is late").message == "it is late"


def problem_calls():
    """Every call of Problem in the package: its file, and its syntax."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                yield file, node


def test_no_problem_says_its_file_or_row_twice():
    """The sentence begins with the file, the line and the row: what is wrong does not repeat them."""
    found = list(problem_calls())
    assert len(found) > 50
    for file, call in found:
        what = call.args[0] if call.args else None
        named = {one.arg: ast.unparse(one.value).removeprefix("str(").removesuffix(")") for one in call.keywords}
        if not isinstance(what, ast.JoinedStr) or not {"file", "row"} & named.keys():
            continue
        first = what.values[0]
        begins = ast.unparse(first.value) if isinstance(first, ast.FormattedValue) else first.value
        assert begins not in (named.get("file"), named.get("row")), f"{file.name}, line {call.lineno}"
        assert not begins.startswith("row "), f"{file.name}, line {call.lineno}"


def test_nobody_reads_our_own_sentences_as_data():
    """No regular expression, split or substring over str(error), .message or what an object prints as."""
    parsing = {"split", "partition", "rpartition", "splitlines", "removeprefix", "removesuffix", "startswith", "find"}
    ours = {"message", "what", "sentence"}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in parsing:
                of = node.func.value
                assert not (isinstance(of, ast.Attribute) and of.attr in ours), f"{file}, line {node.lineno}"
