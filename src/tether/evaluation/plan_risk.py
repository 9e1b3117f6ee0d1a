"""How likely a replay under a plan is to end worse, or better, than what happened; `tether.core.risk` computes it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.markup import Displayed
from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import of_100
from tether.conditioning.edited_rows import spans
from tether.conditioning.model_sets import ModelSet, model_set
from tether.core.chain import Link
from tether.evaluation.evaluate import whole_chain
from tether.evaluation.following import Followed, follow
from tether.evaluation.ranges import PolicyValues
from tether.plan.afterwards import step_by_step
from tether.plan.best_values import final_rewards
from tether.plan.limited import LimitedPlanRecord
from tether.plan.plan_record import PlanRecord

if TYPE_CHECKING:
    from tether.core.risk import Replays

_MOST = 400_000
"""How many entries of rows, one for each return so far, a range of chances may need."""

_AFTER = 20_000_000
"""How many transitions usual practice is followed through after a record; what still follows is taken at its mean."""

Chances = tuple[tuple[float, float], tuple[float, float]]
"""(smallest, largest) chance to end worse than what happened, and to end better, over a set of causal models."""


@dataclass(frozen=True, slots=True)
class Risk(Displayed):
    """How likely a replay is to end worse, or better, than what happened.

    A certificate is about the expected return; this is about single replays.

    Attributes
    ----------
    worse_low, worse_high : float
        Bounds of the chance to end worse; equal if the chance is exact.
    better_low, better_high : float
        Bounds of the chance to end better.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).risk
    <Risk: worse 0, better 0.8889>
    """

    worse_low: float
    worse_high: float
    better_low: float
    better_high: float

    @property
    def worse(self) -> float:
        """The chance to end worse; its upper bound if it is not exact."""
        return self.worse_high

    @property
    def better(self) -> float:
        """The chance to end better; its lower bound if it is not exact."""
        return self.better_low

    @property
    def is_exact(self) -> bool:
        """Whether both chances are exact."""
        return self.worse_low == self.worse_high and self.better_low == self.better_high

    @property
    def sentence(self) -> str:
        """How many of 100 replays end worse, and better, than what happened.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> print(tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).risk.sentence)
        Of 100 replays, none end worse than what happened, and 65 better.
        """
        most, least = ("", "") if self.is_exact else ("at most ", "at least ")
        worse, better = of_100(self.worse), of_100(self.better)
        worse, better = (
            one if one in ("none", "all") else f"{how}{one}" for one, how in ((worse, most), (better, least))
        )
        return f"Of 100 replays, {worse} end worse than what happened, and {better} better."

    def __repr__(self) -> str:
        if self.is_exact:
            return f"<Risk: worse {self.worse:.4g}, better {self.better:.4g}>"
        worse, better = (self.worse_low, self.worse_high), (self.better_low, self.better_high)
        return f"<Risk: worse {worse[0]:.4g} … {worse[1]:.4g}, better {better[0]:.4g} … {better[1]:.4g}>"


def risk_of(plan: PlanRecord) -> Risk:
    """The chances that a replay under a plan ends worse, or better, than what happened."""
    from tether.core.risk import chances

    return Risk(*(float(one[0]) for one in chances(_replays(plan))))


def risk_of_limited(plan: LimitedPlanRecord) -> Risk | None:
    """The chances under a plan with a limit on whole paths; None if something follows the record."""
    followed = follow(model_set(plan.cf, "nothing"), plan, plan.objective, plan.minimise)
    if followed.models.gumbel.rest is not None:
        return None
    return risk_over_types([(1.0, followed, plan.observed_value)], plan.minimise)


def risk_over_types(types: Sequence[tuple[float, Followed, float]], minimise: bool) -> Risk:
    """The chances of what was followed for each of several types: its share, what was followed, and what it observed.

    One type is a plan of one model.
    """
    from tether.core.risk import chances

    found = np.zeros(4)
    for share, followed, observed in types:
        found += share * np.concatenate(chances(_followed_replays(followed, observed, -1.0 if minimise else 1.0)))
    return Risk(*np.minimum(found, 1.0).tolist())


def _followed_replays(followed: Followed, observed: float, sign: float) -> Replays:
    """The replays under Gumbel-max of what was followed for every causal model."""
    from tether.core.risk import Replays

    models, links, ends = followed.models, [], followed.node_start.tolist()
    for t, (begin, end) in enumerate(itertools.pairwise(followed.first.tolist())):
        entries = np.arange(followed.starts[begin], followed.starts[end])
        rows = np.repeat(np.arange(begin, end), np.diff(followed.starts[begin : end + 1]))
        some = followed.gumbel[entries] > 0.0
        entries, rows = entries[some], rows[some]
        source, target = followed.source[rows] - ends[t], followed.there[entries] - ends[t + 1]
        chance = followed.share[rows] * followed.gumbel[entries]
        links.append(Link(source, target, followed.pairs[rows], chance, sign * followed.reward[entries], rows - begin))
    sizes = np.diff(followed.node_start).tolist()
    final = [np.zeros(size) for size in sizes]
    final[-1] = sign * followed.last_worth
    seen, close = np.array([sign * observed]), np.array([rounding_of(observed)])
    episode = [np.zeros(size, np.int64) for size in sizes]
    return Replays(episode, links, final, models.gumbel.mdp.discount, seen, close)


def _replays(plan: PlanRecord) -> Replays:
    from tether.core.risk import Replays

    sign, world, rest = -1.0 if plan.minimise else 1.0, plan.asked.mdp, plan.asked.rest
    if rest is None or rest.ends is None:
        chain = whole_chain(plan.asked, plan.chain)
    else:  # one step to the ends would earn at its mean what replays earn in different amounts
        rest = replace(rest, steps=max(1, min(rest.steps, _AFTER // world.form.next_state.size)))
        after = step_by_step(world, plan.chain.ended, plan.chain.T, rest, plan.chain.visits[-1])
        chain = plan.chain.then(after)
    ends = final_rewards(world if rest is None else replace(world, final_reward=rest.last))
    links = [replace(one, reward=sign * one.reward) for one in chain.links]
    episode = [np.zeros(visits.size, np.int64) for visits in chain.visits]
    final = [np.zeros(visits.size) for visits in chain.visits]
    final[-1] = sign * ends[chain.visits[-1].states]
    seen = np.array([sign * plan.observed_value])
    return Replays(episode, links, final, world.discount, seen, np.array([rounding_of(plan.observed_value)]))


def replays_in_words(worse: tuple[float, float] | None) -> list[str]:
    """How many single replays end worse, over every causal model; empty if none can, or if it is not known.

    >>> replays_in_words((0.0, 0.25))
    ['Of 100 single replays, between none and 25 end worse than what happened, over all of them.']
    """
    if worse is None or worse[1] <= ROUNDING:
        return []
    low, high = (of_100(one) for one in worse)
    span = low if low == high else f"between {low} and {high}"
    return [f"Of 100 single replays, {span} end worse than what happened, over all of them."]


def chances_over(models: ModelSet, followed: Followed, observed: float, minimise: bool = False) -> Chances | None:
    """The chances that a replay ends worse, or better, than what happened, over every causal model of a set.

    A node is followed with its return so far until it is certain how it ends. Each row is then the best or the worst of
    its set; with the return in the state the bounds hold, and need not be attained. None if there are too many returns,
    and if something follows the record: only its mean is known there.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> certificate = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).certify()
    >>> certificate.worse, [round(one, 2) for one in certificate.better]
    ((0.0, 0.0), [0.0, 1.0])
    """
    sign, mdp = -1.0 if minimise else 1.0, models.gumbel.mdp
    if followed.models.gumbel.rest is not None:
        return None
    final = sign * followed.last_worth
    unrolled = _unrolled(followed, sign, mdp.discount, final, sign * observed, rounding_of(observed))
    if unrolled is None:
        return None
    expanded, is_worse, is_better = unrolled
    found = []
    for ends in (is_worse, is_better):
        values = PolicyValues(models, expanded, ends.astype(np.float64), 1.0)
        found.append((min(1.0, max(0.0, values.at(1.0)[0])), min(1.0, max(0.0, values.at(1.0, -1.0)[0]))))
    return found[0], found[1]


def _still_to_earn(followed: Followed, sign: float, discount: float, final: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest return that each node can still lead to, discounted from its own time."""
    n = followed.undecided.size
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    low[followed.node_start[-2] :] = high[followed.node_start[-2] :] = final
    for t in range(followed.first.size - 2, -1, -1):
        rows = slice(int(followed.first[t]), int(followed.first[t + 1]))
        entries = slice(int(followed.starts[rows.start]), int(followed.starts[rows.stop]))
        there, owner = followed.there[entries], np.repeat(followed.source[rows], np.diff(followed.starts)[rows])
        some, reward = there >= 0, sign * followed.reward[entries]
        np.minimum.at(low, owner[some], (reward + discount * low[there])[some])
        np.maximum.at(high, owner[some], (reward + discount * high[there])[some])
    return low, high


def _unrolled(
    followed: Followed, sign: float, discount: float, final: Floats, observed: float, close: float
) -> tuple[Followed, Any, Any] | None:
    """Rows of nodes that have a return so far; and which of these nodes are certain to end worse, and better."""
    low, high = _still_to_earn(followed, sign, discount, final)
    node, earned, base = np.zeros(1, np.int64), np.zeros(1), 0
    node_start, first, total = [0], [0], 0
    parts: list[tuple[Any, ...]] = []
    marks: list[tuple[Any, Any, Any]] = []
    for t in range(followed.first.size):
        weight = discount**t
        worse = earned + weight * high[node] < observed - close
        better = earned + weight * low[node] > observed + close
        going = np.flatnonzero(
            ~(worse | better)
            & ((earned + weight * low[node] < observed - close) | (earned + weight * high[node] > observed + close))
        )
        undecided = np.zeros(node.size, np.uint8)
        undecided[going] = followed.undecided[node[going]]
        marks.append((worse, better, undecided))
        node_start.append(base + node.size)
        if t == followed.first.size - 1:
            break
        rows = np.arange(int(followed.first[t]), int(followed.first[t + 1]))
        order = rows[np.argsort(followed.source[rows], kind="stable")]
        begin, end = (np.searchsorted(followed.source[order], node[going], side=side) for side in ("left", "right"))
        of, which = spans(begin, end)
        row = order[which]
        owner, item = spans(followed.starts[row], followed.starts[row + 1])
        total += item.size
        if total > _MOST:
            return None
        there, so_far = followed.there[item], earned[going[of]][owner] + weight * sign * followed.reward[item]
        some = np.flatnonzero(there >= 0)
        key = np.round(so_far[some] / max(1e-3 * close, 1e-300))
        pairs, first_of, place = np.unique(
            np.stack((there[some].astype(np.float64), key)), axis=1, return_index=True, return_inverse=True
        )
        after = np.full(item.size, -1, np.int64)
        after[some] = base + node.size + place.reshape(-1)
        length = np.diff(followed.starts)[row]
        by_row = followed.pairs[row], base + going[of], followed.share[row], followed.changes[row]
        parts.append((*by_row, followed.entries[item], after, np.zeros(item.size), followed.gumbel[item], length))
        first.append(first[-1] + row.size)
        base += node.size
        node, earned = pairs[0].astype(np.int64), so_far[some][first_of]
    pair, source, share, changes, entries, there, reward, gumbel, lengths = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    worse, better, undecided = (np.concatenate(part) for part in zip(*marks, strict=True))
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    states = np.zeros(node.size, np.int64)
    made = Followed(
        followed.models, np.array(node_start), np.array(first), states, np.zeros(states.size), undecided, starts, pair,
        source, share, changes, entries, there, reward, gumbel,
    )  # fmt: skip
    return made, worse, better
