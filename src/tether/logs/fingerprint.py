"""Digests of a model, a log and a question: to notice that one of them changed before an audit is continued."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from tether._foundation.code_digest import digest_of_code
from tether.conditioning.couplings import Comonotone
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.mechanisms import KINDS
from tether.conditioning.row_function import RowMechanism
from tether.influence.advisable import Advisable
from tether.mdp import MDP
from tether.observation.episodes import Episodes
from tether.observation.path import Path
from tether.plan.policy import as_array, follows_the_record, make_policy

_MOST_DECISIONS = 1_000_000
"""If a policy decides more often than this, its decisions are not compared: it would take too long."""

_NOT_IN_ANSWERS = {"transitions", "dropped", "place", "reading", "skipped"}
"""What `Counts` has that is no number of an answer, or is digested as an array."""


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
        rewards = form.rewards.by_entry, form.rewards.horizon
        digest.update(repr((*rewards, mdp.horizon, mdp.discount)).encode())
        for name, members in mdp.label_sets.items():
            digest.update(repr(name).encode())
            _add_arrays(digest, [members])
        digest.update(repr(sorted(mdp.label_sets.sides.items())).encode())
        if (counts := mdp.counts) is not None:  # folds, placebos, draws and what may be advised come from these
            _add_arrays(digest, (counts.transitions, counts.dropped))
            others = [one.name for one in fields(counts) if one.name not in _NOT_IN_ANSWERS]
            digest.update(repr([getattr(counts, name) for name in others]).encode())
    return digest.hexdigest()


def digest_of_episodes(log: Episodes, problems: Iterable[Any]) -> str:
    """A digest of a log that was read; ``problems`` says what is wrong with the rest of it."""
    digest = hashlib.sha256()
    for names in (log.ids, log.states, log.actions):
        _add_names(digest, names)
    _add_arrays(digest, (log.start, log.state, log.action, log.next_state, log.reward, log.outcome))
    _add_names(digest, log.outcomes or ())
    _add_names(digest, problems)
    return digest.hexdigest()


def digest_of_values(values: Iterable[Any]) -> str:
    """A digest of plain values, in their order."""
    digest = hashlib.sha256()
    _add_names(digest, values)
    return digest.hexdigest()


def digest_of_policy(mdp: MDP, policy: Any, longest: Callable[[], int]) -> tuple[str | None, str]:
    """A digest of what a policy decides in every state at every time, or None and the reason why there is none.

    An array is digested as it is. Any other policy is asked for its decisions, because what an object or a function
    decides may depend on anything that it refers to. ``longest`` returns the number of steps of the longest episode.
    """
    digest = hashlib.sha256()
    if isinstance(policy, str):
        digest.update(policy.encode())
    elif (array := as_array(policy)) is not None:
        _add_arrays(digest, [array])
    elif callable(getattr(policy, "given", None)):
        return None, "what this policy does may depend on the whole record of an episode"
    else:
        steps = _timed_steps(mdp, policy) if isinstance(policy, Mapping) else longest()
        records = _records(mdp, steps) if follows_the_record(policy) else [None]
        if steps * mdp.n_states * len(records) > _MOST_DECISIONS:
            of_records = "" if len(records) == 1 else f" × {len(records):,} recorded actions"
            asked = f"{mdp.n_states:,} states × {steps:,} steps{of_records}"
            return None, f"a policy of this kind is compared by all its decisions, and {asked} are too many"
        for record in records:
            _add_decisions(digest, mdp, policy, steps, record)
    return digest.hexdigest(), ""


def digest_of_mechanism(mechanism: Mechanism) -> tuple[str | None, str]:
    """A digest of a mechanism, with the order of states or the function that it has; or None, and why."""
    if isinstance(mechanism, RowMechanism):
        return digest_of_code(mechanism.function)
    if isinstance(mechanism, Comonotone):
        return digest_of_values([mechanism.name, None if mechanism.rank is None else mechanism.rank.tolist()]), ""
    return (mechanism.name, "") if type(mechanism) in KINDS else digest_of_code(mechanism)


def digest_of_changes(mdp: MDP, advisable: Advisable, longest: Callable[[], int]) -> tuple[str | None, str]:
    """A digest of which changes may be advised, and of their prices; or None and the reason why there is none.

    Functions are asked about every change, as policies are.
    """
    digest, steps = hashlib.sha256(), longest() if advisable.has_functions else advisable.steps_told_apart
    if advisable.has_functions and steps * mdp.n_pairs > _MOST_DECISIONS:
        asked = f"{mdp.n_pairs:,} actions in states × {steps:,} steps"
        return None, f"functions about changes are compared by all that they say, and {asked} are too many"
    every = np.arange(mdp.n_pairs)
    for t in range(steps):
        _add_arrays(digest, (advisable.forbidden(t, every), advisable.prices(t, every)))
    return digest.hexdigest(), ""


def _records(mdp: MDP, steps: int) -> list[Path | None]:
    """Records with each action of the model at every step."""
    return [Path([mdp.states[0]] * (steps + 1), [action] * steps) for action in mdp.actions]


def _timed_steps(mdp: MDP, table: Mapping[Any, Any]) -> int:
    """How many steps a mapping tells apart: those with keys (time, state), and one more, for all later ones."""
    times = [key[0] for key in table if key not in mdp.states and isinstance(key, tuple) and key]
    return max((int(t) + 2 for t in times if isinstance(t, int | np.integer) and t >= 0), default=1)


def _add_decisions(digest: Any, mdp: MDP, policy: Any, steps: int, record: Path | None) -> None:
    decide = make_policy(mdp, policy, steps, record)
    for t in range(steps):
        for s in range(mdp.n_states):
            try:
                decided = repr([(pair, float(chance)) for pair, chance in decide(t, s)])
            except Exception as error:  # it need not have an answer where no episode leads
                decided = f"{type(error).__qualname__}: {error}"
            digest.update(decided.encode("utf-8", "backslashreplace") + b"\0")


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
