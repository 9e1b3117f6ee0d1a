"""What each command answers: the library's numbers, in JSON and in words."""

import itertools
import json
from importlib import import_module

import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether.explanation.answers import as_data
from tether.explanation.terms import best_for_anyone_in_words
from tether.influence.reach import coverage
from tether.io.logs import read_episodes, write_episodes
from tether.io.models import read_model, write_model
from tether.io.paths import read_path, write_path
from tether.learning.learn import learn
from tether.learning.posterior import posterior


def run(*arguments, code=0, width=80):
    done = CliRunner().invoke(main, [str(one) for one in arguments], env={"COLUMNS": str(width)})
    assert done.exit_code == code, done.output
    return done.stdout


def told(*arguments, **options):
    return json.loads(run(*arguments, "--json", **options))


def words(*arguments, **options):
    return " ".join(run(*arguments, **options).split())


# ---- explain ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "m"), [(3, 1), (6, 4), (8, 1), (1, 3)])
def test_explain_tells_what_the_library_explains(epidemic, k, m):
    answer = told("explain", "case:epidemic", "-k", k, "-m", m)
    explanation = epidemic.plan(k, m).explain()
    plan, beyond = explanation.plan, explanation.beyond
    assert (answer["k"], answer["m"], answer["T"]) == (k, m, 7)
    assert (answer["value"], answer["observed_value"], answer["gain"]) == (plan.value, -38.0, plan.gain)
    assert answer["std"] == explanation.outlook.std
    for step, one in zip(answer["steps"], explanation.steps, strict=True):
        for name in step:
            expected = getattr(one, name)
            assert step[name] == (as_data(expected) if "state" in name or "action" in name else expected), name
    for name in ("longer", "free", "more", "most"):
        limit = getattr(beyond, name)
        assert answer["beyond"][name] == (
            None if limit is None else {"k": limit.k, "m": limit.m, "value": limit.value, "added": limit.added}
        )
    assert answer["tailoring"]["longest_run"] == explanation.outlook.tailoring.longest_run
    assert answer["sentences"] == [
        *explanation.sentences(str),
        *beyond.sentences(),
        best_for_anyone_in_words(explanation),
    ]
    assert answer["sentences"][: sum(map(len, answer["answer"].values()))] == [
        one for part in answer["answer"].values() for one in part
    ]
    assert answer["uncertainty"] is None


def test_explain_in_words():
    text = run("explain", "case:epidemic", "-k", 3, "-m", 1)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 (8, 2, 20) → NIL the same 0 0.64 yes" in lines
    assert "5 (1, 9, 20) → NIL the same → V_I* 0 0 no" in lines
    assert "6 (1, 9, 20) → NIL (1, 8, 19) (89 %) → NIL +0.8889 0 no" in lines
    for sentence in (
        "Change 1 action: at t = 5 V_I instead of NIL.",
        "The expected return is -37.11 (± 0.3143) instead of -38: a gain of 0.8889.",
        "A longer tether would add 1.92 with k = 4, and 36.11 without any (k = 8).",
    ):
        assert sentence in " ".join(text.split())


def test_explain_without_k_takes_the_shortest_tether_that_is_enough():
    assert told("explain", "case:epidemic")["k"] == 7
    assert "k = 7 (the shortest tether that is enough):" in words("explain", "case:epidemic")
    assert told("explain", "case:toy")["k"] == 1
    assert "k = 1 (no tether gains anything):" in words("explain", "case:toy")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-k", "8"], "k = 8: no tether; the answer may be what the model expects of anyone."),
        (["-k", "1"], "k = 1: every step counts as influenced."),
        (["-k", "4"], "k = 4: from every step, one that counts as influenced can be met within 4 steps;"),
        (["-k", "4", "--rule", "assured"], "k = 4: never 4 steps in a row without one that counts as influenced."),
        (["-k", "4", "--influence", "effective:0.1"], "Rule definition, influence effective(0.1)."),
        (["-m", "0"], "m = 0: no action may change."),
    ],
)
def test_explain_says_what_the_limits_mean(options, sentence):
    assert sentence in words("explain", "case:epidemic", *options)


def test_a_model_without_rewards_is_called_that():
    assert words("explain", "case:toy").endswith("say what it is worth to end in a state (final reward).")


def test_rules_influence_and_discount_reach_the_planner(grid):
    options = ("--rule", "assured", "--influence", "effective:0.02", "--discount", "0.9")
    answer = told("explain", "case:grid-world", "-k", 4, "-m", 2, *options)
    cf = tether.counterfactual(grid.mdp.with_objective(discount=0.9), grid.path)
    assert answer["value"] == cf.plan(4, 2, rule="assured", influence=tether.effective(0.02)).value
    assert (answer["rule"], answer["influence"], answer["discount"]) == ("assured", "effective(0.02)", 0.9)
    tv = told("explain", "case:grid-world", "-k", 4, "-m", 2, "--influence", "tv:0.3")
    assert tv["value"] == grid.plan(4, 2, influence=tether.tv(0.3)).value


def test_features_take_states_together(epidemic):
    answer = told("explain", "case:epidemic", "-k", 6, "-m", 4, "--features", "I")
    states, chances = epidemic.plan(6, 4).evaluate().distribution(5)
    by_i: dict[int, float] = {}
    for state, chance in zip(states, chances, strict=True):
        by_i[state.I] = by_i.get(state.I, 0.0) + chance
    likeliest = max(by_i, key=lambda one: by_i[one])
    assert answer["steps"][5]["state"] == {"I": likeliest}
    assert answer["steps"][5]["state_probability"] == pytest.approx(by_i[likeliest])
    assert "I 9 → NIL" in words("explain", "case:epidemic", "-k", 6, "-m", 4, "--features", "I")


@pytest.mark.compiled
def test_long_states_are_told_by_what_differs():
    lines = [" ".join(line.split()) for line in run("explain", "case:sepsis", "-k", 8, "-m", 1, width=200).splitlines()]
    assert "1 systolic bp high, vasopressors yes → antibiotics + ventilation the same 0 0.81 yes" in lines
    assert not any("as before" in line or "the same" in line for line in lines if "died" in line)


@pytest.mark.compiled
def test_an_outcome_is_told_by_its_name_and_its_own_probability():
    """Of death it was said that all is as before, and 13 %: that of the likeliest single way of being dead."""
    answer = told("explain", "case:sepsis", "-k", 8, "-m", 2)
    patient = tether.cases.sepsis()
    outlook = tether.counterfactual(patient.mdp, patient.path).plan(8, 2).evaluate()
    for t in (5, 10):
        died = sum(p for s, p in zip(*outlook.distribution(t), strict=True) if s in patient.mdp.labels["died"])
        step = answer["steps"][t]
        assert (step["observed_outcome"], step["outcome"]) == ("died", "died")
        assert step["outcome_probability"] == pytest.approx(died)
        assert f"died ({100 * died:.0f} %)" in words("explain", "case:sepsis", "-k", 8, "-m", 2)
    assert answer["steps"][0]["observed_outcome"] is None


def test_an_outcome_that_was_not_recorded(tmp_path):
    grid = tether.cases.grid_world()
    cut = tether.Path(grid.path.states[:-1], grid.path.actions)
    write_path(cut, tmp_path / "path.csv")
    text = run("explain", "case:grid-world", tmp_path / "path.csv", "-k", 6)
    assert "11  not recorded" in text
    assert told("explain", "case:grid-world", tmp_path / "path.csv", "-k", 6)["steps"][-1]["observed_state"] is None
    checked = words("check", "case:grid-world", tmp_path / "path.csv")
    assert "the last outcome is not recorded" in checked


def test_files_give_the_same_answer_as_the_case(tmp_path):
    case = tether.cases.epidemic()
    write_model(case.mdp, tmp_path / "model.parquet")
    write_path(case.path, tmp_path / "path.json")
    write_episodes({"first": case.path}, tmp_path / "log.csv")
    expected = told("explain", "case:epidemic", "-k", 6, "-m", 2)
    for path in (tmp_path / "path.json", f"{tmp_path / 'log.csv'}#first", "case:epidemic"):
        answer = told("explain", tmp_path / "model.parquet", path, "-k", 6, "-m", 2)
        assert answer["value"] == pytest.approx(expected["value"], rel=1e-13)  # states come in another order
        assert [step["action"] for step in answer["steps"]] == [step["action"] for step in expected["steps"]]


# ---- sweep, choose-k --------------------------------------------------------------------------------------------


def test_sweep_has_the_table_of_the_library(epidemic):
    answer, table = told("sweep", "case:epidemic"), epidemic.sweep()
    assert answer["values"] == table.values.tolist()
    assert (answer["ks"], answer["ms"]) == (list(range(1, 9)), list(range(8)))
    assert answer["sizes"] == table.sizes.tolist()
    assert answer["enough"] == [None, 7, 7, 7, 7, 7, 7, 7]
    some = told("sweep", "case:epidemic", "-k", "2,7-8", "-m", "1-2", "--rule", "assured")
    assert some["values"] == epidemic.sweep(rule="assured", ks=[2, 7, 8], ms=[1, 2]).values.tolist()


def test_the_table_takes_rows_and_columns_together_that_are_the_same():
    lines = run("sweep", "case:epidemic").splitlines()
    assert "k \\ m       0       1       2       3       4     5–7" in lines
    assert "  1–2  -38.00  -38.00  -38.00  -38.00  -38.00  -38.00" in lines
    assert "    3  -38.00  -37.11  -37.11  -37.11  -37.11  -37.11" in lines
    assert "k = 7 with m = 1–7" in words("sweep", "case:epidemic")


def test_a_table_that_is_too_wide_goes_on_below():
    text = run("sweep", "case:grid-world", width=50)
    assert text.count("k \\ m") == 3
    wide = run("sweep", "case:grid-world", width=150)
    assert wide.count("k \\ m") == 1
    for value in ("-897.00", "374.72", "548.12"):
        assert text.split().count(value) == wide.split().count(value) > 0


def test_a_table_of_tethers_that_gain_nothing():
    assert "No tether of these gains anything." in words("sweep", "case:epidemic", "-k", "1-2")


@pytest.mark.parametrize(("m", "at_least"), [(2, -30.0), (1, -38.0), (1, 5.0)])
def test_choose_k(epidemic, m, at_least):
    k = epidemic.choose_k(m, at_least)
    code = 1 if k is None else 0
    assert told("choose-k", "case:epidemic", "-m", m, "--at-least", at_least, code=code)["k"] == k
    text = words("choose-k", "case:epidemic", "-m", m, "--at-least", at_least, code=code)
    assert text.startswith("No k reaches 5 with 1 change" if k is None else f"k = {k} is the smallest")


def test_choose_k_says_when_the_tether_is_off():
    assert "k = 8 (no tether) is the smallest" in words("choose-k", "case:epidemic", "-m", 1, "--at-least", -2)


# ---- why, evaluate, sample --------------------------------------------------------------------------------------


def test_why_answers_for_each_action(epidemic):
    answer = told("why", "case:epidemic", "-t", 0, "-k", 3)
    assert answer["state"] == {"S": 9, "I": 1, "V": 20}
    for one in answer["answers"]:
        why = epidemic.why(0, (9, 1, 20), one["action"], 3)
        assert (one["allowed"], one["needed"], one["reason"], one["nearest"], one["sentence"]) == (
            why.allowed, why.needed, why.reason, why.nearest, why.sentence,
        )  # fmt: skip
        assert [(step["t"], step["action"]) for step in one["path"]] == [(t, action) for t, _, action in why.path]
    assert [one["action"] for one in answer["answers"]] == ["NIL", "V_I", "V_S"]
    text = words("why", "case:epidemic", "-t", 0, "-k", 3)
    assert "NIL allowed: it counts as influenced itself." in text
    assert "V_I not allowed: no path from here is ever influenced again. It takes k ≥ 8." in text


def test_why_of_one_state_and_action(epidemic):
    call = ("why", "case:epidemic", "-t", 2, "-k", 1, "--state", "(7,3,20)", "--action", "V_I")
    assert told(*call)["answers"][0]["sentence"] == epidemic.why(2, (7, 3, 20), "V_I", 1).sentence
    late = ("why", "case:epidemic", "-t", 6, "-k", 2, "--state", "(1, 8, 19)", "--action", "NIL", "--rule", "assured")
    assured = told(*late, "--uninfluenced", 1)["answers"][0]["sentence"]
    assert assured == epidemic.why(6, (1, 8, 19), "NIL", 2, rule="assured", uninfluenced=1).sentence


@pytest.mark.parametrize("policy", ["optimal", "observed", "random"])
def test_evaluate(grid, policy):
    answer = told("evaluate", "case:grid-world", "--policy", policy, "--influence", "effective:0")
    given = {"optimal": grid.mdp.solve(11), "observed": lambda t, _: grid.path.actions[t], "random": "random"}[policy]
    outlook = grid.evaluate(given, influence=tether.effective(0))
    assert (answer["value"], answer["std"]) == (outlook.value, outlook.std)
    assert answer["gain"] == outlook.value + 897
    assert [step["changed"] for step in answer["steps"][:-1]] == outlook.changed.tolist()
    assert [step["influenced"] for step in answer["steps"][:-1]] == outlook.tailoring.influenced.tolist()
    assert sum(step["gain"] for step in answer["steps"]) == pytest.approx(answer["gain"])
    assert answer["tailoring"]["expected_influenced_steps"] == outlook.tailoring.expected_influenced_steps
    text = words("evaluate", "case:grid-world", "--policy", policy)
    assert "of the 11 actions on average." in text


def test_evaluate_a_file(grid, tmp_path):
    file = tmp_path / "policy.csv"
    file.write_text("s,action\n" + "".join(f"{state},down\n" for state in range(16)))
    answer = told("evaluate", "case:grid-world", "--policy", file, "--policy-column", "state=s")
    assert answer["value"] == grid.evaluate(lambda _: "down").value


def test_samples_are_those_of_the_plan(epidemic, tmp_path):
    file = tmp_path / "log.csv"
    answer = told("sample", "case:epidemic", "-k", 6, "-m", 4, "-n", 20, "--seed", 3, "-o", file)
    drawn = epidemic.plan(6, 4).sample(20, 3)
    assert [one["value"] for one in answer["trajectories"]] == drawn.returns.tolist()
    assert answer["mean"] == drawn.returns.mean()
    assert answer["trajectories"][0]["actions"] == list(drawn.paths[0].actions)
    assert answer["trajectories"][0]["states"][0] == {"S": 9, "I": 1, "V": 20}
    log = read_episodes(file)
    assert log[7].states == tuple(str(state) for state in drawn.paths[7].states)
    assert log.rewards(7).sum() == drawn.returns[7]
    text = words("sample", "case:epidemic", "-k", 6, "-m", 4, "-n", 20, "--seed", 3)
    assert "20 episodes drawn" in text
    assert "… and 15 more" in text


# ---- check, convert, learn, cases, report -----------------------------------------------------------------------


def test_check_describes(epidemic):
    answer, found = told("check", "case:epidemic"), coverage(epidemic)
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
    answer = told("check", tmp_path / "model.csv")
    assert (answer["path"], answer["T"], answer["coverage"]) == (None, None, None)
    assert answer["description"]["absorbing"] == 2


BAD_MODEL = "state,action,next_state,probability\na,go,b,0.5\na,go,c,0.4\nb,go,d,1\nc,go,c,1\n"


def test_check_tells_all_problems_with_their_lines(tmp_path):
    model, path = tmp_path / "model.csv", tmp_path / "path.csv"
    model.write_text(BAD_MODEL)
    path.write_text("t,state,action\n0,a,go\n2,b,\n")
    answer = told("check", model, path, code=1)
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
    answer = told("check", model, path, "--terminal", "d", code=1)
    assert answer["description"]["terminal"] == 1  # the model is sound
    assert [problem["line"] for problem in answer["problems"]] == [2]
    assert "the model has no action 'run'" in answer["problems"][0]["message"]


def test_check_counts_problems_that_it_does_not_list(tmp_path):
    file = tmp_path / "model.csv"
    rows = "".join(f"{i},go,{i},x\n" for i in range(150))
    file.write_text(f"state,action,next_state,probability\n{rows}")
    assert told("check", file, code=1)["total_problems"] == 150
    assert "150 problems:" in run("check", file, code=1)
    assert "… and 50 more" in run("check", file, code=1)


def test_check_reads_every_number_of_a_saved_model(tmp_path):
    saved = tmp_path / "saved"
    tether.cases.grid_world().mdp.save(saved)
    assert told("check", saved)["sound"]
    numbers = bytearray((saved / "probability.npy").read_bytes())
    numbers[-800] ^= 0xFF
    (saved / "probability.npy").write_bytes(numbers)
    assert not told("check", saved, code=1)["sound"]


@pytest.mark.parametrize(
    "name", ["again.csv", "again.tsv.gz", "again.arrow", "again.npz", "again", "again.tra", "x.drn"]
)
def test_convert(tmp_path, name):
    write_model(tether.cases.grid_world().mdp, tmp_path / "model.csv")
    answer = told("convert", tmp_path / "model.csv", tmp_path / name)
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
    assert "This format does not hold labels: init, down, done are lost." in lost


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
    answer = told("learn", log, out, "--prior", 0.5, "--minimum", 2, "--column", "episode=robot")
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
    explained = told(*call)
    plan = tether.counterfactual(mdp, episodes["seen"]).plan(4, 2)
    sure = posterior(mdp, 10, rng=5).of(plan)
    assert explained["value"] == plan.value
    assert explained["uncertainty"]["interval"] == list(sure.interval(0.9))
    assert explained["uncertainty"]["probability_better"] == sure.probability_better
    assert [one["same"] for one in explained["uncertainty"]["changes"]] == [one.same for one in sure.changes]
    assert explained["uncertainty"]["outcomes"] == {name: list(sure.outcome_interval(name)) for name in sure.outcomes}
    assert explained["learned"] == {"episodes": 41}
    assert explained["evidence"] == as_data(plan.explain(draws=0).evidence)
    shown = words(*call)
    assert all(sentence in shown for sentence in plan.explain(draws=10, rng=5).sentences(str))
    assert sure.changes_in_words(str)[0] in shown


def test_learn_in_words(log, tmp_path):
    text = words("learn", log, tmp_path / "learned", "--column", "episode=robot")
    assert text.startswith("Learned from 41 episodes of 451 steps in all.")
    assert f"Written to {tmp_path}" in text.replace("/ ", "/") or "Written to" in text
    assert "Learned from" in words("check", tmp_path / "learned")


def test_a_log_without_rewards_is_called_that(tmp_path):
    toy = tether.cases.toy()
    write_episodes([toy.path], tmp_path / "log.csv")
    text = words("learn", tmp_path / "log.csv", tmp_path / "learned")
    assert "The log has no column reward" in text


def test_what_was_learned_is_told_in_the_same_words_later(tmp_path):
    write_episodes([tether.Path(["sick", "well"], ["treat"], [1.0], "left")], tmp_path / "log.csv")
    text = words("learn", tmp_path / "log.csv", tmp_path / "learned")
    assert "reward 0): left." in text
    assert text.partition("Written to")[0].strip() in words("check", tmp_path / "learned")


def test_cases_are_listed():
    answer = told("cases")
    by_name = {case["name"]: case for case in answer["cases"]}
    assert by_name["sepsis"]["paths"] == {"case:sepsis": 10, "case:sepsis-suboptimal": 10}
    assert by_name["epidemic"]["states"] == 2541
    text = run("cases")
    for name in by_name:
        assert f"case:{name}" in text


def test_a_case_that_needs_what_is_not_installed_says_so(monkeypatch):
    def missing():
        raise tether.QueryError("this case needs the package moon: pip install moon")

    monkeypatch.setattr(import_module("tether.cases.toy"), "toy", missing)
    by_name = {case["name"]: case for case in told("cases")["cases"]}
    assert by_name["toy"]["states"] is None
    assert by_name["toy"]["missing"] == "this case needs the package moon: pip install moon"
    assert "pip install moon" in words("cases")


@pytest.mark.parametrize("name", ["grid-world", "case:epidemic"])
def test_an_exported_case_can_be_read_again(tmp_path, name):
    out = tmp_path / "out"
    files = told("cases", name, out)["files"]
    assert files == [str(out / "model.csv"), str(out / "path.csv")]
    mdp = read_model(out / "model.csv")
    assert tether.counterfactual(mdp, read_path(out / "path.csv", mdp)).T > 0
    assert "Try: tether explain" in words("cases", name, tmp_path / "again")


def test_every_path_of_a_case_is_exported(tmp_path):
    text = words("cases", "sepsis", tmp_path / "out")
    assert "model.csv, path.csv, path-suboptimal.csv" in text
    again = read_path(tmp_path / "out" / "path-suboptimal.csv", tether.cases.sepsis().mdp)
    assert again == tether.cases.sepsis().paths["suboptimal"]


def test_report_writes_a_page(tmp_path, epidemic):
    file = tmp_path / "page.html"
    answer = told("report", "case:epidemic", "-k", 6, "-m", 4, "-o", file, "--title", "An outbreak")
    assert answer["value"] == epidemic.plan(6, 4).value
    assert answer["bytes"] == file.stat().st_size
    page = file.read_text(encoding="utf-8")
    assert "An outbreak" in page
    assert "case:epidemic" in page
    assert "Written to" in words("report", "case:epidemic", "-k", 6, "-o", file, "--features", "I")


# ---- demo -------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_demo_as_json(tmp_path, monkeypatch, epidemic):
    monkeypatch.chdir(tmp_path)
    answer = told("demo")
    outbreak, patient = answer["stories"]
    assert [one["value"] for one in outbreak["explanations"]] == [
        epidemic.plan(k, m).value for k, m in ((3, 1), (6, 4), (8, 1))
    ]
    assert outbreak["explanations"][0]["steps"][0]["state"] == "S 9, I 1"
    assert len(patient["explanations"]) == 2
    assert list(tmp_path.iterdir()) == []  # only the text of the demonstration is also left in a file


# ---- certify and robust -----------------------------------------------------------------------------------------


def test_certify_tells_what_the_library_certifies(epidemic):
    answer = told("certify", "case:epidemic", "-k", 6, "-m", 4)
    found = epidemic.plan(6, 4).certify()
    assert (answer["k"], answer["m"], answer["policy"]) == (6, 4, None)
    assert answer["certificate"] == as_data(found)
    assert answer["certificate"]["verdict"] == "holds"
    shown = words("certify", "case:epidemic", "-k", 6, "-m", 4)
    assert found.sentence in shown
    by_name = told("certify", "case:epidemic", "--policy", "random")
    assert (by_name["policy"], by_name["certificate"]) == ("random", as_data(tether.certify(epidemic, "random")))
    assert "k" not in by_name
    over = told("certify", "case:epidemic", "--policy", "random", "--objective", "reach over")
    assert over["objective"] == "reach over"
    assert over["certificate"] == as_data(tether.certify(epidemic, "random", objective=tether.reach("over")))


def test_certify_a_policy_from_a_file(tmp_path):
    case, file = tether.cases.grid_world(), tmp_path / "policy.csv"
    rows = [f"{t},{s},{action}\n" for t, action in enumerate(case.path.actions) for s in case.mdp.states]
    file.write_text("t,state,action\n" + "".join(rows))
    certificate = told("certify", "case:grid-world", "--policy", file)["certificate"]
    assert certificate["nothing"]["worst"] == certificate["nothing"]["best"] == -897.0
    assert "Every causal model gives the observed return." in words("certify", "case:grid-world", "--policy", file)


def test_policies_that_do_not_fit_are_refused(tmp_path):
    grid = tether.cases.grid_world()
    file = tmp_path / "policy.csv"
    file.write_text("state,action\n" + "".join(f"{s},up\n" for s in grid.mdp.states))
    refused = CliRunner().invoke(main, ["certify", "case:epidemic", "--policy", str(file)])
    assert refused.exit_code == 2
    assert "policy.csv" in refused.stderr
    file.write_text("state,action\n0,up\n")
    partly = CliRunner().invoke(main, ["certify", "case:grid-world", "--policy", str(file)])
    assert partly.exit_code == 2
    assert "the policy says nothing for state" in partly.stderr
    both = CliRunner().invoke(main, ["certify", "case:grid-world", "--policy", "random", "-k", "3"])
    assert both.exit_code == 2
    assert "with --policy there is none to make" in both.stderr


def test_robust_tells_what_the_library_guarantees(tmp_path):
    case = tether.cases.epidemic()
    sure = tether.robust(case.mdp, case.path, assume="nothing")
    plan = sure.plan(6, 4)
    answer = told("robust", "case:epidemic", "-k", 6, "-m", 4, "--assume", "nothing", "--export", tmp_path / "o.drn")
    assert (answer["value"], answer["best_case"], answer["assume"]) == (plan.value, plan.best_case, "nothing")
    assert answer["expected_value"] == plan.evaluate().value
    assert (answer["confidence"], answer["gain"]) == (None, plan.gain)
    assert answer["export"] == as_data(sure.write(tmp_path / "o.drn", 6, 4))
    default = told("robust", "case:epidemic", "-k", 6, "-m", 4)
    assert (default["assume"], default["export"]) == ("stability", None)
    shown = words("robust", "case:epidemic", "-k", 6, "-m", 4, "--export", tmp_path / "o.nm")
    assert 'R{"reward"}maxmin=? [ F "done" ] is the guaranteed return plus 72.' in shown


def test_robust_on_a_learned_model(tmp_path):
    seen = {("treat", "well"): 80, ("treat", "dead"): 2, ("wait", "well"): 20, ("wait", "dead"): 30}
    paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    mdp = learn(paths).with_objective(final_reward={"well": 1.0})
    mdp.save(tmp_path / "learned")
    path = tether.Path(["sick", "dead"], ["wait"])
    write_path(path, tmp_path / "path.csv")
    asked = "robust", tmp_path / "learned", tmp_path / "path.csv", "-k", 1, "--confidence", 0.95
    answer = told(*asked)
    assert answer["value"] == tether.robust(mdp, path, "nothing", confidence=0.95).plan(1).value
    assert (answer["assume"], answer["confidence"]) == ("nothing", 0.95)
    assert "all transition probabilities that the log allows (jointly, with 95 % confidence)" in words(*asked)
    refused = CliRunner().invoke(main, [*map(str, asked), "--assume", "stability"])
    assert refused.exit_code == 2
    assert "go with assume='nothing' alone, not 'stability'" in refused.stderr
    refused = CliRunner().invoke(main, ["robust", "case:epidemic", "--confidence", "0.95"])
    assert "was not learned from episodes" in refused.stderr
