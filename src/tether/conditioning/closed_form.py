"""What a step says about its noise under a mechanism whose rows are closed forms."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Ints
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.conditioning.mechanism import Candidates
from tether.core.batch import GUMBEL_MAX, INDEPENDENT
from tether.model.form import Form, model_of


@dataclass(frozen=True, slots=True, eq=False)
class ClosedForm:
    """The posterior of a built-in mechanism, one of those of `tether.core.batch`; ``rank`` is an order of states."""

    step: ObservedStep
    kind: int
    rank: Ints | None = None

    @property
    def key(self) -> Hashable:
        return self.step.key

    def changes(self, candidates: Candidates) -> Ints:
        """Gumbel-max: rows that can lead to a state the observed row could have led to (the paper's Proposition 1).

        "independent": the observed pair alone, where it can be reached. The others change every row: probability that
        the observed row had and this one lacks must move elsewhere, and one number decides in each of them.
        """
        if self.kind not in (GUMBEL_MAX, INDEPENDENT):
            return candidates.all()
        met = candidates.meeting()
        if self.kind == GUMBEL_MAX or self.step.copies > 1:
            return met
        own: Ints = met[met == self.step.pair]
        return own

    def replay(self, form: Form, pairs: Ints) -> Rows:
        from tether.core.batch import Seen
        from tether.core.coupled import rows_given

        # In copies of a model side by side the observed row lists the outcomes of all copies, one after another.
        step, n = self.step, self.step.copies
        n_pairs, n_states = form.pair_action.size // n, (form.pair_start.size - 1) // n
        seen = Seen(np.arange(n + 1) * (step.next_state.size // n), step.next_state, step.probability)
        which = pairs // n_pairs
        own = step.pair + which * n_pairs if step.pair >= 0 else None
        rows = rows_given(
            model_of(form), seen, which, step.outcome + which * n_states, pairs, self.kind, own, self.rank
        )
        return Rows(pairs, *rows)
