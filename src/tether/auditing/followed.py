"""What the plans of a batch lead to: the columns of an answer, and what is guaranteed of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.rounding import gain_of, rounding_of
from tether.auditing.answer_arrays import AnswerTable
from tether.auditing.answering import PreparedQuestion
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.horizon import Horizon
from tether.conditioning.mechanism_editor import editor_of
from tether.core.batch import Layer, Model, Steps, at_time
from tether.evaluation.disagreement import sides_of
from tether.influence.kappa import not_to_advise
from tether.influence.one_step import Support
from tether.logs.cohort import Cohort
from tether.mdp import MDP
from tether.model.form import Rewards, model_of
from tether.model.model_record import ModelRecord
from tether.model.side_by_side import copied_model
from tether.observation.earned import earned
from tether.observation.indices import path_of
from tether.plan.best_values import final_rewards
from tether.plan.policy import follows_the_record
from tether.plan.rewards import ExpectedRewards, without_rewards

if TYPE_CHECKING:
    from tether.core.follow import Decided
    from tether.core.rows import Rows, RowStore

AskPolicy = Callable[[int, Ints], tuple[Ints, Ints, Floats]]
"""Type of a policy: for a time and some states, where the pairs of each begin, the pairs, and their probabilities."""


_RETURNS, _WORK = 50_000, 20_000_000
"""How often returns of an episode may be handed on before they are rounded, and how often rounded ones (`core.risk`).

P(worse) is then a bound.
"""


@dataclass(frozen=True, eq=False)
class World:
    """The model as it is asked about: where paths end, and what steps and ends are worth; larger is better.

    ``gumbel`` has the rows under Gumbel-max, if the question has another mechanism: certificates follow plans there.
    ``seen`` is how often each pair is in the log of a learned model, ``usual`` the number of the pair of each state
    that is there most often. These two are those of one copy.
    ``probability`` has one row per copy, if there are copies; ``shares`` says how often each of their pairs is usually
    taken. ``member`` says which states each label has; the last two rows, which are a good end and which a bad one.
    ``chances`` says how an episode goes on after its record
    from each state: the chance to end in each label, and in each class of outcomes; None if nothing is asked about
    after it. ``final`` and ``chances`` are by the time at which the record ends, one row if that does not matter.
    ``tables`` keeps them for each horizon (`tether.plan.afterwards.tables_after`).
    """

    asked: PreparedQuestion
    model: Model
    store: RowStore
    gumbel: RowStore | None
    ended: Flags | None
    rewards: Rewards
    expected: ExpectedRewards
    final: Floats
    discount: float
    sign: float
    member: Flags
    forbidden: Callable[[int, Ints], Flags] | None
    seen: Ints | None
    usual: Ints
    probability: Floats | None = None
    shares: Floats | None = None
    chances: Floats | None = None
    tables: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, asked: PreparedQuestion, probability: Floats | None = None, shares: Floats | None = None) -> World:
        """The model of a question; or copies of it side by side, with one row of ``probability`` each."""
        from tether.core.rows import ClosedForms, RowStore

        mdp, question, n = asked.mdp, asked.question, 1 if probability is None else len(probability)
        worth: ModelRecord = mdp if probability is None else copied_model(mdp, probability)
        model = model_of(worth.form)
        sign, ended, final = -1.0 if question.minimise else 1.0, None, final_rewards(mdp)
        if question.objective is not None:
            decided = question.objective.on(mdp)
            ended, worth, final = np.tile(decided.ended, n), without_rewards(worth), decided.holds.astype(np.float64)
        member = np.zeros((len(mdp.label_sets.ends) + 2, mdp.n_states), dtype=bool)
        for number, states in enumerate(mdp.label_sets.ends.values()):
            member[number, states] = True
        member[-2:] = sides_of(mdp)
        discount = mdp.discount if question.objective is None else 1.0
        forbidden, seen = not_to_advise(mdp, question.advisable), np.zeros(mdp.n_pairs, np.int64)
        if mdp.counts is not None:
            seen = np.add.reduceat(mdp.counts.transitions, mdp.form.row_start[:-1])
        return cls(
            asked,
            model,
            RowStore(model, editor_of(question.mechanism, mdp, probability)),
            None if isinstance(question.mechanism, GumbelMax) else RowStore(model, ClosedForms()),
            ended,
            worth.rewards,
            ExpectedRewards(worth),
            np.tile(sign * final, n)[None],
            discount,
            sign,
            np.tile(member, n),
            None if forbidden is None else lambda t, pairs: forbidden(t, pairs % mdp.n_pairs),
            None if mdp.counts is None else seen,
            _most_frequent(mdp, seen),
            probability,
            shares,
        )

    def beyond(self, until: int) -> World:
        """The world of episodes that are asked about up to ``until`` (`tether.auditing.followed`)."""
        if until < 0:
            return self
        with self.lock:
            if until not in self.tables:
                self.tables[until] = self._after(until)
            final, chances = self.tables[until]
        return replace(self, final=final, chances=chances)

    def _after(self, until: int) -> tuple[Floats, Floats]:
        from tether.plan.afterwards import tables_after

        question, mdp, codes = self.asked.question, self.asked.mdp, self.asked.codes
        acts = question.then if question.policy is None or follows_the_record(question.policy) else question.policy
        after = Horizon(until, acts) if until else Horizon(None, "usual")
        own = self.member[:, : mdp.n_states]
        finals = np.concatenate((own, codes == np.unique(codes)[:, None])).T.astype(np.float64)
        worth, chances = tables_after(
            mdp, after, question.objective, question.minimise, finals, self.probability, self.shares
        )
        if not until:  # as long as it takes, from wherever a record ends
            worth, chances = worth[:1], chances[:1]
        return self.sign * worth, chances

    def rewards_at(self, t: int) -> tuple[Floats, bool]:
        """The rewards of a time, by pair or by entry of the model, as `tether.core.follow` takes them."""
        values = self.rewards.at(t)
        return values if self.sign > 0 else -values, self.rewards.by_entry

    def worth_of(self, t: int, layer: Layer, _edits: Any = None) -> tuple[Floats, Floats]:
        """Expected rewards of the pairs of the model (those of the layer) and of the edited pairs of a layer."""
        of_pairs = self.expected.of_pairs(t, layer.nodes.states)
        of_edits = self.expected.of_edited(t, self.model, layer)
        return (of_pairs, of_edits) if self.sign > 0 else (-of_pairs, -of_edits)


@dataclass(frozen=True, eq=False)
class Followed:
    """Plans or a policy followed exactly: what is taken and occupied at each time, with values as they are asked for.

    Values are signed: larger is better. ``under_gumbel`` follows plans under Gumbel-max, for certificates, if that is
    not the mechanism of the question.
    """

    world: World
    steps: Steps
    rows: Rows
    layers: list[Layer]
    visits: list[Any]
    occupied: list[Any]
    value: Floats
    observed: Floats
    k: Ints
    m: int
    policy: AskPolicy | None = None
    under_gumbel: Callable[[], tuple[list[Layer], list[Decided]]] | None = None

    def nodes(self) -> Ints:
        """How many nodes (state, changes left) are visited over time, for each episode."""
        total = np.zeros(len(self.steps), np.int64)
        for layer, here in zip(self.layers, self.occupied, strict=True):
            total += np.diff(np.searchsorted(here.node, layer.nodes.first))
        return total

    def _ended(self) -> Any:
        """Each time, the layer, the occupied nodes where paths end, and their probabilities."""
        for t, (layer, here) in enumerate(zip(self.layers, self.occupied, strict=True)):
            over = layer.nodes.offsets[here.node] == layer.nodes.offsets[here.node + 1]
            yield t, layer, here.node[over], here.mass[over]

    def tell(self, asked: PreparedQuestion, some: Ints, table: AnswerTable, share: float = 1.0) -> None:
        """Write the answers of the episodes ``some`` of a cohort, or add a share of them to those that are there.

        Limits and changes are those of the plans that are told first.
        """
        from tether.core.about import about_episode, strengths
        from tether.core.follow import by_episode
        from tether.core.risk import chances

        sign, question = self.world.sign, asked.question
        value, observed = sign * (self.value + self._paid()) + 0.0, sign * self.observed + 0.0
        if question.objective is not None:
            value, observed = np.clip(value, 0.0, 1.0), np.clip(observed, 0.0, 1.0)
        is_first = not table.answered[some].any()
        table.add("value", some, share * value)
        table.add("observed", some, share * observed)
        if is_first:
            table.k[some] = self.k
        taken, strength, influenced = (np.zeros(len(self.steps)) for _ in range(3))
        for t, (layer, visits) in enumerate(zip(self.layers, self.visits, strict=False)):
            edited = np.flatnonzero(visits.edit >= 0)
            edit, node, mass = visits.edit[edited], visits.node[edited], visits.mass[edited]
            taken += by_episode(layer, visits.node, visits.mass)
            strength += by_episode(layer, node, mass * self.rows.strength[layer.edits.row[edit]])
            influenced += by_episode(layer, node, mass * layer.edits.influenced[edit])
            self._tell_sightings(layer, visits, table, some)
            if is_first:
                self._likeliest_changes(t, layer, visits, table, some)
        strength = np.divide(strength, taken, out=np.zeros_like(strength), where=taken > 0)
        table.add("strength", some, share * strength)
        table.add("influenced", some, share * influenced)
        table.answered[some] = True
        if question.policy is None:
            each = zip(self.layers, self.visits, strict=False)
            rows = self.rows.strength
            about = about_episode(len(self.steps), (strengths(*one, rows, self.m) for one in each))
            table.add("about", some, share * about)
            worse = np.full(len(self.steps), np.nan)
            if self.world.chances is None:  # of what follows a record only the mean is known here
                worse = chances(self._replays(), most=_RETURNS, work=_WORK).worse_high
            table.add("p_worse", some, share * worse)
        self._tell_ends(asked, some, table, share)

    def _tell_sightings(self, layer: Layer, visits: Any, table: AnswerTable, some: Ints) -> None:
        """How often the advised action that is seen least often is in the log of a learned model."""
        changed = np.flatnonzero(visits.changed)
        if self.world.seen is None or changed.size == 0:
            return
        owner = np.searchsorted(layer.nodes.first, visits.node[changed], side="right") - 1
        pairs = visits.pairs(self.world.model, layer)[changed] % self.world.seen.size
        np.minimum.at(table.least_seen, some[owner], self.world.seen[pairs])

    def _paid(self) -> Floats:
        """The expected price of the changes of each plan: it was taken from the value."""
        from tether.core.follow import by_episode

        about, total = self.world.asked.question.advisable, np.zeros(len(self.steps))
        if about is None or about.cost is None:
            return total
        for t, (layer, visits) in enumerate(zip(self.layers, self.visits, strict=False)):
            some = np.flatnonzero(visits.changed)
            price = about.prices(t, visits.pairs(self.world.model, layer)[some])
            total += self.world.discount**t * by_episode(layer, visits.node[some], visits.mass[some] * price)
        return total

    def _replays(self) -> Any:
        """All replays of the episodes, as `tether.core.risk` takes them."""
        from tether.core.follow import Through, links
        from tether.core.risk import Replays

        world, final = self.world, []
        steps = links(world.model, self.layers, Through(self.visits, self.occupied), self.m, world.rewards_at)
        for t, (layer, here) in enumerate(zip(self.layers, self.occupied, strict=True)):
            over = layer.nodes.offsets[here.node] == layer.nodes.offsets[here.node + 1]
            final.append(np.where(over, at_time(world.final, t)[layer.nodes.states[here.node]], 0.0))
        owner = [layer.episode()[here.node] for layer, here in zip(self.layers, self.occupied, strict=True)]
        return Replays(owner, steps, final, world.discount, self.observed, rounding_of(self.observed))

    def _likeliest_changes(self, t: int, layer: Layer, visits: Any, table: AnswerTable, some: Ints) -> None:
        """The likeliest change of each episode at time t; of equally likely ones, the first by state and action."""
        changed = np.flatnonzero(visits.changed)
        if changed.size == 0:
            return
        owner = np.searchsorted(layer.nodes.first, visits.node[changed], side="right") - 1
        n_pairs = int(self.world.model.pair_action.size)
        keys = owner * n_pairs + visits.pairs(self.world.model, layer)[changed]
        order = np.argsort(keys, kind="stable")  # nearly sorted: visits are in the order of their nodes
        begin = np.flatnonzero(np.diff(keys[order], prepend=-1))
        keys, chance = keys[order[begin]], np.add.reduceat(visits.mass[changed[order]], begin)
        owner = keys // n_pairs
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        most = np.repeat(np.maximum.reduceat(chance, first), np.diff(first, append=owner.size))
        likeliest = np.flatnonzero(chance == most)
        likeliest = likeliest[np.flatnonzero(np.diff(owner[likeliest], prepend=-1))]
        at = table.first_step(some[owner[likeliest]]) + t
        table.change_pair[at], table.change_chance[at] = keys[likeliest] % n_pairs, chance[likeliest]

    def _tell_ends(self, asked: PreparedQuestion, some: Ints, table: AnswerTable, share: float) -> None:
        n_labels, codes = self.world.member.shape[0], asked.codes
        labels, offset = np.zeros((len(self.steps), n_labels)), int(codes.max(initial=0)) + 2
        keys, chances = [np.empty(0, np.int64)], [np.empty(0)]
        classes = np.unique(codes)
        for t, layer, node, mass in self._ended():
            after = None if self.world.chances is None else at_time(self.world.chances, t)
            states, owner = layer.nodes.states[node], np.searchsorted(layer.nodes.first, node, side="right") - 1
            of_labels = self.world.member[:, states] if after is None else after[states, :n_labels].T
            for number, members in enumerate(of_labels):
                labels[:, number] += np.bincount(owner, mass * members, minlength=len(self.steps))
            if after is None:
                keys.append(owner * offset + codes[states % codes.size] + 1)
                chances.append(mass)
                continue
            for code, of_class in zip(classes.tolist(), after[states, n_labels:].T, strict=True):
                keys.append(owner * offset + code + 1)
                chances.append(mass * of_class)
        table.add("labels", some, share * np.minimum(labels, 1.0))
        distinct, which = np.unique(np.concatenate(keys), return_inverse=True)
        chance: Any = np.bincount(which.reshape(-1), np.concatenate(chances), minlength=distinct.size)
        table.add_ends(some[distinct // offset], distinct % offset - 1, share * chance)

    def guaranteed(self, wanted: Ints) -> Guaranteed:
        """What some episodes gain under every causal model, and under every stable one.

        Where the gain holds under every one, it holds under the stable ones: the second is then the first.
        """
        from tether._kernels.sets import NOTHING, STABILITY
        from tether.core.extremes import Hidden, Worth, taken_by_plans, taken_by_policy, worst_values

        world, values = self.world, self.world.rewards.values
        reward = world.sign * np.atleast_2d(values) if world.sign < 0 else np.atleast_2d(values)
        worth = Worth(np.ascontiguousarray(reward), world.rewards.by_entry, world.final, world.discount)
        model, steps, by_support = world.model, self.steps, isinstance(world.asked.question.influence, Support)
        if self.policy is None:
            followed = (self.layers, self.visits) if self.under_gumbel is None else self.under_gumbel()
            taken = taken_by_plans(model, steps, *followed, by_support=by_support)
        else:
            taken = taken_by_policy(model, steps, self.policy)
        arrays = model, steps, taken, self.m, worth
        every = worst_values(*arrays, (NOTHING,), wanted)[:, 0]
        observed = self.observed[wanted]
        open_ones = np.flatnonzero(every - observed <= 1e-6 * np.maximum(1.0, np.abs(observed)))
        stable = every.copy()
        stable[open_ones] = worst_values(*arrays, (STABILITY,), wanted[open_ones])[:, 0]
        level = observed + 1e-12 * np.maximum(1.0, np.abs(observed))
        shares = np.tile(world.asked.shares, world.model.pair_action.size // world.asked.mdp.n_pairs)

        def above(some: Ints, gamma: Floats) -> Floats:
            return worst_values(*arrays, (NOTHING,), wanted[some], Hidden(gamma, shares))[:, 0] - level[some]

        return Guaranteed(gain_of(every, observed), gain_of(stable, observed), above)


@dataclass(frozen=True, eq=False)
class Guaranteed:
    """What some episodes gain under every causal model, and under every stable one: arrays, one number per episode.

    ``above(some, gamma)`` is by how much the worst value of some of them is above the observed one with hidden causes
    of a strength Γ (`tether.conditioning.model_sets.Confounding`).
    """

    every: Floats
    stable: Floats
    above: Callable[[Ints, Floats], Floats]

    @classmethod
    def least(cls, each: list[Guaranteed]) -> Guaranteed:
        """The least of what the same episodes gain in several models: what holds, holds in each of them."""
        if len(each) == 1:
            return each[0]
        every, stable = (np.min([getattr(one, which) for one in each], axis=0) for which in ("every", "stable"))
        return cls(every, stable, lambda some, gamma: np.min([one.above(some, gamma) for one in each], axis=0))

    def strengths(self) -> Floats:
        """The strength of hidden causes that undoes each gain: 1 where none is guaranteed."""
        from tether.core.extremes import undoing_strengths

        holds = np.flatnonzero(self.every > 0.0)
        found = np.ones(self.every.size)
        found[holds] = undoing_strengths(lambda some, gamma: self.above(holds[some], gamma), holds.size)
        return found


def _most_frequent(mdp: ModelRecord, seen: Ints) -> Ints:
    """The number of the pair of each state that was seen most often; of several, the first."""
    first, state = mdp.form.pair_start[:-1], np.repeat(np.arange(mdp.n_states), np.diff(mdp.form.pair_start))
    order = np.lexsort((np.arange(seen.size), -seen, state))
    best = np.zeros(mdp.n_states, np.int64)
    some = np.flatnonzero(np.diff(mdp.form.pair_start))
    best[some] = order[first[some]] - first[some]
    return best


# ---- Beyond the records --------------------------------------------------------------------------------------------
# The ends of the records of a log: returns and last states; and up to which time each episode is asked about.
#
# `tether.conditioning.horizon` says what it means. In a log an episode that ended early is by default asked about up
# to the length of the longest one; in a learned model until it ends under usual practice. An episode whose record was
# cut is asked about up to its last step, unless a horizon is given.


_NOTHING, _TO_THE_END = -1, 0
"""For an episode that is not asked about after its record; for one that usual practice brings to its end."""


def horizons_of(asked: PreparedQuestion, cohort: Cohort) -> Ints:
    """H of each episode; -1 if nothing is asked about after the record, 0 if usual practice goes on to the end."""
    question, mdp, steps = asked.question, asked.mdp, np.diff(cohort.start)
    if question.horizon is not None:
        return np.full(len(cohort), question.horizon)
    if mdp.counts is not None and mdp.horizon is None:
        return np.full(len(cohort), _TO_THE_END)
    last, until = last_states(cohort), max(question.longest, mdp.horizon or 0)
    ended = (last >= 0) & asked.absorbing[np.maximum(last, 0)] & (steps < until)
    return np.where(ended, until, _NOTHING)


def up_to_their_ends(asked: PreparedQuestion, cohort: Cohort) -> Cohort:
    """The episodes without what their records have after an absorbing state, where more is asked about."""
    over = asked.absorbing[cohort.state]
    if not over.any():
        return cohort
    beyond = horizons_of(asked, cohort) != _NOTHING
    steps = np.diff(cohort.start)
    owner = np.repeat(np.arange(len(cohort)), steps)
    first = np.arange(owner.size) == cohort.start[owner]
    return cohort.keeping(~(over & beyond[owner]) | first)


def logged_returns(mdp: MDP, cohort: Cohort) -> Floats:
    """The return of each episode by the log's own rewards; an unknown one counts as 0. NaN if there are none."""
    if cohort.reward is None:
        return np.full(len(cohort), np.nan)
    unknown = np.isnan(cohort.reward)
    total = _returns(mdp, cohort, np.where(unknown, 0.0, cohort.reward))
    owner = np.repeat(np.arange(len(cohort)), np.diff(cohort.start))
    total[np.bincount(owner, ~unknown, minlength=len(cohort)) == 0] = np.nan
    if mdp.final_reward is not None:
        for i in np.flatnonzero(last_states(cohort) == -1).tolist():
            seen = cohort.observation(i)
            by_log = earned(mdp, seen, path_of(mdp, seen))
            total[i] = np.nan if by_log is None else by_log.logged
    return total


def last_states(cohort: Cohort) -> Ints:
    """The last state of each episode, -1 if it was not recorded, -2 if there is no episode."""
    last = np.full(len(cohort), -2, dtype=np.int64)
    there = np.flatnonzero(np.diff(cohort.start) > 0)
    last[there] = cohort.next_state[cohort.start[there + 1] - 1]
    return last


def _returns(mdp: MDP, cohort: Cohort, each: Floats) -> Floats:
    """Discounted sums, step by step from the first one."""
    steps, total = np.diff(cohort.start), np.zeros(len(cohort))
    for t in range(int(steps.max(initial=0))):
        here = np.flatnonzero(steps > t)
        total[here] += mdp.discount**t * each[cohort.start[here] + t]
    if mdp.final_reward is not None:
        last = last_states(cohort)
        ended = np.flatnonzero(last >= 0)
        power = np.array([mdp.discount ** int(T) for T in steps[ended]])
        total[ended] = total[ended] + power * mdp.final_reward[last[ended]]
    return total
