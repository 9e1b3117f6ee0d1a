"""Four sums at a time: the inner loop of planning, in one vector of four numbers.

numba does not turn four sums that are written one by one into a vector: the part of its compiler that would do so is
known to make mistakes, and is off. So the vector is written here. Each sum is added up in the same order as without the
vector, and has the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import intrinsic
from tether._kernels.memory import Index

__all__ = ["four_sums"]


def _one_by_one(
    next_state: Ints, probability: Floats, start: Index, stop: Index, values: Floats, base: Index, step: Index
) -> tuple[float, float, float, float]:
    """Σ probability[i] · values[base + next_state[i]·step + c] over a row, for c = 0, 1, 2, 3."""
    total = np.zeros(4)
    for i in range(int(start), int(stop)):
        at = int(base) + int(next_state[i]) * int(step)
        total += probability[i] * values[at : at + 4]
    one, two, three, four = total.tolist()
    return one, two, three, four


def _as_vector(
    typing_context: Any, next_state: Any, probability: Any, start: Any, stop: Any, values: Any, base: Any, step: Any
) -> Any:
    """The same, compiled; indices are unsigned numbers of 64 bits."""
    from llvmlite import ir
    from numba.core import cgutils, types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        successors, chances, numbers = (
            context.make_array(signature.args[at])(context, builder, arguments[at]).data for at in (0, 1, 4)
        )
        _, _, first, beyond, _, offset, width = arguments
        place, index, vector = ir.IntType(64), ir.IntType(32), ir.VectorType(ir.DoubleType(), 4)
        sums = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * 4))
        with cgutils.for_range_slice(builder, first, beyond, place(1), place) as (i, _):
            state = builder.zext(builder.load(builder.gep(successors, [i])), place)
            at = builder.gep(numbers, [builder.add(offset, builder.mul(state, width))])
            four = builder.load(builder.bitcast(at, vector.as_pointer()), align=8)
            chance = builder.load(builder.gep(chances, [i]))
            first_only = builder.insert_element(ir.Constant(vector, ir.Undefined), chance, index(0))
            in_each = builder.shuffle_vector(first_only, first_only, ir.Constant(ir.VectorType(index, 4), [0] * 4))
            builder.store(builder.fadd(builder.load(sums), builder.fmul(in_each, four)), sums)
        total = builder.load(sums)
        each = [builder.extract_element(total, index(c)) for c in range(4)]
        return context.make_tuple(builder, signature.return_type, each)

    result = types.UniTuple(types.float64, 4)
    return result(next_state, probability, start, stop, values, base, step), generate


four_sums = intrinsic(_as_vector, _one_by_one)
