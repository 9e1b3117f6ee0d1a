"""What the commands about models and logs answer: check, convert, learn and cases, in JSON and in words."""

import itertools
from importlib import import_module

import pytest
from commands import json_of, run, words

import tether
from tether.explanation.answer_data import as_data
from tether.influence.coverage import coverage
from tether.io.logs import read_episodes, write_episodes
from tether.io.models import read_model, write_model
from tether.io.paths import read_path
from tether.learning.folds import unseen
from tether.learning.learn import learn
from tether.learning.posterior import posterior


def test_check_describes(epidemic):
    answer, found = json_of("check", "case:epidemic"), coverage(epidemic)
    described = epidemic.mdp.describe()
    assert answer["sound"]
    assert (answer["total_problems"], answer["problems"]) == (0, [])
    assert answer["description"]["transitions"] == described.transitions
    assert answer["description"]["reward_range"] == list(described.reward_range)
    assert answer["coverage"]["influenced"] == found.influenced.tolist()
    assert answer["coverage"]["likelihood"] == found.likelihood.tolist()
    text = words("check", "case:epidemic")
    assert "case:epidemic: a sound model." in text
    assert "Its start can reach 55 states of 2,541." in text


def test_check_without_a_path(tmp_path):
    write_model(tether.cases.grid_world().mdp, tmp_path / "model.csv")
    answer = json_of("check", tmp_path / "model.csv")
    assert (answer["path"], answer["T"], answer["coverage"]) == (None, None, None)
    assert answer["description"]["absorbing"] == 2


BAD_MODEL = "state,action,next_state,probability\na,go,b,0.5\na,go,c,0.4\nb,go,d,1\nc,go,c,1\n"


def test_check_tells_all_problems_with_their_lines(tmp_path):
    model, path = tmp_path / "model.csv", tmp_path / "path.csv"
    model.write_text(BAD_MODEL)
    path.write_text("t,state,action\n0,a,go\n2,b,\n")
    answer = json_of("check", model, path, code=1)
    assert not answer["sound"]
    assert [(problem["file"], problem["line"]) for problem in answer["problems"]] == [
        (str(model), 2), (str(model), 4), (str(path), 3),
    ]  # fmt: skip
    assert answer["description"] is None
    absent = answer["problems"][1]  # every field of the record
    assert (absent["place"], absent["argument"]) == ("state 'b', action 'go', next state 'd'", "terminal")
    assert absent["message"] == f"{absent['file']}, line 4: {absent['place']}: {absent['what']}; {absent['fix']}"
    text = words("check", model, path, code=1)
    assert text.startswith("3 problems:")
    assert "probabilities sum to 0.9; expected 1" in text
    assert "(On the command line: --terminal STATE.)" in text


def test_check_of_a_path_that_is_impossible(tmp_path):
    model, path = tmp_path / "model.csv", tmp_path / "path.csv"
    model.write_text(BAD_MODEL.replace("0.4", "0.5"))
    path.write_text("t,state,action\n0,a,run\n1,d,\n")
    answer = json_of("check", model, path, "--terminal", "d", code=1)
    assert answer["description"]["terminal"] == 1  # the model is sound
    assert [problem["line"] for problem in answer["problems"]] == [2]
    assert "the model has no action 'run'" in answer["problems"][0]["message"]


def test_check_counts_problems_that_it_does_not_list(tmp_path):
    file = tmp_path / "model.csv"
    rows = "".join(f"{i},go,{i},x\n" for i in range(150))
    file.write_text(f"state,action,next_state,probability\n{rows}")
    assert json_of("check", file, code=1)["total_problems"] == 150
    assert "150 problems:" in run("check", file, code=1)
    assert "… and 50 more" in run("check", file, code=1)


def test_check_reads_every_number_of_a_saved_model(tmp_path):
    saved = tmp_path / "saved"
    tether.cases.grid_world().mdp.save(saved)
    assert json_of("check", saved)["sound"]
    content = bytearray(saved.read_bytes())
    content[-800] ^= 0xFF
    saved.write_bytes(content)
    assert not json_of("check", saved, code=1)["sound"]


@pytest.mark.parametrize(
    "name", ["again.csv", "again.tsv.gz", "again.arrow", "again.npz", "again", "again.tether", "again.tra", "x.drn"]
)
def test_convert(tmp_path, name):
    write_model(tether.cases.grid_world().mdp, tmp_path / "model.csv")
    answer = json_of("convert", tmp_path / "model.csv", tmp_path / name)
    assert (answer["states"], answer["pairs"], answer["transitions"]) == (16, 64, 220)
    assert read_model(tmp_path / name).n_transitions == 220
    assert run("convert", tmp_path / "model.csv", tmp_path / "other", "--to", "csv").startswith(str(tmp_path)[:10])
    assert (tmp_path / "other").read_text() == (tmp_path / "model.csv").read_text()


def test_convert_keeps_labels_or_says_that_they_are_lost(tmp_path):
    """ "down" and "done" from PRISM to Storm, to a saved model, and back to PRISM."""
    (tmp_path / "a.tra").write_text("3 3 4\n0 0 1 0.5 go\n0 0 2 0.5 go\n1 0 1 1 stay\n2 0 2 1 stay\n")
    (tmp_path / "a.lab").write_text('0="init" 1="deadlock" 2="down" 3="done"\n0: 0\n1: 2\n2: 3\n')
    names = ["a.tra", "b.drn", "saved", "c.tra"]
    for before, after in itertools.pairwise(names):
        assert "lost" not in run("convert", tmp_path / before, tmp_path / after)
        assert dict(read_model(tmp_path / after).labels) == {"init": {0}, "down": {1}, "done": {2}}
    assert (tmp_path / "c.lab").read_text() == (tmp_path / "a.lab").read_text()
    lost = run("convert", tmp_path / "a.tra", tmp_path / "d.csv")
    assert "This format cannot hold labels. Lost: init, down, done." in lost


def test_convert_reads_arrays_in_the_order_that_is_said(tmp_path):
    import numpy as np

    P = np.zeros((2, 2, 2))
    P[0, 0, 1] = P[0, 1, 0] = P[1, 0, 0] = P[1, 1, 1] = 1.0
    np.savez(tmp_path / "arrays.npz", P=P, R=np.eye(2))
    saved = tmp_path / "saved"
    run("convert", tmp_path / "arrays.npz", saved, "--order", "ass", "--reward-order", "as")
    assert read_model(saved).row(0, 0) == ((1,), 1.0)
    run("convert", tmp_path / "arrays.npz", saved, "--order", "SAS", "--reward-order", "SA")
    assert read_model(saved).row(0, 1) == ((0,), 1.0)


@pytest.fixture
def log(tmp_path):
    """A log of Grid World with rewards; 40 episodes and the observed one."""
    grid = tether.cases.grid_world()
    paths = {"seen": grid.path} | {f"r{i}": grid.mdp.simulate("random", 11, rng=i) for i in range(40)}
    rows = ["robot,t,state,action,reward"]
    for name, path in paths.items():
        for t in range(11):
            reward = grid.mdp.reward(path.states[t], path.actions[t])
            rows.append(f"{name},{t},{path.states[t]},{path.actions[t]},{reward}")
        rows.append(f"{name},11,{path.states[-1]},,")
    file = tmp_path / "log.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def test_learn_and_explain_with_credible_intervals(log, tmp_path):
    out = tmp_path / "learned"
    answer = json_of("learn", log, out, "--prior", 0.5, "--minimum", 2, "--column", "episode=robot")
    episodes = read_episodes(log, columns={"episode": "robot"})
    mdp = learn(episodes, 0.5, minimum=2)
    assert (answer["episodes"], answer["steps"], answer["prior"], answer["minimum"]) == (41, 451, 0.5, 2)
    assert answer["transitions"] == mdp.n_transitions
    assert tether.MDP.load(out).counts.transitions.tolist() == mdp.counts.transitions.tolist()
    call = (
        "explain",
        out,
        f"{log}#seen",
        "--path-column",
        "episode=robot",
        "-k",
        4,
        "-m",
        2,
        "--draws",
        10,
        "--seed",
        5,
    )
    explained = json_of(*call)
    others = unseen(mdp, episodes["seen"])  # the episode itself is no evidence about itself
    plan = tether.counterfactual(others, episodes["seen"]).plan(4, 2)
    sure = posterior(others, 10, rng=5).of(plan)
    assert explained["value"] == plan.value
    assert explained["uncertainty"]["interval"] == list(sure.interval(0.9))
    assert explained["uncertainty"]["probability_better"] == sure.probability_better
    assert [one["same"] for one in explained["uncertainty"]["changes"]] == [one.same for one in sure.changes]
    assert explained["uncertainty"]["outcomes"] == {name: list(sure.outcome_interval(name)) for name in sure.outcomes}
    assert explained["learned"] == {"episodes": 40}
    assert explained["evidence"] == as_data(plan.explain(draws=0).evidence)
    shown = words(*call)
    assert all(sentence in shown for sentence in plan.explain(draws=10, rng=5).sentences(str))
    assert sure.changes_in_words(str)[0] in shown


def test_learn_in_words(log, tmp_path):
    text = words("learn", log, tmp_path / "learned", "--column", "episode=robot")
    assert text.startswith("Learned from 41 episodes of 451 steps in all.")
    assert "4 actions: " in text
    assert "of the differences between actions count as effects" in text or "No effect of any action" in text
    assert f"Written to {tmp_path / 'learned'}" in text
    assert "Learned from" in words("check", tmp_path / "learned")


def test_a_log_without_rewards_is_called_that(tmp_path):
    toy = tether.cases.toy()
    write_episodes([toy.path], tmp_path / "log.csv")
    text = words("learn", tmp_path / "log.csv", tmp_path / "learned")
    assert "No reward of the log is other than 0" in text


def test_what_was_learned_is_told_in_the_same_words_later(tmp_path):
    write_episodes([tether.Path(["sick", "well"], ["treat"], [1.0], "left")], tmp_path / "log.csv")
    text = words("learn", tmp_path / "log.csv", tmp_path / "learned")
    assert "reward 0): left." in text
    assert text.partition("Written to")[0].strip() in words("check", tmp_path / "learned")


def test_cases_are_listed():
    answer = json_of("cases")
    by_name = {case["name"]: case for case in answer["cases"]}
    assert by_name["sepsis"]["paths"] == {"case:sepsis": 10, "case:sepsis-suboptimal": 10}
    assert by_name["epidemic"]["states"] == 2541
    assert by_name["epidemic"]["words"]["V_S"] == "vaccinate a susceptible person"
    assert by_name["sepsis"]["stories"].keys() == by_name["sepsis"]["paths"].keys()
    text = run("cases")
    for name in by_name:
        assert f"case:{name}" in text
    assert "V_I: vaccinate an infected person" in words("cases")
    for story in by_name["sepsis"]["stories"].values():
        assert story in words("cases")


def test_a_case_that_needs_what_is_not_installed_says_so(monkeypatch):
    def missing():
        raise tether.QueryError("this case needs the package moon: pip install moon")

    monkeypatch.setattr(import_module("tether.cases.toy"), "toy", missing)
    by_name = {case["name"]: case for case in json_of("cases")["cases"]}
    assert by_name["toy"]["states"] is None
    assert by_name["toy"]["missing"] == "this case needs the package moon: pip install moon"
    assert "pip install moon" in words("cases")


@pytest.mark.parametrize("name", ["grid-world", "case:epidemic"])
def test_an_exported_case_can_be_read_again(tmp_path, name):
    out = tmp_path / "out"
    files = json_of("cases", name, out)["files"]
    assert files == [str(out / "model.csv"), str(out / "path.csv")]
    mdp = read_model(out / "model.csv")
    assert tether.counterfactual(mdp, read_path(out / "path.csv", mdp)).T > 0
    assert "Try: tether explain" in words("cases", name, tmp_path / "again")


def test_every_path_of_a_case_is_exported(tmp_path):
    text = words("cases", "sepsis", tmp_path / "out")
    assert "model.csv, path.csv, path-suboptimal.csv" in text
    again = read_path(tmp_path / "out" / "path-suboptimal.csv", tether.cases.sepsis().mdp)
    assert again == tether.cases.sepsis().paths["suboptimal"]


def test_simulate_draws_what_the_library_draws(tmp_path):
    grid = tether.cases.grid_world().mdp
    write_model(grid, tmp_path / "model.drn")
    model, alone, log = tmp_path / "model.drn", tmp_path / "path.csv", tmp_path / "log.csv"
    call = ["simulate", model, "--policy", "optimal", "--steps", 6, "--start", 3, "--seed", 5]
    one = json_of(*call, "-o", alone)
    drawn = grid.simulate("optimal", 6, start=3, rng=5)
    by_hand = [grid.reward(drawn.states[t], drawn.actions[t], drawn.states[t + 1], t) for t in range(6)]
    found = read_path(alone, grid)
    assert (found.states, found.actions, list(found.rewards)) == (drawn.states, drawn.actions, by_hand)
    assert (one["mean"], one["episodes"][0]["value"]) == (sum(by_hand), sum(by_hand))
    many = json_of(*call, "-n", 4, "-o", log)
    wanted = grid.simulate("optimal", 6, start=3, rng=5, n=4)
    read = read_episodes(log)
    assert [(path.states, path.actions) for path in read.values()] == [
        (path.states, path.actions) for path in wanted.values()
    ]
    assert many["episodes"][0] == one["episodes"][0]  # the same seed, the same first episode
    assert "… and 1 more" in words(*call, "-n", 4)
