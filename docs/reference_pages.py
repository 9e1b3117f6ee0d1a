"""A hook of the site: a page for each object that a page of ``docs/reference`` lists, which becomes a list of them."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

LISTED = re.compile(r"^::: (tether\.\S+)$", re.MULTILINE)
FOLDER = Path(__file__).parent / "reference"
PAGES = {file.name: LISTED.findall(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.md"))}


def _page(name: str) -> str:
    return f"{name.removeprefix('tether.')}.md"


def _summary(name: str) -> str:
    """The first line of what is said about an object."""
    parts, found = name.split("."), None
    for i in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for part in parts[i:]:
            found = getattr(found, part)
        break
    return (inspect.getdoc(found) or "").partition("\n")[0].replace("`", "")


def on_config(config: Any) -> Any:
    """Put the pages of the objects below the page that lists them."""
    for section in config.nav:
        for i, entry in enumerate(section.get("Reference", [])):
            ((title, path),) = entry.items()
            objects = PAGES.get(path.removeprefix("reference/"), []) if path.startswith("reference/") else []
            under = [{name.rpartition(".")[2]: f"reference/{_page(name)}"} for name in objects]
            section["Reference"][i] = {title: [path, *under]} if under else entry
    return config


def on_files(files: Files, config: Any) -> Files:
    """Make the pages of the objects."""
    for name in dict.fromkeys(name for objects in PAGES.values() for name in objects):
        content = f"::: {name}\n    options:\n      heading_level: 1\n"
        files.append(File.generated(config, f"reference/{_page(name)}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page that lists objects has a line for each."""
    if page.file.src_path.removeprefix("reference/") not in PAGES:
        return markdown
    return LISTED.sub(lambda found: f"- [`{found[1]}`]({_page(found[1])}): {_summary(found[1])}", markdown)
