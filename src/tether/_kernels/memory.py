"""Fetching memory before it is needed.

Values of the next layer are read in random order. On a large model each read waits for memory, unless the processor
was asked to fetch it some nodes earlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import intrinsic, part_of_kernel

__all__ = ["AHEAD", "FETCH_FROM", "Index", "prefetch", "prefetch_node", "prefetch_successors"]

Index = int | np.unsignedinteger[Any]
"""An index of an array; unsigned in inner loops, because a signed index is tested for being negative each time."""

AHEAD = 5
"""How many nodes ahead values are fetched."""

LONGEST = 64
"""For a node with more entries than this nothing is fetched: they would push out what was fetched before."""

FETCH_FROM = 1 << 20
"""From this many bytes on, an array is larger than the fast caches."""


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Fetch ``array[index]``: a hint to the processor, without effect on any result."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # For reading, as data, into the second-level cache (the first-level cache can wait for few lines at a time).
        read, level, is_data = number(0), number(2), number(1)
        builder.call(hint, [place, read, level, is_data])
        return context.get_dummy_value()

    return types.void(array, index), generate


def _no_prefetch(array: Floats | Ints, index: Index) -> None:
    """With the JIT off nothing can be fetched."""


prefetch = intrinsic(_prefetch, _no_prefetch)


@part_of_kernel
def prefetch_successors(
    first_pair: Index, last_pair: Index, row_start: Ints, next_state: Ints, array: Floats | Ints, width: Index
) -> None:
    """Fetch ``array[s'·width]`` for every s' that the nominal rows of some pairs lead to, unless there are many."""
    start, stop = np.uint64(row_start[first_pair]), np.uint64(row_start[last_pair])
    if stop - start <= np.uint64(LONGEST):
        for i in range(start, stop):
            prefetch(array, np.uint64(next_state[i]) * width)


@part_of_kernel
def prefetch_node(
    s: Index, pair_start: Ints, row_start: Ints, next_state: Ints, array: Floats | Ints, width: Index
) -> None:
    """The same for all pairs of a state."""
    first_pair, last_pair = np.uint64(pair_start[s]), np.uint64(pair_start[s + np.uint64(1)])
    prefetch_successors(first_pair, last_pair, row_start, next_state, array, width)
