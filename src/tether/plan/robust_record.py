"""Robust plans: the best value that is guaranteed under every causal model of a set.

    V_t(s, c) = max over allowed a of min over x in X of Σ_j x_j·(R(s,a,j) + γ·V_{t+1}(j, c - [a ≠ a_t]))

"Allowed" means the same as for any plan (`tether.influence.rules`), in the graph of what *some* model of the set can
do; one-step influence is ``"support"``. Replaying the observed actions is certain under every model, so the guaranteed
value is never below the observed return. For a policy of time and state, a model of the set attains the bound. A plan
also depends on the changes left, and here the worst model may depend on them too: the value is then a valid bound, but
not always attained. The same is true if the mechanism is known to be the same at every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number, whole_numbers
from tether._kernels.scratch import scratch_array
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import spans
from tether.conditioning.model_sets import IN_WORDS, Assumption, ModelSet, model_set, worth_elsewhere
from tether.core.batch import NO_RUNS, Nodes, starts
from tether.errors import QueryError
from tether.influence.advisable import Advisable, make_advisable
from tether.influence.kappa import Thresholds
from tether.influence.rules import GivenRule as Rule
from tether.model.form import Form, model_of
from tether.model.properties import Property, make_property
from tether.observation.changes import nothing_to_change
from tether.plan.best_values import observed_value
from tether.plan.in_question import in_question
from tether.plan.limits import enough_k
from tether.plan.objective import asked_set
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    from tether.core.chain import Chain


@dataclass(frozen=True, eq=False, repr=False)
class RobustPlanRecord(PlanRecord):
    """The data of a robust plan; `tether.records.RobustPlan` says what the fields are."""

    assume: Assumption = "stability"
    confidence: float | None = None
    gamma: float = 1.0
    share: Floats | None = None

    @cached_property
    def robust(self) -> RobustRecord:
        """The question that it answers."""
        return RobustRecord(model_set(self.cf, self.assume, self.confidence, self.gamma, self.share))

    @cached_property
    def covered(self) -> Chain:
        """All nodes that some causal model of the set leads to: the guarantee rests on the actions of all of them.

        Its links say what is possible; their probabilities are not those of Gumbel-max.
        """
        graph = asked_set(self.robust.models, self.objective, self.minimise).possible.graph
        return self.chain if graph is self.asked.graph else self.chain_for(graph)

    @property
    def in_words(self) -> str:
        """What its value is guaranteed under, in words.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.robust(case.mdp, case.path, assume="nothing").plan(k=6, m=4).in_words)
        every causal model in which the luck of one step says nothing about the luck of another
        """
        text = IN_WORDS[self.assume]
        if self.gamma > 1.0:
            text += f", with hidden reasons that changed the odds of an action up to {self.gamma:g} times"
        if self.confidence is None:
            return text
        level = f"{100 * self.confidence:g} %"
        return f"{text} and all transition probabilities that the log allows (jointly, with {level} confidence)"

    def sweep(self, ks: Iterable[int] | None = None, ms: Iterable[int] | None = None) -> Sweep:
        """Guaranteed values for every k and m, or for the given ones."""
        about: Any = {"rule": self.rule, "objective": self.objective, "minimise": self.minimise}
        return self.robust.swept(ks, ms, self.advisable, **about)


@dataclass(frozen=True, eq=False, repr=False)
class RobustRecord:
    """What holds under every causal model of a set, ``models``; `tether.records.Robust` is this for users."""

    models: ModelSet

    @property
    def cf(self) -> CounterfactualRecord:
        """The counterfactual MDP of the episode under Gumbel-max."""
        return self.models.gumbel

    @property
    def assume(self) -> Assumption:
        """The assumption."""
        return self.models.assume

    @property
    def confidence(self) -> float | None:
        """The level at which the intervals of all transition probabilities hold together; None without intervals."""
        return self.models.confidence

    @property
    def gamma(self) -> float:
        """How strong the hidden causes are that are allowed for; 1 is none."""
        return 1.0 if self.models.confounding is None else self.models.confounding.gamma

    @property
    def assuming(self) -> str:
        """The set in a few words.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.robust(case.mdp, case.path, gamma=2).assuming
        'assuming nothing, hidden causes up to 2'
        """
        text = f"assuming {self.assume}"
        if self.gamma > 1.0:
            text += f", hidden causes up to {self.gamma:g}"
        return text if self.confidence is None else f"{text}, {100 * self.confidence:g} % joint confidence"

    def bounds(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats, Floats]:
        """Exact bounds of each counterfactual probability: (next states, lower, upper), impossible outcomes left out.

        Next states come in the model's order.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.MDP.from_arrays([[[0.5, 0.5], [0.4, 0.6]], [[0, 1], [0, 1]]], actions=["wait", "treat"])
        >>> path = tether.Path([0, 0], ["wait"])
        >>> tether.robust(mdp, path, assume="stability").bounds(0, 0, "treat")
        ((0, 1), array([0.8, 0.2]), array([0.8, 0.2]))
        >>> tether.robust(mdp, path, assume="nothing").bounds(0, 0, "treat")
        ((0, 1), array([0. , 0.2]), array([0.8, 1. ]))
        """
        return self.models.bounds(t, state, action)

    def plan(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: Any = "support",
        objective: Property | None = None,
        minimise: bool = False,
        only: Any = None,
        never: Any = None,
        cost: Any = None,
    ) -> RobustPlanRecord:
        """The plan with the best guaranteed value within k and m; see `tether.records.Robust.plan`.

        With a price its value is less that price here.
        """
        about: Any = {"minimise": minimise, "only": only, "never": never, "cost": cost}
        record, objective = self.in_question(objective)
        if record is not self:
            return record.plan(k, m, rule=rule, influence=influence, objective=objective, **about)
        about["objective"] = objective
        k, m = self.limits(k, m, rule=rule, influence=influence, **about)
        advisable = make_advisable(self.cf.mdp, only, never, cost)
        models, found = self._asked(rule, influence, k, objective, minimise, advisable, alone=True)
        values, nodes, choices = _solve(models, found, k, m, advisable=advisable)
        arrays = nodes, choices, found.influenced
        value, observed = float(_signed(values[m], objective, minimise)), observed_value(models.gumbel)
        made = RobustPlanRecord(
            self.cf, k, m, found.rule, found.influence, value, observed, *arrays, assume=self.assume
        )
        share = None if self.models.confounding is None else self.models.confounding.share
        made = replace(made, confidence=self.confidence, gamma=self.gamma, share=share)
        return replace(made, objective=objective, minimise=minimise, advisable=advisable)

    def sweep(
        self,
        ks: Iterable[int] | None = None,
        ms: Iterable[int] | None = None,
        *,
        rule: Rule = "definition",
        influence: Any = "support",
        objective: Property | None = None,
        minimise: bool = False,
        only: Any = None,
        never: Any = None,
        cost: Any = None,
    ) -> Sweep:
        r"""Guaranteed values for every k and m, or for the given ones; what is asked is as in `plan`.

        With ``cost``, less the price of the changes.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.robust(case.mdp, case.path, assume="nothing").sweep(ks=[3, 7, 8], ms=[1, 4]))
         k \ m        1        4
             3   -37.12   -37.12
             7   -32.12   -14.44
             8    -1.00    -1.00
        """
        record, objective = self.in_question(objective)
        advisable = make_advisable(record.cf.mdp, only, never, cost)
        about: Any = {"rule": rule, "influence": influence, "objective": objective, "minimise": minimise}
        return record.swept(ks, ms, advisable, **about)

    def swept(
        self,
        ks: Iterable[int] | None,
        ms: Iterable[int] | None,
        advisable: Advisable | None,
        *,
        rule: Rule = "definition",
        influence: Any = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> Sweep:
        """Guaranteed values for a property that is in question (`in_question`); see `sweep`."""
        T = self.cf.T
        rows = whole_numbers("ks", ks, range(1, T + 2), 1, T + 1)
        columns = whole_numbers("ms", ms, range(T + 1), 0, T)
        models, found = self._asked(rule, influence, int(rows.max()), objective, minimise, advisable)
        distinct = found.distinct
        which = np.searchsorted(distinct, rows, side="right") - 1
        most = int(columns.max())
        solved = {
            int(i): _solve(models, found, int(distinct[i]), most, advisable=advisable)[0] for i in np.unique(which)
        }
        values = _signed(np.array([solved[int(i)][columns] for i in which]), objective, minimise)
        for array in (values, rows, columns):
            array.flags.writeable = False
        arrays = rows, columns, values, found.sizes(rows), distinct
        observed = observed_value(models.gumbel)
        made = Sweep(self.cf, found.rule, found.influence, *arrays, observed, objective, minimise, advisable)
        return replace(made, guaranteed=self.assuming)

    def best_possible(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: Any = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> float:
        """The best value that any plan within k and m has under some model of the set: a bound for all plans.

        What is left out is as in `plan`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> round(tether.robust(case.mdp, case.path, assume="nothing").best_possible(k=6, m=4), 2)
        -17.01
        """
        record, objective = self.in_question(objective)
        about: Any = {"rule": rule, "influence": influence, "objective": objective, "minimise": minimise}
        if record is not self:
            return record.best_possible(k, m, **about)
        k, m = self.limits(k, m, **about)
        models, found = self._asked(rule, influence, k, objective, minimise, alone=True)
        return float(_signed(_solve(models, found, k, m, -1.0)[0][m], objective, minimise))

    def limits(self, k: int | None, m: int, **about: Any) -> tuple[int, int]:
        """Limits k and m, checked; k left out is the shortest tether that guarantees enough, or 1 if none gains.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.robust(case.mdp, case.path, assume="nothing").limits(None, 1)
        (7, 1)
        """
        T = self.cf.T
        m = min(whole_number("m", m, 0), T)
        if k is None:
            k = enough_k(self.sweep(ms=[m], **about), m) or 1
        return min(whole_number("k", k, 1), T + 1), m

    def in_question(self, objective: Property | None) -> tuple[Self, Property | None]:
        """The set as far as a property is about it (`tether.plan.in_question`), and the property."""
        cf, wanted = in_question(self.cf, make_property(objective))
        if cf is self.cf:
            return self, wanted
        confounding = self.models.confounding
        share = None if confounding is None else confounding.share
        return replace(self, models=model_set(cf, self.assume, self.confidence, self.gamma, share)), wanted

    def _asked(
        self,
        rule: Rule,
        influence: Any,
        up_to: int,
        objective: Property | None,
        minimise: bool,
        advisable: Advisable | None = None,
        *,
        alone: bool = False,
    ) -> tuple[ModelSet, Thresholds]:
        """The set for the objective, and κ on the graph in which the largest return is the best.

        κ is for all k ``up_to`` some number, or for that one ``alone``.
        """
        if influence != "support":
            raise QueryError(
                f"under a set of causal models influence is tested by 'support' alone, not {influence}: "
                "the other tests are about the rows of one model"
            )
        models = asked_set(self.models, make_property(objective), minimise)
        question = tether(self.models.possible, rule, influence, objective, minimise, advisable)
        return models, question.weighed(question.thresholds_for(up_to) if alone else question.thresholds(up_to))

    def __repr__(self) -> str:
        return f"<Robust: {self.cf.T} steps, {self.assuming}>"


def _solve(
    models: ModelSet, found: Thresholds, k: int, m: int, sign: float = 1.0, advisable: Advisable | None = None
) -> tuple[Floats, tuple[Nodes, ...], tuple[Ints, ...]]:
    """V_0(s_0, c) for c = 0 … m; the nodes planned for, and the choices. ``sign`` = -1: under the best models."""
    from tether._kernels.sets import limits_for, row_scratch_for
    from tether.core.condition import read_only_nodes
    from tether.core.robust import Goal, robust_nodes

    graph, T = found.graph, found.graph.T
    mdp, form, model = graph.mdp, graph.mdp.form, model_of(graph.mdp.form)
    kept = [_going(found, t, which) for t, which in enumerate(found.within(k))]
    nodes = tuple(_some(layer, which) for layer, which in zip(found.nodes, kept, strict=True))
    # One run more than occur, for runs that are too long.
    with_runs = any(layer.runs.size for layer in found.nodes)
    n_runs = max(int(layer.runs.max(initial=0)) for layer in found.nodes) + 2 if with_runs else 1
    size = n_runs * mdp.n_states * (m + 1)
    tables = scratch_array(size, np.float64), scratch_array(size, np.float64)  # zero where nothing is written
    if mdp.final_reward is not None:
        places = nodes[T].states + (nodes[T].runs.astype(np.int64) * mdp.n_states if nodes[T].runs.size else 0)
        tables[T % 2].reshape(-1, m + 1)[places] = mdp.final_reward[nodes[T].states][:, None]
    longest = int(np.diff(form.row_start).max(initial=1)) if mdp.n_pairs < 1_000_000 else _longest(form, nodes)
    limits, scratch = limits_for(longest), row_scratch_for(longest)
    free, choices = scratch_array(mdp.n_states, np.uint8), []
    beyond = worth_elsewhere(models, T)[0 if sign > 0 else 1]
    for t in range(T - 1, -1, -1):
        observed = int(graph.observation.actions[t])
        uncounted = nodes[t].states[nothing_to_change(form, nodes[t].states, observed)]
        free[uncounted] = 1
        choice = np.full((nodes[t].size, m + 1), -1, dtype=np.int8 if mdp.n_actions < 127 else np.int32)
        robust_nodes(
            model,
            read_only_nodes(nodes[t]),
            found.influenced[t],
            found.kappa[t],
            found.offsets[t][kept[t]],
            k,
            Goal(
                mdp.rewards.at(t),
                mdp.rewards.by_entry,
                mdp.discount,
                observed,
                int(graph.observation.states[t]),
                free,
                T - t,
                _prices(advisable, form, t, nodes[t]),
            ),
            models.at(t, sign, float(beyond[t])),
            tables[(t + 1) % 2],
            tables[t % 2],
            m + 1,
            choice,
            limits,
            scratch,
        )
        free[uncounted] = 0
        if graph.ended is not None and mdp.final_reward is not None:  # where nothing is left to do
            over, here = graph.ended.states[t], tables[t % 2].reshape(-1, mdp.n_states, m + 1)
            here[:, over] = mdp.final_reward[over][:, None]
        choice.flags.writeable = False
        choices.append(choice)
    start = int(graph.observation.states[0])
    return tables[0][start * (m + 1) : (start + 1) * (m + 1)].copy(), nodes, tuple(reversed(choices))


def _prices(advisable: Advisable | None, form: Form, t: int, nodes: Nodes) -> Floats:
    """What each pair of some nodes costs if it is a change, by pair of the model; empty if nothing costs."""
    if advisable is None or advisable.cost is None:
        return np.empty(0)
    states = np.unique(nodes.states).astype(np.int64)
    pairs = spans(form.pair_start[states], form.pair_start[states + 1])[1]
    found = np.zeros(form.pair_action.size)
    found[pairs] = advisable.prices(t, pairs)
    return found


def _going(found: Thresholds, t: int, which: Ints) -> Ints:
    """Those of some nodes of layer t where something is left to do; at T all."""
    offsets = found.nodes[t].offsets
    return which if t == found.graph.T else which[offsets[which + 1] > offsets[which]]


def _some(nodes: Nodes, which: Ints) -> Nodes:
    """Some nodes of a layer, by position."""
    runs = nodes.runs[which] if nodes.runs.size else NO_RUNS
    return Nodes(np.array([0, which.size]), nodes.states[which], runs, starts(np.diff(nodes.offsets)[which]))


def _signed(values: Any, objective: Property | None, minimise: bool) -> Any:
    """Values with their own sign, and within 0 … 1 if they are probabilities."""
    values = 0.0 - values if minimise else values
    return values if objective is None else np.clip(values, 0.0, 1.0)


def _longest(form: Any, nodes: tuple[Nodes, ...]) -> int:
    """The longest row of the states that are planned for."""
    states = np.unique(np.concatenate([layer.states for layer in nodes]))
    low, high = form.row_start[form.pair_start[states]], form.row_start[form.pair_start[states + 1]]
    return int((high - low).max(initial=1))
