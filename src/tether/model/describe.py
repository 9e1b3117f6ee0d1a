"""The contents of a model, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tether._foundation.markup import facts
from tether._foundation.words import counted
from tether.model.form import Form, pair_states


@dataclass(frozen=True, slots=True, repr=False)
class Description:
    """The contents of a model, in numbers; prints as a few lines of text.

    Attributes
    ----------
    states, actions, pairs, transitions : int
        How many of each.
    largest_row : int
        The most outcomes a pair has.
    deterministic : int
        Pairs with a single outcome.
    absorbing : int
        States that no action leaves.
    terminal : int
        States declared terminal when the model was built.
    unavailable : int
        State–action combinations that are not available.
    rewards : str
        ``"R(s, a)"`` or ``"R(s, a, s')"``, with the number of steps if they depend on time.
    reward_range : tuple of float
        Smallest and largest reward.
    normalised_rows : int
        Rows whose given probabilities did not sum to 1 within rounding (1e-12), and were normalised.
    largest_deviation : float
        The largest difference of a row's sum from 1.
    tolerance : float
        The largest difference that was allowed.
    horizon : int or None
        The longest episode that the model is valid for; None for no limit.
    labels : mapping of str to int
        How many states each label has, without the labels of terminal states.
    nbytes : int
        Memory of the arrays.

    Examples
    --------
    >>> import tether
    >>> tether.cases.toy().mdp.describe().pairs
    10
    """

    states: int
    actions: int
    pairs: int
    transitions: int
    largest_row: int
    deterministic: int
    absorbing: int
    terminal: int
    unavailable: int
    rewards: str
    reward_range: tuple[float, float]
    normalised_rows: int
    largest_deviation: float
    tolerance: float
    horizon: int | None
    labels: Mapping[str, int]
    nbytes: int

    def facts(self) -> list[tuple[str, str]]:
        """What there is, as names and texts.

        >>> import tether
        >>> dict(tether.cases.toy().mdp.describe().facts())["states"]
        '8 (1 absorbing)'
        """
        ended = f", {self.terminal:,} of them declared terminal" if self.terminal else ""
        if self.normalised_rows:
            were = "was" if self.normalised_rows == 1 else "were"
            normalised = (
                f"{counted(self.normalised_rows, 'row')} did not sum to 1 and {were} normalised "
                f"(off by at most {self.largest_deviation:.3g}; tolerance {self.tolerance:g})"
            )
        else:
            normalised = "every row sums to 1"
        lines = [
            ("states", f"{self.states:,} ({self.absorbing:,} absorbing{ended})"),
            ("actions", f"{self.actions:,}"),
            ("pairs", f"{counted(self.pairs, 'state–action pair')} ({self.unavailable:,} not available)"),
            ("transitions", f"{self.transitions:,} ({self.transitions / self.pairs:.3g} per pair, at most "
             f"{self.largest_row:,}; {counted(self.deterministic, 'pair')} deterministic)"),
            ("rewards", f"{self.rewards}, from {self.reward_range[0]:g} to {self.reward_range[1]:g}"),
            ("probabilities", normalised),
        ]  # fmt: skip
        if self.horizon is not None:
            lines.append(("horizon", f"valid for episodes of up to {counted(self.horizon, 'step')}"))
        if self.labels:
            text = ", ".join(f"{name} ({counted(n, 'state')})" for name, n in self.labels.items())
            lines.append(("labels", text))
        lines.append(("memory", _size(self.nbytes)))
        return lines

    def __str__(self) -> str:
        return "\n".join(f"{name:<14}{text}" for name, text in self.facts())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return facts(self.facts())


def describe(
    form: Form, n_states: int, n_actions: int, horizon: int | None, labels: Mapping[str, int], nbytes: int
) -> Description:
    """Count what there is in a model; see `MDP.describe`."""
    lengths = np.diff(form.row_start)
    rewards = form.rewards
    steps = "" if rewards.horizon is None else f" for {counted(rewards.horizon, 'step')}"
    return Description(
        states=n_states,
        actions=n_actions,
        pairs=int(form.pair_action.size),
        transitions=int(form.next_state.size),
        largest_row=int(lengths.max()),
        deterministic=int(np.count_nonzero(lengths == 1)),
        absorbing=_count_absorbing(form),
        terminal=int(form.terminal.size),
        unavailable=n_states * n_actions - int(form.pair_action.size),
        rewards=("R(s, a, s')" if rewards.by_entry else "R(s, a)") + steps,
        reward_range=(float(rewards.values.min()), float(rewards.values.max())),
        normalised_rows=form.rounding.rows,
        largest_deviation=form.rounding.largest,
        tolerance=form.rounding.tolerance,
        horizon=horizon,
        labels=labels,
        nbytes=nbytes,
    )


def _count_absorbing(form: Form) -> int:
    """States whose every row is a point mass on the state itself."""
    single = np.flatnonzero(np.diff(form.row_start) == 1)
    own = form.next_state[form.row_start[single]] == pair_states(form.pair_start, single)
    looping = np.zeros(form.pair_action.size + 1, dtype=np.int64)
    looping[single[own] + 1] = 1
    np.cumsum(looping, out=looping)
    n_pairs = np.diff(form.pair_start)
    n_looping = looping[form.pair_start[1:]] - looping[form.pair_start[:-1]]
    return int(np.count_nonzero((n_looping == n_pairs) & (n_pairs > 0)))


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
