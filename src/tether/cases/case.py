"""A case study: a model and the paths observed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from tether._foundation.markup import facts
from tether.model.mdp import MDP
from tether.observation.path import Path

__all__ = ["Case"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Case:
    """A model and the paths observed in it.

    Attributes
    ----------
    name : str
    mdp : MDP
    paths : mapping of str to Path
        The observed paths by name.

    Examples
    --------
    >>> import tether
    >>> tether.cases.sepsis()
    <Case sepsis: 1,440 states, 8 actions; paths catastrophic, suboptimal>
    """

    name: str
    mdp: MDP
    paths: Mapping[str, Path]

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", MappingProxyType(dict(self.paths)))

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor, with a dictionary: a read-only view of it cannot be pickled.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self), tuple((values | {"paths": dict(self.paths)}).values())

    @property
    def path(self) -> Path:
        """The first of the paths."""
        return next(iter(self.paths.values()))

    def __repr__(self) -> str:
        mdp = self.mdp
        return f"<Case {self.name}: {mdp.n_states:,} states, {mdp.n_actions} actions; paths {', '.join(self.paths)}>"

    def _repr_html_(self) -> str:
        return facts([("case", self.name), ("model", self.mdp), *self.paths.items()])
