"""Traces of PRISM's simulator as paths: every separator, rewards, unlabelled commands, and what is refused."""

import pytest

import tether
from tether.errors import FileError, PathError, QueryError
from tether.io import read_path, read_prism

# x counts, ok is a truth value. `go` is labelled, the choice that leaves (1, true) is not.
TRA = "3 4 5\n0 0 0 0.5 go\n0 0 1 0.5 go\n0 1 0 1 wait\n1 0 2 1\n2 0 2 1 go\n"
STA = "(x,ok)\n0:(0,false)\n1:(1,true)\n2:(2,true)\n"
TRACE = """action step x ok
- 0 0 false
go 1 0 false
go 2 1 true
null 3 2 true
"""


@pytest.fixture
def mdp(tmp_path):
    (tmp_path / "m.tra").write_text(TRA)
    (tmp_path / "m.sta").write_text(STA)
    return read_prism(tmp_path / "m.tra")


def saved(folder, text):
    (folder / "trace.txt").write_text(text)
    return folder / "trace.txt"


@pytest.mark.parametrize("separator", [" ", "\t", ","])
@pytest.mark.parametrize("bracket", ["go", "[go]"])
def test_a_trace_is_a_path_of_the_model(tmp_path, mdp, separator, bracket):
    path = read_path(saved(tmp_path, TRACE.replace("go", bracket).replace(" ", separator)), mdp)
    assert path.states == ((0, False), (0, False), (1, True), (2, True))
    assert path.actions[:2] == ("go", "go")
    assert path.actions[2] in mdp.actions_in((1, True))  # the command without a label is the only one there
    assert tether.counterfactual(mdp, path).T == 3


def test_without_a_model_names_are_as_they_are_written(tmp_path):
    path = read_path(saved(tmp_path, TRACE))
    assert path.states[2] == (1, True)
    assert path.states[2].ok is True
    assert path.actions == ("go", "go", "null")
    one = read_path(saved(tmp_path, "action step x\n- 0 4\ngo 1 5\n"))
    assert one.states == (4, 5)


def test_variables_are_matched_by_name(tmp_path):
    other = tether.MDP.from_table(
        [tether.io.valuations.valuation_class(["ok", "x"])([False, 0])], ["go"], [(False, 0)], [1.0]
    )
    path = read_path(saved(tmp_path, "action step x ok\n- 0 0 false\ngo 1 0 false\n"), other)
    assert path.states == ((False, 0), (False, 0))


def test_probabilities_and_rewards(tmp_path, mdp):
    text = """action probability step x ok state_reward transition_reward
- - 0 0 false 1.0 0.5
go 0.5 1 1 true 2.0 0.0
null 1.0 2 2 true 7.0 ?
"""
    assert read_path(saved(tmp_path, text), mdp).rewards == (1.5, 2.0)
    several = text.replace("state_reward transition_reward", "state_reward1 transition_reward1")
    assert read_path(saved(tmp_path, several), mdp).rewards is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TRACE.replace("go 2", "go 5"), "trace.txt, line 4: t = 5 follows t = 1; expected 2; the steps between"),
        (TRACE.replace("1 true", "1 yes"), "trace.txt, line 4: found 'yes'; expected whole numbers, true or false"),
        (TRACE.replace("1 true", "1"), "trace.txt, line 4: 3 cells; expected 4, as in the first line"),
        (TRACE.partition("\n")[0], "trace.txt: this trace has no states"),
        ("action step\n- 0\n", "trace.txt: this trace has no variables"),
        (TRACE.replace("0 0 false", "0 9 false"), "trace.txt, line 2: t = 0: the model has no state (9, False)"),
        (TRACE.replace("null 3 2 true", "null 3 0 false"), "line 4: t = 2: the model has no action 'null'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, mdp, text, message):
    with pytest.raises((FileError, PathError)) as caught:
        read_path(saved(tmp_path, text), mdp)
    assert message in str(caught.value)


def test_options_of_tables_are_refused_and_other_files_stay_unknown(tmp_path, mdp):
    with pytest.raises(QueryError, match="are for tables, not for a trace of PRISM"):
        read_path(saved(tmp_path, TRACE), mdp, columns={"state": "x"})
    with pytest.raises(FileError, match="the name does not say what file this is"):
        read_path(saved(tmp_path, "state action\n"), mdp)
