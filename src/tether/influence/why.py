"""Why is a pair allowed, or not? In a sentence and as a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.checks import whole_number
from tether._foundation.markup import facts
from tether._foundation.words import counted
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import Graph, expand
from tether.core.batch import Nodes
from tether.errors import Problem, QueryError
from tether.influence.kappa import Thresholds
from tether.influence.rules import Rule


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Why:
    """Whether a pair is allowed for k, and what decides it.

    Attributes
    ----------
    allowed : bool
    needed : int or None
        The smallest k that allows the pair; None if none does, because it may lead to a state without actions.
    reason : str
        ``"end"``: t + k > T, the path is too short to decide; ``"influenced"``: influence is near enough;
        ``"not influenced"``: it is not; ``"successor"``: a possible successor has no allowed action left;
        ``"run"``: the run of uninfluenced steps (rule `assured`); ``"decided"``: the objective is decided in the state.
    nearest : int or None
        Steps to the nearest influence, counting this one as 1; None if there is none.
    path : tuple of (t, state, action)
        The path there, ending with the influenced pair.
    successor : optional
        The possible successor that has no allowed action left.
    own : int
        The rule's own threshold of the pair, before its successors are considered.
    T : int
        How many steps the episode has.
    because : str
        The reason in words, without the verdict.
    sentence : str
        All this in words.

    Examples
    --------
    >>> import tether
    >>> toy = tether.cases.toy()
    >>> answer = tether.counterfactual(toy.mdp, toy.path).why(0, "s0", "a1", k=2)
    >>> answer.allowed, answer.nearest, answer.needed
    (False, 3, 3)
    >>> answer.path
    ((0, 's0', 'a1'), (1, 's1', 'a0'), (2, 's4', 'a0'))
    >>> print(answer.in_words(str).partition(" away, ")[0])  # labels as they print themselves
    At step 0 a1 in state s0 is not allowed for k = 2: the nearest known ground is 3 steps
    """

    t: int
    state: Any
    action: Any
    k: int
    rule: Rule
    allowed: bool
    needed: int | None
    reason: str
    nearest: int | None
    path: tuple[tuple[int, Any, Any], ...]
    successor: Any
    own: int
    T: int

    @property
    def because(self) -> str:
        """The reason in words, without the verdict."""
        return self.reason_in_words()

    @property
    def sentence(self) -> str:
        """All this in words."""
        return self.in_words()

    def in_words(self, name: Callable[[Any], str] = repr) -> str:
        """All this in words; ``name`` turns a name into text."""
        verdict = "is allowed" if self.allowed else "is not allowed"
        about = f"At step {self.t} {name(self.action)} in state {name(self.state)} {verdict} for k = {self.k}"
        return f"{about}: {self.reason_in_words(name)}"

    def reason_in_words(self, name: Callable[[Any], str] = repr) -> str:
        """The reason in words, without the verdict; ``name`` turns a name into text."""
        if self.reason == "decided":
            return "the objective is decided in this state, and after that no influence is required."
        if self.reason == "end":
            because = f"fewer than k = {self.k} steps are left, known ground is assumed"
        elif self.reason == "successor":
            because = f"it may lead to {name(self.successor)} at step {self.t + 1}, where no allowed action is left"
        elif self.rule == "assured":
            because = _because_of_the_run(self.own, self.k, self.allowed)
        elif self.rule == "definition":
            because = _because_of_the_nearest(self.path, name)
        else:
            because = _because_of_the_supports(self.own, self.T, self.rule)
        takes = "" if self.allowed else " No k allows it." if self.needed is None else f" It takes k ≥ {self.needed}."
        return f"{because}.{takes}"

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        verdict = "allowed" if self.allowed else "not allowed"
        return f"<Why: t = {self.t}, {self.state!r}, {self.action!r}, k = {self.k}: {verdict} ({self.reason})>"

    def _repr_html_(self) -> str:
        needed = "no k" if self.needed is None else f"k ≥ {self.needed}"
        return facts([("allowed", "yes" if self.allowed else "no"), ("it takes", needed), ("why", self.sentence)])


def why(
    cf: CounterfactualRecord,
    reached: Callable[[], Thresholds],
    everywhere: Callable[[], Thresholds],
    t: int,
    state: Any,
    action: Any,
    *,
    k: int,
    uninfluenced: int = 0,
) -> Why:
    """Why a pair is allowed or not; see `CounterfactualMDP.why`.

    ``reached`` gives κ of everything that s_0 can reach. If the pair is not part of that, ``everywhere`` gives κ of the
    whole model.
    """
    k = min(whole_number("k", k, 1), cf.T + 1)
    t = cf.time(t)
    pair = cf.mdp.pair_index(state, action)
    run = whole_number("uninfluenced", uninfluenced, 0)
    found = reached()
    if run > t or (run and found.rule != "assured"):
        message = f"uninfluenced = {run}: before t = {t} there can be up to {t} uninfluenced steps, and only the rule "
        raise QueryError(Problem(f"{message}'assured' remembers them", time=t, value=run))
    s = cf.mdp.state_index(state)
    if found.graph.ended is not None and found.graph.ended.mask[s]:
        return Why(t, state, action, k, found.rule, True, 1, "decided", None, (), None, 1, cf.T)
    if _node(found.nodes[t], s, run) < 0:  # s_0 cannot reach it: use the whole model
        found = everywhere()
    return _Inquiry(cf, found.graph, found, t, s, pair, run, k).answer(state, action)


def _node(nodes: Nodes, s: int, run: int) -> int:
    hit = nodes.states == s
    if nodes.runs.size:
        hit = hit & (nodes.runs == run)
    at = np.flatnonzero(hit)
    return int(at[0]) if at.size else -1


@dataclass(frozen=True, slots=True)
class _Inquiry:
    cf: CounterfactualRecord
    graph: Graph
    found: Thresholds
    t: int
    s: int
    pair: int
    run: int
    k: int

    def answer(self, state: Any, action: Any) -> Why:
        node = _node(self.found.nodes[self.t], self.s, self.run)
        if node < 0:
            message = f"no actions lead to state {state!r} at t = {self.t} after {self.run} uninfluenced steps"
            raise QueryError(Problem(message, state, time=self.t, value=self.run))
        offsets = self.found.offsets[self.t]
        at = int(offsets[node] + self.pair - self.cf.mdp.form.pair_start[self.s])
        kappa = int(self.found.kappa[self.t][at])
        needed = kappa if kappa <= self.cf.T + 1 else None
        own = int(self.found.own[self.t][at])
        allowed = kappa <= self.k
        nearest, path = self._nearest(own) if self.found.rule == "definition" else (None, ())
        successor = None
        T = self.cf.T
        if min(own, self._cap()) > self.k:
            reason = "run" if self.found.rule == "assured" else "not influenced"
        elif not allowed:
            reason = "successor"
            successor = self._stuck_successor()
        elif self.found.rule != "assured" and self.t + self.k > T:
            reason = "end"
        else:
            reason = "influenced" if self.found.rule != "assured" or own == 1 else "run"
        about = self.t, state, action, self.k, self.found.rule, allowed, needed, reason
        return Why(*about, nearest, path, successor, own, T)

    def _cap(self) -> int:
        return self.cf.T + 2 if self.found.rule == "assured" else self.cf.T - self.t + 1

    def _nearest(self, own: int) -> tuple[int | None, tuple[tuple[int, Any, Any], ...]]:
        """The shortest path from the pair to an influenced one."""
        mdp = self.cf.mdp
        if own > self.cf.T:
            return None, ()
        way, t, s, pair = [], self.t, self.s, self.pair
        for left in range(own, 0, -1):
            way.append((t, mdp.states[s], mdp.actions[int(mdp.form.pair_action[pair])]))
            if left == 1:
                break
            _, entries, _ = expand(mdp, self.graph.layers[t].edits, np.array([pair]))
            t += 1
            s, pair = self._pair_at(t, mdp.form.next_state[entries], left - 1)
        return own, tuple(way)

    def _pair_at(self, t: int, states: Ints, distance: int) -> tuple[int, int]:
        """A pair of one of ``states`` at time t whose nearest influence is ``distance`` steps away."""
        nodes, offsets, own = self.found.nodes[t], self.found.offsets[t], self.found.own[t]
        for s in states:
            node = _node(nodes, int(s), 0)
            if node < 0:  # paths end there
                continue
            hits = np.flatnonzero(own[offsets[node] : offsets[node + 1]] == distance)
            if hits.size:
                return int(s), int(self.cf.mdp.form.pair_start[s] + hits[0])
        raise AssertionError("a distance has a successor that is one step nearer")

    def _stuck_successor(self) -> Any:
        """The possible successor whose smallest allowed k is the largest."""
        mdp, t = self.cf.mdp, self.t + 1
        run = 0
        if self.found.rule == "assured" and not np.isin(self.pair, self.found.influenced[self.t]):
            run = self.run + 1
        _, entries, _ = expand(mdp, self.graph.layers[self.t].edits, np.array([self.pair]))
        nodes, offsets = self.found.nodes[t], self.found.offsets[t]
        worst, stuck = 0, -1
        for s in mdp.form.next_state[entries]:
            node = _node(nodes, int(s), run)
            if node < 0 or offsets[node] == offsets[node + 1]:  # paths end there
                continue
            kappa = int(self.found.kappa[t][offsets[node] : offsets[node + 1]].min(initial=self.cf.T + 2))
            if kappa > worst:
                worst, stuck = kappa, int(s)
        return mdp.states[stuck]


def _because_of_the_run(own: int, k: int, allowed: bool) -> str:
    if own == 1:
        return "it is known ground, which ends any run off it"
    run = f"it makes {counted(own - 1, 'step')} in a row off known ground"
    return f"{run}, fewer than {k}" if allowed else run


def _because_of_the_nearest(path: tuple[tuple[int, Any, Any], ...], name: Callable[[Any], str]) -> str:
    if not path:
        return "no path from here ever comes back to known ground"
    if len(path) == 1:
        return "it is known ground itself"
    way = ", then ".join(f"{name(a)} in {name(s)} at step {t}" for t, s, a in path)
    return f"the nearest known ground is {counted(len(path), 'step')} away, through {way}"


def _because_of_the_supports(own: int, T: int, rule: Rule) -> str:
    if rule not in ("published", "printed"):
        return f"the rule {rule} allows it for no k" if own > T + 1 else f"the rule {rule} allows it for k ≥ {own}"
    who = "its successors" if rule == "printed" else "it and its successors"
    if own > T:
        return f"{who} do not all come near an observed support again"
    return f"{who} lie within {counted(own, 'step')} of the observed supports"
