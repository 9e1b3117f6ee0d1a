"""A model whose states remember what remains of a property: its product with an automaton.

A state of the product is a state of the model together with what remains of a formula after it
(`tether.model.path_formula`). What remains follows from what remained before and from the next state. So every row of
the model is a row of the product, with the same numbers: the next states, in the same order, each together with what
remains then. States of the product are ordered by the model's states, so rows keep their order, and its pairs are those
of the model, in the same order, in each of its states.

Luck belongs to the model's own next states, whatever is remembered of them. So an episode is conditioned in the model
itself, and its rows are carried over (`tether.conditioning.carried`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tether._foundation.arrays import Flags, Ints, read_only, spans
from tether.errors import Problem
from tether.model.form import Form, Rewards, all_pair_states
from tether.model.labels import LabelSets
from tether.model.names import Names, Tracked
from tether.model.path_formula import Automaton, Tree

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

_Kind = TypeVar("_Kind", bound="ModelRecord")


@dataclass(frozen=True, eq=False)
class Memory:
    """How a product belongs to its model.

    Attributes
    ----------
    mdp : MDP
        The model itself.
    tree : tuple
        The formula of which something is remembered.
    automaton : Automaton
    state, memory, pair : array
        The model's state, and the memory, of each state of the product; and the model's pair of each of its pairs.
    """

    mdp: ModelRecord
    tree: Tree
    automaton: Automaton
    state: Ints
    memory: Ints
    pair: Ints

    @cached_property
    def _place(self) -> Ints:
        """The state of the product by state and memory of the model; -1 where there is none."""
        place = np.full((self.mdp.n_states, len(self.automaton.remains)), -1, dtype=np.int64)
        place[self.state, self.memory] = np.arange(self.state.size)
        return place

    def find(self, states: Ints, memories: Ints) -> Ints:
        """The states of the product that are some states of the model with some memories; -1 for none."""
        found: Ints = self._place[states, memories]
        return found

    def onward(self, memories: Ints, states: Ints) -> Ints:
        """The states of the product that follow some memories, if the model's next states are ``states``."""
        return self.find(states, self.automaton.after[memories, states])

    def all_of(self, states: Ints) -> Ints:
        """Every state of the product that is one of some states of the model, ascending."""
        place = self._place[states]
        return np.sort(place[place >= 0])

    def follow(self, states: Ints) -> Ints:
        """An episode of the model in the product; -1, for an outcome that was not recorded, stays -1."""
        found, memory = np.full(states.size, -1, dtype=np.int64), np.array([self.automaton.first])
        for t, state in enumerate(states.tolist()):
            if state >= 0:
                found[t] = self.onward(memory, np.array([state]))[0]
                memory = self.memory[found[t : t + 1]]
        return found


class _TrackedNames(Names):
    """The names of the states of a product."""

    __slots__ = ("_items", "_numbers", "of")
    _items: tuple[Any, ...]

    def __init__(self, of: Memory) -> None:
        states, remains = of.mdp.states, of.automaton.remains
        self.of = of
        self._numbers = {text: i for i, text in enumerate(remains)}
        self._items = tuple(
            Tracked(states[s], remains[q]) for s, q in zip(of.state.tolist(), of.memory.tolist(), strict=True)
        )

    def find(self, name: Any) -> int:
        if isinstance(name, tuple) and len(name) == 2 and isinstance(name[1], str) and name[1] in self._numbers:
            state = self.of.mdp.states.find(name[0])
            if state >= 0:
                return int(self.of.find(np.array([state]), np.array([self._numbers[name[1]]]))[0])
        state = self.of.mdp.states.find(name)  # a state of the model itself, if there is no doubt about the rest
        some = self.of.all_of(np.array([state])) if state >= 0 else np.empty(0, np.int64)
        return int(some[0]) if some.size == 1 else -1

    def missing(self, name: Any, noun: str, *, is_compared: bool = True, **fields: Any) -> Problem:
        state = self.of.mdp.states.find(name)
        some = self.of.all_of(np.array([state])) if state >= 0 else np.empty(0, np.int64)
        if not some.size:
            return self.of.mdp.states.missing(name, noun, is_compared=is_compared, **fields)
        ways = " or ".join(repr(tuple(self[int(i)])) for i in some[:6])
        about = {"value": name, noun: name, "fix": f"say what remains of the property: {ways}"}
        return Problem(f"{noun} {name!r} is met with more than one thing left to do", **(about | fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.of,)

    def __repr__(self) -> str:
        return f"Names({len(self.of.mdp.states):,} states, each with what remains)"


def memory_of(mdp: ModelRecord) -> Memory | None:
    """How a model is a product; None where it is an ordinary model."""
    return mdp.states.of if isinstance(mdp.states, _TrackedNames) else None


def model_itself(mdp: _Kind) -> _Kind:
    """The model of a product; an ordinary model itself."""
    memory = memory_of(mdp)
    if memory is None:
        return mdp
    own: Any = memory.mdp
    made: _Kind = own
    return made


def remembered_by(mdp: ModelRecord, tree: Tree) -> tuple[Flags, Flags] | None:
    """For each state of a product with a formula, whether that is decided and holds; None for another model."""
    memory = memory_of(mdp)
    if memory is None or memory.tree != tree:
        return None
    return memory.automaton.ended[memory.memory], memory.automaton.holds[memory.memory]


def product_model(mdp: _Kind, tree: Tree, made: Automaton, starts: Ints) -> _Kind:
    """A model with the memory of an automaton: what some first states can lead to."""
    form = mdp.form
    made = replace(made, after=_steady(form, made.after))
    n = len(made.remains)
    known = np.zeros(mdp.n_states * n, dtype=bool)
    new = np.unique(starts * n + made.after[made.first, starts])
    while new.size:
        known[new] = True
        state, memory = np.divmod(new, n)
        owner, entry = _entries_of(form, state)
        after = form.next_state[entry]
        reached = np.unique(after.astype(np.int64) * n + made.after[memory[owner], after])
        new = reached[~known[reached]]
    state, memory = np.divmod(np.flatnonzero(known), n)
    owner, pair = spans(form.pair_start[state], form.pair_start[state + 1])
    of_pair, entry = spans(form.row_start[pair], form.row_start[pair + 1])
    found = Memory(mdp, tree, made, read_only(state), read_only(memory), read_only(pair))
    next_state = found.onward(memory[owner[of_pair]], form.next_state[entry])
    rewards = form.rewards
    product = Form(
        _starts(np.bincount(owner, minlength=state.size), form.pair_start),
        form.pair_action[pair],
        _starts(np.bincount(of_pair, minlength=pair.size), form.row_start),
        next_state.astype(form.next_state.dtype),
        form.probability[entry],
        Rewards(rewards.values[..., entry if rewards.by_entry else pair], rewards.by_entry),
        form.rounding,
        np.empty(0, form.terminal.dtype),
    )
    sets = {name: found.all_of(members.indices).astype(np.int32) for name, members in mdp.labels.items()}
    labels = LabelSets(sets, mdp.label_sets.sides)
    final = None if mdp.final_reward is None else mdp.final_reward[state]
    return type(mdp)(_TrackedNames(found), mdp.actions, product, mdp.horizon, mdp.discount, final, None, labels)


def _steady(form: Form, after: Ints) -> Ints:
    """Where an episode can only stay in a state for ever, all of that is read at once: the memory does not change."""
    states = all_pair_states(form.pair_start)
    alone = np.diff(form.row_start) == 1
    stays = alone.copy()
    stays[alone] = form.next_state[form.row_start[:-1][alone]] == states[alone]
    leaves = np.bincount(states[~stays], minlength=form.pair_start.size - 1)
    some = np.flatnonzero((leaves == 0) & (np.diff(form.pair_start) > 0))
    column = once = after[:, some]
    for _ in range(after.shape[0]):
        if np.array_equal(onward := np.take_along_axis(once, column, axis=0), column):
            break
        column = onward
    after = after.copy()
    after[:, some] = column
    return after


def _entries_of(form: Form, states: Ints) -> tuple[Ints, Ints]:
    """The entries of all rows of some states, each with the position of its state."""
    return spans(form.row_start[form.pair_start[states]], form.row_start[form.pair_start[states + 1]])


def _starts(lengths: Ints, like: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(like.dtype)
