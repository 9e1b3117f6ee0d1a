"""The model: a finite Markov decision process in one sparse tabular form, checked once.

An MDP is (S, A, P, R): in state s the action a leads to s' with probability P(s'|s,a) and earns
R(s,a), or R(s,a,s'), which may depend on time. Not every action need be available in every state.
States and actions are known by name; `tether.model.form` describes the arrays behind them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import Tabular
from tether._foundation.words import counted
from tether.errors import ModelError, Problem, QueryError
from tether.model.as_arrays import ModelArrays, arrays_of, arrow_of, with_new_rewards
from tether.model.counts import Counts
from tether.model.describe import Description, describe
from tether.model.finish import final_rewards
from tether.model.form import Form, Rewards
from tether.model.labels import Labels, LabelSets, check_names, with_label_sets
from tether.model.learned import Learned, learned
from tether.model.names import Names, make_names, name_list
from tether.model.pooling import repooled

if TYPE_CHECKING:
    import pyarrow

    from tether.model.storage import SavedFile


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ModelRecord(Tabular):
    """The data of a finite Markov decision process, and its look-ups; `tether.MDP` builds it and adds questions.

    It is what the folders below `tether.mdp` take; `tether.MDP` says what the fields are.
    """

    states: Names
    actions: Names
    form: Form
    horizon: int | None = None
    discount: float = 1.0
    final_reward: Floats | None = None
    counts: Counts | None = None
    label_sets: LabelSets = field(default_factory=LabelSets)
    place: SavedFile | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.final_reward is not None:
            self.final_reward.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor, as in `Form`: a pickle does not keep arrays read-only.
        contents = type(self), tuple(getattr(self, one.name) for one in fields(self) if one.init)
        return contents if self.place is None else self.place.reduce("model", contents)

    def with_names(self, *, states: Iterable[Any] | None = None, actions: Iterable[Any] | None = None) -> Self:
        """A copy of the model with new names of states or actions, given in the model's order.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.with_names(actions=["N", "E", "S", "W"]).actions_in(0)
        ('N', 'E', 'S', 'W')
        """
        named = self.states if states is None else make_names(states, self.n_states, "state")
        check_names(named, self.label_sets, self.form.terminal)
        return replace(
            self,
            states=named,
            actions=self.actions if actions is None else make_names(actions, self.n_actions, "action"),
        )

    def with_labels(self, labels: Mapping[str, Any] | None = None, *, good: Any = None, bad: Any = None) -> Self:
        """A copy of the model with more labels: named sets of states, beside those it has.

        Parameters
        ----------
        labels : mapping from str
            The states of each label: a list of them, a function of a state's name that returns True or False, or a
            column of truth values in the model's order. None removes a label.
        good, bad : str or list of str, optional
            Labels to mark as good or bad ends of an episode; a terminal state is a label by itself. Answers say first
            where a plan gains return but makes a good end less likely, or a bad one likelier. If no label is marked,
            names such as "dead" or "recovered" say it by themselves.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.cases.epidemic().mdp.with_labels({"many ill": lambda s: s.I >= 5, "start": [(9, 1, 20)]})
        >>> len(mdp.labels["many ill"]), (9, 1, 20) in mdp.labels["start"]
        (1386, True)
        >>> mdp.with_labels(bad="many ill").labels.side("many ill")
        'bad'
        """
        found = with_label_sets(self.states, self.label_sets, self.form.terminal, labels, good, bad)
        return replace(self, label_sets=found)

    @property
    def labels(self) -> Labels:
        """The labels of the model: named sets of states.

        Terminal states are labels by themselves, with the name of the state: see `tether.model.labels`.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.labels
        Labels(goal: 1 state, danger: 1 state)
        """
        return Labels(self.states, self.label_sets, np.setdiff1d(self.form.terminal, self.cut))

    @property
    def cut(self) -> Ints:
        """States, by index, that only look like an end because records of a learned model's log stop there."""
        return np.array(() if self.counts is None else self.counts.cut, dtype=np.int64)

    def with_objective(self, *, discount: float | None = None, final_reward: Any = None) -> Self:
        """A copy of the model with another objective: a discount, a reward for the state an episode ends in.

        An episode s_0, a_0, …, s_T is worth Σ_t discount^t·R_t + discount^T·final_reward(s_T). The rows of a pooled
        model (`tether.learn`) are pooled again: effects of actions are measured in values, and these have changed.

        Parameters
        ----------
        discount : float, optional
            Between 0 and 1.
        final_reward : callable, mapping or array, optional
            For each state: a function of its name, a mapping from names (0 for missing ones), or an
            array in the model's order.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.cases.epidemic().mdp.with_objective(discount=0.9, final_reward=lambda s: -10 * s.I)
        >>> mdp.discount, float(mdp.final_reward[mdp.states.index((0, 2, 0))])
        (0.9, -20.0)
        """
        changed = self
        if discount is not None:
            number = isinstance(discount, int | float | np.integer | np.floating) and not isinstance(discount, bool)
            if not number or not 0 <= discount <= 1:
                raise ModelError(f"discount must be a number from 0 to 1, not {discount!r}")
            changed = replace(changed, discount=float(discount))
        if final_reward is not None:
            changed = replace(changed, final_reward=final_rewards(self.states, final_reward))
        if changed is self or self.counts is None:
            return changed
        form, counts = repooled(self.form, self.counts, changed.discount, changed.final_reward)
        return replace(changed, form=form, counts=counts)

    def with_rewards(self, rewards: Any, *, reward_axes: str | None = None) -> Self:
        """A copy of the model with other rewards; its rows stay.

        The rows of a pooled model (`tether.learn`) are pooled again, as in `with_objective`.

        Parameters
        ----------
        rewards : array, list of sparse matrices, or callable
            As ``R`` of `from_arrays`; or a function of a state and an action, or of these and the next state.
        reward_axes : str, optional
            As in `from_arrays`.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> steps = grid.mdp.with_rewards(lambda cell, move, after: -1.0 if cell != 15 else 0.0)
        >>> steps.solve(30).value(0) > -12
        True
        """
        form = with_new_rewards(self.form, self.states, self.actions, rewards, reward_axes)
        limits = [limit for limit in (self.horizon, form.rewards.horizon) if limit is not None]
        changed = replace(self, form=form, horizon=min(limits) if limits else None)
        if self.counts is None or self.counts.pooling is None:
            return changed
        known = replace(self.counts.pooling, reward_rho=0.0, reward_sd=0.0)  # given rewards are not estimated
        form, counts = repooled(form, replace(self.counts, pooling=known), self.discount, self.final_reward)
        return replace(changed, form=form, counts=counts)

    def to_arrays(self, *, sparse: bool = False) -> ModelArrays:
        """The model as the arrays ``(P, R)`` that `from_arrays` takes.

        Parameters
        ----------
        sparse : bool
            SciPy arrays (S, S), one for each action, in place of one dense array (S, A, S).

        Examples
        --------
        >>> import tether
        >>> P, R = tether.cases.grid_world().mdp.to_arrays()
        >>> P.shape, R.shape, float(P[0, 1, 1])
        ((16, 4, 16), (16, 4), 0.9)
        """
        return arrays_of(self.form, self.n_actions, sparse)

    def to_arrow(self) -> pyarrow.Table:
        """The model as an Arrow table, one row per transition; rewards that depend on time are lists.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.to_arrow().column_names
        ['state', 'action', 'next_state', 'probability', 'reward']
        """
        return arrow_of(self.form, self.states, self.actions)

    def to_stormpy(self) -> Any:
        """A stormpy sparse MDP of the model, with its labels and the names of its states and actions.

        States and their actions keep their order. Names of states become values of variables; where a ``.drn`` file
        holds none, states are numbers. Rewards of transitions stay such. A state without actions is absorbing, as Storm
        has no others. A discount and a final reward are left out.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.to_stormpy().nr_states  # doctest: +SKIP
        16
        """
        from tether.model.as_stormpy import stormpy_of

        return stormpy_of(self)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the model to one file, with everything it has: names, rewards, labels, counts, horizon, discount.

        The file appears when it is complete. An older saved model there is replaced in one step; any other file is not
        replaced. Names can be saved if they are numbers, texts, truth values or (named) tuples of these. Other programs
        can read the arrays: the file has the format safetensors.

        Examples
        --------
        >>> import tempfile, tether
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.cases.grid_world().mdp.save(f"{folder}/grid")
        ...     tether.MDP.load(f"{folder}/grid")
        <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
        """
        from tether.model.storage import save

        save(self, file)

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Self:
        """Open a model that `save` wrote; its arrays are mapped from disk, and shared between processes.

        First every byte is read and checked: a file that is damaged or cut off is an error. Names are decoded when one
        is first used.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.grid_world()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     case.mdp.save(f"{folder}/grid")
        ...     mdp = tether.MDP.load(f"{folder}/grid")
        ...     tether.counterfactual(mdp, case.path).plan(k=4, m=1).value
        -897.0
        """
        from tether.model.storage import load

        return load(file, cls)

    def in_memory(self) -> Self:
        """A copy of the model with all its numbers in memory, and not on disk.

        A model that was opened from disk pickles as the name of its file, and is opened there again. This copy pickles
        with its numbers, for machines that do not share the disk. It is also independent of later changes of the file.

        Examples
        --------
        >>> import pickle, tempfile, tether
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.cases.grid_world().mdp.save(f"{folder}/grid")
        ...     text = pickle.dumps(tether.MDP.load(f"{folder}/grid").in_memory())
        >>> pickle.loads(text)
        <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
        """
        from tether.model.storage import in_memory

        return in_memory(self)

    @property
    def n_states(self) -> int:
        """How many states the model has."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """How many actions the model has, available everywhere or not."""
        return len(self.actions)

    @property
    def n_pairs(self) -> int:
        """How many state–action pairs are available."""
        return int(self.form.pair_action.size)

    @property
    def n_transitions(self) -> int:
        """How many transitions have a positive probability."""
        return int(self.form.next_state.size)

    @property
    def nbytes(self) -> int:
        """Memory of the model's arrays."""
        form = self.form
        arrays = (form.pair_start, form.pair_action, form.row_start, form.next_state, form.probability)
        return sum(array.nbytes for array in arrays) + form.rewards.values.nbytes

    @property
    def learned(self) -> Learned | None:
        """What a learned model is based on, in words and numbers; None for a model that was not learned.

        Examples
        --------
        >>> import tether
        >>> tether.learn([tether.Path(["sick", "well"], ["treat"])]).learned.terminal
        ('well',)
        """
        return None if self.counts is None else learned(self, self.counts)

    @property
    def rewards(self) -> Rewards:
        """The rewards, as arrays."""
        return self.form.rewards

    def actions_in(self, state: Any) -> tuple[Any, ...]:
        """Names of the actions available in ``state``, in the model's order."""
        s = self.state_index(state)
        pairs = slice(self.form.pair_start[s], self.form.pair_start[s + 1])
        return tuple(self.actions[int(a)] for a in self.form.pair_action[pairs])

    def row(self, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P(·|state, action): next states in the model's order, and their probabilities."""
        pair = self.pair_index(state, action)
        entries = self.entries(pair)
        return self.names_of(self.form.next_state[entries]), self.form.probability[entries].copy()

    def reward(self, state: Any, action: Any, next_state: Any = None, t: int = 0) -> float:
        """The reward of a pair at step ``t``, or of one of its transitions.

        For R(s, a, s') without ``next_state``: the mean under the model's own probabilities.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.reward(11, "down")
        100.0
        """
        pair = self.pair_index(state, action)
        limit = self.rewards.horizon
        if isinstance(t, bool) or not isinstance(t, int | np.integer) or t < 0:
            raise QueryError(Problem(f"t must be a whole number ≥ 0, not {t!r}", state, action, value=t))
        if limit is not None and t >= limit:
            message = f"rewards are given for t = 0 … {limit - 1}"
            raise QueryError(Problem(message, state, action, time=int(t), value=t, place=f"t = {t}"))
        values, entries = self.rewards.at(t), self.entries(pair)
        if next_state is not None:
            j = self.state_index(next_state)
            hits = np.flatnonzero(self.form.next_state[entries] == j)
            if hits.size == 0:
                message = f"state {state!r}, action {action!r} never leads to {next_state!r}"
                raise QueryError(Problem(message, state, action, next_state))
            if self.rewards.by_entry:
                return float(values[entries][hits[0]])
        if self.rewards.by_entry:
            return float(values[entries] @ self.form.probability[entries])
        return float(values[pair])

    def describe(self) -> Description:
        """Sizes, rewards, and by how much rows had to be normalised.

        Examples
        --------
        >>> import tether
        >>> print(tether.cases.grid_world().mdp.describe())
        states        16 (2 absorbing)
        actions       4
        pairs         64 state–action pairs (0 not available)
        transitions   220 (3.44 per pair, at most 4; 8 pairs deterministic)
        rewards       R(s, a), from -100 to 100
        probabilities every row sums to 1
        labels        goal (1 state), danger (1 state)
        memory        4.06 kB
        """
        labels = {name: int(indices.size) for name, indices in self.label_sets.items()}
        return describe(self.form, len(self.states), len(self.actions), self.horizon, labels, self.nbytes)

    def state_index(self, state: Any) -> int:
        """Index of a state, by name."""
        s = self.states.find(state)
        if s < 0:
            raise QueryError(self.states.missing(state, "state"))
        return s

    def action_index(self, action: Any) -> int:
        """Index of an action, by name."""
        a = self.actions.find(action)
        if a < 0:
            raise QueryError(self.actions.missing(action, "action"))
        return a

    def pair_index(self, state: Any, action: Any) -> int:
        """Index of a state–action pair, by names."""
        pair = self.find_pair(self.state_index(state), self.action_index(action))
        if pair < 0:
            there = self.actions_in(state)
            what = f"available are {name_list(there)}" if there else "no action is"
            message = f"state {state!r}: action {action!r} is not available; {what}"
            raise QueryError(Problem(message, state, action))
        return pair

    def find_pair(self, s: int, a: int) -> int:
        """Index of a pair given by indices, or -1 where the action is not available."""
        low, high = self.form.pair_start[s], self.form.pair_start[s + 1]
        pair = int(low + np.searchsorted(self.form.pair_action[low:high], a))
        return pair if pair < high and self.form.pair_action[pair] == a else -1

    def entries(self, pair: int) -> slice:
        """The entries of a pair's row."""
        return slice(int(self.form.row_start[pair]), int(self.form.row_start[pair + 1]))

    def names_of(self, indices: Ints) -> tuple[Any, ...]:
        """Names of states given by index."""
        return tuple(self.states[int(s)] for s in indices)

    def __repr__(self) -> str:
        counts = {
            "state": self.n_states,
            "action": self.n_actions,
            "pair": self.n_pairs,
            "transition": self.n_transitions,
        }
        text = ", ".join(counted(n, noun) for noun, n in counts.items())
        limit = "" if self.horizon is None else f", up to {counted(self.horizon, 'step')}"
        return f"<MDP: {text}{limit}>"

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()
