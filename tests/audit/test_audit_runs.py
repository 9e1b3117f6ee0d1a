"""An audit in a directory: gone on with, refused where something changed, by several workers."""

import errno
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import tether
from tether.auditing import directory
from tether.auditing.where import make_where
from tether.cli import main
from tether.io import write_episodes
from tether.logs import batches, fingerprint
from tether.logs.fingerprint import digest_of_policy

TABLES = ("episodes.parquet", "decisions.parquet", "outcomes.parquet")
MDP = tether.cases.grid_world().mdp
LOG = [MDP.simulate("optimal", 5 + seed % 3, rng=seed, noise=0.4) for seed in range(10)]


def contents(place):
    return [(place / name).read_bytes() for name in TABLES]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 3)


def ask(place, log=LOG, mdp=MDP, **options):
    return tether.audit(mdp, log, **{"k": 3, "certify": False, "out": place, **options})


def stop_after(n):
    """A progress that stops the audit, as Ctrl-C does, when n batches are done."""
    calls = []

    def progress(_done, _rows):
        calls.append(1)
        if len(calls) == n:
            raise KeyboardInterrupt

    return progress


def test_what_was_stopped_is_gone_on_with_and_gives_the_same_bytes(tmp_path, monkeypatch):
    whole = ask(tmp_path / "whole")
    assert whole.table.equals(tether.audit(MDP, LOG, k=3, certify=False).table)
    there = tmp_path / "there"
    for done in (1, 1):  # the second time one that is done is told of first
        with pytest.raises(KeyboardInterrupt):
            ask(there, progress=stop_after(done))
    assert len(list((there / "parts").glob("*.parquet"))) == 1
    assert not any((there / name).exists() for name in TABLES)
    # A process that is killed leaves what it was writing: nobody takes it for a part.
    (there / "parts" / ".tether-00000000-1-00000000.tmp").mkdir()
    written = []
    write = directory.Parts.write
    monkeypatch.setattr(
        directory.Parts, "write", lambda parts, number, *rest: (written.append(number), write(parts, number, *rest))
    )
    again = ask(there)
    assert written == [1, 2, 3]
    assert contents(there) == contents(tmp_path / "whole")
    assert again.outcomes.equals(whole.outcomes)
    assert not (there / "parts").exists()
    # All is done: nothing is answered again, and the answers are there.
    assert ask(there).decisions.equals(whole.decisions)
    assert len(written) == 3


@pytest.mark.parametrize(
    ("kept", "options", "said"),
    [
        (0, [], ""),
        (1, [], "; the same command continues where it stopped"),
        (1, ["--fresh"], "; the same command without --fresh continues where it stopped"),
    ],
)
def test_ctrl_c_says_what_continues_where_parts_are_kept(tmp_path, monkeypatch, kept, options, said):
    write_episodes(LOG, tmp_path / "log.csv")
    write, calls = directory.Parts.write, []

    def stop(parts, *rest):
        calls.append(rest)
        if len(calls) > kept:
            raise KeyboardInterrupt
        write(parts, *rest)

    def call(place, *more):
        words = ["audit", "case:grid-world", tmp_path / "log.csv", "-o", tmp_path / place, "-k", "3", "--workers", "1"]
        return CliRunner().invoke(main, [*map(str, words), "--reports", "0", *more])

    assert call("whole").exit_code == 0
    with monkeypatch.context() as patched:
        patched.setattr(directory.Parts, "write", stop)
        done = call("there", *options)
    assert (done.exit_code, done.stderr) == (130, f"\ntether: interrupted{said}\n")
    assert len(list((tmp_path / "there" / "parts").glob("*.parquet"))) == kept
    assert call("there").exit_code == 0
    assert contents(tmp_path / "there") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"k": 2}, "another question"),
        ({"where": "steps > 5"}, "another question"),
        ({"log": LOG[:-1]}, "the log is another one, or changed"),
        ({"mdp": MDP.with_objective(discount=0.9)}, "the model is another one"),
    ],
)
def test_what_changed_in_between_is_refused_and_fresh_begins_again(tmp_path, changed, words):
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path, progress=stop_after(1))
    with pytest.raises(tether.FileError, match=words):
        ask(tmp_path, **changed)
    ask(tmp_path)
    ask(tmp_path, **changed, fresh=True)
    ask(tmp_path / "new", **changed)
    assert contents(tmp_path) == contents(tmp_path / "new")


class Fixed:
    """A policy that is an object: it does what it was made with."""

    def __init__(self, action):
        self.action = action

    def __call__(self, state):
        return self.action


def closure(action):
    return lambda state: action


def timed(action):
    return lambda t, state: action if t > 1 else "down"


ARRAY = np.zeros(MDP.n_states, dtype=int)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Fixed("right"), Fixed("down")),
        (closure("right"), closure("down")),
        (timed("right"), timed("up")),
        (dict.fromkeys(MDP.states, "right"), dict.fromkeys(MDP.states, "down")),
        (dict.fromkeys(MDP.states, "right"), {**dict.fromkeys(MDP.states, "right"), (2, 1): "down"}),
        ({s: {"right": 0.5, "down": 0.5} for s in MDP.states}, {s: {"right": 0.4, "down": 0.6} for s in MDP.states}),
        (ARRAY, ARRAY + 1),
        ("random", "optimal"),
    ],
    ids=["object", "closure", "time", "mapping", "timed mapping", "chances", "array", "name"],
)
@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "finished"])
def test_another_policy_never_gets_the_numbers_of_the_first(tmp_path, one, other, is_stopped):
    options = {"k": None, "workers": 1}
    if is_stopped:
        with pytest.raises(KeyboardInterrupt):
            ask(tmp_path, policy=one, **options, progress=stop_after(2))
    else:
        ask(tmp_path, policy=one, **options)
    with pytest.raises(tether.FileError, match="another question was asked"):
        ask(tmp_path, policy=other, **options)
    again = ask(tmp_path, policy=one, **options)  # the same one goes on
    alone = tether.audit(MDP, LOG, policy=one, certify=False)
    assert again.table.equals(alone.table)


def goes(action):
    return lambda _state, asked: asked == action


def beside(action):
    return lambda _t, state: action if state < 8 else "down"


def except_late(action):
    return lambda t, _state, recorded: action if t > 2 else recorded


def of_names(*states):
    return lambda state: state in states


def alike(limit):
    return lambda _p, observed, q: bool(q[observed] > limit)


def mixed_with(share):
    return lambda p, _observed, q: share * q + (1 - share) * q


ENDS = tuple(range(3, 15))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"never": goes("up")}, {"never": goes("right")}),
        ({"only": goes("up")}, {"only": goes("right")}),
        ({"only": {"step": 1}}, {"only": {"step": 2}}),
        ({"never": {"state": of_names(1), "action": "up"}}, {"never": {"state": of_names(2), "action": "up"}}),
        ({"cost": 0.12345678}, {"cost": 0.12345679}),
        ({"cost": lambda _s, _a: 1.0}, {"cost": lambda _s, _a: 2.0}),
        ({"then": beside("up"), "horizon": 12}, {"then": beside("right"), "horizon": 12}),
        ({"objective": tether.reach(of_names(15))}, {"objective": tether.reach(of_names(6))}),
        ({"objective": tether.reach((*ENDS, 15))}, {"objective": tether.reach((*ENDS, 2))}),
        ({"k": None, "policy": except_late("up")}, {"k": None, "policy": except_late("right")}),
        ({"influence": alike(0.3)}, {"influence": alike(0.6)}),
        ({"influence": tether.tv(0.12345678)}, {"influence": tether.tv(0.12345679)}),
        ({"mechanism": "maximal"}, {"mechanism": "independent"}),
        ({"mechanism": mixed_with(0.5)}, {"mechanism": mixed_with(0.6)}),
        ({"mechanism": tether.Comonotone()}, {"mechanism": tether.Comonotone(lambda state: -state)}),
    ],
    ids=lambda given: next(iter(given)),
)
def test_another_question_never_gets_the_numbers_of_the_first(tmp_path, one, other):
    """Neither functions nor rounded numbers hide that something else is asked."""
    found = ask(tmp_path, workers=1, **one)
    with pytest.raises(tether.FileError, match="another question was asked"):
        ask(tmp_path, workers=1, **other)
    assert ask(tmp_path, workers=1, **one).table.equals(found.table)


def test_functions_of_a_module_are_compared_by_their_code_and_its_globals(tmp_path, monkeypatch):
    import importlib
    import sys

    file = tmp_path / "near_enough.py"
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for code in ("q[observed] > LIMIT", "q[observed] > LIMIT", "q[observed] >= LIMIT"):
        for limit in (0.3, 0.6):
            file.write_text(f"LIMIT = {limit}\ndef test(p, observed, q):\n    return bool({code})\n")
            sys.modules.pop("near_enough", None)
            importlib.invalidate_caches()
            sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
            module = importlib.import_module("near_enough")
            sys.dont_write_bytecode = before
            found.append(tether.InfluenceTest(module.test).digest)
    monkeypatch.delitem(sys.modules, "near_enough")
    assert found[:2] == found[2:4]
    assert len(set(found)) == 4


def locked(answer):
    """A function that uses what cannot be copied."""
    lock = threading.Lock()

    def asked(*_):
        with lock:
            return answer

    return asked


@pytest.mark.parametrize("asked", [{"rule": locked(2)}, {"influence": locked(True)}, {"mechanism": locked(None)}])
def test_a_function_that_uses_a_lock_is_asked_and_not_gone_on_with(tmp_path, asked):
    if "mechanism" in asked:
        asked = {"mechanism": lambda p, observed, q, inner=asked["mechanism"]: inner() or q}
    in_memory = ask(None, workers=1, **asked)
    assert ask(tmp_path, workers=1, **asked).table.equals(in_memory.table)
    assert in_memory.sentences()
    with pytest.raises(tether.FileError, match=r"cannot be told: .* uses something that cannot be compared .*lock"):
        ask(tmp_path, workers=1, **asked)
    assert ask(tmp_path, workers=1, fresh=True, **asked).table.equals(in_memory.table)


def test_a_policy_about_whole_records_is_not_gone_on_with(tmp_path):
    class Asked:
        def given(self, path):
            return lambda t, _state: path.actions[t]

        def __call__(self, _state):
            return "up"

    ask(tmp_path, k=None, policy=Asked(), workers=1)
    with pytest.raises(tether.FileError, match="the whole record of an episode"):
        ask(tmp_path, k=None, policy=Asked(), workers=1)


def test_policies_are_compared_by_what_they_decide(tmp_path, monkeypatch):
    """A function and a mapping that decide the same are the same policy; one with too many decisions is never so."""
    options = {"k": None, "workers": 1}
    assert digest_of_policy(MDP, closure("right"), lambda: 7) == digest_of_policy(MDP, Fixed("right"), lambda: 7)
    assert digest_of_policy(MDP, timed("right"), lambda: 2) == digest_of_policy(MDP, timed("up"), lambda: 2)
    monkeypatch.setattr(fingerprint, "_MOST_DECISIONS", 100)
    ask(tmp_path / "many", policy=closure("right"), **options)
    with pytest.raises(tether.FileError, match=r"cannot be told: .* 16 states × 7 steps are too many; .*fresh=True"):
        ask(tmp_path / "many", policy=closure("right"), **options)
    ask(tmp_path / "many", policy=closure("right"), **options, fresh=True)


def test_another_version_or_another_file_is_refused(tmp_path, monkeypatch):
    ask(tmp_path)
    monkeypatch.setattr(directory, "__version__", "9.9.9")
    with pytest.raises(tether.FileError, match="another version of tether"):
        ask(tmp_path)
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(tether.FileError, match="not what an audit wrote"):
        ask(tmp_path)


def test_one_process_at_a_time(tmp_path):
    with (
        directory.open_directory(tmp_path, {}, fresh=True),
        pytest.raises(tether.FileError, match="another audit is at work"),
    ):
        ask(tmp_path)
    ask(tmp_path, fresh=True)


def test_where_nothing_can_be_written_nothing_is_left_half_done(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(tether.FileError, match="cannot be made"):
        ask(tmp_path / "file" / "audit")
    with pytest.raises(tether.FileError, match="this is a file, not a directory"):
        ask(tmp_path / "file")
    with pytest.raises(tether.FileError, match="the name of the directory is empty"):
        ask("")

    write_bytes = Path.write_bytes

    def full(file, content):
        if file.suffix == ".parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(tether.FileError, match="No space left"):
            ask(tmp_path / "there")
    assert list((tmp_path / "there" / "parts").iterdir()) == []
    ask(tmp_path / "there")


@pytest.mark.parametrize(
    "asked",
    [
        {"m": 2},  # in threads, by the engine
        {"objective": tether.reach("goal")},
        {"k": None, "policy": "random"},  # in processes
    ],
    ids=["plans", "property", "policy"],
)
def test_any_number_of_workers_gives_the_same_bytes(tmp_path, asked):
    log = [*LOG, tether.Path([0, 15], ["right"])]
    ask(tmp_path / "single", log, workers=1, certify=True, **asked)
    ask(tmp_path / "two", log, workers=2, certify=True, **asked)
    assert contents(tmp_path / "two") == contents(tmp_path / "single")


def test_what_cannot_be_sent_to_other_processes_is_told():
    lock = threading.Lock()  # no pickle can hold one

    def policy(state):
        with lock:
            return "up"

    with pytest.raises(tether.QueryError, match="cannot be sent to other processes"):
        tether.audit(MDP, LOG, workers=2, policy=policy)
    assert len(tether.audit(MDP, LOG, policy=policy, certify=False)) == len(LOG)


def test_a_condition_chooses_episodes(tmp_path):
    every = tether.audit(MDP, LOG, k=3, certify=False).table
    some = ask(tmp_path, where="outcome != 'goal' and (steps in [5, 7] or not observed < 10)").table
    rows = every.to_pylist()
    kept = [row for row in rows if row["outcome"] != "goal" and (row["steps"] in (5, 7) or not row["observed"] < 10)]
    assert some.to_pylist() == kept
    assert 0 < len(kept) < len(rows)
    assert make_where("logged > 1").holds({"logged": None}) is False
    assert make_where('-1 <= observed <= 2 and episode == "a"').holds({"observed": 0.5, "episode": "a"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("outcome = 'died'", "cannot be read"),
        ("outcome == died", 'there is no column .died.; .*"died"'),
        ("__import__('os').system('ls') == 0", "neither a column, a number nor a text"),
        ("steps", "is no comparison"),
        ("steps is 3", "only == != <"),
        ("steps == True", "neither a column"),
        ("gain > 3", "there is no column 'gain'"),
        ("(" * 3000, "up to 2,000 characters"),
        (7, "not a text"),
    ],
)
def test_a_condition_that_cannot_be_read(text, words):
    with pytest.raises(tether.QueryError, match=words):
        make_where(text)


def test_a_condition_that_compares_what_has_no_order():
    with pytest.raises(tether.QueryError, match="one is a number, one a text"):
        tether.audit(MDP, LOG, where="outcome > 3")


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_episodes({f"p{i}": path for i, path in enumerate(LOG)}, "log.csv")
    call = ["audit", "case:grid-world", "log.csv", "-o", "out", "-k", "3", "--no-certificate", "--reports", "0"]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    assert "10 episodes: 1 goal, 9 still under way." in done.output
    assert parquet.read_table("out/episodes.parquet").column("episode").to_pylist()[:2] == ["p0", "p1"]
    done = CliRunner().invoke(main, [*call, "--json"])
    answer = json.loads(done.output)
    assert (answer["episodes"], answer["problems"], answer["question"]["k"]) == (10, 0, 3)
    done = CliRunner().invoke(main, [*call, "--episodes", 'outcome == "still under way"'])
    assert done.exit_code == 2
    assert "another question was asked" in done.output
    assert "(On the command line: --fresh.)" in done.output
    done = CliRunner().invoke(main, [*call, "--episodes", 'outcome == "still under way"', "--fresh", "--json"])
    outcomes = parquet.read_table("out/episodes.parquet").column("outcome").to_pylist()
    assert {*outcomes} == {"still under way"}
    with open("policy.csv", "w") as file:
        file.write("state,action\n" + "".join(f"{s},right\n" for s in range(16)))
    done = CliRunner().invoke(
        main, ["audit", "case:grid-world", "log.csv", "-o", "right", "--policy", "policy.csv", "--no-certificate"]
    )
    assert done.exit_code == 0, done.output
    values = parquet.read_table("right/episodes.parquet").column("value").to_pylist()
    followed = tether.counterfactual(MDP, LOG[0]).evaluate(lambda _state: "right")
    assert values[0] == pytest.approx(followed.value, rel=1e-12)
    assert "audit.html" in done.output
    assert sorted(file.name for file in (tmp_path / "right").iterdir() if file.suffix == ".html") == ["audit.html"]
    done = CliRunner().invoke(
        main, ["audit", "case:grid-world", "log.csv", "-o", "more", "--policy", "optimal", "--reports", "3"]
    )
    assert done.exit_code == 2
    assert "with --policy there are none" in done.output
