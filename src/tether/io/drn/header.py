"""The sections of a DRN file before ``@model``: what kind of model it is, and how large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tether._foundation.problems import Complaints
from tether.io.plaintext import parsed_number, quoted, whole

_REFUSED = {
    "ctmc": "a continuous-time Markov chain: its numbers are rates, not probabilities",
    "markov automaton": "a Markov automaton, which has rates",
    "ma": "a Markov automaton, which has rates",
    "pomdp": "partially observable: what may be done depends on observations, which an MDP does not have",
    "smg": "a game of several players",
    "s2pg": "a game of two players",
}
_VALUES = ("double", "rational")
_SECTIONS = ("type", "value_type", "parameters", "placeholders", "reward_models", "nr_states", "nr_choices")


@dataclass(slots=True)
class DrnHeader:
    """The contents of the sections; sizes are None if they are left out."""

    chain: bool = False
    rewards: list[str] = field(default_factory=list)
    placeholders: dict[str, float] = field(default_factory=dict)
    n_states: int | None = None
    n_choices: int | None = None
    line: int = 0


@dataclass(slots=True)
class _Section:
    line: int
    said: list[tuple[int, str]]

    def text(self) -> str:
        return " ".join(text for _, text in self.said)


def read_drn_header(lines: Iterator[tuple[int, str]], complaints: Complaints) -> DrnHeader:
    """Read up to the line ``@model``; refuse models that are not an MDP or DTMC with known probabilities."""
    sections, model = _sections(lines, complaints)
    header = DrnHeader(line=model)
    _kind(sections, header, complaints)
    parameters = sections.get("parameters")
    if parameters is not None and parameters.text():
        names = quoted(parameters.text())
        complaints.add(f"the model has parameters, {names}; give them values first", line=parameters.line)
    if not complaints.total:
        _placeholders(sections.get("placeholders"), header, complaints)
    if "reward_models" in sections:
        header.rewards = [name.strip('"') for name in sections["reward_models"].text().split()]
    header.n_states = _size(sections.get("nr_states"), complaints)
    header.n_choices = _size(sections.get("nr_choices"), complaints)
    complaints.raise_any()
    return header


def _sections(lines: Iterator[tuple[int, str]], complaints: Complaints) -> tuple[dict[str, _Section], int]:
    sections: dict[str, _Section] = {}
    current: _Section | None = None
    at = 0
    for at, text in lines:
        if text.startswith("//") or not text:
            continue
        if not text.startswith("@"):
            if current is None:
                complaints.add(f"expected a section as '@type: MDP' first, found {quoted(text)}", line=at)
                complaints.raise_any()
            else:
                current.said.append((at, text))
            continue
        name, _, rest = text[1:].replace(":", " ", 1).partition(" ")
        if name == "model":
            return sections, at
        current = _Section(at, [(at, rest.strip())] if rest.strip() else [])
        if name in sections:
            complaints.add(f"the section @{name} is given twice", line=at)
        elif name in _SECTIONS:
            sections[name] = current
        else:
            there = ", ".join(f"@{one}" for one in (*_SECTIONS, "model"))
            complaints.add(f"there is no section {quoted('@' + name)}; expected one of {there}", line=at)
    complaints.add("the file ends before the section @model" if at else "the file is empty; expected a DRN model")
    complaints.raise_any()
    raise AssertionError


def _kind(sections: dict[str, _Section], header: DrnHeader, complaints: Complaints) -> None:
    if "type" not in sections:
        complaints.add("the section @type is missing; expected '@type: MDP' or '@type: DTMC'")
        return
    section = sections["type"]
    kind = section.text().lower()
    header.chain = kind == "dtmc"
    if kind in _REFUSED:
        complaints.add(f"the model is {_REFUSED[kind]}; expected an MDP or a DTMC", line=section.line)
    elif kind not in ("mdp", "dtmc"):
        complaints.add(f"expected '@type: MDP' or '@type: DTMC', found {quoted(section.text())}", line=section.line)
    values = sections.get("value_type")
    if values is not None and values.text().lower() not in _VALUES:
        known = " or ".join(_VALUES)
        complaints.add(f"the values are {quoted(values.text())}; only {known} ones are read", line=values.line)


def _placeholders(section: _Section | None, header: DrnHeader, complaints: Complaints) -> None:
    """Names for values. Expressions are not read: they would need parameters."""
    for at, text in section.said if section is not None else []:
        name, _, value = (part.strip() for part in text.partition(":"))
        try:
            if not name.startswith("$") or not value:
                raise ValueError(f"found {quoted(text)}")
            header.placeholders[name] = parsed_number(value)
        except ValueError as error:
            complaints.add(f"expected a placeholder as '$name : number': {error}", line=at)


def _size(section: _Section | None, complaints: Complaints) -> int | None:
    if section is None:
        return None
    try:
        return whole(section.text())
    except ValueError as error:
        complaints.add(str(error), line=section.said[0][0] if section.said else section.line)
        return None
