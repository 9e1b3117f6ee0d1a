"""The reproduction: sections, the sampling error behind a verdict, what is written, what `--check` holds."""

import csv
import dataclasses
import json
import os
import re
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether_reproduce import causal_sets, draws, exact_numbers, study_page
from tether_reproduce.diabetes_section import mixed_model
from tether_reproduce.draws import DRAWS, resample, spread_of
from tether_reproduce.exact_numbers import check
from tether_reproduce.findings import (
    Comparison,
    Expected,
    Figure,
    Section,
    comparison_table,
    expected,
    figure_verdicts,
    footnotes,
    joined,
    published,
    summary,
    together,
)
from tether_reproduce.sepsis_cases import component, load_table
from tether_reproduce.study import CASES, Study, reproduce


@pytest.fixture(scope="module")
def grid():
    return CASES["grid_world"]()


def conditioned(case, path=None):
    return tether.counterfactual(case.mdp, case.path if path is None else path)


def test_no_exact_number_has_moved():
    assert check() == []


def test_every_number_that_must_not_change_is_read(monkeypatch):
    """A number in `expected.json` that no function computes would never be checked."""
    log = SimpleNamespace(
        estimates=dict.fromkeys(("observed", "truth", "WIS", "MB", "CF"), 0.0), outcomes=np.zeros((3, 3))
    )
    drawn = dict.fromkeys(("truth", "observed", "WIS", "MB"), 0.0)
    monkeypatch.setattr(exact_numbers, "released_world", lambda: None)
    monkeypatch.setattr(exact_numbers, "redraw", lambda world: (log, drawn))  # seconds less
    monkeypatch.setattr(exact_numbers, "outcomes", lambda alpha: np.ones((1, 5)))
    grid = tether.cases.grid_world()
    table = tether.cases.Case("stand-in", grid.mdp, {"catastrophic": grid.path, "suboptimal": grid.path})
    groups = [getattr(exact_numbers, name) for name in vars(exact_numbers) if name.endswith(("_numbers", "_classes"))]
    read = [what for group in groups for what, _ in (group(table) if group.__name__ == "table_numbers" else group())]
    assert sorted(read) == sorted(expected())


def test_the_classes_of_the_toy_are_those_of_the_papers_figures(monkeypatch):
    """They were read at time k for a tether of length t: wrong in 4 of 8 rows, and `--check` did not look."""
    (table,) = CASES["toy"]().tables
    shown = {tuple(row[:3]): tuple(cell.partition(": ")[2] for cell in row[3:]) for row in table.rows}
    on, off, no, seen = "influenced and reachable", "influenced but unreachable", "not influenced", "observed"
    # The figures on k = 1 and k = 2, s1 to s3 at t = 1 and s4 to s6 at t = 2; they are drawn over the nominal rollout.
    assert shown["nominal", "1", "1"] == (no, seen, on)
    assert shown["nominal", "1", "2"] == (off, seen, off)
    assert shown["nominal", "2", "1"] == (off, seen, on)
    assert shown["nominal", "2", "2"] == (off, seen, on)
    # Given that (s0, a0) led to s2, s3 is out of reach, and so is s6, which only s3 leads to.
    assert [shown["counterfactual", k, "1"] for k in "12"] == [(no, seen, off), (off, seen, off)]
    assert [shown["counterfactual", k, "2"] for k in "12"] == [(off, seen, off)] * 2
    wrong = dataclasses.replace(table, rows=(*table.rows[:2], ("nominal", "2", "1", "s1: observed"), *table.rows[3:]))
    monkeypatch.setattr(exact_numbers, "toy_section", lambda: SimpleNamespace(tables=(wrong,)))
    (sentence,) = check()
    assert sentence.startswith(
        "Toy, classes: number 3 is nominal | 2 | 1 | s1: observed, must be nominal | 2 | 1 | s1: "
    )


def test_a_moved_number_is_named(monkeypatch):
    what = "Epidemic, sizes from s0"
    must = expected() | {what: Expected(0, [*expected()[what].values[:-1], 216])}
    monkeypatch.setattr(exact_numbers, "expected", lambda: must)
    assert check() == ["Epidemic, sizes from s0: number 8 is 215, must be 216 (1 of 8 differ)"]


@pytest.mark.compiled
def test_grid_world_is_explained_by_sampling(grid):
    values = [one for one in grid.comparisons if one.quantity == "V(s0)"]
    assert len(values) == 12 * 12  # every k and m of the paper's figure
    assert all(one.verdict.startswith(("equal", "within the error")) for one in values)
    sizes = [one for one in grid.comparisons if one.quantity == "size"]
    assert [one.verdict for one in sizes] == ["equal"] * 12


@pytest.mark.compiled
def test_every_section_has_something_to_say_and_to_show(monkeypatch):
    monkeypatch.setattr(draws, "DRAWS", 50)  # how rows scatter has tests of its own
    for name in ("toy", "epidemic", "motivation", "notions"):
        section = CASES[name]()
        assert section.text
        assert section.figures or section.tables
        assert all(isinstance(figure, Figure) for figure in section.figures)


def test_the_published_numbers_are_whole():
    paths = published().paths
    assert {name: len(one.values) for name, one in paths.items()} == {
        "grid_world": 12,
        "epidemic": 8,
        "sepsis_catastrophic": 11,
        "sepsis_suboptimal": 11,
    }
    assert paths["epidemic"].values[7][3] == -11.4607933279152  # the paper's epidemic figure, K = 7, m = 4
    assert set(published().mean_infected) == {"(3,1)", "(6,4)", "(7,4)", "(8,1)"}


def test_verdicts():
    assert Comparison("V", 1.0, 1.0004).verdict == "equal"
    assert Comparison("V", 1.0, 1.2, 1.1, 0.1).verdict == "within the error of 1,000 draws (z = 1.0)"
    assert Comparison("V", 1.0, 2.0, 1.1, 0.1).verdict == "beyond the error of 1,000 draws (z = 9.0)"
    assert Comparison("V", 1.0, 2.0, 1.0, 0.0).verdict == "differs"
    assert Comparison("V", 1.0).verdict == "not published"
    assert Comparison("V", 1.0, 2.0, path="dry", of="(7, 4)", k=3, m=1).about == "dry path, (7, 4)"


@pytest.mark.parametrize("published_value", [1.1, 1.2, 5.0])
def test_what_has_a_known_reason_is_never_put_down_to_draws(published_value):
    """Another model is another model, whether its number lies near ours or far from it."""
    one = Comparison("V", 1.0, published_value, 1.1, 0.1, "another model")
    assert one.verdict == "differs, for a known reason"


def test_one_verdict_per_figure_by_cause():
    near, far = Comparison("V", 1.0, 1.2, 1.1, 0.1, k=1), Comparison("V", 1.0, 9.0, 1.1, 0.1, k=2)
    other = [Comparison("V", 1.0, 1.0 + k, 1.1, 0.1, "another model", path="other", k=k) for k in (1, 2, 3)]
    counts = [
        Comparison("size", 3.0, 3.0, of="a path"),
        Comparison("size", 3.0, 4.0, reason="another count", k=2),
    ]
    section = Section("one", "One", (), (near, far, *other, *counts, Comparison("V", 1.0)))
    verdicts = figure_verdicts([section])
    assert [(one.title, one.numbers, one.equal, one.beyond) for one in verdicts] == [
        ("One: V", 2, 0, 1),
        ("One: V, other path", 3, 0, 0),
        ("One: size", 2, 1, 0),
    ]
    assert [one.cause for one in verdicts] == [
        "1 beyond the error of 1,000 draws",
        "differs, for a known reason",
        "differs, for a known reason",
    ]
    assert footnotes(verdicts) == {"another model": 1, "another count": 2}
    assert [row[-1] for row in summary(verdicts).rows][1:] == [
        "differs, for a known reason [1]",
        "differs, for a known reason [2]",
    ]


def test_figures_of_one_run_are_judged_together():
    figures = [Comparison("V", 1.0, 1.0 + 0.1 * z, 1.0, 0.1, k=k) for k, z in enumerate((1.0, -3.2, 0.5))]
    figures += [Comparison("size", 1.0, 1.2, 1.0, 0.1), Comparison("size", 1.0, 1.2, 1.0, 0.1, k=2)]  # one number
    figures += [Comparison("other", 1.0, 9.0, 1.0, 0.1, "another model"), Comparison("none", 1.0, 9.0)]
    p = 4 * 2 * NormalDist().cdf(-3.2)
    assert together([Section("one", "One", (), tuple(figures)), Section("two", "Two", ())]) == [
        f"One: 4 different numbers together: joint p-value at most {p:.2g} "
        "(Bonferroni; the largest deviation is 3.2 standard errors)."
    ]


def test_one_table_puts_equal_numbers_on_one_line():
    rows = comparison_table([Comparison("V", -1.0, -1.0, k=k, m=m) for k in (1, 2, 3) for m in (1, 2)]).rows
    assert rows == (("V", "k = 1 … 3, m = 1, 2", "-1.000", "-1.000", "", "equal"),)
    assert joined([1, 3]) == "1, 3"


@pytest.mark.parametrize("shared", [True, False])
def test_sampled_rows_scatter_about_the_exact_ones(shared):
    case = tether.cases.grid_world()
    cf = conditioned(case)
    pair = case.mdp.pair_index(2, "left")
    names, exact = cf.row(2, 2, "left")
    drawn = []
    for sampled in resample(cf, repeats=20, seed=1, shared=shared):
        rows = sampled.graph.layers[2].edits
        at = rows.find(pair)
        share = rows.probability[rows.start[at] : rows.start[at + 1]]
        assert np.all(share * DRAWS == np.round(share * DRAWS))
        drawn.append(share)
    error = np.sqrt(exact * (1 - exact) / DRAWS / 20)
    assert len(names) == len(drawn[0])
    assert np.all(np.abs(np.mean(drawn, axis=0) - exact) < 5 * error)


def test_the_spread_of_what_does_not_depend_on_chance_is_zero():
    cf = conditioned(tether.cases.grid_world())
    mean, std = spread_of(
        cf, lambda sampled: sampled.sweep(rule="published", ms=[0]).values, repeats=3, seed=0, shared=False
    )
    assert np.all(mean == -897.0)
    assert np.all(std == 0.0)


def test_the_mixed_model_mixes():
    full = tether.cases.sepsis().mdp
    mixed = mixed_model(full)
    assert mixed.n_states == 720
    healthy = full.states[57]
    diabetic = full.states[57 + 720]
    assert tuple(healthy)[1:] == tuple(diabetic)[1:] == mixed.states[57]
    for action in full.actions:
        blend = {}
        for weight, state in ((0.8, healthy), (0.2, diabetic)):
            for after, chance in zip(*full.row(state, action), strict=True):
                blend[tuple(after)[1:]] = blend.get(tuple(after)[1:], 0.0) + weight * chance
        row = dict(zip(*mixed.row(mixed.states[57], action), strict=True))
        assert row.keys() == blend.keys()
        assert all(abs(row[after] - blend[after]) < 1e-12 for after in row)


def test_the_component_of_the_initial_state():
    # 6,996 is the size the paper prints for sepsis without constraint.
    case = tether.cases.sepsis()
    assert component(conditioned(case, case.paths["catastrophic"])) == 6996


def test_twelve_states_as_the_rules_see_them():
    cf = conditioned(tether.cases.twelve_states())
    needed = {rule: cf.why(0, "s0", "a1", k=2, rule=rule).needed for rule in ("definition", "published", "printed")}
    # The paper's figure leaves (s0, a1) out for k = 2; its definition allows it.
    assert needed == {"definition": 2, "published": 3, "printed": 3}


def small_study():
    drawn = Figure("line", "A line & more.", _figure)
    section = Section("one", "One <case>", ("Text.",), (Comparison("V", 1.0, 1.0, k=1, m=2),), (), (drawn,), 0.5)
    return Study((section,))


def _figure():
    from matplotlib.figure import Figure as Canvas

    ax = Canvas().add_subplot()
    ax.plot([0, 1], [0, 1])
    return ax


def test_what_is_written(tmp_path):
    files = study_page.write(small_study(), tmp_path / "out")
    assert [file.name for file in files] == ["index.html", "line.png", "line.svg", "numbers.json", "one.csv"]
    html = files[0].read_text()
    assert "One &lt;case&gt;" in html
    assert "A line &amp; more." in html
    assert not re.search(r"(src|href)=['\"](https?:|//)", html)  # self-contained
    numbers = json.loads(files[3].read_text())
    assert numbers["sections"][0]["comparisons"][0]["exact"] == 1.0
    with files[4].open() as stream:
        rows = list(csv.DictReader(stream))
    assert rows == [
        {
            "quantity": "V",
            "of": "",
            "k": "1",
            "m": "2",
            "t": "",
            "exact": "1.0",
            "published": "1.0",
            "sampled mean": "",
            "sampled error": "",
            "verdict": "equal",
            "reason": "",
        }
    ]


def test_a_failed_run_leaves_the_old_result(tmp_path):
    out = tmp_path / "out"
    study_page.write(small_study(), out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}

    def broken():
        raise RuntimeError("no ink")

    good = small_study().sections[0]
    bad = dataclasses.replace(good, figures=(Figure("line", "", broken),), text=("Other.",))
    with pytest.raises(RuntimeError, match="no ink"):
        study_page.write(Study((bad,)), out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_progress_is_told():
    noted = []
    reproduce(["toy", "toy"], progress=noted.append)
    assert noted == ["toy"]


def saved_table(tmp_path, table):
    file = tmp_path / "table.npz"
    np.savez(file, tx_mat=table)
    return file


def test_tables_that_are_not_the_table(tmp_path):
    with pytest.raises(tether.ModelError, match=re.escape("has shape (2, 3); expected (2, 8, 720, 720)")):
        load_table(saved_table(tmp_path, np.zeros((2, 3))))
    other = tmp_path / "other.npz"
    np.savez(other, P=np.zeros(3))
    with pytest.raises(tether.ModelError, match=r"expected an \.npz file with an array 'tx_mat'; it has P"):
        load_table(other)
    text = tmp_path / "text.npz"
    text.write_text("not a table")
    with pytest.raises(tether.ModelError, match=r"text\.npz: cannot be read as an \.npz file"):
        load_table(text)
    with pytest.raises(tether.ModelError, match=r"none\.npz: cannot be read"):
        load_table(tmp_path / "none.npz")


@pytest.mark.compiled
def test_rows_of_a_table_must_be_distributions(tmp_path):
    table = np.zeros((2, 8, 720, 720), dtype=np.float32)
    table[..., 0] = 1.0
    table[1, 2, 3, 0] = 0.5
    with pytest.raises(tether.ModelError, match=re.escape("the row tx_mat[1, 2, 3] sums to 0.5, not 1 (1 such rows)")):
        load_table(saved_table(tmp_path, table))
    table[1, 2, 3, 0] = -1.0
    with pytest.raises(tether.ModelError, match=re.escape("tx_mat[1, 2, 3, 0] is -1.0, not a probability")):
        load_table(saved_table(tmp_path, table))


@pytest.mark.compiled
def test_a_table_made_from_the_exact_model_gives_the_exact_model(tmp_path):
    """Round trip: the exact model written as a table of the public layout, dead states left to wander."""
    exact = tether.cases.sepsis()
    form = exact.mdp.form
    table = np.zeros((2, 8, 720, 720))
    for pair in range(exact.mdp.n_pairs):
        s, entries = divmod(pair, 8)[0], exact.mdp.entries(pair)
        a = int(form.pair_action[pair])
        table[s // 720, a, s % 720, form.next_state[entries] % 720] = form.probability[entries]
    again = load_table(saved_table(tmp_path, table)).mdp
    assert np.array_equal(again.form.next_state, form.next_state)
    assert np.allclose(again.form.probability, form.probability, rtol=1e-14)  # rows are normalised once more
    assert np.array_equal(again.form.rewards.values, form.rewards.values)


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_the_command_checks(monkeypatch):
    looked = []
    for name in ("few_changes", "off_policy"):  # some seconds each
        monkeypatch.setattr(exact_numbers, f"{name}_numbers", lambda name=name: looked.append(name) or [])
    done = run("reproduce", "--check")
    assert done.exit_code == 0
    assert done.output == "No number has moved.\n"
    assert json.loads(run("reproduce", "--check", "--json").output) == {"moved": []}
    assert looked == ["few_changes", "off_policy"] * 2


def test_the_command_says_what_moved(monkeypatch):
    monkeypatch.setattr("tether_reproduce.terminal.check", lambda table, **_: ["Epidemic: something moved"])
    done = run("reproduce", "--check")
    assert done.exit_code == 1
    assert "something moved" in done.output


def test_the_command_writes_and_prints(tmp_path):
    out = tmp_path / "out"
    done = run("reproduce", "toy", "-o", str(out))
    assert done.exit_code == 0, done.output
    assert "Toy model" in done.output
    assert (out / "index.html").exists()  # its JSON is read in tests/cli/test_cli.py, as that of every command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "moon"], "there is no case 'moon'; there are toy, grid_world"),
        (["reproduce", "sepsis", "--sepsis-table", "nowhere.npz"], "nowhere.npz: cannot be read"),
        (["reproduce", "--check", "toy"], "--check checks every number; it takes no CASE"),
    ],
)
def test_wrong_use_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert [file for _, _, files in os.walk(tmp_path) for file in files] == []


def test_an_output_directory_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run("reproduce", "toy", "--out", str(blocked / "below"))
    assert done.exit_code == 2
    assert "cannot write to" in done.output


def test_the_sections_hold_together_on_a_small_model(monkeypatch):
    """The sepsis section, on Grid World under other names: its words and tables, with the JIT off too."""
    from tether_reproduce import sepsis_cases, small_cases, sweep_tables

    monkeypatch.setattr(sweep_tables, "spread_of", _quickly)
    monkeypatch.setattr(small_cases, "spread_of", _quickly)
    grid = tether.cases.grid_world()
    stand_in = tether.cases.Case("stand-in", grid.mdp, {"catastrophic": grid.path, "suboptimal": grid.path})
    monkeypatch.setattr(tether.cases, "sepsis", lambda: stand_in)
    exact, table = sepsis_cases.sepsis_section(), sepsis_cases.sepsis_section(stand_in)
    assert "because the models differ: ours is exact" in exact.text[0]
    assert {one.reason for one in exact.comparisons if one.path == "suboptimal" and one.quantity == "V(s0)"} == {
        one.reason for one in table.comparisons if one.path == "suboptimal" and one.quantity == "V(s0)"
    }  # the path is to blame on either model
    assert "1.4 is not possible" in table.text[-1]
    assert {one.path for one in exact.comparisons} == {"catastrophic", "suboptimal"}
    assert len(small_cases.grid_section().comparisons) == 144 + 12
    infected = [one for one in small_cases.epidemic_section().comparisons if one.quantity == "mean infected"]
    assert len(infected) == 4 * 8


def _quickly(cf, compute, *, repeats, seed, shared=True):
    return spread_of(cf, compute, repeats=2, seed=seed, shared=False)


def test_rows_of_gumbel_max_that_the_published_set_excludes():
    """One row after the other, from the bounds of the set."""
    case = causal_sets.robust_grid(0.9)
    cf = conditioned(case, case.paths["catastrophic"])
    sure = tether.robust(case.mdp, cf.path, assume="published-monotonicity")
    seen = left = 0
    for t, (s_t, a_t) in enumerate(zip(cf.path.states, cf.path.actions, strict=False)):
        support = set(case.mdp.row(s_t, a_t)[0])
        for s in case.mdp.states:
            for a in case.mdp.actions:
                if (s, a) == (s_t, a_t) or not support & set(case.mdp.row(s, a)[0]):
                    continue
                seen += 1
                row = dict(zip(*cf.row(t, s, a), strict=True))
                names, lower, upper = sure.bounds(t, s, a)
                inside = all(
                    low - 1e-9 <= row.pop(j, 0.0) <= up + 1e-9 for j, low, up in zip(names, lower, upper, strict=True)
                )
                left += not inside or any(chance > 1e-9 for chance in row.values())
    assert causal_sets.left_by_gumbel_max(cf) == (seen, left) == (214, 21)


def test_without_the_program_the_command_says_so(monkeypatch):
    """The library's command line finds the program by an entry point, and imports nothing of it."""
    monkeypatch.setattr("tether.cli.group.entry_points", lambda **about: ())
    done = run("reproduce", "toy", "--out", "anywhere", "--check")
    assert done.exit_code == 2
    assert done.output == (
        "tether: 'tether reproduce' is not installed; install Tether again: pip install --force-reinstall tether\n"
    )
    assert run("--help").exit_code == 0
