"""The states of a PRISM model: the values of their variables, ``.sta``, and their labels, ``.lab``.

Storm's version of a ``.lab`` declares labels between ``#DECLARATION`` and ``#END``, and refers to them by name.
"""

from __future__ import annotations

import re
from typing import Any, TextIO

from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.io.plaintext import File, numbered, opened_lines, quoted, whole
from tether.io.prism.prism_records import first_line
from tether.io.valuations import read_value, valuation_class

__all__ = ["read_labels", "read_states"]

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
