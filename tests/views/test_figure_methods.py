"""Plans, sweeps and counterfactual MDPs draw themselves: what is drawn, where, and that axes come back."""

import numpy as np
import pytest
from drawings import legend
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tether
from tether.views import figures as plot


@pytest.fixture(scope="module")
def plan(epidemic):
    return epidemic.plan(7, 4)


def test_every_method_draws_where_it_is_told(epidemic, plan):
    methods = [
        lambda ax: plan.plot(ax=ax),
        lambda ax: plan.plot("I", ax),
        lambda ax: plan.plot("influence", ax),
        lambda ax: epidemic.sweep().plot(ax=ax),
        lambda ax: epidemic.sweep().plot(m=2, ax=ax),
        lambda ax: epidemic.plot(3, ax=ax),
    ]
    for method in methods:
        ax = Figure().add_subplot()
        assert method(ax) is ax
        own = method(None)
        assert isinstance(own, Axes)
        own.figure.canvas.draw()


def test_the_return_so_far_beside_the_observed_one(plan):
    ax = plan.plot("return")
    observed, expected = (line.get_ydata() for line in ax.lines[:2])
    assert legend(ax) == ["observed", "plan, k = 7, m = 4"]
    # Minus the infected, summed over the observed path: 1, 2, 3, 6, 8, 9, 9.
    assert observed.tolist() == [0, -1, -3, -6, -12, -20, -29, -38]
    np.testing.assert_array_equal(expected, plan.evaluate().returns.mean)


def test_a_feature_beside_the_observed_one(plan):
    for feature in ("I", lambda state: state.I, {state: state.I for state in plan.cf.mdp.states}):
        ax = plan.plot(feature)
        assert ax.lines[0].get_ydata().tolist() == [state.I for state in plan.cf.path.states]
        np.testing.assert_allclose(ax.lines[1].get_ydata(), plan.evaluate().feature("I").mean)
    assert plan.plot("I").get_ylabel() == "I"


def test_a_feature_named_like_a_drawing_goes_by_a_function():
    mdp = tether.MDP.from_table([3], ["a"], [3], [1.0])
    ax = tether.counterfactual(mdp, tether.Path([3, 3], ["a"])).plan(1, 0).plot(lambda label: label)
    assert ax.lines[0].get_ydata().tolist() == [3, 3]


def test_influence(plan):
    tailoring = plan.evaluate().tailoring
    ax = plan.plot("influence")
    assert [bar.get_height() for bar in ax.containers[0]] == tailoring.influenced.tolist()


def test_an_outcome_that_was_not_recorded_is_not_drawn():
    case = tether.cases.epidemic()
    cut = tether.Path(case.path.states[:-1], case.path.actions)
    ax = tether.counterfactual(case.mdp, cut).plan(3, 1).plot("I")
    assert ax.lines[0].get_ydata().size == 7
    assert ax.lines[1].get_ydata().size == 8


def test_a_feature_that_is_no_number_says_so():
    case = tether.cases.sepsis()
    mdp = tether.MDP.from_table(case.mdp.states[:2], ["a", "a"], case.mdp.states[:2], [1.0, 1.0])
    states = [case.mdp.states[0]] * 2
    plan = tether.counterfactual(mdp, tether.Path(states, ["a"])).plan(1, 0)
    with pytest.raises(tether.QueryError, match="is 'low', not a finite number"):
        plan.plot("heart_rate")


def test_a_table_is_shaded_and_one_column_is_a_curve(epidemic):
    table = epidemic.sweep()
    assert len(table.plot().texts) == table.values.size
    ax = table.plot(m=2)
    assert legend(ax)[-1].startswith("k = 7: value −19.58")  # 90 % of what k = 7 gives, only k = 7 gives
    assert legend(epidemic.sweep().plot(m=0)) == ["best value, m = 0", "no tether", "observed", "lost to the tether"]


@pytest.mark.parametrize("m", ["2", 1.5, True])
def test_an_m_that_is_none(epidemic, m):
    with pytest.raises(tether.QueryError, match="m must be a whole number, or None"):
        epidemic.sweep().plot(m=m)


def test_classes_are_those_of_the_function():
    toy = tether.cases.toy()
    cf = tether.counterfactual(toy.mdp, toy.path)
    mine = cf.plot(2, rule="published", rollout="counterfactual", label=str.upper)
    theirs = plot.plot_classes(cf, 2, rule="published", rollout="counterfactual", label=str.upper)
    assert [patch.get_label() for patch in mine.patches] == [patch.get_label() for patch in theirs.patches]
    assert mine.texts[0].get_text() == theirs.texts[0].get_text()
