"""Value against influence: the front against the values of all policies, and what each k costs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from brute import Promise, allowed, count_policies, distance, influenced, policies, trajectories
from enumerate import Law, by_plan, hits_of
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import in_package, rules_and_criteria, tiny_worlds

import tether

PENALTIES = ["strength", "closeness"]


# --- Against all policies ------------------------------------------------------------------------------


def held(world, penalty, t, pair):
    """1 - d: how strong the observation's influence on a row is, or how close the row is to the observed one."""
    if penalty == "strength":
        return distance(world.rows[t][pair], world.nominal[pair])
    return 1.0 - distance(world.nominal[world.observed[t]], world.nominal[pair])


def all_points(world, penalty, rule, hits, k, m):
    """(value, influence) of every deterministic policy, of the whole history, that keeps to k and m."""
    start, points = world.path.states[0], []
    kept = None if rule == "assured" else allowed(world, rule, hits, k)
    for one in policies(world, 0, start):
        happening = list(trajectories(world, one, 0, start))
        promise = Promise.of(world, happening)
        if kept is None:
            keeps = promise.keeps_to(world, rule, hits, k)
        else:
            keeps = all((s, a) in kept[t] for t, s, a in promise.taken)
        if keeps and promise.changes <= m:
            total = math.fsum(
                chance * held(world, penalty, t, pair) for chance, pairs, _ in happening for t, pair in enumerate(pairs)
            )
            points.append((promise.value, total))
    return points


def corners_of(points, tie):
    """The corners of the concave hull towards more value and more influence, in order of falling value.

    Those that stand out by no more than rounding are left out.
    """
    best = max(value for value, _ in points)
    at = max((point for point in points if point[0] >= best - tie), key=lambda point: point[1])
    corners = [at]
    while further := [point for point in points if point[1] > at[1] + tie]:
        # The next corner is where the least value is lost for what is gained; of those on a line, the last.
        rate = min((at[0] - value) / (gained - at[1]) for value, gained in further)
        on_line = [(value, gained) for value, gained in further if at[0] - value - rate * (gained - at[1]) <= tie]
        at = max(on_line, key=lambda point: point[1])
        corners.append(at)
    between = [
        corner
        for left, corner, right in zip(corners, corners[1:], corners[2:], strict=False)
        if corner[0] - left[0] + (left[0] - right[0]) / (right[1] - left[1]) * (corner[1] - left[1]) > 1e-7
    ]
    return [corners[0], *between, corners[-1]]


@given(tiny_worlds(), rules_and_criteria(), st.sampled_from(PENALTIES), st.data())
def test_the_front_is_the_hull_of_all_policies(world, asked, penalty, data):
    assume(count_policies(world) <= 200)
    rule, criterion = asked
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    hits = influenced(world, criterion)
    front = world.cf.pareto(m=m, k=k, rule=rule, influence=in_package(criterion), against=penalty)
    points = all_points(world, penalty, rule, hits, k, m)
    scale = max(1.0, *(abs(value) for value, _ in points))
    near, tie = 1e-9 * scale, 1e-12 * scale
    assert front.complete
    assert (front.m, front.against) == (m, penalty)

    # From the most valuable (and of those the most influenced) to the most influenced (and of those the most valuable).
    assert front.values[0] == pytest.approx(max(value for value, _ in points), abs=near)
    assert front.measures[-1] == pytest.approx(max(gained for _, gained in points), abs=near)
    assert front.measures[0] == pytest.approx(
        max(gained for value, gained in points if value >= front.values[0] - tie), abs=near
    )
    assert front.values[-1] == pytest.approx(
        max(value for value, gained in points if gained >= front.measures[-1] - tie), abs=near
    )
    assert np.all(np.diff(front.values) < 0)
    assert np.all(np.diff(front.measures) > 0)

    # Nothing lies above it, and every corner is found.
    for left, right in pairwise(front.points):
        price = (left.value - right.value) / (right.measure - left.measure)
        worth = left.value + price * left.measure
        assert max(value + price * gained for value, gained in points) <= worth + near * (1 + price)
    for value, gained in corners_of(points, tie):
        off = [max(abs(point.value - value), abs(point.measure - gained)) for point in front.points]
        assert min(off) <= 1e-6 * scale

    # Each point is attained by its plan, which keeps to k and m, and is the best at its price.
    hit = hits_of(world, criterion)
    for point in front.points:
        law = Law(world, by_plan(world, point.plan, hit))
        total = law.mean(lambda one: math.fsum(held(world, penalty, t, (s, a)) for t, s, a, _ in one.steps()))
        assert point.value == pytest.approx(law.mean(law.total), abs=near)
        assert point.measure == pytest.approx(total, abs=near)
        assert point.plan.value == point.value
        assert any(abs(value - point.value) <= near and abs(gained - point.measure) <= near for value, gained in points)
        if 0 < point.price < math.inf:
            best = max(value + point.price * gained for value, gained in points)
            assert point.value + point.price * point.measure >= best - near * (1 + point.price)
    prices = [point.price for point in front.points]
    assert prices[0] == 0.0
    assert prices == sorted(prices)
    assert len(prices) == 1 or prices[-1] == math.inf


def bargain():
    """One step, four actions: what was done, the same for nothing more, one worth more, one worth most and far off."""
    #          value  row over (a, b, c); "stay" led to a
    offers = {
        "stay": (0, [0.8, 0.2, 0]),
        "copy": (0, [0.8, 0.2, 0]),
        "mix": (3, [0.4, 0.1, 0.5]),
        "leave": (4, [0, 0, 1]),
    }
    P = np.array([[row for _, row in offers.values()]] + [[np.eye(3)[i]] * 4 for i in range(1, 3)])
    R = np.array([[value for value, _ in offers.values()]] + [[0.0] * 4] * 2)
    mdp = tether.MDP.from_arrays(P, R, states=["a", "b", "c"], actions=list(offers))
    return tether.counterfactual(mdp, tether.Path(["a", "a"], ["stay"]))


def test_a_front_by_hand():
    # Distance: of mix to stay ½, of leave 1. From leave to mix ½ is gained for 1, from mix to stay ½ for 3.
    front = bargain().pareto(m=1, against="closeness")
    assert front.values.tolist() == [4.0, 3.0, 0.0]
    assert front.measures == pytest.approx([0.0, 0.5, 1.0])
    assert [point.price for point in front.points][::2] == [0.0, math.inf]
    assert 2.0 <= front.points[1].price <= 6.0
    assert [point.plan.action(0, "a", 1) for point in front.points] == ["leave", "mix", "stay"]
    assert repr(front) == "<Front: 3 points, value 4 … 0, closeness 0 … 1 of 1>"
    assert repr(front.points[0]) == "<Point: value 4, measure 0 of 1, λ = 0>"


def test_both_sides_of_a_corner_are_searched():
    # Each quarter of influence costs more than the one before: ½, 1, 2½, 4. The first corner found is in the middle.
    offers = [(0, [1.0, 0.0]), (4, [0.75, 0.25]), (6.5, [0.5, 0.5]), (7.5, [0.25, 0.75]), (8, [0.0, 1.0])]
    P = np.array([[row for _, row in offers], [[0.0, 1.0]] * 5])
    mdp = tether.MDP.from_arrays(P, [[value for value, _ in offers], [0] * 5])
    front = tether.counterfactual(mdp, tether.Path([0, 0], [0])).pareto(m=1, against="closeness")
    assert front.values.tolist() == [8.0, 7.5, 6.5, 4.0, 0.0]
    assert front.measures == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


def test_a_front_of_one_point():
    front = bargain().pareto(m=0)
    assert len(front.points) == 1
    assert front.complete
    assert front.values.tolist() == [0.0]
    assert front.points[0].price == 0.0
    assert front.points[0].plan.action(0, "a", 0) == "stay"


def test_a_value_that_is_higher_by_rounding_only():
    # "far" and "near" are worth the same but for one rounding, and near is nearer: far is no point of the front.
    assert 0.1 + 0.2 > 0.3
    rows = {"stay": [0.5, 0.5, 0], "far": [0, 0, 1], "near": [0.5, 0.25, 0.25]}
    P = np.array([list(rows.values()), *([np.eye(3)[i]] * 3 for i in range(1, 3))])
    mdp = tether.MDP.from_arrays(P, [[0, 0.1 + 0.2, 0.3], [0] * 3, [0] * 3], actions=list(rows))
    front = tether.counterfactual(mdp, tether.Path([0, 0], ["stay"])).pareto(m=1, against="closeness")
    assert [point.plan.action(0, 0, 1) for point in front.points] == ["near", "stay"]
    assert front.measures == pytest.approx([0.75, 1.0])
    assert [point.price for point in front.points] == [0.0, math.inf]


def two_steps(values, discount, final_reward=None):
    """Two steps, in each of which one stays influenced or leaves that behind; ``values[t]`` is what leaving earns."""
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]]])  # stay, leave
    R = np.zeros((2, 2, 2))
    R[:, :, 1] = np.array(values)[:, None]
    mdp = tether.MDP.from_arrays(P, R, actions=["stay", "leave"], reward_axes="tsa")
    mdp = mdp.with_objective(discount=discount, final_reward=final_reward)
    return tether.counterfactual(mdp, tether.Path([0, 0, 0], ["stay", "stay"]))


@pytest.mark.parametrize("discount", [1.0, 0.5, 0.0])
def test_rewards_are_discounted_and_influence_is_not(discount):
    # Leaving earns 4 at either time; staying has influence ½ a step: its even row was moved to the outcome 0.
    front = two_steps([4, 4], discount).pareto(m=2)
    late = 4 * discount
    corners = {(4 + late, 0.0), (4.0, 0.5), (0.0, 1.0)}
    if discount == 1.0:  # on a line: the middle is no corner
        corners.discard((4.0, 0.5))
    if discount == 0.0:  # leaving at t = 1 earns nothing: staying then costs nothing
        corners.discard((4.0, 0.0))
    found = {(round(point.value, 9), round(point.measure, 9)) for point in front.points}
    assert corners <= found
    assert found <= {(4 + late, 0.0), (4.0, 0.5), (late, 0.5), (0.0, 1.0)}


def test_a_final_reward_is_discounted_too():
    # Ending in 1, as who leaves last does, is worth 4·½²: leave twice 4 + 2 + 1, only first 4, only last 2 + 1.
    cf = two_steps([4, 4], 0.5, final_reward={1: 4.0})
    front = cf.pareto(m=2)
    assert front.values.tolist() == [7.0, 4.0, 0.0]
    assert front.measures == pytest.approx([0.0, 0.5, 1.0])


@pytest.mark.parametrize("penalty", PENALTIES)
def test_fronts_of_the_cases(grid, epidemic, penalty):
    for cf in (grid, epidemic):
        front = cf.pareto(m=2, against=penalty)
        assert front.complete
        assert front.values[0] == pytest.approx(cf.plan(cf.T + 1, 2).value)
        rates = -np.diff(front.values) / np.diff(front.measures)
        assert np.all(rates > 0)
        assert np.all(np.diff(rates) > -1e-6 * rates[:-1])  # concave
        for point in front.points:
            again = point.plan.evaluate()
            assert point.value == pytest.approx(again.mean)
            if penalty == "strength":
                assert point.measure == pytest.approx(again.tailoring.strength.sum())
            assert np.all(point.plan.sample(20, rng=1).actions[:, 0] < cf.mdp.n_actions)


def test_the_paths_own_price(grid):
    # As m = 0 leaves only the observed path, its influence is what the observed rows hold, by either measure.
    front = grid.pareto(m=0)
    strength = sum(
        grid.strength(t, s, a) for t, (s, a) in enumerate(zip(grid.path.states, grid.path.actions, strict=False))
    )
    assert front.values.tolist() == [-897.0]
    assert front.measures == pytest.approx([strength])
    assert grid.pareto(m=0, against="closeness").measures == pytest.approx([11.0])


def test_a_hard_limit_as_well(grid):
    within = grid.pareto(m=2, k=6, against="closeness")
    assert within.values[0] == pytest.approx(grid.plan(6, 2).value)
    assert within.values[0] < grid.pareto(m=2, against="closeness").values[0] + 1e-9
    assert grid.pareto(m=2, k=5).values.tolist() == [-897.0]  # nothing but the observed path is allowed
    assert grid.pareto(m=2, k=99).values == pytest.approx(grid.pareto(m=2).values)
    assert grid.pareto(m=99).m == 11


def test_the_search_may_be_stopped(grid):
    whole = grid.pareto(m=11, against="closeness")
    assert whole.complete
    assert len(whole.points) > 3
    part = grid.pareto(m=11, against="closeness", limit=3)
    assert not part.complete
    assert 2 <= len(part.points) <= 3
    assert part.values[0] == pytest.approx(whole.values[0])
    assert part.measures[-1] == pytest.approx(whole.measures[-1])
    for point in part.points:  # what was found before stopping is as good as the rest
        off = np.abs(whole.values - point.value) + np.abs(whole.measures - point.measure)
        assert off.min() < 1e-6


# --- What each k costs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["definition", "published", "printed", "assured"])
def test_what_each_k_costs(grid, rule):
    front = grid.pareto(m=2, rule=rule)
    values = [grid.plan(k, 2, rule=rule).value for k in range(1, 13)]
    assert front.lost == pytest.approx([values[-1] - value for value in values])
    assert front.lost[-1] == 0.0
    assert np.all(np.diff(front.lost) <= 0)
    assert front.lost.tolist() == grid.sweep(rule=rule).lost(2).tolist()
    assert front.lost.tolist() == grid.pareto(m=2, k=3, rule=rule).lost.tolist()  # whatever the limit


def test_a_sweep_by_k_and_m(epidemic):
    table = epidemic.sweep(ks=[3, 8], ms=[1, 4])
    assert table.value(3, 1) == table.values[0, 0] == epidemic.plan(3, 1).value
    assert table.value(99, 4) == table.values[1, 1] == -1.0
    assert table.lost(1).tolist() == [table.values[1, 0] - table.values[0, 0], 0.0]
    assert epidemic.sweep().lost(99).tolist() == epidemic.sweep().lost(7).tolist()
    with pytest.raises(tether.QueryError, match="k = 4, m = 1 was not asked for in this sweep"):
        table.value(4, 1)
    with pytest.raises(tether.QueryError, match="the loss needs m = 2 and k = 8 among those asked for"):
        table.lost(2)
    with pytest.raises(tether.QueryError, match="the loss needs m = 1 and k = 8 among those asked for"):
        epidemic.sweep(ks=[3]).lost(1)


def test_a_sweep_prints_a_line_for_each_k(epidemic):
    table = epidemic.sweep()
    lines = str(table).splitlines()
    assert len(lines) == 1 + 8
    assert lines[0].split() == ["k", "\\", "m", *map(str, range(8))]
    assert len({len(line) for line in lines}) == 1  # columns line up
    for k, line in enumerate(lines[1:], start=1):
        assert line.split() == [str(k), *(f"{table.value(k, m):.2f}" for m in range(8))]
    assert repr(table).startswith("<Sweep: k = 1 … 8, m = 0 … 7, definition, support: values -38 … -1")


# --- Refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": -1}, "m must be a whole number ≥ 0, not -1"),
        ({"m": 1.5}, "m must be a whole number ≥ 0, not 1.5"),
        ({"m": True}, "m must be a whole number ≥ 0, not True"),
        ({"k": 0}, "k must be a whole number ≥ 1, not 0"),
        ({"k": "2"}, "k must be a whole number ≥ 1, not '2'"),
        (
            {"against": "price"},
            "against must be 'strength', 'closeness' or a property \\(tether.reach …\\), not 'price'",
        ),
        ({"against": None}, "against must be 'strength', 'closeness' or a property \\(tether.reach …\\), not None"),
        ({"limit": 1}, "limit must be a whole number ≥ 2, not 1"),
        ({"limit": None}, "limit must be a whole number ≥ 2, not None"),
        ({"rule": "best"}, "rule must be one of"),
        ({"influence": "strong"}, "influence must be 'support'"),
        ({"rule": "printed", "influence": tether.tv(0.1)}, "the rule 'printed' is made of supports"),
    ],
)
def test_options_that_are_none(grid, options, message):
    with pytest.raises(tether.QueryError, match=message):
        grid.pareto(**{"m": 1, **options})


def test_progress_is_told(grid):
    noted = []
    front = grid.pareto(m=3, progress=noted.append)
    assert noted[0] == 2
    assert noted == sorted(noted)
    assert noted[-1] >= len(front.points) - 1


def test_a_plan_that_gave_its_gain_away_says_so():
    front = tether.counterfactual(tether.cases.epidemic().mdp, tether.cases.epidemic().path).pareto(m=4)
    still = [point.plan for point in front.points if not point.plan.explain().changes]
    assert still  # the last point keeps to what was observed
    for plan in still:
        assert plan.price > 0
        assert "Change nothing: at this price of influence no change pays." in plan.explain().sentences()


def test_a_front_as_tables_and_as_a_figure():
    case = tether.cases.grid_world()
    front = tether.counterfactual(case.mdp, case.path).pareto(m=3)
    table = front.to_arrow()
    assert table.column_names == ["price", "value", front.against, "k", "m"]
    assert table.column("value").to_pylist() == front.values.tolist()
    assert table.column(front.against).to_pylist() == front.measures.tolist()
    ax = front.plot()
    assert ax.lines[0].get_xdata().tolist() == front.measures.tolist()
    assert ax.get_xlabel() == f"expected {front.against}, summed over the 11 steps"


def test_every_table_has_its_pandas_twin():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    plan = cf.plan(6, 3)
    for one in (cf.sweep(), plan, plan.evaluate(), plan.explain(), cf.pareto(m=2)):
        frame, table = one.to_pandas(), one.to_arrow()
        assert list(frame.columns) == table.column_names
        assert len(frame) == table.num_rows > 0
