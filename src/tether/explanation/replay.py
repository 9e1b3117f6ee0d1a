"""The replay of an episode as one picture shows it: what happened, what the plan makes of it, and where it is tied.

A step of the replay is *tied* to the episode if nothing was changed before it, or if what was observed moves at least
`TIED` of its probability. Where it is not, the replay is what the model expects of anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats
from tether._foundation.markup import Displayed
from tether._foundation.rounding import ROUNDING
from tether._foundation.words import number, percent
from tether.evaluation.outcomes import UNDER_WAY
from tether.explanation.about_episode import RARE, known_tailoring
from tether.explanation.outcome_chances import goes_on
from tether.model.labels import Side

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation

TIED = 0.1
"""A step is tied to the episode if the observation moves at least this part of its probability."""


@dataclass(frozen=True, slots=True)
class Stretch(Displayed):
    """Steps ``first`` … ``last`` in which one thing is done; ``changed``: other than what was done.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).explain().replay().planned[1]
    Stretch(first=2, last=2, text='right', changed=True)
    """

    first: int
    last: int
    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ending(Displayed):
    """An outcome: its name, whether it is bad, good or neither, and its probability under the plan at t = 0 … T.

    ``end`` is its probability under the plan at the end, also after the record.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> ends = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).explain().replay().endings
    >>> [(one.name, one.side) for one in ends]
    [('danger', 'bad'), ('still under way', ''), ('goal', 'good')]
    """

    name: str
    side: Side
    chance: Floats
    observed: Floats
    end: float

    @property
    def label(self) -> str:
        """How many of 100 replays end so, also after the record."""
        later = abs(self.end - self.chance[-1]) > ROUNDING
        return f"{of_hundred(self.end)} {self.name}{' in the end' if later else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Replay(Displayed):
    """What the picture of a plan shows.

    Attributes
    ----------
    tied : array (T,)
        Which steps of the replay are about this episode.
    strength : array (T,)
        How much of the probability of each step the observation moves.
    first_change : int or None
        The first step at which the plan does something else.
    endings : tuple of Ending
        Outcomes that happened or can happen, the bad ones first, then "still under way", then the good ones; empty
        for a model without outcomes.
    value, observed_value : array (T + 1,)
        Under the plan and as observed, at each time: the probability of the bad outcomes (or of what happened, if none
        is known to be bad); without outcomes, the return so far.
    measure : str
        What ``value`` is.
    done, planned : tuple of Stretch
        What was done, and what the plan does, in stretches.
    ended : int or None
        When the observed episode was over; None if it was not.
    outcome : str or None
        How it ended.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> replay = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain().replay(str)
    >>> replay.tied.tolist()[:4], replay.ended, replay.outcome
    ([True, True, False, False], 3, 'died')
    """

    T: int
    tied: Flags
    strength: Floats
    first_change: int | None
    endings: tuple[Ending, ...]
    value: Floats
    observed_value: Floats
    measure: str
    done: tuple[Stretch, ...]
    planned: tuple[Stretch, ...]
    ended: int | None
    outcome: str | None

    @property
    def tied_until(self) -> int:
        """Up to which time the replay is about this episode without interruption."""
        return int(np.argmin(self.tied)) if not self.tied.all() else self.T

    @property
    def title(self) -> str:
        """The finding of the picture.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain().replay(str).title
        'The replay is about this episode up to step 5; after that, about anyone'
        """
        until = self.tied_until
        if until == self.T:
            return "The replay is tied to this episode to the end"
        if until == 0:
            return "The replay is about anyone in this situation, from the start"
        again = ", with parts that are tied again" if self.tied[until:].any() else ""
        return f"The replay is about this episode up to step {until}; after that, about anyone{again}"

    @property
    def text(self) -> str:
        """The picture in words, with its values: for those who cannot see it."""
        parts = [self.title + "."]
        if self.endings:
            now = ", ".join(one.label for one in self.endings if max(one.end, one.observed[-1]))
            parts.append(f"Of 100 replays: {now}.")
        at = _ticks(self.T)
        parts.append(f"{self.measure[0].upper()}{self.measure[1:]}, at step (plan; what happened): ")
        values = (f"{t} ({self._value(self.value[t])}; {self._value(self.observed_value[t])})" for t in at)
        parts[-1] += ", ".join(values) + "."
        changed = [one for one in self.planned if one.changed]
        if changed:
            parts.append("Changed: " + "; ".join(f"step {one.first}, {one.text}" for one in changed) + ".")
        return " ".join(parts)

    def _value(self, value: float) -> str:
        return "not recorded" if np.isnan(value) else percent(value) if self.endings else number(value)


def of_hundred(chance: float) -> str:
    """How many of 100, in words.

    >>> of_hundred(0.851), of_hundred(0.001), of_hundred(0.0), of_hundred(1.0)
    ('85', 'under 1', '0', '100')
    """
    return percent(chance).removesuffix(" %")


def replay_of(explanation: Explanation, name: Callable[[Any], str]) -> Replay:
    """What the picture of an explained plan shows; ``name`` turns an action into text."""
    plan, outlook, steps = explanation.plan, explanation.outlook, explanation.steps
    tailoring = known_tailoring(outlook)
    first = next((step.t for step in steps if step.changed > ROUNDING), None)
    tied = (tailoring.strength >= TIED) | (np.arange(plan.T) < (plan.T if first is None else first))
    ended = next((step.t for step in steps if step.observed_outcome is not None), None)
    if ended is not None and any(step.observed_outcome is None for step in steps[ended:]):
        ended = None  # an outcome that can be left again
    endings = () if goes_on(plan.cf, outlook) else _endings(explanation)
    if endings:
        bad = [one for one in endings if one.side == "bad"] or [one for one in endings if one.observed[-1] > ROUNDING]
        value, seen = (np.sum([getattr(one, who) for one in bad], axis=0) for who in ("chance", "observed"))
        measure = f"{' or '.join(one.name for one in bad)}, share of the replays"
    else:
        value = outlook.returns.mean
        gained = np.cumsum([0.0, *(step.gain for step in steps[:-1])])
        seen = value + gained if plan.minimise else value - gained
        measure = "return so far" if plan.objective is None else f"chance that {plan.objective.in_words}, so far"
    return Replay(
        T=plan.T,
        tied=tied,
        strength=tailoring.strength,
        first_change=first,
        endings=endings,
        value=value,
        observed_value=seen,
        measure=measure,
        done=_stretches([(name(step.observed_action), False) for step in steps[: ended or plan.T]]),
        planned=_planned(steps[: plan.T], name),
        ended=ended,
        outcome=None if ended is None else steps[ended].observed_outcome,
    )


def _stretches(what: Sequence[tuple[str, bool]]) -> tuple[Stretch, ...]:
    found, t = [], 0
    for (text, changed), group in groupby(what):
        length = len(list(group))
        found.append(Stretch(t, t + length - 1, text, changed))
        t += length
    return tuple(found)


def _planned(steps: Sequence[Any], name: Callable[[Any], str]) -> tuple[Stretch, ...]:
    """What the plan does: something else, by its name, or the same, as an empty text."""
    what = []
    for step in steps:
        if step.changed >= RARE or (step.changed > ROUNDING and step.changed == max(one.changed for one in steps)):
            what.append((name(step.instead), True))
        else:
            what.append(("", False))
    return _stretches(what)


def _endings(explanation: Explanation) -> tuple[Ending, ...]:
    outcomes, labels = explanation.outcomes, explanation.plan.cf.mdp.labels
    found = []
    for i, name in enumerate(outcomes.classes):
        chance, seen = outcomes.plan[:, i], outcomes.observed[:, i]
        end = float(outcomes.finally_[1, i])
        if max(chance[-1], seen[-1], end) > ROUNDING:
            found.append(Ending(name or UNDER_WAY, labels.side(name), chance, seen, end))
    if not any(one.name != UNDER_WAY and (one.side == "bad" or one.observed[-1] > ROUNDING) for one in found):
        return ()  # the end says little about such an episode: the return is drawn
    order = {"bad": 0, "": 1, "good": 3}
    return tuple(sorted(found, key=lambda one: 2 if one.name == UNDER_WAY else order[one.side]))


def _ticks(T: int) -> list[int]:
    step = max(1, -(-T // 10))
    return sorted({*range(0, T + 1, step), T})
