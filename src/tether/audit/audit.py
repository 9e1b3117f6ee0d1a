"""Audit a log: the same question of every episode, and what the answers come to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.checks import whole_number
from tether._foundation.words import counted, number, percent
from tether.errors import QueryError
from tether.model.mdp import MDP
from tether.observation.path import Path

if TYPE_CHECKING:
    import datetime as dt
    import pathlib

    import pandas
    import pyarrow

    from tether.audit.directory import Directory
    from tether.audit.logs import Log
    from tether.audit.pools import Pool
    from tether.audit.question import Question
    from tether.audit.running import Progress
    from tether.influence.one_step import Influence
    from tether.influence.rules import Rule
    from tether.model.properties import Property
    from tether.plan.plan import Plan

__all__ = ["Audit", "Consistency", "audit"]

_ROUNDING = 1e-9
"""A gain counts where it is more than this, relative to the return of what was done."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Whether a log and a model fit each other, as far as a policy can tell.

    The mean over episodes of the exact counterfactual value of a policy is its value in the model, whatever policy the
    log was made with: what the luck of one episode adds, that of others takes away. A log that the model did not make
    need not keep to that.

    Attributes
    ----------
    episodes : int
    counterfactual, model : float
        The policy's mean value over the episodes, with their luck and for anyone.
    difference, standard_error : float
        Of the two means.
    """

    episodes: int
    counterfactual: float
    model: float
    difference: float
    standard_error: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within three standard errors, or is rounding."""
        rounding = _ROUNDING * max(1.0, abs(self.model))
        return abs(self.difference) <= 3.0 * self.standard_error + rounding

    def __str__(self) -> str:
        means = f"{number(self.counterfactual)} on average with the luck of the episodes, {number(self.model)} without"
        if self.holds:
            return f"The policy is worth {means}: the model fits the log, as far as this can tell."
        return (
            f"The policy is worth {means}. They are more than three standard errors ({number(self.standard_error)}) "
            "apart: the log is hardly what this model would make, and what is computed with it may mislead."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What an audit of a log found; made by `tether.audit`.

    Attributes
    ----------
    table : pyarrow.Table
        One row per episode, in the log's order; `tether.audit.tables` lists the columns.
    decisions : pyarrow.Table
        One row per state, observed action and advised action: in how many ``episodes`` and how many ``times`` it is
        advised, ``mean_gain`` and ``total_gain`` of these episodes, and ``certified``, the share of them whose gain
        holds under every causal model. The most frequent come first.
    outcomes : pyarrow.Table
        One row per ``observed`` and ``counterfactual`` outcome: the expected number of ``episodes`` and their
        ``percent`` of all. Exact.
    question : dict
        What was asked: k, m, rule, influence, objective, minimise, certify, policy, draws, seed, where.
    mdp : MDP
    directory : pathlib.Path or None
        Where the tables lie as Parquet files, if ``out`` said so; they are then read when they are first asked for.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.cases.grid_world().mdp
    >>> log = [mdp.simulate("optimal", 8, rng=seed, noise=0.3) for seed in range(20)]
    >>> audit = tether.audit(mdp, log, k=3, m=1)
    >>> audit
    <Audit: 20 episodes, k = 3, m = 1; something to gain in 10>
    >>> audit.top(1).select(["episode", "steps", "outcome", "verdict"]).to_pylist()
    [{'episode': 12, 'steps': 8, 'outcome': '(none)', 'verdict': 'holds'}]
    """

    _read: Callable[[str], pyarrow.Table]
    _asked: Question
    question: dict[str, Any]
    mdp: MDP
    log: Log
    directory: pathlib.Path | None = None

    @cached_property
    def table(self) -> pyarrow.Table:
        """One row per episode, in the log's order."""
        return self._read("episodes")

    @cached_property
    def decisions(self) -> pyarrow.Table:
        """One row per state, observed action and advised action; the most frequent first."""
        return self._read("decisions")

    @cached_property
    def outcomes(self) -> pyarrow.Table:
        """One row per observed and counterfactual outcome."""
        return self._read("outcomes")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def problems(self) -> pyarrow.Table:
        """The episodes without an answer: ``episode`` and ``problem``."""
        import pyarrow.compute as pc

        chosen = self.table.select(["episode", "problem"])
        return chosen.filter(pc.is_valid(chosen.column("problem")))

    def top(self, n: int = 20, by: str = "gain") -> pyarrow.Table:
        """The n episodes with the largest gain, or the largest guaranteed gain (``by="guaranteed_gain"``).

        Episodes without any gain are not among them; of equal ones the first of the log come first.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).top().column("episode").to_pylist()
        [0]
        """
        import numpy as np

        n = whole_number("n", n, 1)
        if by not in ("gain", "guaranteed_gain"):
            raise QueryError(f"by must be 'gain' or 'guaranteed_gain', not {by!r}")
        values = self.table.column(by).to_numpy(zero_copy_only=False)
        gained = np.flatnonzero(self._gains(values))
        order = gained[np.argsort(-values[gained], kind="stable")]
        return self.table.take(order[:n])

    @property
    def consistency(self) -> Consistency | None:
        """For a policy: whether its counterfactual values agree with the model's on average, as they should.

        None where no policy was asked about, or where it has no value without an observation ("observed").

        Examples
        --------
        >>> import tether
        >>> mdp = tether.cases.grid_world().mdp
        >>> log = [mdp.simulate("random", 6, rng=seed) for seed in range(50)]
        >>> tether.audit(mdp, log, policy="optimal", certify=False).consistency.holds
        True
        """
        import numpy as np

        values = self.table.select(["value", "model_value"]).drop_null()
        n = values.num_rows
        if not n:
            return None
        ours, model = (values.column(i).to_numpy() for i in (0, 1))
        apart = ours - model
        error = float(apart.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
        return Consistency(n, float(ours.mean()), float(model.mean()), float(apart.mean()), error)

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

    def plan(self, episode: Any) -> Plan:
        """The plan of one episode in full, by its id: to explain it, to draw it, to report it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> audit = tether.audit(case.mdp, {"ann": case.path}, k=3)
        >>> plan = audit.plan("ann")
        >>> plan.gain == audit.table.column("gain")[0].as_py()
        True
        """
        return next(plan for _, plan in self.plans([episode]))

    def plans(self, episodes: Iterable[Any]) -> Iterator[tuple[Any, Plan]]:
        """The plans of some episodes in full, one after the other, with their ids; the log is looked through once.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> audit = tether.audit(case.mdp, {"ann": case.path}, k=3)
        >>> [(episode, plan.k) for episode, plan in audit.plans(audit.top(5).column("episode").to_pylist())]
        [('ann', 3)]
        """
        from tether.audit.cohort import in_names_of
        from tether.counterfactual.conditioned import counterfactual

        asked = self._asked
        if asked.policy is not None:
            raise QueryError("a policy was asked about, no plan was made: tether.counterfactual(mdp, path).evaluate(…)")
        for episode, path in self.paths(episodes).items():
            cf = counterfactual(self.mdp, in_names_of(self.mdp, path))
            tied = cf.tether(asked.rule, asked.influence, objective=asked.objective, minimise=asked.minimise)
            yield episode, tied.plan(asked.k, asked.m)

    def report(
        self,
        file: str | os.PathLike[str],
        *,
        reports: int | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
        date: dt.date | None = None,
    ) -> pathlib.Path:
        """Write an overview as one HTML file, and the reports of the top episodes beside it.

        The page loads nothing. Its one script sorts and filters the table of episodes; all can be read without it. It
        lists the top episodes only: `table` has them all.

        Parameters
        ----------
        file : path
            Where to write it, such as ``audit.html``. The reports of single episodes then are in ``audit-episodes``.
        reports : int, optional
            How many of the top episodes get a report of their own: 10 by default; 0 for a policy, which has none.
        title : str, optional
        about : mapping, optional
            Further lines for the settings at the end, such as the files that were read.
        date : datetime.date, optional
            The date that the page carries: by default today, or the day of ``SOURCE_DATE_EPOCH`` where that is set.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> audit = tether.audit(case.mdp, {"ann": case.path}, k=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = audit.report(f"{folder}/audit.html", reports=0)
        ...     "ann" in page.read_text(encoding="utf-8")
        True
        """
        from tether.views.audit import report

        return report(self, file, reports=reports, title=title, about=about, date=date)

    def is_gained(self) -> Any:
        """Which episodes gain something, rounding aside, as an array of truth values.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).is_gained().tolist()
        [True]
        """
        return self._gains(self.table.column("gain").to_numpy(zero_copy_only=False))

    def is_lost(self) -> Any:
        """Which episodes lose something, rounding aside; a policy may do so, a plan never does.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).is_lost().tolist()
        [False]
        """
        return self._gains(-self.table.column("gain").to_numpy(zero_copy_only=False))

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

    def to_pandas(self) -> pandas.DataFrame:
        """The table of episodes as a pandas one; pandas must be installed.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.audit(case.mdp, [case.path], k=3).to_pandas()["verdict"].tolist()
        ['holds']
        """
        from tether.explanation.arrow import as_pandas

        return as_pandas(self.table)

    def sentences(self) -> list[str]:
        """What was found, in a few sentences.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> for sentence in tether.audit(case.mdp, [case.path], k=3).sentences():
        ...     print(sentence)
        1 episode was answered.
        In 1 of them (100 %) something could be gained, 0.8889 on average; in 0 nothing could.
        In 1 of these the gain holds under every causal model.
        """
        import numpy as np
        import pyarrow.compute as pc

        answered, wrong = self._answered, len(self) - self._answered
        told = [f"{counted(answered, 'episode')} {'was' if answered == 1 else 'were'} answered."]
        if wrong:
            told[0] = f"{told[0][:-1]}; {wrong:,} could not be, see the column problem."
        if not answered:
            return told
        gain = self.table.column("gain").to_numpy(zero_copy_only=False)
        gained = np.flatnonzero(self.is_gained())
        mean = f", {number(float(gain[gained].mean()))} on average" if gained.size else ""
        told.append(
            f"In {gained.size:,} of them ({percent(gained.size / answered)}) something could be gained{mean}; in "
            f"{answered - gained.size:,} nothing could."
        )
        if self.question["certify"] and gained.size and self.table.column("verdict").null_count < len(self):
            held = pc.sum(pc.equal(self.table.column("verdict").take(gained), "holds")).as_py() or 0
            told.append(f"In {held:,} of these the gain holds under every causal model.")
        consistency = self.consistency
        return told if consistency is None else [*told, str(consistency)]

    @property
    def _answered(self) -> int:
        return int(self.table.column("problem").null_count)

    def _gains(self, gain: Any) -> Any:
        """Where something is gained, rounding aside."""
        import numpy as np

        observed = self.table.column("observed").to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            return gain > _ROUNDING * np.maximum(1.0, np.abs(observed))

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        import numpy as np

        wrong = len(self) - self._answered
        asked = f"policy {self.question['policy']}" if self.question["policy"] else self._limits()
        some = int(np.count_nonzero(self.is_gained()))
        broken = f"; {wrong:,} not answered" if wrong else ""
        return f"<Audit: {counted(len(self), 'episode')}, {asked}; something to gain in {some:,}{broken}>"

    def _limits(self) -> str:
        k = "the shortest that is enough" if self.question["k"] is None else self.question["k"]
        return f"k = {k}, m = {self.question['m']}"


def audit(
    mdp: MDP,
    episodes: Any,
    k: int | None = None,
    m: int = 1,
    *,
    rule: Rule = "definition",
    influence: str | Influence = "support",
    objective: Property | None = None,
    certify: bool = True,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    client: Any = None,
    minimise: bool = False,
    policy: Any = None,
    draws: int = 0,
    seed: int = 0,
    where: str | None = None,
    strict: bool = False,
    fresh: bool = False,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    progress: Progress | None = None,
) -> Audit:
    """Ask the same question of every episode of a log: what should have been done, and what would have followed?

    Parameters
    ----------
    mdp : MDP
    episodes : Episodes, list or mapping of Path, path of a log, or dataframe
        What `tether.io.read_episodes` reads. States and actions are found among the model's, by their text if need be.
    k, m, rule, influence
        As in `CounterfactualMDP.plan`. ``k`` left out is the shortest tether that is enough, episode by episode.
    objective, minimise
        A property in place of the return (`tether.reach`, `tether.avoid`, `tether.until`), and whether the smallest
        value is wanted; as in `CounterfactualMDP.plan`.
    certify : bool
        Whether to find out what holds under every causal model. It is found by single calls, and only where a plan
        changes something: each then takes about twice as long as ``tether.counterfactual(mdp, path).plan(k, m)``, of
        which all the rest of an audit takes a fifteenth. Plans for a property have no certificates.
    out : path, optional
        A directory for the results. Each batch of episodes is kept there when it is done, so that the same call goes on
        where it was stopped. A model, log or question that changed in between is refused.
    workers : int, optional
        How many processes answer; by default as many as there are cores, where there is enough to do. The answers do
        not depend on it.
    client : distributed.Client, optional
        A client of a Dask cluster, whose workers answer instead. ``out`` must then be on a disk that they share.
    policy : optional
        A policy, as `CounterfactualMDP.evaluate` takes it: it is evaluated against every episode, instead of planning.
    draws : int
        For a learned model: how many models to draw for credible intervals; ``seed`` says which.
    where : str, optional
        Which episodes to ask about: ``'outcome == "died" and steps > 5'``. It may look at the columns episode, steps,
        observed, logged and outcome.
    strict : bool
        Whether an episode that cannot be answered is an error. Otherwise it is listed, with the reason.
    fresh : bool
        Whether to begin again, whatever ``out`` holds.
    columns, time, step
        How to read a table; see `tether.io.read_episodes`.
    progress : callable, optional
        ``progress(done, rows)`` is called with how many rows of the log are done, and how many there are.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.cases.sepsis().mdp
    >>> log = [mdp.simulate("random", 5, start=mdp.states[700 + seed], rng=seed) for seed in range(4)]
    >>> tether.audit(mdp, log, k=2, m=1, certify=False).table.column("gain").to_pylist()[3]
    0.0
    >>> tether.audit(mdp, log, k=2, m=1, certify=False, where="outcome == 'died'")
    <Audit: 1 episode, k = 2, m = 1; something to gain in 0>
    """
    from tether.audit.cluster import Cluster
    from tether.audit.directory import opened
    from tether.audit.fingerprint import digest_of_model, digest_of_policy
    from tether.audit.logs import open_log
    from tether.audit.pools import make_pool
    from tether.audit.question import make_question
    from tether.audit.running import Condition, run_in_directory, run_in_memory
    from tether.audit.where import make_where

    if not isinstance(mdp, MDP):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.MDP.from_arrays(P, R), …")
    question = make_question(k, m, rule, influence, objective, certify, policy, draws, seed, minimise)
    workers = None if workers is None else whole_number("workers", workers, 1)
    if client is not None and (out is None or workers is not None):
        raise QueryError("with client= the workers of the cluster answer, into out=, a directory that all of them see")
    condition = None if where is None else Condition(make_where(where), question.objective)
    named = {**question.named, "where": where}
    log = open_log(episodes, columns=columns, time=time, step=step)
    told: dict[str, Any] = {"strict": bool(strict), "progress": progress}

    def hire(directory: Directory | None = None) -> Pool:
        if client is None or directory is None:
            return make_pool(mdp, question, workers, log.n_rows)
        return Cluster(client, mdp, question, directory, log.id_type)

    if out is None:
        with closing(hire()) as pool:
            tables = run_in_memory(log, mdp, pool, condition, **told)
        return Audit(tables.__getitem__, question, named, mdp, log)
    about: dict[str, Any] = {"model": digest_of_model(mdp), "log": log.digest(), "question": dict(named)}
    if policy is not None:
        about["question"]["digest"] = digest_of_policy(policy)
    with opened(out, about, fresh=bool(fresh)) as directory:
        if not directory.complete:
            run_in_directory(log, mdp, lambda: hire(directory), condition, directory, **told)
    return Audit(directory.table, question, named, mdp, log, directory.place)
