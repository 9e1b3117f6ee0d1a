"""The four classes of states at a time: what the paper's figures on k = 1 and k = 2 show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number
from tether._foundation.markup import html_table
from tether.conditioning.as_batch import layers_of, steps_of
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import EditedRows, Rows
from tether.conditioning.layers import Graph, everywhere, nominal_rollout, replay
from tether.conditioning.mechanism import NoisePosterior
from tether.conditioning.on_demand import RowsOnDemand
from tether.errors import QueryError
from tether.influence.kappa import Thresholds, own_of, thresholds
from tether.influence.one_step import Influence, influenced_pairs
from tether.influence.rules import Rule

CLASSES = ("observed", "influenced and reachable", "influenced but unreachable", "not influenced")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Classes(Mapping[Any, str]):
    """The class of each state of the model at one time: a mapping from names.

    Examples
    --------
    >>> import tether
    >>> toy = tether.cases.toy()
    >>> cf = tether.counterfactual(toy.mdp, toy.path)
    >>> classes = cf.classify(t=1, k=1, rollout="nominal")
    >>> classes["s2"], classes["s3"], classes["s1"]
    ('observed', 'influenced and reachable', 'not influenced')
    >>> cf.classify(t=1, k=1)["s3"]  # the observation rules it out: (s0, a0) led to s2
    'influenced but unreachable'
    """

    cf: CounterfactualRecord
    k: int
    t: int
    codes: Ints

    def __getitem__(self, state: Any) -> str:
        s = self.cf.mdp.states.find(state)
        if s < 0:
            raise KeyError(state)
        return CLASSES[int(self.codes[s])]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.cf.mdp.states)

    def __len__(self) -> int:
        return self.cf.mdp.n_states

    def states(self, which: str) -> tuple[Any, ...]:
        """Names of the states of one class."""
        if which not in CLASSES:
            raise QueryError(f"the classes are {', '.join(map(repr, CLASSES))}; there is no {which!r}")
        return self.cf.mdp.names_of(np.flatnonzero(self.codes == CLASSES.index(which)))

    def counts(self) -> dict[str, int]:
        """How many states are in each class."""
        return {name: int(np.count_nonzero(self.codes == i)) for i, name in enumerate(CLASSES)}

    def __repr__(self) -> str:
        text = ", ".join(f"{n:,} {name}" for name, n in self.counts().items())
        return f"<Classes at t = {self.t} for k = {self.k}: {text}>"

    def _repr_html_(self) -> str:
        rows = []
        for i, (name, n) in enumerate(self.counts().items()):
            first = self.cf.mdp.names_of(np.flatnonzero(self.codes == i)[:3])
            rows.append((name, f"{n:,}", ", ".join(map(str, first)) + (", …" if n > 3 else "")))
        return html_table((f"t = {self.t}, k = {self.k}", "states", "for example"), rows)


def classify(
    cf: CounterfactualRecord,
    reached: Callable[[int], Thresholds],
    rule: Rule,
    influence: Influence,
    *,
    t: int,
    k: int,
    rollout: Any = "counterfactual",
) -> Classes:
    """Class of each state at time t; see `CounterfactualMDP.classify`. ``reached`` gives κ, for up to some k.

    After an objective is decided no influence is required: such a state counts as influenced.
    """
    k = min(whole_number("k", k, 1), cf.T + 1)
    t = cf.time(t, last=cf.T)
    if rollout not in ("counterfactual", "nominal"):
        raise QueryError(f"rollout must be 'counterfactual' or 'nominal', not {rollout!r}")
    if rollout == "nominal":
        found = thresholds(with_strengths(nominal_rollout(cf.graph), cf.posteriors), rule, influence, up_to=k)
        whole = with_strengths(everywhere(cf.graph, (None,) * cf.T), cf.posteriors)
    else:
        found = reached(k)
        whole = everywhere(cf.graph, cf.posteriors)
    codes = np.full(cf.mdp.n_states, CLASSES.index("not influenced"), dtype=np.int8)
    codes[_influenced_states(whole, rule, influence, k, t)] = CLASSES.index("influenced but unreachable")
    codes[_reached(found, t, k)] = CLASSES.index("influenced and reachable")
    observed = int(cf.observation.states[t])
    if observed >= 0:
        codes[observed] = CLASSES.index("observed")
    codes.flags.writeable = False
    return Classes(cf, k, t, codes)


def _reached(found: Thresholds, t: int, k: int) -> Ints:
    """States that are reached at time t through pairs allowed for k."""
    reached: Ints = found.nodes[t].states[found.reach[t] <= k]
    return reached


def classify_reachable(cf: CounterfactualRecord, found: Thresholds, k: int) -> tuple[Ints, ...]:
    """Class of each state that s_0 can reach, t = 0 … T, as an index into `CLASSES`.

    The same as `classify` for these states, at all times at once, and without computing any other state.
    """
    graph, T = cf.graph, cf.T
    layers, own = found.layers, found.own if found.rule != "assured" and found.graph is graph else None
    if own is None:  # its nodes are more than states
        rule: Rule = "definition" if found.rule == "assured" else found.rule
        layers = layers_of(graph, found.influenced)
        own = own_of(graph, found.steps, layers, rule)
    codes = []
    for t in range(T + 1):
        states, nodes = graph.states(t), layers[t].nodes
        code = np.full(states.size, CLASSES.index("not influenced"), dtype=np.int8)
        if t + k > T:
            code[:] = CLASSES.index("influenced but unreachable")
        else:
            near = nodes.states[_any_of(own[t] <= k, nodes.offsets)]
            code[np.searchsorted(states, near)] = CLASSES.index("influenced but unreachable")
        code[np.isin(states, _reached(found, t, k))] = CLASSES.index("influenced and reachable")
        code[states == cf.observation.states[t]] = CLASSES.index("observed")
        codes.append(code)
    return tuple(codes)


def classify_layers(cf: CounterfactualRecord, found: Thresholds, layers: Sequence[Ints], k: int) -> tuple[Ints, ...]:
    """Class of each state of ``layers`` (`reached_states`), as an index into `CLASSES`.

    The layers contain also the states where paths end before T.
    """
    codes = classify_reachable(cf, found, k)
    ended = cf.graph.ended
    if ended is None:
        return codes
    in_layers = []
    for t, states in enumerate(layers):
        of_all = np.full(cf.mdp.n_states, CLASSES.index("influenced but unreachable"), dtype=np.int8)
        of_all[cf.graph.states(t)] = codes[t]
        of_all[_reached(found, t, k)] = CLASSES.index("influenced and reachable")
        if cf.observation.states[t] >= 0:
            of_all[cf.observation.states[t]] = CLASSES.index("observed")
        in_layers.append(of_all[states])
    return tuple(in_layers)


def with_strengths(graph: Graph, posteriors: tuple[NoisePosterior | None, ...]) -> Graph:
    """A graph of nominal rows, with the strengths of the observation's influence on them."""
    layers = tuple(
        replace(layer, edits=layer.edits.with_strengths(_strengths(graph, posterior, layer.edits)))
        for layer, posterior in zip(graph.layers, posteriors, strict=True)
    )
    return replace(graph, layers=layers)


def _strengths(graph: Graph, posterior: NoisePosterior | None, edits: EditedRows) -> Floats:
    if isinstance(edits, Rows):
        # A writable copy, as elsewhere: for another kind of array the kernels would be compiled again.
        return replay(graph.mdp, posterior, edits.pairs.copy()).strength
    return RowsOnDemand(graph.mdp.form, posterior, edits.pairs).strengths()


def _influenced_states(whole: Graph, rule: Rule, influence: Influence, k: int, t: int) -> Ints:
    """States with a pair that is within k of influence at t by the rule alone, without pruning.

    `assured` is about runs, not about states; here it means the influence of the definition.
    """
    T = whole.T
    if t + k > T:
        return np.arange(whole.mdp.n_states)
    influenced = tuple(influenced_pairs(whole, u, influence) for u in range(T))
    layers = layers_of(whole, influenced)
    own = own_of(whole, steps_of(whole), layers, "definition" if rule == "assured" else rule)
    near = layers[t].nodes.states[_any_of(own[t] <= k, layers[t].nodes.offsets)]
    return near if whole.ended is None else np.append(near, whole.ended.states[t])


def _any_of(flags: Ints, offsets: Ints) -> Ints:
    """Whether any pair of each node is flagged."""
    so_far = np.concatenate(([0], np.cumsum(flags)))
    any_of: Ints = so_far[offsets[1:]] > so_far[offsets[:-1]]
    return any_of
