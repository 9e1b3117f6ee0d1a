"""The counterfactual MDP: the model, replayed with the luck of one observed episode.

For an observed path τ the counterfactual MDP has the states, actions and rewards of the model, and
at step t the transition probabilities

    P_{t,τ}(s' | s, a) = P(s' | s, a, noise of step t | s_t, a_t led to s_{t+1})

The mechanism says which rows a step changes. Gumbel-max changes only rows whose support meets that of
the observed row (the paper's Proposition 1), so the result is stored as the nominal model plus a few
edited rows per step. Only pairs that s_0 can reach at that step are edited; other rows are computed
when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.markup import facts
from tether._foundation.words import counted
from tether.conditioning.carried import carried_posterior, carried_step, step_within
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.horizon import Horizon, Rest, make_horizon, up_to_its_end
from tether.conditioning.layers import Graph, Layer, make_layer, walking
from tether.conditioning.mechanism import Mechanism, NoisePosterior
from tether.conditioning.mechanisms import infer, make_mechanism
from tether.conditioning.row_function import RowOf
from tether.errors import PathError, Problem
from tether.model.form import pair_states
from tether.model.model_record import ModelRecord
from tether.model.product import memory_of, model_itself
from tether.model.side_by_side import shifted
from tether.observation.changes import absorbing
from tether.observation.earned import Earned, earned
from tether.observation.ends import settled
from tether.observation.indices import observe_indices, path_of
from tether.observation.path import Observation, Path, observe, time_index

_Made = TypeVar("_Made")
_Kind = TypeVar("_Kind", bound="CounterfactualRecord")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CounterfactualRecord:
    """A model conditioned on an observed path, and its look-ups; made by `CounterfactualRecord.of`.

    `tether.records.CounterfactualMDP` adds the questions; the folders that answer them take this record.

    Attributes
    ----------
    mdp, path, mechanism
        What it was made of.
    graph : Graph
        For each time, the states that s_0 can reach and their edited rows.
    posteriors : tuple of NoisePosterior or None
        What each step says about the noise of its time; None if its outcome was not recorded.
    after : Horizon or None
        Up to which time it is asked about, and who acts after the record; None if nothing is asked about after it.
    rest : Rest or None
        What follows the record, where an objective is known (`tether.plan.objective`).
    """

    mdp: ModelRecord
    path: Path
    mechanism: Mechanism
    graph: Graph
    posteriors: tuple[NoisePosterior | None, ...]
    after: Horizon | None = None
    rest: Rest | None = None
    _questions: dict[Any, Any] = field(default_factory=dict, init=False)
    _is_made: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls,
        mdp: ModelRecord,
        path: Path | Observation | tuple[Any, Any],
        mechanism: str | Mechanism | RowOf = GumbelMax.name,
        *,
        horizon: int | None = None,
        then: Any = "best",
        **options: Any,
    ) -> Self:
        """Condition a model on an observed path; see `tether.counterfactual`."""
        observation, path = _observed(mdp, path)
        after = make_horizon(mdp, observation, horizon, then)
        if after is not None:
            observation, path = up_to_its_end(mdp, observation, path)
        return cls._conditioned(mdp, observation, path, make_mechanism(mechanism, options, mdp), after)

    @classmethod
    def again(cls, mdp: ModelRecord, path: Path, mechanism: Any, after: Horizon | None) -> Self:
        """Condition a model on a path that is already cut at its end, with a given horizon."""
        return cls._conditioned(mdp, observe(mdp, path), path, make_mechanism(mechanism, {}, model_itself(mdp)), after)

    @classmethod
    def _conditioned(
        cls, mdp: ModelRecord, observation: Observation, path: Path, chosen: Mechanism, after: Horizon | None
    ) -> Self:
        observed = [observed_step(mdp, observation, t) for t in range(observation.T)]
        memory = memory_of(mdp)
        if memory is None:
            posteriors = tuple(infer(mdp, chosen, step) if step.recorded else None for step in observed)
        else:  # luck belongs to the model itself
            within = [step_within(memory, step.t, step.pair, step.outcome) for step in observed]
            inferred = (infer(memory.mdp, chosen, step) if step.recorded else None for step in within)
            posteriors = tuple(carried_posterior(memory, one) for one in inferred)
            pairs, outcomes = observation.pairs.tolist(), observation.states[1:].tolist()
            observed = [carried_step(memory, *one) for one in zip(within, pairs, outcomes, strict=True)]
        graph = conditioned_graph(mdp, observation, observed, posteriors)
        made = cls(mdp, path, chosen, graph, posteriors, after)
        object.__setattr__(made, "_is_made", True)  # not set by the constructor: a changed copy is something else
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # As its inputs: everything else can be computed from them again, except for a copy with another graph.
        if self._is_made:
            return type(self).again, (self.mdp, self.path, self.mechanism, self.after)
        return type(self), (self.mdp, self.path, self.mechanism, self.graph, self.posteriors, self.after)

    @property
    def T(self) -> int:
        """Number of steps of the observed path."""
        return self.graph.T

    @property
    def horizon(self) -> int | None:
        """Up to which time it is asked about: T, or later; None: until the episode ends under usual practice."""
        return self.T if self.after is None else self.after.until

    @property
    def is_under_way(self) -> bool:
        """Whether the record ends in a state that goes on: how the episode ended is not known.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).is_under_way
        True
        """
        last = self.observation.states[-1:]
        return bool(last[0] < 0 or last[0] in self.mdp.cut or not absorbing(self.mdp.form, last)[0])

    @property
    def observation(self) -> Observation:
        """The path in the model's indices."""
        return self.graph.observation

    @property
    def earned(self) -> Earned | None:
        """The return of the episode by the log, beside its return by the model; None for a path without rewards.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> path = tether.Path(grid.path.states, grid.path.actions, rewards=[0] * 10 + [-900])
        >>> earned = tether.counterfactual(grid.mdp, path).earned
        >>> earned.logged, earned.model
        (-900.0, -897.0)
        """
        return earned(self.mdp, self.observation, self.path)

    @property
    def n_edited(self) -> int:
        """How many rows were edited, over all steps."""
        return sum(int(layer.edits.pairs.size) for layer in self.graph.layers)

    @property
    def nbytes(self) -> int:
        """The memory used beyond the model's own arrays."""
        arrays = [self.graph.last_states]
        for layer in self.graph.layers:
            arrays += [layer.states, *layer.edits.arrays]
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    def reachable(self, t: int) -> tuple[Any, ...]:
        """Names of the states that s_0 can reach in ``t`` steps, t = 0 … T, whatever the actions.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).reachable(1)
        ('s1', 's2')
        """
        return self.mdp.names_of(self.graph.states(self.time(t, last=self.T)))

    def row(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P_{t,τ}(·|state, action): next states in the model's order, zeros left out, and probabilities."""
        t, pair = self.time(t), self.mdp.pair_index(state, action)
        rows, i = self._edited(t, pair)
        if rows is None:
            return self.mdp.row(state, action)
        next_state, probability = rows.row(i)
        return self.mdp.names_of(next_state), probability.copy()

    def nominal_row(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P(·|state, action), what the model says without the observation."""
        self.time(t)
        return self.mdp.row(state, action)

    def strength(self, t: int, state: Any, action: Any) -> float:
        """How much the observation matters here: total variation between `row` and `nominal_row`.

        0: the row is interventional, it is not influenced by the observation. Exact for an exact
        mechanism.
        """
        t, pair = self.time(t), self.mdp.pair_index(state, action)
        rows, i = self._edited(t, pair)
        return 0.0 if rows is None else float(rows.strength[i])

    def standard_error(self, t: int, state: Any, action: Any) -> Floats:
        """Standard error of each probability of `row`: 0 for the exact mechanism."""
        t, pair = self.time(t), self.mdp.pair_index(state, action)
        rows, i = self._edited(t, pair)
        probability = self.mdp.row(state, action)[1] if rows is None else rows.row(i)[1]
        if rows is None or self.posteriors[t] is None:
            return np.zeros_like(probability)
        return self.mechanism.standard_error(probability)

    def _edited(self, t: int, pair: int) -> tuple[Rows | None, int]:
        """The row of a pair, stored or computed now; None if it is nominal."""
        layer, posterior = self.graph.layers[t], self.posteriors[t]
        i = layer.edits.find(pair)
        if i >= 0:
            return layer.edits.rows(np.array([i])), 0
        if posterior is None:
            return None, -1
        state = np.array([pair_states(self.mdp.form.pair_start, pair)])
        with walking(self.mdp, [layer.observed.next_state]) as walk:
            rows = make_layer(walk, state, layer.observed, posterior).edits.rows()
        i = rows.find(pair)
        return (None, -1) if i < 0 else (rows, i)

    def time(self, t: Any, last: int | None = None) -> int:
        """``t`` as an int from 0 to ``last`` (T - 1 by default), or an error that says so."""
        return time_index(t, self.T - 1 if last is None else last)

    def __repr__(self) -> str:
        return (
            f"<CounterfactualMDP: {counted(self.T, 'step')}, "
            f"{counted(self.graph.n_nodes, 'state')} reachable over time, "
            f"{counted(self.n_edited, 'row')} edited, {self.mechanism.name}>"
        )

    def _repr_html_(self) -> str:
        sizes = [int(self.graph.states(t).size) for t in range(self.T + 1)]
        return facts(
            [
                ("model", self.mdp),
                ("path", self.path),
                ("reachable", f"{counted(sum(sizes), 'state')} over time, at most {max(sizes):,} at once"),
                ("edited", f"{counted(self.n_edited, 'row')}"),
                ("mechanism", self.mechanism.name),
            ]
        )


def with_mechanism(cf: _Kind, mechanism: Any) -> _Kind:
    """The episode under another mechanism, with its horizon."""
    return type(cf).again(cf.mdp, cf.path, mechanism, cf.after)


def cached_with(cf: CounterfactualRecord, key: Any, make: Callable[[], _Made]) -> _Made:
    """The result of ``make``, computed once per ``key`` and cached with the counterfactual MDP."""
    if key not in cf._questions:
        cf._questions[key] = make()
    made: _Made = cf._questions[key]
    return made


def conditioned_graph(
    mdp: ModelRecord,
    observation: Observation,
    observed: Sequence[ObservedStep],
    posteriors: Sequence[NoisePosterior | None],
) -> Graph:
    """What s_0 can reach, layer by layer, with the rows that each step's posterior replays.

    For several copies of a model side by side (`tether.model.side_by_side`): what s_0 of each copy can reach.
    """
    copies = observed[0].copies
    states = shifted(observation.states[:1].astype(np.int32), copies, mdp.n_states // copies)
    states.flags.writeable = False
    layers: list[Layer] = []
    with walking(mdp, (step.next_state for step in observed)) as walk:
        for step, posterior in zip(observed, posteriors, strict=True):
            if not layers or layers[-1].states is not states:  # the states of the layer before were checked
                check_not_stuck(mdp, step.t, states)
            layers.append(make_layer(walk, states, step, posterior))
            states = walk.onward(states, layers[-1].edits)
    return Graph(mdp, observation, tuple(layers), states, copies=copies)


def _observed(mdp: ModelRecord, path: Path | Observation | tuple[Any, Any]) -> tuple[Observation, Path]:
    """The episode in the model's indices and in its names, from either of them."""
    if isinstance(path, tuple) and len(path) == 2:
        observation = observe_indices(mdp, *path)
        return observation, path_of(mdp, observation)
    if isinstance(path, Observation):
        observation = replace(observe_indices(mdp, path.states, path.actions), rewards=path.rewards)
        return observation, path_of(mdp, observation)
    return observe(mdp, path), settled(mdp, path)


def observed_step(mdp: ModelRecord, observation: Observation, t: int) -> ObservedStep:
    """One step of an episode, with the row of its pair."""
    return ObservedStep.of(mdp.form, t, int(observation.pairs[t]), int(observation.states[t + 1]))


def check_not_stuck(mdp: ModelRecord, t: int, states: Ints) -> None:
    """In every state that can be reached before the end, some action must be available."""
    pair_start = mdp.form.pair_start
    stuck = states[pair_start[states + 1] == pair_start[states]]
    if stuck.size:
        state = mdp.states[int(stuck[0])]
        message = (
            f"state {state!r} can be reached, but the model has no action there; the model was explored from other "
            "initial states or to a smaller horizon"
        )
        fix = "explore it from this path's first state"
        raise PathError(Problem(message, state=state, time=t, place=f"t = {t}", fix=fix))
