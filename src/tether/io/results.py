"""Saved plans and sweeps: read from the files that `Plan.save` and `Sweep.save` write; no model is needed."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tether.errors import Problem
from tether.io.arrowfiles import guarded, open_arrow
from tether.io.files import File, file_error
from tether.plan.saved_results import SavedPlan, SavedSweep, is_sound

_Kind = TypeVar("_Kind", SavedPlan, SavedSweep)


def read_plan(file: File) -> SavedPlan:
    """Read a plan that `Plan.save` wrote; an error if the file is another one, or was changed.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.grid_world()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.counterfactual(case.mdp, case.path).plan(k=6, m=2).save(f"{folder}/plan.arrow")
    ...     tether.io.read_plan(f"{folder}/plan.arrow").action(0, 0, 2)
    'right'
    """
    return _read(file, "plan", SavedPlan)


def read_sweep(file: File) -> SavedSweep:
    """Read a sweep that `Sweep.save` wrote; an error if the file is another one, or was changed.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.grid_world()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.counterfactual(case.mdp, case.path).sweep().save(f"{folder}/sweep.arrow")
    ...     round(tether.io.read_sweep(f"{folder}/sweep.arrow").value(6, 2), 3)
    4.24
    """
    return _read(file, "sweep", SavedSweep)


def _read(file: File, kind: str, made: type[_Kind]) -> _Kind:
    names, select = open_arrow(file)

    def check() -> _Kind | None:
        table = select(names)
        try:
            if not is_sound(table, kind):
                return None
            saved = made(table)
            _ = saved.path  # its names can be decoded
        except (msgspec.MsgspecError, LookupError, AttributeError, StopIteration, RecursionError):
            return None
        return saved

    found: _Kind | None = guarded(file, f"a saved {kind}", check)
    if found is None:
        message = f"this is not a {kind} that was saved, or it was changed since"
        raise file_error(file, Problem(message, fix=f"save it again: {kind}.save(file)"))
    return found
