"""The panel of mechanisms: every number against trajectories written out one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import worlds

import tether

NAMES = ("gumbel-max", "independent", "comonotone", "maximal")


def told(plan, t, state, changes, run):
    """What a plan does in a node: (action, changes left, run) after it; None where it does not know the node."""
    action = plan.action(t, state, changes, uninfluenced=run)
    if action is None:
        return None
    node = plan.chain.visits[t].find(plan.cf.mdp.state_index(state), changes, run)
    decided = plan.chain.taken[t]
    return action, int(decided.changes[node]), int(decided.runs[node])


def trajectories(world, plan, cf, t=0, node=None, chance=1.0):
    """All that can happen: (probability, pairs, last state, met an unknown node, lacked the observed action there)."""
    state, changes, run = (world.path.states[0], plan.m, 0) if node is None else node
    if t == world.T:
        yield chance, [], state, False, False
        return
    known = told(plan, t, state, changes, run)
    observed, there = world.path.actions[t], cf.mdp.actions_in(state)
    lacking = known is None and observed not in there
    action, left, onward = known or (there[0] if lacking else observed, changes, 0)
    if known is None and plan.rule == "assured":
        influenced = cf.mdp.pair_index(state, action) in plan.influenced[t]
        onward = 0 if influenced else run + 1
    for after, probability in zip(*cf.row(t, state, action), strict=True):
        for p, pairs, last, strange, lacked in trajectories(
            world, plan, cf, t + 1, (after, left, onward), chance * float(probability)
        ):
            yield p, [(state, action, changes, run), *pairs], last, strange or known is None, lacked or lacking


def agrees(other, pairs, path):
    """Whether a plan takes these actions at every step, with the observed ones where it knows nothing."""
    for t, (state, action, changes, run) in enumerate(pairs):
        known = told(other, t, state, changes, run)
        there = other.cf.mdp.actions_in(state)
        otherwise = path.actions[t] if path.actions[t] in there else there[0]
        if action != (otherwise if known is None else known[0]):
            return False
    return True


@given(worlds(max_states=4, max_steps=3), st.data())
def test_every_number_by_enumeration(world, data):
    rule = data.draw(st.sampled_from(["definition", "assured"]))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, 2))
    mdp, path = world.cf.mdp, world.path
    panel = tether.compare_mechanisms(mdp, path, k, m, rule=rule)
    assert (panel.mechanisms, panel.k, panel.m) == (NAMES, k, m)
    cfs = [tether.counterfactual(mdp, path, mechanism=name) for name in NAMES]
    plans = [cf.plan(k, m, rule=rule) for cf in cfs]
    for i, plan in enumerate(plans):
        for j, cf in enumerate(cfs):
            happening = list(trajectories(world, plan, cf))
            value = sum(p * world.worth([(s, a) for s, a, *_ in pairs], last) for p, pairs, last, *_ in happening)
            np.testing.assert_allclose(panel.values[i, j], value, rtol=1e-9, atol=1e-9)
            strange = sum(p for p, _, _, met, _ in happening if met)
            lacking = sum(p for p, *_, lacked in happening if lacked)
            np.testing.assert_allclose([panel.unfamiliar[i, j], panel.unavailable[i, j]], [strange, lacking], atol=1e-9)
            own = sum(p for p, pairs, *_ in trajectories(world, plan, cfs[i]) if agrees(plans[j], pairs, path))
            np.testing.assert_allclose(panel.agreement[i, j], own, atol=1e-9)
        np.testing.assert_allclose(panel.values[i, i], plan.value, rtol=1e-9, atol=1e-9)
        assert panel.unfamiliar[i, i] < 1e-9
        assert panel.agreement[i, i] > 1 - 1e-9
        # Under its own mechanism no plan is beaten by another's that stays within the same limits; observed is a floor.
        assert plan.value >= panel.observed_value - 1e-9
        changes = [pair for pair, seen in zip(_way(plan), path.actions, strict=False) if pair[2] != seen]
        first = changes[0] if changes else None
        advice = panel.advice[i]
        assert (None if advice is None else (advice.t, advice.state, advice.action)) == first


def _way(plan):
    """(t, state, action) along the observed path, up to the first change."""
    way = []
    for t, state in enumerate(plan.cf.path.states[: plan.T]):
        action = plan.action(t, state, plan.m)
        way.append((t, state, action))
        if action != plan.cf.path.actions[t]:
            break
    return way


def test_words_and_tables():
    grid = tether.cases.grid_world()
    panel = tether.compare_mechanisms(grid.mdp, grid.path, k=6, m=4)
    assert panel.values[0, 0] == pytest.approx(374.717, abs=5e-4)  # METHOD.md's (6, 4) of the grid world
    assert panel.worst.tolist() == panel.values.min(axis=1).tolist()
    lines = str(panel).splitlines()
    assert lines[0].split() == ["plan", "\\", "if", "true", *NAMES]
    assert lines[1].split()[1] == "374.717"
    assert lines[-1].startswith("observed: -897; ")
    assert panel.verdict in repr(panel)
    assert "374.717" in panel._repr_html_()
    table = panel.to_arrow()
    assert table.column("value").to_pylist() == panel.values.reshape(-1).tolist()
    with pytest.raises(ValueError, match="read-only"):
        panel.values[0, 0] = 0


def test_verdicts():
    case = tether.cases.epidemic()
    agreed = tether.compare_mechanisms(case.mdp, case.path, k=8, m=1)
    assert agreed.agrees
    assert agreed.first_change_agrees
    assert agreed.verdict == "all plans take the same actions"
    nothing = tether.compare_mechanisms(case.mdp, case.path, k=8, m=0, mechanisms=["gumbel-max", tether.Maximal()])
    assert nothing.mechanisms == ("gumbel-max", "maximal")
    assert nothing.advice == (None, None)
    assert "changes nothing" in nothing._repr_html_()


def test_without_k_the_first_mechanism_decides():
    case = tether.cases.epidemic()
    panel = tether.compare_mechanisms(case.mdp, case.path)
    assert panel.m == 1
    assert panel.k == tether.counterfactual(case.mdp, case.path).plan(m=1).k


def test_two_are_needed_to_compare():
    case = tether.cases.epidemic()
    for mechanisms in ([], ["maximal"], "maximal"):
        with pytest.raises(tether.QueryError, match="at least two"):
            tether.compare_mechanisms(case.mdp, case.path, 8, 1, mechanisms=mechanisms)
