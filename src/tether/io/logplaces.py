"""Where in a log the steps of an episode are: looked up when there is a problem to report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tether._foundation.arrays import Ints
from tether._foundation.problems import Source
from tether.errors import Problem
from tether.io.names_as_text import find_index
from tether.model.names import Names
from tether.observation.arrange import episode_rows


class LogPlaces:
    """The rows of the episodes of a log. The log is read again when this is first used: nothing is kept before.

    Examples
    --------
    >>> from tether.errors import Problem
    >>> from tether.io.logplaces import LogPlaces
    >>> log = {"episode": ["b", "a", "a"], "t": [0, 1, 0], "state": ["x", "y", "x"], "action": ["go", "", "go"]}
    >>> LogPlaces(log).located("a", Problem("the model has no state 'y'", time=1, place="t = 1")).message
    "row 1: episode 'a', t = 1: the model has no state 'y'"
    """

    def __init__(self, log: Any, reading: Mapping[str, Any] | None = None, source: Source | None = None) -> None:
        self.log, self.reading, self._source = log, dict(reading or {}), source

    def located(self, episode: Any, problem: Problem) -> Problem:
        """The problem of a step of an episode, with the row of that step; the first row if it is about no step."""
        source, ids, rows, start = self._found
        i = find_index(ids, episode)
        own = rows[start[i] : start[i + 1]]
        row = int(own[min(problem.time or 0, own.size - 1)])  # the last state need not have a row of its own
        return source.located(replace(problem, episode=ids[i]), row)

    @cached_property
    def _found(self) -> tuple[Source, Names, Ints, Ints]:
        from tether.io.logs import read_words

        values, found = read_words(self.log, source=self._source, **self.reading)
        return found.source, *episode_rows(values, found)
