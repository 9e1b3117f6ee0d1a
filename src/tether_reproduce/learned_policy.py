"""A policy learned from a log with hidden causes, and the value of each logged episode under it.

The learner has only the log of `tether_reproduce.patients`. It counts transitions between the 144 states that it sees,
takes an action that was never tried in a state to be deadly, and computes the best policy of that model.
``tether.audit(mdp, log, policy=…)`` computes what every logged episode would have been under this policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether
from tether_reproduce.draws import Floats, Ints, Rows, rows_given
from tether_reproduce.patients import N_ACTIONS, N_SEEN, STEPS, PatientLog, all_outcomes, best_policy, seen

_DEAD, _HOME = N_SEEN, N_SEEN + 1
_N = N_SEEN + 2
_DIED, _DISCHARGED, _WAIT = N_ACTIONS, N_ACTIONS + 1, N_ACTIONS + 2


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicy:
    """The model and policies that are learned from a log.

    ``P`` is by action, state and next state: 144 states, then dead and discharged. ``policy`` is its best policy.
    ``behaviour`` is the policy of the log, by state and action.
    """

    P: Floats
    policy: Ints
    behaviour: Floats


def learn_from(log: PatientLog) -> LearnedPolicy:
    """The model of a log as in the released code.

    A step to a patient's death leads to the seen part of that state. From there one count per such state leads to dead,
    for every action. An action that was never tried in a state is taken to be deadly.
    """
    counts = np.zeros((N_ACTIONS, _N, _N))
    i, t = np.nonzero(log.actions >= 0)
    np.add.at(counts, (log.actions[i, t], seen(log.states[i, t]), seen(log.states[i, t + 1])), 1.0)
    last = log.states[np.arange(len(log.states)), log.steps]
    for outcome, end in ((-1, _DEAD), (1, _HOME)):
        counts[:, :N_SEEN, end] += np.bincount(seen(np.unique(last[log.outcome == outcome] % 720)), minlength=N_SEEN)
        counts[:, end, end] = 1.0
    tried = counts.sum(axis=2)
    P = counts / np.maximum(tried, 1.0)[:, :, None]
    P[tried == 0, _DEAD] = 1.0
    reward = P[:, :, _HOME] - P[:, :, _DEAD]
    reward[:, [_DEAD, _HOME]] = 0.0
    behaviour = (tried / np.maximum(tried.sum(axis=0), 1.0)).T
    return LearnedPolicy(P, best_policy(P, reward), behaviour)


def as_model(learned: LearnedPolicy) -> tether.MDP:
    """The learned model, with three more actions that record how an episode ended: died, discharged, wait.

    Each has a certain outcome, so nothing is inferred from such a step. Death earns -1, discharge 1.
    """
    a, s, j = np.nonzero(learned.P[:, :N_SEEN])
    every = np.arange(N_SEEN)
    columns = [(s, a, j, learned.P[a, s, j])]
    for action, after in ((_DIED, _DEAD), (_DISCHARGED, _HOME), (_WAIT, every)):
        columns.append((every, np.full(N_SEEN, action), np.broadcast_to(after, N_SEEN), np.ones(N_SEEN)))
    ends = np.array([_DEAD, _HOME])
    columns.append((ends, np.full(2, _WAIT), ends, np.ones(2)))
    s, a, j, p = (np.concatenate(column) for column in zip(*columns, strict=True))
    earned = np.where(s < N_SEEN, (j == _HOME) * 1.0 - (j == _DEAD), 0.0)
    order = np.lexsort((j, a, s))
    mdp = tether.MDP.from_table(s[order], a[order], j[order], p[order], earned[order])
    return mdp.with_labels({"died": [_DEAD], "discharged": [_HOME]}, good="discharged", bad="died")


def as_paths(log: PatientLog) -> list[tether.Path]:
    """The episodes as the learner sees them, all with 21 steps: the steps after the end record the outcome."""
    shown, paths = seen(log.states), []
    for states, actions, steps, outcome in zip(shown, log.actions, log.steps, log.outcome, strict=True):
        end, record = {-1: (_DEAD, _DIED), 0: (int(states[steps]), _WAIT), 1: (_HOME, _DISCHARGED)}[int(outcome)]
        rest = STEPS - int(steps)
        paths.append(
            tether.Path(
                [*states[: steps + 1].tolist(), *[end] * (rest + 1)],
                [*actions[:steps].tolist(), record, *[_WAIT] * rest],
            )
        )
    return paths


def policy_by_step(learned: LearnedPolicy) -> Ints:
    """The learned policy for `tether.audit`: by step and state; the last step records the outcome."""
    actions = np.full((STEPS + 1, _N), _WAIT)
    actions[:STEPS, :N_SEEN] = learned.policy[:N_SEEN]
    return actions


def model_outcomes(learned: LearnedPolicy) -> Floats:
    """For each first state, the probabilities of death, no end after 20 steps, and discharge in the learned model."""
    chance = np.linalg.matrix_power(policy_steps(learned), STEPS)[:N_SEEN]
    return all_outcomes(chance[:, _DEAD], chance[:, _HOME])


def policy_steps(learned: LearnedPolicy) -> Floats:
    """The probabilities of the next state under the learned policy, by state."""
    return learned.P[learned.policy, np.arange(_N)]


def end_rewards() -> Floats:
    """The reward of reaching each state: -1 for death, 1 for discharge, else 0."""
    reward = np.zeros(_N)
    reward[[_DEAD, _HOME]] = -1.0, 1.0
    return reward


def follow_learned(learned: LearnedPolicy, log: PatientLog) -> Floats:
    """For each episode, the exact probabilities of death, no end, and discharge under the learned policy.

    These are the numbers of ``tether.audit(as_model(learned), as_paths(log), policy=policy_by_step(learned))``, for all
    episodes together: the rows of equal observed transitions are computed once. Steps after the end of an episode say
    nothing about the noise: they stay nominal.
    """
    mdp, states = as_model(learned), seen(log.states)
    pairs = mdp.form.pair_start[:-1].astype(np.int64)
    pairs[:N_SEEN] += learned.policy[:N_SEEN]  # the eight treatments are the first actions, in order
    nominal = policy_steps(learned)
    chance = np.zeros((len(states), _N))
    chance[np.arange(len(states)), states[:, 0]] = 1.0
    known: dict[tuple[int, int, int], Rows] = {}
    for t in range(STEPS):
        going = np.flatnonzero(log.actions[:, t] >= 0)
        steps = np.stack((states[going, t], log.actions[going, t], states[going, t + 1]))
        transitions, number = np.unique(steps, axis=1, return_inverse=True)
        after = chance @ nominal
        for i, (s, a, outcome) in enumerate(transitions.T.tolist()):
            if (s, a, outcome) not in known:
                known[s, a, outcome] = rows_given(mdp, s, a, outcome, pairs)
            members = going[number.reshape(-1) == i]
            after[members] = chance[members] @ known[s, a, outcome].dense(_N)
        chance = after
    return all_outcomes(chance[:, _DEAD], chance[:, _HOME])
