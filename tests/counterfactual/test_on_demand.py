"""Edited rows that are not stored: what is kept is limited, and the answers are the same bit for bit."""

from contextlib import contextmanager
from importlib import import_module

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, World, in_package, rules_and_criteria, worlds

import tether
from tether.conditioning.edited_rows import Rows
from tether.conditioning.layers import everywhere

on_demand = import_module("tether.conditioning.on_demand")  # `tether.counterfactual` is also a function


@contextmanager
def keeping(kept, part):
    """At most ``kept`` bytes of edited rows are stored, and ``part`` entries are made at a time."""
    before = on_demand.KEPT, on_demand.PART
    on_demand.KEPT, on_demand.PART = kept, part
    try:
        yield
    finally:
        on_demand.KEPT, on_demand.PART = before


def dense(n_states, n_actions, T):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    mdp = tether.MDP.from_arrays(P, rng.normal(size=(n_states, n_actions)))
    return mdp, mdp.simulate("random", T, rng=1)


def test_a_dense_model_is_conditioned_without_storing_every_row_of_every_step():
    # Every row of every step but the first is an edited one: 9 times some 0.5 of the model, were they stored.
    mdp, path = dense(60, 4, 10)
    model = 12 * mdp.form.next_state.size
    with keeping(model, on_demand.PART):
        cf = tether.counterfactual(mdp, path)
        beyond = [layer.edits for layer in cf.graph.layers[3:]]
        assert not any(isinstance(edits, Rows) for edits in beyond)
        assert cf.nbytes < 1.1 * model
        cf.plan(k=3, m=2).evaluate()
        cf.plan(k=3, m=1, influence=tether.effective(0.01))
        assert cf.nbytes < 1.2 * model  # the strengths of all rows are kept once they were asked for


def test_a_plan_with_one_change_makes_only_rows_of_observed_actions(monkeypatch):
    mdp, path = dense(30, 5, 4)
    made = []
    whole = on_demand.RowsOnDemand.rows

    def counted(self, at=None):
        rows = whole(self, at)
        made.append(rows.pairs.size)
        return rows

    with keeping(0, 16 * 2 * 30):  # the rows of one state at first
        cf = tether.counterfactual(mdp, path)
        monkeypatch.setattr(on_demand.RowsOnDemand, "rows", counted)
        cf.plan(k=3, m=1)
    of_observed_actions, on_the_path, what_layers_lead_to = 3 * 30, 4 * 5 + 1, 3 * 2 * 5
    assert sum(made) <= of_observed_actions + on_the_path + what_layers_lead_to  # of 3 * 30 * 5 edited rows


def answers(cf, rule, influence, rng):
    """All kinds of answers, as plain numbers."""
    question = cf.tether(rule=rule, influence=influence)
    sweep = question.sweep()
    yield sweep.values, sweep.sizes
    for m in range(4):
        plan = question.plan(int(rng.integers(1, cf.T + 2)), m)
        outlook = plan.evaluate()
        yield plan.value, str(plan.to_arrow().to_pydict())
        yield outlook.value, outlook.tailoring.strength, outlook.tailoring.influenced
    yield [[cf.row(t, *mdp_pair)[1] for mdp_pair in pairs_of(cf)] for t in range(cf.T)]
    yield [cf.classify(t=t, k=2, rule=rule, influence=influence, rollout=rollout)[s]
           for t in range(cf.T + 1) for rollout in ("counterfactual", "nominal") for s in cf.mdp.states]  # fmt: skip
    yield [cf.reachable(t) for t in range(cf.T + 1)]
    yield [layer.states for layer in everywhere(cf.graph, cf.posteriors).layers]
    yield [
        (row.t, row.action, row.value, row.strength, row.needed_k)
        for row in cf.decisions(rule=rule, influence=influence).rows
    ]
    goal = [s for s in cf.mdp.states if s != cf.path.states[0]][-1:]
    if goal:
        yield cf.plan(2, 2, rule=rule, influence=influence, objective=tether.reach(goal)).value
    if rule == "definition":
        yield question.pareto(m=2).values


def pairs_of(cf):
    return [(s, a) for s in cf.mdp.states for a in cf.mdp.actions_in(s)]


def same(one, other):
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return one == other or (one != one and other != other)


@FEWER
@given(worlds(max_states=5, max_steps=4), rules_and_criteria(), st.sampled_from([0, 100]), st.integers(0, 9))
def test_rows_made_when_asked_for_are_the_stored_ones(world: World, asked, kept, seed):
    rule, criterion = asked
    influence = in_package(criterion)
    stored = list(answers(world.conditioned(), rule, influence, np.random.default_rng(seed)))
    with keeping(kept, 16 * 3):  # three entries at a time at first
        cf = world.conditioned()
        again = list(answers(cf, rule, influence, np.random.default_rng(seed)))
    assert same(stored, again)
