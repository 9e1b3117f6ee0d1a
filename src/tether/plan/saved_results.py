"""Plans and sweeps as files: one Arrow file each, with the settings as metadata; and as records without the model.

The table is that of ``to_arrow()``, for any program that reads Arrow. What `SavedPlan` and `SavedSweep` need beside it
is in the metadata of its schema: the settings as JSON, the names as `tether.model.stored_names` keeps them, and a
checksum of all that is read again. `tether.io.read_plan` and `tether.io.read_sweep` read the files.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from tether._foundation.arrays import Floats, Ints, read_only
from tether._foundation.arrow import Tabular
from tether._foundation.checks import whole_number
from tether._foundation.markup import facts
from tether._foundation.rounding import gain_of
from tether._foundation.writing import written
from tether._version import __version__
from tether.errors import Problem, QueryError
from tether.model.stored_names import decode_names, encode_names
from tether.observation.path import Path, time_index
from tether.plan.plan_tables import plan_table, sweep_table
from tether.plan.robust_record import RobustPlanRecord

if TYPE_CHECKING:
    from tether.plan.plan_record import PlanRecord
    from tether.plan.sweep import Sweep

_FORMAT = 3
_SETTINGS, _NAMES, _CHECKSUM = b"tether", b"tether.names", b"tether.checksum"
_OF_PLAN = ("t", "state_index", "changes_left", "uninfluenced", "action_index")


@dataclass(frozen=True, eq=False, repr=False)
class _Saved(Tabular):
    """A result without its model: a table, its settings, and names."""

    table: pa.Table

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What was asked and answered, in plain values, with the version of Tether that did."""
        found: dict[str, Any] = msgspec.json.decode(self.table.schema.metadata[_SETTINGS])
        return found

    @cached_property
    def _names(self) -> tuple[list[Any], ...]:
        parts = msgspec.msgpack.decode(self.table.schema.metadata[_NAMES])
        return tuple(decode_names(part) for part in parts)

    @property
    def _question(self) -> str:
        said = self.settings
        guaranteed = f", guaranteed {said['guaranteed']}" if said["guaranteed"] else ""
        return f"{said['rule']}, {said['influence']}{guaranteed}"

    @property
    def observed_value(self) -> float:
        """What the observed path is worth."""
        return float(self.settings["observed_value"])

    @cached_property
    def path(self) -> Path:
        """The observed episode."""
        _, _, states, actions = self._names
        return Path(states, actions)

    def to_arrow(self) -> pa.Table:
        """The table, as it was saved."""
        return self.table

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it as the result itself would be written."""
        write_result(self, file)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.table,)

    def _repr_html_(self) -> str:
        said = [(name, value) for name, value in self.settings.items() if not isinstance(value, list | dict)]
        return facts([(name, value) for name, value in said if value is not None])

    def _column(self, name: str) -> Ints:
        column: Ints = self.table[name].to_numpy()
        return column


@dataclass(frozen=True, eq=False, repr=False)
class SavedPlan(_Saved):
    """A plan without its model: what it was asked, what it promises, and what it does; small to save and to send.

    Attributes
    ----------
    settings : dict
        k, m, rule, influence, objective, mechanism, value, observed_value, and the rest of the question; "guaranteed"
        says what the value is guaranteed under, if it is.
    path : Path
        The observed episode.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan.save(f"{folder}/plan.arrow")
    ...     saved = tether.io.read_plan(f"{folder}/plan.arrow")
    >>> saved
    <SavedPlan: k = 7, m = 4, definition, support: value -11.28, observed -38>
    >>> saved.action(1, (8, 2, 20), 4), saved.path == case.path
    ('V_I', True)
    """

    @property
    def value(self) -> float:
        """What the plan is worth."""
        return float(self.settings["value"])

    @property
    def gain(self) -> float:
        """The gain over the observed path, as that of the plan."""
        return gain_of(self.value, self.observed_value, bool(self.settings["minimise"]))

    @property
    def T(self) -> int:
        """Number of steps."""
        return int(self.settings["T"])

    def action(self, t: int, state: Any, changes_left: int, *, uninfluenced: int = 0) -> Any:
        """What to do at step ``t`` in ``state``; see `Plan.action`. None also for a state that the plan never meets."""
        t, left = time_index(t, self.T - 1), whole_number("changes_left", changes_left, 0)
        run = whole_number("uninfluenced", uninfluenced, 0) if self.settings["rule"] == "assured" else 0
        number = self._numbers.get((t, self._states.get(state, -1), left, run), -1)
        return self._names[1][number] if number >= 0 else None

    @cached_property
    def _states(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self._names[0])}

    @cached_property
    def _numbers(self) -> dict[tuple[int, int, int, int], int]:
        columns = [self._column(name).tolist() for name in _OF_PLAN]
        return {(t, state, left, run): action for t, state, left, run, action in zip(*columns, strict=True)}

    def __repr__(self) -> str:
        said = self.settings
        about = f", {said['objective']}" if said["objective"] else ""
        what = "value" if said["objective"] is None else "probability"
        return (
            f"<SavedPlan: k = {said['k']}, m = {said['m']}, {self._question}: "
            f"{what} {self.value:.4g}, observed {self.observed_value:.4g}{about}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class SavedSweep(_Saved):
    """The values for every k and m without the model; small to save and to send.

    Attributes
    ----------
    settings : dict
        rule, influence, objective, mechanism, observed_value, and the rest of the question.
    path : Path
        The observed episode.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.save(f"{folder}/sweep.arrow")
    ...     saved = tether.io.read_sweep(f"{folder}/sweep.arrow")
    >>> saved.value(7, 4) == table.value(7, 4), saved.ks.tolist() == table.ks.tolist()
    (True, True)
    """

    @cached_property
    def ks(self) -> Ints:
        """The k of the table."""
        return np.array(self.settings["ks"], dtype=np.int64)

    @cached_property
    def ms(self) -> Ints:
        """The m of the table."""
        return np.array(self.settings["ms"], dtype=np.int64)

    @property
    def values(self) -> Floats:
        """The best value by k and m, as `Sweep.values`."""
        return read_only(self.table["value"].to_numpy().reshape(self.ks.size, self.ms.size).copy())

    @property
    def sizes(self) -> Ints:
        """Nodes that s_0 reaches through allowed pairs, for each k."""
        return read_only(self.table["size"].to_numpy().reshape(self.ks.size, self.ms.size)[:, 0].copy())

    def value(self, k: int, m: int) -> float:
        """The value for one k and m of the table."""
        row, column = np.flatnonzero(self.ks == k), np.flatnonzero(self.ms == m)
        if not (row.size and column.size):
            raise QueryError(Problem(f"k = {k}, m = {m} is not in this table", value=(k, m)))
        return float(self.values[row[0], column[0]])

    def __repr__(self) -> str:
        values = self.values
        return (
            f"<SavedSweep: k = {self.ks[0]} … {self.ks[-1]}, m = {self.ms[0]} … {self.ms[-1]}, "
            f"{self._question}: values {values.min():.4g} … {values.max():.4g}, observed {self.observed_value:.4g}>"
        )


def plan_without_model(plan: PlanRecord) -> SavedPlan:
    """A plan's table with its settings and names."""
    visits, taken = plan.covered.visits, plan.covered.taken
    states = np.concatenate([one.states for one in visits])
    used, place = np.unique(states, return_inverse=True)
    pair_action = plan.cf.mdp.form.pair_action
    chosen = [np.where(plan.covered.at_rest(t), -1, pair_action[one.pairs]) for t, one in enumerate(taken)]
    action = np.concatenate([*chosen, np.full(visits[-1].size, -1)])
    table = plan_table(plan)
    added = {"state_index": place.reshape(-1), "action_index": action}
    if "uninfluenced" not in table.column_names:
        added["uninfluenced"] = np.zeros(states.size, np.int64)
    for name, column in added.items():
        table = table.append_column(name, pa.array(column.astype(np.int64)))
    settings = {
        "kind": "plan", "k": plan.k, "m": plan.m, "value": plan.value, "price": plan.price, **_asked(plan),
        "constraint": None if plan.constraint is None else " ".join(plan.constraint.sentences()),
        "guaranteed": plan.robust.assuming if isinstance(plan, RobustPlanRecord) else "",
    }  # fmt: skip
    names = plan.cf.mdp.states
    return SavedPlan(_described(table, settings, [names[int(s)] for s in used], plan.cf.mdp.actions, plan.cf.path))


def sweep_without_model(sweep: Sweep) -> SavedSweep:
    """A sweep's table with its settings and names."""
    settings = {
        "kind": "sweep", "ks": sweep.ks.tolist(), "ms": sweep.ms.tolist(), "distinct": sweep.distinct.tolist(),
        "guaranteed": sweep.guaranteed, **_asked(sweep),
    }  # fmt: skip
    return SavedSweep(_described(sweep_table(sweep), settings, [], [], sweep.cf.path))


def _asked(result: PlanRecord | Sweep) -> dict[str, Any]:
    """The question of a plan or a sweep in plain values."""
    cf = result.cf
    return {
        "T": cf.T,
        "rule": str(result.rule),
        "influence": str(result.influence),
        "objective": None if result.objective is None else str(result.objective),
        "minimise": result.minimise,
        "advisable": None if result.advisable is None else str(result.advisable),
        "mechanism": cf.mechanism.name,
        "horizon": cf.horizon,
        "observed_value": result.observed_value,
        "model": {"states": cf.mdp.n_states, "actions": cf.mdp.n_actions, "pairs": cf.mdp.n_pairs},
        "version": __version__,
        "format": _FORMAT,
    }


def _described(table: Any, settings: dict[str, Any], states: Any, actions: Any, path: Path) -> Any:
    """The table with settings, names and checksum as the metadata of its schema."""
    pairs = (states, "state"), (actions, "action"), (path.states, "state"), (path.actions, "action")
    names = msgspec.msgpack.encode([encode_names(list(some), noun) for some, noun in pairs])
    metadata = {_SETTINGS: msgspec.json.encode(settings), _NAMES: names}
    return table.replace_schema_metadata({**metadata, _CHECKSUM: _checksum(table, metadata)})


def _checksum(table: Any, metadata: Any) -> bytes:
    """A digest of everything: settings, names, and every column."""
    import pyarrow as pa

    digest = hashlib.sha256(metadata[_SETTINGS] + metadata[_NAMES])
    for name in table.column_names:
        column = table[name].combine_chunks()
        if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            digest.update(f"{name} {column.type} {column.to_pylist()!r}".encode())
        else:
            numbers = column.to_numpy()
            digest.update(f"{name} {column.type} {len(column)}".encode() + np.ascontiguousarray(numbers).tobytes())
    return digest.hexdigest().encode()


def write_result(result: _Saved, file: str | os.PathLike[str]) -> None:
    """Write a result without its model as one Arrow file, which appears when it is complete."""
    from pyarrow import ipc

    with written(file) as partial, ipc.new_file(str(partial), result.table.schema) as writer:
        writer.write_table(result.table)


def is_sound(table: Any, kind: str) -> bool:
    """Whether a table is one that was written here, of the given kind, and is as it was written."""
    metadata = table.schema.metadata or {}
    if not {_SETTINGS, _NAMES, _CHECKSUM} <= set(metadata):
        return False
    settings = msgspec.json.decode(metadata[_SETTINGS])
    if not isinstance(settings, dict) or settings.get("kind") != kind or settings.get("format") != _FORMAT:
        return False
    return bool(_checksum(table, metadata) == metadata[_CHECKSUM])
