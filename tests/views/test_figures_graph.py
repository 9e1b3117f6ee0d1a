"""The layered graph: its nodes and steps, and what is counted where they are too many to draw."""

import numpy as np
import pytest
from drawings import T_, drawn, legend
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch

import tether
from tether.figures.layered import arrange_layers
from tether.views import figures as plot


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
    assert (ax.get_xlabel(), ax.get_ylabel()) == (T_, "states")
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


def test_the_whole_legend_is_on_the_paper():
    path = tether.Path(["sick", "sick", "worse", "worse", "dead"], ["treat", "wait", "wait", "treat"])
    cf = tether.counterfactual(tether.cases.ward().mdp, path)
    ax = plot.plot_classes(cf, 2, plan=cf.plan(2, 1))
    assert len(legend(ax)) == 9
    assert drawn(ax).bbox.y0 <= ax.get_legend().get_window_extent().y0


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
