"""Logs as files and dataframes: round trips, every bad row with its line, and no bytes that crash the reader."""

import csv
import gzip
import io

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import ACTIONS, IDS, STATES, logs
from pyarrow import feather, parquet

import tether
from tether.errors import FileError
from tether.io.logs import read_episodes, write_episodes
from tether.observation.episodes import Episodes

KINDS = ["csv", "tsv", "csv.gz", "parquet", "arrow", "feather"]
PLAIN = {"states": STATES.filter(lambda labels: not isinstance(labels[0], tuple)), "actions": ACTIONS, "ids": IDS}

GOOD = "episode,t,state,action,reward,next_state\nann,0,sick,wait,0,\nann,1,sick,treat,2.5,well\nbob,0,well,wait,,\n"


@pytest.fixture
def write(tmp_path):
    def make(text, name="log.csv"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return make


def refuse(file, **options):
    with pytest.raises(FileError) as caught:
        read_episodes(file, **options)
    return caught.value


def lines(error, file):
    """The messages of an error without the name of the file."""
    return [problem.message.removeprefix(f"{file}, ").removeprefix(f"{file}: ") for problem in error.problems]


def same(one, other):
    assert dict(one) == dict(other)
    for name in one:
        if one.reward is None:
            assert other.reward is None
        else:
            np.testing.assert_array_equal(one.rewards(name), other.rewards(name))


# --- Reading -----------------------------------------------------------------------------------------


def test_a_log_in_text(write):
    log = read_episodes(write(GOOD))
    assert (
        repr(log) == "<Episodes: 2 episodes, 3 steps, 2 states, 2 actions, with rewards; 1 last outcome not recorded>"
    )
    assert log["ann"] == tether.Path(["sick", "sick", "well"], ["wait", "treat"], [0, 2.5])
    assert log["bob"] == tether.Path(["well"], ["wait"])
    assert log.rewards("ann").tolist() == [0.0, 2.5]
    assert np.isnan(log.rewards("bob")).tolist() == [True]


def test_columns_by_other_names_among_others(write):
    file = write("x;who;hour;where;what\n1;7;5;0;1\n2;7;6;3;\n")
    log = read_episodes(file, columns={"episode": "who", "t": "hour", "state": "where", "action": "what"})
    assert dict(log) == {7: tether.Path([0, 3], [1])}


def test_numbers_in_one_column_and_names_in_the_other_are_names(write):
    log = read_episodes(write("episode,t,state,action,next_state\n1,0,3,x,4\n1,1,4,x,dead\n2,0,5,x,\n"))
    assert log[1] == tether.Path(["3", "4", "dead"], ["x", "x"])
    log = read_episodes(write("episode,t,state,action,next_state\n1,0,up,x,4\n2,0,4,x,4\n"))
    assert log[2] == tether.Path(["4", "4"], ["x"])


@pytest.mark.parametrize(
    "frame",
    [
        lambda table: table,
        lambda table: table.to_pandas(),
        polars.from_arrow,
        lambda table: table.to_pydict(),
        lambda table: table.to_pandas().convert_dtypes(),
        lambda table: table.to_pandas().astype({"state": "category"}),
    ],
    ids=["arrow", "pandas", "polars", "dict", "pandas-nullable", "categories"],
)
def test_dataframes(frame, write):
    table = pyarrow.table(
        {
            "episode": ["ann", "ann", "bob"], "t": [0, 1, 0], "state": ["sick", "sick", "well"],
            "action": ["wait", "treat", "wait"], "reward": [0, 2.5, None], "next_state": [None, "well", None],
        }
    )  # fmt: skip
    same(read_episodes(frame(table)), read_episodes(write(GOOD)))


def test_a_dataframe_whose_numbers_became_floats():
    frame = pandas.DataFrame({"episode": [1, 1], "t": [0, 1], "state": [4, 2], "action": [0, None]})
    assert frame["action"].dtype == float
    assert read_episodes(frame)[1] == tether.Path([4, 2], [0])


# --- Round trips ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(log=logs(**PLAIN))
def test_what_is_written_is_read_again(log, kind, tmp_path_factory):
    file = tmp_path_factory.mktemp("logs") / f"log.{kind}"
    episodes = Episodes.from_columns(**log.columns())
    write_episodes(episodes, file)
    again = read_episodes(file)
    same(again, episodes)
    assert list(again.ids) == list(episodes.ids)


def test_paths_can_be_written_too(tmp_path):
    path = tether.Path(["a", "b"], ["go"])
    write_episodes({"x": path}, tmp_path / "one.csv")
    assert dict(read_episodes(tmp_path / "one.csv")) == {"x": path}
    write_episodes([path, path], tmp_path / "two.csv")
    assert dict(read_episodes(tmp_path / "two.csv")) == {0: path, 1: path}
    assert (tmp_path / "one.csv").read_text() == 'episode,t,state,action\n"x",0,"a","go"\n"x",1,"b",\n'


def test_other_labels_are_written_as_text(tmp_path):
    case = tether.cases.epidemic()
    write_episodes([case.path], tmp_path / "log.csv")
    again = read_episodes(tmp_path / "log.csv")[0]
    assert again.states == tuple(str(tuple(state)) for state in case.path.states)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_are_found_in_a_model(kind, tmp_path):
    case = tether.cases.epidemic()
    paths = {"seen": case.path, "short": tether.Path(case.path.states[:3], case.path.actions[:3])}
    write_episodes(paths, tmp_path / f"log.{kind}")
    again = read_episodes(tmp_path / f"log.{kind}", case.mdp)
    assert dict(again) == paths
    assert [state.I for state in again["seen"].states] == [state.I for state in case.path.states]  # not bare tuples


def test_labels_that_a_model_does_not_have(write):
    mdp = tether.MDP.from_table(["a"], ["x"], ["a"], [1.0])
    file = write("episode,t,state,action,next_state\n1,0,a,x,b\n1,1,b,y,\n2,0,a,x,\n3,0,b,y,a\n")
    error = refuse(file, mdp=mdp)
    assert lines(error, file) == [
        "line 2: the model has no state 'b'; it has 1 state: 'a'",
        "line 3: the model has no state 'b'; it has 1 state: 'a'",
        "line 3: the model has no action 'y'; it has 1 action: 'x'",
    ]
    with pytest.raises(tether.PathError, match=r"^row 0: the model has no state 'c'"):
        read_episodes({"episode": [1], "t": [0], "state": ["c"], "action": ["x"]}, mdp)


def test_the_kind_can_be_given(tmp_path):
    path = tether.Path(["a", "b"], ["go"])
    write_episodes([path], tmp_path / "log.txt", kind="tsv")
    assert read_episodes(tmp_path / "log.txt", kind="tsv")[0] == path


@pytest.mark.parametrize("states", [[1, "1"], [" ", "a"], ["a ", "a"], ["\ud800", "a"], ["\0", "a"]])
def test_labels_that_would_not_come_back(states, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("as it was")
    with pytest.raises(FileError) as caught:
        write_episodes([tether.Path(states, ["go"])], file)
    label = states[1] if states == [1, "1"] else states[0]
    assert str(caught.value).startswith(f"{file}: the state name {label!r} ")
    assert str(caught.value).endswith("; rename it")
    assert file.read_text() == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["log.csv"]


def test_where_nothing_can_be_written(tmp_path):
    path = tether.Path(["a", "b"], ["go"])
    with pytest.raises(FileError, match=r"the name does not say what table this is; expected one of \.csv"):
        write_episodes([path], tmp_path / "log.doc")
    with pytest.raises(FileError, match="cannot be written"):
        write_episodes([path], tmp_path / "no such folder" / "log.csv")


# --- Bad logs --------------------------------------------------------------------------------------------


def test_every_bad_row_is_named_with_its_line(write):
    file = write(
        "episode,t,state,action,reward,next_state\n"
        "1,0,a,x,,\n"  # 2
        "1,2,b,x,,\n"  # 3: a gap
        '2,0,"a\nb",x,,c\n'  # 4 and 5
        "2,1,d,x,,\n"  # 6
        "\n"
        "3,0,a,,,\n"  # 8: no step
        "4,1,a,x,inf,\n"  # 9
        "4,1.5,a,x,,\n"  # 10
        "5,0,a,,,\n"  # 11
        "5,1,a,x,2,\n"  # 12
        "5,1,a,,3,a\n"  # 13
    )
    error = refuse(file)
    assert lines(error, file) == [
        "line 3: episode 1: t goes from 0 to 2; t = 1 is missing",
        "line 4: episode 2, t = 0: next_state is 'c', but the state of t = 1 is 'd' (line 6)",
        "line 8: episode 3: a single row, without an action: nothing happens in it; leave it out",
        "line 9: the reward inf is not a finite number",
        "line 10: t is 1.5; expected a whole number",
        "line 11: episode 5, t = 0: the action is empty; only an episode's last row may lack it",
        "line 13: episode 5: t = 1 is given twice (first in line 12)",
        "line 13: episode 5, t = 1: next_state is given, but no action led there",
        "line 13: episode 5, t = 1: the reward 3 has no action that earned it; a reward belongs in the row of its "
        "action",
    ]
    assert [problem.line for problem in error.problems] == [3, 4, 8, 9, 10, 11, 13, 13, 13]
    assert {problem.file for problem in error.problems} == {str(file)}


def test_cells_that_cannot_be_read_hide_nothing_else(write):
    """Numbers that are none, unknown names, gaps and repetitions: all at once, and nothing twice."""
    mdp = tether.MDP.from_table(["sick", "sick"], ["wait", "treat"], ["sick", "sick"], [1.0, 1.0])
    rows = [
        "ann,0,sick,wait,abc",
        "ann,2,sick,,",
        "bob,0,sick,wait,1",
        "bob,2,sick,,",
        "cy,x,sick,wait,1",
        "cy,3,sick,,",
    ]
    rows += ["dee,0,dead,wait,1", "dee,1,sick,,", "eve,0,sick,wait,1", "eve,0,sick,,"]
    file = write("episode,t,state,action,reward\n" + "\n".join(rows))
    assert lines(refuse(file, mdp=mdp), file) == [
        "line 2: found 'abc' in the column 'reward'; expected a number",
        "line 5: episode 'bob': t goes from 0 to 2; t = 1 is missing",
        "line 6: found 'x' in the column 't'; expected a number",
        "line 8: the model has no state 'dead'; it has 1 state: 'sick'",
        "line 11: episode 'eve': t = 0 is given twice (first in line 10)",
    ]
    by_time = write(
        "episode,hour,state,action,reward\nann,0,sick,wait,abc\nann,4,sick,,\nbob,0,sick,wait,1\nbob,5,sick,,\n"
    )
    assert lines(refuse(by_time, time="hour", step=4), by_time) == [
        "line 2: found 'abc' in the column 'reward'; expected a number",
        "line 5: episode 'bob': hour = 5 comes 5 after 0; expected 4 (step=)",
    ]


@pytest.mark.parametrize(
    ("text", "beginnings"),
    [
        ("", ["the file is empty; expected a header with the columns episode, t, state, action"]),
        ("episode,t,state,action\n", ["there is a header, but no rows"]),
        ("1,0,a,x\n", ["the columns 'episode', 't', 'state', 'action' are missing"]),
        (
            "episode,t,state,action\n1,zero,a,x\n,0,a,x\n1,0,,x\n",
            ["line 2: found 'zero' in the column 't'", "line 3: the cell in the column 'episode'", "line 4: "],
        ),
        ("episode,t,state,action,reward\n1,0,a,x,lots\n", ["line 2: found 'lots' in the column 'reward'"]),
        ("episode,t,state,action\n1,0,a\n1,1,b,x,y\n", ["line 2: 3 fields", "line 3: 5 fields"]),
    ],
    ids=["empty", "no rows", "no header", "cells", "reward", "fields"],
)
def test_text_that_is_no_log(text, beginnings, write):
    """Found by `tether.io.columns`, whose own tests look at the words."""
    file = write(text)
    messages = lines(refuse(file), file)
    assert len(messages) == len(beginnings)
    assert all(one.startswith(beginning) for one, beginning in zip(messages, beginnings, strict=True)), messages


def test_a_row_of_a_file_that_is_not_text_is_counted_from_one(tmp_path):
    table = pyarrow.table({"episode": [1, 1], "t": [0, 2], "state": ["a", "b"], "action": ["x", "x"]})
    parquet.write_table(table, tmp_path / "log.parquet")
    error = refuse(tmp_path / "log.parquet")
    assert str(error) == f"{tmp_path}/log.parquet, row 2: episode 1: t goes from 0 to 2; t = 1 is missing"


def test_a_row_of_a_dataframe_is_counted_from_zero():
    frame = pandas.DataFrame({"episode": [1, 1], "t": [0, 0], "state": ["a", "b"], "action": ["x", "x"]})
    with pytest.raises(tether.PathError, match=r"^row 1: episode 1: t = 0 is given twice \(first in row 0\)$"):
        read_episodes(frame)
    with pytest.raises(tether.PathError, match="'action' is missing"):
        read_episodes(frame[["episode", "t", "state"]])
    with pytest.raises(tether.TetherError, match="not int"):
        read_episodes(5)


@pytest.mark.parametrize("bad", [0, 123_456, 199_998])
def test_one_bad_row_among_many(bad, tmp_path):
    """Two hundred thousand rows, shuffled; one action is missing."""
    n = 200_000
    order = np.random.default_rng(bad).permutation(n)
    episode, t = order // 10, order % 10
    action = np.full(n, "go", dtype=object)
    at = int(np.flatnonzero(order == bad)[0]) if bad % 10 != 9 else 0
    action[at] = None
    frame = pandas.DataFrame({"episode": episode, "t": t, "state": order % 7, "action": action})
    frame.to_csv(tmp_path / "log.csv", index=False)
    error = refuse(tmp_path / "log.csv")
    assert error.problems[0].line == at + 2
    assert str(error) == (
        f"{tmp_path}/log.csv, line {at + 2:,}: episode {bad // 10}, t = {bad % 10}: the action is empty; only an "
        "episode's last row may lack it"
    )


# --- Any bytes ---------------------------------------------------------------------------------------------


FIELD = st.one_of(
    st.sampled_from(["", "0", "1", "2", "-1", "a", "b", "nan", "inf", "1.5", "007", '"', '"a', "é", "\0", "1e400"]),
    st.text(max_size=3),
    st.integers().map(str),
)


@given(rows=st.lists(st.lists(FIELD, min_size=4, max_size=6), max_size=6), quoted=st.booleans())
def test_no_text_crashes_the_reader(rows, quoted, tmp_path_factory):
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerows([["episode", "t", "state", "action", "reward", "next_state"], *rows])
    harmless(text.getvalue().encode(errors="surrogatepass"), "log.csv", tmp_path_factory)


@given(
    noise=st.binary(max_size=60),
    at=st.integers(0, len(GOOD)),
    cut=st.integers(0, 20),
    kind=st.sampled_from(["csv", "tsv", "csv.gz"]),
)
def test_no_damage_to_a_text_crashes_the_reader(noise, at, cut, kind, tmp_path_factory):
    data = GOOD.encode()
    spoiled = data[:at] + noise + data[at + cut :]
    harmless(gzip.compress(spoiled) if kind == "csv.gz" and cut % 2 else spoiled, f"log.{kind}", tmp_path_factory)


@given(
    kind=st.sampled_from(["parquet", "arrow", "feather"]),
    noise=st.binary(max_size=8),
    where=st.floats(0, 1),
    cut=st.integers(0, 40),
)
def test_no_damage_to_a_table_crashes_the_reader(kind, noise, where, cut, tmp_path_factory):
    table = pyarrow.table({"episode": [1, 1], "t": [0, 1], "state": ["a", "b"], "action": ["x", None]})
    sink = io.BytesIO()
    parquet.write_table(table, sink) if kind == "parquet" else feather.write_feather(table, sink)
    data = sink.getvalue()
    at = int(where * len(data))
    harmless(data[:at] + noise + data[at + cut :], f"log.{kind}", tmp_path_factory)


def harmless(data, name, tmp_path_factory):
    """It is a log, or our own error says what is wrong."""
    file = tmp_path_factory.mktemp("any") / name
    file.write_bytes(data)
    try:
        log = read_episodes(file)
    except tether.TetherError:
        return
    for path in log.values():
        assert path.T > 0
