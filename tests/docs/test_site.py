"""The documentation site: every public name has its place, the pages build without a warning and ask no other host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from as_read import DESK, Visit

import tether

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
LISTED = {name for page in PAGES for name in re.findall(r"^::: tether\.(\S+)$", page.read_text(), re.M)}


@pytest.mark.parametrize("name", sorted(set(tether.__all__) - {"__version__", "io", "records", "views"}))
def test_every_public_name_is_in_the_reference(name):
    assert name in {*LISTED, *tether.errors.__all__}  # `tether.errors` is listed whole


@pytest.mark.parametrize("name", sorted(name for name in vars(tether.records) if name[0].isalpha()))
def test_every_record_is_in_the_reference(name):
    assert f"records.{name}" in LISTED


@pytest.mark.parametrize("name", tether.io.__all__)
def test_every_reader_and_writer_is_in_the_reference(name):
    assert f"io.{name}" in LISTED


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.compiled
def test_the_site_builds_and_needs_no_other_host(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 15
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?https?:|<link[^>]+rel=\"?(?:stylesheet|preconnect)[^>]+https?:"
    )
    assert [page.name for page in pages if loaded.search(page.read_text())] == []
    assert (site / "search" / "search_index.js").exists()  # search works from the disk too


@pytest.mark.compiled
def test_every_object_has_a_page_of_its_own(site):
    """No page of the reference is longer than a reader can follow; each object has one, below the list."""
    for name in sorted(LISTED):
        assert (site / "reference" / f"{name}.html").exists(), name
    listing = (site / "reference" / "plans.html").read_text(encoding="utf-8")
    assert 'href="records.Plan.html"' in listing
    assert "Parameters" not in listing  # docstrings stand on their own pages


@pytest.mark.compiled
@pytest.mark.parametrize("page", ["index", "method", "reference/Path"])
def test_everybody_can_read_the_site(browser, site, page):
    """axe finds nothing, in light and in dark; it fits a small phone; nothing is asked of another host."""
    with Visit(browser, (site / f"{page}.html").as_uri()) as visit:
        assert [one for one in visit.requests if not one.startswith(("file:", "data:", "blob:"))] == []
        visit.accessible()
        for width in (320, 640, DESK):
            visit.width(width)
            # once what slides in or out at another width has come to rest
            visit.page.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=60_000)
