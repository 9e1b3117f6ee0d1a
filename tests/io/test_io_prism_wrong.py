"""PRISM's explicit files that are wrong: every way says what and where; any bytes are a model or an error."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from prismfiles import TRA, instead, message, refuse, save

import tether
from tether.errors import FileError, QueryError
from tether.io.prism import read_prism, transitions


@pytest.mark.parametrize(
    ("tra", "text"),
    [
        ("", "robot.tra: the file is empty; expected the numbers of states"),
        ("# nothing\n", "robot.tra: the file is empty"),
        ("3\n", "robot.tra, line 1: expected a header"),
        ("three four\n", "robot.tra, line 1: expected a header"),
        ("3 -4\n", "robot.tra, line 1: expected a header"),
        ("3 4 5 6 7\n", "robot.tra, line 1: expected a header"),
        ("3 3 4 2\n", "partially observable"),
        ("3 0 0\n", "robot.tra: the model is empty: it has no transitions"),
        ("# Transitions (CTMC)\n3 4\n", "robot.tra, line 2: the model is a continuous-time Markov chain"),
        ("ctmc\n0 1 3.5\n", "continuous-time"),
        (TRA.replace("0 0 1 0.75 go", "0 0 1 0.75 go fast"), "line 3: expected 'state choice next-state probability"),
        (instead("0 1 0"), "line 4: expected 'state choice next-state probability [action]'"),
        (instead("0 x 0 1 wait"), "line 4: choice: expected a whole number, found 'x'"),
        (instead("0 1 0 1_0 wait"), "line 4: probability: expected a number, found '1_0'"),
        (instead("0 1 0 nan wait"), "line 4: probability: expected a number, found 'nan'"),
        (instead("0 1 0 1/0 wait"), "line 4: probability: '1/0' divides by 0"),
        (instead("0 1 0 1e999 wait"), "line 4: probability: '1e999' is too large"),
        (instead("0 1 0 [0.5,1] wait"), "line 4: probability: '[0.5,1]' is an interval"),
        (instead("0 1 0 -1 wait"), "line 4: the probability -1 is negative"),
        (instead("0 1 3 1 wait"), "line 4: there is no next state 3: states are 0 … 2"),
        (instead("3 1 0 1 wait"), "line 4: there is no state 3: states are 0 … 2"),
        (instead("0 9 0 1 wait"), "line 4: there cannot be a choice 9"),
        (instead("0 1 0 0.5 wait"), "line 4: the probabilities of state 0, choice 1 sum to 0.5"),
        (TRA.replace("0.75 go", "0.75 went"), "line 3: the action name of state 0, choice 0 is 'went' here, but 'go'"),
        (TRA.replace("0.75 go", "0.75"), "line 3: the action name of state 0, choice 0 is missing here, but 'go'"),
        (TRA.replace("3 3 4", "3 3 9"), "line 1: the header promises 9 transitions, but the file has 4; the file"),
        (TRA.replace("3 3 4", "3 2 4"), "line 1: the header promises 2 choices, but the file has 3"),
        ("3 4\n" + TRA.partition("\n")[2].replace(" go", "").replace(" wait", ""), "line 2: this line has four"),
        ("2 2\n0 0.5:0 0.5:1\n1 1:1\n", "line 2: expected 'state next-state probability [action]', found '0 0.5:0 0."),
        ("2 2\n0 1 200\n1 0 0.5\n", "sum to 200, not 1; are these rates, of a CTMC?"),
        ("1 1 1\n0 0 0 1" + "0" * 500 + "\n", "too large"),
    ],
)  # fmt: skip
def test_wrong_transitions(tmp_path, tra, text):
    assert text in message(tmp_path, tra=tra)


def test_row_form_is_named(tmp_path):
    assert "export without -exportrows" in message(tmp_path, tra="2 2\n0 0.5:0 0.5:1\n1 1:1\n")


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    tra = TRA.replace("0 0 0 0.25", "0 0 0 x").replace("1 0 2 1", "1 0 2")
    error = refuse(tmp_path, tra=tra)
    assert [problem.line for problem in error.problems] == [2, 5]
    assert {Path(problem.file).name for problem in error.problems} == {"robot.tra"}


def test_one_bad_line_among_many(tmp_path):
    n = 300_000  # more than a chunk
    lines = [f"{s} {s + 1} 1\n" for s in range(n)]
    lines[n - 5] = f"{n - 5} {n - 4} one\n"
    error = refuse(tmp_path, tra=f"{n + 1} {n}\n" + "".join(lines))
    assert [problem.line for problem in error.problems] == [n - 3]


def test_many_bad_lines_are_counted(tmp_path):
    error = refuse(tmp_path, tra="9 1000\n" + "0 a 1\n" * 1000)
    assert error.total == 1000
    assert len(error.problems) == 100
    assert str(error).startswith("1,000 problems:")


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ({"sta": ""}, "robot.sta: expected the variables first, as '(x,y)'"),
        ({"sta": "x,y\n0:(1,2)\n"}, "robot.sta, line 1: expected the variables first"),
        ({"sta": "(x,y)\n0:(1,2)\n1:(1)\n2:(1,1)\n"}, "robot.sta, line 3: 1 value, but there are 2 variables"),
        ({"sta": "(x,y)\n0:(1,2)\n1 (1,3)\n2:(1,1)\n"}, "robot.sta, line 3: expected 'index:(values)'"),
        ({"sta": "(x)\n0:(1)\n1:(a)\n2:(3)\n"}, "robot.sta, line 3: expected whole numbers, true or false, found 'a'"),
        ({"sta": "(x)\n0:(1)\n0:(2)\n2:(3)\n"}, "robot.sta, line 3: the state 0 is given twice"),
        ({"sta": "(x)\n0:(1)\n2:(3)\n"}, "robot.sta: 2 states are listed, but the model has 3; the state 1 is missing"),
        ({"sta": "(x)\n0:(1)\n1:(3)\n2:(3)\n"}, "robot.sta: the states 1 and 2 have the same values, 3"),
        ({"lab": ""}, """robot.lab: expected the labels first, as '0="init" 1="goal"'"""),
        ({"lab": "init\n0: 0\n"}, "robot.lab, line 1: expected the labels first"),
        ({"lab": '0="init"\n0: 1\n'}, "robot.lab, line 2: expected 'state: labels', found '0: 1': the label '1'"),
        ({"lab": '0="init"\n7: 0\n'}, "robot.lab, line 2: expected 'state: labels', found '7: 0': there is no state 7"),
        ({"srew": "3\n"}, "robot.srew, line 1: expected a header 'states rewards', found '3'"),
        ({"srew": "3 " + "9" * 5000 + "\n"}, "robot.srew, line 1: expected a header 'states rewards'"),
        ({"srew": ""}, "robot.srew: expected a header 'states rewards'"),
        ({"srew": "4 1\n0 1\n"}, "robot.srew, line 1: the file is for 4 states, but the model has 3"),
        ({"srew": "3 2\n0 1\n"}, "robot.srew, line 1: the header promises 2 rewards, but the file has 1"),
        ({"srew": "3 1\n0 a\n"}, "robot.srew, line 2: reward: expected a number, found 'a'"),
        ({"srew": "3 1\n0 1 2\n"}, "robot.srew, line 2: expected 'state reward', found '0 1 2'"),
        ({"srew": "3 1\n3 1\n"}, "robot.srew, line 2: there is no state 3"),
        ({"srew": "3 2\n0 1\n0 1\n"}, "robot.srew, line 3: this reward is given twice"),
        ({"trew": "3 1\n0 0 0 1\n"}, "robot.trew, line 1: expected a header 'states choices rewards', found '3 1'"),
        ({"trew": "3 3 1\n0 0 2 1\n"}, "robot.trew, line 2: the model has no transition 0 0 2"),
        ({"trew": "3 3 1\n0 7 0 1\n"}, "robot.trew, line 2: the model has no transition 0 7 0"),
        ({"srew": "3 0\n", "rews": "3 0\n"}, "robot.srew and"),
    ],
)  # fmt: skip
def test_wrong_companions(tmp_path, texts, text):
    assert text in message(tmp_path, tra=TRA, **texts)


def test_companions_are_complained_about_together(tmp_path):
    error = refuse(tmp_path, tra=TRA, sta="(x)\n0:(1)\n", srew="3 1\n0 a\n", trew="3 3 1\n0 0 2 1\n")
    assert [Path(problem.file).suffix for problem in error.problems] == [".sta", ".srew", ".trew"]


def test_several_structures_of_rewards_are_not_guessed_at(tmp_path):
    tra = save(tmp_path, tra=TRA)
    (tmp_path / "robot1.srew").write_text("3 1\n0 1\n")
    (tmp_path / "robot2.srew").write_text("3 1\n0 2\n")
    with pytest.raises(FileError, match="several reward structures"):
        read_prism(tra)
    assert read_prism(tra, state_rewards=tmp_path / "robot2.srew").reward(0, "wait") == 2
    assert read_prism(tra, state_rewards=False).reward(0, "wait") == 0


def test_files_that_are_not_there_or_no_text(tmp_path):
    for wrong, text in (
        ("no.tra", "no.tra: there is no such file"),
        (".", "this is a directory"),
        ("robot.pexp", "export its parts"),
        ("a\0b", "is not the name of a file"),
    ):
        with pytest.raises(FileError, match=text):
            read_prism(f"{tmp_path}/{wrong}")
    with pytest.raises(QueryError, match="expected the name of a file, not 5"):
        read_prism(5)
    (tmp_path / "robot.tra").write_bytes(TRA.encode() + b"\xe9\n")
    with pytest.raises(FileError, match=r"line 6: the byte 0xe9 is not UTF-8; save the file as UTF-8"):
        read_prism(tmp_path / "robot.tra")
    (tmp_path / "robot.tra").write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(FileError, match=r"compressed with gzip; add \.gz to its name"):
        read_prism(tmp_path / "robot.tra")


@pytest.mark.parametrize(
    "tra",
    [
        "900000000000000000 1 1\n0 0 0 1\n",
        "1 900000000000000000 1\n0 0 0 1\n",
        "2 1 900000000000000000\n0 0 0 1\n",
        "mdp\n0 0 900000000000000000 1\n",
        "mdp\n0 900000000000000000 0 1\n",
        "2 1 1\n0 0 0 1\n",
        "2000 1 1\n0 0 0 1\n",
    ],
)
def test_sizes_are_not_believed(tmp_path, tra):
    """No room is made for what a header promises, nor for what an index implies."""
    if tra.startswith("2 1 1"):
        assert read_prism(save(tmp_path, tra=tra)).n_states == 2
    else:
        refuse(tmp_path, tra=tra)


def test_too_many_ends_for_too_many_actions(tmp_path):
    """Each end absorbs under every action: a file of 250 kB would make a model of gigabytes."""
    n = 9_000
    tra = f"{2 * n} {n} {n}\n" + "".join(f"{s} 0 {n + s} 1 a{s}\n" for s in range(n))
    assert "9,000 states without choices would absorb under each of 9,000 actions" in message(tmp_path, tra=tra)


def test_a_sound_file_is_read_by_columns(tmp_path, monkeypatch):
    """Line by line would take several times as long; it is for finding what is wrong."""
    n = 200_000
    tra = f"{n} {2 * n} {2 * n}\n" + "".join(f"{s} 0 {s} 1.0 stay\n{s} 1 {(s + 1) % n} 1.0\n" for s in range(n))
    file = save(tmp_path, tra=tra)
    monkeypatch.setattr(transitions, "_by_line", None)
    mdp = read_prism(file)
    assert (mdp.n_states, mdp.n_pairs) == (n, 2 * n)
    assert mdp.row(n - 1, 1)[0] == (0,)


TEXTS = {
    "tra": TRA,
    "sta": "(room,lit)\n0:(-1,true)\n1:(0,false)\n2:(3,true)\n",
    "lab": '0="init" 1="deadlock" 2="goal"\n0: 0\n2: 1 2\n',
    "srew": "3 1\n0 1.5\n",
    "trew": "3 3 1\n0 0 1 10\n",
}


@given(st.sampled_from(sorted(TEXTS)), st.binary(max_size=200))
def test_any_bytes_are_a_model_or_an_error(tmp_path_factory, suffix, content):
    folder = tmp_path_factory.mktemp("fuzz")
    file = save(folder, **TEXTS)
    (folder / f"robot.{suffix}").write_bytes(content)
    with suppress(tether.TetherError):
        read_prism(file)


@given(st.sampled_from(sorted(TEXTS)), st.data())
@settings(max_examples=tries(100, 500))
def test_a_changed_file_is_a_model_or_an_error(tmp_path_factory, suffix, data):
    folder = tmp_path_factory.mktemp("fuzz")
    file = save(folder, **TEXTS)
    text = TEXTS[suffix]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 4)))
        new = data.draw(st.text(st.sampled_from(' 0123456789.:#"(),-/e\n\tx\x85\u0663_[]'), max_size=6))
        text = text[:start] + new + text[end:]
    (folder / f"robot.{suffix}").write_text(text, encoding="utf-8")
    with suppress(tether.TetherError):
        read_prism(file)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts the threads that Linux lists")
def test_a_small_file_leaves_no_threads_that_convert(tmp_path):
    """One that converts when Python ends aborts the process: "terminate called without an active exception"."""
    file = save(tmp_path, tra=TRA.replace("0.75 go", "x go"))
    program = f"""
import os, pyarrow.csv, tether
before = len(os.listdir("/proc/self/task"))
try:
    tether.io.read_prism({str(file)!r})
except tether.TetherError:
    print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 1  # the one that reads ahead, and waits
