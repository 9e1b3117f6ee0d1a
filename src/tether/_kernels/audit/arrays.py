"""The records that the kernels for many episodes work on: the model, edited rows, a batch, scratch, and results."""

from __future__ import annotations

from typing import NamedTuple

from tether._foundation.arrays import Floats, Ints
from tether._kernels.sets import RowLimits, RowScratch


class Model(NamedTuple):
    """The arrays of a model: its form; for each state the states that any action leads to; rewards.

    ``reward`` is by pair. If the rewards of the model are by entry, they are in ``entry_reward`` (otherwise empty), and
    ``reward`` has their expectations.
    """

    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats
    after_start: Ints
    after_state: Ints
    reward: Floats
    entry_reward: Floats
    final: Floats
    discount: float
    absorbing: Ints


class RowPool(NamedTuple):
    """Edited rows: those of one observed transition are side by side, pairs ascending.

    Row i, of a pair of ``state[i]``, leads to ``next_state[start[i]:start[i + 1]]``.
    """

    pair: Ints
    state: Ints
    start: Ints
    next_state: Ints
    probability: Floats
    strength: Floats
    reward: Floats


class Batch(NamedTuple):
    """Episodes in the model's indices, their returns by the model, and the places of their edited rows.

    Step i has the rows ``row_end[transition[i]] … row_end[transition[i] + 1] - 1`` of the pool. An episode is left out
    if its ``usable`` is 0.
    """

    start: Ints
    state: Ints
    action: Ints
    pair: Ints
    next_state: Ints
    transition: Ints
    row_end: Ints
    observed: Floats
    usable: Ints


class LabelArrays(NamedTuple):
    """Labels, one byte per label and state; and the class of outcomes of every state, from 0."""

    member: Ints
    code: Ints


class Planning(NamedTuple):
    """Scratch for planning. Arrays by state are flat; only numbers that were written are read.

    ``stamp`` has, for each state, the number of the layer in which it was last seen; its last item, after those of the
    states, is the number of the last layer.

    The states of time t are ``layer[layer_start[2t]:layer_start[2t + 1]]``; those that a plan of one change needs are
    ``needed[needed_start[t]:needed_start[t + 1]]``. By time and state: ``edited``, the first edited row of a state,
    counted from 1, all 0 before and after each episode; ``distance``, in steps, to influence; ``choice``; and what
    `one_change` keeps: ``worth``, ``kappa``, ``feasible``. Of two layers in turn: ``flag`` (1: some pair is allowed;
    2: influence is met within k - 1), ``value``.
    """

    stamp: Ints
    layer: Ints
    layer_start: Ints
    needed: Ints
    needed_start: Ints
    distance: Ints
    worth: Floats
    kappa: Ints
    feasible: Ints
    edited: Ints
    flag: Ints
    value: Floats
    choice: Ints
    numbers: Floats
    by_pair: Floats


class Following(NamedTuple):
    """Scratch for following a plan. A node is state · (m + 1) + changes left.

    ``mark`` and ``by_class`` are 0 before and after each episode.
    """

    mark: Ints
    place: Ints
    position: Ints
    node: Ints
    mass: Floats
    changed: Ints
    by_step: Floats
    by_class: Floats
    terms: Floats
    halves: Ints
    sums: Floats


class Certifying(NamedTuple):
    """Scratch for all nodes that a plan can reach under some causal model, layer after layer.

    The nodes of time t are ``node[start[t]:start[t + 1]]``; ``pair`` is the pair taken there, -1 if it may be any;
    ``is_met`` says whether Gumbel-max leads there. The rest is for one row. ``nothing`` is empty.
    """

    start: Ints
    node: Ints
    pair: Ints
    is_met: Ints
    next_state: Ints
    probability: Floats
    nothing: Floats
    limits: RowLimits
    row: RowScratch


class Found(NamedTuple):
    """The results: for each episode, for each step its most probable change (-1: none), and for each end.

    Episode i has the ends ``end_start[i] … end_start[i + 1] - 1``. ``k`` is -1 for an episode that was left out.
    ``worst`` is the worst case over all causal models, and over all stable ones. If the gain holds under all causal
    models, the second number is not computed and equals the first. Without a certificate both are NaN.
    """

    k: Ints
    value: Floats
    strength: Floats
    influenced: Floats
    worst: Floats
    labels: Floats
    change_pair: Ints
    change_chance: Floats
    end_start: Ints
    end_code: Ints
    end_chance: Floats
