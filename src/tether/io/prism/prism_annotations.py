"""What stands beside the transitions of a PRISM model: values of variables, ``.sta``, labels, ``.lab``, and rewards.

Rewards of states, ``.srew``, and of transitions, ``.trew``, begin with the same sizes as the transitions, except for
the last, which is the number of rewards. Storm's versions of these files have no sizes. Storm's version of a ``.lab``
declares labels between ``#DECLARATION`` and ``#END``, and refers to them by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.io.explicit import SortedTransitions
from tether.io.files import File
from tether.io.plaintext import numbered, opened_lines, quoted, whole
from tether.io.prism.transitions import LineShape, Records, TraHeader, check_states, first_line, read_records
from tether.io.valuations import read_value, valuation_class

_STATE = re.compile(r"([0-9]{1,18})\s*:\s*\((.*)\)")
_NAMED = re.compile(r'\s*([0-9]{1,18})="([^"]*)"')


def read_states(
    file: File, n_states: int | None, complaints: Complaints, max_unpacked: int | str | None = None
) -> list[Any]:
    """Read a ``.sta``: the names of states."""
    found_names: dict[int, Any] = {}
    with opened_lines(file, max_unpacked) as handle:
        line, text, _ = first_line(handle)
        if not (text.startswith("(") and text.endswith(")") and len(text) > 2):
            complaints.add(f"expected the variables first, as '(x,y)', found {quoted(text)}", line=line or None)
            return []
        names = [name.strip() for name in text[1:-1].split(",")]
        make, values = valuation_class(names), _Values()
        for at, text in numbered(handle, line + 1):
            if not text or text.startswith("#"):
                continue
            found = _STATE.fullmatch(text)
            if found is None:
                complaints.add(f"expected 'index:(values)', found {quoted(text)}", line=at)
                continue
            index, words = int(found.group(1)), found.group(2).split(",")
            if len(words) != len(names):
                complaints.add(f"{counted(len(words), 'value')}, but there are {counted(len(names), 'variable')}", at)
            elif index in found_names:
                complaints.add(f"the state {index} is given twice", line=at)
            else:
                try:
                    found_names[index] = make([values[word] for word in words])
                except ValueError as error:
                    complaints.add(f"expected whole numbers, true or false, found {quoted(str(error))}", line=at)
    return _complete(found_names, n_states, complaints)


class _Values(dict[str, Any]):
    """Values by their text; each text is converted once."""

    def __missing__(self, word: str) -> Any:
        self[word] = read_value(word.strip())
        return self[word]


def _complete(found_names: dict[int, Any], n_states: int | None, complaints: Complaints) -> list[Any]:
    if complaints.total:
        return []
    n = n_states if n_states is not None else 1 + max(found_names, default=-1)
    missing = next((i for i in range(n) if i not in found_names), None)
    if len(found_names) != n or missing is not None:
        text = "" if missing is None else f"; the state {missing} is missing"
        complaints.add(f"{counted(len(found_names), 'state')} are listed, but the model has {n:,}{text}")
        return []
    listed = [found_names[i] for i in range(n)]
    seen: dict[Any, int] = {}
    for i, name in enumerate(listed):
        if seen.setdefault(name, i) != i:
            complaints.add(f"the states {seen[name]} and {i} have the same values, {name!r}")
    return listed


def read_labels(
    file: File, n_states: int | None, complaints: Complaints, max_unpacked: int | str | None = None
) -> dict[str, list[int]]:
    """Read a ``.lab``: the states of each label, by index."""
    with opened_lines(file, max_unpacked) as handle:
        names, line = _declared(handle, complaints)
        by_word = dict(names)
        found: dict[str, dict[int, None]] = {name: {} for _, name in names}
        for at, text in numbered(handle, line + 1):
            words = text.replace(":", " ").split()
            if not words or words[0].startswith("#"):
                continue
            try:
                state = whole(words[0])
                unknown = [word for word in words[1:] if word not in by_word]
                if unknown:
                    raise ValueError(f"the label {quoted(unknown[0])} is not declared")
                if n_states is not None and state >= n_states:
                    raise ValueError(f"there is no state {state}: states are 0 … {n_states - 1}")
            except ValueError as error:
                complaints.add(f"expected 'state: labels', found {quoted(text)}: {error}", line=at)
                continue
            for word in words[1:]:
                found[by_word[word]][state] = None
    return {name: sorted(states) for name, states in found.items()}


def _declared(handle: TextIO, complaints: Complaints) -> tuple[list[tuple[str, str]], int]:
    """The labels that a file declares, each with the word that refers to it, and the line of the declaration."""
    line, inside = 0, False
    words: list[str] = []
    for line, text in numbered(handle):
        if text == "#DECLARATION":
            inside = True
        elif text == "#END" and inside:
            return [(word, word) for word in words], line
        elif inside:
            words += text.split()
        elif text and not text.startswith("#"):
            break
    else:
        text = ""
    pairs = _NAMED.findall(text)
    if not pairs or _NAMED.sub("", text).strip():
        complaints.add(
            f"""expected the labels first, as '0="init" 1="goal"', found {quoted(text)}""", line=line or None
        )
        complaints.raise_any()
    return [(str(int(word)), name) for word, name in pairs], line


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
    complaints.add_each(
        np.flatnonzero(entry < 0),
        lambda row: f"the model has no transition {' '.join(str(column[row]) for column in records.indices)}",
        lines=records.line,
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
    complaints.add_each(
        np.sort(again), lambda _: "this reward is given twice; keep one of the lines", lines=records.line
    )


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
