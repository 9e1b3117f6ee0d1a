"""The tethered question: one counterfactual MDP, one rule, one test of influence; κ is computed once and kept.

It answers everything that depends on the meaning of "allowed": the best plan, the values for all k and m, how long a
tether is needed, why a pair is allowed, the classes of states, the trade-off of value against strength. What was
computed is kept with the counterfactual MDP, for all who ask the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._foundation.checks import finite_number, whole_number, whole_numbers
from tether.conditioning.counterfactual_record import CounterfactualRecord, cached_with
from tether.conditioning.layers import everywhere
from tether.errors import QueryError
from tether.influence.advisable import Advisable
from tether.influence.kappa import Thresholds, thresholds, unconstrained
from tether.influence.one_step import Influence, make_influence
from tether.influence.rules import Rule, make_rule
from tether.model.properties import Property, make_property, objective_name
from tether.plan.best_values import Progress, Solved, measure_backward, observed_value, solve_backward
from tether.plan.in_question import carried_advice, in_question
from tether.plan.limits import ABOUT, SHARE, about_k, enough_k
from tether.plan.objective import asked, negated
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep, checked_measures
from tether.plan.walks import chain_value

if TYPE_CHECKING:
    from tether.influence.classes import Classes
    from tether.influence.why import Why
    from tether.plan.pareto import Front


@dataclass
class _Kept:
    """What was computed for a question: κ, for the pairs that s_0 reaches or for all, and sweeps."""

    thresholds: dict[str, Thresholds] = field(default_factory=dict)
    sweeps: list[Sweep] = field(default_factory=list)


@dataclass(frozen=True, eq=False, repr=False)
class TetherRecord:
    """The question under one rule, one test of influence and one objective; made by `tether`.

    `tether.records.Tethered` is this question for users, and says what the fields are.
    """

    cf: CounterfactualRecord
    rule: Rule
    influence: Influence
    objective: Property | None = None
    minimise: bool = False
    advisable: Advisable | None = None

    kind: ClassVar[type[PlanRecord]] = PlanRecord
    """The class of the plans that are made."""

    @property
    def _kept(self) -> _Kept:
        return cached_with(self.cf, self.key, _Kept)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal questions about the same counterfactual MDP."""
        return self.rule, self.influence, self.objective, self.minimise, self.advisable

    @property
    def asked(self) -> CounterfactualRecord:
        """The counterfactual MDP in which the values are returns (`tether.plan.objective`)."""
        return asked(self.cf, self.objective, self.minimise)

    def thresholds(self, up_to: int | None = None) -> Thresholds:
        """κ of every pair that s_0 can reach, computed when first used.

        ``up_to`` is the largest k of interest: `assured` remembers runs of uninfluenced steps only up to that length.
        What is allowed does not depend on the objective's direction: with ``minimise`` κ is the same.
        """
        if self.minimise:
            return self._judged(self._opposite.thresholds(up_to))
        return self._thresholds("reached", up_to)

    def thresholds_everywhere(self, up_to: int | None = None) -> Thresholds:
        """κ of every pair of the model at every time, computed when first used; ``up_to`` as in `thresholds`."""
        if self.minimise:
            return self._judged(self._opposite.thresholds_everywhere(up_to))
        return self._thresholds("everywhere", up_to)

    @property
    def nbytes(self) -> int:
        """The memory of κ, as far as it was computed."""
        return sum(found.nbytes for found in self._kept.thresholds.values())

    @property
    def _opposite(self) -> TetherRecord:
        return replace(self, minimise=not self.minimise)

    def _judged(self, found: Thresholds) -> Thresholds:
        """Thresholds of the opposite direction: only what follows the record is worth something else."""
        return found if self.cf.after is None else replace(found, graph=replace(found.graph, mdp=self.asked.mdp))

    def thresholds_for(self, k: int) -> Thresholds:
        """κ for one k alone. Beyond T every pair is allowed under every rule, so nothing is computed."""
        cf = self.asked
        if k > cf.T:
            return unconstrained(cf.graph, self.rule, self.influence, self.advisable)
        return self.thresholds(k)

    def weighed(self, found: Thresholds) -> Thresholds:
        """Thresholds on the graph in which the largest return is the best: with ``minimise`` rewards are negated."""
        return replace(found, graph=negated(found.graph)) if self.minimise else found

    def _thresholds(self, where: str, up_to: int | None) -> Thresholds:
        cf = self.asked
        longest = cf.T + 1 if up_to is None or self.rule != "assured" else min(up_to, cf.T + 1)
        kept = self._kept.thresholds
        found = kept.get(where)
        if found is None or found.up_to < longest:
            graph = cf.graph if where == "reached" else everywhere(cf.graph, cf.posteriors)
            limits: Any = {"up_to": longest, "advisable": self.advisable}
            found = kept[where] = thresholds(graph, self.rule, self.influence, **limits)
        return found

    def plan(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        subject_to: tuple[Property, float] | None = None,
        progress: Progress | None = None,
    ) -> PlanRecord:
        """The best policy within k that changes at most m actions; see `CounterfactualMDP.plan`.

        ``progress(done, T)`` is called after each time step of the planning; what it raises ends it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).tether().plan()
        <Plan: k = 7, m = 1, definition, support: value -27.83, observed -38>
        """
        cf = self.asked
        m = min(whole_number("m", m, 0), cf.T)
        if subject_to is not None:
            refuse_price(self.advisable, "subject_to=")
            from tether.plan.constrained import constrained

            return constrained(self, self.length(k, m), m, subject_to, longest=cf.T if k is None else None)
        k = self.length(k, m)
        found, about = self.thresholds_for(k), self.advisable
        solved = solve_backward(self.weighed(found), np.array([k]), m, keep=True, advisable=about, progress=progress)
        value = float(self.signed(solved.values[0, m]))
        plan = replace(self.planned(found, solved, k, m), value=value, is_best=True)
        if about is None or about.cost is None:
            return plan
        return replace(plan, value=chain_value(cf.mdp, plan.chain))

    def planned(self, found: Thresholds, solved: Solved, k: int, m: int) -> PlanRecord:
        """The plan that backward induction chose; its value is not known yet."""
        arrays = solved.nodes, solved.choices, found.influenced
        return self.kind(
            self.cf,
            k,
            m,
            self.rule,
            self.influence,
            np.nan,
            observed_value(self.asked),
            *arrays,
            objective=self.objective,
            minimise=self.minimise,
            advisable=self.advisable,
        )

    def length(self, k: int | None, m: int = 1) -> int:
        """k; by default the suggested one, or 1 if no tether gains anything."""
        return (self.suggested_k(m) or 1) if k is None else min(whole_number("k", k, 1), self.cf.T + 1)

    def suggested_k(self, m: int = 1) -> int | None:
        """The tether with the largest gain of those whose plan is about this episode (`tether.plan.limits`).

        If there is none, the shortest that is enough for m changes; None if no tether gains anything.
        """
        return self.choose_k(m, about_at_least=ABOUT) or self.enough_k(m)

    def helps_and_is_about(self, m: int = 1) -> bool:
        """Whether some tether has a plan that gains something with m changes, and is about this episode."""
        return self.choose_k(m, about_at_least=ABOUT) is not None

    def signed(self, values: Any) -> Any:
        """Values with their own sign, and within 0 … 1 if they are probabilities, despite rounding."""
        values = 0.0 - values if self.minimise else values
        return values if self.objective is None else np.clip(values, 0.0, 1.0)

    def sweep(
        self,
        ks: Iterable[int] | None = None,
        ms: Iterable[int] | None = None,
        *,
        measures: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> Sweep:
        r"""The best value for every k = 1 … T + 1 and m = 0 … T, or for the given ones; see `CounterfactualMDP.sweep`.

        ``progress(done, T)`` is called after each time step of the planning; what it raises ends it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.counterfactual(case.mdp, case.path).tether().sweep(ks=[3, 7], ms=[1]))
         k \ m        1
             3   -37.11
             7   -27.83
        """
        T = self.cf.T
        rows = whole_numbers("ks", ks, range(1, T + 2), 1, T + 1)
        columns = whole_numbers("ms", ms, range(T + 1), 0, T)
        wanted = checked_measures(measures)
        for done in self._kept.sweeps:
            has = all(getattr(done, name) is not None for name in wanted)
            if has and np.isin(rows, done.ks).all() and np.isin(columns, done.ms).all():
                return done.part(rows, columns)
        found = self.thresholds(int(rows.max()))
        measured: dict[str, Floats] = {}
        if wanted:
            values, measured = self._measured(found, rows, columns, progress)
        else:
            values = self.values(found, rows, columns, progress=progress)[0]
        for array in (values, rows, columns):
            array.flags.writeable = False
        table = Sweep(
            self.cf,
            self.rule,
            self.influence,
            rows,
            columns,
            values,
            found.sizes(rows),
            found.distinct,
            observed_value(self.asked),
            self.objective,
            self.minimise,
            self.advisable,
            measured.get("about_episode"),
            measured.get("std"),
        )
        self._kept.sweeps.append(table)
        return table

    def _measured(
        self, found: Thresholds, ks: Ints, ms: Ints, progress: Progress | None
    ) -> tuple[Floats, dict[str, Floats]]:
        """The best value for each of ``ks`` and ``ms``, and what is measured of its plan."""
        distinct = found.distinct
        wanted = np.unique(np.searchsorted(distinct, ks, side="right") - 1)
        which = np.searchsorted(distinct[wanted], ks, side="right") - 1
        values, measured = measure_backward(
            self.weighed(found), distinct[wanted], int(ms.max()), advisable=self.advisable, progress=progress
        )
        values, about, std = (one[0][which][:, ms] for one in (values, measured.about, measured.std))
        return self.signed(values), {"about_episode": read_only(about), "std": read_only(std)}

    def values(self, found: Thresholds, ks: Ints, ms: Ints, *, progress: Progress | None = None) -> Floats:
        """The best value for each of ``ks`` and ``ms``, in each copy of the model (`Graph.copies`)."""
        distinct = found.distinct
        wanted = np.unique(np.searchsorted(distinct, ks, side="right") - 1)
        solved = solve_backward(
            self.weighed(found), distinct[wanted], int(ms.max()), advisable=self.advisable, progress=progress
        )
        which = np.searchsorted(distinct[wanted], ks, side="right") - 1
        values: Floats = self.signed(solved.of_copies[:, which][:, :, ms])
        return values

    def choose_k(
        self,
        m: int = 1,
        at_least: float | None = None,
        *,
        at_most: float | None = None,
        about_at_least: float | None = None,
    ) -> int | None:
        """The smallest k whose best value with m changes is at least a threshold; None if none is.

        See `CounterfactualMDP.choose_k`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).tether().choose_k(2, -30.0)
        6
        """
        wanted, other = (at_most, at_least) if self.minimise else (at_least, at_most)
        if other is not None:
            if self.minimise:
                raise QueryError("with minimise the best value is the smallest: give at_most=, and not at_least")
            raise QueryError("at_most= goes with minimise: give at_least=, the value to reach")
        if about_at_least is not None:
            share = finite_number("about_at_least", about_at_least)
            if wanted is None:
                table = self.sweep(ms=[m])
                helping = table.ks[(table.gains[:, 0] > table.rounding) & (table.ks <= self.cf.T)]
                return about_k(self.sweep(helping, [m], measures=["about_episode"]), m, share) if helping.size else None
        threshold = finite_number("at_most" if self.minimise else "at_least", wanted)
        table = self.sweep(ms=[m], measures=() if about_at_least is None else ["about_episode"])
        values = table.values[:, 0]
        enough = values <= threshold if self.minimise else values >= threshold
        if about_at_least is not None and table.about_episode is not None:
            enough = enough & (table.about_episode[:, 0] >= share)
        reached = np.flatnonzero(enough)
        return int(table.ks[reached[0]]) if reached.size else None

    def enough_k(self, m: int = 1, share: float = SHARE) -> int | None:
        """The shortest tether that gives at least ``share`` of what the longest one, k = T, gives with m changes.

        None if no tether gains anything.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).tether().enough_k(1, share=0.5)
        6
        """
        return enough_k(self.sweep(ms=[m]), m, share)

    @overload
    def why(
        self, t: int, state: Any = None, action: None = None, *, k: int | None = None, uninfluenced: int = 0
    ) -> tuple[Why, ...]: ...
    @overload
    def why(
        self, t: int, state: Any = None, action: Any = ..., *, k: int | None = None, uninfluenced: int = 0
    ) -> Why: ...
    def why(
        self, t: int, state: Any = None, action: Any = None, *, k: int | None = None, uninfluenced: int = 0
    ) -> Why | tuple[Why, ...]:
        """Why a pair is allowed for k, or is not; see `CounterfactualMDP.why`.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).tether().why(0, "s0", "a1", k=2)
        <Why: t = 0, 's0', 'a1', k = 2: not allowed (not influenced)>
        """
        from tether.influence.why import why

        cf, k = self.asked, self.length(k)
        state = cf.path.states[cf.time(t)] if state is None else state

        def answer(one: Any) -> Why:
            return why(cf, self.thresholds, self.thresholds_everywhere, t, state, one, k=k, uninfluenced=uninfluenced)

        return tuple(map(answer, cf.mdp.actions_in(state))) if action is None else answer(action)

    def classify(self, *, t: int, k: int | None = None, rollout: str = "counterfactual") -> Classes:
        """Class of each state at time t = 0 … T; see `CounterfactualMDP.classify`.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).tether().classify(t=1, k=1)["s2"]
        'observed'
        """
        from tether.influence.classes import classify

        return classify(self.asked, self.thresholds, self.rule, self.influence, t=t, k=self.length(k), rollout=rollout)

    def pareto(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        against: str | Property = "strength",
        limit: int = 1000,
        progress: Callable[[int], None] | None = None,
    ) -> Front:
        """Value against strength, or against a property: every supported point; see `CounterfactualMDP.pareto`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).tether().pareto(m=1).values
        array([ -1., -38.])
        """
        from tether.plan.pareto import pareto

        refuse_price(self.advisable, "pareto")
        return pareto(self, k, m, against, limit, progress)

    def __repr__(self) -> str:
        about = objective_name(self.objective, self.minimise)
        return f"<Tethered: {self.rule}, {self.influence}, {self.cf.T} steps{', ' if about else ''}{about}>"


def refuse_price(advisable: Advisable | None, what: str) -> None:
    """An error if changes have a price where it cannot be weighed."""
    if advisable is not None and advisable.cost is not None:
        raise QueryError(f"{what} weighs the value against something else already: leave out cost=")


def tether(
    cf: CounterfactualRecord,
    rule: Any = "definition",
    influence: Any = "support",
    objective: Any = None,
    minimise: bool = False,
    advisable: Advisable | None = None,
) -> TetherRecord:
    """The question under a rule, a test of influence and an objective, checked; see `CounterfactualMDP.tether`."""
    test = make_influence(influence, cf.mdp)
    cf, wanted = in_question(cf, make_property(objective))
    about = carried_advice(cf, advisable)
    question = TetherRecord(cf, make_rule(rule, test, cf.mdp), test, wanted, bool(minimise), about)
    asked(cf, question.objective, question.minimise)  # raises if something is wrong with it
    return question
