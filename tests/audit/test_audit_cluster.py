"""Audits on a Dask cluster of processes, on this machine alone: the same bytes, whoever dies."""

import functools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from systems import posix

import tether
from tether.auditing import cluster
from tether.cli import main
from tether.logs import batches

TABLES = ("episodes.parquet", "decisions.parquet", "outcomes.parquet")
MDP = tether.cases.grid_world().mdp


@functools.cache
def some_episodes():
    return [MDP.simulate("random", 5 + seed % 3, rng=seed) for seed in range(30)]


def contents(place):
    return [(place / name).read_bytes() for name in TABLES]


@posix
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_a_cluster_answers_as_one_process_does(tmp_path, monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(batches, "BATCH", 2)
    monkeypatch.setattr(cluster, "_PATIENCE", 1.0)
    wrong = tether.Path([0, 15], ["right"])
    options = {"k": 3, "certify": False}
    tether.audit(MDP, [*some_episodes(), wrong], **options, out=tmp_path / "alone")
    MDP.save(tmp_path / "model")
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        pids = list(client.run(os.getpid).values())
        calls = []

        def kill_one(_done, _rows):
            calls.append(1)
            if len(calls) == 2:
                os.kill(pids[0], signal.SIGKILL)

        saved = tether.MDP.load(tmp_path / "model")
        tether.audit(
            saved, [*some_episodes(), wrong], **options, out=tmp_path / "killed", client=client, progress=kill_one
        )
        assert contents(tmp_path / "killed") == contents(tmp_path / "alone")
        client.wait_for_workers(2, timeout=300)  # a cluster that is closed while a worker starts may wait for ever
        with pytest.raises(tether.PathError, match="cannot lead to 15"):
            tether.audit(
                MDP, [*some_episodes()[:2], wrong], **options, out=tmp_path / "strict", client=client, strict=True
            )
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "__version__", "9.9.9")
            with pytest.raises(tether.QueryError, match=r"has tether .*, here is 9\.9\.9; install the same"):
                tether.audit(MDP, some_episodes(), **options, out=tmp_path / "version", client=client)
        with pytest.raises(tether.QueryError, match="a directory that all of them see"):
            tether.audit(MDP, some_episodes(), client=client)

        def stop_all(_done, _rows):
            workers.close()

        with pytest.raises(tether.QueryError, match="the scheduler is gone; what was done is kept"):
            tether.audit(
                MDP, [*some_episodes(), wrong], **options, out=tmp_path / "gone", client=client, progress=stop_all
            )
    assert list((tmp_path / "gone" / "parts").glob("*.parquet"))
    tether.audit(MDP, [*some_episodes(), wrong], **options, out=tmp_path / "gone")
    assert contents(tmp_path / "gone") == contents(tmp_path / "alone")


def hog():
    """Take memory until the nanny of the worker ends it."""
    taken = []
    while True:
        taken.append(bytearray(b"x") * (1 << 25))
        time.sleep(0.01)


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_a_worker_that_runs_out_of_memory_changes_nothing(tmp_path, monkeypatch):
    """Its nanny ends it and starts another; the batches it had are answered again."""
    from distributed import Client, LocalCluster

    monkeypatch.setattr(batches, "BATCH", 2)
    options = {"k": 3, "certify": False}
    tether.audit(MDP, some_episodes(), **options, out=tmp_path / "alone")
    settings = {"n_workers": 2, "threads_per_worker": 2, "processes": True, "host": "127.0.0.1", "memory_limit": "1GiB"}
    with (
        LocalCluster(**settings, dashboard_address=None, silence_logs=50) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        before = client.run(os.getpid)
        tasks = []

        def fill_one(_done, _rows):
            if not tasks:
                (address, pid), *_ = before.items()
                tasks.append(client.submit(hog, workers=[address], allow_other_workers=False, pure=False))
                until = time.monotonic() + 300
                while psutil.pid_exists(pid) and time.monotonic() < until:
                    time.sleep(0.05)
                assert not psutil.pid_exists(pid)

        tether.audit(MDP, some_episodes(), **options, out=tmp_path / "filled", client=client, progress=fill_one)
        tasks[0].cancel()
    assert contents(tmp_path / "filled") == contents(tmp_path / "alone")


@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_long_arrays_are_told_apart_in_one_process_and_released(tmp_path, monkeypatch):
    """NumPy shortens the text of a long array; each audit has what it prepared to itself, and lets it go."""
    from distributed import Client, LocalCluster

    monkeypatch.setattr(batches, "BATCH", 2)
    chain = tether.MDP.from_table(
        *zip(*((s, a, (s + a + 1) % 2000, 1.0, float(a)) for s in range(2000) for a in (0, 1)), strict=True)
    )
    log = [chain.simulate("random", 3, start=1000, rng=seed) for seed in range(4)]
    one, other = np.zeros(2000, dtype=int), np.zeros(2000, dtype=int)
    other[1000:1010] = 1
    assert repr(one) == repr(other)
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=None, silence_logs=50) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        for name, policy in (("one", one), ("other", other)):
            found = tether.audit(chain, log, policy=policy, certify=False, out=tmp_path / name, client=client)
            assert found.table.equals(tether.audit(chain, log, policy=policy, certify=False).table)
            assert cluster._prepared == {}


def test_a_scheduler_that_is_not_there(tmp_path, monkeypatch):
    import distributed

    def refuse(*_given, **_options):
        raise OSError("Timed out trying to connect")

    monkeypatch.chdir(tmp_path)
    tether.io.write_episodes(some_episodes()[:2], "log.csv")
    monkeypatch.setattr(distributed, "Client", refuse)
    done = CliRunner().invoke(
        main, ["audit", "case:grid-world", "log.csv", "-o", "out", "--scheduler", "tcp://127.0.0.1:1"]
    )
    assert done.exit_code == 2
    assert "no scheduler answers at tcp://127.0.0.1:1" in done.output


def test_nothing_of_dask_is_imported_without_a_cluster():
    code = """
import sys, tether.auditing.running, tether.auditing.workers, tether.auditing.engine, tether.cli.audit_command
print([name for name in ("dask", "distributed") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
