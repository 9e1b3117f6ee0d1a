"""Gymnasium's environments, by the names a user types: ``gym:FrozenLake-v1?is_slippery=False``."""

from __future__ import annotations

import re
import warnings
from ast import literal_eval
from typing import Any

from tether.errors import Problem, QueryError
from tether.mdp import MDP

__all__ = ["is_environment", "open_environment"]

_PREFIX = "gym:"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def is_environment(source: str) -> bool:
    """Whether a source names an environment.

    >>> is_environment("gym:FrozenLake-v1"), is_environment("case:toy")
    (True, False)
    """
    return source.startswith(_PREFIX)


def open_environment(source: str) -> MDP:
    """The model of an environment with a table of transitions; options for making it follow a ``?``."""
    name, _, query = source.removeprefix(_PREFIX).partition("?")
    try:
        import gymnasium
    except ImportError:
        message = f"{source}: this needs Gymnasium: pip install 'tether[gymnasium]'"
        raise QueryError(Problem(message, value=source)) from None
    from tether.io.gym import from_gymnasium

    options = dict(_option(source, part) for part in query.split("&") if part)
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            environment = gymnasium.make(name, **options)
    except Exception as error:  # environments can raise anything; what was warned of before, the error says again
        message = f"{source}: Gymnasium does not make it: {str(error) or type(error).__name__}"
        raise QueryError(Problem(message, value=source)) from None
    for one in noted:
        warnings.warn(_COLOURS.sub("", str(one.message)), one.category, stacklevel=2)
    return from_gymnasium(environment)


def _option(source: str, part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    if not (name and equals):
        raise QueryError(Problem(f"{source}: expected NAME=VALUE after the ?, not {part!r}", value=source))
    try:
        return name, literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
