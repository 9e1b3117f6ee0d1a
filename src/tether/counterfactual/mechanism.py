"""Mechanisms: how the luck behind an observed step is inferred, and replayed on other rows.

The three steps of a counterfactual (Pearl) are visible here and in `tether.counterfactual.conditioned`:

- *abduction*: ``mechanism.infer(step)`` turns one observed transition into a `Posterior` over the
  noise of that step;
- *action*: another pair is chosen, so another nominal row applies;
- *prediction*: ``posterior.replay(form, pairs)`` runs these rows on the inferred noise.

Any object with these two methods is a mechanism. Two are built in: `GumbelMax`, exact, and
`SampledGumbelMax`, which draws the noise as the paper does and serves as a cross-check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np

from tether._types import Floats, Ints
from tether.errors import Problem, QueryError
from tether.model.form import Form

__all__ = [
    "GumbelMax",
    "Mechanism",
    "ObservedStep",
    "Posterior",
    "Rows",
    "SampledGumbelMax",
    "make_mechanism",
]


@dataclass(frozen=True, slots=True, eq=False)
class ObservedStep:
    """One observed transition: the row P(·|s_t, a_t) as next states and probabilities, and s_{t+1}.

    ``outcome`` is -1 where it was not recorded; nothing is inferred from such a step.
    """

    t: int
    next_state: Ints
    probability: Floats
    outcome: int

    @property
    def recorded(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Counterfactual rows of some pairs (ascending), each entry for entry of the nominal row.

    Row i is ``probability[start[i]:start[i + 1]]``, zeros included; ``strength[i]`` is its total
    variation to the nominal row.
    """

    pairs: Ints
    start: Ints
    probability: Floats
    strength: Floats

    def find(self, pair: int) -> int:
        """Position of a pair, or -1."""
        i = int(np.searchsorted(self.pairs, pair))
        return i if i < self.pairs.size and self.pairs[i] == pair else -1

    def locate(self, pairs: Ints) -> Ints:
        """Position of each of some pairs, -1 where it has no row here."""
        if self.pairs.size == 0:
            return np.full(pairs.size, -1)
        at = np.minimum(np.searchsorted(self.pairs, pairs), self.pairs.size - 1)
        return np.where(self.pairs[at] == pairs, at, -1)

    def entries(self, form: Form) -> Ints:
        """The model's entry behind each probability."""
        shift = np.repeat(form.row_start[self.pairs] - self.start[:-1], np.diff(self.start))
        entries: Ints = np.arange(shift.size) + shift
        return entries

    @classmethod
    def empty(cls, form: Form, pairs: Ints) -> Rows:
        """Rows for ``pairs``, not yet filled."""
        lengths = form.row_start[pairs + 1] - form.row_start[pairs]
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        return cls(pairs, start, np.empty(int(start[-1])), np.empty(pairs.size))

    @classmethod
    def nominal(cls, form: Form, pairs: Ints) -> Rows:
        """The nominal rows of ``pairs``: what a step says whose outcome was not recorded."""
        rows = cls.empty(form, pairs)
        entries = np.arange(rows.probability.size) + np.repeat(
            form.row_start[pairs] - rows.start[:-1], np.diff(rows.start)
        )
        rows.probability[:] = form.probability[entries]
        rows.strength[:] = 0.0
        return rows.freeze()

    def freeze(self) -> Rows:
        """The same rows, read-only."""
        for array in (self.pairs, self.start, self.probability, self.strength):
            array.flags.writeable = False
        return self


class Posterior(Protocol):
    """What one observed step says about the noise of its time."""

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """Run the nominal rows of ``pairs`` (ascending indices) on the inferred noise."""
        ...


class Mechanism(Protocol):
    """How the noise of a step is inferred. Immutable; equal inputs give equal rows."""

    @property
    def name(self) -> str:
        """The name by which `tether.counterfactual.conditioned` knows it."""
        ...

    def infer(self, step: ObservedStep) -> Posterior:
        """Infer the noise behind one observed transition."""
        ...

    def standard_error(self, probability: Floats) -> Floats:
        """Standard error of counterfactual probabilities; 0 where they are exact."""
        ...


@dataclass(frozen=True, slots=True)
class GumbelMax:
    """The Gumbel-max mechanism, exactly: a closed form, no sampling.

    The outcome of a step is argmax_j log P(j|s,a) + G_j with independent Gumbel noise G
    (Oberst & Sontag, 2019). The formula is in `tether._kernels.gumbel`; O(n log n) a row.

    Examples
    --------
    >>> import tether
    >>> toy = tether.cases.toy()
    >>> tether.counterfactual(toy.mdp, toy.path, mechanism=tether.GumbelMax()).mechanism
    GumbelMax()
    """

    name: ClassVar[str] = "gumbel-max"

    def infer(self, step: ObservedStep) -> Posterior:
        """Keep the observed row and outcome: the noise integrates out in `replay`."""
        return _ExactPosterior(step)

    def standard_error(self, probability: Floats) -> Floats:
        """Zero: the rows are exact."""
        return np.zeros_like(probability)


@dataclass(frozen=True, slots=True)
class _ExactPosterior:
    step: ObservedStep

    def replay(self, form: Form, pairs: Ints) -> Rows:
        from tether._kernels.gumbel import gumbel_rows

        rows = Rows.empty(form, pairs)
        longest = int(np.diff(rows.start).max(initial=0))
        gumbel_rows(
            pairs,
            form.row_start,
            form.next_state,
            form.probability,
            self.step.next_state,
            self.step.probability,
            self.step.outcome,
            rows.start,
            rows.probability,
            rows.strength,
            np.empty(longest),
            np.empty(longest, dtype=np.int64),
            np.empty(longest),
        )
        return rows.freeze()


Method = Literal["top-down", "rejection"]

_MOST_DRAWS = 1e8
_CHUNK = 8192


@dataclass(frozen=True, slots=True, eq=False)
class SampledGumbelMax:
    """The Gumbel-max mechanism by sampling, as in the paper: for checking and for comparison.

    Parameters
    ----------
    samples : int
        Draws of the noise a step.
    rng : int, numpy Generator, or None
        Source of randomness. The same seed gives the same rows, in whatever order they are asked for:
        the noise of a state at a time is one and the same for every pair, as the model says.
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
        try:
            words = np.random.default_rng(self.rng).integers(0, 2**64, size=2, dtype=np.uint64)
        except (TypeError, ValueError) as error:
            raise QueryError(f"rng must be a seed or a numpy Generator, not {self.rng!r}: {error}") from None
        object.__setattr__(self, "key", (int(words[0]), int(words[1])))

    def infer(self, step: ObservedStep) -> Posterior:
        """Prepare the noise of one step, given its outcome."""
        at = int(np.searchsorted(step.next_state, step.outcome))
        winner = float(step.probability[at])
        if self.method == "top-down":
            top = self._stream(step.t, 0, special=True).gumbel(size=self.samples)
            return _SampledPosterior(self, step, top, None)
        draws = self.samples / winner
        if draws > _MOST_DRAWS:
            message = (
                f"t = {step.t}: the observed outcome has probability {winner:.3g}, so rejection would need about "
                f"{draws:.1e} draws for {self.samples:,} samples; use method='top-down'"
            )
            raise QueryError(Problem(message, time=step.t, value=winner))
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

    def replay(self, form: Form, pairs: Ints) -> Rows:
        rows = Rows.empty(form, pairs)
        low = 0
        while low < pairs.size:
            high = max(low + 1, int(np.searchsorted(rows.start, rows.start[low] + _CHUNK, side="right")) - 1)
            self._replay_chunk(form, rows, low, high)
            low = high
        return rows.freeze()

    def _replay_chunk(self, form: Form, rows: Rows, low: int, high: int) -> None:
        entries = [slice(form.row_start[x], form.row_start[x + 1]) for x in rows.pairs[low:high]]
        states = np.unique(np.concatenate([form.next_state[one] for one in entries]))
        noise = np.stack([self._noise(int(state)) for state in states])
        for i, one in enumerate(entries, start=low):
            nominal = form.probability[one]
            score = noise[np.searchsorted(states, form.next_state[one])] + np.log(nominal)[:, None]
            wins = np.bincount(np.argmax(score, axis=0), minlength=nominal.size)
            share = wins / self.mechanism.samples
            rows.probability[rows.start[i] : rows.start[i + 1]] = share
            rows.strength[i] = 0.5 * np.abs(share - nominal).sum()

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


_BUILT_IN = {GumbelMax.name: GumbelMax, SampledGumbelMax.name: SampledGumbelMax}


def make_mechanism(mechanism: str | Mechanism, options: dict[str, Any]) -> Mechanism:
    """A mechanism by name with its options, or one that was built already."""
    if not isinstance(mechanism, str):
        if not (hasattr(mechanism, "infer") and hasattr(mechanism, "standard_error")):
            raise QueryError(f"mechanism must be a name ({_names()}) or a Mechanism, not {mechanism!r}")
        if options:
            raise QueryError(f"options ({', '.join(options)}) go with a mechanism given by name; this one is built")
        return mechanism
    if mechanism not in _BUILT_IN:
        raise QueryError(f"there is no mechanism {mechanism!r}; there is {_names()}")
    kind = _BUILT_IN[mechanism]
    known = [] if kind is GumbelMax else ["samples", "rng", "method"]
    for name in options:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise QueryError(f"the mechanism {mechanism!r} {takes}; got {name}=")
    made: Mechanism = kind(**options)
    return made


def _names() -> str:
    return " and ".join(repr(name) for name in _BUILT_IN)
