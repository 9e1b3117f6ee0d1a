"""The Gumbel-max mechanism by sampling, as in the paper: a cross-check of the exact one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import random_generator
from tether.conditioning.edited_rows import ObservedStep, Rows, nominal_start
from tether.conditioning.mechanism import Candidates, NoisePosterior
from tether.errors import Problem, QueryError
from tether.model.form import Form

Method = Literal["top-down", "rejection"]

_MOST_DRAWS = 1e8
_CHUNK = 8192


@dataclass(frozen=True, slots=True, eq=False)
class SampledGumbelMax:
    """The Gumbel-max mechanism by sampling, as in the paper: for checking and for comparison.

    Parameters
    ----------
    samples : int
        Draws of the noise per step.
    rng : int, numpy Generator, or None
        Source of randomness. The same seed gives the same rows, in whatever order they are computed:
        the noise of a state at a time is the same for every pair, as in the causal model.
    method : {"top-down", "rejection"}
        ``"top-down"`` draws the winner first and the others below it (Maddison et al., 2014);
        ``"rejection"`` draws from the prior and keeps what reproduces the observation.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path, mechanism="gumbel-max-sampled", samples=1000, rng=1)
    >>> cf.mechanism
    SampledGumbelMax(samples=1000, method='top-down')
    """

    name: ClassVar[str] = "gumbel-max-sampled"

    samples: int = 1000
    rng: int | np.random.Generator | None = field(default=None, repr=False)
    method: Method = "top-down"
    key: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int | np.integer) or self.samples < 1:
            raise QueryError(f"samples must be a whole number ≥ 1, not {self.samples!r}")
        if self.method not in get_args(Method):
            raise QueryError(f"method must be 'top-down' or 'rejection', not {self.method!r}")
        words = random_generator(self.rng).integers(0, 2**64, size=2, dtype=np.uint64)
        object.__setattr__(self, "key", (int(words[0]), int(words[1])))

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Prepare the noise of one step, given its outcome."""
        at = int(np.searchsorted(step.next_state, step.outcome))
        winner = float(step.probability[at])
        if self.method == "top-down":
            top = self._stream(step.t, 0, special=True).gumbel(size=self.samples)
            return _SampledPosterior(self, step, top, None)
        draws = self.samples / winner
        if draws > _MOST_DRAWS:
            message = (
                f"the observed outcome has probability {winner:.3g}, so rejection would need about "
                f"{draws:.1e} draws for {self.samples:,} samples"
            )
            fix = "use method='top-down'"
            raise QueryError(Problem(message, time=step.t, value=winner, place=f"t = {step.t}", fix=fix))
        return _SampledPosterior(self, step, None, self._reject(step, at))

    def standard_error(self, probability: Floats) -> Floats:
        """Standard error of a share of ``samples`` independent draws: sqrt(P·(1 - P) / samples)."""
        error: Floats = np.sqrt(probability * (1.0 - probability) / self.samples)
        return error

    def _stream(self, t: int, state: int, *, special: bool = False) -> np.random.Generator:
        """The random stream of one state at one time: a counter-based generator, addressed, not advanced."""
        counter = np.array([0, int(special), state, t], dtype=np.uint64)
        key = np.array(self.key, dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    def _reject(self, step: ObservedStep, winner: int) -> Floats:
        """Prior noise of the observed row's states that makes the observed outcome win: (states, samples)."""
        stream = self._stream(step.t, 0, special=True)
        log_p = np.log(step.probability)
        block = max(1, min(self.samples, 2_000_000 // log_p.size))
        kept: list[Floats] = []
        missing = self.samples
        while missing > 0:
            noise = stream.gumbel(size=(block, log_p.size))
            accepted = noise[np.argmax(noise + log_p, axis=1) == winner]
            kept.append(accepted[:missing])
            missing -= len(kept[-1])
        return np.concatenate(kept).T.copy()


@dataclass(frozen=True, slots=True, eq=False)
class _SampledPosterior:
    mechanism: SampledGumbelMax
    step: ObservedStep
    top: Floats | None
    accepted: Floats | None

    @property
    def key(self) -> Hashable:
        """None: each time has its own draws."""
        return None

    def changes(self, candidates: Candidates) -> Ints:
        """Pairs that can lead to a state the observed pair could have led to.

        The noise of other states has the distribution it had before the observation.
        """
        return candidates.meeting()

    def replay(self, form: Form, pairs: Ints) -> Rows:
        start = nominal_start(form, pairs)
        shares, strengths = [np.empty(0)], np.empty(pairs.size)
        low = 0
        while low < pairs.size:
            high = max(low + 1, int(np.searchsorted(start, start[low] + _CHUNK, side="right")) - 1)
            shares += self._replay_chunk(form, pairs[low:high], strengths[low:high])
            low = high
        return Rows.from_entries(form, pairs, np.concatenate(shares), strengths)

    def _replay_chunk(self, form: Form, pairs: Ints, strengths: Floats) -> list[Floats]:
        """The share of the draws that each entry of some rows wins, row by row; writes their strengths."""
        entries = [slice(form.row_start[x], form.row_start[x + 1]) for x in pairs]
        states = np.unique(np.concatenate([form.next_state[one] for one in entries]))
        noise = np.stack([self._noise(int(state)) for state in states])
        shares = []
        for i, one in enumerate(entries):
            nominal = form.probability[one]
            score = noise[np.searchsorted(states, form.next_state[one])] + np.log(nominal)[:, None]
            wins = np.bincount(np.argmax(score, axis=0), minlength=nominal.size)
            share = wins / self.mechanism.samples
            shares.append(share)
            strengths[i] = 0.5 * np.abs(share - nominal).sum()
        return shares

    def _noise(self, state: int) -> Floats:
        """Posterior noise of one state: (samples,)."""
        at = int(np.searchsorted(self.step.next_state, state))
        in_row = at < self.step.next_state.size and self.step.next_state[at] == state
        if in_row and self.accepted is not None:
            kept: Floats = self.accepted[at]
            return kept
        prior = self.mechanism._stream(self.step.t, state).gumbel(size=self.mechanism.samples)
        if not in_row or self.top is None:
            return prior
        log_p = np.log(self.step.probability[at])
        if state == self.step.outcome:
            won: Floats = self.top - log_p
            return won
        below: Floats = -np.logaddexp(-self.top, -(prior + log_p)) - log_p  # a Gumbel cut off at the winner's
        return below
