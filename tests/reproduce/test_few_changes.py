"""Plans of few changes over drawn models: the recipe, what is told, and the numbers it is held to."""

import numpy as np
import pytest

import tether
from tether_reproduce import exact_numbers, few_changes
from tether_reproduce.findings import expected
from tether_reproduce.study import CASES


@pytest.mark.compiled
def test_few_changes_are_drawn_and_valued_by_the_recipe():
    """METHOD's recipe, written again; and backward induction over (state, changes left) by plain sums."""
    alpha, seed, number, T = 0.5, 3, 7, 20
    rng, P = np.random.default_rng(seed), np.zeros((20, 10, 20))
    for a in range(10):
        for s in range(20):
            w = rng.uniform(0, alpha, 20)
            w[rng.choice(range(20))] = 1
            P[s, a] = w / sum(w)
    later, policy = np.arange(20.0), {}
    for t in range(T - 2, -1, -1):
        each = np.array([[sum(P[s, a] * later) for a in range(10)] for s in range(20)])
        policy[t], later = each.argmax(axis=1), np.arange(20.0) + each.max(axis=1)
    rng = np.random.default_rng(number)
    states, actions = [rng.choice(range(20))], []
    for t in range(T - 1):
        action = policy[t][states[-1]]
        if rng.binomial(1, 0.05):
            other = rng.choice(range(10))
            while other == action:
                other = rng.choice(range(10))
            action = other
        actions.append(action)
        states.append(rng.choice(range(20), p=P[states[-1], action]))
    mdp, chances, best = few_changes.draw_model(seed, alpha)
    np.testing.assert_allclose(chances, P, rtol=1e-14)
    drawn = few_changes.draw_paths(chances, best, [number])
    path = tether.Path(drawn[0][0].tolist(), drawn[1][0].tolist())
    assert (list(path.states), list(path.actions)) == ([int(s) for s in states], [int(a) for a in actions])
    cf = tether.counterfactual(mdp, path)
    value = {(s, c): float(s) for s in range(20) for c in range(2)}
    for t in range(T - 2, -1, -1):
        rows = {(s, a): dict(zip(*cf.row(t, s, a), strict=True)) for s in range(20) for a in range(10)}
        value = {
            (s, c): s
            + max(
                sum(p * value[j, c - (a != actions[t])] for j, p in rows[s, a].items())
                for a in range(10)
                if c or a == actions[t]
            )
            for s in range(20)
            for c in range(2)
        }
    (found,) = few_changes.outcomes(alpha, [seed], [number])
    np.testing.assert_allclose(found[:2], [value[states[0], c] for c in range(2)], rtol=1e-12)
    swept = cf.sweep(ks=[cf.T + 1], ms=list(few_changes.CHANGES)).values[0]  # m = 2, 5, 10: as for any episode
    np.testing.assert_allclose(found, swept, rtol=1e-12)
    assert found[0] == sum(states)  # the observed outcome: every state of it earns its reward


@pytest.mark.compiled
def test_trajectories_planned_together_are_those_planned_alone():
    together = few_changes.outcomes(0.1, [0, 1], [0, 1])
    alone = [few_changes.outcomes(0.1, [seed], [number])[0] for seed in (0, 1) for number in (0, 1)]
    np.testing.assert_allclose(together, alone, rtol=1e-13)


@pytest.mark.compiled
def test_few_changes_are_told(monkeypatch):
    monkeypatch.setattr(few_changes, "outcomes", lambda alpha, seeds: np.arange(1.0, 2751.0).reshape(550, 5))
    section = CASES["few_changes"]()
    means, _, released = section.tables
    assert means.rows[0] == (
        "α = 0.01",
        *(f"{np.arange(1.0, 2501.0).reshape(500, 5).mean(axis=0)[i]:.2f}" for i in range(5)),
    )
    assert [figure.name for figure in section.figures] == [
        *(f"few-changes-m{m}" for m in (2, 5, 10)),
        "few-changes-alpha",
    ]
    last = np.arange(1.0, 2751.0).reshape(550, 5)[50:]  # seeds 1 to 10
    assert released.rows[0][1] == f"{(100 * (last[:, 1] / last[:, 0] - 1)).mean():.2f} %"


def test_few_changes_are_held_to_their_numbers(monkeypatch):
    """With every number in place nothing has moved; one that is off by more than the printed digits is named."""
    values = {alpha: np.array([expected()[f"Few changes, α = {alpha:g}"].values]) for alpha in few_changes.CHECKED}
    gains = {alpha: expected()[f"Few changes, α = {alpha:g}, percent"].values for alpha in (0.1, 1.0)}
    monkeypatch.setattr(exact_numbers, "outcomes", values.__getitem__)
    monkeypatch.setattr(exact_numbers, "improvements", lambda one: gains[1.0 if one[0, 0] < 220 else 0.1])
    assert exact_numbers.moved(exact_numbers.few_changes_numbers()) == []
    values[0.5] = values[0.5] + [0, 0, 0.006, 0, 0]
    sentence = "Few changes, α = 0.5: number 3 is 231.796, must be 231.79 (1 of 5 differ)"
    assert exact_numbers.moved(exact_numbers.few_changes_numbers()) == [sentence]
