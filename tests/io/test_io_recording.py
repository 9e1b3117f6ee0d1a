"""Episodes of environments without a table of transitions."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import tether
from tether.errors import QueryError
from tether.io import record


class Corridor(gymnasium.Env):
    """Five cells; action 7 goes on, 8 stays. The last cell ends it; seen is (cell, whether it went)."""

    action_space = spaces.Discrete(2, start=7)

    def __init__(self, as_observed=lambda cell, went: (np.int64(cell), went)):
        self.as_observed, self.log = as_observed, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.log.append(seed)
        self.cell = int(self.np_random.integers(2))
        return self.as_observed(self.cell, 0), {}

    def step(self, action):
        went = int(action == 7)
        self.cell += went
        return self.as_observed(self.cell, went), -1.0 - self.cell, self.cell >= 4, False, {}


def test_an_episode_is_what_the_environment_said():
    """Played again by hand, from the same seed: states, rewards, and how it ended."""
    env = Corridor()
    path = record(env, lambda state: {7: 0.5, 8: 0.5}, seed=4)
    by_hand = Corridor()
    first, _ = by_hand.reset(seed=3)
    seen = [by_hand.step(action) for action in path.actions]
    assert path.states == (tuple(map(int, first)), *(tuple(map(int, one[0])) for one in seen))
    assert path.rewards == tuple(one[1] for one in seen)
    assert all(type(part) is int for state in path.states for part in state)
    assert (path.outcome, seen[-1][2], set(path.actions)) == ("terminated", True, {7, 8})
    assert record(env, {(0, 0): 8, (1, 0): 8}, seed=3, max_steps=1).outcome is None


def test_an_end_that_says_so_itself_is_a_state_of_the_learned_model():
    log = record(Corridor(), lambda state: {7: 0.5, 8: 0.5}, n=30, seed=0)
    assert {log[i].outcome for i in log.ids} == {None}
    learned = tether.learn(log)
    assert learned.states.find((4, 1)) in learned.form.terminal.tolist()
    one = record(Corridor(), lambda state: 7, mdp=learned, seed=3)
    assert one.outcome is None
    assert tether.counterfactual(learned, one).plan(m=1).observed_value == pytest.approx(sum(one.rewards))


def test_the_end_of_a_time_limit_is_no_end_of_the_episode():
    limited = gymnasium.wrappers.TimeLimit(Corridor(), 2)
    log = record(limited, lambda state: 7, n=20, seed=0)
    ended = [log[i].states[-1][0] == 4 for i in log.ids]
    assert [log[i].outcome for i in log.ids] == ["terminated" if one else None for one in ended]
    assert not any(ended)
    assert {log[i].T for i in log.ids} == {2}
    learned = tether.learn(log, prior=0)
    assert learned.states.find("terminated") < 0
    assert learned.row((1, 1), 7)[0] == ((2, 1),)


def test_the_same_seed_plays_the_same_episodes():
    """Only the first reset is seeded; then the environment goes on drawing."""
    env = Corridor()
    one, other = (record(env, n=6, seed=seed) for seed in (5, np.int64(5)))
    assert env.log == [5, None, None, None, None, None] * 2
    assert [one[i] for i in one.ids] == [other[i] for i in other.ids]
    drawn = [record(env, n=6, seed=make()) for make in [lambda: np.random.SeedSequence(5)] * 2]
    assert [drawn[0][i] for i in range(6)] == [drawn[1][i] for i in range(6)]
    assert record(env, seed=np.random.default_rng(5)) == record(env, seed=np.random.default_rng(5))
    assert len({record(env, seed=seed).states for seed in range(8)}) > 1
    with pytest.raises(QueryError, match="seed must be a seed or a numpy Generator, not 'x'"):
        record(env, seed="x")


@pytest.mark.parametrize(
    ("as_observed", "first"),
    [
        (lambda cell, went: cell, 1),
        (lambda cell, went: np.array([cell, went]), (1, 0)),
        (lambda cell, went: {"went": went, "at": np.array([cell])}, ((1,), 0)),
        (lambda cell, went: bool(cell), True),
    ],
)
def test_discrete_observations_of_every_kind(as_observed, first):
    path = record(Corridor(as_observed), lambda state: 8, seed=2, max_steps=1)
    assert path.states[0] == first


def test_blackjack_becomes_a_model_whose_best_policy_plays_on():
    env = gymnasium.make("Blackjack-v1")
    log = record(env, n=400, seed=1)
    assert len(log) == 400
    mdp = tether.learn(log)
    assert set(mdp.actions) == {0, 1}
    sticks = record(env, "optimal", mdp=mdp.with_rewards(lambda state, action: float(action == 0)), seed=2, max_steps=3)
    assert sticks.actions == (0,)
    asked = SimpleNamespace(predict=lambda state: np.array([0.0, 1.0], np.float32))
    assert record(env, asked, seed=2).actions[0] == 1


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (gymnasium.make("CartPole-v1"), {}, "observations of CartPole-v1 are not discrete: found .*cut it into"),
        (gymnasium.make("MountainCarContinuous-v0"), {}, "actions of MountainCarContinuous-v0 are not discrete"),
        (Corridor(), {"policy": "optimal"}, "the policy 'optimal' needs a model, and Corridor has no table; give mdp="),
        (Corridor(), {"policy": np.zeros(5, int)}, "a policy that is an array needs a model"),
        (Corridor(), {"policy": {(9, 9): 7}}, r"the policy says nothing for state \(., 0\) at t = 0"),
        (Corridor(), {"policy": lambda state: 3}, "the policy names 3 in state .*; available are 7, 8"),
        (Corridor(), {"mdp": tether.cases.toy().mdp}, "Corridor has no action 'a0'"),
        (Corridor(), {"n": 0}, "n must be a whole number ≥ 1"),
        ("Blackjack-v1", {}, "expected an environment, not its name"),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded(env, options, message):
    with pytest.raises(QueryError, match=message):
        record(env, **options)
