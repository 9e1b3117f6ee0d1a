"""Plans and sweeps pickle as what they were asked, small and without the model, and come back the same."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import worlds

import tether


def again(thing):
    return pickle.loads(pickle.dumps(thing))


def assert_same_plan(plan, twin):
    assert repr(twin) == repr(plan)
    assert (twin.value, twin.observed_value, twin.price, twin.is_best) == (
        plan.value,
        plan.observed_value,
        plan.price,
        plan.is_best,
    )
    for mine, its in zip(plan.chain.visits, twin.chain.visits, strict=True):
        assert mine.states.tolist() == its.states.tolist()
        assert mine.changes.tolist() == its.changes.tolist()
    for mine, its in zip(plan.chain.taken, twin.chain.taken, strict=True):
        assert mine.pairs.tolist() == its.pairs.tolist()
    assert [choice.tobytes() for choice in twin.choices] == [choice.tobytes() for choice in plan.choices]


@settings(max_examples=40)
@given(world=worlds(max_states=5, max_steps=4), k=st.integers(1, 6), m=st.integers(0, 4), data=st.data())
def test_plans_and_tables_come_back(world, k, m, data):
    rule = data.draw(st.sampled_from(["definition", "published", "printed", "assured"]))
    cf = world.cf
    assert_same_plan(cf.plan(k, m, rule=rule), again(cf.plan(k, m, rule=rule)))
    table = cf.sweep(rule=rule)
    assert again(table).values.tobytes() == table.values.tobytes()


@pytest.mark.parametrize("how", [again, copy.deepcopy])
def test_a_plan_of_a_front_comes_back(epidemic, how):
    """It is not the best one for its k and m, so it brings along what it does."""
    front = epidemic.pareto(m=4)
    for point in front.points:
        assert not point.plan.is_best
        assert_same_plan(point.plan, how(point.plan))


def test_sampled_mechanisms_come_back_with_their_noise(grid):
    cf = tether.counterfactual(grid.mdp, grid.path, "gumbel-max-sampled", samples=50)
    twin = again(cf)
    assert twin.sweep().values.tobytes() == cf.sweep().values.tobytes()


@pytest.fixture
def on_disk(tmp_path):
    case = tether.cases.sepsis()
    case.mdp.save(tmp_path / "m")
    return tether.counterfactual(tether.MDP.load(tmp_path / "m"), case.path)


def test_they_are_small(on_disk):
    """The model lies on disk; the episode has ten steps; 7,600 nodes can be reached."""
    plan = on_disk.plan(k=11, m=3)
    assert len(pickle.dumps(on_disk)) < 3000
    assert len(pickle.dumps(plan)) < 3000
    assert len(pickle.dumps(on_disk.sweep())) < 8000
    assert_same_plan(plan, again(plan))
    assert again(plan).explain().sentences() == plan.explain().sentences()


@pytest.mark.parametrize("objective", [None, tether.avoid("died")])
def test_a_what_if_is_small_and_comes_back(on_disk, objective):
    asked = on_disk.what_if({1: on_disk.mdp.actions[0]}, best_from=3, rule="published", objective=objective)
    assert len(pickle.dumps(asked)) < 3000
    assert again(asked).sentences() == asked.sentences()
    assert (again(asked).value, again(asked).needed_k) == (asked.value, asked.needed_k)


def test_what_is_kept_beside_an_answer_stays(on_disk):
    question = on_disk.tether(rule="assured", influence=tether.effective(0.1), objective=tether.avoid("died"))
    value = question.plan(5, 2).value
    assert len(pickle.dumps(question)) < 3000
    assert (again(question).key, again(question).plan(5, 2).value) == (question.key, value)
    explanation = on_disk.plan(9, 2).explain(lambda state: state.heart_rate, progress=lambda done, of: None)
    assert len(pickle.dumps(explanation)) < 8000
    assert (again(explanation).steps, again(explanation).sentences()) == (explanation.steps, explanation.sentences())


def test_a_copy_with_another_graph_keeps_it():
    """Only what `counterfactual` makes can be made again by it."""
    from dataclasses import replace

    from tether.conditioning.layers import nominal_rollout

    case = tether.cases.toy()
    toy = tether.counterfactual(case.mdp, case.path)
    other = replace(toy, graph=nominal_rollout(toy.graph))
    states = [other.graph.states(t).tolist() for t in range(other.T + 1)]
    assert states != [toy.graph.states(t).tolist() for t in range(toy.T + 1)]
    assert [again(other).graph.states(t).tolist() for t in range(other.T + 1)] == states


def test_the_posterior_knows_a_plan_that_was_pickled_apart_from_its_model(tmp_path):
    case = tether.cases.grid_world()
    mdp = tether.learn([case.mdp.simulate("random", 11, rng=seed) for seed in range(60)] + [case.path], prior=1)
    mdp = mdp.with_objective(final_reward={14: 100.0})
    mdp.save(tmp_path / "m")
    for model in (mdp, tether.MDP.load(tmp_path / "m")):
        draws = tether.posterior(model, draws=5, rng=1)
        cf = tether.counterfactual(model, case.path)
        for asked in (cf.plan(k=8, m=3), cf.sweep(ks=[3, 8], ms=[0, 3])):
            expected = draws.of(asked).values
            np.testing.assert_array_equal(draws.of(again(asked)).values, expected)
            np.testing.assert_array_equal(again(draws).of(asked).values, expected)
    other = tether.learn([case.path], prior=1)
    foreign = tether.counterfactual(other, case.path).plan(k=8, m=3)
    with pytest.raises(tether.QueryError, match="this was made with another model"):
        draws.of(again(foreign))
