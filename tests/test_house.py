"""The shape of the code: what CONTRIBUTING says about folders and files is true."""

import ast
import collections
import configparser
import importlib
import pathlib
import re

import pytest

import tether

ROOT = pathlib.Path(__file__).parents[1]
LIBRARY = pathlib.Path(tether.__file__).parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_a_file_name_is_used_once():
    counts = collections.Counter(file.name for file in SOURCES)
    assert [name for name, times in counts.items() if times > 1] == ["__init__.py"]


def test_imports_have_no_exemptions():
    house = configparser.ConfigParser()
    house.read(ROOT / ".importlinter")
    assert not [section for section in house.sections() if "ignore_imports" in house[section]]


def test_no_import_points_upwards_even_for_types():
    """`.importlinter` sees imports within functions; those for type checkers alone are read here."""
    house = configparser.ConfigParser()
    house.read(ROOT / ".importlinter")
    listed = house["importlinter:contract:house"]["layers"].split()
    rank = {name.removeprefix("tether."): i for i, name in enumerate(one for one in listed if one != "|")}
    upwards = []
    for file in sorted(LIBRARY.rglob("*.py")):
        room = file.relative_to(LIBRARY).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            parts = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
            if room in rank and len(parts) > 1 and parts[0] == "tether" and parts[1] != "_version":
                upwards += [f"{file}: {node.module}"] if rank[parts[1]] < rank[room] else []
    assert upwards == []


@pytest.mark.parametrize("unwanted", [r"\bself: Any\b", r'"""The same\b'])
def test_what_the_house_does_without(unwanted):
    assert [str(file) for file in SOURCES if re.search(unwanted, file.read_text(encoding="utf-8"))] == []


def test_lists_of_names_stand_only_where_they_say_more_than_an_underscore():
    """`__all__` passes on names of other files, or lists what users import; elsewhere it would be a second list."""
    listed = {LIBRARY / name for name in ("__init__.py", "errors.py", "records.py", "cases/__init__.py")}
    repeated = []
    for file in [one for one in SOURCES if one not in listed]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        targets = [one for node in tree.body if isinstance(node, ast.Assign) for one in node.targets]
        assigned = {one.id for one in targets if isinstance(one, ast.Name)}
        imported = {
            one.asname or one.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names
        }
        if "__all__" in assigned:
            module = (
                file.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            )
            names = set(importlib.import_module(module).__all__)
            repeated += [] if names & imported or file.name == "__init__.py" else [module]
    assert repeated == []


def test_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+/[\w.]*|[\w.]+\.(?:py|pyi|toml))`", text)) - {"utils.py"}  # there is none
    above = (ROOT, ROOT / "src", LIBRARY, ROOT / "tests", ROOT / "src/tether_reproduce")
    places = (*above, *(one for one in LIBRARY.rglob("*") if one.is_dir()))
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []
