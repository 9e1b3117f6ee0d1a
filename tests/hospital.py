"""A hospital whose truth is known: patients of 24 kinds, four treatments, two ends; logs of any size, and their placebos.

The effects of treatments differ from state to state. Those who treat know something about them: the better a treatment
is, the more often it is given, but never always. So a log has effects, and a model learned from it can be compared with
the truth. In a placebo the treatments are permuted within each state: no treatment has an effect, and nothing else
changes.
"""

from dataclasses import dataclass

import numpy as np

import tether
from tether.model.names import make_names
from tether.observation.episodes import Episodes

SEVERITIES, ORGANS, AGES, N_ACTIONS = 4, 3, 2, 4
N_STATES = SEVERITIES * ORGANS * AGES
DIED, WELL = N_STATES, N_STATES + 1
LONGEST = 30
STATES = [f"{s}/{o}/{a}" for s in range(SEVERITIES) for o in range(ORGANS) for a in range(AGES)] + ["died", "well"]
ACTIONS = ["none", "fluids", "drug", "both"]


@dataclass(frozen=True)
class Hospital:
    """P[s, a, j] of the truth, and what is usually done, usual[s, a]."""

    P: np.ndarray
    usual: np.ndarray

    def values(self, policy):
        """The chance to get well from each state, if π[s, a] is followed: by a linear solve."""
        chain = np.einsum("sa,saj->sj", policy, self.P)
        well = np.linalg.solve(np.eye(N_STATES) - chain[:, :N_STATES], chain[:, WELL])
        return np.append(well, [0.0, 1.0])

    def advantages(self):
        """What each action does for anyone in a state, this once, compared with what is usually done."""
        value = self.values(self.usual)
        return self.P @ value - value[:N_STATES, None]


def hospital(seed, effect=0.5):
    """A hospital at random; ``effect`` is the size of treatments' effects, on the scale of logits."""
    rng = np.random.default_rng(seed)
    P = np.zeros((N_STATES, N_ACTIONS, N_STATES + 2))
    effects = effect * rng.standard_normal((N_STATES, N_ACTIONS))
    for s in range(N_STATES):
        severity, organ, age = np.unravel_index(s, (SEVERITIES, ORGANS, AGES))
        for a in range(N_ACTIONS):
            better = 1 / (1 + np.exp(-(0.3 - 0.3 * age - 0.2 * organ + effects[s, a])))
            for change, chance in ((-1, 0.6 * better), (0, 0.25), (1, 0.75 - 0.6 * better)):
                for to, share in (((organ + 1) % ORGANS, 0.3), (organ, 0.7)):
                    level = severity + change
                    j = WELL if level < 0 else DIED if level >= SEVERITIES else level * 6 + to * 2 + age
                    P[s, a, j] += chance * share
    liking = 0.8 * rng.standard_normal((N_STATES, N_ACTIONS)) + effects
    usual = np.exp(liking) / np.exp(liking).sum(axis=1, keepdims=True)
    return Hospital(P, usual)


def log_of(truth, patients, seed):
    """A log of patients, all followed until they died, got well, or were there for 30 steps; reward 1 for getting well."""
    rng = np.random.default_rng((7, seed))
    state = rng.integers(0, N_STATES, patients)
    alive = np.arange(patients)
    parts = []
    act, move = truth.usual.cumsum(axis=1), truth.P.cumsum(axis=2)
    for _ in range(LONGEST):
        s = state[alive]
        a = np.minimum((rng.random(s.size)[:, None] > act[s]).sum(axis=1), N_ACTIONS - 1)
        j = np.minimum((rng.random(s.size)[:, None] > move[s, a]).sum(axis=1), WELL)
        parts.append(np.stack((alive, s, a, j)))
        state[alive] = j
        alive = alive[j < N_STATES]
    episode, s, a, j = np.concatenate(parts, axis=1)
    order = np.argsort(episode, kind="stable")
    s, a, j = s[order], a[order], j[order]
    start = np.searchsorted(episode[order], np.arange(patients + 1))
    ids = make_names(range(patients), None, "episode")
    names = make_names(STATES, None, "state"), make_names(ACTIONS, None, "action")
    return Episodes(ids, *names, start, s, a, j, (j == WELL).astype(float))


def placebo_of(log, seed):
    """The log with its actions permuted within each state."""
    rng = np.random.default_rng((8, seed))
    action = log.action.copy()
    for s in range(N_STATES):
        here = np.flatnonzero(log.state == s)
        action[here] = rng.permutation(action[here])
    return Episodes(log.ids, log.states, log.actions, log.start, log.state, action, log.next_state, log.reward)


def learned(log, **options):
    """The model of a log; its states and actions are those of the truth, in their order."""
    return tether.learn(log, states=STATES, actions=ACTIONS, **options)


def rows_of(mdp):
    """P[s, a, j] of a learned model; a pair that was never seen has zeros."""
    form = mdp.form
    pair_state = np.repeat(np.arange(mdp.n_states), np.diff(form.pair_start))
    pair = np.repeat(np.arange(mdp.n_pairs), np.diff(form.row_start))
    P = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    P[pair_state[pair], form.pair_action[pair], form.next_state] = form.probability
    return P[:N_STATES]
