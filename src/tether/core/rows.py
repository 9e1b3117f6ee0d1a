"""The store of edited rows: by observed transition and state, computed once for all episodes of a model.

The rows that a step edits depend on (s_t, a_t, s_{t+1}) alone, or also on t under a mechanism of the user's own. A
*group* has the edited rows of the pairs of one state under one observed transition. Groups are found by a hash table
with open addressing. A mechanism is asked for groups by its `Editor`.

Rows are only added after the existing ones, and a larger array is a new one. So a layer that refers to rows keeps the
arrays it has. Beyond a limit of bytes the store begins again with no rows; batches keep those they were made with.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only, spans
from tether._kernels.jit import kernel
from tether._kernels.reach import any_marked
from tether._kernels.scratch import scratch_array
from tether.core.batch import GUMBEL_MAX, INDEPENDENT, Edits, Model, Nodes, Seen, Steps
from tether.core.coupled import rows_given

LIMIT = 256 << 20
"""How many bytes of rows a store keeps from batch to batch."""

_EMPTY, _MISSING, _NO_EDITS = -1, -2, -1
_UNKNOWN, _APART, _TOUCHES = 0, 1, 2
"""Whether some pair of a state can lead to a state that the observed pairs of an episode could have led to."""


def meeting_pairs(model: Model, observed: Ints, state: Ints) -> tuple[Ints, Ints]:
    """The pairs of each state that can lead where its observed pair could have led: how many, and the pairs."""
    count = np.empty(state.size, np.int64)
    out = np.empty(int(np.sum(model.pair_start[state + 1] - model.pair_start[state])), np.int64)
    n = _meet(model, observed, state, scratch_array(model.n_states, np.uint8), count, out)
    return count, out[:n]


class Asked(NamedTuple):
    """Groups that are asked for: time, observed pair, outcome (-1 if not recorded) and state of each.

    Those of one observed transition are side by side, states ascending.
    """

    time: Ints
    observed: Ints
    outcome: Ints
    state: Ints


class Edited(NamedTuple):
    """The rows of some groups: how many each has; of each row the pair, where it begins, and its strength.

    In a group pairs are ascending. ``meets`` says whether the pair can lead where the observed pair could have led.
    """

    sizes: Ints
    pair: Ints
    meets: Ints
    start: Ints
    next_state: Ints
    probability: Floats
    strength: Floats


class Editor(Protocol):
    """Which rows a mechanism edits, and how.

    ``everywhere``: also those of states that cannot lead where the observed pair could have led. ``by_time``: the same
    transition edits other rows at other times.
    """

    @property
    def everywhere(self) -> bool: ...

    @property
    def by_time(self) -> bool: ...

    def edited(self, model: Model, asked: Asked) -> Edited:
        """The rows of some groups: at least those of pairs that meet the support of the observed pair."""
        ...


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """The rows of a built-in mechanism; ``rank`` is its order of the states, if it has one."""

    kind: int = GUMBEL_MAX
    rank: Ints | None = None

    @property
    def everywhere(self) -> bool:
        """See `tether.conditioning.closed_form.ClosedForm.changes`."""
        return self.kind not in (GUMBEL_MAX, INDEPENDENT)

    @property
    def by_time(self) -> bool:
        return False

    def edited(self, model: Model, asked: Asked) -> Edited:
        """See `Editor`."""
        count, pair = meeting_pairs(model, asked.observed, asked.state)
        meets = np.ones(pair.size, np.uint8)
        if self.everywhere:
            begin, end = model.pair_start[asked.state], model.pair_start[asked.state + 1]
            owner, every = spans(begin, np.where(asked.outcome < 0, begin, end))
            n_pairs = model.pair_action.size
            met, both = np.repeat(np.arange(count.size), count) * n_pairs + pair, owner * n_pairs + every
            if (asked.outcome < 0).any():
                both = np.union1d(met, both)
            meets = np.zeros(both.size, np.uint8)
            meets[np.searchsorted(both, met)] = 1
            count, pair = np.bincount(both // n_pairs, minlength=count.size), both % n_pairs
        owner = np.repeat(np.arange(count.size), count)
        seen = Seen.in_model(model)
        observed = asked.observed[owner]
        return Edited(
            count, pair, meets,
            *rows_given(model, seen, observed, asked.outcome[owner], pair, self.kind, observed, self.rank),
        )  # fmt: skip


def distances(model: Model, seen: Seen, which: Ints, pairs: Ints) -> Floats:
    """½ Σ |p - P(·|pairs[i])|, with p the observed row ``which[i]``; items with the same one should be side by side."""
    out = np.empty(pairs.size)
    _distances(
        model,
        Seen(*map(read_only, seen)),
        read_only(which),
        read_only(pairs),
        scratch_array(model.n_states, np.float64),
        out,
    )
    return out


@kernel
def _distances(model: Model, seen: Seen, which: Ints, pairs: Ints, weight: Floats, out: Floats) -> None:
    start, next_state, probability = seen
    for i in range(pairs.size):
        low, high = start[which[i]], start[which[i] + 1]
        if i == 0 or which[i] != which[i - 1]:
            for e in range(low, high):
                weight[next_state[e]] = probability[e]
        # The part of q above p: equal to ½ Σ |p - q|, and exactly 0 for the observed row itself.
        excess = 0.0
        for e in range(model.row_start[pairs[i]], model.row_start[pairs[i] + 1]):
            excess += max(model.probability[e] - weight[model.next_state[e]], 0.0)
        out[i] = min(excess, 1.0)
        if i == pairs.size - 1 or which[i] != which[i + 1]:
            for e in range(low, high):
                weight[next_state[e]] = 0.0


class RowStore:
    """Edited rows of one model under one mechanism, for all batches and threads."""

    def __init__(self, model: Model, editor: Editor) -> None:
        self._model, self._editor, self._lock = model, editor, threading.Lock()
        self._rows = Rows(model, editor)

    @property
    def nbytes(self) -> int:
        """The memory of the rows that the next batch begins with."""
        return self._rows.nbytes

    def rows(self) -> Rows:
        """The rows for a batch: those that earlier ones made, unless they are too many."""
        with self._lock:
            if self._rows.nbytes > LIMIT:
                self._rows = Rows(self._model, self._editor)
            return self._rows


class Rows:
    """Edited rows; more are added, none are taken away: other batches, in other threads, refer to them by number."""

    def __init__(self, model: Model, editor: Editor) -> None:
        self.model, self._editor, self._lock = model, editor, threading.Lock()
        self._transitions: dict[int, int] = {}
        self._keys, self._group = np.full(64, _EMPTY, np.int64), np.empty(64, np.int64)
        self._n_groups = 0
        self._group_start = np.zeros(1, np.int64)
        kinds = {"pair": np.int64, "start": np.int64, "next_state": np.int32, "probability": float, "strength": float}
        kinds["meets"] = np.uint8
        self._room = {name: _Growing(kind) for name, kind in kinds.items()}
        self.pair, self.strength = self._room["pair"].used, self._room["strength"].used
        self.next_state, self.probability = self._room["next_state"].used, self._room["probability"].used
        self.meets = self._room["meets"].used
        self.start = self._room["start"].add(np.zeros(1, np.int64))

    @property
    def nbytes(self) -> int:
        """The memory of all rows."""
        return 12 * int(self.next_state.size) + 25 * int(self.pair.size) + 16 * int(self._keys.size)

    def transitions(self, steps: Steps) -> tuple[Ints, Transitions]:
        """The transition of each step, numbered from 0; and what each transition is.

        To be called once for a batch, before its rows are asked for.
        """
        with self._lock:
            time = np.arange(steps.pair.size) - np.repeat(steps.start[:-1], steps.lengths)
            keys = steps.pair.astype(np.int64) * (self.model.n_states + 1) + steps.outcome + 1
            if self._editor.by_time:
                keys = time * (self.model.pair_action.size * (self.model.n_states + 1)) + keys
            distinct, which = np.unique(keys, return_inverse=True)
            known = self._transitions
            number = np.array([known.setdefault(key, len(known)) for key in distinct.tolist()], np.int64)
            transition = number[which.reshape(-1)] if keys.size else keys
            of_each = Transitions(*(np.full(len(known), -1, np.int64) for _ in range(3)))
            for column, values in zip(of_each, (time, steps.pair, steps.outcome), strict=True):
                column[transition] = values
            return transition, of_each

    def edits(self, nodes: Nodes, transition: Ints, of_each: Transitions, touched: Touched) -> Edits:
        """The edited pairs of a layer. ``transition`` is that of each episode's step, -1 if it has ended."""
        with self._lock:
            group = np.empty(nodes.states.size, np.int64)
            missing = np.empty(nodes.states.size, np.int64)
            table = self.model, nodes, transition, *touched, self._editor.everywhere
            n = _find_groups(*table, self._keys, self._group, group, missing)
            if n:
                keys = np.unique(missing[:n])
                which, state = keys // self.model.n_states, keys % self.model.n_states
                time, observed, outcome = of_each
                self._add(keys, Asked(time[which], observed[which], outcome[which], state))
                _find_groups(*table, self._keys, self._group, group, missing)
            size = int(np.sum(np.diff(self._group_start)[group[group >= 0]])) if self._n_groups else 0
            position, row = np.empty(size, np.int64), np.empty(size, np.int64)
            _place_edits(self.model, nodes, group, self._group_start, self.pair, position, row)
            return Edits(position, row, self.meets[row], self.start, self.next_state, self.probability)

    def _add(self, keys: Ints, asked: Asked) -> None:
        """Add the group of each key, sorted by transition and state."""
        count, pair, meets, start, next_state, probability, strength = self._editor.edited(self.model, asked)
        self._group_start = np.concatenate((self._group_start, self.pair.size + np.cumsum(count)))
        self.pair, self.strength = self._room["pair"].add(pair), self._room["strength"].add(strength)
        self.meets = self._room["meets"].add(meets)
        self.next_state = self._room["next_state"].add(next_state)
        self.probability = self._room["probability"].add(probability)
        self.start = self._room["start"].add(self.start[-1] + start[1:])
        total = self._n_groups + keys.size
        if 2 * total > self._keys.size:
            old = self._keys != _EMPTY
            old_keys, old_groups = self._keys[old], self._group[old]
            size = 1 << (4 * total).bit_length()
            self._keys, self._group = np.full(size, _EMPTY, np.int64), np.empty(size, np.int64)
            _insert(self._keys, self._group, old_keys, old_groups)
        _insert(self._keys, self._group, keys, np.arange(self._n_groups, total))
        self._n_groups = total


class Transitions(NamedTuple):
    """Observed transitions by number: a time at which it was observed, the pair, and the outcome."""

    time: Ints
    pair: Ints
    outcome: Ints


class _Growing:
    """An array that grows at its end; what was handed out stays as it is. Views are read-only."""

    def __init__(self, kind: Any) -> None:
        self._room, self._size = np.empty(1 << 10, kind), 0

    @property
    def used(self) -> Any:
        """The items so far."""
        view = self._room[: self._size]
        view.flags.writeable = False
        return view

    def add(self, items: Any) -> Any:
        """Add items at the end; returns all."""
        size = self._size + items.size
        if size > self._room.size:
            room = np.empty(2 * size, self._room.dtype)
            room[: self._size] = self._room[: self._size]
            self._room = room
        self._room[self._size : size] = items
        self._size = size
        return self.used


class Touched(NamedTuple):
    """Which states of each episode touch the supports of its observed pairs: scratch that is filled when needed.

    ``support`` has the supports of all steps, those of an episode side by side from ``support_start`` on; ``touches``
    is by episode and state, ``marked`` by state.
    """

    support_start: Ints
    support: Ints
    touches: Ints
    marked: Ints

    @classmethod
    def of(cls, model: Model, steps: Steps) -> Touched:
        """For the steps of a batch."""
        touches = np.zeros((len(steps), model.n_states), np.uint8)
        support_start = steps.support_start[steps.start]
        return cls(support_start, steps.support, touches, np.zeros(model.n_states, np.uint8))


@kernel
def _place(keys: Ints, key: Any) -> Any:
    """Where a key is in the hash table, or the free place where it belongs."""
    mask = np.uint64(keys.size - 1)
    at = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)) & mask
    while keys[at] != key and keys[at] != _EMPTY:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@kernel
def _insert(keys: Ints, values: Ints, new_keys: Ints, new_values: Ints) -> None:
    for i in range(new_keys.size):
        at = _place(keys, new_keys[i])
        keys[at], values[at] = new_keys[i], new_values[i]


@kernel
def _find_groups(
    model: Model,
    nodes: Nodes,
    transition: Ints,
    support_start: Ints,
    support: Ints,
    touches: Ints,
    marked: Ints,
    everywhere: bool,
    keys: Ints,
    group_of_key: Ints,
    group: Ints,
    missing: Ints,
) -> int:
    """Write the group of each node, -1 if no row of it is edited; the keys of unknown groups go to ``missing``."""
    n, n_states = 0, model.pair_start.size - 1
    for b in range(nodes.first.size - 1):
        of_episode = support[support_start[b] : support_start[b + 1]]
        for s in of_episode:
            marked[s] = 1
        for node in range(nodes.first[b], nodes.first[b + 1]):
            group[node] = _NO_EDITS
            if transition[b] < 0 or nodes.offsets[node + 1] == nodes.offsets[node]:
                continue
            s = nodes.states[node]
            if touches[b, s] == _UNKNOWN:
                low, high = model.row_start[model.pair_start[s]], model.row_start[model.pair_start[s + 1]]
                near = everywhere or any_marked(model.next_state, low, high, marked)
                touches[b, s] = _TOUCHES if near else _APART
            if touches[b, s] == _APART:
                continue
            key = transition[b] * n_states + s
            at = _place(keys, key)
            if keys[at] == key:
                group[node] = group_of_key[at]
            else:
                group[node] = _MISSING
                missing[n] = key
                n += 1
        for s in of_episode:
            marked[s] = 0
    return n


@kernel
def _place_edits(
    model: Model, nodes: Nodes, group: Ints, group_start: Ints, pair: Ints, position: Ints, row: Ints
) -> None:
    n = 0
    for node in range(nodes.states.size):
        if group[node] < 0:
            continue
        shift = nodes.offsets[node] - model.pair_start[nodes.states[node]]
        for r in range(group_start[group[node]], group_start[group[node] + 1]):
            position[n], row[n] = pair[r] + shift, r
            n += 1


@kernel
def _meet(model: Model, observed: Ints, state: Ints, marked: Ints, count: Ints, out: Ints) -> int:
    n = 0
    for i in range(state.size):
        low, high = model.row_start[observed[i]], model.row_start[observed[i] + 1]
        if i == 0 or observed[i] != observed[i - 1]:
            for e in range(low, high):
                marked[model.next_state[e]] = 1
        before = n
        for x in range(model.pair_start[state[i]], model.pair_start[state[i] + 1]):
            if any_marked(model.next_state, model.row_start[x], model.row_start[x + 1], marked):
                out[n] = x
                n += 1
        count[i] = n - before
        if i == state.size - 1 or observed[i] != observed[i + 1]:
            for e in range(low, high):
                marked[model.next_state[e]] = 0
    return n
