"""Properties of an episode: what is to be reached, avoided, or kept until something is reached.

A property is asked for instead of a return (`objective=`): the value of a plan is then the probability that the
property holds within the episode's T steps. Every property is decided by sets of states:

    until(hold, goal)   holds once a state of ``goal`` is met, if all states before it are of ``hold``
    reach(goal)         until(any state, goal)
    avoid(bad)          holds if no state of ``bad`` is met, from the first state to the last

A state of ``goal`` or ``bad``, and one that is neither of ``hold`` nor of ``goal``, *decides* the property. What
happens after that does not matter.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether._foundation.markup import Displayed
from tether.errors import Problem, QueryError
from tether.model.labels import member_indices, name_text
from tether.model.names import Names, name_list, plain
from tether.model.property_language import StateFormula, is_formal, parse_formal

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

__all__ = [
    "Decided",
    "Property",
    "avoid",
    "make_property",
    "objective_name",
    "parse_property",
    "reach",
    "state_indices",
    "until",
    "value_name",
]

Kind = Literal["reach", "avoid", "until"]

_ARGUMENTS: dict[Kind, tuple[str, ...]] = {"reach": ("goal",), "avoid": ("bad",), "until": ("hold", "goal")}
_NAMED = 3
"""How many states of a set are named in words; more are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """A property on one model.

    Attributes
    ----------
    ended : array of bool
        For each state, whether it decides the property.
    holds : array of bool
        For each state, whether the property holds if it is decided there, or if the episode ends there undecided.
    """

    ended: Flags
    holds: Flags


@dataclass(frozen=True, slots=True, repr=False)
class Property(Displayed):
    """Something that an episode can do or fail to do; made by `reach`, `avoid` or `until`.

    Attributes
    ----------
    kind : {"reach", "avoid", "until"}
    sets : tuple
        Its sets of states, as they were given: a label, a tuple of states, a formula over labels and variables, or a
        function of a state's name.

    Examples
    --------
    >>> import tether
    >>> tether.until("safe", "goal")
    <Property: until safe goal>
    >>> tether.avoid("died").in_words
    'died is avoided'
    """

    kind: Kind
    sets: tuple[str | tuple[Any, ...] | StateFormula | Callable[[Any], bool], ...]

    @property
    def in_words(self) -> str:
        """That it holds, in words: "died is avoided"."""
        words = [_in_words(given) for given in self.sets]
        if self.kind == "until":
            return f"{words[1]} is reached with {words[0]} until then"
        return f"{words[0]} is {'reached' if self.kind == 'reach' else 'avoided'}"

    @property
    def failed_in_words(self) -> str:
        """That it does not hold, in words: "died is reached"."""
        words = [_in_words(given) for given in self.sets]
        if self.kind == "avoid":
            return f"{words[0]} is reached"
        return f"{words[-1]} is not reached" + (f", or not with {words[0]} until then" if self.kind == "until" else "")

    def on(self, mdp: ModelRecord) -> Decided:
        """Which states of a model decide the property, and how; an error if a set has no state.

        Examples
        --------
        >>> import tether
        >>> tether.reach("goal").on(tether.cases.grid_world().mdp).ended.nonzero()[0]
        array([15])
        """
        masks = []
        for name, given in zip(_ARGUMENTS[self.kind], self.sets, strict=True):
            mask = np.zeros(mdp.n_states, dtype=bool)
            mask[state_indices(mdp, f"{self}: {name}", given)] = True
            masks.append(mask)
        if self.kind == "avoid":
            return Decided(masks[0], ~masks[0])
        goal = masks[-1]
        return Decided(goal if self.kind == "reach" else goal | ~masks[0], goal)

    def __str__(self) -> str:
        return " ".join([self.kind, *(_as_text(given) for given in self.sets)])

    def __repr__(self) -> str:
        return f"<Property: {self}>"


def reach(goal: str | Iterable[Any] | Callable[[Any], bool]) -> Property:
    """The episode meets a state of ``goal``.

    Parameters
    ----------
    goal : str, iterable or callable
        A label of the model, a list of states, or a function of a state's name that returns True or False. A text that
        is not a label is the name of a single state, or how that name reads: ``"5"`` for 5.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf.plan(k=12, m=11, objective=tether.reach("goal"))
    <Plan: k = 12, m = 11, definition, support: probability 0.9884, observed 0, reach goal>
    """
    return Property("reach", (_given("reach", "goal", goal),))


def avoid(bad: str | Iterable[Any] | Callable[[Any], bool]) -> Property:
    """The episode meets no state of ``bad``, from its first state to its last.

    Parameters
    ----------
    bad : str, iterable or callable
        As in `reach`.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> cf = tether.counterfactual(patient.mdp, patient.path)
    >>> cf.plan(k=9, m=2, objective=tether.avoid("died"))
    <Plan: k = 9, m = 2, definition, support: probability 0.2044, observed 0, avoid died>
    """
    return Property("avoid", (_given("avoid", "bad", bad),))


def until(
    hold: str | Iterable[Any] | Callable[[Any], bool], goal: str | Iterable[Any] | Callable[[Any], bool]
) -> Property:
    """The episode meets a state of ``goal``, and every state before it is one of ``hold``.

    Parameters
    ----------
    hold, goal : str, iterable or callable
        As in `reach`.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> along_the_edge = tether.until(lambda cell: cell // 4 in (0, 3) or cell % 4 in (0, 3), "goal")
    >>> round(cf.plan(k=12, m=11, objective=along_the_edge).value, 2)
    0.89
    """
    return Property("until", (_given("until", "hold", hold), _given("until", "goal", goal)))


def make_property(objective: Any) -> Property | None:
    """The objective, checked: a property, or one as PRISM and Storm write it, or None for the return.

    >>> make_property('P=? [ F "goal" ]')
    <Property: reach goal>
    """
    if objective is None or isinstance(objective, Property):
        return objective
    if isinstance(objective, str) and is_formal(objective):
        return parse_property(objective)
    raise QueryError(
        f"objective must be tether.reach(goal), tether.avoid(bad) or tether.until(hold, goal), not {objective!r}"
    )


def parse_property(text: str) -> Property:
    """A property as written on the command line: its kind, then labels; quote a label that has spaces.

    Or as PRISM and Storm write it; see `tether.model.property_language`.

    >>> parse_property("until safe 'the goal'")
    <Property: until safe 'the goal'>
    """
    if is_formal(text):
        formal, sets = parse_formal(text)
        return Property(formal, sets)
    try:
        kind, *labels = shlex.split(text)
    except ValueError:
        kind, labels = "", []
    for known, names in _ARGUMENTS.items():
        if known == kind and len(names) == len(labels):
            return Property(known, tuple(labels))
    forms = ", ".join(f"'{kind} {' '.join(name.upper() for name in names)}'" for kind, names in _ARGUMENTS.items())
    message = f"the objective {text!r} is none of {forms}, where each word in capitals is a label of the model"
    message += " or the name of a state"
    fix = f'put quotes around a name that has spaces: {kind} "NAME"' if kind in _ARGUMENTS and labels else ""
    raise QueryError(Problem(message, value=text, fix=fix))


def _given(kind: str, name: str, value: Any) -> str | tuple[Any, ...] | Callable[[Any], bool]:
    """A set of states as it is kept: a label, a tuple of states, or a function."""
    if isinstance(value, str):
        return value
    if callable(value):
        predicate: Callable[[Any], bool] = value
        return predicate
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        message = f"{kind}({name}): a label, a list of states or a function of a state is needed, not {value!r}"
        raise QueryError(Problem(f"{message}: [{value!r}]", value=value))
    members = tuple(plain(value))
    for one in members:
        if not isinstance(one, Hashable):
            message = f"{kind}({name}): {one!r} cannot be the name of a state, it is not hashable; use a tuple"
            raise QueryError(Problem(message, value=one))
    return members


def state_indices(mdp: ModelRecord, what: str, given: Any) -> Ints:
    """The states of a set, by index; there is at least one."""
    if isinstance(given, str):
        alone = -1 if given in mdp.labels else _alone(mdp.states, given)
        if alone >= 0:  # no label has this name, but a state has
            return np.array([alone])
        if given not in mdp.labels:
            some = mdp.labels.known() if mdp.labels else f"it has no labels; {mdp.states.known('state')}"
            message = f"the model has no label or state called {given!r}; {some}{mdp.states.near(given)}"
            raise QueryError(Problem(message, value=given))
        found: Ints = mdp.labels.find(given).indices
        if found.size == 0:
            raise QueryError(Problem(f"{what}: no state has the label {given!r}; {mdp.labels.known()}", value=given))
        return found
    if isinstance(given, StateFormula):
        found = np.flatnonzero(given.on(mdp))
        if found.size == 0:
            raise QueryError(Problem(f"{what}: no state is in {given}; {mdp.labels.known()}", value=str(given)))
        return found
    found = member_indices(mdp.states, what, list(given) if isinstance(given, tuple) else given, QueryError)
    if found.size == 0:
        raise QueryError(Problem(f"{what}: no state is in this set; {mdp.labels.known()}", value=given))
    return found


@lru_cache(maxsize=4)  # a property is asked of one model, several times
def _alone(states: Names, text: str) -> int:
    """The state that a text names: the one that equals it, else the only one that reads so; -1 where there is none."""
    found = states.find(text)
    if found >= 0:
        return found
    alike = [i for i, state in enumerate(states) if text in (name_text(state), str(state))]
    return alike[0] if len(alike) == 1 else -1


def _as_text(given: Any) -> str:
    """A set as text: a label, quoted if necessary; or its states in braces; or the name of its function."""
    if isinstance(given, str):
        return shlex.quote(given)
    if isinstance(given, tuple):
        return f"{{{name_list(given)}}}"
    if isinstance(given, StateFormula):
        return f"({given})"
    return f"[{_function_name(given)}]"


def _in_words(given: Any) -> str:
    if isinstance(given, str):
        return _state_in_words(given)
    if isinstance(given, tuple):
        if len(given) > _NAMED:
            return f"one of {len(given):,} states"
        return " or ".join(_state_in_words(name_text(one)) for one in given)
    if isinstance(given, StateFormula):
        return f"a state with {given}"
    return f"a state of {_function_name(given)}"


def _state_in_words(text: str) -> str:
    """A label or a name in a sentence; a number is called a state."""
    return text if any(letter.isalpha() for letter in text) else f"state {text}"


def _function_name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "a function" if name == "<lambda>" else str(name)


def value_name(objective: Property | None) -> str:
    """What a value is: "return", or "probability" of a property."""
    return "return" if objective is None else "probability"


def objective_name(objective: Property | None, minimise: bool) -> str:
    """The objective in a few words; empty for the largest return, which is the default.

    >>> import tether
    >>> objective_name(tether.reach("died"), True), objective_name(None, False)
    ('minimise reach died', '')
    """
    name = "" if objective is None else str(objective)
    return f"minimise {name or 'return'}" if minimise else name
