"""The answers to a batch of episodes, on the engine: each step of an answer is taken for all episodes at once.

`tether.auditing.answering` says what an answer is, by the calls for a single episode. The numbers are the same up to
rounding. Work is shared: the edited rows of an observed transition are computed once for all episodes that have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.rounding import gain_of, rounding_of
from tether.auditing.answering import PreparedQuestion, answer_one
from tether.auditing.answers import UNKNOWN, UNRECORDED, Answers, Row, gather, not_reviewed
from tether.auditing.question import Question
from tether.auditing.returns import last_states, logged_returns
from tether.core.batch import Layer, Model, Steps
from tether.errors import TetherError
from tether.evaluation.certificate import MOST_NODES, verdict_number
from tether.influence.one_step import Effective, Support, TotalVariation
from tether.influence.thresholds import MAX_STEPS, not_to_advise
from tether.logs.cohort import Cohort
from tether.model.form import Rewards, model_of
from tether.model.record import ModelRecord
from tether.plan.backward import final_rewards
from tether.plan.chain import Decide, Taken
from tether.plan.chain import Visits as StatesVisited
from tether.plan.limits import SHARE
from tether.plan.rewards import ExpectedRewards, without_rewards
from tether.plan.solution import solve as solve_plain
from tether.plan.standard import Standard

__all__ = ["Engine"]

_BATCH = 128
"""How many episodes are answered at once; fewer in a very large model, because scratch is by episode and state."""

_SCRATCH = 1 << 26


class Engine:
    """Answers batches, one at a time: every thread has its own."""

    def __init__(self, asked: PreparedQuestion) -> None:
        self._asked = asked
        self._world = asked.once("world", lambda: _World.of(asked))

    def __call__(self, cohort: Cohort) -> Answers:
        """The answers to a batch."""
        asked, steps = self._asked, np.diff(cohort.start)
        fit = np.array([one is None for one in cohort.problem], dtype=bool) & (steps > 0) & (steps <= MAX_STEPS)
        table = _Table(cohort.start, len(asked.mdp.label_sets.ends))
        size = max(1, min(_BATCH, _SCRATCH // max(asked.mdp.n_states, 1)))
        for some in self._groups(np.flatnonzero(fit), steps, size):
            self._answer(cohort, some, table)
        return self._answers(cohort, table)

    def _groups(self, episodes: Ints, steps: Ints, size: int) -> list[Ints]:
        """Episodes that are answered together; a policy may depend on how many steps an episode has."""
        if self._asked.question.policy is None:
            return [episodes[i : i + size] for i in range(0, episodes.size, size)]
        by_length = (episodes[steps[episodes] == T] for T in np.unique(steps[episodes]))
        return [some[i : i + size] for some in by_length for i in range(0, some.size, size)]

    def _answer(self, cohort: Cohort, some: Ints, table: _Table) -> None:
        question, world = self._asked.question, self._world
        if world.ended is not None:  # where a property is decided at the start, the calls for one episode say so
            some = some[~world.ended[cohort.state[cohort.start[some]]]]
        part = cohort.only(some)
        steps = Steps.of(world.model, part.start, *(
            np.asarray(column, np.int64) for column in (part.state, part.action, part.pair, part.next_state)
        ))  # fmt: skip
        if some.size == 0:
            return
        try:
            batch = _Batch.of(world, steps)
            plans = question.policy is None
            found = batch.planned(question.k, question.m) if plans else batch.evaluated(self._asked)
        except (TetherError, _NotTogetherError):
            return  # these episodes are answered one by one, and the problem is said for those that have it
        found.tell(self._asked, some, table)
        if question.certify and question.objective is None:
            self._certify(cohort, some, found, table)

    def _certify(self, cohort: Cohort, some: Ints, found: _Found, table: _Table) -> None:
        if self._asked.question.policy is not None or self._asked.question.rule == "assured":
            for i in some.tolist():  # what is taken there depends on more than the state and the changes left
                row = answer_one(self._asked, cohort.observation(i))
                table.guaranteed[i], table.verdict[i] = row.guaranteed_gain, row.verdict
            return
        wanted = np.flatnonzero(found.nodes() <= MOST_NODES)
        worst = found.worst(wanted)
        observed = found.observed[wanted, None]
        every, stable = gain_of(worst, observed).T
        table.guaranteed[some[wanted]], table.verdict[some[wanted]] = every, verdict_number(every, stable)

    def _answers(self, cohort: Cohort, table: _Table) -> Answers:
        asked, steps, last = self._asked, np.diff(cohort.start), last_states(cohort)
        form, answered = asked.mdp.form, table.answered
        plans = asked.question.policy is None
        outcome = np.where(last >= 0, asked.codes[np.maximum(last, 0)], UNRECORDED)
        changed = np.flatnonzero(table.change_pair >= 0)
        owner, pairs = np.repeat(np.arange(len(cohort)), steps)[changed], table.change_pair[changed]
        nan = np.full(len(cohort), np.nan)
        model_value = nan.copy()
        policy = asked.question.policy
        if not plans and not (isinstance(policy, str) and policy == "observed"):
            standard = Standard(asked.mdp, policy, asked.question.objective)
            for T in np.unique(steps[answered]).tolist():
                some = np.flatnonzero(answered & (steps == T))
                model_value[some] = standard.values_at(0, T, cohort.state[cohort.start[some]])
        ends = table.ends(len(cohort))
        answers = Answers(
            ids=cohort.ids,
            problem=list(cohort.problem),
            steps=np.where(answered, steps, -1),
            observed=np.where(answered, table.observed, np.nan),
            logged=np.where(answered, logged_returns(asked.mdp, cohort), np.nan),
            outcome=np.where(answered, outcome, UNKNOWN),
            value=np.where(answered, table.value, np.nan),
            gain=np.where(answered, table.gain, np.nan),
            k=np.where(answered & plans, table.k, -1),
            m=np.where(answered & plans, np.minimum(asked.question.m, steps), -1),
            change_start=np.searchsorted(owner, np.arange(len(cohort) + 1)),
            change_t=changed - cohort.start[owner],
            change_state=np.searchsorted(form.pair_start, pairs, side="right") - 1,
            change_observed=cohort.action[changed],
            change_advised=form.pair_action[pairs].astype(np.int64),
            change_probability=table.change_chance[changed],
            labels=table.labels,
            end_start=ends[0],
            end_outcome=ends[1],
            end_probability=ends[2],
            strength=np.where(answered, table.strength, np.nan),
            influenced_steps=np.where(answered, table.influenced, np.nan),
            guaranteed_gain=table.guaranteed,
            verdict=table.verdict,
            credible_low=nan,
            credible_high=nan,
            model_value=model_value,
            **not_reviewed(len(cohort)),
        )
        unanswered = [i for i, why in enumerate(cohort.problem) if why is None and not answered[i]]
        return answers if not unanswered else self._one_by_one(cohort, answers, unanswered)

    def _one_by_one(self, cohort: Cohort, answers: Answers, unanswered: list[int]) -> Answers:
        """Answer the episodes that a batch leaves out, by the single calls, and put them among the others."""
        rows: list[Row | str] = [answers.row(i) for i in range(len(answers))]
        for i in unanswered:
            try:
                rows[i] = answer_one(self._asked, cohort.observation(i))
            except TetherError as error:
                rows[i] = str(error)
        return gather(cohort.ids, rows, answers.labels.shape[1])


class _NotTogetherError(Exception):
    """Some episode of a batch cannot be answered, or not together with the others."""


@dataclass(frozen=True, eq=False)
class _World:
    """The model as it is asked about: where paths end, and what steps and ends are worth; larger is better."""

    asked: PreparedQuestion
    model: Model
    store: Any
    ended: Flags | None
    rewards: Rewards
    expected: ExpectedRewards
    final: Floats
    discount: float
    sign: float
    member: Flags
    forbidden: Flags | None

    @classmethod
    def of(cls, asked: PreparedQuestion) -> _World:
        from tether.core.rows import RowStore

        mdp, question, model = asked.mdp, asked.question, model_of(asked.mdp.form)
        worth: ModelRecord = mdp
        sign, ended, final = -1.0 if question.minimise else 1.0, None, final_rewards(mdp)
        if question.objective is not None:
            decided = question.objective.on(mdp)
            ended, worth, final = decided.ended, without_rewards(mdp), decided.holds.astype(np.float64)
        member = np.zeros((len(mdp.label_sets.ends), mdp.n_states), dtype=bool)
        for number, states in enumerate(mdp.label_sets.ends.values()):
            member[number, states] = True
        discount = mdp.discount if question.objective is None else 1.0
        return cls(
            asked,
            model,
            RowStore(model),
            ended,
            worth.rewards,
            ExpectedRewards(worth),
            sign * final,
            discount,
            sign,
            member,
            not_to_advise(mdp),
        )

    def worth_of(self, t: int, layer: Layer, _edits: Any = None) -> tuple[Floats, Floats]:
        """Expected rewards of the pairs of the model (those of the layer) and of the edited pairs of a layer."""
        of_pairs = self.expected.of_pairs(t, layer.nodes.states)
        of_edits = self.expected.of_edited(t, self.model, layer)
        return (of_pairs, of_edits) if self.sign > 0 else (-of_pairs, -of_edits)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Episodes, and the layers that they reach."""

    world: _World
    steps: Steps
    layers: list[Layer]
    ends: Ints

    @classmethod
    def of(cls, world: _World, steps: Steps) -> _Batch:
        from tether.core.condition import condition

        layers, stuck = condition(world.model, steps, world.store, world.ended)
        if stuck:
            raise _NotTogetherError
        layers = [_with_influence(world, steps, layer, t) for t, layer in enumerate(layers)]
        return cls(world, steps, layers, _path_ends(world, steps))

    def planned(self, k: int | None, m: int) -> _Found:
        """The best plans within k and m; without k within the shortest tether that is enough for each episode."""
        from tether.core.thresholds import thresholds

        world, lengths, T = self.world, self.steps.lengths, self.steps.longest
        up_to = T + 1 if k is None else min(k, T + 1)
        rule = world.asked.question.rule
        kappa = thresholds(world.model, self.steps, self.layers, rule, world.ended, up_to, forbidden=world.forbidden)
        m = min(m, T)
        each = np.minimum(lengths + 1, up_to)
        if k is None:
            values = self._solve(kappa.layers, kappa.of_pairs, np.arange(1, T + 2), m).values
            each = _enough(values[:, :, m], values[:, 0, 0], lengths)
        # With one k per episode: a pair is allowed for k = 1 if its κ is at most the k of its episode.
        allowed = [
            np.where(of_pairs <= layer.by_pair(each), 1, 2).astype(np.int16)
            for layer, of_pairs in zip(kappa.layers, kappa.of_pairs, strict=False)
        ]
        solved = self._solve(kappa.layers, allowed, np.array([1]), m, keep=True)
        observed = solved.values[:, 0, 0]  # with no change: what was done, whatever k is
        return self._follow_plan(kappa.layers, solved, observed, each, m)

    def _solve(self, layers: list[Layer], kappa: list[Ints], ks: Ints, m: int, *, keep: bool = False) -> Any:
        from tether.core.backward import Problem, solve

        world = self.world
        with_runs = world.asked.question.rule == "assured"
        problem = Problem(
            world.model,
            self.steps,
            layers,
            kappa,
            ks,
            m,
            world.worth_of,
            world.final,
            world.discount,
            self.ends,
            with_runs,
        )
        return solve(problem, keep=keep)

    def _follow_plan(self, layers: list[Layer], solved: Any, observed: Floats, k: Ints, m: int) -> _Found:
        from tether.core.follow import Occupied, Visits, by_choices, follow

        steps, model = self.steps, self.world.model

        def decide(t: int, layer: Layer, occupied: Occupied) -> Visits:
            return by_choices(model, layer, occupied, solved.choices[t], steps.item(steps.action, t), m)

        n = len(steps)
        first = Occupied(layers[0].nodes.first[:-1], np.full(n, m), np.ones(n))
        visits, occupied = follow(model, layers, first, m, decide)
        return _Found(self.world, steps, layers, visits, occupied, solved.values[:, 0, m], observed, k, m)

    def evaluated(self, asked: PreparedQuestion) -> _Found:
        """What a policy leads to."""
        from tether.core.follow import Occupied, Visits, follow, visits_of

        question, steps, model, mdp = asked.question, self.steps, self.world.model, asked.mdp
        if isinstance(question.policy, str) and question.policy == "observed":
            raise _NotTogetherError
        ask = _decider(mdp, question, steps.longest)

        def decide(t: int, layer: Layer, occupied: Occupied) -> Visits:
            offsets = layer.nodes.offsets
            going = np.flatnonzero(offsets[occupied.node + 1] > offsets[occupied.node])
            states, which = np.unique(layer.nodes.states[occupied.node[going]], return_inverse=True)
            none = np.zeros(states.size, np.int64)
            taken = ask(t, StatesVisited(states.astype(np.int64), none, none))
            order = np.argsort(taken.source, kind="stable")
            begin = np.searchsorted(taken.source[order], np.arange(states.size + 1))
            count = np.diff(begin)[which]
            source = np.repeat(np.arange(going.size), count)
            at = order[begin[which][source] + np.arange(source.size) - np.repeat(np.cumsum(count) - count, count)]
            weight = occupied.mass[going[source]] * taken.probability[at]
            observed = steps.item(steps.action, t)
            return visits_of(model, layer, occupied.node[going[source]], taken.pairs[at], weight, observed)

        n = len(steps)
        first = Occupied(self.layers[0].nodes.first[:-1], np.zeros(n, np.int64), np.ones(n))
        visits, occupied = follow(model, self.layers, first, 0, decide)
        kappa = [np.ones(layer.n_pairs, np.int16) for layer in self.layers[:-1]]
        observed_value = self._solve(self.layers, kappa, np.array([1]), 0).values[:, 0, 0]
        found = _Found(self.world, steps, self.layers, visits, occupied, np.empty(n), observed_value, np.full(n, -1), 0)
        found.value[:] = found.expected_return()
        return found


@dataclass(frozen=True, eq=False)
class _Found:
    """Plans or a policy followed exactly: what is taken and occupied at each time, with values as they are asked for.

    Values are signed: larger is better.
    """

    world: _World
    steps: Steps
    layers: list[Layer]
    visits: list[Any]
    occupied: list[Any]
    value: Floats
    observed: Floats
    k: Ints
    m: int

    def nodes(self) -> Ints:
        """How many nodes (state, changes left) are visited over time, for each episode."""
        total = np.zeros(len(self.steps), np.int64)
        for layer, here in zip(self.layers, self.occupied, strict=True):
            total += np.diff(np.searchsorted(here.node, layer.nodes.first))
        return total

    def expected_return(self) -> Floats:
        """The expected return of each episode."""
        total = np.zeros(len(self.steps))
        for t, (layer, some) in enumerate(zip(self.layers, self.visits, strict=False)):
            of_pairs, of_edits = self.world.worth_of(t, layer)
            reward = of_pairs[layer.pairs(self.world.model, some.position)].copy()
            edited = some.edit >= 0
            reward[edited] = of_edits[some.edit[edited]]
            total += self.world.discount**t * self._by_episode(layer, some.node, some.mass * reward)
        for t, (layer, node, mass) in enumerate(self._ended()):
            worth = self.world.final[layer.nodes.states[node]]
            total += self.world.discount**t * self._by_episode(layer, node, mass * worth)
        return total

    def _ended(self) -> Any:
        """For each time, the layer, the occupied nodes where paths end, and their probabilities."""
        for layer, here in zip(self.layers, self.occupied, strict=True):
            over = layer.nodes.offsets[here.node] == layer.nodes.offsets[here.node + 1]
            yield layer, here.node[over], here.mass[over]

    def _by_episode(self, layer: Layer, node: Ints, weight: Floats) -> Floats:
        owner = np.searchsorted(layer.nodes.first, node, side="right") - 1
        summed: Floats = np.bincount(owner, weight, minlength=len(self.steps)).astype(np.float64, copy=False)
        return summed

    def tell(self, asked: PreparedQuestion, some: Ints, table: _Table) -> None:
        """Write the answers of the episodes ``some`` of a cohort."""
        sign, question = self.world.sign, asked.question
        value, observed = sign * self.value + 0.0, sign * self.observed + 0.0
        if question.objective is not None:
            value, observed = np.clip(value, 0.0, 1.0), np.clip(observed, 0.0, 1.0)
        table.value[some], table.observed[some], table.k[some] = value, observed, self.k
        table.gain[some] = gain_of(value, observed, sign < 0)
        taken, strength, influenced = (np.zeros(len(self.steps)) for _ in range(3))
        for t, (layer, visits) in enumerate(zip(self.layers, self.visits, strict=False)):
            edited = np.flatnonzero(visits.edit >= 0)
            edit, node, mass = visits.edit[edited], visits.node[edited], visits.mass[edited]
            taken += self._by_episode(layer, visits.node, visits.mass)
            strength += self._by_episode(layer, node, mass * self.world.store.strength[layer.edits.row[edit]])
            influenced += self._by_episode(layer, node, mass * layer.edits.influenced[edit])
            self._likeliest_changes(t, layer, visits, table, some)
        table.strength[some] = np.divide(strength, taken, out=np.zeros_like(strength), where=taken > 0)
        table.influenced[some] = influenced
        table.answered[some] = True
        self._tell_ends(asked, some, table)

    def _likeliest_changes(self, t: int, layer: Layer, visits: Any, table: _Table, some: Ints) -> None:
        """The likeliest change of each episode at time t; of equally likely ones, the first by state and action."""
        changed = np.flatnonzero(visits.changed)
        if changed.size == 0:
            return
        owner = np.searchsorted(layer.nodes.first, visits.node[changed], side="right") - 1
        pairs = layer.pairs(self.world.model, visits.position[changed])
        n_pairs = int(self.world.model.pair_action.size)
        keys, which = np.unique(owner * n_pairs + pairs, return_inverse=True)
        chance = np.bincount(which.reshape(-1), visits.mass[changed])
        order = np.lexsort((keys, -chance, keys // n_pairs))
        first = order[np.flatnonzero(np.diff(keys[order] // n_pairs, prepend=-1))]
        at = table.first_step(some[keys[first] // n_pairs]) + t
        table.change_pair[at], table.change_chance[at] = keys[first] % n_pairs, chance[first]

    def _tell_ends(self, asked: PreparedQuestion, some: Ints, table: _Table) -> None:
        labels = np.zeros((len(self.steps), self.world.member.shape[0]))
        codes, offset = asked.codes, int(asked.codes.max(initial=0)) + 2
        keys, chances = [np.empty(0, np.int64)], [np.empty(0)]
        for layer, node, mass in self._ended():
            states, owner = layer.nodes.states[node], np.searchsorted(layer.nodes.first, node, side="right") - 1
            for number, members in enumerate(self.world.member):
                labels[:, number] += np.bincount(owner, mass * members[states], minlength=len(self.steps))
            keys.append(owner * offset + codes[states] + 1)
            chances.append(mass)
        table.labels[some] = np.minimum(labels, 1.0)
        distinct, which = np.unique(np.concatenate(keys), return_inverse=True)
        chance: Any = np.bincount(which.reshape(-1), np.concatenate(chances), minlength=distinct.size)
        table.add_ends(some[distinct // offset], distinct % offset - 1, chance)

    def worst(self, wanted: Ints) -> Floats:
        """The worst expected return of some plans under every causal model, and under every stable one.

        Where the gain holds under every one, it holds under the stable ones: the second is then the first.
        """
        from tether._kernels.sets import NOTHING, STABILITY
        from tether.core.extremes import Worth, worst_values

        world, values = self.world, self.world.rewards.values
        reward = world.sign * np.atleast_2d(values) if world.sign < 0 else np.atleast_2d(values)
        worth = Worth(np.ascontiguousarray(reward), world.rewards.by_entry, world.final, world.discount)
        arrays = world.model, self.steps, self.layers, self.visits, self.m, worth
        every = worst_values(*arrays, (NOTHING,), wanted)[:, 0]
        observed = self.observed[wanted]
        open_ones = np.flatnonzero(every - observed <= 1e-6 * np.maximum(1.0, np.abs(observed)))
        stable = every.copy()
        stable[open_ones] = worst_values(*arrays, (STABILITY,), wanted[open_ones])[:, 0]
        return np.stack((every, stable), axis=1)


class _Table:
    """The answers to a cohort, by episode and by step, as they are found batch after batch."""

    def __init__(self, start: Ints, labels: int) -> None:
        episodes, steps = start.size - 1, int(start[-1])
        for name in ("value", "observed", "gain", "strength", "influenced", "guaranteed"):
            setattr(self, name, np.full(episodes, np.nan))
        self.value: Floats
        self.observed: Floats
        self.gain: Floats
        self.strength: Floats
        self.influenced: Floats
        self.guaranteed: Floats
        self.k, self.verdict = np.full(episodes, -1, np.int64), np.full(episodes, -1, np.int8)
        self.answered = np.zeros(episodes, bool)
        self.labels = np.full((episodes, labels), np.nan)
        self.change_pair, self.change_chance = np.full(steps, -1, np.int64), np.zeros(steps)
        self._ends: list[tuple[Ints, Ints, Floats]] = []
        self._start = start

    def first_step(self, episodes: Ints) -> Ints:
        """The first step of each of some episodes."""
        first: Ints = self._start[episodes]
        return first

    def add_ends(self, episode: Ints, code: Ints, chance: Floats) -> None:
        """Add the probability of each class of outcomes of some episodes."""
        kept = chance > 0
        self._ends.append((episode[kept], code[kept], chance[kept]))

    def ends(self, episodes: int) -> tuple[Ints, Ints, Floats]:
        """Where the ends of each episode begin; the class of outcomes of each end, ascending; its probability."""
        none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        episode, code, chance = (np.concatenate(column) for column in zip(none, *self._ends, strict=True))
        order = np.lexsort((code, episode))
        return np.searchsorted(episode[order], np.arange(episodes + 1)), code[order], chance[order]


def _decider(mdp: ModelRecord, question: Question, T: int) -> Decide:
    """What a policy does in some states at a time, in episodes of T steps."""
    standard = Standard(mdp, question.policy, question.objective)
    if not standard.is_best:
        return standard.decide(T)
    choices, first = solve_plain(mdp, T, question.objective).choices, mdp.form.pair_start

    def decide(t: int, visits: StatesVisited) -> Taken:
        return Taken.for_certain(first[visits.states] + choices[t][visits.states])

    return decide


def _with_influence(world: _World, steps: Steps, layer: Layer, t: int) -> Layer:
    """The layer with the influenced pairs of the test that is asked for."""
    influence, edits = world.asked.question.influence, layer.edits
    if isinstance(influence, Support) or edits.row.size == 0:
        return layer
    if isinstance(influence, TotalVariation):
        kept = _closeness(world, steps, layer, t) <= influence.eps
    else:
        assert isinstance(influence, Effective)
        pairs = layer.pairs(world.model, edits.position)
        own = steps.item(steps.pair, t)[layer.episode()[layer.node_of(edits.position)]]
        kept = (world.store.strength[edits.row] > influence.eps) | (pairs == own)
    return Layer(layer.nodes, edits._replace(influenced=kept.astype(np.uint8)))


def _closeness(world: _World, steps: Steps, layer: Layer, t: int) -> Floats:
    """½ Σ |P(·|s_t,a_t) - P(·|s,a)| of each edited pair of a layer."""
    from tether.core.rows import distances

    pairs = layer.pairs(world.model, layer.edits.position)
    observed = steps.item(steps.pair, t)[layer.episode()[layer.node_of(layer.edits.position)]]
    return distances(world.model, observed, pairs)


def _path_ends(world: _World, steps: Steps) -> Ints:
    """When the observed path of each episode ends: at T_b, or where a property is decided on it."""
    ends = steps.lengths.copy()
    if world.ended is None:
        return ends
    owner = np.repeat(np.arange(len(steps)), steps.lengths)
    time = np.arange(steps.state.size) - steps.start[owner]
    decided = np.flatnonzero(world.ended[steps.state])
    np.minimum.at(ends, owner[decided], time[decided])
    return ends


def _enough(values: Floats, observed: Floats, lengths: Ints) -> Ints:
    """The shortest tether of each episode that gives `SHARE` of what its longest one gives; 1 if none gains anything.

    ``values[b, k - 1]`` is the best value within k. See `tether.plan.limits.enough_k`.
    """
    ks = np.arange(1, values.shape[1] + 1)
    gains = np.where(ks <= lengths[:, None], values - observed[:, None], -np.inf)
    most = np.maximum(gains.max(axis=1), 0.0)
    rounding = rounding_of(observed)
    enough = gains >= (SHARE * most - rounding)[:, None]
    return np.where(most <= rounding, 1, ks[np.argmax(enough, axis=1)])
