"""Storm's DRN: each of its features by hand, random models there and back, files that are wrong, and Storm itself."""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from test_io_prism import assert_same, models

import tether
from tether import MDP
from tether.errors import FileError, QueryError
from tether.io.drn import read_drn, write_drn

DRN = """\
// Exported by storm
// Original model type: MDP
@type: MDP
@value_type: double
@parameters

@reward_models
fuel
@nr_states
3
@nr_choices
4
@model
state 0 [1.5] init "far away"
//[room=-1	& lit]
	action go [10]
		0 : 0.25
		1 : 0.75
	action __NOLABEL__ [0]
		0 : 1
state 1 [2]
//[room=0	& !lit]
	action go [0]
		2 : 1
state 2 [0] goal deadlock
//[room=0	& lit]
	action 7 [0]
		2 : 1
"""


def save(folder, text):
    file = Path(folder, "robot.drn")
    file.write_text(text, encoding="utf-8")
    return file


def message(folder, text, **options):
    with pytest.raises(FileError) as caught:
        read_drn(save(folder, text), **options)
    return str(caught.value).replace(f"{folder}/", "")


# --- What a file may look like -------------------------------------------------------------------


def test_an_mdp(tmp_path):
    mdp = read_drn(save(tmp_path, DRN))
    start, middle, end = mdp.states
    assert (start, middle, end) == ((-1, True), (0, False), (0, True))
    assert (start.room, middle.lit, str(end)) == (-1, False, "room 0, lit yes")
    assert mdp.actions_in(start) == ("go", 1)  # a choice without a label is known by its index
    assert mdp.actions_in(end) == (7,)
    assert mdp.row(start, "go")[1].tolist() == [0.25, 0.75]
    assert mdp.reward(start, "go") == 11.5  # the state's and the action's
    assert mdp.reward(start, 1) == 1.5
    assert mdp.reward(middle, "go") == 2


def test_labels(tmp_path):
    labels = read_drn(save(tmp_path, DRN)).labels
    assert {name: list(states) for name, states in labels.items()} == {
        "init": [(-1, True)],
        "far away": [(-1, True)],
        "goal": [(0, True)],
        "deadlock": [(0, True)],
    }


def test_truth_values_as_storm_writes_them(tmp_path):
    """Of true it writes neither the name nor a value, only the tab that follows: the name is known from false."""
    text = """@type: MDP
@nr_states
4
@model
state 0 init
//[!broken\t& wear=0\t& \t]
\taction work
\t\t1 : 0.5
\t\t2 : 0.5
state 1
//[\t& wear=3\t& \t]
\taction work
\t\t3 : 1
state 2
//[!broken\t& wear=3\t& \t]
\taction work
\t\t3 : 1
state 3 down
//[\t& wear=4\t& \t]
\taction work
\t\t3 : 1
"""
    mdp = read_drn(save(tmp_path, text))
    assert list(mdp.states) == [(False, 0, True), (True, 3, True), (False, 3, True), (True, 4, True)]
    assert mdp.states[1]._fields == ("broken", "wear", "v2")  # nobody says how the third is called
    assert mdp.labels["down"] == {(True, 4, True)}
    one = text.replace("\t& wear=0\t& \t", "").replace("//[\t& wear=3\t& \t]", "//[\t]")
    assert list(read_drn(save(tmp_path, one)).states) == [0, 1, 2, 3]  # of different lengths: no variables


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@value_type: double\n", ""),
        ("@value_type: double\n", "@value_type double\n"),
        ("@nr_choices\n4\n", ""),
        ("@parameters\n\n", ""),
        ("\t", "    "),
        ("\n", "\r\n"),
        ("\n", "\n\n"),
        ("0.25", "1/4"),
        ("0.75", "$p"),
        (" : ", ":"),
        ("[1.5] init", "init [1.5]"),
        ("action 7 [0]", "action 0 [0] 7"),  # the label of a choice, after its number
        ("fuel", '"fuel"'),
        ("fuel\n", "\n"),  # a reward model without a name, as Storm writes
        ("\t\t1 : 0.75\n", "\t\t1 : 0.5\n\t\t1 : 0.25\n"),
        ("\t\t0 : 0.25\n\t\t1 : 0.75\n", "\t\t1 : 0.75\n\t\t0 : 0.25\n"),
    ],
)
def test_the_same_model_in_other_words(tmp_path, old, new):
    text = DRN.replace(old, new)
    assert text != DRN
    if "$p" in new:
        text = text.replace("@reward_models", "@placeholders\n$p : 3/4\n$q : 1\n@reward_models")
    assert_same(read_drn(save(tmp_path, text)), read_drn(save(tmp_path, DRN)))


def test_states_in_any_order(tmp_path):
    head, *states = re.split(r"(?m)^(?=state )", DRN)
    mixed = read_drn(save(tmp_path, head + "".join(reversed(states))))
    assert_same(mixed, read_drn(save(tmp_path, DRN)))
    assert list(mixed.states) == [(-1, True), (0, False), (0, True)]


def test_a_markov_chain_has_one_action(tmp_path):
    text = "@type: DTMC\n@nr_states\n2\n@model\nstate 0 init\n\taction 0\n\t\t1 : 1\nstate 1\n\taction x\n\t\t0 : 1\n"
    mdp = read_drn(save(tmp_path, text))
    assert list(mdp.actions) == [0]
    assert list(mdp.states) == [0, 1]
    assert mdp.reward(0, 0) == 0


def test_a_state_without_actions_absorbs_and_earns_what_it_earns(tmp_path):
    text = DRN.replace("\taction 7 [0]\n\t\t2 : 1\n", "").replace("state 2 [0]", "state 2 [0.5]")
    mdp = read_drn(save(tmp_path, text.replace("@nr_choices\n4", "@nr_choices\n3")))
    assert mdp.actions_in((0, True)) == ("go", 1)
    assert mdp.reward((0, True), "go") == 0.5


def test_comments_that_do_not_tell_states_apart_are_comments(tmp_path):
    for old, new in (
        ("//[room=0	& lit]", "//[room=0	& !lit]"),
        ("//[room=0	& lit]", "//[room=0]"),
        ("//[room=0	& lit]", "// nothing"),
        ("//[room=0	& lit]", "//[]"),
    ):
        assert list(read_drn(save(tmp_path, DRN.replace(old, new))).states) == [0, 1, 2]
    words = DRN.replace("[room=-1	& lit]", "[at=home]").replace("[room=0	& !lit]", "[at=work]")
    assert list(read_drn(save(tmp_path, words.replace("[room=0	& lit]", "[at=3]"))).states) == ["home", "work", 3]


def test_of_several_reward_models_one_is_named(tmp_path):
    text = DRN.replace("fuel", "fuel time")
    text = re.sub(r"\[([\d.]+)\]", r"[\1, 1]", text)
    with pytest.raises(QueryError, match="reward models 'fuel', 'time'; say which is meant, reward_model='fuel'"):
        read_drn(save(tmp_path, text))
    assert read_drn(save(tmp_path, text), reward_model="fuel").reward((-1, True), "go") == 11.5
    assert read_drn(save(tmp_path, text), reward_model="time").reward((-1, True), "go") == 2
    assert read_drn(save(tmp_path, text), reward_model=False).reward((-1, True), "go") == 0
    with pytest.raises(QueryError, match="no reward model 'money'; it has 'fuel', 'time'"):
        read_drn(save(tmp_path, text), reward_model="money")


# --- There and back ------------------------------------------------------------------------------


@given(models())
def test_there_and_back(tmp_path_factory, mdp):
    file = tmp_path_factory.mktemp("there") / "model.drn"
    goal = mdp.states[len(mdp.states) - 1]
    if mdp.rewards.by_entry:
        with pytest.raises(QueryError, match="depend on the next state; mean_rewards=True writes their means"):
            write_drn(mdp, file)
        assert not file.exists()
    write_drn(mdp.with_labels({"goal": [goal], "from here on": mdp.states}), file, mean_rewards=True)
    back = read_drn(file)
    assert list(back.states) == list(mdp.states)
    for s in mdp.states:
        for a in mdp.actions_in(s):
            assert back.reward(s, str(a).replace(" ", "_")) == pytest.approx(mdp.reward(s, a), rel=1e-12, abs=1e-9)
    if not mdp.rewards.by_entry:
        assert_same(back, mdp.with_names(actions=[label.replace(" ", "_") for label in mdp.actions]))
    assert dict(back.labels) == {"init": {mdp.states[0]}, "goal": {goal}, "from_here_on": set(mdp.states)}
    write_drn(back, file, mean_rewards=True)
    assert read_drn(file).labels == back.labels


@pytest.mark.parametrize("name", ["toy", "grid_world", "sepsis"])
def test_the_cases_come_back(tmp_path, name):
    """With their labels: texts, numbers, named tuples of texts and truth values."""
    mdp = getattr(tether.cases, name)().mdp
    write_drn(mdp, tmp_path / "case.drn")
    back = read_drn(tmp_path / "case.drn")
    assert list(back.states) == list(mdp.states)
    np.testing.assert_allclose(back.form.probability, mdp.form.probability, rtol=1e-15)
    assert np.array_equal(back.rewards.values, mdp.rewards.values)
    if name == "sepsis":
        assert back.states[0]._fields == mdp.states[0]._fields


@pytest.mark.parametrize("label", ["a=b", "true", "3", "a & b", "[x]", "!x", " x", "a\nb", 0.5, None, ("a", ("b",))])
def test_labels_that_would_not_come_back_are_left_out(tmp_path, label):
    mdp = MDP.from_table(["s", "t"], ["x", "x"], ["s", "t"], [1, 1])
    mdp = mdp.with_names(states=[label if label is not None else (), "other"])
    write_drn(mdp, tmp_path / "model.drn")
    assert list(read_drn(tmp_path / "model.drn").states) == [0, 1]


def test_states_without_actions_absorb(tmp_path):
    mdp = MDP.from_function(0, lambda _: ["up", "on"], lambda s, _: {s + 1: 1.0}, lambda s, _: s, horizon=2)
    write_drn(mdp, tmp_path / "up.drn")
    back = read_drn(tmp_path / "up.drn")
    assert back.row(2, "on")[0] == (2,)
    assert back.reward(2, "on") == 0
    assert back.reward(1, "on") == 1


def test_what_cannot_be_written_is_refused(tmp_path):
    timed = MDP.from_arrays(np.ones((1, 1, 1)), np.zeros((3, 1, 1)))
    with pytest.raises(QueryError, match="depend on time"):
        write_drn(timed, tmp_path / "model.drn")
    with pytest.raises(QueryError, match=r"expected a tether\.MDP"):
        write_drn("model", tmp_path / "model.drn")
    assert not list(tmp_path.iterdir())


# --- What is wrong with a file -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (DRN, "", "robot.drn: the file is empty; expected a DRN model"),
        (DRN, "hello\n", "robot.drn, line 1: expected a section as '@type: MDP' first, found 'hello'"),
        (DRN, "@type: MDP\n", "robot.drn: the file ends before the section @model"),
        (DRN, "@type: MDP\n@model\n", "robot.drn, line 2: the section @model is empty"),
        (DRN, "@model\n", "robot.drn: the section @type is missing"),
        ("@type: MDP", "@type: MDQ", "line 3: expected '@type: MDP' or '@type: DTMC', found 'MDQ'"),
        ("@type: MDP", "@type: CTMC", "line 3: the model is a continuous-time Markov chain"),
        ("@type: MDP", "@type: Markov Automaton", "line 3: the model is a Markov automaton"),
        ("@type: MDP", "@type: POMDP", "line 3: the model is partially observable"),
        ("@type: MDP", "@type: SMG", "line 3: the model is a game"),
        ("@type: MDP", "@type: DTMC", "line 19: the state 0 has a second action, but the model is a DTMC"),
        (": double", ": double-interval", "line 4: the values are 'double-interval'; only double or rational ones"),
        (": double", ": parametric", "line 4: the values are 'parametric'"),
        ("@parameters\n", "@parameters\np q", "line 5: the model has parameters, 'p q'; give them values first"),
        ("@nr_states", "@nr_things", "line 9: there is no section '@nr_things'; expected one of @type"),
        ("@nr_choices", "@nr_states", "line 11: the section @nr_states is given twice"),
        ("@nr_states\n3", "@nr_states\nthree", "line 10: expected a whole number, found 'three'"),
        ("@nr_states\n3", "@nr_states\n4", "@nr_states promises 4 states, but the file has 3; the file is cut off"),
        ("@nr_states\n3", "@nr_states\n900000000000000000", "@nr_states promises 900,000,000,000,000,000 states"),
        ("@nr_choices\n4", "@nr_choices\n2", "@nr_choices promises 2 choices, but the file has 4; the number is wrong"),
        ("@reward_models", "@placeholders\n$p : p+1\n@reward_models", "line 8: expected a placeholder as"),
        ("0.75", "$p", "line 18: the placeholder '$p' is not declared"),
        ("0.75", "x", "line 18: expected a number, found 'x'"),
        ("0.75", "[0.5, 1]", "line 18: '[0.5, 1]' is an interval"),
        ("0.75", "-0.75", "line 18: the probability -0.75 is negative"),
        ("0.75", "0.5", "line 17: the probabilities of state 0, choice 0 sum to 0.75, not 1"),
        ("1 : 0.75", "1 0.75", "line 18: expected 'next-state : probability', found '1 0.75'"),
        ("1 : 0.75", "9 : 0.75", "line 18: there is no state 9: states are 0 … 2"),
        ("1 : 0.75", "1x : 0.75", "line 18: expected a whole number, found '1x'"),
        ("state 2", "state 1", "line 25: the state 1 is given twice, first in line 21"),
        ("state 2", "state 5", "line 25: there is no state 5: the file has 3 states, 0 … 2"),
        ("state 2", "state two", "line 25: expected a whole number, found 'two'"),
        ("state 2", "State 2", "line 25: expected 'state …', 'action …' or 'next-state : probability', found 'State 2"),
        ("state 2 [0]", "state 2 {1} [0]", "line 25: the state has an observation, '{1}', as in a POMDP"),
        ("state 2 [0]", "state 2 !3.5 [0]", "line 25: the state has an exit rate, '!3.5', as in a CTMC"),
        ("state 2 [0]", "state 2 [0, 1]", "line 25: 2 rewards in '[0, 1]', but there are 1 reward model"),
        ("state 2 [0]", "state 2 [a]", "line 25: expected a number, found 'a'"),
        ("action 7 [0]", "action", "line 27: expected 'action name', found 'action'"),
        ("action 7 [0]", "action 7 [x]", "line 27: expected a number, found 'x'"),
        ("\taction 7 [0]\n", "", "line 27: a transition without an action"),
        ("\t\t2 : 1\nstate 2", "state 2", "choice 0 of state 1 has no transitions"),
        ("@model\n", "@model\naction x\n", "an action without a state"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path, old, new, text):
    assert old in DRN
    assert text in message(tmp_path, DRN.replace(old, new, 1))


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    text = DRN.replace("0.25", "x").replace("state 2 [0]", "state 2 [y]")
    with pytest.raises(FileError) as caught:
        read_drn(save(tmp_path, text))
    assert [problem.line for problem in caught.value.problems] == [17, 25]


def test_rewards_that_are_finite_but_not_their_sums(tmp_path):
    with pytest.raises(tether.ModelError, match="reward inf is not a finite number"):
        read_drn(save(tmp_path, DRN.replace("[1.5]", "[1e308]").replace("[10]", "[1e308]")))


def test_files_that_are_not_there_or_no_text(tmp_path):
    with pytest.raises(FileError, match="there is no such file"):
        read_drn(tmp_path / "no.drn")
    with pytest.raises(QueryError, match="expected the name of a file"):
        read_drn(None)
    (tmp_path / "model.drn").write_bytes(b"\xfd7zXZ\x00\xff")
    with pytest.raises(FileError, match="compressed with xz"):
        read_drn(tmp_path / "model.drn")


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_model_or_an_error(tmp_path_factory, content, headed):
    file = tmp_path_factory.mktemp("fuzz") / "robot.drn"
    file.write_bytes(b"@type: MDP\n@model\n" * headed + content)
    with suppress(tether.TetherError):
        read_drn(file)


@given(st.data())
@settings(max_examples=tries(150, 500))
def test_a_changed_file_is_a_model_or_an_error(tmp_path_factory, data):
    text = DRN
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        new = data.draw(st.text(st.sampled_from(' 0123456789.:/@[]{}",-!&=$x\n\t\x85\u0663_'), max_size=6))
        text = text[:start] + new + text[end:]
    file = save(tmp_path_factory.mktemp("fuzz"), text)
    with suppress(tether.TetherError):
        read_drn(file)


# --- Storm itself, where it is installed ---------------------------------------------------------


def rows_of_storm(model):
    """Each state's choices as Storm has them: distributions and rewards, in no order."""
    matrix = model.transition_matrix
    rewards = next(iter(model.reward_models.values()), None)
    rows = []
    for s in range(model.nr_states):
        choices = []
        for row in range(matrix.get_row_group_start(s), matrix.get_row_group_end(s)):
            reward = rewards.get_state_reward(s) if rewards is not None and rewards.has_state_rewards else 0.0
            if rewards is not None and rewards.has_state_action_rewards:
                reward += rewards.get_state_action_reward(row)
            choices.append((tuple((e.column, round(e.value, 9)) for e in matrix.get_row(row)), round(reward, 9)))
        rows.append(sorted(choices))
    return rows


def rows_of_ours(mdp):
    rows = []
    for s in mdp.states:
        choices = []
        for a in mdp.actions_in(s):
            after, chances = mdp.row(s, a)
            row = tuple((mdp.state_index(j), round(p, 9)) for j, p in zip(after, chances.tolist(), strict=True))
            choices.append((row, round(mdp.reward(s, a), 9)))
        rows.append(sorted(choices))
    return rows


@pytest.mark.parametrize("name", ["toy", "grid_world", "epidemic"])
def test_storm_reads_what_we_write(tmp_path, name):
    stormpy = pytest.importorskip("stormpy")
    mdp = getattr(tether.cases, name)().mdp
    write_drn(mdp.with_labels({"last": [mdp.states[len(mdp.states) - 1]]}), tmp_path / "case.drn")
    model = stormpy.build_model_from_drn(str(tmp_path / "case.drn"))
    assert rows_of_storm(model) == rows_of_ours(read_drn(tmp_path / "case.drn"))
    assert list(model.initial_states) == [0]
    assert list(model.labeling.get_states("last")) == [mdp.n_states - 1]


def test_we_read_what_storm_writes(tmp_path):
    stormpy = pytest.importorskip("stormpy")
    from stormpy import io
    from stormpy.examples import files

    for name in ("prism_mdp_coin_2_2", "prism_mdp_slipgrid", "prism_mdp_maze"):
        program = stormpy.parse_prism_program(getattr(files, name))
        model = stormpy.build_model(program, options=stormpy.BuilderOptions(build_full=True))
        io.export_to_drn(model, str(tmp_path / "model.drn"))
        mdp = read_drn(tmp_path / "model.drn")
        assert rows_of_ours(mdp) == rows_of_storm(stormpy.build_model_from_drn(str(tmp_path / "model.drn")))
        assert mdp.states[0] != 0  # labelled by the values of variables


# --- What was read as something else without a word ------------------------------------------------


@pytest.mark.parametrize("wrong", ["[1.5", "1.5]", "[[1.5]", "[1.5]]", '"goal', "{a"])
@pytest.mark.parametrize("line", ["state 0 [0] init", "\taction go [3]"])
def test_a_bracket_that_is_never_closed_is_an_error(tmp_path, line, wrong):
    text = (
        "@type: MDP\n@parameters\n\n@reward_models\ncost\n@nr_states\n1\n@nr_choices\n1\n@model\n"
        "state 0 [0] init\n\taction go [3]\n\t\t0 : 1\n"
    )
    assert read_drn(save(tmp_path, text)).reward(0, "go") == 3
    with pytest.raises(
        FileError, match=r"line 1[12]: (.* is never closed, or never opened|expected a number, found '\[)"
    ):
        read_drn(save(tmp_path, text.replace(line, f"{line.partition('[')[0]}{wrong}")))


def test_a_tolerance_for_rounded_numbers(tmp_path):
    text = "@type: MDP\n@nr_states\n2\n@nr_choices\n2\n@model\n"
    text += "state 0 init\n\taction a\n\t\t0 : 0.333\n\t\t1 : 0.666\nstate 1\n\taction a\n\t\t1 : 1\n"
    with pytest.raises(FileError, match=r"sum to 0\.999, not 1; if they were rounded: tolerance=0\.001"):
        read_drn(save(tmp_path, text))
    mdp = read_drn(save(tmp_path, text), tolerance=0.001001)
    assert mdp.row(0, "a")[1].tolist() == pytest.approx([1 / 3, 2 / 3])
    with pytest.raises(QueryError, match="tolerance must be a number ≥ 0, not -1"):
        read_drn(save(tmp_path, text), tolerance=-1)


@pytest.mark.parametrize("comment", ["//[x=1", "//x=1]", "//[x=1]]"])
def test_half_of_the_values_of_a_state_is_an_error(tmp_path, comment):
    """Without them all other states would lose their names, too; a file in which no state has values has comments."""
    text = "@type: MDP\n@nr_states\n2\n@nr_choices\n2\n@model\n"
    text += "state 0 init\n//[x=0]\n\taction a\n\t\t1 : 1\nstate 1\n//[x=1]\n\taction a\n\t\t1 : 1\n"
    assert read_drn(save(tmp_path, text)).states[1] == 1
    with pytest.raises(FileError, match=r"line 12: expected the values of variables as '//\[x=1 & !on\]', found '//"):
        read_drn(save(tmp_path, text.replace("//[x=1]", comment)))
    assert (
        read_drn(save(tmp_path, text.replace("//[x=0]", "// a note").replace("//[x=1]", "// [see there"))).n_states == 2
    )


UNNAMED = """@type: MDP
@reward_models
{names}
@nr_states
1
@model
state 0 [{state}]
	action a [{action}]
		0 : 1
"""


def test_a_reward_model_without_a_name(tmp_path):
    """Storm calls the reward model of a program that has one, without a name, by an empty one."""
    alone = save(tmp_path, UNNAMED.format(names="", state="0", action="3"))
    assert [read_drn(alone, reward_model=name).reward(0, "a") for name in ("", None)] == [3, 3]
    among = save(tmp_path, UNNAMED.format(names="alpha  zeta ", state="0, 0, 0", action="11, 3, 7"))
    with pytest.raises(FileError, match=r"line 6: one of the reward models has no name, .*; give it one") as caught:
        read_drn(among, reward_model="zeta")
    assert len(caught.value.problems) == 1
    assert read_drn(among, reward_model=False).reward(0, "a") == 0
