"""How kernels are compiled: cached on disk, in the first place that can be written to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

__all__ = ["kernel", "parallel_kernel", "set_cache_fallback"]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile on first use and keep the result on disk; release the GIL while running."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def parallel_kernel(function: Function) -> Function:
    """The same for a function with ``prange`` in it, on all cores. Never fork after one has run."""
    return cast(Function, numba.njit(cache=True, nogil=True, parallel=True)(function))


def set_cache_fallback(candidates: Iterable[Path], fallback: Path) -> Path | None:
    """Point numba's cache at ``fallback`` if no candidate can be written to; return it if so.

    Numba itself refuses to compile with ``cache=True`` where neither the package's directory nor
    the user's cache directory is writable: a read-only container, a system-wide installation used
    by an account without a home.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or any(_writable(place) for place in candidates):
        return None
    setattr(numba.config, "CACHE_DIR", str(fallback))  # noqa: B010 - numba does not declare it
    return fallback


def _writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "numba"


set_cache_fallback(
    (Path(__file__).parent / "__pycache__", _user_cache()),
    Path(tempfile.gettempdir()) / f"tether-numba-{os.getuid() if hasattr(os, 'getuid') else 'cache'}",
)
