"""Scratch with one number per state, lent to one user at a time and kept for the next one.

A walk through a model marks states that it has seen. There are many episodes and models are large, so these arrays
belong to the model. A borrower finds zeros, and must leave zeros.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.scratch import scratch_array
from tether.model.form import Form


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Arrays over the states of a model, all zero while nobody uses them."""

    marked: Ints
    scanned: Ints
    seen: Ints

    @classmethod
    def new(cls, n_states: int) -> Scratch:
        """Scratch for a model of ``n_states``."""
        return cls(*(scratch_array(n_states, np.uint8) for _ in range(3)))


_FREE: WeakKeyDictionary[Form, list[Scratch]] = WeakKeyDictionary()
_LOCK = threading.Lock()


@contextmanager
def borrowed(form: Form) -> Iterator[Scratch]:
    """Scratch for one user. It is returned only if no error happened, so that the next user always finds zeros."""
    with _LOCK:
        free = _FREE.setdefault(form, [])
        scratch = free.pop() if free else None
    if scratch is None:
        scratch = Scratch.new(form.pair_start.size - 1)
    yield scratch
    with _LOCK:
        free.append(scratch)
