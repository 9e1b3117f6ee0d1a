"""`Rules`: what a log says about rules for everybody; and the calls that find and judge them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tether.auditing.audit_record import AuditRecord
from tether.errors import Problem, QueryError
from tether.mdp import MDP
from tether.ruling.choosing_rules import search_rules
from tether.ruling.comparing import Comparison, compare_groups
from tether.ruling.deciding_rules import RuleRun, judge_rules
from tether.ruling.one_rule import OneRule
from tether.ruling.rule_results import RulesRecord

if TYPE_CHECKING:
    import datetime as dt
    import pathlib

    from tether.auditing.running import Progress
    from tether.explanation.verdicts import Nouns
    from tether.model.properties import Property


class Rules(RulesRecord):
    """Rules with their numbers, best first: a sequence of `tether.records.EvaluatedRule`.

    `tether.rules` and `tether.evaluate_rules` make it.

    Attributes
    ----------
    chosen : tuple of EvaluatedRule
        Up to ``most`` rules, each on top of the ones before it; empty if no rule can be shown to help.
    searched : int
        How many rules were compared; 0 if they were given.
    placebo : int or None
        In how many of 19 logs with the actions permuted within each state the search finds as much; a rule is chosen
        only if it is none. None for a model that was not learned from the log.
    broken : int
        How many episodes could not be used.
    best_gain : float
        What the best policy of the plain model would change per episode.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> log = [grid.mdp.simulate("random", 8, start=0, rng=seed) for seed in range(50)]
    >>> found = tether.evaluate_rules(grid.mdp, log, [tether.rule("2", instead_of="down", do="right")])
    >>> found.table.select(["rule", "touched"]).to_pylist()
    [{'rule': 'Where 2: right instead of down.', 'touched': 4}]
    """

    def report(
        self,
        file: str | os.PathLike[str],
        *,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
        date: dt.date | None = None,
        nouns: Nouns | None = None,
    ) -> pathlib.Path:
        """Write the rules as one HTML page, one screen for each rule; the page loads nothing.

        Parameters
        ----------
        file : path
        title : str, optional
        about : mapping, optional
            Further lines for the settings at the end, such as the files that were read.
        date : datetime.date, optional
            The date that the page carries; by default today.
        nouns : `tether.records.Nouns`, optional
            What an episode and a step are called: ``Nouns("patient", "hour")``.
        """
        from tether.views.rule_page import write_rules

        return write_rules(self, file, title=title, about=about, date=date, nouns=nouns)


def rules(
    mdp: MDP,
    log: Any,
    *,
    conditions: Iterable[str] | None = None,
    edits: Any = None,
    objective: Property | None = None,
    minimise: bool = False,
    most: int = 1,
    holdout: float = 0.5,
    seed: int = 0,
    harm: float | None = None,
    workers: int | None = None,
    client: Any = None,
    depth: int = 1,
    bad: str | Iterable[str] | None = None,
    where: str | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    progress: Progress | None = None,
) -> Rules:
    """Which rule for everybody would have helped most episodes of a log, whom would it have harmed, how sure is that?

    A rule says: in some states, do b instead of a. All rules are ranked by what they change on one part of the log; the
    best are replayed on every episode that they touch, also on those that ended well; and the gain is checked on the
    other part, which did not help to choose. Means come from the plain model and need no causal model. Helped, harmed,
    saved and lost are counterfactual: their numbers are those of Gumbel-max, with their range under every causal model.

    Parameters
    ----------
    mdp : MDP
    log : Episodes, list or mapping of Path, path of a log, or dataframe
        As for `tether.audit`.
    conditions : names, optional
        State variables or labels; by default all variables of the states, or each state if the names have no parts.
    edits : optional
        Some of ``"instead"`` (b instead of a; the default), ``"always"`` (b), ``"never"`` (a), or pairs (instead of,
        do). Of composed actions each part is changed alone.
    objective, minimise
        A property in place of the return, and whether less is better.
    most : int
        How many rules may be chosen, each on top of the ones before it.
    holdout : float
        The share of episodes that does not help to choose; ``seed`` says which.
    harm : float, optional
        Only rules that harm at most this share of the episodes that they touch, by expectation.
    workers, client
        As for `tether.audit`.
    depth : int
        2: also pairs of conditions.
    bad : str or several, optional
        What counts as a bad end; by default the labels that the model calls bad, or the end whose episodes did worst.
        With an objective it is left out: a bad end is then one where the objective fails.
    where : str, optional
        Which episodes count, as for `tether.audit`.
    out : path, optional
        A directory: what was done stays there, and the same call continues.
    fresh : bool
        Whether to begin again, whatever ``out`` contains.
    columns, time, step
        How to read a table; see `tether.io.read_episodes`.
    progress : callable, optional
        ``progress(done, rows)`` is called with how many rows of the log are done, and how many there are.

    Examples
    --------
    >>> import tether
    >>> chances = {"wait": {"well": 0.3, "dead": 0.7}, "treat": {"well": 0.6, "dead": 0.4}}
    >>> rows = [("sick", did, after, chance) for did, row in chances.items() for after, chance in row.items()]
    >>> mdp = tether.MDP.from_table(*zip(*rows), reward=[1, 0, 1, 0], terminal=["well", "dead"])
    >>> log = [mdp.simulate("random", 1, start="sick", rng=seed) for seed in range(200)]
    >>> found = tether.rules(mdp, log)
    >>> print(found[0].rule, round(found[0].gain, 3), found[0].touched)
    Where sick: treat instead of wait. 0.124 83
    """
    run = RuleRun.of(
        mdp, log, objective=objective, minimise=minimise, holdout=holdout, seed=seed, workers=workers, client=client,
        bad=bad, where=where, out=out, fresh=fresh, reading={"columns": columns, "time": time, "step": step},
        progress=progress,
    )  # fmt: skip
    return Rules(**search_rules(run, conditions, edits, most, harm, depth))


def evaluate_rules(
    mdp: MDP,
    log: Any,
    rules: OneRule | Sequence[OneRule],
    *,
    objective: Property | None = None,
    minimise: bool = False,
    holdout: float = 0.5,
    seed: int = 0,
    workers: int | None = None,
    client: Any = None,
    bad: str | Iterable[str] | None = None,
    where: str | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    progress: Progress | None = None,
) -> Rules:
    """Rules of one's own, judged on everyone whom they touch in a log; the other arguments are those of `tether.rules`.

    The values for the held-out check come from the other part of the log, as if the rules had been chosen there.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> log = [grid.mdp.simulate("random", 8, start=0, rng=seed) for seed in range(50)]
    >>> right = tether.rule("2", instead_of="down", do="right")
    >>> one = tether.evaluate_rules(grid.mdp, log, [right])[0]
    >>> one.touched, round(one.helped, 2), round(one.harmed, 2)
    (4, 3.97, 0.03)
    """
    run = RuleRun.of(
        mdp, log, objective=objective, minimise=minimise, holdout=holdout, seed=seed, workers=workers, client=client,
        bad=bad, where=where, out=out, fresh=fresh, reading={"columns": columns, "time": time, "step": step},
        progress=progress,
    )  # fmt: skip
    return Rules(**judge_rules(run, rules))


def compare(
    audit_or_log: Any,
    by: str,
    *,
    mdp: MDP | None = None,
    objective: Property | None = None,
    minimise: bool = False,
    bad: str | Iterable[str] | None = None,
    where: str | None = None,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare groups of episodes, such as wards: outcomes, mistakes, luck; and what is left after their case mix.

    What was to be expected of an episode is what usual practice, of all groups together, is worth from its first state.
    So a group is not blamed for having had worse cases. Intervals are 90 %, over episodes.

    Parameters
    ----------
    audit_or_log : Audit, or a log
        A log as for `tether.audit`; then ``mdp`` is needed.
    by : str
        A column of the log: one value for each episode.
    mdp : MDP, optional
        The model of the log.
    objective, minimise, bad
        As for `tether.rules`; of an audit, its own.
    where : str, optional
        Which episodes count, as for `tether.audit`; of an audit, by default those that it asked about.
    columns, time, step
        How to read a table; see `tether.io.read_episodes`.
    progress : callable, optional
        ``progress(done, rows)`` is called with how many rows are read, and how many there are; each is read twice.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> paths = [grid.mdp.simulate("random", 6, start=seed % 2, rng=seed) for seed in range(40)]
    >>> steps = [
    ...     (i, t, path.states[t], path.actions[t], path.states[t + 1], "ab"[i % 2])
    ...     for i, path in enumerate(paths)
    ...     for t in range(6)
    ... ]
    >>> rows = dict(zip(("episode", "t", "state", "action", "next_state", "team"), zip(*steps)))
    >>> [(one.group, one.episodes, one.differs) for one in tether.compare(rows, "team", mdp=grid.mdp).groups]
    [('a', 20, False), ('b', 20, False)]
    """
    from tether.io.opening import read_as_learned
    from tether.logs.batches import open_log
    from tether.model.properties import make_property

    reading: dict[str, Any] = {"columns": columns, "time": time, "step": step}
    if isinstance(audit_or_log, AuditRecord):
        found = audit_or_log
        asked = found.objective, bool(found.question["minimise"])
        return compare_groups(found.mdp, found.log, by, *asked, bad, where or found.question["where"], progress)
    if not isinstance(mdp, MDP):
        raise QueryError(Problem("a log is compared in a model", fix="give mdp=, or an audit", argument="mdp"))
    is_file = isinstance(audit_or_log, str | os.PathLike)
    log = open_log(audit_or_log, **(read_as_learned(mdp, reading) if is_file else reading))
    return compare_groups(mdp, log, by, make_property(objective), bool(minimise), bad, where, progress)
