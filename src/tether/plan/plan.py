"""The best policy for one k and m."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.checks import whole_number
from tether._foundation.markup import facts
from tether._foundation.words import counted
from tether._kernels.parallel import LARGE
from tether.counterfactual.conditioned import CounterfactualMDP
from tether.counterfactual.layers import Graph
from tether.influence.nodes import Nodes
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property
from tether.observation.changes import is_change
from tether.plan.chain import Chain, Taken, Visits, graph_chain
from tether.plan.objective import asked, objective_name, value_name

if TYPE_CHECKING:
    import datetime
    import os
    import pathlib

    import pandas
    import pyarrow
    from matplotlib.axes import Axes

    from tether.evaluation.certificate import Certificate
    from tether.evaluation.evaluate import Evaluation, Trajectories
    from tether.evaluation.shares import Shares
    from tether.explanation.explain import Explanation
    from tether.learning.uncertainty import PlanUncertainty
    from tether.plan.constrained import Constraint
    from tether.plan.sweep import Sweep
    from tether.plan.tethered import Tethered

__all__ = ["Plan"]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The best policy for one k and m.

    Attributes
    ----------
    value : float
        Expected return from s_0, exactly; or the probability that the property holds, if one was asked for.
    observed_value : float
        Return of the observed path, by the model's rewards; ``logged_return`` is that by its own. Of a property 1 if it
        held, else 0.
    k, m : int
        The limits it keeps to (m at most T, k at most T + 1).
    rule, influence
        What "allowed" means.
    price : float
        What the plan was ready to give away for influence (`CounterfactualMDP.pareto`); 0 for the best plan.
    is_best : bool
        Whether it is the best plan for its k and m, as `CounterfactualMDP.plan` gives it. Such a plan is pickled as its
        question (the model, or its place on disk; the episode; k, m, rule, influence, objective) and made again when it
        is read.
    objective : Property or None
        The property that was asked for, in place of the return. The plan ends where it is decided.
    minimise : bool
        Whether the smallest value was asked for.
    constraint : Constraint or None
        The limit it keeps to, if one was asked for (``subject_to``).

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
    k: int
    m: int
    rule: Rule
    influence: Influence
    value: float
    observed_value: float
    nodes: tuple[Nodes, ...]
    choices: tuple[Ints, ...]
    influenced: tuple[Ints, ...]
    price: float = 0.0
    is_best: bool = False
    objective: Property | None = None
    minimise: bool = False
    constraint: Constraint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # As the question it answers: what it visits and does there is as large as what s_0 reaches.
        if self.is_best:
            about = self.rule, self.influence, self.objective, self.minimise
            return _asked_again, (self.cf, self.k, self.m, *about, self.value)
        return type(self), tuple(getattr(self, one.name) for one in fields(self))

    @property
    def gain(self) -> float:
        """What is gained over the observed path: how much larger the value is, or smaller, if that was asked for."""
        return self.observed_value - self.value if self.minimise else self.value - self.observed_value

    @property
    def question(self) -> Tethered:
        """The question that the plan answers, for any k and m."""
        return self.cf.tether(self.rule, self.influence, objective=self.objective, minimise=self.minimise)

    @property
    def asked(self) -> CounterfactualMDP:
        """The counterfactual MDP whose returns are what was asked for (`tether.plan.objective`)."""
        return asked(self.cf, self.objective)

    @property
    def logged_return(self) -> float | None:
        """Return of the observed path by its own rewards; None for a path without any. See `tether.Earned`."""
        earned = self.cf.earned
        return None if earned is None else earned.logged

    @property
    def T(self) -> int:
        """Number of steps."""
        return self.cf.T

    def action(self, t: int, state: Any, changes_left: int, uninfluenced: int = 0) -> Any:
        """What to do at step ``t`` in ``state`` with so many changes left.

        ``uninfluenced`` is the number of uninfluenced steps just passed; only the rule `assured` looks at it.
        None where no allowed action keeps the promise, or the plan never gets there; and where the property that was
        asked for is decided: the plan ends there.
        """
        t, s = self.cf.time(t), self.cf.mdp.state_index(state)
        changes_left = whole_number("changes_left", changes_left, 0)
        run = whole_number("uninfluenced", uninfluenced, 0) if self.rule == "assured" else 0
        ended = self.asked.graph.ended
        node = self.chain.visits[t].find(s, changes_left, run)
        if node < 0 or (ended is not None and ended.mask[s]):
            return None
        pair = int(self.chain.taken[t].pairs[node])
        return self.cf.mdp.actions[int(self.cf.mdp.form.pair_action[pair])]

    @cached_property
    def chain(self) -> Chain:
        """All that the plan can visit, from s_0 with m changes left."""
        return self.chain_for(self.asked.graph)

    def chain_for(self, graph: Graph) -> Chain:
        """All that the plan can visit in a graph whose nodes it knows, from s_0 with m changes left."""
        start = Visits(*(np.array([value]) for value in (int(graph.observation.states[0]), self.m, 0)))
        return graph_chain(graph, start, self._decide)

    def _decide(self, t: int, visits: Visits) -> Taken:
        form, nodes, choice = self.cf.mdp.form, self.nodes[t], self.choices[t]
        if nodes.runs is None:
            node = np.searchsorted(nodes.states, visits.states)
        else:
            width = self.T + 2
            keys = nodes.states.astype(np.int64) * width + nodes.runs
            node = np.searchsorted(keys, visits.states * width + visits.runs)
        local = choice[node, np.minimum(visits.changes, choice.shape[1] - 1)]
        pairs = form.pair_start[visits.states] + local
        changed = is_change(form, visits.states, pairs, int(self.cf.observation.actions[t]))
        onward = np.zeros(visits.size, np.int64)
        if self.rule == "assured":
            onward = np.where(np.isin(pairs, self.influenced[t]), 0, visits.runs + 1)
        return Taken(np.arange(visits.size), pairs, np.ones(visits.size), visits.changes - changed, onward)

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
            Names the states as they are to be shown, and takes those of one name together: a function of the label.
        certificate : bool
            Whether the sentences tell what holds whatever the causal model is.
        draws : int, optional
            Of a learned model: in how many models that its log leaves possible the plan is looked at, to tell how sure
            the answer is; 0 for none. By default 100, fewer of models with more than 200,000 transitions.
        rng : int or numpy Generator
            For the draws: the same seed gives the same models.
        progress : callable, optional
            ``progress(done, draws)`` is called after each draw.
        """
        from tether.explanation.explain import explain

        return explain(self, group, certificate=certificate, draws=draws, rng=rng, progress=progress)

    def uncertainty(
        self, draws: int = 200, *, rng: Any = None, progress: Callable[[int, int], None] | None = None
    ) -> PlanUncertainty:
        """How sure the plan is where the model was learned: the same as ``tether.posterior(mdp, draws).of(plan)``.

        Examples
        --------
        >>> import tether
        >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
        >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
        >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
        >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
        >>> plan.uncertainty(rng=1).probability_better
        1.0
        """
        from tether.learning.posterior import posterior

        return posterior(self.cf.mdp, draws, rng=rng).of(self, progress)

    def sweep(self, ks: Iterable[int] | None = None, ms: Iterable[int] | None = None) -> Sweep:
        """Values of plans of the same kind for every k and m, or for those asked for.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).sweep(ks=[8], ms=[1]).values
        array([[-1.]])
        """
        return self.question.sweep(ks=ks, ms=ms)

    def certify(self) -> Certificate:
        """What holds of the plan whatever the causal model is: its range under every model, and under every stable one.

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

    def shares(self) -> Shares:
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

    def sample(self, n: int = 1, rng: Any = None) -> Trajectories:
        """Draw ``n`` counterfactual trajectories under the plan."""
        from tether.evaluation.evaluate import sample_plan

        return sample_plan(self, n, rng)

    def to_arrow(self) -> pyarrow.Table:
        """All that the plan can visit, as an Arrow table; ``.to_pandas()`` makes a dataframe of it.

        One row per node, t = 0 … T: t, state, changes_left (and, for the rule `assured`, the uninfluenced steps just
        passed), the probability of visiting it; and what the plan does there: action, observed_action, changed,
        influenced, strength, all empty at T.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).to_arrow()
        >>> table.num_rows, table.slice(1, 1).select(["t", "state", "changes_left", "action"]).to_pylist()
        (32, [{'t': 1, 'state': {'S': 8, 'I': 2, 'V': 20}, 'changes_left': 4, 'action': 'V_I'}])
        """
        from tether.explanation.arrow import plan_table

        return plan_table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas table; pandas must be installed."""
        from tether.explanation.arrow import as_pandas

        return as_pandas(self.to_arrow())

    def plot(self, what: Any = "return", ax: Axes | None = None) -> Axes:
        """Draw the plan over time, beside what was observed; returns the axes.

        ``what`` is "return" (so far), "influence" (of the observation), or a feature of the states as
        `Evaluation.feature` takes it: a name of a field, a function of the label, or a mapping.

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

    def _repr_html_(self) -> str:
        rows = [
            ("k, m", f"{self.k}, {self.m}"),
            ("rule, influence", f"{self.rule}, {self.influence}"),
            (value_name(self.objective), f"{self.value:.6g}"),
            ("observed", f"{self.observed_value:.6g}"),
            ("gain", f"{self.gain:.6g}"),
        ]
        counts = self.cf.mdp.counts
        if counts is not None:
            rows.append(
                ("model", f"learned, from {counted(counts.episodes, 'episode') if counts.episodes else 'a log'}")
            )
        if sum(layer.size for layer in self.nodes) <= LARGE:  # else it would take a while
            rows.append(("plan", self.explain(certificate=False, draws=0).sentences(str)[0]))
        return facts(rows)

    def __repr__(self) -> str:
        about = objective_name(self.objective, self.minimise)
        return (
            f"<Plan: k = {self.k}, m = {self.m}, {self.rule}, {self.influence}: "
            f"{'value' if self.objective is None else 'probability'} {self.value:.4g}, "
            f"observed {self.observed_value:.4g}{', ' if about else ''}{about}>"
        )


def _asked_again(
    cf: CounterfactualMDP,
    k: int,
    m: int,
    rule: Rule,
    influence: Influence,
    objective: Property | None,
    minimise: bool,
    value: float,
) -> Plan:
    """A plan from a pickle. Its value is the one it had, whatever the kernels of this machine round."""
    question = cf.tether(rule, influence, objective=objective, minimise=minimise)
    return replace(question.plan(k, m), value=value)
