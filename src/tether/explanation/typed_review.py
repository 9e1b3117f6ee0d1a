"""Mistake or luck for an individual whose type was never recorded: what could be known, also of the type.

Those who decided saw the states, and what these say of the type. With b_t the probability of each type after s_0 … s_t,

    V_t(s, b) = max over a of Q_t(s, b, a)          Q_t(s, b, a) = Σ_z b(z)·(R_z + γ·Σ_j P_z(j|s,a)·V_{t+1}(j, b'))

where b' is b after a led to j. The mistake at t is V_t(s_t, b_t) - Q_t(s_t, b_t, a_t); the rest is luck.
Where types earn different rewards, what was earned is averaged over what the whole episode says of the type.

Of learned models a mistake is claimed as in `tether.evaluation.review`, with the advantages and standard deviations of
each type averaged over b_t. Hidden causes at a step, within each type, are those of `Review.gamma_star`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import outcome_of
from tether.evaluation.review import SURE, chance_above
from tether.explanation.mistakes import Review, ReviewedStep, lowest_mean
from tether.model.properties import Property
from tether.observation.changes import nothing_left
from tether.observation.earned import model_return, step_rewards
from tether.plan.hidden_types import MOST, TypedValues
from tether.plan.objective import negated_model
from tether.plan.policy import shares_of_pairs
from tether.plan.resting import asked_model
from tether.plan.standard import Standard
from tether.plan.typed_plan import worlds
from tether.plan.typed_record import TypedRecord

_NO_ACTION = -1


@dataclass(frozen=True, eq=False, repr=False)
class TypedReview(Review):
    """Mistake or luck, judged by the best without seeing the type; made by `TypedCounterfactual.review`.

    Its numbers, sentences and figure are those of `tether.records.Review`. There is no foreseeable gain.
    ``gamma_star`` is about hidden causes that come anew at each step, beside the type, which stays.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> print(tether.counterfactual(types, case.path).review().headline())
    3 mistakes cost 1,320, most of it at step 2
    """

    judged: _Judged | None = None
    undoing: float | None = None

    @property
    def gamma_star(self) -> float | None:
        """How strong a hidden cause would have to be for the costliest mistake to be right; None without one."""
        return self.undoing

    def cost(self, t: int, action: Any) -> float:
        """What an action costs in the observed state of step t, by what could be known then; 0 for the best.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
        >>> review = tether.counterfactual(types, case.path).review()
        >>> round(review.cost(2, "down")), review.cost(2, "right")
        (1258, 0.0)
        """
        assert self.judged is not None
        return float(self.judged.costs(t)[self.judged.number(t, action)])

    def known_then(self, t: int, action: Any) -> str:
        """What was known of an action at step t, compared with what was done: as of `Decisions.known_then`."""
        assert self.judged is not None
        pairs, costs = self.judged.worth(t)[0], self.judged.costs(t)
        done = int(np.flatnonzero(pairs == self.judged.values.seen.pairs[t])[0])
        other = self.judged.number(t, action)
        if costs[other] >= costs[done]:
            return "not better"
        return "better" if self.judged.probability(t, int(pairs[other]), int(pairs[done])) >= SURE else "not shown"


@dataclass(frozen=True, eq=False)
class _Judged:
    """What each action was worth in each observed state, by what could be known of the type."""

    values: TypedValues
    beliefs: Floats
    standards: tuple[Standard, ...]

    @cached_property
    def _known(self) -> dict[int, tuple[Ints, Floats]]:
        return {}

    def worth(self, t: int) -> tuple[Ints, Floats]:
        """The pairs of the observed state, and Q_t(s, b, a) of each."""
        if t not in self._known:
            values, s = self.values, int(self.values.seen.states[t])
            start, rows, found = values.models[0].form.pair_start, values.step(t), []
            pairs = np.arange(start[s], start[s + 1])
            for pair in pairs.tolist():
                total = float(rows.reward[pair] @ self.beliefs[t])
                for e in range(int(rows.row_start[pair]), int(rows.row_start[pair + 1])):
                    seen = self.beliefs[t] * rows.probability[e]
                    if seen.any():
                        total += values.models[0].discount * _best(values, t + 1, int(rows.next_state[e]), seen)
                found.append(total)
            self._known[t] = pairs, np.array(found)
        return self._known[t]

    def costs(self, t: int) -> Floats:
        """What each action of the observed state costs; exactly 0 where that may be rounding."""
        worth = self.worth(t)[1]
        costs: Floats = worth.max() - worth
        return np.where(costs <= 1e-11 * max(1.0, float(np.abs(worth).max())), 0.0, costs)

    def number(self, t: int, action: Any) -> int:
        """Which of the actions of the observed state one is."""
        first, pairs = self.values.models[0], self.worth(t)[0]
        s = first.states[int(self.values.seen.states[t])]
        return int(np.flatnonzero(pairs == first.pair_index(s, action))[0])

    def probability(self, t: int, best: int, done: int) -> float:
        """How likely it is that another pair is better than what was done; 1 of models that were given."""
        of_types = zip(self.standards, self.beliefs[t], strict=True)
        some = [(standard, float(share)) for standard, share in of_types if share > 0.0]
        if any(standard.mdp.counts is None for standard, _ in some):
            return 1.0
        apart, unsure = 0.0, 0.0
        for standard, share in some:
            mean, sd, _ = standard.advantages
            apart, unsure = apart + share * (mean[best] - mean[done]), unsure + share * (sd[best] + sd[done])
        return float(chance_above(np.array([apart]), np.array([unsure]))[0])


def review_where_known(cf: TypedRecord, objective: Property | None, minimise: bool) -> TypedReview | None:
    """A review for other answers; None if those who acted saw the type, or if too many ways to act would be needed."""
    return None if cf.types.own_practice is not None else _reviewed(cf, objective, minimise)


def review_typed(cf: TypedRecord, objective: Property | None, minimise: bool) -> TypedReview:
    """What decisions cost by what could be known, and what chance did."""
    if cf.types.own_practice is not None:
        why = "those who acted saw the type (practice=), and what they could know depends on it"
        raise QueryError(Problem(why, fix="review one type: cf.by_type['a name'].review()"))
    found = _reviewed(cf, objective, minimise)
    if found is None:
        raise QueryError(
            f"a review of {len(cf.types.models)} types needs more than {MOST} ways to act in some state: review fewer "
            "types, or a shorter episode"
        )
    return found


def _reviewed(cf: TypedRecord, objective: Property | None, minimise: bool) -> TypedReview | None:
    """The review; None if there are too many ways to act to be sure which is the best."""
    replayed = worlds(cf, objective, minimise)
    seen, T = replayed[0].observation, cf.T
    models = [asked_model(cf.types.bare(name), objective)[0] for name in cf.types.models]
    models = [negated_model(mdp) for mdp in models] if minimise else models
    standards = tuple(Standard(mdp, "best", objective, minimise) for mdp in cf.types.models.values())
    beliefs = np.stack([cf.posterior_over_time[name] for name in cf.types.models], axis=1)
    values = TypedValues(models, seen, beliefs[0], T, only_exact=True)
    if not values.exact:
        return None
    judged = _Judged(values, beliefs, standards)
    sign, discount = -1.0 if minimise else 1.0, models[0].discount
    earned = np.array([step_rewards(one.mdp, seen) for one in replayed]).T @ cf.shares
    steps = []
    for t in range(T):
        s, after = int(seen.states[t]), int(seen.states[t + 1])
        pairs, worth = judged.worth(t)
        own = int(np.flatnonzero(pairs == seen.pairs[t])[0])
        costs = judged.costs(t)
        best, mistake = own if costs[own] == 0.0 else int(np.argmax(worth)), float(costs[own])
        luck = 0.0
        if after >= 0:
            luck = float(earned[t] + discount * _best(values, t + 1, after, beliefs[t + 1]) - worth[own])
        over = all(nothing_left(models[z].form, t, np.array([s]))[0] for z in np.flatnonzero(beliefs[t]))
        done, better = cf.path.actions[t], models[0].actions[int(models[0].form.pair_action[pairs[best]])]
        acted = (None, None) if over else (done, better)
        sure = judged.probability(t, int(pairs[best]), int(pairs[own])) if mistake > 0.0 else 0.0
        numbers = sign * float(worth.max()), mistake, luck, discount**t, sure
        steps.append(ReviewedStep(t, models[0].states[s], acted[0], acted[1], *numbers))
    mistakes, luck = (sum(step.weight * getattr(step, what) for step in steps) for what in ("mistake", "luck"))
    claimed = [step for step in steps if step.is_claimed]
    ending = None if seen.states[T] < 0 else outcome_of(models[0], int(seen.states[T]))
    found = TypedReview(
        mdp=cf.types.together,
        against="best",
        objective=objective,
        minimise=minimise,
        horizon=T,
        expected=steps[0].expected,
        mistakes=mistakes,
        claimed=sum(step.cost for step in claimed),
        luck=luck,
        observed=sign * float(cf.shares @ [model_return(one.mdp, seen) for one in replayed]),
        unlike=0.0,
        steps=tuple(steps),
        outcome=None if ending is None else ending.name,
        judged=judged,
    )
    worst = found.largest()
    return found if worst is None else replace(found, undoing=_undoing(cf, values, worst, beliefs[worst.t]))


def _undoing(cf: TypedRecord, values: TypedValues, step: ReviewedStep, belief: Floats) -> float:
    """How strong hidden causes at a step must be, within each type, for what was done to be as good as the best."""
    from tether.core.extremes import undoing_strengths

    rows, first = values.step(step.t), values.models[0]
    usual = shares_of_pairs(first, None) if cf.types.usual is None else cf.types.usual
    sides: list[tuple[float, Floats, Floats, Floats]] = []
    for action, sign in ((step.best, 1.0), (step.action, -1.0)):
        pair = first.pair_index(step.state, action)
        some = slice(int(rows.row_start[pair]), int(rows.row_start[pair + 1]))
        seen = belief * rows.probability[some]
        followed = _followed(values, step.t + 1, rows.next_state[some], seen)
        for z, mdp in enumerate(values.models):
            if belief[z] > 0.0:
                chances, earned = rows.probability[some][:, z], values.rows.rewards(step.t, z)[some]
                worth = sign * (earned + mdp.discount * followed[:, z])
                sides.append((float(belief[z]), usual[pair : pair + 1], chances, worth))

    def lead(gamma: float) -> float:
        return sum(part * lowest_mean(share, chances, worth, gamma) for part, share, chances, worth in sides)

    def above(_: Ints, strengths: Floats) -> Floats:
        return np.array([lead(gamma) for gamma in strengths.tolist()])

    return float(undoing_strengths(above, 1)[0])


def _followed(values: TypedValues, t: int, states: Ints, seen: Floats) -> Floats:
    """For each next state the vector that is best for what is then known of the type; any where it cannot come."""
    found = []
    for state, weights in zip(states.tolist(), seen, strict=True):
        vectors = values.vectors(t, state, 0)
        found.append(vectors[int(np.argmax(vectors @ weights))])
    return np.array(found)


def _best(values: TypedValues, t: int, s: int, weights: Floats) -> float:
    return float((values.vectors(t, s, 0) @ weights).max())
