"""Many episodes on one model: indices for names; scratch used again; rows that equal steps share; the same bits."""

import gc
import threading
import weakref
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from twins import episodes

import tether
from tether.conditioning import lent_scratch
from tether.conditioning.edited_rows import Rows
from tether.conditioning.layers import walking
from tether.observation.indices import observe_indices, path_of
from tether.observation.path import Observation


def bits(cf):
    """All that conditioning stores, byte for byte."""
    layers = [(layer.states.tobytes(), *(array.tobytes() for array in layer.edits.arrays)) for layer in cf.graph.layers]
    return layers, cf.graph.last_states.tobytes()


@given(episodes())
def test_an_episode_in_indices(episode):
    mdp = episode.mdp()
    by_name = tether.counterfactual(mdp, episode.path)
    seen = by_name.observation
    for states in (seen.states, seen.states[: seen.T + episode.path.last_recorded].tolist()):
        again = observe_indices(mdp, states, seen.actions)
        for name in ("states", "actions", "pairs"):
            assert getattr(again, name).tolist() == getattr(seen, name).tolist()
    by_index = tether.counterfactual(mdp, seen)
    assert bits(by_index) == bits(by_name)
    assert by_index.path == episode.path == path_of(mdp, seen)


def test_an_episode_may_be_given_as_two_lists_of_indices():
    case = tether.cases.epidemic()
    named = tether.counterfactual(case.mdp, case.path)
    seen = named.observation
    for episode in ((seen.states, seen.actions), (seen.states.tolist(), seen.actions.tolist())):
        cf = tether.counterfactual(case.mdp, episode)
        assert (cf.path, bits(cf)) == (case.path, bits(named))
    cut = tether.counterfactual(case.mdp, (seen.states[:-1], seen.actions))
    assert (cut.path.last_recorded, cut.T) == (False, 7)
    with pytest.raises(tether.PathError, match=r"expected a tether\.Path, not list"):
        tether.counterfactual(case.mdp, [0, 1])


def test_indices_are_checked():
    toy = tether.cases.toy()
    mdp = toy.mdp
    seen = tether.counterfactual(mdp, toy.path).observation
    with pytest.raises(tether.PathError, match=r"t = 1: there is no state with index 80; the model has 0 to 7"):
        observe_indices(mdp, [0, 80, 5, 7, 7], seen.actions)
    with pytest.raises(tether.PathError, match=r"t = 0: there is no action with index -1"):
        observe_indices(mdp, seen.states, [-1, 0, 0, 0])
    with pytest.raises(tether.PathError, match=r"t = 0: state 's0', action 'a0' cannot lead to 's7'"):
        observe_indices(mdp, [0, 7, 7, 7, 7], [0, 0, 0, 0])
    with pytest.raises(tether.PathError, match="4 actions has 5 states"):
        observe_indices(mdp, [0, 1], seen.actions)
    with pytest.raises(tether.PathError, match="whole numbers"):
        observe_indices(mdp, ["s0"], [0])
    with pytest.raises(tether.PathError, match="0 actions"):
        observe_indices(mdp, [0], [])
    with pytest.raises(tether.QueryError, match=r"expected a tether\.MDP"):
        observe_indices(None, [0, 1], [0])
    # An observation that was put together by hand is not believed.
    forged = Observation(np.array([0, 7, 7]), np.array([0, 0]), np.array([3, 10**9]))
    with pytest.raises(tether.PathError, match="cannot lead to"):
        tether.counterfactual(mdp, forged)


class Counting:
    """A posterior of nominal rows that counts how many it was asked for."""

    def __init__(self, key):
        self.key, self.asked = key, []

    def replay(self, form, pairs):
        self.asked.append(pairs.size)
        return Rows.nominal(form, pairs)


def test_equal_steps_of_a_walk_share_their_rows():
    mdp, pairs = tether.cases.grid_world().mdp, np.arange(10)
    one, anew = Counting("one"), Counting(None)
    with walking(mdp) as walk:
        first = walk.edited(one, pairs)
        assert walk.edited(Counting("one"), pairs.copy()) is first
        assert walk.edited(Counting("two"), pairs) is not first
        assert walk.edited(one, pairs[3:6]).pairs.tolist() == [3, 4, 5]
        assert walk.edited(anew, pairs) is not walk.edited(anew, pairs)
    assert (one.asked, anew.asked) == ([10, 3], [10, 10])
    with walking(mdp) as walk:  # another episode
        assert walk.edited(one, pairs) is not first


def test_a_model_that_is_gone_leaves_nothing_behind():
    case = tether.cases.grid_world()
    tether.counterfactual(case.mdp, case.path)
    form = weakref.ref(case.mdp.form)
    del case
    gc.collect()
    assert form() is None


def test_scratch_is_lent_to_one_at_a_time_and_comes_back_clean():
    grid = tether.cases.grid_world()
    form = grid.mdp.form
    with lent_scratch.borrowed(form) as first, lent_scratch.borrowed(form) as second:
        assert first is not second
    with lent_scratch.borrowed(form) as again:
        assert again is second or again is first
    tether.counterfactual(grid.mdp, grid.path)
    for one in lent_scratch._FREE[form]:
        for array in (one.marked, one.scanned, one.seen):
            assert not array.any()
    with suppress(RuntimeError), lent_scratch.borrowed(form) as broken:
        broken.seen[0] = 1
        raise RuntimeError
    with lent_scratch.borrowed(form) as next_one:
        assert next_one is not broken


def test_threads_do_not_share_scratch():
    case = tether.cases.sepsis()
    expected = bits(tether.counterfactual(case.mdp, case.path))
    found = []

    def ask():
        found.extend(bits(tether.counterfactual(case.mdp, case.path)) for _ in range(3))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert all(one == expected for one in found)


@pytest.mark.compiled
@given(episodes())
def test_however_rows_are_cut_into_pieces_the_bits_are_the_same(episode):
    with pytest.MonkeyPatch.context() as patch:
        whole = bits(tether.counterfactual(episode.mdp(), episode.path))
        patch.setattr("tether._kernels.parallel.LARGE", 0)
        assert bits(tether.counterfactual(episode.mdp(), episode.path)) == whole
