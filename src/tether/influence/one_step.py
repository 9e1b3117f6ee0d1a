"""One-step influence: is a pair influenced by the observation at a time?

Three tests are built in, on a pair (s, a) at t, with p the observed row of t, q = P(·|s, a) and P_cf the
counterfactual row:

- ``"support"`` (the paper's Definition 3): supp q ∩ supp p ≠ ∅;
- ``tv(eps)`` (the paper's appendix on notions of influence): ½ Σ |p - q| ≤ eps;
- ``effective(eps)`` (ours): TV(P_cf, q) > eps, exactly; the observed pair itself always counts.

A fourth is the user's own (`tether.influence.own`). The first two are about supports and nominal rows, whatever the
mechanism. The influenced pairs of a step are always among its edited rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether.conditioning.carried import step_within
from tether.conditioning.layers import Graph, Layer
from tether.core.batch import Model, Seen
from tether.errors import Problem, QueryError
from tether.influence import own
from tether.influence.own import InfluenceTest, RowOfStep, in_short
from tether.model.form import model_of, pair_states
from tether.model.model_record import ModelRecord
from tether.model.product import memory_of, model_itself


@dataclass(frozen=True, slots=True)
class Support:
    """Influenced if the supports overlap."""

    def __str__(self) -> str:
        return "support"


@dataclass(frozen=True, slots=True)
class TotalVariation:
    """Influenced if the nominal row is within ``eps`` of the observed one, in total variation."""

    eps: float

    def __str__(self) -> str:
        return f"tv({shortest(self.eps)})"


@dataclass(frozen=True, slots=True)
class Effective:
    """Influenced if the observation moves the row by more than ``eps``, in total variation."""

    eps: float

    def __str__(self) -> str:
        return f"effective({shortest(self.eps)})"


Influence = Support | TotalVariation | Effective | InfluenceTest
GivenInfluence = Influence | own.Influence | Flags | list[Any]
"""What users may give: `make_influence` makes a test of it."""


def shortest(eps: float) -> str:
    """The number in full, with the fewest digits that identify it.

    >>> shortest(0.0), shortest(0.1234567)
    ('0', '0.1234567')
    """
    return repr(eps).removesuffix(".0")


def in_python(influence: Influence) -> str:
    """The test as it is written in Python.

    >>> in_python(Support()), in_python(TotalVariation(0.5))
    ("'support'", 'tether.tv(0.5)')
    """
    if isinstance(influence, InfluenceTest):
        return influence.name
    return repr(str(influence)) if isinstance(influence, Support) else f"tether.{influence}"


def on_the_command_line(influence: Influence) -> str:
    """The test as it is typed.

    >>> on_the_command_line(Effective(0.25)), on_the_command_line(Support())
    ('effective:0.25', 'support')
    """
    if isinstance(influence, Support):
        return "support"
    if isinstance(influence, InfluenceTest):
        raise QueryError(f"the test {influence} is a function or a table of yours: it cannot be typed")
    return f"{'tv' if isinstance(influence, TotalVariation) else 'effective'}:{shortest(influence.eps)}"


def tv(eps: float) -> TotalVariation:
    """One-step influence by closeness to the observed row: ½ Σ |P(·|s_t,a_t) - P(·|s,a)| ≤ eps.

    Parameters
    ----------
    eps : float
        At least 0 and less than 1; just below 1 it is the paper's ``"support"``.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> cf = tether.counterfactual(patient.mdp, patient.path)
    >>> cf.sweep(ks=[8, 9, 10]).sizes, cf.sweep(influence=tether.tv(0.5), ks=[8, 9, 10]).sizes
    (array([3866, 5013, 5667]), array([3866, 4974, 5667]))
    """
    return TotalVariation(_checked(eps, "tv"))


def effective(eps: float = 0.0) -> Effective:
    """One-step influence by its effect: TV between the counterfactual and the nominal row > eps.

    Parameters
    ----------
    eps : float
        At least 0 and less than 1; with 0, the test is whether the observation changes the row at all.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf.sweep().distinct, cf.sweep(influence=tether.effective(0)).distinct
    (array([1, 6]), array([1, 2, 6]))
    """
    return Effective(_checked(eps, "effective"))


def _checked(eps: Any, name: str) -> float:
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.floating | np.integer) or not 0 <= eps < 1:
        raise QueryError(f"{name}(eps): eps must be a number with 0 ≤ eps < 1, not {eps!r}")
    return float(eps)


def make_influence(influence: Any, mdp: ModelRecord | None = None) -> Influence:
    """The test by its name or record; one of the user's own is bound to the model."""
    if isinstance(influence, Support | TotalVariation | Effective):
        return influence
    if isinstance(influence, str) and influence == "support":
        return Support()
    if isinstance(influence, InfluenceTest):
        return influence if mdp is None else influence.bound(model_itself(mdp))
    if influence is tv or influence is effective:
        name = f"tether.{influence.__name__}"
        raise QueryError(Problem(f"influence={name} lacks its eps", fix=f"write {name}(0.5)"))
    if own.is_given(influence):
        return make_influence(InfluenceTest(influence), mdp)
    message = f"influence must be 'support', tether.tv(eps) or tether.effective(eps), not {in_short(influence)}"
    fix = "a test of your own is a function f(p, observed, q), or a table of truth values"
    raise QueryError(Problem(message, value=influence, fix=fix))


def influenced_pairs(graph: Graph, t: int, influence: Influence) -> Ints:
    """Pairs of layer t on which the observation exerts one-step influence, ascending."""
    layer = graph.layers[t]
    edits = layer.edits
    if isinstance(influence, Support):
        return layer.meeting
    if isinstance(influence, TotalVariation):
        kept = distances(graph, t) <= influence.eps
    else:
        own = _observed_pairs(graph, layer)
        by_test = edits.strengths() > influence.eps if isinstance(influence, Effective) else _own(graph, t, influence)
        kept = by_test | np.isin(edits.pairs, own)
    pairs: Ints = edits.pairs[kept]
    pairs.flags.writeable = False  # like the pairs of the edits: kernels are compiled for one kind of array
    return pairs


def _observed_pairs(graph: Graph, layer: Layer) -> Ints:
    """The observed pair of a layer, in each copy of the model, or with everything that may remain."""
    memory = memory_of(graph.mdp)
    if memory is not None:
        return np.flatnonzero(memory.pair == memory.pair[layer.observed.pair])
    return graph.pairs_of_copies(np.array([layer.observed.pair])) if layer.own is None else layer.own


def _own(graph: Graph, t: int, influence: InfluenceTest) -> Flags:
    """What a test of the user's own says about each edited pair of layer t."""
    seen, pairs, mdp = graph.layers[t].observed, graph.layers[t].edits.pairs, graph.mdp
    memory = memory_of(mdp)
    if memory is not None:
        seen, pairs, mdp = step_within(memory, t, seen.pair, seen.outcome), memory.pair[pairs], memory.mdp
    n = mdp.n_states // influence.n_states  # copies of the model, each with a row of the observed pair
    rows = Seen(np.arange(n + 1) * (seen.next_state.size // n), seen.next_state, seen.probability)
    copy, outcome = pair_states(mdp.form.pair_start, pairs) // influence.n_states, np.full(pairs.size, seen.outcome)
    return tested(influence, t, model_of(mdp.form), rows, copy, outcome, pairs)


def tested(
    influence: InfluenceTest, t: int, model: Model, rows: Seen, which: Ints, outcome: Ints, pairs: Ints
) -> Flags:
    """What a test of the user's own says about ``pairs[i]``, given that the row ``which[i]`` led to ``outcome[i]``.

    The same is asked once.
    """
    different, place = np.unique(np.stack((which, outcome, pairs)), axis=1, return_inverse=True)
    found = np.zeros(different.shape[1], bool)
    for row, happened in np.unique(different[:2], axis=1).T.tolist():
        some = np.flatnonzero((different[0] == row) & (different[1] == happened))
        entries = slice(int(rows.start[row]), int(rows.start[row + 1]))
        step = RowOfStep.of(rows.next_state[entries], rows.probability[entries], happened, influence.n_states)
        found[some] = influence.holds(t, different[2, some], model, step)
    flags: Flags = found[place.reshape(-1)]
    return flags


def distances(graph: Graph, t: int) -> Floats:
    """½ Σ |P(·|s_t,a_t) - P(·|s,a)| for each edited pair of layer t; it is 1 for every other pair."""
    from tether.core.rows import distances as distances_of_pairs

    seen, pairs = graph.layers[t].observed, graph.layers[t].edits.pairs
    row = Seen(np.array([0, seen.next_state.size]), seen.next_state, seen.probability)
    return distances_of_pairs(model_of(graph.mdp.form), row, np.zeros(pairs.size, np.int64), pairs)
