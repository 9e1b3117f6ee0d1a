"""An episode of somebody whose type was never recorded: what it says of the type, and rows averaged over types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed
from tether._foundation.words import percent
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import PathError, Problem, QueryError
from tether.model.several_types import Types
from tether.observation.path import Path

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes


class TypesOverTime(Mapping[str, Floats], Tabular, Displayed):
    """The probability of each type before the first step and after each: arrays of T + 1 numbers, by type.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.hidden_diabetes()
    >>> shares = tether.counterfactual(case.types, case.paths["unclear"]).posterior_over_time
    >>> shares["diabetic"].round(2), shares.plot().get_title("left")
    (array([0.2 , 0.43, 0.43, 0.43]), 'By what happened, most likely not diabetic (57 %)')
    """

    def __init__(self, shares: Mapping[str, Floats]) -> None:
        self._shares = dict(shares)

    def __getitem__(self, name: str) -> Floats:
        return self._shares[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shares)

    def __len__(self) -> int:
        return len(self._shares)

    def to_arrow(self) -> pyarrow.Table:
        """One row per time 0 … T, with a column for each type."""
        import pyarrow as pa

        steps = len(next(iter(self._shares.values())))
        return pa.table({"t": pa.array(range(steps), type=pa.int64()), **self._shares})

    def plot(self, ax: Axes | None = None) -> Axes:
        """The probability of each type over time; returns the axes."""
        from tether.figures.types_figure import plot_types

        return plot_types(self, ax)

    def __repr__(self) -> str:
        ends = (f"{name} {percent(float(one[0]))} to {percent(float(one[-1]))}" for name, one in self._shares.items())
        return f"<TypesOverTime: {', '.join(ends)}>"


@dataclass(frozen=True, eq=False, repr=False)
class TypedRecord:
    """What an episode says of the hidden type.

    `tether.records.TypedCounterfactual` adds the questions; the folders that answer them take this record.

    Attributes
    ----------
    types : Types
    path : Path

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.hidden_diabetes()
    >>> tether.counterfactual(case.types, case.paths["unclear"])
    <TypedCounterfactual: 3 steps; not diabetic 57 %, diabetic 43 %>
    """

    types: Types
    path: Path

    def __post_init__(self) -> None:
        _ = self.posterior_over_time  # an impossible path is an error at once

    @property
    def T(self) -> int:
        """Number of steps of the observed path."""
        return len(self.path.actions)

    @cached_property
    def posterior_over_time(self) -> TypesOverTime:
        """The probability of each type before the first step and after each: arrays of T + 1 numbers.

        Only outcomes count, unless the types have a ``practice``: then those who acted saw the type, and what they did
        says something of it too.
        """
        first = next(iter(self.types.models.values()))
        states, actions = self.path.states, self.path.actions
        weights = [np.array(list(self.types.prior(states[0]).values()))]
        for s, a, after in zip(states, actions, [*states[1:], None], strict=False):
            seen = weights[-1].copy()
            pair = first.pair_index(s, a)  # an unknown name is its own error
            if self.types.own_practice is not None:
                seen *= [shares[pair] for shares in self.types.own_practice.values()]
            if after is not None:
                rows = [dict(zip(*mdp.row(s, a), strict=True)) for mdp in self.types.models.values()]
                seen *= [row.get(after, 0.0) for row in rows]
            if seen.sum() <= 0.0:
                message = f"no type can go from {s!r} with {a!r} to {after!r}"
                raise PathError(Problem(message, s, a, time=len(weights) - 1))
            weights.append(seen / seen.sum())
        table = np.array(weights)
        return TypesOverTime({name: table[:, i] for i, name in enumerate(self.types.models)})

    @property
    def posterior(self) -> dict[str, float]:
        """What the episode says of the type: the probability of each."""
        return {name: float(shares[-1]) for name, shares in self.posterior_over_time.items()}

    @property
    def possible(self) -> tuple[str, ...]:
        """The types that the episode leaves possible."""
        return tuple(name for name, share in self.posterior.items() if share > 0.0)

    @property
    def shares(self) -> Floats:
        """The posterior of the types that are left possible."""
        return np.array([self.posterior[name] for name in self.possible])

    @cached_property
    def by_type(self) -> Mapping[str, CounterfactualRecord]:
        """The counterfactual MDP of each type that the episode leaves possible."""
        return {name: CounterfactualRecord.of(self.types.bare(name), self.path) for name in self.possible}

    def beliefs(self, history: Path | None = None) -> tuple[dict[str, float], dict[str, float]]:
        """The probability of each type after a counterfactual history: with this episode, and without it.

        ``history`` has the states s_0 … s_t that were met instead, and what was done there; by default nothing was met
        yet. A history that cannot happen is an error.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> first, action = case.paths["unclear"].states[0], "vasopressors"
        >>> after = cf.row(0, first, action)[0][0]
        >>> [round(one["diabetic"], 2) for one in cf.beliefs(tether.Path([first, after], [action]))]
        [0.11, 0.04]
        """
        given, before = self.posterior, self.types.prior(self.path.states[0])
        if history is None:
            return given, before
        if history.states[0] != self.path.states[0]:
            raise PathError(f"a counterfactual history begins in {self.path.states[0]!r}, as the episode does")
        if len(history.actions) > self.T:
            raise PathError(f"the history has {len(history.actions)} steps, more than the {self.T} of the episode")
        for t, (s, a, after) in enumerate(zip(history.states, history.actions, history.states[1:], strict=False)):
            for name, mdp in self.types.models.items():
                before[name] *= dict(zip(*mdp.row(s, a), strict=True)).get(after, 0.0)
                if given[name] > 0.0:
                    given[name] *= float(dict(zip(*self.by_type[name].row(t, s, a), strict=True)).get(after, 0.0))
            if not sum(given.values()) > 0.0:
                message = f"with the luck of this episode, {s!r} with {a!r} does not lead to {after!r} at step {t}"
                raise PathError(Problem(message, s, a, time=t))
        return _normalised(given), _normalised(before)

    def row(self, t: int, state: Any, action: Any, *, history: Path | None = None) -> tuple[tuple[Any, ...], Floats]:
        """Next states and their probabilities, with the luck of this episode, averaged over the types.

        ``history`` is what was met instead before; see `beliefs`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> at = case.paths["unclear"].states[0], "vasopressors"
        >>> cf.row(0, *at)[1][:3].round(3), cf.nominal_row(0, *at)[1][:3].round(3)
        (array([0.017, 0.002, 0.156]), array([0.023, 0.001, 0.203]))
        """
        weights, _ = self.beliefs(history)
        return self._mixed(weights, {name: self.by_type[name].row(t, state, action) for name in self.possible})

    def nominal_row(
        self, t: int, state: Any, action: Any, *, history: Path | None = None
    ) -> tuple[tuple[Any, ...], Floats]:
        """Next states and their probabilities without the episode: the models, averaged over the prior."""
        self._time(t)
        _, weights = self.beliefs(history)
        return self._mixed(weights, {name: mdp.row(state, action) for name, mdp in self.types.models.items()})

    def _mixed(self, weights: Mapping[str, float], rows: Mapping[str, Any]) -> tuple[tuple[Any, ...], Floats]:
        states, total = next(iter(self.types.models.values())).states, dict[int, float]()
        for name, (after, chances) in rows.items():
            for j, chance in zip(after, chances, strict=True):
                place = states.find(j)
                total[place] = total.get(place, 0.0) + weights[name] * float(chance)
        places = sorted(j for j, chance in total.items() if chance > 0.0)
        return tuple(states[j] for j in places), np.array([total[j] for j in places])

    def strength(
        self, t: int, state: Any, action: Any, channel: str = "total", *, history: Path | None = None
    ) -> float:
        """How much the episode changes what is to be expected of an action at step t, as a total variation.

        The ``"luck"`` of the step changes the row of each type; what the episode says of the ``"type"`` changes how
        much each type counts. The ``"total"`` is at most their sum. The second does not fade with time; k counts luck.
        ``history`` is what was met instead before; see `beliefs`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> at = case.paths["unclear"].states[0], "antibiotics"
        >>> [round(cf.strength(0, *at, channel), 2) for channel in ("luck", "type", "total")]
        [0.83, 0.09, 0.87]
        """
        if channel not in ("total", "luck", "type"):
            raise QueryError(f"channel must be 'total', 'luck' or 'type', not {channel!r}")
        self._time(t)
        given, before = self.beliefs(history)
        plain = {name: mdp.row(state, action) for name, mdp in self.types.models.items()}
        own = {name: self.by_type[name].row(t, state, action) for name in self.possible}
        luck = dict(zip(*self._mixed(given, own), strict=True))
        of_type = dict(zip(*self._mixed(given, plain), strict=True))
        nothing = dict(zip(*self._mixed(before, plain), strict=True))
        one, other = {"luck": (luck, of_type), "type": (of_type, nothing), "total": (luck, nothing)}[channel]
        return 0.5 * float(sum(abs(one.get(j, 0.0) - other.get(j, 0.0)) for j in one.keys() | other.keys()))

    def _time(self, t: int) -> int:
        return next(iter(self.by_type.values())).time(t)

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in self.posterior.items())
        return f"<TypedCounterfactual: {self.T} step{'' if self.T == 1 else 's'}; {shares}>"


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: float(weight / total) for name, weight in weights.items()}
