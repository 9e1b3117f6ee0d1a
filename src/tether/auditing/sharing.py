"""What the episodes of a log share: the edited rows of each observed transition, computed once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.scratch import scratch_array
from tether.conditioning.rows import spans
from tether.model.mdp import MDP

if TYPE_CHECKING:
    from tether._kernels.audit.arrays import Model, RowPool

__all__ = ["SharedRows", "leads_to"]

_MOST_BYTES = 256 << 20
"""How many bytes of edited rows are kept for later batches; beyond, they are computed again."""


def leads_to(mdp: MDP) -> tuple[Ints, Ints]:
    """The pairs that lead to each state: where those of a state begin, and the pairs."""
    form = mdp.form
    order = np.argsort(form.next_state, kind="stable")
    pair, _ = spans(form.row_start[:-1], form.row_start[1:])
    return np.searchsorted(form.next_state[order], np.arange(mdp.n_states + 1)), pair[order]


class SharedRows:
    """Edited rows by observed transition, kept from batch to batch up to a limit, for all threads.

    One thread at a time adds rows. Other threads continue to read the rows they have: rows are only added after the
    existing ones, and a larger or a new pool is other memory.
    """

    def __init__(self, mdp: MDP, model: Model, lead_start: Ints, lead_pair: Ints) -> None:
        self._mdp, self._model = mdp, model
        self._lead_start, self._lead_pair = lead_start, lead_pair
        form, n = mdp.form, mdp.n_states
        longest = int(np.diff(form.row_start).max(initial=1))
        self._weight, self._seen = scratch_array(n, np.float64), scratch_array(mdp.n_pairs, np.uint8)
        self._met, self._size = scratch_array(mdp.n_pairs, np.int64), scratch_array(mdp.n_pairs, np.int64)
        self._nominal = scratch_array(mdp.n_pairs, np.bool_)
        self._numbers, self._places = np.empty((2, longest)), np.empty((3, longest), np.int64)
        self._lock = threading.Lock()
        self._forget()

    def __len__(self) -> int:
        """How many transitions have their rows here."""
        return int(self._keys.size)

    def _forget(self) -> None:
        """Begin anew."""
        self._pool = _grown(None, 1 << 14, 1 << 17, self._mdp.form.next_state.dtype)
        self._keys, self._order = np.empty(0, np.int64), np.empty(0, np.int64)
        self._row_end = np.zeros(1, np.int64)

    @property
    def _used(self) -> int:
        """How many bytes the rows take."""
        rows, pool = int(self._row_end[-1]), self._pool
        entries = int(pool.start[rows]) if rows else 0
        return sum(
            array.itemsize * (entries if name in ("next_state", "probability") else rows)
            for name, array in pool._asdict().items()
        )

    def of(self, pairs: Ints, outcomes: Ints) -> tuple[Ints, Ints, RowPool]:
        """For each step the number of its transition; where the rows of each transition lie; and the rows."""
        wanted = pairs * (self._mdp.n_states + 1) + outcomes + 1
        distinct, which = np.unique(wanted, return_inverse=True)
        with self._lock:
            if self._used > _MOST_BYTES:
                self._forget()
            new = distinct[self._numbers_of(distinct) < 0]
            if new.size:
                self._add(new)
            numbers, row_end, pool = self._numbers_of(distinct), self._row_end, self._pool
        return numbers[which.reshape(-1)], row_end, pool

    def _numbers_of(self, keys: Ints) -> Ints:
        """The number of each transition, -1 where its rows are not here."""
        if not self._keys.size:
            return np.full(keys.size, -1, dtype=np.int64)
        at = np.searchsorted(self._keys, keys, sorter=self._order)
        numbers = self._order[np.minimum(at, self._keys.size - 1)]
        return np.where(self._keys[numbers] == keys, numbers, -1)

    def _add(self, new: Ints) -> None:
        from tether._kernels.audit.rows import fill_pool

        first = self._keys.size
        self._keys = np.concatenate((self._keys, new))
        self._order = np.argsort(self._keys)
        self._row_end = np.concatenate((self._row_end, np.zeros(new.size, np.int64)))
        pairs, outcomes = self._keys // (self._mdp.n_states + 1), self._keys % (self._mdp.n_states + 1) - 1
        while first < self._keys.size:
            first = fill_pool(
                self._model, self._pool, pairs, outcomes, self._row_end, self._lead_start, self._lead_pair,
                self._weight, self._seen, self._met, self._nominal, self._size, self._numbers, self._places, first,
            )  # fmt: skip
            if first < self._keys.size:
                pool = self._pool
                self._pool = _grown(pool, 2 * pool.pair.size, 2 * pool.next_state.size, pool.next_state.dtype)


def _grown(pool: RowPool | None, rows: int, entries: int, dtype: Any) -> RowPool:
    """A larger pool with the same rows in it."""
    from tether._kernels.audit.arrays import RowPool

    kinds = {"pair": np.int64, "state": np.int64, "start": np.int64, "next_state": dtype, "probability": np.float64}
    kinds |= {"strength": np.float64, "reward": np.float64}
    arrays = {}
    for name, kind in kinds.items():
        array = np.zeros(entries if name in ("next_state", "probability") else rows + 1, dtype=kind)
        if pool is not None:
            before = getattr(pool, name)
            array[: before.size] = before
        arrays[name] = array
    return RowPool(**arrays)
