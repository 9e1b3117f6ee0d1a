"""Transitions of a PRISM model, ``.tra``: sizes first, then one line per transition.

Storm's version begins with ``mdp`` or ``dtmc`` instead of sizes. Lines are read in chunks, and Arrow converts a chunk
column by column. Only if that fails, the chunk is read line by line, to say which lines are wrong. Comments (``#``),
blank lines, several spaces between words and fractions are also read this way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np
import pyarrow as pa
from pyarrow import csv

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.io.explicit import NO_LABEL, SortedTransitions, check_rows, check_size, sort_transitions
from tether.io.files import File
from tether.io.plaintext import numbered, opened_lines, parsed_number, quoted, whole

_CHUNK = 1 << 21


class LineShape(NamedTuple):
    """What a line has: whole numbers, a number, and, if ``labelled``, perhaps a name."""

    indices: tuple[str, ...]
    value: str
    labelled: bool

    def __str__(self) -> str:
        return " ".join([*self.indices, self.value, *(["[action]"] if self.labelled else [])])


class Records(NamedTuple):
    """Lines as columns; ``label`` is an index in ``names``, or `NO_LABEL`."""

    indices: list[Ints]
    value: Floats
    label: Ints
    line: Ints
    names: list[str]

    def take(self, kept: Ints) -> Records:
        """Some of the records."""
        return Records(
            [column[kept] for column in self.indices], self.value[kept], self.label[kept], self.line[kept], self.names
        )


class _Codes(dict[str, int]):
    """Numbers names in the order in which they appear."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def first_line(handle: TextIO) -> tuple[int, str, list[str]]:
    """The number of the first line that is not blank or a comment (0 if there is none), the line, and the comments."""
    comments: list[str] = []
    for line, text in numbered(handle):
        if text and not text.startswith("#"):
            return line, text, comments
        if text:
            comments.append(text)
    return 0, "", comments


def read_records(handle: TextIO, line: int, shape: LineShape, complaints: Complaints) -> Records:
    """Read the rest of a file; ``line`` is the number of its next line."""
    codes = _Codes()
    parts = [_columns([[] for _ in shape.indices], [], [], [])]
    while text := handle.read(_CHUNK) + handle.readline():
        part = _by_column(text, line, shape, codes)
        parts.append(_by_line(text, line, shape, codes, complaints) if part is None else part)
        line += text.count("\n")
    indices = [np.concatenate([part.indices[i] for part in parts]) for i in range(len(shape.indices))]
    value, label, lines = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return Records(indices, value, label, lines, list(codes))


def _by_column(text: str, line: int, shape: LineShape, codes: _Codes) -> Records | None:
    """The records of a chunk, if every line has the right shape; else None."""
    if "0x" in text or "0X" in text:  # Arrow reads hexadecimal numbers
        return None
    n = len(shape.indices)
    table = _table(text, n, shape.labelled)
    if table is None and shape.labelled:
        bare = re.compile(rf"^((?:[^ \n]+ ){{{n}}}[^ \n]+)$", re.MULTILINE)
        table = _table(bare.sub(r"\1 ", text), n, True)  # lines without a name get an empty one
    if table is None:
        return None
    *indices, value = (column.to_numpy() for column in table.columns[: n + 1])
    if any((column < 0).any() or (column >= 10**18).any() for column in indices) or not np.isfinite(value).all():
        return None
    lines = np.arange(line, line + len(table), dtype=np.int64)
    label = _codes(table.columns[-1], codes) if shape.labelled else np.full_like(lines, NO_LABEL)
    return Records(indices, value, label, lines, [])


def _table(text: str, n_indices: int, labelled: bool) -> Any:
    """Lines as an Arrow table, or None if one does not have the right shape."""
    types = [*[pa.int64()] * n_indices, pa.float64(), *([pa.dictionary(pa.int32(), pa.string())] if labelled else [])]
    columns = {str(i): kind for i, kind in enumerate(types)}
    content = text.encode()
    try:
        # Without threads: one that still converts when Python ends, as after an error, would abort the process.
        return csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(use_threads=False, column_names=list(columns), block_size=len(content) + 1),
            csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=columns, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None


def _codes(column: Any, codes: _Codes) -> Ints:
    """The numbers of names, `NO_LABEL` for an empty name."""
    parts = [
        np.array([codes[name] if name else NO_LABEL for name in part.dictionary.to_pylist()])[part.indices]
        for part in column.chunks
    ]
    return np.concatenate(parts)


def _by_line(chunk: str, line: int, shape: LineShape, codes: _Codes, complaints: Complaints) -> Records:
    """The records of the valid lines of a chunk; the other lines are problems."""
    kept: list[tuple[list[int], float, int, int]] = []
    for at, text in numbered(chunk.split("\n"), line):
        if not text or text.startswith("#"):
            continue
        try:
            kept.append((*_read_line(text.split(), shape, codes), at))
        except ValueError as error:
            complaints.add(str(error) or f"expected '{shape}', found {quoted(text)}{_hint(text)}", line=at)
    columns = [[indices[i] for indices, *_ in kept] for i in range(len(shape.indices))]
    return _columns(columns, [row[1] for row in kept], [row[2] for row in kept], [row[3] for row in kept])


def _read_line(row: list[str], shape: LineShape, codes: _Codes) -> tuple[list[int], float, int]:
    n = len(shape.indices)
    if len(row) not in (n + 1, n + 2 if shape.labelled else n + 1):
        raise ValueError
    nouns = [*shape.indices, shape.value]
    numbers: list[float] = []
    for noun, text, convert in zip(nouns, row, [*[whole] * n, parsed_number], strict=False):
        try:
            numbers.append(convert(text))
        except ValueError as error:
            if ":" in "".join(row):
                raise ValueError from None
            raise ValueError(f"{noun}: {error}") from None
    return [int(index) for index in numbers[:n]], numbers[n], codes[row[-1]] if len(row) == n + 2 else NO_LABEL


def _hint(text: str) -> str:
    if ":" in text:
        return "; it looks like PRISM's row form, which is not read: export without -exportrows"
    return ""


def _columns(indices: list[list[int]], value: list[float], label: list[int], line: Sequence[int]) -> Records:
    wide = [np.array(column, dtype=np.int64) for column in indices]
    return Records(wide, np.array(value, dtype=np.float64), np.array(label, np.int64), np.array(line, np.int64), [])


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

        complaints.add_each(np.flatnonzero(outside & good), message, lines=records.line)
        good &= ~outside
    return good


def _probabilities(records: Records, complaints: Complaints) -> Ints:
    negative = records.value < 0
    complaints.add_each(
        np.flatnonzero(negative), lambda row: f"the probability {records.value[row]:g} is negative", lines=records.line
    )
    return np.asarray(~negative)


def _names_not_numbers(records: Records, complaints: Complaints) -> Ints:
    """Refuse lines of an MDP after the header of a chain: their last number would be read as the name of an action."""
    numbers = np.array([name[:1].isdigit() or name[:1] == "." for name in records.names] + [False])
    wrong = numbers[records.label]
    complaints.add_each(
        np.flatnonzero(wrong),
        lambda _: "this line has four numbers, as for an MDP, but the header has two, as for a Markov chain",
        lines=records.line,
    )
    return np.asarray(~wrong)


def _choice_indices(records: Records, complaints: Complaints) -> Ints:
    choice = records.indices[1]
    high = choice >= max(choice.size, 1)
    complaints.add_each(
        np.flatnonzero(high),
        lambda row: f"there cannot be a choice {choice[row]}: the file has {choice.size:,} transitions",
        lines=records.line,
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
