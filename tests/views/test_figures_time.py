"""Figures over time: courses, tailoring, words, states; what is drawn, not how it looks."""

from itertools import pairwise

import numpy as np
import pytest
from drawings import T_, drawn, is_hollow, legend, line, nearest

import tether
from tether.views import figures as plot

# courses and tailoring


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
    assert legend(ax) == ["k = 3", "k = 6", "filled: strength", "outlined: probability of known ground"]
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
    assert legend(ax)[-2:] == ["thick: strength", "thin: probability of known ground"]


def test_tailoring_needs_an_observation(epidemic):
    plain = epidemic.mdp.evaluate("random", 3, start=epidemic.path.states[0])
    with pytest.raises(tether.QueryError, match="without an observation"):
        plot.plot_tailoring({"random": plain})
    with pytest.raises(tether.QueryError, match="no evaluation"):
        plot.plot_tailoring({})


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
