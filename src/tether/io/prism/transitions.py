"""Transitions of a PRISM model, ``.tra``: sizes first, then one line per transition.

Storm's version begins with ``mdp`` or ``dtmc`` instead of sizes.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TextIO

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.io.explicit import NO_LABEL, SortedTransitions, check_rows, check_size, sort_transitions
from tether.io.plaintext import File, add_each, opened_lines, quoted, whole
from tether.io.prism.prism_records import LineShape, Records, first_line, read_records

__all__ = ["TraHeader", "check_states", "read_tra_header", "read_transitions"]

_KIND = re.compile(r"#\s*Transitions\s*\((\w+)\)")

_REFUSED = {
    "ctmc": "a continuous-time Markov chain: its numbers are rates, not probabilities; export its embedded chain",
    "ma": "a Markov automaton, which has rates",
    "pomdp": "partially observable: what may be done depends on observations, which an MDP does not have",
    "idtmc": "an interval model: its probabilities are not known exactly",
    "imdp": "an interval model: its probabilities are not known exactly",
    "ipomdp": "an interval model: its probabilities are not known exactly",
    "smg": "a game of several players",
    "lts": "a transition system without probabilities",
}


class TraHeader(NamedTuple):
    """The first lines of a ``.tra``; sizes are None if a Storm file leaves them out."""

    chain: bool
    n_states: int | None
    n_choices: int | None
    n_transitions: int | None
    line: int

    @property
    def counts(self) -> bool:
        """Whether the files of this model begin with sizes."""
        return self.n_states is not None

    def shape(self, value: str) -> LineShape:
        """The shape of a line of transitions, or of their rewards."""
        return LineShape(("state", "next-state") if self.chain else ("state", "choice", "next-state"), value, True)


def read_tra_header(handle: TextIO, complaints: Complaints) -> TraHeader:
    """Read the sizes, or the word, that a ``.tra`` begins with."""
    line, text, comments = first_line(handle)
    if not line:
        complaints.add("the file is empty; expected the numbers of states, choices and transitions in the first line")
        complaints.raise_any()
    kinds = [found.group(1).lower() for comment in comments if (found := _KIND.match(comment))]
    words = text.split()
    if len(words) == 1 and words[0].lower() in ("dtmc", "mdp", *_REFUSED):
        kinds.append(words[0].lower())
        header = TraHeader(kinds[-1] == "dtmc", None, None, None, line)
    else:
        header = _sizes(line, words, complaints)
        if len(words) == 4:
            kinds.append("pomdp")
    for kind in kinds:
        if kind in _REFUSED:
            complaints.add(f"the model is {_REFUSED[kind]}; expected an MDP or a DTMC", line=line)
    complaints.raise_any()
    return header


def _sizes(line: int, words: list[str], complaints: Complaints) -> TraHeader:
    try:
        sizes = [whole(word) for word in words]
        if not 2 <= len(sizes) <= 4:
            raise ValueError
    except ValueError:
        complaints.add(
            "expected a header 'states transitions' (Markov chain) or 'states choices transitions' (MDP), or Storm's "
            f"'dtmc' or 'mdp', found {quoted(' '.join(words))}",
            line=line,
        )
        complaints.raise_any()
    if len(sizes) == 2:
        return TraHeader(True, sizes[0], None, sizes[1], line)
    return TraHeader(False, sizes[0], sizes[1], sizes[2], line)


def read_transitions(
    file: File, complaints: Complaints, tolerance: float, max_unpacked: int | str | None = None
) -> tuple[TraHeader, SortedTransitions, int]:
    """Read a ``.tra``: its header, its transitions, and the number of states."""
    with opened_lines(file, max_unpacked) as handle:
        header = read_tra_header(handle, complaints)
        shape = header.shape("probability")
        records = read_records(handle, header.line + 1, shape, complaints)
    state, *choice, next_state = records.indices
    complete = complaints.total == 0
    n_states = header.n_states
    if n_states is None:
        n_states = 1 + max((int(column.max()) for column in (state, next_state) if column.size), default=-1)
    good = check_states(records, shape, n_states, complaints)
    good &= _probabilities(records, complaints)
    if header.chain:
        good &= _names_not_numbers(records, complaints)
    else:
        good &= _choice_indices(records, complaints)
    kept = np.flatnonzero(good)
    records = records.take(kept)
    state, *choice, next_state = records.indices
    rows = sort_transitions(
        state,
        np.zeros_like(state) if header.chain else choice[0],
        next_state,
        records.value,
        np.full_like(state, NO_LABEL) if header.chain else records.label,
        records.line,
        records.names,
        complaints,
    )
    if complete:
        _check_counts(header, good.size, rows, complaints)
    if complete and good.all():
        check_rows(rows, complaints, tolerance, "; are these rates, of a CTMC?" if header.chain else "")
        check_size(n_states, rows, complaints, header.line)
    return header, rows, n_states


def check_states(records: Records, shape: LineShape, n_states: int, complaints: Complaints) -> Ints:
    """Complain about states that do not exist; returns which records have only states that exist."""
    good = np.ones(records.line.size, dtype=bool)
    for noun, column in zip(shape.indices, records.indices, strict=True):
        if noun == "choice":
            continue
        outside = column >= n_states

        def message(row: int, noun: str = noun, column: Ints = column) -> str:
            return f"there is no {noun.replace('-', ' ')} {column[row]}: states are 0 … {n_states - 1}"

        add_each(complaints, np.flatnonzero(outside & good), records.line, message)
        good &= ~outside
    return good


def _probabilities(records: Records, complaints: Complaints) -> Ints:
    negative = records.value < 0
    add_each(
        complaints,
        np.flatnonzero(negative),
        records.line,
        lambda row: f"the probability {records.value[row]:g} is negative",
    )
    return np.asarray(~negative)


def _names_not_numbers(records: Records, complaints: Complaints) -> Ints:
    """Refuse lines of an MDP after the header of a chain: their last number would be read as the name of an action."""
    numbers = np.array([name[:1].isdigit() or name[:1] == "." for name in records.names] + [False])
    wrong = numbers[records.label]
    add_each(
        complaints,
        np.flatnonzero(wrong),
        records.line,
        lambda _: "this line has four numbers, as for an MDP, but the header has two, as for a Markov chain",
    )
    return np.asarray(~wrong)


def _choice_indices(records: Records, complaints: Complaints) -> Ints:
    choice = records.indices[1]
    high = choice >= max(choice.size, 1)
    add_each(
        complaints,
        np.flatnonzero(high),
        records.line,
        lambda row: f"there cannot be a choice {choice[row]}: the file has {choice.size:,} transitions",
    )
    return np.asarray(~high)


def _check_counts(header: TraHeader, n_lines: int, rows: SortedTransitions, complaints: Complaints) -> None:
    for noun, promised, found in (
        ("transition", header.n_transitions, n_lines),
        ("choice", header.n_choices, rows.first.size),
    ):
        if promised is not None and promised != found:
            cause = "; the file is cut off, or its header is wrong" if found < promised else "; the header is wrong"
            complaints.add(
                f"the header promises {counted(promised, noun)}, but the file has {found:,}{cause}", line=header.line
            )
