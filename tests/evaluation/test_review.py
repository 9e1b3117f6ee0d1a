"""Mistake or luck: the numbers of the cases, a slow twin in exact fractions, and what must hold of every model."""

import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from effort import tries
from enumerate import Law, by_table
from hypothesis import assume, given
from hypothesis import strategies as st
from learned import clinic
from worlds import FEWER, tiny_worlds, worlds

import tether
from tether.auditing.reviewed import review_log
from tether.evaluation.review import Batch, horizons, review_batch
from tether.plan.standard import Standard

CASES = {
    # expected; mistakes and luck of the steps at which something was left to decide; foreseeable gain
    "sepsis": (-2369.032, [0, 0, 0], [-534.448, 440.489, -4387.009], 0.0),
    "epidemic": (
        -1.0,
        [8.400, 15.756, 6.307, 2.520, 1.887, 0.989, 0],
        [-0.822, 3.078, -1.917, -0.585, -0.995, 0.100, 0],
        37.0,
    ),
    "grid_world": (540.775, [44.439, 22.201, 1257.751], [1.952, 6.034, -121.372], 1445.117),
}
"""Three cases, three answers: only luck; early mistakes; one large mistake."""


@pytest.fixture(autouse=True, scope="module")
def _quiet():
    """With the JIT off NumPy warns of 0·(-∞), an infeasible future that does not count; compiled code does not."""
    with np.errstate(invalid="ignore"):
        yield


def of_case(name):
    case = getattr(tether.cases, name)()
    return tether.counterfactual(case.mdp, case.path)


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_of_the_cases(name):
    expected, mistakes, luck, foreseeable = CASES[name]
    cf = of_case(name)
    review = cf.review()
    idle = [0.0] * (cf.T - len(mistakes))
    assert review.expected == pytest.approx(expected, abs=5e-4)
    assert [step.mistake for step in review.steps] == pytest.approx([*mistakes, *idle], abs=5e-4)
    assert [step.luck for step in review.steps] == pytest.approx([*luck, *idle], abs=5e-4)
    assert review.foreseeable == pytest.approx(foreseeable, abs=5e-4)
    assert review.observed == cf.plan(k=1, m=0).value
    assert [step.action is None for step in review.steps] == [False] * len(mistakes) + [True] * len(idle)
    assert review.expected == cf.mdp.solve(cf.T).value(cf.path.states[0])


# --- A slow twin, in exact fractions ----------------------------------------------------------------


class Twin:
    """V and Q over the steps left, by recursion; with exact fractions of the model's own numbers."""

    def __init__(self, world, horizon, against="best", prop=None, minimise=False):
        self.world, self.horizon, self.against, self.minimise = world, horizon, against, minimise
        self.discount = Fraction(1 if prop is not None else world.discount)
        self.ended, self.holds = (set(), set()) if prop is None else prop
        self.is_property = prop is not None
        self.value, self.q = cache(self.value), cache(self.q)

    def final(self, s):
        return Fraction(int(s in self.holds)) if self.is_property else Fraction(self.world.last(s))

    def earn(self, t, s, a, j):
        return Fraction(0 if self.is_property else self.world.earn(t, s, a, j))

    def q(self, t, s, a):
        row = self.world.nominal[s, a]
        worth = {j: self.earn(t, s, a, j) + self.discount * self.value(t + 1, j) for j in row}
        return sum(Fraction(p) * worth[j] for j, p in row.items())

    def value(self, t, s):
        if t == self.horizon or s in self.ended:
            return self.final(s)
        tried = [self.q(t, s, a) for a in self.world.available(s)]
        if self.against == "random":
            return sum(tried) / len(tried)
        return min(tried) if self.minimise else max(tried)

    def steps(self):
        """(V, e, l, r, what is reached) of each step, with e ≥ 0 for a cost and l > 0 for good luck."""
        path, sign, decided = self.world.path, -1 if self.minimise else 1, None
        found = []
        for t, (s, a) in enumerate(zip(path.states, path.actions, strict=False)):
            decided = s if decided is None and s in self.ended else decided
            if decided is not None:
                value = self.final(decided)
                found.append((value, 0, 0, 0, value))
                continue
            q, reached = self.q(t, s, a), self.q(t, s, a)
            reward = sum(Fraction(p) * self.earn(t, s, a, j) for j, p in self.world.nominal[s, a].items())
            if t + 1 < len(path.states):
                reward = self.earn(t, s, a, path.states[t + 1])
                reached = reward + self.discount * self.value(t + 1, path.states[t + 1])
            mistake = sign * (self.value(t, s) - q)
            found.append((self.value(t, s), mistake, sign * (reached - q), reward, reached))
        return found

    def observed(self):
        *before, (_, _, _, _, end) = self.steps()
        return sum(self.discount**t * one[3] for t, one in enumerate(before)) + self.discount ** len(before) * end


def properties(world):
    """A few states to reach, to avoid, or to keep until others are reached."""

    def sets(names):
        return st.lists(st.sampled_from(names), min_size=1, unique=True)

    states = world.states
    return st.one_of(
        st.none(),
        sets(states).map(lambda goal: (tether.reach(goal), (set(goal), set(goal)))),
        sets(states).map(lambda bad: (tether.avoid(bad), (set(bad), set(states) - set(bad)))),
        st.tuples(sets(states), sets(states)).map(
            lambda both: (tether.until(*both), ((set(states) - set(both[0])) | set(both[1]), set(both[1])))
        ),
    )


def close(scale):
    return lambda number: pytest.approx(float(number), rel=1e-9, abs=1e-9 * max(1.0, float(scale)))


@given(worlds(max_states=5, max_steps=4), st.booleans(), st.sampled_from(["best", "random"]), st.data())
def test_every_number_by_recursion_in_fractions(world, minimise, against, data):
    assume(not world.samples)
    wanted = data.draw(properties(world))
    prop, sets = (None, None) if wanted is None else wanted
    horizon = world.T if world.axes in ("tsa", "tsas") else world.T + data.draw(st.integers(0, 2))
    twin = Twin(world, horizon, against, sets, minimise)
    mdp = world.cf.mdp
    review = tether.review(mdp, world.path, against, objective=prop, minimise=minimise, horizon=horizon)
    scale = max([1, *(abs(one) for step in twin.steps() for one in step)])
    about = close(scale)
    assert len(review.steps) == world.T
    for t, (step, (value, mistake, luck, _, _)) in enumerate(zip(review.steps, twin.steps(), strict=True)):
        assert (step.t, step.expected) == (t, about(value))
        assert (step.mistake, step.luck) == (about(mistake), about(luck))
        if against == "best":
            assert step.mistake >= 0
            if mistake > 1e-6 * scale and step.action is not None:
                assert twin.q(t, step.state, step.best) == twin.value(t, step.state)
                assert step.best != step.action
    assert review.observed == about(twin.observed())
    sign = -1.0 if minimise else 1.0
    assert review.observed == about(review.expected - sign * review.mistakes + sign * review.luck)
    total = sum(step.weight * step.mistake for step in review.steps)
    assert review.mistakes == about(total)
    if not world.path.last_recorded:
        assert review.steps[-1].luck == 0.0
    if horizon == world.T and prop is None:
        assert review.observed == about(world.observed_return())


@given(worlds(max_states=3, max_actions=2, max_steps=3, widest=2))
def test_what_was_to_be_expected_is_the_best_of_all_policies(world):
    where = [(t, s) for t in range(world.T) for s in world.states if world.available(s)]
    assume(math.prod(len(world.available(s)) for _, s in where) <= 200)
    worths = []
    for choice in product(*(world.available(s) for _, s in where)):
        table = {at: {a: 1.0} for at, a in zip(where, choice, strict=True)}
        law = Law(world, by_table(table), nominal=True)
        worths.append(law.mean(law.total))
    review = tether.review(world.cf.mdp, world.path, horizon=world.T)
    assert review.expected == pytest.approx(max(worths), rel=1e-11, abs=1e-11)


@given(worlds(max_states=5, max_steps=4))
def test_luck_is_nothing_on_average(world):
    """Over the outcomes of the observed pair, at every step before the last."""
    assume(not world.samples)
    mdp, path = world.cf.mdp, world.path
    for t, (s, a) in enumerate(zip(path.states, path.actions, strict=False)):
        law = world.nominal[s, a]
        lucks = []
        for j, p in law.items():
            twin = tether.Path([*path.states[: t + 1], j], path.actions[: t + 1])
            lucks.append((p, tether.review(mdp, twin, horizon=world.T).steps[t].luck))
        scale = max(1.0, *(abs(one) for _, one in lucks))
        assert math.fsum(p * one for p, one in lucks) == pytest.approx(0.0, abs=1e-9 * scale)


# --- The foreseeable gain ---------------------------------------------------------------------------


@FEWER
@given(tiny_worlds(), st.booleans())
def test_the_mean_of_the_foreseeable_gain_is_that_of_the_mistakes(world, minimise):
    """Over all episodes of the random policy, enumerated: a causal model shares luck out, it adds none on average."""
    assume(not world.samples)
    mdp = world.cf.mdp
    table = {
        (t, s): {a: 1 / len(world.available(s)) for a in world.available(s)}
        for t in range(world.T)
        for s in world.states
        if world.available(s)
    }
    gains, mistakes, most = [], [], 1.0
    for episode in Law(world, by_table(table), nominal=True).episodes:
        cf = tether.counterfactual(mdp, tether.Path(episode.states, episode.actions))
        review = cf.review(minimise=minimise, horizon=world.T)
        gains.append(episode.chance * review.foreseeable)
        mistakes.append(episode.chance * review.mistakes)
        most = max(most, abs(review.expected), abs(review.observed))
    assert math.fsum(gains) == pytest.approx(math.fsum(mistakes), abs=1e-9 * most)


@pytest.mark.compiled
def test_the_mean_of_the_foreseeable_gain_over_simulated_episodes():
    grid = tether.cases.grid_world().mdp
    rng = np.random.default_rng(4)
    reviews = []
    for _ in range(tries(100, 3000)):
        path = grid.simulate("optimal", 8, rng=rng, noise=0.3)
        reviews.append(tether.counterfactual(grid, path).review())
    apart = np.array([review.foreseeable - review.mistakes for review in reviews])
    assert abs(apart.mean()) < 4 * apart.std() / math.sqrt(apart.size)
    assert np.mean([review.mistakes for review in reviews]) > 50  # there is something to compare


def test_the_foreseeable_gain_with_a_longer_horizon_is_that_of_the_episode_at_rest():
    """An episode that has ended stays where it is: with the steps at rest written out, every number is the same."""
    grid = tether.cases.grid_world()
    short = tether.Path(grid.path.states[:4], grid.path.actions[:3])  # it fell at t = 3
    for options in ({}, {"against": "random"}, {"objective": tether.avoid("danger")}, {"minimise": True}):
        one = tether.counterfactual(grid.mdp, short).review(horizon=11, **options)
        other = tether.counterfactual(grid.mdp, grid.path).review(**options)
        for name in ("expected", "mistakes", "luck", "observed", "foreseeable"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12), (options, name)


# --- Many episodes at once --------------------------------------------------------------------------


@pytest.mark.compiled
def test_the_best_policy_makes_no_mistake_in_a_thousand_episodes():
    mdp = tether.cases.sepsis().mdp
    best, rng = mdp.solve(10), np.random.default_rng(1)
    starts = rng.choice(mdp.n_states, 1000)
    paths = [mdp.simulate(best, 10, start=mdp.states[int(s)], rng=rng) for s in starts]
    found = review_log(mdp, paths)
    assert found.found.steps.mistake.max() == 0.0
    assert np.all(found.largest.t == -1)
    luck = found.found.luck
    assert abs(luck.mean()) < 4 * luck.std() / math.sqrt(luck.size)
    assert np.mean(luck != 0) > 0.3  # and yet it went as expected in few of them


def some_log():
    """Episodes of several lengths: cut ones, ended ones, one without its last outcome, one with rewards."""
    grid = tether.cases.grid_world()
    paths = [grid.mdp.simulate("random", steps, rng=seed) for seed, steps in enumerate((1, 4, 4, 9, 6, 2, 9))]
    paths[1] = tether.Path(paths[1].states[:-1], paths[1].actions)
    paths[2] = tether.Path(paths[2].states, paths[2].actions, rewards=[1.0, None, 3.0, -4.0])
    return grid.mdp, [*paths, grid.path, tether.Path(grid.path.states[:4], grid.path.actions[:3])]


OPTIONS = [
    {},
    {"minimise": True},
    {"against": "random"},
    {"objective": tether.avoid("danger")},
    {"against": lambda t, s: "down" if t % 2 else "right"},
    {"horizon": 15},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: ", ".join(one) or "default")
@pytest.mark.parametrize("timed", [False, True])
def test_a_log_has_the_numbers_of_its_episodes(options, timed):
    mdp, paths = some_log()
    if timed:
        R = np.random.default_rng(0).normal(size=(15, 16, 4))
        P = np.zeros((16, 4, 16))
        for s, a in product(range(16), range(4)):
            ends, chance = mdp.row(s, mdp.actions[a])
            P[s, a, list(ends)] = chance
        mdp = tether.MDP.from_arrays(P, R, actions=mdp.actions).with_labels({"danger": [6]})
    found = review_log(mdp, paths, **options)
    table = found.to_arrow().to_pylist()
    for i, path in enumerate(paths):
        horizon = int(found.found.horizon[i])
        one = tether.review(mdp, path, **{**options, "horizon": horizon})
        for name in ("expected", "mistakes", "luck", "observed", "unlike"):
            assert getattr(found.found, name)[i] == pytest.approx(getattr(one, name), rel=1e-12, abs=1e-12)
            assert table[i][name] == getattr(found.found, name)[i]
        worst = one.largest()
        row = table[i]["largest_mistake"]
        assert (row is None) == (worst is None)
        if worst is not None:
            assert (row["t"], row["state"], row["action"], row["best"]) == (
                worst.t,
                worst.state,
                worst.action,
                worst.best,
            )
            assert row["cost"] == pytest.approx(worst.weight * worst.mistake)


def test_values_kept_for_a_whole_log_are_those_of_each_batch():
    mdp, paths = some_log()
    cohort = review_log(mdp, paths).cohort
    for against, steps in product(("best", "random"), (3, 11, 15)):  # for 3 steps: not enough, so they are not used
        alone = review_batch(Standard(mdp, against), cohort)
        kept = review_batch(Standard(mdp, against).tabulated(steps), cohort)
        for name in ("expected", "mistakes", "luck", "observed"):
            np.testing.assert_allclose(getattr(kept, name), getattr(alone, name), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(kept.steps.best, alone.steps.best)
        assert np.array_equal(alone.steps.best < 0, alone.steps.ended)
        assert alone.steps.ended.any()
    asked = Standard(mdp, lambda state: "down")
    assert asked.tabulated(15) is asked  # it is asked for the states that matter only


def test_a_broken_episode_has_no_numbers():
    grid = tether.cases.grid_world()
    impossible = tether.Path([0, 15], ["down"])
    found = review_log(grid.mdp, {"sound": grid.path, "broken": impossible})
    assert found.cohort.problem[1] is not None
    assert found.to_arrow().to_pylist()[1] == {
        "episode": "broken",
        **dict.fromkeys(("expected", "mistakes", "luck", "observed", "unlike", "largest_mistake", "claimed")),
    }
    assert found.found.mistakes[0] == pytest.approx(1324.390, abs=5e-4)


# --- Horizons ---------------------------------------------------------------------------------------


def lake():
    """To a goal: "run" may get there at once, or fall; "walk" takes two steps and is sure to. Both end it."""
    rows = {
        ("start", "run"): {"goal": 0.2, "fell": 0.8},
        ("start", "walk"): {"middle": 1.0},
        ("middle", "run"): {"goal": 0.5, "fell": 0.5},
        ("middle", "walk"): {"goal": 1.0},
    }
    table = [(s, a, j, p, float(j == "goal")) for (s, a), row in rows.items() for j, p in row.items()]
    return tether.MDP.from_table(*map(list, zip(*table, strict=True)), terminal=["goal", "fell"])


def test_an_early_end_could_not_be_known():
    """Over one step running is best: nothing else reaches the goal. Over two, walking is certain to."""
    path = tether.Path(["start", "fell"], ["run"])
    mdp = lake()
    short, long = tether.review(mdp, path), tether.review(mdp, path, horizon=2)
    assert (short.mistakes, short.expected, short.horizon) == (0.0, 0.2, 1)
    assert (long.mistakes, long.expected, long.horizon) == (pytest.approx(0.8), 1.0, 2)
    assert "nobody could know that it would end after 1." in " ".join(long.sentences())
    log = [path, tether.Path(["start", "middle", "goal"], ["walk", "walk"])]
    assert review_log(mdp, log).found.mistakes.tolist() == pytest.approx([0.8, 0.0])


def test_the_horizon_of_the_model_is_that_of_an_episode_that_ended():
    R = np.zeros((3, 4, 2))
    base = lake()
    P = np.zeros((4, 2, 4))
    for i, s in enumerate(base.states):
        for a in base.actions_in(s):
            for j, p in zip(*base.row(s, a), strict=True):
                P[i, base.actions.index(a), base.states.index(j)] = p
    mdp = tether.MDP.from_arrays(P, R, states=base.states, actions=base.actions)  # rewards are given for three steps
    ended, cut = tether.Path(["start", "fell"], ["run"]), tether.Path(["start", "middle"], ["walk"])
    assert tether.review(mdp, ended).horizon == 3
    assert tether.review(mdp, cut).horizon == 1
    assert tether.review(mdp, cut, horizon=2).was_cut
    assert "The record stops after 1" in " ".join(tether.review(mdp, cut, horizon=2).sentences())
    unrecorded = Batch(np.array([0, 1]), np.array([0]), np.array([0]), np.array([-1]))
    assert horizons(mdp, unrecorded).tolist() == [1]
    for wrong in (0, 4, 1.5, True):
        with pytest.raises(tether.QueryError, match="horizon"):
            tether.review(mdp, cut, horizon=wrong)


# --- What counts as a mistake -----------------------------------------------------------------------


def test_rounding_is_no_mistake():
    assert 0.1 + 0.2 > 0.3
    for rewards in ([0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3]):
        mdp = tether.MDP.from_arrays(np.ones((1, 2, 1)), [rewards], actions=["first", "second"])
        for action in ("first", "second"):
            review = tether.review(mdp, tether.Path([0, 0], [action]))
            assert (review.mistakes, review.steps[0].best) == (0.0, action)
    mdp = tether.MDP.from_arrays(np.ones((1, 2, 1)), [[0.3, 0.3 + 1e-9]], actions=["first", "second"])
    assert tether.review(mdp, tether.Path([0, 0], ["first"])).steps[0].best == "second"


@pytest.mark.parametrize("off", [0.1, 0.9])  # the way round comes to more, to less
def test_rounding_of_large_rewards_that_cancel_is_no_mistake(off):
    """Two ways to 0.3, one over 3·10⁸ and back: values are small, the numbers behind them are not."""
    there, back = 3e8 + off, 0.3 - off - 3e8
    table = [("a", "straight", "end", 1.0, 0.3), ("a", "round", "b", 1.0, there), ("b", "round", "end", 1.0, back)]
    mdp = tether.MDP.from_table(*map(list, zip(*table, strict=True)), terminal=["end"])
    assert 1e-10 < abs(there + back - 0.3) < 1e-7
    for path in (tether.Path(["a", "end", "end"], ["straight"] * 2), tether.Path(["a", "b", "end"], ["round"] * 2)):
        review = tether.review(mdp, path)
        assert review.mistakes == 0.0
        assert review.steps[0].best == path.actions[0]


def test_the_logs_own_rewards_are_a_term_of_their_own():
    grid = tether.cases.grid_world()
    for rewards in ([0.0] * 10 + [-900.0], [None] * 10 + [5.0], None):
        path = tether.Path(grid.path.states, grid.path.actions, rewards=rewards)
        cf = tether.counterfactual(grid.mdp, path)
        review = cf.review()
        logged = cf.earned.logged if rewards else review.observed
        assert review.observed + review.unlike == pytest.approx(logged)
        assert review.observed == pytest.approx(review.expected - review.mistakes + review.luck)
        assert cf.review(minimise=True).unlike == review.unlike
    assert cf.review(objective=tether.avoid("danger")).unlike == 0.0


# --- Against other policies -------------------------------------------------------------------------


def test_against_usual_practice_by_hand():
    # The clinic's log: treat 10 times (8 well), wait 5 times (2 well). Maximum likelihood, 1 for ending well.
    mdp = clinic(prior=0.0)
    usual = (10 * 0.8 + 5 * 0.4) / 15
    review = tether.review(mdp, tether.Path(["sick", "dead"], ["wait"]), "usual")
    assert review.expected == pytest.approx(usual)
    assert (review.mistakes, review.luck) == (pytest.approx(usual - 0.4), pytest.approx(-0.4))
    assert review.steps[0].best == "treat"
    better = tether.review(mdp, tether.Path(["sick", "well"], ["treat"]), "usual")
    assert better.mistakes == pytest.approx(usual - 0.8)  # negative: better than usual
    assert (
        better.sentences(str)[0] == "Compared with usual practice: 1 decision was better, by 0.133, at step 0 (treat)."
    )


def test_every_form_of_a_policy_gives_the_same():
    grid = tether.cases.grid_world()
    right = grid.mdp.actions.index("right")
    forms = [
        lambda state: "right",
        lambda t, state: {"right": 1.0},
        dict.fromkeys(range(16), "right"),
        np.full(16, right),
        np.tile(np.eye(4)[right], (16, 1)),
    ]
    found = [tether.review(grid.mdp, grid.path, form) for form in forms]
    for one in found:
        assert one.expected == pytest.approx(grid.mdp.evaluate(forms[0], 11, start=0).value)
        assert [step.mistake for step in one.steps] == pytest.approx([step.mistake for step in found[0].steps])
    best = tether.review(grid.mdp, grid.path, grid.mdp.solve(11))
    assert best.mistakes == pytest.approx(tether.review(grid.mdp, grid.path).mistakes)


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("observed", "that is what was done"),
        ("usual", "usual practice is known for a learned model only"),
        ("worst", "a policy by name is"),
        (3, "a policy is a function"),
        ({0: "right"}, "the policy says nothing for state"),
    ],
)
def test_what_decisions_cannot_be_judged_against(against, message):
    grid = tether.cases.grid_world()
    with pytest.raises(tether.QueryError, match=message):
        tether.review(grid.mdp, grid.path, against)


def test_a_model_that_was_not_explored_far_enough_says_so():
    mdp = tether.MDP.from_function(
        0, lambda s: ["stay", "up"], lambda s, a: {s + (a == "up"): 1.0}, lambda s, a: s, horizon=2
    )
    with pytest.raises(tether.QueryError, match="a state without any action can be reached before the end"):
        tether.review(mdp, tether.Path([1, 2], ["up"]), horizon=2)
