"""The documentation site: every public name has its place, the pages build without a warning and ask no other host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.compiled
def test_the_site_builds_and_needs_no_other_host(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert len(pages) > 15
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?https?:|<link[^>]+rel=\"?(?:stylesheet|preconnect)[^>]+https?:"
    )
    assert [page.name for page in pages if loaded.search(page.read_text())] == []
    assert (tmp_path / "search" / "search_index.js").exists()  # search works from the disk too
