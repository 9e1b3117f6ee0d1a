"""Paths as files: tables and JSON, found again in the model; gaps and strangers named with their lines."""

import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from modelfiles import mutated, words

import tether
from tether.errors import FileError
from tether.io import read_path, write_path

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

TEXT = "t,state,action\n0,sick,wait\n1,sick,treat\n2,well,\n"
MEANT = tether.Path(["sick", "sick", "well"], ["wait", "treat"])
CLINIC = tether.MDP.from_table(
    ["sick", "sick", "sick", "well"],
    ["treat", "treat", "wait", "wait"],
    ["well", "sick", "sick", "well"],
    [0.8, 0.2, 1.0, 1.0],
)
RECORDS = [
    {"t": 0, "state": "sick", "action": "wait"},
    {"t": 1, "state": "sick", "action": "treat"},
    {"t": 2, "state": "well", "action": None},
]


@pytest.fixture
def write(tmp_path):
    def write(data, name="a.csv"):
        text = data if isinstance(data, str) else json.dumps(data)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def message(file, kind=FileError, mdp=None, **options):
    with pytest.raises(kind) as caught:
        read_path(file, mdp, **options)
    return str(caught.value).replace(file.rpartition("/")[0] + "/", "")


# --- Reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", TEXT),
        ("a.tsv", TEXT.replace(",", "\t")),
        ("a.csv", "state,action\nsick,wait\nsick,treat\nwell,\n"),
        (
            "a.csv",
            TEXT.replace("\n0", "\n1").replace("\n1,sick,treat", "\n2,sick,treat").replace("\n2,well", "\n3,well"),
        ),
        ("a.json", {"states": ["sick", "sick", "well"], "actions": ["wait", "treat"]}),
        ("a.json", RECORDS),
        ("a.json", [{key: value for key, value in one.items() if key != "t"} for one in RECORDS]),
        ("a.json", [*RECORDS[:2], {"state": "well"}]),
        ("a.json", "\ufeff" + json.dumps(RECORDS)),
    ],
)
@pytest.mark.parametrize("mdp", [None, CLINIC])
def test_the_same_path_in_every_kind_of_file(write, name, data, mdp):
    assert read_path(write(data, name), mdp) == MEANT


def test_the_same_path_in_parquet(tmp_path):
    pd.DataFrame(RECORDS).to_parquet(tmp_path / "a.parquet")
    assert read_path(tmp_path / "a.parquet", CLINIC) == MEANT


def test_an_outcome_that_was_not_recorded(write):
    open_ended = tether.Path(["sick", "sick"], ["wait", "treat"])
    assert read_path(write(TEXT.replace("2,well,\n", ""))) == open_ended
    assert read_path(write(RECORDS[:2], "a.json")) == open_ended


def test_columns_of_other_names(write):
    file = write(TEXT.replace("t,state,action", "hour,s,a"))
    assert read_path(file, columns={"t": "hour", "state": "s", "action": "a"}) == MEANT
    assert read_path(write([{"s": "sick", "action": "wait"}], "a.json"), columns={"state": "s"}).states == ("sick",)
    with pytest.raises(
        tether.QueryError, match="columns=: there is no column 'time' to map; expected one of t, state, action"
    ):
        read_path(file, columns={"time": "hour"})


def test_columns_of_json_can_be_left_out(write):
    lists = {"states": ["sick", "well"], "actions": ["treat"], "rewards": [1.0], "outcome": 1}
    records = [{"state": "sick", "action": "treat", "reward": 1.0, "outcome": 1}, {"state": "well"}]
    whole, bare = tether.Path(["sick", "well"], ["treat"], [1.0], "outcome=1"), tether.Path(["sick", "well"], ["treat"])
    for data in (lists, records):
        file = write(data, "a.json")
        assert read_path(file) == whole
        assert read_path(file, columns={"reward": "", "outcome": ""}) == bare
    # What is left out is what is called so here, not a column of that name which is something else.
    file = write([{"outcome": "sick", "action": "treat", "state": "no"}, {"outcome": "well"}], "a.json")
    assert read_path(file, columns={"state": "outcome", "outcome": ""}) == bare


def test_lists_are_tuples(write):
    outbreak = {"states": [[9, 1, 20], [8, 2, 20]], "actions": ["NIL"]}
    path = read_path(write(outbreak, "a.json"), tether.cases.epidemic().mdp)
    assert path.states == ((9, 1, 20), (8, 2, 20))
    assert type(path.states[0]).__name__ == "EpidemicState"  # the model's own label


def test_labels_are_found_by_their_text(write):
    mdp = tether.cases.grid_world().mdp.with_names(states=[str(s) for s in range(16)], actions=[1, 2, 3, 4])
    file = write("t,state,action\n0,0,3.0\n1,4,\n")  # a dataframe turned the actions into floats
    assert read_path(file, mdp) == tether.Path(["0", "4"], [3])
    assert read_path(file) == tether.Path([0, 4], [3])


# --- What is wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "1,sick",
            "3,sick",
            "2 problems:\n  - a.csv, line 3: t = 3 follows t = 0; expected 1; the steps between are missing",
        ),
        (
            "2,well",
            "1,well",
            "a.csv, line 4: t = 1 follows t = 1; expected 2; steps must come in order, each once",
        ),
        (
            "2,well",
            "0,well",
            "a.csv, line 4: t = 0 follows t = 1; expected 2; for a file of several episodes use "
            "tether.io.read_episodes",
        ),
        (
            "0,sick,wait\n1",
            "1,sick,wait\n0,sick,wait\n1,sick,\n0,sick,\n1",
            "a.csv, line 3: t begins again here, and 1 more time below; expected one episode; if this is a log, name "
            "one episode: tether.io.read_episodes(file)['<episode>']",
        ),
        (
            "0,sick,wait\n1",
            "5",
            "2 problems:\n  - a.csv, line 2: t begins at 5; expected 0 (or 1); number the steps from 0",
        ),
        ("1,sick", "1.5,sick", "a.csv, line 3: t goes from 0 to 1.5, and 1 more time not up by 1; t is expected to"),
        ("1,sick", "one,sick", "a.csv, line 3: found 'one' in the column 't'; expected a number"),
        (
            "treat",
            "",
            "a.csv, line 3: the action is empty; only the last row may leave it empty, as the state of the end",
        ),
        ("well", "", "a.csv, line 4: the cell in the column 'state' is empty; expected a name"),
        ("t,state", "t,status", "a.csv: the column 'state' is missing; found 't', 'status', 'action'"),
    ],
)
def test_what_is_wrong_with_a_table(write, old, new, expected):
    assert message(write(TEXT.replace(old, new))).startswith(expected)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"states": [1,\n 2', "a.json, line 2: this is not JSON: Expecting ',' delimiter (column 3)"),
        ("", "a.json, line 1: this is not JSON: Expecting value (column 1)"),
        ("[" * 100_000, "a.json: this JSON cannot be read: "),
        ("[1" + "0" * 5000 + "]", "a.json: this JSON cannot be read: Exceeds the limit"),
        (
            "3",
            'a.json: this is not a path; expected {"states": [...], "actions": [...]}, or a list of {"t": …, "state"',
        ),
        ([], "a.json: this is not a path; expected"),
        ([1], "a.json: this is not a path; expected"),
        ({"states": [1]}, "a.json: this is not a path; expected"),
        (
            {"states": ["a", None], "actions": [{}]},
            "2 problems:\n"
            "  - a.json: states[1]: found None; expected a name (text, a number, or a list of them, at most 20 deep)\n"
            "  - a.json: actions[0]: found {}; expected a name (text, a number, or a list of them, at most 20 deep)",
        ),
        (
            [{"state": "a"}, {"state": "b"}],
            "a.json: [0].action: found None; expected a name (text, a number, or a list of them, at most 20 deep)",
        ),
        ([{"t": "0", "state": "a", "action": "x"}], "a.json: [0].t: found '0'; expected a whole number"),
        (
            [{"t": 0, "state": "a", "action": "x"}, {"t": 2, "state": "a", "action": "x"}],
            "a.json: t = 2 follows t = 0; expected 1; the steps between are missing",
        ),
        (
            [{"state": "a", "action": "x", "outcome": ["died"]}],
            "a.json: [0].outcome: found ['died']; expected a word, a number, true or false",
        ),
        (
            {"states": ["a"], "actions": ["x"], "outcome": {}},
            "a.json: outcome: found {}; expected a word, a number, true or false",
        ),
    ],
)
def test_what_is_wrong_with_json(write, data, expected):
    assert message(write(data, "a.json")).startswith(expected)


def test_paths_of_no_step_or_too_many_states(write):
    expected = "a.csv: a path needs at least one action; got 1 state and no actions"
    assert message(write("t,state,action\n0,sick,\n"), tether.PathError) == expected
    expected = "a.json: a path of 1 action has 2 states, or 1 if the last outcome was not recorded; got 3"
    assert message(write({"states": [1, 2, 3], "actions": [0]}, "a.json"), tether.PathError) == expected


def test_cells_that_cannot_be_read_hide_nothing_else(write):
    text = "t,state,action,reward,outcome\n0,sick,wait,abc,died\nx,sick,,1,\n2,sick,wait,1,\n4,sick,,,lived\n"
    assert message(write(text)).splitlines()[1:] == [
        "  - a.csv, line 2: found 'abc' in the column 'reward'; expected a number",
        "  - a.csv, line 3: found 'x' in the column 't'; expected a number",
        "  - a.csv, line 3: the action is empty; only the last row may leave it empty, as the state of the end",
        "  - a.csv, line 5: t = 4 follows t = 2; expected 3; the steps between are missing",
        "  - a.csv, line 5: the outcome is 'lived', but 'died' in line 2; expected one outcome per episode",
    ]


def test_all_strangers_are_named_with_their_lines(write):
    file = write(TEXT.replace("0,sick", "0,ill").replace("wait", "rest").replace("well", "fine"))
    with pytest.raises(tether.PathError) as caught:
        read_path(file, CLINIC)
    assert [(problem.line, problem.time, problem.value) for problem in caught.value.problems] == [
        (2, 0, "ill"),
        (2, 0, "rest"),
        (4, 2, "fine"),
    ]
    first = f"{file}, line 2: t = 0: the model has no state 'ill'; it has 2 states: 'sick', 'well'"
    assert caught.value.problems[0].message == first


def test_strangers_in_json_have_a_time_but_no_line(write):
    file = write({"states": ["sick", "well"], "actions": ["rest"]}, "a.json")
    assert message(file, tether.PathError, CLINIC) == (
        "a.json: t = 0: the model has no action 'rest'; it has 2 actions: 'treat', 'wait'"
    )


def test_a_path_that_the_model_makes_impossible(write):
    file = write("t,state,action\n\n0,sick,wait\n1,well,treat\n2,sick,\n")
    with pytest.raises(tether.PathError) as caught:
        read_path(file, CLINIC)
    assert [problem.line for problem in caught.value.problems] == [3, 4]
    assert str(caught.value).splitlines()[1:] == [
        f"  - {file}, line 3: t = 0: state 'sick', action 'wait' cannot lead to 'well', the model gives it "
        "probability 0; it could have led to 'sick' (1)",
        f"  - {file}, line 4: t = 1: action 'treat' is not available in state 'well'; available are 'wait'",
    ]


def test_a_label_that_could_be_several(write):
    class Odd(str):
        """Text that equals no other text."""

        __hash__ = object.__hash__

        def __eq__(self, other):
            return self is other

    mdp = tether.MDP.from_arrays([[[0.5, 0.5]], [[0.5, 0.5]]], states=[Odd("a"), Odd("a")])
    expected = "a.csv, line 2: t = 0: the state 'a' could be any of 2 names: 'a', 'a'; rename them"
    assert message(write("t,state,action\n0,a,0\n"), tether.PathError, mdp) == expected


def test_files_of_another_kind(write, tmp_path):
    known = ".csv, .tsv, .parquet, .pq, .arrow, .feather, .ipc, .xlsx, .xlsm, .json, or a trace of PRISM's simulator"
    assert message(write("", "a.txt")) == f"a.txt: the name does not say what file this is; expected one of {known}"
    (tmp_path / "folder").mkdir()
    assert message(str(tmp_path / "folder")) == f"folder: this is a directory; expected one of {known}"
    assert message(str(tmp_path / "no.json")) == "no.json: there is no such file"


# --- Writing -----------------------------------------------------------------------------------

labels = st.one_of(words, st.integers(), st.tuples(st.integers(), st.integers()))
short = st.lists(labels, min_size=1, max_size=5)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json"])
@in_a_folder
@example(states=["a\rb", 'c"'], actions=["d\te,f"], ended=True)
@given(states=short, actions=short, ended=st.booleans())
def test_a_path_comes_back(tmp_path, name, states, actions, ended):
    T = min(len(actions), len(states) - ended)
    if T == 0:
        return
    path = tether.Path(states[: T + ended], actions[:T])
    # A model with exactly these labels, in which everything is possible.
    S, A = list(dict.fromkeys(path.states)), list(dict.fromkeys(path.actions))
    mdp = tether.MDP.from_arrays([[[1 / len(S)] * len(S)] * len(A)] * len(S), states=S, actions=A)
    try:
        write_path(path, tmp_path / name)
    except FileError as error:
        assert "is written like the label" in str(error)  # noqa: PT017 - 1 and (say) "1"
        return
    assert read_path(tmp_path / name, mdp) == path


def test_the_text_of_a_path(tmp_path):
    path = tether.cases.epidemic().path
    write_path(path, tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[:2] == ["t,state,action", '0,"(9, 1, 20)",NIL']
    assert len(lines) == len(path.states) + 1
    write_path(tether.Path([(1, 2), "é"], ["go"]), tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{"states": [[1, 2], "é"], "actions": ["go"]}\n'


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_a_path_that_cannot_be_written(tmp_path, name):
    with pytest.raises(FileError, match="cannot hold"):
        write_path(tether.Path(["\ud800"], ["go"]), tmp_path / name)
    with pytest.raises(FileError, match=r"a path is written as \.csv, \.tsv or \.json"):
        write_path(MEANT, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


# --- Fuzz --------------------------------------------------------------------------------------


def no_crash(file, data):
    file.write_bytes(data)
    for mdp in (None, CLINIC):
        try:
            assert read_path(file, mdp).T > 0
        except tether.TetherError as error:
            assert str(error)  # noqa: PT017


@in_a_folder
@given(data=st.one_of(mutated(TEXT.encode()), st.binary(max_size=40)))
def test_no_table_crashes(tmp_path, data):
    no_crash(tmp_path / "a.csv", data)


nested = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.sampled_from(["sick", "wait"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["t", "state", "action", "states"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@in_a_folder
@given(
    data=st.one_of(
        mutated(json.dumps(RECORDS).encode()),
        mutated(json.dumps({"states": ["sick", [1, 2]], "actions": ["wait"]}).encode()),
        nested.map(lambda value: json.dumps(value).encode()),
        st.lists(st.fixed_dictionaries({"t": nested, "state": nested, "action": nested}), min_size=1, max_size=2).map(
            lambda value: json.dumps(value).encode()
        ),
        st.fixed_dictionaries({"states": st.lists(nested), "actions": st.lists(nested)}).map(
            lambda value: json.dumps(value).encode()
        ),
    )
)
def test_no_json_crashes(tmp_path, data):
    no_crash(tmp_path / "a.json", data)
