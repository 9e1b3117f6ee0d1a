"""Kernels compiled by a second process: the same ones, waited for while it is at them, and nothing left of it."""

import gc
import subprocess
import sys

import numba
import pytest
from numba.core import ir

import tether
from tether._kernels import ahead
from tether._kernels.jit import kernel


def listener():
    """A child that does nothing but wait until it is no longer listened to."""
    return subprocess.Popen([sys.executable, "-c", "import os; os.read(0, 1)"], stdin=subprocess.PIPE)


@pytest.mark.compiled
def test_what_is_compiled_ahead_is_what_an_explanation_calls():
    from tether._kernels.robust import followed_values, limit_rows
    from tether._kernels.thresholds import gather_nodes

    kernels = [gather_nodes, limit_rows, followed_values]
    case = tether.cases.toy()
    tether.counterfactual(case.mdp, case.path).plan().explain().sentences()
    called = [one.signatures for one in kernels]
    ahead.compile_share()
    assert all(called)
    assert [one.signatures for one in kernels] == called
    names = [f"{one.py_func.__module__.rpartition('.')[2]}.{one.py_func.__name__}" for one in kernels]
    assert names == list(ahead.SHARE)


def test_a_kernel_is_waited_for_while_the_child_is_at_it(tmp_path, monkeypatch):
    child = listener()
    monkeypatch.setattr(ahead, "_is_of_use", lambda: True)
    monkeypatch.setattr(ahead, "_start", lambda: child)
    ready = tmp_path / "ready"
    ready.touch()
    with ahead.second_compiler():
        assert ahead.wait_for(ahead.SHARE[0], ready)
        assert not ahead.wait_for("plan.plan_nodes", tmp_path / "other")
        monkeypatch.setattr(ahead, "_PATIENCE", 0.01)
        assert not ahead.wait_for(ahead.SHARE[0], tmp_path / "late")
        assert child.poll() is None
    assert child.poll() == 0
    assert not ahead.wait_for(ahead.SHARE[0], tmp_path / "late")


def test_a_child_that_ended_is_not_waited_for(tmp_path, monkeypatch):
    child = listener()
    child.communicate()
    monkeypatch.setattr(ahead, "_at_work", [child])
    monkeypatch.setattr(ahead, "_PATIENCE", 1e9)
    assert not ahead.wait_for(ahead.SHARE[0], tmp_path / "never")


def test_the_child_is_silent_and_ends_with_its_parent(tmp_path):
    command = [sys.executable, "-m", ahead.__name__]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=environment, check=False
    )
    assert done.stdout == b""
    assert not list(tmp_path.glob("*/.new-*"))


def test_no_child_is_started_without_need(monkeypatch):
    monkeypatch.setattr(ahead, "_start", lambda: pytest.fail("started"))
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    with ahead.second_compiler():
        assert not ahead._is_of_use()


@pytest.mark.compiled
def test_a_kernel_that_cannot_be_compiled_leaves_numba_as_it_was():
    @kernel
    def wrong():
        return nothing_of_this_name  # noqa: F821

    with pytest.raises(numba.core.errors.TypingError):
        wrong()
    assert gc.isenabled()
    assert not hasattr(ir.Scope, "__deepcopy__")
