"""Audit a log: the same question for every episode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tether._foundation.checks import whole_number
from tether.auditing.result import Audit
from tether.errors import QueryError
from tether.mdp import MDP

if TYPE_CHECKING:
    from tether.auditing.directory import Parts
    from tether.auditing.running import Progress
    from tether.auditing.workers import Workers
    from tether.influence.one_step import Influence
    from tether.influence.rules import Rule
    from tether.model.properties import Property

__all__ = ["audit"]


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
    """Answer the same question for every episode of a log: what should have been done, and what would have followed?

    Parameters
    ----------
    mdp : MDP
    episodes : Episodes, list or mapping of Path, path of a log, or dataframe
        Anything that `tether.io.read_episodes` reads. States and actions are matched with the model's, if necessary by
        their text.
    k, m, rule, influence
        As in `CounterfactualMDP.plan`. By default ``k`` is the shortest tether that is enough, for each episode.
    objective, minimise
        A property in place of the return (`tether.reach`, `tether.avoid`, `tether.until`), and whether the smallest
        value is wanted; as in `CounterfactualMDP.plan`.
    certify : bool
        Whether to compute what holds under every causal model. Plans for a property have no certificates; plans that
        can reach very many states have none either.
    out : path, optional
        A directory for the results. Each finished batch of episodes is kept there, so that the same call continues
        where it was stopped. If the model, the log or the question has changed in between, the call is refused.
        Policies are compared by what they decide; a policy with too many decisions to compare is not continued.
    workers : int, optional
        How many processes answer; by default as many as there are cores, if there is enough work. The answers do not
        depend on it.
    client : distributed.Client, optional
        A client of a Dask cluster, whose workers answer instead. ``out`` must then be on a disk that they share.
    policy : optional
        A policy, as `CounterfactualMDP.evaluate` takes it: it is evaluated against every episode, instead of planning.
    draws : int
        For a learned model: how many models to draw for credible intervals; ``seed`` says which.
    where : str, optional
        Which episodes to ask about: ``'outcome == "died" and steps > 5'``. It may use the columns episode, steps,
        observed, logged and outcome.
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
    from tether.auditing.cluster import Cluster
    from tether.auditing.directory import open_directory
    from tether.auditing.question import make_question
    from tether.auditing.running import run_in_directory, run_in_memory
    from tether.auditing.tables import TableMaker
    from tether.auditing.where import Selection
    from tether.auditing.workers import make_workers
    from tether.io.opening import read_as_learned
    from tether.logs.batches import open_log
    from tether.logs.fingerprint import digest_of_model, digest_of_policy

    if not isinstance(mdp, MDP):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.MDP.from_arrays(P, R), …")
    question = make_question(k, m, rule, influence, objective, certify, policy, draws, seed, minimise)
    workers = None if workers is None else whole_number("workers", workers, 1)
    if client is not None and (out is None or workers is not None):
        raise QueryError("with client= the workers of the cluster answer, into out=, a directory that all of them see")
    selection = None if where is None else Selection.of(where, mdp, question.objective)
    named = {**question.named, "where": where}
    reading: dict[str, Any] = {"columns": columns, "time": time, "step": step}
    log = open_log(episodes, **(read_as_learned(mdp, reading) if isinstance(episodes, str | os.PathLike) else reading))
    naming = TableMaker(mdp, log.id_type, question.objective, question.minimise)
    reporting: dict[str, Any] = {"strict": bool(strict), "progress": progress}

    def hire(parts: Parts | None = None) -> Workers:
        asked = replace(question, longest=log.longest())
        if client is None or parts is None:
            return make_workers(mdp, asked, workers, log.n_rows)
        return Cluster(client, mdp, asked, parts, log.id_type)

    if out is None:
        with closing(hire()) as hired:
            found = run_in_memory(log, mdp, naming, hired, selection, **reporting)
        return Audit(found.__getitem__, question, named, mdp, log)
    about: dict[str, Any] = {"model": digest_of_model(mdp), "log": log.digest(), "question": dict(named)}
    incomparable = ""
    if policy is not None:
        about["question"]["digest"], incomparable = digest_of_policy(mdp, policy, log.longest)
    with open_directory(out, about, incomparable, fresh=bool(fresh)) as directory:
        tables = directory.tables
        if tables is None:
            parts = directory.parts
            tables = run_in_directory(log, mdp, naming, lambda: hire(parts), selection, directory, **reporting)
    return Audit(tables.read, question, named, mdp, log, directory.place, tables)
