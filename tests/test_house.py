"""The shape of the code: what CONTRIBUTING says about folders and files is true."""

import ast
import collections
import configparser
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


def test_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+/[\w.]*|[\w.]+\.(?:py|pyi|toml))`", text)) - {"utils.py"}  # there is none
    above = (ROOT, ROOT / "src", LIBRARY, ROOT / "tests", ROOT / "src/tether_reproduce")
    places = (*above, *(one for one in LIBRARY.rglob("*") if one.is_dir()))
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []
