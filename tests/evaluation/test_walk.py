"""One step of the forward walk: episodes beside each other, in layers and without them, against a walk by hand."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tether.core.batch import Model, Replaced
from tether.core.chain import Taken, Visits
from tether.core.follow import entries, onward, reach


def random_step(rng, n_states=5, n_episodes=3):
    """A model, nodes of some episodes, what is taken in them, and edited rows for some of that."""
    width = rng.integers(1, 3, n_states)
    pair_start = np.concatenate(([0], np.cumsum(width)))
    supports = [np.sort(rng.choice(n_states, rng.integers(1, n_states), replace=False)) for _ in range(pair_start[-1])]
    row_start = np.concatenate(([0], np.cumsum([one.size for one in supports])))
    chance = np.concatenate([rng.dirichlet(np.ones(one.size)) for one in supports])
    action = np.concatenate([np.arange(n) for n in width])
    model = Model(pair_start, action, row_start, np.concatenate(supports).astype(np.int32), chance)
    keys = np.sort(rng.choice(n_episodes * n_states * 4, 8, replace=False))
    episode, rest = np.divmod(keys, n_states * 4)
    visits = Visits(rest // 4, rest // 2 % 2, rest % 2, episode)
    source = np.sort(rng.integers(0, visits.size, 6))
    pairs = np.array([rng.integers(pair_start[s], pair_start[s + 1]) for s in visits.states[source]])
    taken = Taken(source, pairs, rng.random(6), rng.integers(0, 3, 6), rng.integers(0, 3, 6))
    kept = [np.sort(rng.choice(supports[x], rng.integers(1, supports[x].size + 1), replace=False)) for x in pairs[:3]]
    row = np.where(np.arange(6) < 3, np.arange(6), -1)
    start = np.concatenate(([0], np.cumsum([one.size for one in kept])))
    edited = Replaced(row, start, np.concatenate(kept).astype(np.int32), rng.random(start[-1]) + 0.1)
    return model, visits, taken, edited


def by_hand(model, taken, edited, i):
    """Next states, with the chance and the entry of each, of what is taken at position i."""
    low, high = model.row_start[taken.pairs[i]], model.row_start[taken.pairs[i] + 1]
    entry = {int(model.next_state[e]): e for e in range(low, high)}
    if edited is None or edited.row[i] < 0:
        return {j: (model.probability[e], e) for j, e in entry.items()}
    items = range(edited.start[edited.row[i]], edited.start[edited.row[i] + 1])
    return {int(edited.next_state[at]): (edited.probability[at], entry[int(edited.next_state[at])]) for at in items}


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_a_step_is_what_it_is_by_hand(seed, in_place, by_entry):
    rng = np.random.default_rng(seed)
    model, visits, taken, edited = random_step(rng)
    edited = edited if in_place else None
    rewards = rng.random(model.next_state.size if by_entry else model.pair_action.size)
    mass = rng.random(taken.pairs.size)
    want, links, reached = defaultdict(float), [], []
    for i, (source, pair) in enumerate(zip(taken.source, taken.pairs, strict=True)):
        for j, (chance, entry) in sorted(by_hand(model, taken, edited, i).items()):
            node = int(visits.episode[source]), j, int(taken.changes[i]), int(taken.runs[i])
            want[node] += mass[i] * chance
            reward = rewards[entry] if by_entry else rewards[pair]
            links.append((source, node, pair, taken.probability[i] * chance, reward, i))
            reached.append((i, entry, chance))
    link, after = onward(model, visits, taken, edited, (rewards, by_entry))
    nodes = list(zip(*(one.tolist() for one in (after.episode, after.states, after.changes, after.runs)), strict=True))
    assert nodes == sorted(want)
    columns = link.source, [nodes[at] for at in link.target], link.pairs, link.probability, link.reward, link.decision
    assert list(zip(*columns, strict=True)) == links
    assert list(zip(*entries(model, taken.pairs, edited), strict=True)) == reached
    same, total = reach(model, visits, taken, edited, mass)
    assert all(np.array_equal(getattr(same, name), getattr(after, name)) for name in ("states", "changes", "runs"))
    assert np.array_equal(same.episode, after.episode)
    np.testing.assert_allclose(total, [want[node] for node in nodes], rtol=1e-12)


def test_in_a_large_model_nodes_are_found_by_sorting(monkeypatch):
    model, visits, taken, edited = random_step(np.random.default_rng(1))
    few = reach(model, visits, taken, edited, np.ones(6))
    monkeypatch.setattr("tether.core.follow._FEW", 0.001)
    many = reach(model, visits, taken, edited, np.ones(6))
    assert np.array_equal(few[0].states, many[0].states)
    np.testing.assert_allclose(few[1], many[1], rtol=1e-12)
