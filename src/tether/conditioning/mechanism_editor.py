"""The rows of a mechanism for the engine: for many observed transitions at once.

A mechanism whose rows are closed forms is answered by the engine itself (`tether.core.coupled`). Any other one is asked
once for each transition that is observed, and its rows are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, starts
from tether.conditioning.couplings import Comonotone
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.conditioning.layers import Candidates, replay
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.mechanisms import KINDS, infer, make_mechanism
from tether.conditioning.row_function import RowMechanism
from tether.model.form import model_of, pair_states
from tether.model.model_record import ModelRecord
from tether.model.side_by_side import copied_model

if TYPE_CHECKING:
    from tether.core.batch import Model
    from tether.core.rows import Asked, Edited, Editor


def editor_of(mechanism: Mechanism, mdp: ModelRecord, probability: Floats | None = None) -> Editor:
    """The rows of a mechanism in a model; or in copies of it side by side, with one row of ``probability`` each."""
    from tether.core.rows import ClosedForms

    kind = KINDS.get(type(mechanism))
    if kind is not None:
        return ClosedForms(kind, mechanism.rank if isinstance(mechanism, Comonotone) else None)
    models = (mdp,) if probability is None else tuple(copied_model(mdp, one[None]) for one in probability)
    return _Inferred(models, tuple(make_mechanism(mechanism, {}, one) for one in models))


@dataclass(frozen=True, eq=False)
class _Inferred:
    """The rows of a mechanism that is asked step by step; each model is asked on its own."""

    models: tuple[ModelRecord, ...]
    mechanisms: tuple[Mechanism, ...]

    @property
    def everywhere(self) -> bool:
        """What it changes is known when it was asked."""
        return True

    @property
    def by_time(self) -> bool:
        """A function of two rows does not know the time; another mechanism may."""
        return not isinstance(self.mechanisms[0], RowMechanism)

    def edited(self, _model: Model, asked: Asked) -> Edited:
        """See `tether.core.rows.Editor`."""
        from tether.core.rows import Edited

        transition = np.stack((asked.time, asked.observed, asked.outcome))
        first = np.flatnonzero(np.any(np.diff(transition, axis=1, prepend=-2), axis=0))
        ends = [*first[1:].tolist(), asked.state.size]
        parts = [
            self._of_transition(transition[:, low], asked.state[low:end]) for low, end in zip(first, ends, strict=True)
        ]
        count, pair, meets, length, *rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Edited(count, pair, meets, starts(length), *rows)

    def _of_transition(self, transition: Ints, states: Ints) -> tuple[Any, ...]:
        from tether.core.rows import meeting_pairs

        t, observed, outcome = transition.tolist()
        size = self.models[0]
        copy = observed // size.n_pairs
        mdp, pair, own = self.models[copy], observed % size.n_pairs, states % size.n_states
        step = ObservedStep.of(mdp.form, t, pair, outcome % size.n_states if outcome >= 0 else -1)
        _, met = meeting_pairs(model_of(mdp.form), np.full(own.size, pair), own)
        posterior = infer(mdp, self.mechanisms[copy], step) if step.recorded else None
        pairs = met
        if posterior is not None:
            pairs = np.union1d(met, posterior.changes(Candidates(mdp, own, met)))
        rows: Rows = replay(mdp, posterior, pairs)
        of_state = pair_states(mdp.form.pair_start, pairs)
        count = np.searchsorted(of_state, own, side="right") - np.searchsorted(of_state, own)
        meets = np.isin(pairs, met, assume_unique=True).astype(np.uint8)
        after = (rows.next_state + copy * size.n_states).astype(np.int32)
        return count, pairs + copy * size.n_pairs, meets, np.diff(rows.start), after, rows.probability, rows.strength
