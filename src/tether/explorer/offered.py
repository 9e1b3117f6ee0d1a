"""The episodes to choose from: the embedded cases, one episode, or the episodes of a log. Requests choose by key only.

A key is looked up among the episodes offered when the server was started; it is never the name of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.words import number, percent, shown
from tether.conditioning.counterfactual_record import CounterfactualRecord, with_mechanism
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import outcome_of
from tether.explanation.verdicts import Nouns
from tether.io.embedded import about_case, case_names, find_case, open_case, path_names, title_of
from tether.learning.folds import unseen
from tether.model.model_record import ModelRecord
from tether.observation.earned import model_return
from tether.observation.episodes import Episodes
from tether.observation.path import observe
from tether.plan.typed_record import TypedRecord

_FROM_ELSEWHERE = ("icu-sepsis",)
"""Cases whose model is read from another package of the same name."""

_COUNTED = 20_000
"""Episodes of a log whose returns are counted by the model, one after the other, to rank them."""


@dataclass(frozen=True)
class Opening:
    """How an episode is opened: the words on the command line, and the Python lines that do the same."""

    command: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """An episode that can be opened.

    Attributes
    ----------
    key, name : str
        What it is called in addresses, and on the page.
    open : callable
    opening : Opening
    title, story : str
        A person's name for it, and what happened, in a line; empty if nobody wrote them down.
    words : mapping
        Actions in words, where their names are abbreviations.
    nouns : Nouns
        What an episode and a step are called.
    """

    key: str
    name: str
    open: Callable[[], CounterfactualRecord]
    opening: Opening
    title: str = ""
    story: str = ""
    words: Mapping[Any, str] = field(default_factory=dict)
    nouns: Nouns = field(default_factory=Nouns)


@dataclass(frozen=True)
class Listed:
    """A row of the list of episodes: ``value`` is its return (None if unknown), ``about`` is further text."""

    key: str
    name: str
    steps: int | None = None
    outcome: str = ""
    value: float | None = None
    about: str = ""


AUDITED = ["episode", "claimed", "gain", "verdict"]
"""The columns of an audit that are told in a list of episodes."""


@dataclass(frozen=True)
class Audited:
    """What an audit found for an episode: the cost of its mistakes, the gain of its plan, and whether that holds."""

    mistakes: float
    gain: float
    verdict: str

    @property
    def in_words(self) -> str:
        """The finding as a text in the list of episodes."""
        if not np.isfinite(self.gain):
            return "no answer in the audit"
        mistakes = f"mistakes cost {number(self.mistakes)}" if self.mistakes > 0 else "no mistake"
        gain = f"hindsight gains {number(self.gain)}" if self.gain > 0 else "nothing to gain"
        return ", ".join([mistakes, gain, *([self.verdict] if self.verdict and self.gain > 0 else [])])


def audit_of(table: Any) -> dict[Any, Audited]:
    """What an audit found, by episode; ``table`` is its table of episodes (`tether.audit`).

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> audit_of(tether.audit(case.mdp, {"ann": case.path}, k=3).table)["ann"].in_words
    'mistakes cost 35.86, hindsight gains 0.8889, holds'
    """
    found = {}
    for row in table.select(AUDITED).to_pylist():
        gain = float("-inf") if row["gain"] is None else row["gain"]
        found[row["episode"]] = Audited(row["claimed"] or 0.0, gain, row["verdict"] or "")
    return found


class Offered(Protocol):
    """What there is to choose from."""

    @property
    def first(self) -> str:
        """The key of the episode that is opened first."""

    def entry(self, key: str) -> Entry:
        """An episode by its key; an error for one that is not offered."""

    def listed(self) -> list[Listed]:
        """All episodes, the most interesting first."""


def _not_offered(key: str) -> QueryError:
    return QueryError(Problem(f"there is no episode {key[:60]!r} here: choose one of the list", value=key))


@dataclass(frozen=True)
class One:
    """A single episode."""

    cf: CounterfactualRecord
    name: str
    opening: Opening = field(default_factory=Opening)
    nouns: Nouns = field(default_factory=Nouns)
    words: Mapping[Any, str] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """Key of the episode."""
        return "1"

    def entry(self, key: str) -> Entry:
        """The episode."""
        if key != self.first:
            raise _not_offered(key)
        return Entry(key, self.name, self._anew, self.opening, words=self.words, nouns=self.nouns)

    def _anew(self) -> CounterfactualRecord:
        """The counterfactual MDP with an empty cache: the memory of an explorer is bounded."""
        return with_mechanism(self.cf, self.cf.mechanism)

    def listed(self) -> list[Listed]:
        """The list of this one episode."""
        return [_listed(self.first, self.name, self.cf.mdp, model_return(self.cf.mdp, self.cf.observation), self.cf)]


class Cases:
    """The embedded cases that can be opened here.

    Examples
    --------
    >>> cases = Cases()
    >>> cases.first, [one.name for one in cases.listed()][:2]
    ('case:ward', ['ward', 'ward-patient-4'])
    """

    first = "case:ward"

    @cached_property
    def _known(self) -> dict[str, Listed]:
        found = {}
        for name in case_names():
            if name in _FROM_ELSEWHERE:  # it takes seconds to open: by its name alone
                if find_spec(name.replace("-", "_")) is not None:
                    found[f"case:{name}"] = Listed(f"case:{name}", name, about=about_case(name))
                continue
            case, _ = open_case(f"case:{name}")
            for key, path in path_names(name, case).items():
                seen = observe(case.mdp, case.paths[path])
                outcome = _outcome(case.mdp, int(seen.states[-1])) if seen.states[-1] >= 0 else ""
                returned = model_return(case.mdp, seen)
                about = case.stories.get(path, about_case(name))
                found[key] = Listed(key, key.removeprefix("case:"), seen.T, outcome, returned, about)
        return found

    def entry(self, key: str) -> Entry:
        """A case and one of its paths."""
        if key not in self._known:
            raise _not_offered(key)
        model = next(f"case:{one}" for one in sorted(case_names(), key=len, reverse=True) if key[5:].startswith(one))
        opened = f"mdp = tether.io.open_model({model!r})", f"path = tether.io.open_path({key!r}, mdp)"
        lines = ("import tether", "", *opened)
        words = (model,) if model == key else (model, key)
        name, opening = key.removeprefix("case:"), Opening(words, lines)
        case, _ = open_case(key)
        path = path_names(find_case(key), case)[key]
        story = case.stories.get(path, "")
        title, nouns = title_of(key, case.noun), Nouns(case.noun)
        return Entry(key, name, lambda: _opened_case(key), opening, title, story, case.words, nouns)

    def listed(self) -> list[Listed]:
        """Every path of every case."""
        return list(self._known.values())


def _opened_case(key: str) -> CounterfactualRecord:
    case, path = open_case(key)
    return CounterfactualRecord.of(case.mdp, path)


@dataclass(frozen=True)
class LogEpisodes:
    """The episodes of a log, as seen by one model; keys are their numbers in the log."""

    mdp: ModelRecord
    episodes: Episodes
    opening: Opening = field(default_factory=Opening)
    audited: Mapping[Any, Audited] | None = None
    nouns: Nouns = field(default_factory=Nouns)
    beyond: Mapping[str, Any] = field(default_factory=dict)
    """The horizon and who acts then, as `tether.counterfactual` takes them."""

    @property
    def first(self) -> str:
        """The first of the list: it is the likeliest to be asked about."""
        return self.listed()[0].key

    def entry(self, key: str) -> Entry:
        """An episode of the log."""
        if not (key.isascii() and key.isdecimal() and len(key) < 12 and int(key) < len(self.episodes)):
            raise _not_offered(key)
        name = self.episodes.ids[int(key)]
        command = tuple(word.replace("{episode}", str(name)) for word in self.opening.command)
        python = tuple(line.replace("{episode!r}", repr(name)) for line in self.opening.python)
        title = f"{self.nouns.episode.capitalize()} {shown(name)}"
        return Entry(key, shown(name), lambda: self._open(name), Opening(command, python), title, nouns=self.nouns)

    def _open(self, name: Any) -> CounterfactualRecord:
        seen = self.episodes.observation(name, self.mdp)
        return CounterfactualRecord.of(unseen(self.mdp, seen), seen, **self.beyond)

    def listed(self) -> list[Listed]:
        """The smallest return first; with an audit, the costliest mistakes, then the largest gain."""
        if self.audited is None:
            return self._by_return
        unknown = Audited(0.0, float("-inf"), "")
        ids = self.episodes.ids
        found = {one.key: self.audited.get(ids[int(one.key)], unknown) for one in self._by_return}
        order = sorted(self._by_return, key=lambda one: (-found[one.key].mistakes, -found[one.key].gain))
        return [replace(one, about=found[one.key].in_words) for one in order]

    @cached_property
    def _by_return(self) -> list[Listed]:
        episodes = self.episodes
        lengths, returns = np.diff(episodes.start), self._returns
        last = episodes.next_state[episodes.start[1:] - 1]
        named: dict[int, str] = {}
        for one in np.unique(last[last >= 0]).tolist():
            at = self.mdp.states.find(episodes.states[one])
            named[one] = "" if at < 0 else _outcome(self.mdp, at)
        order = np.argsort(returns, kind="stable")  # unknown returns come last
        return [
            Listed(
                str(i),
                shown(episodes.ids[i]),
                int(lengths[i]),
                named.get(int(last[i]), ""),
                None if np.isnan(returns[i]) else float(returns[i]),
            )
            for i in order.tolist()
        ]

    @property
    def _returns(self) -> Floats:
        """The return of each episode: from the log if it has one, else by the model; NaN if unknown."""
        episodes = self.episodes
        if episodes.reward is not None:
            counted: Floats = np.add.reduceat(np.nan_to_num(episodes.reward), episodes.start[:-1])
            return counted
        found = np.full(len(episodes), np.nan)
        for i in range(min(len(episodes), _COUNTED)):
            try:
                found[i] = model_return(self.mdp, episodes.observation(episodes.ids[i], self.mdp))
            except QueryError:
                continue  # an episode that is impossible in the model is reported when it is opened
        return found


def _outcome(mdp: ModelRecord, state: int) -> str:
    found = outcome_of(mdp, state)
    return "" if found is None else shown(found.name)


def _listed(key: str, name: str, mdp: ModelRecord, value: float, cf: CounterfactualRecord) -> Listed:
    last = int(cf.observation.states[-1])
    return Listed(key, name, cf.T, "" if last < 0 else _outcome(mdp, last), value)


# ---- Somebody whose type was never recorded ------------------------------------------------------------------------
# An episode of somebody whose type was never recorded: a page about the mixture, and the explorer of each type.


@dataclass(frozen=True)
class OfTypes:
    """The types that an episode leaves possible, the likeliest first; ``cf`` answers the page about all of them."""

    cf: TypedRecord
    title: str = ""
    nouns: Nouns = field(default_factory=Nouns)

    @property
    def names(self) -> tuple[str, ...]:
        """The types; the key of each is its number here."""
        posterior = self.cf.posterior
        return tuple(sorted(self.cf.possible, key=lambda name: -posterior[name]))

    @property
    def first(self) -> str:
        """Key of the likeliest type."""
        return "0"

    def entry(self, key: str) -> Entry:
        """An episode as it would be if its type were known."""
        if key not in map(str, range(len(self.names))):
            raise QueryError(Problem(f"there is no type {key[:60]!r} here: choose one of the list", value=key))
        name = self.names[int(key)]
        lines = "cf = tether.counterfactual(types, path)", f"one = cf.by_type[{name!r}]"
        return Entry(
            key,
            name,
            lambda: self._anew(name),
            Opening((), lines),
            title=f"As if the type were known: {name}",
            nouns=self.nouns,
        )

    def _anew(self, name: str) -> CounterfactualRecord:
        one = self.cf.by_type[name]
        return with_mechanism(one, one.mechanism)

    def listed(self) -> list[Listed]:
        """Each type, and how likely it is."""
        posterior, found = self.cf.posterior, []
        for i, name in enumerate(self.names):
            one = self.cf.by_type[name]
            about = f"{percent(posterior[name])} likely after the episode"
            found.append(Listed(str(i), name, one.T, "", model_return(one.mdp, one.observation), about))
        return found
