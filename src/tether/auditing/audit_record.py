"""The result of an audit: three tables, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.arrays import Ints
from tether._foundation.arrow import as_pandas
from tether._foundation.checks import whole_number
from tether._foundation.words import counted
from tether.auditing.answer_arrays import sets_apart
from tether.auditing.answering import conditioned_on
from tether.auditing.audit_sentences import audit_sentences
from tether.auditing.consistency import Consistency, LuckTest, luck_test
from tether.auditing.placebos import Gathered, Measured, Placebo
from tether.auditing.summary import (
    EpisodeRows,
    FileRows,
    Summary,
    TableRows,
    find_problems,
    find_top,
    is_more,
    summarize,
)
from tether.errors import QueryError
from tether.io.names_as_text import in_names_of
from tether.learning.folds import Folds, fold_models
from tether.mdp import MDP
from tether.observation.path import Path
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    import pathlib

    import pandas
    import pyarrow

    from tether.auditing.audit_question import Question
    from tether.auditing.directory import Tables
    from tether.influence.one_step import Influence
    from tether.logs.batches import Log
    from tether.model.properties import Property
    from tether.plan.plan_record import PlanRecord

_RANKED = {
    "mistakes": "claimed",
    "gain": "gain",
    "hindsight": "gain",
    "guaranteed_gain": "guaranteed_gain",
    "worse_end": "gain",
}
"""What episodes may be ranked by, and the column that has it."""


@dataclass(frozen=True, eq=False, repr=False)
class AuditRecord:
    """The result of an audit of a log; `tether.records.Audit` says what the fields are, and adds what it can make."""

    _read: Callable[[str], pyarrow.Table]
    _asked: Question
    question: dict[str, Any]
    mdp: MDP
    log: Log
    directory: pathlib.Path | None = None
    _tables: Tables | None = None
    _placebo: Measured | None = None
    _gathered: Callable[[], Gathered] | None = None

    @cached_property
    def table(self) -> pyarrow.Table:
        """One row per episode, in the log's order."""
        return self._read("episodes")

    @cached_property
    def decisions(self) -> pyarrow.Table:
        """One row per state and action that was taken there; the costliest first."""
        return self._read("decisions")

    @cached_property
    def outcomes(self) -> pyarrow.Table:
        """One row per observed and counterfactual outcome."""
        return self._read("outcomes")

    @cached_property
    def _rows(self) -> EpisodeRows:
        """The table of episodes, row by row; in a directory it need not fit into memory."""
        tables = self._tables
        if tables is None or "table" in self.__dict__:
            return TableRows(self.table)
        return FileRows(lambda: tables.file("episodes"))

    @cached_property
    def summary(self) -> Summary:
        """The summary of the table of episodes, computed without loading it into memory as a whole.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> summary = tether.audit(case.mdp, [case.path], k=3).summary
        >>> summary.episodes, summary.answered, summary.verdicts
        (1, 1, {'holds': 1})
        """
        found = summarize(self._rows, apart=sets_apart(self.mdp))
        return found if self.mdp.counts is None else replace(found, consistency=None)

    @cached_property
    def placebo(self) -> Placebo | None:
        """For plans of a learned model: the same audit where no action has an effect, beside this one.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.audit(case.mdp, [case.path], k=3).placebo)  # the model was not learned
        None
        """
        return None if self._placebo is None else Placebo.beside(self._placebo, self.summary)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def problems(self) -> pyarrow.Table:
        """The episodes without an answer: ``episode`` and ``problem``."""
        return find_problems(self._rows)

    def first_problems(self, most: int) -> pyarrow.Table:
        """The first of `problems`, for a page.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).first_problems(10).num_rows
        0
        """
        return find_problems(self._rows, most)

    def top(self, n: int = 20, by: str = "mistakes") -> pyarrow.Table:
        """The n episodes whose mistakes cost most: those that could be known at the time, and are claimed.

        Or those with the largest gain (``by="gain"``), with the largest one that no mistake explains (``"hindsight"``),
        or with the largest guaranteed one (``"guaranteed_gain"``). ``"worse_end"`` has the gains of plans that make a
        good end less likely, or a bad one likelier: the return and the outcome disagree there, and no other ranking by
        gains has them. Episodes that have none of it are left out; equal ones are in the log's order.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).top().column("episode").to_pylist()
        [0]
        """
        n = whole_number("n", n, 1)
        if by not in _RANKED:
            raise QueryError(f"by must be {', '.join(map(repr, _RANKED))}, not {by!r}")
        apart: Any = None if by == "mistakes" else by == "worse_end"
        return self._rows.take(self._top(n, _RANKED[by], hindsight_only=by == "hindsight", worse_end=apart))

    def _top(self, n: int, by: str, **which: Any) -> Ints:
        return find_top(self._rows, n, by, apart=sets_apart(self.mdp), **which)

    @cached_property
    def consistency(self) -> Consistency | LuckTest | None:
        """Whether the log and the model agree.

        For a model that was given: whether the counterfactual values of a policy agree with the model's on average, as
        they should; None if there is no policy, or if it has no value without an observation ("observed"). For a model
        that was learned: whether chance explains the luck of episodes that it has not seen; None if nothing can be
        compared, because no reward or value differs. It is about the whole log, whatever ``where`` chose.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.cases.grid_world().mdp
        >>> log = [mdp.simulate("random", 6, rng=seed) for seed in range(50)]
        >>> tether.audit(mdp, log, policy="optimal", certify=False).consistency.holds
        True
        """
        if self.mdp.counts is None:
            return self.summary.consistency
        assert self._gathered is not None
        return luck_test(self.mdp, self._gathered().own)

    def paths(self, episodes: Iterable[Any]) -> dict[Any, Path]:
        """Some episodes of the log by id, to look at one: ``tether.counterfactual(mdp, path)``.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, {"ann": case.path}, k=3).paths(["ann"])["ann"].T
        7
        """
        return self.log.paths(episodes)

    def plans(self, episodes: Iterable[Any]) -> Iterator[tuple[Any, PlanRecord]]:
        """The plans of some episodes in full, one after the other, with their ids; the log is read once.

        If the log is cut into folds, the plan of an episode is the one that the model of the other folds chose: its own
        value there is larger than what the audit says of it.
        """
        asked = replace(self._asked, longest=self.log.longest())
        if asked.policy is not None:
            raise QueryError("this audit is about a policy, not plans: tether.counterfactual(mdp, path).evaluate(…)")
        for episode, path in self.paths(episodes).items():
            cf = conditioned_on(self._model_of(episode), in_names_of(self.mdp, path), asked)
            tied = tether(cf, asked.rule, asked.influence, asked.objective, asked.minimise, asked.advisable)
            yield episode, tied.plan(asked.k, asked.m)

    def _model_of(self, episode: Any) -> MDP:
        """The model that a plan is made with: that of the other folds, if the log is cut into folds."""
        if not self._asked.folds:
            return self.mdp
        folds, models = self._fold_models
        return models[int(folds.models(folds.blocks([episode]))[0][0])]

    @cached_property
    def _fold_models(self) -> tuple[Folds, list[MDP]]:
        assert self._gathered is not None
        folds = self._gathered().folds
        return folds, fold_models(self.mdp, folds)

    def is_gained(self) -> Any:
        """Which episodes gain more than rounding, as an array of truth values.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).is_gained().tolist()
        [True]
        """
        return self._is_more(1.0)

    def is_lost(self) -> Any:
        """Which episodes lose more than rounding: with a policy, or with a plan that its own model did not choose.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).is_lost().tolist()
        [False]
        """
        return self._is_more(-1.0)

    def _is_more(self, sign: float) -> Any:
        import numpy as np

        found = [np.empty(0, dtype=bool)]
        for table in self._rows.batches(["gain", "observed"]):
            gain, observed = (table.column(i).to_numpy() for i in (0, 1))
            found.append(is_more(sign * gain, observed))
        return np.concatenate(found)

    def listed(self, most: int) -> pyarrow.Table:
        """The episodes that a page lists: those with the costliest mistakes, then those with the largest gains.

        After these, the gains of plans with a worse end.

        For a policy: those with the largest gains and the largest losses. Nobody, if the placebo shows that all of it
        may be chance; only those with mistakes, if that is so for the gains.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).listed(10).num_rows
        1
        """
        import numpy as np

        if self._asked.policy is None:
            shown = self.placebo
            if shown is not None and shown.shows_nothing:
                most = 0
            mistaken = self._top(most, "claimed")
            rest = most - mistaken.size if shown is None or shown.shows_gain else 0
            others = [self._top(rest, "gain", hindsight_only=True, worse_end=worse) for worse in (False, True)]
            return self._rows.take(np.concatenate((mistaken, *others))[:most])
        best = self._top(most, "gain")
        worst = self._top(most, "gain", losses=True)
        best = best[: most - min(most // 2, worst.size)]
        return self._rows.take(np.concatenate((best, worst[: most - best.size][::-1])))

    @property
    def influence(self) -> Influence:
        """The test of influence that k counts by.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.audit(case.mdp, [case.path], k=3).influence)
        support
        """
        return self._asked.influence

    @property
    def objective(self) -> Property | None:
        """The property whose chance was asked for; None for the return."""
        return self._asked.objective

    def to_pandas(self) -> pandas.DataFrame:
        """The table of episodes as a pandas one; pandas must be installed.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).to_pandas()["verdict"].tolist()
        ['holds']
        """
        return as_pandas(self.table)

    def sentences(self) -> list[str]:
        """The result in a few sentences.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> for sentence in tether.audit(case.mdp, [case.path], k=3).sentences():  # doctest: +NORMALIZE_WHITESPACE
        ...     print(sentence)
        1 episode.
        In it a decision was a mistake that could be known at the time.
        Such mistakes cost 35.9.
        With hindsight, at most 1 change would have gained something: 0.889.
        No replay of the plan ends worse than what happened.
        The plan is not about its episode (less than 10 % of it is).
        The expected gain holds under every causal model in which the luck of one step says nothing about the luck of
        another.
        The gain survives hidden reasons that changed the odds of an action by less than 5.54 times, if all
        actions are usually taken equally often.
        """
        return audit_sentences(self)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        summary = self.summary
        wrong = summary.episodes - summary.answered
        asked = f"policy {self.question['policy']}" if self.question["policy"] else self._limits()
        some = summary.gained.size
        broken = f"; {wrong:,} not answered" if wrong else ""
        found = f"mistakes in {summary.mistaken.size:,}; something to gain in {some:,}{broken}"
        return f"<Audit: {counted(len(self), 'episode')}, {asked}; {found}>"

    def _limits(self) -> str:
        k = "suggested" if self.question["k"] is None else self.question["k"]
        return f"k = {k}, m = {self.question['m']}"
