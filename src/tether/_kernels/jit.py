"""How kernels are compiled: on first use, kept on disk, without the GIL; some of them for all cores."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.extending

from tether._kernels.cache import KernelCache
from tether._kernels.compiler import QuickCompiler
from tether._kernels.parallel import turn
from tether._kernels.place import find_place

__all__ = ["intrinsic", "kernel", "parallel_kernel", "part_of_kernel"]

_QUICK_TO_COMPILE: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "no_rewrites": True}
"""Leave out what no kernel needs: Python errors for divisions by zero, calls from C, expressions of whole arrays."""

_NOTHING_ALLOCATED: dict[str, Any] = {"_nrt": False}
"""Kernels write only to their arguments. So no references to arrays are counted, and there is less code to compile."""

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile on first use and keep the result on disk; release the GIL while running."""
    return cast(Function, _compiled(function, **_NOTHING_ALLOCATED))


def part_of_kernel(function: Function) -> Function:
    """A named piece of a kernel: inlined before the kernel is compiled, and not compiled by itself."""
    return cast(Function, numba.njit(inline="always", **_QUICK_TO_COMPILE, **_NOTHING_ALLOCATED)(function))


def parallel_kernel(function: Function) -> Function:
    """The same for a function with ``prange``, on all cores: call it from Python, if `use_cores` says so."""
    compiled = _compiled(function, parallel=True, no_rewrites=False)

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        with turn():
            return compiled(*arguments)

    return cast(Function, run)


def intrinsic(generate: Callable[..., Any], interpreted: Function) -> Function:
    """A function whose code is generated, as numba takes it; with the JIT off, one that is interpreted."""
    is_off = getattr(numba.config, "DISABLE_JIT", False)  # numba does not declare the items of its config
    return interpreted if is_off else cast(Function, numba.extending.intrinsic(generate))


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    compiled = numba.njit(nogil=True, pipeline_class=QuickCompiler, **(_QUICK_TO_COMPILE | options))(function)
    if hasattr(compiled, "enable_caching"):  # with the JIT off it is the function itself
        compiled._cache = KernelCache(function, find_place)
    return cast(Callable[..., Any], compiled)
