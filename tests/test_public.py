"""The public names: one list, each documented with an example that `make test` runs."""

import ast
import configparser
import dataclasses
import inspect
import itertools
import pathlib
import pickle
import re
import subprocess
import sys

import pytest

import tether

PUBLIC = [
    "MDP",
    "Comonotone",
    "Episodes",
    "FileError",
    "GumbelMax",
    "Independent",
    "Influence",
    "InfluenceTest",
    "Maximal",
    "Mechanism",
    "ModelError",
    "Path",
    "PathError",
    "QueryError",
    "RowMechanism",
    "Rule",
    "SampledGumbelMax",
    "TetherError",
    "TetherRule",
    "Types",
    "__version__",
    "audit",
    "avoid",
    "cases",
    "certify",
    "compare",
    "compare_mechanisms",
    "counterfactual",
    "counterfactual_row",
    "effective",
    "errors",
    "evaluate_rules",
    "from_gymnasium",
    "io",
    "learn",
    "learn_types",
    "posterior",
    "practice",
    "reach",
    "records",
    "review",
    "robust",
    "rule",
    "rules",
    "tv",
    "until",
    "views",
]

RECORDS = sorted(name for name in vars(tether.records) if name[0].isalpha())

CASES = [
    "Case", "IcuSepsisCase", "TypedCase", "epidemic", "grid_world", "hidden_diabetes", "icu_sepsis", "sepsis", "toy",
    "twelve_states", "ward",
]  # fmt: skip


def test_the_public_names():
    """Adding one is a decision: it is made here, in the stub `src/tether/__init__.pyi`, and in the changelog."""
    assert sorted(tether.__all__) == sorted(PUBLIC)
    assert sorted(tether.cases.__all__) == sorted(CASES)


def test_nothing_else_is_shown():
    assert sorted(dir(tether)) == sorted(PUBLIC)


def test_what_only_the_library_reads_is_not_shown():
    """``dir``, which notebooks complete from, lists what users ask; each name that is left out exists."""
    case = tether.cases.toy()
    cf = tether.counterfactual(case.mdp, case.path)
    for made in (case.mdp, cf, cf.tether(), cf.plan(k=1)):
        assert made._internal
        assert not made._internal & {*dir(made)}
        assert all(hasattr(made, name) for name in made._internal)
    assert {"plan", "row", "path", "T"} <= {*dir(cf)}


@pytest.mark.parametrize("file", ["__init__.pyi", "records.py"])
def test_type_checkers_see_the_names(file):
    """They take an import as public only if it is written "X as X"; `make lint` checks that each is found."""
    tree = ast.parse((pathlib.Path(tether.__file__).parent / file).read_text(encoding="utf-8"))
    names = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(alias.name for alias in names) == sorted(RECORDS if file == "records.py" else PUBLIC)
    assert [alias.name for alias in names if alias.asname != alias.name] == []


def test_records_are_classes_and_have_one_name():
    for name in RECORDS:
        assert isinstance(getattr(tether.records, name), type), name
    assert not set(RECORDS) & {*PUBLIC, *tether.errors.__all__, *tether.io.__all__}


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in ("__version__", "errors")])
def test_every_public_name_is_documented_with_an_example(name):
    assert ">>> " in (inspect.getdoc(getattr(tether, name)) or "")
    assert getattr(tether, name).__doc__


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_documented_with_an_example(name):
    assert ">>> " in (vars(tether.records)[name].__doc__ or "")


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_documented_with_an_example(name):
    assert ">>> " in (vars(tether.cases)[name].__doc__ or "")


@pytest.mark.parametrize("kind", ["MDP", "Path", "CounterfactualMDP", "GumbelMax", "Plan", "Robust", "Audit"])
def test_every_public_method_is_documented(kind):
    made = getattr(tether, kind, None) or getattr(tether.records, kind)
    data = {one.name for one in dataclasses.fields(made)} if dataclasses.is_dataclass(made) else set()
    for name, value in inspect.getmembers_static(made):
        if not name.startswith("_") and name not in data and not isinstance(value, str):
            assert inspect.getdoc(value), f"{kind}.{name}"


def test_every_folder_says_what_it_is_about_and_what_it_may_import():
    """In a few lines, and in the order of .importlinter: what a folder may import is the one next below it."""
    root = pathlib.Path(tether.__file__).parent
    found = {}
    for file in (*root.glob("*/__init__.py"), root / "mdp.py"):
        about = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition(">>>")[0].strip()
        assert len(about.splitlines()) <= 7, file
        found[file.parent.name if file.stem == "__init__" else file.stem] = re.findall(r"May import: ([\w, ]+)", about)
    assert all(len(one) == 1 for one in found.values()), found
    house = configparser.ConfigParser()
    house.read(pathlib.Path(__file__).parents[1] / ".importlinter")
    listed = house["importlinter:contract:house"]["layers"].split("\n")
    layers = [set(re.findall(r"tether\.(\w+)", line)) for line in listed if "tether." in line]
    assert found.keys() == set().union(*layers) - {"records", "errors", "_version"}
    for above, below in itertools.pairwise(layers):
        for folder in above - {"records", "cli", "_foundation", "errors"}:
            assert below <= set(re.findall(r"\w+", found[folder][0])), folder
    assert found["cli"] == ["everything"]


def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", tether.__version__)


def test_importing_is_light():
    """Neither numba (a second) nor matplotlib nor SciPy is imported until it is needed; building a model needs none.

    A reader of files is loaded when a file is read.
    """
    code = """
import sys, tether
tether.MDP.from_table(["a"], ["x"], ["a"], [1.0]).describe()
tether.io.open_path("case:toy")
readers = ("tether.io.logs", "tether.io.drn")
heavy = ("numba", "llvmlite", "matplotlib", "scipy", "pandas", "pyarrow", "gymnasium", *readers)
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_figures_are_found_without_being_imported():
    code = "import tether; print(tether.views.figures.plot_values.__name__)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plot_values"


def test_other_names_are_not_found():
    with pytest.raises(AttributeError, match="No tether attribute lern"):
        _ = tether.lern


def _public_functions():
    """Every public function and method: (name, function)."""
    names = {module: module.__all__ for module in (tether, tether.cases, tether.io, tether.views.figures)}
    names[tether.records] = RECORDS
    for module, listed in names.items():
        title = module.__name__.rpartition(".")[2]
        for name in listed:
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("tether"):
                for attribute in [attribute for attribute in dir(value) if not attribute.startswith("_")]:
                    method = inspect.getattr_static(value, attribute)
                    method = getattr(method, "__func__", method)
                    if inspect.isfunction(method):
                        yield f"{title}.{name}.{attribute}", method
            elif inspect.isfunction(value):
                yield f"{title}.{name}", value


def test_two_whole_numbers_side_by_side_are_given_by_name():
    """`classify(t, k)` was once called as `classify(k, t)`, and nobody noticed.

    Only "k, then m" has one order everywhere; and the indices "s, then a" of `MDP.find_pair`.
    """
    whole, found = {"int", "int | None"}, {}
    for name, function in _public_functions():
        places = [
            one.name if one.annotation in whole else ""
            for one in inspect.signature(function).parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD
        ]
        beside = [pair for pair in itertools.pairwise(places) if all(pair)]
        if beside:
            found[name] = beside
    assert found.pop("tether.MDP.find_pair") == [("s", "a")]
    assert found.pop("records.Names.index") == [("start", "stop")]  # as every sequence has it
    assert {tuple(beside) for beside in found.values()} == {(("k", "m"),)}
    assert "records.CounterfactualMDP.plan" in found


def test_a_time_and_a_tether_cannot_be_mixed_up():
    toy = tether.cases.toy()
    cf = tether.counterfactual(toy.mdp, toy.path)
    for asked in (cf, cf.tether()):
        with pytest.raises(TypeError, match="positional argument"):
            asked.classify(1, 2)
        with pytest.raises(TypeError, match="positional argument"):
            asked.why(0, "s0", "a1", 2)


def test_what_calls_return_can_be_asked_on():
    """A plan or a counterfactual MDP is the public object wherever users meet it, also within other results."""
    records, case = tether.records, tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    limited = cf.plan(k=12, m=3, subject_to=(tether.reach("danger"), 0.05))
    audit = tether.audit(case.mdp, {"ann": case.path}, k=3, certify=False)
    sure = tether.robust(case.mdp, case.path, assume="nothing")
    guaranteed = sure.plan(k=3, m=1)
    plans = [
        cf.plan(k=3),
        cf.tether().plan(k=3),
        cf.pareto(m=1, limit=2).points[0].plan,
        cf.pareto(m=1, against=tether.reach("danger"), limit=2).points[0].plan,
        *limited.constraint.mixture.plans,
        cf.plan(k=3).explain().plan,
        audit.plan("ann"),
        *(plan for _, plan in audit.plans(["ann"])),
        guaranteed,
    ]
    plans += [pickle.loads(pickle.dumps(plan)) for plan in (*plans[:3], limited)]
    assert all(isinstance(plan, records.Plan) for plan in plans)
    assert all(isinstance(plan.cf, records.CounterfactualMDP) for plan in plans)
    assert all(isinstance(plan.question, records.Tethered) for plan in plans)
    assert isinstance(guaranteed, records.RobustPlan)
    assert isinstance(guaranteed.robust, records.Robust)
    asked = (cf.sweep(), cf.decisions(), cf.what_if({0: "down"}), cf.review(), sure)
    assert all(isinstance(one.cf, records.CounterfactualMDP) for one in asked)
    assert isinstance(sure.worst_model("observed"), records.CounterfactualMDP)
