"""What the explorer keeps: the last few episodes with their κ, sweeps and rows; and the last few answers.

Only the thread that computes uses it. Memory is bounded: by the total size, and by the number of questions per episode.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.words import counted
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.model_sets import model_set
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation, evaluate_plan
from tether.evaluation.tailoring import about_plan
from tether.explanation.decisions import Decisions, decide
from tether.explanation.explain import Explanation, explain
from tether.explanation.what_if import WhatIf, what_if
from tether.explorer.offered import Entry, Offered
from tether.explorer.short_names import Naming
from tether.explorer.view import Choices, View
from tether.model.model_record import ModelRecord
from tether.model.properties import Property, avoid, reach
from tether.plan.plan_record import PlanRecord
from tether.plan.robust_record import RobustRecord
from tether.plan.sweep import Sweep
from tether.plan.tether_record import TetherRecord, tether
from tether.views.report.report_limits import limits_around, work_of_table

_EPISODES, _BYTES = 8, 512_000_000
"""How many episodes are kept; and how large they and their answers may be together."""

_QUESTIONS = 8
"""How many rules, tests and objectives an episode keeps before it is made anew."""

_ANSWERS = 24

_QUICK = 2e7
"""Up to this amount of work the table for all k and m takes no longer than a plan."""

_PER_VISIT = 64
"""Bytes per node that an evaluation visits: its state, its probability, its actions and where they lead."""

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Rung:
    """The gain of the best plan for one k, how much of it is about the episode, and how it ends."""

    k: int
    gain: float
    influenced: float
    steps: float
    strength: float
    ends: dict[str, float]


@dataclass(eq=False)
class EpisodeQuestion:
    """An episode under one rule, test of influence and objective: what does not depend on k and m."""

    entry: Entry
    tied: TetherRecord
    naming: Naming
    _asked: dict[Choices, WhatIf] = field(default_factory=dict, init=False)
    _rungs: dict[tuple[int, int], Rung] = field(default_factory=dict, init=False)

    @property
    def cf(self) -> CounterfactualRecord:
        """The model, replayed with the luck of the episode."""
        return self.tied.cf

    @cached_property
    def decisions(self) -> Decisions:
        """Which decisions mattered: what if only one had been different?"""
        tied = self.tied
        return decide(self.cf, tied.objective, 1, tied.rule, tied.influence)

    @cached_property
    def robust(self) -> tuple[RobustRecord, RobustRecord]:
        """Every causal model, and every stable one."""
        return RobustRecord(model_set(self.cf, "nothing")), RobustRecord(model_set(self.cf, "stability"))

    def rung(self, k: int, m: int, check: Check) -> Rung:
        """The gain of the best plan for k and m, and how much of it is about the episode."""
        if (k, m) not in self._rungs:
            plan = self.tied.plan(k, m, progress=lambda *_: check())
            outlook = evaluate_plan(plan)
            assert outlook.tailoring is not None
            about = outlook.tailoring
            steps = about.expected_influenced_steps, about.expected_steps
            self._rungs[k, m] = Rung(k, plan.gain, *steps, about_plan(plan), outlook.outcomes())
        return self._rungs[k, m]

    def what_if(self, chosen: Choices) -> WhatIf:
        """What would have followed from some choices."""
        if chosen not in self._asked:
            actions, T = self.cf.mdp.actions, self.cf.T
            for t, action in chosen.actions.items():
                if t >= T or not 0 <= action < len(actions):
                    raise QueryError(f"the address has action {action} at t = {t}: there is no such action or step")
            named = {t: actions[action] for t, action in chosen.actions.items()}
            tied = self.tied
            about = tied.rule, tied.influence, tied.objective
            self._asked[chosen] = what_if(self.cf, named, chosen.best_from, *about)
            while len(self._asked) > _ANSWERS:
                self._asked.pop(next(iter(self._asked)))
        return self._asked[chosen]

    @property
    def nbytes(self) -> int:
        """The memory used beside the episode itself."""
        return self.tied.nbytes + sum(_visited(one.outlook) for one in self._asked.values())


def _visited(outlook: Evaluation) -> int:
    return _PER_VISIT * sum(visits.size for visits in outlook.chain.visits)


class EpisodeAnswer:
    """All answers to one question within one k and m, each computed when it is first used.

    ``check`` is called between stages, and raises if the answer is not needed any more.
    """

    def __init__(self, question: EpisodeQuestion, view: View) -> None:
        self.question, self.check = question, _nothing
        self._k, self.m = view.k, min(view.m, question.cf.T)

    @property
    def entry(self) -> Entry:
        """The episode as it was offered."""
        return self.question.entry

    @property
    def cf(self) -> CounterfactualRecord:
        """The model, replayed with the luck of the episode."""
        return self.question.cf

    @property
    def tied(self) -> TetherRecord:
        """Tethered question that the answers are for."""
        return self.question.tied

    @property
    def naming(self) -> Naming:
        """How states and actions are shown."""
        return self.question.naming

    @cached_property
    def k(self) -> int:
        """The length of the tether; by default the suggested one."""
        if self._k is not None:
            return min(self._k, self.cf.T + 1)
        return self.suggested or 1

    @cached_property
    def by_k(self) -> Sweep:
        """The best value of each k, with this m."""
        if self.is_quick:
            return self.table.part(self.table.ks, np.array([self.m]))
        self.tied.thresholds()
        self.check()
        return self.tied.sweep(ms=[self.m], progress=self._progress)

    @cached_property
    def suggested(self) -> int | None:
        """The tether that is taken for this m if none is asked for; None if no tether gains anything."""
        self.tied.thresholds()
        self.check()
        _ = self.by_k
        self.check()
        return self.tied.suggested_k(self.m)

    @property
    def changing(self) -> list[int]:
        """Every k at which the best value with this m changes, beginning with 1."""
        values = self.by_k.values[:, 0]
        with np.errstate(invalid="ignore"):
            return [1, *(int(k) for k in self.by_k.ks[1:][np.abs(np.diff(values)) > self.by_k.rounding])]

    @cached_property
    def plan(self) -> PlanRecord:
        """The best plan within the limits."""
        return self.tied.plan(self.k, self.m, progress=self._progress)

    @cached_property
    def outlook(self) -> Evaluation:
        """The exact evaluation of the plan."""
        self.check()
        return evaluate_plan(self.plan)

    @cached_property
    def explanation(self) -> Explanation:
        """The plan beside what happened; how sure it is, is computed when it is used."""
        return explain(self.plan, outlook=self.outlook)

    @property
    def is_quick(self) -> bool:
        """Whether the whole table takes no longer than a plan; otherwise it comes after the answer."""
        return work_of_table(self.cf) <= _QUICK

    @cached_property
    def table(self) -> Sweep:
        """The best values for every k and m; for a very large model, only for those around the plan's."""
        if self.is_quick:
            return self.tied.sweep()
        ks, ms = limits_around(self.plan, lambda: self.suggested)
        return self.tied.sweep(ks, ms, progress=self._progress)

    def _progress(self, _done: int, _of: int) -> None:
        self.check()

    @property
    def nbytes(self) -> int:
        """About how large it is."""
        made = vars(self)
        plan = sum(choice.nbytes for choice in self.plan.choices) if "plan" in made else 0
        return plan + (_visited(self.outlook) if "outlook" in made else 0)


def _nothing() -> None:
    """No check: nothing replaces this question."""


def property_labels(mdp: ModelRecord) -> list[str]:
    """The labels that a property can be about, in the order in which addresses number them."""
    return list(mdp.label_sets)


def property_of(mdp: ModelRecord, view: View) -> Property | None:
    """The property that is asked for in place of the return."""
    wanted = view.wanted
    if wanted is None:
        return None
    kind, number = wanted
    labels = property_labels(mdp)
    if not 0 <= number < len(labels):
        raise QueryError(f"the address asks for label {number}: the model has {counted(len(labels), 'label')}")
    return (reach if kind == "reach" else avoid)(labels[number])


@dataclass(eq=False)
class _Kept:
    """An episode, and what was asked about it."""

    entry: Entry
    cf: CounterfactualRecord
    naming: Naming
    questions: dict[Any, EpisodeQuestion] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return self.cf.nbytes + sum(question.nbytes for question in self.questions.values())


class Memory:
    """The last few episodes and answers."""

    def __init__(self, offered: Offered, most: int = _BYTES) -> None:
        self.offered, self.most = offered, most
        self._episodes: OrderedDict[str, _Kept] = OrderedDict()
        self._answers: OrderedDict[Any, EpisodeAnswer] = OrderedDict()

    def answer(self, view: View, check: Check = _nothing) -> EpisodeAnswer:
        """The answers for a view; ``check`` ends a computation that is not needed any more."""
        key = view.episode or self.offered.first
        which = (key, *view.limits)
        if which not in self._answers:
            self._answers[which] = EpisodeAnswer(self._question(key, view), view)
        self._answers.move_to_end(which)
        self._episodes.move_to_end(key)
        self._make_room()
        found = self._answers[which]
        found.check = check
        return found

    def _question(self, key: str, view: View) -> EpisodeQuestion:
        name = (view.rule, view.influence, view.objective)
        kept = self._episodes.get(key)
        if kept is None or (name not in kept.questions and len(kept.questions) >= _QUESTIONS):
            entry = self.offered.entry(key)
            cf = entry.open()
            self._forget(key)
            kept = self._episodes[key] = _Kept(entry, cf, Naming(cf.mdp, entry.words))
        if name not in kept.questions:
            tied = tether(kept.cf, view.rule, view.test, property_of(kept.cf.mdp, view))
            kept.questions[name] = EpisodeQuestion(kept.entry, tied, kept.naming)
        return kept.questions[name]

    def _make_room(self) -> None:
        """Forget the oldest answers, then the oldest episodes; not the present ones."""
        while len(self._answers) > 1 and (len(self._answers) > _ANSWERS or self.nbytes > self.most):
            self._answers.popitem(last=False)
        while len(self._episodes) > 1 and (len(self._episodes) > _EPISODES or self.nbytes > self.most):
            self._forget(next(iter(self._episodes)))

    @property
    def nbytes(self) -> int:
        """About how much is kept."""
        kept = sum(kept.nbytes for kept in self._episodes.values())
        return kept + sum(answer.nbytes for answer in self._answers.values())

    def _forget(self, key: str) -> None:
        self._episodes.pop(key, None)
        for one in [one for one in self._answers if one[0] == key]:
            del self._answers[one]
