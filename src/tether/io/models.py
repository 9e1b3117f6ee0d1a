"""Any model file: its format, and the reader or writer for it.

A model that `tether.MDP.save` wrote is known by its contents. Any other format is found from the suffix, or given.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tether.errors import Problem, QueryError
from tether.io.files import File, file_error, name_of
from tether.mdp import MDP
from tether.model.storage import is_saved_model


class Format(NamedTuple):
    """One format of models: its suffixes, its reader and writer, what has names in it, and if it can hold labels.

    ``writer`` is empty if models are only read from it. ``no_rewards`` is the option of the reader, and its value, that
    leaves out the rewards.
    """

    suffixes: tuple[str, ...]
    module: str
    reader: str
    writer: str
    named: Literal["columns", "arrays"] | None = None
    has_labels: bool = False
    no_rewards: tuple[str, Any] | None = None


_TABLES: tuple[str, str, str, Literal["columns"]] = ("tether.io.model_tables", "read_table", "write_table", "columns")
_ARRAYS: tuple[str, str, str, Literal["arrays"]] = ("tether.io.matrices", "read_arrays", "write_arrays", "arrays")
_STORM: tuple[str, str, str, None, bool, tuple[str, Any]] = (
    "tether.io.storm", "read_storm", "", None, True, ("reward_model", False)
)  # fmt: skip
_NO_STRUCTURE, _NO_ARRAY = ("reward_model", False), ("rewards", None)

FORMATS: dict[str, Format] = {
    "csv": Format((".csv", ".csv.gz"), *_TABLES),
    "tsv": Format((".tsv", ".tsv.gz"), *_TABLES),
    "parquet": Format((".parquet", ".pq"), *_TABLES),
    "arrow": Format((".arrow", ".feather", ".ipc"), *_TABLES),
    "xlsx": Format((".xlsx", ".xlsm"), *_TABLES),
    "npz": Format((".npz",), *_ARRAYS, no_rewards=_NO_ARRAY),
    "mat": Format((".mat",), *_ARRAYS, no_rewards=_NO_ARRAY),
    "prism": Format((".tra",), "tether.io.prism", "read_prism", "write_prism", None, True, _NO_STRUCTURE),
    "drn": Format((".drn",), "tether.io.drn", "read_drn", "write_drn", None, True, _NO_STRUCTURE),
    "prism-language": Format((".nm", ".pm", ".sm", ".prism"), *_STORM),
    "jani": Format((".jani",), *_STORM),
    "umb": Format((".umb",), *_STORM),
    "saved": Format((".tether",), "tether.io.models", "_load", "_save", has_labels=True),
}
"""The formats of models."""


def read_model(file: File, format: str | None = None, **options: Any) -> MDP:
    """Read a model, whatever format it is in.

    Parameters
    ----------
    file : path
        A saved model, or a file whose suffix is known: see `FORMATS`.
    format : str, optional
        One of `FORMATS`, where the suffix does not tell.
    **options
        What the format's own reader takes: `read_table` for tables, `read_arrays` for arrays, `read_prism`,
        `read_drn`, `read_storm`.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.io import read_model, write_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(tether.cases.grid_world().mdp, f"{folder}/grid.parquet")
    ...     read_model(f"{folder}/grid.parquet")
    <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
    """
    format = format_of(file, format)
    read = _handler(format, reading=True)
    model: MDP = read(file, **_fitting(read, format, options))
    return model


def write_model(mdp: MDP, file: File, format: str | None = None, **options: Any) -> None:
    """Write a model, in the format its name says: a known suffix, or none for a saved model (`tether.MDP.save`).

    Parameters
    ----------
    mdp : MDP
    file : path
    format : str, optional
        One of `FORMATS`, where the suffix does not tell.
    **options
        What the format's own writer takes: `write_arrays` takes ``order=`` and ``sparse=``.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.io import read_model, write_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(tether.cases.grid_world().mdp, f"{folder}/grid.npz", order="ASS")
    ...     read_model(f"{folder}/grid.npz", order="ASS")
    <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
    """
    format = format_of(file, format)
    write = _handler(format, reading=False)
    write(mdp, file, **_fitting(write, format, options))


def format_of(file: File, format: str | None = None) -> str:
    """The format of a file: the given one, else by suffix; a name without a suffix is a saved model.

    A file that `tether.MDP.save` wrote is a saved model whatever its name.

    Examples
    --------
    >>> from tether.io.models import format_of
    >>> format_of("clinic.csv.gz"), format_of("dice.tra"), format_of("saved/clinic")
    ('csv', 'prism', 'saved')
    """
    if format is not None:
        if format not in FORMATS:
            raise QueryError(f"there is no format {format!r}; there are {', '.join(FORMATS)}")
        return format
    path = Path(name_of(file))
    if not path.suffix or path.is_dir() or is_saved_model(path):
        return "saved"
    found = format_by_suffix(path.name)
    if found is not None:
        return found
    known = ", ".join(f"{name} ({', '.join(one.suffixes)})" for name, one in FORMATS.items() if one.suffixes)
    wrong = f"the name does not say what format this is in; models are {known}, or a file that MDP.save wrote"
    raise file_error(file, Problem(wrong, fix="rename it, or say which: format='csv'", argument="format"))


def format_by_suffix(name: str) -> str | None:
    """The format that the suffix of a name means, if there is one."""
    return next((format for format, one in FORMATS.items() if name.lower().endswith(one.suffixes)), None)


def _handler(format: str, *, reading: bool) -> Callable[..., Any]:
    one = FORMATS[format]
    name = one.reader if reading else one.writer
    if not name:
        fix = "a file for Storm ends in .drn, and one for PRISM in .tra"
        raise QueryError(Problem(f"models are read from the format {format}, but not written in it", fix=fix))
    handler: Callable[..., Any] = getattr(import_module(one.module), name)
    return handler


def _fitting(handler: Callable[..., Any], format: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options, if the handler takes all of them, and the kind of file if it handles several."""
    known = {name for name, one in signature(handler).parameters.items() if one.kind is Parameter.KEYWORD_ONLY}
    offered = sorted(known - {"kind"})
    for name, value in options.items():
        if name not in offered:
            takes = f"it takes {', '.join(f'{one}=' for one in offered)}" if offered else "it takes no options"
            what = f"{name}= does not apply to the format {format}; {takes}"
            raise QueryError(Problem(what, value=value, argument=name))
    return {**options, "kind": format} if "kind" in known else options


def _load(file: File) -> MDP:
    return MDP.load(file)


def _save(mdp: MDP, file: File) -> None:
    mdp.save(file)
