"""The questions about a counterfactual MDP: each method passes its question on to the folder that answers it.

These folders come later in the walk, so they are imported when a method is called. Questions about a tether go to the
object that `CounterfactualDoors.tether` returns, which computes κ once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tether.evaluation.evaluate import Evaluation
    from tether.explanation.decisions import Decisions
    from tether.explanation.mistakes import Review
    from tether.explanation.what_if import WhatIf
    from tether.explorer.notebook import Inline
    from tether.influence.classes import Classes
    from tether.influence.one_step import Influence
    from tether.influence.rules import Rule
    from tether.influence.why import Why
    from tether.model.properties import Property
    from tether.plan.pareto import Front
    from tether.plan.plan import Plan
    from tether.plan.sweep import Sweep
    from tether.plan.tethered import Tethered

__all__ = ["CounterfactualDoors"]


class CounterfactualDoors:
    """The questions of `tether.records.CounterfactualMDP`, the only class that has them.

    ``self`` is typed as Any where it is passed on, because its class is defined after this one.
    """

    __slots__ = ()

    def tether(
        self: Any,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> Tethered:
        """The tethered question: it fixes what "within k" means, and computes κ once for all its answers.

        Parameters
        ----------
        rule : {"definition", "published", "printed", "assured"}
            What k means; see `tether.influence.rules`.
        influence : "support", `tether.tv` (eps) or `tether.effective` (eps)
            When a pair counts as influenced; the last two go with "definition" and "assured".
        objective : `tether.reach` (goal), `tether.avoid` (bad) or `tether.until` (hold, goal), optional
            What is asked for instead of the return: values are then the probability that the property holds.
        minimise : bool
            Ask for the smallest value, not the largest: for costs, and for unwanted outcomes.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tied = tether.counterfactual(case.mdp, case.path).tether(rule="assured")
        >>> tied.plan(k=7, m=4).value == tied.sweep().value(7, 4)
        True
        """
        from tether.plan.tethered import tether

        question = tether(self, rule, influence, objective, minimise)
        kept: Tethered = self._questions.setdefault(question.key, question)
        return kept

    def plan(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        subject_to: tuple[Property, float] | None = None,
    ) -> Plan:
        """The best policy that stays within k steps of the observation's influence and changes at most m actions.

        Parameters
        ----------
        k : int, optional
            The length of the tether, from 1; T + 1 and beyond: no influence constraint. By default the shortest tether
            that is enough (`enough_k`), and 1 if no tether gains anything; with ``subject_to`` a longer one if only
            that can keep to the limit.
        m : int
            How many actions may differ from the observed ones, from 0; T and beyond: all.
        rule, influence
            What "within k" means; see `tether`.
        objective, minimise
            What is asked for instead of the largest return; see `tether`.
        subject_to : (property, limit), optional
            Keep the probability of a property within a limit: ``(tether.reach("died"), 0.1)``. The plan is then the
            best supported point of value against the property (`pareto`) within the limit. ``plan.constraint`` has its
            probability, and the mixture of two plans that would meet the limit exactly.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.plan(k=8, m=1).value
        -1.0
        >>> plan = cf.plan(k=7, m=2, objective=tether.reach("over"))
        >>> round(plan.value, 3), plan.observed_value
        (0.111, 0.0)
        """
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise)
        return question.plan(k, m, subject_to=subject_to)

    def sweep(
        self,
        ks: Iterable[int] | None = None,
        ms: Iterable[int] | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> Sweep:
        r"""The best value for every k = 1 … T + 1 and m = 0 … T, or for the given ones.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.counterfactual(case.mdp, case.path).sweep(ks=[2, 3, 7, 8], ms=[1, 2]))
         k \ m        1        2
             2   -38.00   -38.00
             3   -37.11   -37.11
             7   -27.83   -19.58
             8    -1.00    -1.00
        """
        return self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise).sweep(ks, ms)

    def choose_k(
        self,
        m: int = 1,
        at_least: float | None = None,
        *,
        at_most: float | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> int | None:
        """The smallest k whose best value with m changes is at least a threshold; None if none is.

        With ``minimise`` the best is the smallest: give ``at_most``.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).choose_k(m=2, at_least=-30.0)
        6
        """
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise)
        return question.choose_k(m, at_least, at_most=at_most)

    def enough_k(
        self,
        m: int = 1,
        share: float = 0.9,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> int | None:
        """The shortest tether that gives at least ``share`` of what the longest one gives; None if none gains anything.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).enough_k(m=2)
        7
        """
        return self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise).enough_k(m, share)

    def evaluate(
        self: Any, policy: Any, *, influence: str | Influence = "support", objective: Property | None = None
    ) -> Evaluation:
        """Exactly what to expect under any policy, and how much of it the observation influences.

        Parameters
        ----------
        policy : "observed", "optimal", "random", callable, mapping, array or Plan
            See `tether.plan.policy`.
        influence
            When a pair counts as influenced, as in `plan`.
        objective
            A property instead of the return, as in `plan`: the value is the probability that it holds. An episode
            ends where the property is decided. A plan for a property is evaluated for that property.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.evaluate("observed").value
        -38.0
        >>> cf.evaluate(lambda state: "V_I" if "V_I" in case.mdp.actions_in(state) else "NIL").tailoring
        <Tailoring: 0.00 of 7 steps influenced, longest uninfluenced run 7 (probability 1)>
        """
        from tether.evaluation.evaluate import evaluate_policy

        return evaluate_policy(self, policy, influence, objective)

    def decisions(
        self: Any,
        objective: Property | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        minimise: bool = False,
    ) -> Decisions:
        """Which decisions mattered: for every step and every action available there, what would have followed.

        All numbers are exact: the expected return if only this action had been different; the best return with this
        action and at most m changes in all, without a tether; the probability that the observed outcome would not have
        happened; and the shortest tether that allows the action.

        Parameters
        ----------
        objective : Property, optional
            Evaluate decisions by the probability of a property (see `tether`); by default, by the return. With a
            property, the observed outcome is that it held, or that it did not.
        m : int
            How many actions may change in all, from 1, for the best return.
        rule, influence
            What a tether is; see `tether`.
        minimise : bool
            Less is better.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> decisions = tether.counterfactual(case.mdp, case.path).decisions()
        >>> [(row.action, row.value, row.needed_k) for row in decisions.at(0)[:2]]
        [('NIL', -38.0, 1), ('V_I', -1.0, 8)]
        """
        from tether.explanation.decisions import decide

        return decide(self, objective, m, rule, influence, minimise)

    def review(
        self: Any,
        against: Any = "best",
        *,
        objective: Property | None = None,
        minimise: bool = False,
        horizon: int | None = None,
    ) -> Review:
        """Mistake or luck: what could be known when it was decided, and what only chance did.

        Decisions are judged by the plain model: no causal model is needed. Only `tether.records.Review.foreseeable`
        uses the counterfactual MDP.

        Parameters
        ----------
        against : "best", "usual", or a policy
            What decisions are judged against; see `tether.review`.
        objective, minimise
            What is asked for instead of the largest return; see `tether`.
        horizon : int, optional
            Over how many steps; see `tether.review`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> review = tether.counterfactual(case.mdp, case.path).review()
        >>> review, round(review.foreseeable, 3)
        (<Review: expected -1, mistakes 35.86, luck -1.141, observed -38>, 37.0)
        """
        from tether.explanation.mistakes import review_counterfactual

        return review_counterfactual(self, against, objective, minimise, horizon)

    def what_if(
        self: Any,
        actions: Mapping[int, Any] | None = None,
        best_from: int | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
    ) -> WhatIf:
        """Other actions at some steps, or the best from some step on: exactly what would have followed.

        Parameters
        ----------
        actions : mapping of time to action
            What to do instead, whatever the state is then; all other steps are done as observed. If an action is not
            available, the observed one is taken; if that is not available either, the best one.
        best_from : int, optional
            From this time on the best actions, without a tether and with any number of changes.
        rule, influence
            What `WhatIf.needed_k` means; see `tether`.
        objective
            A property in place of the return; see `tether`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> asked = tether.counterfactual(case.mdp, case.path).what_if({5: "V_I"})
        >>> round(asked.value, 3), asked.observed_value, asked.needed_k
        (-37.111, -38.0, 3)
        """
        from tether.explanation.what_if import what_if

        return what_if(self, {} if actions is None else actions, best_from, rule, influence, objective)

    def classify(
        self,
        *,
        t: int,
        k: int | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        rollout: str = "counterfactual",
    ) -> Classes:
        """Class of each state at time t = 0 … T: observed, influenced and reachable, and so on.

        Parameters
        ----------
        t : int
        k : int, optional
            The length of the tether; left out: the shortest that is enough, as in `plan`.
        rule, influence, objective, minimise
            What "within k" means, and what is enough; see `tether`.
        rollout : {"counterfactual", "nominal"}
            What "reachable" means: through the counterfactual MDP, exactly; or through the nominal rows, as
            the paper draws it.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).classify(t=2, k=2, rollout="nominal")["s6"]
        'influenced and reachable'
        """
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise)
        return question.classify(t=t, k=k, rollout=rollout)

    @overload
    def why(
        self,
        t: int,
        state: Any = None,
        action: None = None,
        *,
        k: int | None = None,
        rule: Rule = ...,
        influence: str | Influence = ...,
        objective: Property | None = ...,
        minimise: bool = ...,
        uninfluenced: int = ...,
    ) -> tuple[Why, ...]: ...
    @overload
    def why(
        self,
        t: int,
        state: Any = None,
        action: Any = ...,
        *,
        k: int | None = None,
        rule: Rule = ...,
        influence: str | Influence = ...,
        objective: Property | None = ...,
        minimise: bool = ...,
        uninfluenced: int = ...,
    ) -> Why: ...
    def why(
        self,
        t: int,
        state: Any = None,
        action: Any = None,
        *,
        k: int | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        uninfluenced: int = 0,
    ) -> Why | tuple[Why, ...]:
        """Why a pair is allowed for k, or is not: in a sentence and as a record.

        Parameters
        ----------
        t : int
        state : optional
            Left out: the observed one.
        action : optional
            Left out: each that is available there, one answer per action.
        k : int, optional
            The length of the tether; left out: the shortest that is enough, as in `plan`.
        rule, influence, objective, minimise
            What "within k" means, and what is enough; see `tether`.
        uninfluenced : int
            The number of uninfluenced steps just passed; only the rule `assured` uses it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> answer = cf.why(0, (9, 1, 20), "V_I", k=3)
        >>> answer.allowed, answer.needed, answer.nearest
        (False, 8, None)
        >>> [(one.action, one.needed) for one in cf.why(0)]
        [('NIL', 1), ('V_I', 8), ('V_S', 8)]
        """
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise)
        found: Why | tuple[Why, ...] = question.why(t, state, action, k=k, uninfluenced=uninfluenced)
        return found

    def pareto(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        against: str | Property = "strength",
        limit: int = 1000,
        progress: Callable[[int], None] | None = None,
    ) -> Front:
        """Value against expected strength, or against a property: every supported point of the front, exactly.

        Parameters
        ----------
        k : int, optional
            A hard limit on influence as well; none by default.
        m : int
            How many actions may change.
        objective, minimise
            What the value is; see `tether`.
        against : {"strength", "closeness"} or Property
            What value is weighed against: the expected strength of the rows taken, or 1 - their distance to the
            observed row, summed over the steps; or, for a return, the probability that a property holds
            (``tether.reach("died")``), where less is better. The property does not end the episode.
        limit : int
            Stop after this many points.
        progress : callable, optional
            Called with the number of points so far, before the next is searched for: long fronts take a while.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).pareto(m=1).values
        array([ -1., -38.])
        >>> patient = tether.cases.sepsis()
        >>> tether.counterfactual(patient.mdp, patient.path).pareto(k=9, m=3, against=tether.reach("died"))
        <Front: 55 points, value -3609 … -3877, reach died 0.81 … 0.77>
        """
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise)
        return question.pareto(k, m, against=against, limit=limit, progress=progress)

    def plot(
        self: Any,
        k: int | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        rollout: str = "counterfactual",
        label: Callable[[Any], str] = str,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the states over time by class, for one k; returns the axes. See `tether.views.figures.plot_classes`.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> ax = tether.counterfactual(toy.mdp, toy.path).plot(k=1)
        >>> ax.get_legend().get_texts()[0].get_text()
        'observed'
        """
        from tether.views.figures import plot_classes

        options: Any = {"rule": rule, "influence": influence, "objective": objective, "minimise": minimise}
        return plot_classes(self, k, ax, rollout=rollout, label=label, **options)

    def explore(self: Any, height: int = 800) -> Inline:
        """An interactive page: k, m, "what if" and "why?", below the cell of a notebook, or in any browser.

        It is served to this machine only, until the program ends or ``stop()`` of the returned object is called. Needs
        the extra ``explorer``.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> page = tether.counterfactual(toy.mdp, toy.path).explore()
        >>> page.address[:17]
        'http://127.0.0.1:'
        >>> page.stop()
        """
        from tether.explorer.notebook import explore

        return explore(self, height)
