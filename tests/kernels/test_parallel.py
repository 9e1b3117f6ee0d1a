"""All cores, where they are safe: real processes and real threads, because what went wrong went wrong there."""

import os
import subprocess
import sys

import pytest

from tether._kernels import parallel
from tether._kernels.parallel import LARGE, use_cores

pytestmark = pytest.mark.compiled

MODEL = """
import sys, threading, multiprocessing
import numpy as np
import tether
from tether._kernels import parallel

parallel.LARGE = 1  # every layer on all cores

def model():
    rng = np.random.default_rng(3)
    P = rng.random((60, 3, 60))
    return tether.MDP.from_arrays(P / P.sum(axis=2, keepdims=True), rng.random((60, 3)))

def ask(_=None):
    mdp = model()
    path = tether.Path([0, 1, 2, 3], [0, 1, 2])
    return tether.counterfactual(mdp, path).plan(k=4, m=2).value, mdp.solve(3).value(0)
"""

THREADS_THEN_CHILDREN = (
    MODEL
    + """
if __name__ == "__main__":
    answers = []
    threads = [threading.Thread(target=lambda: answers.append([ask() for _ in range(6)])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parallel._layer() == sys.argv[1], parallel._layer()
    first = ask()
    assert answers == [[first] * 6] * 8
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(ask, range(4)) == [first] * 4
    assert ask() == first
    print("same")
"""
)


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_the_same_answers_in_threads_and_children(tmp_path, layer):
    library = {"omp": "omppool", "workqueue": "workqueue"}[layer]
    pytest.importorskip(f"numba.np.ufunc.{library}", reason=f"numba cannot load {layer} here", exc_type=ImportError)
    file = tmp_path / "ask.py"
    file.write_text(THREADS_THEN_CHILDREN)
    done = subprocess.run(
        [sys.executable, str(file), layer],
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"},
        check=False,
        capture_output=True,
        text=True,
        timeout=400,  # with time to compile
    )
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


def test_small_tasks_and_forked_children_run_on_one_core(monkeypatch):
    assert use_cores(LARGE)
    assert not use_cores(LARGE - 1)
    monkeypatch.setattr(parallel, "_PROCESS", os.getpid() + 1)
    assert not use_cores(LARGE)
