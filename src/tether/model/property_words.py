"""How properties are said and written: as clauses of a sentence, and as a user would type them."""

from __future__ import annotations

import shlex
from typing import Any

from tether._foundation.words import counted
from tether.model.labels import name_text
from tether.model.names import name_list
from tether.model.path_formula import ALWAYS, NEVER, Tree, negation, one_after_other, text_of
from tether.model.property_language import StateFormula

_NAMED = 3
"""How many states of a set are named in words; more are counted."""


def said(tree: Tree, *, failed: bool = False) -> str:
    """A formula as a clause; ``failed``: as the failure of its negation."""
    kind, *parts = tree
    if failed and not (kind in ("and", "or") and all(_is_simple(part) for part in parts)):
        return f"it is not so that {said(negation(tree))}"
    if kind == "within":
        text = said(parts[1])
        return f"{text}{',' if ' and ' in text else ''} within {counted(parts[0], 'step')}"
    if len(tree) > 3 and (text := _said_of_sets(kind, parts[:2])):
        return f"{text} within {counted(parts[2], 'step')}"
    if kind in ("and", "or") and len(parts) > 1:
        return f" {kind} ".join(said(part) for part in parts)
    return (_said_of_sets(kind, parts) if len(tree) == 3 else "") or text_of(tree, as_formal)


def _said_of_sets(kind: str, parts: list[Tree]) -> str:
    """``goal is reached``, and the like; empty where a formula is not of that form."""
    if kind == "release" and parts[0] == NEVER and parts[1][0] == "not set":
        return f"{in_words(parts[1][1])} is avoided"
    if kind == "until" and parts[1][0] == "set" and parts[0] == ALWAYS:
        return f"{in_words(parts[1][1])} is reached"
    if kind == "until" and parts[1][0] == "set" and parts[0][0] == "set":
        return f"{in_words(parts[1][1])} is reached with {in_words(parts[0][1])} until then"
    if kind == "until" and one_after_other((kind, *parts), (kind, *parts)) is not None:
        first, later = parts[1][1:]
        return f"{in_words(first[1])} is reached and later {said(later[1]).replace(' is reached', '', 1)}"
    return ""


def _is_simple(tree: Tree) -> bool:
    """Whether a formula says that a set is reached, or avoided."""
    kind, *parts = tree
    return (
        kind in ("until", "release")
        and (kind, parts[0]) in (("until", ALWAYS), ("release", NEVER))
        and parts[1][0] in ("set", "not set")
    )


def as_formal(given: Any) -> str:
    """A set as PRISM and Storm write it, where they can."""
    if isinstance(given, str):
        return f'"{given}"'
    return f"({given})" if isinstance(given, StateFormula) else as_text(given)


def as_text(given: Any) -> str:
    """A set as text: a label, quoted if necessary; or its states in braces; or the name of its function."""
    if isinstance(given, str):
        return shlex.quote(given)
    if isinstance(given, tuple):
        return f"{{{name_list(given)}}}"
    if isinstance(given, StateFormula):
        return f"({given})"
    return f"[{_function_name(given)}]"


def in_words(given: Any) -> str:
    if isinstance(given, str):
        return _state_in_words(given)
    if isinstance(given, tuple):
        if len(given) > _NAMED:
            return f"one of {len(given):,} states"
        return " or ".join(_state_in_words(name_text(one)) for one in given)
    if isinstance(given, StateFormula):
        return f"a state with {given}"
    return f"a state of {_function_name(given)}"


def _state_in_words(text: str) -> str:
    """A label or a name in a sentence; a number is called a state."""
    return text if any(letter.isalpha() for letter in text) else f"state {text}"


def _function_name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "a function" if name == "<lambda>" else str(name)
