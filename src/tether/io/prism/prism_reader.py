"""Reading a PRISM model: the transitions, and the files beside them, of the same name or as they are given.

Rewards come in pairs, ``.srew`` for states and ``.trew`` for transitions, one pair for each reward structure. If there
are several structures, PRISM numbers the pairs: ``robot1.srew``, ``robot2.srew``. A heading may name the structure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tether._foundation.problems import Complaints, raise_all
from tether._foundation.writing import read_together
from tether.errors import FileError, Problem, QueryError
from tether.io.explicit import TOLERANCE, build
from tether.io.files import File
from tether.io.prism.prism_annotations import (
    read_labels,
    read_state_rewards,
    read_states,
    read_transition_rewards,
    structure_of,
)
from tether.io.prism.transitions import read_transitions
from tether.mdp import MDP

Companion = File | Literal[False] | None

_SUFFIXES = {
    "states": (".sta",),
    "labels": (".lab",),
    "state_rewards": (".srew", ".rews"),
    "transition_rewards": (".trew", ".rewt"),
}
_REWARDS = ("state_rewards", "transition_rewards")

Structure = dict[str, str]
"""The reward files of one structure, by argument."""


class Files(NamedTuple):
    """The names of the files of a model; None for files that do not exist."""

    tra: str
    sta: str | None
    lab: str | None
    srew: str | None
    trew: str | None


def files_of(
    file: File,
    given: Mapping[str, Companion],
    reward_model: str | Literal[False] | None,
    max_unpacked: int | str | None,
) -> Files:
    """The files of a model. ``given`` has what the arguments of `read_prism` say about each; False leaves one out."""
    tra = Path(_name(file))
    if tra.suffix == ".pexp":
        message = "PRISM files with a whole model in one file are not read; export its parts (.tra and others)"
        raise FileError(Problem(message, file=str(tra)))
    sta, lab = (_beside(tra, _stem(tra), which, given[which]) for which in ("states", "labels"))
    rewards = {} if reward_model is False else _rewards(tra, given, reward_model, max_unpacked)
    return Files(str(tra), sta, lab, *(rewards.get(which) for which in _REWARDS))


def all_names(file: File, given: Mapping[str, Companion]) -> list[str]:
    """The names of all files that may belong to a model, whether they exist or not."""
    tra = Path(_name(file))
    suffixes = [suffix for suffixes in _SUFFIXES.values() for suffix in suffixes]
    stems = [_stem(tra), *_numbered(tra)]
    beside = [stem + suffix for stem in stems for suffix in (".tra", *suffixes)]
    return [str(tra), *(_name(one) for one in given.values() if one), *beside]


def _name(file: File) -> str:
    if not isinstance(file, str | os.PathLike):
        raise QueryError(f"expected the name of a file, not {file!r}")
    return os.fspath(file)


def _stem(tra: Path) -> str:
    return str(tra.with_suffix("")) if tra.suffix == ".tra" else str(tra)


def _beside(tra: Path, stem: str, which: str, given: Companion = None) -> str | None:
    """The given file, or the file of a stem, or None."""
    if given is False:
        return None
    if given is not None:
        return _name(given)
    there = [name for suffix in _SUFFIXES[which] if os.path.isfile(name := stem + suffix)]
    if len(there) > 1:
        what, fix = f"there are both {' and '.join(there)} beside it", f"say which is meant, {which}={there[0]!r}"
        raise FileError(Problem(what, file=str(tra), fix=fix, argument=which))
    return there[0] if there else None


def _numbered(tra: Path) -> list[str]:
    """The stems with a number that have reward files, in order, without those of other models."""
    stem = Path(_stem(tra))
    suffixes = "|".join(re.escape(suffix) for which in _REWARDS for suffix in _SUFFIXES[which])
    numbered = re.compile(rf"{re.escape(stem.name)}([0-9]{{1,9}})(?:{suffixes})")
    try:
        found = {int(match[1]) for name in os.listdir(stem.parent) if (match := numbered.fullmatch(name))}
    except (OSError, ValueError):
        return []  # the reader of the transitions reports a directory that is not there
    return [f"{stem}{number}" for number in sorted(found) if not os.path.exists(f"{stem}{number}.tra")]


def _rewards(
    tra: Path, given: Mapping[str, Companion], wanted: str | None, max_unpacked: int | str | None
) -> Structure:
    """The reward files of the wanted structure, or of the only one."""
    own = _given_pair(tra, given)
    structures = _structures(tra, [own], max_unpacked)
    if not any(given[which] for which in _REWARDS) and (not own or (wanted is not None and wanted not in structures)):
        pairs = [_pair(tra, stem, given) for stem in _numbered(tra)]
        structures |= _structures(tra, pairs, max_unpacked)
    if wanted is not None and wanted in structures:
        return structures[wanted]
    there = " and ".join(
        f"{' with '.join(files.values())}{f' ({name!r})' if name else ''}" for name, files in structures.items()
    )
    if wanted is not None:
        known = f"there are {there}" if any(structures) else "no reward file beside it has a name in its heading"
        raise QueryError(Problem(f"there are no rewards {wanted!r}; {known}", file=str(tra), value=wanted))
    if len(structures) > 1:
        what = f"there are several reward structures, which are not added up: {there}"
        fix = f"say which is meant, reward_model={min(filter(None, structures))!r}, or False for none"
        raise FileError(Problem(what, file=str(tra), fix=fix, argument="reward_model"))
    return next(iter(structures.values()), {})


def _pair(tra: Path, stem: str, given: Mapping[str, Companion]) -> Structure:
    files = {which: _beside(tra, stem, which, given[which]) for which in _REWARDS}
    return {which: file for which, file in files.items() if file is not None}


def _given_pair(tra: Path, given: Mapping[str, Companion]) -> Structure:
    """The pair beside the transitions; if one of it is given by name, the other may be the one beside that file."""
    pair = _pair(tra, _stem(tra), given)
    for which, other in zip(_REWARDS, reversed(_REWARDS), strict=True):
        if given[which] and given[other] is None:
            partner = _beside(tra, os.path.splitext(pair[which])[0], other)
            pair |= {} if partner is None else {other: partner}
    return pair


def _structures(tra: Path, pairs: list[Structure], max_unpacked: int | str | None) -> dict[str, Structure]:
    """Pairs by the name in their headings, or else by their number; a file without a heading goes with the other."""
    structures: dict[str, Structure] = {}
    for pair in filter(None, pairs):
        headings = {which: structure_of(file, max_unpacked) for which, file in pair.items()}
        number = os.path.splitext(next(iter(pair.values())))[0].removeprefix(_stem(tra))
        names = {heading for heading in headings.values() if heading is not None}
        for which, file in pair.items():
            name = headings[which] or next(iter(names), number if number.isdigit() else "")
            there = structures.setdefault(name, {}).setdefault(which, file)
            if there != file:
                what, fix = f"both {there} and {file} have the rewards {name!r}", f"say which is meant: {which}=…"
                raise FileError(Problem(what, file=str(tra), fix=fix, argument=which))
    return structures


def read_prism(
    file: File,
    *,
    states: Companion = None,
    labels: Companion = None,
    state_rewards: Companion = None,
    transition_rewards: Companion = None,
    reward_model: str | Literal[False] | None = None,
    tolerance: float = TOLERANCE,
    max_unpacked: int | str | None = None,
) -> MDP:
    r"""Read a model from PRISM's explicit files, of an MDP or of a DTMC (then with one action, 0).

    Parameters
    ----------
    file : path
        The transitions, ``.tra``.
    states, labels, state_rewards, transition_rewards : path or False, optional
        The values of the variables in each state, ``.sta``; labels, ``.lab``; rewards, ``.srew`` or ``.rews``,
        ``.trew`` or ``.rewt``. By default the files of the same name beside ``file``; False leaves one out. If only
        one of the two files of rewards is given, the other is the one of the same name, if it exists.
    reward_model : str or False, optional
        Which rewards to take, if there are several: the name in the headings of their files,
        ``# Reward structure "fuel"``, or else the number that PRISM gives the files, as in ``robot2.srew``. False for
        none.
    tolerance : float
        How far from 1 the probabilities of a choice may sum: more for a file that was written with few digits. They
        are then divided by their sum.
    max_unpacked : int or str, optional
        The most bytes that each compressed file (``.gz``) may unpack to: ``"4 GB"``. By default 256 MB, or 100 times
        its size if that is more.

    Returns
    -------
    MDP
        States are named by the values of their variables, as a named tuple if there are several; by index if there is
        no ``.sta``. Actions are named as in the file: by index if a choice has no name, and ``a``, ``a#2`` if two
        choices of a state have the same name. The reward of a transition is its own plus that of the state it leaves.
        A state without choices is absorbing and earns its reward at each step, as PRISM fixes deadlocks. Labels are
        kept: ``init`` has the initial states, ``deadlock`` the fixed ones.

    Examples
    --------
    >>> import tempfile, pathlib, tether.io.prism as prism
    >>> folder = tempfile.TemporaryDirectory()
    >>> tra = pathlib.Path(folder.name, "robot.tra")
    >>> _ = tra.write_text('''2 3 4
    ... 0 0 0 0.2 go
    ... 0 0 1 0.8 go
    ... 0 1 0 1 wait
    ... 1 0 1 1 wait
    ... ''')
    >>> _ = tra.with_suffix(".trew").write_text("2 3 1\n0 0 1 10\n")
    >>> mdp = prism.read_prism(tra)
    >>> mdp.row(0, "go"), mdp.reward(0, "go")
    (((0, 1), array([0.2, 0.8])), 8.0)
    >>> folder.cleanup()
    """
    given = {
        "states": states,
        "labels": labels,
        "state_rewards": state_rewards,
        "transition_rewards": transition_rewards,
    }
    return read_together(
        all_names(file, given),
        lambda: _read(files_of(file, given, reward_model, max_unpacked), tolerance, max_unpacked),
    )


def _read(files: Files, tolerance: float, max_unpacked: int | str | None) -> MDP:
    in_tra, in_sta, in_lab, in_srew, in_trew = (Complaints(name or "") for name in files)
    header, rows, n_states = read_transitions(files.tra, in_tra, tolerance, max_unpacked)
    in_tra.raise_any()
    names = None if files.sta is None else read_states(files.sta, n_states, in_sta, max_unpacked)
    labels = {} if files.lab is None else read_labels(files.lab, n_states, in_lab, max_unpacked)
    of_state = None
    if files.srew is not None:
        of_state = read_state_rewards(files.srew, header, n_states, in_srew, max_unpacked)
    reward = None if of_state is None else of_state[rows.state]
    if files.trew is not None:
        extra = read_transition_rewards(files.trew, header, rows, n_states, in_trew, max_unpacked)
        with np.errstate(over="ignore"):  # the model refuses rewards that are not finite
            reward = extra if reward is None else reward + extra
    raise_all(in_sta, in_lab, in_srew, in_trew)
    return build(files.tra, rows, n_states, names, reward, of_state, labels, tolerance)
