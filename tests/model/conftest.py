"""What the tests of models on disk ask for."""

import numpy as np
import pytest

from tether import MDP
from tether.model.counts import Counts


@pytest.fixture
def saved(tmp_path):
    """A model with something of everything, saved."""
    mdp = MDP.from_table(
        ["sun", "sun", "rain", "rain"],
        ["walk", "walk", "walk", "dance"],
        ["sun", "rain", "rain", "home"],
        [0.75, 0.25, 1.0, 1.0],
        [4, -4, 1, 9],
        terminal=["home"],
    )
    mdp = mdp.with_objective(discount=0.9, final_reward={"home": 5.0})
    counts = Counts(np.arange(mdp.n_transitions), 0.5, 3, 10, 1, 2, np.array([[1, 1, 1]]), 2)
    mdp = MDP(mdp.states, mdp.actions, mdp.form, 7, mdp.discount, mdp.final_reward, counts)
    mdp.save(tmp_path / "weather")
    return mdp, tmp_path / "weather"
