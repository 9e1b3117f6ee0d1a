"""`Robust`: what holds under every causal model of a set; `RobustPlan`: its plans; `robust`, which makes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.markup import Displayed, facts
from tether.conditioning.model_sets import Assumption, check_gamma, model_set
from tether.errors import Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.model.properties import Property, objective_name
from tether.model.several_types import refuse_types
from tether.objects.counterfactual_object import CounterfactualMDP, counterfactual
from tether.objects.plan_object import Plan
from tether.observation.path import Path
from tether.plan.plan_record import PlanRecord
from tether.plan.policy import shares_of_pairs
from tether.plan.robust_record import RobustPlanRecord, RobustRecord

if TYPE_CHECKING:
    import os

    from tether.influence.rules import GivenRule as Rule
    from tether.io.intervals import IntervalModel


@dataclass(frozen=True, eq=False, repr=False)
class RobustPlan(RobustPlanRecord, Plan):
    """The plan with the best guaranteed value; made by `Robust.plan`.

    It is used as any `Plan`. Its evaluation and samples are those under Gumbel-max; only ``value`` is guaranteed. Its
    actions (`action`, `to_arrow`, the sentences) are those for every node that some causal model of the set leads to.

    Attributes
    ----------
    value : float
        The worst case: guaranteed under every causal model of the set.
    assume : str
        The set.
    confidence : float or None
        If the transition probabilities are intervals: the level at which all of them hold together.
    gamma, share : float, array or None
        The strength of the hidden causes that are allowed for, and how often each pair is taken in its state
        (`tether.conditioning.model_sets.Confounding`).

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.robust(case.mdp, case.path, assume="nothing").plan(k=6, m=4)
    >>> round(plan.value, 2), plan.observed_value
    (-26.79, -38.0)
    """

    cf: CounterfactualMDP

    def write(self, file: str | os.PathLike[str]) -> None:
        """Refuse: a scheduler is about a model whose probabilities are known, not about intervals."""
        what = "a guaranteed plan is not written as a scheduler: the states of its interval model are others"
        raise QueryError(Problem(what, fix="plan.to_arrow() has its actions; cf.plan(k, m).write(file) writes a plan"))

    @cached_property
    def best_case(self) -> float:
        """The best case of the same plan: its value under the model of the set that is best for it."""
        from tether.evaluation.ranges import best_case

        return best_case(self)

    @cached_property
    def robust(self) -> Robust:
        """The question that it answers."""
        return Robust(model_set(self.cf, self.assume, self.confidence, self.gamma, self.share))

    def __repr__(self) -> str:
        about = objective_name(self.objective, self.minimise)
        return (
            f"<RobustPlan: k = {self.k}, m = {self.m}, {self.rule}, {self.robust.assuming}: "
            f"{'value' if self.objective is None else 'probability'} from {self.value:.4g} to {self.best_case:.4g}, "
            f"observed {self.observed_value:.4g}{', ' if about else ''}{about}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Robust(RobustRecord, Displayed):
    """What holds under every causal model of a set; made by `tether.robust`.

    Attributes
    ----------
    models : ModelSet
        The set.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> guaranteed = tether.robust(case.mdp, case.path, assume="nothing")
    >>> guaranteed
    <Robust: 7 steps, assuming nothing>
    >>> guaranteed.bounds(2, (7, 3, 20), "V_I")[0][:2]
    ((5, 4, 19), (6, 3, 19))
    """

    def _repr_html_(self) -> str:
        assumed = ("causal models", self.assuming)
        return facts([("model", self.models.gumbel.mdp), ("path", self.models.gumbel.path), assumed])

    @property
    def cf(self) -> CounterfactualMDP:
        """The counterfactual MDP of the episode under Gumbel-max."""
        return CounterfactualMDP.over(self.models.gumbel)

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
    ) -> RobustPlan:
        """The plan with the best guaranteed value within k and m.

        Without ``k``: the shortest tether that guarantees enough, and 1 if no tether guarantees a gain. With an
        ``objective`` (`tether.reach`, `avoid`, `until`) the guarantee is about its probability: that it is at least
        ``value``, or with ``minimise`` at most ``value``. ``only`` and ``never`` say which changes may be advised
        (`CounterfactualMDP.tether`). With a price of changes, ``cost``, the plan has the best guaranteed value less
        that price; ``value`` is what it guarantees before the price.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> tether.robust(patient.mdp, patient.path, assume="nothing").plan(k=9, m=2).value
        -6850.0
        """
        asked: Any = {"rule": rule, "influence": influence, "objective": objective, "minimise": minimise}
        made = RobustPlan.over(super().plan(k, m, only=only, never=never, cost=cost, **asked))
        return made if cost is None else replace(made, value=self.range(made)[0])

    def range(self, policy: Any, *, objective: Property | None = None) -> tuple[float, float]:
        """(worst, best) expected return of a plan, or of any policy, over the whole set.

        With an ``objective``, or for a plan with one, the probability of that property.

        A model of the set may lead to a state that a plan never meets under Gumbel-max. There the plan takes the
        observed action; if that is not available, the worst (best) of the available ones.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> worst, best = tether.robust(case.mdp, case.path, assume="nothing").range(cf.plan(k=6, m=4))
        >>> round(worst, 3), round(best, 3)
        (-26.788, -17.009)
        """
        from tether.evaluation.ranges import range_of

        planned = policy.objective if isinstance(policy, PlanRecord) else None
        record, wanted = self.in_question(planned if objective is None else objective)
        return range_of(record.models, policy, None if objective is None else wanted)

    def worst_model(self, policy: Any) -> CounterfactualMDP:
        """The causal model of the set that is worst for a plan or policy, as an ordinary counterfactual MDP.

        It can be evaluated, sampled and drawn. It attains the worst case if the policy does not depend on the changes
        left.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> guaranteed = tether.robust(case.mdp, case.path, assume="nothing")
        >>> def vaccinate(t, state):
        ...     return "V_I" if t == 1 and state.I > 0 else "NIL"
        >>> worst, _ = guaranteed.range(vaccinate)
        >>> abs(guaranteed.worst_model(vaccinate).evaluate(vaccinate).value - worst) < 1e-9
        True
        """
        from tether.evaluation.ranges import worst_model

        return CounterfactualMDP.over(worst_model(self.models, policy))

    def write(
        self,
        file: str | os.PathLike[str],
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        objective: Property | None = None,
        floor: float | None = None,
    ) -> IntervalModel:
        """Write the counterfactual interval model, for Storm (``.drn``) or PRISM (``.nm``, ``.prism``) to check.

        It has one state for each (time, state, changes left). Each probability is an interval: its exact bounds. Time,
        k and m are part of the states, so the answer to ``question`` (see `IntervalModel`) is the guaranteed return, or
        the guaranteed probability of a property.
        See `tether.io.intervals`.

        Parameters
        ----------
        file : path
        k, m : int, optional
            The limits; left out: as in `plan`. ``k = T + 1`` and ``m = T`` are none.
        rule
            What "within k" means.
        objective : Property, optional
            As in `plan`.
        floor : float, optional
            Lower ends of intervals are at least this: PRISM does not accept 0. By default 1e-9 for PRISM (values change
            by about as little), 0 for Storm.

        Examples
        --------
        >>> import pathlib, tempfile, tether
        >>> mdp = tether.MDP.from_arrays([[[0.5, 0.5], [0.25, 0.75]], [[0, 1], [0, 1]]], actions=["wait", "treat"])
        >>> sure = tether.robust(mdp, tether.Path([0, 0], ["wait"]), assume="nothing")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = pathlib.Path(sure.write(f"{folder}/clinic.nm").file).read_text()
        >>> print([line.strip() for line in text.splitlines() if "[treat] s=0 ->" in line][0])
        [treat] s=0 -> [1e-09,0.5]:(s'=1) + [0.5,1]:(s'=2);
        """
        from tether.io.intervals import write_intervals

        return write_intervals(self, file, k, m, rule=rule, objective=objective, floor=floor)


def robust(
    mdp: ModelRecord,
    path: Path,
    assume: Assumption | None = None,
    confidence: float | None = None,
    *,
    gamma: float = 1.0,
    practice: Any = None,
    horizon: int | None = None,
    then: Any = "best",
) -> Robust:
    """What holds under every causal model of a set, for one observed path.

    All causal models of a set agree with the MDP and with the path. The MDP itself is taken as right, or with
    ``confidence`` as right within its intervals.

    Parameters
    ----------
    mdp : MDP
    path : Path
    assume : {"nothing", "stability", "published-stability", "published-monotonicity"}, optional
        The set; see `tether.conditioning.model_sets`. Left out: "stability", and "nothing" with ``confidence`` or
        ``gamma``.
    confidence : float, optional
        For a learned model, with ``assume="nothing"``: what holds under every causal model *and* every transition
        probability that the log allows. These are Clopper–Pearson intervals of all probabilities of the model, at a
        level at which all hold together with this confidence (Bonferroni; `tether.model.confidence`). The rewards, and
        which outcomes are possible, are those of the model.
    gamma : float
        With ``assume="nothing"``: what also holds with hidden causes of actions and outcomes, that changed the odds of
        every action at most so many times (`tether.conditioning.model_sets.Confounding`); 1 is none.
    practice : policy, optional
        How often each action is usually taken in each state; see `tether.certify`.
    horizon, then
        Up to which time, and who acts after the record; as in `tether.counterfactual`. With ``confidence`` what follows
        the record is taken as the model has it.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> tether.robust(case.mdp, case.path, assume="nothing").plan(k=6, m=4).value > case.path.T * -100
    True

    With few episodes less is certain:

    >>> seen = {("treat", "well"): 80, ("treat", "dead"): 2, ("wait", "well"): 20, ("wait", "dead"): 30}
    >>> paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    >>> mdp = tether.learn(paths).with_objective(final_reward={"well": 1.0})
    >>> path = tether.Path(["sick", "dead"], ["wait"])
    >>> round(tether.robust(mdp, path, assume="nothing").plan(k=1, m=1).value, 3)
    0.949
    >>> sure = tether.robust(mdp, path, confidence=0.95).plan(k=1, m=1)
    >>> sure
    <RobustPlan: k = 1, m = 1, definition, assuming nothing, 95 % joint confidence: value from 0.7267 to 1, observed 0>
    """
    refuse_types(
        mdp,
        "the best guaranteed plan is found for one model",
        "tether.robust(types.models['a name'], path) for one type; tether.counterfactual(types, path).plan() is for "
        "somebody who does not see the type, and its certify() says what is guaranteed",
    )
    if assume is None:
        assume = "stability" if confidence is None and check_gamma(gamma) == 1.0 else "nothing"
    cf = counterfactual(mdp, path, horizon=horizon, then=then)
    share = None if gamma == 1.0 and practice is None else shares_of_pairs(mdp, practice)
    return Robust(model_set(cf, assume, confidence, gamma, share))
