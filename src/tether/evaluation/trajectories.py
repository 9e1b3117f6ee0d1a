"""Trajectories drawn from a plan: what may happen, one episode at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.checks import random_generator, whole_number
from tether._foundation.markup import html_table
from tether.model.model_record import ModelRecord
from tether.observation.path import Path
from tether.plan.afterwards import step_by_step
from tether.plan.chain import Chain
from tether.plan.plan_record import PlanRecord

__all__ = ["Trajectories", "sample_plan"]


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Trajectories drawn from a plan.

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
    <Trajectories: 3 of 7 steps, mean return -11>
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

    def _path(self, i: int) -> Path:
        states, actions = self.states[i], self.actions[i]
        if self.ended is not None:
            last = next((t for t, s in enumerate(states) if self.ended[s]), actions.size)
            states, actions = states[: last + 1], actions[:last]
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


def sample_plan(plan: PlanRecord, n: int, rng: Any = None) -> Trajectories:
    """Draw trajectories from a plan's chain."""
    n, asked = whole_number("n", n, 1), plan.asked
    mdp, chain, rest = asked.mdp, plan.chain, asked.rest
    if rest is not None:
        mdp = replace(mdp, final_reward=rest.last)
        chain = chain.then(step_by_step(mdp, chain.ended, chain.T, rest, chain.visits[-1]))
    return _sample(mdp, chain, n, random_generator(rng))


def _sample(mdp: ModelRecord, chain: Chain, n: int, rng: np.random.Generator) -> Trajectories:
    node = np.zeros(n, dtype=np.int64)
    states = np.empty((n, chain.T + 1), dtype=np.int64)
    actions = np.empty((n, chain.T), dtype=np.int64)
    returns = np.zeros(n)
    states[:, 0] = chain.visits[0].states[node]
    for t, link in enumerate(chain.links):
        first = np.searchsorted(link.source, np.arange(chain.visits[t].size + 1))
        total = np.concatenate(([0.0], np.cumsum(link.probability)))
        low, high = total[first[node]], total[first[node + 1]]
        chosen = np.searchsorted(total, low + rng.random(n) * (high - low), side="right") - 1
        chosen = np.clip(chosen, first[node], first[node + 1] - 1)
        actions[:, t] = mdp.form.pair_action[link.pairs[chosen]]
        returns += mdp.discount**t * link.reward[chosen]
        node = link.target[chosen]
        states[:, t + 1] = chain.visits[t + 1].states[node]
    if mdp.final_reward is not None:
        returns += mdp.discount**chain.T * mdp.final_reward[states[:, -1]]
    return Trajectories(mdp, states, actions, returns, chain.ended)
