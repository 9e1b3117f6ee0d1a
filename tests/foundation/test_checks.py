"""Values that many calls take: whatever is not allowed is refused in words, in every call that takes it."""

import numpy as np
import pytest

import tether
from tether._foundation.checks import random_generator

BAD = ["x", -1, 1.5, {"seed": 1}, object]


@pytest.mark.parametrize("rng", BAD, ids=str)
def test_what_is_no_source_of_chance(rng, grid):
    mdp = tether.learn([grid.path], prior=1)
    asks = [
        lambda: grid.plan(k=12, m=1).sample(2, rng=rng),
        lambda: grid.mdp.simulate("random", 2, rng=rng),
        lambda: tether.posterior(mdp, draws=2, rng=rng),
        lambda: tether.counterfactual(grid.mdp, grid.path, "gumbel-max-sampled", rng=rng),
    ]
    for ask in asks:
        with pytest.raises(tether.QueryError, match="rng must be a seed or a numpy Generator, not ") as caught:
            ask()
        assert repr(rng) in str(caught.value)


def test_sources_of_chance():
    generator = np.random.default_rng(1)
    assert random_generator(generator) is generator
    assert random_generator(np.int64(3)).random() == random_generator(3).random()
    assert random_generator(None).random() != random_generator(None).random()
