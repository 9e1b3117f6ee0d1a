"""Pooled rows, rewards and advantages against slow twins: a likelihood on a grid, linear solves, matrices."""

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hospital import ACTIONS, N_STATES, STATES, hospital, learned, log_of
from hypothesis import given
from hypothesis import strategies as st
from logs import logs
from worlds import FEWER

import tether
from tether.learning.folds import without
from tether.model.pooling import likely_shares, most_likely_share
from tether.observation.episodes import Episodes

# --- The slow twin ----------------------------------------------------------------------------------


def counted(paths):
    """n[s][a][j] of paths with recorded outcomes, in plain dictionaries."""
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for path in paths:
        for s, a, j in zip(path.states[:-1], path.actions, path.states[1:], strict=False):
            found[s][a][j] += 1
    return found


def usual_rows(n):
    """μ_s as a dictionary."""
    rows = {}
    for s, actions in n.items():
        total = defaultdict(int)
        for row in actions.values():
            for j, times in row.items():
                total[j] += times
        size = sum(total.values())
        rows[s] = {j: times / size for j, times in total.items()}
    return rows


def absorbed(n, ends):
    """The expectation of ``ends`` where usual practice ends, by a dense linear solve; reward 0 on the way."""
    mu, living = usual_rows(n), list(n)
    place = {s: i for i, s in enumerate(living)}
    A, b = np.eye(len(living)), np.zeros(len(living))
    for s, row in mu.items():
        for j, chance in row.items():
            if j in place:
                A[place[s], place[j]] -= chance
            else:
                b[place[s]] += chance * ends.get(j, 0.0)
    value = dict(zip(living, np.linalg.solve(A, b), strict=True))
    return lambda j: value.get(j, ends.get(j, 0.0))


def differences(n, value):
    """(d²/v, h, c) of all pairs seen at least twice, where others were seen too."""
    found = []
    for actions in n.values():
        steps = [(a, value(j)) for a, row in actions.items() for j, times in row.items() for _ in range(times)]
        size = len(steps)
        mean = math.fsum(w for _, w in steps) / size
        variance = math.fsum((w - mean) ** 2 for _, w in steps) / max(size - 1, 1)
        times = {a: sum(row.values()) for a, row in actions.items()}
        for a, times_a in times.items():
            if 2 <= times_a < size and variance > 1e-20:
                d = math.fsum(w for b, w in steps if b == a) / times_a - mean
                h = (1 - times_a / size) ** 2 + sum((m / size) ** 2 for b, m in times.items() if b != a)
                found.append((d * d / variance, h, (1 - times_a / size) / times_a))
    return found


def likelihood(found, rho):
    return sum(-0.5 * (math.log(rho * h + c) + z / (rho * h + c)) for z, h, c in found)


def grid_share(found):
    """ρ of the largest likelihood on a grid, but at most what is exceeded with 81 %; 0 if the likelihood is not larger
    than that of 0 by 2.706.
    """
    grid = np.concatenate((np.linspace(1e-6, 0.2, 4001), np.linspace(0.2, 0.999, 2001)))
    heights = [likelihood(found, rho) for rho in grid]
    best = int(np.argmax(heights))
    if heights[best] - likelihood(found, 0.0) < 2.706:
        return 0.0
    sizes = np.linspace(0, np.sqrt(0.999), 4001)
    weight = np.cumsum(np.exp([likelihood(found, size**2) - heights[best] for size in sizes]))
    return min(float(grid[best]), float(sizes[np.searchsorted(weight, weight[-1] * 1.5 / 8)] ** 2))


# --- How far to pool ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "patients", "effect"), [(0, 400, 0.6), (1, 150, 1.0), (2, 300, 0.0), (3, 700, 0.8)])
def test_the_share_of_effects_has_the_largest_likelihood(seed, patients, effect):
    log = log_of(hospital(seed, effect), patients, seed)
    n = counted(log.values())
    found = differences(n, absorbed(n, {"well": 1.0}))
    pooling = learned(log).learned.pooling
    assert pooling.pairs == len(found)
    assert np.sqrt(pooling.rho) == pytest.approx(np.sqrt(grid_share(found)), abs=1 / 300)  # one of 400 values of √ρ
    assert pooling.values == "return"
    if pooling.rho > 0:
        real = [(pooling.rho * h / (pooling.rho * h + c), 1 / c) for _, h, c in found]
        assert min(one for one, _ in real) < pooling.share < max(one for one, _ in real)
        assert pooling.kappa == pytest.approx(1 / pooling.rho - 1)


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0.01, 0.5)), min_size=1, max_size=8))
def test_the_search_finds_the_highest_point_of_a_likelihood_with_several(found):
    squares, chances = np.array(found).T
    rho = most_likely_share(squares, chances, 0.999)
    twin = [(z, 1.0, c) for z, c in found]
    assert likelihood(twin, rho) >= max(likelihood(twin, one) for one in np.geomspace(1e-6, 0.999, 500)) - (
        2.7061 if rho == 0 else 1e-6
    )


def test_likely_shares_are_quantiles_of_the_likelihood():
    rng = np.random.default_rng(1)
    chances = rng.uniform(0.01, 0.1, 200)
    squares = rng.normal(0, np.sqrt(0.03 + chances)) ** 2
    sizes = np.linspace(0, np.sqrt(0.999), 20_001)
    logs = np.array(
        [likelihood([(z, 1.0, c) for z, c in zip(squares, chances, strict=True)], size**2) for size in sizes]
    )
    weight = np.cumsum(np.exp(logs - logs.max()))
    for i, rho in enumerate(likely_shares(squares, chances)):
        exact = sizes[np.searchsorted(weight, weight[-1] * (i + 0.5) / 8)]
        assert np.sqrt(rho) == pytest.approx(exact, abs=1 / 300)


def test_logs_that_differ_no_more_than_by_chance_have_the_same_row_for_all_actions():
    paths = [tether.Path(["a", after], [did]) for did in "xyz" for after in ("good", "bad", "good", "bad")]
    mdp = tether.learn(paths)
    assert (mdp.learned.pooling.rho, mdp.learned.pooling.kappa, mdp.learned.pooling.share) == (0.0, math.inf, 0.0)
    assert mdp.learned.pooling.sentence.startswith("No effect of any action can be shown: 3 pairs of state and action")
    for did in "xyz":
        assert mdp.row("a", did)[1].tolist() == [0.5, 0.5]
    alone = tether.learn([tether.Path(["a", "b"], ["x"])] * 3)
    assert "in no state were several actions seen often enough" in alone.learned.pooling.sentence


def test_without_rewards_effects_are_measured_in_ends_and_without_ends_in_rows():
    rng = np.random.default_rng(0)
    ends = [tether.Path(["s", "good" if rng.random() < p else "bad"], [a]) for a, p in (("x", 0.9), ("y", 0.2))
            for _ in range(60)]  # fmt: skip
    by_ends = tether.learn(ends).learned.pooling
    n = counted(ends)
    assert by_ends.values == "ends"
    twice = 2 * differences(n, absorbed(n, {"good": 1.0}))
    assert np.sqrt(by_ends.rho) == pytest.approx(np.sqrt(grid_share(twice)), abs=1 / 300)
    walk = [tether.Path([s, t], [a]) for s in "ab" for a, p in (("x", 0.9), ("y", 0.2))
            for t in np.where(rng.random(50) < p, "a", "b").tolist()]  # fmt: skip
    by_rows = tether.learn(walk).learned.pooling
    assert by_rows.values == "rows"
    n = counted(walk)
    both = differences(n, lambda j: float(j == "a")) + differences(n, lambda j: float(j == "b"))
    assert np.sqrt(by_rows.rho) == pytest.approx(np.sqrt(grid_share(both)), abs=1 / 300)


def test_another_objective_pools_anew():
    rng = np.random.default_rng(0)
    rows = {"x": (0.45, 0.45, 0.1), "y": (0.1, 0.8, 0.1), "z": (0.8, 0.1, 0.1)}
    paths = [
        tether.Path(["s", rng.choice(["a", "b", "c"], p=p).item()], [did]) for did, p in rows.items() for _ in range(80)
    ]
    mdp = tether.learn(paths)
    shown = mdp.with_objective(final_reward={"a": 1.0})
    assert shown.learned.pooling.values == "return"
    assert shown.learned.pooling.rho > 0.05
    hidden = shown.with_objective(final_reward={"c": 1.0})
    assert hidden.learned.pooling.rho == 0.0
    assert hidden.row("s", "x")[1].tolist() == hidden.row("s", "y")[1].tolist()
    assert shown.with_objective(discount=1.0).row("s", "x")[1].tolist() == shown.row("s", "x")[1].tolist()
    flat = tether.learn(paths, prior=1)
    assert flat.with_objective(final_reward={"a": 1.0}).form.probability is flat.form.probability


# --- Rows and draws -----------------------------------------------------------------------------------


@given(logs())
def test_rows_are_counts_and_pseudo_counts_of_the_common_row(log):
    mdp = tether.learn(Episodes.from_columns(**log.columns()), empty_rewards="zero")
    n, rho = counted(log.paths.values()), mdp.learned.pooling.rho
    for s, actions in n.items():
        support = {j for row in actions.values() for j in row}
        taken = {a: actions[a] for a in mdp.actions_in(s)}  # also those without a recorded outcome
        times = {a: sum(row.values()) for a, row in taken.items()}
        weight = {a: m if rho == 0 else m / (rho * m + 1 - rho) for a, m in times.items()}  # ∝ 1 / (1/m + ρ/(1 - ρ))
        common = {
            j: sum(weight[a] * row[j] / times[a] for a, row in taken.items() if times[a]) / sum(weight.values())
            for j in support
        }
        for a, row in taken.items():
            found = dict(zip(*mdp.row(s, a), strict=True))
            assert found.keys() == support
            for j in support:
                kappa = math.inf if rho == 0 else 1 / rho - 1
                exact = common[j] if rho == 0 else (row[j] + kappa * common[j]) / (times[a] + kappa)
                assert found[j] == pytest.approx(exact, rel=1e-9)


@given(logs())
def test_every_path_of_the_log_stays_possible(log):
    mdp = tether.learn(Episodes.from_columns(**log.columns()), empty_rewards="mean")
    for path in log.paths.values():
        assert tether.counterfactual(mdp, path, horizon=path.T).T <= path.T


def test_an_action_whose_outcome_was_never_recorded_has_the_common_row():
    paths = [tether.Path(["a", "b"], ["x"])] * 3 + [tether.Path(["a", "c"], ["x"]), tether.Path(["a"], ["y"])]
    mdp = tether.learn(paths)
    assert mdp.row("a", "y")[0] == mdp.row("a", "x")[0] == ("b", "c")
    assert mdp.row("a", "y")[1].tolist() == [0.75, 0.25]
    assert mdp.learned.end is None
    assert tether.learn(paths, end=None).learned.dropped == (("a", "y", 0),)
    assert tether.learn([tether.Path(["a", "b"], ["x"]), tether.Path(["b"], ["y"])]).row("b", "y")[0] == ("(end)",)


def test_draws_of_a_state_with_one_action_have_the_spread_of_its_counts():
    """Whatever ρ is: both steps of the draw together are a Dirichlet of the counts, up to the last observation."""
    paths = [tether.Path(["s", j], ["x"]) for j in ["t"] * 60 + ["u"] * 40]
    effect = [tether.Path(["r", "t" if i < p else "u"], [a]) for a, p in (("x", 45), ("y", 15)) for i in range(60)]
    mdp = tether.learn(paths + effect).with_objective(final_reward={"t": 1.0})
    assert mdp.learned.pooling.rho > 0.01
    drawn = np.array([one.row("s", "x")[1][0] for one in tether.posterior(mdp, 4000, rng=1).models()])
    assert drawn.mean() == pytest.approx(0.6, abs=5 * np.sqrt(0.24 / 100 / 4000))
    assert drawn.var() == pytest.approx(0.24 / 100, rel=0.12)


def test_draws_have_the_moments_of_the_two_steps():
    counts = {"x": (45, 15), "y": (20, 40), "z": (3, 2)}
    paths = [tether.Path(["s", j], [a]) for a, row in counts.items() for j, m in zip("tu", row, strict=True)
             for _ in range(m)]  # fmt: skip
    mdp = tether.learn(paths).with_objective(final_reward={"t": 1.0})
    rng, pooling = np.random.default_rng(5), mdp.learned.pooling
    twin = []
    for rho in pooling.likely:
        kappa = 1 / rho - 1
        weight = {a: sum(row) * (1 + kappa) / (sum(row) + kappa) for a, row in counts.items()}
        total = sum(weight.values())
        common = sum(weight[a] * row[0] / sum(row) for a, row in counts.items()) / total
        share = rng.beta(total * common, total * (1 - common), 4000)
        twin += rng.beta(3 + kappa * share, 2 + kappa * (1 - share)).tolist()
    drawn = np.array([one.row("s", "z")[1][0] for one in tether.posterior(mdp, 4000, rng=2).models()])
    assert drawn.mean() == pytest.approx(np.mean(twin), abs=5 * np.std(twin) / np.sqrt(4000))
    assert drawn.std() == pytest.approx(np.std(twin), rel=0.06)


# --- Rewards ------------------------------------------------------------------------------------------


def test_rewards_that_do_not_vary_are_known_and_unseen_ones_are_those_of_the_same_outcome():
    paths = [tether.Path(["s", j], [a], [cost + worth]) for a, cost in (("x", -1), ("y", -3))
             for j, worth in (("t", 10), ("u", 0)) for _ in range(2)]  # fmt: skip
    paths += [tether.Path(["s", "v"], ["x"], [-21])] * 2
    mdp = tether.learn(paths)
    assert (mdp.reward("s", "x", "t"), mdp.reward("s", "y", "t"), mdp.reward("s", "y", "v")) == (9.0, 7.0, -21.0)
    assert mdp.learned.pooling.reward_sd == 0.0


def test_rewards_that_vary_are_drawn_together_as_far_as_chance_made_them_differ():
    """An outcome that is only in the rewards is no back door: of noise nothing is left, of an effect most."""
    rng = np.random.default_rng(3)

    def log(effect):
        return [tether.Path([f"s{s}", "end"], [a], [rng.normal(effect * (a == "x"), 1.0)])
                for s in range(30) for a in "xy" for _ in range(8)]  # fmt: skip

    def apart(paths):
        mdp = tether.learn(paths)
        shown = np.mean([mdp.reward(f"s{s}", "x") - mdp.reward(f"s{s}", "y") for s in range(30)])
        return mdp.learned.pooling.reward_rho, shown

    assert apart(log(0.0))[0] == 0.0
    assert apart(log(0.0))[1] == 0.0
    rho, shown = apart(log(2.0))
    assert rho > 0.3
    assert 1.4 < shown < 2.1


def test_mean_rewards_of_pairs_are_drawn_together_too():
    rng = np.random.default_rng(4)
    paths = [tether.Path(["s", "t"], [a], [rng.normal()]) for a in "wxyz" for _ in range(10)]
    mdp = tether.learn(paths, rewards="pair")
    mean = np.mean([path.rewards[0] for path in paths])
    assert [mdp.reward("s", a) for a in "wxyz"] == pytest.approx([mean] * 4)


# --- Usual practice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_usual_practice_is_worth_what_a_linear_solve_says(seed):
    log = log_of(hospital(seed, 0.6), 200, seed)
    usual, n = tether.practice(learned(log)), counted(log.values())
    value = absorbed(n, {"well": 1.0})
    for s in STATES:
        assert usual.value(s) == pytest.approx(value(s) if s != "well" else 0.0, abs=1e-9)  # the reward came before
    for s, actions in n.items():
        size = sum(sum(row.values()) for row in actions.values())
        assert usual.policy[s] == pytest.approx({a: sum(row.values()) / size for a, row in actions.items()})


def test_where_no_episode_ends_usual_practice_is_worth_what_it_earns_in_the_longest():
    paths = [tether.Path(["a", "b", "a", "b"], ["x", "x", "x"], [1, 2, 1]), tether.Path(["b", "b"], ["x"], [2])]
    usual = tether.practice(tether.learn(paths))

    def by_hand(state, steps):
        if steps == 0:
            return 0.0
        return (
            1 + by_hand("b", steps - 1) if state == "a" else 2 + (by_hand("a", steps - 1) + by_hand("b", steps - 1)) / 2
        )

    assert (usual.value("a"), usual.value("b")) == pytest.approx((by_hand("a", 3), by_hand("b", 3)))


def test_advantages_are_those_of_the_posterior_of_the_normal_model():
    """θ_a ~ N(θ, ρv), x_a ~ N(θ_a, v/n_a), θ flat: conditioned by matrices; as wide as the widest of the likely ρ."""
    log = log_of(hospital(4, 0.8), 300, 4)
    mdp, n = learned(log), counted(log.values())
    usual, pooling = tether.practice(mdp), mdp.learned.pooling
    assert pooling.rho > 0
    value = absorbed(n, {"well": 1.0})
    found = {(one.state, one.action): one for one in usual.advantages}
    for s, actions in n.items():
        x = np.array([np.average([value(j) for j in row], weights=list(row.values())) for row in actions.values()])
        times = np.array([sum(row.values()) for row in actions.values()])
        steps = [value(j) for row in actions.values() for j, m in row.items() for _ in range(m)]
        v, L = np.var(steps, ddof=1), np.eye(x.size) - times / times.sum()
        moments = []
        for rho in (pooling.rho, *pooling.likely):
            prior = rho * v * np.eye(x.size) + 1e6 * np.ones((x.size, x.size))
            gain = prior @ np.linalg.inv(prior + np.diag(v / times))
            moments.append((L @ (gain @ x), np.diag(L @ (prior - gain @ prior) @ L.T)))
        mean = moments[0][0]
        sd = np.sqrt(np.max([spread + (other - mean) ** 2 for other, spread in moments[1:]], axis=0))
        for i, a in enumerate(actions):
            one = found[s, a]
            assert (one.n, one.share) == (times[i], pytest.approx(times[i] / times.sum()))
            assert one.advantage == pytest.approx(mean[i], abs=1e-6)
            assert one.sd == pytest.approx(sd[i], abs=1e-5)
            assert one.better == pytest.approx(0.5 * (1 + math.erf(one.advantage / one.sd / math.sqrt(2))), abs=1e-9)


def test_known_costs_are_part_of_an_advantage_in_full():
    paths = [
        tether.Path(["s", j], [a], [cost]) for a, cost in (("x", -1.0), ("y", -3.0)) for j in "tu" for _ in range(9)
    ]
    one, other = tether.practice(tether.learn(paths)).advantages
    assert (one.advantage, other.advantage) == pytest.approx((1.0, -1.0))
    assert one.better > 0.99 > 0.01 > other.better


def test_usual_practice_as_a_table_and_in_words():
    usual = tether.practice(learned(log_of(hospital(0, 1.0), 2000, 0)))
    table = usual.to_arrow()
    assert table.column_names == ["state", "action", "n", "share", "advantage", "sd", "better"]
    assert table.num_rows == len(usual.advantages) == N_STATES * len(ACTIONS)
    assert table.to_pylist()[7]["advantage"] == usual.advantages[7].advantage
    assert list(usual.to_pandas()["n"]) == [one.n for one in usual.advantages]
    assert "The largest difference: " in str(usual)
    assert "<table" in usual._repr_html_()
    low, high = usual.advantages[0].interval(0.9)
    assert high - low == pytest.approx(2 * 1.6449 * usual.advantages[0].sd, rel=1e-3)


# --- An episode left out --------------------------------------------------------------------------------


@given(logs(), st.data())
@FEWER
def test_a_model_without_an_episode_has_the_counts_of_the_others(log, data):
    episodes = Episodes.from_columns(**log.columns())
    mdp = tether.learn(episodes, empty_rewards="zero")
    name = data.draw(st.sampled_from(list(log.paths)))
    left = without(mdp, episodes[name])
    others = counted([path for one, path in log.paths.items() if one != name])
    own = counted([log.paths[name]])
    rest = left.counts.transitions
    for s in mdp.states:
        known = sum(sum(row.values()) for row in others[s].values())
        n = sum(sum(row.values()) for row in own[s].values()) if s in own else 0
        for a in mdp.actions_in(s) if n else ():
            entries = mdp.entries(mdp.pair_index(s, a))
            for e in range(entries.start, entries.stop):
                j = mdp.states[int(mdp.form.next_state[e])]
                elsewhere, here = (sum(row[j] for row in seen[s].values()) for seen in (others, own))
                kept = others[s][a][j]
                if known == 0:  # one visit of usual practice: all actions are alike
                    kept = sum(own[s][a].values()) / n * here / n
                elif elsewhere == 0 and here:  # half a count, shared by the actions that led there
                    kept = 0.5 * own[s][a][j] / here
                assert rest[e] == pytest.approx(kept, abs=1e-12)
    assert tether.counterfactual(left, episodes[name]).T <= log.paths[name].T
    np.testing.assert_allclose(np.add.reduceat(left.form.probability, left.form.row_start[:-1]), 1.0, rtol=1e-12)


def test_only_an_episode_of_the_log_can_be_left_out():
    mdp = tether.learn([tether.Path(["a", "b"], ["x"]), tether.Path(["a", "c"], ["x"])])
    with pytest.raises(tether.QueryError, match="not one of those that the model was learned from"):
        without(without(mdp, tether.Path(["a", "b"], ["x"])), tether.Path(["a", "b"], ["x"]))
    flat = tether.learn([tether.Path(["a", j], ["x"]) for j in "bbc"], prior=1)
    assert without(flat, tether.Path(["a", "b"], ["x"])).row("a", "x")[1].tolist() == [0.5, 0.5]


# --- What is kept ---------------------------------------------------------------------------------------


def test_a_saved_model_remembers_its_pooling(tmp_path):
    mdp = learned(log_of(hospital(1, 0.8), 300, 1), minimum=20)
    mdp.save(tmp_path / "model")
    again = tether.MDP.load(tmp_path / "model")
    assert again.learned.pooling == mdp.learned.pooling
    assert again.counts.longest == mdp.counts.longest
    assert again.learned == mdp.learned
    assert again.learned.advisable.tolist() == mdp.learned.advisable.tolist()
    assert again.with_objective(discount=0.9).learned.pooling == mdp.with_objective(discount=0.9).learned.pooling
    assert replace(again, counts=None).learned is None
