"""How the page writes states and actions: long names are cut, but never two of them to the same text.

Names are any text. Characters that cannot be printed are escaped. Text that runs from right to left is isolated, so
that it does not change the direction of the sentence around it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tether._foundation.words import cut, cut_apart, shown
from tether.model.model_record import ModelRecord

_NAME = 90
"""Letters of a name before it is cut."""

_MANY = 2_000
"""The most actions for which all names are compared to keep them different."""


def apart(text: str) -> str:
    r"""A text in its own direction, whatever is around it.

    >>> apart("wait"), apart("\N{HEBREW LETTER ALEF}") == "\u2068\N{HEBREW LETTER ALEF}\u2069"
    ('wait', True)
    """
    turned = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}" if turned else text


class Naming:
    """Names of one model's states and actions, as the page shows them."""

    def __init__(self, mdp: ModelRecord, words: Mapping[Any, str] | None = None) -> None:
        self.mdp, self.words = mdp, words or {}

    def _shown(self, name: Any) -> str:
        """In words, where there are some."""
        return self.words.get(name, shown(name)) if isinstance(name, str) else shown(name)

    @cached_property
    def _actions(self) -> dict[int, str]:
        names = [self._shown(one) for one in self.mdp.actions]
        return dict(enumerate(cut_apart(names, _NAME)))

    def action_at(self, a: int) -> str:
        """An action by index."""
        if self.mdp.n_actions > _MANY:
            return apart(cut(shown(self.mdp.actions[a]), _NAME))
        return apart(self._actions[a])

    def action(self, name: Any) -> str:
        """An action by name."""
        return self.action_at(self.mdp.actions.find(name))

    def state(self, name: Any) -> str:
        """A state by name; if a cut name is not unique, with its number."""
        text = shown(name)
        if len(text) <= 2 * _NAME:
            return apart(text)
        return apart(f"{cut(text, 2 * _NAME)} (state {self.mdp.states.find(name)})")

    def any(self, name: Any) -> str:
        """A state or an action in a sentence."""
        return apart(cut(self._shown(name), 2 * _NAME))
