"""Policies of the user: functions, tables and arrays, converted to one form.

A policy says what to do at step t in a state: an action's name, a distribution ``{action: probability}``, or one
probability for each action of the model (a list, an array or a tensor). It may be given as

- a function of the state, of the time and the state, or of the time, the state and the recorded action ("as recorded,
  except …");
- an object with a method ``predict`` that takes the state, as those of reinforcement learning libraries; it may return
  the answer alone, or (answer, hidden state);
- a mapping from states, or from (time, state), to such an answer; a key that is itself a state counts as a state;
- a list, array or tensor (states,) or (T, states): names of actions if it has words, and otherwise whole numbers, the
  indices of actions in the model's order;
- a list, array or tensor of numbers (states, actions) or (T, states, actions): probabilities;
- a data frame or table with the columns state and action and, where wanted, t and probability; or with a column of
  probabilities for each action, and the states in a column or as its index;
- a series of pandas with the states as its index;
- an object with a method ``given(path)`` that returns the policy about an observed episode, in one of these forms;
  without an episode it is asked as a function;
- ``"random"``: each available action equally likely;
- ``"optimal"``: the best policy in the plain model over the episode's steps, for the return or the property asked for;
- ``"observed"``: the observed actions, whatever happens; only if there is an observed episode.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.core.chain import Taken, Visits
from tether.errors import Problem, QueryError
from tether.model.form import all_pair_states
from tether.model.model_record import ModelRecord
from tether.model.names import name_list
from tether.model.practice import Practice
from tether.model.product import Memory, memory_of
from tether.model.properties import Property
from tether.observation.changes import nothing_to_change
from tether.observation.path import Path
from tether.plan.solution import Solution, solve

_TOLERANCE = 1e-5
"""How far from 1 the probabilities of a policy may sum: those of a network are numbers of single precision."""

_TOLERANCE_OF_HALVES = 4e-3
"""As above, for numbers of half precision."""

Policy = Callable[[int, int], list[tuple[int, float]]]
"""(time, state index) to pairs and their probabilities."""


def make_policy(
    mdp: ModelRecord,
    policy: Any,
    horizon: int,
    path: Path | None = None,
    objective: Property | None = None,
    minimise: bool = False,
) -> Policy:
    """Convert any of the forms above to one: a function from time and state index to pairs and probabilities.

    ``horizon`` is the number of steps; ``path`` is the observed episode, if there is one; ``objective`` and
    ``minimise`` say what the policy "optimal" is best for.
    """
    if isinstance(policy, str):
        return _by_name(mdp, policy, horizon, path, objective, minimise)
    memory = memory_of(mdp)
    if memory is not None and not (isinstance(policy, Solution) and memory_of(policy.mdp) is not None):
        return _carried(mdp, memory, make_policy(memory.mdp, policy, horizon, _own_path(path)))
    if path is not None and callable(getattr(policy, "given", None)):
        policy = policy.given(path)
    if _is_series(policy):
        policy = policy.to_dict()
    array = as_array(policy)
    if array is not None:
        return _from_array(mdp, _indices(mdp, array) if array.dtype.kind == "U" else array)
    if hasattr(policy, "__arrow_c_stream__"):
        policy = _from_frame(mdp, policy)
    if isinstance(policy, Mapping):
        return _from_answers(mdp, _lookup(mdp, policy))
    if callable(getattr(policy, "predict", None)):
        return _from_answers(mdp, _predicted(policy))
    if callable(policy):
        return _from_answers(mdp, _of_time_and_state(policy, path))
    what = (
        "a policy is a function, an object with predict, a mapping, a table, an array, 'observed', 'optimal' or "
        f"'random', not a {type(policy).__name__}"
    )
    is_plan = callable(getattr(policy, "on", None))
    raise QueryError(Problem(what, fix="follow the plan in this model: plan.on(mdp)" if is_plan else ""))


def _own_path(path: Path | None) -> Path | None:
    """An episode of a product with the model's own names."""
    if path is None:
        return None
    return Path([name.state for name in path.states], path.actions, path.rewards, path.outcome)


def _carried(mdp: ModelRecord, memory: Memory, policy: Policy) -> Policy:
    """A policy of a model in its product: what it does in a state, whatever remains."""
    first, own = mdp.form.pair_start, memory.mdp.form.pair_start

    def decide(t: int, s: int) -> list[tuple[int, float]]:
        state = int(memory.state[s])
        return [(int(first[s]) + pair - int(own[state]), chance) for pair, chance in policy(t, state)]

    return decide


def shares_of_pairs(mdp: ModelRecord, usual: Any = None) -> Floats:
    """How often each pair of the model is taken in its state, under a policy of the state alone.

    Without a policy it is usual practice where the model was learned (`tether.model.practice`), and otherwise each
    action equally often.
    """
    memory = memory_of(mdp)
    if memory is not None:
        return shares_of_pairs(memory.mdp, usual)[memory.pair]
    form, share = mdp.form, np.ones(mdp.n_pairs)
    if usual is None and mdp.counts is not None:
        return Practice(mdp, mdp.counts).shares
    width = np.diff(form.pair_start)
    if usual is None or (isinstance(usual, str) and usual == "random"):
        return 1.0 / np.repeat(width, width)
    policy, states = make_policy(mdp, usual, 1), np.flatnonzero(width > 1)
    for s in states[~nothing_to_change(form, states, -1)].tolist():  # in absorbing states nobody chooses
        share[form.pair_start[s] : form.pair_start[s + 1]] = 0.0
        for pair, chance in policy(0, s):
            share[pair] = chance
    return share


def as_array(policy: Any) -> Any:
    """A policy given as a list, an array or a tensor, as an array; None if it is given in another way."""
    if isinstance(policy, np.ndarray):
        return policy
    if _is_series(policy):
        return None
    if isinstance(policy, list) or (hasattr(policy, "__array__") and not hasattr(policy, "__arrow_c_stream__")):
        return _detached(policy)
    return None


def _is_series(policy: Any) -> bool:
    """Whether it is a series of pandas, whose index has the states."""
    return callable(getattr(policy, "to_dict", None)) and hasattr(policy, "index") and not hasattr(policy, "columns")


def _detached(values: Any) -> Any:
    """Values as an array; a tensor that records gradients is detached first."""
    try:
        return np.asarray(values.detach() if hasattr(values, "detach") else values)
    except ValueError as error:  # lists of different lengths
        raise QueryError(f"the policy cannot be read as an array: {error}") from None


def _indices(mdp: ModelRecord, names: Any) -> Any:
    """The indices of actions in an array of their names."""
    known, at = np.unique(names, return_inverse=True)
    for name in known.tolist():
        if name not in mdp.actions:
            raise QueryError(mdp.actions.missing(name, "action", place="the policy"))
    return np.array([mdp.actions.find(name) for name in known.tolist()])[at].reshape(names.shape)


def _predicted(policy: Any) -> Callable[[int, Any], Any]:
    def ask(_t: int, state: Any) -> Any:
        answer = policy.predict(state)
        return answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer

    return ask


def _from_frame(mdp: ModelRecord, frame: Any) -> dict[Any, dict[Any, float]]:
    """A table as a mapping: one with the columns state, action and perhaps t and probability, or a wide one."""
    import pyarrow as pa

    table = pa.table(frame)
    wide = {name: mdp.actions[a] for a, name in enumerate(map(str, mdp.actions)) if name in table.column_names}
    if wide and "action" not in table.column_names:
        indexed = pa.Table.from_pandas(frame, preserve_index=True) if hasattr(frame, "iloc") else table
        return _from_wide(mdp, indexed, wide)
    missing = [name for name in ("state", "action") if name not in table.column_names]
    if missing:
        message = f"a policy's table needs the columns state and action; it has {', '.join(table.column_names)}"
        raise QueryError(Problem(message, fix="rename its columns"))
    rows = {
        name: table[name].to_pylist() for name in ("t", "state", "action", "probability") if name in table.column_names
    }
    answers: dict[Any, dict[Any, float]] = {}
    for i, (state, action) in enumerate(zip(rows["state"], rows["action"], strict=True)):
        name = _as_name(mdp.states, state)
        there = answers.setdefault((rows["t"][i], name) if "t" in rows else name, {})
        if action in there:
            message = f"the policy's table has two rows for state {name!r} and action {action!r}"
            raise QueryError(Problem(message, name, action))
        there[_as_name(mdp.actions, action)] = rows["probability"][i] if "probability" in rows else 1.0
    return answers


def _from_wide(mdp: ModelRecord, table: Any, wide: dict[str, Any]) -> dict[Any, dict[Any, float]]:
    """A table with a column for each action; another has the states, or its rows are those of the model, in order."""
    others = [name for name in table.column_names if name not in wide]
    named = ["state"] if "state" in others else others
    states = [_as_name(mdp.states, state) for name in named[:1] for state in table[name].to_pylist()]
    if not states or (states == list(range(mdp.n_states)) and states[-1] not in mdp.states):  # rows with numbers
        states = list(mdp.states)
    if len(named) > 1 or table.num_rows != len(set(states)):
        fix = "give one more column, with a state for each row; or the columns state and action"
        raise QueryError(Problem("a policy's table with a column for each action must say the states", fix=fix))
    rows = table.select(list(wide)).to_pylist()
    return {state: {wide[a]: p for a, p in row.items() if p} for state, row in zip(states, rows, strict=True)}


def _as_name(names: Any, value: Any) -> Any:
    """The name that a cell of a table stands for: a struct stands for the tuple of its fields."""
    value = tuple(value.values()) if isinstance(value, dict) else value
    at = names.find(value)
    return names[at] if at >= 0 else value


def _by_name(
    mdp: ModelRecord, name: str, horizon: int, path: Path | None, objective: Property | None, minimise: bool
) -> Policy:
    if name == "random":
        return lambda _t, s: _uniform(mdp, s)
    if name == "optimal":
        return _from_answers(mdp, solve(mdp, horizon, objective, minimise))
    if name == "observed" and path is not None:
        return _from_answers(mdp, lambda t, _state: path.actions[t])
    if name == "observed":
        raise QueryError(
            "the policy 'observed' needs an observed episode: ask a counterfactual MDP, not the plain model"
        )
    raise QueryError(f"a policy by name is 'observed', 'optimal' or 'random', not {name!r}")


def noisy(mdp: ModelRecord, policy: Policy, noise: float) -> Policy:
    """With probability ``noise`` any available action, each equally likely; otherwise what ``policy`` says."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 <= noise <= 1:
        raise QueryError(f"noise must be a number from 0 to 1, not {noise!r}")

    def mixed(t: int, s: int) -> list[tuple[int, float]]:
        chance: dict[int, float] = {}
        for weight, answers in ((1.0 - noise, policy(t, s)), (noise, _uniform(mdp, s))):
            for pair, probability in answers:
                chance[pair] = chance.get(pair, 0.0) + weight * probability
        return [(pair, probability) for pair, probability in sorted(chance.items()) if probability > 0]

    return mixed if noise > 0 else policy


def decider(mdp: ModelRecord, policy: Policy) -> Callable[[int, Visits], Taken]:
    """The policy as a chain takes it."""

    def decide(t: int, visits: Visits) -> Taken:
        source, pairs, probability = [], [], []
        for i, s in enumerate(visits.states):
            for pair, chance in policy(t, int(s)):
                source.append(i)
                pairs.append(pair)
                probability.append(chance)
        none = np.zeros(len(source), dtype=np.int64)
        return Taken(np.array(source), np.array(pairs), np.array(probability, dtype=float), none, none)

    return decide


def array_decider(mdp: ModelRecord, actions: Any) -> Callable[[int, Visits], Taken] | None:
    """A policy array of action indices as a chain takes it, one layer at a time; None for any other policy."""
    actions = as_array(actions)
    if actions is None or actions.dtype.kind not in "iu" or actions.ndim not in (1, 2) or memory_of(mdp) is not None:
        return None
    one_by_one = decider(mdp, _from_array(mdp, actions))
    form = mdp.form
    keys = all_pair_states(form.pair_start) * mdp.n_actions + form.pair_action

    def decide(t: int, visits: Visits) -> Taken:
        if actions.ndim == 2 and t >= len(actions):
            return one_by_one(t, visits)  # it raises the error
        chosen = (actions[t] if actions.ndim == 2 else actions)[visits.states]
        wanted = visits.states * mdp.n_actions + chosen
        pairs = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        if np.any(keys[pairs] != wanted) or np.any((chosen < 0) | (chosen >= mdp.n_actions)):
            return one_by_one(t, visits)
        return Taken.for_certain(pairs)

    return decide


def _uniform(mdp: ModelRecord, s: int) -> list[tuple[int, float]]:
    pairs = range(int(mdp.form.pair_start[s]), int(mdp.form.pair_start[s + 1]))
    if not pairs:
        raise QueryError(Problem(f"state {mdp.states[s]!r} has no available action", state=mdp.states[s]))
    return [(pair, 1.0 / len(pairs)) for pair in pairs]


def _of_time_and_state(policy: Callable[..., Any], path: Path | None) -> Callable[[int, Any], Any]:
    try:
        parameters = list(inspect.signature(policy).parameters.values())
    except (TypeError, ValueError):
        is_look_up = inspect.isbuiltin(policy)  # ``table.__getitem__`` and the like
        return (lambda _t, state: policy(state)) if is_look_up else policy
    required = _required(parameters)
    if len(required) == 1 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return lambda _t, state: policy(state)
    if len(required) == 3:
        if path is None:
            message = "a policy of time, state and recorded action needs an observed episode"
            raise QueryError(Problem(message, fix="ask a counterfactual MDP, not the plain model"))
        return lambda t, state: policy(t, state, path.actions[t])
    return policy


def _required(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]


def follows_the_record(policy: Any) -> bool:
    """Whether a policy says nothing after the record, because it needs the recorded actions.

    Examples
    --------
    >>> follows_the_record("observed"), follows_the_record(lambda state: 0), follows_the_record(lambda t, s, done: done)
    (True, False, True)
    """
    if isinstance(policy, str):
        return policy == "observed"
    if getattr(policy, "needs_record", False):
        return True
    if not callable(policy) or callable(getattr(policy, "predict", None)):
        return False
    return _takes(policy) == 3


def depends_on_time(mdp: ModelRecord, policy: Any) -> bool:
    """Whether a policy may say other things at other times, by its form.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world().mdp
    >>> [depends_on_time(grid, one) for one in ("random", "optimal", {0: "up"}, {(3, 0): "up"}, lambda t, s: "up")]
    [False, True, False, True, True]
    """
    if isinstance(policy, str):
        return policy != "random"
    array = as_array(policy)
    if array is not None:
        by_index = array.dtype.kind in "iuU" and array.shape[-1:] == (mdp.n_states,)
        return bool(array.ndim > (1 if by_index else 2))
    if _is_series(policy):
        policy = policy.to_dict()
    if hasattr(policy, "__arrow_c_stream__"):
        policy = _from_frame(mdp, policy)
    if isinstance(policy, Mapping):
        return any(key not in mdp.states for key in policy)
    return not callable(getattr(policy, "predict", None)) and _takes(policy) != 1


def _takes(policy: Any) -> int | None:
    """How many arguments a function needs; None where it does not say."""
    try:
        return len(_required(inspect.signature(policy).parameters.values()))
    except (TypeError, ValueError):
        return None


def _lookup(mdp: ModelRecord, table: Mapping[Any, Any]) -> Callable[[int, Any], Any]:
    timed: dict[tuple[int, Any], Any] = {}
    for key, answered in table.items():
        if key in mdp.states:
            continue
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], int | np.integer)):
            raise QueryError(mdp.states.missing(key, "state", place="the policy"))
        if key[1] not in mdp.states:
            raise QueryError(mdp.states.missing(key[1], "state", place=f"the policy at t = {key[0]}", time=int(key[0])))
        timed[int(key[0]), key[1]] = answered

    def answer(t: int, state: Any) -> Any:
        found = timed.get((t, state), table.get(state))
        if found is None:
            why = "which it leads to" if t else "where it begins"
            what = f"the policy says nothing for state {state!r} at t = {t}, {why}"
            raise QueryError(Problem(what, state, time=t, fix="say what it does there"))
        return found

    return answer


def _from_answers(mdp: ModelRecord, ask: Callable[[int, Any], Any]) -> Policy:
    def decide(t: int, s: int) -> list[tuple[int, float]]:
        state = mdp.states[s]
        answer = ask(t, state)
        if not isinstance(answer, Mapping):
            answer = _plain_answer(mdp, t, state, answer)
        if not isinstance(answer, Mapping):
            return [(_available(mdp, t, s, answer), 1.0)]
        return _distribution(t, state, [(_available(mdp, t, s, action), chance) for action, chance in answer.items()])

    return decide


def _plain_answer(mdp: ModelRecord, t: int, state: Any, answer: Any) -> Any:
    """An answer given as a list, an array or a tensor: the name of an action, or a distribution by name.

    A number is an action's name if there is one of that name, and otherwise its index.
    """
    if not (isinstance(answer, list) or hasattr(answer, "__array__")):
        return answer
    array = _detached(answer)
    if array.ndim == 2 and len(array) == 1:  # a batch of one
        array = array[0]
    if array.ndim == 0 or (array.size == 1 and mdp.n_actions > 1 and not isinstance(answer, list)):
        only = array.reshape(()).item()
        is_index = only not in mdp.actions and isinstance(only, int) and 0 <= only < mdp.n_actions
        return mdp.actions[only] if is_index else only
    if array.shape != (mdp.n_actions,) or array.dtype.kind not in "iuf":
        message = f"the policy's answer in state {state!r} is an array of shape {array.shape} and type {array.dtype}"
        fix = f"return an action, or {mdp.n_actions} probabilities, one for each action in the model's order"
        raise QueryError(Problem(message, state, time=t, place=f"t = {t}", fix=fix))
    return {mdp.actions[a]: array[a] for a in np.flatnonzero(array).tolist()}


def _available(mdp: ModelRecord, t: int, s: int, action: Any) -> int:
    a = mdp.actions.find(action)
    pair = mdp.find_pair(s, a) if a >= 0 else -1
    if pair < 0:
        state = mdp.states[s]
        there = name_list(mdp.actions_in(state))
        message = f"the policy names {action!r} in state {state!r}"
        fix = f"available are {there}"
        raise QueryError(Problem(message, state, action, time=t, value=action, place=f"t = {t}", fix=fix))
    return pair


def _distribution(t: int, state: Any, answers: list[tuple[int, Any]]) -> list[tuple[int, float]]:
    try:
        chances = [float(chance) for _, chance in answers]
    except (TypeError, ValueError):
        text = ", ".join(repr(chance) for _, chance in answers)
        message = f"the policy's probabilities in state {state!r} are not numbers: {text}"
        raise QueryError(Problem(message, state, time=t, place=f"t = {t}")) from None
    total = sum(chances)
    tolerance = _TOLERANCE_OF_HALVES if any(isinstance(chance, np.float16) for _, chance in answers) else _TOLERANCE
    if not all(np.isfinite(chances)) or min(chances, default=0.0) < 0 or abs(total - 1.0) > tolerance:
        message = f"the policy's probabilities in state {state!r} are not a distribution: "
        message += f"{', '.join(f'{chance:g}' for chance in chances)} (sum {total:g}, not 1)"
        raise QueryError(Problem(message, state, time=t, value=total, place=f"t = {t}"))
    return [(pair, chance / total) for (pair, _), chance in zip(answers, chances, strict=True) if chance > 0]


def _from_array(mdp: ModelRecord, array: Any) -> Policy:
    S, A = mdp.n_states, mdp.n_actions
    if array.dtype.kind in "iu" and array.shape[-1:] == (S,) and array.ndim in (1, 2):
        timed = array.ndim == 2

        def by_index(t: int, s: int) -> list[tuple[int, float]]:
            a = int(_layer(array, t, timed)[s])
            if not 0 <= a < A:
                message, fix = f"the policy has action index {a} in state {mdp.states[s]!r}", f"there are 0 … {A - 1}"
                raise QueryError(Problem(message, mdp.states[s], time=t, value=a, place=f"t = {t}", fix=fix))
            return [(_available(mdp, t, s, mdp.actions[a]), 1.0)]

        return by_index
    if array.dtype.kind in "iuf" and array.shape[-2:] == (S, A) and array.ndim in (2, 3):
        timed = array.ndim == 3

        known: dict[int, list[tuple[int, float]]] = {}  # the answers so far, for a policy that does not depend on time

        def by_share(t: int, s: int) -> list[tuple[int, float]]:
            if s in known:
                return known[s]
            row = _layer(array, t, timed)[s]
            given = np.flatnonzero(row != 0)
            answers = [(_available(mdp, t, s, mdp.actions[int(a)]), row[a]) for a in given]
            shares = _distribution(t, mdp.states[s], answers)
            if not timed:
                known[s] = shares
            return shares

        return by_share
    raise QueryError(
        f"a policy array is (S,) or (T, S) names or indices of actions, or (S, A) or (T, S, A) probabilities, with S = "
        f"{S} and A = {A}; got {array.shape} of type {array.dtype}"
    )


def _layer(array: Any, t: int, timed: bool) -> Any:
    if timed and t >= array.shape[0]:
        raise QueryError(Problem(f"the policy array has only {array.shape[0]} steps", time=t, place=f"t = {t}"))
    return array[t] if timed else array
