"""Storm's models in memory, and files that only Storm can build a model from: PRISM's language, JANI and UMB.

A model comes from Storm as DRN, its own explicit format, in a temporary file: names and labels are those of
`tether.io.read_drn`. The way back is `MDP.to_stormpy`.

stormpy is an extra, ``pip install 'tether[storm]'``. Without it, an error says how to make an explicit file.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tether.errors import FileError, Problem, QueryError
from tether.io.drn.drn_reader import with_rewards_of_transitions
from tether.io.files import File, file_error
from tether.mdp import MDP
from tether.model.as_stormpy import load_stormpy

_DIGITS = 17
"""A double that is written with so many digits is read as the same double."""

_EXPORT = {
    ".jani": "storm --jani {file} --buildfull --exportbuild {stem}.drn",
    ".umb": "storm --explicit-umb {file} --exportbuild {stem}.drn",
}
_EXPORT_PRISM = (
    "prism {file} -exportmodel {stem}.all, which writes {stem}.tra and the files beside it; or "
    "storm --prism {file} --buildfull --exportbuild {stem}.drn"
)


def from_stormpy(model: Any, *, reward_model: str | Literal[False] | None = None) -> MDP:
    """Build a model from one of stormpy's, a sparse MDP or DTMC.

    Parameters
    ----------
    model : stormpy sparse model
        With choice labels and state valuations, if actions and states are to have names.
    reward_model : str or False, optional
        Which reward model to take, if there are several; False for none.

    Returns
    -------
    MDP
        Named as `tether.io.read_drn` names it.

    Examples
    --------
    A program that builds a model with stormpy goes on with ``tether.io.from_stormpy(model)``, and back with
    ``mdp.to_stormpy()``:

    >>> import tether
    >>> mdp = tether.cases.grid_world().mdp
    >>> tether.io.from_stormpy(mdp.to_stormpy()).n_pairs == mdp.n_pairs  # doctest: +SKIP
    True
    """
    return _from_storm(load_stormpy("a model of stormpy"), model, reward_model)


def _from_storm(storm: Any, model: Any, reward_model: str | Literal[False] | None, source: str | None = None) -> MDP:
    """The model, by way of a file of Storm that only lives here: what is wrong is said of ``source``."""
    options = storm.io.DirectEncodingExporterOptions()
    options.output_precision = _DIGITS
    with tempfile.TemporaryDirectory(prefix="tether-") as folder:
        file = Path(folder, "model.drn")
        try:
            storm.io.export_to_drn(model, str(file), options=options)
        except TypeError:  # of stormpy's own check of what it is given
            given, fix = type(model).__name__.lstrip("_"), "stormpy.build_model makes one of a program"
            raise QueryError(
                Problem(
                    "this is no model to read", value=model, expectation=f"a sparse MDP or DTMC, not {given}", fix=fix
                )
            ) from None
        try:
            return with_rewards_of_transitions(file, _of_transitions(model, reward_model), reward_model)
        except (FileError, QueryError) as error:
            problems = [replace(one, file=source, line=None) for one in error.problems]
            kind = FileError if source is not None and isinstance(error, FileError) else QueryError
            raise kind(problems, error.total) from None


def _of_transitions(model: Any, wanted: str | Literal[False] | None) -> dict[tuple[int, int], float]:
    """The rewards of transitions in a reward model, by choice and next state: Storm leaves them out of DRN."""
    some = model.reward_models
    name = next(iter(some), None) if wanted is None else wanted
    if name not in some or not some[name].has_transition_rewards:
        return {}
    matrix = some[name].transition_rewards  # a copy, held here: its rows point into it
    return {(row, entry.column): entry.value for row in range(matrix.nr_rows) for entry in matrix.get_row(row)}


def read_storm(
    file: File,
    *,
    constants: str | Mapping[str, Any] | None = None,
    reward_model: str | Literal[False] | None = None,
) -> MDP:
    """Build a model from a file in PRISM's language (``.nm``, ``.prism``), JANI or UMB, with Storm.

    Parameters
    ----------
    file : path
    constants : str or mapping, optional
        Values of the constants that the file leaves open: ``"N=3,p=0.5"``.
    reward_model : str or False, optional
        Which reward model to take, if there are several; False for none.

    Examples
    --------
    ``tether.io.read_storm("robot.nm", constants="N=3")``, or on the command line ``tether check robot.nm --constants
    N=3``.
    """
    path = Path(os.fspath(file))
    suffix = path.suffix.lower()
    command = _EXPORT.get(suffix, _EXPORT_PRISM).format(file=path.name, stem=path.stem)

    def refuse(problem: Problem) -> FileError:
        return file_error(file, problem)

    storm = load_stormpy(f"the file {path.name}", f"export an explicit file: {command}", refuse)
    if not path.is_file():
        raise file_error(file, Problem("there is no such file"))
    try:
        with _messages_of_storm_on_stderr():
            model = _umb(storm, path) if suffix == ".umb" else _built(storm, file, path, constants)
    except (RuntimeError, storm.exceptions.StormError) as error:  # Storm's C++ exceptions come as RuntimeError
        raise file_error(
            file, Problem(f"Storm cannot build a model from it: {' '.join(str(error).split())}")
        ) from error
    return _from_storm(storm, model, reward_model, os.fspath(file))


def _umb(storm: Any, path: Path) -> Any:
    options = storm.io.UmbImportOptions()
    options.build_choice_labeling = options.build_state_valuations = True
    return storm.build_model_from_umb(str(path), options=options)


def _built(storm: Any, file: File, path: Path, constants: str | Mapping[str, Any] | None) -> Any:
    """The model of a program, with every state, label and reward model."""
    if path.suffix.lower() == ".jani":
        program = storm.parse_jani_model(str(path))[0]
    else:
        program = storm.parse_prism_program(str(path), prism_compatibility=True)
    if constants:
        program = storm.instantiate_constants(program, constants)[0]
    missing = [one.name for one in program.constants if not one.defined]
    if missing:
        what = f"the model has constants without a value: {', '.join(missing)}"
        fix = f"give them: constants='{','.join(f'{name}=…' for name in missing)}'"
        raise file_error(file, Problem(what, fix=fix, argument="constants"))
    options = storm.BuilderOptions(build_full=True)
    options.set_build_choice_labels(True)
    options.set_build_state_valuations(True)
    options.set_build_all_labels(True)
    options.set_build_all_reward_models(True)
    return storm.build_model(program, options=options)


@contextmanager
def _messages_of_storm_on_stderr() -> Iterator[None]:
    """Storm writes its warnings to standard output, which belongs to the answer of a command."""
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
