"""Many episodes on one model: indices instead of names, scratch and rows that are used again; the same bits."""

import gc
import threading
import weakref
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from twins import episodes

import tether
from tether.conditioning import lent_scratch, row_cache
from tether.conditioning.edited_rows import Rows
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


@given(episodes())
def test_rows_that_are_remembered_are_the_same_rows(episode):
    mdp = episode.mdp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "LIMIT", 0)
        alone = [bits(tether.counterfactual(episode.mdp(), episode.path, mechanism=name)) for name in NAMES]
    for _ in range(2):
        for name, expected in zip(NAMES, alone, strict=True):
            assert bits(tether.counterfactual(mdp, episode.path, mechanism=name)) == expected


NAMES = ("gumbel-max", "independent", "comonotone", "maximal")


class Counting:
    """A posterior that counts how many rows it was asked for."""

    def __init__(self, key):
        self.key, self.asked = key, []

    def replay(self, form, pairs):
        self.asked.append(pairs.size)
        return Rows.nominal(form, pairs)


def test_what_is_remembered_and_for_how_long(monkeypatch):
    form = tether.cases.grid_world().mdp.form
    pairs = np.arange(10)
    one = Counting("one")
    first = row_cache.remembered(form, one, pairs)
    assert row_cache.remembered(form, one, pairs.copy()) is first  # the same rows, not a copy of them
    part = row_cache.remembered(form, one, pairs[3:6])
    expected = Rows.nominal(form, pairs[3:6])
    for array, other in zip(part.arrays, expected.arrays, strict=True):
        assert array.tolist() == other.tolist()
    assert one.asked == [10]
    row_cache.remembered(form, one, np.arange(12))
    row_cache.remembered(form, one, pairs)
    assert one.asked == [10, 12]
    anew = Counting(None)
    for _ in range(2):
        row_cache.remembered(form, anew, pairs)
    assert anew.asked == [10, 10]
    # Another model has its own cache; and a limit on it forgets what was used longest ago.
    size = sum(array.nbytes for array in first.arrays)
    monkeypatch.setattr(row_cache, "LIMIT", 2 * size)
    other = tether.cases.grid_world().mdp.form
    row_cache.remembered(other, one, pairs)
    assert one.asked == [10, 12, 10]
    two, three = Counting("two"), Counting("three")
    for posterior in (two, one, three):  # `two` was used before `one`: it goes
        row_cache.remembered(other, posterior, pairs)
    for posterior in (one, three, two):
        row_cache.remembered(other, posterior, pairs)
    assert (one.asked, two.asked, three.asked) == ([10, 12, 10], [10, 10], [10])
    monkeypatch.setattr(row_cache, "LIMIT", size - 1)
    large, small = Counting("large"), tether.cases.grid_world().mdp.form
    for _ in range(2):
        row_cache.remembered(small, large, pairs)
    assert large.asked == [10, 10]


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
        for array in (one.marked, one.scanned, one.seen, one.weight):
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
        patch.setattr(row_cache, "LIMIT", 0)
        whole = bits(tether.counterfactual(episode.mdp(), episode.path))
        patch.setattr("tether._kernels.parallel.LARGE", 0)
        assert bits(tether.counterfactual(episode.mdp(), episode.path)) == whole
