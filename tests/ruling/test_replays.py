"""Replays as recorded except the rule, against enumeration; and both bounds of the split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import tether
from tether.core.replays import Practice, Suffixes, Worth, replay
from tether.core.returns_ahead import chances_ahead
from tether.core.two_worlds import transport, two_worlds
from tether.model.form import model_of

T = 5


def worlds(seed, S=4, A=3):
    """A random model in which some actions are not available, some rows certain and some states absorbing."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(S):
        for a in range(A):
            if a and rng.random() < 0.25:
                continue
            p = rng.dirichlet(np.ones(S)) * (rng.random(S) < 0.7)
            p = np.eye(S)[rng.integers(S)] if p.sum() == 0 or rng.random() < 0.15 else p / p.sum()
            if s == S - 1:
                p = np.eye(S)[s]
            rows += [(s, a, j, p[j], float(rng.integers(-2, 3)) if s < S - 1 else 0.0) for j in np.flatnonzero(p)]
    s, a, j, p, r = zip(*rows, strict=True)
    return tether.MDP.from_table(list(s), list(a), list(j), list(p), list(r)), rng


class Twin:
    """A rule on one episode by the definition: recursion over (time, state, return so far), row by row."""

    def __init__(self, mdp, shares, edits, states, pairs, horizon, good):
        self.mdp, self.form, self.shares, self.edits = mdp, mdp.form, shares, edits
        self.states, self.pairs, self.horizon, self.good = states, pairs, horizon, good

    def row(self, x):
        low, high = self.form.row_start[x], self.form.row_start[x + 1]
        full = np.zeros(self.mdp.n_states)
        full[self.form.next_state[low:high]] = self.form.probability[low:high]
        return full

    def taken(self, t, s):
        if t < len(self.pairs) and s == self.states[t]:
            return self.edits.get(self.pairs[t], {self.pairs[t]: 1.0})
        first, last = self.form.pair_start[s], self.form.pair_start[s + 1]
        return {x: self.shares[x] for x in range(first, last) if self.shares[x] > 0}

    def reward(self, x, j):
        values = self.mdp.rewards.at(0)
        if not self.mdp.rewards.by_entry:
            return values[x]
        low, high = self.form.row_start[x], self.form.row_start[x + 1]
        return values[low + int(np.searchsorted(self.form.next_state[low:high], j))]

    def cf_row(self, t, x, how):
        q = self.row(x)
        if t >= len(self.pairs):
            return q
        if x == self.pairs[t]:
            return np.eye(q.size)[self.states[t + 1]]
        p, o = self.row(self.pairs[t]), self.states[t + 1]
        if how == "gumbel":
            return tether.counterfactual_row(p, o, q)
        ends, lows = (
            np.cumsum(q),
            np.cumsum(q) - q,
        )
        begin, end = np.cumsum(p)[o] - p[o], np.cumsum(p)[o]
        return np.maximum(0.0, np.minimum(ends, end) - np.maximum(lows, begin)) / p[o]

    def value(self, score, how, t=0, s=None, earned=0.0):
        """The mean score of the end, (state, return)."""
        s = self.states[0] if s is None else s
        if t == self.horizon:
            return score(s, earned)
        total = 0.0
        for x, chance in self.taken(t, s).items():
            if how in ("least", "most"):
                total += chance * self.extreme(score, how, t, x, earned)
                continue
            for j, p in enumerate(self.cf_row(t, x, how)):
                if p > 0:
                    total += chance * p * self.value(score, how, t + 1, j, earned + self.reward(x, j))
        return total

    def mass(self, score, t=0, s=None, earned=0.0):
        """The score of every way to go on times how much of it any law of luck over time may have, summed."""
        s = self.states[0] if s is None else s
        if t == self.horizon or s == self.mdp.n_states - 1:  # there nothing happens any more
            return score(s, earned)
        total, seen = 0.0, t < len(self.pairs)
        for x, chance in self.taken(t, s).items():
            row = self.row(x) / (self.row(self.pairs[t])[self.states[t + 1]] if seen else 1.0)
            if seen and x == self.pairs[t]:
                row = np.eye(row.size)[self.states[t + 1]]
            for j in np.flatnonzero(row):
                total += chance * row[j] * self.mass(score, t + 1, j, earned + self.reward(x, j))
        return total

    def extreme(self, score, how, t, x, earned):
        q = self.row(x)
        if t < len(self.pairs) and x == self.pairs[t]:
            j = self.states[t + 1]
            return self.value(score, how, t + 1, j, earned + self.reward(x, j))
        some = np.flatnonzero(q)
        values = np.array([self.value(score, how, t + 1, j, earned + self.reward(x, j)) for j in some])
        cap = np.ones(some.size) if t >= len(self.pairs) else q[some] / self.row(self.pairs[t])[self.states[t + 1]]
        if t >= len(self.pairs):
            return float(q[some] @ values)
        sign = 1.0 if how == "least" else -1.0
        found = linprog(sign * values, A_eq=np.ones((1, some.size)), b_eq=[1.0], bounds=[(0.0, c) for c in cap])
        return sign * found.fun


def episode(seed, steps):
    mdp, rng = worlds(seed)
    form, X = mdp.form, mdp.n_pairs
    owner = np.repeat(np.arange(mdp.n_states), np.diff(form.pair_start))
    usual = rng.random(X)
    usual /= np.bincount(owner, usual)[owner]
    edits = {}
    for s in range(mdp.n_states - 1):
        own = np.flatnonzero(owner == s)
        if own.size > 1 and rng.random() < 0.7:
            others = own[1:2] if rng.random() < 0.6 else own[1:]
            edits[int(own[0])] = dict.fromkeys(others.tolist(), 1.0 / others.size)
    shares = usual.copy()
    for x, to in edits.items():
        shares[x] -= usual[x]
        for y, chance in to.items():
            shares[y] += usual[x] * chance
    s, states, pairs = 0, [0], []
    for _ in range(steps):
        own = np.flatnonzero(owner == s)
        x = int(own[0]) if rng.random() < 0.5 else int(rng.choice(own, p=usual[own]))
        row = slice(form.row_start[x], form.row_start[x + 1])
        s = int(rng.choice(form.next_state[row], p=form.probability[row]))
        pairs.append(x)
        states.append(s)
    return mdp, shares, edits, states, pairs, rng


def compiled(mdp, shares, edits, states, pairs, horizon, good, most):
    form, X = mdp.form, mdp.n_pairs
    start = np.zeros(X + 1, np.int64)
    chosen = [edits.get(x, {}) for x in range(X)]
    start[1:] = np.cumsum([len(one) for one in chosen])
    practice = Practice(
        shares, start, np.array([y for one in chosen for y in one], np.int64),
        np.array([c for one in chosen for c in one.values()], float),
    )  # fmt: skip
    twin = Twin(mdp, shares, edits, states, pairs, horizon, good)
    total = sum(twin.reward(x, states[t + 1]) for t, x in enumerate(pairs))
    reward = np.array(np.atleast_2d(mdp.rewards.values))  # a copy, as the library has one: not read-only
    rest = np.full(mdp.n_states, np.nan)
    rest[-1] = 0.0
    worth = Worth(reward, mdp.rewards.by_entry, np.zeros(mdp.n_states), 1.0, rest, good)
    cut = next((t for t, s in enumerate(states) if s == mdp.n_states - 1), len(pairs))
    ints = lambda values: np.array(values, np.int64)  # noqa: E731
    one = Suffixes(
        ints([0, cut]), ints(states[:cut]), ints(pairs[:cut]), ints(states[1 : cut + 1]), ints([0]), ints([horizon]),
        np.zeros(1), np.array([float(total)]), np.array([good[states[-1]]]),
    )  # fmt: skip
    model = model_of(form)
    by_end = replay(model, practice, worth, one, by_return=False)
    by_return = replay(model, practice, worth, one, by_return=True, most=most)
    return by_end, by_return, chances_ahead(model, practice, worth, one), total


@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
def test_replays_are_those_of_enumeration(seed, steps, longer):
    mdp, shares, edits, states, pairs, rng = episode(seed, steps)
    if states[0] == mdp.n_states - 1:
        return
    ended = states[-1] == mdp.n_states - 1
    horizon = steps + (1 if longer and ended else 0)
    good = rng.integers(0, 2, mdp.n_states).astype(float)
    by_end, by_return, ahead, total = compiled(mdp, shares, edits, states, pairs, horizon, good, 1 << 10)
    twin = Twin(mdp, shares, edits, states, pairs, horizon, good)
    mean = twin.value(lambda s, earned: earned, "gumbel")
    assert by_end.mean[0] == pytest.approx(mean, abs=1e-10)
    last = good[states[-1]]
    scores = {
        "end": (lambda s, _: float(good[s] > last), lambda s, _: float(good[s] < last), by_end),
        "return": (lambda _, g: float(g > total + 1e-9), lambda _, g: float(g < total - 1e-9), by_return),
    }
    for better, worse, found in scores.values():
        for score, own, ranged in ((better, found.better, found.better_range), (worse, found.worse, found.worse_range)):
            assert own[0] == pytest.approx(twin.value(score, "gumbel"), abs=1e-9)
            least, most = (twin.value(score, how) for how in ("least", "most"))
            assert ranged[0] == pytest.approx([least, most], abs=1e-8)
            assert least - 1e-9 <= twin.value(score, "comonotone") <= most + 1e-9
        for score, related, ranged in (
            (better, found.better_related, found.better_range), (worse, found.worse_related, found.worse_range)
        ):  # fmt: skip
            rest = twin.mass(lambda *end, score=score: 1.0 - score(*end))
            assert related[0] == pytest.approx([max(0.0, 1.0 - rest), min(1.0, twin.mass(score))], abs=1e-9)
            assert related[0, 0] <= ranged[0, 0] + 1e-9
            assert related[0, 1] >= ranged[0, 1] - 1e-9
    assert ahead[0][0] == pytest.approx(by_return.better[0], abs=1e-9)
    assert ahead[1][0] == pytest.approx(by_return.worse[0], abs=1e-9)


@given(st.integers(0, 10_000))
def test_rounded_returns_and_left_out_ways_are_bounds(seed):
    mdp, shares, edits, states, pairs, _ = episode(seed, 4)
    good = np.ones(mdp.n_states)
    if states[0] == mdp.n_states - 1:
        return
    _, exact, _, _ = compiled(mdp, shares, edits, states, pairs, 4, good, 1 << 10)
    _, rounded, _, _ = compiled(mdp, shares, edits, states, pairs, 4, good, 2)
    for name in ("better", "worse", "better_range", "worse_range", "better_related", "worse_related"):
        low, high = getattr(rounded, name)[0]
        assert low <= getattr(exact, name)[0, 0] + 1e-9
        assert high >= getattr(exact, name)[0, 1] - 1e-9


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_transport_is_a_linear_programme(seed, n, m):
    rng = np.random.default_rng(seed)
    p, q, cost = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m)), rng.integers(0, 3, (n, m)) / 2
    equal = [np.kron(row, np.ones(m)) for row in np.eye(n)] + [np.kron(np.ones(n), row) for row in np.eye(m)]
    best = linprog(cost.ravel(), A_eq=np.array(equal), b_eq=np.concatenate((p, q)), bounds=(0, None)).fun
    flow = np.zeros((n, m))
    transport(n, m, cost, p.copy(), q.copy(), flow, np.empty((2, n + m)), np.empty((2, n + m), np.int64))
    assert flow.sum(axis=1) == pytest.approx(p, abs=1e-9)
    assert flow.sum(axis=0) == pytest.approx(q, abs=1e-9)
    assert float((flow * cost).sum()) == pytest.approx(best, abs=1e-9)


def test_transport_ends_where_costs_are_almost_equal():
    """Costs that differ by rounding alone, as those of learned models do: a shortest path must not lead in a circle."""
    for seed in range(130):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(2, 9, 2).tolist()
        p, q, plain = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m)), rng.integers(0, 3, (n, m)) / 2
        cost, flow = plain + rng.normal(size=(n, m)) * 10.0 ** rng.integers(-16, -11, (n, m)), np.zeros((n, m))
        transport(n, m, cost, p.copy(), q.copy(), flow, np.empty((2, n + m)), np.empty((2, n + m), np.int64))
        assert flow.sum(axis=0) == pytest.approx(q, abs=1e-9)
        equal = [np.kron(row, np.ones(m)) for row in np.eye(n)] + [np.kron(np.ones(n), row) for row in np.eye(m)]
        best = linprog(plain.ravel(), A_eq=np.array(equal), b_eq=np.concatenate((p, q)), bounds=(0, None)).fun
        assert float((flow * plain).sum()) == pytest.approx(best, abs=1e-8)


def all_episodes(mdp, habit, steps):
    """Every episode of so many steps from "sick", with its probability."""

    def onward(states, actions, chance):
        if len(actions) == steps:
            yield states, actions, chance
            return
        done = habit[states[-1]]
        for action, share in done.items() if isinstance(done, dict) else [(done, 1.0)]:
            for after, p in zip(*mdp.row(states[-1], action), strict=True):
                yield from onward([*states, after], [*actions, action], chance * share * p)

    yield from onward(["sick"], [], 1.0)


def test_the_ward_of_the_method(ward, habit):
    """METHOD §17: P(die) .3695 → .2623; saved .3352, (W) .2943–.4474, (E) .203–.558, Tian-Pearl .290–1; lost .0264."""
    from tether.logs.cohort import find_episodes
    from tether.ruling.conditions import variables_of
    from tether.ruling.edits import Actions
    from tether.ruling.practised import Candidate, apply_rules, practice_of
    from tether.ruling.recorded import Recorded, RuleWorld
    from tether.ruling.replaying import NUMBERS, replay_episodes

    bad = np.array([state == "dead" for state in ward.states])
    world = RuleWorld(ward, None, False, T, bad, "dead")
    usual = np.zeros(ward.n_pairs)
    for state, done in habit.items():
        for action, share in done.items() if isinstance(done, dict) else [(done, 1.0)]:
            usual[ward.pair_index(state, action)] = share
    given = tether.rule("worse", instead_of="wait", do="treat")
    rule = Candidate.read(world, given, variables_of(ward), Actions(ward.actions))
    practice = practice_of(usual, apply_rules(usual, world.pair_state, [rule]))
    states, actions, chance = zip(*all_episodes(ward, habit, T), strict=True)
    chance = np.array(chance)
    paths = [tether.Path(*one) for one in zip(states, actions, strict=True)]
    found = Recorded.of(world, find_episodes(ward, tether.Episodes.from_paths(paths), {}))
    some, numbers = replay_episodes(world, practice, found)
    died = chance @ bad[found.end]
    sums = dict(zip(NUMBERS, chance[some] @ numbers, strict=True))
    assert died == pytest.approx(0.3695, abs=5e-5)
    assert died - sums["saved"] + sums["lost"] == pytest.approx(0.2623, abs=5e-5)
    saved = {end: sums[f"saved{end}"] / died for end in ("", "_low", "_high")}
    lost = {end: sums[f"lost{end}"] / (1 - died) for end in ("", "_low", "_high")}
    assert [saved[""], saved["_low"], saved["_high"]] == pytest.approx([0.3352, 0.203, 0.558], abs=5e-4)
    assert lost[""] == pytest.approx(0.0264, abs=5e-5)
    change = sums["saved"] - sums["lost"]  # Tian-Pearl: what margins alone say
    assert [max(0.0, change) / died, min(1.0, (1 - died + change) / died)] == pytest.approx([0.290, 1.0], abs=5e-4)
    low, high = max(0.0, -change) / (1 - died), min(1.0, (died - change) / (1 - died))
    assert low <= lost["_low"] <= 0.0024 < 0.0922 <= lost["_high"] <= high + 1e-9
    start = np.array([ward.state_index("sick")])
    split = two_worlds(world.model, usual, practice, bad, start, np.array([T]), np.ones(1))
    assert np.array(split.saved) / died == pytest.approx([0.2943, 0.4474], abs=5e-5)
    assert np.array(split.lost) / (1 - died) == pytest.approx([0.0024, 0.0922], abs=5e-5)


@given(st.integers(0, 10_000))
def test_two_worlds_contain_gumbel_max_and_keep_the_difference(seed):
    """saved - lost is the change of the chance, whatever the causal model: so the bounds leave room for it."""
    mdp, shares, edits, _, _, rng = episode(seed, 1)
    form, X = mdp.form, mdp.n_pairs
    start = np.zeros(X + 1, np.int64)
    chosen = [edits.get(x, {}) for x in range(X)]
    start[1:] = np.cumsum([len(one) for one in chosen])
    practice = Practice(
        shares, start, np.array([y for one in chosen for y in one], np.int64),
        np.array([c for one in chosen for c in one.values()], float),
    )  # fmt: skip
    usual = shares.copy()
    owner = np.repeat(np.arange(mdp.n_states), np.diff(form.pair_start))
    for s in range(mdp.n_states):  # some practice from which the rule leads to these shares
        own = np.flatnonzero(owner == s)
        usual[own] = 1.0 / own.size
    ruled = usual.copy()
    for x, to in edits.items():
        ruled[x] -= usual[x]
        for y, c in to.items():
            ruled[y] += usual[x] * c
    practice = practice._replace(share=ruled)
    bad = rng.integers(0, 2, mdp.n_states).astype(bool)
    split = two_worlds(model_of(form), usual, practice, bad, np.array([0]), np.array([3]), np.ones(1))

    def chance(share):
        value = bad.astype(float)
        for _ in range(3):
            after = np.add.reduceat(form.probability * value[form.next_state], form.row_start[:-1])
            value = np.bincount(owner, share * after, minlength=value.size)
        return value[0]

    change = chance(usual) - chance(ruled)
    assert split.saved[0] - split.lost[1] - 1e-9 <= change <= split.saved[1] - split.lost[0] + 1e-9
    assert split.saved[0] <= split.saved[1] + 1e-12
    assert split.saved[1] <= chance(usual) + 1e-9
