"""Is this model sound, is this path possible in it? All problems at once, as a record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import FileError, ModelError, PathError, Problem
from tether.influence.coverage import Coverage, coverage
from tether.io.models import format_by_suffix
from tether.io.opening import open_model, open_path
from tether.mdp import MDP
from tether.model.names import name_list
from tether.observation.path import Path


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check:
    """The result of a check.

    Attributes
    ----------
    mdp : MDP or None
        The model; None if it is not sound.
    cf : CounterfactualMDP or None
        The model conditioned on the path; None without a path, or if either is not sound.
    coverage : Coverage or None
        What the path reaches and influences.
    problems : tuple of Problem
        What is wrong, up to a limit per file.
    total : int
        How many problems there are.
    notes : tuple of str
        What is no problem, but should be known, in sentences.

    Examples
    --------
    >>> import tether
    >>> tether.io.check("case:grid-world", "case:grid-world")
    <Check: sound, 16 states reached, 184 of 512 pairs influenced>
    """

    mdp: MDP | None
    cf: CounterfactualRecord | None
    coverage: Coverage | None
    problems: tuple[Problem, ...]
    total: int
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __repr__(self) -> str:
        if self.problems:
            return f"<Check: {self.total:,} problems>"
        found = self.coverage
        if found is None:
            return "<Check: sound>"
        influenced, pairs = int(found.influenced.sum()), int(found.pairs.sum())
        return f"<Check: sound, {found.ever:,} states reached, {influenced:,} of {pairs:,} pairs influenced>"


def check(
    model: MDP | str | os.PathLike[str],
    path: Path | str | os.PathLike[str] | None = None,
    *,
    influence: Any = "support",
) -> Check:
    """Check a model, and a path in it; problems are reported, not raised.

    Parameters
    ----------
    model : MDP, str or path
        A model, or what `tether.io.open_model` opens.
    path : Path, str or path, optional
        An episode, or what `tether.io.open_path` opens.
    influence : {"support"} or Influence
        When a step counts as influenced.

    Examples
    --------
    >>> import tether
    >>> found = tether.io.check("case:grid-world", tether.Path([0, 15], ["up"]))
    >>> found.sound, found.problems[0].time
    (False, 0)
    """
    return check_opened(
        lambda: model if isinstance(model, MDP) else open_model(model),
        None if path is None else lambda mdp: path if isinstance(path, Path) else open_path(path, mdp),
        CounterfactualRecord.of,
        influence,
        None if isinstance(model, MDP) else format_by_suffix(os.fspath(model)),
    )


def check_opened(
    model: Callable[[], MDP],
    path: Callable[[MDP | None], Path] | None,
    condition: Callable[[MDP, Path], CounterfactualRecord],
    influence: Any,
    format: str | None,
) -> Check:
    """Check a model and a path that are opened here, which shows their problems; ``format`` is that of the model."""
    noted = _Noted()
    mdp: MDP | None = None
    cf: CounterfactualRecord | None = None
    found: Coverage | None = None
    with noted.problems_of_files():
        mdp = model()
    if path is not None:
        with noted.problems_of_files():
            episode = path(mdp)  # if there is no model, the file may still have problems of its own
            if mdp is not None:
                cf = condition(mdp, episode)
                found = coverage(cf, influence)
    return Check(mdp, cf, found, tuple(noted.problems), noted.total, _unnamed(mdp, format))


def _unnamed(mdp: MDP | None, format: str | None) -> tuple[str, ...]:
    """A note if a model of PRISM or Storm has choices without names: their numbers are no names of actions."""
    if mdp is None or format not in ("prism", "drn") or mdp.n_actions == 1:
        return ()
    numbers = [action for action in mdp.actions if type(action) is int]
    if not numbers:
        return ()
    return (
        f"Choices without a name are numbered in each state ({name_list(numbers[:5])}{', …' if numbers[5:] else ''}). "
        "Choices of different states with the same number count as one action, whatever they do: if they are not, give "
        "them names in the model, and export it again.",
    )


@dataclass
class _Noted:
    problems: list[Problem] = field(default_factory=list)
    total: int = 0

    @contextmanager
    def problems_of_files(self) -> Iterator[None]:
        """Note problems; a missing file is not a problem of the model, but a wrong call."""
        try:
            yield
        except (FileError, ModelError, PathError) as error:
            if isinstance(error.__cause__, OSError):
                raise
            self.problems += error.problems
            self.total += error.total
