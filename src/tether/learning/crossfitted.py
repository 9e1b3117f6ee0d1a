"""The value of a plan in models that did not choose it, for one episode: the counts of a learned model cut in two.

The plan that is best in a learned model is partly the luckiest one, and its value there is too large. So the steps
behind the model are cut into two halves at random, a few times (`tether.learning.folds.halves`). The best plan of each
half, within the same limits, is followed in the other half. The mean of these values is what such a plan is worth;
models that the other half leaves possible give its interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.checks import random_generator
from tether._foundation.rounding import gain_of
from tether._foundation.words import number
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.learning.folds import halves
from tether.learning.follower import Follower
from tether.learning.posterior import posterior
from tether.learning.worlds import asked_of_each, block_size, drawn_worlds
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import tether

_SPLITS = 4
"""How often the counts are cut in two."""


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """What plans within some limits are worth where they were not chosen; made by `cross_fitted`.

    Attributes
    ----------
    value, gain : float
        The mean over both halves of each split; and how much better than what was done.
    low, high : float
        The 90 % interval of the value, from models that the halves leave possible.
    promised : float
        What the plan is worth in the model that chose it.
    splits, draws : int
    """

    value: float
    gain: float
    low: float
    high: float
    promised: float
    splits: int
    draws: int

    @property
    def sentence(self) -> str:
        """The value and its interval, beside what the model that chose the plan says."""
        return (
            f"Where it was not chosen, in the other half of the log, such a plan is worth {number(self.value)} (90 %: "
            f"{number(self.low)} to {number(self.high)}); the model that chose it says {number(self.promised)}."
        )


def cross_fitted(plan: PlanRecord, draws: int, rng: Any = 0) -> CrossFitted:
    """The cross-fitted value of a plan of a learned model; ``draws`` models in all give the interval."""
    cf, generator = plan.cf, random_generator(rng)
    values: list[float] = []
    drawn: list[float] = []
    each, size = max(2, -(-draws // (2 * _SPLITS))), block_size(cf.mdp, cf.T)
    for _ in range(_SPLITS):
        models = halves(cf.mdp, generator)
        worlds = [CounterfactualRecord.again(model, cf.path, cf.mechanism, cf.after) for model in models]
        for chooser, valuer in ((0, 1), (1, 0)):
            tied = tether(worlds[chooser], plan.rule, plan.influence, plan.objective, plan.minimise)
            chosen = Follower([tied.plan(plan.k, plan.m)], [plan.m])
            own = models[valuer].form.probability
            some = [own, *(one.form.probability for one in posterior(models[valuer], each, rng=generator).models())]
            found: list[float] = []
            for first in range(0, len(some), size):
                block = drawn_worlds(worlds[valuer], np.stack(some[first : first + size]))
                asking = asked_of_each(block, worlds[valuer], plan.objective, plan.minimise)
                found += chosen.follow(asking)[0].reshape(-1).tolist()
            values.append(found[0])
            drawn += found[1:]
    value = float(np.mean(values))
    low, high = np.quantile(drawn, (0.05, 0.95)).tolist()
    gain = float(gain_of(value, plan.observed_value, plan.minimise))
    return CrossFitted(value, gain, low, high, plan.value, _SPLITS, len(drawn))
