"""Any model file: told by its name, or said; options that do not apply are errors."""

import subprocess
import sys

import pytest
from modelfiles import assert_same

import tether
from tether.errors import FileError
from tether.io import read_model, write_model
from tether.io.models import FORMATS, format_of

WRITTEN = {format: one.suffixes for format, one in FORMATS.items() if one.writer and format != "xlsx"}
SUFFIXES = [suffix for suffixes in WRITTEN.values() for suffix in suffixes]


@pytest.fixture(scope="module")
def mdp():
    """Names that every format keeps: whole numbers from 0 for states, words for actions."""
    return tether.cases.grid_world().mdp


@pytest.mark.parametrize("name", ["model", *(f"model{suffix}" for suffix in SUFFIXES)])
def test_a_model_comes_back_by_the_name_of_its_file(tmp_path, mdp, name):
    write_model(mdp, tmp_path / name)
    assert_same(read_model(tmp_path / name), mdp)


@pytest.mark.parametrize("format", [format for format in WRITTEN if format != "prism"])  # its files have fixed suffixes
def test_a_format_can_be_said(tmp_path, mdp, format):
    file = tmp_path / "model.of.mine"
    write_model(mdp, file, format=format)
    assert_same(read_model(file, format=format), mdp)


def test_a_saved_model_is_one_whatever_its_name(tmp_path, mdp):
    for name in ("model", "model.tether", "model.v2", "model.csv"):
        mdp.save(tmp_path / name)
        assert format_of(tmp_path / name) == "saved"
        assert_same(read_model(tmp_path / name), mdp)
        write_model(mdp, tmp_path / name)
        assert_same(tether.MDP.load(tmp_path / name), mdp)


def test_a_directory_is_no_model(tmp_path):
    with pytest.raises(FileError, match=r"this is a directory; a saved model is a file that MDP\.save wrote"):
        read_model(tmp_path)


def test_names_that_do_not_tell(tmp_path, mdp):
    with pytest.raises(FileError) as caught:
        read_model(tmp_path / "model.ods")
    assert str(caught.value) == (
        f"{tmp_path}/model.ods: the name does not say what format this is in; models are csv (.csv, .csv.gz), tsv "
        "(.tsv, .tsv.gz), parquet (.parquet, .pq), arrow (.arrow, .feather, .ipc), xlsx (.xlsx, .xlsm), npz "
        "(.npz), mat (.mat), prism (.tra), drn (.drn), prism-language (.nm, .pm, .sm, .prism), jani (.jani), "
        "umb (.umb), saved (.tether), or a file that MDP.save wrote; rename it, or say which: format='csv'"
    )
    with pytest.raises(FileError, match="the name does not say what format"):
        write_model(mdp, tmp_path / "model.gz")
    with pytest.raises(tether.QueryError, match="there is no format 'excel'; there are csv, tsv, parquet"):
        read_model(tmp_path / "model.csv", format="excel")
    with pytest.raises(tether.QueryError, match="expected the name of a file, not None"):
        format_of(None)


def test_options_go_to_the_format_they_are_for(tmp_path, mdp):
    write_model(mdp, tmp_path / "model.npz", order="ASS")
    assert_same(read_model(tmp_path / "model.npz", order="ASS", actions=mdp.actions), mdp)
    write_model(mdp, tmp_path / "model.csv")
    assert read_model(tmp_path / "model.csv", actions=["left", "down", "up", "right"]).actions[0] == "left"


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (
            "a.csv",
            {"order": "SAS"},
            "order= does not apply to the format csv; it takes actions=, columns=, max_unpacked=, states=, ",
        ),
        (
            "a.npz",
            {"columns": {}},
            "columns= does not apply to the format npz; it takes actions=, max_unpacked=, order=, reward_order=",
        ),
        ("a", {"terminal": [1]}, "terminal= does not apply to the format saved; it takes no options"),
        ("a.csv", {"kind": "tsv"}, "kind= does not apply to the format csv"),
    ],
)
def test_options_that_do_not_apply(name, options, expected):
    with pytest.raises(tether.QueryError) as caught:
        read_model(name, **options)
    assert str(caught.value).startswith(expected)
    with pytest.raises(tether.QueryError, match="columns= does not apply"):
        write_model(None, name, columns={})


def test_the_package_is_light_until_it_is_used():
    code = "import sys, tether.io; print({'pyarrow', 'scipy', 'pandas', 'gymnasium'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_whole_numbers_stay_whole_numbers_through_every_table(tmp_path):
    mdp = tether.MDP.from_table([3, 3, 7], [10, 20, 10], [7, 3, 7], [1.0, 1.0, 1.0], [1.5, 0.0, 0.0])
    for suffix in ("csv", "tsv", "csv.gz", "parquet", "arrow", "feather"):
        file = tmp_path / f"numbers.{suffix}"
        tether.io.write_model(mdp, file)
        found = tether.io.read_model(file)
        assert [type(name) for name in (*found.states, *found.actions)] == [int] * 4, suffix
        assert (list(found.states), list(found.actions)) == ([3, 7], [10, 20])


def test_whole_numbers_stay_whole_numbers_in_the_table_of_an_answer():
    mdp = tether.MDP.from_table([3, 3, 7], [10, 20, 10], [7, 3, 7], [1.0, 1.0, 1.0], [1.5, 0.0, 0.0])
    plan = tether.counterfactual(mdp, tether.Path([3, 3, 7], [20, 10])).plan(k=2, m=1)
    table = plan.explain().to_arrow()
    for name in ("observed_state", "observed_action", "state", "action"):
        assert str(table.schema.field(name).type) == "int64", name


def test_convert_is_a_call(tmp_path):
    source = tmp_path / "grid"
    marked = tether.cases.grid_world().mdp.with_labels({"corner": [0]})
    done = tether.io.convert(marked, source)
    assert (done.format, done.lost_labels, done.numbered) == ("saved", (), False)
    done = tether.io.convert(source, tmp_path / "grid.txt", to="csv")
    assert done.format == "csv"
    assert "corner" in done.lost_labels
    assert tether.io.read_model(tmp_path / "grid.txt", "csv").n_transitions == marked.n_transitions
    words = tether.MDP.from_table(["a"], ["go"], ["a"], [1.0])
    assert tether.io.convert(words, tmp_path / "words.tra").numbered
    with pytest.raises(tether.QueryError, match="mean_rewards= does not apply to the format csv"):
        tether.io.convert(words, tmp_path / "words.csv", mean_rewards=True)


def test_a_check_reminds_of_choices_without_names(tmp_path):
    """Choice 1 of one state and choice 1 of another count as one action."""
    (tmp_path / "a.tra").write_text("2 3 3\n0 0 0 1\n0 1 1 1\n1 0 1 1\n")
    (note,) = tether.io.check(tmp_path / "a.tra").notes
    assert note.startswith("Choices without a name are numbered in each state (0, 1). ")
    (tmp_path / "a.tra").write_text("2 3 3\n0 0 0 1 go\n0 1 1 1 stay\n1 0 1 1 go\n")
    assert tether.io.check(tmp_path / "a.tra").notes == ()
    (tmp_path / "a.tra").write_text("2 2\n0 1 1\n1 1 1\n")  # a chain has no choices
    assert tether.io.check(tmp_path / "a.tra").notes == ()
    assert tether.io.check("case:grid-world").notes == ()


def test_what_a_conversion_does_not_keep_is_said(tmp_path):
    mdp = tether.cases.grid_world().mdp.with_objective(discount=0.5, final_reward={15: 1.0})
    assert tether.io.convert(mdp, tmp_path / "grid").notes == ()
    order = "and the choices of a state are in the order of the model's actions."
    left_out = [f"The {one} is left out: these files have none." for one in ("discount 0.5", "final reward")]
    assert tether.io.convert(mdp, tmp_path / "grid.drn").notes == (
        f'The rewards are called "reward", {order}',
        *left_out,
    )
    assert tether.io.convert(mdp, tmp_path / "grid.tra").notes == (f"The rewards have no name, {order}", *left_out)
    (tmp_path / "chain.tra").write_text("2 2\n0 1 1\n1 1 1\n")
    notes = tether.io.convert(tmp_path / "chain.tra", tmp_path / "chain.drn").notes
    assert "A Markov chain is written as an MDP with one action." in notes
