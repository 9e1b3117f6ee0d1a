"""Types of individuals from files: a directory with the model of each type, or one file for each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tether.errors import FileError, Problem, QueryError
from tether.io.opening import open_model
from tether.mdp import MDP
from tether.model.several_types import LIST_OF_TYPES, Types

__all__ = ["is_types", "open_types", "read_types"]


def read_types(folder: str | os.PathLike[str], prior: Mapping[str, Any] | None = None, **options: Any) -> Types:
    """Read the models of several types from a directory.

    Parameters
    ----------
    folder : path
        A directory that `tether.Types.save` wrote; or one with a model in each file, which is named as its type:
        ``diabetic.csv``, ``not diabetic.csv``.
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
    """Whether a source is a directory of types.

    >>> is_types("case:toy")
    False
    """
    return os.path.isdir(source)


def _saved(root: Path, prior: Mapping[str, Any] | None) -> Types:
    file = root / LIST_OF_TYPES
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        listed, usual = content["types"], content.get("usual")
        usual = None if usual is None else np.array(usual, np.float64)
        names = [(str(one["name"]), str(one["model"]), one["prior"]) for one in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            Problem(f"this is not a list of types that Types.save wrote: {error}", file=str(file))
        ) from None
    models = {name: MDP.load(root / model) for name, model, _ in names}
    pairs = next(iter(models.values())).n_pairs if models else 0
    if usual is not None and (usual.shape != (pairs,) or not ((usual >= 0.0) & (usual <= 1.0)).all()):
        raise FileError(Problem(f"usual must be {pairs} shares, one for each state and action", file=str(file)))
    if prior is not None:
        return _made(models, prior, usual)
    shares: dict[str, Any] = {}
    for name, _, share in names:
        if isinstance(share, list):
            shares[name] = {s: p for s, p in zip(models[name].states, share, strict=True) if p is not None}
        else:
            shares[name] = share
    return _made(models, shares, usual)


def _made(models: Mapping[str, MDP], prior: Mapping[str, Any], usual: Any) -> Types:
    types = Types(models, prior)
    if usual is not None:
        types.usual = usual
    return types
