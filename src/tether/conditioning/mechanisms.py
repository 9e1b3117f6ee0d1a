"""All mechanisms, by name."""

from __future__ import annotations

from typing import Any

from tether.conditioning.couplings import Comonotone, Independent, Maximal
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import ExactMechanism, Mechanism
from tether.conditioning.sampled import SampledGumbelMax
from tether.errors import QueryError
from tether.model.mdp import MDP

__all__ = ["EXACT", "make_mechanism"]

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


def make_mechanism(mechanism: str | Mechanism, options: dict[str, Any], mdp: MDP) -> Mechanism:
    """A mechanism by name with its options, or a mechanism object; prepared for the model if it needs this."""
    if isinstance(mechanism, str):
        mechanism = _by_name(mechanism, options)
    elif not all(hasattr(mechanism, name) for name in ("name", "infer", "standard_error")):
        raise QueryError(f"mechanism must be a name ({_names()}) or a Mechanism, not {mechanism!r}")
    elif options:
        raise QueryError(f"options ({', '.join(options)}) go with a mechanism given by name; this one is built")
    prepared: Mechanism = mechanism.prepare(mdp) if hasattr(mechanism, "prepare") else mechanism
    return prepared


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
