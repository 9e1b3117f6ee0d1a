"""Simple alternatives to a plan: fixed sequences of actions, all of them tried.

A plan may do different things in different states. A *fixed sequence* changes the action at chosen times, whatever the
state: it can be written on a card. Where one of its actions is not available, or not allowed for k, it cannot be
followed; in an absorbing state there is nothing to choose, and it goes on.

All sequences that change at most m actions are followed together, step by step. Nodes remember the sequence so far in
the place of the changes left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, distinct, positions, summed
from tether._foundation.markup import facts
from tether._foundation.rounding import gain_of, rounding_of
from tether.conditioning.edited_rows import replaced, spans
from tether.conditioning.layers import expand
from tether.core.chain import Taken, Visits
from tether.errors import Problem, QueryError
from tether.model.form import model_of
from tether.observation.changes import absorbing, changes_something, is_change
from tether.plan.plan_record import PlanRecord
from tether.plan.rewards import ExpectedRewards
from tether.plan.robust_record import RobustPlanRecord

CLOSE = 0.95
"""Another sequence comes close if it has this share of the gain of the best one."""

MOST = 40_000
"""How many sequences are tried."""

_NODES = 400_000
"""How many nodes of a step are followed."""

_NO_ACTION = -1


@dataclass(frozen=True, eq=False, repr=False)
class FixedSequence:
    """The best fixed sequence of actions within the limits of a plan: the same actions whatever the state.

    Attributes
    ----------
    plan : Plan
        The plan that it is compared with. It is never worse.
    value : float
        Expected return, or the probability of the property, as that of the plan.
    paid : float
        Expected price of its changes, as `Plan.paid`.
    changes : dict
        By time: what it does instead of the observed action.
    near_equal : int
        How many other sequences within these limits have at least 95 % of its gain. A change that does nothing (after
        an absorbing state) makes no other sequence.
    tried : int
        How many sequences can be followed within these limits, the observed one included.
    is_as_good : bool
        Whether it does as well as the plan.
    is_plan : bool
        Whether the plan is this sequence.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> found = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4).simple
    >>> round(found.value, 3), round(found.plan.value, 3), found.is_as_good
    (333.991, 374.717, False)
    """

    plan: PlanRecord
    value: float
    paid: float
    changes: dict[int, Any]
    near_equal: int
    tried: int
    is_as_good: bool
    is_plan: bool

    @property
    def gain(self) -> float:
        """The gain over the observed path, as `Plan.gain`."""
        return gain_of(self.value, self.plan.observed_value, self.plan.minimise)

    def __repr__(self) -> str:
        return f"<FixedSequence: {self.changes}: gain {self.gain:.4g} of {self.plan.gain:.4g}>"

    def _repr_html_(self) -> str:
        rows = [(f"t = {t}", str(action)) for t, action in self.changes.items()]
        rows += [("gain", f"{self.gain:.6g}"), ("gain of the plan", f"{self.plan.gain:.6g}")]
        return facts([*rows, ("others within 5 %", f"{self.near_equal:,}")])


def fixed_sequence(plan: PlanRecord) -> FixedSequence:
    """The best fixed sequence of actions within the limits of a plan, by trying all; see `Plan.simple`."""
    if isinstance(plan, RobustPlanRecord):
        raise QueryError(
            "a plan with a guaranteed value is not compared with fixed sequences: ask cf.plan(k, m).simple"
        )
    if plan.constraint is not None or plan.price:
        raise QueryError("a plan that gave up value for something else is not compared with fixed sequences")
    tree = _Tree(plan)
    values, paid = tree.values, tree.paid
    sign = -1.0 if plan.minimise else 1.0
    net = sign * values - paid
    own, rounding = _actions_of(plan), rounding_of(plan.value, plan.observed_value)
    ties = np.flatnonzero(net >= net.max() - rounding)
    differs = np.any(tree.actions[ties] != own, axis=1)
    first = np.lexsort((tree.changes[ties], differs))[0]  # the plan itself, or that with the fewest changes
    best, is_plan = ties[first], not differs[first]
    mine, planned = net[best], sign * plan.value - plan.paid
    gain = mine - sign * plan.observed_value
    near = int(np.count_nonzero(net >= mine - (1 - CLOSE) * max(gain, 0.0) - rounding)) - 1
    names, seen = plan.cf.mdp.actions, plan.cf.observation.actions
    changes = {t: names[int(a)] for t, a in enumerate(tree.actions[best]) if a != seen[t]}
    as_good = bool(mine >= planned - rounding)
    value = values[best] if plan.objective is None else np.clip(values[best], 0.0, 1.0)
    return FixedSequence(plan, float(value), float(paid[best]), changes, near, net.size, as_good, bool(is_plan))


class _Tree:
    """All fixed sequences within the limits of a plan.

    ``actions[i]`` are the actions of the i-th sequence by index, ``changes[i]`` is the number of its changes,
    ``values[i]`` its value and ``paid[i]`` the expected price of its changes.
    """

    def __init__(self, plan: PlanRecord) -> None:
        from tether.core.follow import reach

        cf = plan.asked
        self._plan, self._form, self._graph = plan, cf.mdp.form, cf.graph
        self._seen = cf.observation.actions.astype(np.int64)
        self._n_actions = len(cf.mdp.actions)
        self._found = plan.question.thresholds_for(plan.k)
        self._expected = ExpectedRewards(cf.mdp)
        self._ended = np.zeros(cf.mdp.n_states, bool) if cf.graph.ended is None else cf.graph.ended.mask
        possible = sum(math.comb(cf.T, n) * (self._n_actions - 1) ** n for n in range(plan.m + 1))
        if possible > MOST:
            raise _too_many(f"there are {possible:,}", MOST)
        self.actions, self.changes = np.empty((1, 0), np.int64), np.zeros(1, np.int64)
        self.values, self.paid = np.zeros(1), np.zeros(1)
        first = cf.graph.states_of_copies(int(cf.observation.states[0])).astype(np.int64)
        none = np.zeros(first.size, np.int64)
        visits, mass = Visits(first, none, none), np.full(first.size, 1.0 / first.size)
        for t in range(cf.T):
            taken, parents = self._branch(t, visits)
            weight, weigh = mass[taken.source], cf.mdp.discount**t
            prices = weight * self._prices(t, visits.states[taken.source], taken.pairs)
            earned = np.bincount(taken.changes, weight * self._earned(t, taken.pairs), minlength=parents.size)
            rows = replaced(cf.graph.layers[t].edits, taken.pairs)
            visits, mass = reach(model_of(cf.mdp.form), visits, taken, rows, weight)
            self.values = self.values[parents] + weigh * earned
            self.paid = self.paid[parents] + weigh * np.bincount(taken.changes, prices, minlength=parents.size)
        if cf.mdp.final_reward is not None:
            ends = np.bincount(visits.changes, mass * cf.mdp.final_reward[visits.states], minlength=self.values.size)
            self.values = self.values + cf.mdp.discount**cf.T * ends

    def _prices(self, t: int, states: Ints, pairs: Ints) -> Floats:
        """What taking each pair in the state beside it costs, where it is a change."""
        about, prices = self._plan.advisable, np.zeros(pairs.size)
        if about is not None and about.cost is not None:
            some = np.flatnonzero(is_change(self._form, states, pairs, int(self._seen[t])) & ~self._ended[states])
            prices[some] = about.prices(t, pairs[some])
        return prices

    def _earned(self, t: int, pairs: Ints) -> Floats:
        """What each of some pairs is expected to earn, under its edited row where it has one."""
        mdp = self._plan.asked.mdp
        values = mdp.rewards.at(t)
        if not mdp.rewards.by_entry:
            found: Floats = values[pairs]
            return found
        each = distinct(pairs, mdp.n_pairs)
        owner, entry, probability = expand(mdp, self._graph.layers[t].edits, each)
        return summed(owner, probability * values[entry], each.size)[positions(each, pairs, mdp.n_pairs)]

    def _branch(self, t: int, visits: Visits) -> tuple[Taken, Ints]:
        """Every action of every sequence so far, where it can be followed in all nodes that the sequence visits.

        Also which sequence so far each of the sequences one step longer goes on.
        """
        n, seen = self._n_actions, int(self._seen[t])
        if visits.size > _NODES:
            raise _too_many(f"they visit {visits.size:,} nodes at t = {t}", _NODES)
        more = self.changes[visits.changes] < self._plan.m
        source = np.concatenate((np.arange(visits.size), np.repeat(np.flatnonzero(more), n - 1)))
        others = np.delete(np.arange(n), seen)
        action = np.concatenate((np.full(visits.size, seen), np.tile(others, int(more.sum()))))
        states = visits.states[source]
        pairs = self._pairs(t, states, action)
        able = (pairs >= 0) & self._allowed(t, states, visits.runs[source], pairs)
        at_rest = self._ended[states]
        does = np.zeros(source.size, bool)
        some = np.flatnonzero(able & ~at_rest)
        does[some] = changes_something(self._form, t, states[some], pairs[some], seen)
        # A branch is a sequence so far and an action. Without any effect it is that of the observed action.
        branch = visits.changes[source] * n + action
        size = self.changes.size * n
        met, stuck, other = (np.bincount(branch, flags, minlength=size) > 0 for flags in (None, ~able, does))
        kept = met & ~stuck & (other | (np.arange(size) % n == seen))
        made = np.flatnonzero(kept)
        number = np.cumsum(kept) - 1
        parents = made // n
        self.changes = self.changes[parents] + (made % n != seen)
        self.actions = np.column_stack((self.actions[parents], made % n))
        follows = np.flatnonzero(kept[branch])
        source, pairs, branch = source[follows], pairs[follows], number[branch[follows]]
        runs = np.zeros(follows.size, np.int64)
        if self._plan.rule == "assured":
            runs = np.where(np.isin(pairs, self._plan.influenced[t]), 0, visits.runs[source] + 1)
            runs[self._ended[visits.states[source]]] = 0
        order = np.argsort(source, kind="stable")
        certain = np.ones(follows.size)
        return Taken(source[order], pairs[order], certain, branch[order], runs[order]), parents

    def _pairs(self, t: int, states: Ints, actions: Ints) -> Ints:
        """The pair of each state and the action beside it; -1 where it is not available and something is to choose."""
        form = self._form
        owner, pairs = spans(form.pair_start[states], form.pair_start[states + 1])
        found = np.full(states.size, -1, np.int64)
        here = form.pair_action[pairs] == actions[owner]
        found[owner[here]] = pairs[here]
        over = self._ended[states]
        found[over] = form.pair_start[states[over]]
        left = np.flatnonzero(found < 0)
        left = left[absorbing(form, states[left])]
        if left.size:  # an absorbing state: what earns most and is not a change
            owner, pairs = spans(form.pair_start[states[left]], form.pair_start[states[left] + 1])
            earned = self._expected.of_pairs(t, states[left])[pairs] * (-1.0 if self._plan.minimise else 1.0)
            same = np.flatnonzero(~is_change(form, states[left][owner], pairs, int(self._seen[t])))
            order = same[np.lexsort((-pairs[same], earned[same]))]  # the last one written stays
            found[left[owner[order]]] = pairs[order]
        return found

    def _allowed(self, t: int, states: Ints, runs: Ints, pairs: Ints) -> Flags:
        """Whether each pair is allowed for k in its node; every one where the question is decided."""
        nodes, kappa = self._found.nodes[t], self._found.kappa[t]
        allowed = self._ended[states] | (pairs < 0)
        some = np.flatnonzero(~allowed)
        at = (
            nodes.offsets[self._plan.places(t, states[some], runs[some])]
            + pairs[some]
            - self._form.pair_start[states[some]]
        )
        allowed[some] = kappa[at] <= self._plan.k
        return allowed


def _actions_of(plan: PlanRecord) -> Ints:
    """The actions of a plan by index, if it is a fixed sequence itself: -1 at every step if it is not."""
    form, chain = plan.cf.mdp.form, plan.chain
    seen = plan.cf.observation.actions.astype(np.int64)
    actions = seen.copy()
    for t, decided in enumerate(chain.taken):
        states = chain.visits[t].states[decided.source]
        choice = np.flatnonzero(~absorbing(form, states) & ~chain.at_rest(t))
        taken = np.unique(form.pair_action[decided.pairs[choice]])
        if taken.size > 1:
            return np.full(actions.size, _NO_ACTION)
        if taken.size:
            actions[t] = taken[0]
    return actions


def _too_many(what: str, most: int) -> QueryError:
    message = f"fixed sequences were not tried: {what}, more than {most:,}"
    return QueryError(Problem(message, fix="ask about fewer changes"))
