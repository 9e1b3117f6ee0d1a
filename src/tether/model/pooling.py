"""Pooling: how far the actions of one state differ in a log, beyond what chance alone makes of the counts.

Rows of different actions that are learned apart differ by chance, and a planner picks the largest difference. So each
row is drawn towards a common row of its state, by as much as the log as a whole demands. With counts n_sa and n_s of
pairs and states, and π_sa = n_sa / n_s what is usually done:

    μ_s   = the pooled row of a state, over all its actions: usual practice as a Markov chain
    V     = the value of usual practice (`usual_values`): on the chain μ, to the end of the episode
    w_sj  = mean reward of the step from s to j, over all actions, plus discounted V(j)
    m_s, v_s = mean and variance of w under μ_s              (with the divisor n_s - 1)
    d_sa  = mean of w under the action's own shares, minus m_s

Values of actions are taken as normal around a common value of their state: θ_sa ~ N(θ_s, ρ·v_s), and the mean of w in
the log as N(θ_sa, v_s / n_sa). A difference to usual practice then has the variance

    Var d_sa = v_s·(ρ·h_sa + c_sa)      h_sa = 1 - 2π_sa + Σ_b π_sb²      c_sa = (1 - π_sa) / n_sa

in which h says that an action that is most of usual practice differs little from it. ρ, the share of effects in the
variance, has the largest likelihood over all pairs seen at least twice; it is 0 unless a test at 1 % says that it is
not (`most_likely_share`). Where the test has chosen among small logs, the likeliest ρ is too large. So ρ is no larger
than what the log shows with a probability of 81 %, one of the equally likely values that it leaves possible
(`likely_shares`); in a large log this hardly matters. Intervals are of all these values. A row is then

    row_sa = (n_sa·share seen + κ·μ'_s) / (n_sa + κ)         κ = 1/ρ - 1

with κ pseudo-counts of μ'_s, the common row: the mean over actions, each weighed by 1 / (ρ + 1/n_sa), as the normal
model demands (`common_rows`). What followed any action of a state may follow all. With ρ = 0 all actions of a state
have the same row, μ_s.

Where the return is the same everywhere (a log without rewards), values are the chances of each end; where there are
not two ends either, they are the outcomes of single steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, summed
from tether.model.counts import Counts, Pooling
from tether.model.form import Form, all_pair_states

_STEPS = 10_000
"""Usual practice is valued over at most so many steps, where every episode ends at some time."""

_CLOSE = 1e-12
"""Values have settled if they change by less than this, relative to the largest."""

_ENDS = 20
"""For how many ends, the most frequent ones, chances are computed in a log without rewards."""

_TEST = 2.706
"""How much larger the logarithm of the likelihood must be than that of ρ = 0: half of the 98 % point of χ² with one
degree of freedom. ρ cannot be negative, so this is a test at 1 %; without it half of all placebos would show something,
and at 5 % one of ten to twenty.
"""

_GRID, _LIKELY, _SHOWN = 400, 8, 1
"""How many values of √ρ are compared; how many equally likely ones of ρ are kept; which of these the log shows, from 0.

The second of eight is exceeded with a probability of 1 - 1.5/8 = 81 %.
"""

_SMALLEST, _LARGEST = 1e-6, 0.999
"""A share of variance below the first is 0; a share above the second is the second, so that κ > 0."""


@dataclass(frozen=True, slots=True, eq=False)
class StateCounts:
    """Counts of a learned model by pair, by state, and by group: a state with one of its outcomes, over all actions.

    Attributes
    ----------
    pair_state, entry_pair, group : arrays
        The state of each pair; the pair and the group of each entry.
    group_state, group_outcome : array (groups,)
    of_entry, of_pair, of_state, of_group : arrays
        How often each was seen with a recorded outcome.
    share : array (groups,)
        μ: the pooled row of each state. An absorbing state that was never left stays where it is.
    """

    pair_state: Ints
    entry_pair: Ints
    group: Ints
    group_state: Ints
    group_outcome: Ints
    of_entry: Ints
    of_pair: Ints
    of_state: Ints
    of_group: Ints
    share: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Usual practice in values: ``of_state`` (states,), and of each group w_sj; m_s and v_s of each state."""

    of_state: Floats
    of_group: Floats
    mean: Floats
    variance: Floats


def state_counts(form: Form, transitions: Ints) -> StateCounts:
    """The counts of a model's entries, added up by pair, by state and by group."""
    n_states = form.pair_start.size - 1
    pair_state = all_pair_states(form.pair_start)
    entry_pair = np.repeat(np.arange(form.pair_action.size), np.diff(form.row_start))
    key = pair_state[entry_pair] * n_states + form.next_state
    keys, group = np.unique(key, return_inverse=True)
    group_state, group_outcome = np.divmod(keys, n_states)
    # Where nothing was counted (terminal states) the share is that of the model, the same for all actions.
    first = np.zeros(keys.size, dtype=np.int64)
    first[group[::-1]] = np.arange(group.size)[::-1]
    none = np.zeros(0)
    counts = StateCounts(
        pair_state, entry_pair, group, group_state, group_outcome, none, none, none, none, form.probability[first]
    )
    return recounted(counts, transitions, n_states)


def recounted(counts: StateCounts, transitions: Floats, n_states: int) -> StateCounts:
    """Other counts of the same entries, added up by pair, by state and by group; unseen states keep their share."""
    of_pair = summed(counts.entry_pair, transitions, counts.pair_state.size)
    of_state = summed(counts.pair_state, of_pair, n_states)
    of_group = summed(counts.group, transitions, counts.group_state.size)
    total = of_state[counts.group_state]
    share = np.where(total > 0, of_group / np.where(total > 0, total, 1.0), counts.share)
    of_entry = np.asarray(transitions, dtype=np.float64)
    return replace(counts, of_entry=of_entry, of_pair=of_pair, of_state=of_state, of_group=of_group, share=share)


def usual_values(
    counts: StateCounts, step: Floats, ends: Floats, terminal: Ints, discount: float, longest: int
) -> Floats:
    """The value of usual practice from each state: rewards until the episode ends, and ``ends`` where it does.

    Parameters
    ----------
    counts : StateCounts
    step : array (states,)
        Expected reward of a step of usual practice from each state.
    ends : array (states,) or (states, several)
        What it is worth to end in each state. Several columns are valued side by side.
    terminal : array
        States in which episodes end.
    discount : float
    longest : int
        How many steps to look ahead, if some state leads to no terminal state.
    """
    stop = np.zeros(counts.of_state.size, dtype=bool)
    stop[terminal] = True
    limit = _STEPS if discount < 1.0 or _all_end(counts, stop) else max(1, longest)
    several = ends.reshape(ends.shape[0], -1)
    value = several.astype(np.float64)
    reward = np.where(stop, 0.0, step)[:, None]
    for _ in range(limit):
        after = np.stack([_chain(counts, value[:, i]) for i in range(value.shape[1])], axis=1)
        new = np.where(stop[:, None], several, reward + discount * after)
        moved = float(np.max(np.abs(new - value), initial=0.0))
        value = new
        if moved <= _CLOSE * float(np.max(np.abs(value), initial=0.0)):
            break
    return value.reshape(ends.shape)


def values_of(form: Form, counts: StateCounts, discount: float, final_reward: Floats | None, longest: int) -> Values:
    """Usual practice valued by the model's rewards; see the head of this file."""
    rewards = form.rewards.at(0)
    of_entry = rewards if form.rewards.by_entry else rewards[counts.entry_pair]
    weight = np.where(counts.of_group[counts.group] > 0, counts.of_entry, 1.0)
    total = summed(counts.group, weight, counts.share.size)
    reward = summed(counts.group, weight * of_entry, counts.share.size) / total
    ends = np.zeros(counts.of_state.size) if final_reward is None else final_reward
    step = summed(counts.group_state, counts.share * reward, ends.size)
    value = usual_values(counts, step, ends, form.terminal, discount, longest)
    return _spread(counts, value, reward + discount * value[counts.group_outcome])


def pool(
    form: Form, transitions: Ints, *, discount: float = 1.0, final_reward: Floats | None = None, longest: int = 1
) -> tuple[StateCounts, Pooling]:
    """How far the rows of a model are to be pooled, from its counts; see the head of this file."""
    counts = state_counts(form, transitions)
    kind, found = _values(form, counts, discount, final_reward, longest)
    usual, several, chance = _practice(counts)
    used = several & (counts.of_pair >= 2)
    squares, chances = [], []
    for values in found:
        varies = used & (values.variance > 0)[counts.pair_state]
        square = _difference(counts, values)[varies] ** 2 / values.variance[counts.pair_state[varies]]
        squares.append(square / usual[varies])
        chances.append(chance[varies] / usual[varies])
    if kind == "rows":
        square, entries = _of_single_outcomes(counts, used)
        squares, chances = [square / usual[entries]], [chance[entries] / usual[entries]]
    square, chance_of = np.concatenate(squares), np.concatenate(chances)
    likely = likely_shares(square, chance_of)
    rho = min(most_likely_share(square, chance_of, _LARGEST), likely[min(_SHOWN, len(likely) - 1)])
    effect = rho * usual[several]
    real = effect / (effect + chance[several])
    share = float(np.average(real, weights=counts.of_pair[several])) if several.any() else 0.0
    return counts, Pooling(rho, share, int(np.count_nonzero(used)), kind, likely)


def common_rows(counts: StateCounts, rho: float) -> tuple[Floats, Floats]:
    """The common row of each state's actions, by group; and by state, how many sightings it is worth.

    n sightings of an action are worth (1 + κ)·n / (n + κ) for the common row: all of them if actions have no effect.
    """
    n = counts.of_pair
    if rho == 0:
        return counts.share, counts.of_state
    kappa = 1.0 / rho - 1.0
    each = (1.0 + kappa) / np.where(n > 0, n + kappa, 1.0)  # what was never seen is worth nothing
    worth = summed(counts.pair_state, each * n, counts.of_state.size)
    mean = each[counts.entry_pair] * counts.of_entry
    total = summed(counts.group, mean, counts.share.size)
    known = worth[counts.group_state] > 0
    return np.where(known, total / np.where(known, worth[counts.group_state], 1.0), counts.share), worth


def pooled_rows(counts: StateCounts, rho: float) -> Floats:
    """The probability of each entry: its own count, and κ = 1/ρ - 1 pseudo-counts of the common row of its state."""
    common = common_rows(counts, rho)[0][counts.group]
    if rho == 0:
        return common
    kappa = 1.0 / rho - 1.0
    total = counts.of_pair[counts.entry_pair] + kappa  # 0 only for an action that was never seen
    row: Floats = (counts.of_entry + kappa * common) / np.where(total > 0, total, 1.0)
    return np.where((total > 0) & (counts.of_state[counts.pair_state][counts.entry_pair] > 0), row, common)


def advantages_of(
    counts: StateCounts, values: Values, rho: float, costs: Floats, unsure: Floats
) -> tuple[Floats, Floats]:
    """What each action does for anyone in its state, this once, compared with usual practice: mean and spread, by pair.

    They are those of the posterior of the normal model at the head of this file, with x_sa the mean of w in the log and
    B_sa = ρ / (ρ + 1/n_sa):

        θ_sa has the mean B·x_sa + (1 - B)·θ'_s      θ'_s = mean of x, weighed by 1 / (ρ + 1/n_sa)
        and the variance v_s·(B / n_sa + (1 - B)² / Σ_b 1 / (ρ + 1/n_sb))

    Parameters
    ----------
    costs, unsure : array (pairs,)
        What an action earns more than the mean of its step's outcome over all actions, and the variance of that.
    """
    n, state, size = counts.of_pair, counts.pair_state, counts.of_state.size
    variance = values.variance[state]
    usual = np.where(n > 0, n / np.maximum(counts.of_state[state], 1), 0.0)
    seen = np.maximum(n, 1)
    x = values.mean[state] + _difference(counts, values)
    own, weight = np.zeros(n.size), np.where(n > 0, n, 0.0)
    if rho > 0:
        own, weight = np.where(n > 0, rho / (rho + 1.0 / seen), 0.0), np.where(n > 0, 1.0 / (rho + 1.0 / seen), 0.0)
    total = summed(state, weight, size)[state]
    total = np.where(total > 0, total, 1.0)
    common = summed(state, weight * x, size)[state] / total
    value = own * x + (1.0 - own) * common + costs
    apart = np.where(n > 0, own / seen, rho) * variance + unsure
    shared = summed(state, usual * (1.0 - own), size)[state]
    together = summed(state, usual**2 * apart, size)[state]
    spread = apart * (1.0 - 2.0 * usual) + together + (1.0 - own - shared) ** 2 * variance / total
    return value - summed(state, usual * value, size)[state], np.sqrt(np.maximum(spread, 0.0))


def repooled(form: Form, counts: Counts, discount: float, final_reward: Floats | None) -> tuple[Form, Counts]:
    """The form and counts of a learned model whose values have changed; the same objects if it was not pooled."""
    if counts.pooling is None:
        return form, counts
    of_states, found = pool(
        form, counts.transitions, discount=discount, final_reward=final_reward, longest=counts.longest
    )
    found = replace(found, reward_rho=counts.pooling.reward_rho, reward_sd=counts.pooling.reward_sd)
    if found.rho != counts.pooling.rho:
        form = replace(form, probability=pooled_rows(of_states, found.rho))
    return form, replace(counts, pooling=found)


def most_likely_share(squares: Floats, chances: Floats, largest: float) -> float:
    """The ρ ≥ 0 of largest likelihood for differences d ~ N(0, v·(ρ + c)): from d²/v (``squares``) and c (``chances``).

    It is 0 unless its likelihood passes the test of `_TEST`. The likelihood can have several maxima, so it is first
    computed on a grid; a search within the best cell follows.
    """
    from scipy.optimize import minimize_scalar

    if squares.size == 0:
        return 0.0
    against = _against(squares, chances)
    grid = np.geomspace(_SMALLEST, largest, 61)
    height = [against(float(rho)) for rho in grid]
    best = int(np.argmin(height))
    low, high = np.log(grid[max(best - 1, 0)]), np.log(grid[min(best + 1, grid.size - 1)])
    found = minimize_scalar(lambda x: against(float(np.exp(x))), bounds=(low, high), method="bounded")
    rho = float(np.exp(found.x)) if found.fun < height[best] else float(grid[best])
    return 0.0 if rho <= _SMALLEST or against(0.0) - against(rho) < _TEST else rho


def likely_shares(squares: Floats, chances: Floats) -> tuple[float, ...]:
    """Values of ρ that are equally likely given the differences, if all sizes √ρ of effects were so before the log."""
    if squares.size == 0:
        return (0.0,)
    sizes = np.linspace(0.0, np.sqrt(_LARGEST), _GRID)
    against = _against(squares, chances)
    height = np.array([against(float(size**2)) for size in sizes])
    weight = np.cumsum(np.exp(height.min() - height))
    at = np.searchsorted(weight, weight[-1] * (np.arange(_LIKELY) + 0.5) / _LIKELY)
    return tuple(float(size**2) for size in sizes[at])


def _against(squares: Floats, chances: Floats) -> Callable[[float], float]:
    """Minus the logarithm of the likelihood, as a function of ρ, but for a constant."""
    # Equal pairs of numbers are weighed, not repeated: small logs have many.
    (square, chance), times = np.unique(np.stack((squares, chances)), axis=1, return_counts=True)

    def against(rho: float) -> float:
        return 0.5 * float(times @ (np.log(rho + chance) + square / (rho + chance)))

    return against


def _values(
    form: Form, counts: StateCounts, discount: float, final_reward: Floats | None, longest: int
) -> tuple[str, list[Values]]:
    """What effects are measured in: the return; the chance of each end; or nothing, for single outcomes."""
    by_return = values_of(form, counts, discount, final_reward, longest)
    if by_return.variance.any():
        return "return", [by_return]
    ended = summed(counts.group_outcome, counts.of_group, counts.of_state.size)[form.terminal]
    often = form.terminal[np.argsort(-ended, kind="stable")][:_ENDS]
    if often.size < 2:
        return "rows", []
    ends = np.zeros((counts.of_state.size, often.size))
    ends[often, np.arange(often.size)] = 1.0
    chances = usual_values(counts, np.zeros(ends.shape[0]), ends, form.terminal, 1.0, longest)
    return "ends", [_spread(counts, one, one[counts.group_outcome]) for one in chances.T]


def _spread(counts: StateCounts, value: Floats, of_group: Floats) -> Values:
    """Mean and variance under μ; a variance that is rounding is 0."""
    n = counts.of_state
    mean = summed(counts.group_state, counts.share * of_group, n.size)
    apart = (of_group - mean[counts.group_state]) ** 2
    variance = summed(counts.group_state, counts.share * apart, n.size)
    largest = float(np.max(np.abs(of_group), initial=0.0))
    variance[(variance <= (_CLOSE * largest) ** 2) | (n < 2)] = 0.0
    return Values(value, of_group, mean, variance * n / np.maximum(n - 1, 1))


def _difference(counts: StateCounts, values: Values) -> Floats:
    """D of each pair; 0 for one without a recorded outcome."""
    total = summed(counts.entry_pair, counts.of_entry * values.of_group[counts.group], counts.of_pair.size)
    n = counts.of_pair
    found: Floats = np.where(n > 0, total / np.maximum(n, 1) - values.mean[counts.pair_state], 0.0)
    return found


def _practice(counts: StateCounts) -> tuple[Floats, Flags, Floats]:
    """Of each pair: h; whether it was seen and others of its state too; and c, infinite for a pair never seen."""
    n = counts.of_pair
    usual = np.where(n > 0, n / np.maximum(counts.of_state[counts.pair_state], 1), 0.0)
    squares = summed(counts.pair_state, usual**2, counts.of_state.size)
    chance = np.where(n > 0, (1.0 - usual) / np.maximum(n, 1), np.inf)
    return 1.0 - 2.0 * usual + squares[counts.pair_state], (usual > 0) & (usual < 1), chance


def _of_single_outcomes(counts: StateCounts, used: Flags) -> tuple[Floats, Ints]:
    """d²/v of each entry, if the value is 1 for its outcome and 0 for all others; and the pairs of these entries."""
    mean = counts.share[counts.group]
    entries = used[counts.entry_pair] & (mean > 0) & (mean < 1)
    pair, mean = counts.entry_pair[entries], mean[entries]
    n = counts.of_state[counts.pair_state[pair]]
    variance = mean * (1.0 - mean) * n / (n - 1)
    return (counts.of_entry[entries] / counts.of_pair[pair] - mean) ** 2 / variance, pair


def _chain(counts: StateCounts, value: Floats) -> Floats:
    """The expectation of a value after one step of usual practice."""
    return summed(counts.group_state, counts.share * value[counts.group_outcome], counts.of_state.size)


def _all_end(counts: StateCounts, stop: Flags) -> bool:
    """Whether a terminal state can be reached from every state: then every episode ends at some time."""
    reached, before = stop.copy(), -1
    possible = counts.share > 0
    source, target = counts.group_state[possible], counts.group_outcome[possible]
    while int(np.count_nonzero(reached)) != before:
        before = int(np.count_nonzero(reached))
        reached[source[reached[target]]] = True
    return bool(reached.all())
