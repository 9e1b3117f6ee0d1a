"""How much of a model an episode reaches and influences."""

import numpy as np
import pytest

import tether
from tether.influence.coverage import coverage


def test_it_counts_what_the_counterfactual_mdp_holds(epidemic):
    found = coverage(epidemic)
    for t in range(epidemic.T + 1):
        assert found.states[t] == len(epidemic.reachable(t))
    for t in range(epidemic.T):
        pairs = [(state, action) for state in epidemic.reachable(t) for action in epidemic.mdp.actions_in(state)]
        assert found.pairs[t] == len(pairs)
        observed, _ = epidemic.mdp.row(epidemic.path.states[t], epidemic.path.actions[t])
        # Definition 3: the supports of the two rows overlap.
        meets = [pair for pair in pairs if set(epidemic.mdp.row(*pair)[0]) & set(observed)]
        assert found.influenced[t] == len(meets)
    assert found.ever == len({state for t in range(epidemic.T + 1) for state in epidemic.reachable(t)})


def test_the_likelihood_is_that_of_what_happened(epidemic):
    found = coverage(epidemic)
    path, mdp = epidemic.path, epidemic.mdp
    for t in range(epidemic.T):
        chances = dict(zip(*mdp.row(path.states[t], path.actions[t]), strict=True))
        assert found.likelihood[t] == chances[path.states[t + 1]]


def test_an_outcome_that_was_not_recorded_has_no_likelihood():
    toy = tether.cases.toy()
    cut = tether.Path(toy.path.states[:-1], toy.path.actions)
    found = coverage(tether.counterfactual(toy.mdp, cut))
    assert np.isnan(found.likelihood).tolist() == [False, False, False, True]


def test_another_test_of_influence(grid):
    assert coverage(grid, tether.effective(0.05)).influenced.sum() < coverage(grid).influenced.sum()
    with pytest.raises(tether.QueryError):
        coverage(grid, "much")
