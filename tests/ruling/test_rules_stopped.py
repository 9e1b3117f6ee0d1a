"""Rules that are stopped, on a full disk, or in a directory that was damaged: what is done is kept, and stays right."""

import errno
import signal

import pytest
from click.testing import CliRunner
from systems import posix

import tether
from tether.auditing import directory
from tether.cli import main
from tether.io import write_episodes
from tether.logs import batches


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """``tether rules`` of a small ward, in batches of 10 episodes, into a directory of the given name."""
    monkeypatch.setattr(batches, "BATCH", 10)
    seen = {("treat", "well"): 8, ("treat", "dead"): 2, ("wait", "well"): 2, ("wait", "dead"): 3, ("wait", "sick"): 1}
    log = [tether.Path(["sick", end], [did]) for (did, end), times in seen.items() for _ in range(times)] * 4
    write_episodes(log, tmp_path / "log.csv")
    tether.learn(log).with_objective(final_reward={"well": 1.0}).save(tmp_path / "ward")

    def ask(name):
        words = ["rules", tmp_path / "ward", tmp_path / "log.csv", "-o", tmp_path / name, "--workers", "1"]
        return CliRunner().invoke(main, [*map(str, words), "--edit", "instead"])

    return ask


def answer(done):
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.partition("Written to")[0]


def break_at(monkeypatch, number, do):
    """Let something happen after so many parts were written."""
    write, written = directory.Parts.write, []

    def write_and(parts, *rest):
        write(parts, *rest)
        written.append(1)
        if len(written) == number:
            do()

    monkeypatch.setattr(directory.Parts, "write", write_and)
    return written


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_stopped_rules_go_on_with_the_same_command(tmp_path, asked, monkeypatch, name):
    whole = answer(asked("whole"))
    with monkeypatch.context() as patch:
        every = break_at(patch, 10_000, None)
        asked("counted")
    number = getattr(signal, name)
    with monkeypatch.context() as patch:
        break_at(patch, 3, lambda: signal.raise_signal(number))
        done = asked("stopped")
    how = "interrupted" if name == "SIGINT" else f"ended by {name}"
    assert (done.exit_code, done.stdout) == (128 + number, "")
    assert done.stderr == f"\ntether: {how}; the same command continues where it stopped\n"
    assert not (tmp_path / "stopped" / "rules.parquet").exists()
    with monkeypatch.context() as patch:
        rest = break_at(patch, 10_000, None)
        assert answer(asked("stopped")) == whole
    assert len(rest) == len(every) - 3
    table = (tmp_path / "stopped" / "rules.parquet").read_bytes()
    assert table == (tmp_path / "whole" / "rules.parquet").read_bytes()


def test_a_full_disk_is_said_in_a_sentence_and_nothing_half_written_stays(tmp_path, asked, monkeypatch):
    def fill():
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        break_at(patch, 2, fill)
        done = asked("full")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "tether: No space left on device\n"
    assert not list((tmp_path / "full").rglob("*.tmp"))
    assert answer(asked("full")) == answer(asked("whole"))


def test_damaged_replays_are_done_again(tmp_path, asked):
    whole = answer(asked("whole"))
    for i, part in enumerate(sorted((tmp_path / "whole").rglob("parts/*.parquet"))):
        data = bytearray(part.read_bytes())
        data[(7 * i) % len(data)] ^= 1
        part.write_bytes(data)
    assert answer(asked("whole")) == whole
    (tmp_path / "whole" / "rules.parquet").write_bytes(b"damaged")  # an output, which nothing reads
    assert answer(asked("whole")) == whole
