"""The counterfactual MDP as data: its rows as tables, itself as an ordinary MDP that others can solve."""

import numpy as np
import pytest
from deciding import asked
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, RULES, in_package, rules_and_criteria, worlds

import tether

NEAR = {"abs": 1e-9, "rel": 1e-9}


@FEWER
@given(worlds(), rules_and_criteria(), st.booleans(), st.data())
def test_the_best_of_the_unfolded_model_is_the_best_plan(world, how, minimise, data):
    rule, criterion = how
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.none() | st.integers(0, world.T))
    cf, about = world.conditioned(), {"rule": rule, "influence": in_package(criterion)}
    mdp = cf.to_mdp(k, changes=m, **about)
    best = mdp.solve(cf.T, minimise=minimise).value(mdp.states[0])
    plan = cf.plan(k, cf.T if m is None else m, **about, minimise=minimise)
    assert best == pytest.approx(plan.value, **NEAR)


@FEWER
@given(asked(RULES), st.data())
def test_a_property_is_a_return_of_the_unfolded_model(one, data):
    k, m = data.draw(st.integers(1, one.world.T + 1)), data.draw(st.integers(0, one.world.T))
    about = {"rule": one.rule, "influence": in_package(one.criterion), "objective": one.objective}
    cf = one.world.conditioned()
    mdp = cf.to_mdp(k, changes=m, **about)
    assert mdp.solve(cf.T).value(mdp.states[0]) == pytest.approx(cf.plan(k, m, **about).value, **NEAR)


@FEWER
@given(worlds(), st.sampled_from(["definition", "assured"]))
def test_rows_as_arrays_are_the_rows(world, rule):
    cf = world.conditioned()
    rows, found = cf.to_arrays(rule=rule), cf.tether(rule=rule)
    seen: dict[tuple[int, int, int], dict[int, tuple[float, float]]] = {}
    for t, s, a, j, p, q, strength in zip(
        rows.t, rows.state, rows.action, rows.next_state, rows.probability, rows.nominal, rows.strength, strict=True
    ):
        seen.setdefault((int(t), int(s), int(a)), {})[int(j)] = (p, q)
        assert strength == pytest.approx(cf.strength(int(t), cf.mdp.states[int(s)], cf.mdp.actions[int(a)]))
    reached = {(t, s) for t in range(cf.T) for s in cf.reachable(t)}
    assert {(t, cf.mdp.states[s]) for t, s, _ in seen} == reached
    for (t, s, a), row in seen.items():
        names, chances = cf.row(t, cf.mdp.states[s], cf.mdp.actions[a])
        assert {cf.mdp.states[j]: p for j, (p, _) in row.items() if p > 0} == pytest.approx(
            dict(zip(names, chances, strict=True))
        )
        names, chances = cf.nominal_row(t, cf.mdp.states[s], cf.mdp.actions[a])
        assert {cf.mdp.states[j]: q for j, (_, q) in row.items()} == pytest.approx(
            dict(zip(names, chances, strict=True))
        )
    if rule == "definition":
        for t, s, a, kappa in zip(rows.t, rows.state, rows.action, rows.kappa, strict=True):
            why = found.why(int(t), cf.mdp.states[int(s)], cf.mdp.actions[int(a)], k=int(kappa))
            assert why.allowed or kappa > cf.T + 1
    table = cf.to_arrow(rule=rule)
    assert table.num_rows == rows.t.size
    assert ("uninfluenced" in table.column_names) == (rule == "assured")
    assert np.array_equal(table["kappa"].to_numpy(), rows.kappa)


@pytest.mark.parametrize("minimise", [False, True])
@pytest.mark.parametrize("rule", ["definition", "published", "printed", "assured"])
def test_storm_finds_the_value_of_the_plan(tmp_path, rule, minimise):
    stormpy = pytest.importorskip("stormpy")
    outbreak = tether.cases.epidemic()
    cf = tether.counterfactual(outbreak.mdp, outbreak.path)
    for k, m, objective in [(6, 4, None), (7, 1, None), (7, 2, tether.reach("over")), (None, 1, None)]:
        about = {"rule": rule, "objective": objective, "minimise": minimise}
        made = cf.write(tmp_path / "episode.drn", k, m, **about)
        model = stormpy.build_model_from_drn(str(tmp_path / "episode.drn"))
        answer = stormpy.model_checking(model, stormpy.parse_properties(made.question)[0])
        wanted = cf.plan(k, m, **about).value
        assert answer.get_value(model.initial_states[0]) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("rule", "further"), [("definition", ()), ("assured", ("uninfluenced",))])
def test_states_of_a_written_episode_have_their_variables_and_labels(tmp_path, rule, further):
    outbreak = tether.cases.epidemic()
    mdp = outbreak.mdp.with_labels(
        {"many": lambda s: s.I >= 2, "done": lambda s: s.I == 1, "nowhere": lambda s: s.I > s.S + 9}
    )
    cf = tether.counterfactual(mdp, outbreak.path)
    for name in ("episode.drn", "episode.tra"):
        cf.write(tmp_path / name, 6, 2, rule=rule)
        back = tether.io.read_model(tmp_path / name)
        *states, last = back.states
        names = tuple(name.rstrip("_") for name in last._fields)  # S is a word of PRISM's language
        assert names == ("t", "S", "I", "V", *further, "changes_left")
        assert set(back.labels["done"]) == {last}
        assert set(back.labels["init"]) == {states[0]} == {(0, *outbreak.path.states[0], *(0 for _ in further), 2)}
        assert set(back.labels["many"]) == {s for s in states if s[2] >= 2}
        assert set(back.labels["done_2"]) == {s for s in states if s[2] == 1}
        assert "nowhere" not in back.labels
        plan = cf.plan(6, 2, rule=rule)
        plan.write(tmp_path / "best.json")
        policy = tether.io.open_policy(tmp_path / "best.json", back)
        for t, state, left, action in zip(
            *(plan.to_arrow()[name].to_pylist() for name in ("t", "state", "changes_left", "action")), strict=True
        ):
            if action is not None and not further:
                assert policy[t, *state.values(), left] == {action: 1.0}


def test_states_of_several_kinds_are_written_as_numbers(tmp_path):
    """Nothing is said of them that could be said of another state."""
    names = [(1,), (1, 2), "x"]
    mdp = tether.MDP.from_arrays(np.full((3, 2, 3), 1 / 3), np.ones((3, 2)), states=names, actions=["a", "b"])
    cf = tether.counterfactual(mdp.with_labels({"one": [(1,)]}), tether.Path([(1,), (1, 2)], ["a"]))
    made = cf.write(tmp_path / "episode.drn", 1, 1)
    back = tether.io.read_model(made.file)
    assert list(back.states) == list(range(made.states))
    assert set(back.labels) == {"init", "done"}


@FEWER
@given(worlds(), st.booleans())
def test_rewards_for_prism_are_raised_at_every_step(tmp_path_factory, world, minimise):
    made = world.cf.write(tmp_path_factory.mktemp("prism") / "episode.tra", world.T, 1, minimise=minimise)
    back = tether.io.read_model(made.file)
    assert back.rewards.values.min() >= 0.0
    wanted = world.cf.plan(world.T, 1, minimise=minimise).value
    (first,) = back.labels["init"]
    found = back.solve(world.T + 1, minimise=minimise).value(first) - made.shift
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * max(1.0, made.shift))


@pytest.mark.parametrize("discount", [0.9, 0.0])
def test_a_written_episode_has_its_discount_and_final_reward_in_its_rewards(tmp_path, discount):
    grid = tether.cases.grid_world()
    mdp = grid.mdp.with_objective(discount=discount, final_reward={15: 50.0, 6: -30.0})
    cf = tether.counterfactual(mdp, grid.path)
    made = cf.write(tmp_path / "fall.tra", 7, 2)
    back = tether.io.read_model(tmp_path / "fall.tra")
    assert (back.n_states, back.n_transitions) == (made.states, made.transitions)
    (first,) = back.labels["init"]
    assert min(back.rewards.values) == 0.0  # PRISM takes none below 0
    assert made.question == "Rmax=? [ C<=12 ]"  # its files do not name rewards
    assert (made.shift > 0) == (discount > 0)
    assert back.solve(cf.T + 1).value(first) - made.shift == pytest.approx(cf.plan(7, 2).value)
    for_storm = cf.write(tmp_path / "fall.drn", 7, 2)
    assert (for_storm.question, for_storm.shift) == ('R{"reward"}max=? [ C<=12 ]', 0.0)
    unfolded = cf.to_mdp(7, changes=2)
    assert unfolded.solve(cf.T).value(unfolded.states[0]) == pytest.approx(cf.plan(7, 2).value)


def test_without_any_reward_the_question_has_an_answer(tmp_path):
    """Storm has none about rewards that are all 0: it drops them."""
    mdp = tether.MDP.from_table(["a", "a", "b"], ["x", "y", "x"], ["a", "a", "b"], [1.0, 1.0, 1.0])
    cf = tether.counterfactual(mdp, tether.Path(["a", "a"], ["x"]))
    assert cf.write(tmp_path / "nothing.drn", 1, 1).question == "Pmax=? [ F false ]"
    never = cf.write(tmp_path / "never.drn", 1, 1, objective=tether.reach("b"), minimise=True)
    assert never.question == "Pmin=? [ F false ]"
    assert cf.plan(1, 1, objective=tether.reach("b"), minimise=True).value == 0.0
