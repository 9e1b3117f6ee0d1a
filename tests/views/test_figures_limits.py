"""Figures over k and m: values, sizes, the shaded table, trade-offs; what is drawn, not how it looks."""

import dataclasses

import numpy as np
import pytest
from drawings import VALUE, K, M, drawn, is_hollow, legend, line, nearest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tether
from tether.figures.series import Series, fit_limits, merge, slots
from tether.views import figures as plot

# values against m


def test_values_are_drawn_as_they_are(epidemic_table):
    ax = plot.plot_values(epidemic_table)
    assert isinstance(ax, Axes)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (M, VALUE)
    assert legend(ax) == ["k = 8", "k = 7", "k = 6", "k = 5", "k = 4", "k = 3", "k = 1, 2", "observed"]
    np.testing.assert_array_equal(line(ax, "k = 7").get_ydata(), epidemic_table.values[6, 1:])
    np.testing.assert_array_equal(line(ax, "k = 7").get_xdata(), np.arange(1, 8))
    assert set(line(ax, "observed").get_ydata()) == {-38.0}
    drawn(ax)


def test_rows_that_coincide_are_one_curve(grid):
    ax = plot.plot_values(grid.sweep(rule="published"))
    assert legend(ax) == ["k = 7 … 12", "k = 1 … 6", "observed"]
    assert len(ax.lines) == 3


def test_published_values_are_hollow_marks_over_ours(grid):
    table = grid.sweep(rule="published")
    published = {k: [-897.0] * 12 for k in range(1, 7)} | {k: np.linspace(-12, 541, 12) for k in range(7, 13)}
    ax = plot.plot_values(table, published)
    hollow = [one for one in ax.lines if is_hollow(one)]
    assert len(hollow) == 2  # one for each curve, not for each k
    np.testing.assert_array_equal(hollow[0].get_ydata(), published[7][:11])  # m = 12 is beyond T
    np.testing.assert_array_equal(hollow[0].get_xdata(), line(ax, "k = 7 … 12").get_xdata())
    assert hollow[0].get_color() != hollow[1].get_color() or hollow[0].get_marker() != hollow[1].get_marker()
    assert legend(ax)[-2:] == ["filled: exact", "hollow: published"]


def test_published_values_of_other_limits_are_left_out(epidemic):
    table = epidemic.sweep(ks=[3, 4], ms=[2, 3])
    ax = plot.plot_values(table, {3: [-37.1], 4: [-35.2, -34.2, -34.2, -34.2], 7: [-28.0]})
    rows = [one.get_ydata() for one in ax.lines if is_hollow(one)]
    assert len(rows) == 2
    np.testing.assert_array_equal(rows[0], [-34.2, -34.2])
    assert np.isnan(rows[1]).all()


def test_published_values_that_disagree_within_a_curve_are_all_shown(grid):
    """The paper's code first improves at k = 7, the definition at 6: both rows go with the curve k = 6 … 12."""
    published = {6: [-897.0] * 11, 7: [0.0] * 11, 8: [0.0] * 11}
    ax = plot.plot_values(grid.sweep(), published)
    assert sorted(one.get_ydata()[0] for one in ax.lines if is_hollow(one)) == [-897.0, 0.0]


def test_many_curves_are_told_apart_by_colour(grid):
    table = grid.sweep()
    values = np.add.outer(np.arange(12.0), np.arange(12.0))
    values[1] = values[0]
    ax = plot.plot_values(dataclasses.replace(table, values=values))
    assert len(ax.lines) == 11 + 1
    assert legend(ax) == ["observed"]
    assert (
        len({one.get_color() if isinstance(one.get_color(), str) else tuple(one.get_color()) for one in ax.lines}) == 12
    )
    assert drawn(ax).axes[1].get_ylabel() == K


def test_there_is_no_curve_without_changes(epidemic):
    with pytest.raises(tether.QueryError, match="m = 0"):
        plot.plot_values(epidemic.sweep(ms=[0]))


# marks that would collide


def test_no_two_marks_overlap(epidemic_table):
    """k = 1, 2 and k = 3 are 0.9 apart on an axis of 37: they stand side by side."""
    published = {int(k): row[1:] for k, row in zip(epidemic_table.ks, epidemic_table.values, strict=True)}
    for ax, width in ((plot.plot_values(epidemic_table), 4.5), (plot.plot_values(epidemic_table, published), 7.5)):
        drawn(ax)
        marks = [one for one in ax.lines if one.get_label().startswith("k")]
        for i, a in enumerate(marks):
            for b in marks[:i]:
                assert nearest(ax, a, b) > width


def test_marks_stay_on_their_place_where_there_is_room(epidemic_table):
    ax = plot.plot_values(epidemic_table)
    assert np.array_equal(line(ax, "k = 8").get_xdata(), np.arange(1, 8))
    beside = line(ax, "k = 3").get_xdata() - np.arange(1, 8)
    assert np.allclose(beside, beside[0])
    assert 0 < abs(beside[0]) < 0.4


def test_slots_of_a_crowd_stay_within_their_step():
    ax = Figure().add_subplot()
    crowd = [Series(str(i), np.arange(3.0), np.zeros(3)) for i in range(9)]
    fit_limits(ax, crowd)
    offsets = slots(ax, crowd, 5.0)
    assert len(set(offsets.round(9))) == 9
    assert np.abs(offsets).max() <= 0.4
    assert np.isclose(offsets.sum(), 0)


def test_only_what_coincides_is_merged():
    x = np.arange(3.0)
    rows = [x, x + 1e-13, x + 1e-3, np.arange(4.0)]
    merged = merge([Series(str(i), np.arange(float(row.size)), row) for i, row in enumerate(rows)], "+".join)
    assert [one.label for one in merged] == ["0+1", "2", "3"]


# sizes


def test_sizes_are_logarithmic_only_where_they_must_be(epidemic_table):
    ks, sizes = epidemic_table.ks, epidemic_table.sizes
    ax = plot.plot_sizes({"ours": (ks, sizes)})
    assert (ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("linear", K, "size (states over time)")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), sizes)
    ax = plot.plot_sizes({"ours": (ks, sizes), "theirs": ([1, 8], [8, 19355])})
    assert ax.get_yscale() == "log"
    assert legend(ax) == ["ours", "theirs"]
    drawn(ax)


def test_sizes_that_coincide_are_one_series(epidemic_table):
    ks, sizes = epidemic_table.ks, epidemic_table.sizes
    ax = plot.plot_sizes({"a": (ks, sizes), "b": (ks, sizes), "c": (ks, sizes + 50)})
    assert legend(ax) == ["a = b", "c"]
    assert len(ax.lines) == 2


def test_sizes_of_nothing_on_a_logarithmic_scale():
    ax = plot.plot_sizes({"a": ([1, 2, 3], [0, 1, 1000])})
    assert ax.get_ylim()[0] > 0
    drawn(ax)


@pytest.mark.parametrize("series", [{}, {"a": ([1, 2], [3])}, {"a": ([], [])}])
def test_sizes_need_numbers(series):
    with pytest.raises(tether.QueryError):
        plot.plot_sizes(series)


# the shaded table


def test_the_table_is_shaded(epidemic_table):
    ax = plot.plot_heat(epidemic_table)
    shown = ax.collections[0].get_array()
    np.testing.assert_array_equal(shown.data, epidemic_table.values)
    np.testing.assert_array_equal(shown.mask, epidemic_table.values == -38.0)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (M, K)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [str(m) for m in range(8)]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [str(k) for k in range(1, 9)]
    assert ax.yaxis_inverted()
    texts = np.array([text.get_text() for text in ax.texts]).reshape(8, 8)
    assert texts[6, 1] == "−27.83"
    assert drawn(ax).axes[1].get_ylabel() == "value; plain: as observed"


def test_numbers_fit_their_cells(epidemic_table, grid):
    for table in (epidemic_table, grid.sweep()):
        ax = plot.plot_heat(table)
        drawn(ax)
        assert len(ax.texts) == table.values.size
        cell = ax.transData.transform((1, 0))[0] - ax.transData.transform((0, 0))[0]
        assert all(text.get_window_extent().width < cell for text in ax.texts)
        assert all(text.get_fontsize() >= 8 for text in ax.texts)


def test_numbers_are_left_out_where_they_do_not_fit(epidemic_table, walk):
    assert not plot.plot_heat(walk.sweep()).texts
    assert not plot.plot_heat(epidemic_table, ax=Figure(figsize=(1.5, 1.5)).add_subplot()).texts


def test_a_table_without_gain_is_plain(toy):
    ax = plot.plot_heat(toy.sweep())
    assert ax.collections[0].get_array().mask.all()
    assert {text.get_text() for text in ax.texts} == {"0.00"}
    assert len(drawn(ax).axes) == 1  # no colour, no colour bar


def test_a_large_table_has_no_lines_between_its_cells(epidemic_table):
    """160 × 160: lines around cells of two points would be all there is to see. Few cells keep theirs."""
    few = plot.plot_heat(epidemic_table).collections[0]
    assert few.get_linewidth()[0] > 0
    assert not few.get_rasterized()
    n = np.arange(160)
    many = dataclasses.replace(epidemic_table, ks=n + 1, ms=n, values=np.add.outer(n, n) / 10.0)
    mesh = plot.plot_heat(many).collections[0]
    assert mesh.get_linewidth()[0] == 0
    assert not len(mesh.get_edgecolor())
    assert mesh.get_rasterized()  # 25,600 shapes would be a file of megabytes


# trade-offs


def test_the_front_is_its_points(grid):
    front = grid.pareto(m=6)
    ax = plot.plot_pareto(front)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("expected strength, summed over the 11 steps", VALUE)
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.column_stack((front.measures, front.values)))
    assert legend(ax) == ["supported policies, and mixtures of them", "no better than these"]
    drawn(ax)


def test_a_front_of_one_point(toy):
    front = toy.pareto(m=0)
    assert len(front.points) == 1
    drawn(plot.plot_pareto(front))


def test_what_each_k_loses(epidemic_table):
    ax = plot.plot_lost(epidemic_table, m=2, suggested=6)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (K, "expected return")
    stairs = [patch for patch in ax.patches if patch.get_label() == "best value, m = 2"]
    np.testing.assert_allclose(stairs[0].get_data().values, epidemic_table.values[:, 2])
    (lost,) = [patch for patch in ax.patches if patch.get_label() == "lost to the tether"]
    values, _, free = lost.get_data()
    np.testing.assert_allclose(free - values, epidemic_table.lost(2))
    assert set(line(ax, "no tether").get_ydata()) == {-1.0}
    assert legend(ax)[-1] == "k = 6: value −26.08, 25.08 lost"
    (ring,) = [one for one in ax.lines if is_hollow(one)]
    np.testing.assert_allclose(ring.get_xydata(), [[6, epidemic_table.value(6, 2)]])
    assert drawn(ax).axes == [ax]  # one axis: what is lost is the area between two lines
    assert ax.child_axes == []


def test_what_each_k_loses_where_less_is_better():
    """The same numbers as where more is better, upside down."""
    case = tether.cases.grid_world()
    path = tether.Path([0, 4, 8, 12, 13, 14, 15], ["down"] * 3 + ["right"] * 3)
    table = tether.counterfactual(case.mdp, path).sweep(minimise=True)
    assert table.values[0, 1] > table.values[-1, 1]
    ax = plot.plot_lost(table, m=1, suggested=2)
    (stairs,) = [patch for patch in ax.patches if patch.get_label() == "best value, m = 1"]
    np.testing.assert_allclose(stairs.get_data().values, table.values[:, 1])
    assert legend(ax)[-1] == f"k = 2: value {table.value(2, 1):.4g}, {table.value(2, 1) - table.value(7, 1):.4g} lost"
    (lost,) = [patch for patch in ax.patches if patch.get_label() == "lost to the tether"]
    values, _, free = lost.get_data()
    np.testing.assert_allclose(values - free, table.values[:, 1] - table.value(7, 1))


def test_a_loss_without_suggestion(epidemic, epidemic_table):
    assert len(legend(plot.plot_lost(epidemic_table, m=2))) == 4
    backwards = epidemic.sweep(ks=[8, 3, 1])
    np.testing.assert_array_equal(plot.plot_lost(backwards, m=2).lines[-1].get_xdata(), [1, 3, 8])
    with pytest.raises(tether.QueryError, match="k = 9"):
        plot.plot_lost(epidemic_table, m=2, suggested=9)
    with pytest.raises(tether.QueryError, match="k = 8"):
        plot.plot_lost(epidemic.sweep(ks=[1, 2]), m=2)


def test_lines_and_what_they_are_compared_to():
    values = [0.0, 0.0, -11.95]
    ax = plot.plot_lines([1, 2, 3], values, {"known": 0.0, "hidden": -13.33, "best": 0.0}, ylabel="average return")
    assert (ax.get_xlabel(), ax.get_ylabel()) == (K, "average return")
    assert legend(ax) == ["policy made for each k", "known = best", "hidden"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), values)
    assert set(line(ax, "hidden").get_ydata()) == {-13.33}
    drawn(ax)
    with pytest.raises(tether.QueryError, match="3 k and 2 values"):
        plot.plot_lines([1, 2, 3], [0, 0], {})
