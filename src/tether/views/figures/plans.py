"""The figures of ``plan.plot()`` and ``table.plot()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether._foundation.words import shown
from tether.evaluation.evaluate import Evaluation, evaluate_plan, evaluate_policy
from tether.explanation.explain import explain
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep
from tether.views.figures.course_figure import plot_course, plot_tailoring
from tether.views.figures.replay_figure import plot_replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_plan(plan: PlanRecord, what: Any = "replay", ax: Axes | None = None) -> Axes:
    """A plan over time, beside what was observed.

    Parameters
    ----------
    plan : Plan
    what : "replay", "return", "influence", or a feature of the states
        The replay, solid while it is about this episode (`plot_replay`); the return so far; how much of each step is
        still about the observed episode; or a feature as
        `Evaluation.feature` takes it.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_plan
    >>> case = tether.cases.epidemic()
    >>> ax = plot_plan(tether.counterfactual(case.mdp, case.path).plan(k=7, m=4), "I")
    >>> [text.get_text() for text in ax.get_legend().get_texts()], ax.get_ylabel()
    (['observed', 'plan, k = 7, m = 4'], 'I')
    """
    if isinstance(what, str) and what == "replay":
        return plot_replay(explain(plan, certificate=False, draws=0).replay(shown), ax)
    outlook, name = evaluate_plan(plan), f"plan, k = {plan.k}, m = {plan.m}"
    if isinstance(what, str) and what == "influence":
        return plot_tailoring({name: outlook}, ax)
    seen = _as_observed(plan)
    recorded = plan.T + int(plan.cf.path.last_recorded)
    if isinstance(what, str) and what == "return":
        so_far = "return so far" if plan.objective is None else f"chance that {plan.objective.in_words}, so far"
        return plot_course({name: outlook.returns}, ax, so_far, seen.returns.mean)
    named = what if isinstance(what, str) else "feature, mean and standard deviation"
    return plot_course({name: outlook.feature(what)}, ax, named, seen.feature(what).mean[:recorded])


def _as_observed(plan: PlanRecord) -> Evaluation:
    """The observed episode, evaluated like a plan: with its own luck, the observed states happen again."""
    actions = plan.cf.path.actions
    return evaluate_policy(plan.asked, lambda t, _state: actions[t])


def plot_sweep(table: Sweep, m: int | None = None, ax: Axes | None = None) -> Axes:
    """The k × m table, shaded; or for one m the value against k, with the shortest tether that is enough.

    Parameters
    ----------
    table : Sweep
    m : int, optional
        One number of changes; the sweep must then contain it, and k = T + 1.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_sweep
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> plot_sweep(table).get_xlabel(), plot_sweep(table, m=4).get_xlabel()
    ('actions that may change, m', 'length of the tether k (steps)')
    """
    return table.plot(m, ax)
