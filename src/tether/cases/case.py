"""A case study: a model and the paths observed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any

from tether._foundation.markup import facts
from tether.mdp import MDP
from tether.observation.path import Path


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Case:
    """A model and the paths observed in it.

    Attributes
    ----------
    name : str
    mdp : MDP
    paths : mapping of str to Path
        The observed paths by name.
    stories : mapping of str to str
        What happened on each path, in a sentence.
    words : mapping of action to str
        Actions in words, where their names are abbreviations.
    noun : str
        What an episode is about: a patient, a robot.

    Examples
    --------
    >>> import tether
    >>> tether.cases.sepsis()
    <Case sepsis: 1,440 states, 8 actions; paths catastrophic, suboptimal>
    >>> tether.cases.grid_world().story
    'The robot went right twice, then down into the pit, where it stayed.'
    >>> tether.cases.epidemic().words["V_I"]
    'vaccinate an infected person'
    """

    name: str
    mdp: MDP
    paths: Mapping[str, Path]
    stories: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    words: Mapping[Any, str] = field(default_factory=dict, kw_only=True)
    noun: str = field(default="episode", kw_only=True)

    def __post_init__(self) -> None:
        for name in ("paths", "stories", "words"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor, with dictionaries: a read-only view of one cannot be pickled.
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        plain: dict[str, Any] = {
            name: dict(value) if isinstance(value, MappingProxyType) else value for name, value in values.items()
        }
        return partial(type(self), **plain), ()

    @property
    def path(self) -> Path:
        """The first of the paths."""
        return next(iter(self.paths.values()))

    @property
    def story(self) -> str:
        """What happened on the first of the paths, in a sentence; empty if nobody wrote it down."""
        return self.stories.get(next(iter(self.paths)), "")

    def __repr__(self) -> str:
        mdp = self.mdp
        return f"<Case {self.name}: {mdp.n_states:,} states, {mdp.n_actions} actions; paths {', '.join(self.paths)}>"

    def _repr_html_(self) -> str:
        return facts([("case", self.name), ("model", self.mdp), *self.paths.items()])
