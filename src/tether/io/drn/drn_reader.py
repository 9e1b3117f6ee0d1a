"""Reading a DRN file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import numpy as np

from tether._foundation.problems import Complaints
from tether.errors import Problem, QueryError
from tether.io.drn.body import Body, Parsed
from tether.io.drn.header import DrnHeader, read_drn_header
from tether.io.explicit import TOLERANCE, build
from tether.io.plaintext import File, numbered, opened_lines
from tether.mdp import MDP
from tether.model.names import name_list

__all__ = ["read_drn", "with_rewards_of_transitions"]

Wanted = str | Literal[False] | None


def read_drn(
    file: File, *, reward_model: Wanted = None, tolerance: float = TOLERANCE, max_unpacked: int | str | None = None
) -> MDP:
    """Read a model from Storm's DRN format, of an MDP or of a DTMC (then with one action, 0).

    Parameters
    ----------
    file : path
    reward_model : str or False, optional
        Which reward model to take, if there are several; False for none.
    tolerance : float
        How far from 1 the probabilities of a choice may sum: more for a file that was written with few digits. They
        are then divided by their sum.
    max_unpacked : int or str, optional
        The most bytes that a compressed file (``.gz``) may unpack to: ``"4 GB"``. By default 256 MB, or 100 times its
        size if that is more.

    Returns
    -------
    MDP
        States are named by the values of their variables if Storm wrote these into comments
        (``//[x=1 & !on]``), as a named tuple if there are several; by index if not every state has them, or if two
        states have the same. Actions are named as in the file: by index if a choice has no name, and ``a``, ``a#2`` if
        two choices of a state have the same name. R(s, a) is the reward of the state plus that of the action. A state
        without actions is absorbing. Labels are kept: ``init`` has the initial states.

    Examples
    --------
    >>> import tempfile, pathlib, tether.io.drn as drn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "coin.drn")
    ...     _ = file.write_text('''@type: MDP
    ... @reward_models
    ... tosses
    ... @nr_states
    ... 2
    ... @model
    ... state 0 [0] init
    ...     action toss [1]
    ...         0 : 1/2
    ...         1 : 1/2
    ... state 1 [0] heads
    ...     action stop [0]
    ...         1 : 1
    ... ''')
    ...     mdp = drn.read_drn(file)
    >>> mdp.row(0, "toss"), mdp.reward(0, "toss")
    (((0, 1), array([0.5, 0.5])), 1.0)
    >>> mdp.labels
    Labels(init: 1 state, heads: 1 state)
    """
    return with_rewards_of_transitions(file, {}, reward_model, tolerance, max_unpacked)


def with_rewards_of_transitions(
    file: File,
    added: Mapping[tuple[int, int], float],
    reward_model: Wanted = None,
    tolerance: float = TOLERANCE,
    max_unpacked: int | str | None = None,
) -> MDP:
    """As `read_drn`, with rewards by choice (numbered through the file) and next state, which no DRN file can hold."""
    parsed = _parse(file, reward_model, tolerance, max_unpacked)
    reward = None if parsed.rewards is None else parsed.rewards[parsed.rows.pair]
    if reward is not None and added:
        entries = zip(parsed.rows.pair.tolist(), parsed.rows.next_state.tolist(), strict=True)
        reward = reward + np.array([added.get(entry, 0.0) for entry in entries])
    return build(
        file, parsed.rows, parsed.n_states, parsed.names, reward, parsed.state_rewards, parsed.labels, tolerance
    )


def _parse(file: File, reward_model: Wanted, tolerance: float, max_unpacked: int | str | None) -> Parsed:
    with opened_lines(file, max_unpacked) as handle:
        complaints = Complaints(os.fspath(file))
        lines = numbered(handle)
        header = read_drn_header(lines, complaints)
        body = Body(header, complaints, _reward_index(os.fspath(file), header, reward_model))
        for at, text in lines:
            body.read(at, text)
    return body.finish(tolerance)


def _reward_index(file: str, header: DrnHeader, wanted: Wanted) -> int | None:
    """The index of the wanted reward model in a list of rewards; None for none."""
    if wanted is False:
        return None
    if wanted is None:
        if len(header.rewards) > 1:
            what = f"the file has the reward models {name_list(header.rewards)}"
            fix = f"say which is meant, reward_model={header.rewards[0]!r}, or False for none"
            raise QueryError(Problem(what, file=file, fix=fix, argument="reward_model"))
        return 0
    if not wanted and not header.rewards:  # the only one, which has no name
        return 0
    if wanted not in header.rewards:
        there = f"it has {name_list(header.rewards)}" if header.rewards else "it has none with a name"
        raise QueryError(Problem(f"the file has no reward model {wanted!r}; {there}", file=file, value=wanted))
    return header.rewards.index(wanted)
