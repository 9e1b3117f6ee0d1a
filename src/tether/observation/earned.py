"""What did the episode earn: by its log, and by the model's rewards for the same steps?

The two need not agree. A model has one reward per transition (s, a, s'), or per pair (s, a). If the same
transition had different rewards at different times, a learned model, or one made from an environment's table,
has the average. Both returns are discounted in the same way, and both include the model's final reward:

    logged = Σ γ^t · r_t + γ^T · final        model = Σ γ^t · R_t(s_t, a_t, s_{t+1}) + γ^T · final

so that they differ only by the rewards of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.markup import Displayed
from tether._foundation.rounding import ROUNDING
from tether._foundation.words import counted, number
from tether.model.model_record import ModelRecord
from tether.observation.path import Observation, Path, observe


@dataclass(frozen=True, slots=True)
class Earned(Displayed):
    """The return of an episode by its log, beside the return of the same steps by the model.

    Attributes
    ----------
    logged : float
        The return by the rewards of the log; an unknown reward counts as 0.
    model : float
        The return by the rewards of the model; for an outcome that was not recorded, the expected one.
    unknown : int
        How many steps have no reward in the log.
    filled : bool
        Whether the model's rewards are means that also replace unknown ones (``empty_rewards="mean"``).
    expected : bool
        Whether the last outcome was not recorded, so that the model's return of that step is an expectation.
    differ : bool
        Whether the two returns differ by more than rounding.

    Examples
    --------
    >>> import tether
    >>> log = [tether.Path(["a", "b"], ["go"], [0]), tether.Path(["a", "b"], ["go"], [10])]
    >>> earned = tether.counterfactual(tether.learn(log), log[1]).earned
    >>> earned.logged, earned.model, earned.differ
    (10.0, 5.0, True)
    >>> earned.sentence().partition(", because ")[0]
    "The log says 10 for this episode; the model's rewards for the same steps come to 5"
    """

    logged: float
    model: float
    unknown: int
    filled: bool
    expected: bool
    differ: bool

    def sentence(self) -> str:
        """Both returns, and why they differ; empty if they are the same."""
        if not self.differ:
            return ""
        empty = f" (with 0 for {counted(self.unknown, 'empty reward')})" if self.unknown else ""
        return (
            f"The log says {number(self.logged)} for this episode{empty}; the model's rewards for the same steps come "
            f"to {number(self.model)}, because {self._reason()}."
        )

    def _reason(self) -> str:
        if self.unknown and self.filled:
            return "it was learned with means in place of empty rewards"
        if self.expected:
            return "the last outcome was not recorded and a model averages the rewards of the same transition"
        return "a model averages the rewards of the same transition"


def earned(mdp: ModelRecord, seen: Observation, path: Path) -> Earned | None:
    """Compare the log's own rewards of an episode with the model's; None if the log has none."""
    if path.rewards is None:
        return None
    given = [0.0 if reward is None else reward for reward in path.rewards]
    by_model = step_rewards(mdp, seen)
    logged, model = _return(mdp, seen, given), _return(mdp, seen, by_model)
    scale = _discounted(mdp, [max(abs(one), abs(other)) for one, other in zip(given, by_model, strict=True)])
    return Earned(
        logged,
        model,
        sum(reward is None for reward in path.rewards),
        mdp.counts is not None and mdp.counts.empty_rewards == "mean",
        bool(seen.states[-1] < 0),
        abs(logged - model) > ROUNDING * scale,
    )


def model_return(mdp: ModelRecord, seen: Observation) -> float:
    """Return of the observed path by the model; expected, for a last step whose outcome was not recorded."""
    return _return(mdp, seen, step_rewards(mdp, seen))


def rewarded(mdp: ModelRecord, path: Path) -> tuple[Path, float]:
    """A drawn path with the model's rewards of its steps, and its return.

    >>> import tether
    >>> case = tether.cases.toy()
    >>> path, value = rewarded(case.mdp, case.path)
    >>> sum(path.rewards) == value
    True
    """
    seen = observe(mdp, path)
    rewards = step_rewards(mdp, seen)
    return replace(path, rewards=tuple(rewards)), _return(mdp, seen, rewards)


def _return(mdp: ModelRecord, seen: Observation, rewards: list[float]) -> float:
    total = _discounted(mdp, rewards)
    if mdp.final_reward is None:
        return total
    next_state, chance = _outcome(mdp, seen, seen.T - 1)
    return total + mdp.discount**seen.T * float(mdp.final_reward[next_state] @ chance)


def _discounted(mdp: ModelRecord, rewards: list[float]) -> float:
    total = 0.0
    for t, reward in enumerate(rewards):
        total += mdp.discount**t * reward
    return total


def step_rewards(mdp: ModelRecord, seen: Observation) -> list[float]:
    """R_t of each observed step, not discounted."""
    rewards = []
    for t, pair in enumerate(seen.pairs.tolist()):
        values = mdp.rewards.at(t)
        if mdp.rewards.by_entry:
            rewards.append(float(values[mdp.entries(pair)] @ _outcome(mdp, seen, t)[1]))
        else:
            rewards.append(float(values[pair]))
    return rewards


def _outcome(mdp: ModelRecord, seen: Observation, t: int) -> tuple[Ints, Floats]:
    """The outcomes of the observed row, and their probabilities: 1 for a recorded outcome, else those of the model."""
    entries = mdp.entries(int(seen.pairs[t]))
    next_state, outcome = mdp.form.next_state[entries], int(seen.states[t + 1])
    chance = mdp.form.probability[entries] if outcome < 0 else (next_state == outcome).astype(np.float64)
    return next_state, chance
