"""How an episode ended, by a column of the log: an outcome such as "died", beside the last state or in place of it.

A log often has a column that says how each episode ended. In a model learned from such a log, the last action of an
episode leads to the outcome, which is a terminal state (`tether.learn`). In any other model the outcome is a label of
the model, a state of it, or a word that only the log has. `Meaning` says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints
from tether.errors import PathError, Problem
from tether.model.encode import Coded, coded
from tether.model.model_record import ModelRecord
from tether.observation.cells import without_floats

if TYPE_CHECKING:
    from tether.observation.path import Path


def outcome_names(column: Any, heading: str, complaints: Complaints) -> Coded:
    """A column of outcomes by name: text as it is; numbers and truth values named after the column, ``died=1``.

    >>> complaints = Complaints("log.csv")
    >>> outcome_names([1, 0, None], "died", complaints).tolist()
    ['died=1', 'died=0', None]
    >>> outcome_names(["died", ""], "end", complaints).tolist()
    ['died', None]
    """
    found = coded(without_floats(column), heading, complaints, blank=True)
    texts = [_text(one, heading) for one in found.names]
    distinct = {text: i for i, text in enumerate(dict.fromkeys(text for text in texts if text))}
    place = np.array([*(distinct.get(text, -1) for text in texts), -2, -1], dtype=np.int64)  # by code -2, -1
    return Coded(list(distinct), place[found.codes])


def _text(outcome: Any, heading: str) -> str:
    return outcome.strip() if isinstance(outcome, str) else f"{heading}={outcome}"


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """What an outcome means in a model: the states with this label (``members``), and the state with this name.

    The latter is ``own``, -1 if there is none.
    """

    mdp: ModelRecord
    outcome: str
    members: Ints
    own: int

    @classmethod
    def of(cls, mdp: ModelRecord, outcome: str) -> Meaning:
        """Look an outcome up."""
        states = mdp.labels.get(outcome)
        return cls(mdp, outcome, np.empty(0, np.int64) if states is None else states.indices, mdp.states.find(outcome))

    def end(self, last: int, pair: int) -> int:
        """The state in which an episode with this outcome ended, by index; -1 if that is not known.

        ``last`` is the last state of the log, ``pair`` the last state and action, -1 if they are not known. The last
        state is kept if it has the outcome as a label, or if the model has no state for the outcome. If it has another
        label, a `PathError` is raised.
        """
        if last >= 0 and np.isin(last, self.members):
            return last
        if self.own >= 0:
            return self.own
        if last >= 0:
            self._check_agreement(last)
            return last
        if pair < 0:
            return -1
        possible = np.intersect1d(self.members, self.mdp.form.next_state[self.mdp.entries(pair)])
        return int(possible[0]) if possible.size == 1 else -1

    def _check_agreement(self, last: int) -> None:
        others = [name for name, states in self.mdp.label_sets.ends.items() if np.isin(last, states)]
        if self.members.size and others:
            state = self.mdp.states[last]
            what = f"the log says that it ended with {self.outcome!r}, but its last state {state!r} is {others[0]!r}"
            raise PathError(Problem(f"{what} in the model", state=state, value=self.outcome))


def settled(mdp: ModelRecord, path: Path) -> Path:
    """The path, with the last state that its outcome means in a model, if it means one.

    Examples
    --------
    >>> import tether
    >>> from tether.observation.ends import settled
    >>> path = tether.Path(["sick", "sick"], ["wait", "wait"], outcome="died")
    >>> settled(tether.learn([path]), path)
    <Path: 2 steps, 'sick' –'wait'→ 'sick' –'wait'→ 'died'; died>
    """
    if path.outcome is None:
        return path
    before, action = mdp.states.find(path.states[path.T - 1]), mdp.actions.find(path.actions[-1])
    pair = mdp.find_pair(before, action) if before >= 0 and action >= 0 else -1
    last = mdp.states.find(path.states[-1]) if path.last_recorded else -1
    end = Meaning.of(mdp, path.outcome).end(last, pair)
    if end < 0 or end == last:
        return path
    return replace(path, states=(*path.states[: path.T], mdp.states[end]))
