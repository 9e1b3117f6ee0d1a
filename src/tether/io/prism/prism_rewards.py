"""Rewards of a PRISM model: of states, ``.srew``, and of transitions, ``.trew``.

They begin with the same sizes as the transitions, except for the last, which is the number of rewards. Storm's versions
of these files have no sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.io.explicit import SortedTransitions
from tether.io.plaintext import File, add_each, numbered, opened_lines, quoted, whole
from tether.io.prism.prism_records import LineShape, Records, first_line, read_records
from tether.io.prism.transitions import TraHeader, check_states

__all__ = ["read_state_rewards", "read_transition_rewards", "structure_of"]

_STRUCTURE = re.compile(r'#\s*Reward structure:?\s*"?([^"]*)"?')


def structure_of(file: File, max_unpacked: int | str | None = None) -> str | None:
    """The reward structure that the heading of a file names, ``# Reward structure "fuel"``, or None."""
    with opened_lines(file, max_unpacked) as handle:
        for _, text in numbered(handle):
            if not text.startswith("#"):
                return None
            if found := _STRUCTURE.fullmatch(text):
                return found.group(1)
    return None


def read_state_rewards(
    file: File, header: TraHeader, n_states: int, complaints: Complaints, max_unpacked: int | str | None = None
) -> Floats:
    """Read a ``.srew``: the reward of each step in a state."""
    shape = LineShape(("state",), "reward", False)
    records = _rewards(file, header, shape, 2, n_states, complaints, max_unpacked)
    states = records.indices[0]
    _no_repetition(states, records, complaints)
    rewards = np.zeros(n_states)
    rewards[states] = records.value
    return rewards


def read_transition_rewards(
    file: File,
    header: TraHeader,
    rows: SortedTransitions,
    n_states: int,
    complaints: Complaints,
    max_unpacked: int | str | None = None,
) -> Floats:
    """Read a ``.trew``: the reward of each transition."""
    shape = header.shape("reward")
    records = _rewards(file, header, shape, len(shape.indices), n_states, complaints, max_unpacked)
    state, *choice, next_state = records.indices
    wanted = [state, np.zeros_like(state) if header.chain else choice[0], next_state]
    entry = _find(wanted, [rows.state, rows.choice, rows.next_state])
    add_each(
        complaints,
        np.flatnonzero(entry < 0),
        records.line,
        lambda row: f"the model has no transition {' '.join(str(column[row]) for column in records.indices)}",
    )
    known = np.flatnonzero(entry >= 0)
    _no_repetition(entry[known], records.take(known), complaints)
    rewards = np.zeros(rows.state.size)
    rewards[entry[known]] = records.value[known]
    return rewards


def _rewards(
    file: File,
    header: TraHeader,
    shape: LineShape,
    n_sizes: int,
    n_states: int,
    complaints: Complaints,
    max_unpacked: int | str | None,
) -> Records:
    with opened_lines(file, max_unpacked) as handle:
        line, promised = 0, None
        if header.counts:
            line, text, _ = first_line(handle)
            about, promised = _sizes(line, text, n_sizes, complaints)
            if about != n_states:
                complaints.add(f"the file is for {counted(about, 'state')}, but the model has {n_states:,}", line=line)
        records = read_records(handle, line + 1, shape, complaints)
    if promised is not None and not complaints.total and promised != records.line.size:
        found = records.line.size
        cause = "; the file is cut off, or its header is wrong" if found < promised else "; the header is wrong"
        complaints.add(f"the header promises {counted(promised, 'reward')}, but the file has {found:,}{cause}", line)
    return records.take(np.flatnonzero(check_states(records, shape, n_states, complaints)))


def _sizes(line: int, text: str, n_sizes: int, complaints: Complaints) -> tuple[int, int]:
    """How many states a reward file is for, and how many rewards it promises."""
    try:
        sizes = [whole(word) for word in text.split()]
        if len(sizes) != n_sizes:
            raise ValueError
    except ValueError:
        wanted = " ".join(["states", *(["choices"] if n_sizes == 3 else []), "rewards"])
        complaints.add(f"expected a header '{wanted}', found {quoted(text)}", line=line or None)
        complaints.raise_any()
    return sizes[0], sizes[-1]


def _no_repetition(place: Ints, records: Records, complaints: Complaints) -> None:
    order = np.argsort(place, kind="stable")
    again = order[1:][place[order[1:]] == place[order[:-1]]]
    add_each(complaints, np.sort(again), records.line, lambda _: "this reward is given twice; keep one of the lines")


def _find(wanted: Sequence[Ints], among: Sequence[Ints]) -> Ints:
    """The index of each wanted row of three columns among other rows, or -1."""
    n = among[0].size
    columns = [np.concatenate(pair) for pair in zip(among, wanted, strict=True)]
    order = np.lexsort((np.arange(columns[0].size), *columns[::-1]))
    same = np.ones(order.size, dtype=bool)
    for column in columns:
        same[1:] &= column[order[1:]] == column[order[:-1]]
    same[:1] = False
    group = np.cumsum(~same) - 1
    leader = order[~same][group]  # the first of each group: of the others, if there is one
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.where(leader < n, leader, -1)
    found: Ints = place[n:]
    return found
