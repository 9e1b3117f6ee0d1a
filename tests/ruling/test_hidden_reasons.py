"""Γ* of a rule: worlds in which those who decided saw more than the log has, solved exactly."""

from itertools import product

import numpy as np
import pytest
from effort import tries
from scipy.optimize import brentq

import tether
from tether._foundation.words import at_most_three_digits
from tether.ruling.hidden_reasons import undoing_gamma, worst_value
from tether.ruling.practised import Candidate, Values, apply_rules
from tether.ruling.recorded import RuleWorld


def candidate(world, states, to):
    """The rule that replaces action a by to[a] in some states."""
    pairs = np.arange(world.pair_state.size)
    action = world.mdp.form.pair_action
    wanted = np.where(np.isin(world.pair_state, states), np.array(to)[action], action)
    return Candidate(None, None, None, pairs + wanted - action)


def confounded(rng, n_states=3, n_actions=2, effect=True):
    """Chances of causes, what is done and what follows given the cause; all by state."""
    cause = rng.dirichlet(np.ones(2), n_states)
    does = rng.dirichlet(2 * np.ones(n_actions), (n_states, 2))
    leads = rng.dirichlet(0.7 * np.ones(n_states), (n_states, n_actions, 2))
    reward = rng.normal(size=(n_states, n_actions)).round(2)
    if not effect:  # of any action: what seems one is the hidden cause
        leads[:], reward[:] = leads[:, :1], reward[:, :1]
    return cause, does, leads, reward


def observed(cause, does, leads, reward):
    """What a log of this world teaches, and the strength of its hidden causes."""
    n, actions = reward.shape
    usual = np.einsum("su,sua->sa", cause, does)
    among = np.einsum("su,sua->sau", cause, does) / usual[:, :, None]
    rows = np.einsum("sau,sauj->saj", among, leads)
    odds = does / (1 - does) / (usual / (1 - usual))[:, None, :]
    gamma = float(np.maximum(odds, 1 / odds).max())
    mdp = tether.MDP.from_arrays(rows, reward, states=[f"s{i}" for i in range(n)], actions=list("abc"[:actions]))
    return mdp, usual.reshape(-1), gamma


def true_values(cause, does, leads, reward, T, to, states):
    """What usual practice with the rule is worth: whoever would have done a does to[a], with the same hidden cause."""
    n, actions = reward.shape
    value = np.zeros(n)
    for _ in range(T):
        new = np.zeros(n)
        for s, u, a in product(range(n), range(2), range(actions)):
            b = to[a] if s in states else a
            new[s] += cause[s, u] * does[s, u, a] * (reward[s, b] + leads[s, b, u] @ value)
        value = new
    return value


@pytest.mark.parametrize("actions", [2, 3])
def test_the_truth_of_confounded_worlds_is_not_below(actions):
    undone = 0
    for seed in range(tries(40, 400)):
        rng = np.random.default_rng((actions, seed))
        parts = confounded(rng, n_actions=actions, effect=seed % 2 == 0)
        mdp, usual, gamma = observed(*parts)
        world, T = RuleWorld(mdp, None, False, 3), 1 + seed % 3
        to, states = [1, *range(1, actions)], [0, 2]
        values, start = Values(world, mdp, usual), np.arange(3)
        ruled = apply_rules(usual, world.pair_state, [candidate(world, states, to)])
        steps, weight = np.full(3, T), rng.dirichlet(np.ones(3))
        truth = true_values(*parts, T, to, states)
        worst = worst_value(values, ruled, gamma, start, steps)
        assert np.all(worst <= truth + 1e-9)
        nominal = Values(world, mdp, np.asarray(usual @ ruled).ravel()).of_starts(start, steps)
        np.testing.assert_allclose(worst_value(values, ruled, 1.0, start, steps), nominal, atol=1e-12)
        before = true_values(*parts, T, list(range(actions)), states)
        np.testing.assert_allclose(values.of_starts(start, steps), before, atol=1e-12)
        star = undoing_gamma(values, ruled, start, steps, weight)
        gain = float(weight @ (nominal - before))
        assert (star > 1.0) == (gain > 1e-9)
        if gain > 1e-9 and weight @ (truth - before) <= 1e-12:
            undone += 1
            assert star <= gamma * (1 + 1e-6)
        if 1.0 < star < np.inf:
            left = weight @ (worst_value(values, ruled, star, start, steps) - before)
            assert left == pytest.approx(0.0, abs=1e-6)
    assert undone > 5


def test_one_decision_by_hand():
    """Wait 0.6 dead, treat 0.2 dead, 70 % wait: treating the others leaves between L·q and H·q of them dead."""
    chances = {"wait": {"well": 0.4, "dead": 0.6}, "treat": {"well": 0.8, "dead": 0.2}}
    rows = [("sick", did, after, chance) for did, row in chances.items() for after, chance in row.items()]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), reward=[1, 0, 1, 0], terminal=["well", "dead"])
    counts = {("wait", "well"): 28, ("wait", "dead"): 42, ("treat", "well"): 24, ("treat", "dead"): 6}
    log = [tether.Path(["sick", end], [did]) for (did, end), n in counts.items() for _ in range(n)]
    one = tether.evaluate_rules(mdp, log, [tether.rule("sick", instead_of="wait", do="treat")])[0]
    assert one.gain == pytest.approx(0.7 * 0.4)

    def dead(gamma):  # of those who waited, had they been treated; with two actions the odds change up to Γ times
        return min(0.2 * gamma, 1 - 0.8 / gamma)

    star = brentq(lambda gamma: dead(gamma) - 0.6, 1.0, 50.0)
    assert one.gamma_star == pytest.approx(star, rel=1e-6)
    assert one.hidden()[0] in one.sentences()
    assert f"less than {at_most_three_digits(one.gamma_star)} times" in one.hidden()[0]
    assert one.gamma_star == pytest.approx(tether.evaluate_rules(
        mdp, log, [tether.rule("sick", instead_of="wait", do="treat")], objective=tether.avoid("dead"))[0].gamma_star
    )  # fmt: skip
    other = tether.evaluate_rules(mdp, log, [tether.rule("sick", instead_of="treat", do="wait")])[0]
    assert (other.gamma_star, other.hidden()) == (1.0, [])
