"""PRISM's explicit files: each style of them by hand, and random models there and back."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prismfiles import TRA, instead, message, save
from stopping import stopped_after

import tether
from tether import MDP
from tether.errors import FileError, QueryError
from tether.io.drn import read_drn, write_drn
from tether.io.prism import read_prism, write_prism


def rows_of(mdp):
    """Every row and its rewards, by label."""
    return {
        (s, a): {j: (p, mdp.reward(s, a, j)) for j, p in zip(*mdp.row(s, a), strict=True)}
        for s in mdp.states
        for a in mdp.actions_in(s)
    }


def assert_same(got, expected):
    got, expected = rows_of(got), rows_of(expected)
    assert got.keys() == expected.keys()
    for key, row in expected.items():
        assert got[key].keys() == row.keys()
        for after, (chance, reward) in row.items():
            assert got[key][after][0] == pytest.approx(chance, rel=1e-14)
            assert got[key][after][1] == reward


# --- What a file may look like -------------------------------------------------------------------


def test_an_mdp(tmp_path):
    mdp = read_prism(save(tmp_path, tra=TRA))
    assert list(mdp.states) == [0, 1, 2]
    assert mdp.row(0, "go")[1].tolist() == [0.25, 0.75]
    assert mdp.actions_in(0) == ("go", "wait")
    assert mdp.actions_in(1) == (0,)  # a choice without a label is known by its index
    assert set(mdp.actions_in(2)) == {"go", "wait", 0}  # a deadlock absorbs, whatever is done
    assert mdp.row(2, "go")[0] == (2,)
    assert mdp.reward(0, "go") == 0


@pytest.mark.parametrize(
    "tra",
    [
        "# Transitions (MDP)\n" + TRA,  # as newer versions of PRISM begin
        TRA.replace("\n", "\r\n"),
        TRA.replace("\n", " \n"),  # PRISM ends lines without a label with a space
        TRA.replace(" ", "\t"),
        TRA.rstrip("\n"),
        TRA + "\n\n",
        "\ufeff" + TRA,
        instead("# a comment\n\n0 1 0 1 wait"),
        TRA.replace("0.25", "1/4").replace("0.75", "3/4"),  # as PRISM's exact engine writes
        TRA.replace("0.25", ".25").replace("0.75", "7.5e-1"),
        "mdp\n" + TRA.partition("\n")[2],  # as Storm's files begin
        "3 3 5\n" + TRA.partition("\n")[2].replace("0 0 1 0.75 go", "0 0 1 0.5 go\n0 0 1 0.25 go"),
        "3 3 4\n" + "\n".join(reversed(TRA.splitlines()[1:])),
    ],
)
def test_the_same_model_in_other_words(tmp_path, tra):
    assert_same(read_prism(save(tmp_path, tra=tra)), read_prism(save(Path(tmp_path), tra=TRA)))


@pytest.mark.parametrize("header", ["3 4", "# Transitions (DTMC)\n3 4", "dtmc"])
@pytest.mark.parametrize("label", ["", " a"])
def test_a_markov_chain_has_one_action(tmp_path, header, label):
    tra = f"{header}\n0 1 0.5{label}\n0 2 0.5{label}\n1 1 1\n2 0 1{label}\n"
    mdp = read_prism(save(tmp_path, tra=tra))
    assert list(mdp.actions) == [0]
    assert mdp.row(0, 0)[0] == (1, 2)
    assert mdp.row(2, 0)[0] == (0,)


def test_rewards_of_states_and_of_transitions_add_up(tmp_path):
    srew = '# Reward structure "fuel"\n# State rewards\n3 3\n0 1.5\n1 2\n2 0.25\n'
    trew = '# Reward structure: "fuel"\n# Transition rewards\n3 3 2\n0 0 1 10 go\n0 1 0 -1\n'
    mdp = read_prism(save(tmp_path, tra=TRA, srew=srew, trew=trew))
    assert mdp.reward(0, "go", 0) == 1.5
    assert mdp.reward(0, "go", 1) == 11.5
    assert mdp.reward(0, "wait") == 0.5
    assert mdp.reward(1, 0) == 2
    assert mdp.reward(2, "go") == 0.25  # the loop with which PRISM mends a deadlock earns what the state does


def test_rewards_of_different_structures_are_not_added_up(tmp_path):
    srew = '# Reward structure "fuel"\n# State rewards\n3 1\n0 1.5\n'
    trew = '# Reward structure "time"\n# Transition rewards\n3 3 1\n0 0 1 10\n'
    tra = save(tmp_path, tra=TRA, srew=srew, trew=trew)
    with pytest.raises(FileError) as caught:
        read_prism(tra)
    assert "there are several reward structures, which are not added up: " in str(caught.value)
    assert "robot.srew ('fuel') and " in str(caught.value)
    assert "robot.trew ('time'); say which is meant, reward_model='fuel', or False for none" in str(caught.value)
    assert read_prism(tra, reward_model="fuel").reward(0, "go", 1) == 1.5
    assert read_prism(tra, reward_model="time").reward(0, "go", 1) == 10
    assert read_prism(tra, state_rewards=False).reward(0, "go", 1) == 10
    assert read_prism(tra, reward_model=False).reward(0, "go", 1) == 0
    with pytest.raises(QueryError, match=r"there are no rewards 'money'; there are .*robot.srew \('fuel'\)"):
        read_prism(tra, reward_model="money")
    (tmp_path / "robot.srew").write_text("3 1\n0 1.5\n")  # says nothing: the two are one
    assert read_prism(tra).reward(0, "go", 1) == 11.5
    with pytest.raises(QueryError, match="no reward file beside it has a name in its heading"):
        read_prism(tra, transition_rewards=False, reward_model="fuel")


def number_rewards(folder, headings=True):
    """Two structures as PRISM exports them: each in two files with its number."""
    for number, name in ((1, "time"), (2, "energy")):
        heading = f'# Reward structure "{name}"\n' if headings else ""
        (folder / f"robot{number}.srew").write_text(f"{heading}# State rewards\n3 1\n0 {number}\n")
        (folder / f"robot{number}.trew").write_text(f"{heading}# Transition rewards\n3 3 1\n0 0 1 {10 * number}\n")
    return save(folder, tra=TRA)


def test_numbered_reward_files_are_found_by_their_headings(tmp_path):
    tra = number_rewards(tmp_path)
    assert read_prism(tra, reward_model="energy").reward(0, "go", 1) == 22
    assert read_prism(tra, reward_model="time").reward(0, "go", 1) == 11
    assert read_prism(tra, reward_model=False).reward(0, "go", 1) == 0
    with pytest.raises(FileError, match=r"robot1\.trew \('time'\) and .*robot2\.srew with .*robot2\.trew \('energy'\)"):
        read_prism(tra)
    with pytest.raises(QueryError, match=r"there are no rewards 'money'; there are .*robot2\.trew \('energy'\)"):
        read_prism(tra, reward_model="money")


def test_numbered_reward_files_without_headings_are_found_by_their_number(tmp_path):
    tra = number_rewards(tmp_path, headings=False)
    assert read_prism(tra, reward_model="2").reward(0, "go", 1) == 22
    with pytest.raises(FileError, match="say which is meant, reward_model='1', or False for none"):
        read_prism(tra)


@pytest.mark.parametrize(("which", "suffix"), [("state_rewards", "srew"), ("transition_rewards", "trew")])
def test_the_two_files_of_a_structure_belong_together(tmp_path, which, suffix):
    """If one of them is given by name, the other is not left out without a word."""
    tra, given = number_rewards(tmp_path), {which: tmp_path / f"robot2.{suffix}"}
    assert read_prism(tra, **given).reward(0, "go", 1) == 22
    other = "transition_rewards" if which == "state_rewards" else "state_rewards"
    assert read_prism(tra, **given, **{other: False}).reward(0, "go", 1) == {"srew": 2, "trew": 20}[suffix]


def test_reward_files_of_another_model_with_a_number_are_not_taken(tmp_path):
    tra = number_rewards(tmp_path)
    for number in (1, 2):
        (tmp_path / f"robot{number}.tra").write_text(TRA)
    assert read_prism(tra).reward(0, "go", 1) == 0
    assert read_prism(tmp_path / "robot2.tra").reward(0, "go", 1) == 22


def test_the_same_structure_twice_is_not_guessed_at(tmp_path):
    tra = number_rewards(tmp_path)
    (tmp_path / "robot1.srew").write_text((tmp_path / "robot2.srew").read_text())
    (tmp_path / "robot1.trew").unlink()
    with pytest.raises(FileError, match="have the rewards 'energy'; say which is meant: state_rewards="):
        read_prism(tra, reward_model="energy")


def test_old_endings_and_names_and_leaving_out(tmp_path):
    tra = save(tmp_path, tra=TRA, rews="3 1\n0 1\n", rewt="3 3 1\n0 0 1 10\n")
    assert read_prism(tra).reward(0, "go", 1) == 11
    assert read_prism(tra, transition_rewards=False).reward(0, "go", 1) == 1
    assert read_prism(tra, state_rewards=False, transition_rewards=False).reward(0, "go", 1) == 0
    other = tmp_path / "other"
    other.write_text("3 1\n0 7\n")
    assert read_prism(tra, state_rewards=other, transition_rewards=False).reward(0, "go", 1) == 7


def test_files_of_storm_have_no_sizes(tmp_path):
    """Its rewards go without a header, its labels between two words."""
    texts = {"tra": "mdp\n" + TRA.partition("\n")[2], "srew": "0 1\n", "trew": "0 0 1 2\n"}
    tra = save(tmp_path, **texts, lab="#DECLARATION\ninit goal\n#END\n0 init\n1 goal\n2 goal\n")
    assert read_prism(tra).reward(0, "go", 1) == 3
    assert dict(read_prism(tra).labels) == {"init": {0}, "goal": {1, 2}}


def test_states_are_labelled_by_their_variables(tmp_path):
    sta = "(room,lit)\n0:(-1,true)\n1:(0,false)\n2:(3,true)\n"
    mdp = read_prism(save(tmp_path, tra=TRA, sta=sta))
    assert list(mdp.states) == [(-1, True), (0, False), (3, True)]
    assert mdp.row((-1, True), "go")[0] == ((-1, True), (0, False))
    state = mdp.states[1]
    assert (state.room, state.lit, repr(state), str(state)) == (0, False, "(0, False)", "room 0, lit no")
    assert pickle.loads(pickle.dumps(state)).room == 0
    assert read_prism(save(tmp_path), states=False).states[0] == 0


def test_a_state_of_one_variable_is_its_value(tmp_path):
    assert list(read_prism(save(tmp_path, tra=TRA, sta="(s)\n0:(-1)\n2:(5)\n1:(2)\n")).states) == [-1, 2, 5]


def test_variables_that_cannot_be_fields_make_plain_tuples(tmp_path):
    sta = "(class,x')\n0:(1,1)\n1:(1,2)\n2:(2,1)\n"
    assert type(read_prism(save(tmp_path, tra=TRA, sta=sta)).states[0]) is tuple


def test_labels(tmp_path):
    lab = '# Labels\n0="init" 1="deadlock" 2="far away"\n0: 0\n1: 2\n2: 1 2\n'
    tra = save(tmp_path, tra=TRA, lab=lab)
    assert dict(read_prism(tra).labels) == {"init": {0}, "deadlock": {2}, "far away": {1, 2}}
    save(tmp_path, sta="(x,y)\n0:(0,0)\n1:(0,1)\n2:(1,0)\n")
    assert list(read_prism(tra).labels["far away"]) == [(0, 1), (1, 0)]
    assert dict(read_prism(tra, labels=False).labels) == {}


def test_a_label_that_no_state_has_is_kept_but_not_an_empty_deadlock(tmp_path):
    """PRISM declares init and deadlock always; "down" was declared by someone."""
    tra = save(tmp_path, tra=TRA, lab='0="init" 1="deadlock" 2="down"\n0: 0\n')
    mdp = read_prism(tra)
    assert dict(mdp.labels) == {"init": {0}, "down": set()}
    write_prism(mdp, tmp_path / "twin.tra")
    assert (tmp_path / "twin.lab").read_text() == '0="init" 1="deadlock" 2="down"\n0: 0\n'


def test_choices_with_the_same_label_are_numbered(tmp_path):
    """As a probabilistic automaton may have; a name that is taken is passed over."""
    tra = "1 5 5\n" + "".join(f"0 {k} 0 1 {name}\n" for k, name in enumerate(["a", "a#2", "a", "b", "a"]))
    assert read_prism(save(tmp_path, tra=tra)).actions_in(0) == ("a", "a#2", "a#3", "b", "a#4")
    tra = "1 2 2\n0 0 0 1\n0 1 0 1 0\n"  # choice 0 without a label, then one that is called 0
    assert read_prism(save(tmp_path, tra=tra)).actions_in(0) == (0, "0#2")


def test_labels_that_are_numbers_are_numbers(tmp_path):
    mdp = read_prism(save(tmp_path, tra="2 3 3\n0 0 1 1 10\n0 1 0 1 2\n1 0 1 1 007\n"))
    assert mdp.actions_in(0) == (10, 2)
    assert mdp.actions_in(1) == ("007",)


def test_numbers_that_are_finite_but_not_their_sums(tmp_path):
    assert "sum to inf, not 1" in message(tmp_path, tra="1 2\n0 0 1e308\n0 0 1e308\n")
    huge = {"srew": "3 1\n0 1e308\n", "trew": "3 3 1\n0 0 1 1e308\n"}
    with pytest.raises(tether.ModelError, match="reward inf is not a finite number"):
        read_prism(save(tmp_path, tra=TRA, **huge))


def test_six_digits_are_enough(tmp_path):
    mdp = read_prism(save(tmp_path, tra="3 3\n0 0 0.333333\n0 1 0.333333\n0 2 0.333333\n"))
    np.testing.assert_allclose(mdp.row(0, 0)[1], 1 / 3, rtol=1e-15)


# --- There and back ------------------------------------------------------------------------------


@st.composite
def models(draw):
    """A small model: labels of states of several kinds, some actions not available, rewards R(s, a) or R(s, a, s')."""
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["count", "numbers", "pairs"]))
    states = {
        "count": list(range(n_states)),
        "numbers": [7 - 3 * s for s in range(n_states)],
        "pairs": [(s // 2, s % 2 == 1) for s in range(n_states)],
    }[kind]
    actions = draw(st.sampled_from([["go", "stay", "go_2"], ["c", "a#2", "a b"]]))[:n_actions]
    by_entry = draw(st.booleans())
    rows = []
    for state in states:
        there = draw(st.lists(st.sampled_from(actions), min_size=1, unique=True))
        for action in there:
            weights = draw(st.lists(st.integers(0, 9), min_size=n_states, max_size=n_states).filter(any))
            reward = draw(st.floats(-1e6, 1e6))
            for after, weight in zip(states, weights, strict=True):
                if weight:
                    gain = draw(st.floats(-1e6, 1e6)) if by_entry else reward
                    rows.append((state, action, after, weight / sum(weights), gain))
    return MDP.from_table(*zip(*rows, strict=True), states=states)


@given(mdp=models())
def test_there_and_back(tmp_path_factory, mdp):
    file = tmp_path_factory.mktemp("there") / "model.tra"
    goal = mdp.states[len(mdp.states) - 1]
    write_prism(mdp.with_labels({"goal": [goal], "from here on": mdp.states}), file)
    back = read_prism(file)
    spelled = {label: str(label).replace("#", "_").replace(" ", "_") for label in mdp.actions}
    assert_same(back, mdp.with_names(actions=[spelled[label] for label in mdp.actions]))
    assert list(back.states) == list(mdp.states)
    assert dict(back.labels) == {"init": {mdp.states[0]}, "goal": {goal}, "from_here_on": set(mdp.states)}
    write_prism(back, file)
    assert read_prism(file).labels == back.labels
    assert sorted(path.suffix for path in file.parent.iterdir()) == [".lab", ".sta", ".tra", ".trew"]


def test_whole_numbers_as_actions(tmp_path):
    """Known by their index where that is enough, else by a name that PRISM takes."""
    for actions, come_back in (([0, 1], [0, 1]), ([1, 2], ["a1", "a2"]), ([True, "x"], ["True", "x"])):
        mdp = MDP.from_table([0, 0], actions, [0, 0], [1, 1], states=[0])
        write_prism(mdp, tmp_path / "model.tra")
        assert list(read_prism(tmp_path / "model.tra").actions) == come_back


def test_names_that_prism_keeps_for_itself_are_changed(tmp_path):
    """S and I are operators of its properties; the fields of the epidemic's states have these names."""
    write_prism(tether.cases.epidemic().mdp, tmp_path / "epidemic.tra")
    assert (tmp_path / "epidemic.sta").read_text().startswith("(S_,I_,V)\n0:(0,0,0)\n")
    assert read_prism(tmp_path / "epidemic.tra").states[40] == (0, 1, 19)


def test_labels_that_prism_cannot_hold_become_indices(tmp_path):
    mdp = tether.cases.toy().mdp
    write_prism(mdp, tmp_path / "toy.tra")
    assert_same(read_prism(tmp_path / "toy.tra"), mdp.with_names(states=range(8)))


def test_states_without_actions_are_deadlocks(tmp_path):
    mdp = MDP.from_function(0, lambda _: ["up"], lambda s, _: {s + 1: 1.0}, horizon=2)
    write_prism(mdp, tmp_path / "up.tra")
    back = read_prism(tmp_path / "up.tra")
    assert back.labels["deadlock"] == {2}
    assert back.row(2, "up")[0] == (2,)
    write_prism(back, tmp_path / "again.tra")  # where it has an action, but the label is kept
    assert read_prism(tmp_path / "again.tra").labels == back.labels


def test_where_episodes_start_and_end_is_kept(tmp_path):
    mdp = MDP.from_table(["on", "on"], ["x", "y"], ["off", 7], [1, 1], terminal=["off", 7]).with_labels(
        {"init": ["off"]}
    )
    write_prism(mdp, tmp_path / "ends.tra")
    assert dict(read_prism(tmp_path / "ends.tra").labels) == {"init": {1}, "off": {1}}  # 7 is no word
    write_drn(mdp, tmp_path / "ends.drn")
    assert dict(read_drn(tmp_path / "ends.drn").labels) == {"init": {"off"}, "off": {"off"}}


def test_what_cannot_be_written_is_refused_and_nothing_appears(tmp_path):
    mdp = tether.cases.grid_world().mdp
    timed = MDP.from_arrays(np.ones((1, 1, 1)), np.zeros((3, 1, 1)))
    for model, text in ((timed, "depend on time"), ("model", "expected a tether.MDP")):
        with pytest.raises(QueryError, match=text):
            write_prism(model, tmp_path / "model.tra")
    with pytest.raises(QueryError, match="name of a file"):
        write_prism(mdp, 5)
    with pytest.raises(FileError, match="not the name of a file"):
        write_prism(mdp, "a\0b")
    with pytest.raises(FileError, match="cannot be written to: there is no such folder"):
        write_prism(mdp, tmp_path / "nowhere" / "model.tra")
    (tmp_path / "model.rews").write_text("16 0\n")
    with pytest.raises(FileError, match=r"model\.rews: this reward file would be read as part of the new model"):
        write_prism(mdp, tmp_path / "model.tra")
    assert [path.name for path in tmp_path.iterdir()] == ["model.rews"]


@pytest.mark.parametrize("files", range(4))
def test_files_of_two_models_are_never_read_together(tmp_path, monkeypatch, files):
    """Four files are renamed one after the other, the transitions last: stopped before, there is no model."""
    old, new = tether.cases.grid_world().mdp, tether.cases.epidemic().mdp
    write_prism(old, tmp_path / "m.tra")
    with stopped_after(files, monkeypatch):
        write_prism(new, tmp_path / "m.tra")
    assert sorted(os.listdir(tmp_path)) == ["m.lab", "m.sta", "m.trew"]
    with pytest.raises(FileError, match=r"m\.tra: there is no such file"):
        read_prism(tmp_path / "m.tra")
    write_prism(new, tmp_path / "m.tra")
    assert read_prism(tmp_path / "m.tra").states == new.states
    assert sorted(os.listdir(tmp_path)) == ["m.lab", "m.sta", "m.tra", "m.trew"]


def test_a_tolerance_for_rounded_numbers(tmp_path):
    tra = save(tmp_path, tra=TRA.replace("0.75", "0.745"))
    with pytest.raises(FileError, match=r"sum to 0\.995, not 1; if they were rounded: tolerance=0\.01"):
        read_prism(tra)
    assert read_prism(tra, tolerance=0.01).row(0, "go")[1].tolist() == pytest.approx([0.25 / 0.995, 0.745 / 0.995])


def test_paths_have_states_as_prism_writes_them(tmp_path):
    sta = "(x,on)\n0:(0,true)\n1:(0,false)\n2:(1,true)\n"
    mdp = read_prism(save(tmp_path, tra=TRA, sta=sta))
    for first, second in (("(0,true)", "(0,false)"), ("(0, True)", "( 0 , False )")):
        (tmp_path / "path.csv").write_text(f't,state,action\n0,"{first}",go\n1,"{second}",\n')
        assert tether.io.read_path(tmp_path / "path.csv", mdp).states == ((0, True), (0, False))
