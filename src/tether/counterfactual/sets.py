"""Sets of causal models: what a counterfactual row can be, whatever the mechanism is.

Gumbel-max is one causal model among many that agree with the MDP and the episode; nothing in the data can tell them
apart. A set of models gives each pair a set X of counterfactual rows instead of one. With p the observed row of the
step, o its outcome and q the nominal row of the pair, X holds the rows x ≥ 0 with Σx = 1 and

- ``"nothing"``: x_j ≤ q_j / p_o. Every causal model there is.
- ``"stability"``: every causal model that is counterfactually stable (Oberst & Sontag, 2019), for every outcome of the
  observed pair; written out in `tether._kernels.sets`. Where supports are disjoint it is as wide as ``"nothing"``.
- ``"published-stability"`` (Lally, Kazemi, Paoletti, AAMAS 2026): stability at the observed outcome only.
- ``"published-monotonicity"`` (their default): where supports overlap also x_o ≥ q_o, and x_j ≤ q_j for j ≠ o with
  p_j > 0. It does not always contain Gumbel-max.

The observed pair is the point mass at o in each of them; an unrecorded outcome leaves rows nominal. Given the observed
outcome, other pairs may be taken independent, so any choice of one row of X per pair is one joint causal model: the
sets are rectangular.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._types import Floats, Ints
from tether.counterfactual.conditioned import CounterfactualMDP, counterfactual
from tether.counterfactual.couplings import Independent
from tether.counterfactual.gumbel_max import GumbelMax
from tether.counterfactual.mechanism import Mechanism
from tether.counterfactual.rows import nominal_start, spans
from tether.errors import QueryError

if TYPE_CHECKING:
    from tether._kernels.sets import Observed

__all__ = ["IN_WORDS", "Assumption", "ModelSet", "model_set"]

Assumption = Literal["nothing", "stability", "published-stability", "published-monotonicity"]

IN_WORDS: dict[Assumption, str] = {
    "nothing": "every causal model",
    "stability": "every causal model that is counterfactually stable",
    "published-stability": "every causal model that is stable at the observed outcome",
    "published-monotonicity": "every causal model that is monotone as published",
}
"""The sets, as sentences name them."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelSet:
    """A set of causal models of one observed path.

    Attributes
    ----------
    gumbel : CounterfactualMDP
        Gumbel-max, to compare with.
    possible : CounterfactualMDP
        A causal model whose graph is what some model of the set can do.
    assume : Assumption
    """

    gumbel: CounterfactualMDP
    possible: CounterfactualMDP
    assume: Assumption

    @property
    def kind(self) -> int:
        """The set as kernels know it."""
        return get_args(Assumption).index(self.assume)

    @property
    def member(self) -> Mechanism:
        """A mechanism whose rows are in the set: Gumbel-max, but for the one set that does not always contain it."""
        return Independent() if self.assume == "published-monotonicity" else GumbelMax()

    def step(self, t: int) -> Observed:
        """The observed step at time t, as kernels take it."""
        from tether._kernels.sets import Observed

        seen = self.possible.graph.layers[t].observed
        pair = int(self.possible.observation.pairs[t])
        return Observed(seen.next_state, seen.probability, int(seen.outcome), pair)

    def extremes(self, t: int, pairs: Ints, value: Floats, sign: float) -> tuple[Floats, Floats]:
        """The smallest (``sign`` = 1) or largest (-1) expectation over the set for some pairs, and the rows that do it.

        ``value`` is what each outcome is worth, entry for entry of the pairs' nominal rows, one after the other.
        """
        from tether._kernels.robust import extreme_rows
        from tether._kernels.sets import scratch_for

        form = self.possible.mdp.form
        starts = nominal_start(form, pairs)
        _, entries = spans(form.row_start[pairs], form.row_start[pairs + 1])
        out, row = np.empty(pairs.size), np.empty(entries.size)
        room = scratch_for(int(np.diff(starts).max(initial=1)))
        arrays = starts, form.next_state[entries], form.probability[entries], value, pairs
        extreme_rows(*arrays, self.step(t), self.kind, sign, out, row, room)
        return out, row

    def bounds(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats, Floats]:
        """Next states that some model of the set can lead to, and the exact bounds of each one's probability."""
        mdp = self.possible.mdp
        t, pair = self.possible.time(t), mdp.pair_index(state, action)
        entries = mdp.entries(pair)
        next_state = mdp.form.next_state[entries]
        n = next_state.size
        pairs, alone = np.full(n, pair, dtype=np.int64), np.eye(n).reshape(-1)
        lower, _ = self.extremes(t, pairs, alone, 1.0)
        upper, _ = self.extremes(t, pairs, alone, -1.0)
        possible = np.flatnonzero(upper > 0.0)
        return mdp.names_of(next_state[possible]), np.maximum(lower[possible], 0.0), np.minimum(upper[possible], 1.0)


def model_set(cf: CounterfactualMDP, assume: Any) -> ModelSet:
    """The set of causal models of the path of ``cf`` under an assumption."""
    if assume not in get_args(Assumption):
        known = ", ".join(map(repr, get_args(Assumption)))
        raise QueryError(f"assume must be one of {known}, not {assume!r}")
    gumbel = cf if isinstance(cf.mechanism, GumbelMax) else counterfactual(cf.mdp, cf.path)
    # What some stable model can do, Gumbel-max can; otherwise all that the model can, but for the observed pair.
    closed = assume in ("stability", "published-stability")
    possible = gumbel if closed else counterfactual(cf.mdp, cf.path, mechanism="independent")
    return ModelSet(gumbel, possible, assume)
