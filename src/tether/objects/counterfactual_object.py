"""`CounterfactualMDP`: the questions about one observed episode, and `counterfactual`, which makes it.

Its data and look-ups are those of `tether.conditioning.counterfactual_record`; questions that need no `Tethered` are in
`tether.objects.episode_questions`. The others go to the object that `CounterfactualMDP.tether` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self, overload

from tether._foundation.kinds_of_records import as_kind
from tether.conditioning.counterfactual_record import CounterfactualRecord, cached_with
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.row_function import RowOf
from tether.errors import QueryError
from tether.model.model_record import ModelRecord
from tether.model.several_types import Types
from tether.objects.episode_questions import EpisodeQuestions
from tether.observation.path import Observation, Path

if TYPE_CHECKING:
    from tether.influence.advisable import Advisable
    from tether.influence.one_step import GivenInfluence as Influence
    from tether.influence.rules import GivenRule as Rule
    from tether.influence.why import Why
    from tether.model.properties import Property
    from tether.objects.limited_object import LimitedPlan
    from tether.objects.plan_object import Plan
    from tether.objects.tether_object import Tethered
    from tether.objects.types_object import TypedCounterfactual
    from tether.plan.pareto import Front
    from tether.plan.sweep import Sweep


class CounterfactualMDP(EpisodeQuestions):
    """A model conditioned on an observed path; made by `counterfactual`.

    Attributes
    ----------
    mdp, path, mechanism
        What it was made of.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf
    <CounterfactualMDP: 11 steps, 144 states reachable over time, 184 rows edited, gumbel-max>
    >>> cf.row(2, 2, "left")  # at t = 2 the robot stood in 2, went down, and fell into the pit, 6
    ((1, 2, 3, 6), array([0.92857143, 0.01719577, 0.01719577, 0.03703704]))
    >>> cf.nominal_row(2, 2, "left")
    ((1, 2, 3, 6), array([0.9       , 0.03333333, 0.03333333, 0.03333333]))
    >>> round(cf.strength(2, 2, "left"), 3)
    0.032
    """

    __slots__ = ()
    _internal = frozenset({"graph", "n_edited", "of", "over", "posteriors", "time"})

    @classmethod
    def over(cls, record: CounterfactualRecord) -> Self:
        """The questions about a record of a lower folder; what was computed about it is shared."""
        if isinstance(record, cls):
            return record
        made = as_kind(cls, record)
        for shared in ("_questions", "_is_made"):
            object.__setattr__(made, shared, getattr(record, shared))
        return made

    def tether(
        self,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        only: Any = None,
        never: Any = None,
        cost: Any = None,
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
        only, never : optional
            Which changes may be advised, and which may not: steps, actions, (state, action) pairs, functions of
            (state, action) or of (t, state, action), mappings such as ``{"step": 2, "action": "treat"}``, or lists of
            these; see `tether.influence.advisable`. What was done may always be repeated.
        cost : number, mapping or function, optional
            The price of a change: a number, ``{action: price}``, or a function as above. What is then maximised is the
            value less the expected price of the changes (`Plan.paid`).

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tied = tether.counterfactual(case.mdp, case.path).tether(rule="assured")
        >>> tied.plan(k=7, m=4).value == tied.sweep().value(7, 4)
        True
        """
        from tether.influence.advisable import make_advisable

        about: Any = {"objective": objective, "minimise": minimise}
        about["advisable"] = make_advisable(self.mdp, only, never, cost)
        return self.asking(rule=rule, influence=influence, **about)

    def asking(
        self,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        advisable: Advisable | None = None,
    ) -> Tethered:
        """The tethered question, once for each set of its parts."""
        from tether.objects.tether_object import Tethered
        from tether.plan.tether_record import tether

        found: Any = tether(self, rule, influence, objective, minimise, advisable)
        return cached_with(found.cf, ("tether", *found.key), lambda: Tethered(found.cf, *found.key))

    @overload
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
        only: Any = None,
        never: Any = None,
        cost: Any = None,
    ) -> Plan: ...
    @overload
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
        only: Any = None,
        never: Any = None,
        cost: Any = None,
        budget: float | None = None,
        lost: float | None = None,
    ) -> Plan | LimitedPlan: ...
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
        only: Any = None,
        never: Any = None,
        cost: Any = None,
        budget: float | None = None,
        lost: float | None = None,
    ) -> Plan | LimitedPlan:
        """The best policy that stays within k steps of the observation's influence and changes at most m actions.

        Parameters
        ----------
        k : int, optional
            The length of the tether, from 1; T + 1 and beyond: no influence constraint. By default the tether with the
            largest gain of those whose plan is still about this episode (`Plan.about_episode` at least 0.1). If there
            is none, the shortest that is enough (`enough_k`), and 1 if no tether gains anything; with ``subject_to`` a
            longer one if only that can keep to the limit.
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
        only, never, cost
            Which changes may be advised, and what a change costs; see `tether`.
        budget : float, optional
            How large the total distance along any path may be: the sum of ½ Σ|P(·|s_t,a_t) - P(·|s,a)| over its steps
            (the paper's appendix on notions of influence). Without ``k`` there is then no tether beside it.
        lost : float, optional
            How likely k uninfluenced steps in a row may be; k must be given. 0 is the rule ``"assured"``, 1 is
            ``"definition"``. With ``budget`` or ``lost`` the answer is a `tether.records.LimitedPlan`.

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
        >>> cf.plan(k=8, m=1, never=0).action(1, (8, 2, 20), 1), cf.plan(k=8, m=1, cost=100).gain
        ('V_I', 0.0)
        """
        about: Any = {"only": only, "never": never, "cost": cost}
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise, **about)
        if budget is None and lost is None:
            return question.plan(k, m, subject_to=subject_to)
        from tether.objects.limited_object import LimitedPlan
        from tether.plan.limited_paths import limited_plan

        return LimitedPlan.over(limited_plan(question, k, m, budget, lost, subject_to is not None))

    def sweep(
        self,
        ks: Iterable[int] | None = None,
        ms: Iterable[int] | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        measures: Iterable[str] = (),
        only: Any = None,
        never: Any = None,
        cost: Any = None,
    ) -> Sweep:
        r"""The best value for every k = 1 … T + 1 and m = 0 … T, or for the given ones.

        Parameters
        ----------
        ks, ms : iterable of int, optional
        rule, influence, objective, minimise, only, never, cost
            What is asked; see `tether`.
        measures : iterable of {"about_episode", "std"}
            What else to compute of each plan: how much of it is about this episode (`Plan.about_episode`), and the
            standard deviation of its return.

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
        >>> grid = tether.cases.grid_world()
        >>> table = tether.counterfactual(grid.mdp, grid.path).sweep(ks=[5, 6], ms=[1, 2], measures=["about_episode"])
        >>> table.about_episode.round(3)
        array([[1.   , 1.   ],
               [0.004, 0.005]])
        """
        about: Any = {"only": only, "never": never, "cost": cost}
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise, **about)
        return question.sweep(ks, ms, measures=measures)

    def choose_k(
        self,
        m: int = 1,
        at_least: float | None = None,
        *,
        at_most: float | None = None,
        about_at_least: float | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        only: Any = None,
        never: Any = None,
        cost: Any = None,
    ) -> int | None:
        """The smallest k whose best value with m changes is at least a threshold; None if none is.

        With ``minimise`` the best is the smallest: give ``at_most``. With ``about_at_least``, 0 to 1, only plans count
        that are about this episode to this degree (`Plan.about_episode`); alone, the answer is the k with the largest
        gain among them, None if none of them gains anything.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.choose_k(m=2, at_least=-30.0), cf.choose_k(m=2, about_at_least=0.1)
        (6, None)
        """
        about: Any = {"only": only, "never": never, "cost": cost}
        question = self.tether(rule=rule, influence=influence, objective=objective, minimise=minimise, **about)
        return question.choose_k(m, at_least, at_most=at_most, about_at_least=about_at_least)

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
            The length of the tether; left out: the one that `plan` takes.
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


@overload
def counterfactual(mdp: Types, path: Path) -> TypedCounterfactual: ...
@overload
def counterfactual(
    mdp: ModelRecord,
    path: Path | Observation | tuple[Any, Any],
    mechanism: str | Mechanism | RowOf = GumbelMax.name,
    *,
    horizon: int | None = None,
    then: Any = "best",
    **options: Any,
) -> CounterfactualMDP: ...
def counterfactual(
    mdp: ModelRecord | Types,
    path: Path | Observation | tuple[Any, Any],
    mechanism: str | Mechanism | RowOf = GumbelMax.name,
    *,
    horizon: int | None = None,
    then: Any = "best",
    **options: Any,
) -> CounterfactualMDP | TypedCounterfactual:
    """Condition a model on an observed path.

    Parameters
    ----------
    mdp : MDP, or Types
        With `tether.Types`, whose type was never recorded: `TypedCounterfactual`.
    path : Path, or (states, actions) in indices
        The observed episode; each step must be possible in the model. A pair of lists or arrays of whole numbers is an
        episode in the model's indices: no name is looked up. Its last state may be left out, or be -1, if it was not
        recorded. The ``observation`` of a counterfactual MDP is also such an episode.
    mechanism : str or Mechanism
        ``"gumbel-max"``: exact. ``"gumbel-max-sampled"``: by sampling, with the options ``samples=``,
        ``rng=`` and ``method=`` of `SampledGumbelMax`. ``"independent"``, ``"comonotone"`` (with the option
        ``order=``) and ``"maximal"``: see `tether.conditioning.couplings`. Or a function ``f(p, observed, q)`` that
        returns the counterfactual row (`tether.RowMechanism`), or any object with the interface `tether.Mechanism`.
    horizon : int, optional
        Up to which time the episode is asked about, at least the number of its steps: one that ended early might have
        gone on. By default the horizon of the model, if that is longer and the record ends in an absorbing state; in a
        learned model the end of the episode under usual practice. What a record has after its first absorbing state is
        then left out: nothing was decided there.
    then : "best", "usual", "random" or a policy
        Who acts after the record: the best of the model, usual practice (`tether.practice`, of a learned model), or a
        policy. No action there counts as a change.

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
    >>> tether.counterfactual(mdp, ([0, 1], [0])).path  # the same, in indices
    <Path: 1 step, 0 –'wait'→ 1>
    >>> lake = tether.MDP.from_arrays([[[0.5, 0.5, 0], [0.5, 0, 0.5]], [[0, 1, 0]] * 2, [[0, 0, 1]] * 2])
    >>> lake = lake.with_objective(final_reward=[0, 0, 1])
    >>> fell = tether.Path([0, 1], [0])  # into a hole; the other action leads to the goal, or nowhere yet
    >>> [round(tether.counterfactual(lake, fell, horizon=H).plan(k=2, m=1).value, 3) for H in (1, 2, 9)]
    [0.667, 0.833, 0.999]
    """
    if isinstance(mdp, Types):
        from tether.objects.types_object import TypedCounterfactual

        given = mechanism != GumbelMax.name or options or horizon is not None or then != "best"
        if given or not isinstance(path, Path):
            raise QueryError("of several types: a tether.Path, under Gumbel-max alone, up to the end of its record")
        return TypedCounterfactual(mdp, path)
    return CounterfactualMDP.of(mdp, path, mechanism, horizon=horizon, then=then, **options)
