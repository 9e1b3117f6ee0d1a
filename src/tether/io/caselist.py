"""The embedded cases: a list of them, and one of them as files to read and change."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tether._foundation.writing import written
from tether.errors import FileError, Problem, QueryError
from tether.io.embedded import (
    PREFIX,
    TYPED,
    about_case,
    case_names,
    is_typed_case,
    open_case,
    open_typed_case,
    path_names,
)
from tether.io.files import name_of
from tether.io.models import write_model
from tether.io.paths import write_path


@dataclass(frozen=True)
class CaseEntry:
    """An embedded case.

    Attributes
    ----------
    name, about : str
    states, actions : int or None
        How many; None if something that the case needs is not installed.
    paths : dict
        What to write as PATH on the command line, and the number of steps of each.
    stories : dict
        What happened on each path, in a sentence, by what to write as PATH.
    words : dict
        Actions in words, where their names are abbreviations.
    missing : str or None
        What the case needs and is not installed.

    Examples
    --------
    >>> import tether
    >>> tether.io.cases()[1].paths
    {'case:toy': 4}
    """

    name: str
    about: str
    states: int | None
    actions: int | None
    paths: dict[str, int]
    stories: dict[str, str]
    words: dict[str, str]
    missing: str | None


def cases() -> tuple[CaseEntry, ...]:
    """The embedded cases.

    Examples
    --------
    >>> import tether
    >>> [case.name for case in tether.io.cases()][:4]
    ['ward', 'toy', 'twelve-states', 'grid-world']
    """
    return tuple(case_entry(name) for name in (*case_names(), TYPED))


def case_entry(name: str) -> CaseEntry:
    """Entry of a case by its name."""
    if name == TYPED:
        return _typed_entry()
    try:
        case, _ = open_case(f"{PREFIX}{name}")
    except QueryError as error:  # something it needs is not installed
        return CaseEntry(name, about_case(name), None, None, {}, {}, {}, str(error))
    sources = path_names(name, case)
    paths = {source: case.paths[path].T for source, path in sources.items()}
    stories = {source: case.stories[path] for source, path in sources.items()}
    sizes = case.mdp.n_states, case.mdp.n_actions
    return CaseEntry(name, about_case(name), *sizes, paths, stories, dict(case.words), None)


def _typed_entry() -> CaseEntry:
    """The case of hidden types: the sizes are those of the model of each type."""
    case, _ = open_typed_case(f"{PREFIX}{TYPED}")
    sources, one = path_names(TYPED, case), next(iter(case.types.models.values()))
    paths = {source: case.paths[path].T for source, path in sources.items()}
    stories = {source: case.stories[path] for source, path in sources.items()}
    about = "The sepsis model as two types of patients: nobody recorded who has diabetes."
    return CaseEntry(TYPED, about, one.n_states, one.n_actions, paths, stories, {}, None)


def write_case(name: str, folder: str | os.PathLike[str]) -> list[str]:
    """Write a case as files: ``model.csv``, ``path.csv``, and one file per other path.

    Parameters
    ----------
    name : str
        The name of a case, with or without ``case:``.
    folder : path
        A directory that does not exist yet, or is empty.

    Returns
    -------
    list of str
        The names of the files in it.

    Examples
    --------
    >>> import tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.io.write_case("sepsis", f"{folder}/sepsis")
    ['model.csv', 'path.csv', 'path-suboptimal.csv']
    """
    if is_typed_case(name if name.startswith(PREFIX) else f"{PREFIX}{name}"):
        message = "it has a model for each type; write them with tether.cases.hidden_diabetes().types.save(folder)"
        raise QueryError(Problem(message, value=name))
    case, _ = open_case(name if name.startswith(PREFIX) else f"{PREFIX}{name}")
    out = Path(name_of(folder))
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        message = "it exists and is not an empty directory; choose another name, or remove it first"
        raise FileError(Problem(message, file=str(out)))
    with written(out) as partial:
        partial.mkdir()
        write_model(case.mdp, partial / "model.csv")
        files = ["model.csv"]
        for i, (path_name, path) in enumerate(case.paths.items()):
            files.append("path.csv" if i == 0 else f"path-{path_name.replace(' ', '-')}.csv")
            write_path(path, partial / files[-1])
    return files
