"""What holds of every figure: its files, its style, and that nothing global is touched."""

import os
import subprocess
import sys
import warnings

import pytest
from drawings import drawn
from matplotlib.figure import Figure

import tether
from tether.views import figures as plot

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
