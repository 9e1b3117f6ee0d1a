"""The directory of an audit with damaged files: the answers are the same, or refused in a sentence; never others."""

import json
import shutil

import numpy as np
import pytest

import tether
from tether.auditing import directory
from tether.logs import batches

MDP = tether.cases.grid_world().mdp
LOG = [MDP.simulate("optimal", 3, rng=seed, noise=0.4) for seed in range(5)]
TABLES = ("episodes.parquet", "decisions.parquet", "outcomes.parquet")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 2)


def ask(place, **options):
    return tether.audit(MDP, LOG, **{"k": 3, "certify": False, "out": place, **options})


def everything(audit):
    """All that a user reads of an audit."""
    tables = [table.to_pylist() for table in (audit.table, audit.decisions, audit.outcomes, audit.problems)]
    return [*tables, audit.sentences(), audit.top(3).to_pylist(), len(audit)]


def stop(done, rows):
    if done > rows // 2:
        raise KeyboardInterrupt


@pytest.fixture
def right(_small_batches):
    return everything(tether.audit(MDP, LOG, k=3, certify=False))


def mutations(folder, rng):
    """Single mutations of single files: names, and functions that do it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    for file in files:
        name, data = file.relative_to(folder), file.read_bytes()
        places = {0, 4, len(data) // 2, len(data) - 1, len(data) - 8, *rng.integers(0, len(data), 20).tolist()}
        for place in sorted(place for place in places if 0 <= place < len(data)):
            yield (
                f"{name}: bit {place}",
                name,
                data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :],
            )
        for size in (0, 1, len(data) // 3, len(data) - 1):
            yield f"{name}: cut to {size}", name, data[:size]
        yield f"{name}: longer", name, data + b"\0"
        yield f"{name}: other bytes", name, bytes(rng.integers(0, 256, len(data), dtype=np.uint8))
        yield f"{name}: removed", name, None
        for other in files:
            if other != file:
                yield f"{name}: has what {other.name} has", name, other.read_bytes()
        if file.suffix == ".json":
            yield f"{name}: nested", name, b"[" * 100_000
            yield f"{name}: not UTF-8", name, b'{"format": "\xff"}'
            for field, value in (("tables", {}), ("tables", None), ("version", "0"), ("tables", [1]), ("question", 3)):
                yield f"{name}: {field} = {value}", name, json.dumps({**json.loads(data), field: value}).encode()


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "finished"])
def test_no_single_mutation_gives_other_answers(tmp_path, right, is_stopped):
    """A stopped audit goes on as if a damaged part was missing; a finished one with a damaged table is refused."""
    sound, place = tmp_path / "sound", tmp_path / "place"
    if is_stopped:
        with pytest.raises(KeyboardInterrupt):
            ask(sound, progress=stop)
    else:
        ask(sound)
    seen = {"equal": 0, "refused": 0}
    for what, name, data in mutations(sound, np.random.default_rng(1)):
        shutil.copytree(sound, place)
        if data is None:
            (place / name).unlink()
        else:
            (place / name).write_bytes(data)
        try:
            found = everything(ask(place))
        except tether.FileError as error:
            seen["refused"] += 1
            (problem,) = error.problems
            assert problem.file.startswith(str(place)), what
            assert problem.fix, what
            assert "\n" not in problem.message, what
            assert name.parts[0] != "parts", what  # those are computed again
        else:
            seen["equal"] += 1
            assert found == right, what
            assert is_stopped or data is None or name.name == "audit.json", what
        shutil.rmtree(place)
    assert min(seen.values()) >= (10 if is_stopped else 1)


def test_two_parts_exchanged_and_the_part_of_another_audit(tmp_path, right):
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path / "other", k=1, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path / "place", progress=stop)
    one, two = sorted((tmp_path / "place" / "parts").iterdir())
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    for foreign in (tmp_path / "other" / "parts").iterdir():
        shutil.copy(foreign, tmp_path / "place" / "parts" / foreign.name)
    assert everything(ask(tmp_path / "place")) == right


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_changes_after_the_audit_is_refused_when_it_is_read(tmp_path, name):
    audit = ask(tmp_path)
    assert audit.summary.episodes == len(LOG)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 3] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(tether.FileError, match=f"{name}: this table is not what the audit wrote.*fresh=True"):
        everything(audit)
    assert everything(ask(tmp_path, fresh=True))[-1] == len(LOG)


def test_a_report_beside_a_removed_directory_says_which(tmp_path):
    audit = ask(tmp_path / "audit")
    shutil.rmtree(tmp_path / "audit")
    with pytest.raises(tether.FileError, match="audit: the directory of the audit is gone; audit again"):
        audit.report(tmp_path / "page.html")
    ask(tmp_path / "audit")
    (tmp_path / "audit" / "outcomes.parquet").unlink()
    with pytest.raises(tether.FileError, match=r"outcomes\.parquet: this table of the audit was removed"):
        ask(tmp_path / "audit").report(tmp_path / "page.html")


def test_a_part_that_is_removed_or_damaged_during_the_run(tmp_path, right):
    def lose(done, rows):
        if done == rows:
            sorted((tmp_path / "removed" / "parts").iterdir())[0].unlink()

    def damage(done, rows):
        if done == rows:
            sorted((tmp_path / "damaged" / "parts").iterdir())[1].write_bytes(b"PAR1")

    def lose_all(done, rows):
        if done == rows:
            shutil.rmtree(tmp_path / "all" / "parts")

    for place, progress, number in (("removed", lose, 0), ("damaged", damage, 1), ("all", lose_all, 0)):
        words = rf"parts/00000{number}-.*: this part of the audit was changed or removed while the audit ran; the other"
        with pytest.raises(tether.FileError, match=words):
            ask(tmp_path / place, progress=progress)
        assert not any((tmp_path / place / name).exists() for name in TABLES)
        assert everything(ask(tmp_path / place)) == right


def test_an_explorer_does_not_believe_a_damaged_audit_either(tmp_path):
    ask(tmp_path)
    tables = directory.open_tables(tmp_path)
    assert tables.read("episodes", ["episode"]).num_rows == len(LOG)
    (tmp_path / "episodes.parquet").write_bytes((tmp_path / "decisions.parquet").read_bytes())
    with pytest.raises(tether.FileError, match="not what the audit wrote"):
        directory.open_tables(tmp_path).read("episodes")
    with pytest.raises(tether.FileError, match="there is no audit in this directory"):
        directory.open_tables(tmp_path / "nowhere")
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path / "stopped", progress=stop)
    with pytest.raises(tether.FileError, match="this audit is not finished"):
        directory.open_tables(tmp_path / "stopped")
