"""What MODEL, PATH and a policy may be, where only text can be given."""

import sys

import numpy as np
import pytest

import tether
from tether.io import open_model, open_path, open_policy
from tether.io.embedded import about_case, case_names, open_case, path_names
from tether.io.logs import write_episodes
from tether.io.models import write_model
from tether.io.names_as_text import find_name, word_to_label
from tether.io.paths import write_path


def same_model(one, other):
    """Equal numbers under labels of equal text, in whatever order."""
    assert {str(state) for state in one.states} >= {str(state) for state in other.states}
    assert one.n_transitions == other.n_transitions


@pytest.mark.parametrize("name", ["toy", "grid-world", "epidemic", "sepsis"])
def test_every_case_opens_by_its_name(name):
    case, path = open_case(f"case:{name}")
    assert name in case_names()
    assert path == case.path
    assert open_model(f"case:{name}").n_states == case.mdp.n_states
    assert open_path(f"case:{name}", case.mdp) == case.path
    assert about_case(name).endswith(".")


def test_names_of_cases_may_be_written_in_any_way():
    assert open_case("case:Grid_World")[0].name == "grid world"
    assert open_case("case: toy")[0].name == "toy"


def test_a_case_has_its_paths_by_name():
    case, path = open_case("case:sepsis-suboptimal")
    assert path == case.paths["suboptimal"]
    assert open_path("case:sepsis-catastrophic") == case.paths["catastrophic"]
    assert path_names("sepsis", case) == {"case:sepsis": "catastrophic", "case:sepsis-suboptimal": "suboptimal"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("case:epidemik", "there is no case 'case:epidemik'; there are case:ward, case:toy, .*; "
                          "did you mean case:epidemic\\?"),
        ("case:", "there is no case 'case:'"),
        ("case:sepsis-bad", "the case sepsis has no path 'bad'; its paths are case:sepsis, case:sepsis-suboptimal"),
        ("case:toys", "there is no case 'case:toys'"),
    ],
)  # fmt: skip
def test_a_case_that_is_not_there(source, message):
    with pytest.raises(tether.QueryError, match=message):
        open_model(source)


def test_a_case_takes_no_options_of_files():
    with pytest.raises(tether.QueryError, match="case:toy is an embedded case, not a file: terminal cannot be given"):
        open_model("case:toy", terminal=["s7"], format=None)
    with pytest.raises(tether.QueryError, match="columns cannot be given"):
        open_path("case:toy", columns={"t": "hour"})


def test_environments_of_gymnasium():
    lake = open_model("gym:FrozenLake-v1")
    assert (lake.n_states, lake.n_actions) == (16, 4)
    sure = open_model("gym:FrozenLake-v1?is_slippery=False&map_name=4x4")
    assert sure.row(0, 2) == ((1,), 1.0)
    for source, message in (
        ("gym:NoLake-v1", "gym:NoLake-v1: Gymnasium does not make it: .*NoLake"),
        ("gym:FrozenLake-v1?slip=True", "Gymnasium does not make it: .*slip"),
        ("gym:FrozenLake-v1?slippery", r"expected NAME=VALUE after the \?, not 'slippery'"),
    ):
        with pytest.raises(tether.QueryError, match=message):
            open_model(source)
    with pytest.raises(tether.QueryError, match="is an environment of Gymnasium, not a file: terminal cannot be given"):
        open_model("gym:FrozenLake-v1", terminal=[3])


def test_gymnasium_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(tether.QueryError, match=r"this needs Gymnasium: pip install 'tether\[gymnasium\]'"):
        open_model("gym:FrozenLake-v1")


@pytest.mark.parametrize("name", ["grid.csv", "grid.parquet", "grid.npz", "saved"])
def test_models_of_every_kind_open(tmp_path, name):
    grid = tether.cases.grid_world().mdp
    write_model(grid, tmp_path / name)
    again = open_model(tmp_path / name)
    same_model(again, grid)
    assert again.row(2, "left")[1].tolist() == grid.row(2, "left")[1].tolist()


def test_options_reach_the_reader(tmp_path):
    file = tmp_path / "model.txt"
    file.write_text("s,action,next_state,probability\na,go,b,1\n")
    mdp = open_model(file, format="csv", columns={"state": "s"}, terminal=["b"])
    assert mdp.actions_in("b") == ("go",)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("sepsis", "sepsis: there is no such file; did you mean case:sepsis\\?"),
        ("Grid_World", "did you mean case:grid-world\\?"),
        ("no/where/model.csv", "no/where/model.csv: there is no such file, nor a directory no/where"),
        ("model.csv", "model.csv: there is no such file$"),
        ("#3", "#3: there is no such file$"),
    ],
)
def test_a_file_that_is_not_there(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    for opened in (open_model, open_path):
        with pytest.raises(tether.errors.FileError, match=message):
            opened(source)


@pytest.fixture
def log(tmp_path):
    """Three episodes of the epidemic model, whose states a file knows as text; ids are text and numbers."""
    case = tether.cases.epidemic()
    file = tmp_path / "log.csv"
    paths = {"ann": case.path, "7": case.mdp.simulate("random", 5, start=(9, 1, 20), rng=1)}
    write_episodes(paths, file)
    return file, case, paths


def test_an_episode_of_a_log(log):
    file, case, paths = log
    path = open_path(f"{file}#ann", case.mdp)
    assert path == case.path
    assert path.states[0].S == 9  # a state of the model, not its text
    assert open_path(f"{file}#7", case.mdp) == paths["7"]
    assert open_path(f"{file}#ann").states[0] == "(9, 1, 20)"  # without a model, what the file says


def test_episodes_that_are_numbers(tmp_path):
    toy = tether.cases.toy()
    write_episodes([toy.path], tmp_path / "log.csv")
    assert open_path(f"{tmp_path / 'log.csv'}#0", toy.mdp) == toy.path


def test_a_log_without_that_episode(log):
    file, case, _ = log
    with pytest.raises(
        tether.QueryError, match=r"log\.csv: there is no episode 'bob'; there are 2 episodes: 'ann', '7'"
    ):
        open_path(f"{file}#bob", case.mdp)
    with pytest.raises(tether.errors.FileError, match=r"nolog\.csv: there is no such file"):
        open_path(f"{file.with_name('nolog.csv')}#ann", case.mdp)


def test_a_log_with_other_columns(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("patient,hour,state,action\nann,0,s0,a0\nann,1,s2,\n")
    path = open_path(f"{file}#ann", None, columns={"episode": "patient", "t": "hour"})
    assert path == tether.Path(["s0", "s2"], ["a0"])


def test_a_file_whose_name_has_a_hash(tmp_path):
    toy = tether.cases.toy()
    file = tmp_path / "a#b.csv"
    write_path(toy.path, file)
    assert open_path(file, toy.mdp) == toy.path


def test_a_path_of_a_case_in_the_words_of_a_file(tmp_path):
    case = tether.cases.epidemic()
    write_model(case.mdp, tmp_path / "model.csv")
    mdp = open_model(tmp_path / "model.csv")
    path = open_path("case:epidemic", mdp)
    assert path.states[0] == "(9, 1, 20)"
    assert tether.counterfactual(mdp, path).plan(3, 1).value == pytest.approx(-37.1111, abs=1e-4)


@pytest.mark.parametrize(
    ("labels", "word", "meant"),
    [
        (["a", "b"], "b", "b"),
        (["a", "b"], " b ", "b"),
        ([3, 1, 2], "1", 1),
        (["1", "2"], "1", "1"),
        ([(9, 1), (8, 2)], "(9, 1)", (9, 1)),
        ([(9, 1), (8, 2)], "[9,1]", (9, 1)),
        ([("low", True), ("high", False)], "('low', True)", ("low", True)),
        ([0.5, 1.5], "0.5", 0.5),
        ([True, False], "True", True),
    ],
)
def test_the_labels_decide_what_a_word_means(labels, word, meant):
    found = find_name(tether.model.names.make_names(labels, None, "state"), word, "state")
    assert found == meant
    assert type(found) is type(meant)


def test_a_label_by_what_it_prints():
    states = tether.cases.sepsis().mdp.states
    assert find_name(states, str(states[777]), "state") == states[777]
    assert find_name(states, repr(states[777]), "state") == states[777]


def test_a_word_that_means_nothing():
    actions = tether.cases.epidemic().mdp.actions
    with pytest.raises(tether.QueryError, match=r"no action 'V_X'; it has 3 actions: .*; did you mean 'V_S'\?"):
        find_name(actions, "V_X", "action")
    with pytest.raises(tether.QueryError, match=r"no action '\(\(\(\('"):
        find_name(actions, "((((", "action")


def test_words_without_a_model():
    assert [word_to_label(word) for word in ("7", "-7", "0", "007", "--5", "a", "1.5")] == [
        7, -7, 0, "007", "--5", "a", "1.5",
    ]  # fmt: skip


def test_policies_by_name(grid):
    assert grid.evaluate(open_policy("observed", grid)).value == grid.plan(1, 0).observed_value
    assert grid.evaluate(open_policy("random", grid)).value == grid.evaluate("random").value
    best = grid.mdp.solve(grid.T)
    assert grid.evaluate(open_policy("optimal", grid)).value == grid.evaluate(best).value


def policy_file(tmp_path, text):
    file = tmp_path / "policy.csv"
    file.write_text(text)
    return file


def test_a_policy_of_states(grid, tmp_path):
    rows = "".join(f"{state},right\n" for state in grid.mdp.states)
    policy = open_policy(policy_file(tmp_path, f"state,action\n{rows}"), grid)
    assert grid.evaluate(policy).value == grid.evaluate(lambda _: "right").value


def test_a_policy_of_times_and_probabilities(grid, tmp_path):
    rows = "".join(
        f"{t},{state},{action},0.333333\n"
        for t in range(grid.T)
        for state in grid.mdp.states
        for action in ("up", "right", "down")
    )
    policy = open_policy(policy_file(tmp_path, f"hour,state,action,probability\n{rows}"), grid, columns={"t": "hour"})
    thirds = np.tile([1 / 3, 1 / 3, 1 / 3, 0.0], (16, 1))
    # A third, written with six digits, is taken for a third.
    assert grid.evaluate(policy).value == pytest.approx(grid.evaluate(thirds).value, rel=1e-12)


def test_all_that_is_wrong_with_a_policy_is_told_at_once(grid, tmp_path):
    file = policy_file(tmp_path, "t,state,action\n0,0,right\n0,99,right\n0,1,fly\n0,0,down\n-1,2,up\n")
    with pytest.raises(tether.errors.FileError) as caught:
        open_policy(file, grid)
    messages = [problem.message.removeprefix(f"{file}, ") for problem in caught.value.problems]
    assert messages == [
        "line 3: the model has no state '99'; it has 16 states, 0 … 15",
        "line 4: the model has no action 'fly'; it has 4 actions: 'up', 'right', 'down', 'left'",
        "line 5: t = 0, state 0 was given before (line 2); leave one, or add a column 'probability'",
        "line 6: t must be a whole number from 0, not -1",
    ]


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ("0.5,0.6", "the probabilities 0.5, 0.6 sum to 1.1; expected 1"),
        ("1.5,-0.5", "the probabilities are 1.5, -0.5; none may be negative"),
    ],
)
def test_probabilities_of_a_policy_are_a_distribution(grid, tmp_path, probabilities, message):
    one, two = probabilities.split(",")
    file = policy_file(tmp_path, f"state,action,probability\n0,up,{one}\n0,down,{two}\n")
    with pytest.raises(tether.errors.FileError) as caught:
        open_policy(file, grid)
    assert str(caught.value) == f"{file}, line 2: state 0: {message}"


def test_an_action_that_is_not_available(tmp_path):
    toy = tether.cases.toy()
    cf = tether.counterfactual(toy.mdp, toy.path)
    with pytest.raises(tether.errors.FileError, match="line 2: state 's1': action 'a1' is not available"):
        open_policy(policy_file(tmp_path, "state,action\ns1,a1\n"), cf)


def test_a_policy_that_is_not_there(grid):
    with pytest.raises(tether.QueryError, match="best: there is no such file; a policy by name is optimal, observed"):
        open_policy("best", grid)
    with pytest.raises(tether.errors.FileError, match=r"policy\.csv: there is no such file"):
        open_policy("policy.csv", grid)


def test_cases_are_listed_and_written_by_calls(tmp_path):
    listed = {case.name: case for case in tether.io.cases()}
    assert set(listed) == {*case_names(), "hidden-diabetes"}  # a case of several models
    toy = listed["toy"]
    assert (toy.states, toy.actions, toy.missing) == (tether.cases.toy().mdp.n_states, 2, None)
    files = tether.io.write_case("toy", tmp_path / "toy")
    assert sorted(files) == sorted(file.name for file in (tmp_path / "toy").iterdir())
    mdp = tether.io.read_model(tmp_path / "toy" / "model.csv")
    assert tether.io.read_path(tmp_path / "toy" / "path.csv", mdp) == tether.cases.toy().path
    with pytest.raises(tether.FileError, match="it exists and is not an empty directory"):
        tether.io.write_case("toy", tmp_path / "toy")


def test_what_the_model_does_not_know_of_a_log_is_told_with_its_line(grid, tmp_path):
    """Rows in any order; the last outcome has no row of its own."""
    file = tmp_path / "log.csv"
    file.write_text("episode,t,state,action,next_state\nb,0,0,right,1\na,1,1,fly,99\na,0,0,right,1\n")
    assert open_path(f"{file}#b", grid.mdp).T == 1
    with pytest.raises(tether.PathError) as caught:
        open_path(f"{file}#a", grid.mdp)
    assert [problem.message for problem in caught.value.problems] == [
        f"{file}, line 3: episode 'a', t = 2: the model has no state 99; it has 16 states, 0 … 15",
        f"{file}, line 3: episode 'a', t = 1: the model has no action 'fly'; it has 4 actions: 'up', 'right', 'down', "
        "'left'",
    ]
