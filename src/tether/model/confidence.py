"""How sure the probabilities of a learned model are: simultaneous intervals from the counts behind it.

An outcome was seen x of n times. The interval of Clopper and Pearson contains every probability p for which neither "x
or more" nor "x or fewer" is less likely than α / 2. It contains the truth with a probability of at least 1 - α,
whatever the truth is. A model has many probabilities. For all of its intervals to hold at once, the error is divided
evenly among them (Bonferroni):

    α = (1 - confidence) / (number of intervals)

A pair may also lead where it was never seen to lead, to any state. All of this together, *elsewhere*, was seen 0 of n
times: its probability is at most 1 - α^(1/n), with a confidence of 1 - α. So a pair seen n times is never certain of
anything. A row with a single outcome is one interval, because the outcome is the complement of elsewhere; any other row
has an interval for each outcome, and one for elsewhere. A pair that was never seen with its outcome may lead anywhere.
How often a pair was seen is taken as given.

How the arrays are used, for the worst expectation of a value over the rows that they allow: start from ``lower``; of
the rest of the probability, first up to ``elsewhere`` goes to the state of the smallest value of all, then to the
outcomes by ascending value, each up to ``upper``. The smallest probability of an observed outcome o that they allow is
max(lower_o, 1 - Σ_{j≠o} upper_j - elsewhere). For the best expectation, elsewhere has the largest value of all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import QueryError
from tether.model.form import all_pair_states
from tether.model.model_record import ModelRecord


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Intervals:
    """Simultaneous intervals of all probabilities of a learned model; made by `row_intervals`.

    Attributes
    ----------
    lower, upper : array
        The ends, in the order of the model's entries. The model's own probabilities lie within; if pooling or a prior
        has moved one outside, the interval is widened.
    elsewhere : array
        For each pair of the model, the largest probability that it leads where it was never seen to lead; 0 in terminal
        states.
    confidence : float
        The joint level: with at least this confidence all intervals hold at once.
    count : int
        How many intervals share the error, 1 - confidence.
    method : str

    Examples
    --------
    >>> import tether
    >>> from tether.model.confidence import row_intervals
    >>> paths = [tether.Path(["sick", end], ["treat"]) for end in ["well"] * 8 + ["dead"] * 2]
    >>> found = row_intervals(tether.learn(paths), 0.95)
    >>> found
    <Intervals: 3 intervals by Clopper-Pearson, 95 % joint confidence (Bonferroni)>
    >>> found.lower[:2].round(4), found.upper[:2].round(4), found.elsewhere[:1].round(4)
    (array([0.3782, 0.0141]), array([0.9859, 0.6218]), array([0.336]))
    """

    lower: Floats
    upper: Floats
    elsewhere: Floats
    confidence: float
    count: int
    method: str = "Clopper-Pearson, Bonferroni"

    @property
    def level(self) -> float:
        """The confidence of each single interval."""
        return 1.0 - (1.0 - self.confidence) / max(1, self.count)

    def __repr__(self) -> str:
        many = "1 interval" if self.count == 1 else f"{self.count:,} intervals"
        return f"<Intervals: {many} by Clopper-Pearson, {100 * self.confidence:g} % joint confidence (Bonferroni)>"


def row_intervals(mdp: ModelRecord, confidence: float) -> Intervals:
    """Simultaneous intervals of all probabilities of a learned model."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.0 < confidence < 1.0:
        raise QueryError(f"confidence must be a number above 0 and below 1, such as 0.95, not {confidence!r}")
    if mdp.counts is None:
        raise QueryError(
            "this model was not learned from episodes, so it is unknown how sure its probabilities are; leave out "
            "confidence=, or learn a model: tether.learn(episodes)"
        )
    form, seen = mdp.form, mdp.counts.transitions
    lengths = np.diff(form.row_start)
    if seen.size != form.probability.size:
        raise QueryError(f"the model has {form.probability.size:,} transitions, but counts for {seen.size:,}")
    living = ~np.isin(all_pair_states(form.pair_start), form.terminal)
    count = int(np.where(lengths > 1, lengths + 1, 1)[living].sum())
    alpha = (1.0 - confidence) / max(1, count)
    trials = np.add.reduceat(seen, form.row_start[:-1])
    elsewhere = np.where(living, 1.0, 0.0)
    known = living & (trials > 0)
    elsewhere[known] = -np.expm1(np.log(alpha) / trials[known])
    lower, upper = form.probability.copy(), form.probability.copy()
    alone = np.flatnonzero(living & (lengths == 1))
    lower[form.row_start[alone]] = 1.0 - elsewhere[alone]
    uncertain = np.flatnonzero(np.repeat(living & (lengths > 1), lengths))
    if uncertain.size:
        ends = clopper_pearson(seen[uncertain], np.repeat(trials, lengths)[uncertain], alpha)
        lower[uncertain] = np.minimum(lower[uncertain], ends[0])
        upper[uncertain] = np.maximum(upper[uncertain], ends[1])
    for array in (lower, upper, elsewhere):
        array.flags.writeable = False
    return Intervals(lower, upper, elsewhere, float(confidence), count)


def clopper_pearson(seen: Ints, trials: Ints, alpha: float) -> tuple[Floats, Floats]:
    """The interval of each probability, with confidence 1 - ``alpha``, for an outcome ``seen`` in some of ``trials``.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = clopper_pearson(np.array([0, 2, 10]), np.array([10, 10, 10]), 0.05)
    >>> low.round(4), high.round(4)
    (array([0.    , 0.0252, 0.6915]), array([0.3085, 0.5561, 1.    ]))
    """
    from scipy.special import betainccinv, betaincinv

    others = trials - seen
    low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), others + 1.0, alpha / 2), 0.0)
    high = np.where(others > 0, betainccinv(seen + 1.0, np.maximum(others, 1), alpha / 2), 1.0)
    return low, high
