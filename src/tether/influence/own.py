"""A test of influence, and a rule, of one's own: functions and tables in place of those that are built in.

A table, or a function of names, is about a model. So both are *bound* to the model that is asked about: then they know
its names, and their shapes were checked. They also answer for models that stand side by side in one
(`tether.model.side_by_side`), and for states that remember something (`tether.plan.tracked`): the copies of a state are
that state.

What was done can always be done again, under every test and every rule: the observed action in the observed state is
influenced, and allowed for k = 1, whatever they say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.code_digest import digest_of_code
from tether.errors import Problem, QueryError
from tether.model.form import pair_states
from tether.model.model_record import ModelRecord


@runtime_checkable
class Influence(Protocol):
    """A function as a test of influence, ``influence=f``. `tether.InfluenceTest` gives it a name; or takes a table.

    Examples
    --------
    >>> import tether
    >>> def explains_it(p, observed, q):  # what happened is likelier than not
    ...     return q[observed] > 0.5
    >>> isinstance(explains_it, tether.Influence)
    True
    >>> grid = tether.cases.grid_world()
    >>> tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1, influence=explains_it)
    <Plan: k = 6, m = 1, definition, explains_it: value -10.24, observed -897>
    """

    def __call__(self, p: Floats, observed: int, q: Floats, /) -> bool | np.bool_:
        """Whether a pair with row ``q`` is influenced by the observed row ``p``, of which ``observed`` happened."""
        ...


@runtime_checkable
class Rule(Protocol):
    """A function that is a rule: ``rule=f``. `tether.TetherRule` gives it a name, or takes a table.

    Examples
    --------
    >>> import tether
    >>> def not_at_first(t, state, action):  # in the first two steps, only a longer tether allows a change
    ...     return 5 if t < 2 else 1
    >>> isinstance(not_at_first, tether.Rule)
    True
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> [round(cf.plan(k, m=2, rule=not_at_first).value, 1) for k in (1, 5)]
    [-3.4, 4.2]
    """

    def __call__(self, t: int, state: Any, action: Any, /) -> float | np.integer[Any]:
        """Return the smallest k, from 1, that allows an action in a state at a time."""
        ...


_LONGEST = 80
"""How many characters of a wrong value are shown."""

_FAR = 1 << 14
"""More than any horizon, as `tether.core.gather.FAR`."""


def is_given(value: Any) -> bool:
    """Whether a value can only be a test or a rule of one's own: a function, or a table as an array, tensor or list.

    A data frame is none: its rows and columns may have another order than the model's states and actions.

    >>> is_given(lambda t, state, action: 1), is_given([[1, 2]]), is_given("support"), is_given(int)
    (True, True, False, False)
    """
    is_array = hasattr(value, "__array__") and not hasattr(value, "columns")
    is_table = is_array or (isinstance(value, list) and any(not isinstance(row, str) for row in value))
    return (callable(value) or is_table) and not isinstance(value, type)


def in_short(value: Any) -> str:
    """A value that was given by mistake: as it is written, or its type where that is long.

    >>> in_short("suport"), in_short(range(3)), in_short([0] * 99)
    ("'suport'", 'range(0, 3)', 'a list')
    """
    text = repr(value)
    return text if len(text) <= _LONGEST else f"a {type(value).__name__}"


def _table(given: Any, what: str) -> Any:
    """A table as an array; ``what`` says what it must be."""
    try:
        return np.asarray(given)
    except ValueError:  # lists of different lengths
        raise QueryError(f"{what}; the lists of this one have different lengths") from None


@dataclass(frozen=True, eq=False, repr=False)
class _Own:
    """Something that a user gives: a function, or a table by state and action, perhaps by time."""

    given: Any
    name: str = ""
    bound_to: ModelRecord | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            name = "own table" if self.is_table else getattr(self.given, "__name__", type(self.given).__name__)
            object.__setattr__(self, "name", "own function" if name == "<lambda>" else name)

    @property
    def is_table(self) -> bool:
        """Whether it is a table, not a function."""
        return isinstance(self.given, np.ndarray)

    @property
    def digest(self) -> tuple[str | None, str]:
        """A digest of what it says: of the table, or of the function with what it refers to; or None, and why."""
        return digest_of_code(self.given)

    def bound(self, mdp: ModelRecord) -> Self:
        """It, for the states and actions of a model; what is bound already stays so."""
        if self.bound_to is not None:
            return self
        if self.is_table and (self.given.ndim not in (2, 3) or self.given.shape[-2:] != (mdp.n_states, mdp.n_actions)):
            shape = f"({mdp.n_states}, {mdp.n_actions})"
            message = f"{self}: the table has the shape {self.given.shape}"
            raise QueryError(Problem(message, fix=f"its shape is states × actions, {shape}, or steps × these"))
        return replace(self, bound_to=mdp)

    @property
    def _key(self) -> tuple[Any, ...]:
        given = (self.given.shape, self.given.tobytes()) if self.is_table else self.given
        return type(self), self.name, given, id(self.bound_to)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Own) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.given, self.name)  # it is bound again, to the model of the other process

    @property
    def _mdp(self) -> ModelRecord:
        assert self.bound_to is not None  # every question binds it
        return self.bound_to

    def _look_up(self, t: int, states: Ints, actions: Ints) -> Any:
        table = self.given
        if table.ndim == 3 and t >= len(table):
            raise QueryError(Problem(f"{self}: the table has only {len(table)} steps", time=t, place=f"t = {t}"))
        return (table[t] if table.ndim == 3 else table)[states % self._mdp.n_states, actions]


class InfluenceTest(_Own):
    """A test of influence of one's own: ``influence=`` in every call and in audits.

    It is asked about rows that the observation can change; other pairs are never influenced. The observed action in the
    observed state always is.

    Parameters
    ----------
    given : callable or array
        A function ``f(p, observed, q)`` that returns True or False: ``p`` is the observed row and ``q`` the row of the
        pair, as probabilities of the outcomes that either can lead to; ``observed`` is the position of what happened
        among them. It is not asked about a step whose outcome was not recorded.
        Or truth values by state and action (S, A), or by time too (T, S, A), in the order of the model.
    name : str
        By which name it is shown; the function's name by default.

    Examples
    --------
    >>> import tether
    >>> def explains_it(p, observed, q):  # what happened is likelier than not
    ...     return q[observed] > 0.5
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf.sweep().distinct, cf.sweep(influence=tether.InfluenceTest(explains_it)).distinct
    (array([1, 6]), array([1, 6]))
    """

    def __init__(self, given: Any, name: str = "", bound_to: ModelRecord | None = None) -> None:
        if not callable(given):
            message = "an own test of influence is a function f(p, observed, q), or a table of truth values"
            table = _table(given, message)
            if table.dtype != bool:
                raise QueryError(Problem(f"{message}, not {type(given).__name__} of {table.dtype}"))
            given = table.copy()
            given.flags.writeable = False
        for key, value in (("given", given), ("name", name), ("bound_to", bound_to)):
            object.__setattr__(self, key, value)
        self.__post_init__()

    @property
    def n_states(self) -> int:
        """How many states the model has that it is bound to."""
        return self._mdp.n_states

    def holds(self, t: int, pairs: Ints, form: Any, step: RowOfStep) -> Flags:
        """Whether each of some pairs is influenced by a step, by the test alone; ``form`` has the arrays of pairs."""
        states = pair_states(form.pair_start, pairs)
        if self.is_table:
            looked_up: Flags = self._look_up(t, states, form.pair_action[pairs])
            return looked_up
        if step.outcome < 0:  # it was not recorded
            return np.zeros(pairs.size, bool)
        return np.array([self._ask(t, step, form, int(pair)) for pair in pairs], dtype=bool)

    def _ask(self, t: int, step: RowOfStep, form: Any, pair: int) -> bool:
        size = self._mdp.n_states
        entries = slice(int(form.row_start[pair]), int(form.row_start[pair + 1]))
        after = form.next_state[entries] % size
        outcomes = np.union1d(step.next_state, after)
        p, q = np.zeros(outcomes.size), np.zeros(outcomes.size)
        p[np.searchsorted(outcomes, step.next_state)] = step.probability
        q[np.searchsorted(outcomes, after)] = form.probability[entries]
        answer = self.given(p, int(np.searchsorted(outcomes, step.outcome)), q)
        if not isinstance(answer, bool | np.bool_):
            message = f"{self}: a test of influence returns True or False, not {answer!r}"
            raise QueryError(Problem(message, time=t, value=answer, place=f"t = {t}"))
        return bool(answer)


@dataclass(frozen=True, slots=True, eq=False)
class RowOfStep:
    """The observed row of a step, and what happened; states are those of one copy of the model, ascending."""

    next_state: Ints
    probability: Floats
    outcome: int

    @classmethod
    def of(cls, next_state: Ints, probability: Floats, outcome: int, n_states: int) -> RowOfStep:
        """A row whose states may be those of a copy."""
        own = next_state % n_states
        order = np.argsort(own, kind="stable")
        happened = int(outcome) % n_states if outcome >= 0 else -1
        return cls(own[order].astype(np.int64), probability[order], happened)


class TetherRule(_Own):
    """A rule of one's own: ``rule=`` in every call and in audits.

    It says, pair by pair, the smallest k that allows it. A pair is allowed for k if that says so, or if t + k > T, and
    if every state that it can lead to keeps an allowed pair. The observed action in the observed state is allowed for
    k = 1.

    Parameters
    ----------
    given : callable or array
        Whole numbers from 1 by state and action (S, A), or by time too (T, S, A), in the order of the model; or a
        function ``f(t, state, action)``, by name, that returns one. Infinity (``math.inf``): no k allows it.
    name : str
        By which name it is shown; the function's name by default.

    Examples
    --------
    >>> import tether
    >>> def keep_near(t, cell, action):  # further from the edge, a longer tether is needed
    ...     return 1 + min(cell // 4, cell % 4, 3 - cell // 4, 3 - cell % 4) * 4
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> [round(cf.plan(k, 11, rule=tether.TetherRule(keep_near)).value, 1) for k in (1, 5)]
    [-897.0, 548.1]
    """

    def __init__(self, given: Any, name: str = "", bound_to: ModelRecord | None = None) -> None:
        if not callable(given):
            message = "an own rule is a function f(t, state, action), or a table of whole numbers from 1, or infinite"
            table = _table(given, message)
            if table.dtype.kind not in "iuf":
                raise QueryError(Problem(f"{message}, not {type(given).__name__} of {table.dtype}"))
            wrong = ~((table >= 1) & (table == np.floor(table)))
            if wrong.any():
                raise QueryError(Problem(f"{message}; this one has {table[wrong][0]:g}", value=table[wrong][0]))
            given = np.minimum(table, _FAR).astype(np.int16)
            given.flags.writeable = False
        for key, value in (("given", given), ("name", name), ("bound_to", bound_to)):
            object.__setattr__(self, key, value)
        self.__post_init__()

    def own(self, form: Any) -> Callable[[int, Ints], Ints]:
        """The rule's own threshold of some pairs at a time, as the engine asks for it."""

        def of_pairs(t: int, pairs: Ints) -> Ints:
            states, actions = pair_states(form.pair_start, pairs), form.pair_action[pairs]
            if self.is_table:
                looked_up: Ints = self._look_up(t, states, actions)
                return looked_up
            found = [self._ask(t, int(s), int(a)) for s, a in zip(states, actions, strict=True)]
            return np.array(found, dtype=np.int16)

        return of_pairs

    def _ask(self, t: int, state: int, action: int) -> int:
        mdp = self._mdp
        answer = self.given(t, mdp.states[state % mdp.n_states], mdp.actions[action])
        is_number = isinstance(answer, int | float | np.integer | np.floating) and not isinstance(answer, bool)
        if not is_number or not answer >= 1 or answer != np.floor(answer):
            message = f"{self}: a rule returns a whole number from 1, the smallest k, or infinity, not {answer!r}"
            state = mdp.states[state % mdp.n_states]
            raise QueryError(Problem(message, state, time=t, value=answer, place=f"t = {t}"))
        return int(min(answer, _FAR))
