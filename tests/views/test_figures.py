"""The figures: what is drawn, not how it looks. Warnings are errors here too."""

import dataclasses
import os
import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch

import tether
from tether.views import figures as plot
from tether.views.figures.layered import arrange_layers
from tether.views.figures.series import Series, fit_limits, merge, slots

K, M, T_ = "length of the tether k (steps)", "actions that may change, m", "time t (steps)"
VALUE = "value of the initial state"


def replayed(name):
    case = getattr(tether.cases, name)()
    return tether.counterfactual(case.mdp, case.path)


@pytest.fixture(scope="module")
def toy():
    return replayed("toy")


@pytest.fixture(scope="module")
def epidemic():
    return replayed("epidemic")


@pytest.fixture(scope="module")
def epidemic_table(epidemic):
    return epidemic.sweep()


@pytest.fixture(scope="module")
def grid():
    return replayed("grid_world")


@pytest.fixture(scope="module")
def walk():
    """A walk over 20 places for 20 steps: too long for bars and numbers."""
    rng = np.random.default_rng(1)
    probability = np.zeros((20, 3, 20))
    for s in range(20):
        for a in range(3):
            np.add.at(probability[s, a], np.clip(s + a - 1 + np.array([-1, 0, 1]), 0, 19), [0.2, 0.5, 0.3])
    mdp = tether.MDP.from_arrays(probability, rng.normal(size=(20, 3)))
    states = [10]
    for _ in range(20):
        states.append(int(rng.choice(20, p=probability[states[-1], 0])))
    return tether.counterfactual(mdp, tether.Path(states, [0] * 20))


@pytest.fixture(scope="module")
def clinic():
    """The model of the README: names too long for circles, several actions between the same states."""
    mdp = tether.MDP.from_table(
        ["sick", "sick", "sick", "sick", "worse", "worse", "worse", "worse"],
        ["wait", "wait", "treat", "treat", "wait", "treat", "treat", "treat"],
        ["sick", "worse", "well", "worse", "dead", "sick", "worse", "dead"],
        [0.3, 0.7, 0.6, 0.4, 1.0, 0.3, 0.4, 0.3],
        terminal=["well", "dead"],
    )
    return tether.counterfactual(mdp, tether.Path(["sick", "worse", "dead"], ["wait", "wait"]))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


def is_hollow(one):
    return one.get_markerfacecolor() == "none"


def drawn(ax):
    """Draw it for real: what is laid out and rendered must not warn either."""
    figure = ax.figure.figure
    figure.draw_without_rendering()
    return figure


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


def nearest(ax, a, b):
    """The least distance in points between marks of two lines, as they come out on paper; draw it first."""
    here, there = (ax.transData.transform(one.get_xydata()) * 72 / ax.figure.dpi for one in (a, b))
    return np.sqrt(((here[:, None] - there[None]) ** 2).sum(-1)).min()


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


# over time


@pytest.fixture(scope="module")
def infected(epidemic):
    return {f"k = {k}, m = {m}": epidemic.plan(k, m).evaluate().feature("I") for k, m in ((3, 1), (7, 4))}


def test_a_course_is_its_mean_and_spread(infected):
    seen = [1, 2, 3, 6, 8, 9, 9, 9]
    ax = plot.plot_course(infected, ylabel="infected (people)", observed=seen)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (T_, "infected (people)")
    assert legend(ax) == ["observed", "k = 3, m = 1", "k = 7, m = 4"]
    np.testing.assert_array_equal(line(ax, "observed").get_xydata(), np.column_stack((np.arange(8), seen)))
    assert line(ax, "observed").get_color() == "#000000"
    course = infected["k = 7, m = 4"]
    np.testing.assert_array_equal(line(ax, "k = 7, m = 4").get_ydata(), course.mean)
    bars = np.array(ax.collections[1].get_segments())
    np.testing.assert_allclose(bars[:, 1, 1], np.minimum(course.mean + course.std, course.highest))
    np.testing.assert_allclose(bars[:, 0, 1], np.maximum(course.mean - course.std, course.lowest))
    np.testing.assert_array_equal(bars[:, 0, 0], line(ax, "k = 7, m = 4").get_xdata())
    low, high = ax.get_ylim()
    assert low < course.band()[0].min()
    assert high > 9


def test_courses_stand_side_by_side(infected):
    """Up to t = 1 all of them coincide."""
    ax = plot.plot_course(infected, observed=[1, 2, 3, 6, 8, 9, 9, 9])
    drawn(ax)
    for i, a in enumerate(ax.lines):
        for b in ax.lines[:i]:
            assert nearest(ax, a, b) > 4.5


def test_published_courses_are_hollow_with_dashes(infected):
    mean, std = np.arange(8.0), np.array([0, 0, 0, 0.5, 0.5, 0.5, 0.5, 0.5])
    ax = plot.plot_course(infected, published={"k = 3, m = 1": (mean, std)})
    (hollow,) = [one for one in ax.lines if is_hollow(one)]
    np.testing.assert_array_equal(hollow.get_ydata(), mean)
    np.testing.assert_array_equal(hollow.get_xdata(), line(ax, "k = 3, m = 1").get_xdata())
    low, high = [one for one in ax.lines if one.get_marker() == "_"]
    np.testing.assert_array_equal(low.get_ydata(), mean[3:] - 0.5)  # a spread of 0 has no ends
    np.testing.assert_array_equal(high.get_ydata(), mean[3:] + 0.5)
    assert legend(ax)[-2:] == ["filled mark and line: exact", "hollow mark and caps: published"]


def test_a_long_course_has_bands(walk):
    course = walk.plan(k=2, m=3).evaluate().feature(float)
    ax = plot.plot_course({"k = 2": course}, observed=walk.path.states)
    np.testing.assert_array_equal(line(ax, "k = 2").get_xdata(), np.arange(21))
    assert ax.collections[0].get_alpha() == 0.18
    drawn(ax)


def test_courses_that_cannot_be_drawn(infected):
    with pytest.raises(tether.QueryError, match="no course"):
        plot.plot_course({})
    with pytest.raises(tether.QueryError, match="not among the courses"):
        plot.plot_course(infected, published={"k = 9": ([1], [0])})
    with pytest.raises(tether.QueryError, match="1 means and 1 spreads for 8 times"):
        plot.plot_course(infected, published={"k = 3, m = 1": ([1], [0])})


def test_tailoring_is_two_bars_a_step(epidemic):
    outlooks = {f"k = {k}": epidemic.plan(k, m=4).evaluate() for k in (3, 6)}
    ax = plot.plot_tailoring(outlooks)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (T_, "from 0 to 1")
    assert legend(ax) == ["k = 3", "k = 6", "filled: strength", "outlined: probability of an influenced step"]
    for i, outlook in enumerate(outlooks.values()):
        outlined, filled = ax.containers[2 * i : 2 * i + 2]
        np.testing.assert_array_equal([bar.get_height() for bar in outlined], outlook.tailoring.influenced)
        np.testing.assert_array_equal([bar.get_height() for bar in filled], outlook.tailoring.strength)
    drawn(ax)


def test_tailoring_over_many_steps_is_two_curves(walk):
    outlooks = {f"k = {k}": walk.plan(k, m=3).evaluate() for k in (1, 2, 3, 21)}
    ax = plot.plot_tailoring(outlooks)
    assert not ax.containers
    thin, thick = ax.lines[:2]
    np.testing.assert_array_equal(thin.get_ydata(), outlooks["k = 1"].tailoring.influenced)
    np.testing.assert_array_equal(thick.get_ydata(), outlooks["k = 1"].tailoring.strength)
    assert legend(ax)[-2:] == ["thick: strength", "thin: probability of an influenced step"]


def test_tailoring_needs_an_observation(epidemic):
    plain = epidemic.mdp.evaluate("random", 3, start=epidemic.path.states[0])
    with pytest.raises(tether.QueryError, match="without an observation"):
        plot.plot_tailoring({"random": plain})
    with pytest.raises(tether.QueryError, match="no evaluation"):
        plot.plot_tailoring({})


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


# words over time


def test_words_over_time():
    chance = np.array([[1.0, 0.2, 0.0], [0.0, 0.8, 1.0]])
    ax = plot.plot_strip(["no", "yes"], chance, [0, 1, -1])
    (mesh,) = [one for one in ax.collections if one.get_array() is not None and one.get_array().ndim == 3]
    np.testing.assert_allclose(mesh.get_array()[..., 3], chance)
    (seen,) = [one for one in ax.lines if one.get_marker() == "s"]
    assert seen.get_xydata().tolist() == [[0.5, 0.5], [1.5, 1.5]]  # the last was not recorded
    drawn(ax)


def test_signs_in_names_are_only_signs():
    """What looks like mathematics, breaks lines or is not in the font is text all the same."""
    names = ["$\\frac$ and $x$", "two\nlines", "病院"]
    svg = plot.inline_svg(plot.plot_strip(names, np.eye(3), [0, 1, 2]), "a", "names")
    assert all(name in svg for name in ("$\\frac$ and $x$", "two lines", "病院"))


def test_a_band_is_drawn_as_it_is_told():
    ax = plot.plot_band([1, 2], [0, 1], [3, 5], [1, np.nan], band="all of it")
    assert legend(ax) == ["observed", "plan, on average", "all of it"]
    corners = {tuple(point) for point in ax.collections[0].get_paths()[0].vertices}
    assert {(0, 0), (0, 3), (1, 1), (1, 5)} <= corners
    assert plot.plot_band([1, 2], [0, 1], [3, 5], [1, 1], legend=False).get_legend() is None


def test_a_single_plan_shows_where_it_changes_the_action(epidemic):
    outlook = epidemic.plan(3, 1).evaluate()
    ax = plot.plot_tailoring({"plan": outlook})
    marked = [int(one.get_xdata()[0]) for one in ax.lines if one.get_marker() == "^"]
    assert marked == np.flatnonzero(outlook.changed > 0.005).tolist() == [5]
    assert legend(ax)[-1] == "the plan may change the action"


# the layered graph


def nodes(ax):
    """{(name, t): class}, from the labels of the shapes, and {(name, t): shape}."""
    shapes = [patch for patch in ax.patches if isinstance(patch, Circle | FancyBboxPatch)]
    labels = [patch.get_label().split(" at t = ") for patch in shapes]
    keys = [(name, int(rest.split(": ")[0])) for name, rest in labels]
    return (
        dict(zip(keys, (rest.split(": ")[1] for _, rest in labels), strict=True)),
        dict(zip(keys, shapes, strict=True)),
    )


def edges(ax):
    """{"s0 –a0→ s2 at t = 0": what became of it}."""
    return dict(patch.get_label().rsplit(": ", 1) for patch in ax.patches if isinstance(patch, PathPatch))


OBSERVED, HELD, CUT, FREE = (
    "observed",
    "influenced and reachable",
    "influenced but unreachable",
    "not influenced",
)


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        # The paper's figures on k = 1 and k = 2.
        (1, {("s3", 1): HELD, ("s1", 1): FREE, ("s6", 2): CUT, ("s4", 2): CUT}),
        (2, {("s3", 1): HELD, ("s1", 1): CUT, ("s6", 2): HELD, ("s4", 2): CUT}),
    ],
)
def test_the_papers_figure(toy, k, expected):
    ax = plot.plot_classes(toy, k, rollout="nominal")
    observed = {("s0", 0): OBSERVED, ("s2", 1): OBSERVED, ("s5", 2): OBSERVED, ("s7", 3): OBSERVED, ("s7", 4): OBSERVED}
    classes, shapes = nodes(ax)
    assert classes == expected | observed
    fills = {
        name: {shapes[key].get_facecolor() for key, told in classes.items() if told == name}
        for name in classes.values()
    }
    assert all(len(colours) == 1 for colours in fills.values())
    assert fills[OBSERVED] != fills[HELD] != fills[CUT]
    assert all((shape.get_linestyle() == "-") == (classes[key] != FREE) for key, shape in shapes.items())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [f"t = {t}" for t in range(5)]
    assert legend(ax)[:4] == [OBSERVED, HELD, CUT, FREE]
    drawn(ax)


def test_the_steps_of_the_papers_figure(toy):
    assert edges(plot.plot_classes(toy, 1, rollout="nominal")) == {
        "s0 –a0→ s2 at t = 0": "observed",
        "s0 –a0→ s3 at t = 0": "kept",
        "s0 –a1→ s1 at t = 0": "not allowed",
        "s1 –a0→ s4 at t = 1": "not allowed",
        "s2 –a0→ s5 at t = 1": "observed",
        "s3 –a0→ s5 at t = 1": "kept",
        "s3 –a1→ s6 at t = 1": "not allowed",
        "s4 –a0→ s7 at t = 2": "unreachable",
        "s5 –a0→ s7 at t = 2": "observed",
        "s6 –a0→ s7 at t = 2": "unreachable",
        "s7 –a0→ s7 at t = 3": "observed",
    }
    two = edges(plot.plot_classes(toy, 2, rollout="nominal"))
    assert two["s1 –a0→ s4 at t = 1"] == "unreachable"
    assert two["s3 –a1→ s6 at t = 1"] == two["s6 –a0→ s7 at t = 2"] == "kept"


def test_the_counterfactual_rollout_has_fewer_nodes(toy):
    classes, _ = nodes(plot.plot_classes(toy, 1))
    assert ("s3", 1) not in classes  # the observation rules it out
    assert len(classes) == 7


def test_the_observed_path_is_straight_and_thick(toy):
    ax = plot.plot_classes(toy, 1, rollout="nominal")
    classes, shapes = nodes(ax)
    assert {shapes[key].center[1] for key, told in classes.items() if told == OBSERVED} == {0.0}
    widths = {
        patch.get_label().rsplit(": ", 1)[1]: patch.get_linewidth()
        for patch in ax.patches
        if isinstance(patch, PathPatch)
    }
    assert widths["observed"] > 2 * widths["kept"]


def bezier(points, u):
    """A point of a Bézier curve, by de Casteljau's construction."""
    return points[0] if len(points) == 1 else bezier((1 - u) * points[:-1] + u * points[1:], u)


def away_from_the_nodes(ax):
    """No curve runs through a node other than its own two: sampled, against circles and boxes alike."""
    classes, shapes = nodes(ax)
    boxes = {key: shape.get_extents().transformed(ax.transData.inverted()) for key, shape in shapes.items()}
    for patch in ax.patches:
        if not isinstance(patch, PathPatch):
            continue
        label, _ = patch.get_label().rsplit(": ", 1)
        step, t = label.split(" at t = ")
        own = {(step.split(" –")[0], int(t)), (step.split("→ ")[1], int(t) + 1)}
        points = [bezier(patch.get_path().vertices, u) for u in np.linspace(0, 1, 101)]
        for key in boxes.keys() - own:
            assert not any(boxes[key].contains(x, y) for x, y in points), (label, key)
    return len(classes)


@pytest.mark.parametrize("rollout", ["nominal", "counterfactual"])
def test_no_step_runs_through_a_node(toy, clinic, rollout):
    assert away_from_the_nodes(plot.plot_classes(toy, 1, rollout=rollout)) >= 7
    assert away_from_the_nodes(plot.plot_classes(clinic, 1, rollout=rollout)) >= 7


@pytest.mark.parametrize("length", [2, 9])
def test_no_steep_step_runs_through_a_node(length):
    """A fan of nine, in circles and in boxes: straight lines to its ends would cut the neighbours."""
    names = [str(i).rjust(length, "s") for i in range(10)]
    states, actions = [names[0]] * 9 + names[1:], [f"a{i}" for i in range(1, 10)] + ["stay"] * 9
    mdp = tether.MDP.from_table(states, actions, names[1:] * 2, [1.0] * 18)
    cf = tether.counterfactual(mdp, tether.Path([names[0], names[5], names[5]], ["a5", "stay"]))
    assert away_from_the_nodes(plot.plot_classes(cf, 2, rollout="nominal")) == 19


def test_long_names_get_boxes_and_several_actions_several_curves(clinic):
    ax = plot.plot_classes(clinic, 1, rollout="nominal", label=str.upper)
    classes, shapes = nodes(ax)
    assert classes["WORSE", 1] == OBSERVED
    assert all(isinstance(shape, FancyBboxPatch) for shape in shapes.values())
    drawn_edges = edges(ax)
    assert drawn_edges["SICK –wait→ WORSE at t = 0"] == "observed"
    assert drawn_edges["SICK –treat→ WORSE at t = 0"] == "not allowed"
    drawn(ax)
    names = [text.get_window_extent().width for text in ax.texts if text.get_text().isupper()]
    assert len(names) == len(shapes)
    assert max(names) < min(shape.get_window_extent().width for shape in shapes.values())


def test_an_unrecorded_outcome_has_no_observed_node(clinic):
    cf = tether.counterfactual(clinic.mdp, tether.Path(["sick", "worse"], ["wait", "wait"]))
    classes, _ = nodes(plot.plot_classes(cf, 1))
    assert OBSERVED not in {told for (_, t), told in classes.items() if t == 2}


@pytest.mark.parametrize("rule", ["published", "printed", "assured"])
def test_every_rule_can_be_drawn(toy, rule):
    classes, _ = nodes(plot.plot_classes(toy, 2, rule=rule, rollout="nominal"))
    for (name, t), told in classes.items():
        assert toy.classify(k=2, t=t, rule=rule, rollout="nominal")[name] == told


def test_other_influence_can_be_drawn(toy):
    classes, _ = nodes(plot.plot_classes(toy, 1, influence=tether.effective(0), rollout="nominal"))
    for (name, t), told in classes.items():
        assert toy.classify(k=1, t=t, influence=tether.effective(0), rollout="nominal")[name] == told


def test_large_layers_are_counted(walk):
    ax = plot.plot_classes(walk, 3)
    assert not nodes(ax)[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (T_, "states of the counterfactual rollout")
    names = [OBSERVED, HELD, CUT, FREE]
    assert legend(ax) == names
    counts = np.array([[bar.get_height() for bar in bars] for bars in ax.containers])
    assert counts.any(axis=1).all()
    for t in range(21):
        classes = walk.classify(k=3, t=t)
        assert counts[:, t].tolist() == [sum(classes[s] == name for s in walk.reachable(t)) for name in names]
    drawn(ax)


def test_dense_steps_are_counted_too():
    """Four states, but every one leads to every one, each way its own: no graph to look at."""
    mdp = tether.MDP.from_arrays(np.full((5, 2, 5), 0.2))
    ax = plot.plot_classes(tether.counterfactual(mdp, tether.Path([0, 1, 2], [0, 0])), 1, rollout="nominal")
    assert len(ax.containers) == 4


def test_a_drawing_beside_others(toy):
    figure = Figure(figsize=(7, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    assert plot.plot_classes(toy, 1, ax=left) is left
    plot.plot_classes(toy, 2, ax=right, legend=False)
    assert right.get_legend() is None
    figure.draw_without_rendering()


@pytest.mark.parametrize(("k", "rollout"), [(0, "nominal"), (1, "dreamt")])
def test_questions_without_an_answer(toy, k, rollout):
    with pytest.raises(tether.QueryError):
        plot.plot_classes(toy, k, rollout=rollout)


def test_the_states_of_a_plan_are_ringed(toy):
    plan = toy.plan(2, 1)
    ax = plot.plot_classes(toy, 2, plan=plan)
    visited = sum(np.unique(visits.states).size for visits in plan.chain.visits)
    assert sum(patch.get_gid() == "ring" for patch in ax.patches) == visited > 0
    assert "the plan can be here" in legend(ax)
    assert "the plan can be here" not in legend(plot.plot_classes(toy, 2))


def test_long_names_are_cut_but_stay_apart(clinic):
    ax = plot.plot_classes(clinic, 1, label=lambda name: "a very long name of the state " + name)
    names = {name for name, _ in nodes(ax)[0]}
    assert len(names) == len({name for t in range(3) for name in clinic.reachable(t)})
    assert max(map(len, names)) <= 20


def crossings(heights, links):
    total = 0
    for t, link in enumerate(links):
        for i, (a, b) in enumerate(link):
            for c, d in link[:i]:
                total += (heights[t][a] - heights[t][c]) * (heights[t + 1][b] - heights[t + 1][d]) < 0
    return total


def test_crossings_are_undone():
    links = [[(0, 0), (0, 1), (0, 2)], [(0, 2), (1, 1), (2, 0)], [(0, 1), (1, 0), (2, 2)]]
    heights = arrange_layers([1, 3, 3, 3], links, [0, 1, 1, None])
    assert crossings(heights, links) == 0
    assert [heights[0][0], heights[1][1], heights[2][1]] == [0, 0, 0]
    assert all(len(set(layer)) == len(layer) for layer in heights)
    assert sorted(heights[3]) == [-1, 0, 1]


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
    other = ax.child_axes[0]
    drawn(ax)
    assert other.get_ylabel() == "lost against no tether"
    np.testing.assert_allclose(sorted(other.get_ylim()), sorted(-1.0 - np.array(ax.get_ylim())))


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
    other = ax.child_axes[0]
    drawn(ax)
    np.testing.assert_allclose(sorted(other.get_ylim()), sorted(np.array(ax.get_ylim()) - table.value(7, 1)))


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


# the motivating picture


def test_states_over_time_and_paths_through_them():
    rng = np.random.default_rng(0)
    shade, weight = rng.uniform(-1, 1, (4, 6)), rng.uniform(0, 1, (4, 6))
    weight[2, 3] = 0.0
    paths = {"observed": [0, 1, 2, 2], "unconstrained": [0, 4, 4, 5], "influenced": [0, 1, 3, 2]}
    ax = plot.plot_occupancy(shade, weight, paths, states=list("abcdef"))
    dots = ax.collections[0]
    at = [(int(t), int(s)) for s, t in dots.get_offsets()]
    assert len(at) == 23
    assert (2, 3) not in at
    np.testing.assert_array_equal(dots.get_array(), [shade[i] for i in at])
    sizes = dots.get_sizes()
    assert np.array_equal(np.argsort(sizes), np.argsort([weight[i] for i in at]))
    assert dots.get_clim() == (-1, 1)
    assert ax.yaxis_inverted()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state", T_)
    assert legend(ax)[:3] == list(paths)
    drawn_paths = [line(ax, label) for label in paths]
    for one, path in zip(drawn_paths, paths.values(), strict=True):
        np.testing.assert_array_equal(one.get_xdata(), path)  # every mark on its own state, never beside it
    # Where paths coincide each is narrower than the one below it, so that all are seen.
    for below, above in pairwise(drawn_paths):
        assert above.get_zorder() > below.get_zorder()
        assert above.get_linewidth() < below.get_linewidth()
        assert above.get_markersize() < below.get_markersize()
    assert len({one.get_marker() for one in drawn_paths}) == 3
    bar = drawn(ax).axes[1]
    assert [tick.get_text() for tick in bar.get_yticklabels()][1] == "both alike"


def test_more_paths_and_long_names():
    names = [f"state {i}" for i in range(3)]
    paths = {str(i): [i % 3] for i in range(5)}
    ax = plot.plot_occupancy(np.zeros((1, 3)), np.ones((1, 3)), paths, states=names, xlabel="place")
    assert ax.get_xlabel() == "place"
    assert [tick.get_rotation() for tick in ax.get_xticklabels()] == [90] * 3
    drawn(ax)


@pytest.mark.parametrize(
    ("shade", "weight", "path"),
    [
        ([0, 0], [1, 1], [0]),
        ([[0, 0]], [[1]], [0]),
        ([[0, 2]], [[1, 1]], [0]),
        ([[0, 0]], [[1, -0.1]], [0]),
        ([[0, np.nan]], [[1, 1]], [0]),
        ([[0, 0]], [[1, 1]], [2]),
        ([[0, 0]], [[1, 1]], [0, 1]),
    ],
)
def test_pictures_that_make_no_sense(shade, weight, path):
    with pytest.raises(tether.QueryError):
        plot.plot_occupancy(shade, weight, {"observed": path})


# files


def figures(walk, table, toy):
    """One laid out with a colour bar, one by hand, one with hatches and a legend."""
    return plot.plot_heat(table), plot.plot_classes(toy, 1), plot.plot_classes(walk, 2)


def test_a_file_is_the_same_each_time(tmp_path, walk, epidemic_table, toy):
    once, again = (figures(walk, epidemic_table, toy) for _ in range(2))
    for i, (a, b) in enumerate(zip(once, again, strict=True)):
        first = plot.save(a, tmp_path / f"{i}.svg").read_bytes()
        assert plot.save(a, tmp_path / f"{i}-again.svg").read_bytes() == first
        assert plot.save(b.figure, tmp_path / f"{i}-anew.svg").read_bytes() == first
        assert b"dc:date" not in first
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".svg"] * 9  # and nothing else is left behind


def test_a_bitmap_is_the_same_each_time(tmp_path, epidemic_table):
    first, again = (plot.save(plot.plot_heat(epidemic_table), tmp_path / f"{i}.png").read_bytes() for i in range(2))
    assert first == again


def test_it_is_the_same_in_another_process(tmp_path, toy):
    code = "import sys, tether; from tether.views import figures as plot; toy = tether.cases.toy()\n"
    code += "plot.save(plot.plot_classes(tether.counterfactual(toy.mdp, toy.path), 1), sys.argv[1])"
    subprocess.run([sys.executable, "-W", "error", "-c", code, str(tmp_path / "there.svg")], check=True)
    here = plot.save(plot.plot_classes(toy, 1), tmp_path / "here.svg").read_bytes()
    assert (tmp_path / "there.svg").read_bytes() == here


def test_the_kind_of_a_file_goes_by_its_name(tmp_path, toy):
    ax = plot.plot_classes(toy, 1)
    assert plot.save(ax, str(tmp_path / "a.PNG")).read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in plot.save(ax, tmp_path / "a.svg").read_bytes()
    for name in ("a.pdf", "a"):
        with pytest.raises(tether.QueryError, match=r"\.svg or \.png"):
            plot.save(ax, tmp_path / name)


def test_nothing_is_left_half_written(tmp_path, toy, monkeypatch):
    ax = plot.plot_classes(toy, 1)
    (tmp_path / "a.svg").write_text("before")

    def full(self, target):
        raise OSError("no space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(tether.FileError, match="no space"):
        plot.save(ax, tmp_path / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    assert (tmp_path / "a.svg").read_text() == "before"
    with pytest.raises(tether.FileError, match="nowhere"):
        plot.save(ax, tmp_path / "nowhere" / "a.svg")


def test_saving_leaves_the_figure_as_it_was(tmp_path, epidemic_table):
    ax = plot.plot_heat(epidemic_table)
    before = ax.get_position().bounds
    plot.save(ax, tmp_path / "a.png")
    assert ax.get_position().bounds == before
    assert ax.get_in_layout()


def test_a_figure_within_a_figure(tmp_path, epidemic_table):
    part, _ = Figure(figsize=(8, 4), layout="constrained").subfigures(1, 2)
    ax = plot.plot_heat(epidemic_table, ax=part.add_subplot())
    assert plot.save(ax, tmp_path / "a.png").exists()


# style


def test_axes_that_are_given_are_drawn_into(walk, epidemic, epidemic_table, infected):
    draws = [
        lambda ax: plot.plot_values(epidemic_table, ax=ax),
        lambda ax: plot.plot_sizes({"a": (epidemic_table.ks, epidemic_table.sizes)}, ax=ax),
        lambda ax: plot.plot_course(infected, ax=ax),
        lambda ax: plot.plot_tailoring({"k": epidemic.plan(3, 1).evaluate()}, ax=ax),
        lambda ax: plot.plot_heat(epidemic_table, ax=ax),
        lambda ax: plot.plot_classes(walk, 2, ax=ax, legend=False),
        lambda ax: plot.plot_pareto(epidemic.pareto(m=1), ax=ax),
        lambda ax: plot.plot_lost(epidemic_table, 1, ax=ax),
        lambda ax: plot.plot_lines([1], [1], {"a": 2}, ax=ax),
        lambda ax: plot.plot_occupancy([[0]], [[1]], {}, ax=ax),
        lambda ax: plot.plot_curves([0, 1], {"a": ([1, 2], [0, 1])}, "x", "y", ax=ax),
    ]
    for draw in draws:
        ax = Figure(layout="constrained").add_subplot()
        assert draw(ax) is ax


def test_no_text_is_too_small(epidemic_table, toy, infected):
    for ax in (plot.plot_values(epidemic_table), plot.plot_classes(toy, 1), plot.plot_course(infected)):
        texts = [*ax.texts, *ax.get_legend().get_texts(), *ax.get_xticklabels(), *ax.get_yticklabels()]
        assert min(text.get_fontsize() for text in [*texts, ax.xaxis.label, ax.yaxis.label]) >= 8


def test_no_legend_covers_the_data(epidemic_table, toy, infected, grid):
    drawings = (
        plot.plot_values(epidemic_table),
        plot.plot_classes(toy, 1),
        plot.plot_course(infected, observed=[1, 2, 3, 6, 8, 9, 9, 9]),
        plot.plot_lost(epidemic_table, 2, suggested=6),
        plot.plot_pareto(grid.pareto(m=2)),
        plot.plot_curves([0, 1], {"one": ([1, 2], [0, 1]), "other": ([2, 1], [1, 0])}, "x", "y"),
    )
    for ax in drawings:
        figure = drawn(ax)
        legend = ax.get_legend().get_window_extent()
        assert not legend.overlaps(ax.get_window_extent().padded(-1))
        assert legend.xmin >= -1
        assert legend.xmax <= figure.bbox.xmax + 1
        assert legend.ymin >= -1


def test_the_style_is_put_away_again():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with plot.styled():
        assert matplotlib.rcParams["svg.hashsalt"] == "tether"
    plot.plot_lines([1], [1], {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert dict(matplotlib.rcParams) == before


def test_nothing_global_is_touched(tmp_path):
    """Neither importing nor drawing imports pyplot; importing tether.views.figures does not even import Matplotlib."""
    code = """
import sys, tether, tether.views.figures
print("matplotlib" in sys.modules)
toy = tether.cases.toy()
cf = tether.counterfactual(toy.mdp, toy.path)
tether.views.figures.save(tether.views.figures.plot_classes(cf, 1), sys.argv[1] + "/a.png")
tether.views.figures.save(tether.views.figures.plot_heat(cf.sweep()), sys.argv[1] + "/a.svg")
print("matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}
    )
    assert done.stdout.split() == ["False", "True", "False"]


def test_every_figure_is_documented_with_an_example():
    for name in plot.__all__:
        assert ">>> " in getattr(plot, name).__doc__


def test_marks_on_light_cells_stay_dark_on_a_dark_page():
    """Black turns white there; the cells stay light, so that white squares on them were not to be seen."""
    grid = tether.cases.grid_world()
    ax = plot.plot_decisions(tether.counterfactual(grid.mdp, grid.path).decisions())
    (done,) = ax.lines
    assert len(done.get_xdata()) == grid.path.T
    drawn_marks = plot.inline_svg(ax, "decisions", "Decisions")
    assert f"stroke: {done.get_color()}" in drawn_marks
    assert "var(" not in done.get_color()
