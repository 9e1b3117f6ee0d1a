"""Evaluation: exactly what to expect under a plan or a policy, without simulation.

The distribution over states is propagated forward along the policy's chain. `tether.evaluation.returns` has what the
policy earns; `tether.evaluation.tailoring` has how much of it is still about the observed episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.arrow import NameColumn, Tabular
from tether._foundation.markup import html_table
from tether._foundation.words import average, with_spread
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.horizon import Rest
from tether.core.chain import Chain, Decide, Visits
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import outcome_probabilities
from tether.evaluation.returns import Course, Returns, returns_of
from tether.evaluation.tailoring import Tailoring, tailoring_of
from tether.influence.one_step import Influence, influenced_pairs, make_influence
from tether.model.model_record import ModelRecord
from tether.model.properties import Property, make_property
from tether.observation.changes import changes_something
from tether.observation.path import Path, time_index
from tether.plan.afterwards import chain_after
from tether.plan.in_question import in_question
from tether.plan.lifted import LiftedPlan
from tether.plan.objective import asked
from tether.plan.plan_record import PlanRecord
from tether.plan.policy import Policy, array_decider, decider, follows_the_record, make_policy
from tether.plan.walks import graph_chain

if TYPE_CHECKING:
    import pyarrow

    from tether.evaluation.return_distribution import ReturnDistribution


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Tabular):
    """Exactly what to expect under a policy.

    For a property, the value is the probability that it holds. The episode then stays in the state that decided the
    property, and takes no more actions.

    Attributes
    ----------
    whole : Chain
        What the policy does and where it leads, with what follows the record (`tether.counterfactual`, ``horizon``);
        ``chain`` is the part with an observation.
    returns : Course
        Return up to each t = 0 … T, without the final reward. For a property, whether it holds if the episode ends at
        t: the mean is the probability that it does.
    rewards : array (T,)
        Expected reward of each step (undiscounted); for a property, what the step adds to its probability.
    changed : array (T,) or None
        Probability that the action differs from the observed one and something is left to do
        (`tether.observation.changes`); None without an observation.
    tailoring : Tailoring or None
        How much of it is still about the observed episode; None without an observation.
    last : array (states,) or None
        What each state earns in which ``whole`` ends.
    at_its_mean : bool
        Whether of what follows the record only the mean return is known.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> outlook = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).evaluate()
    >>> outlook
    <Evaluation: 7 steps, return -11.28 ± 3.951, 1.00 of 7 steps influenced>
    >>> outlook.feature("I").mean.round(2)
    array([1.  , 2.  , 1.89, 1.67, 1.44, 1.22, 2.06, 2.84])
    """

    mdp: ModelRecord
    chain: Chain
    occupancy: tuple[Floats, ...]
    returns: Course
    rewards: Floats
    mean: float
    std: float
    changed: Floats | None
    tailoring: Tailoring | None
    whole: Chain
    last: Floats | None = None
    at_its_mean: bool = False

    @property
    def T(self) -> int:
        """Number of steps with an observation; of all, on the plain model."""
        return self.chain.T

    @property
    def horizon(self) -> int:
        """Number of steps that are followed one by one, also after the record."""
        return self.whole.T

    @property
    def value(self) -> float:
        """Expected return, the same as ``mean``; ``std`` is its spread."""
        return self.mean

    def distribution(self, t: int) -> tuple[tuple[Any, ...], Floats]:
        """States that can be at time t = 0 … horizon, in the model's order, and their probabilities."""
        states, chance = self._by_state(t)
        return self.mdp.names_of(states), chance

    def likeliest(self, t: int) -> tuple[Any, float]:
        """The likeliest state at time t, and its probability."""
        states, chance = self._by_state(t)
        i = int(np.argmax(chance))
        return self.mdp.states[int(states[i])], float(chance[i])

    def likeliest_path(self) -> tuple[Path, float]:
        """The likeliest single episode under the policy, and its probability.

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
        """Probability of each action at step t, in one state or over all states."""
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

    def return_distribution(self) -> ReturnDistribution:
        """How the return is distributed, exactly: quantiles, chances, and the mean of the worst (CVaR).

        For a property the values are 0 and 1. An error if there are too many different returns, or if usual practice
        goes on after the record until an episode ends: only the mean of what it earns is then computed. In both cases
        `CounterfactualMDP.sample` draws returns.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> found = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).evaluate().return_distribution()
        >>> found.quantile(0.5), round(found.cvar(0.05), 1)
        (-4750.0, -6850.0)
        """
        from tether.evaluation.return_distribution import distribution_of

        if self.at_its_mean:
            message = "what usual practice earns after the record is only known at its mean"
            raise QueryError(
                Problem(message, fix="draw returns: cf.sample(policy, n).return_distribution(); or give horizon=")
            )
        return distribution_of(self)

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
        return outcome_probabilities(self.mdp, *self.ends)

    @property
    def ends(self) -> tuple[Ints, Floats]:
        """The states at the end, by index, ascending, and their probabilities."""
        return self._by_state(self.horizon)

    def feature(self, feature: str | Callable[[Any], float] | Mapping[Any, float]) -> Course:
        """Mean and spread of a state feature at each t = 0 … T.

        Parameters
        ----------
        feature : str, callable or mapping
            The name of a numeric part of the states' names (``"I"`` for the epidemic), a function of a state's name, or
            a mapping from states' names to numbers.
        """
        mean, std, lowest, highest = np.empty((4, self.T + 1))
        for t in range(self.T + 1):
            states, chance = self._by_state(t)
            values = np.array([feature_value(feature, self.mdp.states[int(s)]) for s in states])
            possible = values[chance > 0]
            lowest[t], highest[t] = possible.min(), possible.max()
            mean[t] = np.clip(chance @ values, lowest[t], highest[t])
            std[t] = np.sqrt(chance @ (values - mean[t]) ** 2)
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
        import pyarrow as pa

        states, chances = zip(*(self._by_state(t) for t in range(self.T + 1)), strict=True)
        return pa.table(
            {
                "t": np.repeat(np.arange(self.T + 1), [here.size for here in states]),
                "state": NameColumn(self.mdp.states).take(np.concatenate(states)),
                "probability": np.concatenate(chances),
            }
        )

    def _by_state(self, t: int) -> tuple[Ints, Floats]:
        time_index(t, self.horizon)
        mass = self.occupancy[t] if t <= self.T else self._all_occupancy[t]
        states, index = np.unique(self.whole.visits[t].states, return_inverse=True)
        return states, summed(index.reshape(-1), mass, states.size)

    @cached_property
    def _all_occupancy(self) -> list[Floats]:
        return self.whole.occupancy()

    def __repr__(self) -> str:
        text = f"<Evaluation: {self.T} steps, {self._value_in_words}"
        about = self.tailoring
        if about is None:
            return f"{text}>"
        return f"{text}, {about.expected_influenced_steps:.2f} of {average(about.expected_steps)} steps influenced>"

    @property
    def _value_in_words(self) -> str:
        if self.chain.ended is not None:
            return f"probability {self.mean:.4g}"
        return f"return {with_spread(self.mean, self.std)}"

    def _repr_html_(self) -> str:
        so_far_is = "return so far" if self.chain.ended is None else "holds if it ends here"
        head = ["t", "likeliest state", "probability", so_far_is]
        rows: list[list[Any]] = []
        for t in range(self.T + 1):
            state, chance = self.likeliest(t)
            std = self.returns.std[t] if self.chain.ended is None else 0.0
            rows.append([t, state, f"{chance:.3g}", with_spread(self.returns.mean[t], std)])
        if self.changed is not None and self.tailoring is not None:
            head += ["action changed", "known ground"]
            for t in range(self.T):
                rows[t] += [f"{self.changed[t]:.3g}", f"{self.tailoring.influenced[t]:.3g}"]
            rows[self.T] += ["", ""]
        return html_table(head, rows)


def evaluate_plan(plan: PlanRecord) -> Evaluation:
    """Evaluate a plan on its own counterfactual MDP, for its own objective."""
    return evaluate_chain(plan.asked.mdp, plan.chain, plan.asked, plan.influenced)


def evaluate_policy(
    cf: CounterfactualRecord, policy: Any, influence: Any = "support", objective: Any = None
) -> Evaluation:
    """Evaluate any policy on the counterfactual MDP; see `CounterfactualMDP.evaluate`."""
    test = make_influence(influence, cf.mdp)
    return _evaluate_on(*policy_chain(cf, policy, objective), test)


def policy_chain(cf: CounterfactualRecord, policy: Any, objective: Any = None) -> tuple[CounterfactualRecord, Chain]:
    """Any policy on the counterfactual MDP, followed from s_0; and the counterfactual MDP where values are returns."""
    wanted = make_property(objective)
    if isinstance(policy, PlanRecord):
        wanted = wanted if policy.objective is None else policy.objective if wanted is None else wanted
        cf, wanted = in_question(cf, wanted)
        if policy.cf is not cf:
            message = "this plan was made for another counterfactual MDP"
            raise QueryError(
                Problem(message, fix="ask the plan itself (plan.evaluate()), or follow it here: plan.on(cf)")
            )
        if policy.objective is not None and wanted not in (None, policy.objective):
            message = f"this plan was made for another objective, {policy.objective}: it ends where that is decided"
            raise QueryError(f"{message}, and says nothing about {wanted}")
        wanted = policy.objective or wanted
        world = asked(cf, wanted, policy.minimise)
        return world, policy.chain if wanted == policy.objective else policy.chain_for(world.graph)
    if isinstance(policy, LiftedPlan):
        cf, wanted = in_question(cf, policy.plan.objective or wanted)
        world = asked(cf, wanted, policy.plan.minimise)
        first = policy.first(int(world.observation.states[0]))
        return world, graph_chain(world.graph, first, policy.decide(world.mdp, world.graph))
    cf, wanted = in_question(cf, wanted)
    world = asked(cf, wanted, policy=own_rest(policy))
    decide = array_decider(world.mdp, policy)
    if decide is None:
        decide = decider(world.mdp, policy_for(cf, world, policy, wanted))
    return world, _follow(world, decide)


def evaluate_decider(world: CounterfactualRecord, decide: Decide, influence: Influence) -> Evaluation:
    """Evaluate a decision function, which chooses at each time in each state, from s_0 on."""
    return _evaluate_on(world, _follow(world, decide), influence)


def _follow(world: CounterfactualRecord, decide: Decide) -> Chain:
    return graph_chain(world.graph, visit(int(world.observation.states[0])), decide)


def _evaluate_on(world: CounterfactualRecord, chain: Chain, influence: Influence) -> Evaluation:
    influenced = tuple(influenced_pairs(world.graph, t, influence) for t in range(world.T))
    return evaluate_chain(world.mdp, chain, world, influenced)


def evaluate_chain(
    mdp: ModelRecord, chain: Chain, cf: CounterfactualRecord | None, influenced: tuple[Ints, ...]
) -> Evaluation:
    """What to expect of a chain: its return; or, if it ends where a property is decided, the probability of that."""
    occupancy = chain.occupancy()
    changed, tailoring = None, None
    if cf is not None:
        changed = _changed(cf, chain, occupancy)
        tailoring = tailoring_of(cf, chain, occupancy, influenced)
    rest = None if cf is None else cf.rest
    if rest is None:
        earned, whole = returns_of(mdp, chain, occupancy), chain
    else:
        whole = whole_chain(cf, chain)
        earned = _with_rest(mdp, chain, occupancy, rest, whole)
    returns = earned.so_far, earned.rewards, earned.mean, earned.std
    last, at_its_mean = mdp.final_reward, False
    if rest is not None:
        last = rest.last if rest.ends is None else rest.final
        link, before, after = whole.links[-1], whole.visits[-2].states, whole.visits[-1].states
        at_its_mean = rest.ends is not None and bool(np.any(before[link.source] != after[link.target]))
    return Evaluation(mdp, chain, tuple(occupancy), *returns, changed, tailoring, whole, last, at_its_mean)


def policy_for(
    cf: CounterfactualRecord,
    world: CounterfactualRecord,
    policy: Any,
    objective: Property | None,
    minimise: bool = False,
) -> Policy:
    """A policy up to the horizon; ``world`` is the counterfactual MDP in which its values are returns.

    Without a horizon the policy "optimal" is the best of the steps with an observation, with the worth of what follows.
    """
    if cf.horizon is None:
        return make_policy(world.mdp, policy, cf.T, cf.path, None, minimise)
    return make_policy(cf.mdp, policy, cf.horizon, cf.path, objective, minimise)


def own_rest(policy: Any) -> Any:
    """Who acts after the record if a policy is evaluated: itself; None if it says nothing about it."""
    return None if follows_the_record(policy) else policy


def whole_chain(cf: CounterfactualRecord | None, chain: Chain) -> Chain:
    """A chain of the record's steps, with what follows them; ``cf`` is where its values are returns."""
    if cf is None or cf.rest is None:
        return chain
    return chain.then(chain_after(cf.mdp, chain.ended, chain.T, cf.rest, chain.visits[-1]))


def _with_rest(mdp: ModelRecord, chain: Chain, occupancy: list[Floats], rest: Rest, whole: Chain) -> Returns:
    """What a chain earns: step by step up to T, and in all with what follows."""
    ends = replace(mdp, final_reward=rest.final)
    earned = returns_of(ends, chain, occupancy)
    after = float(occupancy[-1] @ rest.worth[chain.visits[-1].states])
    if chain.ended is not None:
        after = min(1.0, max(0.0, after))
        return replace(earned, mean=after, std=float(np.sqrt(after * (1.0 - after))))
    in_all = returns_of(replace(mdp, final_reward=rest.last), whole, whole.occupancy())
    return replace(earned, mean=float(earned.so_far.mean[-1]) + mdp.discount**chain.T * after, std=in_all.std)


def _changed(cf: CounterfactualRecord, chain: Chain, occupancy: list[Floats]) -> Floats:
    return np.array([chance_of_changes(cf, chain, t, occupancy[t]).sum() for t in range(chain.T)])


def chance_of_changes(cf: CounterfactualRecord, chain: Chain, t: int, occupancy: Floats) -> Floats:
    """For each pair taken at step t, the probability that it is taken and is a change; 0 if it changes nothing."""
    decided = chain.taken[t]
    states, done = chain.visits[t].states[decided.source], int(cf.observation.actions[t])
    differs = changes_something(cf.mdp.form, t, states, decided.pairs, done) & ~chain.at_rest(t)
    chance: Floats = occupancy[decided.source] * decided.probability * differs
    return chance


def visit(state: int) -> Visits:
    return Visits(np.array([state]), np.zeros(1, np.int64), np.zeros(1, np.int64))


def feature_value(feature: Any, state: Any) -> float:
    """The number that a feature gives for a state, or an error that says why it gives none."""
    if isinstance(feature, str):
        if not hasattr(state, feature) or callable(getattr(state, feature)):
            known = getattr(state, "_fields", ())
            has = (
                f"it has {', '.join(known)}"
                if known
                else "their names have no named parts; give a function of the name"
            )
            raise QueryError(f"the states have no feature {feature!r}; {has}")
        value = getattr(state, feature)
    elif isinstance(feature, Mapping):
        if state not in feature:
            raise QueryError(Problem(f"the feature says nothing for state {state!r}", state=state))
        value = feature[state]
    elif callable(feature):
        value = feature(state)
    else:
        raise QueryError(f"a feature is a name, a function of the state or a mapping, not {feature!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise QueryError(
            Problem(f"the feature of state {state!r} is {value!r}, not a finite number", state, value=value)
        )
    return number
