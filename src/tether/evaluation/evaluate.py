"""Evaluation: exactly what to expect under a plan or a policy, without simulation.

The state distribution is pushed forward through the policy's chain, and with it the mean and the scatter
of the return so far, node by node. Only deviations from a mean are squared and only squares are added, so
that a return without spread has none: exactly 0 on a path without chance. How tailored a policy is to the
observation is exact too: the expected strength of each step, the probability that it is influenced, and the
distribution of the longest run of uninfluenced steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.checks import random_generator, whole_number
from tether._foundation.markup import grid
from tether.counterfactual.conditioned import CounterfactualMDP
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import outcome_probabilities
from tether.evaluation.policy import array_decider, decider, make_policy
from tether.influence.one_step import influenced_pairs, make_influence
from tether.model.mdp import MDP
from tether.model.properties import make_property
from tether.observation.changes import is_change
from tether.observation.path import Path, time_index
from tether.plan.chain import Chain, Link, Visits, collect, graph_chain
from tether.plan.objective import asked
from tether.plan.plan import Plan

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = [
    "Course",
    "Evaluation",
    "Tailoring",
    "Trajectories",
    "evaluate_chain",
    "evaluate_plan",
    "evaluate_policy",
    "sample_plan",
    "visit",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Course:
    """A quantity over time: its mean and spread (standard deviation) at each t.

    Attributes
    ----------
    mean, std : array
    lowest, highest : array
        The smallest and the largest value that can happen at each t: mean ± std may lie outside of them.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> infected = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).evaluate().feature("I")
    >>> infected.mean.round(2), infected.std.round(2)
    (array([1.  , 2.  , 3.  , 6.  , 8.  , 9.  , 8.11, 8.21]), array([0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.31, 0.41]))
    """

    mean: Floats
    std: Floats
    lowest: Floats
    highest: Floats

    def band(self) -> tuple[Floats, Floats]:
        """One standard deviation below and above the mean, as far as it is possible.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> returns = tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=3).evaluate().returns
        >>> low, high = returns.band()
        >>> (returns.mean + returns.std)[4].round(1), high[4]  # four steps cannot bring more than 200
        (np.float64(288.1), np.float64(200.0))
        """
        return np.maximum(self.mean - self.std, self.lowest), np.minimum(self.mean + self.std, self.highest)

    def __repr__(self) -> str:
        first, last = (f"{self.mean[i]:.4g} ± {self.std[i]:.3g}" for i in (0, -1))
        return f"<Course: {self.mean.size} times, {first} … {last}>"

    def _repr_html_(self) -> str:
        rows = [(t, f"{a:.6g}", f"{b:.4g}") for t, (a, b) in enumerate(zip(self.mean, self.std, strict=True))]
        return grid(("t", "mean", "standard deviation"), rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Moves:
    """Some links of a step, in the order of their targets."""

    source: Ints
    probability: Floats
    targets: Ints
    first: Ints

    @classmethod
    def of(cls, link: Link, which: Any) -> _Moves:
        chosen = np.flatnonzero(which)
        chosen = chosen[np.argsort(link.target[chosen], kind="stable")]
        targets, first = np.unique(link.target[chosen], return_index=True)
        return cls(link.source[chosen], link.probability[chosen], targets, first)

    def collect(self, mass: Floats, size: int) -> Floats:
        """What of ``mass``, a row per node, gets to each of the next nodes, of which there are ``size``."""
        onward = np.zeros((size, mass.shape[1]))
        if self.targets.size and mass.shape[1]:
            onward[self.targets] = np.add.reduceat(mass[self.source] * self.probability[:, None], self.first, axis=0)
        return onward


@dataclass(frozen=True, eq=False, repr=False)
class Tailoring:
    """How much of a policy's future is still about the observed episode.

    Attributes
    ----------
    strength : array (T,)
        Expected total variation between the counterfactual and the nominal row taken at each step.
    influenced : array (T,)
        Probability that the pair taken at each step is one-step influenced.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=3).evaluate().tailoring
    <Tailoring: 2.41 of 10 steps influenced, longest uninfluenced run 8 (probability 0.82)>
    """

    strength: Floats
    influenced: Floats
    chain: Chain
    flags: tuple[Ints, ...]

    @property
    def expected_influenced_steps(self) -> float:
        """Expected number of influenced steps, of T."""
        return float(self.influenced.sum())

    @cached_property
    def longest_run(self) -> int:
        """The longest run of uninfluenced steps that can happen."""
        longest, run = 0, np.zeros(self.chain.visits[0].size, dtype=np.int64)
        for link, flags, after in zip(self.chain.links, self.flags, self.chain.visits[1:], strict=True):
            onward = np.where(flags, 0, run[link.source] + 1)
            run = np.zeros(after.size, dtype=np.int64)
            np.maximum.at(run, link.target, onward)
            longest = max(longest, int(onward.max(initial=0)))
        return longest

    @cached_property
    def longest_run_probability(self) -> float:
        """Probability that a run of that length happens."""
        return self._some_run(self.longest_run) if self.longest_run else 1.0

    @cached_property
    def run_at_least(self) -> Floats:
        """Probability that the longest run of uninfluenced steps is at least 0, 1, …, T."""
        chance = np.zeros(self.chain.T + 1)
        chance[0] = 1.0
        for length in range(1, self.chain.T + 1):
            chance[length] = self._some_run(length)
            if chance[length] == 0.0:
                break
        return chance

    def _some_run(self, length: int) -> float:
        """P(some run of uninfluenced steps reaches ``length``): go forward, taking out what does.

        Column j of ``mass`` from the right is what has just passed j uninfluenced steps: a new column on the right
        lengthens all runs by one.
        """
        done = 0.0
        mass = np.full((self.chain.visits[0].size, 1), 1.0 / self.chain.visits[0].size)
        for (influenced, others), after in zip(self._steps, self.chain.visits[1:], strict=True):
            fresh = influenced.collect(mass.sum(axis=1, keepdims=True), after.size)
            if mass.shape[1] == length:
                done += float(np.sum(mass[others.source, 0] * others.probability))
                mass = mass[:, 1:]
            mass = np.concatenate((others.collect(mass, after.size), fresh), axis=1)
        return min(done, 1.0)

    @cached_property
    def _steps(self) -> list[tuple[_Moves, _Moves]]:
        """The links of each step, those of influenced pairs and the others."""
        both = zip(self.chain.links, self.flags, strict=True)
        return [(_Moves.of(link, flags), _Moves.of(link, ~flags)) for link, flags in both]

    def __repr__(self) -> str:
        return (
            f"<Tailoring: {self.expected_influenced_steps:.2f} of {self.chain.T} steps influenced, longest "
            f"uninfluenced run {self.longest_run} (probability {self.longest_run_probability:.3g})>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (t, f"{a:.4g}", f"{b:.4g}") for t, (a, b) in enumerate(zip(self.influenced, self.strength, strict=True))
        ]
        return grid(("t", "probability of influence", "expected strength"), rows)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Exactly what to expect under a policy.

    Evaluated for a property, the value is the probability that it holds. An episode then rests in the state that
    decided it: that is its state from there on, and it does nothing more.

    Attributes
    ----------
    returns : Course
        Return collected up to each t = 0 … T, without the final reward. For a property, whether it holds if the
        episode ends at t: the mean is the probability of that.
    rewards : array (T,)
        Expected reward of each step (undiscounted); for a property, what the step adds to its probability.
    changed : array (T,) or None
        Probability that the action differs from the observed one; None without an observation.
    tailoring : Tailoring or None
        How much of it is still about the observed episode; None without an observation.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> outlook = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).evaluate()
    >>> outlook
    <Evaluation: 7 steps, return -11.28 ± 3.95, 1.00 of 7 steps influenced>
    >>> outlook.feature("I").mean.round(2)
    array([1.  , 2.  , 1.89, 1.67, 1.44, 1.22, 2.06, 2.84])
    """

    mdp: MDP
    chain: Chain
    occupancy: tuple[Floats, ...]
    returns: Course
    rewards: Floats
    mean: float
    std: float
    changed: Floats | None
    tailoring: Tailoring | None

    @property
    def T(self) -> int:
        """Number of steps."""
        return self.chain.T

    @property
    def value(self) -> float:
        """Expected return, the same as ``mean``; ``std`` is its spread."""
        return self.mean

    def distribution(self, t: int) -> tuple[tuple[Any, ...], Floats]:
        """States that can be at time t = 0 … T, in the model's order, and their probabilities."""
        states, chance = self._by_state(t)
        return self.mdp.names_of(states), chance

    def likeliest(self, t: int) -> tuple[Any, float]:
        """The most likely state at time t, and its probability."""
        states, chance = self._by_state(t)
        i = int(np.argmax(chance))
        return self.mdp.states[int(states[i])], float(chance[i])

    def likeliest_path(self) -> tuple[Path, float]:
        """The single most likely episode under the policy, and its probability.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> path, chance = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).evaluate().likeliest_path()
        >>> path.actions[:3], round(chance, 3)
        (('NIL', 'V_I', 'V_I'), 0.133)
        """
        best = np.ones(self.chain.visits[0].size)
        came_by = []
        for link, after in zip(self.chain.links, self.chain.visits[1:], strict=True):
            chance = best[link.source] * link.probability
            order = np.lexsort((-chance, link.target))
            first = order[np.searchsorted(link.target[order], np.arange(after.size))]
            came_by.append(first)
            best = chance[first]
        node = int(np.argmax(best))
        probability = float(best[node])
        states, actions = [int(self.chain.visits[-1].states[node])], []
        for t in range(self.T - 1, -1, -1):
            link = self.chain.links[t]
            at = int(came_by[t][node])
            node = int(link.source[at])
            states.append(int(self.chain.visits[t].states[node]))
            actions.append(int(self.mdp.form.pair_action[link.pairs[at]]))
        labels = [self.mdp.states[s] for s in reversed(states)]
        return Path(labels, [self.mdp.actions[a] for a in reversed(actions)]), probability

    def actions(self, t: int, state: Any = None) -> dict[Any, float]:
        """Probability of each action at step t, in one state or over all."""
        return self.actions_among(t, None if state is None else [state])

    def actions_among(self, t: int, states: Iterable[Any] | None) -> dict[Any, float]:
        """Probability of each action at step t, given that the state is one of ``states`` (None: any)."""
        time_index(t, self.T - 1)
        decided = self.chain.taken[t]
        weight = self.occupancy[t][decided.source] * decided.probability * ~self.chain.at_rest(t)
        if states is not None:
            among = [self.mdp.state_index(state) for state in states]
            weight = weight * np.isin(self.chain.visits[t].states[decided.source], among)
        if weight.sum() == 0:
            return {}
        share = np.bincount(self.mdp.form.pair_action[decided.pairs], weight) / weight.sum()
        return {self.mdp.actions[int(a)]: float(share[a]) for a in np.flatnonzero(share)}

    def outcomes(self) -> dict[str, float]:
        """Probability of each outcome at the end: of the model's labels, and of absorbing states without a label.

        A state may have several labels: the probabilities need not sum to 1.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> cf = tether.counterfactual(grid.mdp, grid.path)
        >>> cf.evaluate("observed").outcomes()
        {'goal': 0.0, 'danger': 1.0}
        >>> {label: round(chance, 3) for label, chance in cf.plan(k=6, m=2).evaluate().outcomes().items()}
        {'goal': 0.0, 'danger': 0.018}
        """
        return outcome_probabilities(self.mdp, *self._by_state(self.T))

    def feature(self, feature: str | Callable[[Any], float] | Mapping[Any, float]) -> Course:
        """Mean and spread of a state feature at each t = 0 … T.

        Parameters
        ----------
        feature : str, callable or mapping
            The name of a numeric attribute of the state labels (``"I"`` for the epidemic), a function of
            the label, or a mapping from labels.
        """
        mean, std, lowest, highest = np.empty((4, self.T + 1))
        for t in range(self.T + 1):
            states, chance = self._by_state(t)
            values = np.array([_feature_value(feature, self.mdp.states[int(s)]) for s in states])
            mean[t] = chance @ values
            std[t] = np.sqrt(chance @ (values - mean[t]) ** 2)
            possible = values[chance > 0]
            lowest[t], highest[t] = possible.min(), possible.max()
        return Course(mean, std, lowest, highest)

    def to_arrow(self) -> pyarrow.Table:
        """The distribution over states in rows t, state, probability, as an Arrow table.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4).evaluate().to_arrow().slice(0, 1).to_pylist()
        [{'t': 0, 'state': 0, 'probability': 1.0}]
        """
        from tether.explanation.arrow import evaluation_table

        return evaluation_table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas table; pandas must be installed."""
        from tether.explanation.arrow import as_pandas

        return as_pandas(self.to_arrow())

    def _by_state(self, t: int) -> tuple[Ints, Floats]:
        time_index(t, self.T)
        states, index = np.unique(self.chain.visits[t].states, return_inverse=True)
        return states, collect(index.reshape(-1), self.occupancy[t], states.size)

    def __repr__(self) -> str:
        told = f"<Evaluation: {self.T} steps, {self._value_in_words}"
        if self.tailoring is None:
            return f"{told}>"
        return f"{told}, {self.tailoring.expected_influenced_steps:.2f} of {self.T} steps influenced>"

    @property
    def _value_in_words(self) -> str:
        if self.chain.ended is not None:
            return f"probability {self.mean:.4g}"
        return f"return {self.mean:.4g} ± {self.std:.3g}"

    def _repr_html_(self) -> str:
        so_far_is = "return so far" if self.chain.ended is None else "holds if it ends here"
        head = ["t", "likeliest state", "probability", so_far_is]
        rows: list[list[Any]] = []
        for t in range(self.T + 1):
            state, chance = self.likeliest(t)
            so_far = f"{self.returns.mean[t]:.6g}"
            if self.chain.ended is None:
                so_far += f" ± {self.returns.std[t]:.4g}"
            rows.append([t, state, f"{chance:.3g}", so_far])
        if self.changed is not None and self.tailoring is not None:
            head += ["action changed", "influenced"]
            for t in range(self.T):
                rows[t] += [f"{self.changed[t]:.3g}", f"{self.tailoring.influenced[t]:.3g}"]
            rows[self.T] += ["", ""]
        return grid(head, rows)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Trajectories drawn from a plan.

    Under a plan for a property each ends where that is decided: its state is the same from there on, and its path is
    shorter.

    Attributes
    ----------
    states : array (n, T + 1)
        Indices of states.
    actions : array (n, T)
        Indices of actions.
    returns : array (n,)
        For a property, 1 where it holds and 0 where not.

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

    mdp: MDP
    states: Ints
    actions: Ints
    returns: Floats
    ended: Flags | None = None

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The trajectories as paths, by label."""
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
        return grid((f"of {len(self):,}", "trajectory", "return"), rows)


def evaluate_plan(plan: Plan) -> Evaluation:
    """Evaluate a plan on its own counterfactual MDP, for what it was made for."""
    return evaluate_chain(plan.asked.mdp, plan.chain, plan.asked, plan.influenced)


def evaluate_policy(
    cf: CounterfactualMDP, policy: Any, influence: Any = "support", objective: Any = None
) -> Evaluation:
    """Evaluate any policy on the counterfactual MDP; see `CounterfactualMDP.evaluate`."""
    test, wanted = make_influence(influence), make_property(objective)
    if isinstance(policy, Plan):
        if policy.cf is not cf:
            raise QueryError("this plan was made for another counterfactual MDP; evaluate it with plan.evaluate()")
        if policy.objective is not None and wanted not in (None, policy.objective):
            message = f"this plan was made for another objective, {policy.objective}: it ends where that is decided"
            raise QueryError(f"{message}, and says nothing about {wanted}")
        wanted = policy.objective or wanted
        world = asked(cf, wanted)
        chain = policy.chain if wanted == policy.objective else policy.chain_for(world.graph)
    else:
        world = asked(cf, wanted)
        start = visit(int(cf.observation.states[0]))
        decide = array_decider(world.mdp, policy) or decider(
            world.mdp, make_policy(world.mdp, policy, cf.T, cf.path, wanted)
        )
        chain = graph_chain(world.graph, start, decide)
    flags = tuple(influenced_pairs(world.graph, t, test) for t in range(cf.T))
    return evaluate_chain(world.mdp, chain, world, flags)


def sample_plan(plan: Plan, n: int, rng: Any = None) -> Trajectories:
    """Draw trajectories from a plan's chain."""
    n = whole_number("n", n, 1)
    return _sample(plan.asked.mdp, plan.chain, n, random_generator(rng))


def evaluate_chain(mdp: MDP, chain: Chain, cf: CounterfactualMDP | None, influenced: tuple[Ints, ...]) -> Evaluation:
    """What to expect of a chain: returns; or, where episodes rest when a property is decided, its probability."""
    occupancy = chain.occupancy()
    changed, tailoring = None, None
    if cf is not None:
        changed = _changed(cf, chain, occupancy)
        tailoring = _tailoring(cf, chain, occupancy, influenced)
    told = _returns(mdp, chain, occupancy) if chain.ended is None else _holding(mdp, chain, occupancy)
    return Evaluation(mdp, chain, tuple(occupancy), *told, changed, tailoring)


def _holding(mdp: MDP, chain: Chain, occupancy: list[Floats]) -> tuple[Course, Floats, float, float]:
    """That a property holds, if the episode ended at each t; what each step adds to its probability; at T."""
    assert mdp.final_reward is not None  # 1 where it holds, else 0
    mean, lowest, highest = np.empty((3, chain.T + 1))
    for t, (visits, mass) in enumerate(zip(chain.visits, occupancy, strict=True)):
        holds = mdp.final_reward[visits.states]
        mean[t] = min(1.0, float(mass @ holds))
        lowest[t], highest[t] = holds[mass > 0].min(), holds[mass > 0].max()
    std = np.sqrt(mean * (1.0 - mean))
    return Course(mean, std, lowest, highest), np.diff(mean), float(mean[-1]), float(std[-1])


def _returns(mdp: MDP, chain: Chain, occupancy: list[Floats]) -> tuple[Course, Floats, float, float]:
    """The return so far, what each step earns; the mean and the spread of the return."""
    rewards = np.array(
        [
            float(np.sum(mass[link.source] * link.probability * link.reward))
            for mass, link in zip(occupancy, chain.links, strict=False)
        ]
    )
    worth: Floats = np.power(mdp.discount, np.arange(chain.T, dtype=np.float64))
    so_far = np.concatenate(([0.0], np.cumsum(worth * rewards)))
    spread, off, scatter = _return_spread(chain, occupancy, rewards, worth)
    final = np.zeros(chain.visits[-1].size)
    if mdp.final_reward is not None:
        final = mdp.discount**chain.T * mdp.final_reward[chain.visits[-1].states]
    extra = float(occupancy[-1] @ final)
    variance = float(np.sum(scatter + occupancy[-1] * (off + (final - extra)) ** 2))
    course = Course(so_far, spread, *_return_range(chain, worth))
    return course, rewards, float(so_far[-1]) + extra, float(np.sqrt(variance))


def _return_spread(
    chain: Chain, occupancy: list[Floats], rewards: Floats, worth: Floats
) -> tuple[Floats, Floats, Floats]:
    """Spread of the return so far at each t; and for each node at T, how far off its mean is, and the scatter about it.

    The scatter of a node is the sum, over the ways to it, of probability × squared deviation from the node's mean.
    """
    off, scatter = np.zeros(chain.visits[0].size), np.zeros(chain.visits[0].size)
    spread = [0.0]
    for t, link in enumerate(chain.links):
        mass, after = occupancy[t][link.source] * link.probability, occupancy[t + 1]
        here = off[link.source] + worth[t] * (link.reward - rewards[t])
        within = collect(link.target, link.probability * scatter[link.source], after.size)
        off = collect(link.target, mass * here, after.size)
        np.divide(off, after, out=off, where=after > 0)
        scatter = within + collect(link.target, mass * (here - off[link.target]) ** 2, after.size)
        spread.append(float(np.sqrt(np.sum(scatter + after * off**2))))
    return np.array(spread), off, scatter


def _return_range(chain: Chain, worth: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest return so far that can happen, at each t."""
    low, high = np.zeros(chain.visits[0].size), np.zeros(chain.visits[0].size)
    ranges = [(0.0, 0.0)]
    for t, link in enumerate(chain.links):
        possible = link.probability > 0
        source, target, reward = link.source[possible], link.target[possible], worth[t] * link.reward[possible]
        after = chain.visits[t + 1].size
        below, above = np.full(after, np.inf), np.full(after, -np.inf)
        np.minimum.at(below, target, low[source] + reward)
        np.maximum.at(above, target, high[source] + reward)
        low, high = below, above
        ranges.append((float(low.min()), float(high.max())))
    lowest, highest = np.array(ranges).T
    return lowest, highest


def _changed(cf: CounterfactualMDP, chain: Chain, occupancy: list[Floats]) -> Floats:
    share = np.empty(chain.T)
    for t, decided in enumerate(chain.taken):
        states = chain.visits[t].states[decided.source]
        differs = is_change(cf.mdp.form, states, decided.pairs, int(cf.observation.actions[t])) & ~chain.at_rest(t)
        share[t] = np.sum(occupancy[t][decided.source] * decided.probability * differs)
    return share


def _tailoring(cf: CounterfactualMDP, chain: Chain, occupancy: list[Floats], influenced: tuple[Ints, ...]) -> Tailoring:
    strength, share, flags = np.empty(chain.T), np.empty(chain.T), []
    for t, decided in enumerate(chain.taken):
        weight = occupancy[t][decided.source] * decided.probability
        edits = cf.graph.layers[t].edits
        at = edits.locate(decided.pairs)
        found = at >= 0
        strength[t] = np.sum(weight[found] * edits.strength[at[found]])
        flag = np.isin(decided.pairs, influenced[t])
        share[t] = weight[flag].sum()
        # An episode at rest passes no steps: a run of uninfluenced ones ends there.
        flags.append((flag | chain.at_rest(t))[chain.links[t].decision])
    return Tailoring(strength, share, chain, tuple(flags))


def _sample(mdp: MDP, chain: Chain, n: int, rng: np.random.Generator) -> Trajectories:
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


def visit(state: int) -> Visits:
    return Visits(np.array([state]), np.zeros(1, np.int64), np.zeros(1, np.int64))


def _feature_value(feature: Any, label: Any) -> float:
    if isinstance(feature, str):
        if not hasattr(label, feature) or callable(getattr(label, feature)):
            known = getattr(label, "_fields", ())
            has = (
                f"it has {', '.join(known)}"
                if known
                else "its labels have no named parts; give a function of the label"
            )
            raise QueryError(f"the states have no feature {feature!r}; {has}")
        value = getattr(label, feature)
    elif isinstance(feature, Mapping):
        if label not in feature:
            raise QueryError(Problem(f"the feature says nothing for state {label!r}", state=label))
        value = feature[label]
    elif callable(feature):
        value = feature(label)
    else:
        raise QueryError(f"a feature is a name, a function of the state or a mapping, not {feature!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise QueryError(
            Problem(f"the feature of state {label!r} is {value!r}, not a finite number", label, value=value)
        )
    return number
