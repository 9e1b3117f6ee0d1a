"""Reading a DRN file: its header, then the section ``@model``: states, their actions, and the transitions of these."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.errors import Problem, QueryError
from tether.io.drn.header import DrnHeader, read_drn_header
from tether.io.explicit import NO_LABEL, TOLERANCE, SortedTransitions, build, check_rows, sort_transitions
from tether.io.files import File
from tether.io.plaintext import numbered, opened_lines, parsed_number, quoted, whole
from tether.io.valuations import read_valuation, valuation_class, variable_names
from tether.mdp import MDP
from tether.model.names import name_list

_PARTS = re.compile(r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"|[^\s\[\]{}"]+')
_NAME = re.compile(r'(\{[^}]*\}|"[^"]*"|[^\s\[]+)\s*(.*)')
_VALUATION = re.compile(r"\[[^\[\]]*\]")
_UNNAMED = "__NOLABEL__"

_wholes, _numbers = partial(array, "q"), partial(array, "d")


def _parts(text: str) -> list[str]:
    """Rewards, observations and labels of a line; `ValueError` if something is none of these."""
    rest = _PARTS.sub("", text).strip()
    if rest:
        raise ValueError(f"{quoted(rest[0])} in {quoted(text)} is never closed, or never opened")
    return _PARTS.findall(text)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The contents of a file: transitions, names of states if there are any, rewards of pairs and of states, labels."""

    rows: SortedTransitions
    n_states: int
    names: list[Any] | None
    rewards: Floats | None
    state_rewards: Floats | None
    labels: dict[str, set[int]]


@dataclass(slots=True)
class Body:
    """The section ``@model`` while it is read; numbers are kept in flat arrays, which take little memory."""

    header: DrnHeader
    complaints: Complaints
    reward: int | None
    states: dict[int, int] = field(default_factory=dict)  # to lines
    values: dict[int, list[tuple[str, Any]]] = field(default_factory=dict)
    labels: dict[str, set[int]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    state_reward: Any = field(default_factory=_numbers)
    pair_state: Any = field(default_factory=_wholes)
    pair_choice: Any = field(default_factory=_wholes)
    pair_label: Any = field(default_factory=_wholes)
    pair_reward: Any = field(default_factory=_numbers)
    row_pair: Any = field(default_factory=_wholes)
    row_next: Any = field(default_factory=_wholes)
    row_line: Any = field(default_factory=_wholes)
    row_value: Any = field(default_factory=_numbers)
    state: int = -1
    choices: int = 0
    has_rewards: bool = False
    has_nameless_rewards: bool = False
    half_comments: list[tuple[int, str]] = field(default_factory=list)

    def read(self, at: int, text: str) -> None:
        """Read a line of the section."""
        try:
            if text[:1].isdigit():
                self._transition(at, text)
            elif text.startswith("action"):
                self._action(text[6:].strip())
            elif text.startswith("state"):
                self._state(at, text[5:].strip())
            elif text.startswith("//"):
                self._comment(at, text[2:].strip())
            elif text:
                raise ValueError(f"expected 'state …', 'action …' or 'next-state : probability', found {quoted(text)}")
        except ValueError as error:
            self.complaints.add(str(error), line=at)

    def _transition(self, at: int, text: str) -> None:
        target, _, value = text.partition(":")
        if not value:
            raise ValueError(f"expected 'next-state : probability', found {quoted(text)}")
        next_state, probability = whole(target.strip()), self._number(value.strip())
        if probability < 0:
            raise ValueError(f"the probability {value.strip()} is negative")
        if not self.choices:
            raise ValueError("a transition without an action; expected a line 'action …' before it")
        self.row_pair.append(len(self.pair_state) - 1)
        self.row_next.append(next_state)
        self.row_line.append(at)
        self.row_value.append(probability)

    def _number(self, text: str) -> float:
        if text.startswith("$"):
            if text not in self.header.placeholders:
                raise ValueError(f"the placeholder {quoted(text)} is not declared")
            return self.header.placeholders[text]
        return parsed_number(text)

    def _state(self, at: int, text: str) -> None:
        self.state, self.choices = -1, 0
        index, _, rest = text.replace("\t", " ").partition(" ")
        state = whole(index)
        if state in self.states:
            raise ValueError(f"the state {state} is given twice, first in line {self.states[state]:,}")
        self.states[state] = at
        self.state = state
        reward = 0.0
        for part in _parts(rest):
            if part.startswith("["):
                reward = self._reward(part)
            elif part.startswith("{"):
                raise ValueError(
                    f"the state has an observation, {quoted(part)}, as in a POMDP; expected an MDP or a DTMC"
                )
            elif part.startswith("!"):
                raise ValueError(f"the state has an exit rate, {quoted(part)}, as in a CTMC; expected an MDP or a DTMC")
            else:
                self.labels.setdefault(part.strip('"'), set()).add(state)
        self.state_reward.append(reward)

    def _action(self, text: str) -> None:
        if self.state < 0:
            raise ValueError("an action without a state; expected a line 'state …' before it")
        found = _NAME.fullmatch(text)
        if found is None:
            raise ValueError(f"expected 'action name', found {quoted('action ' + text)}")
        if self.header.chain and self.choices:
            raise ValueError(f"the state {self.state} has a second action, but the model is a DTMC")
        name, rewards, labels = found.group(1).strip('"'), 0.0, []
        for part in _parts(found.group(2)):
            if part.startswith("["):
                rewards = self._reward(part)
            else:
                labels.append(part.strip('"'))
        if labels and name.isdigit():
            name = ",".join(labels)
        self.pair_state.append(self.state)
        self.pair_choice.append(self.choices)
        self.pair_reward.append(rewards)
        unnamed = self.header.chain or name == _UNNAMED
        self.pair_label.append(NO_LABEL if unnamed else self.codes.setdefault(name, len(self.codes)))
        self.choices += 1

    def _reward(self, part: str) -> float:
        """The reward of the wanted reward model in a list, ``[0, 1.5]``; a reward model may have no name."""
        words = part[1:-1].split(",")
        named = len(self.header.rewards)
        # Storm writes an empty name, wherever it belongs: then each list has one more, from the first on.
        if self.reward is not None and len(words) == named + 1 > 1 and not self.has_rewards:
            if not self.has_nameless_rewards:
                fix = 'give it one: rewards "name" in PRISM\'s language; or reward_model=False, for no rewards'
                what = "one of the reward models has no name, and which one cannot be told"
                self.complaints.add(what, line=self.header.line, fix=fix)
            self.has_nameless_rewards = True
            return 0.0
        if len(words) != max(named, 1) and self.reward is not None:
            n_models = counted(len(self.header.rewards), "reward model")
            raise ValueError(f"{counted(len(words), 'reward')} in {quoted(part)}, but there are {n_models}")
        numbers = [self._number(word.strip()) for word in words]
        if self.reward is None:
            return 0.0
        self.has_rewards = True
        return numbers[self.reward]

    def _comment(self, at: int, text: str) -> None:
        """The values of variables, as Storm writes them: ``[x=1 & !on]``. Other comments are ignored."""
        if self.state < 0 or self.state in self.values:
            return
        if not _VALUATION.fullmatch(text):
            if text.startswith("[") or text.endswith("]"):
                self.half_comments.append((at, text))
            return
        self.values[self.state] = [read_valuation(part.strip()) for part in text[1:-1].split("&")]

    def finish(self, tolerance: float) -> Parsed:
        """Check sizes and sums, and sort the rows."""
        n_states, complaints = len(self.states), self.complaints
        for at, text in self.half_comments if self.values else ():  # the others would lose their names with this one
            complaints.add(f"expected the values of variables as '//[x=1 & !on]', found {quoted('//' + text)}", line=at)
        complete = complaints.total == 0
        pair = np.frombuffer(self.row_pair, dtype=np.int64)
        pair_state, pair_choice, pair_label = (
            np.frombuffer(array, dtype=np.int64) for array in (self.pair_state, self.pair_choice, self.pair_label)
        )
        line, after = np.frombuffer(self.row_line, np.int64), np.frombuffer(self.row_next, np.int64)
        if complete:
            self._check_sizes(n_states, pair)
            complaints.add_each(
                np.flatnonzero(after >= n_states),
                lambda row: f"there is no state {after[row]}: states are 0 … {n_states - 1}",
                lines=line,
            )
        complaints.raise_any()
        value = np.frombuffer(self.row_value, np.float64)
        rows = sort_transitions(
            pair_state[pair], pair_choice[pair], after, value, pair_label[pair], line, list(self.codes), complaints
        )
        check_rows(rows, complaints, tolerance)
        complaints.raise_any()
        of_pair, of_state = self._rewards(n_states, pair_state)
        return Parsed(rows, n_states, self._names(n_states), of_pair, of_state, self.labels)

    def _check_sizes(self, n_states: int, pair: Ints) -> None:
        header, add = self.header, self.complaints.add
        for noun, promised, found in (
            ("state", header.n_states, n_states),
            ("choice", header.n_choices, len(self.pair_state)),
        ):
            if promised is not None and promised != found:
                cause = "the file is cut off, or the number is wrong" if found < promised else "the number is wrong"
                add(f"@nr_{noun}s promises {counted(promised, noun)}, but the file has {found:,}; {cause}")
        if not n_states:
            add("the section @model is empty; expected lines 'state …'", line=header.line)
        odd = next((s for s in self.states if s >= n_states), None)
        if odd is not None:
            text = f"there is no state {odd}: the file has {counted(n_states, 'state')}, 0 … {n_states - 1}"
            add(text, line=self.states[odd])
        empty = np.setdiff1d(np.arange(len(self.pair_state)), pair)
        for x in empty[:1]:
            state = self.pair_state[int(x)]
            add(f"choice {self.pair_choice[int(x)]} of state {state} has no transitions", line=self.states[state])

    def _names(self, n_states: int) -> list[Any] | None:
        """States by the values of their variables, if these are known for all states, and differ."""
        if len(self.values) != n_states:
            return None
        rows = [self.values[s] for s in range(n_states)]
        variables = variable_names([[name for name, _ in row] for row in rows])
        if variables is None:
            return None
        make = valuation_class(variables)
        names = [make([value for _, value in row]) for row in rows]
        return names if len(set(names)) == n_states else None

    def _rewards(self, n_states: int, pair_state: Ints) -> tuple[Floats | None, Floats | None]:
        """The reward of each pair, with that of its state; and the reward of each state alone."""
        if not self.has_rewards:
            return None, None
        of_state = np.zeros(n_states)
        of_state[list(self.states)] = np.frombuffer(self.state_reward, np.float64)
        with np.errstate(over="ignore"):  # the model refuses rewards that are not finite
            rewards: Floats = of_state[pair_state] + np.frombuffer(self.pair_reward, np.float64)
        # In the order of sorted pairs, like the rows.
        return rewards[np.lexsort((np.frombuffer(self.pair_choice, np.int64), pair_state))], of_state


Wanted = str | Literal[False] | None


def read_drn(
    file: File, *, reward_model: Wanted = None, tolerance: float = TOLERANCE, max_unpacked: int | str | None = None
) -> MDP:
    """Read a model from Storm's DRN format, of an MDP or of a DTMC (then with one action, 0).

    Parameters
    ----------
    file : path
    reward_model : str or False, optional
        Which reward model to take, if there are several; False for none.
    tolerance : float
        How far from 1 the probabilities of a choice may sum: more for a file that was written with few digits. They
        are then divided by their sum.
    max_unpacked : int or str, optional
        The most bytes that a compressed file (``.gz``) may unpack to: ``"4 GB"``. By default 256 MB, or 100 times its
        size if that is more.

    Returns
    -------
    MDP
        States are named by the values of their variables if Storm wrote these into comments
        (``//[x=1 & !on]``), as a named tuple if there are several; by index if not every state has them, or if two
        states have the same. Actions are named as in the file: by index if a choice has no name, and ``a``, ``a#2`` if
        two choices of a state have the same name. R(s, a) is the reward of the state plus that of the action. A state
        without actions is absorbing. Labels are kept: ``init`` has the initial states.

    Examples
    --------
    >>> import tempfile, pathlib, tether.io.drn as drn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "coin.drn")
    ...     _ = file.write_text('''@type: MDP
    ... @reward_models
    ... tosses
    ... @nr_states
    ... 2
    ... @model
    ... state 0 [0] init
    ...     action toss [1]
    ...         0 : 1/2
    ...         1 : 1/2
    ... state 1 [0] heads
    ...     action stop [0]
    ...         1 : 1
    ... ''')
    ...     mdp = drn.read_drn(file)
    >>> mdp.row(0, "toss"), mdp.reward(0, "toss")
    (((0, 1), array([0.5, 0.5])), 1.0)
    >>> mdp.labels
    Labels(init: 1 state, heads: 1 state)
    """
    return with_rewards_of_transitions(file, {}, reward_model, tolerance, max_unpacked)


def with_rewards_of_transitions(
    file: File,
    added: Mapping[tuple[int, int], float],
    reward_model: Wanted = None,
    tolerance: float = TOLERANCE,
    max_unpacked: int | str | None = None,
) -> MDP:
    """As `read_drn`, with rewards by choice (numbered through the file) and next state, which no DRN file can hold."""
    parsed = _parse(file, reward_model, tolerance, max_unpacked)
    reward = None if parsed.rewards is None else parsed.rewards[parsed.rows.pair]
    if reward is not None and added:
        entries = zip(parsed.rows.pair.tolist(), parsed.rows.next_state.tolist(), strict=True)
        reward = reward + np.array([added.get(entry, 0.0) for entry in entries])
    return build(
        file, parsed.rows, parsed.n_states, parsed.names, reward, parsed.state_rewards, parsed.labels, tolerance
    )


def _parse(file: File, reward_model: Wanted, tolerance: float, max_unpacked: int | str | None) -> Parsed:
    with opened_lines(file, max_unpacked) as handle:
        complaints = Complaints(os.fspath(file))
        lines = numbered(handle)
        header = read_drn_header(lines, complaints)
        body = Body(header, complaints, _reward_index(os.fspath(file), header, reward_model))
        for at, text in lines:
            body.read(at, text)
    return body.finish(tolerance)


def _reward_index(file: str, header: DrnHeader, wanted: Wanted) -> int | None:
    """The index of the wanted reward model in a list of rewards; None for none."""
    if wanted is False:
        return None
    if wanted is None:
        if len(header.rewards) > 1:
            what = f"the file has the reward models {name_list(header.rewards)}"
            fix = f"say which is meant, reward_model={header.rewards[0]!r}, or False for none"
            raise QueryError(Problem(what, file=file, fix=fix, argument="reward_model"))
        return 0
    if not wanted and not header.rewards:  # the only one, which has no name
        return 0
    if wanted not in header.rewards:
        there = f"it has {name_list(header.rewards)}" if header.rewards else "it has none with a name"
        raise QueryError(Problem(f"the file has no reward model {wanted!r}; {there}", file=file, value=wanted))
    return header.rewards.index(wanted)
