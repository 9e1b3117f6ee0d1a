"""Gymnasium environments that carry their model: a tabular ``P``, as FrozenLake, CliffWalking and Taxi have.

``P[s][a]`` lists ``(probability, next state, reward, terminated)``. There, a transition ends an episode; in a model,
an absorbing state does. A state entered with ``terminated`` becomes absorbing, and its own rows in ``P`` are dropped:
no episode can use them. If an episode can also enter the same state without ending, the end gets a state of its own, a
twin named ``(s, "end")``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tether.errors import Problem, QueryError
from tether.mdp import MDP

_FORM = "{state: {action: [(probability, next_state, reward, terminated), …]}}"


class _Move(NamedTuple):
    state: Any
    action: Any
    probability: float
    next_state: Any
    reward: float
    ends: bool


def from_gymnasium(env: Any) -> MDP:
    """Build a model from a Gymnasium environment with a tabular ``P``.

    Parameters
    ----------
    env : gymnasium.Env or mapping
        An environment, wrapped or not, whose ``unwrapped.P`` is a table, or such a table itself:
        ``P[state][action]`` a list of ``(probability, next_state, reward, terminated)``.

    Returns
    -------
    MDP
        States and actions are the numbers of the environment. Ends of episodes are absorbing, with a reward of 0;
        rewards depend on the next state. Entries of the same state, action and next state are added up, and their
        reward is the mean. A time limit is not part of the table, nor of the model. FrozenLake's map gives the labels
        ``goal`` and ``hole``.

    Notes
    -----
    If the environment says in which states episodes start (``initial_state_distrib``, as all of Gymnasium's do), only
    transitions that an episode can reach decide whether a state is entered without ending. Taxi, for example, also
    lists moves of a passenger who is at the destination before the ride.

    Examples
    --------
    >>> import tether
    >>> from tether.io.gym import from_gymnasium
    >>> P = {
    ...     0: {"step": [(0.5, 0, 0.0, False), (0.5, 1, 1.0, True)]},
    ...     1: {"step": [(1.0, 0, 5.0, False)]},
    ... }
    >>> mdp = from_gymnasium(P)
    >>> mdp.row(0, "step"), mdp.reward(0, "step", 1), mdp.row(1, "step")
    (((0, 1), array([0.5, 0.5])), 1.0, ((1,), array([1.])))

    `tether.io.record` plays an episode of an environment, as a path of this model.
    """
    table, name = _table(env)
    moves = list(_moves(table, name))
    states = _states(table, moves)
    ends, twins = _ends(moves, _starts(env, states))
    rows = _merged(moves, ends, twins)
    extra = [(state, "end") for state in states if state in twins]
    left = {row[0] for row in rows}
    mdp = MDP.from_table(
        *(zip(*rows, strict=True) if rows else [[]] * 5),
        states=[*states, *extra],
        terminal=[*(state for state in states if state not in left), *extra],
    )
    marked = _marked(env, states, set(extra))
    return mdp.with_labels(marked, good=[*marked.keys() & {"goal"}], bad=[*marked.keys() & {"hole"}])


def _marked(env: Any, states: list[Any], twins: set[Any]) -> dict[str, list[Any]]:
    """Labels ``goal`` and ``hole`` of a map with a letter per state, as FrozenLake's: ``SFFH…G``."""
    letters = np.asarray(getattr(getattr(env, "unwrapped", env), "desc", b"")).reshape(-1)
    if letters.dtype.kind != "S" or letters.size != len(states) or states != list(range(letters.size)):
        return {}
    if not set(letters.tolist()) <= {b"S", b"F", b"H", b"G"}:
        return {}
    found: dict[str, list[Any]] = {}
    for name, letter in (("goal", b"G"), ("hole", b"H")):
        cells = np.flatnonzero(letters == letter).tolist()
        if cells:
            found[name] = [*cells, *((s, "end") for s in cells if (s, "end") in twins)]
    return found


def _table(env: Any) -> tuple[Any, str]:
    """The table of transitions, and what to call it in a message."""
    if isinstance(env, Mapping | list | tuple):
        return env, "P"
    if isinstance(env, str):
        raise QueryError(f"expected an environment, not its name: gymnasium.make({env!r})")
    spec = getattr(env, "spec", None)
    name = getattr(spec, "id", None) or type(env).__name__
    table = table_of(env)
    if table is None:
        what = f"{name} has no table of transitions (unwrapped.P), as FrozenLake-v1 or Taxi-v4 has"
        fix = "record episodes with tether.io.record(env, n=1000), and learn a model: tether.learn(episodes)"
        raise QueryError(Problem(what, expectation=f"an environment with one, or a table P = {_FORM}", fix=fix))
    return table, f"{name}: P"


def table_of(env: Any) -> Any:
    """The table of transitions of an environment; None without."""
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    return table if isinstance(table, Mapping | list | tuple) else None


def _items(table: Any, where: str) -> Iterator[tuple[Any, Any]]:
    if isinstance(table, Mapping):
        yield from ((_plain(key), value) for key, value in table.items())
    elif isinstance(table, Sequence) and not isinstance(table, str):
        yield from enumerate(table)
    else:
        raise QueryError(f"{where} is {table!r}; expected P = {_FORM}")


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _moves(table: Any, name: str) -> Iterator[_Move]:
    for state, actions in _items(table, name):
        for action, outcomes in _items(actions, f"{name}[{state!r}]"):
            where = f"{name}[{state!r}][{action!r}]"
            if not isinstance(outcomes, Iterable) or isinstance(outcomes, str | Mapping):
                raise QueryError(Problem(f"{where} is {outcomes!r}; expected P = {_FORM}", state, action))
            for outcome in outcomes:
                yield _move(state, action, outcome, where)


def _move(state: Any, action: Any, outcome: Any, where: str) -> _Move:
    try:
        probability, next_state, reward, ends = outcome
        move = _Move(state, action, float(probability), _plain(next_state), float(reward), bool(ends))
        hash(move.next_state)
    except (TypeError, ValueError, OverflowError):
        wanted = "(probability, next_state, reward, terminated)"
        message = f"{where} lists {outcome!r}; expected {wanted}"
        raise QueryError(Problem(message, state, action, value=outcome)) from None
    if not (np.isfinite(move.probability) and move.probability >= 0 and np.isfinite(move.reward)):
        message = f"{where} lists {outcome!r}; its probability must be 0 or more, and both it and the reward finite"
        raise QueryError(Problem(message, state, action, value=outcome))
    return move


def _states(table: Any, moves: list[_Move]) -> list[Any]:
    """All states: whole numbers in ascending order, others as they are listed, then those only led to."""
    states = list(dict.fromkeys([*(state for state, _ in _items(table, "P")), *(move.next_state for move in moves)]))
    return sorted(states) if all(type(state) is int for state in states) else states


def _starts(env: Any, states: list[Any]) -> set[Any] | None:
    """The states episodes start in, if the environment says so."""
    chances = getattr(getattr(env, "unwrapped", env), "initial_state_distrib", None)
    if chances is None or np.shape(chances) != (len(states),) or states != list(range(len(states))):
        return None
    return set(np.flatnonzero(np.asarray(chances)).tolist())


def _ends(moves: list[_Move], starts: set[Any] | None) -> tuple[set[Any], set[Any]]:
    """States that are ends of episodes, and those that are that and also entered without ending."""
    live = [move for move in moves if not move.ends and move.probability > 0]
    entered = {move.next_state for move in live}
    if starts is not None:
        entered = _reached(live, starts)
    over = {move.next_state for move in moves if move.ends and move.probability > 0}
    return over - entered, over & entered


def _reached(live: list[_Move], starts: set[Any]) -> set[Any]:
    """States an episode can be in and go on from."""
    after: dict[Any, set[Any]] = {}
    for move in live:
        after.setdefault(move.state, set()).add(move.next_state)
    reached, todo = set(starts), list(starts)
    while todo:
        new = after.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached


def _merged(moves: list[_Move], ends: set[Any], twins: set[Any]) -> list[tuple[Any, Any, Any, float, float]]:
    """Rows of a table, one per transition: probabilities added up, rewards averaged; none for states that absorb."""
    added: dict[tuple[Any, Any, Any], tuple[float, float]] = {}
    for move in moves:
        if move.state in ends or move.probability == 0:
            continue
        to = (move.next_state, "end") if move.ends and move.next_state in twins else move.next_state
        chance, mean = added.get((move.state, move.action, to), (0.0, 0.0))
        chance += move.probability
        mean += (move.reward - mean) * (move.probability / chance)  # exact where all are the same
        added[move.state, move.action, to] = chance, mean
    return [(*key, *value) for key, value in added.items()]
