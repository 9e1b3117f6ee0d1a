"""Properties of an episode: what is to be reached, avoided, or kept until something is reached.

A property is asked for instead of a return (`objective=`): the value of a plan is then the probability that the
property holds within the episode's T steps. Every property is decided by sets of states:

    until(hold, goal)   holds once a state of ``goal`` is met, if all states before it are of ``hold``
    reach(goal)         until(any state, goal)
    avoid(bad)          holds if no state of ``bad`` is met, from the first state to the last

A state of ``goal`` or ``bad``, and one that is neither of ``hold`` nor of ``goal``, *decides* the property. What
happens after that does not matter.

``within`` asks about the first steps of the episode alone. Properties joined by ``&``, ``|``, ``~`` and ``then`` are
formulas (`tether.model.path_formula`): what remains of them has to be remembered on the way, so they are asked of a
model whose states remember it (`tether.model.product`).
"""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, cast

from tether._foundation.arrays import Flags
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether._foundation.words import counted
from tether.errors import Problem, QueryError
from tether.model.path_formula import (
    ALWAYS,
    NEVER,
    Tree,
    negation,
    one_after_other,
    sets_of,
    shortened,
    steps_looked_at,
    text_of,
)
from tether.model.product import remembered_by
from tether.model.property_language import StateFormula, is_formal, parse_formal
from tether.model.property_words import as_formal, as_text, in_words, said
from tether.model.state_sets import as_given, mask_of

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

Kind = Literal["reach", "avoid", "until", "formula"]
Given = str | tuple[Any, ...] | StateFormula | Callable[[Any], bool]

_ARGUMENTS: dict[Kind, tuple[str, ...]] = {"reach": ("goal",), "avoid": ("bad",), "until": ("hold", "goal")}
_CALL = re.compile(r"\b(reach|avoid|until)\(([^()]*)\)")


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
    """Something that an episode can do or fail to do; made by `reach`, `avoid` or `until`, and joined from these.

    ``one & other`` holds if both do, ``one | other`` if one of them does, ``~one`` if it does not;
    ``one.then(other)`` is for one after the other.

    Attributes
    ----------
    kind : {"reach", "avoid", "until", "formula"}
    sets : tuple
        Its sets of states, as they were given: a label, a tuple of states, a formula over labels and variables, or a
        function of a state's name.
    within : int or None
        Within how many steps, if it is about the first steps of an episode alone.
    tree : tuple
        The property as a formula (`tether.model.path_formula`).
    cut : tuple
        The formula for an episode that has no more than the steps asked about; empty as long as it may have more.

    Examples
    --------
    >>> import tether
    >>> tether.until("safe", "goal")
    <Property: until safe goal>
    >>> tether.avoid("died").in_words
    'died is avoided'
    >>> tether.reach("goal", within=8) & tether.avoid("pit")
    <Property: P=? [ (F<=8 "goal") & (G !"pit") ]>
    """

    kind: Kind
    sets: tuple[Given, ...]
    within: int | None = None
    tree: Tree = ()
    cut: Tree = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.tree:
            object.__setattr__(self, "tree", _tree_of(self.kind, self.sets, self.within))

    def __and__(self, other: Property) -> Property:
        return NotImplemented if not isinstance(other, Property) else property_of(_joined("and", self, other))

    def __or__(self, other: Property) -> Property:
        return NotImplemented if not isinstance(other, Property) else property_of(_joined("or", self, other))

    def __invert__(self) -> Property:
        return property_of(negation(self.tree))

    def then(self, goal: str | Iterable[Any] | Callable[[Any], bool], *, within: int | None = None) -> Property:
        """First this is reached, and at some later step a state of ``goal``; it can be said several times.

        Parameters
        ----------
        goal
            As in `tether.reach`.
        within : int, optional
            Within how many steps of the episode all of it is met.

        Examples
        --------
        >>> import tether
        >>> tether.reach("key").then("door", within=9).in_words
        'key is reached and later door, within 9 steps'
        """
        steps, tree = self.within, self.tree if self.within is None else self.tree[:3]
        if tree[0] == "within":
            steps, tree = tree[1], tree[2]
        last = ("until", ALWAYS, ("set", as_given("then", "goal", goal)))
        found = one_after_other(tree, last)
        if found is None:
            message = f"{self}: then() goes on from reach(goal), or from another then()"
            raise QueryError(Problem(message, value=str(self), fix="reach(a).then(b).then(c)"))
        if within is None:
            within = steps
        return property_of(found if within is None else ("within", _steps("then", within), found))

    @property
    def in_words(self) -> str:
        """That it holds, in words: "died is avoided"."""
        return said(self.tree)

    @property
    def failed_in_words(self) -> str:
        """That it does not hold, in words: "died is reached"."""
        limit = "" if self.within is None else f" within {counted(self.within, 'step')}"
        if self.kind == "formula":
            return said(negation(self.tree), failed=True)
        words = [in_words(given) for given in self.sets]
        if self.kind == "avoid":
            return f"{words[0]} is reached{limit}"
        late = f", or not with {words[0]} until then" if self.kind == "until" else ""
        return f"{words[-1]} is not reached{limit}{late}"

    @property
    def about_steps(self) -> int | None:
        """How many steps it is about; None if it is about the whole episode."""
        return steps_looked_at(self.tree)

    @property
    def remembers(self) -> bool:
        """Whether more than the state of now decides it."""
        return self.kind == "formula"

    def of_cut(self, steps: int) -> Property:
        """The property of an episode that has no more than these steps."""
        return replace(self, cut=shortened(self.tree, steps))

    def on(self, mdp: ModelRecord) -> Decided:
        """Which states of a model decide the property, and how; an error if a set has no state.

        Examples
        --------
        >>> import tether
        >>> tether.reach("goal").on(tether.cases.grid_world().mdp).ended.nonzero()[0]
        array([15])
        """
        if self.remembers:
            memory = remembered_by(mdp, self.cut)
            if memory is None:
                message = f"{self}: this question does not take properties that have to be remembered on the way"
                fix = "ask cf.plan, cf.sweep or cf.evaluate; or about one of tether.reach, avoid and until"
                raise QueryError(Problem(message, value=str(self), fix=fix, argument="objective"))
            return Decided(*memory)
        if self.within is not None and not self.cut:
            message = f"{self}: this question does not take a bound on the number of steps"
            fix = f"cut the episodes at {self.within} steps, and leave the bound out: path.first({self.within})"
            raise QueryError(Problem(message, value=str(self), fix=fix, argument="objective"))
        masks = [
            mask_of(mdp, f"{self}: {name}", given) for name, given in zip(_ARGUMENTS[self.kind], self.sets, strict=True)
        ]
        if self.kind == "avoid":
            return Decided(masks[0], ~masks[0])
        goal = masks[-1]
        return Decided(goal if self.kind == "reach" else goal | ~masks[0], goal)

    def __str__(self) -> str:
        if self.kind == "formula":
            return f"P=? [ {text_of(self.tree, as_formal)} ]"
        limit = [] if self.within is None else ["within", str(self.within)]
        return " ".join([self.kind, *(as_text(given) for given in self.sets), *limit])

    def __repr__(self) -> str:
        return f"<Property: {self}>"


def property_of(tree: Tree) -> Property:
    """The property of a formula: one of `reach`, `avoid` and `until` where it is no more than that.

    >>> property_of(("until", ("and",), ("set", "goal"), 8))
    <Property: reach goal within 8>
    """
    kind, *parts = tree[:3]
    steps = tree[3] if len(tree) > 3 and kind in ("until", "release") else None
    if kind == "until":
        hold, goal = _as_set(parts[0]), _as_set(parts[1])
        if goal is not None and parts[0] == ALWAYS:
            return Property("reach", (goal,), steps)
        if goal is not None and hold is not None:
            return Property("until", (hold, goal), steps)
    if kind == "release" and parts[0] == NEVER and (bad := _as_set(negation(parts[1]))) is not None:
        return Property("avoid", (bad,), steps)
    return Property("formula", tuple(sets_of(tree)), None, tree)


def _as_set(tree: Tree) -> Given | None:
    """A set, or the states that are not in one; None for another formula, or where that cannot be written."""
    if tree[0] == "set":
        given: Given = tree[1]
        return given
    return _complement(tree[1]) if tree[0] == "not set" and isinstance(tree[1], StateFormula | str) else None


def _complement(given: str | StateFormula) -> StateFormula:
    if isinstance(given, str):
        return StateFormula(("not", ("label", given)), f'!"{given}"')
    if given.tree[0] == "not" and given.text.startswith("!"):
        return StateFormula(given.tree[1], given.text[1:])
    brackets = given.text.startswith("(") or given.text.isidentifier()
    return StateFormula(("not", given.tree), f"!{given.text}" if brackets else f"!({given.text})")


def _tree_of(kind: Kind, sets: tuple[Given, ...], within: int | None) -> Tree:
    """A property of one of the three kinds as a formula."""
    some: list[Tree] = [("set", given) for given in sets]
    if kind == "avoid":
        tree: Tree = ("release", NEVER, ("not set", sets[0]))
    else:
        tree = ("until", some[0] if kind == "until" else ALWAYS, some[-1])
    return tree if within is None else (*tree, within)


def _joined(kind: str, one: Property, other: Property) -> Tree:
    parts = [part for each in (one.tree, other.tree) for part in (each[1:] if each[0] == kind else (each,))]
    distinct = tuple(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else (kind, *distinct)


def _steps(kind: str, within: Any) -> int:
    return whole_number(f"{kind}: within", within, 0)


def reach(goal: str | Iterable[Any] | Callable[[Any], bool], *, within: int | None = None) -> Property:
    """The episode meets a state of ``goal``.

    Parameters
    ----------
    goal : str, iterable or callable
        A label of the model, a list of states, or a function of a state's name that returns True or False. A text that
        is not a label is the name of a single state, or how that name reads: ``"5"`` for 5.
    within : int, optional
        Ask about the first so many steps of the episode alone.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf.plan(k=12, m=11, objective=tether.reach("goal"))
    <Plan: k = 12, m = 11, definition, support: probability 0.9884, observed 0, reach goal>
    >>> round(cf.plan(k=12, m=11, objective=tether.reach("goal", within=8)).value, 4)
    0.9165
    """
    return Property("reach", (as_given("reach", "goal", goal),), None if within is None else _steps("reach", within))


def avoid(bad: str | Iterable[Any] | Callable[[Any], bool], *, within: int | None = None) -> Property:
    """The episode meets no state of ``bad``, from its first state to its last.

    Parameters
    ----------
    bad : str, iterable or callable
        As in `reach`.
    within : int, optional
        As in `reach`.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> cf = tether.counterfactual(patient.mdp, patient.path)
    >>> cf.plan(k=9, m=2, objective=tether.avoid("died"))
    <Plan: k = 9, m = 2, definition, support: probability 0.2044, observed 0, avoid died>
    """
    return Property("avoid", (as_given("avoid", "bad", bad),), None if within is None else _steps("avoid", within))


def until(
    hold: str | Iterable[Any] | Callable[[Any], bool],
    goal: str | Iterable[Any] | Callable[[Any], bool],
    *,
    within: int | None = None,
) -> Property:
    """The episode meets a state of ``goal``, and every state before it is one of ``hold``.

    Parameters
    ----------
    hold, goal : str, iterable or callable
        As in `reach`.
    within : int, optional
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
    sets = as_given("until", "hold", hold), as_given("until", "goal", goal)
    return Property("until", sets, None if within is None else _steps("until", within))


def make_property(objective: Any) -> Property | None:
    """The objective, checked: a property, or one in words or as PRISM and Storm write it, or None for the return.

    >>> make_property('P=? [ F "goal" ]'), make_property("reach goal")
    (<Property: reach goal>, <Property: reach goal>)
    """
    if objective is None or isinstance(objective, Property):
        return objective
    if isinstance(objective, str):
        return parse_property(objective)
    raise QueryError(
        f"objective must be tether.reach(goal), tether.avoid(bad) or tether.until(hold, goal), not {objective!r}"
    )


def parse_property(text: str) -> Property:
    """A property as written on the command line: its kind, then labels; quote a label that has spaces.

    Or as PRISM and Storm write it; see `tether.model.property_language`.

    >>> parse_property("until safe 'the goal'")
    <Property: until safe 'the goal'>
    >>> parse_property("key then door within 9 and avoid pit")
    <Property: P=? [ ((F ("key" & (X (F "door")))) within 9) & (G !"pit") ]>
    >>> parse_property("reach(goal, within=8)")  # as in Python
    <Property: reach goal within 8>
    """
    if is_formal(text):
        return property_of(parse_formal(text))
    try:
        words = shlex.split(_CALL.sub(lambda call: " ".join(["", call[1], *re.split("[,=]", call[2]), ""]), text))
    except ValueError:
        words = []
    parts = [list(part) for joint, part in groupby(words, lambda word: word in ("and", "&")) if not joint]
    found = [_part(part) for part in parts]
    if found and None not in found and len(words) == sum(map(len, parts)) + len(parts) - 1:
        return reduce(operator.and_, cast("list[Property]", found))
    forms = ", ".join(f"'{kind} {' '.join(name.upper() for name in names)}'" for kind, names in _ARGUMENTS.items())
    message = (
        f"the objective {text!r} is none of {forms} (with within, then and and: 'reach A then B within 8 and avoid "
    )
    message += "C'), where each word in capitals is a label of the model or the name of a state"
    kind = words[0] if words else ""
    fix = f'put quotes around a name that has spaces: {kind} "NAME"' if kind in _ARGUMENTS and words[1:] else ""
    raise QueryError(Problem(message, value=text, fix=fix))


def _part(words: list[str]) -> Property | None:
    """``reach A``, ``A then B``, ``avoid A within 8``; None where it is none of these."""
    within, words = (
        (int(words[-1]), words[:-2]) if words[-2:-1] == ["within"] and words[-1].isdigit() else (None, words)
    )
    goals = words[1:] if words[:1] == ["reach"] else words
    if "then" in goals and all((word == "then") == (i % 2 == 1) for i, word in enumerate(goals)) and len(goals) % 2:
        first = reach(goals[0])
        for goal in goals[2::2]:
            first = first.then(goal)
        return first if within is None else property_of(("within", within, first.tree))
    for known, names in _ARGUMENTS.items():
        if words[:1] == [known] and len(words) == len(names) + 1:
            return Property(known, tuple(words[1:]), within)
    return None


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
