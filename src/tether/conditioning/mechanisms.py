"""All mechanisms, by name; and what is asked of a mechanism that is not built in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.conditioning.couplings import Comonotone, Independent, Maximal
from tether.conditioning.edited_rows import ObservedStep, Rows, spans
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import Candidates, ExactMechanism, Mechanism, NoisePosterior
from tether.conditioning.row_function import RowMechanism, RowOf
from tether.conditioning.sampled import SampledGumbelMax
from tether.core.batch import COMONOTONE, GUMBEL_MAX, INDEPENDENT, MAXIMAL
from tether.errors import Problem, QueryError
from tether.model.form import TOLERANCE, Form, pair_states
from tether.model.model_record import ModelRecord
from tether.model.names import name_list

_BUILT_IN: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    GumbelMax.name: (GumbelMax, ()),
    SampledGumbelMax.name: (SampledGumbelMax, ("samples", "rng", "method")),
    Independent.name: (Independent, ()),
    Comonotone.name: (Comonotone, ("order",)),
    Maximal.name: (Maximal, ()),
}
"""Each by its name, and the options that it takes."""

EXACT = tuple(name for name, (kind, _) in _BUILT_IN.items() if issubclass(kind, ExactMechanism))
"""The mechanisms whose rows are closed forms."""

KINDS: dict[type[Any], int] = {
    GumbelMax: GUMBEL_MAX,
    Independent: INDEPENDENT,
    Comonotone: COMONOTONE,
    Maximal: MAXIMAL,
}
"""The mechanisms that `tether.core.coupled` has the rows of, also of several copies of a model at once."""


def make_mechanism(mechanism: str | Mechanism | RowOf, options: dict[str, Any], mdp: ModelRecord) -> Mechanism:
    """A mechanism by name with its options, a mechanism object, or a row function; prepared for the model if needed."""
    if isinstance(mechanism, str):
        return make_mechanism(_by_name(mechanism, options), {}, mdp)
    if isinstance(mechanism, type) and any(mechanism is kind for kind, _ in _BUILT_IN.values()):
        name = f"tether.{mechanism.__name__}"
        raise QueryError(Problem(f"mechanism={name} is a class, not a mechanism", fix=f"write {name}()"))
    if not isinstance(mechanism, Mechanism):
        parts = [name for name in vars(Mechanism) if not name.startswith("_")]
        lacks = [name for name in parts if not hasattr(mechanism, name)]
        if hasattr(mechanism, "infer") and not isinstance(mechanism, type):
            raise QueryError(f"mechanism: {type(mechanism).__name__} lacks {name_list(lacks)} of tether.Mechanism")
        if not callable(mechanism) or isinstance(mechanism, type):
            known = f"a name ({_names()}), a Mechanism, or a function f(p, observed, q) that returns a row"
            raise QueryError(f"mechanism must be {known}, not {mechanism!r}")
        return make_mechanism(RowMechanism(mechanism), options, mdp)
    if options:
        raise QueryError(f"options ({', '.join(options)}) go with a mechanism given by name; this one is built")
    prepared: Mechanism = mechanism.prepare(mdp) if hasattr(mechanism, "prepare") else mechanism
    return prepared


def infer(mdp: ModelRecord, mechanism: Mechanism, step: ObservedStep) -> NoisePosterior:
    """The noise of a recorded step; rows of a mechanism that is not built in are checked when they are replayed."""
    posterior = mechanism.infer(step)
    built_in = any(type(mechanism) is kind for kind, _ in _BUILT_IN.values())
    return posterior if built_in else _CheckedPosterior(mdp, step, posterior)


class _CheckedPosterior:
    """The posterior of somebody's own mechanism, with checked rows."""

    def __init__(self, mdp: ModelRecord, step: ObservedStep, posterior: NoisePosterior) -> None:
        self._mdp, self._step, self._posterior = mdp, step, posterior

    @property
    def key(self) -> Hashable:
        """The posterior's own key; None, if it cannot be compared: equal rows are then made anew."""
        try:
            hash(self._posterior.key)
        except TypeError:
            return None
        return self._posterior.key

    def changes(self, candidates: Candidates) -> Ints:
        """The pairs whose rows the posterior can alter."""
        return self._posterior.changes(candidates)

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """The rows of ``pairs``; an error if they are not those of a causal model that agrees with the episode."""
        rows = self._posterior.replay(form, pairs)
        if not (isinstance(rows, Rows) and np.array_equal(rows.pairs, pairs) and rows.start.size == pairs.size + 1):
            message = "the mechanism must return one row for each pair that it is asked for (Rows.from_entries)"
            raise QueryError(Problem(message, time=self._step.t, place=f"t = {self._step.t}"))
        owner, item = spans(rows.start[:-1], rows.start[1:])
        chance, after = rows.probability[item], rows.next_state[item].astype(np.int64)
        total = np.bincount(owner, chance, minlength=pairs.size)
        ascending = np.ones(after.size, bool)
        ascending[1:] = (after[1:] > after[:-1]) | (owner[1:] != owner[:-1])
        unlike = np.bincount(owner, ~_among_nominal(form, pairs, owner, after), minlength=pairs.size) > 0
        certain = np.bincount(owner, (after == self._step.outcome) * chance, minlength=pairs.size)
        for wrong, what in (
            (np.bincount(owner, ~np.isfinite(chance), minlength=pairs.size) > 0, "has a probability that is no number"),
            (np.bincount(owner, chance < 0.0, minlength=pairs.size) > 0, "has a negative probability"),
            (unlike, "leads to a state that the model's row cannot lead to"),
            (np.bincount(owner, ~ascending, minlength=pairs.size) > 0, "does not list its next states in their order"),
            (np.abs(total - 1.0) > TOLERANCE, "does not sum to 1"),
            (
                (pairs == self._step.pair) & ~(np.abs(certain - 1.0) <= TOLERANCE),
                "does not give the observed action in the observed state its observed outcome for certain",
            ),
        ):
            if wrong.any():
                at = int(np.argmax(wrong))
                raise QueryError(self._problem(form, int(pairs[at]), float(total[at]), what))
        return rows

    def _problem(self, form: Form, pair: int, total: float, what: str) -> Problem:
        t, mdp = self._step.t, self._mdp
        state, action = int(pair_states(form.pair_start, pair)), mdp.actions[int(form.pair_action[pair])]
        named = mdp.states[state] if form.pair_start.size == mdp.form.pair_start.size else state
        message = (
            f"the mechanism's row {what}: state {named!r}, action {action!r}, its probabilities sum to {total:.12g}"
        )
        fix = "return rows of a causal model that agrees with the model and with the episode"
        return Problem(message, value=total, state=named, time=t, place=f"t = {t}", fix=fix)


def _among_nominal(form: Form, pairs: Ints, owner: Ints, after: Ints) -> Flags:
    """Whether the nominal row of ``pairs[owner[i]]`` can lead to ``after[i]``."""
    row, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
    n_states = form.pair_start.size - 1
    nominal = row * n_states + form.next_state[entry]
    inside: Flags = (after >= 0) & (after < n_states) & np.isin(owner * n_states + after, nominal)
    return inside


def _by_name(name: str, options: dict[str, Any]) -> Mechanism:
    if name not in _BUILT_IN:
        raise QueryError(f"there is no mechanism {name!r}; there is {_names()}")
    kind, known = _BUILT_IN[name]
    for option in options:
        if option not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise QueryError(f"the mechanism {name!r} {takes}; got {option}=")
    made: Mechanism = kind(**options)
    return made


def _names() -> str:
    *most, last = (repr(name) for name in _BUILT_IN)
    return f"{', '.join(most)} and {last}"
