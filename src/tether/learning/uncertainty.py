"""How sure one can be of a plan, or of a whole sweep, when the model was learned: records that read as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.rounding import ROUNDING, settled
from tether._foundation.words import number, percent
from tether.errors import QueryError
from tether.model.properties import Property


@dataclass(frozen=True, slots=True)
class ChangedAction(Displayed):
    """A change that a plan makes, and how often it would be made again.

    Attributes
    ----------
    t : int
    state : name
        The state the plan is most likely in at t.
    observed, action : name
        What was done at t, and what the plan does there instead.
    same : float
        Share of the drawn models whose own best plan, within the same limits, takes the same action there.
    reached : float
        Share of the drawn models whose own best plan can be in that state at t at all.

    Examples
    --------
    >>> import tether
    >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "well")] * 2 + [("wait", "dead")] * 3
    >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
    >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
    >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=1, m=1)
    >>> tether.posterior(mdp, draws=200, rng=1).of(plan).changes
    (ChangedAction(t=0, state='sick', observed='wait', action='treat', same=0.94, reached=1.0),)
    """

    t: int
    state: Any
    observed: Any
    action: Any
    same: float
    reached: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlanUncertainty:
    """What becomes of a plan in the models that a log leaves possible; prints as a few sentences.

    Attributes
    ----------
    k, m : int
        Limits of the plan.
    value, observed_value : float
        What the plan and the observed path are worth in the learned model itself.
    values : array (draws,)
        What the plan, followed as it is, is worth in each drawn model.
    observed : array (draws,)
        What the observed path is worth there.
    best : array (draws,)
        What the best plan within the same limits would be worth there, made with that model.
    off_plan : array (draws,)
        Probability of coming to a state about which the plan says nothing; see `tether.learning.follower`.
    changes : tuple of ChangedAction
        The changes of the plan, each in the state it is most likely in.
    outcomes : mapping of str to array (draws,)
        Probability of each outcome at the end in each drawn model; see `Evaluation.outcomes`.
    objective, minimise
        What the plan was made for: values are the probability of a property, or a return; and whether less is better.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> mdp = tether.learn([grid.mdp.simulate("random", 11, rng=seed) for seed in range(300)] + [grid.path], prior=1)
    >>> mdp = mdp.with_objective(final_reward=lambda s: 100 * (s == 15))
    >>> plan = tether.counterfactual(mdp, grid.path).plan(k=12, m=6)
    >>> sure = tether.posterior(mdp, draws=50, rng=1).of(plan)
    >>> sure.probability_better
    1.0
    >>> low, high = sure.interval(0.9)
    >>> bool(low < plan.value < high)
    True
    """

    k: int
    m: int
    value: float
    observed_value: float
    values: Floats
    observed: Floats
    best: Floats
    off_plan: Floats
    changes: tuple[ChangedAction, ...]
    outcomes: Mapping[str, Floats] = field(default_factory=dict)
    objective: Property | None = None
    minimise: bool = False

    @property
    def draws(self) -> int:
        """How many models were drawn."""
        return int(self.values.size)

    @property
    def mean(self) -> float:
        """Mean value over the drawn models."""
        return float(self.values.mean())

    @property
    def std(self) -> float:
        """Spread (standard deviation) of the value over the drawn models."""
        size = np.abs(self.values).max()
        return float(settled(self.values.std(), self.values.min(), self.values.max(), size))

    @property
    def probability_better(self) -> float:
        """Share of the drawn models in which the plan is worth more than the observed path, or less, if that was asked.

        For an episode that ended as badly as it could this is 1: look at the interval instead.
        """
        return float(np.mean(better(self.values, self.observed, self.minimise)))

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """The credible interval of the value: with probability ``level`` it lies within, as likely below as above."""
        low, high = np.quantile(self.values, tails(level))
        return float(low), float(high)

    def outcome_interval(self, outcome: str, level: float = 0.9) -> tuple[float, float]:
        """Credible interval of the probability that the episode ends in ``outcome``."""
        if outcome not in self.outcomes:
            known = ", ".join(map(repr, self.outcomes)) or "none"
            raise QueryError(f"there is no outcome {outcome!r}; there are {known}")
        low, high = np.quantile(self.outcomes[outcome], tails(level))
        return float(low), float(high)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """What to expect, how likely it beats what was done, and how firm each change is; ``name`` shows a name."""
        low, high = self.interval()
        which = "The plan is worth" if self.objective is None else f"The chance that {self.objective.in_words} is"
        sentences = [
            f"{which} {number(self.value)}; in 90 % of {self.draws:,} models that the log leaves possible, "
            f"{number(low)} to {number(high)}.",
            f"It is {'worth ' if self.objective is None else ''}{'less' if self.minimise else 'more'} than what was "
            f"done ({number(float(self.observed.mean()))}) in {percent(self.probability_better)} of them.",
        ]
        return sentences + self.changes_in_words(name)

    def changes_in_words(self, name: Callable[[Any], str] = repr) -> list[str]:
        """How firm each change is: how often the best plan of a drawn model makes it too; and what is off the plan."""
        sentences = [
            f"At step {one.t} {name(one.action)} instead of {name(one.observed)}: the best plan of each model does the "
            f"same there in {percent(one.same)} of them."
            for one in self.changes
        ]
        off = float(self.off_plan.mean())
        if off > 0:
            sentences.append(
                f"With probability {off:.2g} it comes to a state about which the plan says nothing; there it does what "
                "was done, where it can."
            )
        return sentences

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        low, high = self.interval()
        return (
            f"<PlanUncertainty: k = {self.k}, m = {self.m}, value {number(low)} … {number(high)} (90 %), better than "
            f"observed with probability {self.probability_better:.3g}, {self.draws:,} draws>"
        )

    def _repr_html_(self) -> str:
        return paragraphs(self.sentences())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SweepUncertainty:
    """What becomes of the plans of a sweep in the models that a log leaves possible.

    Attributes
    ----------
    ks, ms : array
        As in the sweep.
    values : array (draws, ks, ms)
        What the plan for each k and m, followed as it is, is worth in each drawn model.
    best : array (draws, ks, ms)
        What the best plan made with that model would be worth there: the sweep, done again.
    observed : array (draws,)
        What the observed path is worth there.
    minimise : bool
        Whether less is better.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> mdp = tether.learn([grid.mdp.simulate("random", 11, rng=seed) for seed in range(300)] + [grid.path], prior=1)
    >>> mdp = mdp.with_objective(final_reward=lambda s: 100 * (s == 15))
    >>> table = tether.counterfactual(mdp, grid.path).sweep(ks=[6, 12], ms=[0, 6])
    >>> sure = tether.posterior(mdp, draws=50, rng=1).of(table)
    >>> sure.probability_better  # of nothing changed, and of six changes, for k = 6 and 12
    array([[0., 1.],
           [0., 1.]])
    """

    ks: Ints
    ms: Ints
    values: Floats
    best: Floats
    observed: Floats
    minimise: bool = False

    @property
    def draws(self) -> int:
        """How many models were drawn."""
        return int(self.observed.size)

    @property
    def mean(self) -> Floats:
        """Mean value over the drawn models: (ks, ms)."""
        mean: Floats = self.values.mean(axis=0)
        return mean

    @property
    def probability_better(self) -> Floats:
        """Share of the drawn models in which each plan is worth more than the observed path: (ks, ms)."""
        share: Floats = np.mean(better(self.values, self.observed[:, None, None], self.minimise), axis=0)
        return share

    def quantile(self, q: float) -> Floats:
        """The value that so large a share of the drawn models stays below: (ks, ms)."""
        if isinstance(q, bool) or not isinstance(q, int | float | np.number) or not 0 <= q <= 1:
            raise QueryError(f"q must be a number from 0 to 1, not {q!r}")
        quantile: Floats = np.quantile(self.values, float(q), axis=0)
        return quantile

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Ends of the credible interval of each value: two arrays (ks, ms)."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    def at(self, k: int, m: int) -> Floats:
        """The values for one k and m of those asked for: (draws,)."""
        row = np.flatnonzero(self.ks == whole_number("k", k, 1))
        column = np.flatnonzero(self.ms == whole_number("m", m, 0))
        if not (row.size and column.size):
            raise QueryError(f"k = {k}, m = {m} was not asked for in this sweep")
        values: Floats = self.values[:, row[0], column[0]]
        return values

    def __repr__(self) -> str:
        return (
            f"<SweepUncertainty: k = {self.ks[0]} … {self.ks[-1]}, m = {self.ms[0]} … {self.ms[-1]}, "
            f"{self.draws:,} draws>"
        )

    def __str__(self) -> str:
        low, high = self.interval()
        parts = (
            (f"Probability of being worth {self._better} than what was done", self.probability_better, ".2f"),
            (f"Value: the lower end of the 90 % interval over {self.draws:,} models", low, ".2f"),
            ("Value: the upper end", high, ".2f"),
        )
        return "\n\n".join(f"{title}\n{self._table(numbers, spec)}" for title, numbers, spec in parts)

    @property
    def _better(self) -> str:
        return "less" if self.minimise else "more"

    def _table(self, numbers: Floats, spec: str) -> str:
        width = max(8, *(len(f"{number:{spec}}") for number in numbers.reshape(-1))) + 1
        head = "k \\ m".rjust(6) + "".join(f"{m:>{width}}" for m in self.ms)
        rows = [
            f"{k:>6}" + "".join(f"{number:>{width}{spec}}" for number in row)
            for k, row in zip(self.ks, numbers, strict=True)
        ]
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        low, high, share = *self.interval(), self.probability_better
        rows = []
        for i, k in enumerate(self.ks):
            ranges = zip(low[i], high[i], share[i], strict=True)
            rows.append((f"k = {k}", *(f"{number(a)} … {number(b)}, {percent(often)}" for a, b, often in ranges)))
        title = f"90 % interval of the value, and how often it is worth {self._better} than what was done"
        return paragraphs([title]) + html_table(("", *(f"m = {m}" for m in self.ms)), rows)


def better(values: Floats, observed: Floats, minimise: bool = False) -> Ints:
    """Where values exceed the observed ones by more than rounding, or fall below them, where less is better."""
    scale = np.maximum(np.abs(values), np.abs(observed))
    gained = observed - values if minimise else values - observed
    return np.asarray(gained > ROUNDING * scale)


def tails(level: float) -> tuple[float, float]:
    """The shares below the two ends of an interval with as much outside on either side."""
    is_number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
    if not is_number or not 0 < level < 1:
        raise QueryError(f"level must be a number between 0 and 1, such as 0.9, not {level!r}")
    return (1.0 - float(level)) / 2.0, (1.0 + float(level)) / 2.0
