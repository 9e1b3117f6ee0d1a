"""Remembered rows: over many episodes of one model the same transitions are observed again and again.

The counterfactual rows of a step depend on (s_t, a_t, s_{t+1}) and on the pairs, not on the time. A model remembers the
rows used last, up to a limit of memory; equal questions then share one answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np

from tether._foundation.arrays import Ints
from tether.conditioning.mechanism import NoisePosterior
from tether.conditioning.rows import Rows
from tether.model.form import Form

__all__ = ["LIMIT", "remembered"]

LIMIT = 64 << 20
"""How many bytes of rows a model remembers."""


class _Memory:
    """Rows by the key of their posterior; those used longest ago are forgotten first."""

    def __init__(self) -> None:
        self._rows: OrderedDict[Hashable, Rows] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Rows | None:
        with self._lock:
            rows = self._rows.get(key)
            if rows is not None:
                self._rows.move_to_end(key)
            return rows

    def put(self, key: Hashable, rows: Rows) -> None:
        size = _size(rows)
        with self._lock:
            before = self._rows.pop(key, None)
            self._bytes -= 0 if before is None else _size(before)
            if size > LIMIT:
                return
            self._rows[key] = rows
            self._bytes += size
            while self._bytes > LIMIT:
                _, forgotten = self._rows.popitem(last=False)
                self._bytes -= _size(forgotten)


_MEMORIES: WeakKeyDictionary[Form, _Memory] = WeakKeyDictionary()
_LOCK = threading.Lock()


def remembered(form: Form, posterior: NoisePosterior, pairs: Ints) -> Rows:
    """The counterfactual rows of ``pairs`` (ascending), computed only if the model does not remember them."""
    key = posterior.key
    if key is None or pairs.size == 0:
        return posterior.replay(form, pairs)
    with _LOCK:
        memory = _MEMORIES.setdefault(form, _Memory())
    known = memory.get(key)
    if known is not None:
        if np.array_equal(known.pairs, pairs):
            return known
        at = known.locate(pairs)
        if at.min() >= 0:
            return known.take(at)
    rows = posterior.replay(form, pairs)
    memory.put(key, rows)
    return rows


def _size(rows: Rows) -> int:
    return sum(array.nbytes for array in rows.arrays)
