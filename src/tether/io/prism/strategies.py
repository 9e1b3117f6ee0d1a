"""PRISM's strategies (``prism model.nm -exportstrat best.txt``): one line per state, with the choice there.

PRISM writes ``(0,true)=go``, or ``3=go`` without the values of variables; older versions write ``3:go``. A strategy of
a property with a step bound has the number of steps before, too: ``3,2=go``. A choice is an action, or several with
their probabilities, ``0.5:go+0.5:wait``; in a model whose choices have no names it is a number in its state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tether._foundation.problems import Complaints, Source
from tether.errors import Problem, QueryError
from tether.io.files import checked_text, name_of
from tether.io.names_as_text import Words
from tether.io.prism.prism_writer import choice_names, state_values
from tether.io.valuations import write_value
from tether.model.model_record import ModelRecord

_LINE = re.compile(
    r"(?:\((?P<values>[^()]*)\)|(?P<number>[0-9]{1,18}))(?:,(?P<steps>[0-9]{1,18}))?\s*[=:](?P<choice>.*)"
)
_WITH_CHANCE = re.compile(r"\s*([0-9][0-9.eE+-]*)\s*:(.*)")
_UNKNOWN = ("?", "*", "-")
"""What PRISM writes where a strategy says nothing."""

Answers = Iterable[tuple[int | None, int, list[tuple[int, float]]]]
"""(time or None, state, [(pair, probability)])."""


def is_strategy(text: str) -> bool:
    r"""Whether a text begins as a strategy does.

    >>> is_strategy("(0,true)=go\n"), is_strategy("3,0:go\n"), is_strategy("state,action\n0,go\n")
    (True, True, False)
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _LINE.fullmatch(first.strip()) is not None


def read_strategy(file: str, mdp: ModelRecord) -> dict[Any, dict[Any, float]]:
    """The policy of a strategy: for each state, or each (time, state), its actions with their probabilities."""
    name = name_of(file)
    text = checked_text(file).decode()
    complaints = Complaints(Source(name))
    states, actions = Words(mdp.states, "state"), _Choices(mdp)
    policy: dict[Any, dict[Any, float]] = {}
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            expected = "a state and its choice, as PRISM writes them: (0,true)=go, or 3=go"
            complaints.add(Problem(f"found {line.strip()[:60]!r}", expectation=expected), line=at)
            continue
        if found["choice"].strip() in _UNKNOWN:
            continue
        try:
            state = _state(mdp, states, found)
            key = state if found["steps"] is None else (int(found["steps"]), state)
            if key in policy:
                raise QueryError(Problem("this was said before", state=state))
            policy[key] = actions.of(state, found["choice"].strip())
        except QueryError as error:
            complaints.add(replace(error.problems[0], place=""), line=at)
    complaints.raise_any()
    return policy


def _state(mdp: ModelRecord, states: Words, found: re.Match[str]) -> Any:
    """The state with these values of variables, or of this number."""
    values = found["values"]
    if values is not None and state_values(mdp) is not None:
        return states.find(f"({values})" if "," in values else values.strip())
    text = found["number"] if values is None else values.strip()
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < mdp.n_states:
        what = f"the model has no state {text or '()'}"
        raise QueryError(Problem(what, fix="is it the strategy of this model?"))
    return mdp.states[number]


class _Choices:
    """Choices of a state, found by the names that PRISM has for actions."""

    def __init__(self, mdp: ModelRecord) -> None:
        self.mdp, self.words = mdp, Words(mdp.actions, "action")
        self.written = dict(zip(choice_names(mdp), mdp.actions, strict=False))

    def of(self, state: Any, text: str) -> dict[Any, float]:
        """The actions that a text names, with their probabilities."""
        found: dict[Any, float] = {}
        parts = [_WITH_CHANCE.fullmatch(part) for part in re.split(r"\+(?=[0-9.eE-]+:)", text)]
        for part in parts:
            word, chance = (text, 1.0) if part is None else (part[2].strip(), _chance(part[1]))
            action = self._action(state, word)
            found[action] = found.get(action, 0.0) + chance
        return found

    def _action(self, state: Any, word: str) -> Any:
        available = self.mdp.actions_in(state)
        if word in self.written and self.written[word] in available:
            return self.written[word]
        if not word:
            if len(available) != 1:
                what = "a choice without a name is one of several there"
                raise QueryError(Problem(what, state=state, fix="name the commands of the model"))
            return available[0]
        if word.isdigit() and self.written and not any(str(action) == word for action in self.mdp.actions):
            what = f"found the number of a choice, {word}, but its actions have names"
            raise QueryError(Problem(what, state=state, fix="export with type=actions"))
        action = self.words.find(word)
        self.mdp.pair_index(state, action)
        return action


def _chance(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QueryError(Problem(f"the probability is {text!r}", value=text, expectation="a number")) from None


def strategy_lines(mdp: ModelRecord, answers: Answers) -> Iterator[str]:
    """The lines of a strategy, in the names that `tether.io.write_prism` writes."""
    values, names = state_values(mdp), choice_names(mdp)
    for t, s, answer in answers:
        state = f"({s})" if values is None else f"({','.join(map(write_value, values[s]))})"
        words = []
        for pair, chance in answer:
            choice = str(pair - int(mdp.form.pair_start[s]))
            word = names[int(mdp.form.pair_action[pair])] if names else choice
            words.append(word if len(answer) == 1 else f"{chance!r}:{word}")
        yield f"{state}{'' if t is None else f',{t}'}={'+'.join(words)}\n"
