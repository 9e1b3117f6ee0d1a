"""Which decisions mattered: against enumeration of every path, in every small world."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from brute import Best, influenced, smallest_k
from hypothesis import assume, given
from hypothesis import strategies as st
from learned import clinic
from worlds import FEWER, SUPPORT, World, tiny_worlds, worlds

import tether
from tether.errors import QueryError
from tether.evaluation.one_change import one_could_differ

Episode = tuple[float, list[Any], list[Any]]  # probability, states, actions


def following(world: World, t: int, s: Any) -> list[Episode] | None:
    """Every way from s at t to the end, doing what was done; None where that is not possible."""
    if t == world.T:
        return [(1.0, [s], [])]
    there = world.available(s)
    actions = [world.path.actions[t]] if world.path.actions[t] in there else there
    if world.path.actions[t] not in there and any(world.changed(t, s, a) for a in there):
        return None
    episodes = [one_way(world, t, s, a) for a in actions]
    if any(one is None for one in episodes):
        return None
    return max(episodes, key=lambda some: expected(world, t, some))  # several only where nothing can be changed


def one_way(world: World, t: int, s: Any, a: Any) -> list[Episode] | None:
    """The same, with action a at t."""
    found = []
    for j, p in world.rows[t][s, a].items():
        rest = following(world, t + 1, j)
        if rest is None:
            return None
        found += [(p * chance, [s, *states], [a, *actions]) for chance, states, actions in rest]
    return found


def expected(world: World, t: int, episodes: list[Episode]) -> float:
    """Return from t on, in the money of time 0."""
    total = []
    for chance, states, actions in episodes:
        steps = enumerate(zip(actions, pairwise(states), strict=True), start=t)
        earned = [world.discount**u * world.earn(u, s, a, j) for u, (a, (s, j)) in steps]
        total.append(chance * math.fsum([*earned, world.discount**world.T * world.last(states[-1])]))
    return math.fsum(total)


def before(world: World, t: int) -> float:
    states = world.path.states
    return math.fsum(world.discount**u * world.earn(u, *world.observed[u], states[u + 1]) for u in range(t))


def close(value: float | None, other: float | None) -> bool:
    if value is None or other is None:
        return value is other
    return value == pytest.approx(other, rel=1e-9, abs=1e-9)


def labelled(world: World, draw: Any) -> tuple[tether.records.CounterfactualMDP, set[Any] | None]:
    """The world with labels on some states; and the states of the outcome that happened, from the definition."""
    cf = world.cf
    some = draw(st.lists(st.sampled_from(world.states), unique=True, max_size=3))
    mdp = cf.mdp.with_labels({"ended": some}) if some else cf.mdp
    cf = tether.counterfactual(mdp, world.path, cf.mechanism)
    if not world.path.last_recorded:
        return cf, None
    last = world.path.states[-1]
    if last in some:
        return cf, set(some)
    stays = all(world.nominal[last, a].keys() == {last} for a in world.available(last))
    return cf, {last} if stays else None


@FEWER
@given(worlds(max_steps=4), st.data())
def test_had_only_this_action_been_different(world: World, data: Any) -> None:
    cf, outcome = labelled(world, data.draw)
    decisions = cf.decisions()
    assert [(row.t, row.action) for row in decisions.rows] == [
        (t, a) for t, (s, _) in enumerate(world.observed) for a in world.available(s)
    ]
    for row in decisions.rows:
        episodes = one_way(world, row.t, row.state, row.action)
        assert row.is_observed == (row.action == world.path.actions[row.t])
        if episodes is None:
            assert (row.value, row.gain, row.necessity) == (None, None, None)
            assert "is not available" in row.reason
            continue
        value = before(world, row.t) + expected(world, row.t, episodes)
        assert close(row.value, value)
        assert close(row.gain, value - world.observed_return())
        assert row.reason is None
        if outcome is None:
            assert row.necessity is None
            continue
        missed = math.fsum(chance for chance, states, _ in episodes if states[-1] not in outcome)
        assert close(row.necessity, missed)


@FEWER
@given(worlds(max_steps=4, max_states=5), st.integers(1, 5))
def test_with_the_best_after_it(world: World, m: int) -> None:
    free = Best(world, "definition", influenced(world, SUPPORT), world.T + 1)
    for row in world.cf.decisions(m=m).rows:
        value = free.action_value(row.t, (row.state, row.action), min(m, world.T), 0)
        expected = None if value == -math.inf else before(world, row.t) + world.discount**row.t * value
        if expected is None and row.is_observed:
            continue  # nothing changed yet: what was done is always there
        assert close(row.best, expected)


@FEWER
@given(tiny_worlds(), st.sampled_from(["definition", "published", "printed"]))
def test_which_tether_allows_it(world: World, rule: str) -> None:
    least = smallest_k(world, rule, influenced(world, SUPPORT))
    decisions = world.cf.decisions(rule=rule)
    for row in decisions.rows:
        assert row.needed_k == least[row.t, row.state, row.action]
        assert (row in decisions.within(2)) == (row.needed_k <= 2)


@FEWER
@given(worlds(max_steps=4))
def test_the_best_is_that_of_plans_and_the_observed_action_changes_nothing(world: World) -> None:
    for m in (1, 2):
        decisions = world.cf.decisions(m=m)
        plan = world.cf.plan(k=world.T + 1, m=m)
        best = max(row.best for row in decisions.at(0) if row.best is not None)
        assert close(best, plan.value)
        for row in decisions.rows:
            if row.is_observed:
                assert row.value == decisions.observed_value
                assert row.necessity in (None, 0.0)
                assert row.needed_k == 1


def test_the_sepsis_patient_by_hand() -> None:
    """Each number of the table by evaluating the policy that changes one action."""
    patient = tether.cases.sepsis()
    cf = tether.counterfactual(patient.mdp, patient.path)
    decisions = cf.decisions()
    done = patient.path.actions
    for row in decisions.rows:
        outlook = cf.evaluate(lambda t, state, row=row: row.action if t == row.t else done[t])
        assert row.value == pytest.approx(outlook.value, rel=1e-12)
        assert row.necessity == pytest.approx(1.0 - outlook.outcomes()["died"], abs=1e-12)
    best = max(decisions.rows, key=lambda row: row.value)
    assert (best.t, best.action, round(best.value, 1)) == (2, "antibiotics", -4579.9)
    assert best.value == pytest.approx(cf.plan(k=11, m=1).value, rel=1e-12)


def test_what_is_said_of_the_sepsis_patient() -> None:
    patient = tether.cases.sepsis()
    decisions = tether.counterfactual(patient.mdp, patient.path).decisions()
    assert decisions.sentences(str) == [
        "Every decision was the model's best at the time.",
        "The death was bad luck, most of it at step 2.",
        "With hindsight, the decision at step 2 mattered most: antibiotics instead of antibiotics + ventilation, and "
        "nothing else changed, would have given an expected return of -4,580 instead of -6,850. Nobody could know that "
        "at the time.",
        "The death could best have been averted at step 0: vasopressors, and nothing else changed, would "
        "have averted it in 13 of 100 replays (0 % to 40 % over every causal model, luck "
        "unrelated over time; 0 % to 100 % if it may be related). By what could be known at the time, it was worse "
        "(expected return).",
        "From the observed state at step 3 on, nothing done could have changed the outcome.",
    ]


def one_step(end: str, **rows: dict[str, float]) -> Any:
    """The decisions of an episode of one step: its first action led to ``end``."""
    table = [("ill", a, j, p, float(j == "well")) for a, row in rows.items() for j, p in row.items()]
    mdp = tether.MDP.from_table(*map(list, zip(*table, strict=True)), terminal=["well", "dead"])
    return tether.counterfactual(mdp, tether.Path(["ill", end], [next(iter(rows))])).decisions()


@pytest.mark.parametrize(("end", "ended"), [("dead", "averted the death"), ("well", "changed the outcome, well")])
def test_of_two_equal_drugs_no_causal_model_but_gumbel_max_says_that_the_end_is_the_same(end: str, ended: str) -> None:
    decisions = one_step(end, A={"well": 0.5, "dead": 0.5}, B={"well": 0.5, "dead": 0.5})
    every = decisions.necessity_bounds(0, "B")[0]
    assert (every.least, every.gumbel_max, every.most) == (0.0, 0.0, 1.0)
    assert decisions.sentences(str)[-1] == (
        f"With the luck of this episode, no other action, with nothing else changed, would have {ended}. "
        "Under another causal model that fits as well, one could have."
    )


def test_a_good_end_is_not_averted() -> None:
    decisions = one_step("well", good={"well": 0.9, "dead": 0.1}, bad={"well": 0.3, "dead": 0.7})
    said = decisions.sentences(str)[-1]
    assert said.startswith(
        "The outcome, well, was most at risk at step 0: bad, and nothing else changed, would have lost"
    )
    assert said.endswith("By what could be known at the time, it was worse (expected return).")


def test_what_a_log_does_not_show_is_not_said_to_be_unknowable() -> None:
    found = tether.counterfactual(clinic(), tether.Path(["sick", "dead"], ["wait"])).decisions()
    assert found.review is not None
    assert found.review.largest() is None
    treat = next(row for row in found.rows if row.action == "treat")
    assert found.known_then(treat) == "not shown"
    said = found.sentences(str)
    assert "Nobody could know" not in " ".join(said)
    assert sum(one.endswith("The log does not show that it was better at the time.") for one in said) == 2


@pytest.mark.parametrize("at", [0, 1])
@given(world=tiny_worlds())
def test_whether_one_change_leads_to_another_outcome_under_some_causal_model(at: int, world: World) -> None:
    """By the largest necessity of every single change over every causal model."""
    goal = world.states[min(at, len(world.states) - 1)]
    assume(goal != world.path.states[0] and min(p for row in world.nominal.values() for p in row.values()) > 1e-6)
    decisions = world.cf.decisions(objective=tether.reach([goal]))
    outcome = decisions.event
    assume(outcome is not None)
    assert outcome is not None
    try:
        most = [decisions.necessity_bounds(row.t, row.action)[0].most for row in decisions.rows if not row.is_observed]
    except QueryError:  # under some causal model it is unknown what would have been done
        assume(False)
    assert one_could_differ(decisions.asked, outcome) == (max(most, default=0.0) > 1e-12)


def reachable_ends(world: World, t: int) -> set[Any]:
    @cache
    def ends(u: int, s: Any) -> frozenset[Any]:
        if u == world.T:
            return frozenset([s])
        after = set()
        for a in world.available(s):
            seen = (s, a) == world.observed[u] and u + 1 < len(world.path.states)
            after |= {world.path.states[u + 1]} if seen else set(world.nominal[s, a])
        return frozenset().union(*(ends(u + 1, j) for j in after))

    return set(ends(t, world.path.states[t]))


@FEWER
@given(worlds(max_steps=4), st.data())
def test_from_when_on_nothing_could_change_the_outcome(world: World, data: Any) -> None:
    cf, outcome = labelled(world, data.draw)
    sentences = [one for one in cf.decisions().sentences() if "nothing done" in one.lower()]
    if outcome is None or not any(len(world.available(s)) > 1 for s, _ in world.observed):
        assert sentences == []
        return
    decided = [t for t in range(world.T) if reachable_ends(world, t) <= outcome]
    if not decided:
        assert sentences == []
    elif min(decided) == 0:
        assert sentences == ["Nothing done at any step could have changed the outcome."]
    else:
        assert sentences == [
            f"From the observed state at step {min(decided)} on, nothing done could have changed the outcome."
        ]


@FEWER
@given(worlds(max_steps=3), st.data())
def test_bounds_hold_gumbel_max_and_are_nested(world: World, data: Any) -> None:
    cf, outcome = labelled(world, data.draw)
    if cf.mechanism.name != "gumbel-max":
        return
    decisions = cf.decisions()
    row = data.draw(st.sampled_from(decisions.rows))
    if outcome is None:
        with pytest.raises(QueryError, match="ends in no outcome"):
            decisions.necessity_bounds(row.t, row.action)
        return
    try:
        every, stable = decisions.necessity_bounds(row.t, row.action)
    except QueryError:
        # Some model leads to where what was done is not available; nothing is missing where every action is everywhere.
        assert any(a not in world.available(s) for s in world.states for a in world.path.actions)
        return
    near = 1e-9
    assert (every.assume, stable.assume) == ("nothing", "stability")
    assert every.least - near <= stable.least <= stable.gumbel_max + near
    assert stable.gumbel_max <= stable.most + near <= every.most + 2 * near
    assert stable.gumbel_max == pytest.approx(row.necessity, abs=1e-9)
    assert every.related is not None
    assert every.related == pytest.approx(related_by_paths(decisions.cf, row.t, row.action, outcome.states), abs=1e-9)
    assert every.related[0] <= every.least + near <= every.most + 2 * near <= every.related[1] + 3 * near


def related_by_paths(cf: Any, t: int, action: Any, states: Any) -> tuple[float, float]:
    """The range of a necessity if luck is related over time: every path with what it weighs at most."""
    mdp, path, mass = cf.mdp, cf.path, {True: 0.0, False: 0.0}

    def follow(time: int, state: Any, weight: float) -> None:
        if time == cf.T:
            mass[mdp.state_index(state) in set(np.asarray(states).tolist())] += weight
            return
        seen = path.states[time], path.actions[time]
        wanted = action if time == t else seen[1]
        wanted = wanted if wanted in mdp.actions_in(state) else mdp.actions_in(state)[0]
        after = path.states[time + 1]
        if (state, wanted) == seen and after is not None:
            return follow(time + 1, after, weight)
        chance = 1.0 if after is None else dict(zip(*mdp.row(*seen), strict=True))[after]
        for j, q in zip(*mdp.row(state, wanted), strict=True):
            follow(time + 1, j, weight * float(q) / chance)

    follow(0, path.states[0], 1.0)
    return max(0.0, 1.0 - mass[True]), min(1.0, mass[False])


def test_bounds_of_one_step_by_the_formula() -> None:
    """One step: over all models, P(j) lies between max(0, 1 - Σ others q/p_o) and q_j / p_o."""
    P = [[[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]], [[0, 1, 0]] * 2, [[0, 0, 1]] * 2]
    mdp = tether.MDP.from_arrays(P, states=["ill", "well", "dead"], actions=["wait", "treat"])
    cf = tether.counterfactual(mdp, tether.Path(["ill", "dead"], ["wait"]))
    every, _ = cf.decisions().necessity_bounds(0, "treat")
    dead = min(1.0, 0.3 / 0.2)  # most that P(dead) can be
    assert every.least == pytest.approx(1 - dead)
    assert every.most == pytest.approx(1.0)  # the others can take up all: (0.2 + 0.5) / 0.2 ≥ 1
    assert every.gumbel_max == pytest.approx(cf.decisions().at(0)[1].necessity)


def test_an_action_that_is_missing_later_is_named() -> None:
    columns = ["s", "s", "a", "b"], ["go", "jump", "go", "rest"], ["a", "b", "a", "s"], [1.0] * 4
    cf = tether.counterfactual(tether.MDP.from_table(*columns), tether.Path(["s", "a", "a"], ["go", "go"]))
    decisions = cf.decisions()
    jump = decisions.at(0)[1]
    assert (jump.value, jump.best) == (None, None)
    assert jump.reason == "it can lead to state 'b' at t = 1, where the observed 'go' is not available"
    assert decisions.sentences()[-1].startswith("For any other action nothing can be said about a single change")
    assert cf.decisions(m=2).at(0)[1].best == 0.0  # one more change may be made there


def test_bad_questions() -> None:
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    with pytest.raises(QueryError, match="the objective 'reach' is none of"):
        cf.decisions("reach")
    with pytest.raises(QueryError, match="m must be"):
        cf.decisions(m=0)
    with pytest.raises(QueryError, match="'V_X' is not available"):
        cf.decisions().necessity_bounds(0, "V_X")
    with pytest.raises(QueryError, match="ends in no outcome"):
        cf.decisions().necessity_bounds(0, "V_I")
    with pytest.raises(QueryError, match="no necessity to draw"):
        cf.decisions().plot("necessity")
    with pytest.raises(QueryError, match="what must be one of"):
        cf.decisions().plot("colour")


def test_tables_figures_and_pages() -> None:
    grid = tether.cases.grid_world()
    decisions = tether.counterfactual(grid.mdp, grid.path).decisions(m=2)
    table = decisions.to_arrow()
    assert table.num_rows == len(decisions.rows)
    assert table.column("value").to_pylist() == [row.value for row in decisions.rows]
    assert table.column("necessity").to_pylist() == [row.necessity for row in decisions.rows]
    assert list(decisions.to_pandas().columns) == table.column_names
    for what in ("gain", "best", "necessity"):
        ax = decisions.plot(what)
        shaded = ax.collections[0].get_array()
        expected = [[row.necessity for row in decisions.rows if row.action == a] for a in grid.mdp.actions]
        if what == "necessity":
            assert np.allclose(shaded, expected)
        (marks,) = ax.lines
        done = [grid.mdp.actions.find(a) for a in grid.path.actions]
        assert marks.get_ydata().tolist() == [i + 0.5 for i in done]
    page = decisions._repr_html_()
    assert "not danger" in page
    assert "nothing done could have changed the outcome" in page


@FEWER
@given(worlds(max_steps=3), st.data())
def test_outcomes_of_an_evaluation(world: World, data: Any) -> None:
    cf, _ = labelled(world, data.draw)
    outlook = cf.evaluate("random")
    found = outlook.outcomes()
    chances = dict(zip(*outlook.distribution(cf.T), strict=True))
    ended = set(cf.mdp.labels.get("ended", ()))
    if ended:
        assert found.pop("ended") == pytest.approx(sum(p for s, p in chances.items() if s in ended), abs=1e-12)
    stays = {
        s
        for s in chances
        if s not in ended and all(world.nominal[s, a].keys() == {s} for a in world.available(s)) and chances[s] > 0
    }
    assert found == {s: pytest.approx(chances[s]) for s in stays}


def test_how_it_would_have_ended() -> None:
    patient = tether.cases.sepsis()
    explanation = tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=2).explain()
    ends = ("Died by step 10: 85 % instead of certain", "discharged: 3 % instead of 0 %", "still under way: 12 % ")
    assert f"{'; '.join(ends)}instead of 0 %." in explanation.sentences(str)
    died, discharged = explanation.outcomes
    assert (died.name, died.observed, died.optimal) == ("died", 1.0, 1.0)  # what was done is what is best for anyone
    assert (discharged.name, discharged.observed) == ("discharged", 0.0)
    assert died.plan == explanation.outlook.outcomes()["died"]
    case = tether.cases.epidemic()
    plan = tether.counterfactual(case.mdp, case.path).plan(k=1, m=1)
    assert not any(one.startswith("Over") for one in plan.explain().sentences(str))  # neither happened nor can happen


def test_the_mistake_of_each_action_stands_beside_its_gain() -> None:
    for case in (tether.cases.sepsis(), tether.cases.grid_world(), tether.cases.epidemic()):
        cf = tether.counterfactual(case.mdp, case.path)
        rows, steps = cf.decisions().rows, cf.review(horizon=cf.T).steps
        for row in (row for row in rows if row.is_observed):
            assert row.mistake == pytest.approx(steps[row.t].mistake, abs=1e-9)
        best = cf.mdp.solve(cf.T)
        assert all(row.mistake == 0.0 for row in rows if row.action == best.action(row.t, row.state))
