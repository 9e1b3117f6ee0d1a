"""Trajectories drawn under a plan or a policy: what may happen, one episode at a time.

Every number that is drawn has an address: draw, time, and state or purpose. So two policies that are drawn with the
same seed meet the same noise, whatever each of them does, and their trajectories differ only where their actions do.
Under Gumbel-max the noise is that of the causal model, given the observed step: with U and V independent and
exponentially distributed, state j wins a row q if W_j / q_j is the smallest, where

    W_j = p_j·V          for the observed outcome j
    W_j = U_j + p_j·V    for every other j;  p_j = 0 where the observed row cannot lead

which is the winner of log q_j + G_j for Gumbel noise G = -log W that makes the observed outcome win its own row p.
Other mechanisms say what each row becomes, not how rows go together: there one number decides each step, through the
distribution function of the row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.arrow import NameColumn, Tabular
from tether._foundation.checks import random_generator, whole_number
from tether._foundation.markup import html_table
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import spans
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.layers import expand
from tether.core.chain import Chain
from tether.evaluation.evaluate import policy_chain
from tether.evaluation.return_distribution import ReturnDistribution
from tether.model.model_record import ModelRecord
from tether.observation.path import Path
from tether.plan.afterwards import step_by_step

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories(Tabular):
    """Trajectories drawn under a plan or a policy.

    Under a plan for a property, each trajectory ends where the property is decided: its state stays the same from there
    on, and its path is shorter.

    Attributes
    ----------
    states : array (n, T + 1)
        Indices of states; T is here the number of all steps, also of those after the record.
    actions : array (n, T)
        Indices of actions.
    returns : array (n,)
        For a property, 1 if it holds and 0 if not.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> drawn = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).sample(3, rng=1)
    >>> drawn
    <Trajectories: 3 of 7 steps, mean return -13.67>
    >>> drawn.paths[0].actions[:3]
    ('NIL', 'V_I', 'V_I')
    """

    mdp: ModelRecord
    states: Ints
    actions: Ints
    returns: Floats
    ended: Flags | None = None

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The trajectories as paths, by name."""
        return tuple(self._path(i) for i in range(len(self)))

    def return_distribution(self) -> ReturnDistribution:
        """How the drawn returns are distributed: quantiles, chances, the mean of the worst.

        `Evaluation.return_distribution` is exact.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> drawn = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).sample(1000)
        >>> drawn.return_distribution().quantile(0.5)
        -14.0
        """
        return ReturnDistribution.of(self.returns, np.full(len(self), 1.0 / len(self)))

    def to_arrow(self) -> pyarrow.Table:
        """One row per draw and time: draw, t, state, and the action, which is empty at the end.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> drawn = tether.counterfactual(case.mdp, case.path).plan(k=6, m=2).sample(2)
        >>> drawn.to_arrow().slice(0, 1).to_pylist()
        [{'draw': 0, 't': 0, 'state': 0, 'action': 'right'}]
        """
        import pyarrow as pa

        length = np.array([self._length(i) for i in range(len(self))])
        draw, t = spans(np.zeros(length.size, np.int64), length + 1)
        last = t == length[draw]
        actions = np.concatenate([self.actions, np.zeros((len(self), 1), np.int64)], axis=1)
        return pa.table(
            {
                "draw": draw,
                "t": t,
                "state": NameColumn(self.mdp.states).take(self.states[draw, t]),
                "action": NameColumn(self.mdp.actions).take(actions[draw, t], last),
            }
        )

    def _length(self, i: int) -> int:
        """Number of steps of a trajectory: up to where a property is decided."""
        if self.ended is None:
            return int(self.actions.shape[1])
        over = np.flatnonzero(self.ended[self.states[i]])
        return int(over[0]) if over.size else int(self.actions.shape[1])

    def _path(self, i: int) -> Path:
        last = self._length(i)
        states, actions = self.states[i, : last + 1], self.actions[i, :last]
        return Path([self.mdp.states[int(s)] for s in states], [self.mdp.actions[int(a)] for a in actions])

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        n, T = self.actions.shape
        what = "mean return" if self.ended is None else "share in which it holds"
        return f"<Trajectories: {n:,} of {T} steps, {what} {self.returns.mean():.4g}>"

    def _repr_html_(self) -> str:
        rows = [(i, self._path(i), f"{self.returns[i]:.6g}") for i in range(min(10, len(self)))]
        return html_table((f"of {len(self):,}", "trajectory", "return"), rows)


def sample_policy(
    cf: CounterfactualRecord, policy: Any, n: int, rng: Any = None, objective: Any = None
) -> Trajectories:
    """Draw trajectories under any policy; see `CounterfactualMDP.sample`."""
    return sample_chain(*policy_chain(cf, policy, objective), n, rng)


def sample_chain(world: CounterfactualRecord, chain: Chain, n: int, rng: Any) -> Trajectories:
    """Draw trajectories of a chain; ``world`` is where its values are returns."""
    n, noise = whole_number("n", n, 1), _Noise.of(world, rng)
    mdp, rest = world.mdp, world.rest
    if rest is not None:
        mdp = replace(mdp, final_reward=rest.last)
        chain = chain.then(step_by_step(mdp, chain.ended, chain.T, rest, chain.visits[-1]))
    node, draws = np.zeros(n, dtype=np.int64), np.arange(n)
    states = np.empty((n, chain.T + 1), dtype=np.int64)
    actions = np.empty((n, chain.T), dtype=np.int64)
    returns = np.zeros(n)
    states[:, 0] = chain.visits[0].states[node]
    for t, (taken, link) in enumerate(zip(chain.taken, chain.links, strict=True)):
        decision = _decided(taken.source, taken.probability, node, noise.uniform(draws, t, _DECIDING))
        pair = taken.pairs[decision]
        first = np.searchsorted(link.decision, np.arange(taken.pairs.size + 1))
        owner, item = spans(first[decision], first[decision + 1])
        if noise.is_its_own(t):
            edits = world.graph.layers[t].edits
            entry = expand(mdp, edits, taken.pairs)[1]  # in the order of the links
            after, q = mdp.form.next_state[entry[item]].astype(np.int64), mdp.form.probability[entry[item]]
            score = np.where(link.probability[item] > 0, noise.waiting(draws[owner], t, after) / q, np.inf)
            best = np.lexsort((score, owner))
            chosen = item[best[np.searchsorted(owner, draws)]]
        else:
            chosen = _decided(link.decision, link.probability, decision, noise.uniform(draws, t, _LEADING))
        actions[:, t] = mdp.form.pair_action[pair]
        returns += mdp.discount**t * link.reward[chosen]
        node = link.target[chosen]
        states[:, t + 1] = chain.visits[t + 1].states[node]
    if mdp.final_reward is not None:
        returns += mdp.discount**chain.T * mdp.final_reward[states[:, -1]]
    return Trajectories(mdp, states, actions, returns, chain.ended)


def _decided(of: Ints, probability: Floats, wanted: Ints, uniform: Floats) -> Ints:
    """For each of ``wanted``, one of the items that belong to it; ``of``, ascending, says to what each item belongs."""
    first = np.searchsorted(of, np.arange(int(of[-1]) + 2))
    total = np.concatenate(([0.0], np.cumsum(probability)))
    low, high = total[first[wanted]], total[first[wanted + 1]]
    chosen = np.searchsorted(total, low + uniform * (high - low), side="right") - 1
    found: Ints = np.clip(chosen, first[wanted], first[wanted + 1] - 1)
    return found


_DECIDING, _LEADING, _WINNING, _STATE = 0, 1, 2, 3
"""What a random number is for: the choice of an action, of a next state, the observed winner's noise, a state's."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Random numbers by their address (draw, time, purpose): SplitMix64 as a hash, keyed by the seed."""

    world: CounterfactualRecord
    key: np.uint64

    @classmethod
    def of(cls, world: CounterfactualRecord, rng: Any) -> _Noise:
        return cls(world, random_generator(rng).integers(0, 2**64, dtype=np.uint64))

    def is_its_own(self, t: int) -> bool:
        """Whether the noise of a step is that of Gumbel-max, given what was observed."""
        if t >= self.world.T or not isinstance(self.world.mechanism, GumbelMax):
            return False
        return any(posterior is not None for posterior in self.world.posteriors)

    def uniform(self, draws: Ints, t: int, purpose: int, state: Ints | int = 0) -> Floats:
        """Numbers between 0 and 1, never 0."""
        with np.errstate(over="ignore"):
            x = _mixed(self.key + _STEP * np.asarray(draws, np.uint64))
            x = _mixed(x + _STEP * np.uint64(4 * t + purpose + 1))
            x = _mixed(x + _STEP * np.asarray(state, np.uint64))
        found: Floats = ((x >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return found

    def waiting(self, draws: Ints, t: int, state: Ints) -> Floats:
        """W of each of some states in each of some draws, given the observed step."""
        step, own = self.world.graph.layers[t].observed, -np.log(self.uniform(draws, t, _STATE, state))
        if self.world.posteriors[t] is None:  # its outcome was not recorded
            return own
        at = np.minimum(np.searchsorted(step.next_state, state), step.next_state.size - 1)
        p = np.where(step.next_state[at] == state, step.probability[at], 0.0)
        winner: Floats = p * -np.log(self.uniform(draws, t, _WINNING))
        return np.where(state == step.outcome, winner, own + winner)


def _mixed(x: Any) -> Any:
    """SplitMix64's output function: every bit of the input changes every bit of the output half of the time."""
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))
