"""Models of hidden types from a log: of types that some episodes name, or of types that only their courses tell apart.

All types share the transitions of one model of the whole log (`tether.learn`). The model of a type is learned as that
one is: rows of actions are pooled as far as the log of the type demands (`tether.model.pooling`), so that chance is not
taken for an effect. Its counts are those of the type, and in each state of α steps of everybody,

    n_z(s,a,j) + α·n(s,a,j) / n(s)

so that a state in which a type never was is as for all. With ``by`` the counts are those of the episodes of a type.
With ``k`` nobody knows who is of which type: each episode counts for a type with the probability that it is of it
(`tether.learning.mixtures`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether._foundation.words import counted, percent
from tether.errors import Problem, QueryError
from tether.io.datasets import read_if_dataset
from tether.io.logs import read_episodes
from tether.io.names_as_text import text_of
from tether.learning.learn import learn
from tether.learning.mixtures import Fitted, Steps
from tether.logs.extra_columns import ExtraColumns
from tether.mdp import MDP
from tether.model.names import plain
from tether.model.several_types import Types
from tether.observation.episodes import Episodes
from tether.observation.path import Path
from tether.plan.policy import shares_of_pairs


class LearnedTypes(Types, Displayed):
    """Types that were learned from a log; made by `tether.learn_types`. A `tether.Types`, and what it rests on.

    Attributes
    ----------
    shares : mapping of name to float
        How frequent each type is in the log.
    responsibilities : array (episodes, types)
        How likely each episode of the log is of each type, by these models; 0 and 1 with ``by``.
    log_likelihood : float
        Of the outcomes of the log, by rows that are not pooled.
    bic : mapping of int to float
        For each number of types up to ``k``, the Bayesian information criterion: smaller is better. Empty with ``by``.
    stability : float or None
        The log in two halves by episode, models of each half: the share of all episodes that both call the same type.
    by_chance : float or None
        What that share would be if the two said nothing of each other.
    starts : int
        From how many random starts it was searched.
    reached : int
        How many of them came to the same likelihood as the best.

    Examples
    --------
    >>> import tether
    >>> sick = lambda rate, seed: tether.MDP.from_table(
    ...     ["sick"] * 2, ["wait"] * 2, ["sick", "well"], [rate, 1 - rate], terminal=["well"]
    ... ).simulate("random", 12, rng=seed, start="sick")
    >>> log = [sick(0.95 if seed % 2 else 0.1, seed) for seed in range(80)]
    >>> types = tether.learn_types(log, k=2)
    >>> types
    <Types: type 1 54 %, type 2 46 %>
    >>> types.best_k, types.stability > types.by_chance
    (2, True)
    """

    shares: Mapping[str, float]
    responsibilities: Floats
    log_likelihood: float
    bic: Mapping[int, float]
    stability: float | None
    by_chance: float | None
    starts: int
    reached: int
    by: str | None

    @property
    def best_k(self) -> int | None:
        """The number of types with the smallest criterion, of those that were tried; None with ``by``."""
        return min(self.bic, key=self.bic.__getitem__) if self.bic else None

    def sentences(self) -> list[str]:
        """What was learned, and how far to trust it."""
        listed = ", ".join(f"{name} ({percent(share)})" for name, share in self.shares.items())
        n = counted(len(self.responsibilities), "episode")
        if self.by is not None:
            return [f"{n} of the types {listed}, as their {self.by} says."]
        k = len(self.models)
        said = [f"{n}; {counted(k, 'type')} that nobody recorded: {listed}."]
        tried = ", ".join(f"{value:,.1f} for {size}" for size, value in self.bic.items())
        said.append(f"The Bayesian information criterion is {tried} (smaller is better).")
        said.append(self.caveat)
        if self.stability is not None and self.by_chance is not None:
            said.append(
                f"Learned from two halves of the log apart, they agree on {percent(self.stability)} of the episodes; "
                f"by chance it would be {percent(self.by_chance)}."
            )
        said.append(f"{self.reached} of {self.starts} random starts came to this result.")
        return said

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def learn_types(
    episodes: Any,
    k: int | None = None,
    *,
    by: str | Mapping[Any, Any] | Sequence[Any] | None = None,
    prior: float = 1.0,
    starts: int = 10,
    seed: int = 0,
    by_first_state: bool = False,
    **reading: Any,
) -> LearnedTypes:
    """Learn models of several types from a log.

    Parameters
    ----------
    episodes : Episodes, paths, or the name of a log
        As `tether.learn` takes them.
    k : int, optional
        How many types nobody recorded: they are found by expectation-maximisation.
    by : str, mapping or sequence, optional
        What says the type, and stays the same during an episode: a part of the states, ``"diabetes"``, which the models
        of the types leave out; or a further column of a log that is a file or a table. Or the type of each episode
        itself: by its name, or in the order of the log. Give ``by`` or ``k``.
    prior : float
        α: how many steps of everybody count in each state of a type.
    starts, seed : int
        With ``k``: from how many random starts to search, and the seed of the first.
    by_first_state : bool
        Whether how frequent types are depends on the first state of an episode.
    **reading
        Further arguments of `tether.learn`: ``rewards``, ``empty_rewards``, ``columns``, …

    Examples
    --------
    >>> import tether
    >>> from collections import namedtuple
    >>> State = namedtuple("State", ["health", "diabetes"])
    >>> log = [
    ...     tether.Path([State("sick", diabetic), State(end, diabetic)], ["wait"])
    ...     for diabetic, ends in ((True, ["dead"] * 3 + ["well"]), (False, ["dead"] + ["well"] * 3))
    ...     for end in ends
    ... ]
    >>> types = tether.learn_types(log, by="diabetes")
    >>> types
    <Types: diabetes = False 50 %, diabetes = True 50 %>
    >>> types.models["diabetes = True"].row(("sick",), "wait")
    ((State(health='dead'), State(health='well')), array([0.7, 0.3]))

    The type may also be a further column of the log, which is not a part of the states:

    >>> import pandas as pd
    >>> ends = ["d", "w", "w", "w", "d", "d", "d", "w"]
    >>> rows = [(i, t, state, "wait", i > 3) for i, end in enumerate(ends) for t, state in enumerate(["s", end])]
    >>> table = pd.DataFrame(rows, columns=["episode", "t", "state", "action", "frail"])
    >>> tether.learn_types(table, by="frail").models["frail = True"].row("s", "wait")
    (('d', 'w'), array([0.7, 0.3]))

    Of paths the types can be given beside them:

    >>> paths = [tether.Path(["s", end], ["wait"]) for end in ends]
    >>> tether.learn_types(paths, by=["robust"] * 4 + ["frail"] * 4)
    <Types: frail 50 %, robust 50 %>
    """
    if (by is None) == (k is None):
        raise QueryError(
            "give by=, a part of the states or a column that says the type, or k=, how many types nobody recorded"
        )
    if not isinstance(prior, int | float) or isinstance(prior, bool) or not prior > 0:
        raise QueryError(
            Problem("prior is a number above 0: how many steps of everybody count in a state", value=prior)
        )
    log = _opened(episodes, reading)
    groups = None
    if by is not None:
        log, groups = _by_type(episodes, log, by, reading)
    mdp = learn(log, **{name: one for name, one in reading.items() if name in _LEARNING})
    steps = Steps.of(log, mdp, float(prior))
    if groups is not None:
        names = sorted(set(groups), key=repr)
        labels = [f"{by} = {name}" if isinstance(by, str) else str(name) for name in names]
        certain = np.array([[float(group == name) for name in names] for group in groups])
        by_name = by if isinstance(by, str) else "type"
        return _learned_types(mdp, steps.known(certain), labels, steps, by_first_state, by=by_name)
    k = whole_number("k", k, 1)
    starts, seed = whole_number("starts", starts, 1), whole_number("seed", seed, 0)
    steps.check_informative(k)
    tried = {size: steps.search(size, starts, seed) for size in range(1, k + 1)}
    best, bic = tried[k].by_weight(), {size: one.bic for size, one in tried.items()}
    stability, by_chance = steps.stability(k, starts, seed) if k > 1 else (None, None)
    names = [f"type {i + 1}" for i in range(k)]
    about = {"bic": bic, "stability": stability, "by_chance": by_chance, "starts": starts, "reached": best.reached}
    return _learned_types(mdp, best, names, steps, by_first_state, **about)


_LEARNING = ("rewards", "empty_rewards", "states", "actions", "end", "minimum")
_READING = ("columns", "time", "step", "decimal", "encoding", "day_first", "fold_case")


def _opened(episodes: Any, reading: Mapping[str, Any]) -> Episodes:
    unknown = [name for name in reading if name not in (*_LEARNING, *_READING)]
    if unknown:
        raise QueryError(f"learn_types has no argument {unknown[0]!r}")
    episodes = read_if_dataset(episodes)
    if isinstance(episodes, Episodes):
        return episodes
    how = {name: one for name, one in reading.items() if name in _READING}
    if (isinstance(episodes, Mapping) and not _is_table(episodes)) or (isinstance(episodes, list | tuple) and episodes):
        return Episodes.from_paths(episodes)
    return read_episodes(episodes, **how)


def _learned_types(
    mdp: MDP, fitted: Fitted, names: list[str], steps: Steps, by_first_state: bool, **about: Any
) -> LearnedTypes:
    models = {name: steps.model_of(mdp, fitted.shares[:, z]) for z, name in enumerate(names)}
    shares = fitted.shares
    if about.get("by") is None:  # by the models that are kept
        shares, _ = steps.responsible(fitted.weights, np.stack([one.form.probability for one in models.values()]))
    prior: dict[str, Any] = {name: float(share) for name, share in zip(names, fitted.weights, strict=True)}
    if by_first_state:
        groups: dict[Any, list[int]] = {}
        for i, state in enumerate(steps.first):
            groups.setdefault(state, []).append(i)
        means = {state: shares[some].mean(axis=0) for state, some in groups.items()}
        prior = {name: {state: float(mean[z]) for state, mean in means.items()} for z, name in enumerate(names)}
    made = LearnedTypes(models, prior)
    made.usual = shares_of_pairs(mdp)
    made.by, made.bic = about.get("by"), about.get("bic", {})
    if made.by is None:
        made.caveat = _caveat(len(names), made.best_k)
    made.shares = {name: float(share) for name, share in zip(names, fitted.weights, strict=True)}
    made.responsibilities, made.log_likelihood = shares, fitted.log_likelihood
    made.stability, made.by_chance = about.get("stability"), about.get("by_chance")
    made.starts, made.reached = about.get("starts", 0), about.get("reached", 0)
    return made


def _caveat(k: int, best_k: int | None) -> str:
    """What the log says of a number of types that nobody recorded."""
    if best_k == k:
        which = "this type: it is an" if k == 1 else f"these {k} types: they are an"
        return f"Nobody recorded {which} assumption, which the log supports."
    fewer = "1 type explains" if best_k == 1 else f"{best_k} types explain"
    return f"Nobody recorded these {k} types, and the log does not show them: {fewer} it better."


def _is_table(given: Any) -> bool:
    """Whether a mapping has columns; otherwise it has paths."""
    return isinstance(given, Mapping) and {"state", "action"} <= {*map(str, given)}


def _by_type(
    given: Any, log: Episodes, by: str | Mapping[Any, Any] | Sequence[Any], reading: Mapping[str, Any]
) -> tuple[Episodes, list[Any]]:
    """The episodes with states that do not say the type, and the type of each."""
    if not isinstance(by, str):
        return log, _given_types(log, by)
    in_memory = isinstance(given, Episodes | Mapping | list | tuple) and not _is_table(given)
    if by in _names(log.states[0]) or in_memory:
        return _without(log, by)
    values = ExtraColumns(given, reading).read(by, fixed=True)
    unknown = [name for name in log if text_of(name) not in values]
    if unknown:
        message = f"{counted(len(unknown), 'episode')} without a value of {by}, the first is {unknown[0]!r}"
        raise QueryError(Problem(message, value=by, fix="leave such episodes out, or give the unknown a name"))
    return log, [values[text_of(name)] for name in log]


def _given_types(log: Episodes, by: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
    """The type of each episode, given by its name or in the order of the log."""
    if isinstance(by, Mapping):
        unknown = [name for name in log if name not in by]
        if unknown:
            message = f"{counted(len(unknown), 'episode')} without a type in by=, the first is {unknown[0]!r}"
            raise QueryError(Problem(message, value=unknown[0], fix="name the type of every episode"))
        return [by[name] for name in log]
    found = plain(by)
    if len(found) != len(log):
        message = f"by= has {counted(len(found), 'type')} for {counted(len(log), 'episode')}"
        raise QueryError(Problem(message, fix="give the type of each episode, in the order of the log"))
    return found


def _without(log: Episodes, by: str) -> tuple[Episodes, list[Any]]:
    """The episodes with states that leave a part out, and what the part says of each episode."""
    kinds: dict[type, type] = {}
    paths, groups = {}, []
    for name, path in log.items():
        values = {_part(state, by) for state in path.states}
        if len(values) != 1:
            listed = ", ".join(sorted(map(repr, values)))
            raise QueryError(
                Problem(
                    f"episode {name!r}: {by} changes ({listed}); a type stays the same during an episode", value=name
                )
            )
        groups.append(values.pop())
        states = [_left(state, by, kinds) for state in path.states]
        paths[name] = Path(states, path.actions, path.rewards, path.outcome)
    return Episodes.from_paths(paths), groups


def _names(state: Any) -> list[str]:
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return list(state._fields)
    if is_dataclass(state) and not isinstance(state, type):
        return [one.name for one in fields(state)]
    return []


def _part(state: Any, by: str) -> Any:
    if by not in _names(state):
        known = ", ".join(_names(state)) or "no parts with names"
        raise QueryError(Problem(f"state {state!r} has no part {by!r}; it has {known}", state=state, value=by))
    return getattr(state, by)


def _left(state: Any, by: str, kinds: dict[type, type]) -> Any:
    """A state without one of its parts: a named tuple of the others."""
    from collections import namedtuple

    kind = type(state)
    names = [name for name in _names(state) if name != by]
    if kind not in kinds:
        if not names:
            raise QueryError(Problem(f"the states have no part but {by}; nothing would be left of them", value=by))
        kinds[kind] = namedtuple(kind.__name__, names)
    return kinds[kind](*(getattr(state, name) for name in names))
