"""Plans and policies for a batch of episodes: the layers that it reaches, and what is best or done in them.

The edited rows of an observed transition are computed once for all episodes that have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.rounding import rounding_of
from tether.auditing.answering import PreparedQuestion
from tether.auditing.audit_question import Question
from tether.auditing.followed import AskPolicy, Followed, World
from tether.core.batch import Layer, Seen, Steps
from tether.core.chain import Decide, Taken, Visits
from tether.influence.kappa import as_engine_rule
from tether.influence.one_step import Effective, Support, TotalVariation, tested
from tether.model.model_record import ModelRecord
from tether.observation.path import Path
from tether.plan.limits import ABOUT, SHARE, shortest
from tether.plan.policy import decider, make_policy
from tether.plan.resting import asked_model
from tether.plan.solution import solve as solve_plain
from tether.plan.standard import LayerValues, Standard

if TYPE_CHECKING:
    from tether.core.backward import Problem, Solved
    from tether.core.follow import Decided
    from tether.core.rows import Rows


class NotTogetherError(Exception):
    """Some episode of a batch cannot be answered, or not together with the others."""


@dataclass(frozen=True, eq=False)
class Plans:
    """The best plans of a batch: what is chosen on which layers, what they promise, and their limits.

    Values are signed: larger is better.
    """

    batch: Batch
    layers: list[Layer]
    choices: list[Any]
    value: Floats
    observed: Floats
    k: Ints
    m: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Episodes, and the layers that they reach; ``rows`` are those that the layers refer to."""

    world: World
    steps: Steps
    rows: Rows
    layers: list[Layer]
    ends: Ints

    @classmethod
    def of(cls, world: World, steps: Steps) -> Batch:
        from tether.core.condition import condition

        rows = world.store.rows()
        layers, stuck = condition(world.model, steps, rows, world.ended)
        if stuck:
            raise NotTogetherError
        layers = [_with_influence(world, steps, rows, layer, t) for t, layer in enumerate(layers)]
        return cls(world, steps, rows, layers, _path_ends(world, steps))

    def planned(self, k: int | None, m: int) -> Plans:
        """The best plans within k and m; without k within the tether that `Tethered.plan` takes for each episode."""
        from tether.core.backward import solve
        from tether.core.changes_left import changes_left

        lengths, T = self.steps.lengths, self.steps.longest
        up_to, m = T + 1 if k is None else min(k, T + 1), min(m, T)
        kappa = self._thresholds(up_to, m)
        left = changes_left(self.world.model, self.steps, kappa.layers, m)
        ks = np.arange(1 if k is None else up_to, up_to + 1)
        problem = self._problem(kappa.layers, kappa.of_pairs, ks, m, left)
        solved = solve(problem, keep=True)
        which = self._chosen(problem, solved) if k is None else np.zeros(lengths.size, np.int64)
        choices = [one.of_k(layer.episode(), which) for one, layer in zip(solved.choices, kappa.layers, strict=False)]
        value, observed = solved.values[np.arange(which.size), which, m], solved.values[:, 0, 0]
        return Plans(self, kappa.layers, choices, value, observed, np.minimum(lengths + 1, ks[which]), m)

    def _thresholds(self, up_to: int, m: int) -> Any:
        from tether.core.thresholds import thresholds

        world = self.world
        rule = as_engine_rule(world.asked.question.rule, world.model)
        of_model = world.model, self.steps, self.layers
        return thresholds(*of_model, rule, world.ended, up_to, forbidden=world.forbidden, m=m)

    def _chosen(self, problem: Problem, solved: Solved) -> Ints:
        """The number of each episode's k: that of the largest gain whose plan is about it, else the shortest enough."""
        from tether.core.about import measure

        lengths, rewards, m = self.steps.lengths, self.world.rewards, problem.m
        values, observed = solved.values[:, :, m], solved.values[:, 0, 0]
        if (values.max(axis=1) - observed <= rounding_of(observed)).all():
            return np.zeros(lengths.size, np.int64)

        def strength_of(_t: int, part: Layer, _edits: Any) -> Floats:
            found: Floats = self.rows.strength[part.edits.row]
            return found

        measured = measure(problem, solved.choices, strength_of, rewards.at, rewards.by_entry, with_std=False)
        ks, rounding = np.arange(1, values.shape[1] + 1), rounding_of(observed)
        gains = np.where(ks <= lengths[:, None], values - observed[:, None], -np.inf)
        chosen = shortest(ks, np.where(measured.about[:, :, m] >= ABOUT, gains, -np.inf), rounding)
        found: Ints = np.where(chosen > 0, chosen, np.maximum(shortest(ks, gains, rounding, SHARE), 1))
        return found - 1

    def _problem(self, layers: list[Layer], kappa: list[Ints], ks: Ints, m: int, left: list[Ints] | None) -> Problem:
        from tether.core.backward import Problem

        world = self.world
        with_runs, about = world.asked.question.rule == "assured", world.asked.question.advisable
        return Problem(
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
            left=left,
            price_at=None if about is None else about.price_at(world.model),
        )

    def follow(self, plans: Plans) -> Followed:
        """What plans lead to: those of this batch, or those that the same episodes have in another copy of the model.

        Where a plan of another copy knows no state, what was done is done again; if that is not available, what is done
        there most often.
        """
        from tether.core.follow import Occupied, by_choices, expected_returns, follow, transferred

        world, steps, m = self.world, self.steps, plans.m
        layers, value = plans.layers, plans.value
        is_own = plans.batch is self
        if not is_own:
            layers = (
                self._thresholds(steps.longest + 1, m).layers if world.asked.question.rule == "assured" else self.layers
            )

        def decide(t: int, layer: Layer, here: Occupied) -> Decided:
            done, choices = steps.item(steps.action, t), plans.choices[t]
            if not is_own:
                choices = transferred(world.model, layer, plans.layers[t], choices, done, world.usual)
            return by_choices(world.model, layer, here, choices, done, m)

        n = len(steps)
        first = Occupied(layers[0].nodes.first[:-1], np.full(n, m), np.ones(n))
        through = follow(world.model, layers, first, m, decide)
        if not is_own:
            value = expected_returns(world.model, layers, through, world.worth_of, world.final, world.discount)
        under_gumbel = None if world.gumbel is None else partial(self._under_gumbel, plans)
        found = world, steps, self.rows, layers, *through, value, plans.observed, plans.k, m
        return Followed(*found, under_gumbel=under_gumbel)

    def _under_gumbel(self, plans: Plans) -> tuple[list[Layer], list[Decided]]:
        """What plans take for certain if Gumbel-max leads, in its layers; where they have no choice, what was done."""
        from tether.core.follow import Decided, Occupied, follow, known_choices, where_known
        from tether.core.thresholds import with_runs

        world, steps, m, taken = self.world, self.steps, plans.m, list[Decided]()
        assert world.gumbel is not None
        layers = Batch.of(replace(world, store=world.gumbel), steps).layers
        if world.asked.question.rule == "assured":
            layers = with_runs(world.model, layers, steps.longest + 1)

        def decide(t: int, layer: Layer, here: Occupied) -> Decided:
            choices = known_choices(layer, plans.layers[t], plans.choices[t], world.usual.size)
            some, is_sure = where_known(world.model, layer, here, choices, steps.item(steps.action, t), m)
            sure = (getattr(some, one.name)[is_sure] for one in fields(Decided))
            taken.append(Decided(*sure))
            return some

        n = len(steps)
        first = Occupied(layers[0].nodes.first[:-1], np.full(n, m), np.ones(n))
        follow(world.model, layers, first, m, decide)
        return layers, taken

    def evaluated(self, asked: PreparedQuestion, until: int, path: Path | None = None) -> Followed:
        """What a policy leads to; ``until`` is the horizon, if it is above 0.

        ``path`` is the episode, if the policy depends on what was done in it: then it is the only one of the batch.
        """
        from tether.core.backward import solve
        from tether.core.follow import Occupied, by_episode_pairs, by_policy, expected_returns, follow

        steps, world, model = self.steps, self.world, self.world.model
        question, mdp = asked.question, asked.mdp
        ask = None
        if not (isinstance(question.policy, str) and question.policy == "observed"):
            ends: ModelRecord = mdp
            if until == 0:  # the best up to the end of the record depends on what follows it
                ends = replace(asked_model(mdp, question.objective)[0], final_reward=world.final[0])
                question = replace(question, objective=None)
            ask = _in_states(_decider(ends, question, until if until > 0 else steps.longest, path))

        def decide(t: int, layer: Layer, here: Occupied) -> Decided:
            observed = steps.item(steps.action, t)
            if ask is None:
                return by_episode_pairs(model, layer, here, steps.item(steps.pair, t), observed)
            return by_policy(model, layer, here, partial(ask, t), observed)

        n = len(steps)
        first = Occupied(self.layers[0].nodes.first[:-1], np.zeros(n, np.int64), np.ones(n))
        through = follow(model, self.layers, first, 0, decide)
        kappa = [np.ones(layer.n_pairs, np.int16) for layer in self.layers[:-1]]
        seen = solve(self._problem(self.layers, kappa, np.array([1]), 0, None)).values[:, 0, 0]
        value = expected_returns(model, self.layers, through, world.worth_of, world.final, world.discount)
        return Followed(world, steps, self.rows, self.layers, *through, value, seen, np.full(n, -1), 0, ask)

    def best_values(self, standard: Standard, horizon: Ints) -> Floats:
        """The value of the plain model's best policy with the luck of each episode, up to its horizon.

        NaN where that policy has no value: a state without actions can be reached.
        """
        from tether.core.follow import Occupied, by_episode, expected_returns, follow, goes_on, take_pairs

        n, world, model = len(self.steps), self.world, self.world.model
        best = standard.for_starts(horizon, self.steps.state[self.steps.start[:-1]])

        def at(t: int, layer: Layer, node: Ints, of: Callable[[LayerValues, Ints], Any]) -> Any:
            """Something of the values of some nodes at time t; the policy of an episode depends on its horizon."""
            states, until = layer.nodes.states[node], horizon[layer.episode()[node]]
            found = np.empty(node.size)
            for one in np.unique(until).tolist():
                some = np.flatnonzero(until == one)
                found[some] = of(best(one, t), states[some].astype(np.int64))
            return found

        def decide(t: int, layer: Layer, here: Occupied) -> Decided:
            going = goes_on(layer, here)
            pairs = at(t, layer, here.node[going], lambda values, states: values.taken(states)).astype(np.int64)
            return take_pairs(model, layer, here, going, pairs, self.steps.item(self.steps.action, t))

        node = self.layers[0].nodes.first[:-1]
        has_value = np.isfinite(at(0, self.layers[0], node, LayerValues.of))
        first = Occupied(node[has_value], np.zeros(n, np.int64)[has_value], np.ones(n)[has_value])
        through, nothing = follow(model, self.layers, first, 0, decide), np.zeros((1, model.n_states))
        value = expected_returns(model, self.layers, through, world.worth_of, nothing, world.discount)
        for t, (layer, here) in enumerate(zip(self.layers, through.occupied, strict=True)):
            over = layer.nodes.offsets[here.node] == layer.nodes.offsets[here.node + 1]
            worth = at(t, layer, here.node[over], LayerValues.of)
            value += world.discount**t * by_episode(layer, here.node[over], here.mass[over] * worth)
        return np.where(has_value, world.sign * value + 0.0, np.nan)


def _in_states(decide: Decide) -> AskPolicy:
    """The policy as the engine asks it."""

    def ask(t: int, states: Ints) -> tuple[Ints, Ints, Floats]:
        none = np.zeros(states.size, np.int64)
        taken = decide(t, Visits(states, none, none))
        order = np.argsort(taken.source, kind="stable")
        begin = np.searchsorted(taken.source[order], np.arange(states.size + 1))
        return begin, taken.pairs[order].astype(np.int64), taken.probability[order]

    return ask


def _decider(mdp: ModelRecord, question: Question, T: int, path: Path | None) -> Decide:
    """What a policy does in some states at a time, in episodes of T steps, or in the one of ``path``."""
    if path is not None:
        return decider(mdp, make_policy(mdp, question.policy, T, path))
    standard = Standard(mdp, question.policy, question.objective)
    if not standard.is_best:
        return standard.decide(T)
    choices, first = solve_plain(mdp, T, question.objective).choices, mdp.form.pair_start

    def decide(t: int, visits: Visits) -> Taken:
        return Taken.for_certain(first[visits.states] + choices[t][visits.states])

    return decide


def _with_influence(world: World, steps: Steps, rows: Rows, layer: Layer, t: int) -> Layer:
    """The layer with the influenced pairs of the test that is asked for."""
    from tether.core.rows import distances

    influence, edits = world.asked.question.influence, layer.edits
    if isinstance(influence, Support) or edits.row.size == 0:
        return layer
    pairs, episode = layer.pairs(world.model, edits.position), layer.episode()[layer.node_of(edits.position)]
    own, outcome = (steps.item(one, t)[episode] for one in (steps.pair, steps.outcome))
    of_model = Seen.in_model(world.model)
    if isinstance(influence, TotalVariation):
        kept = distances(world.model, of_model, own, pairs) <= influence.eps
    elif isinstance(influence, Effective):
        kept = (rows.strength[edits.row] > influence.eps) | (pairs == own)
    else:
        kept = tested(influence, t, world.model, of_model, own, outcome, pairs) | (pairs == own)
    return Layer(layer.nodes, edits._replace(influenced=kept.astype(np.uint8)))


def _path_ends(world: World, steps: Steps) -> Ints:
    """When the observed path of each episode ends: at T_b, or where a property is decided on it."""
    ends = steps.lengths.copy()
    if world.ended is None:
        return ends
    owner = np.repeat(np.arange(len(steps)), steps.lengths)
    time = np.arange(steps.state.size) - steps.start[owner]
    decided = np.flatnonzero(world.ended[steps.state])
    np.minimum.at(ends, owner[decided], time[decided])
    return ends
