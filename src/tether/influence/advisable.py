"""Which changes may be advised, and what a change costs.

``only`` and ``never`` are about *changes*: what was done may always be repeated. Each names changes by

- a step: ``2``, or several: ``range(2, 5)``;
- an action: ``"treat"``; it is what would be done instead;
- a pair: ``("sick", "treat")``, where the first is a state or a label of states;
- a mapping with some of the keys ``step``, ``state`` and ``action``: a change that fits all of them;
- a function of (state, action), or of (t, state, action), that says whether a change is meant;
- a list of these: a change that fits one of them.

A whole number is a step. In a model whose actions are whole numbers it could be either: a mapping says which.

A pair that may not be advised is allowed for no k, unless it repeats the observed action (`tether.core.thresholds`). So
a plan does not go where only such a change would be left.

``cost`` is the price of a change: a number, a mapping from actions to prices (other actions cost nothing), or a
function as above that returns a price. A price is a part of what is maximised: the expected return less the expected
price of the changes, each discounted like the rewards of its step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, read_only
from tether._foundation.markup import Displayed
from tether._foundation.words import number
from tether.core.batch import Layer, Model
from tether.errors import Problem, QueryError
from tether.model.form import pair_states
from tether.model.model_record import ModelRecord
from tether.model.state_sets import state_indices

_KEYS = ("step", "state", "action")

Test = Callable[[int, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class _Which:
    """Changes that fit all that is given: steps, states and actions by index, and a test."""

    steps: frozenset[int] | None = None
    states: frozenset[int] | None = None
    actions: frozenset[int] | None = None
    test: Test | None = None
    words: str = ""

    def fit(self, mdp: ModelRecord, t: int, states: Ints, actions: Ints) -> Flags:
        """Which of some changes at time t are meant."""
        if self.steps is not None and t not in self.steps:
            return np.zeros(states.size, dtype=bool)
        found = np.ones(states.size, dtype=bool)
        for given, column in ((self.states, states), (self.actions, actions)):
            if given is not None:
                found &= np.isin(column, list(given))
        if self.test is not None:
            some = np.flatnonzero(found)
            found[some] = [bool(_ask(self.test, mdp, t, states[i], actions[i])) for i in some]
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Advisable(Displayed):
    """Which changes of an episode of a model may be advised, and what they cost; made by `make_advisable`.

    Attributes
    ----------
    only : tuple or None
        The changes that may be advised; None for all.
    never : tuple
        Changes that may not be.
    cost : number, tuple of (action, price), function or None
        What a change costs.
    pair_of : array or None
        The model's pair of each pair that is asked about, if these are pairs of a product (`tether.model.product`).

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=8, m=2, never=[0, 1], cost=1.5)
    >>> print(plan.advisable)
    never at step 0, never at step 1, each change costs 1.5
    """

    mdp: ModelRecord
    only: tuple[_Which, ...] | None
    never: tuple[_Which, ...]
    cost: float | tuple[tuple[int, float], ...] | Test | None
    pair_of: Ints | None = None

    def _own(self, pairs: Ints) -> Ints:
        found: Ints = pairs % self.mdp.n_pairs if self.pair_of is None else self.pair_of[pairs]
        return found

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.only, self.never, self.cost

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Advisable) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def limits_changes(self) -> bool:
        """Whether some change may not be advised."""
        return self.only is not None or bool(self.never)

    @property
    def has_functions(self) -> bool:
        """Whether a function says something about changes."""
        return callable(self.cost) or any(one.test is not None for one in (*(self.only or ()), *self.never))

    @property
    def steps_told_apart(self) -> int:
        """How many steps it tells apart, and one more, for all later ones; if no function says more."""
        named = (max(one.steps) for one in (*(self.only or ()), *self.never) if one.steps)
        return max(named, default=-1) + 2

    def forbidden(self, t: int, pairs: Ints) -> Flags:
        """Which of some pairs may not be advised at time t. Pairs of copies of the model side by side are those of it.

        A pair that repeats the observed action is never advised: it is not asked about here.
        """
        form = self.mdp.form
        own = self._own(pairs)
        states, actions = pair_states(form.pair_start, own), form.pair_action[own]

        def any_of(some: tuple[_Which, ...]) -> Flags:
            found = np.zeros(own.size, dtype=bool)
            for one in some:
                found |= one.fit(self.mdp, t, states, actions)
            return found

        found = any_of(self.never)
        return found if self.only is None else found | ~any_of(self.only)

    @cached_property
    def _by_pair(self) -> Floats | None:
        """The price of each pair of the model, if it does not depend on more than the action."""
        form = self.mdp.form
        if isinstance(self.cost, float):
            return read_only(np.full(self.mdp.n_pairs, self.cost))
        if not isinstance(self.cost, tuple):
            return None
        of_action = np.zeros(len(self.mdp.actions))
        for action, price in self.cost:
            of_action[action] = price
        return read_only(of_action[form.pair_action])

    def prices(self, t: int, pairs: Ints) -> Floats:
        """What each of some changes costs at time t."""
        own = self._own(pairs)
        if self.cost is None:
            return np.zeros(pairs.size)
        if self._by_pair is not None:
            found: Floats = self._by_pair[own]
            return found
        assert callable(self.cost)
        form, test = self.mdp.form, self.cost
        states, actions = pair_states(form.pair_start, own), form.pair_action[own]
        asked = (_ask(test, self.mdp, t, s, a) for s, a in zip(states, actions, strict=True))
        return np.array([_price(one, "cost=") for one in asked], dtype=np.float64)

    def price_at(self, model: Model) -> Callable[[int, Layer], Floats] | None:
        """Prices by pair of a model, of the pairs of a layer, as the engine takes them; None if nothing costs."""
        n_pairs = model.pair_action.size
        if self.cost is None:
            return None
        if self._by_pair is not None:
            every = read_only(self._by_pair[self._own(np.arange(n_pairs))])
            return lambda _t, _layer: every

        def of_layer(t: int, layer: Layer) -> Floats:
            prices, pairs = np.zeros(n_pairs), np.unique(layer.pairs(model))
            prices[pairs] = self.prices(t, pairs)
            return prices

        return of_layer

    def __str__(self) -> str:
        parts = (
            [] if self.only is None else ["only " + (" or ".join(one.words for one in self.only) or "what was done")]
        )
        parts += [f"never {one.words}" for one in self.never]
        if isinstance(self.cost, float):
            parts.append(f"each change costs {number(self.cost)}")
        elif isinstance(self.cost, tuple):
            parts += [f"a change to {self.mdp.actions[a]!s} costs {number(price)}" for a, price in self.cost]
        elif self.cost is not None:
            parts.append(f"a change costs what {_name(self.cost)} says")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Advisable: {self}>"


def make_advisable(mdp: ModelRecord, only: Any = None, never: Any = None, cost: Any = None) -> Advisable | None:
    """Which changes may be advised, and what they cost, checked; None if nothing is said about them."""
    if only is None and never is None and cost is None:
        return None
    wanted = None if only is None else tuple(_each(mdp, only, "only="))
    unwanted = () if never is None else tuple(_each(mdp, never, "never="))
    return Advisable(mdp, wanted, unwanted, None if cost is None else _cost(mdp, cost))


def _each(mdp: ModelRecord, given: Any, argument: str) -> Iterable[_Which]:
    if isinstance(given, list | set | frozenset | range):
        for one in given:
            yield from _each(mdp, one, argument)
        return
    yield _which(mdp, given, argument)


def _which(mdp: ModelRecord, given: Any, argument: str) -> _Which:
    if isinstance(given, np.generic):
        given = given.item()
    if callable(given):
        return _Which(test=_test(given), words=f"where {_name(given)} says so")
    if isinstance(given, Mapping):
        return _fitting(mdp, given, argument)
    action = mdp.actions.find(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if action >= 0 and not isinstance(mdp.actions[action], str):
            message = f"{argument} {given} may be a step or an action: both are whole numbers"
            raise QueryError(Problem(message, value=given, fix=f"write {{'step': {given}}} or {{'action': {given}}}"))
        return _fitting(mdp, {"step": given}, argument)
    if action >= 0:
        return _fitting(mdp, {"action": given}, argument)
    if isinstance(given, tuple) and len(given) == 2:
        return _fitting(mdp, {"state": given[0], "action": given[1]}, argument)
    raise QueryError(mdp.actions.missing(given, "action", place=argument))


def _fitting(mdp: ModelRecord, given: Mapping[Any, Any], argument: str) -> _Which:
    unknown = [key for key in given if key not in _KEYS]
    if unknown or not given:
        message = f"{argument} a mapping has the keys {', '.join(_KEYS)}, not {unknown[0] if unknown else 'none'!r}"
        raise QueryError(Problem(message, value=unknown[0] if unknown else given))
    parts: dict[str, Any] = {}
    words = []
    if "action" in given:
        several = _several(given["action"])
        parts["actions"] = frozenset(mdp.action_index(one) for one in several)
        words.append(" or ".join(str(one) for one in several))
    if "state" in given:
        several = _several(given["state"])
        parts["states"] = frozenset(int(s) for one in several for s in _states(mdp, one, argument))
        words.append("in " + " or ".join(_name(one) if callable(one) else str(one) for one in several))
    if "step" in given:
        several = _several(given["step"])
        parts["steps"] = frozenset(_step(one, argument) for one in several)
        words.append(_steps_in_words(sorted(parts["steps"])))
    return _Which(**parts, words=" ".join(words))


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | set | frozenset | range) else [given]


def _states(mdp: ModelRecord, given: Any, argument: str) -> Ints:
    s = mdp.states.find(given)
    if s >= 0:
        return np.array([s])
    if isinstance(given, str) or callable(given):
        return state_indices(mdp, argument, given)
    raise QueryError(mdp.states.missing(given, "state", place=argument))


def _step(given: Any, argument: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise QueryError(Problem(f"{argument} a step is a whole number from 0, not {given!r}", value=given))
    return int(given)


def _steps_in_words(steps: list[int]) -> str:
    if len(steps) == 1:
        return f"at step {steps[0]}"
    if steps == list(range(steps[0], steps[-1] + 1)):
        return f"at steps {steps[0]} to {steps[-1]}"
    return f"at steps {', '.join(str(t) for t in steps)}"


def _cost(mdp: ModelRecord, given: Any) -> float | tuple[tuple[int, float], ...] | Test:
    if callable(given):
        return _test(given)
    if isinstance(given, Mapping):
        return tuple((mdp.action_index(action), _price(price, "cost=")) for action, price in given.items())
    return _price(given, "cost=")


def _price(given: Any, argument: str) -> float:
    is_number = isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)
    if not is_number or not 0 <= given < np.inf:
        raise QueryError(Problem(f"{argument} a price is a number from 0, not {given!r}", value=given))
    return float(given)


@dataclass(frozen=True, slots=True)
class _WithoutTime:
    """A function of (state, action), asked with the time as well."""

    of: Callable[[Any, Any], Any]

    def __call__(self, _t: int, state: Any, action: Any) -> Any:
        return self.of(state, action)


def _test(given: Callable[..., Any]) -> Test:
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return _WithoutTime(given)
    needed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(needed) == 2:
        return _WithoutTime(given)
    if len(needed) == 3:
        return given
    raise QueryError(f"a function about changes takes (state, action) or (t, state, action): {_name(given)} does not")


def _ask(test: Test, mdp: ModelRecord, t: int, state: Any, action: Any) -> Any:
    return test(t, mdp.states[int(state)], mdp.actions[int(action)])


def _name(given: Any) -> str:
    given = given.of if isinstance(given, _WithoutTime) else given
    return str(getattr(given, "__name__", type(given).__name__))
