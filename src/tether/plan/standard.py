"""What decisions are judged against: the values of the plain model, under its best policy or another, step by step.

They are made from the last time to the first, for the states that matter only: those that the episodes could reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, places_among, read_only, summed
from tether.conditioning.edited_rows import Rows, spans
from tether.conditioning.layers import expand, walking
from tether.core.chain import Decide, Taken, Visits
from tether.errors import Problem, QueryError
from tether.model.form import all_pair_states, pair_states
from tether.model.model_record import ModelRecord
from tether.model.practice import Practice, learned_counts, practice
from tether.model.product import memory_of
from tether.model.properties import Decided, Property, make_property
from tether.plan.policy import array_decider, decider, make_policy
from tether.plan.resting import asked_model, counts_at_rest
from tether.plan.rewards import ExpectedRewards
from tether.plan.solution import backward_values, choice_type
from tether.plan.walks import or_rest


def is_best(against: Any) -> bool:
    """Whether ``against`` is the best of the model, not a policy of its own."""
    return isinstance(against, str) and against in ("best", "optimal")


class LayerValues(NamedTuple):
    """Values at one time: by state, size and V (negated with ``minimise``); and the pair taken in given states.

    ``table`` has a row for each state of the model, or for ``states`` alone.
    """

    t: int
    table: Floats
    taken: Callable[[Ints], Ints]
    states: Ints | None = None

    def of(self, states: Ints) -> Floats:
        """V of some states."""
        found: Floats = self.table[states if self.states is None else places_among(self.states, states), 1]
        return found


@dataclass(frozen=True, eq=False)
class Standard:
    """What decisions are judged against: the best of the plain model, or a policy; for a return or a property.

    Attributes
    ----------
    against : "best", "usual" or a policy
        See `tether.plan.policy`; ``"usual"`` is `tether.practice`.
    objective : Property or None
    minimise : bool
    ended : MDP or None
        The model whose returns are the values, with what follows a record as its final reward
        (`tether.plan.objective.best_within`).

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> import numpy as np
    >>> Standard(grid.mdp).values_at(0, 11, np.array([0])).round(3), Standard(grid.mdp, "random").by_steps_left
    (array([540.775]), True)
    """

    mdp: ModelRecord
    against: Any = "best"
    objective: Property | None = None
    minimise: bool = False
    kept: tuple[LayerValues, ...] = ()
    ended: ModelRecord | None = None

    def __post_init__(self) -> None:
        make_property(self.objective)
        if isinstance(self.against, str) and self.against == "observed":
            message = "decisions cannot be judged against 'observed': that is what was done"
            raise QueryError(Problem(message, value="observed", fix="give 'best', 'usual', 'random' or a policy"))

    @property
    def is_best(self) -> bool:
        """Whether decisions are judged against the best."""
        return is_best(self.against)

    @property
    def is_usual(self) -> bool:
        """Whether decisions are judged against usual practice."""
        return isinstance(self.against, str) and self.against == "usual"

    @cached_property
    def world(self) -> tuple[ModelRecord, Decided | None]:
        """The model whose returns are the values, and which of its states decide the property."""
        world, decided = asked_model(self.mdp, self.objective)
        return (world if self.ended is None else self.ended), decided

    @cached_property
    def shares(self) -> Floats | None:
        """The policy as a share of each pair, if it is one of those that do not depend on time."""
        if self.is_usual:
            memory = memory_of(self.mdp)
            return practice(self.mdp).shares if memory is None else practice(memory.mdp).shares[memory.pair]
        if isinstance(self.against, str) and self.against == "random":
            return 1.0 / np.diff(self.mdp.form.pair_start)[all_pair_states(self.mdp.form.pair_start)]
        return None

    @cached_property
    def _practice(self) -> Practice:
        """Usual practice in the log of a learned model, for the return or the property."""
        (world, decided), counts = asked_model(self.mdp, self.objective), learned_counts(self.mdp)
        if decided is not None:  # how far actions differ in this chance is estimated anew
            counts = replace(
                counts, transitions=counts_at_rest(self.mdp.form, counts.transitions, decided), pooling=None
            )
        return Practice(world, counts)

    @cached_property
    def advantages(self) -> tuple[Floats, Floats, Floats]:
        """For a learned model: the advantage of each pair over usual practice, its sd, and P(it is above 0).

        More is better, also with ``minimise``. Of a property it is the chance that it holds within the longest episode.
        """
        mean, sd, better = self._practice.arrays
        return (0.0 - mean, sd, 1.0 - better) if self.minimise else (mean, sd, better)

    @cached_property
    def unpooled(self) -> tuple[Floats, Floats]:
        """For a learned model: advantages as the log has them, and the sd of each; see `Practice.unpooled`."""
        mean, sd = self._practice.unpooled
        return (0.0 - mean if self.minimise else mean), sd

    @cached_property
    def by_steps_left(self) -> bool:
        """Whether values depend on the number of steps left alone, so that episodes of any length share them."""
        return (self.is_best or self.shares is not None) and self.world[0].rewards.horizon is None

    def tabulated(self, horizon: int) -> Standard:
        """With the values of all states kept for so many steps, for a log that is reviewed in many batches.

        Nothing is kept for a policy that is asked state by state: it may not have an answer for every state.
        """
        if not (self.is_best or self.shares is not None):
            return self
        every = np.arange(self.mdp.n_states, dtype=np.int32)
        layers = self._best([every] * horizon) if self.is_best else self._followed(lambda _t, _s: every, horizon)
        return replace(self, kept=tuple(layer._replace(table=layer.table.copy()) for layer in layers))

    def layers(self, horizon: int, entering: Sequence[Ints], observed: Sequence[Ints]) -> Iterator[LayerValues]:
        """Values at t = horizon … 0, of the states that matter.

        ``entering[t]`` are the states in which episodes begin at t, ``observed[t]`` the pairs that were taken then.
        """
        if self.kept and self.kept[0].t == horizon:
            yield from self.kept
            return
        if not self.is_best:
            yield from self._followed(lambda t, reached: np.union1d(reached, entering[t]), horizon, observed)
            return
        yield from self._best(self._met(horizon, entering)[:-1])

    def for_starts(self, horizons: Ints, first: Ints) -> Callable[[int, int], LayerValues]:
        """What the best policy is worth and does where episodes can come to, from their first states on.

        ``horizons`` and ``first`` have one number per episode. The answer is a look-up: by horizon and time. It is that
        of the tables that are kept, or is solved for the states that these episodes can reach: once if values depend
        on the steps left alone, otherwise for each distinct horizon.
        """
        if self.by_steps_left:
            latest = int(horizons.max(initial=0))
            if self.kept and self.kept[0].t >= latest:
                latest, layers = self.kept[0].t, {layer.t: layer for layer in self.kept}
            else:
                starts = [np.unique(first[horizons == latest - t]) for t in range(latest)]
                layers = self._reached(latest, starts)
            return lambda horizon, t: layers[latest - horizon + t]
        each = {}
        for horizon in np.unique(horizons).tolist():
            none: list[Ints] = [np.empty(0, np.int64)] * (horizon - 1)
            each[horizon] = self._reached(horizon, [np.unique(first[horizons == horizon]), *none])
        return lambda horizon, t: each[horizon][t]

    def _reached(self, horizon: int, entering: Sequence[Ints]) -> dict[int, LayerValues]:
        """The values of the states that are reached, by time; ``entering`` as in `layers`."""
        states = self._met(horizon, entering)
        return {
            layer.t: layer._replace(table=layer.table[states[layer.t]], states=states[layer.t])
            for layer in self._best(states[:-1])
        }

    def _met(self, horizon: int, entering: Sequence[Ints]) -> list[Ints]:
        """For t = 0 … horizon, the states in which episodes begin at t, or to which they can come until then."""
        states, reached = [], np.empty(0, np.int32)
        with walking(self.world[0]) as walk:
            for t in range(horizon):
                if not np.isin(entering[t], reached).all():
                    reached = read_only(np.union1d(reached, entering[t]).astype(np.int32))
                states.append(reached)
                reached = walk.onward(reached, Rows.none())
        return [*states, reached]

    def values_at(self, t: int, horizon: int, states: Ints) -> Floats:
        """The value of each of some states at time t of a horizon."""
        entering = [np.empty(0, np.int64)] * horizon
        if t < horizon:
            entering[t] = np.unique(states)
        layers = self.layers(horizon, entering, [np.empty(0, np.int64)] * horizon)
        found: Floats = next(layer.table for layer in layers if layer.t == t)[states, 1]
        return 0.0 - found if self.minimise else found

    def of_pairs(self, horizon: int, pairs: Sequence[Ints]) -> tuple[list[Floats], list[Floats]]:
        """Q_t of some pairs of each time t: what is to be expected of taking each once, and deciding as judged then.

        More is better: with ``minimise`` these are negated. The second are the sizes of the numbers that were added up.
        """
        world, sign = self.world[0], -1.0 if self.minimise else 1.0
        form, rewards = world.form, ExpectedRewards(world)
        states = [np.unique(pair_states(form.pair_start, one)) for one in pairs]
        values: list[Floats] = [np.empty(0)] * horizon
        sizes = values.copy()
        after: Floats | None = None
        for layer in self.layers(horizon, states, pairs):
            t = layer.t
            if after is not None and pairs[t].size:
                earned = sign * rewards.of_pairs(t, states[t].astype(np.int32))[pairs[t]]
                owner, entry = spans(form.row_start[pairs[t]], form.row_start[pairs[t] + 1])
                weighted = after[form.next_state[entry]] * form.probability[entry][:, None]
                rest = [world.discount * summed(owner, weighted[:, i], pairs[t].size) for i in (0, 1)]
                values[t], sizes[t] = earned + rest[1], np.abs(earned) + rest[0]
            after = layer.table
        return values, sizes

    def _best(self, states: Sequence[Ints]) -> Iterator[LayerValues]:
        world, decided = self.world
        first = world.form.pair_start
        choices = [np.full((layer.size, 1), -1, dtype=choice_type(world)) for layer in states]
        for t, table in backward_values(world, decided, states, choices, self.minimise):

            def taken(wanted: Ints, t: int = t) -> Ints:
                chosen: Ints = first[wanted] + choices[t][places_among(states[t], wanted), 0]
                return chosen

            yield LayerValues(t, table, taken)

    def _followed(
        self, states: Callable[[int, Ints], Ints], horizon: int, observed: Sequence[Ints] | None = None
    ) -> Iterator[LayerValues]:
        """Values of a policy; ``states(t, reached)`` are those of a layer, from those that the layer before reaches."""
        (world, decided), decide, sign = self.world, self.decide(horizon), -1.0 if self.minimise else 1.0
        form, rewards = world.form, ExpectedRewards(world)
        layers: list[tuple[Ints, Taken]] = []
        reached = np.empty(0, np.int64)
        for t in range(horizon):
            here = np.asarray(states(t, reached), np.int64)
            chosen = Taken.for_certain(here)
            if here.size:  # no episode may have begun yet
                visits = Visits(here, np.zeros_like(here), np.zeros_like(here))
                chosen = decide(t, visits) if decided is None else or_rest(world, t, visits, decide, decided.ended)
            layers.append((here, chosen))
            if observed is not None:
                pairs = np.union1d(chosen.pairs, observed[t])
                reached = np.unique(form.next_state[spans(form.row_start[pairs], form.row_start[pairs + 1])[1]])
        tables = np.zeros((2, world.n_states, 2))
        if world.final_reward is not None:
            tables[horizon % 2] = np.stack((np.abs(world.final_reward), sign * world.final_reward), axis=1)
        yield LayerValues(horizon, tables[horizon % 2], lambda wanted: wanted)
        for t in range(horizon - 1, -1, -1):
            here, chosen = layers[t]
            earned = rewards.of_pairs(t, here.astype(np.int32))[chosen.pairs]
            owner, entry, chance = expand(world, None, chosen.pairs)
            after = tables[(t + 1) % 2][form.next_state[entry]] * chance[:, None]
            size = np.abs(earned) + world.discount * np.bincount(owner, after[:, 0], minlength=earned.size)
            value = sign * earned + world.discount * np.bincount(owner, after[:, 1], minlength=earned.size)
            table = tables[t % 2]
            for column, of_pairs in enumerate((size, value)):
                weighted = of_pairs * chosen.probability
                table[here, column] = np.bincount(chosen.source, weighted, minlength=here.size)
            table[here[np.bincount(chosen.source, minlength=here.size) == 0]] = np.inf, -np.inf  # no action there
            yield LayerValues(t, table, _likeliest(here, chosen))

    def decide(self, horizon: int) -> Decide:
        """What the policy does at each time of a horizon."""
        mdp, shares = self.mdp, self.shares
        if shares is not None:
            return _by_shares(mdp, shares)
        policy = "optimal" if self.is_best else self.against
        found = array_decider(mdp, policy)
        if found is not None:
            return found
        return decider(mdp, make_policy(mdp, policy, horizon, objective=self.objective, minimise=self.minimise))


def check_finite(mdp: ModelRecord, t: int, states: Ints, values: Floats) -> None:
    """An error if values are infinite: a state without actions can be reached before the end."""
    lost = np.flatnonzero(~np.isfinite(values))
    if lost.size:
        state = mdp.states[int(states[lost[0]])]
        message = f"from state {state!r} a state without any action can be reached before the end"
        fix = "explore the model from this state, or judge fewer steps (horizon=)"
        raise QueryError(Problem(message, state, time=t, place=f"t = {t}", fix=fix))


def _by_shares(mdp: ModelRecord, shares: Floats) -> Decide:
    first = mdp.form.pair_start

    def decide(_t: int, visits: Visits) -> Taken:
        source, pairs = spans(first[visits.states], first[visits.states + 1])
        some = np.flatnonzero(shares[pairs] > 0)
        none = np.zeros(some.size, np.int64)
        return Taken(source[some], pairs[some], shares[pairs[some]], none, none)

    return decide


def _likeliest(states: Ints, chosen: Taken) -> Callable[[Ints], Ints]:
    """Look-up of the pair that is taken most likely in each of ``states``; the lowest of equals."""

    def taken(wanted: Ints) -> Ints:
        order = np.lexsort((chosen.pairs, -chosen.probability, chosen.source))
        first = order[np.searchsorted(chosen.source[order], places_among(states, wanted))]
        found: Ints = chosen.pairs[first]
        return found

    return taken
