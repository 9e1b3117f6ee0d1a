"""Kernels compiled by a second process: the same ones, waited for while it is at them, and nothing left of it."""

import contextlib
import gc
import subprocess
import sys

import numba
import pytest
from numba.core import codegen, ir, postproc, ssa, types

import tether
from tether._kernels import ahead, compiler
from tether._kernels.compiling import told_of_compiling
from tether._kernels.jit import kernel


def listener():
    """A child that does nothing but wait until it is no longer listened to."""
    return subprocess.Popen([sys.executable, "-c", "import os; os.read(0, 1)"], stdin=subprocess.PIPE)


@pytest.mark.compiled
def test_what_is_compiled_ahead_is_what_an_explanation_calls():
    from tether._kernels.plan import plan_nodes
    from tether._kernels.robust import followed_values
    from tether._kernels.thresholds import gather_nodes

    kernels = [gather_nodes, plan_nodes, followed_values]
    case = tether.cases.toy()
    tether.counterfactual(case.mdp, case.path).plan().explain().sentences()
    called = [one.signatures for one in kernels]
    ahead.compile_share()
    assert all(called)
    assert [one.signatures for one in kernels] == called
    names = [f"{one.py_func.__module__.rpartition('.')[2]}.{one.py_func.__name__}" for one in kernels]
    assert names == [one for one in ahead.SHARE if one != "sets.sort_by"]  # that one is called by other kernels


def test_a_kernel_is_waited_for_while_the_child_is_at_it(tmp_path, monkeypatch):
    child = listener()
    monkeypatch.setattr(ahead, "_is_of_use", lambda: True)
    monkeypatch.setattr(ahead, "_start", lambda: child)
    ready = tmp_path / "ready"
    ready.touch()
    with ahead.second_compiler():
        assert ahead.wait_for(ahead.SHARE[0], ready)
        assert not ahead.wait_for("robust.limit_rows", tmp_path / "other")
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
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        ahead._COMMAND, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=environment, check=False
    )
    assert done.stdout == b""
    assert not list(tmp_path.glob("*/.new-*"))


def test_no_child_is_started_without_need(monkeypatch):
    monkeypatch.setattr(ahead, "_start", lambda: pytest.fail("started"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with ahead.second_compiler():
        assert not ahead._is_of_use()


@pytest.mark.compiled
def test_a_kernel_that_cannot_be_compiled_leaves_numba_as_it_was():
    @kernel
    def wrong():
        return nothing_of_this_name  # noqa: F821

    replaced = [(types.BaseFunction, "get_call_type"), (ssa, "_run_ssa"), (postproc.PostProcessor, "run")]
    replaced.append((codegen.CPUCodeLibrary, "_optimize_functions"))
    before = [getattr(*one) for one in replaced]
    told = []
    with pytest.raises(numba.core.errors.TypingError), told_of_compiling(told.append):
        wrong()
    assert [getattr(*one) for one in replaced] == before
    assert told == [True, False]
    assert gc.isenabled()
    assert not hasattr(ir.Scope, "__deepcopy__")


@pytest.mark.compiled
def test_all_that_numba_need_not_do_is_left_out_while_a_kernel_is_compiled(monkeypatch):
    """Each function of numba that is replaced takes the arguments we think: else it would stay, and nobody notice."""
    seen = []

    @contextlib.contextmanager
    def replaced(owner, name, instead):
        original = getattr(owner, name)
        with numbas(owner, name, instead):
            seen.append((name, getattr(owner, name) is not original))
            yield

    numbas = compiler._replaced
    monkeypatch.setattr(compiler, "_replaced", replaced)

    @kernel
    def count(n):
        total = 0
        for i in range(n):
            total += i
        return total

    count._cache.disable()
    assert count(5) == 10
    names = ["get_call_type", "_run_ssa", "run", "_optimize_functions", "_run_block_rewrite"]
    assert seen == [(name, True) for name in names]


def test_what_takes_other_arguments_is_not_replaced():
    class Later:
        def run(self, one_more):
            return one_more

    with compiler._replaced(Later, "run", lambda _run: lambda self: "ours"):
        assert Later().run("its own") == "its own"
    with compiler._replaced(Later, "run", lambda _run: lambda self, one_more: "ours"):
        assert Later().run("its own") == "ours"
    assert Later().run("its own") == "its own"
