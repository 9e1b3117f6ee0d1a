"""The answers for a whole log of individuals whose types were never recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed
from tether._foundation.words import counted, percent
from tether.auditing.audit_sentences import (
    cost_in_words,
    many_in_words,
    mistakes_in_words,
    survived_in_words,
    worse_in_words,
)
from tether.conditioning.model_sets import UNRELATED_LUCK, check_gamma, is_practice_assumed
from tether.errors import FileError, PathError, QueryError
from tether.evaluation.typed_certificate import risk_of_typed, typed_certificate
from tether.explanation.typed_review import TypedReview, review_where_known
from tether.learning.folds import unseen_types
from tether.model.practice import strongest_in_words
from tether.model.several_types import Types
from tether.observation.episodes import Episodes
from tether.observation.path import Path
from tether.plan.typed_plan import TypedPlanRecord
from tether.plan.typed_record import TypedRecord

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class TypedRow:
    """One episode of an audit: what it says of the type, and what the best plan would have gained.

    ``step``, ``did`` and ``instead`` are those of the first change of the plan; None if it changes nothing. ``verdict``
    is that of `tether.records.TypedCertificate`, and ``gamma_star`` how strong hidden causes must be to
    undo the gain; None and not a number if nothing is gained, or nothing was certified. ``p_worse`` is how likely a
    replay ends worse than what happened. ``review`` is that of the episode, and ``known_then`` what was known of the
    first change (`Decisions.known_then`); None and empty where that is not known (`TypedExplanation.review`).
    """

    episode: Any
    steps: int
    observed: float
    value: float
    gain: float
    exact: bool
    posterior: Mapping[str, float]
    step: int | None
    did: Any
    instead: Any
    verdict: str | None = None
    gamma_star: float = float("nan")
    p_worse: float = 0.0
    review: TypedReview | None = None
    known_then: str = ""

    @property
    def claimed(self) -> float:
        """What the mistakes cost that are claimed; 0 where they are not known."""
        return 0.0 if self.review is None else self.review.claimed


@dataclass(frozen=True, eq=False, repr=False)
class TypedAudit(Tabular, Displayed):
    """One question about every episode of a log, with hidden types; made by ``tether.audit(types, log)``.

    Attributes
    ----------
    rows : tuple of TypedRow
        By what mistakes cost that could be known at the time, then by gain; the largest first.
    broken : mapping
        Episodes that no type can explain, and why.
    k : int or None
    m : int

    Examples
    --------
    >>> import tether
    >>> def ward(dies):
    ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "well", 1 - dies)]
    ...     rows += [("sick", "treat", "dead", 0.3), ("sick", "treat", "well", 0.7)]
    ...     mdp = tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
    ...     return mdp.with_objective(final_reward={"well": 1.0})
    >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.5, "robust": 0.5})
    >>> log = {"ann": tether.Path(["sick", "dead"], ["wait"]), "bob": tether.Path(["sick", "well"], ["wait"])}
    >>> audit = tether.audit(types, log, m=1)
    >>> print(audit)  # doctest: +NORMALIZE_WHITESPACE
    2 episodes. In all of them a decision was a mistake that could be known at the time. Such mistakes cost 0.2 on
    average, per episode that has one. With hindsight, at most 1 change would have gained something in 1 of them (50 %):
    0.6. No replay of the plan ends worse than what happened.
    Of the type they say, on average: frail 50 %, robust 50 %. In 2 of them one type is at least 90 % likely.
    The expected gain holds under every causal model of each type in which the luck of one step says nothing about the
    luck of another.
    The gain survives hidden reasons that changed the odds of an action by less than 6.99 times, if all actions
    are usually taken equally often.
    >>> audit.rows[0].episode, audit.rows[0].instead
    ('ann', 'treat')
    """

    rows: tuple[TypedRow, ...]
    broken: Mapping[Any, str]
    types: Types
    k: int | None
    m: int
    gamma: float | None = None

    def sentences(self) -> list[str]:
        """Mistakes; what hindsight gains; what the episodes say of the types; how sure that is."""
        n = len(self.rows)
        if not n:
            return ["No episode could be answered."]
        said = [f"{counted(n, 'episode')}.", *self._mistakes(), *self._gains()]
        mean = {name: float(np.mean([row.posterior[name] for row in self.rows])) for name in self.types.models}
        sure = sum(max(row.posterior.values()) >= 0.9 - 1e-12 for row in self.rows)
        said.append(
            f"Of the type they say, on average: {', '.join(f'{name} {percent(one)}' for name, one in mean.items())}. "
            f"In {sure} of them one type is at least 90 % likely."
        )
        said += self._certain()
        unsure = sum(not row.exact for row in self.rows)
        said += self.types.rests_on()
        if unsure:
            said.append(f"In {unsure} of them there may be a better plan than the one that was found.")
        if self.broken:
            said.append(f"{counted(len(self.broken), 'episode')} could not be answered.")
        return said

    def _mistakes(self) -> list[str]:
        """In how many episodes a decision was a mistake that could be known at the time, and what these cost."""
        if any(row.review is None for row in self.rows):
            return []
        claimed = np.array([row.claimed for row in self.rows])
        learned = self.types.together.counts is not None
        bad = claimed[claimed > 0.0]
        return [mistakes_in_words(bad.size, len(self.rows), learned), *cost_in_words(bad)]

    def _gains(self) -> list[str]:
        """What the plans gain, in how many episodes only with hindsight, and how many replays end worse."""
        some = [row for row in self.rows if row.gain > 0.0]
        if not some:
            where = "" if len(self.rows) == 1 else " in any of them"
            return [f"Hindsight would have gained nothing within these limits{where}."]
        gain = float(np.mean([row.gain for row in some]))
        what = many_in_words(len(some), len(self.rows), "would have gained something", gain)
        said = [f"With hindsight, at most {counted(self.m, 'change')} {what}."]
        said.append(worse_in_words(float(np.mean([row.p_worse for row in some])), len(some)))
        unknown = sum(row.known_then in ("not better", "not shown") for row in some)
        if unknown:
            which = "Nobody" if len(some) == 1 else f"In {unknown} of these {len(some)} nobody"
            if any(row.known_then == "not shown" for row in some):
                which = f"{which.removesuffix('nobody').removesuffix('Nobody')}the log does not show that one"
            said.append(f"{which[0].upper()}{which[1:]} could know at the time that the first change was better.")
        return said

    def _certain(self) -> list[str]:
        """In how many of the episodes with a gain it holds, and how strong hidden causes may be there."""
        judged = [row for row in self.rows if row.verdict is not None]
        if not judged:
            return []
        strengths = np.sort([row.gamma_star for row in judged if row.verdict == "holds"])
        holds = strengths.size
        which = f"every causal model of each type {UNRELATED_LUCK}"
        if len(judged) == 1:
            said = [f"The expected gain {'holds' if holds else 'does not hold'} under {which}."]
        else:
            some = "none" if not holds else "all" if holds == len(judged) else str(holds)
            said = [f"In {some} of these {len(judged)} the expected gain holds under {which}."]
        assumed = self.types.usual is None and is_practice_assumed(next(iter(self.types.models.values())), None)
        compared = strongest_in_words(self.types.together) if np.isfinite(strengths).any() else ""
        return [*said, *survived_in_words(strengths, self.gamma, assumed), *([compared] if compared else [])]

    def to_arrow(self) -> pyarrow.Table:
        """One row for each episode, with a column for each type; names as text."""
        import pyarrow as pa

        columns: dict[str, Any] = {"episode": [str(row.episode) for row in self.rows]}
        for field in ("steps", "observed", "value", "gain", "exact", "step", "verdict", "gamma_star"):
            columns[field] = [getattr(row, field) for row in self.rows]
        for field in ("did", "instead"):
            columns[field] = [None if getattr(row, field) is None else str(getattr(row, field)) for row in self.rows]
        judged = [row.review for row in self.rows]
        for field in ("expected", "mistakes", "claimed", "luck"):
            columns[field] = [None if one is None else getattr(one, field) for one in judged]
        largest = [None if one is None else one.largest() for one in judged]
        columns["largest_mistake"] = [
            None if one is None else {
                "t": one.t, "state": str(one.state), "action": str(one.action), "best": str(one.best), "cost": one.cost,
            }
            for one in largest
        ]  # fmt: skip
        columns |= {field: [getattr(row, field) for row in self.rows] for field in ("p_worse", "known_then")}
        columns |= {f"P({name})": [row.posterior[name] for row in self.rows] for name in self.types.models}
        return pa.table(columns)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        some = sum(row.gain > 0 for row in self.rows)
        bad = sum(row.claimed > 0 for row in self.rows)
        many = counted(len(self.rows), "episode")
        return f"<TypedAudit: {many}, m = {self.m}; mistakes in {bad}, something to gain in {some}>"


def audit_of_types(
    types: Any,
    episodes: Any,
    k: int | None,
    m: int,
    about: Mapping[str, Any],
    strict: bool,
    progress: Callable[[int, int], None] | None,
    certify: bool,
    gamma: float | None,
    reading: Mapping[str, Any],
    **refused: Any,
) -> TypedAudit:
    """Answer every episode, one after the other; ``refused`` are arguments that only an audit of one model has.

    ``reading`` says how a table is read, where it is not read as the log of the types was.
    """
    if not isinstance(types, Types):
        raise QueryError(f"expected a tether.MDP, not {type(types).__name__}: tether.MDP.from_arrays(P, R), …")
    if gamma is not None:
        gamma = check_gamma(gamma)
    some = [name for name, value in refused.items() if value]
    if some:
        raise QueryError(f"{some[0]}= is not for types: leave it out")
    found = []
    log, broken = _log(episodes, types, reading)
    if strict and broken:
        raise FileError(next(iter(broken.values())))
    for done, (name, path) in enumerate(log.items(), start=1):
        try:
            found.append(_row(name, TypedRecord(unseen_types(types, path), path), k, m, about, certify))
        except PathError as error:
            if strict:
                raise
            broken[name] = str(error)
        if progress is not None:
            progress(done, len(log))
    found.sort(key=lambda row: (-row.claimed, -row.gain))
    return TypedAudit(tuple(found), broken, types, k, m, gamma)


def _row(name: Any, cf: TypedRecord, k: int | None, m: int, about: Mapping[str, Any], certify: bool) -> TypedRow:
    plan = TypedPlanRecord.of(cf, k, m, about["rule"], about["influence"], about["objective"], about["minimise"], 0.0)
    step = did = instead = None
    if plan.gain > 0:
        for t in range(cf.T):
            action = plan.action(cf.path.states[: t + 1])  # until the first change the observed path is replayed
            if action != cf.path.actions[t]:
                step, did, instead = t, cf.path.actions[t], action
                break
    sure = typed_certificate(plan, compare=False) if certify and plan.gain > 0 else None
    judged = review_where_known(cf, about["objective"], about["minimise"])
    return TypedRow(
        name, cf.T, plan.observed_value, plan.value, plan.gain, plan.exact, cf.posterior, step, did, instead,
        None if sure is None else sure.verdict, float("nan") if sure is None else sure.gamma_star,
        risk_of_typed(plan).worse if plan.gain > 0 else 0.0, judged,
        "" if judged is None or step is None else judged.known_then(step, instead),
    )  # fmt: skip


def _log(episodes: Any, types: Types, reading: Mapping[str, Any]) -> tuple[Mapping[Any, Path], dict[Any, str]]:
    """The episodes of a log in the names of the types, and what is wrong with the episodes that cannot be read."""
    if isinstance(episodes, Episodes):
        return episodes, {}
    if isinstance(episodes, Mapping) and all(isinstance(one, Path) for one in episodes.values()):
        return dict(episodes), {}
    if isinstance(episodes, Iterable) and not isinstance(episodes, str | bytes | Mapping):
        listed = list(episodes)
        if all(isinstance(one, Path) for one in listed):
            return dict(enumerate(listed)), {}
    from tether.io.logs import read_sound_episodes
    from tether.io.names_as_text import in_names_of
    from tether.io.opening import read_as_learned

    mdp = types.together
    found = read_sound_episodes(episodes, **read_as_learned(mdp, dict(reading)))
    broken = {found.episodes.ids[i]: problem.message for i, problem in found.broken.items()}
    broken |= {f"problem {i}": problem.message for i, problem in enumerate(found.alone, start=1)}
    return {name: in_names_of(mdp, path) for name, path in found.sound.items()}, broken
