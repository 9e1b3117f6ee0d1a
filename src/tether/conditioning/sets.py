"""Sets of causal models: which counterfactual rows are possible, whatever the mechanism is.

Gumbel-max is one causal model among many that agree with the MDP and the episode; no data can decide between them. A
set of models gives each pair a set X of counterfactual rows instead of one. With p the observed row of the step, o its
outcome and q the nominal row of the pair, X contains the rows x ≥ 0 with Σx = 1 and

- ``"nothing"``: x_j ≤ q_j / p_o. Every causal model that agrees with the MDP and the episode.
- ``"stability"``: every causal model that is counterfactually stable (Oberst & Sontag, 2019), for every outcome of the
  observed pair; written out in `tether._kernels.sets`. Where supports are disjoint it is as wide as ``"nothing"``.
- ``"published-stability"`` (Lally, Kazemi, Paoletti, AAMAS 2026): stability at the observed outcome only.
- ``"published-monotonicity"`` (their default): stability at the observed outcome and, where supports overlap, also
  x_o ≥ q_o, and x_j ≤ q_j for j ≠ o with p_j > 0. It does not always contain Gumbel-max.

In each set the observed pair leads to o for certain; if the outcome was not recorded, rows stay nominal. Given the
observed outcome, other pairs may be independent, so any choice of one row of X per pair is one joint causal model: the
sets are rectangular.

The probabilities of a learned model are themselves known only as intervals (`tether.model.confidence`). Under
``"nothing"`` these can be taken into account: every causal model, and every transition probability within the
intervals. The worst case is then the lower-tail mean, at level max(p̲_o, 1 - Σ_{j≠o} p̄_j), of the intervals' own worst
row. The worst row of a pair may be a different one at each step. If the model stays the same at every step, the truth
is at least as good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.conditioning.given import SomeRow
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.rows import ObservedStep, nominal_start, spans
from tether.errors import QueryError
from tether.model.confidence import Intervals, row_intervals

if TYPE_CHECKING:
    from tether._kernels.robust import Models
    from tether._kernels.sets import Observed

__all__ = ["IN_WORDS", "Assumption", "ModelSet", "has_copies", "model_set"]

Assumption = Literal["nothing", "stability", "published-stability", "published-monotonicity"]

IN_WORDS: dict[Assumption, str] = {
    "nothing": "every causal model",
    "stability": "every causal model that is counterfactually stable",
    "published-stability": "every causal model that is stable at the observed outcome",
    "published-monotonicity": "every causal model that is monotone as published",
}
"""The sets, as sentences name them."""


_NONE = np.empty(0)
_NONE.flags.writeable = False

_LEAST = 1e-300
"""The observed outcome was possible: its probability is at least this."""


@dataclass(frozen=True, eq=False)
class ModelSet:
    """A set of causal models of one observed path.

    Attributes
    ----------
    gumbel : CounterfactualMDP
        Gumbel-max, to compare with.
    assume : Assumption
    intervals : Intervals or None
        If the transition probabilities are also known only as intervals.
    given_steps : tuple of Observed, or None
        The observed steps, if they are not those of the graph's own path (`tether.plan.objective.asked_set`).
    given_possible : callable, or None
        Makes ``possible``, if that is not simply the model of the assumption.
    """

    gumbel: CounterfactualMDP
    assume: Assumption
    intervals: Intervals | None = None
    given_steps: tuple[Observed, ...] | None = None
    given_possible: Callable[[], CounterfactualMDP] | None = None

    @cached_property
    def possible(self) -> CounterfactualMDP:
        """A causal model whose graph has everything that some model of the set can do.

        For the other sets this is Gumbel-max. Without an assumption it is everything that the MDP can do, except for
        the observed pair.
        """
        if self.given_possible is not None:
            return self.given_possible()
        if self.assume != "nothing":
            return self.gumbel
        return counterfactual(self.gumbel.mdp, self.gumbel.path, mechanism="independent")

    @property
    def kind(self) -> int:
        """The set as kernels know it."""
        from tether._kernels.sets import INTERVALS

        return get_args(Assumption).index(self.assume) if self.intervals is None else INTERVALS

    @property
    def confidence(self) -> float | None:
        """The joint confidence of the intervals; None if probabilities are taken as they are."""
        return None if self.intervals is None else self.intervals.confidence

    @property
    def member(self) -> Mechanism:
        """A mechanism whose rows are in the set: Gumbel-max, except for the one set that does not always contain it."""
        return SomeRow(self.kind) if self.assume == "published-monotonicity" else GumbelMax()

    def at(self, t: int, sign: float = 1.0) -> Models:
        """The set at time t as kernels take it; ``sign`` is 1 for its worst rows, -1 for its best."""
        from tether._kernels.robust import Models

        lower, upper = (_NONE, _NONE) if self.intervals is None else (self.intervals.lower, self.intervals.upper)
        return Models(self.steps[t], self.kind, sign, lower, upper)

    @cached_property
    def steps(self) -> tuple[Observed, ...]:
        """The observed steps, as kernels take them."""
        if self.given_steps is not None:
            return self.given_steps
        layers, pairs = self.gumbel.graph.layers, self.gumbel.observation.pairs.tolist()
        return tuple(self._step(layer.observed, pair) for layer, pair in zip(layers, pairs, strict=True))

    def _step(self, seen: ObservedStep, pair: int) -> Observed:
        from tether._kernels.sets import Observed

        chance = 1.0
        if seen.recorded:
            is_o = seen.next_state == seen.outcome
            chance = float(seen.probability[is_o][0])
            if self.intervals is not None:
                entries = self.gumbel.mdp.entries(pair)
                low, high = self.intervals.lower[entries], self.intervals.upper[entries]
                chance = max(float(low[is_o][0]), 1.0 - float(high[~is_o].sum()), _LEAST)
        return Observed(seen.next_state, seen.probability, int(seen.outcome), pair, chance)

    def extremes(self, t: int, pairs: Ints, value: Floats, sign: float) -> tuple[Floats, Floats]:
        """The smallest (``sign`` = 1) or largest (-1) expectation over the set for some pairs, and rows that attain it.

        ``value`` is the value of each outcome, for each entry of the pairs' nominal rows, one row after the other.
        """
        from tether._kernels.robust import extreme_rows
        from tether._kernels.sets import limits_for, row_scratch_for

        form = self.gumbel.mdp.form
        starts = nominal_start(form, pairs)
        _, entries = spans(form.row_start[pairs], form.row_start[pairs + 1])
        out, row = np.empty(pairs.size), np.empty(entries.size)
        longest = int(np.diff(starts).max(initial=1))
        arrays = starts, form.next_state[entries], form.probability[entries], value, pairs, self.at(t, sign)
        extreme_rows(*arrays, entries, out, row, limits_for(longest), row_scratch_for(longest))
        return out, row

    def bounds(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats, Floats]:
        """Next states that some model of the set can lead to, and the exact bounds of each one's probability."""
        mdp = self.gumbel.mdp
        t, pair = self.gumbel.time(t), mdp.pair_index(state, action)
        ((lower, upper),) = self.row_bounds(t, np.array([pair]))
        possible = np.flatnonzero(upper > 0.0)
        names = mdp.names_of(mdp.form.next_state[mdp.entries(pair)][possible])
        return names, lower[possible], upper[possible]

    def row_bounds(self, t: int, pairs: Ints) -> list[tuple[Floats, Floats]]:
        """The exact bounds of each probability of the rows of some pairs, outcome by outcome of the nominal rows."""
        form = self.gumbel.mdp.form
        lengths = form.row_start[pairs + 1] - form.row_start[pairs]
        if pairs.size == 0:
            return []
        each = np.repeat(pairs, lengths)  # once for each outcome, which then has the value 1
        alone = np.concatenate([np.eye(n).reshape(-1) for n in lengths.tolist()])
        lower, upper = self.extremes(t, each, alone, 1.0)[0], self.extremes(t, each, alone, -1.0)[0]
        ends = np.cumsum(lengths)[:-1]
        rows = zip(np.split(np.maximum(lower, 0.0), ends), np.split(np.minimum(upper, 1.0), ends), strict=True)
        return list(rows)


def has_copies(cf: CounterfactualMDP) -> bool:
    """Whether states have copies, by what was decided (`tether.plan.tracked`)."""
    return cf.graph.layers[0].own is not None


def model_set(cf: CounterfactualMDP, assume: Any, confidence: float | None = None) -> ModelSet:
    """The set of causal models of the path of ``cf`` under an assumption.

    With ``confidence``, a learned model's transition probabilities are intervals that hold together at that level.
    """
    if has_copies(cf):
        raise QueryError(
            "the states of this plan remember whether a property was decided (tether.records.Tracked); sets of causal "
            "models do not support this: ask about a plan without the limit"
        )
    if assume not in get_args(Assumption):
        known = ", ".join(map(repr, get_args(Assumption)))
        raise QueryError(f"assume must be one of {known}, not {assume!r}")
    if confidence is not None and assume != "nothing":
        raise QueryError(
            f"uncertain probabilities (confidence={confidence!r}) go with assume='nothing' alone, not {assume!r}: "
            "stability and monotonicity compare probabilities, which are not known exactly then"
        )
    gumbel = cf if isinstance(cf.mechanism, GumbelMax) else counterfactual(cf.mdp, cf.path)
    intervals = None if confidence is None else row_intervals(cf.mdp, confidence)
    return ModelSet(gumbel, assume, intervals)
