"""Cache of counterfactual rows: over many episodes of one model the same transitions are observed again and again.

The counterfactual rows of a step depend on (s_t, a_t, s_{t+1}) and on the pairs, not on the time. Each model has a
cache of the rows used last, up to a limit of bytes; equal questions then share one answer.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np
from cachetools import LRUCache

from tether._foundation.arrays import Ints
from tether.conditioning.edited_rows import Rows
from tether.conditioning.mechanism import NoisePosterior
from tether.model.form import Form

__all__ = ["LIMIT", "remembered"]

LIMIT = 64 << 20
"""How many bytes of rows the cache of a model holds."""

_CACHES: WeakKeyDictionary[Form, LRUCache[Hashable, Rows]] = WeakKeyDictionary()
"""The cache of each model: rows by the key of their posterior."""

_LOCK = threading.Lock()


def remembered(form: Form, posterior: NoisePosterior, pairs: Ints) -> Rows:
    """The counterfactual rows of ``pairs`` (ascending), computed only if they are not in the model's cache."""
    key = posterior.key
    if key is None or pairs.size == 0:
        return posterior.replay(form, pairs)
    with _LOCK:
        cache = _CACHES.get(form)
        if cache is None:
            cache = _CACHES[form] = LRUCache(LIMIT, getsizeof=_size)
        known = cache.get(key)
    if known is not None:
        if np.array_equal(known.pairs, pairs):
            return known
        at = known.locate(pairs)
        if at.min() >= 0:
            return known.take(at)
    rows = posterior.replay(form, pairs)
    if _size(rows) <= cache.maxsize:
        with _LOCK:
            cache[key] = rows
    return rows


def _size(rows: Rows) -> int:
    return sum(array.nbytes for array in rows.arrays)
