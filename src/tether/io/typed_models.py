"""Types of individuals from files: a directory with the model of each type, or one file for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tether._foundation.checked_json import decode_checked
from tether.errors import FileError, Problem, QueryError
from tether.io.embedded import is_typed_case, open_typed_case
from tether.io.files import file_error, name_of, read_bytes
from tether.io.opening import open_model
from tether.mdp import MDP
from tether.model.several_types import LIST_OF_TYPES, TYPES_FORMAT, Types

_AGAIN = "save the types again: types.save(folder)"


def read_types(folder: str | os.PathLike[str], prior: Mapping[str, Any] | None = None, **options: Any) -> Types:
    """Read the models of several types from a directory.

    Parameters
    ----------
    folder : path
        A directory that `tether.Types.save` wrote; or one with a model in each file, which is named as its type:
        ``diabetic.csv``, ``not diabetic.csv``. Or ``case:hidden-diabetes``, the embedded case.
    prior : mapping, optional
        How likely each type is; by default what was saved.
    **options
        How to read the models, for `tether.io.read_model`.

    Examples
    --------
    >>> import tempfile, tether
    >>> mdp = tether.cases.toy().mdp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("frail", "robust"):
    ...         mdp.save(f"{folder}/{name}.tether")
    ...     tether.io.read_types(folder, prior={"frail": 0.2, "robust": 0.8})
    <Types: frail 20 %, robust 80 %>
    """
    if is_typed_case(name_of(folder)):
        types = open_typed_case(name_of(folder))[0].types
        return types if prior is None else Types(types.models, prior)
    root = Path(folder)
    if not root.is_dir():
        raise FileError(Problem("there is no such directory of types", file=str(root)))
    if (root / LIST_OF_TYPES).exists():
        return _saved(root, prior)
    files = sorted(one for one in root.iterdir() if one.is_file() and not one.name.startswith("."))
    if not files:
        raise FileError(Problem("the directory has no models of types", file=str(root)))
    return open_types({one.stem: str(one) for one in files}, prior, **options)


def open_types(models: Mapping[str, str], prior: Mapping[str, Any] | None, **options: Any) -> Types:
    """The types whose models the sources name, as ``--type NAME=MODEL`` gives them."""
    if prior is None:
        listed = " ".join(f"--prior {name!r}=…" for name in models)
        message = f"how likely is each type? give the prior of {', '.join(map(repr, models))}"
        raise QueryError(Problem(message, fix=f"prior={{…}}, or {listed}"))
    return Types({name: open_model(source, **options) for name, source in models.items()}, prior)


def is_types(source: str | os.PathLike[str]) -> bool:
    """Whether a source is a directory of types, or the embedded case of types.

    >>> is_types("case:toy"), is_types("case:hidden-diabetes")
    (False, True)
    """
    return os.path.isdir(source) or is_typed_case(name_of(source))


def _saved(root: Path, prior: Mapping[str, Any] | None) -> Types:
    file = root / LIST_OF_TYPES
    content, is_sound = decode_checked(read_bytes(file))
    if content.get("format") != TYPES_FORMAT:
        raise file_error(file, Problem("this is not a list of types that Types.save wrote", fix=_AGAIN))
    if not is_sound:
        raise file_error(file, Problem("the list of types was changed or damaged since it was saved", fix=_AGAIN))
    models, shares = {}, {}
    for one in content["types"]:
        name, share = one["name"], one["prior"]
        models[name] = mdp = MDP.load(root / one["model"])
        if mdp.place is None or mdp.place.version != one["version"]:
            what = f"this is not the model of type {name!r} that was saved with the others"
            raise file_error(root / one["model"], Problem(what, fix=_AGAIN))
        by_state = isinstance(share, list)
        shares[name] = {s: p for s, p in zip(mdp.states, share, strict=True) if p is not None} if by_state else share
    types = Types(models, shares if prior is None else prior)
    types.usual = None if content["usual"] is None else np.array(content["usual"], np.float64)
    types.caveat = content.get("caveat", "")
    if content["practice"] is not None:
        own = zip(models, content["practice"], strict=True)
        types.own_practice = {name: np.array(shares, np.float64) for name, shares in own}
    return types
