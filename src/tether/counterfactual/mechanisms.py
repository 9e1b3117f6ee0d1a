"""The mechanisms there are, by name."""

from __future__ import annotations

from typing import Any

from tether.counterfactual.gumbel_max import GumbelMax
from tether.counterfactual.mechanism import Mechanism
from tether.counterfactual.sampled import SampledGumbelMax
from tether.errors import QueryError

__all__ = ["make_mechanism"]

_BUILT_IN = {GumbelMax.name: GumbelMax, SampledGumbelMax.name: SampledGumbelMax}


def make_mechanism(mechanism: str | Mechanism, options: dict[str, Any]) -> Mechanism:
    """A mechanism by name with its options, or one that was built already."""
    if not isinstance(mechanism, str):
        if not (hasattr(mechanism, "infer") and hasattr(mechanism, "standard_error")):
            raise QueryError(f"mechanism must be a name ({_names()}) or a Mechanism, not {mechanism!r}")
        if options:
            raise QueryError(f"options ({', '.join(options)}) go with a mechanism given by name; this one is built")
        return mechanism
    if mechanism not in _BUILT_IN:
        raise QueryError(f"there is no mechanism {mechanism!r}; there is {_names()}")
    kind = _BUILT_IN[mechanism]
    known = [] if kind is GumbelMax else ["samples", "rng", "method"]
    for name in options:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise QueryError(f"the mechanism {mechanism!r} {takes}; got {name}=")
    made: Mechanism = kind(**options)
    return made


def _names() -> str:
    return " and ".join(repr(name) for name in _BUILT_IN)
