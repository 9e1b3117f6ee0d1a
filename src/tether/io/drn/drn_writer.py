"""Writing a model in Storm's DRN format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tether._foundation.writing import written
from tether.io.files import File
from tether.io.plaintext import pair_rewards, spelled, target_of
from tether.io.valuations import write_value
from tether.mdp import MDP
from tether.model.as_stormpy import label_states, names_for_storm, written_values
from tether.model.names import Names


def write_drn(mdp: MDP, file: File, *, mean_rewards: bool = False) -> None:
    """Write a model in Storm's DRN format.

    The format cannot hold a discount or a final reward; they are left out. In the names of actions and labels ``_``
    replaces characters that would end the name. Without a label ``init``, the first state is the initial one. Names of
    states are written as comments, as Storm writes the values of variables. A state without actions is absorbing under
    every action, as when such a file is read.

    Parameters
    ----------
    mdp : MDP
        With rewards R(s, a) that do not depend on time.
    file : path
    mean_rewards : bool
        Write the means of rewards R(s, a, s'), which the format cannot hold.

    Examples
    --------
    >>> import tempfile, tether, tether.io.drn as drn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drn.write_drn(tether.cases.epidemic().mdp, f"{folder}/epidemic.drn")
    ...     mdp = drn.read_drn(f"{folder}/epidemic.drn")
    >>> mdp.row((9, 1, 20), "NIL"), mdp.reward((9, 1, 20), "NIL")
    ((((8, 2, 20), (9, 1, 20)), array([0.9, 0.1])), -1.0)
    """
    target = target_of(mdp, file)
    rewards = spelled(pair_rewards(mdp, "DRN", mean_rewards))
    marked = label_states(mdp)
    with written(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(_head(mdp))
        handle.writelines(_model(mdp, rewards, marked))


def _head(mdp: MDP) -> list[str]:
    deadlocks = int(np.count_nonzero(np.diff(mdp.form.pair_start) == 0))
    return [
        "@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\nreward\n",
        f"@nr_states\n{mdp.n_states}\n@nr_choices\n{mdp.n_pairs + deadlocks * mdp.n_actions}\n@model\n",
    ]


def _model(mdp: MDP, rewards: list[str], marked: Mapping[str, list[int]]) -> Iterator[str]:
    form = mdp.form
    names = names_for_storm(mdp.actions)
    labels: dict[int, str] = {}
    for name, states in marked.items():
        for s in states:
            labels[s] = f"{labels.get(s, '')} {name}"
    comments = _comments(mdp.states)
    probability, next_state = spelled(form.probability), form.next_state.tolist()
    row_start, pair_start = form.row_start.tolist(), form.pair_start.tolist()
    for s in range(mdp.n_states):
        yield f"state {s} [0]{labels.get(s, '')}\n"
        if comments is not None:
            yield comments[s]
        if pair_start[s] == pair_start[s + 1]:  # Storm needs an action in every state
            yield from (f"\taction {name} [0]\n\t\t{s} : 1\n" for name in names)
        for pair in range(pair_start[s], pair_start[s + 1]):
            yield f"\taction {names[form.pair_action[pair]]} [{rewards[pair]}]\n"
            for entry in range(row_start[pair], row_start[pair + 1]):
                yield f"\t\t{next_state[entry]} : {probability[entry]}\n"


def _comments(states: Names) -> list[str] | None:
    """Names as Storm writes values of variables; None where they are not written."""
    values = written_values(states)
    return None if values is None else [f"//[{' & '.join(map(_spelled, values[0], row))}]\n" for row in values[1]]


def _spelled(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"!{name}"
    return f"{name}={write_value(value)}"
