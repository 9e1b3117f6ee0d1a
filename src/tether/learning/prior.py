"""The possible outcomes in a learned model: those that were seen, and those that a prior adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tether._foundation.arrays import Ints, spans
from tether.errors import Problem, QueryError
from tether.mdp import MDP
from tether.model.names import Names

Support = Literal["seen", "all"] | MDP | Callable[[Any, Any], Iterable[Any]]

_MOST = 200_000_000
"""More transitions than this would not fit into memory."""

_SMALLEST, _LARGEST = 1e-12, 1e12
"""Between these, a pseudo-count is neither lost beside a count nor much larger than any count."""


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """Transitions by pair (state · actions + action) and outcome, ascending, with how often each was seen."""

    pair: Ints
    outcome: Ints
    times: Ints


def checked_prior(prior: Any, support: Any) -> float | None:
    """The pseudo-count as a float, None for pooled rows; or an error that says which values are allowed."""
    if isinstance(prior, str) and prior == "pooled":
        if support is not None:
            raise QueryError("with prior='pooled' what followed any action of a state may follow all; support= goes "
                             "with a number, such as prior=1")  # fmt: skip
        return None
    number = isinstance(prior, int | float | np.integer | np.floating) and not isinstance(prior, bool)
    if not number or not (prior == 0 or _SMALLEST <= prior <= _LARGEST):
        allowed = f"'pooled', 0, or a number from {_SMALLEST:g} to {_LARGEST:g}"
        raise QueryError(f"prior must be {allowed}: how often each possible outcome counts as seen; not {prior!r}")
    known = support is None or isinstance(support, MDP) or callable(support)
    if not known and not (isinstance(support, str) and support in ("seen", "all")):
        raise QueryError(f"support must be 'seen', 'all', an MDP or a function of state and action, not {support!r}")
    if prior == 0 and support not in (None, "seen"):
        raise QueryError("with prior=0 only what was seen is possible; support= goes with a prior, such as prior=1")
    return float(prior)


def of_states(table: Transitions, pairs: Ints, n_states: int, n_actions: int) -> Transitions:
    """The transitions of each of some pairs to whatever followed any action of its state, with their counts.

    Every state of ``pairs`` (ascending) has a transition in ``table``.
    """
    reached = np.unique(table.pair // n_actions * n_states + table.outcome)
    owner, outcome = np.divmod(reached, n_states)
    first = np.searchsorted(owner, pairs // n_actions)
    end = np.searchsorted(owner, pairs // n_actions, side="right")
    n = int(np.sum(end - first))
    if n > _MOST:
        raise QueryError(
            f"{pairs.size:,} pairs with all outcomes of their states are {n:,} transitions, too many for "
            "memory; use fewer states, or a flat prior over the outcomes of each pair: prior=1"
        )
    at, item = spans(first, end)
    key = pairs[at] * n_states + outcome[item]
    return _counted_at(table, key, n_states)


def _counted_at(table: Transitions, every: Ints, n_states: int) -> Transitions:
    """Transitions by ascending key, pair · states + outcome, with the counts of those that are in ``table``."""
    times = np.zeros(every.size, dtype=np.int64)
    times[np.searchsorted(every, table.pair * n_states + table.outcome)] = table.times
    return Transitions(*np.divmod(every, n_states), times)


def add_support(table: Transitions, states: Names, actions: Names, n_real: int, support: Support | None) -> Transitions:
    """The transitions that were seen, and those that only a prior makes possible; none to states from ``n_real`` on."""
    if support in (None, "seen"):
        return table
    pairs, n_states = np.unique(table.pair), len(states)
    if support == "all":
        if pairs.size * n_real > _MOST:
            raise QueryError(
                f"support='all' makes {pairs.size:,} pairs × {n_real:,} states possible, too many for memory; give "
                "a model or a function that says what each pair can lead to"
            )
        key = (pairs[:, None] * n_states + np.arange(n_real)).reshape(-1)
    else:
        outcomes: Any = _successors(support) if isinstance(support, MDP) else support
        each = [_possible(int(pair), outcomes, states, actions) for pair in pairs]
        key = np.concatenate([np.empty(0, np.int64), *each])
    return _counted_at(table, np.union1d(table.pair * n_states + table.outcome, key), n_states)


def _successors(mdp: MDP) -> Callable[[Any, Any], Iterable[Any]]:
    def outcomes(state: Any, action: Any) -> Iterable[Any]:
        s, a = mdp.states.find(state), mdp.actions.find(action)
        pair = mdp.find_pair(s, a) if s >= 0 and a >= 0 else -1
        return mdp.names_of(mdp.form.next_state[mdp.entries(pair)]) if pair >= 0 else ()

    return outcomes


def _possible(pair: int, outcomes: Callable[[Any, Any], Iterable[Any]], states: Names, actions: Names) -> Ints:
    s, a = divmod(pair, len(actions))
    state, action = states[s], actions[a]
    answer = outcomes(state, action)
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        message = f"support of state {state!r}, action {action!r}: expected a list of states, not {answer!r}"
        raise QueryError(Problem(message, state, action, value=answer))
    found = []
    for after in answer:
        j = states.find(after)
        if j < 0:
            unknown = states.missing(after, "state", place=f"support of state {state!r}, action {action!r}")
            about: Any = {"state": state, "action": action, "next_state": after}
            raise QueryError(replace(unknown, fix=f"{unknown.fix}; name it in states=", argument="states", **about))
        found.append(j)
    return pair * len(states) + np.array(found, dtype=np.int64)
