"""The data of ICU-Sepsis (Choudhary, Gupta and Thomas, 2024), from the package ``icu-sepsis``.

The package has a model of patients with sepsis that was estimated from MIMIC-III: 713 clusters of patients' states,
death (713), survival (714) and the state after both (715); 25 treatments, 5·fluids + vasopressors, each at five levels.
Only its data files are read: none of its code runs, and its requirements need not be installed.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.problems import Complaints
from tether.errors import FileError, Problem, QueryError

_STATES, _ACTIONS = 716, 25
_SHAPES = {
    "tx_mat": (_STATES, _ACTIONS, _STATES),
    "r_mat": (_STATES, _ACTIONS, _STATES),
    "d_0": (_STATES,),
    "expert_policy": (_STATES, _ACTIONS),
    "sofa_scores": (_STATES,),
}


@dataclass(frozen=True, slots=True, eq=False)
class IcuSepsisData:
    """The data of the package, unchanged.

    Attributes
    ----------
    P, R : array (716, 25, 716)
        Probabilities and rewards of transitions. In 713 … 715 an episode is over.
    initial : array (716,)
        The probability that an episode starts in each state.
    expert : array (716, 25)
        The estimated policy of clinicians; rows of zeros if the episode is over.
    admissible : tuple of tuple of int
        For each state, the actions that were frequent enough to estimate their outcomes. The rows of P for the other
        actions are the mean of theirs.
    sofa : array (716,)
        The mean SOFA score of patients in each state; higher is worse.
    """

    P: Floats
    R: Floats
    initial: Floats
    expert: Floats
    admissible: tuple[tuple[int, ...], ...]
    sofa: Floats


def read_icu_sepsis(directory: str | os.PathLike[str] | None = None) -> IcuSepsisData:
    """Read the data of the package ``icu-sepsis``.

    Parameters
    ----------
    directory : path, optional
        The directory of ``dynamics.npz`` and ``admissible_actions.txt``; by default that of the installed package.

    Examples
    --------
    >>> from tether.cases.icu_data import read_icu_sepsis
    >>> data = read_icu_sepsis()
    >>> data.P.shape, data.admissible[0]
    ((716, 25, 716), (5, 10, 15, 20))
    """
    folder = _installed() if directory is None else Path(directory)
    arrays = _arrays(folder / "dynamics.npz")
    admissible = _admissible(folder / "admissible_actions.txt")
    P, R, initial, expert, sofa = (arrays[name] for name in _SHAPES)
    return IcuSepsisData(P, R, initial, expert, admissible, sofa)


def _installed() -> Path:
    """The directory of the data of the installed package; finding a package does not run its code."""
    spec = importlib.util.find_spec("icu_sepsis")
    if spec is None or not spec.submodule_search_locations:
        raise QueryError(
            "the data of ICU-Sepsis come with the package icu-sepsis, which is not installed: "
            "pip install 'tether[icu-sepsis]'"
        )
    return Path(next(iter(spec.submodule_search_locations)), "envs", "assets")


def _arrays(file: Path) -> dict[str, Any]:
    complaints = Complaints(file)
    arrays: dict[str, Any] = {}
    try:
        with file.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            for name, shape in _SHAPES.items():
                array = archive[name] if name in archive else np.empty(0)
                arrays[name] = array
                if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
                    there = f"has shape {array.shape} and type {array.dtype}" if name in archive else "is missing"
                    complaints.add(f"the array {name} {there}; expected {shape} finite numbers, as icu-sepsis 2.0 has")
    except FileNotFoundError:
        complaints.add("there is no such file; expected the data of the package icu-sepsis 2.0")
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        complaints.add(f"it cannot be read ({error}); expected the data of the package icu-sepsis 2.0")
    complaints.raise_any()
    return arrays


def _admissible(file: Path) -> tuple[tuple[int, ...], ...]:
    """The first line says how many actions each state has; then one line per state has these actions."""
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        raise FileError(Problem("there is no such file", file=str(file))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(Problem(f"it cannot be read: {error}", file=str(file))) from None
    complaints = Complaints(file)
    if len(lines) < _STATES + 1:
        complaints.add(f"{len(lines):,} lines; expected {_STATES + 1}, one of counts and one for each state")
    actions = [str(a) for a in range(_ACTIONS)]
    for state, words in enumerate(lines[1 : _STATES + 1]):
        if not words or any(word not in actions for word in words):
            complaints.add(f"expected actions 0 … {_ACTIONS - 1} of state {state}", line=state + 2)
    complaints.raise_any()
    return tuple(tuple(map(int, words)) for words in lines[1 : _STATES + 1])
