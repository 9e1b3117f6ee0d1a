"""`Plan`: the questions about the best policy for one k and m; its data are those of `PlanRecord`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tether._foundation.kinds_of_records import Shown, as_kind
from tether._foundation.markup import facts, paragraphs, shown_here
from tether._foundation.words import counted, number
from tether._kernels.parallel import LARGE
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.model.names import name_list
from tether.model.properties import value_name
from tether.objects.counterfactual_object import CounterfactualMDP
from tether.objects.episode_questions import write_plan
from tether.plan.lifted import LiftedPlan
from tether.plan.plan_record import PlanRecord

if TYPE_CHECKING:
    import datetime
    import os
    import pathlib

    from matplotlib.axes import Axes

    from tether.evaluation.certificate import Certificate
    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.fixed_sequences import FixedSequence
    from tether.evaluation.hindsight import AdvisedChanges, Hindsight
    from tether.evaluation.plan_risk import Risk
    from tether.evaluation.shares import Shares
    from tether.evaluation.trajectories import Trajectories
    from tether.explanation.explain import Explanation
    from tether.explanation.verdicts import Nouns
    from tether.learning.uncertainty import PlanUncertainty
    from tether.objects.tether_object import Tethered
    from tether.plan.saved_results import SavedPlan


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown, PlanRecord):
    """The best policy for one k and m.

    Attributes
    ----------
    value : float
        Expected return from s_0, exactly; or the probability that the property holds, if one was asked for.
    observed_value : float
        Return of the observed path, by the model's rewards; ``logged_return`` is its return by its own rewards. For a
        property, 1 if it held, else 0.
    k, m : int
        The limits it keeps to (m at most T, k at most T + 1).
    rule, influence
        What "allowed" means.
    price : float
        The price λ of influence that the plan was made for (`CounterfactualMDP.pareto`); 0 for the best plan.
    is_best : bool
        Whether it is the best plan for its k and m, as `CounterfactualMDP.plan` gives it. Such a plan is pickled as its
        question (the model, or its place on disk; the episode; k, m, rule, influence, objective), and planned again
        when it is unpickled.
    objective : Property or None
        The property that was asked for, in place of the return. The plan ends where it is decided.
    minimise : bool
        Whether the smallest value was asked for.
    constraint : Constraint or None
        The limit it keeps to, if one was asked for (``subject_to``).
    advisable : Advisable or None
        Which changes could be advised, and what they cost (``only``, ``never``, ``cost``); None for all, at no price.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
    >>> plan
    <Plan: k = 7, m = 4, definition, support: value -11.28, observed -38>
    >>> plan.action(1, (8, 2, 20), 4)
    'V_I'
    """

    cf: CounterfactualMDP

    _internal: ClassVar[frozenset[str]] = frozenset(
        {"asked", "chain", "chain_for", "choices", "covered", "influenced", "is_best", "nodes", "over", "places"}
    )

    @classmethod
    def over(cls, record: PlanRecord) -> Self:
        """The questions about a record of a lower folder."""
        return record if isinstance(record, cls) else as_kind(cls, record, cf=CounterfactualMDP.over(record.cf))

    @property
    def question(self) -> Tethered:
        """The question that the plan answers, for any k and m."""
        about: Any = {"objective": self.objective, "minimise": self.minimise, "advisable": self.advisable}
        return self.cf.asking(rule=self.rule, influence=self.influence, **about)

    def without_model(self) -> SavedPlan:
        """The plan with its settings, but without the model: what `save` writes; small to pickle.

        Examples
        --------
        >>> import pickle, tether
        >>> patient = tether.cases.sepsis()
        >>> plan = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2)
        >>> saved = pickle.loads(pickle.dumps(plan.without_model()))
        >>> saved.value == plan.value
        True
        """
        from tether.plan.saved_results import plan_without_model

        return plan_without_model(self)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the plan with its settings as one Arrow file; `tether.io.read_plan` reads it, without the model.

        Any program that reads Arrow can read its table, that of `to_arrow`.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).save(f"{folder}/plan.arrow")
        """
        self.without_model().save(file)

    def write(self, file: str | os.PathLike[str]) -> None:
        """Write the plan as a scheduler of Storm (``.json``) or a strategy of PRISM (``.txt``).

        Its model is the file that `CounterfactualMDP.write` writes for the same question, k and m.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = cf.write(f"{folder}/outbreak.drn", k=6, m=4)
        ...     cf.plan(k=6, m=4).write(f"{folder}/best.json")
        """
        write_plan(self, file)

    def on(self, other: ModelRecord | CounterfactualRecord, lift: Callable[[Any], Any] | None = None) -> LiftedPlan:
        """The plan as a policy of another model, or of another counterfactual MDP: for `evaluate` and `sample` there.

        Where it says nothing there, what was recorded is done; see `tether.plan.lifted`.

        Parameters
        ----------
        other : MDP or CounterfactualMDP
        lift : callable, optional
            The plan's state for each state of the other model, by name; by default they have the same names.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
        >>> other = tether.counterfactual(case.mdp, case.path, mechanism="maximal")
        >>> round(other.evaluate(plan.on(other)).value, 3), round(plan.value, 3)
        (-11.278, -11.278)
        """
        mdp = other.mdp if isinstance(other, CounterfactualRecord) else other
        if not isinstance(mdp, ModelRecord):
            raise QueryError(f"on() takes a model or a counterfactual MDP, not a {type(other).__name__}")
        if lift is not None and not callable(lift):
            raise QueryError(f"lift is a function of a state's name, not a {type(lift).__name__}")
        unknown = [action for action in self.cf.mdp.actions if action not in mdp.actions]
        if len(unknown) == len(self.cf.mdp.actions):
            message = f"the other model has none of the plan's actions: {name_list(unknown)}"
            raise QueryError(Problem(message, fix="rename them: mdp.with_names(actions=…)"))
        return LiftedPlan(self, lift)

    def evaluate(self) -> Evaluation:
        """Exactly what to expect under the plan: states, returns and influence, at each time."""
        from tether.evaluation.evaluate import evaluate_plan

        return evaluate_plan(self)

    def explain(
        self,
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
        self, draws: int | None = None, *, rng: Any = 0, progress: Callable[[int, int], None] | None = None
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

        return posterior(self.cf.mdp, draws, rng=rng).of(self, progress)

    def certify(self, gamma: float = 1.0, practice: Any = None) -> Certificate:
        """What holds for the plan under every causal model of this episode: its range over all, and over stable ones.

        Parameters
        ----------
        gamma : float
            Allow for hidden causes that changed the odds of every action at most so many times; 1 is none.
        practice : policy, optional
            How often each action is usually taken; see `tether.certify`.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> plan = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2)
        >>> plan.certify().verdict
        'never worse'
        >>> grid = tether.cases.grid_world()
        >>> found = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4).certify(gamma=2.0)
        >>> round(found.nothing.worst, 3), round(found.worst, 3), found.gamma_star
        (358.54, 34.515, inf)
        """
        from tether.evaluation.certificate import certificate_of

        return certificate_of(self.cf, self, gamma=gamma, practice=practice)

    @cached_property
    def about_episode(self) -> float:
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
    def risk(self) -> Risk:
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
        from tether.evaluation.plan_risk import risk_of

        return risk_of(self)

    @cached_property
    def fair(self) -> Plan:
        """The plan within the same limits, but without hindsight: it maximises what could be expected at the time.

        Its ``value`` is that with the luck of this episode. See `tether.plan.foresight`.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> plan = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4)
        >>> round(plan.value, 3), round(plan.fair.value, 3)
        (374.717, 374.717)
        """
        from tether.evaluation.hindsight import fair_plan

        return Plan.over(fair_plan(self))

    @cached_property
    def hindsight(self) -> Hindsight:
        """How much of the gain could be foreseen, and how much only hindsight knows.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> found = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).hindsight
        >>> round(found.foresight, 3), round(found.hindsight, 3), round(found.foreseeable, 3)
        (26.722, 0.0, 37.0)
        """
        from tether.evaluation.hindsight import hindsight_of

        return hindsight_of(self, self.fair)

    @cached_property
    def changes(self) -> AdvisedChanges:
        """Each change that the plan advises, with ``better_at_the_time``: whether the model alone expected more of it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1)
        >>> [(one.t, one.action, one.better_at_the_time) for one in plan.changes]
        [(5, 'V_I', True)]
        """
        from tether.evaluation.hindsight import advised_changes

        return advised_changes(self)

    @cached_property
    def simple(self) -> FixedSequence:
        """The best fixed sequence of actions within the same limits, and how many others come close; all are tried.

        An error if there are too many to try.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> found = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=1).simple
        >>> list(found.changes), found.is_as_good
        ([2], True)
        """
        from tether.evaluation.fixed_sequences import fixed_sequence

        return fixed_sequence(self)

    def shares(self) -> Shares:
        """What each changed step adds to the gain: Shapley's shares, exact, for up to 12 changed steps.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> print(tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=2).shares())
        Of the gain of 2,868, 2,569 come from step 2, 299.1 from step 3.
        """
        from tether.evaluation.shares import shares

        return shares(self)

    def sample(self, n: int = 5, rng: Any = 0) -> Trajectories:
        """Draw ``n`` counterfactual trajectories under the plan; the same ones each time, by default.

        Parameters
        ----------
        n : int
        rng : int or numpy Generator
            The same seed gives the same trajectories; None gives others each time. It is also the same noise as for
            `CounterfactualMDP.sample` with that seed.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).sample(100)
        <Trajectories: 100 of 7 steps, mean return -12.27>
        """
        from tether.evaluation.trajectories import sample_chain

        return sample_chain(self.asked, self.chain, n, rng)

    def plot(self, what: Any = "replay", ax: Axes | None = None) -> Axes:
        """Draw the plan beside what happened; returns the axes.

        By default the replay: solid while it is about this episode, dashed where it is about anyone. Otherwise ``what``
        is "return" (so far), "influence" (of the observation), or a feature of the states as `Evaluation.feature` takes
        it: a name of a field, a function of the name, or a mapping.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1)
        >>> plan.plot().get_title("left")
        'The replay is about this episode up to step 5; after that, about anyone'
        >>> plan.plot("I").get_ylabel()
        'I'
        """
        from tether.views.figures import plot_plan

        return plot_plan(self, what, ax)

    def report(
        self,
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
        nouns: Nouns | None = None,
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
            nouns=nouns,
        )

    def _repr_html_(self) -> str:
        rows = [
            ("k, m", f"{self.k}, {self.m}"),
            ("rule, influence", f"{self.rule}, {self.influence}"),
            (value_name(self.objective), number(self.value)),
            ("observed", number(self.observed_value)),
            ("gain", number(self.gain)),
        ]
        counts = self.cf.mdp.counts
        if counts is not None:
            rows.append(
                ("model", f"learned, from {counted(counts.episodes, 'episode') if counts.episodes else 'a log'}")
            )
        if sum(layer.size for layer in self.nodes) > LARGE:  # sentences and picture would take too long
            return facts(rows)
        from tether.views.report.drawings import draw_replay

        explanation = self.explain(draws=0)
        picture = draw_replay(explanation.replay(str), f"plan{id(self)}")
        return paragraphs(explanation.verdicts(str).lines) + shown_here(picture.caption, picture.svg) + facts(rows)
