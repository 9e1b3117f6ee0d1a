"""Writing a model as PRISM's explicit files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._foundation.writing import written_into
from tether.errors import FileError, Problem
from tether.io.files import File
from tether.io.plaintext import entry_rewards, spelled, target_of
from tether.io.valuations import write_value
from tether.mdp import MDP
from tether.model.as_stormpy import distinct_names, label_states, valuations
from tether.model.form import all_pair_states
from tether.model.model_record import ModelRecord

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_]")
_RESERVED = re.compile(
    "A|C|E|F|G|I|P|Pmax|Pmin|R|Rmax|Rmin|S|U|W|X|bool|clock|const|ctmc|double|dtmc|endinit|endinvariant|endmodule|"
    "endobservables|endrewards|endsystem|false|filter|formula|func|global|init|int|invariant|label|max|mdp|min|module|"
    "nondeterministic|observable|observables|of|pomdp|popta|prob|probabilistic|pta|rate|rewards|stochastic|system|true"
)
_OTHERS = (".srew", ".rews", ".rewt")


def write_prism(mdp: MDP, file: File) -> None:
    """Write a model as PRISM's explicit files: ``.tra``, ``.sta``, ``.lab`` and ``.trew``.

    The files appear when all are complete, ``.tra`` as the last one. The format cannot hold a discount or a final
    reward; they are left out. Names of states that are not made of whole numbers and truth values are replaced by the
    index. In the names of actions and labels ``_`` replaces characters that PRISM does not allow. If the name of every
    action is the index of its choice in every state, no names of actions are written; otherwise an action 3 is called
    ``a3``.

    Labels are written to ``.lab``. Without a label ``init``, the first state is the initial one. Without a label
    ``deadlock`` (a file that was read may have had one), the states without actions get it.

    Parameters
    ----------
    mdp : MDP
        Rewards may depend on the next state, but not on time.
    file : path
        The transitions; the other files have the same name with other suffixes.

    Examples
    --------
    >>> import tempfile, tether, tether.io.prism as prism
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prism.write_prism(tether.cases.epidemic().mdp, f"{folder}/epidemic.tra")
    ...     mdp = prism.read_prism(f"{folder}/epidemic.tra")
    >>> mdp.row((9, 1, 20), "NIL")
    (((8, 2, 20), (9, 1, 20)), array([0.9, 0.1]))
    """
    stem = target_of(mdp, file).removesuffix(".tra")
    rewards = entry_rewards(mdp, "PRISM")
    deadlocks = np.flatnonzero(np.diff(mdp.form.pair_start) == 0).tolist()
    marked = label_states(mdp)
    marked = {"init": marked.pop("init"), "deadlock": marked.pop("deadlock", deadlocks)} | marked
    for suffix in _OTHERS:
        if os.path.exists(stem + suffix):
            message = "this reward file would be read as part of the new model; remove it first"
            raise FileError(Problem(message, file=stem + suffix))
    texts = {
        ".tra": _transitions(mdp),
        ".sta": _states(mdp),
        ".lab": _labels(marked),
        ".trew": _rewards(mdp, rewards),
    }
    folder, name = os.path.split(stem)
    with written_into(folder or ".", last=f"{name}.tra") as target:
        for suffix, lines in texts.items():
            with (target / (name + suffix)).open("w", encoding="utf-8", newline="\n") as handle:
                handle.writelines(lines)


def _indices(mdp: MDP) -> tuple[list[int], list[int], list[int]]:
    """State, choice and next state of every transition."""
    state = all_pair_states(mdp.form.pair_start)
    choice = np.arange(mdp.n_pairs) - mdp.form.pair_start[state]
    lengths = np.diff(mdp.form.row_start)
    return np.repeat(state, lengths).tolist(), np.repeat(choice, lengths).tolist(), mdp.form.next_state.tolist()


def _transitions(mdp: MDP) -> list[str]:
    names = [f" {name}" for name in choice_names(mdp)]
    actions = np.repeat(mdp.form.pair_action, np.diff(mdp.form.row_start)).tolist()
    columns = zip(*_indices(mdp), spelled(mdp.form.probability), actions, strict=True)
    lines = [f"{s} {k} {j} {p}{names[a] if names else ''}\n" for s, k, j, p, a in columns]
    return [f"{mdp.n_states} {mdp.n_pairs} {mdp.n_transitions}\n", *lines]


def choice_names(mdp: ModelRecord) -> list[str]:
    """Names of actions that PRISM accepts; none if the name of each action is the index of its choice."""
    choice = np.arange(mdp.n_pairs) - mdp.form.pair_start[all_pair_states(mdp.form.pair_start)]
    if all(type(label) is int for label in mdp.actions):
        labels = np.array(list(mdp.actions), dtype=object)
        if np.array_equal(labels[mdp.form.pair_action], choice):
            return []
    return action_names(mdp)


def action_names(mdp: ModelRecord) -> list[str]:
    """Names of the actions that both PRISM and Storm accept, in the model's order."""
    return distinct_names([_as_identifier(label) for label in mdp.actions], _NOT_ALLOWED)


def _as_identifier(label: Any) -> str:
    text = str(label)
    if _RESERVED.fullmatch(text):
        return f"{text}_"
    return text if re.match(r"[A-Za-z_]", text) else f"a{text}"


def state_values(mdp: ModelRecord) -> list[tuple[Any, ...]] | None:
    """The values of variables that the names of states are; None if states are written by their index."""
    found = valuations(mdp.states, (bool, int))
    return None if found is None else found[1]


def _states(mdp: MDP) -> list[str]:
    names, values = valuations(mdp.states, (bool, int)) or (("state",), [(i,) for i in range(mdp.n_states)])
    names = tuple(distinct_names([_as_identifier(name) for name in names], _NOT_ALLOWED))
    lines = [f"{i}:({','.join(map(write_value, row))})\n" for i, row in enumerate(values)]
    return [f"({','.join(names)})\n", *lines]


def _labels(marked: Mapping[str, list[int]]) -> list[str]:
    of_state: dict[int, list[int]] = {}
    for number, states in enumerate(marked.values()):
        for state in states:
            of_state.setdefault(state, []).append(number)
    declared = " ".join(f'{number}="{name}"' for number, name in enumerate(marked))
    lines = [f"{state}: {' '.join(map(str, numbers))}\n" for state, numbers in sorted(of_state.items())]
    return [f"{declared}\n", *lines]


def _rewards(mdp: MDP, rewards: Any) -> list[str]:
    given = np.flatnonzero(rewards)
    state, choice, next_state = _indices(mdp)
    texts = spelled(rewards[given])
    lines = [f"{state[e]} {choice[e]} {next_state[e]} {r}\n" for e, r in zip(given.tolist(), texts, strict=True)]
    return [f"{mdp.n_states} {mdp.n_pairs} {given.size}\n", *lines]
