"""The outcome of an episode in a column of the log: read, contradicted, learned from, found in a model, audited."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from logs import Tally, logs

import tether
from tether.cli import main
from tether.io.logs import read_episodes, read_sound_episodes, write_episodes
from tether.io.paths import read_path, write_path

LOG = """\
patient,t,state,action,end
1,0,sick,wait,died
1,1,sick,wait,died
2,0,sick,treat,
2,1,calm,,survived
3,0,sick,wait,survived
"""
READING = {"columns": {"episode": "patient", "outcome": "end"}}


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path / "log.csv"


@given(logs(), st.data())
def test_with_outcomes_the_last_action_leads_to_the_outcome(drawn, data):
    """The twin goes through paths whose last state is the outcome, where there is one."""
    ends = {name: data.draw(st.sampled_from(["died", "fine", None])) for name in drawn.paths}
    shown = data.draw(st.sampled_from(["all", "one"]))
    last = {row.episode: i for i, row in enumerate(drawn.rows)}  # whichever row of an episode comes last in the file
    outcome = [
        ends[row.episode] if shown == "all" or last[row.episode] == i else None for i, row in enumerate(drawn.rows)
    ]
    read = tether.Episodes.from_columns(**drawn.columns(), outcome=outcome)
    for name, path in drawn.paths.items():
        assert read[name] == tether.Path(path.states, path.actions, path.rewards, outcome=ends[name])
    ended = {
        name: path
        if ends[name] is None
        else tether.Path([*path.states[: path.T], ends[name]], path.actions, path.rewards)
        for name, path in drawn.paths.items()
    }
    mdp = tether.learn(read, prior=0, empty_rewards="zero")
    seen = Tally(drawn._replace(paths=ended))
    for (state, action), outcomes in seen.times.items():
        states, chances = mdp.row(state, action)
        total = sum(outcomes.values())
        expected = {one: n / total for one, n in outcomes.items()}  # to the last digit: rows are made to sum to 1
        assert dict(zip(states, chances, strict=True)) == pytest.approx(expected, rel=1e-15)
    again = tether.learn(tether.Episodes.from_paths(dict(read.items())), empty_rewards="zero")
    assert set(again.states) == set(mdp.states)
    for name in drawn.paths:
        assert (
            tether.counterfactual(mdp, read[name]).path.states[: ended[name].T] == ended[name].states[: ended[name].T]
        )
        if ends[name] is not None:
            assert tether.counterfactual(mdp, read[name]).path.states[-1] == ends[name]
            assert read.observation(name, mdp).states[-1] == mdp.states.find(ends[name])


def test_numbers_are_named_after_their_column():
    log = {"episode": [1, 2, 3], "t": [0] * 3, "state": ["a"] * 3, "action": ["go"] * 3, "died": [1.0, 0.0, None]}
    assert [path.outcome for path in read_episodes(log, columns={"outcome": "died"}).values()] == [
        "died=1",
        "died=0",
        None,
    ]
    assert tether.Episodes.from_columns([1], [0], ["a"], ["go"], outcome=[True])[1].outcome == "outcome=True"


def test_two_outcomes_of_an_episode_are_a_problem_with_its_place(log):
    log.write_text(LOG.replace("1,1,sick,wait,died", "1,1,sick,wait,survived"))
    with pytest.raises(tether.FileError) as raised:
        read_episodes(log, **READING)
    problem = raised.value.problems[0]
    assert (problem.line, problem.episode) == (3, 1)
    assert "the outcome is 'survived', but 'died' in line 2; expected one outcome per episode" in str(raised.value)
    found = read_sound_episodes(log, **READING)
    assert {found.episodes.ids[i]: problem.line for i, problem in found.broken.items()} == {1: 3}
    assert found.episodes[2].outcome == "survived"


def test_a_column_that_is_no_outcome_is_refused_as_a_whole_and_can_be_left_out(log):
    log.write_text(
        "episode,t,state,action,outcome\n" + "".join(f"{e},{t},a,go,{t}\n" for e in range(3) for t in range(2))
    )
    for read in (read_episodes, read_sound_episodes):
        with pytest.raises(tether.TetherError, match=r"so it is in 2 more episodes.*leave it out"):
            read(log)
    assert read_episodes(log, columns={"outcome": ""}).outcomes is None
    shown = CliRunner().invoke(main, ["learn", str(log), "model"])
    assert shown.exit_code != 0
    assert "--column outcome=" in shown.output
    assert CliRunner().invoke(main, ["learn", str(log), "model", "--column", "outcome="]).exit_code == 0


def test_files_keep_outcomes(log):
    episodes = read_episodes(log, **READING)
    write_episodes(episodes, "again.parquet")
    assert dict(read_episodes("again.parquet")) == dict(episodes)
    for name in ("path.csv", "path.json"):
        write_path(episodes[2], name)
        assert read_path(name) == episodes[2]
    (log.parent / "path.csv").write_text("t,state,action,outcome\n0,sick,wait,died\n1,sick,,fine\n")
    with pytest.raises(tether.FileError, match="line 3: the outcome is 'fine', but 'died' in line 2"):
        read_path("path.csv")


def test_an_outcome_called_like_a_state_in_which_something_is_done():
    with pytest.raises(tether.ModelError, match="the outcome 'sick' has the name of a state"):
        tether.learn([tether.Path(["sick", "calm"], ["wait"], outcome="sick")])


def test_an_outcome_in_a_model_that_was_not_learned_with_it():
    """A label of the last state stands; of several possible ends none is told; another label is a contradiction."""
    world = tether.MDP.from_table(
        ["a"] * 4, ["go"] * 4, ["a", "x", "y", "z"], [0.25] * 4, [0, 1, 2, 3], terminal=["x", "y", "z"]
    ).with_labels({"bad": ["x", "y"], "good": ["z"]})

    def row(last, outcome):
        path = tether.Path(["a", *last], ["go"], outcome=outcome)
        return tether.audit(world, {1: path}, k=1, certify=False).table.to_pylist()[0]

    assert (row("x", "bad")["outcome"], row("x", "bad")["observed"]) == ("bad", 1.0)
    assert (row("", "good")["outcome"], row("", "good")["observed"]) == ("good", 3.0)  # the only state that is good
    assert (row("", "bad")["outcome"], row("", "bad")["observed"]) == ("bad", 1.5)  # expected: x or y is not told
    assert row("z", "elsewhere")["outcome"] == "elsewhere"  # a word that only the log knows
    assert "ended with 'bad', but its last state 'z' is 'good'" in row("z", "bad")["problem"]
    with pytest.raises(tether.PathError, match="ended with 'bad'"):
        tether.counterfactual(world, tether.Path(["a", "z"], ["go"], outcome="bad"))


def test_from_a_log_with_outcomes_to_the_audit(log):
    columns = ["--column", "episode=patient", "--column", "outcome=end"]
    learned = CliRunner().invoke(main, ["learn", str(log), "model", *columns])
    assert learned.exit_code == 0, learned.output
    assert "--objective 'avoid survived', or 'reach survived'" in learned.output.replace("\n", " ")
    assert "terminal (absorbing, reward 0): died, survived. " in " ".join(learned.output.split())
    named = ["--log-column", "episode=patient", "--log-column", "outcome=end", "--objective", "avoid died", "--json"]
    shown = CliRunner().invoke(main, ["audit", "model", str(log), "-o", "out", "-k", "2", *named, "--reports", "0"])
    assert shown.exit_code == 0, shown.output
    observed = {cell["observed"] for cell in json.loads(shown.stdout)["outcomes"]}
    assert observed == {"died", "survived"}
    asked = ["audit", "model", str(log), "-o", "out", "-k", "2", *named]
    # A saved model has no columns: they are the log's.
    same = [one.replace("--log-column", "--column") for one in asked]
    assert CliRunner().invoke(main, same).exit_code == 0
    some = ["--episodes", 'outcome == "died"', "--fresh", "--reports", "0"]
    shown = CliRunner().invoke(main, [*asked, *some])
    assert json.loads(shown.stdout)["episodes"] == 1
    of_path = ["--path-column", "episode=patient", "--column", "outcome=end"]  # so for one episode
    why = CliRunner().invoke(main, ["explain", "model", "log.csv#2", *of_path, "-k", "2"])
    assert why.exit_code == 0, why.output
    assert "survived" in why.output
