"""Figures: records in, Matplotlib axes out.

Every function takes library records or plain numbers, draws into ``ax`` or into a figure of its own, and returns the
axes. Matplotlib is imported when something is drawn, never `pyplot`: no window, no backend, no global state. Values for
every k and m are in `value_curves`, quantities over time in `course_figure`, the layered graph in `classes_figure`, the
motivating picture in `occupancy`, outcomes over time in `outcomes_figure`, decisions in `decisions_figure`, the gains
of a log in `gains`, rules in `rule_bars`, means over any number in `curves`, sets of causal models in
`guarantees_figure`, mistake or luck in `waterfall`, the figures of ``plan.plot()`` and ``table.plot()`` in `plans`;
`style` is the common style.

>>> import tether
>>> case = tether.cases.epidemic()
>>> ax = tether.views.figures.plot_values(tether.counterfactual(case.mdp, case.path).sweep())
>>> ax.get_xlabel()
'actions that may change, m'
"""

from tether.figures.decisions_figure import plot_decisions, plot_shares
from tether.figures.gains import plot_gains, plot_ranked_gains
from tether.figures.heat import plot_heat
from tether.figures.occupancy import plot_occupancy
from tether.figures.outcomes_figure import plot_outcomes
from tether.figures.output import inline_svg, save
from tether.figures.rule_bars import plot_rules
from tether.figures.style import forget, styled
from tether.figures.tradeoffs import plot_lines, plot_lost, plot_pareto
from tether.figures.types_figure import plot_types
from tether.figures.value_curves import plot_curves, plot_sizes, plot_values
from tether.figures.waterfall import bars_of_review, plot_review, review_in_text
from tether.views.figures.classes_figure import is_graph, plot_classes
from tether.views.figures.course_figure import plot_band, plot_course, plot_strip, plot_tailoring
from tether.views.figures.guarantees_figure import plot_certificate, plot_guarantees, plot_tails
from tether.views.figures.plans import plot_plan, plot_sweep
from tether.views.figures.replay_figure import plot_replay

__all__ = [
    "bars_of_review",
    "forget",
    "inline_svg",
    "is_graph",
    "plot_band",
    "plot_certificate",
    "plot_classes",
    "plot_course",
    "plot_curves",
    "plot_decisions",
    "plot_gains",
    "plot_guarantees",
    "plot_heat",
    "plot_lines",
    "plot_lost",
    "plot_occupancy",
    "plot_outcomes",
    "plot_pareto",
    "plot_plan",
    "plot_ranked_gains",
    "plot_replay",
    "plot_review",
    "plot_rules",
    "plot_shares",
    "plot_sizes",
    "plot_strip",
    "plot_sweep",
    "plot_tailoring",
    "plot_tails",
    "plot_types",
    "plot_values",
    "review_in_text",
    "save",
    "styled",
]
