"""Digests of a model, a log and a question: to notice that one of them changed before an audit is continued."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tether.model.mdp import MDP
from tether.observation.episodes import Episodes

__all__ = ["digest_of_episodes", "digest_of_model", "digest_of_policy"]


def digest_of_model(mdp: MDP) -> str:
    """A digest of all that an answer depends on."""
    digest = hashlib.sha256()
    if mdp.place is not None:  # it was opened from disk and is as it was there
        digest.update(mdp.place.version.encode())
    else:
        form = mdp.form
        _add_names(digest, mdp.states)
        _add_names(digest, mdp.actions)
        arrays = form.pair_start, form.pair_action, form.row_start, form.next_state, form.probability, form.terminal
        _add_arrays(digest, (*arrays, form.rewards.values, mdp.final_reward))
        digest.update(repr((form.rewards.by_entry, form.rewards.horizon, mdp.horizon, mdp.discount)).encode())
        for name, members in mdp.label_sets.items():
            digest.update(repr(name).encode())
            _add_arrays(digest, [members])
        if mdp.counts is not None:
            _add_arrays(digest, [mdp.counts.concentration])
    return digest.hexdigest()


def digest_of_episodes(log: Episodes, problems: Iterable[Any]) -> str:
    """A digest of a log that was read."""
    digest = hashlib.sha256()
    for names in (log.ids, log.states, log.actions):
        _add_names(digest, names)
    _add_arrays(digest, (log.start, log.state, log.action, log.next_state, log.reward, log.outcome))
    _add_names(digest, log.outcomes or ())
    for problem in problems:
        digest.update(repr(problem).encode())
    return digest.hexdigest()


def digest_of_policy(policy: Any) -> str:
    """A digest of a policy; of a function, its name and its code."""
    digest = hashlib.sha256()
    if isinstance(policy, np.ndarray):
        _add_arrays(digest, [policy])
    elif isinstance(policy, str | Mapping):
        digest.update(repr(policy).encode())
    else:
        code = getattr(policy, "__code__", None)
        digest.update(repr(getattr(policy, "__qualname__", type(policy).__qualname__)).encode())
        if code is not None:
            digest.update(code.co_code + repr(code.co_consts).encode())
    return digest.hexdigest()


def _add_names(digest: Any, names: Iterable[Any]) -> None:
    for name in names:
        digest.update(repr(name).encode("utf-8", "backslashreplace"))
        digest.update(b"\0")


def _add_arrays(digest: Any, arrays: Iterable[Any]) -> None:
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
