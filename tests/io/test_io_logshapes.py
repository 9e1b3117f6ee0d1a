"""Logs as they come: several columns per state, times that do not number the steps, rewards of last rows."""

import datetime
import pickle
from itertools import pairwise

import pandas
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from logs import logs

import tether
from tether.cli import main
from tether.io.logs import read_episodes, read_sound_episodes, write_episodes
from tether.io.opening import open_path
from tether.io.paths import read_path
from tether.observation.episodes import Episodes

HOURS = """\
patient,hour,status,lactate,given,reward
ann,0,sick,2,none,
ann,4,sick,3,fluid,
ann,8,well,1,,1
bob,12,sick,3,none,
bob,16,dead,9,,-1
"""
LIFE = (
    [(0, "ill", "no", ""), (1, "ill", "yes", "died")],
    [(0, "ill", "no", ""), (1, "well", "no", "home")],
)
READING = {"columns": {"episode": "patient", "state": "status,lactate", "action": "given"}, "time": "hour"}


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write("log.csv", HOURS)


def write(name, text):
    with open(name, "w") as file:
        file.write(text)
    return name


# --- Several columns per state -----------------------------------------------------------------------


@pytest.mark.parametrize("several", ["status,lactate", "status, lactate", ["status", "lactate"], ("status", "lactate")])
def test_a_state_of_several_columns_is_a_named_tuple(log, several):
    episodes = read_episodes(log, **(READING | {"columns": READING["columns"] | {"state": several}}))
    path = episodes["ann"]
    assert path.states == (("sick", 2), ("sick", 3), ("well", 1))
    assert path.states[1].lactate == 3
    assert path.actions == ("none", "fluid")
    assert path.rewards == (None, 1.0)  # the last row has no action: its reward is that of the one before
    assert pickle.loads(pickle.dumps(episodes))["bob"].states[1].status == "dead"


def test_a_learned_model_keeps_the_names_of_features(log, tmp_path):
    mdp = tether.learn(read_episodes(log, **READING, step=4))
    mdp.save(tmp_path / "model")
    again = tether.MDP.load(tmp_path / "model")
    assert again.states[0]._fields == ("status", "lactate")
    path = open_path("log.csv#bob", again, **READING)
    assert tether.counterfactual(again, path).plan(k=1, m=0).value == -1.0
    assert read_episodes(log, again, **READING)["bob"] == path


def test_states_of_several_columns_beside_outcomes_are_told_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{t},{status},{wet},wait,{end}" for i in range(4) for t, status, wet, end in LIFE[i % 2]]
    write("log.csv", "\n".join(["episode,t,status,wet,action,outcome", *rows]))
    spread = ["--column", "state=status,wet"]
    assert CliRunner().invoke(main, ["learn", "log.csv", "model", *spread]).exit_code == 0
    asked = ["model", "log.csv#0", "--path-column", "state=status,wet"]
    answer = CliRunner().invoke(main, ["explain", *asked, "--draws", "0"])
    assert answer.exit_code == 0
    assert "status ill, wet no → wait" in answer.output
    assert "State(" not in answer.output
    for named in ("status ill, wet yes", "State(status='ill', wet='yes')", "('ill', 'yes')"):
        why = CliRunner().invoke(main, ["why", *asked, "-t", "1", "-k", "1", "--state", named])
        assert (why.exit_code, "in state status ill, wet yes:" in why.output) == (0, True), why.output
    part = CliRunner().invoke(main, ["explain", *asked, "--draws", "0", "--features", "status"])
    assert (part.exit_code, "status ill" in part.output, "wet" in part.output) == (0, True, False)
    unknown = CliRunner().invoke(main, ["explain", *asked, "--features", "colour"])
    assert (unknown.exit_code, "the states have no colour; they have status, wet" in unknown.output) == (2, True)


def test_next_states_of_several_columns():
    table = {
        "episode": [1, 2],
        "t": [0, 0],
        "status": ["sick", "sick"],
        "x y": [1, 2],
        "action": ["a", "b"],
        "next_status": ["well", None],
        "next_x y": [5, None],
    }
    mapped = {"state": ["status", "x y"], "next_state": ["next_status", "next_x y"]}
    for given_log in (table, pandas.DataFrame(table)):
        episodes = read_episodes(given_log, columns=mapped)
        assert episodes[1].states == (("sick", 1), ("well", 5))
        assert type(episodes[1].states[1]) is type(episodes[1].states[0])
        assert episodes[1].states[1].x_y == 5
        assert not episodes[2].last_recorded
    table["next_x y"] = [None, None]
    with pytest.raises(tether.PathError, match="row 0: the next_state lacks a part: the column 'next_x y' is empty"):
        read_episodes(table, columns=mapped)


def test_columns_that_cannot_be_joined(log):
    with pytest.raises(tether.QueryError, match="only the state may be of several columns, not 'action'"):
        read_episodes(log, columns={"action": ["given", "reward"]})
    with pytest.raises(tether.QueryError, match="the parts of a state need different names, not status, status"):
        read_episodes(log, **(READING | {"columns": READING["columns"] | {"state": "status,status"}}))
    with pytest.raises(tether.FileError, match="'lactat' is missing"):
        read_episodes(log, **(READING | {"columns": READING["columns"] | {"state": "status,lactat"}}))


# --- Times that do not number the steps ----------------------------------------------------------------


@given(logs(), st.integers(1, 24), st.sampled_from(["number", "text", "datetime", "timestamp"]))
def test_times_order_the_rows_whatever_they_are(log, hours, kind):
    start = datetime.datetime(2024, 2, 28, 6, tzinfo=datetime.UTC)
    columns = log.columns()
    wanted = Episodes.from_columns(**columns)
    times = [hours * t for t in columns.pop("t")]
    step = hours if kind == "number" else f"{hours}h"
    if kind != "number":
        times = [start + datetime.timedelta(hours=t) for t in times]
    if kind == "text":
        times = [moment.isoformat() for moment in times]
    if kind == "timestamp":
        times = [pandas.Timestamp(moment) for moment in times]
    table = columns | {"when": times}
    assert dict(read_episodes(table, time="when")) == dict(wanted)
    assert dict(read_episodes(table, time="when", step=step)) == dict(wanted)


@given(logs(), st.lists(st.integers(1, 9), min_size=6, max_size=6))
def test_gaps_are_found_only_with_a_step(log, gaps):
    columns = log.columns()
    wanted = Episodes.from_columns(**columns)
    firsts = {}
    for episode, t in zip(columns["episode"], columns["t"], strict=True):
        firsts[episode] = min(t, firsts.get(episode, t))
    apart = {
        (episode, t): sum(gaps[: t - firsts[episode]])
        for episode, t in zip(columns["episode"], columns["t"], strict=True)
    }
    table = columns | {"t": list(apart.values())}
    assert dict(read_episodes(table, time="t")) == dict(wanted)
    by_episode = {name: sorted(at for (episode, _), at in apart.items() if episode == name) for name in log.paths}
    wrong = sum(after - before != 2 for at in by_episode.values() for before, after in pairwise(at))
    if not wrong:
        assert dict(read_episodes(table, time="t", step=2)) == dict(wanted)
        return
    with pytest.raises(tether.PathError) as caught:
        read_episodes(table, time="t", step=2)
    assert caught.value.total == wrong


def test_gaps_and_repetitions_are_told_with_their_lines(log):
    write("gap.csv", HOURS.replace("ann,4", "ann,5"))
    with pytest.raises(tether.FileError) as caught:
        read_episodes("gap.csv", **READING, step=4)
    assert str(caught.value).splitlines()[1:] == [
        "  - gap.csv, line 3: episode 'ann': hour = 5 comes 5 after 0; expected 4 (step=)",
        "  - gap.csv, line 4: episode 'ann': hour = 8 comes 3 after 5; expected 4 (step=)",
    ]
    write("twice.csv", HOURS.replace("ann,4", "ann,0"))
    with pytest.raises(tether.FileError) as caught:
        read_episodes("twice.csv", **READING)
    assert str(caught.value) == (
        "twice.csv, line 3: episode 'ann': hour = 0 is given twice (first in line 2); expected one row per step"
    )
    write("stamped.csv", "episode,when,state,action\n1,2024-01-01 06:00,a,x\n1,2024-01-01 14:00,b,\n")
    assert read_episodes("stamped.csv", time="when", step="8h")[1].T == 1
    with pytest.raises(tether.FileError, match=r"line 3: .* comes 8 h after 2024-01-01 06:00; expected 4 h"):
        read_episodes("stamped.csv", time="when", step=datetime.timedelta(hours=4))


def test_a_time_in_the_column_t_gets_one_hint_not_thousands():
    rows = [(episode, 4 * t) for episode in range(500) for t in range(10)]
    columns = {
        "episode": [e for e, _ in rows],
        "t": [t for _, t in rows],
        "state": ["a"] * 5000,
        "action": ["x"] * 5000,
    }
    with pytest.raises(tether.PathError) as caught:
        read_episodes(columns)
    assert caught.value.total == 1
    assert str(caught.value) == (
        "row 1: episode 0: t goes from 0 to 4, and 4,499 more times not up by 1; t is expected to number the steps: "
        "0, 1, 2, …; if it is a time, name its column: time='t'; to find gaps, also give the time between two rows: "
        "step=4"
    )
    assert read_episodes(columns, time="t", step=4).n_steps == 5000


def test_timestamps_in_the_column_t_get_the_hint_too(log):
    write("t.csv", "episode,t,state,action\n1,2024-01-01,a,x\n1,2024-01-02,a,x\n")
    with pytest.raises(tether.FileError) as caught:
        read_episodes("t.csv")
    assert caught.value.total == 1
    assert "t.csv: the column 't' holds timestamps;" in str(caught.value)
    assert "time='t'" in str(caught.value)
    write("bad.csv", "episode,t,state,action\n1,x,a,x\n")
    with pytest.raises(tether.FileError, match="found 'x' in the column 't'; expected a number"):
        read_episodes("bad.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 4}, "name their column too: time='hour'"),
        ({"time": "hour", "step": 0}, "step must be a number above 0, or one with a unit"),
        ({"time": "hour", "step": "4 moons"}, "not '4 moons'"),
        ({"time": "hour", "step": "4h"}, "the column 'hour' holds numbers: give the step as a number"),
        ({"time": "hour", "columns": {"t": "hour"}}, "both name the column of times; give one"),
    ],
)  # fmt: skip
def test_times_that_cannot_be_asked_for(log, options, message):
    mapped = {"episode": "patient", "state": "status", "action": "given"}
    with pytest.raises(tether.QueryError, match=message):
        read_episodes(log, **({"columns": mapped | options.pop("columns", {})} | options))


def test_what_is_no_time(log):
    write("none.csv", HOURS.replace("ann,4", "ann,soon").replace("bob,16", "bob,"))
    with pytest.raises(tether.FileError) as caught:
        read_episodes("none.csv", **READING)
    assert "hour is 'soon', neither a number nor a date and time" in str(caught.value) or "empty" in str(caught.value)
    stamps = {"episode": [1, 1], "when": [3, "2024-01-01"], "state": ["a", "b"], "action": ["x", None]}
    with pytest.raises(tether.PathError, match="holds both numbers and timestamps"):
        read_episodes(stamps, time="when")
    with pytest.raises(tether.QueryError, match="holds timestamps: give the step with a unit"):
        read_episodes(stamps | {"when": ["2024-01-01", "2024-01-02"]}, time="when", step=4)


# --- One path, and the command line --------------------------------------------------------------------


def test_a_single_path_is_read_alike(log):
    rows = [line.split(",", 1)[1] for line in HOURS.splitlines()[:4]]
    write("ann.csv", "\n".join(rows) + "\n")
    columns = {"state": "status,lactate", "action": "given"}
    path = read_path("ann.csv", columns=columns, time="hour", step=4)
    assert path == read_episodes(log, **READING)["ann"]
    with pytest.raises(tether.FileError, match="hour = 8 comes 4 after 4; expected 2"):
        read_path("ann.csv", columns=columns, time="hour", step=2)
    with pytest.raises(tether.FileError, match=r"t is expected to number the steps: .*time='t'.*step=4"):
        read_path("ann.csv", columns=columns | {"t": "hour"})
    write("ann.json", "[]")
    with pytest.raises(tether.QueryError, match="are for tables, not for JSON"):
        read_path("ann.json", time="hour")


def test_the_command_line_reads_such_logs(log):
    mapped = ["--column", "episode=patient", "--column", "state=status,lactate", "--column", "action=given"]
    done = CliRunner().invoke(main, ["learn", "log.csv", "model", *mapped, "--time", "hour", "--step", "4"])
    assert done.exit_code == 0, done.output
    mapped = [word.replace("--column", "--path-column") for word in mapped]
    asked = ["explain", "model", "log.csv#bob", *mapped, "--time", "hour", "--step", "4", "--json"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert '"observed_state":{"status":"sick","lactate":3}' in done.output
    hinted = CliRunner().invoke(
        main, ["learn", "log.csv", "other", *[w.replace("--path-", "--") for w in mapped], "--column", "t=hour"]
    )
    assert hinted.exit_code == 2
    assert "--time COLUMN --step SIZE" in " ".join(hinted.output.split())


# --- Rewards of last rows ------------------------------------------------------------------------------


def test_a_reward_beside_others_needs_an_action():
    with pytest.raises(tether.PathError, match="the reward 5 has no action that earned it"):
        Episodes.from_columns([1, 1], [0, 1], ["a", "b"], ["x", None], reward=[1, 5])
    alone = Episodes.from_columns(
        [1, 1, 2, 2], [0, 1, 0, 1], ["a", "b"] * 2, ["x", None] * 2, reward=[0, 5, None, None]
    )
    assert alone[1].rewards == (5.0,)
    assert alone[2].rewards is None


@given(logs(states=st.just(["a", "b", "c"]), actions=st.just(["up", "down"]), ids=st.just(["ann", "bob"])))
def test_what_is_written_is_read_again(tmp_path_factory, log):
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    write_episodes(log.paths, file)
    assert dict(read_episodes(file)) == log.paths


# --- Broken episodes, told one by one ----------------------------------------------------------------


def test_what_is_wrong_with_times_is_told_of_each_episode(log):
    """Twice, a gap, an empty time, a part of a state that is missing: the others are fit for use."""
    rows = [
        "dan,0,sick,2,none,", "dan,0,sick,3,none,",
        "eve,0,sick,2,none,", "eve,9,sick,3,none,",
        "fay,0,sick,2,none,", "fay,,sick,3,none,",
        "gil,0,sick,2,none,", "gil,4,,3,none,",
        "hal,0,sick,2,none,", "hal,four,sick,3,none,",
    ]  # fmt: skip
    write(log, HOURS + "\n".join(rows) + "\n")
    found = read_sound_episodes(log, **READING, step=4)
    problems = {found.episodes.ids[i]: (problem.line, problem.what) for i, problem in found.broken.items()}
    assert problems == {
        "dan": (8, "hour = 0 is given twice (first in line 7)"),
        "eve": (10, "hour = 9 comes 9 after 0"),
        "fay": (12, "hour is empty"),
        "gil": (14, "the state lacks a part: the column 'status' is empty"),
        "hal": (16, "hour is 'four', neither a number nor a date and time"),
    }
    assert [found.episodes[name].T for name in ("ann", "bob")] == [2, 1]


def test_a_step_that_most_rows_do_not_have_is_refused_as_a_whole(log):
    write(log, "episode,hour,state,action\n" + "".join(f"{e},{2 * t},a,go\n" for e in range(60) for t in range(3)))
    for read in (read_episodes, read_sound_episodes):
        with pytest.raises(
            tether.TetherError, match=r"and 119 more times not 4.*give the step that most of them have, 2"
        ):
            read(log, time="hour", step=4)


def test_without_t_it_is_said_how_to_name_times(log):
    columns = READING["columns"]
    with pytest.raises(tether.FileError, match=r"the column 't' is missing.*in place of t, name their column: time="):
        read_episodes(log, columns=columns)
    shown = CliRunner().invoke(main, ["learn", log, "model", "--column", "episode=patient"])
    assert "--time COLUMN" in shown.output
