"""How kernels are compiled: by plain numba, on first use, cached on disk, without the GIL."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from tether._kernels.parallel import turn

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a loop over arrays on first use; keep the result on disk; release the GIL while it runs."""
    return cast(Function, _compiled(function))


def piece(function: Function) -> Function:
    """Compile a function within each kernel that calls it, not by itself: for what one kernel calls in one place."""
    return cast(Function, numba.njit(inline="always", nogil=True, error_model="numpy")(function))


def parallel_kernel(function: Function) -> Function:
    """Compile a loop with ``prange`` for all cores; to be called from Python only, where `use_cores` says so."""
    compiled = _compiled(function, parallel=True)

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        with turn():
            return compiled(*arguments)

    return cast(Function, run)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, **options)(function))
    except RuntimeError as error:  # numba finds no directory that it can write to
        warnings.warn(f"compiled code cannot be kept on this machine ({error})", RuntimeWarning, stacklevel=3)
        return cast(Callable[..., Any], numba.njit(**options)(function))
