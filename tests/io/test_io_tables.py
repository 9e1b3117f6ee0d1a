"""Models as tables: the same model comes back, errors name lines, and what a table cannot hold is refused."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modelfiles import assert_same, models, mutated, transitions

import tether
from tether.io import from_dataframe, read_table, write_table
from tether.io.names_as_text import text_of
from tether.model.counts import Counts

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

CLINIC = """state,action,next_state,probability,reward
sick,treat,well,0.75,1
sick,treat,sick,0.25,0
sick,wait,dead,0.25,-100
sick,wait,sick,0.75,0
well,wait,well,0.875,10
well,wait,sick,0.125,5
"""


@pytest.fixture
def clinic(tmp_path):
    """Write the clinic's table, some of its text replaced."""

    def write(*changes, name="clinic.csv"):
        text = CLINIC
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def refusal(file, kind=tether.ModelError, **options):
    with pytest.raises(kind) as caught:
        read_table(file, **options)
    assert all(problem.file == file for problem in caught.value.problems)
    return str(caught.value).replace(file.rpartition("/")[0] + "/", ""), caught.value.problems


# --- Reading -----------------------------------------------------------------------------------


def test_a_table_of_transitions(clinic):
    mdp = read_table(clinic(), terminal=["dead"])
    assert list(mdp.states) == ["sick", "well", "dead"]
    assert mdp.actions_in("well") == ("wait",)
    assert mdp.row("sick", "treat")[1].tolist() == [0.25, 0.75]
    assert mdp.reward("sick", "wait", "dead") == -100.0
    assert mdp.reward("well", "wait", "sick") == 5.0


def test_columns_mapped_and_labels_in_the_order_wanted(clinic):
    file = clinic(("state,action,next_state,probability,reward", "s,a,t,p,r"))
    columns = {"state": "s", "action": "a", "next_state": "t", "probability": "p", "reward": "r"}
    mdp = read_table(
        file, columns=columns, states=["dead", "sick", "well"], actions=["wait", "treat"], terminal=["dead"]
    )
    assert (list(mdp.states), list(mdp.actions)) == (["dead", "sick", "well"], ["wait", "treat"])


def test_without_rewards_there_are_none(clinic):
    mdp = read_table(clinic(("reward", "comment")), terminal=["dead"])
    assert not mdp.rewards.values.any()


def test_terminal_states_named_as_text_are_found_among_numbers(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("state,action,next_state,probability\n0,0,1,1\n")
    assert read_table(file, terminal=["1"]).n_states == 2
    assert read_table(file, terminal=[1]).n_states == 2


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_from_a_dataframe(clinic, make):
    columns = {name: list(values) for name, values in pd.read_csv(clinic()).items()}
    mdp = from_dataframe(make(columns), terminal=["dead"])
    assert transitions(mdp) == transitions(read_table(clinic(), terminal=["dead"]))
    columns["p"] = columns.pop("probability")
    assert from_dataframe(make(columns), columns={"probability": "p"}, terminal=["dead"]).n_states == 3


def test_the_rows_of_a_dataframe_are_counted_as_it_counts_them(clinic):
    frame = pd.read_csv(clinic(("0.75,1", "-0.75,1")))
    with pytest.raises(tether.ModelError) as caught:
        from_dataframe(frame, terminal=["dead"])
    assert str(caught.value).startswith("row 0: state 'sick', action 'treat', next state 'well': the probability -0.75")


# --- Errors name lines -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected", "line"),
    [
        (
            ("0.875,10", "-0.875,10"),
            "clinic.csv, line 6: state 'well', action 'wait', next state 'well': the probability -0.875 is negative",
            6,
        ),
        (
            ("0.75,1\n", "0.7,1\n"),
            "clinic.csv, line 2: state 'sick', action 'treat': probabilities sum to 0.95; expected 1 (tolerance 1e-06)",
            2,
        ),
        (
            ("well,wait,sick,0.125,5", "well,wait,well,0.125,5"),
            "clinic.csv, line 7: state 'well', action 'wait', next state 'well': this transition is given twice "
            "(first in line 6); add the two up or drop one",
            7,
        ),
        (
            ("-100", "-inf"),
            "clinic.csv, line 4: state 'sick', action 'wait', next state 'dead': the reward -inf is not a finite "
            "number",
            4,
        ),
        (
            ("dead", "gone"),
            "clinic.csv: terminal=: the model has no state 'dead'; it has 3 states: 'sick', 'well', 'gone'",
            None,
        ),
        (
            ("well,wait,well", "dead,wait,dead"),
            "clinic.csv, line 6: state 'dead' is declared terminal but has rows (for 'wait'); drop one or the other",
            6,
        ),
        (
            ("0.875,10\nwell,wait,sick,0.125", "0,10\nwell,wait,sick,0"),
            "clinic.csv, line 6: state 'well', action 'wait': every probability is 0; leave the rows out if the action "
            "is not available there",
            6,
        ),
    ],
)
def test_what_is_no_model_is_said_with_its_line(clinic, change, expected, line):
    message, problems = refusal(clinic(change), terminal=["dead"])
    assert message == expected
    assert problems[0].line == line


def test_a_state_that_is_only_led_to_can_be_declared_terminal(clinic):
    message, problems = refusal(clinic())
    assert message == (
        "clinic.csv, line 4: state 'sick', action 'wait', next state 'dead': no row says what happens in state 'dead'; "
        "give its rows, or declare it terminal (absorbing, reward 0): terminal=['dead']"
    )
    assert (problems[0].line, problems[0].value) == (4, "dead")


def test_problems_come_in_the_order_of_the_lines_and_blank_lines_count(clinic):
    file = clinic(("sick,treat,sick,0.25,0\n", "\n\nsick,treat,sick,0.15,0\n"), ("0.875,10", "0.8,10"))
    message, problems = refusal(file, terminal=["dead"])
    assert [problem.line for problem in problems] == [2, 8]
    assert message.splitlines()[2] == (
        "  - clinic.csv, line 8: state 'well', action 'wait': probabilities sum to 0.925; expected 1 (tolerance 1e-06)"
    )


def test_rows_of_other_files_are_counted_from_1(clinic, tmp_path):
    frame = pd.read_csv(clinic(("well,wait,sick,0.125,5", "well,wait,well,0.125,5")))
    frame.to_parquet(tmp_path / "clinic.parquet")
    message, problems = refusal(str(tmp_path / "clinic.parquet"), terminal=["dead"])
    assert message.startswith("clinic.parquet, row 6: ")
    assert "(first in row 5)" in message
    assert (problems[0].row, problems[0].line) == (5, None)  # rows count from 0, and only text has lines


def test_a_label_that_was_not_listed_is_named_with_its_line(clinic):
    message, problems = refusal(clinic(), states=["sick", "well"])
    assert message == "clinic.csv, line 4: the next state 'dead' is not among the names given by states="
    assert problems[0].line == 4


# --- Writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.arrow", "a.feather"])
@in_a_folder
@given(mdp=models())
def test_a_model_comes_back(tmp_path, name, mdp):
    file = tmp_path / name
    write_table(mdp, file)
    found = read_table(file)
    whole = all(type(label) is int for label in [*mdp.states, *mdp.actions])
    assert_same(found, mdp, (lambda label: label) if whole else text_of)
    order = sorted(mdp.states) if whole else [text_of(state) for state in mdp.states]
    assert list(found.states) == order  # every state has rows, and so stands in the column state


def test_the_text_of_a_table(tmp_path):
    mdp = tether.MDP.from_table(
        ["a", "a", "b"], ["x"] * 3, ["a", "b", 'c"'], [0.1, 0.9, 1.0], [1, 2, 3], terminal=['c"']
    )
    write_table(mdp, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "state,action,next_state,probability,reward\n"
        '"a","x","a",0.1,1\n'
        '"a","x","b",0.9,2\n'
        '"b","x","c""",1,3\n'
        '"c""","x","c""",1,0\n'
    )


def test_the_epidemic_as_a_table(tmp_path):
    mdp = tether.cases.epidemic().mdp
    write_table(mdp, tmp_path / "epidemic.parquet")
    assert_same(read_table(tmp_path / "epidemic.parquet"), mdp, text_of)


def limited():
    return tether.MDP.from_function(0, lambda s: ["up"], lambda s, a: {s + 1: 1.0}, horizon=2)


def timed():
    return tether.MDP.from_arrays([[[1.0]]], [[[1.0]], [[2.0]], [[3.0]]], reward_axes="tsa")


def learned():
    mdp = tether.MDP.from_arrays([[[1.0]]])
    return dataclasses.replace(mdp, counts=Counts(np.array([3]), 0.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (limited, "the horizon 2"),
        (timed, "rewards that depend on time (for 3 steps)"),
        (lambda: tether.MDP.from_arrays([[[1.0]]]).with_objective(discount=0.5), "the discount 0.5"),
        (lambda: tether.MDP.from_arrays([[[1.0]]]).with_objective(final_reward=[1]), "the final reward"),
        (learned, "the counts that it was learned from"),
        (
            lambda: tether.MDP.from_arrays([[[1.0]]]).with_objective(discount=0.5, final_reward=[1]),
            "the discount 0.5, the final reward",
        ),
    ],
)
def test_what_a_table_cannot_hold_is_refused_and_nothing_is_written(tmp_path, make, message):
    file = tmp_path / "a.csv"
    with pytest.raises(tether.errors.FileError) as caught:
        write_table(make(), file)
    assert str(caught.value) == (
        f"{file}: a table cannot hold what this model has: {message}; save it as a model, which can: mdp.save('<file>')"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("states", "name", "expected"),
    [
        ([1, "1"], "a.csv", "the state name '1' is written like the name 1"),
        (["", "b"], "a.parquet", "the state name '' is empty"),
        ([" a", "b"], "a.csv", "the state name ' a' has spaces around it, which are lost when a text file is read"),
        (["a\0", "b"], "a.csv", "the state name 'a\\x00' holds characters that a file cannot hold"),
        (["\ud800", "b"], "a.arrow", "the state name '\\ud800' holds characters that a file cannot hold"),
    ],
)
def test_labels_that_could_not_be_told_again_are_refused(tmp_path, states, name, expected):
    mdp = tether.MDP.from_arrays([[[0.5, 0.5]], [[0.5, 0.5]]], states=states)
    with pytest.raises(tether.errors.FileError) as caught:
        write_table(mdp, tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {expected}; rename it: mdp.with_names(states=…)"
    assert list(tmp_path.iterdir()) == []


def test_where_a_table_cannot_be_written(tmp_path):
    mdp = tether.cases.grid_world().mdp
    with pytest.raises(tether.errors.FileError, match="the name does not say what table this is"):
        write_table(mdp, tmp_path / "a.txt")
    with pytest.raises(tether.errors.FileError, match="it cannot be written"):
        write_table(mdp, tmp_path / "no" / "a.csv")
    write_table(mdp, tmp_path / "a.txt", kind="csv")
    assert read_table(tmp_path / "a.txt", kind="csv").n_states == 16


# --- Fuzz --------------------------------------------------------------------------------------


@in_a_folder
@given(data=st.one_of(mutated(CLINIC.encode()), st.binary(max_size=50).map(lambda tail: CLINIC.encode()[:60] + tail)))
def test_no_text_crashes(tmp_path, data):
    file = tmp_path / "a.csv"
    file.write_bytes(data)
    try:
        mdp = read_table(file, terminal=["dead"])
    except tether.TetherError as error:
        assert str(error)  # noqa: PT017
    else:
        assert mdp.n_transitions > 0


def test_the_columns_of_a_dataframe_stay_as_they_were():
    # Rows pair by pair, next states in no order, sums beside 1: all that is put right is put right in the model.
    frame = {
        "state": np.array([0, 0, 1, 1]),
        "action": np.array([0, 0, 0, 0]),
        "next_state": np.array([1, 0, 1, 0], dtype=np.int32),
        "probability": np.array([0.25, 0.75 + 1e-9, 0.5, 0.5]),
        "reward": np.array([1.0, 2.0, 3.0, 4.0]),
    }
    before = {name: column.copy() for name, column in frame.items()}
    mdp = from_dataframe(frame)
    assert mdp.row(0, 0)[0] == (0, 1)
    assert mdp.form.rewards.values.tolist() == [2.0, 1.0, 4.0, 3.0]
    assert all(np.array_equal(frame[name], column) for name, column in before.items())
    assert all(column.flags.writeable for column in frame.values())
