"""Schedulers as Storm writes them (``--exportscheduler best.json``): one entry per state, with its choices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tether._foundation.problems import Complaints, Source
from tether.errors import Problem, QueryError
from tether.io.files import checked_text, file_error, name_of
from tether.io.names_as_text import Words, find_index
from tether.io.valuations import valuation_class
from tether.io.values import cut_repr
from tether.model.as_stormpy import names_for_storm, written_values
from tether.model.model_record import ModelRecord


def read_scheduler(file: str, mdp: ModelRecord) -> dict[Any, dict[Any, float]]:
    """The policy of a scheduler without memory: for each state, its actions with their probabilities.

    States are found by the values of their variables, or by their number in the model; actions by their labels. A
    choice without a label can be told only where it is the only one.
    """
    name = name_of(file)
    try:
        content = json.loads(checked_text(file).decode(), parse_float=Fraction, parse_int=Fraction)
    except (ValueError, RecursionError) as error:
        raise file_error(name, f"this is not JSON: {error}") from None
    if not (isinstance(content, list) and all(isinstance(one, dict) and {"s", "c"} <= one.keys() for one in content)):
        expected = 'a scheduler of Storm: a list of {"s": …, "c": [{"labels": […], "prob": …}]}'
        raise file_error(name, Problem("this is not a policy", expectation=expected))
    if any("m" in one for one in content):
        fix = "only schedulers without memory can be read; that of a bounded property has memory"
        raise file_error(name, Problem("this scheduler has memory", fix=fix))
    words, complaints = _Actions(mdp), Complaints(Source(name, in_rows=False))
    policy: dict[Any, dict[Any, float]] = {}
    for i, one in enumerate(content):
        if one["c"] == "undefined":
            continue
        try:
            state = _state(mdp, one["s"])
            if not mdp.actions_in(state):  # absorbing in Storm, which names an action there
                continue
            policy[state] = _choices(mdp, words, state, one["c"])
        except QueryError as error:
            complaints.add(replace(error.problems[0], place=f"[{i}]"))
    complaints.raise_any()
    return policy


def _state(mdp: ModelRecord, said: Any) -> Any:
    """The state with these values of variables, or of this number."""
    if isinstance(said, dict):
        values = {name: int(one) if isinstance(one, Fraction) else one for name, one in said.items()}
        fields = list(getattr(mdp.states[0], "_fields", ()))
        names = fields if sorted(fields) == sorted(values) else _in_order(list(values))
        place = find_index(mdp.states, valuation_class(names)([values[name] for name in names]))
        shown = ", ".join(f"{name}={value}" for name, value in values.items())
    else:
        place = int(said) if isinstance(said, Fraction) and said.denominator == 1 and said < mdp.n_states else -1
        shown = str(said)
    if place < 0:
        raise QueryError(Problem(f"the model has no state {shown}", fix="is it the scheduler of this model?"))
    return mdp.states[place]


def _in_order(names: list[str]) -> list[str]:
    """Variables without names of their own, v0, v1, …, in their order: Storm sorts names as text, v10 before v2."""
    numbered = [f"v{i}" for i in range(len(names))]
    return numbered if sorted(names) == sorted(numbered) else names


class _Actions:
    """Actions by their name, or by how it is spelled in a file of Storm."""

    def __init__(self, mdp: ModelRecord) -> None:
        self.words = Words(mdp.actions, "action")
        self.spelled = dict(zip(names_for_storm(mdp.actions), mdp.actions, strict=True))

    def find(self, word: Any) -> Any:
        if isinstance(word, str) and word in self.spelled:
            return self.spelled[word]
        return self.words.find(word)


def _choices(mdp: ModelRecord, words: _Actions, state: Any, choices: Any) -> dict[Any, float]:
    if not (isinstance(choices, list) and choices and all(isinstance(one, dict) for one in choices)):
        raise QueryError(Problem(f"found {cut_repr(choices)}", state=state, expectation="a list of choices"))
    found: dict[Any, float] = {}
    for choice in choices:
        labels = choice.get("labels", [])
        available = mdp.actions_in(state)
        if len(available) == 1:
            action = available[0]
        elif len(labels) == 1:
            action = words.find(labels[0])
            mdp.pair_index(state, action)
        else:
            what = f"the choice {cut_repr(labels)} does not name one action"
            raise QueryError(Problem(what, state=state, fix="give commands labels, and export with --buildchoicelab"))
        try:
            found[action] = found.get(action, 0.0) + float(Fraction(choice.get("prob", 1)))
        except (ValueError, TypeError, ZeroDivisionError):
            what = f"the probability is {cut_repr(choice['prob'])}"
            raise QueryError(Problem(what, state=state, expectation="a number")) from None
    return found


def scheduler_text(mdp: ModelRecord, answers: Mapping[int, list[tuple[int, float]]]) -> str:
    """The scheduler as Storm writes it, for the file that `tether.io.write_drn` makes of the model.

    ``answers`` has pairs and their probabilities by state; of other states it says nothing. A state without actions is
    absorbing there, and its first choice is taken.
    """
    values, names = written_values(mdp.states), names_for_storm(mdp.actions)
    start, entries, shift = mdp.form.pair_start.tolist(), [], 0
    for s in range(mdp.n_states):
        state: Any = s if values is None else dict(zip(values[0], values[1][s], strict=True))
        if start[s] == start[s + 1]:
            chosen: Any = [{"index": start[s] + shift, "labels": [names[0]], "prob": 1.0}]
            shift += mdp.n_actions
        elif s in answers:
            chosen = [
                {"index": pair + shift, "labels": [names[int(mdp.form.pair_action[pair])]], "prob": chance}
                for pair, chance in answers[s]
            ]
        else:
            chosen = "undefined"
        entries.append({"c": chosen, "s": state})
    return json.dumps(entries, indent=4) + "\n"
