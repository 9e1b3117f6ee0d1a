"""The episode that a property is asked about: its first steps, and with states that remember what remains.

A property within n steps is a question about the first n steps of the episode alone: T is then n. A formula
(`tether.model.path_formula`) is asked of the product of the model with its automaton (`tether.model.product`). There it
is decided by sets of states, as any property is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tether._foundation.arrays import Ints, read_only
from tether.conditioning.counterfactual_record import CounterfactualRecord, cached_with
from tether.influence.advisable import Advisable
from tether.model.model_record import ModelRecord
from tether.model.path_formula import automaton
from tether.model.product import memory_of, product_model
from tether.model.properties import Property
from tether.model.property_language import StateFormula
from tether.model.property_words import as_formal
from tether.model.state_sets import mask_of
from tether.observation.path import Observation, Path

_Kind = TypeVar("_Kind", bound=CounterfactualRecord)
_Model = TypeVar("_Model", bound=ModelRecord)

_LONGEST = 10**9
"""No episode has so many steps."""


def in_question(cf: _Kind, objective: Property | None) -> tuple[_Kind, Property | None]:
    """The episode as far as a property is about it, and the property as it is decided there."""
    if objective is None:
        return cf, None
    steps = cf.T if cf.after is None else cf.after.until
    about = objective.about_steps
    if about is not None:
        about = max(about, 1)
        cf = cached_with(cf, ("first steps", about), lambda: _first_steps(cf, about))
        steps = about if steps is None else min(about, steps)
    asked = objective.of_cut(_LONGEST if steps is None else steps)
    if not asked.remembers:
        return cf, asked
    return cached_with(cf, ("remembers", asked.cut), lambda: _carried(cf, asked)), asked


def remembering(mdp: _Model, objective: Property, starts: Ints) -> _Model:
    """The product of a model with what remains of a formula, from some first states."""
    if memory_of(mdp) is not None:  # it remembers already: this formula, or another one that is not asked with it
        return mdp
    masks = {
        given: given.on(mdp) if isinstance(given, StateFormula) else mask_of(mdp, f"{objective}", given)
        for given in objective.sets
    }
    return product_model(mdp, objective.cut, automaton(objective.cut, masks, as_formal), starts)


def plain_in_question(
    mdp: _Model, objective: Property | None, steps: int, starts: Ints
) -> tuple[_Model, Property | None, int]:
    """A model, a property and a number of steps as they are asked about from some first states."""
    if objective is None:
        return mdp, None, steps
    about = objective.about_steps
    steps = steps if about is None else min(steps, max(about, 1))
    asked = objective.of_cut(steps)
    return (remembering(mdp, asked, starts) if asked.remembers else mdp), asked, steps


def carried_advice(cf: CounterfactualRecord, advisable: Advisable | None) -> Advisable | None:
    """What may be advised, for the pairs of a product."""
    memory = memory_of(cf.mdp)
    if advisable is None or memory is None or advisable.pair_of is not None:
        return advisable
    return replace(advisable, pair_of=memory.pair)


def _first_steps(cf: _Kind, steps: int) -> _Kind:
    """The question about the first steps of an episode; the same where it has no more."""
    after = cf.after
    if steps > cf.T:
        if after is None or (after.until is not None and after.until <= steps):
            return cf
        return type(cf).again(cf.mdp, cf.path, cf.mechanism, replace(after, until=steps))
    if steps == cf.T and after is None:
        return cf
    return type(cf).again(cf.mdp, cf.path.first(steps), cf.mechanism, None)


def _carried(cf: _Kind, objective: Property) -> _Kind:
    """The episode in the product with what remains of a formula."""
    if memory_of(cf.mdp) is not None:
        return cf
    product, seen = _with_memory(cf.mdp, cf.observation, objective)
    names = [product.states[int(s)] for s in seen.states if s >= 0]
    path = Path(names, cf.path.actions, cf.path.rewards, cf.path.outcome)
    return type(cf).again(product, path, cf.mechanism, cf.after)


def observed_in_question(
    mdp: _Model, seen: Observation, objective: Property | None
) -> tuple[_Model, Observation, Property | None]:
    """A model, an episode and a property as they are asked about without an observation."""
    if objective is None:
        return mdp, seen, None
    about = objective.about_steps
    if about is not None and about < seen.T:
        about = max(about, 1)
        rewards = None if seen.rewards is None else seen.rewards[:about]
        seen = Observation(seen.states[: about + 1], seen.actions[:about], seen.pairs[:about], rewards)
    asked = objective.of_cut(_LONGEST if about is None else max(about, seen.T))
    return (*_with_memory(mdp, seen, asked), asked) if asked.remembers else (mdp, seen, asked)


def _with_memory(mdp: _Model, seen: Observation, objective: Property) -> tuple[_Model, Observation]:
    product = remembering(mdp, objective, seen.states[:1])
    memory = memory_of(product)
    assert memory is not None
    states = memory.follow(seen.states)
    first, before = product.form.pair_start, mdp.form.pair_start
    pairs = first[states[:-1]] + seen.pairs - before[seen.states[:-1]]
    return product, Observation(read_only(states), seen.actions, read_only(pairs), seen.rewards)
