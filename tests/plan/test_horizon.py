"""Beyond the record: an episode that ended early is asked about up to a horizon (`tether.conditioning.horizon`)."""

import math
import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER

import tether
from tether.errors import QueryError

STATES, ACTIONS = ["a", "b", "c", "won", "lost"], ["x", "y", "z"]


class Small:
    """A small model with two absorbing states, an episode that may have ended early, and a horizon."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        P = np.zeros((5, 3, 5))
        for s, a in product(range(3), range(3)):
            if a == 0 or rng.random() < 0.7:  # some actions are not available
                row = rng.random(5) * (rng.random(5) < 0.6)
                row[rng.integers(5)] += 0.5
                P[s, a] = row / row.sum()
        P[3, :, 3] = P[4, :, 4] = 1.0
        R = rng.integers(-3, 4, (5, 3, 5)).astype(float)
        R[3:] = R[3:, :1, :1]  # in an absorbing state every action earns the same
        mdp = tether.MDP.from_arrays(P, R, states=STATES, actions=ACTIONS, reward_axes="sas")
        self.mdp = mdp.with_objective(
            discount=float(rng.choice([1.0, 0.9])), final_reward={"won": 5.0, "a": 1.0, "lost": -1.0}
        ).with_labels({"good": ["won"], "bad": ["lost"]})
        whole = self.mdp.simulate("random", 6, start=STATES[rng.integers(3)], rng=seed)
        T = next((t for t, s in enumerate(whole.states) if s in ("won", "lost")), int(rng.integers(1, 6)))
        self.padded = whole
        self.path = tether.Path(whole.states[: T + 1], whole.actions[:T])
        self.H = T + int(rng.integers(0, 4))

    def reward(self, s, a, j):
        pair = self.mdp.pair_index(s, a)
        entries = self.mdp.entries(pair)
        at = list(self.mdp.names_of(self.mdp.form.next_state[entries])).index(j)
        return float(self.mdp.form.rewards.values[entries][at])

    def slow(self, cf, m, pick=max, policy=None, goal=None):
        """The best value by its definition, step by step in names; ``policy`` acts after the record, if given."""
        mdp, path, gamma = self.mdp, self.path, 1.0 if goal else self.mdp.discount
        absorbing = {s for s in STATES if all(mdp.row(s, a)[0] == (s,) for a in mdp.actions_in(s))}

        @cache
        def value(t, s, c):
            if goal is not None and s in goal:
                return 1.0
            if t == self.H:
                return 0.0 if goal is not None else float(mdp.final_reward[mdp.state_index(s)])
            found = []
            for a in mdp.actions_in(s):
                row = cf.row(t, s, a) if t < path.T else mdp.row(s, a)
                free = t >= path.T or (s in absorbing and path.actions[t] not in mdp.actions_in(s))
                left = c - (not free and a != path.actions[t])
                if left < 0:
                    continue
                ahead = [value(t + 1, j, left) for j in row[0]]
                if None in ahead:
                    continue
                earned = [0.0 if goal is not None else self.reward(s, a, j) for j in row[0]]
                found.append(math.fsum(p * (r + gamma * v) for p, r, v in zip(row[1], earned, ahead, strict=True)))
            if not found:
                return None
            if t >= path.T and policy == "random":
                return math.fsum(found) / len(found)
            return pick(found)

        return value(0, path.states[0], m)


def close(one, other):
    return one == pytest.approx(other, rel=1e-9, abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(["best", "random"]))
def test_plans_are_those_of_the_definition_up_to_the_horizon(seed, then):
    world = Small(seed)
    cf = tether.counterfactual(world.mdp, world.path, horizon=world.H, then=then)
    T, policy = world.path.T, None if then == "best" else then
    for m in {0, 1, T}:
        plan = cf.plan(T + 1, m)
        assert close(plan.value, world.slow(cf, m, policy=policy))
        assert close(plan.evaluate().value, plan.value)
        assert close(plan.evaluate().returns.mean[0], 0.0)
        less = cf.plan(T + 1, m, minimise=True)
        assert close(less.value, world.slow(cf, m, pick=min, policy=policy))
        if world.path.states[0] != "won":
            won = cf.plan(T + 1, m, objective=tether.reach("good"))
            assert close(won.value, world.slow(cf, m, policy=policy, goal={"won"}))
            assert close(won.evaluate().value, won.value)
    assert close(cf.plan(1, 0).value, cf.plan(1, 0).observed_value)
    assert cf.sweep().value(T + 1, T) == pytest.approx(cf.plan(T + 1, T).value)


@given(st.integers(0, 10**6))
def test_what_a_record_has_after_its_end_does_not_matter(seed):
    world = Small(seed)
    H = max(world.H, world.padded.T)
    if world.path.states[-1] not in ("won", "lost"):
        return
    one, other = (tether.counterfactual(world.mdp, path, horizon=H) for path in (world.path, world.padded))
    assert other.path == one.path
    assert other.sweep().values.tolist() == one.sweep().values.tolist()
    again = pickle.loads(pickle.dumps(other))
    assert again.horizon == H
    assert again.plan(m=1).value == one.plan(m=1).value


@FEWER
@given(st.integers(0, 10**6))
def test_the_mean_over_all_episodes_is_the_value_in_the_model(seed):
    """Law of total expectation, exactly: with one horizon, although episodes end at their outcome."""
    world, H = Small(seed), 3
    rng = np.random.default_rng(seed)
    mdp, target = world.mdp, {}
    for s in STATES:
        share = rng.dirichlet(np.ones(len(mdp.actions_in(s))))
        target[s] = dict(zip(mdp.actions_in(s), share, strict=True))
    total, chances = 0.0, 0.0
    for chance, states, actions in episodes(mdp, "a", H):
        cf = tether.counterfactual(mdp, tether.Path(states, actions), horizon=H)
        total, chances = total + chance * cf.evaluate(target).value, chances + chance
    assert close(chances, 1.0)
    assert close(total, mdp.evaluate(target, H, start="a").value)


def episodes(mdp, start, H):
    """Every episode of the random policy that ends at its outcome, and its probability."""
    open_ones = [(1.0, [start], [])]
    while open_ones:
        chance, states, actions = open_ones.pop()
        if actions and (states[-1] in ("won", "lost") or len(actions) == H):
            yield chance, states, actions
            continue
        there = mdp.actions_in(states[-1])
        for a in there:
            for j, p in zip(*mdp.row(states[-1], a), strict=True):
                open_ones.append((chance * p / len(there), [*states, j], [*actions, a]))


@given(st.integers(0, 10**6))
def test_outcomes_are_those_at_the_horizon(seed):
    world = Small(seed)
    cf = tether.counterfactual(world.mdp, world.path, horizon=world.H)
    outlook = cf.plan(m=1).evaluate()
    assert outlook.horizon == world.H
    assert math.fsum(outlook.distribution(world.H)[1]) == pytest.approx(1.0)
    ended = dict(zip(*outlook.distribution(world.H), strict=True))
    assert close(outlook.outcomes()["good"], ended.get("won", 0.0))
    drawn = cf.plan(m=1).sample(20, rng=1)
    assert drawn.states.shape == (20, world.H + 1)


@given(st.integers(0, 10**6))
def test_certificates_and_guarantees_end_at_the_horizon(seed):
    """What follows the record is certain in mean: a range is that of the record's steps, with the same ends."""
    world = Small(seed)
    cf = tether.counterfactual(world.mdp, world.path, horizon=world.H)
    plan = cf.plan(m=1)
    certificate = plan.certify()
    assert close(certificate.value, plan.value)
    assert certificate.nothing.worst <= plan.value + 1e-9 <= certificate.nothing.best + 2e-9
    ends = tether.MDP.solve(world.mdp, world.H)
    worth = {s: ends.value(s, world.path.T) for s in STATES}
    twin = tether.counterfactual(world.mdp.with_objective(final_reward=worth), world.path)
    other = twin.plan(plan.k, plan.m)
    assert close(other.value, plan.value)
    assert close(other.certify().nothing.worst, certificate.nothing.worst)
    robust = tether.robust(world.mdp, world.path, assume="nothing", horizon=world.H).plan(m=1)
    assert close(robust.value, tether.robust(twin.mdp, world.path, assume="nothing").plan(m=1).value)
    assert close(cf.decisions().rows[0].value or 0.0, twin.decisions().rows[0].value or 0.0)


@given(st.integers(0, 10**6))
def test_a_front_counts_a_property_up_to_the_horizon(seed):
    world = Small(seed)
    cf = tether.counterfactual(world.mdp, world.path, horizon=world.H)
    front = cf.pareto(m=1, against=tether.reach("bad"))
    top = front.points[0]
    assert close(top.value, cf.plan(world.path.T + 1, 1).value)
    assert close(top.measure, top.plan.evaluate().outcomes().get("bad", top.measure))


LAKE = ["SFFF", "FHFH", "FFFH", "HFFG"]


def lake() -> tether.MDP:
    """FrozenLake, slippery: the chosen direction or one of the two beside it, a third each."""
    rows = []
    for i, s in enumerate("".join(LAKE)):
        for a in range(4):
            for b in (a - 1, a, a + 1) if s in "SF" else (None,):
                r, c = divmod(i, 4)
                if b is not None:
                    r, c = [(r, max(c - 1, 0)), (min(r + 1, 3), c), (r, min(c + 1, 3)), (max(r - 1, 0), c)][b % 4]
                rows.append((i, a, 4 * r + c, 1 / 3 if s in "SF" else 1.0, float(s in "SF" and 4 * r + c == 15)))
    table = {name: [row[i] for row in rows] for i, name in enumerate(("state", "action", "next_state", "p", "r"))}
    P, R = np.zeros((16, 4, 16)), np.zeros((16, 4, 16))
    for s, a, j, p, r in zip(*table.values(), strict=True):
        P[s, a, j] += p
        R[s, a, j] = r
    return tether.MDP.from_arrays(P, R, reward_axes="sas")


def test_a_fall_at_two_can_be_replayed_for_forty_steps():
    path = tether.Path([0, 1, 5], [3, 2])
    cut, padded = (tether.counterfactual(lake(), path, horizon=H).plan(3, 2) for H in (2, 40))
    assert cut.value == 0.0
    assert padded.value == pytest.approx(0.4666, abs=5e-5)  # METHOD: "padded to 40 steps the best value is 0.467"
    assert padded.observed_value == 0.0


def test_off_policy_values_agree_only_with_one_horizon():
    """FrozenLake, limit 40, the random policy; the target is six tenths the best, four tenths any."""
    mdp, best = lake(), lake().solve(200)
    target = np.full((16, 4), 0.1)
    for s in range(16):
        target[s, best(0, s)] += 0.6
    log = []
    for seed in range(300):
        path = mdp.simulate("random", 40, start=0, rng=seed)
        T = next((t for t, s in enumerate(path.states) if "".join(LAKE)[s] in "HG"), 40)
        log.append(tether.Path(path.states[: T + 1], path.actions[:T]))
    truth = mdp.evaluate(target, 40, start=0).value
    assert truth == pytest.approx(0.0916, abs=5e-5)
    found = tether.audit(mdp, log, policy=target, certify=False, horizon=40).consistency
    assert found.model == pytest.approx(truth)
    assert found.counterfactual == pytest.approx(truth, abs=4 * found.standard_error)
    assert found.standard_error < 0.002
    alone = [tether.counterfactual(mdp, path).evaluate(target).value for path in log[:60]]
    assert np.mean(alone) < 0.04  # up to the end of each record most of the value is not seen


def test_horizons_that_make_no_sense_are_refused():
    mdp, path = lake(), tether.Path([0, 4, 8], [1, 1])
    with pytest.raises(QueryError, match="less than the 2 steps"):
        tether.counterfactual(mdp, path, horizon=1)
    with pytest.raises(QueryError, match="not learned"):
        tether.counterfactual(mdp, path, horizon=5, then="usual")
    with pytest.raises(QueryError, match="'best', 'usual', 'random' or a policy"):
        tether.counterfactual(mdp, path, horizon=5, then="observed")


@pytest.mark.parametrize("options", [{}, {"horizon": 9}, {"horizon": 9, "then": "random"}, {"minimise": True, "m": 2}])
@pytest.mark.parametrize("objective", [None, tether.reach("good")])
def test_an_audit_gives_the_answers_of_single_calls(options, objective):
    mdp = Small(3).mdp
    log = []
    for seed in range(12):
        path = mdp.simulate("random", 6, start="b", rng=seed)
        T = next((t for t, s in enumerate(path.states) if s in ("won", "lost")), 6)
        log.append(tether.Path(path.states[: T + 1], path.actions[:T]))
    table = tether.audit(mdp, log, 3, objective=objective, workers=1, **options).table
    longest = max(path.T for path in log)
    planned = {name: value for name, value in options.items() if name in ("minimise", "m")}
    for i, path in enumerate(log):
        ended = path.states[-1] in ("won", "lost")
        H = options.get("horizon") or (longest if ended and longest > path.T else None)
        cf = tether.counterfactual(mdp, path, horizon=H, then=options.get("then", "best"))
        plan = cf.plan(3, objective=objective, **planned)
        assert close(table.column("value")[i].as_py(), plan.value)
        assert close(table.column("observed")[i].as_py(), plan.observed_value)
        assert close(table.column("P(bad)")[i].as_py(), plan.evaluate().outcomes()["bad"])
        if objective is None:
            assert close(table.column("guaranteed_gain")[i].as_py(), plan.certify().gain)


def learned() -> tuple[tether.MDP, list[tether.Path]]:
    """A learned model of a ward in which some get well, some die, and some are still there."""
    P = np.zeros((4, 2, 4))
    P[0] = [[0.7, 0.2, 0.1, 0], [0.6, 0.1, 0.3, 0]]
    P[1] = [[0.1, 0.5, 0.05, 0.35], [0.2, 0.6, 0.1, 0.1]]
    P[2, :, 2] = P[3, :, 3] = 1.0
    names = {"states": ["ill", "worse", "well", "dead"], "actions": ["wait", "treat"]}
    true = tether.MDP.from_arrays(P, **names)
    log = []
    for seed in range(150):
        path = true.simulate("random", 8, start="ill", rng=seed)
        T = next((t for t, s in enumerate(path.states) if s in ("well", "dead")), 8)
        log.append(tether.Path(path.states[: T + 1], path.actions[:T]))
    return tether.learn(log).with_objective(final_reward={"well": 1.0}), log


def test_in_a_learned_model_what_follows_is_usual_practice():
    mdp, log = learned()
    died = next(path for path in log if path.states[-1] == "dead" and path.T <= 3)
    cf = tether.counterfactual(mdp, died)
    assert cf.horizon is None
    plan = cf.plan(2, 1)
    long = tether.counterfactual(mdp, died, horizon=400, then="usual").plan(plan.k, 1)
    assert plan.value == pytest.approx(long.value, abs=1e-9)  # in 400 steps everybody is well or dead
    outlook = plan.evaluate()
    assert outlook.value == pytest.approx(plan.value, abs=1e-9)
    assert outlook.outcomes()["well"] == pytest.approx(plan.value, abs=1e-9)
    row = tether.audit(mdp, [died], 2, certify=False, folds=0).table
    assert row.column("value")[0].as_py() == pytest.approx(plan.value, abs=1e-9)
    with pytest.raises(QueryError, match="needs a horizon"):
        tether.counterfactual(mdp, died, then=lambda state: "wait")


def test_draws_of_a_learned_model_go_on_as_usual_too():
    mdp, log = learned()
    died = next(path for path in log if path.states[-1] == "dead" and path.T <= 3)
    plan = tether.counterfactual(mdp, died).plan(m=1)
    drawn = plan.uncertainty(draws=30, rng=1)
    low, high = drawn.interval(0.95)
    assert low < plan.value < high
    assert np.all((drawn.values > 0) & (drawn.values < 1))
    less = tether.counterfactual(mdp, died).plan(m=1, minimise=True).uncertainty(draws=5, rng=1)
    assert np.all(less.values <= drawn.values[:5] + 1e-9)


def test_the_record_of_somebody_still_there_was_cut():
    mdp, log = learned()
    there = next(path for path in log if path.states[-1] == "worse")
    cf = tether.counterfactual(mdp, there)
    assert cf.is_under_way
    plan = cf.plan(1, 0)
    usual = tether.practice(mdp)
    assert plan.observed_value == pytest.approx(usual.value("worse"), abs=0.02)  # pooled rows differ a little
    assert plan.value == pytest.approx(plan.observed_value)


@pytest.mark.parametrize("then", ["best", "random"])
@pytest.mark.parametrize("minimise", [False, True])
def test_a_property_that_was_decided_on_the_way_stays_decided_beyond_the_record(then, minimise):
    """Nobody is in the state where it was decided when the record ends."""
    rows = [("a", "go", "b"), ("b", "go", "c"), ("b", "stay", "b"), ("c", "go", "c")]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), [1.0] * len(rows)).with_labels({"met": ["b"]})
    path = tether.Path(["a", "b", "c"], ["go", "go"])
    for horizon in (None, 3, 6):
        cf = tether.counterfactual(mdp, path, horizon=horizon, then=then)
        for met, value in ((tether.reach("met"), 1.0), (tether.avoid("met"), 0.0)):
            plan = cf.plan(m=1, objective=met, minimise=minimise)
            assert (plan.observed_value, plan.value) == (value, value)
            assert cf.evaluate("observed", objective=met).mean == value
