"""Usual practice: what the log of a learned model usually does, what that is worth, and what each action would change.

Usual practice takes the action a in s with its share in the log, n_sa / n_s. The advantage of an action is what it
changes if it is taken this once, and usual practice goes on from there. It needs no planning and no causal model. It is
drawn towards 0 as far as the log demands (`tether.model.pooling`), so that chance is not taken for an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.arrow import NameColumn, Tabular
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.words import counted, number, percent, three_digits, with_spread
from tether.errors import Problem, QueryError
from tether.model.counts import Counts
from tether.model.form import Form, all_pair_states
from tether.model.model_record import ModelRecord
from tether.model.pooling import StateCounts, Values, advantages_of, pool, state_counts, values_of

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 20
"""How many rows a notebook shows."""

_SURE = 0.95
"""An action is said to be better or worse if that is at least so likely."""


@dataclass(frozen=True, slots=True)
class Advantage(Displayed):
    """What an action does for anyone in a state, this once, compared with usual practice.

    Attributes
    ----------
    state, action : name
    n : int
        How often the action was seen there, with its outcome.
    share : float
        In how many of the steps in that state it was taken.
    advantage, sd : float
        How much more it is worth than usual practice, and the standard deviation of that.
    better : float
        The probability that it is better than usual practice; 0.5 if no effect can be shown.

    Examples
    --------
    >>> one = Advantage("sick", "treat", 100, 0.5, advantage=0.2, sd=0.03, better=1.0)
    >>> [round(end, 2) for end in one.interval(0.9)]
    [0.15, 0.25]
    """

    state: Any
    action: Any
    n: int
    share: float
    advantage: float
    sd: float
    better: float

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """The credible interval of the advantage, as likely below as above."""
        from scipy.special import ndtri

        half = float(ndtri(0.5 + level / 2.0)) * self.sd
        return self.advantage - half, self.advantage + half


class Practice(Tabular):
    """Usual practice in the log of a learned model; made by `practice`.

    Examples
    --------
    >>> import tether
    >>> seen = {("treat", "well"): 80, ("treat", "dead"): 20, ("wait", "well"): 40, ("wait", "dead"): 60}
    >>> paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    >>> usual = tether.practice(tether.learn(paths).with_objective(final_reward={"well": 1.0}))
    >>> usual.policy["sick"]
    {'treat': 0.5, 'wait': 0.5}
    >>> round(usual.value("sick"), 2)
    0.6
    >>> one = usual.advantages[0]
    >>> one.state, one.action, one.n, one.share, round(one.advantage, 3), round(one.sd, 3)
    ('sick', 'treat', 100, 0.5, 0.191, 0.035)
    """

    def __init__(self, mdp: ModelRecord, counts: Counts) -> None:
        self.mdp = mdp
        self._log = counts

    @cached_property
    def counts(self) -> StateCounts:
        """The counts behind the model, by pair and by state."""
        return state_counts(self.mdp.form, self._log.transitions)

    @cached_property
    def values(self) -> Values:
        """What usual practice is worth, by state; see `tether.model.pooling`."""
        return values_of(self.mdp.form, self.counts, **self._objective)

    @cached_property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """The advantage of each pair of the model, its standard deviation, and the probability that it is above 0.

        The deviation is the largest of those under the sizes of effects that the log leaves possible. Their mean would
        be too small in a small log: where little can be shown, most of these sizes are near 0.
        """
        from scipy.special import ndtr

        pooling = self._log.pooling
        if pooling is None:
            pooling = pool(self.mdp.form, self._log.transitions, **self._objective)[1]
        of_rewards = reward_differences(self.mdp.form, self.counts, self._log)
        mean, _ = advantages_of(self.counts, self.values, pooling.rho, *of_rewards)
        square = np.zeros(mean.size)
        for rho in pooling.likely:
            other, spread = advantages_of(self.counts, self.values, rho, *of_rewards)
            square = np.maximum(square, spread**2 + (other - mean) ** 2)
        sd = np.sqrt(square)
        with np.errstate(divide="ignore", invalid="ignore"):
            better = np.where(sd > 0, ndtr(mean / sd), np.where(mean == 0, 0.5, mean > 0))
        return mean, sd, better

    @cached_property
    def unpooled(self) -> tuple[Floats, Floats]:
        """The advantage of each pair as the log has it, and how far chance puts the mean of its own row off (sd).

        For sums over many pairs, in which chance averages out: their advantages, each drawn towards 0, would add up to
        too little if the effects of an action are alike in many states.
        """
        costs, unsure = reward_differences(self.mdp.form, self.counts, self._log)
        mean, _ = advantages_of(self.counts, self.values, 1.0, costs, unsure)
        variance = self.values.variance[self.counts.pair_state]
        return mean, np.sqrt(variance / (self.counts.of_pair + 1.0) + unsure)

    @property
    def policy(self) -> Mapping[Any, Mapping[Any, float]]:
        """The share of each action in each state, as `MDP.evaluate` and `CounterfactualMDP.evaluate` take it."""
        form, share = self.mdp.form, self.shares
        actions = [self.mdp.actions[int(a)] for a in form.pair_action]
        found: dict[Any, dict[Any, float]] = {}
        for s, state in enumerate(self.mdp.states):
            own = range(int(form.pair_start[s]), int(form.pair_start[s + 1]))
            found[state] = {actions[x]: float(share[x]) for x in own if share[x] > 0}
        return found

    def value(self, state: Any) -> float:
        """What usual practice is worth from a state, to the end of the episode.

        If some states lead to no end, it is worth what it earns in as many steps as the longest episode has.
        """
        return float(self.values.of_state[self.mdp.state_index(state)])

    @cached_property
    def advantages(self) -> tuple[Advantage, ...]:
        """One row for each state in which an action was taken, and each action there, in the model's order."""
        return tuple(self.advantage(int(pair)) for pair in self._pairs)

    def advantage(self, pair: int) -> Advantage:
        """The advantage of a pair of the model, by index."""
        counts, (mean, sd, better) = self.counts, self.arrays
        state = self.mdp.states[int(counts.pair_state[pair])]
        action = self.mdp.actions[int(self.mdp.form.pair_action[pair])]
        numbers = float(self.shares[pair]), float(mean[pair]), float(sd[pair]), float(better[pair])
        return Advantage(state, action, int(counts.of_pair[pair]), *numbers)

    def left_out(self, variable: str) -> float:
        """How much a variable of the state would change the odds of an action, had it not been recorded.

        It is the factor between the odds of an action in a state, and in all states that differ in this variable alone,
        that 95 of 100 steps of the log do not exceed: the Γ of `tether.certify` that this variable would have had. Each
        state counts one step more, done as in those others, so that rare states do not decide it.

        Examples
        --------
        >>> import tether
        >>> from collections import namedtuple
        >>> State = namedtuple("State", ["sick", "frail"])
        >>> def seen(frail, did, times):
        ...     return [tether.Path([State("yes", frail), State("no", frail)], [did]) for _ in range(times)]
        >>> log = seen("yes", "treat", 80) + seen("yes", "wait", 20) + seen("no", "treat", 20) + seen("no", "wait", 80)
        >>> round(tether.practice(tether.learn(log)).left_out("frail"), 2)
        3.93
        """
        states, counts = self.mdp.states, self.counts
        if variable not in self.variables:
            known = ", ".join(self.variables) or "none: their names have no named parts"
            raise QueryError(
                Problem(f"the states have no variable {variable!r}", value=variable, fix=f"known are {known}")
            )
        rest = [state._replace(**{variable: None}) for state in states]
        codes = {one: code for code, one in enumerate(dict.fromkeys(rest))}
        of_state = np.array([codes[one] for one in rest])
        group, n_actions = of_state[counts.pair_state], self.mdp.n_actions
        key = group * n_actions + self.mdp.form.pair_action
        together = summed(key, counts.of_pair, len(codes) * n_actions)
        total = summed(of_state, counts.of_state, len(codes))
        usual = together[key] / np.maximum(total[group], 1)
        own = (counts.of_pair + usual) / (counts.of_state[counts.pair_state] + 1)
        some = (usual > 0) & (usual < 1) & (counts.of_pair > 0)
        if not some.any():
            return 1.0
        ratio = own[some] / (1 - own[some]) * (1 - usual[some]) / usual[some]
        ratio, weight = np.maximum(ratio, 1 / ratio), counts.of_pair[some]
        order = np.argsort(ratio)
        return float(ratio[order][np.searchsorted(np.cumsum(weight[order]), 0.95 * weight.sum())])

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The named parts that all states have; empty if their names have none."""
        parts = {getattr(state, "_fields", ()) for state in self.mdp.states}
        return parts.pop() if len(parts) == 1 else ()

    def strongest(self) -> tuple[str | None, float]:
        """The variable of the state whose `left_out` is largest, and that number; (None, 1) without any."""
        found = max(((self.left_out(name), name) for name in self.variables), default=(1.0, None))
        return found[1], found[0]

    def to_arrow(self) -> pyarrow.Table:
        """The advantages as an Arrow table: state, action, n, share, advantage, sd, better."""
        import pyarrow as pa

        pairs, (mean, sd, better) = self._pairs, self.arrays
        return pa.table(
            {
                "state": NameColumn(self.mdp.states).take(self.counts.pair_state[pairs]),
                "action": NameColumn(self.mdp.actions).take(self.mdp.form.pair_action[pairs]),
                "n": self.counts.of_pair[pairs].astype(np.int64),
                "share": self.shares[pairs],
                "advantage": mean[pairs],
                "sd": sd[pairs],
                "better": better[pairs],
            }
        )

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """In how many states an action is surely better than usual practice; and what the log can show at all."""
        mean, _, better = self.arrays
        pairs = self._pairs
        states = np.unique(self.counts.pair_state[pairs])
        sure = pairs[(better[pairs] >= _SURE) & (mean[pairs] > 0)]
        first = (
            f"Usual practice in {counted(states.size, 'state')} and {counted(pairs.size, 'pair')} of state and action."
        )
        found = [first]
        if sure.size:
            best = self.advantage(int(sure[np.argmax(mean[sure])]))
            many = np.unique(self.counts.pair_state[sure]).size
            where = "state" if many == 1 else "states"
            found.append(
                f"In {many:,} {where} an action is better than usual practice with a probability of at least "
                f"{percent(_SURE)}. The largest difference: {name(best.action)} in {name(best.state)}, "
                f"{with_spread(best.advantage, best.sd)}, seen {counted(best.n, 'time')}."
            )
        else:
            found.append(
                f"In no state is an action better than usual practice with a probability of at least {percent(_SURE)}."
            )
        if self._log.pooling is not None:
            found.append(self._log.pooling.sentence)
        return found

    def __repr__(self) -> str:
        return f"<Practice: {counted(self._pairs.size, 'pair')} of state and action>"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        order = self._pairs[np.argsort(-np.abs(self.arrays[0][self._pairs]), kind="stable")][:_SHOWN]
        rows = []
        for pair in order:
            one = self.advantage(int(pair))
            numbers = (number(one.advantage), number(one.sd), percent(one.better))
            rows.append((str(one.state), str(one.action), f"{one.n:,}", percent(one.share), *numbers))
        heads = ("state", "action", "seen", "share", "advantage", "sd", "better")
        return paragraphs(self.sentences(str)) + html_table(heads, rows)

    @property
    def _objective(self) -> dict[str, Any]:
        """What values depend on, beside the rewards."""
        return {"discount": self.mdp.discount, "final_reward": self.mdp.final_reward, "longest": self._log.longest}

    @cached_property
    def shares(self) -> Floats:
        """How often each pair (s, a) is taken in its state: n_sa / n_s.

        In a state without any count each action has the same share: there is nothing to choose in it, or nothing is
        known.
        """
        return _shares(self.mdp, self.counts.of_pair)

    @cached_property
    def _pairs(self) -> Ints:
        """The pairs of states in which an action was seen with its outcome."""
        return np.flatnonzero(self.counts.of_state[self.counts.pair_state] > 0)


def shares_together(models: Iterable[ModelRecord]) -> Floats | None:
    """How often each pair is taken in its state in the logs of several models together; None if one was not learned."""
    found, total, first = list(models), np.zeros(0), None
    for mdp in found:
        if mdp.counts is None:
            return None
        own = Practice(mdp, mdp.counts).counts.of_pair
        total, first = (own, mdp) if first is None else (total + own, first)
    return None if first is None else _shares(first, total)


def _shares(mdp: ModelRecord, of_pair: Ints | Floats) -> Floats:
    """n_sa / n_s; in a state without any count each action has the same share."""
    width, owner = np.diff(mdp.form.pair_start), all_pair_states(mdp.form.pair_start)
    total = summed(owner, of_pair, width.size)[owner]
    share: Floats = np.where(total > 0, of_pair / np.maximum(total, 1), 1.0 / width[owner])
    return share


def practice(mdp: ModelRecord) -> Practice:
    """Usual practice in the log of a learned model: what is done, what it is worth, and what each action would change.

    Parameters
    ----------
    mdp : MDP
        A model that `tether.learn` made. To leave an episode out of the counts: ``practice(without(mdp, path))``
        (`tether.learning.folds.without`).

    Examples
    --------
    >>> import tether
    >>> paths = [tether.Path(["sick", "sick", "well"], ["wait", "treat"]), tether.Path(["sick", "dead"], ["wait"])]
    >>> print(tether.practice(tether.learn(paths)))
    Usual practice in 1 state and 2 pairs of state and action.
    In no state is an action better than usual practice with a probability of at least 95 %.
    No effect of any action can be shown: one pair of state and action differs no more than by chance.
    """
    return Practice(mdp, learned_counts(mdp))


def reward_differences(form: Form, counts: StateCounts, log: Counts) -> tuple[Floats, Floats]:
    """Of each pair: what it earns more than its outcomes earn over all actions, and the variance of that."""
    rewards = form.rewards.at(0)
    of_entry = rewards if form.rewards.by_entry else rewards[counts.entry_pair]
    weight = np.where(counts.of_group[counts.group] > 0, counts.of_entry, 1.0)
    size = counts.share.size
    shared = summed(counts.group, weight * of_entry, size) / summed(counts.group, weight, size)
    more = summed(counts.entry_pair, form.probability * (of_entry - shared[counts.group]), counts.of_pair.size)
    unsure = np.zeros(more.size)
    if log.pooling is not None and log.pooling.reward_rho > 0:
        rho, n, together = log.pooling.reward_rho, counts.of_entry, counts.of_group[counts.group]
        chance = np.where(n > 0, (1.0 - n / np.maximum(together, 1)) / np.maximum(n, 1), np.inf)
        left = rho * np.where(n > 0, chance / (rho + chance), 1.0) * log.pooling.reward_sd**2
        unsure = summed(counts.entry_pair, form.probability**2 * left, more.size)
    return more, unsure


def strongest_in_words(mdp: ModelRecord) -> str:
    """How strong a cause the strongest recorded variable would have been, in a sentence; empty if none is known.

    It is the comparison for every strength of hidden causes: `Practice.left_out`.

    Examples
    --------
    >>> import tether
    >>> from collections import namedtuple
    >>> State = namedtuple("State", ["sick", "frail"])
    >>> def seen(frail, did, times):
    ...     return [tether.Path([State("yes", frail), State("no", frail)], [did]) for _ in range(times)]
    >>> log = seen("yes", "treat", 80) + seen("yes", "wait", 20) + seen("no", "treat", 20) + seen("no", "wait", 80)
    >>> print(strongest_in_words(tether.learn(log)))  # doctest: +NORMALIZE_WHITESPACE
    For comparison: had frail not been recorded, it would have changed the odds of an action by up to 3.93 times,
    in 95 of 100 steps.
    """
    variable, strength = (None, 1.0) if mdp.counts is None else Practice(mdp, mdp.counts).strongest()
    if variable is None:
        return ""
    return (
        f"For comparison: had {variable} not been recorded, it would have changed the odds of an action by up to "
        f"{three_digits(strength)} times, in 95 of 100 steps."
    )


def learned_counts(mdp: ModelRecord) -> Counts:
    """The counts of a learned model; an error for any other model."""
    if not isinstance(mdp, ModelRecord):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.practice(tether.learn(episodes))")
    if mdp.counts is None:
        message = "usual practice is known for a learned model only, from its counts; this model was not learned"
        raise QueryError(Problem(message + " from episodes", fix="learn the model (tether.learn), or give a policy"))
    return mdp.counts
