"""Mistake or luck, in one record: what was to be expected, what decisions cost, what chance added, and what happened.

`tether.evaluation.review` has the definitions and the numbers; here they get names, sentences and tables. Nothing in it
needs a causal model, but for `Review.foreseeable`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import Tabular, table_of
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.rounding import gain_of
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.horizon import Horizon
from tether.conditioning.model_sets import confounded_weights
from tether.errors import QueryError
from tether.evaluation.evaluate import evaluate_decider
from tether.evaluation.outcomes import outcome_of
from tether.evaluation.plain import best_for_anyone
from tether.evaluation.review import SURE, Batch, horizons, review_batch
from tether.explanation.reviewing import likelihood, review_headline, review_sentences, review_verdict
from tether.influence.one_step import Support
from tether.model.model_record import ModelRecord
from tether.model.properties import Property, make_property
from tether.model.several_types import refuse_types
from tether.observation.changes import nothing_to_change
from tether.observation.earned import Earned, earned
from tether.observation.indices import path_of
from tether.observation.path import Observation, Path, observe
from tether.plan.in_question import in_question, observed_in_question
from tether.plan.objective import asked
from tether.plan.policy import shares_of_pairs
from tether.plan.standard import Standard, is_best

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes

_NO_ACTION = -1


@dataclass(frozen=True, slots=True)
class ReviewedStep(Displayed):
    """One step of an observed episode: what was decided, what that cost, and what chance did.

    Attributes
    ----------
    t : int
    state : name
        The observed state.
    action : name or None
        What was done; None where nothing was left to decide: the state is absorbing, or the property was decided.
    best : name or None
        What would have been best, given the model and this state: the action itself, if none was better. Against a
        policy: what it does there most likely.
    expected : float
        What was to be expected from here on (V_t), with the best decisions or those of the policy.
    mistake : float
        What the decision cost, compared with these; 0 for the best. It could be known at the time. Negative only
        against a policy: better than what it does.
    luck : float
        What the outcome added to what was to be expected of this decision; negative for bad luck.
    weight : float
        What 1 at this step adds to the return: discount^t.
    probability : float
        How likely it is that the mistake is one; 0 without a mistake. It is 1 in a model that was given. In a learned
        one, it says how surely the log shows that the best action is better than what was done.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> step = tether.review(grid.mdp, grid.path).steps[2]
    >>> step.action, step.best, round(step.mistake, 3), round(step.luck, 3)
    ('down', 'right', 1257.751, -121.372)
    """

    t: int
    state: Any
    action: Any
    best: Any
    expected: float
    mistake: float
    luck: float
    weight: float = 1.0
    probability: float = 0.0

    @property
    def cost(self) -> float:
        """What the mistake cost of the return (discounted)."""
        return self.weight * self.mistake

    @property
    def is_claimed(self) -> bool:
        """Whether it is called a mistake: in a learned model only beyond what estimation can produce."""
        return self.mistake > 0 and self.probability >= SURE


@dataclass(frozen=True, eq=False, repr=False)
class Review(Tabular):
    """Mistake or luck: how what was to be expected became what happened; made by `tether.review`.

    Always ``expected - mistakes + luck == observed``, up to rounding; with ``minimise`` less is better, and
    ``expected + mistakes - luck == observed``. Mistakes are always what decisions cost, luck what chance gave.

    Attributes
    ----------
    against : "best", "usual" or a policy
        What decisions are judged against.
    horizon : int
        Up to which time: the length of the episode, or more.
    expected : float
        What was to be expected at the beginning, before any decision: a return, or the probability of the property.
    mistakes : float
        What all decisions together cost (discounted). It could be known at the time.
    claimed : float
        The part of it that is claimed: in a learned model only what is beyond what estimation can produce.
    luck : float
        What chance added to it (discounted); negative for bad luck.
    observed : float
        The return of the episode by the model's rewards; 1 or 0 for a property. An outcome that was not recorded, and
        steps after the last one, count as expected.
    unlike : float
        What the log's own rewards add to that: ``observed + unlike`` is the return that the log has. 0 without such
        rewards.
    steps : tuple of ReviewedStep
    outcome : str or None
        How the episode ended: the label of the last state, or its name if it is absorbing.
    earned : Earned or None
        The return by the log beside the one by the model, for a return; None for a log without rewards.
    cf : CounterfactualMDP or None
        The counterfactual MDP that was asked, if one was: for `foreseeable`.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> review = tether.review(patient.mdp, patient.path)
    >>> review
    <Review: expected -2369, mistakes 0, luck -4481, observed -6850>
    >>> print(*review.sentences(str)[:2])
    Every decision was the model's best at the time. The death was bad luck, most of it at step 2.
    """

    mdp: ModelRecord
    against: Any
    objective: Property | None
    minimise: bool
    horizon: int
    expected: float
    mistakes: float
    claimed: float
    luck: float
    observed: float
    unlike: float
    steps: tuple[ReviewedStep, ...]
    outcome: str | None = None
    earned: Earned | None = None
    was_cut: bool = False
    """Whether the record stops before the horizon, in a state that is not absorbing."""
    cf: CounterfactualRecord | None = None

    @property
    def T(self) -> int:
        """Number of steps of the episode."""
        return len(self.steps)

    @property
    def is_best(self) -> bool:
        """Whether decisions are judged against the best of the model."""
        return is_best(self.against)

    @property
    def is_silent(self) -> bool:
        """Whether nothing can be said of decisions: the model is learned from a log that shows no effect of any action.

        Examples
        --------
        >>> import tether
        >>> paths = [tether.Path(["sick", end], [do]) for end in ("well", "dead") for do in ("wait", "treat")]
        >>> print(*tether.review(tether.learn(paths), paths[0]).verdict(str))
        No decision can be called a mistake: the log shows no effect of any action.
        """
        counts = self.mdp.counts
        none = counts is not None and counts.pooling is not None and counts.pooling.rho == 0
        return none and self.mistakes == 0

    @property
    def may_err(self) -> bool:
        """Whether a mistake may be an error of estimation, because the model was learned."""
        return self.is_best and self.mdp.counts is not None

    @cached_property
    def foreseeable(self) -> float | None:
        """The foreseeable gain: what the best policy of the plain model, or that of ``against``, gains in this episode.

        It is the value of that policy in the counterfactual MDP less the observed return (with ``minimise``, the other
        way round): what somebody who knew only the model would have got with the luck of this episode. It may be
        negative. Over many episodes its mean is that of the mistakes. None without a counterfactual MDP: ask
        ``cf.review()``. This number rests on the causal model.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> round(tether.counterfactual(grid.mdp, grid.path).review().foreseeable, 3)
        1445.117
        """
        if self.cf is None:
            return None
        standard = Standard(self.mdp, self.against, self.objective, self.minimise)
        value = value_in_replay(self.cf, standard, self.horizon)
        return gain_of(value, self.observed, self.minimise)

    @cached_property
    def gamma_star(self) -> float | None:
        """How strong a hidden cause would have to be for the costliest mistake to be the right decision.

        Those who decided may have seen more than the state contains. It is the smallest Γ for which a hidden cause that
        changes the odds of every action at most Γ times, at this step, makes what was done as good as what seems best
        (`tether.conditioning.model_sets.Confounding`). Practice is usual practice for a learned model, otherwise each
        action is taken equally often. What comes after the step counts as in the model. Infinite if no hidden cause
        can, as long as outcomes of probability 0 stay impossible. None without a claimed mistake, and against a policy.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> round(tether.review(grid.mdp, grid.path).gamma_star, 3)
        13.133
        """
        step = self.largest() if self.is_best else None
        return None if step is None else undoing_strength(self, step)

    def largest(self) -> ReviewedStep | None:
        """The step whose mistake cost most, of those that are claimed; None without one.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.review(case.mdp, case.path).largest().t
        1
        """
        return max((step for step in self.steps if step.is_claimed), key=lambda step: step.cost, default=None)

    def headline(self) -> str:
        """The finding in a few words.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> tether.review(grid.mdp, grid.path).headline()
        '3 mistakes cost 1,320, most of it at step 2'
        """
        return review_headline(self)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """Mistake or luck, first; then the account, and what it rests on. ``name`` turns a name into text."""
        return review_sentences(self, name)

    def verdict(self, name: Callable[[Any], str] = repr) -> list[str]:
        """Mistake or luck, in two sentences."""
        return review_verdict(self, name)

    def to_arrow(self) -> pyarrow.Table:
        """One row per step, with the fields of `ReviewedStep` as columns.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.review(case.mdp, case.path).to_arrow().column_names
        ['t', 'state', 'action', 'best', 'expected', 'mistake', 'luck', 'weight', 'probability']
        """
        actions = self.mdp.actions
        return table_of(ReviewedStep, self.steps, {"state": self.mdp.states, "action": actions, "best": actions})

    def plot(self, ax: Axes | None = None) -> Axes:
        """From what was to be expected to what happened, mistake by mistake and luck by luck: a waterfall.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.review(case.mdp, case.path).plot().get_title("left")
        '6 mistakes cost 35.9, the largest part at step 1'
        """
        from tether.figures.waterfall import plot_review

        return plot_review(self, ax)

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        numbers = (f"{what} {getattr(self, what):.4g}" for what in ("expected", "mistakes", "luck", "observed"))
        return f"<Review: {', '.join(numbers)}>"

    def _repr_html_(self) -> str:
        head = ["t", "state", "action", "best", "expected", "mistake", *(["likely"] if self.may_err else []), "luck"]
        rows = [
            (
                step.t,
                step.state,
                *(("ended", "") if step.action is None else (step.action, step.best)),
                f"{step.expected:.6g}",
                f"{step.mistake:.4g}",
                *([likelihood(step) if step.mistake else ""] if self.may_err else []),
                f"{step.luck:.4g}",
            )
            for step in self.steps
        ]
        return paragraphs(self.sentences(str)) + html_table(head, rows)


def review(
    mdp: ModelRecord,
    path: Path,
    against: Any = "best",
    *,
    objective: Property | None = None,
    minimise: bool = False,
    horizon: int | None = None,
) -> Review:
    """Mistake or luck: what could be known when it was decided, and what only chance did.

    Parameters
    ----------
    mdp : MDP
    path : Path
        The observed episode; each step must be possible in the model.
    against : "best", "usual", or a policy
        What decisions are judged against: the best of the plain model; for a learned model, usual practice: each action
        as often as the log has it in that state; or any policy (`tether.plan.policy`).
    objective : `tether.reach` (goal), `tether.avoid` (bad) or `tether.until` (hold, goal), optional
        A property instead of the return: values are then the probability that it holds.
    minimise : bool
        Less is better: for costs, and for unwanted outcomes.
    horizon : int, optional
        Over how many steps decisions are judged. By default the episode's own; for an episode that ended in an
        absorbing state, the horizon of the model, if it has one: nobody could know that it would end early. What comes
        after the last step counts as expected.

    Returns
    -------
    Review

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> found = tether.review(case.mdp, case.path)
    >>> round(found.expected, 3), round(found.mistakes, 3), round(found.luck, 3), found.observed
    (-1.0, 35.859, -1.141, -38.0)
    """
    refuse_types(
        mdp, "a review is of one model", "tether.counterfactual(types, path).review() is for somebody of a hidden type"
    )
    asked_in, seen, wanted = observed_in_question(mdp, observe(mdp, path), make_property(objective))
    return _review(Standard(asked_in, against, wanted, bool(minimise)), seen, horizon, None)


def review_counterfactual(
    cf: CounterfactualRecord, against: Any, objective: Any, minimise: bool, horizon: int | None
) -> Review:
    """Review the observed episode of a counterfactual MDP; see `CounterfactualMDP.review`."""
    cf, wanted = in_question(cf, make_property(objective))
    standard = Standard(cf.mdp, against, wanted, bool(minimise))
    until = cf.horizon if horizon is None and cf.after is not None else horizon
    return _review(standard, cf.observation, until, cf)


def review_if_valued(cf: CounterfactualRecord, objective: Any, minimise: bool) -> Review | None:
    """Mistake or luck; None if the plain model has no value, because a state without actions can be reached."""
    try:
        return review_counterfactual(cf, "best", objective, minimise, None)
    except QueryError:
        return None


def _review(standard: Standard, seen: Observation, horizon: Any, cf: CounterfactualRecord | None) -> Review:
    mdp, batch = standard.mdp, Batch.of(seen)
    until = horizons(mdp, batch, horizon)
    found = review_batch(standard, batch, until)
    columns, steps = found.steps, []
    for t in range(seen.T):
        over, best = bool(columns.ended[t]), int(columns.best[t])
        steps.append(
            ReviewedStep(
                t,
                mdp.states[int(seen.states[t])],
                None if over else mdp.actions[int(seen.actions[t])],
                None if over else mdp.actions[int(mdp.form.pair_action[best])],
                *(
                    float(getattr(columns, name)[t])
                    for name in ("expected", "mistake", "luck", "weight", "probability")
                ),
            )
        )
    last = int(seen.states[-1])
    outcome = None if last < 0 else outcome_of(mdp, last)
    stays = last >= 0 and bool(nothing_to_change(mdp.form, np.array([last]), _NO_ACTION)[0])
    return Review(
        mdp=mdp,
        against=standard.against,
        objective=standard.objective,
        minimise=standard.minimise,
        horizon=int(until[0]),
        expected=float(found.expected[0]),
        mistakes=float(found.mistakes[0]),
        claimed=float(found.claimed[0]),
        luck=float(found.luck[0]),
        observed=float(found.observed[0]),
        unlike=float(found.unlike[0]),
        steps=tuple(steps),
        outcome=None if outcome is None else outcome.name,
        earned=earned(mdp, seen, path_of(mdp, seen)) if standard.objective is None else None,
        was_cut=int(until[0]) > seen.T and not stays,
        cf=cf,
    )


def undoing_strength(review: Review, step: ReviewedStep) -> float:
    """How strong a hidden cause at one step must be for what was done there to be as good as what seems best."""
    from tether.core.extremes import undoing_strengths

    standard = Standard(review.mdp, review.against, review.objective, review.minimise)
    world, sign = standard.world[0], -1.0 if review.minimise else 1.0
    share, rewards = shares_of_pairs(review.mdp), world.rewards.at(step.t)
    rows = []
    for action in (step.best, step.action):
        pair = world.pair_index(step.state, action)
        entries = world.entries(pair)
        after = standard.values_at(step.t + 1, review.horizon, world.form.next_state[entries].astype(np.int64))
        earned = rewards[entries] if world.rewards.by_entry else rewards[pair]
        rows.append((share[pair : pair + 1], world.form.probability[entries], sign * (earned + world.discount * after)))

    def above(_: Ints, strengths: Floats) -> Floats:
        best, done = rows
        return np.array([lowest_mean(*best, one) + lowest_mean(*done[:2], -done[2], one) for one in strengths.tolist()])

    return float(undoing_strengths(above, 1)[0])


def lowest_mean(share: Floats, chances: Floats, worth: Floats, gamma: float) -> float:
    """The lowest mean of worth over all, if hidden causes of a strength chose for whom the row is known."""
    (least,), (most,) = confounded_weights(share, gamma)
    chances, worth = chances[chances > 0.0], worth[chances > 0.0]  # what is impossible stays so
    order = np.argsort(worth)
    rest = np.diff(np.minimum(np.cumsum((most - least) * chances[order]), 1.0 - least), prepend=0.0)
    return float((least * chances[order] + rest) @ worth[order])


def value_in_replay(cf: CounterfactualRecord, standard: Standard, horizon: int) -> float:
    """The value, in the counterfactual MDP, of the policy that decisions are judged against; up to the horizon."""
    decided, first = standard.world[1], int(cf.observation.states[0])
    if decided is not None and decided.ended[first]:  # it was over before the first decision
        return float(decided.holds[first])
    judged = replace(cf, after=None if horizon == cf.T else Horizon(horizon, standard.against))
    if standard.is_best:
        return best_for_anyone(judged, standard.objective, standard.minimise).value
    world = asked(judged, standard.objective, standard.minimise)
    return evaluate_decider(world, standard.decide(horizon), Support()).value
