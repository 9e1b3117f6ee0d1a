"""What an empty reward counts: never guessed, and remembered."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether.learning.learn import learn
from tether.observation.episodes import Episodes

STAYS = {"treat": (0.55, 0.25, 0.20), "wait": (0.60, 0.10, 0.30)}
"""A patient in "critical": how likely she stays so, gets well, dies."""


def ward(episodes=3000, seed=7):
    """Episodes of a ward: a reward of -1 or 1 in the last row with an action, and none before."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        for t in range(12):
            action = "treat" if rng.random() < 0.5 else "wait"
            after = ("critical", "well", "dead")[rng.choice(3, p=STAYS[action])]
            last = after != "critical" or t == 11
            reward = {"well": 1.0, "dead": -1.0, "critical": -1.0}[after] if last else None
            rows.append((episode, t, "critical", action, reward, after))
            if last:
                break
    return dict(zip(("episode", "t", "state", "action", "reward", "next_state"), zip(*rows, strict=True), strict=True))


def test_rewards_only_at_the_end_are_outcomes_not_means():
    log = Episodes.from_columns(**ward())
    mdp = learn(log)
    assert mdp.reward("critical", "wait", "dead") == -1.0
    assert mdp.reward("critical", "wait", "well") == 1.0
    assert abs(mdp.reward("critical", "wait", "critical")) < 0.02  # but for those cut off at the twelfth step
    summary = mdp.learned
    assert (summary.empty_rewards, summary.empty) == ("last", int(np.isnan(log.reward).sum()))
    assert f"the empty ones of {summary.empty:,} steps count 0." in str(summary)
    # The longest stay that ended in death: the log says -1, and so, but for the cut episodes, does the model.
    lengths = np.diff(log.start)
    died = log.next_state[log.start[1:] - 1] == log.states.find("dead")
    worst = int(np.argmax(np.where(died, lengths, 0)))
    assert lengths[worst] > 6
    plan = tether.counterfactual(mdp, log[log.ids[worst]]).plan(k=3, m=3)
    assert plan.logged_return == -1.0
    assert plan.observed_value == pytest.approx(-1.0, abs=0.2)


def test_means_are_taken_only_where_they_are_asked_for_and_are_then_warned_of():
    """What was done in silence: every step in "critical" costs what dying costs, so dying early is best."""
    log = Episodes.from_columns(**ward(300))
    mdp = learn(log, empty_rewards="mean")
    assert mdp.counts.empty_rewards == "mean"
    assert "count the mean of their transition" in str(mdp.learned)
    path = next(path for path in log.values() if path.T > 5 and path.states[-1] == "dead")
    plan = tether.counterfactual(mdp, path).plan(k=3, m=1)
    assert plan.logged_return == -1.0
    assert plan.observed_value < -2.0
    warning = [sentence for sentence in plan.explain().sentences() if sentence.startswith("The log says -1 ")]
    assert warning
    assert f"(with 0 for {path.T - 1} empty rewards)" in warning[0]
    assert warning[0].endswith("because it was learned with means in place of empty rewards.")


def test_some_empty_rewards_are_a_question():
    log = [
        tether.Path(["a", "a", "b"], ["x", "x"], [1, 3]),
        tether.Path(["a", "a", "b"], ["x", "x"], [None, 3]),
    ]
    with pytest.raises(tether.QueryError) as caught:
        learn(log)
    message = str(caught.value)
    assert "the reward is empty in 1 step of 4 (first: episode 1, step 0)" in message
    assert "(first: episode 0, step 0)" in message
    assert "empty_rewards='zero', or empty_rewards='mean'" in message
    assert (caught.value.problems[0].state, caught.value.problems[0].time) == ("a", 0)
    zero, mean = learn(log, empty_rewards="zero"), learn(log, empty_rewards="mean")
    assert zero.reward("a", "x", "a") == 0.5
    assert mean.reward("a", "x", "a") == 1.0
    assert (zero.counts.empty_rewards, zero.counts.empty) == ("zero", 1)
    assert "As asked, the empty rewards of 1 step count 0." in str(zero.learned)


@pytest.mark.parametrize("asked", [None, "zero", "mean"])
def test_nothing_is_said_where_nothing_is_empty(asked):
    for path in (tether.Path(["a", "b"], ["x"], [2]), tether.Path(["a", "b"], ["x"])):
        mdp = learn([path], empty_rewards=asked)
        assert (mdp.counts.empty_rewards, mdp.counts.empty) == ("", 0)
        assert "reward" not in str(mdp.learned).replace("reward 0", "")


def test_a_log_whose_rewards_are_all_empty():
    mdp = learn(Episodes.from_columns([1, 1], [0, 1], ["a", "b"], ["x", "x"], reward=[None, None]))
    assert "All 2 rewards are empty: they count 0." in str(mdp.learned)


def test_a_reward_whose_outcome_is_not_recorded_is_in_no_transition_and_this_is_said():
    log = [tether.Path(["a", "a"], ["x"], [0]), tether.Path(["a"], ["x"], [-5])]
    mdp = learn(log)
    assert mdp.reward("a", "x", "a") == 0.0
    assert mdp.learned.unplaced == 1
    assert "The rewards of 1 step are left out, because the outcome was not recorded" in str(mdp.learned)
    pairs = learn(log, rewards="pair")
    assert pairs.reward("a", "x") == -2.5
    assert pairs.learned.unplaced == 0


def test_a_saved_model_remembers_what_empty_rewards_count(tmp_path):
    mdp = learn(Episodes.from_columns(**ward(50)))
    mdp.save(tmp_path / "ward")
    again = tether.MDP.load(tmp_path / "ward").counts
    assert (again.empty_rewards, again.empty, again.unplaced) == ("last", mdp.counts.empty, 0)


def write(file, columns):
    names = list(columns)
    lines = [",".join("" if one is None else str(one) for one in row) for row in zip(*columns.values(), strict=True)]
    file.write_text("\n".join([",".join(names), *lines]) + "\n")


def test_the_command_line_says_it_and_asks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = ward(200)
    write(tmp_path / "log.csv", columns)
    done = CliRunner().invoke(main, ["learn", "log.csv", "ward"])
    assert done.exit_code == 0, done.output
    assert "Rewards stand only in the last steps of episodes" in " ".join(done.output.split())
    answer = json.loads(CliRunner().invoke(main, ["learn", "log.csv", "other", "--json"]).output)
    assert answer["empty_rewards"] == "last"
    first = columns["reward"].index(None)
    columns["reward"] = [0.5 if row == first else reward for row, reward in enumerate(columns["reward"])]
    write(tmp_path / "mixed.csv", columns)
    asked = CliRunner().invoke(main, ["learn", "mixed.csv", "mixed"])
    assert asked.exit_code == 2
    assert "--empty-rewards zero|mean" in asked.output
    for choice in ("zero", "mean"):
        done = CliRunner().invoke(main, ["learn", "mixed.csv", choice, "--empty-rewards", choice])
        assert done.exit_code == 0, done.output
        assert tether.MDP.load(choice).counts.empty_rewards == choice
