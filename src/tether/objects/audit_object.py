"""Audit a log: the same question for every episode (`audit`), and its result (`Audit`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, overload

from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether.auditing.audit_record import AuditRecord
from tether.auditing.typed_audit import TypedAudit, audit_of_types
from tether.errors import QueryError
from tether.influence.advisable import make_advisable
from tether.mdp import MDP
from tether.model.several_types import Types
from tether.objects.plan_object import Plan

if TYPE_CHECKING:
    import datetime as dt
    import pathlib

    from tether.auditing.audit_question import Question
    from tether.auditing.directory import Parts
    from tether.auditing.running import Progress
    from tether.auditing.workers import Workers
    from tether.conditioning.mechanism import Mechanism
    from tether.conditioning.row_function import RowOf
    from tether.explanation.verdicts import Nouns
    from tether.influence.one_step import GivenInfluence as Influence
    from tether.influence.rules import GivenRule as Rule
    from tether.model.properties import Property


class Audit(AuditRecord, Displayed):
    """The result of an audit of a log; made by `tether.audit`.

    Attributes
    ----------
    table : pyarrow.Table
        One row per episode, in the log's order; `tether.auditing.tables` lists the columns.
    decisions : pyarrow.Table
        One row per state and action that was taken there, over all episodes, also those that ended well: in how many
        ``episodes`` and how many ``times``; how often it was one of the claimed ``mistakes``, what was ``best`` then;
        how often it was ``gained`` or ``lost`` by (it turned out better, or worse, than was to be expected before);
        its ``mean_cost`` and ``total_cost`` over all times; its ``effect`` for anyone in that state, compared with
        what was done there on average, and for a learned model the chance that it is ``better``. The costliest come
        first.
    outcomes : pyarrow.Table
        One row per ``observed`` and ``counterfactual`` outcome: the expected number of ``episodes`` and their
        ``percent`` of all. Exact.
    question : dict
        What was asked: k, m, rule, influence, mechanism, objective, minimise, certify, policy, draws, seed, folds, and
        where.
    placebo : Placebo or None
        For plans of a learned model: the same audit where no action has an effect, beside this one.
    mdp : MDP
    directory : pathlib.Path or None
        Where the tables are as Parquet files, if ``out`` was given; they are then read when first used.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.cases.grid_world().mdp
    >>> log = [mdp.simulate("optimal", 8, rng=seed, noise=0.3) for seed in range(20)]
    >>> audit = tether.audit(mdp, log, k=3, m=1)
    >>> audit
    <Audit: 20 episodes, k = 3, m = 1; mistakes in 15; something to gain in 10>
    >>> audit.top(1).select(["episode", "steps", "outcome", "verdict"]).to_pylist()
    [{'episode': 3, 'steps': 8, 'outcome': 'danger', 'verdict': 'never worse'}]
    """

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
        """The plans of some episodes in full, one after the other, with their ids; the log is read once.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> audit = tether.audit(case.mdp, {"ann": case.path}, k=3)
        >>> [(episode, plan.k) for episode, plan in audit.plans(audit.top(5).column("episode").to_pylist())]
        [('ann', 3)]
        """
        return ((episode, Plan.over(plan)) for episode, plan in super().plans(episodes))

    def report(
        self,
        file: str | os.PathLike[str],
        *,
        reports: int | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
        date: dt.date | None = None,
        nouns: Nouns | None = None,
        hide_ids: bool = False,
    ) -> pathlib.Path:
        """Write an overview as one HTML file, and the reports of the top episodes beside it.

        The page loads nothing. Its one script sorts and filters the table of episodes; the page can be read without it.
        It lists the top episodes only: `table` has all of them.

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
        nouns : `tether.records.Nouns`, optional
            What an episode and a step are called: ``Nouns("patient", "hour")``.
        hide_ids : bool
            Whether the number in the list stands for the name of an episode, on the page and in the reports. The tables
            keep the names.

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

        return report(self, file, reports=reports, title=title, about=about, date=date, nouns=nouns, hide_ids=hide_ids)


@overload
def audit(
    mdp: Types,
    episodes: Any,
    k: int | None = None,
    m: int = 1,
    *,
    rule: Rule = "definition",
    influence: str | Influence = "support",
    objective: Property | None = None,
    minimise: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> TypedAudit: ...
@overload
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
    gamma: float | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    client: Any = None,
    minimise: bool = False,
    mechanism: str | Mechanism | RowOf = "gumbel-max",
    horizon: int | None = None,
    then: Any = "best",
    only: Any = None,
    never: Any = None,
    cost: Any = None,
    policy: Any = None,
    draws: int = 0,
    seed: int = 0,
    folds: int | None = None,
    where: str | None = None,
    strict: bool = False,
    fresh: bool = False,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    progress: Progress | None = None,
) -> Audit: ...
def audit(
    mdp: MDP | Types,
    episodes: Any,
    k: int | None = None,
    m: int = 1,
    *,
    rule: Rule = "definition",
    influence: str | Influence = "support",
    objective: Property | None = None,
    certify: bool = True,
    gamma: float | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    client: Any = None,
    minimise: bool = False,
    mechanism: str | Mechanism | RowOf = "gumbel-max",
    horizon: int | None = None,
    then: Any = "best",
    only: Any = None,
    never: Any = None,
    cost: Any = None,
    policy: Any = None,
    draws: int = 0,
    seed: int = 0,
    folds: int | None = None,
    where: str | None = None,
    strict: bool = False,
    fresh: bool = False,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    progress: Progress | None = None,
) -> Audit | TypedAudit:
    """Answer the same question for every episode of a log: what should have been done, and what would have followed?

    Parameters
    ----------
    mdp : MDP, or Types
        With `tether.Types` the answer is a `tether.records.TypedAudit`, with fewer arguments.
    episodes : Episodes, list or mapping of Path, path of a log, or dataframe
        Anything that `tether.io.read_episodes` reads. States and actions are matched with the model's, if necessary by
        their text.
    k, m, rule, influence
        As in `CounterfactualMDP.plan`, also if ``k`` is left out: it may differ between episodes.
    objective, minimise
        A property in place of the return (`tether.reach`, `tether.avoid`, `tether.until`), and whether the smallest
        value is wanted; as in `CounterfactualMDP.plan`.
    mechanism
        The causal model: a name, an object such as ``tether.Comonotone(order)`` or a function of two rows, as in
        `tether.counterfactual`.
    horizon, then
        Up to which time, and who acts after the records; as in `tether.counterfactual`. By default an episode that
        ended early is asked about up to the length of the longest one; with a learned model, until it ends under usual
        practice.
    only, never, cost
        Which changes may be advised, and what a change costs; as in `CounterfactualMDP.tether`.
    certify : bool
        Whether to compute what holds under every causal model. Plans for a property have no certificates; plans that
        can reach very many states have none either.
    gamma : float, optional
        Say in how many episodes the gain survives hidden causes that changed the odds of an action up to so many times
        (`tether.certify`). The column ``gamma_star`` has the strength that undoes each gain, in any case.
    out : path, optional
        A directory for the results. Each finished batch of episodes is kept there, so that the same call continues
        where it was stopped. If the model, the log or the question has changed in between, the call is refused.
        Policies are compared by what they decide; a policy with too many decisions to compare is not continued. Other
        functions are compared by their code and what it uses; one that uses a lock or an open file is not continued.
    workers : int, optional
        How many processes answer; by default as many as there are cores, if there is enough work. The answers do not
        depend on it.
    client : distributed.Client, optional
        A client of a Dask cluster, whose workers answer instead. ``out`` must then be on a disk that they share.
    policy : optional
        A policy, as `CounterfactualMDP.evaluate` takes it: it is evaluated against every episode, instead of planning.
    draws : int
        For a learned model: how many models to draw for credible intervals; ``seed`` says which. With ``folds=0``
        they are drawn for one episode after the other, which takes longer.
    folds : int, optional
        For plans of a learned model: in how many folds its log is cut by episode, 2 by default. The plan of an episode
        is chosen by the model of the other folds and valued by the model of its own fold without it, and the other way
        round; its gain is the mean of the two, and may be below 0. 0 or 1: plans are chosen and valued by the model of
        the whole log, and their gains are too large on average.
    where : str, optional
        Which episodes to ask about: ``'outcome == "died" and steps > 5'``. It may use the columns episode, steps,
        observed, logged and outcome, and any other column of the log (ward, doctor).
    strict : bool
        Whether an episode that cannot be answered is an error. Otherwise it is listed, with the reason.
    fresh : bool
        Whether to begin again, whatever ``out`` contains.
    columns, time, step
        How to read a table; see `tether.io.read_episodes`. A file is by default read as the log of a learned model was.
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
    <Audit: 1 episode, k = 2, m = 1; mistakes in 1; something to gain in 0>
    """
    from tether.auditing.audit_question import digest_of_question, make_question
    from tether.auditing.cluster import Cluster
    from tether.auditing.directory import open_directory
    from tether.auditing.engine import AuditWork
    from tether.auditing.placebos import Measured, gather, measure
    from tether.auditing.running import run_in_directory, run_in_memory
    from tether.auditing.tables import TableMaker
    from tether.auditing.where import Selection
    from tether.auditing.workers import make_workers
    from tether.io.opening import read_as_learned
    from tether.learning.folds import checked_folds
    from tether.logs.batches import open_log
    from tether.logs.fingerprint import digest_of_model

    if not isinstance(mdp, MDP):
        return audit_of_types(mdp, episodes, k, m, {"rule": rule, "influence": influence, "objective": objective,
                              "minimise": minimise}, strict, progress, certify, gamma, out=out, workers=workers,
                              client=client, horizon=horizon, only=only, never=never, cost=cost, policy=policy,
                              draws=draws, folds=folds, where=where, fresh=fresh, columns=columns, time=time, step=step,
                              then=then != "best", mechanism=mechanism != "gumbel-max")  # fmt: skip
    is_learned = mdp.counts is not None and policy is None
    if folds is not None and checked_folds(folds) and not is_learned:
        raise QueryError(
            "folds= cuts the log of a learned model, for plans: leave it out for other models, and policies"
        )
    cut = checked_folds(2 if folds is None else folds) if is_learned else 0
    about_changes = make_advisable(mdp, only, never, cost)
    given = k, m, rule, influence, objective, certify, policy, draws, seed, minimise, cut, gamma, about_changes
    question = make_question(*given, horizon, then, mdp, mechanism)
    workers = None if workers is None else whole_number("workers", workers, 1)
    if client is not None and (out is None or workers is not None):
        raise QueryError("with client= the workers of the cluster answer, into out=, a directory that all of them see")
    named = {**question.named, "where": where}
    reading: dict[str, Any] = {"columns": columns, "time": time, "step": step}
    log = open_log(episodes, **(read_as_learned(mdp, reading) if isinstance(episodes, str | os.PathLike) else reading))
    selection = None if where is None else Selection.of(where, mdp, question, log)
    naming = TableMaker(mdp, log.id_type, question.objective, question.minimise)
    reporting: dict[str, Any] = {"strict": bool(strict), "progress": progress}
    gathered = cache(lambda: gather(log, mdp, cut, question.seed, selection))

    def asked() -> Question:
        return replace(question, longest=log.longest(), split=gathered().folds if cut else None)

    def hire(parts: Parts | None = None) -> Workers:
        if client is None or parts is None:
            return make_workers(mdp, AuditWork(asked()), workers, log.n_rows)
        return Cluster(client, mdp, AuditWork(asked()), parts, log.id_type)

    def placebo() -> Measured | None:
        return measure(mdp, asked(), gathered(), partial(make_workers, workers=workers)) if is_learned else None

    if out is None:
        with closing(hire()) as hired:
            found = run_in_memory(log, mdp, naming, hired, selection, **reporting)
        return Audit(found.__getitem__, question, named, mdp, log, None, None, placebo(), gathered)
    about: dict[str, Any] = {
        "model": digest_of_model(mdp),
        "log": log.digest() if selection is None else selection.digest(log),
        "question": dict(named),
    }
    about["question"]["digest"], incomparable = digest_of_question(mdp, question, log.longest)
    with open_directory(out, about, incomparable, fresh=bool(fresh)) as directory:
        tables = directory.tables
        if tables is None:
            parts = directory.parts
            tables = run_in_directory(
                log, mdp, naming, lambda: hire(parts), selection, directory, placebo=placebo, **reporting
            )
    measured = None if tables.placebo is None else Measured(**tables.placebo)
    return Audit(tables.read, question, named, mdp, log, directory.place, tables, measured, gathered)
