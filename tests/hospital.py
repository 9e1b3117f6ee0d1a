"""A hospital whose truth is known: 24 states, four treatments, two ends; logs of any size, and their placebos.

The effects of treatments differ from state to state. Those who treat know something about them: the better a treatment
is, the more often it is given, but never always. So a log has effects, and a model learned from it can be compared with
the truth. In a placebo the treatments are permuted within each state: no treatment has an effect, and nothing else
changes.
"""

from dataclasses import dataclass, replace

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
    """A log of patients, followed until they died, got well, or were there for 30 steps; reward 1 for getting well."""
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


@dataclass(frozen=True)
class Claims:
    """What a learned model claims about its log, beside the truth; means over the log's steps.

    ``claimed`` is the advantage of the action advised in each state (the best, if it is better than usual practice),
    ``true`` what that action really does there, ``possible`` what the best one would do. ``sure`` is in how many steps
    an action is called better with a probability of 95 %, ``false`` in how many of all steps that is wrong. ``covered``
    is how many of the 90 % intervals of advantages contain the truth.
    """

    rho: float
    claimed: float
    true: float
    possible: float
    sure: float
    false: float
    covered: float


def claims_of(mdp, truth):
    usual = tether.practice(mdp)
    counts, (advantage, sd, better) = usual.counts, usual.arrays
    seen = (counts.pair_state < N_STATES) & (counts.of_pair > 0)
    state, action = counts.pair_state[seen], mdp.form.pair_action[seen]
    found, likely = np.full((2, N_STATES, N_ACTIONS), -np.inf)
    found[state, action], likely[state, action] = advantage[seen], better[seen]
    real, every = truth.advantages(), np.arange(N_STATES)
    steps = counts.of_state[:N_STATES] / counts.of_state.sum()
    best = found.argmax(axis=1)
    advised = found.max(axis=1) > 1e-12
    sure = advised & (likely[every, best] >= 0.95)
    inside = np.abs(advantage[seen] - real[state, action]) <= 1.6449 * sd[seen] + 1e-12
    return Claims(
        rho=mdp.learned.pooling.rho,
        claimed=float(steps @ np.where(advised, found.max(axis=1), 0.0)),
        true=float(steps @ np.where(advised, real[every, best], 0.0)),
        possible=float(steps @ real.max(axis=1)),
        sure=float(steps @ sure),
        false=float(steps @ (sure & (real[every, best] <= 0))),
        covered=float(inside.mean()),
    )


def values_covered(mdp, truth, draws, seed):
    """In how many states the 90 % interval of what usual practice is worth contains the truth."""
    form = mdp.form
    usual = np.zeros((mdp.n_states, N_ACTIONS))
    pair_state = np.repeat(np.arange(mdp.n_states), np.diff(form.pair_start))
    for pair, n in enumerate(np.add.reduceat(mdp.counts.transitions, form.row_start[:-1])):
        usual[pair_state[pair], form.pair_action[pair]] = n
    usual = usual[:N_STATES] / usual[:N_STATES].sum(axis=1, keepdims=True)
    found = [Hospital(rows_of(one), usual).values(usual) for one in tether.posterior(mdp, draws, rng=seed).models()]
    low, high = np.quantile(found, [0.05, 0.95], axis=0)
    value = truth.values(usual)
    return float(np.mean(((low <= value) & (value <= high))[:N_STATES]))


def mean_claims(patients, seeds, effect=0.6, placebo=False, **options):
    """The claims of logs of one size, each of a hospital of its own: one record of means, and each log's ρ."""
    found = []
    for seed in seeds:
        truth = hospital(seed, effect)
        log = log_of(truth, patients, seed)
        found.append(claims_of(learned(placebo_of(log, seed) if placebo else log, **options), truth))
    mean = {name: float(np.mean([getattr(one, name) for one in found])) for name in Claims.__dataclass_fields__}
    return Claims(**mean), np.array([one.rho for one in found])


# --- Audits beside the truth ----------------------------------------------------------------------------------


def true_rows(mdp, truth):
    """The true probability of each transition of a learned model; one that was never seen has none."""
    form = mdp.form
    pair = np.repeat(np.arange(mdp.n_pairs), np.diff(form.row_start))
    state = np.repeat(np.arange(mdp.n_states), np.diff(form.pair_start))[pair]
    P = np.zeros((mdp.n_states, N_ACTIONS, mdp.n_states))
    P[:N_STATES] = truth.P
    P[[DIED, WELL], :, [DIED, WELL]] = 1.0
    found = np.maximum(P[state, form.pair_action[pair], form.next_state], 1e-12)
    return found / np.add.reduceat(found, form.row_start[:-1])[pair]


@dataclass(frozen=True)
class Audited:
    """The cross-fitted gain of some episodes, the true gain of the same plans, and the ends of the 90 % intervals."""

    claimed: np.ndarray
    true: np.ndarray
    low: np.ndarray
    high: np.ndarray


def audited(truth, log, episodes=128, draws=0, seed=0):
    """A cross-fitted audit of the first episodes of a log, with the model of the whole log, beside the truth."""
    from tether.auditing.answering import PreparedQuestion
    from tether.auditing.audit_question import make_question
    from tether.auditing.batched import CrossFit, exchanged
    from tether.auditing.followed import World
    from tether.learning.folds import folded
    from tether.logs.batches import open_log

    mdp = learned(log)
    cohorts = [one for _, one in open_log(log).batches(mdp)]
    asked = make_question(None, 1, "definition", "support", None, False, None, draws, seed, folds=2)
    prepared = PreparedQuestion.of(mdp, replace(asked, split=folded(mdp, cohorts, 2, seed)))
    fitted, part = CrossFit(prepared), cohorts[0].part(0, min(episodes, len(cohorts[0])))
    found, drawn = fitted.answer(part, until=0)
    batches = fitted.batches(fitted.world.beyond(0), part)
    plans = [one.planned(None, 1) for one in batches]
    rows = np.tile(true_rows(mdp, truth), (fitted.world.model.n_states // mdp.n_states, 1))
    world = World.of(prepared, rows, fitted.world.shares)  # after the record, usual practice goes on in truth too
    truly = fitted.batches(world.beyond(0), part)
    real = exchanged(truly, plans)
    # What an episode that is still under way is worth is not known: the model says it, and the truth says it.
    observed, really = (np.mean([one.observed for one in each], axis=0) for each in (found, [truly[0].planned(1, 0)]))
    low, high = (None, None) if drawn is None else np.quantile(drawn, (0.05, 0.95), axis=0) - observed
    claimed, true = (
        np.mean([one.value for one in each], axis=0) - seen for each, seen in ((found, observed), (real, really))
    )
    return Audited(claimed, true, low, high)


# --- Guarantees beside the truth ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Promised:
    """What guaranteed plans promise, and the least that they are worth in truth: in the worst causal model of it."""

    promised: np.ndarray
    worst: np.ndarray

    @property
    def held(self):
        return self.worst >= self.promised - 1e-9


def ward(seed):
    """A ward at random: two states, two ends. Treating helps so much that some of it holds under every causal model."""
    rng = np.random.default_rng((9, seed))
    P = np.zeros((4, 2, 4))
    P[:2, 0], P[:2, 1] = rng.dirichlet([1.0, 2.0, 6.0, 0.5], 2), rng.dirichlet([0.5, 0.5, 0.5, 9.0], 2)
    names = {"states": ["sick", "worse", "dead", "well"], "actions": ["wait", "treat"]}
    return tether.MDP.from_arrays(P, terminal=["dead", "well"], **names).with_objective(final_reward={"well": 1.0})


def _followed(plan):
    """A plan that may change every step, as a policy; where its model cannot lead, any action will do.

    It promised the least there. As many changes as steps are never too few: how many are left makes no difference.
    """

    def action(t, state):
        known = (plan.action(t, state, left) for left in range(plan.m, -1, -1))
        return next((one for one in known if one is not None), "wait")

    return action


def _known(mdp, path):
    """Whether a learned model has seen all steps of a path."""
    steps = zip(path.states, path.actions, path.states[1:], strict=False)
    return all(after in mdp.row(state, action)[0] for state, action, after in steps)


def promises(seeds, confidence, patients=200, steps=2):
    """One guaranteed plan for a new patient of each ward who died in the last step; each ward has a log of its own."""
    found = []
    for seed in seeds:
        truth, rng = ward(seed), np.random.default_rng((10, seed))
        log = [truth.simulate("random", steps, start=truth.states[rng.integers(2)], rng=rng) for _ in range(patients)]
        mdp = tether.learn(log, states=truth.states, actions=truth.actions)
        mdp = mdp.with_objective(final_reward={"well": 1.0})
        died = None
        while died is None or died.states[-2] == "dead" or died.states[-1] != "dead" or not _known(mdp, died):
            died = truth.simulate("random", steps, start="sick", rng=rng)
        plan = tether.robust(mdp, died, "nothing", confidence=confidence).plan(steps + 1, steps)
        found.append((plan.value, tether.robust(truth, died, "nothing").range(_followed(plan))[0]))
    return Promised(*np.array(found).T)
