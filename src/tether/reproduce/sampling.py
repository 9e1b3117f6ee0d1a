"""The sampling error of the paper's numbers: its method, run many times.

The paper estimates every row of the counterfactual MDP from 1,000 draws of the noise. The error of a value is found by
repetition: estimate all rows again, plan on them, and take the spread over the runs. There are two ways of drawing:

- ``shared``: the noise of a step is drawn 1,000 times and used for every row, as in the paper's formula;
- not shared: every row has its own draws, which is a multinomial sample of the exact row and much faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.conditioned import CounterfactualMDP
from tether.conditioning.layers import Graph, Layer, Walk, expand
from tether.conditioning.rows import Rows, nominal_start, spans
from tether.conditioning.sampled import SampledGumbelMax

__all__ = ["DRAWS", "resample", "spread_of"]

DRAWS = 1000
"""Draws per row in the paper."""


def spread_of(
    cf: CounterfactualMDP,
    compute: Callable[[CounterfactualMDP], Floats],
    *,
    repeats: int,
    seed: int,
    shared: bool = True,
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of ``compute`` over sampled versions of a counterfactual MDP."""
    results = np.array([compute(sampled) for sampled in resample(cf, repeats, seed, shared)])
    return results.mean(axis=0), results.std(axis=0, ddof=1)


def resample(cf: CounterfactualMDP, repeats: int, seed: int, shared: bool) -> Iterator[CounterfactualMDP]:
    """Counterfactual MDPs whose every row was estimated from 1,000 draws.

    Valid for the rule `published` only: this rule uses nominal supports, which do not change, and the possible
    successors.
    """
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        yield replace(cf, graph=_resampled(cf.graph, rng, shared))


def _resampled(graph: Graph, rng: np.random.Generator, shared: bool) -> Graph:
    mdp = graph.mdp
    mechanism = SampledGumbelMax(DRAWS, rng=rng)
    walk = Walk(mdp, ())
    states = graph.layers[0].states
    layers = []
    for layer in graph.layers:
        pairs = _pairs_of(mdp.form.pair_start, states)
        if shared and layer.observed.recorded:
            rows = mechanism.infer(layer.observed).replay(mdp.form, pairs)
        else:
            rows = _multinomial_rows(graph, layer, pairs, rng)
        layers.append(Layer(states, rows, layer.observed, rows.pairs))
        states = walk.onward(states, rows)
    return Graph(mdp, graph.observation, tuple(layers), states)


def _multinomial_rows(graph: Graph, layer: Layer, pairs: Ints, rng: np.random.Generator) -> Rows:
    form = graph.mdp.form
    owner, entry, probability = expand(graph.mdp, layer.edits, pairs)
    start = nominal_start(form, pairs)
    share = np.zeros(int(start[-1]))
    share[start[owner] + entry - form.row_start[pairs][owner]] = _shares(owner, probability, pairs.size, rng)
    return Rows.from_entries(form, pairs, share, np.zeros(pairs.size))


def _pairs_of(pair_start: Ints, states: Ints) -> Ints:
    _, pairs = spans(pair_start[states], pair_start[states + 1])
    return pairs


def _shares(owner: Ints, probability: Floats, n_rows: int, rng: np.random.Generator) -> Floats:
    """The shares of the outcomes of each row in 1,000 draws; rows of equal length are drawn together."""
    lengths = np.bincount(owner, minlength=n_rows)
    start = np.concatenate(([0], np.cumsum(lengths)))
    shares = np.empty(probability.size)
    for length in np.unique(lengths):
        at = start[:-1][lengths == length][:, None] + np.arange(length)
        chance = probability[at]
        shares[at] = rng.multinomial(DRAWS, chance / chance.sum(axis=1, keepdims=True)) / DRAWS
    return shares
