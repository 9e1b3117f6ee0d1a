"""The question of an audit, and the states of a log, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tether._foundation.markup import with_minus_signs
from tether._foundation.words import counted, in_parts, shown
from tether.auditing.audit_record import AuditRecord
from tether.conditioning.model_sets import EVERY_MODEL, IN_SHORT, IN_WORDS
from tether.evaluation.sightings import ENOUGH
from tether.explanation.state_words import is_in_words
from tether.explanation.terms import influence_in_words
from tether.io.names_as_text import find_index
from tether.model.model_record import ModelRecord
from tether.model.names import Names
from tether.views.report.settings import versions

VERDICTS = {
    "holds": f"The expected gain holds under {EVERY_MODEL}.",
    "holds if stable": f"It holds under {IN_WORDS['stability']}.",
    "never worse": "Not expected to be worse than what was done; that something is gained rests on Gumbel-max.",
    "never worse if stable": "Not expected to be worse under every stable causal model; under others it could do harm.",
    "could do harm": "It rests on the causal model: under others it could do harm.",
    "seen too rarely": f"An advised action is in the log fewer than {ENOUGH} times: no gain can be said to hold.",
}


def audit_question_in_words(question: Mapping[str, Any]) -> str:
    """The question for every episode, for a reader who is new to the method.

    >>> asked = {"policy": None, "k": 3, "m": 1, "where": None, "objective": None, "minimise": False}
    >>> print(audit_question_in_words(asked)[-90:])
    best plan that changes at most 1 action (m = 1), with a tether of at most 3 steps (k = 3).
    """
    asked = "Every episode is replayed with the luck it had: what if other actions had been taken?"
    if question["policy"]:
        answer = f"Each answer is what the policy {question['policy']} would have led to."
    else:
        k = question["k"]
        tether = f"a tether of at most {counted(k, 'step')} (k = {k})" if k else "the tether that is suggested for it"
        limited = f"; {question['advisable']}" if question.get("advisable") else ""
        changes = f"changes at most {counted(question['m'], 'action')} (m = {question['m']}{limited})"
        answer = f"Each answer is the best plan that {changes}, with {tether}."
    goal = f"{'smallest' if question['minimise'] else 'largest'} probability that “{question['objective']}” holds"
    if question["objective"]:
        answer += f" Asked for: the {goal}, in place of a return."
    elif question["minimise"]:
        answer += " Asked for: the smallest return."
    where = f" Asked about the episodes with {question['where']}." if question["where"] else ""
    return f"{asked} {answer}{where}"


def is_certified(question: Mapping[str, Any]) -> bool:
    """Whether other causal models were considered: only if a return was asked for."""
    return bool(question["certify"]) and question["objective"] is None


def name_in_words(names: Names, value: Any) -> str:
    """A name of the model, as it is in a table of the audit, in words; fields with their names.

    >>> import tether
    >>> name_in_words(tether.cases.epidemic().mdp.states, {"S": 9, "I": 1, "V": 20})
    'S 9, I 1, V 20'
    """
    name = tuple(value.values()) if isinstance(value, dict) else value
    place = names.find(name)
    return _in_words(names[place] if place >= 0 else name)


def outcome_in_words(mdp: ModelRecord, outcome: str | None) -> str:
    """An outcome of a table, in words: a label as it is, an absorbing state with the names of its fields."""
    if outcome is None or outcome in mdp.label_sets:
        return outcome or ""
    place = find_index(mdp.states, outcome)
    return outcome if place < 0 else _in_words(mdp.states[place])


def _in_words(name: Any) -> str:
    fields = getattr(name, "_fields", None)
    if fields and not is_in_words(name):
        return shown(in_parts(zip(fields, name, strict=True)))
    return shown(name)


def settings(audit: AuditRecord, about: Mapping[str, Any], date: str) -> list[tuple[str, str]]:
    """Names and values of all that made the page; what the caller adds comes first."""
    mdp, question = audit.mdp, audit.question
    shape = mdp.describe()
    rewards = f"{shape.rewards}, from {shape.reward_range[0]:g} to {shape.reward_range[1]:g}"
    facts = [
        *((str(name), str(value)) for name, value in about.items()),
        (
            "model",
            f"{counted(shape.states, 'state')} ({shape.absorbing:,} absorbing), {counted(shape.actions, 'action')}, "
            f"{counted(shape.transitions, 'transition')}",
        ),
        ("learned", "no" if mdp.learned is None else " ".join(mdp.learned.sentences(shown))),
        ("rewards", with_minus_signs(rewards)),
        ("log", counted(len(audit), "episode")),
    ]
    if question["objective"]:
        facts.append(("objective", str(question["objective"])))
    if question["where"]:
        facts.append(("episodes", f"those with {question['where']}"))
    if question["policy"]:
        facts.append(("policy", str(question["policy"])))
    else:
        k = "as suggested, episode by episode" if question["k"] is None else str(question["k"])
        facts += [("k", k), ("m", str(question["m"])), ("rule", str(question["rule"]))]
    facts.append(("influence", f"{question['influence']}: {influence_in_words(audit.influence)}"))
    facts.append(("causal models", IN_SHORT if is_certified(question) else "Gumbel-max only"))
    if question["draws"]:
        facts.append(("draws", f"{question['draws']:,} models, seed {question['seed']}"))
    facts.append(("date", date))
    facts.append(("versions", ", ".join(f"{name} {number}" for name, number in versions())))
    return facts
