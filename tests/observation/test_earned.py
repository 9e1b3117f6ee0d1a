"""The return by the log's own rewards, beside the return by the model's rewards for the same steps."""

from dataclasses import replace
from fractions import Fraction

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import logs

import tether
from tether._foundation.words import number
from tether.learning.learn import learn
from tether.observation.episodes import Episodes

QUARTERS = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(3, 4)])


def by_hand(mdp, path, rewards, discount):
    """Σ γ^t r_t + γ^T · final, exactly; the expected final reward where the last outcome was not recorded."""
    total = sum((discount**t * Fraction(reward) for t, reward in enumerate(rewards)), Fraction(0))
    if mdp.final_reward is None:
        return total
    if path.last_recorded:
        ends = {path.states[-1]: Fraction(1)}
    else:
        states, chances = mdp.row(path.states[-1], path.actions[-1])
        ends = dict(zip(states, map(Fraction, chances.tolist()), strict=True))
    worth = {state: Fraction(float(mdp.final_reward[mdp.states.find(state)])) for state in ends}
    return total + discount**path.T * sum(ends[state] * worth[state] for state in ends)


@given(logs(), QUARTERS, st.booleans(), st.sampled_from(["zero", "mean"]))
def test_both_returns_are_those_of_a_count_by_hand(log, discount, ending, empty):
    mdp = learn(Episodes.from_columns(**log.columns()), empty_rewards=empty)
    final = {state: float(i - 1) for i, state in enumerate(mdp.states)} if ending else None
    mdp = mdp.with_objective(discount=float(discount), final_reward=final)
    for path in log.paths.values():
        cf = tether.counterfactual(replace(mdp, horizon=path.T), path)  # nothing follows the record
        plan = cf.plan(k=1, m=0)
        if path.rewards is None:
            assert cf.earned is None
            assert plan.logged_return is None
            continue
        own = [0 if reward is None else reward for reward in path.rewards]
        said = by_hand(mdp, path, own, discount)
        assert plan.logged_return == pytest.approx(float(said), abs=1e-12)
        assert cf.earned.model == plan.observed_value
        assert cf.earned.unknown == path.rewards.count(None)
        differ = abs(float(said) - plan.observed_value) > 1e-9
        assert cf.earned.differ == differ
        warned = [
            sentence
            for sentence in plan.explain(draws=0, certificate=False).sentences()
            if sentence.startswith("The log says")
        ]
        assert len(warned) == differ


def test_the_last_step_without_an_outcome_is_only_expected():
    mdp = tether.MDP.from_table(["a", "a"], ["x", "x"], ["b", "c"], [0.5, 0.5], reward=[0.0, 10.0], terminal=["b", "c"])
    earned = tether.counterfactual(mdp, tether.Path(["a"], ["x"], [10])).earned
    assert (earned.logged, earned.model, earned.expected, earned.differ) == (10.0, 5.0, True, True)
    assert "because the last outcome was not recorded and" in earned.sentence()
    known = tether.counterfactual(mdp, tether.Path(["a", "c"], ["x"], [10])).earned
    assert (known.logged, known.model, known.differ, known.sentence()) == (10.0, 10.0, False, "")


def test_rounding_is_no_difference():
    paths = [tether.Path(["a"] * 11, ["x"] * 10, [0.1] * 10), tether.Path(["a", "a"], ["x"], [0.1])]
    earned = tether.counterfactual(learn(paths).with_objective(discount=0.99), paths[0]).earned
    assert not earned.differ


def slip(seed):
    """An episode on the slippery cliff, as the environment paid it."""
    env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    rng = np.random.default_rng(seed)
    state, _ = env.reset(seed=seed)
    states, actions, rewards = [int(state)], [], []
    while len(actions) < 60:
        actions.append(int(rng.integers(4)))
        state, reward, terminated, _, _ = env.step(actions[-1])
        states.append(int(state))
        rewards.append(float(reward))
        if terminated:
            break
    return tether.from_gymnasium(env), tether.Path(states, actions, rewards)


def test_on_a_slippery_cliff_the_environment_paid_what_the_model_only_averages():
    """From the start cell, 36, both a fall (-100) and a step against the wall (-1) lead back to it."""
    differing = 0
    for seed in range(5):
        mdp, path = slip(seed)
        plan = tether.counterfactual(mdp, path).plan(k=3, m=1)
        assert plan.logged_return == sum(path.rewards)
        by_model = sum(mdp.reward(*step) for step in zip(path.states, path.actions, path.states[1:], strict=False))
        assert plan.observed_value == pytest.approx(by_model)
        explanation = plan.explain()
        assert explanation.logged_return == plan.logged_return
        if abs(by_model - sum(path.rewards)) < 1e-9:
            continue
        differing += 1
        warning = next(sentence for sentence in explanation.sentences() if sentence.startswith("The log says"))
        assert warning == (
            f"The log says {number(sum(path.rewards))} for this episode; the model's rewards for the same steps come "
            f"to {number(by_model)}, because a model averages the rewards of the same transition."
        )
    assert differing >= 3
