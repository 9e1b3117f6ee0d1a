"""Reading a PRISM model: the transitions, and the files beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tether._foundation.problems import Complaints
from tether._foundation.writing import read_together
from tether.errors import FileError, Problem, QueryError
from tether.io.explicit import build
from tether.io.plaintext import File, raise_all
from tether.io.prism.rewards import read_state_rewards, read_transition_rewards, structure_of
from tether.io.prism.states import read_labels, read_states
from tether.io.prism.transitions import read_transitions
from tether.model.mdp import MDP

__all__ = ["read_prism"]

Companion = File | Literal[False] | None

_SUFFIXES = {
    "states": (".sta",),
    "labels": (".lab",),
    "state_rewards": (".srew", ".rews"),
    "transition_rewards": (".trew", ".rewt"),
}


def read_prism(
    file: File,
    *,
    states: Companion = None,
    labels: Companion = None,
    state_rewards: Companion = None,
    transition_rewards: Companion = None,
    reward_model: str | Literal[False] | None = None,
    max_unpacked: int | str | None = None,
) -> MDP:
    r"""Read a model from PRISM's explicit files, of an MDP or of a DTMC (then with one action, 0).

    Parameters
    ----------
    file : path
        The transitions, ``.tra``.
    states, labels, state_rewards, transition_rewards : path or False, optional
        The values of the variables in each state, ``.sta``; labels, ``.lab``; rewards, ``.srew`` or ``.rews``,
        ``.trew`` or ``.rewt``. By default the files of the same name beside ``file``; False leaves one out.
    reward_model : str or False, optional
        Which rewards to take, if the headings of the files beside ``file`` name different ones:
        ``# Reward structure "fuel"``. False for none.
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
    given = (states, labels, state_rewards, transition_rewards)
    return read_together(_all_names(file, *given), lambda: _read(_files(file, *given), reward_model, max_unpacked))


def _read(files: _Files, reward_model: str | Literal[False] | None, max_unpacked: int | str | None) -> MDP:
    files = _of_one_structure(files, reward_model, max_unpacked)
    in_tra, in_sta, in_lab, in_srew, in_trew = (Complaints(name or "") for name in files)
    header, rows, n_states = read_transitions(files.tra, in_tra, max_unpacked)
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
    return build(files.tra, rows, n_states, names, reward, of_state, labels)


def _all_names(file: File, *companions: Companion) -> list[str]:
    """The names of all files that may belong to a model, whether they exist or not."""
    stem = _stem(Path(_name(file)))
    beside = [f"{stem}{suffix}" for suffixes in ((".tra",), *_SUFFIXES.values()) for suffix in suffixes]
    return [_name(file), *(_name(given) for given in companions if given), *beside]


class _Files(NamedTuple):
    """The names of the files of a model; None for files that do not exist."""

    tra: str
    sta: str | None
    lab: str | None
    srew: str | None
    trew: str | None


def _files(file: File, states: Companion, labels: Companion, srew: Companion, trew: Companion) -> _Files:
    tra = Path(_name(file))
    if tra.suffix == ".pexp":
        message = "PRISM files with a whole model in one file are not read; export its parts (.tra and others)"
        raise FileError(Problem(message, file=str(tra)))
    files = _Files(
        str(tra),
        _beside(tra, "states", states),
        _beside(tra, "labels", labels),
        _beside(tra, "state_rewards", srew),
        _beside(tra, "transition_rewards", trew),
    )
    if srew is None and trew is None and files.srew is None and files.trew is None:
        _refuse_numbered(tra)
    return files


def _name(file: File) -> str:
    if not isinstance(file, str | os.PathLike):
        raise QueryError(f"expected the name of a file, not {file!r}")
    return os.fspath(file)


def _stem(tra: Path) -> str:
    return str(tra.with_suffix("")) if tra.suffix == ".tra" else str(tra)


def _beside(tra: Path, which: str, given: Companion) -> str | None:
    """The given file, or the file beside the transitions, or None."""
    if given is False:
        return None
    if given is not None:
        return _name(given)
    there = [name for suffix in _SUFFIXES[which] if os.path.isfile(name := _stem(tra) + suffix)]
    if len(there) > 1:
        what, fix = f"there are both {' and '.join(there)} beside it", f"say which is meant, {which}={there[0]!r}"
        raise FileError(Problem(what, file=str(tra), fix=fix, argument=which))
    return there[0] if there else None


def _of_one_structure(files: _Files, wanted: str | Literal[False] | None, max_unpacked: int | str | None) -> _Files:
    """The reward files of one structure: of the wanted one, or of the only one."""
    if wanted is False:
        return files._replace(srew=None, trew=None)
    headings = {name: structure_of(name, max_unpacked) for name in (files.srew, files.trew) if name}
    named = {name: heading for name, heading in headings.items() if heading is not None}
    structures = sorted(set(named.values()))
    text = " and ".join(f"{name} ({heading!r})" for name, heading in named.items())
    if wanted is None:
        if len(structures) > 1:
            what = f"the reward files beside it are of different structures, {text}, and are not added up"
            fix = f"say which is meant, reward_model={structures[0]!r}, or leave one out: state_rewards=False"
            raise FileError(Problem(what, file=files.tra, fix=fix, argument="reward_model"))
        return files
    if wanted not in structures:
        there = f"there are {text}" if named else "no reward file beside it has a name in its heading"
        raise QueryError(Problem(f"there are no rewards {wanted!r}; {there}", file=files.tra, value=wanted))
    srew, trew = (name if name and named.get(name) == wanted else None for name in (files.srew, files.trew))
    return files._replace(srew=srew, trew=trew)


def _refuse_numbered(tra: Path) -> None:
    """PRISM numbers the files of several reward structures; to take none of them without a word would be a guess."""
    suffixes = (*_SUFFIXES["state_rewards"], *_SUFFIXES["transition_rewards"])
    there = [name for suffix in suffixes if os.path.isfile(name := f"{_stem(tra)}1{suffix}")]
    if there:
        what = f"there are several reward structures beside it ({', '.join(there)}, …)"
        fix = "say which is meant, state_rewards=… and transition_rewards=…, or False for none"
        raise FileError(Problem(what, file=str(tra), fix=fix, argument="state_rewards"))
