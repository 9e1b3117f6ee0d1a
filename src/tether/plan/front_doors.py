"""The questions about a plan, and about a set of causal models: each method passes the question on.

The folders that answer come later in the walk, so they are imported when a method is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether.model.properties import Property, make_property

if TYPE_CHECKING:
    import datetime
    import os
    import pathlib

    from matplotlib.axes import Axes

    from tether.conditioning.conditioned import CounterfactualMDP
    from tether.evaluation.certificate import Certificate
    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.risk import Risk
    from tether.evaluation.shares import Shares
    from tether.evaluation.trajectories import Trajectories
    from tether.explanation.explain import Explanation
    from tether.influence.rules import Rule
    from tether.io.intervals import IntervalModel
    from tether.learning.uncertainty import PlanUncertainty

__all__ = ["PlanDoors", "RobustDoors"]


class PlanDoors:
    """The questions of `tether.records.Plan`.

    ``self`` is typed as Any, because its class is defined after this one.
    """

    def evaluate(self: Any) -> Evaluation:
        """Exactly what to expect under the plan: states, returns and influence, at each time."""
        from tether.evaluation.evaluate import evaluate_plan

        return evaluate_plan(self)

    def explain(
        self: Any,
        group: Callable[[Any], Any] | None = None,
        *,
        certificate: bool = True,
        draws: int | None = None,
        rng: Any = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Explanation:
        """The plan beside what happened, step by step and in sentences.

        Parameters
        ----------
        group : callable, optional
            A function that turns a state's name into what is shown. States with the same result are taken together.
        certificate : bool
            Whether the sentences say what holds under every causal model.
        draws : int, optional
            For a learned model: how many models that its log leaves possible are drawn, to say how sure the answer is;
            0 for none. By default 100, fewer for models with more than 200,000 transitions.
        rng : int or numpy Generator
            For the draws. The same seed gives the same models.
        progress : callable, optional
            ``progress(done, draws)`` is called after each draw.
        """
        from tether.explanation.explain import explain

        return explain(self, group, certificate=certificate, draws=draws, rng=rng, progress=progress)

    def uncertainty(
        self: Any, draws: int | None = None, *, rng: Any = 0, progress: Callable[[int, int], None] | None = None
    ) -> PlanUncertainty:
        """How sure the plan is in a learned model: the same as ``tether.posterior(mdp, draws).of(plan)``.

        The defaults of ``draws`` and ``rng`` are those of `Plan.explain`: both use the same models.

        Examples
        --------
        >>> import tether
        >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
        >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
        >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
        >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
        >>> plan.uncertainty().probability_better
        1.0
        """
        from tether.learning.posterior import posterior

        found: PlanUncertainty = posterior(self.cf.mdp, draws, rng=rng).of(self, progress)
        return found

    def certify(self: Any) -> Certificate:
        """What holds for the plan under every causal model of this episode: its range over all, and over stable ones.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> plan = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2)
        >>> plan.certify().verdict
        'never worse'
        """
        from tether.evaluation.certificate import certify

        return certify(self.cf, self)

    @cached_property
    def about_episode(self: Any) -> float:
        """How much of the plan is about this episode: the mean strength of its steps from the first change on, 0 to 1.

        Before the first change a plan repeats what was done. Steps are weighted by how likely they are. It is 1 if
        nothing changes, and 0 if all that follows the first change would be the same for anyone.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> cf = tether.counterfactual(patient.mdp, patient.path)
        >>> cf.plan(k=9, m=2).about_episode, cf.plan(k=1, m=2).about_episode
        (0.0, 1.0)
        """
        from tether.evaluation.tailoring import about_plan

        return about_plan(self)

    @cached_property
    def risk(self: Any) -> Risk:
        """How likely a replay under the plan is to end worse, or better, than what happened.

        Exact while there are few distinct returns, otherwise certain bounds; never a sample.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> cf = tether.counterfactual(patient.mdp, patient.path)
        >>> risk = cf.plan(k=9, m=2).risk
        >>> risk.worse, round(risk.better, 2), risk.is_exact
        (0.0, 0.65, True)
        """
        from tether.evaluation.risk import risk_of

        return risk_of(self)

    def shares(self: Any) -> Shares:
        """What each changed step adds to the gain: Shapley's shares, exact, for up to 12 changed steps.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> print(tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=2).shares())
        Of the gain of 2,868, 2,569 come from t = 2, 299.1 from t = 3.
        """
        from tether.evaluation.shares import shares

        return shares(self)

    def sample(self: Any, n: int = 5, rng: Any = 0) -> Trajectories:
        """Draw ``n`` counterfactual trajectories under the plan; the same ones each time, by default.

        Parameters
        ----------
        n : int
        rng : int or numpy Generator
            The same seed gives the same trajectories; None gives others each time.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).sample(100)
        <Trajectories: 100 of 7 steps, mean return -11.03>
        """
        from tether.evaluation.trajectories import sample_plan

        return sample_plan(self, n, rng)

    def plot(self: Any, what: Any = "return", ax: Axes | None = None) -> Axes:
        """Draw the plan over time, beside what was observed; returns the axes.

        ``what`` is "return" (so far), "influence" (of the observation), or a feature of the states as
        `Evaluation.feature` takes it: a name of a field, a function of the name, or a mapping.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).plot("I").get_ylabel()
        'I'
        """
        from tether.views.figures import plot_plan

        return plot_plan(self, what, ax)

    def report(
        self: Any,
        file: str | os.PathLike[str] = "report.html",
        *,
        features: Any = None,
        state_name: Callable[[Any], str] | None = None,
        action_name: Callable[[Any], str] | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
        date: datetime.date | None = None,
        certificate: bool = True,
        draws: int | None = None,
        rng: Any = 0,
    ) -> pathlib.Path:
        """Write the plan, beside what happened, as one self-contained HTML file; see `tether.views.report.report`.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan.report(f"{folder}/outbreak.html", features={"infected": lambda state: state.I}).name
        'outbreak.html'
        """
        from tether.views.report import report

        return report(
            self,
            file,
            features=features,
            state_name=state_name,
            action_name=action_name,
            title=title,
            about=about,
            date=date,
            certificate=certificate,
            draws=draws,
            rng=rng,
        )


class RobustDoors:
    """The questions of `tether.records.Robust`; ``self`` is typed as Any for the same reason."""

    def range(self: Any, policy: Any, *, objective: Property | None = None) -> tuple[float, float]:
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

        return range_of(self.models, policy, make_property(objective))

    def worst_model(self: Any, policy: Any) -> CounterfactualMDP:
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

        return worst_model(self.models, policy)

    def write(
        self: Any,
        file: str | os.PathLike[str],
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        floor: float | None = None,
    ) -> IntervalModel:
        """Write the counterfactual interval model, for Storm (``.drn``) or PRISM (``.nm``, ``.prism``) to check.

        It has one state for each (time, state, changes left). Each probability is an interval: its exact bounds. Time,
        k and m are part of the states, so the answer to ``question`` (see `IntervalModel`) is the guaranteed return.
        See `tether.io.intervals`.

        Parameters
        ----------
        file : path
        k, m : int, optional
            The limits; left out: as in `plan`. ``k = T + 1`` and ``m = T`` are none.
        rule
            What "within k" means.
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

        return write_intervals(self, file, k, m, rule=rule, floor=floor)
