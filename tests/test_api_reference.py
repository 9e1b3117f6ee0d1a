"""docs/api.md: it is what `python docs/make_api.py` writes, and every public name is in it, with its example."""

import difflib
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import tether

DOCS = Path(__file__).parent.parent / "docs"
MODULES = ("tether", "tether.cases", "tether.interop", "tether.plot")
NAMES = [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__]


def has_example(name):
    """All have one but modules, the version, and what `tether` has already."""
    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    return callable(thing) and (module == "tether" or getattr(tether, last, None) is not thing)


@pytest.fixture(scope="module")
def made():
    """The script as a module: docs/ is no package."""
    spec = importlib.util.spec_from_file_location("make_api", DOCS / "make_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page():
    return (DOCS / "api.md").read_text(encoding="utf-8")


def sections(page):
    """What the page says of each name: the text below its heading, up to the next of the same level or above."""
    found = re.split(r"^(#{2,3}) (.*)\n", page, flags=re.MULTILINE)
    titled = zip(found[1::3], found[2::3], found[3::3], strict=True)
    return {title.strip("`"): text for level, title, text in titled if level == "###"}


def test_the_page_is_up_to_date(made, page):
    moved = difflib.unified_diff(page.splitlines(), made.page().splitlines(), "docs/api.md", "as it should be", "", "")
    first = "\n".join(list(moved)[:40])
    assert not first, f"docs/api.md is out of date; run: python docs/make_api.py\n{first}"


def test_making_it_twice_gives_the_same(made):
    assert made.page() == made.page()


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(page, name):
    assert sections(page)[name].strip()


@pytest.mark.parametrize("name", [name for name in NAMES if has_example(name)])
def test_every_name_has_its_example(page, name):
    assert "```python\n>>> " in sections(page)[name]


def test_links_lead_to_headings(made, page):
    taken = {}
    anchors = {made.anchor_of(title, taken) for title in re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)}
    links = set(re.findall(r"\]\(#([^)]*)\)", page))
    assert links <= anchors
    assert len(links) >= len(NAMES)


def test_docstrings_become_markdown(made):
    def told(a, b=len):
        """Say ``a``.

        Parameters
        ----------
        a, b : int
            How many,
            and of what.
        c

        Examples
        --------
        >>> told(1)
        'one'

        Only shown::

            told(2)
        """

    assert made.signature(told, "told") == "told(a, b=len)"
    assert made.body(made.parse(told)) == (
        "Say `a`.\n\nParameters:\n\n- `a, b` (int): How many, and of what.\n- `c`\n\n"
        "```python\n>>> told(1)\n'one'\n```\n\nOnly shown:\n\n```text\ntold(2)\n```\n"
    )


def test_headings_of_the_same_name_are_told_apart(made):
    taken = {}
    titles = ["`tether.learned`", "`tether.Learned`", "How sure", "`tether.from_gymnasium`"]
    expected = ["tetherlearned", "tetherlearned-1", "how-sure", "tetherfrom_gymnasium"]  # as GitHub makes them
    assert [made.anchor_of(title, taken) for title in titles] == expected
