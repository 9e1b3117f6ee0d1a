"""Reading a PRISM model: the transitions, and the files beside them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tether._foundation.problems import Complaints
from tether._foundation.writing import read_together
from tether.io.explicit import TOLERANCE, build
from tether.io.plaintext import File, raise_all
from tether.io.prism.companions import Companion, Files, all_names, files_of
from tether.io.prism.prism_rewards import read_state_rewards, read_transition_rewards
from tether.io.prism.prism_states import read_labels, read_states
from tether.io.prism.transitions import read_transitions
from tether.mdp import MDP

__all__ = ["read_prism"]


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
