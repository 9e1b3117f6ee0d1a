"""The counterfactual MDP: the model, replayed with the luck of one observed episode.

For an observed path τ the counterfactual MDP has the states, actions and rewards of the model, and
at step t the transition probabilities

    P_{t,τ}(s' | s, a) = P(s' | s, a, noise of step t | s_t, a_t led to s_{t+1})

Conditioning changes only rows whose support meets that of the observed row (the paper's
Proposition 1), so it is stored as the nominal model plus a few edited rows a step; and only the
pairs that s_0 can reach at that step are edited at all. A row outside is computed when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether.errors import PathError, Problem, QueryError
from tether.form import Floats, Ints
from tether.mechanism import GumbelMax, Mechanism, ObservedStep, Posterior, Rows, make_mechanism
from tether.model import MDP
from tether.observation import Observation, Path, observe

__all__ = ["CounterfactualMDP", "Step", "counterfactual"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of the counterfactual MDP.

    Attributes
    ----------
    states : array
        States s_0 can be in at this time, ascending.
    edits : Rows
        Rows of the pairs of these states whose support meets the observed row's.
    posterior : Posterior or None
        What the observation says about the noise of the step; None where its outcome was not recorded.
    """

    states: Ints
    edits: Rows
    posterior: Posterior | None
    observed: ObservedStep | None = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CounterfactualMDP:
    """A model conditioned on an observed path; made by `counterfactual`.

    Attributes
    ----------
    mdp, path, mechanism
        What it was made of.
    observation : Observation
        The path in the model's indices.
    steps : tuple of Step
        One a time step.
    last_states : array
        States s_0 can be in at time T.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf
    <CounterfactualMDP: 11 steps, 106 states reachable over time, 130 rows edited, gumbel-max>
    >>> cf.row(2, 2, "left")  # at t = 2 the robot stood in 2, went down, and fell into the pit, 6
    ((1, 6), array([0.86206897, 0.13793103]))
    >>> cf.nominal_row(2, 2, "left")
    ((1, 2, 3, 6), array([0.9       , 0.03333333, 0.03333333, 0.03333333]))
    >>> round(cf.strength(2, 2, "left"), 3)
    0.105
    """

    mdp: MDP
    path: Path
    mechanism: Mechanism
    observation: Observation
    steps: tuple[Step, ...]
    last_states: Ints

    @property
    def T(self) -> int:
        """Number of steps of the observed path."""
        return len(self.steps)

    @property
    def n_edited(self) -> int:
        """How many rows were edited, over all steps."""
        return sum(int(step.edits.pairs.size) for step in self.steps)

    @property
    def nbytes(self) -> int:
        """Memory of what is stored beyond the model's own arrays."""
        arrays = [self.last_states]
        for step in self.steps:
            arrays += [step.states, step.edits.pairs, step.edits.start, step.edits.probability, step.edits.strength]
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    def reachable(self, t: int) -> tuple[Any, ...]:
        """Labels of the states that s_0 can reach in ``t`` steps, t = 0 … T, whatever the actions.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).reachable(1)
        ('s1', 's2')
        """
        if t == self.T:
            return self.mdp.labels_of(self.last_states)
        return self.mdp.labels_of(self.steps[self._time(t, last=self.T)].states)

    def row(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P_{t,τ}(·|state, action): next states in the model's order, zeros left out, and probabilities."""
        t, pair = self._time(t), self.mdp.pair_index(state, action)
        probability = self._probability(t, pair)
        possible = np.flatnonzero(probability)
        next_state = self.mdp.form.next_state[self.mdp.entries(pair)][possible]
        return self.mdp.labels_of(next_state), probability[possible]

    def nominal_row(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P(·|state, action), what the model says without the observation."""
        self._time(t)
        return self.mdp.row(state, action)

    def strength(self, t: int, state: Any, action: Any) -> float:
        """How much the observation matters here: total variation between `row` and `nominal_row`.

        0: the row is interventional, the observation says nothing about it. Exact for an exact
        mechanism.
        """
        t, pair = self._time(t), self.mdp.pair_index(state, action)
        rows, i = self._edited(t, pair)
        return 0.0 if rows is None else float(rows.strength[i])

    def standard_error(self, t: int, state: Any, action: Any) -> Floats:
        """Standard error of each probability of `row`: 0 for the exact mechanism."""
        t, pair = self._time(t), self.mdp.pair_index(state, action)
        rows, _ = self._edited(t, pair)
        _, probability = self.row(t, state, action)
        return np.zeros_like(probability) if rows is None else self.mechanism.standard_error(probability)

    def _probability(self, t: int, pair: int) -> Floats:
        """The counterfactual row of a pair, entry for entry of the nominal row."""
        rows, i = self._edited(t, pair)
        if rows is None:
            return self.mdp.form.probability[self.mdp.entries(pair)]
        return rows.probability[rows.start[i] : rows.start[i + 1]]

    def _edited(self, t: int, pair: int) -> tuple[Rows | None, int]:
        """The row of a pair as it was stored, or as it is now computed; None where it is nominal."""
        step = self.steps[t]
        i = step.edits.find(pair)
        if i >= 0:
            return step.edits, i
        if step.posterior is None or step.observed is None:
            return None, -1
        next_state = self.mdp.form.next_state[self.mdp.entries(pair)]
        if not np.isin(next_state, step.observed.next_state, assume_unique=True).any():
            return None, -1
        return step.posterior.replay(self.mdp.form, np.array([pair], dtype=np.int64)), 0

    def _time(self, t: Any, last: int | None = None) -> int:
        last = self.T - 1 if last is None else last
        if isinstance(t, bool) or not isinstance(t, int | np.integer) or not 0 <= t <= last:
            raise QueryError(Problem(f"t must be a whole number from 0 to {last}, not {t!r}", value=t))
        return int(t)

    def __repr__(self) -> str:
        nodes = sum(int(step.states.size) for step in self.steps) + int(self.last_states.size)
        return (
            f"<CounterfactualMDP: {self.T} step{'' if self.T == 1 else 's'}, {nodes:,} states reachable over time, "
            f"{self.n_edited:,} rows edited, {self.mechanism.name}>"
        )


def counterfactual(
    mdp: MDP, path: Path, mechanism: str | Mechanism = GumbelMax.name, **options: Any
) -> CounterfactualMDP:
    """Condition a model on an observed path.

    Parameters
    ----------
    mdp : MDP
    path : Path
        The observed episode; each step must be possible in the model.
    mechanism : str or Mechanism
        ``"gumbel-max"``: exact. ``"gumbel-max-sampled"``: by sampling, with the options ``samples=``,
        ``rng=`` and ``method=`` of `SampledGumbelMax`. Or any object with the interface of
        `tether.mechanism.Mechanism`.

    Returns
    -------
    CounterfactualMDP

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_arrays([[[0.5, 0.5], [0.25, 0.75]], [[0, 1], [0, 1]]], actions=["wait", "treat"])
    >>> cf = tether.counterfactual(mdp, tether.Path([0, 1], ["wait"]))
    >>> cf.row(0, 0, "treat")  # waiting led to 1; treating makes 1 likelier still: the outcome stands
    ((1,), array([1.]))
    """
    chosen = make_mechanism(mechanism, options)
    observation = observe(mdp, path)
    walk = _Walk(mdp)
    states = observation.states[:1].astype(np.int32)
    states.flags.writeable = False
    steps = []
    for t in range(observation.T):
        walk.check_not_stuck(t, states)
        observed = _observed_step(mdp, observation, t)
        posterior = None if observed is None else chosen.infer(observed)
        met = np.empty(0, np.int64) if observed is None else walk.meeting(states, observed.next_state)
        edits = Rows.empty(mdp.form, met).freeze() if posterior is None else posterior.replay(mdp.form, met)
        steps.append(Step(states, edits, posterior, observed))
        states = walk.onward(states, edits)
    return CounterfactualMDP(mdp, path, chosen, observation, tuple(steps), states)


def _observed_step(mdp: MDP, observation: Observation, t: int) -> ObservedStep | None:
    outcome = int(observation.states[t + 1])
    if outcome < 0:
        return None
    entries = mdp.entries(int(observation.pairs[t]))
    return ObservedStep(t, mdp.form.next_state[entries], mdp.form.probability[entries], outcome)


class _Walk:
    """Goes through the counterfactual MDP layer by layer; its scratch is one byte a state, touched where it walks."""

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.seen = np.zeros(mdp.n_states, dtype=np.uint8)

    def check_not_stuck(self, t: int, states: Ints) -> None:
        """In every state that can be reached before the end, some action must be available."""
        pair_start = self.mdp.form.pair_start
        stuck = states[pair_start[states + 1] == pair_start[states]]
        if stuck.size:
            state = self.mdp.states[int(stuck[0])]
            message = (
                f"t = {t}: state {state!r} can be reached, but the model has no action there; the model was explored "
                "from other initial states or to a smaller horizon: explore it from this path's first state"
            )
            raise PathError(Problem(message, state=state, time=t))

    def meeting(self, states: Ints, support: Ints) -> Ints:
        """Pairs of ``states`` whose support meets ``support``, ascending."""
        from tether._kernels.gumbel import which_meet

        form = self.mdp.form
        most = int(np.sum(form.pair_start[states + 1] - form.pair_start[states]))
        met = np.empty(most, dtype=np.int64)
        n = which_meet(states, form.pair_start, form.row_start, form.next_state, support, met)
        return met[:n].copy()

    def onward(self, states: Ints, edits: Rows) -> Ints:
        """States that can follow, ascending; the same array again where nothing changes."""
        from tether._kernels.reach import successors

        form = self.mdp.form
        lengths = form.row_start[form.pair_start[states + 1]] - form.row_start[form.pair_start[states]]
        out = np.empty(min(self.mdp.n_states, int(lengths.sum())), dtype=np.int32)
        n = successors(
            states,
            form.pair_start,
            form.row_start,
            form.next_state,
            edits.pairs,
            edits.start,
            edits.probability,
            self.seen,
            out,
        )
        after = np.sort(out[:n])
        if np.array_equal(after, states):
            return states
        after.flags.writeable = False
        return after
