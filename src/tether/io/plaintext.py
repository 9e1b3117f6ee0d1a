"""Text files of other tools: numbers that are none, and names, numbers and rewards as these tools can read them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.words import cut
from tether.errors import FileError, Problem, QueryError
from tether.io.files import File, checked_text, opened_bytes
from tether.mdp import MDP

_RATIONAL = re.compile(r"[+-]?[0-9]{1,4000}/[0-9]{1,4000}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTERVAL = re.compile(r"\[.*,.*\]")


@contextmanager
def opened_lines(file: File, max_unpacked: int | str | None = None) -> Iterator[TextIO]:
    """Open a text file, line by line; why it cannot be read, now or further on, becomes a `FileError`."""
    with opened_bytes(file, max_unpacked) as stream:
        try:
            with TextIOWrapper(stream, encoding="utf-8-sig") as text:
                yield text
        except UnicodeDecodeError:
            checked_text(file, max_unpacked)  # raises an error with every line that is not text
            raise


def numbered(lines: Iterable[str], start: int = 1) -> Iterator[tuple[int, str]]:
    """Lines without the space around them, with their numbers."""
    for line, text in enumerate(lines, start=start):
        yield line, text.strip()


def quoted(text: str) -> str:
    """Text from a file as a message quotes it.

    >>> quoted("a" * 70)[-4:]
    "aa…'"
    """
    return repr(cut(text.strip(), 60))


def parsed_number(text: str) -> float:
    """A finite number written as a decimal or a fraction; `ValueError` with a reason for anything else.

    >>> parsed_number("1/8"), parsed_number("5e-1")
    (0.125, 0.5)
    """
    if "/" in text and _RATIONAL.fullmatch(text):
        above, below = (int(part) for part in text.split("/"))
        if below == 0:
            raise ValueError(f"{quoted(text)} divides by 0")
        try:
            return above / below
        except OverflowError:
            raise ValueError(f"{quoted(text)} is too large") from None
    if not _DECIMAL.fullmatch(text):
        if _INTERVAL.fullmatch(text):
            raise ValueError(f"{quoted(text)} is an interval, and models with intervals are not read")
        raise ValueError(f"expected a number, found {quoted(text)}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{quoted(text)} is too large")
    return value


def whole(text: str) -> int:
    """A whole number from 0; `ValueError` with a reason for anything else.

    >>> whole("12")
    12
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a whole number, found {quoted(text)}")
    if len(text) > 18:
        raise ValueError(f"{quoted(text)} is too large")
    return int(text)


def target_of(mdp: MDP, file: File) -> str:
    """The name of the file to write a model to; both are checked."""
    if not isinstance(mdp, MDP):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}")
    if not isinstance(file, str | os.PathLike):
        raise QueryError(f"expected the name of a file, not {file!r}")
    name = os.fspath(file)
    if "\0" in name:
        raise FileError(Problem(f"{name!r} is not the name of a file: it has a NUL in it", value=name))
    return name


def spelled(values: Floats) -> list[str]:
    """Numbers as text: the shortest text that is read back exactly.

    >>> spelled(np.array([0.1, 1.0, -2e300]))
    ['0.1', '1', '-2e+300']
    """
    return [text.removesuffix(".0") for text in map(repr, values.tolist())]


def entry_rewards(mdp: MDP, tool: str) -> Floats:
    """The reward of every transition."""
    _refuse_timed(mdp, tool)
    values = mdp.rewards.values
    return values if mdp.rewards.by_entry else np.repeat(values, np.diff(mdp.form.row_start))


def pair_rewards(mdp: MDP, tool: str, mean: bool) -> Floats:
    """The reward of every pair; with ``mean_rewards``, the mean over its transitions."""
    _refuse_timed(mdp, tool)
    values = mdp.rewards.values
    if not mdp.rewards.by_entry:
        return values
    if not mean:
        what = f"{tool} holds rewards of actions, but those of this model depend on the next state"
        fix = "mean_rewards=True writes their means, R(s, a) = Σ P(s'|s, a)·R(s, a, s')"
        raise QueryError(Problem(what, fix=fix, argument="mean_rewards"))
    return np.add.reduceat(values * mdp.form.probability, mdp.form.row_start[:-1])


def _refuse_timed(mdp: MDP, tool: str) -> None:
    if mdp.rewards.horizon is not None:
        raise QueryError(f"the rewards of this model depend on time, which {tool} does not hold; use MDP.save")
