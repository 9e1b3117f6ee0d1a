"""Compiled loops: arrays in, arrays out; no objects, no errors, no options.

The modules here import numba, which takes a while: import them inside the function that needs
them, never at the top of a file. A caller checks and allocates; a kernel only loops.
May import: _foundation, errors.
"""

import os

from tether.errors import Problem, QueryError

_threads = os.environ.get("NUMBA_NUM_THREADS", "")
if _threads.strip().lstrip("+-").isdigit() and int(_threads) < 1:  # numba would fail while it is imported
    _what = f"NUMBA_NUM_THREADS is {_threads}"
    raise QueryError(Problem(_what, value=_threads, expectation="a number from 1", fix="set it, or remove it"))
