"""Datasets of offline reinforcement learning as logs."""

from types import SimpleNamespace

import numpy as np
import pytest

import tether
from tether.errors import PathError, QueryError


class Minari:
    def __init__(self, *episodes):
        self.recorded = episodes

    def iterate_episodes(self):
        yield from self.recorded


def episode(observations, actions, rewards, ended, **more):
    ends = np.zeros(len(actions), dtype=bool)
    ends[-1] = ended
    return SimpleNamespace(observations=observations, actions=actions, rewards=rewards, terminations=ends, **more)


def test_minari_episodes_are_those_of_the_simulator():
    """Rewards are not shifted, ends are kept apart, and the learned model is the one of the same paths."""
    mdp = tether.cases.grid_world().mdp
    paths = [mdp.simulate("random", 6, rng=seed) for seed in range(30)]
    rewards = [[mdp.reward(s, a) for s, a in zip(path.states, path.actions, strict=False)] for path in paths]
    index = {action: i for i, action in enumerate(mdp.actions)}
    data = Minari(
        *(
            episode(np.array(path.states), np.array([index[a] for a in path.actions]), np.array(earned), i % 2, id=i)
            for i, (path, earned) in enumerate(zip(paths, rewards, strict=True))
        )
    )
    log = tether.io.from_dataset(data)
    assert [log[i].outcome for i in range(30)] == ["terminated" if i % 2 else None for i in range(30)]
    assert [log[i].states for i in range(30)] == [path.states for path in paths]
    np.testing.assert_array_equal(log.reward, np.concatenate(rewards))
    learned = tether.learn(log, prior=0.0)
    assert learned.reward(0, index["right"]) == mdp.reward(0, "right")
    # A time limit is no end: the last step of an episode that was cut off leads where it led.
    logs = (tether.io.from_dataset(Minari(*some)) for some in (data.recorded[::2], data.recorded[1::2]))
    cut, ended = (tether.learn(one, prior=0) for one in logs)
    assert {*cut.states} == {state for path in paths[::2] for state in path.states}
    assert "terminated" in ended.states


def test_d3rlpy_has_no_last_observation():
    one = SimpleNamespace(
        observations=np.array([[0], [3]]),
        actions=np.array([[1], [0]]),
        rewards=np.array([[0.5], [2.0]]),
        terminated=True,
    )
    log = tether.io.from_dataset(SimpleNamespace(episodes=[one]))
    assert log[0].states == (0, 3)
    assert log.next_state.tolist()[-1] == -1
    assert log.reward.tolist() == [0.5, 2.0]


def test_an_end_that_says_so_itself_stays_a_state():
    """Two ends stay two; a state that is also left, or where an episode was cut off, does not say that it is an end."""
    log = tether.io.from_dataset(
        Minari(
            episode([0, 1, 8], [0, 0], [0, 1], True),
            episode([0, 9], [1], [-1], True),
            episode([0, 1], [0], [0], True),
            episode([1, 7], [0], [0], False),
            episode([0, 7], [0], [0], True),
        )
    )
    assert [log[i].outcome for i in range(5)] == [None, None, "terminated", None, "terminated"]
    learned = tether.learn(log, prior=0)
    assert {learned.states[i] for i in learned.form.terminal.tolist()} == {7, 8, 9, "terminated"}
    assert set(learned.row(1, 0)[0]) == {7, 8}


def test_a_dataset_is_learned_from_as_it_is():
    data = Minari(episode([0, 1, 8], [0, 0], [0, 1], True), episode([0, 9], [1], [-1], True))
    assert repr(tether.learn(data)) == repr(tether.learn(tether.io.from_dataset(data)))
    with pytest.raises(QueryError, match="columns say how to read a file"):
        tether.learn(data, columns={"state": "s"})
    one = SimpleNamespace(observations=[[0], [3]], actions=[[1], [0]], rewards=[[0.5], [2.0]], terminated=True)
    assert tether.learn(SimpleNamespace(episodes=[one])).n_states == 3


def test_audits_take_a_dataset():
    data = Minari(*(episode([0, 1, 8 + i % 2], [0, i % 2], [0, i % 2], True) for i in range(4)))
    mdp = tether.learn(data, prior=0)
    tables = [tether.audit(mdp, log, k=1, m=1, certify=False).table for log in (data, tether.io.from_dataset(data))]
    assert tables[0].equals(tables[1])


def test_observations_of_several_parts():
    one = episode({"b": np.array([0, 1]), "a": np.array([[5.0], [6.0]])}, np.array([0]), [1.0], True)
    assert tether.io.from_dataset(Minari(one))[0].states == ((5, 0), (6, 1))
    two = episode((np.array([0, 1]), np.array([[2, 3], [4, 5]])), np.array([0]), [1.0], True)
    assert tether.io.from_dataset(Minari(two))[0].states == ((0, (2, 3)), (1, (4, 5)))


@pytest.mark.parametrize(
    ("dataset", "error", "says"),
    [
        (Minari(episode(np.array([0.5, 1.0]), np.array([0]), [0.0], True)), PathError, "not discrete.*bins"),
        (Minari(episode(np.arange(4), np.array([0]), [0.0], True)), PathError, "4 observations, 1 actions"),
        (Minari(), PathError, "no episode with a step"),
        (object(), QueryError, "expected a Minari or d3rlpy dataset, not object"),
    ],
)
def test_what_is_refused(dataset, error, says):
    with pytest.raises(error, match=says):
        tether.io.from_dataset(dataset)
