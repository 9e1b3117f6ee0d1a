"""Writes docs/api.md from the docstrings: ``python docs/make_api.py``. `tests/test_api_reference.py` says when to.

A section for each public name: its signature, what its docstring says, its example. Methods that have an example of
their own get a section too, the others a line. The order is that of the groups below; a name that is in none comes at
the end of its module, so that nothing is ever left out.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import tether

FILE = Path(__file__).with_name("api.md")

MODULES = ("tether", "tether.cases", "tether.interop", "tether.plot")

GROUPS = {
    "A model": ("MDP", "from_gymnasium"),
    "What happened": ("Path", "Episodes"),
    "The counterfactual": ("counterfactual", "CounterfactualMDP", "tv", "effective", "GumbelMax", "SampledGumbelMax"),
    "Plans": ("Plan", "Sweep", "Front", "Point", "Solution"),
    "Answers": (
        "Explanation",
        "ExplainedStep",
        "Evaluation",
        "Course",
        "Tailoring",
        "Trajectories",
        "Why",
        "Classes",
    ),
    "Learning from logs": ("learn", "learned", "Learned", "Counts"),
    "How sure": ("posterior", "Posterior", "PlanUncertainty", "SweepUncertainty", "ChangedAction"),
    "Errors": ("TetherError", "FileError", "ModelError", "PathError", "QueryError", "Problem"),
}

BUILT = {"Path", "GumbelMax", "SampledGumbelMax", "Case"}
"""Classes that one builds by calling them; the others are made by functions and methods, which say how."""

HEAD = """\
# API reference

Every public name, from its docstring. Every example runs in `make test`. `python docs/make_api.py` writes this page.
"""


class Docs(NamedTuple):
    """A docstring in numpy's style: the text before the first section, and the sections by title."""

    summary: str
    sections: dict[str, str]


def main() -> None:
    """Write the page."""
    FILE.write_text(page(), encoding="utf-8", newline="\n")


def page() -> str:
    """The whole page, the same each time."""
    chapters = [chapter(name) for name in MODULES]
    found = re.findall(r"^(##+) (.*)$", "\n".join(chapters), flags=re.MULTILINE)
    return "\n".join([HEAD, contents(found), *chapters])


def contents(headings: list[tuple[str, str]]) -> str:
    """Links to the modules, and below each to its names; methods are found under theirs."""
    lines, taken = [], dict[str, int]()
    for level, title in headings:
        anchor = anchor_of(title, taken)
        if level == "##":
            lines.append(f"- [{title}](#{anchor})")
        elif level == "###":
            lines.append(f"  - [{title}](#{anchor})")
    return "\n".join(lines) + "\n"


def anchor_of(title: str, taken: dict[str, int]) -> str:
    """What GitHub makes of a heading; the second of the same name gets a number."""
    plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    again = taken.get(plain, 0)
    taken[plain] = again + 1
    return f"{plain}-{again}" if again else plain


def chapter(module_name: str) -> str:
    """All names of a module, by group."""
    module = importlib.import_module(module_name)
    about = "" if module_name == "tether" else prose(parse(module).summary)
    parts = []
    for title, names in grouped(module).items():
        heading = f"## {title}" if module_name == "tether" else f"## `{module_name}`\n\n{about}"
        parts += [heading, *(section(module, name) for name in names)]
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def grouped(module: Any) -> dict[str, list[str]]:
    """The public names of a module in the order of the page."""
    if module.__name__ != "tether":
        return {module.__name__: list(module.__all__)}
    groups = {title: [name for name in names if name in module.__all__] for title, names in GROUPS.items()}
    known = {name for names in groups.values() for name in names}
    return groups | {"Besides": [name for name in module.__all__ if name not in known]}


def section(module: Any, name: str) -> str:
    """One public name."""
    thing, full = getattr(module, name), f"{module.__name__}.{name}"
    heading = f"### `{full}`\n"
    if inspect.ismodule(thing):
        first = parse(thing).summary.partition("\n\n")[0]
        return f"{heading}\n{text(first)} See [below](#{anchor_of(full, {})}-1).\n"
    if module is not tether and getattr(tether, name, None) is thing:
        return f"{heading}\nThe same as [`tether.{name}`](#{anchor_of(f'tether.{name}', {})}).\n"
    if not callable(thing):
        return f"{heading}\nThe version of the package, as text.\n"
    made = inspect.isclass(thing) and name not in BUILT
    call = f"class {full}" if made else signature(thing, full)
    parts = [heading, f"```text\n{call}\n```\n", body(parse(thing))]
    if inspect.isclass(thing):
        parts += [*lines_of(thing), *(method(thing, *one) for one in members(thing) if one[2])]
    return "\n".join(part for part in parts if part)


def body(docs: Docs) -> str:
    """What a docstring says: the text, the lists of parameters and the like, the example."""
    parts = [prose(docs.summary)]
    for title, said in docs.sections.items():
        if title == "Examples":
            parts.append(prose(said))
        elif title == "See Also":
            parts.append(f"See also {' '.join(text(said).split())}\n")
        elif title == "Notes":
            parts.append(prose(said))
        else:
            parts.append(f"{title}:\n\n{listed(said)}\n")
    return "\n".join(parts)


def lines_of(kind: type) -> Iterator[str]:
    """A line for each method or property without an example of its own."""
    lines = []
    for name, member, own_example in members(kind):
        if not own_example:
            call = name if is_property(member) else " ".join(signature(plain(kind, name), name).split())
            summary = " ".join(parse(plain(kind, name)).summary.partition("\n\n")[0].split())
            lines.append(f"- `{call}`: {text(summary)}")
    if lines:
        yield "Methods and properties:\n\n" + "\n".join(lines) + "\n"


def method(kind: type, name: str, member: Any, _: bool) -> str:
    """A method that has an example of its own."""
    full = f"{kind.__name__}.{name}"
    call = full if is_property(member) else signature(plain(kind, name), full)
    return f"#### `{full}`\n\n```text\n{call}\n```\n\n{body(parse(plain(kind, name)))}"


def members(kind: type) -> list[tuple[str, Any, bool]]:
    """The public methods and properties that a class itself defines, and whether each has an example."""
    kinds = (property, cached_property, classmethod, staticmethod)
    found = []
    for name, member in vars(kind).items():
        if name.startswith("_") or not (isinstance(member, kinds) or inspect.isfunction(member)):
            continue
        docs = parse(plain(kind, name))
        if docs.summary:
            found.append((name, member, "Examples" in docs.sections))
    return found


def is_property(member: Any) -> bool:
    """Whether a member is read, not called."""
    return isinstance(member, property | cached_property)


def plain(kind: type, name: str) -> Any:
    """A member as it is called: bound, if it is a class method."""
    member = inspect.getattr_static(kind, name)
    if isinstance(member, classmethod | staticmethod):
        return getattr(kind, name)
    return getattr(member, "func", None) or member


def signature(thing: Any, name: str) -> str:
    """A call without its types: these are in the text."""
    found = inspect.signature(thing)
    parameters = [shown(one) for one in found.parameters.values() if one.name != "self"]
    call = f"{name}{found.replace(parameters=parameters, return_annotation=found.empty)}"
    return fill(call, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def shown(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter without its type, and with a default that is a function by its name."""
    default = parameter.default
    named = callable(default) and default is not parameter.empty
    return parameter.replace(annotation=parameter.empty, default=Name(default.__name__) if named else default)


class Name(str):
    """Text that prints as it is, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def parse(thing: Any) -> Docs:
    """A docstring, taken apart."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    starts = [i for i in range(len(lines) - 1) if lines[i] and re.fullmatch(r"-{3,}", lines[i + 1])]
    summary = "\n".join(lines[: starts[0] if starts else len(lines)])
    sections = {lines[i]: "\n".join(lines[i + 2 : end]) for i, end in pairwise([*starts, len(lines)])}
    return Docs(summary.strip(), sections)


def text(said: str) -> str:
    """The markup of docstrings as Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", said.strip("\n"))


def listed(said: str) -> str:
    """A list of parameters: ``name : type`` and below it, indented, what it is."""
    items: list[list[str]] = []
    for line in said.splitlines():
        if line and not line.startswith(" "):
            name, colon, kind = line.partition(" : ")
            items.append([f"- `{name}`" + (f" ({text(kind)})" if colon else "")])
        elif line.strip() and items:
            items[-1].append(text(line.strip()))
    return "\n".join(first + (f": {' '.join(rest)}" if rest else "") for first, *rest in items)


def prose(said: str) -> str:
    """Text; sessions in it as blocks that run, code that is only shown as blocks that do not."""
    parts = []
    for part in re.split(r"\n\n(?=\S)", inspect.cleandoc(said)):
        if part.startswith(">>> "):
            parts.append(f"```python\n{part.rstrip()}\n```\n")
            continue
        told, marked, code = part.partition("::\n\n")
        parts.append(text(told) + (f":\n\n```text\n{inspect.cleandoc(code)}\n```\n" if marked else "\n"))
    return "\n".join(parts)


if __name__ == "__main__":
    main()
