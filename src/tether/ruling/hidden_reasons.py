"""How strong hidden reasons must be to undo what rules gain: Γ* of a rule, in the plain model.

Those who decided may have seen more than the state contains. With hidden reasons of strength Γ (the marginal
sensitivity model of `tether.conditioning.model_sets.Confounding`; at each step new ones) usual practice is worth what
the log says: whoever took x by habit went on as the row of x has it. Only those for whom a rule takes y in place of x
may differ from those who took y by habit. Their row is between L·P(·|y) and H·P(·|y), L = w_lo(π_b(y))/w_hi(π_b(x)) and
H = w_hi(π_b(y))/w_lo(π_b(x)), and the worst one counts:

    V_t(s) = Σ_x π_b(x|s)·( K[x,x]·Q_t(x) + Σ_{y ≠ x} K[x,y]·min Q_t(y) )

Γ* is the smallest Γ at which V_0, over the first states of the log, is no more than the value of usual practice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether.conditioning.edited_rows import spans
from tether.conditioning.model_sets import confounded_weights
from tether.core.batch import starts
from tether.ruling.practised import Values


def worst_value(values: Values, ruled: Any, gamma: float, state: Ints, horizon: Ints) -> Floats:
    """The least that usual practice with rules is worth from some first states, with hidden reasons of strength Γ.

    ``values`` are those of usual practice, ``ruled`` is K (`tether.ruling.practised.apply_rules`); larger is better.
    """
    return _Worst(values, ruled).of_starts(gamma, state, horizon)


def undoing_gamma(values: Values, ruled: Any, state: Ints, horizon: Ints, weight: Floats) -> float:
    """Γ*: the strength of hidden reasons that undoes the gain; 1 without a gain, infinite if none undoes it."""
    from tether.core.extremes import undoing_strengths

    worst, before = _Worst(values, ruled), values.of_starts(state, horizon)
    level = 1e-12 * max(1.0, float(np.abs(before).max(initial=0.0)))

    def above(_: Ints, strengths: Floats) -> Floats:
        of_each = [worst.of_starts(gamma, state, horizon) - before for gamma in strengths.tolist()]
        return np.array([float(weight @ one) / float(weight.sum()) - level for one in of_each])

    return float(undoing_strengths(above, 1)[0])


class _Worst:
    """The edited pairs of rules, x to y, with the entries of the rows of y."""

    def __init__(self, values: Values, ruled: Any) -> None:
        form, edits = values.mdp.form, ruled.tocoo()
        moved = (edits.row != edits.col) & (values.share[edits.row] > 0) & (edits.data > 0)
        self.values, self.x, self.y = values, edits.row[moved].astype(np.int64), edits.col[moved].astype(np.int64)
        self.often = values.share[self.x] * edits.data[moved]
        self.owner, self.entry = spans(form.row_start[self.y], form.row_start[self.y + 1])
        self.first = starts(np.bincount(self.owner, minlength=self.x.size))[:-1]
        self.kept = values.share.copy()
        np.subtract.at(self.kept, self.x, self.often)

    def of_starts(self, gamma: float, state: Ints, horizon: Ints) -> Floats:
        """The worst values from some first states, with so many steps."""
        found = np.empty(state.size)
        timed = self.values.world.worth.reward.shape[0] > 1
        longest = max(int(horizon.max(initial=0)), 0)
        tables = None if timed else self._tables(gamma, longest)
        for steps in np.unique(horizon).tolist():
            some = horizon == steps
            table = self._tables(gamma, steps)[0] if tables is None else tables[longest - steps]
            found[some] = table[state[some]]
        return found

    def _tables(self, gamma: float, horizon: int) -> list[Floats]:
        """The worst V_t of every state, t = 0 … horizon."""
        values, world = self.values, self.values.world
        of_x, of_y = (confounded_weights(values.share[one], gamma) for one in (self.x, self.y))
        least, most = of_y[0] / of_x[1], of_y[1] / of_x[0]
        value = world.worth.final.copy()
        found, over = [value], np.flatnonzero(world.is_over)
        for t in range(horizon - 1, -1, -1):
            by_pair = self.kept * values.action_values(t, value)
            np.add.at(by_pair, self.x, self.often * self._lowest(t, value, least, most))
            value = summed(world.pair_state, by_pair, value.size)
            value[over] = world.at_end(over, np.full(over.size, horizon - t))
            found.append(value)
        return found[::-1]

    def _lowest(self, t: int, after: Floats, least: Floats, most: Floats) -> Floats:
        """The least that each y can be worth for those who would have done x."""
        worth, form = self.values.world.worth, self.values.mdp.form
        reward = worth.reward[t if worth.reward.shape[0] > 1 else 0]
        each = worth.discount * after[form.next_state[self.entry]]
        each = each + (reward[self.entry] if worth.by_entry else reward[self.y][self.owner])
        order = np.lexsort((each, self.owner))  # each row stays where it is
        chance, sorted_worth = form.probability[self.entry][order], each[order]
        left = (1.0 - least)[self.owner]
        room = np.cumsum(np.minimum(chance * (most - least)[self.owner], left))
        before = np.concatenate((np.zeros(1), room))[self.first]
        poured = np.minimum(room - before[self.owner], left)
        rest = np.diff(poured, prepend=0.0)
        rest[self.first] = poured[self.first]
        row = chance * least[self.owner] + rest
        return summed(self.owner, row * sorted_worth, self.x.size)
