"""Uncertain models: how far an answer can be trusted if the probabilities were learned from a log.

A learned model remembers how often it saw each transition. Models are drawn that these counts leave possible, and each
answers the same question: what is this plan worth here, is it still better than what was done, and would the best plan
here make the same changes? Rewards are not drawn: they stay the means.

Pooled rows (`tether.model.pooling`) are drawn in two steps. First the common row of each state's actions;
then each action's own row, given that one:

    common_s ~ Dirichlet(N_s·μ'_s)                   N_s = Σ_a n_sa·(1 + κ) / (n_sa + κ)
    row_sa ~ Dirichlet(n_sa·share seen + κ·common_s)

ρ = 1 / (1 + κ) is itself one of those that the log leaves possible, at random. N_s is what the sightings of actions
that differ by so much are worth for their common row: n_s if actions have no effect. For a state with a single action,
the two steps together have the variance of a Dirichlet of its counts.

With a flat prior α, the row of each pair is Dirichlet with parameters n(s,a,s') + α, independently of the others.

An outcome that is impossible in the model is impossible in every draw, and a pair with a single possible outcome is
certain: the answers then look surer than they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only, summed
from tether._foundation.checks import random_generator, whole_number
from tether._foundation.markup import Displayed
from tether._foundation.words import counted
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.core.chain import Chain
from tether.errors import QueryError
from tether.evaluation.evaluate import whole_chain
from tether.evaluation.outcomes import outcome_chances
from tether.learning.follower import Follower, expected_return
from tether.learning.uncertainty import ChangedAction, PlanUncertainty, SweepUncertainty
from tether.learning.worlds import asked_of_each, block_size, drawn_worlds, observed_values
from tether.mdp import MDP
from tether.model.form import Form
from tether.model.model_record import ModelRecord
from tether.model.pooling import common_rows, state_counts
from tether.model.side_by_side import copied_model
from tether.observation.changes import changes_something
from tether.plan.best_values import solve_backward
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep
from tether.plan.tether_record import tether

_DRAWS = 100
"""How many models are drawn for a learned model, by default: enough for an interval, in about a second."""

_ENTRIES, _FEWEST = 200_000, 20
"""The number of transitions up to which the default draws are fast; and the number of draws for the largest models."""

Progress = Callable[[int, int], None]
"""Called with how many draws are done, and how many there are."""

_MOST = 100_000
"""More draws than anyone needs; a typing error should not fill the memory."""

_ARRAYS = ("pair_start", "pair_action", "row_start", "next_state", "probability", "terminal")

_LEAST = 1e-300
"""The smallest probability of a possible outcome: all draws have the same transitions."""


@dataclass(frozen=True, slots=True, eq=False)
class _Common:
    """How the common rows of states are drawn: the parameters of their Dirichlet distributions, one after the other.

    ``start`` is where that of each state begins, ``group`` the parameter behind each entry that is drawn.
    """

    shape: Floats
    start: Ints
    group: Ints
    kappa: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Posterior(Displayed):
    """Models that a log leaves possible; made by `posterior`. All its answers use the same draws.

    Examples
    --------
    >>> import tether
    >>> path = tether.Path(["sick", "sick", "well"], ["wait", "wait"])
    >>> draws = tether.posterior(tether.learn([path, path], prior=1), draws=3, rng=0)
    >>> draws
    <Posterior: 3 draws of a model learned from 2 episodes; 1 of 2 rows is uncertain>
    >>> [model.row("sick", "wait")[1].round(2).tolist() for model in draws.models()]
    [[0.63, 0.37], [0.41, 0.59], [0.58, 0.42]]
    """

    mdp: MDP
    draws: int
    key: tuple[int, int]
    free: Ints
    start: Ints
    shape: Floats
    common: tuple[_Common, ...] = ()

    def draw(self, i: int) -> MDP:
        """The i-th model, i = 0 … draws - 1; it shares everything with the learned one except its probabilities."""
        i = whole_number("i", i, 0)
        if i >= self.draws:
            raise QueryError(f"there are {counted(self.draws, 'draw')}, 0 … {self.draws - 1}; not {i}")
        return copied_model(self.mdp, self._probabilities(self.mdp, range(i, i + 1)))

    def models(self) -> Iterator[MDP]:
        """The drawn models, one after the other."""
        for block in self._blocks(block_size(self.mdp)):
            for probability in self._probabilities(self.mdp, block):
                yield copied_model(self.mdp, probability[None].copy())

    @overload
    def of(self, asked: PlanRecord, progress: Progress | None = None) -> PlanUncertainty: ...
    @overload
    def of(self, asked: Sweep, progress: Progress | None = None) -> SweepUncertainty: ...
    def of(self, asked: PlanRecord | Sweep, progress: Progress | None = None) -> PlanUncertainty | SweepUncertainty:
        """The value of a plan, or of each plan of a sweep, in the drawn models.

        Every draw is conditioned on the same observed path, by the same mechanism. A plan is followed without changes,
        and compared with the best plan of the drawn model, within the same limits.

        Parameters
        ----------
        asked : Plan or Sweep
            Made with the learned model.
        progress : callable, optional
            ``progress(done, draws)`` is called after each block of draws (`tether.learning.worlds`).
        """
        if not isinstance(asked, PlanRecord | Sweep):
            raise QueryError(f"expected a plan or a sweep, not {type(asked).__name__}: cf.plan(k, m) or cf.sweep()")
        if not _same(asked.cf.mdp.form, self.mdp.form):
            raise QueryError(
                "this was made with another model; ask the posterior of its own: tether.posterior(plan.cf.mdp)"
            )
        if isinstance(asked, PlanRecord):
            return plan_in_draws(asked, self._worlds(asked.cf, 1, progress))
        return sweep_in_draws(asked, self._worlds(asked.cf, asked.values.size, progress))

    def _worlds(
        self, cf: CounterfactualRecord, plans: int, progress: Progress | None
    ) -> Iterator[CounterfactualRecord]:
        """The draws, conditioned on the observed path; block by block, side by side."""
        for block in self._blocks(block_size(cf.mdp, cf.T, plans)):
            yield drawn_worlds(cf, self._probabilities(cf.mdp, block))
            if progress is not None:
                progress(block.stop, self.draws)

    def _blocks(self, size: int) -> Iterator[range]:
        """Which draws are made at a time, at most ``size``."""
        return (range(first, min(first + size, self.draws)) for first in range(0, self.draws, size))

    def _probabilities(self, mdp: ModelRecord, which: range) -> Floats:
        """The probabilities of some draws, one row per draw."""
        probability = np.repeat(mdp.form.probability[None], len(which), axis=0)
        if self.free.size:
            probability[:, self.free] = self._rows(which)
        return probability

    def _rows(self, which: range) -> Floats:
        """Some draws of all rows with more than one outcome; each draw has its own seed."""
        drawn = np.empty((len(which), self.shape.size))
        for row, i in enumerate(which):
            rng = np.random.default_rng((*self.key, i))
            if not self.common:
                drawn[row] = _dirichlet(self.shape, self.start, rng)
                continue
            one = self.common[int(rng.integers(len(self.common)))]
            common = _dirichlet(one.shape, one.start, rng)[one.group]
            if np.isinf(one.kappa):
                drawn[row] = common
            else:
                drawn[row] = _dirichlet(self.shape + one.kappa * common, self.start, rng)
        return drawn

    def __repr__(self) -> str:
        counts = self.mdp.counts
        log = counted(counts.episodes, "episode") if counts is not None and counts.episodes else "episodes"
        text = f"{counted(self.draws, 'draw')} of a model learned from {log}"
        verb = "is" if self.start.size == 1 else "are"
        return f"<Posterior: {text}; {self.start.size:,} of {counted(self.mdp.n_pairs, 'row')} {verb} uncertain>"


def posterior(mdp: ModelRecord, draws: int | None = None, *, rng: Any = 0) -> Posterior:
    """Models that the episodes behind a learned model leave possible.

    Parameters
    ----------
    mdp : MDP
        A model that `tether.learn` made.
    draws : int, optional
        How many models to draw; by default 100, fewer for a large model.
    rng : int or numpy Generator
        The same seed gives the same models; None gives other models each time.

    Returns
    -------
    Posterior
        Ask it ``of(plan)`` or ``of(sweep)``.

    Examples
    --------
    >>> import tether
    >>> seen = {("treat", "well"): 8, ("treat", "dead"): 2, ("wait", "well"): 2, ("wait", "dead"): 3}
    >>> paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    >>> mdp = tether.learn(paths, prior=1).with_objective(final_reward={"well": 1.0})
    >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=1, m=1)
    >>> print(tether.posterior(mdp, draws=200, rng=1).of(plan))
    The plan is worth 0.5625; in 90 % of 200 models that the log leaves possible, 0 to 0.8754.
    It is worth more than what was done (0) in 94 % of them.
    At step 0 'treat' instead of 'wait': the best plan of each model does the same there in 94 % of them.
    """
    if not isinstance(mdp, MDP):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.posterior(tether.learn(episodes))")
    if mdp.counts is None:
        raise QueryError("this model was not learned from episodes, so it is unknown how sure it is; see tether.learn")
    draws = usual_draws(mdp) if draws is None else whole_number("draws", draws, 1)
    if draws > _MOST:
        raise QueryError(f"draws must be at most {_MOST:,}, not {draws:,}; a few hundred are enough")
    words = random_generator(rng).integers(0, 2**64, size=2, dtype=np.uint64)
    lengths, concentration = np.diff(mdp.form.row_start), mdp.counts.concentration  # pooled: the counts alone
    if concentration.size != mdp.n_transitions:
        raise QueryError(f"the model has {mdp.n_transitions:,} transitions, but counts for {concentration.size:,}")
    free = np.flatnonzero(np.repeat(lengths > 1, lengths))
    if mdp.counts.pooling is None and np.any(concentration[free] <= 0):
        raise QueryError("a transition of the model was never seen, and its prior is 0: it has no posterior")
    several = lengths[lengths > 1]
    start = np.cumsum(several) - several
    return Posterior(mdp, draws, (int(words[0]), int(words[1])), free, start, concentration[free], _common(mdp, free))


def usual_draws(mdp: ModelRecord) -> int:
    """How many models are drawn for a learned model by default: fewer for a large one."""
    return max(_FEWEST, _DRAWS * _ENTRIES // max(mdp.n_transitions, _ENTRIES))


def _common(mdp: ModelRecord, free: Ints) -> tuple[_Common, ...]:
    """How the common rows behind the entries ``free`` are drawn, for each ρ that is likely; none for a flat prior."""
    if mdp.counts is None or mdp.counts.pooling is None:
        return ()
    counts, pooling = state_counts(mdp.form, mdp.counts.transitions), mdp.counts.pooling
    groups, group = np.unique(counts.group[free], return_inverse=True)
    owner = counts.group_state[groups]
    start = np.flatnonzero(np.diff(owner, prepend=-1))
    found = []
    for rho in pooling.likely:
        common, worth = common_rows(counts, rho)
        kappa = max(1.0 / rho - 1.0, _LEAST) if rho > 0 else np.inf
        found.append(_Common(worth[owner] * common[groups], start, group, kappa))
    return tuple(found)


def _dirichlet(shape: Floats, start: Ints, rng: np.random.Generator) -> Floats:
    """A draw of Dirichlet distributions, whose parameters stand one after the other: normalised gamma variates.

    A gamma variate of a parameter a < 1 is one of a + 1 times U^(1/a). It may be far below what a float can hold, so it
    is kept as a logarithm until the largest of its row is 1.
    """
    if shape.size == 0:
        return shape
    small = np.flatnonzero(shape < 1.0)
    larger = shape.copy()
    larger[small] += 1.0
    logs = np.log(np.maximum(rng.standard_gamma(larger), _LEAST))
    with np.errstate(over="ignore"):
        logs[small] += np.log1p(-rng.random(small.size)) / np.maximum(shape[small], _LEAST)
    lengths = np.diff(start, append=shape.size)
    share = np.exp(logs - np.repeat(np.maximum.reduceat(logs, start), lengths))
    share /= np.repeat(np.add.reduceat(share, start), lengths)
    drawn: Floats = np.maximum(share, _LEAST)
    return drawn


def _same(form: Form, other: Form) -> bool:
    """Whether two forms are of one model; a plan that was pickled apart from its model has its own copy."""
    if form is other or (form.place is not None and form.place == other.place):
        return True
    pairs = [(getattr(form, name), getattr(other, name)) for name in _ARRAYS]
    pairs.append((form.rewards.values, other.rewards.values))
    return form.rewards.by_entry == other.rewards.by_entry and all(np.array_equal(a, b) for a, b in pairs)


# ---- Values in drawn models ----------------------------------------------------------------------------------------
# The value of a plan, or of each plan of a sweep, in drawn models; and the best plan of each drawn model.
#
# Drawn models come in blocks, side by side (`tether.learning.worlds`): every question is answered once per block.


class _Change(NamedTuple):
    """A step in which a plan, in its likeliest state, changes the observed action."""

    t: int
    state: int
    action: int


class _OfBlock(NamedTuple):
    """The results of a plan in a block of draws, draw by draw; ``actions`` are those of the best plans, by change."""

    values: Floats
    observed: Floats
    best: Floats
    off_plan: Floats
    actions: Ints
    outcomes: dict[str, Floats]


def plan_in_draws(plan: PlanRecord, blocks: Iterable[CounterfactualRecord]) -> PlanUncertainty:
    """The value of a plan in drawn models, followed without changes."""
    follower, changes = Follower([plan], [plan.m]), _changes(plan)
    found = [_plan_in_block(plan, follower, changes, worlds) for worlds in blocks]
    values, observed, best, off_plan = (
        read_only(np.concatenate([getattr(one, name) for one in found]))
        for name in ("values", "observed", "best", "off_plan")
    )
    actions = np.concatenate([one.actions for one in found])
    changed = tuple(_changed_action(plan, change, actions[:, i]) for i, change in enumerate(changes))
    names = dict.fromkeys(name for one in found for name in one.outcomes)
    outcomes = {
        name: read_only(np.concatenate([one.outcomes.get(name, np.zeros(one.values.size)) for one in found]))
        for name in names
    }
    in_the_model = (plan.k, plan.m, plan.value, plan.observed_value)
    about: Any = {"objective": plan.objective, "minimise": plan.minimise}
    return PlanUncertainty(*in_the_model, values, observed, best, off_plan, changed, outcomes, **about)


def sweep_in_draws(sweep: Sweep, blocks: Iterable[CounterfactualRecord]) -> SweepUncertainty:
    """The value of each plan of a sweep in drawn models, followed without changes."""
    ks, ms = np.unique(sweep.ks), np.unique(sweep.ms)
    row, column = np.searchsorted(ks, sweep.ks), np.searchsorted(ms, sweep.ms)
    about = sweep.rule, sweep.influence, sweep.objective, sweep.minimise, sweep.advisable
    question = tether(sweep.cf, *about)
    follower = Follower([question.plan(int(k), int(ms[-1])) for k in ks], ms.tolist())
    values, best, observed = [], [], []
    for worlds in blocks:
        asked = asked_of_each(worlds, sweep.cf, sweep.objective, sweep.minimise)
        asked_of_each(worlds, sweep.cf, sweep.objective, not sweep.minimise)  # thresholds are those of either direction
        values.append(follower.follow(asked)[0][:, row][:, :, column])
        again = tether(worlds, *about)
        best.append(again.values(again.thresholds(int(sweep.ks.max())), sweep.ks, sweep.ms))
        observed.append(observed_values(asked))
    of_plans, of_best, of_path = (read_only(np.concatenate(parts)) for parts in (values, best, observed))
    return SweepUncertainty(sweep.ks, sweep.ms, of_plans, of_best, of_path, sweep.minimise)


def _plan_in_block(
    plan: PlanRecord, follower: Follower, changes: list[_Change], worlds: CounterfactualRecord
) -> _OfBlock:
    asked = asked_of_each(worlds, plan.cf, plan.objective, plan.minimise)
    asked_of_each(worlds, plan.cf, plan.objective, not plan.minimise)  # thresholds are those of either direction
    chain, lost = follower.walk(asked)
    values, off_plan = expected_return(asked, chain, lost)
    best, actions = _best_in_block(plan, changes, worlds)
    ends = _outcomes(plan.asked.mdp, whole_chain(asked, chain))
    return _OfBlock(values, observed_values(asked), best, off_plan, actions, ends)


def _best_in_block(plan: PlanRecord, changes: list[_Change], worlds: CounterfactualRecord) -> tuple[Floats, Ints]:
    """The value of the best plan within the same limits in each world, and its actions where ``plan`` changes."""
    question = tether(worlds, plan.rule, plan.influence, plan.objective, plan.minimise, plan.advisable)
    found = question.thresholds_for(plan.k)
    solved = solve_backward(question.weighed(found), np.array([plan.k]), plan.m, keep=True, advisable=plan.advisable)
    best: Floats = question.signed(solved.of_copies[:, 0, plan.m])
    actions = np.empty((best.size, len(changes)), np.int64)
    if changes:
        of_first = (float(best[0]), plan.observed_value, solved.nodes, solved.choices, found.influenced)
        again = PlanRecord(worlds, plan.k, plan.m, plan.rule, plan.influence, *of_first)
        chain = again.chain_for(question.asked.graph)
        mass = chain.occupancy(np.ones(best.size))
        for i, change in enumerate(changes):
            actions[:, i] = _actions(worlds, chain, mass[change.t], change.t, change.state)
    return best, actions


def _actions(worlds: CounterfactualRecord, chain: Chain, mass: Floats, t: int, state: int) -> Ints:
    """The action that the plan of each world most likely takes in a state at t; -1 if never there, or it has ended."""
    likeliest = np.full(worlds.graph.copies, -1)
    if chain.ended is not None and chain.ended[state]:
        return likeliest
    world, states = np.divmod(chain.visits[t].states, worlds.mdp.n_states // worlds.graph.copies)
    here = np.flatnonzero(states == state)
    action = worlds.mdp.form.pair_action[chain.taken[t].pairs[here]]
    weight = np.full((likeliest.size, worlds.mdp.n_actions), -1.0)  # for actions that are not taken
    weight[world[here], action] = 0.0
    np.add.at(weight, (world[here], action), mass[here])
    likeliest[world[here]] = np.argmax(weight[world[here]], axis=1)
    return likeliest


def _outcomes(mdp: ModelRecord, chain: Chain) -> dict[str, Floats]:
    """Probability of each outcome at the end, in each world."""
    n = chain.visits[0].size
    world, states = np.divmod(chain.visits[-1].states, mdp.n_states)
    distinct, which = np.unique(states, return_inverse=True)
    chance = np.zeros((n, distinct.size))
    np.add.at(chance, (world, which.reshape(-1)), chain.occupancy(np.ones(n))[-1])
    return outcome_chances(mdp, distinct, chance)


def _changes(plan: PlanRecord) -> list[_Change]:
    chain, mass, found = plan.chain, plan.chain.occupancy(), []
    for t in range(plan.T):
        states, which = np.unique(chain.visits[t].states, return_inverse=True)
        s = int(states[np.argmax(summed(which.reshape(-1), mass[t], states.size))])
        (action,) = _actions(plan.cf, chain, mass[t], t, s).tolist()
        pair, done = plan.cf.mdp.find_pair(s, action), int(plan.cf.observation.actions[t])
        if action >= 0 and changes_something(plan.asked.mdp.form, t, np.array([s]), np.array([pair]), done)[0]:
            found.append(_Change(t, s, action))
    return found


def _changed_action(plan: PlanRecord, change: _Change, actions: Ints) -> ChangedAction:
    """A change of the plan, and how often the best plans of the draws take the same action."""
    mdp, t = plan.cf.mdp, change.t
    names = mdp.states[change.state], plan.cf.path.actions[t], mdp.actions[change.action]
    return ChangedAction(t, *names, float(np.mean(actions == change.action)), float(np.mean(actions >= 0)))
