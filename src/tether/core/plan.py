"""Backward induction, one layer at a time: V_t(node, c) for c changes left, for several k at once.

    V_t(s, c) = max over allowed a of R + γ·Σ_s' P_cf,t(s'|s,a)·V_{t+1}(s', c - [a ≠ a_t])

V of a node without pairs is the final reward of its state; V is -∞ if nothing is allowed. Ties go to the observed
action, then to the lowest index. With all m changes left nothing was changed yet: the node is the observed state, and
the observed action has its observed outcome. So column c = m is computed on the observed path alone.

The numbers of a node are side by side: first its *size*, if choices are kept, then all c for the first k, all c for the
next, and so on. The size is a bound on the absolute values that were added up: values are tied if they differ by less
than `ROUNDING` times it. Rows of numbers are padded, because four sums are taken at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, read_only
from tether._kernels.jit import kernel, parallel_kernel
from tether._kernels.order import first_from
from tether._kernels.parallel import CHUNKS, use_cores
from tether.core.batch import Edits, Layer, Model, Nodes
from tether.core.slots import enter, slots_for, successor

ROUNDING = 8 * 2.0**-52
"""Values are tied if they differ by less than this times their size."""

_NO_PRICE = read_only(np.empty(0))


class Goal(NamedTuple):
    """What a step is worth: expected rewards by pair of the model and by edited pair of the layer; final rewards; γ.

    ``observed`` is the observed action of each episode; any other action is a change. If it is negative, no action is a
    change. In an absorbing state without the observed action, no action is a change. ``price`` is what taking each pair
    of the model costs if that is a change (empty: nothing). Values are tied if they differ by less than ``rounding``
    times their size.
    """

    reward: Floats
    edit_reward: Floats
    final: Floats
    discount: float
    observed: Ints
    price: Floats = _NO_PRICE
    rounding: float = ROUNDING


class Limits(NamedTuple):
    """κ of the pairs of the layer (empty: all are allowed), and the index of the first k that is at least each κ.

    ``least`` is how many changes must be left to take each pair (empty: as many as taking it uses). ``free`` marks
    nodes where any action may be taken if the observed one is not available, and none is a change (empty: nowhere).
    ``left`` is the most changes that can be left at each node (empty: all of them): V for more is not computed.
    """

    kappa: Ints
    index_of_k: Ints
    least: Ints
    free: Flags
    left: Ints


class Numbers(NamedTuple):
    """How many numbers the nodes of a layer have: one per k and per c; and 1 if they have a size, else 0."""

    n_ks: int
    columns: int
    sized: int

    @property
    def width(self) -> int:
        """How many numbers there are; if not one, a multiple of four, because sums are taken of four at a time."""
        count = self.sized + self.n_ks * self.columns
        return 1 if count == 1 else -(-count // 4) * 4


class OnPath(NamedTuple):
    """The observed path of each episode: V_t(s_t, m) and the chosen pair, by number, for each k.

    ``pair`` is the observed pair of the step, -1 if the path has ended; ``outcome`` its outcome, -1 if it was not
    recorded. ``value[b, k]`` is V of the next step, if ``known[b]``. ``most`` is m; ``steps`` how many steps are left.
    """

    pair: Ints
    outcome: Ints
    known: Ints
    value: Floats
    chosen: Ints
    most: int
    steps: int


def plan_layer(
    model: Model,
    layer: Layer,
    after: Nodes,
    limits: Limits,
    goal: Goal,
    before: Floats,
    numbers: Numbers,
    values_after: Floats,
    numbers_after: Numbers,
    choice: Ints,
    path: OnPath,
    with_nodes: bool,
) -> bool:
    """Write V of a layer to ``before`` and what is chosen to ``choice``, if it has rows; and one step of the path.

    Without ``with_nodes`` V of the nodes is left as it is. Returns False if an observed pair is not certain to have its
    observed outcome: the values are then wrong.
    """
    slots = slots_for(after, model.n_states)
    goal = goal._replace(
        reward=read_only(goal.reward), edit_reward=read_only(goal.edit_reward), final=read_only(goal.final),
        price=read_only(goal.price),
    )  # fmt: skip
    arrays = model, layer.nodes, layer.edits, after, slots, limits, goal, before, numbers, values_after, numbers_after
    if with_nodes and after.first.size == 2 and use_cores(layer.size):
        enter(after, 0, model.n_states, slots)
        cuts = np.linspace(0, layer.size, CHUNKS + 1).astype(np.int64)
        _plan_chunks(*arrays, choice, path._replace(pair=np.full(1, -1)), cuts, False)
        with_nodes = False
    return _plan_nodes(*arrays, choice, path, 0, layer.size if with_nodes else 0, True)


@kernel
def find_pair(model: Model, s: Any, action: Any) -> Any:
    """The number of an action among the pairs of a state, -1 if it is not available."""
    begin, end = model.pair_start[s], model.pair_start[s + 1]
    guess = begin + max(action, 0)
    if guess < end and model.pair_action[guess] == action:
        return guess - begin
    for x in range(begin, end):
        if model.pair_action[x] == action:
            return x - begin
    return -1


@kernel
def is_absorbing(model: Model, s: Any) -> Any:
    """Whether every action of a state leads back to it for certain."""
    for x in range(model.pair_start[s], model.pair_start[s + 1]):
        start = model.row_start[x]
        if model.row_start[x + 1] - start != 1 or model.next_state[start] != s:
            return False
    return model.pair_start[s] < model.pair_start[s + 1]


@kernel
def is_change(model: Model, s: Any, number: Any, observed: Any) -> Any:
    """Whether a pair, by its number, changes the observed action; none does in an absorbing state without it."""
    if observed < 0 or model.pair_action[model.pair_start[s] + number] == observed:
        return False
    return find_pair(model, s, observed) >= 0 or not is_absorbing(model, s)


@kernel
def _plan_path(
    model: Model, nodes: Nodes, edits: Edits, slots: Ints, limits: Limits, goal: Goal, after: Floats,
    numbers_after: Numbers, path: OnPath, b: int,
) -> bool:  # fmt: skip
    """One step back on the observed path of an episode.

    If actions are tied, the observed one is taken, else the first. Returns False if the observed pair is not certain to
    have its observed outcome.
    """
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, nominal_next, nominal = model
    node_first, states, runs, offsets = nodes
    position, row, influenced, edit_start, edit_next, edit_probability = edits
    kappa, index_of_k, _, _, _ = limits
    reward, edit_reward, _, discount, _, price, rounding = goal
    pairs, outcome, known, values, choice, most, steps = path
    n_ks, columns, sized = numbers_after
    n_states, pair = pair_start.size - 1, pairs[b]
    s = first_from(pair_start, 0, n_states, pair + 1) - 1
    node = first_from(states, node_first[b], node_first[b + 1], s)  # of several, the one with a run of 0
    observed = pair - pair_start[s]
    begin, n_pairs = offsets[node], offsets[node + 1] - offsets[node]
    first_edit, certain = first_from(position, 0, position.size, begin), True
    tried = np.empty(n_pairs)
    for ki in range(values.shape[1]):
        e, column = first_edit, sized + (min(ki, n_ks - 1) + 1) * columns - 1
        best, largest = -np.inf, 0.0
        for number in range(n_pairs):
            tried[number] = -np.inf
            if number != observed and most == 0:
                continue
            at = begin + number
            if kappa.size > 0 and index_of_k[min(kappa[at], index_of_k.size - 1)] > ki:
                continue
            while e < position.size and position[e] < at:
                e += 1
            is_edited = e < position.size and position[e] == at
            base = n_states if runs.size > 0 and not (is_edited and influenced[e] > 0) else 0
            r = pair - observed + number
            next_state, probability, gain = nominal_next, nominal, reward[r]
            start, stop = row_start[r], row_start[r + 1]
            if is_edited:
                next_state, probability, gain = edit_next, edit_probability, edit_reward[e]
                start, stop = edit_start[row[e]], edit_start[row[e] + 1]
            if number != observed and price.size > 0:
                gain -= price[r]
            rest, size = 0.0, 0.0
            if number == observed and known[b] > 0:
                rest = probability[start] * values[b, ki]  # 1, unless what leaves the path counts as a reward
                size = abs(rest)
                certain &= stop - start == 1 and next_state[start] == outcome[b]
            else:
                for i in range(start, stop):
                    value = after[successor(slots, base, next_state[i]), column]
                    rest += probability[i] * value
                    if abs(value) < np.inf:
                        size += probability[i] * abs(value)
            value = gain + discount * rest
            if np.isnan(value):  # 0·(-∞): the discount is 0
                value = -np.inf
            tried[number] = value
            best = max(best, value)
            size = abs(gain) + discount * size
            largest = max(largest, size)
        least = best - rounding * steps * largest
        chosen = observed
        if not tried[chosen] >= least:
            chosen = 0
            while not tried[chosen] >= least:
                chosen += 1
        values[b, ki] = tried[chosen]
        choice[b, ki] = chosen
    known[b] = 1
    return certain


@kernel
def _plan_nodes(
    model: Model, nodes: Nodes, edits: Edits, after_nodes: Nodes, slots: Ints, limits: Limits, goal: Goal,
    before: Floats, numbers: Numbers, after: Floats, numbers_after: Numbers, choice: Ints, path: OnPath, low: int,
    high: int, enters: bool,
) -> bool:  # fmt: skip
    """V of the nodes ``low … high - 1``, and one step of the path of each episode, if it goes on.

    If it ``enters``, the successors of each episode are entered in ``slots`` first; else they are there. The observed
    action is tried first, then the others in their order. Column c is computed from column c of the next
    layer if the action is no change, else from column c - 1. With no change left only the observed action is tried.
    """
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, next_state, probability = model
    node_first, state, run, offset = nodes
    position, row, influenced, edit_start, edit_next, edit_probability = edits
    reward, edit_reward, final, discount, observed_actions, price, rounding = goal
    kappa, index_of_k, least, free, lefts = limits
    n_states, with_runs, n_edits = pair_start.size - 1, run.size > 0, position.size
    n_ks, columns, sized = numbers.n_ks, numbers.columns, numbers.sized
    columns_after, last_k_after = numbers_after.columns, numbers_after.n_ks - 1
    width_after = sized + numbers_after.n_ks * columns_after
    largest_kappa = index_of_k.size - 1
    most = 0
    for node in range(low, high):
        most = max(most, offset[node + 1] - offset[node])
    total, gains, from_ks = np.empty((most, width_after + 4)), np.empty(most), np.empty(most, np.int64)
    best, chosen = np.empty(n_ks * columns), np.empty(n_ks * columns, np.int64)
    is_direct, is_wide = slots.size == 0, width_after > 1
    e = first_from(position, 0, n_edits, offset[low]) if low < high else 0
    zero: Any = np.int64(0)  # a literal would be a type of its own
    certain = True
    for b in range(node_first.size - 1):
        if enters:
            enter(after_nodes, b, n_states, slots)
        observed = observed_actions[b]
        for node in range(max(low, node_first[b]), min(high, node_first[b + 1])):
            s, begin, end = state[node], offset[node], offset[node + 1]
            columns_here = columns if lefts.size == 0 else min(columns, lefts[node] + 1)
            if columns_here == 0:
                continue
            if begin == end:
                for c in range(n_ks * columns):
                    before[node, sized + c] = final[s]
                if sized:
                    before[node, 0] = abs(final[s])
                continue
            first = pair_start[s]
            at_observed = find_pair(model, s, observed)
            all_free = observed < 0 or (at_observed < 0 and ((free.size > 0 and free[node]) or is_absorbing(model, s)))
            size = 0.0
            for c in range(n_ks * columns):
                best[c], chosen[c] = -np.inf, -1
            while e < n_edits and position[e] < begin:
                e += 1
            begin_at, end_at = 0, end - begin
            if columns_here == 1 and not all_free:  # only the observed action is tried
                begin_at, end_at = max(at_observed, 0), at_observed + 1
            base = np.uint64((run[node] + 1) * n_states if with_runs else zero)
            # First all sums, then the choice: what is read does not wait for it. Items are chosen in the loop over a
            # row, not arrays before it: these would count references, as a call with arrays would.
            for number in range(begin_at, end_at):
                at, from_k = begin + number, zero
                if kappa.size > 0:
                    from_k = index_of_k[min(kappa[at], largest_kappa)]
                from_ks[number] = from_k
                if from_k >= n_ks:
                    continue
                skip = zero if sized else min(from_k, last_k_after) * columns_after
                while e < n_edits and position[e] < at:
                    e += 1
                is_edited = e < n_edits and position[e] == at
                r = row[e] if is_edited else first + number
                start, stop = (edit_start[r], edit_start[r + 1]) if is_edited else (row_start[r], row_start[r + 1])
                shift = np.uint64(0) if is_edited and influenced[e] > 0 else base
                gains[number] = edit_reward[e] if is_edited else reward[r]
                for c in range(np.uint64(skip // 4 * 4), np.uint64(width_after), np.uint64(4)):
                    one, two, three, four = 0.0, 0.0, 0.0, 0.0
                    for i in range(np.uint64(start), np.uint64(stop)):
                        j = shift + np.uint64(edit_next[i] if is_edited else next_state[i])
                        p = edit_probability[i] if is_edited else probability[i]
                        if not is_direct:
                            j = np.uint64(slots[j])
                        one += p * after[j, c]
                        if is_wide:
                            two += p * after[j, c + np.uint64(1)]
                            three += p * after[j, c + np.uint64(2)]
                            four += p * after[j, c + np.uint64(3)]
                    total[number, c] = one
                    if is_wide:
                        total[number, c + np.uint64(1)], total[number, c + np.uint64(2)] = two, three
                        total[number, c + np.uint64(3)] = four
            for turn in range(end_at - begin_at + 1):
                number = at_observed if turn == 0 else begin_at + turn - 1
                if number < 0 or (turn > 0 and number == at_observed) or from_ks[number] >= n_ks:
                    continue
                gain, used = gains[number], 0 if number == at_observed or all_free else 1
                if used > 0 and price.size > 0:
                    gain -= price[first + number]
                if sized:
                    size = max(size, abs(gain) + discount * total[number, 0])
                from_c = used if least.size == 0 else max(used, least[begin + number])
                tie = rounding * size
                of_pair = total[number]
                for ki in range(from_ks[number], n_ks):
                    source, here = sized + min(ki, last_k_after) * columns_after, ki * columns
                    for c in range(from_c, columns_here):
                        # If there are more changes than steps, the last change has no use.
                        value = gain + discount * of_pair[np.uint64(source + min(c - used, columns_after - 1))]
                        place = np.uint64(here + c)
                        if value > best[place] + tie:
                            best[place], chosen[place] = value, number
            for c in range(n_ks * columns):
                before[node, sized + c] = best[c]
            if sized:
                largest = 0.0
                for c in range(n_ks * columns):
                    if largest < abs(best[c]) < np.inf:
                        largest = abs(best[c])
                before[node, 0] = size + largest
            if choice.shape[0] > 0:
                for c in range(choice.shape[1]):
                    choice[node, c] = chosen[c]
        if path.pair[b] >= 0:
            certain &= _plan_path(model, nodes, edits, slots, limits, goal, after, numbers_after, path, b)
    return certain


@parallel_kernel
def _plan_chunks(
    model: Model, nodes: Nodes, edits: Edits, after_nodes: Nodes, slots: Ints, limits: Limits, goal: Goal,
    before: Floats, numbers: Numbers, after: Floats, numbers_after: Numbers, choice: Ints, path: OnPath, cuts: Ints,
    enters: bool,
) -> None:  # fmt: skip
    for c in numba.prange(cuts.size - 1):
        _plan_nodes(
            model, nodes, edits, after_nodes, slots, limits, goal, before, numbers, after, numbers_after, choice, path,
            cuts[c], cuts[c + 1], enters,
        )  # fmt: skip
