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
intervals. The worst case is then the lower-tail mean, at level max(p̲_o, 1 - Σ_{j≠o} p̄_j - elsewhere), of the
intervals' own worst row. Each row has the outcome *elsewhere*: something that was never seen. What follows there is
bounded by the smallest (largest) reward of each step that is left, and of the end. The worst row of a pair may be a
different one at each step. If the model stays the same at every step, the truth is at least as good.

All of these are causal models in which the luck of one step says nothing about the luck of another, and in which
nothing that is not in the state affects both what is done and what happens. `tether.core.related` gives up the first
condition. `Confounding` gives up the second, also under ``"nothing"`` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._foundation.words import at_most_three_digits, three_digits
from tether.conditioning.counterfactual_record import CounterfactualRecord, with_mechanism
from tether.conditioning.edited_rows import ObservedStep, nominal_start, spans
from tether.conditioning.given import SomeRow
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import Mechanism
from tether.errors import QueryError
from tether.model.confidence import Intervals, row_intervals
from tether.model.model_record import ModelRecord
from tether.model.product import memory_of, model_itself

if TYPE_CHECKING:
    from tether._kernels.sets import Observed
    from tether.core.robust import Models

Assumption = Literal["nothing", "stability", "published-stability", "published-monotonicity"]

UNRELATED_LUCK = "in which the luck of one step says nothing about the luck of another"
"""Which causal models the sets contain; see the head of this file."""

EVERY_MODEL = f"every causal model {UNRELATED_LUCK}"

IN_SHORT = "every causal model, luck unrelated over time"
"""`EVERY_MODEL` in tables and captions, where there is little room."""

IN_WORDS: dict[Assumption, str] = {
    "nothing": EVERY_MODEL,
    "stability": f"every counterfactually stable causal model {UNRELATED_LUCK}",
    "published-stability": f"every causal model that is stable at the observed outcome and {UNRELATED_LUCK}",
    "published-monotonicity": f"every causal model that is monotone as published and {UNRELATED_LUCK}",
}
"""The sets, as sentences name them."""


_NONE = np.empty(0)
_NONE.flags.writeable = False

_LEAST = 1e-300
"""The observed outcome was possible: its probability is at least this."""


@dataclass(frozen=True, slots=True, eq=False)
class Confounding:
    """Hidden causes: at each step a new one, that changes the odds of every action in every state at most Γ times.

    This is the marginal sensitivity model (Tan, 2006). μ(a|s) is how often an action is taken in a state. Those who met
    a given cause are between w_lo and w_hi times as frequent among all as among those who took the action:

        w_lo(μ) = μ + (1 - μ)/Γ,   w_hi(μ) = μ + (1 - μ)·Γ

    Among those who did at this step what was observed, with a share ν, the row of a pair is then between L·q and H·q,
    with L = w_lo(μ)/w_hi(ν) and H = w_hi(μ)/w_lo(ν); the row that was observed is q itself. Outcomes of probability 0
    stay impossible.

    Attributes
    ----------
    gamma : float
        Γ, at least 1; infinite for causes of any strength.
    share : array
        μ of each pair of the model.
    observed : array (T,)
        The observed pairs.
    """

    gamma: float
    share: Floats
    observed: Ints

    def ratios(self, t: int, pairs: Ints) -> tuple[Floats, Floats]:
        """L and H of some pairs at time t."""
        low, high = confounded_weights(self.share[pairs], self.gamma)
        seen = int(self.observed[t])
        of_low, of_high = confounded_weights(self.share[seen : seen + 1], self.gamma)
        own = pairs == seen
        return np.where(own, 1.0, low / of_high), np.where(own, 1.0, high / of_low)


def confounded_weights(share: Floats, gamma: float) -> tuple[Floats, Floats]:
    """w_lo and w_hi of `Confounding`, for actions that are taken with these shares.

    >>> confounded_weights(np.array([0.5, 1.0]), 2.0)
    (array([0.75, 1.  ]), array([1.5, 1. ]))
    """
    others = 1.0 - share
    high = np.where(others > 0.0, np.inf, 1.0) if np.isinf(gamma) else share + others * gamma
    return share + others / gamma, high


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
    confounding : Confounding or None
        If there may also be hidden causes.
    """

    gumbel: CounterfactualRecord
    assume: Assumption
    intervals: Intervals | None = None
    given_steps: tuple[Observed, ...] | None = None
    given_possible: Callable[[], CounterfactualRecord] | None = None
    confounding: Confounding | None = None

    @cached_property
    def possible(self) -> CounterfactualRecord:
        """A causal model whose graph has everything that some model of the set can do.

        For the other sets this is Gumbel-max. Without an assumption it is everything that the MDP can do, except for
        the observed pair.
        """
        if self.given_possible is not None:
            return self.given_possible()
        if self.assume != "nothing":
            return self.gumbel
        return with_mechanism(self.gumbel, "independent")

    @property
    def kind(self) -> int:
        """The set as kernels know it."""
        from tether._kernels.sets import INTERVALS

        exact = self.intervals is None and self.confounding is None
        return get_args(Assumption).index(self.assume) if exact else INTERVALS

    @property
    def confidence(self) -> float | None:
        """The joint confidence of the intervals; None if probabilities are taken as they are."""
        return None if self.intervals is None else self.intervals.confidence

    @property
    def member(self) -> Mechanism:
        """A mechanism whose rows are in the set: Gumbel-max, except for the one set that does not always contain it."""
        return SomeRow(self.kind) if self.assume == "published-monotonicity" else GumbelMax()

    def at(self, t: int, sign: float = 1.0, there: float = 0.0, *, scaled: bool = True) -> Models:
        """The set at time t as kernels take it; ``sign`` is 1 for its worst rows, -1 for its best.

        ``there`` is what follows elsewhere, worth without the reward of a pair (`worth_elsewhere`).
        If not ``scaled``, without what hidden causes change: the limits of rows times `Confounding.ratios` are then
        those of the set.
        """
        from tether.core.robust import Models

        lower, upper = self._ends
        if self.confounding is not None and scaled:
            form = self.gumbel.mdp.form
            ratios = self.confounding.ratios(t, np.arange(form.pair_action.size))
            least, most = (np.repeat(one, np.diff(form.row_start)) for one in ratios)
            lower, upper = read_only(lower * least), read_only(upper * most)
        elsewhere = _NONE if self.intervals is None else self.intervals.elsewhere
        return Models(self.steps[t], self.kind, sign, lower, upper, elsewhere, there)

    @property
    def _ends(self) -> tuple[Floats, Floats]:
        """The ends of the intervals of all probabilities; empty if these are exact, and nothing widens them."""
        if self.intervals is not None:
            return self.intervals.lower, self.intervals.upper
        if self.confounding is not None:
            return self.gumbel.mdp.form.probability, self.gumbel.mdp.form.probability
        return _NONE, _NONE

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
                others = float(high[~is_o].sum()) + float(self.intervals.elsewhere[pair])
                chance = max(float(low[is_o][0]), 1.0 - others, _LEAST)
        return Observed(seen.next_state, seen.probability, int(seen.outcome), pair, chance)

    def confounded(self, gamma: float, share: Floats) -> ModelSet:
        """The set with hidden causes up to a strength; ``share`` is how often each pair is taken in its state."""
        found = Confounding(float(gamma), share, self.gumbel.observation.pairs)
        return replace(self, confounding=None if gamma == 1.0 else found)

    def extremes(self, t: int, pairs: Ints, value: Floats, sign: float) -> tuple[Floats, Floats]:
        """The smallest (``sign`` = 1) or largest (-1) expectation over the set for some pairs, and rows that attain it.

        ``value`` is the value of each outcome, for each entry of the pairs' nominal rows, one row after the other.
        """
        from tether._kernels.sets import limits_for, row_scratch_for
        from tether.core.robust import extreme_rows

        form = self.gumbel.mdp.form
        starts = nominal_start(form, pairs)
        _, entries = spans(form.row_start[pairs], form.row_start[pairs + 1])
        out, row = np.empty(pairs.size), np.empty(entries.size)
        longest = int(np.diff(starts).max(initial=1))
        rows = read_only(form.next_state[entries]), read_only(form.probability[entries])
        scratch = limits_for(longest), row_scratch_for(longest)
        extreme_rows(starts, *rows, value, pairs, self.at(t, sign), entries, out, row, *scratch)
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


def worth_elsewhere(models: ModelSet, T: int) -> tuple[Floats, Floats]:
    """What follows at least, and at most, if step t = 0 … T - 1 leads where nobody was seen to go.

    These are the smallest and largest rewards of each step that is left, and of the end; of step t only if rewards
    depend on the outcome. Only intervals lead there; without them all are 0.
    """
    if models.intervals is None:
        return np.zeros(T), np.zeros(T)
    mdp = models.gumbel.mdp
    ends = np.zeros(1) if mdp.final_reward is None else mdp.final_reward
    found = np.empty((2, T))
    for i, extreme in enumerate((np.min, np.max)):
        after = float(extreme(ends))
        for t in range(T - 1, -1, -1):
            step = float(extreme(mdp.rewards.at(t)))
            found[i, t] = (step if mdp.rewards.by_entry else 0.0) + mdp.discount * after
            after = step + mdp.discount * after
    return found[0], found[1]


def has_copies(cf: CounterfactualRecord) -> bool:
    """Whether states have copies, by what was decided (`tether.plan.tracked`, `tether.model.product`)."""
    return cf.graph.layers[0].own is not None or memory_of(cf.mdp) is not None


def check_gamma(gamma: Any) -> float:
    """The strength of hidden causes, checked: at least 1, and perhaps infinite."""
    if isinstance(gamma, bool) or not isinstance(gamma, int | float | np.number) or not gamma >= 1.0:
        raise QueryError(f"gamma must be a number of at least 1, such as 2.0 (1: no hidden causes), not {gamma!r}")
    return float(gamma)


def model_set(
    cf: CounterfactualRecord,
    assume: Any,
    confidence: float | None = None,
    gamma: float = 1.0,
    share: Floats | None = None,
) -> ModelSet:
    """The set of causal models of the path of ``cf`` under an assumption.

    With ``confidence``, a learned model's transition probabilities are intervals that hold together at that level. With
    ``gamma`` above 1 there may be hidden causes up to that strength; ``share`` is how often each pair is taken in its
    state (`Confounding`).
    """
    if has_copies(cf):
        raise QueryError(
            "the states of this question remember what was met before (tether.records.Tracked); sets of causal "
            "models do not support this: ask about tether.reach, avoid or until alone, and without a limit"
        )
    if assume not in get_args(Assumption):
        known = ", ".join(map(repr, get_args(Assumption)))
        raise QueryError(f"assume must be one of {known}, not {assume!r}")
    if confidence is not None and assume != "nothing":
        raise QueryError(
            f"uncertain probabilities (confidence={confidence!r}) go with assume='nothing' alone, not {assume!r}: "
            "stability and monotonicity compare probabilities, which are not known exactly then"
        )
    if check_gamma(gamma) > 1.0 and assume != "nothing":
        raise QueryError(
            f"hidden causes (gamma={gamma!r}) go with assume='nothing' alone, not {assume!r}: stability and "
            "monotonicity compare probabilities of outcomes, which hidden causes change"
        )
    gumbel = cf if isinstance(cf.mechanism, GumbelMax) else with_mechanism(cf, GumbelMax.name)
    intervals = None if confidence is None else row_intervals(cf.mdp, confidence)
    models = ModelSet(gumbel, assume, intervals)
    return models if gamma == 1.0 or share is None else models.confounded(gamma, share)


IF_IMPOSSIBLE = "if what the model calls impossible is impossible"
"""What is said of an infinite Γ*."""

IF_EQUAL = ", if all actions are usually taken equally often"
"""What is said of a finite Γ* where nobody knows how often actions are taken."""


def is_practice_assumed(mdp: ModelRecord, practice: Any) -> bool:
    """Whether all actions of a state are taken as equally frequent, because nothing says how often they are."""
    return practice is None and model_itself(mdp).counts is None


def hidden_causes_in_words(gamma_star: float, assumed: bool = False) -> str:
    """How strong hidden causes must be to undo a gain, in a sentence; ``assumed`` is `is_practice_assumed`.

    >>> print(hidden_causes_in_words(1.1234))
    The gain survives hidden reasons that changed the odds of an action by less than 1.12 times.
    """
    if np.isinf(gamma_star):
        return f"No hidden reason for the actions can undo the gain, {IF_IMPOSSIBLE}."
    times, practice = at_most_three_digits(gamma_star), IF_EQUAL if assumed else ""
    if times == "1":
        return f"Hidden reasons that changed the odds of an action by 1.01 times can already undo the gain{practice}."
    return f"The gain survives hidden reasons that changed the odds of an action by less than {times} times{practice}."


def left_with_hidden_causes(gamma: float, span: str, gamma_star: float | None, assumed: bool) -> list[str]:
    """What is left with hidden causes up to ``gamma``, and how strong they must be to undo the gain, if there is one.

    ``span`` is the range in words.
    """
    found = []
    if gamma > 1.0:
        practice = IF_EQUAL if assumed else ""
        times = f"hidden reasons that changed the odds of an action up to {three_digits(gamma)} times"
        found.append(f"With {times}, it is {span}{practice}.")
    if gamma_star is not None:
        found.append(hidden_causes_in_words(gamma_star, assumed and gamma == 1.0))
    return found
