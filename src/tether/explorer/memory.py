"""What the explorer keeps: the last few episodes with their κ, sweeps and rows; and the last few answers.

Only the thread that computes looks at it. An episode that was asked under many tests of influence is made anew, so that
what it keeps of each does not add up for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tether._foundation.words import counted
from tether.counterfactual.conditioned import CounterfactualMDP
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation
from tether.explanation.decisions import Decisions
from tether.explanation.explain import Explanation, explained_steps
from tether.explanation.what_if import WhatIf
from tether.explorer.naming import Naming
from tether.explorer.offered import Entry, Offered
from tether.explorer.view import Choices, View
from tether.model.mdp import MDP
from tether.model.properties import Property, avoid, reach
from tether.plan.limits import enough_k
from tether.plan.plan import Plan
from tether.plan.robust import Robust, robust
from tether.plan.sweep import Sweep
from tether.plan.tethered import Tethered
from tether.views.report.limits import sweep_around

__all__ = ["Answer", "Memory", "labels_of"]

_EPISODES, _BYTES = 8, 512_000_000
"""How many episodes are kept, and how large they may be together."""

_QUESTIONS = 8
"""Under how many rules and tests an episode is asked before it is made anew."""

_ANSWERS = 24


class Answer:
    """Everything that can be told of one episode within one set of limits, each computed when it is first wanted."""

    def __init__(self, entry: Entry, cf: CounterfactualMDP, view: View, naming: Naming) -> None:
        self.entry, self.cf, self.naming = entry, cf, naming
        self.tied: Tethered = cf.tether(view.rule, view.test, objective=_property(cf.mdp, view))
        self._k, self.m = view.k, min(view.m, cf.T)
        self._asked: dict[Choices, WhatIf] = {}

    @cached_property
    def k(self) -> int:
        """The length of the tether; the shortest that is enough where none was given."""
        return min(self._k, self.cf.T + 1) if self._k is not None else self.plan.k

    @cached_property
    def plan(self) -> Plan:
        """The best plan within the limits."""
        return self.tied.plan(self._k, self.m)

    @cached_property
    def outlook(self) -> Evaluation:
        """What to expect of the plan, exactly."""
        return self.plan.evaluate()

    @cached_property
    def explanation(self) -> Explanation:
        """The plan beside what happened."""
        steps = explained_steps(self.cf, self.outlook, world=self.plan.asked)
        return Explanation(self.plan, self.outlook, steps, with_certificate=False)

    @cached_property
    def certified(self) -> Explanation:
        """The same, with how sure it is: under other causal models, and by what a learned model's log leaves open."""
        return self.plan.explain()

    @cached_property
    def _table(self) -> tuple[Sweep, bool]:
        return sweep_around(self.plan)

    @property
    def table(self) -> Sweep:
        """The best values for every k and m, or for those around the plan's where the model is large."""
        return self._table[0]

    @property
    def complete(self) -> bool:
        """Whether the table holds every k and m."""
        return self._table[1]

    @cached_property
    def suggested(self) -> int | None:
        """The shortest tether that is enough for this m."""
        return enough_k(self.table, self.m)

    @cached_property
    def decisions(self) -> Decisions:
        """Which decisions mattered."""
        return self.cf.decisions(m=max(1, self.m), rule=self.tied.rule, influence=self.tied.influence)

    @cached_property
    def robust(self) -> tuple[Robust, Robust]:
        """Every causal model, and every stable one."""
        mdp, path = self.cf.mdp, self.cf.path
        return robust(mdp, path, assume="nothing"), robust(mdp, path, assume="stability")

    def what_if(self, chosen: Choices) -> WhatIf:
        """What would have followed from some choices."""
        if chosen not in self._asked:
            actions, T = self.cf.mdp.actions, self.cf.T
            for t, action in chosen.actions.items():
                if t >= T or not 0 <= action < len(actions):
                    raise QueryError(f"the address has action {action} at t = {t}: there is no such action or step")
            named = {t: actions[action] for t, action in chosen.actions.items()}
            tied = self.tied
            options: Any = {"rule": tied.rule, "influence": tied.influence, "objective": tied.objective}
            self._asked[chosen] = self.cf.what_if(named, chosen.best_from, **options)
            while len(self._asked) > _ANSWERS:
                self._asked.pop(next(iter(self._asked)))
        return self._asked[chosen]


def labels_of(mdp: MDP) -> list[str]:
    """The labels that a property can be about, in the order in which addresses number them."""
    return list(mdp.label_sets)


def _property(mdp: MDP, view: View) -> Property | None:
    """The property that is asked for in place of the return."""
    wanted = view.wanted
    if wanted is None:
        return None
    kind, number = wanted
    labels = labels_of(mdp)
    if not 0 <= number < len(labels):
        raise QueryError(f"the address asks for label {number}: the model has {counted(len(labels), 'label')}")
    return (reach if kind == "reach" else avoid)(labels[number])


@dataclass
class _Kept:
    entry: Entry
    cf: CounterfactualMDP
    naming: Naming
    asked: set[Any]


class Memory:
    """The last few episodes and answers."""

    def __init__(self, offered: Offered) -> None:
        self.offered = offered
        self._episodes: OrderedDict[str, _Kept] = OrderedDict()
        self._answers: OrderedDict[Any, Answer] = OrderedDict()

    def answer(self, view: View) -> Answer:
        """What can be told of a view."""
        key = view.episode or self.offered.first
        which = (key, *view.limits)
        if which not in self._answers:
            kept = self._episode(key, (view.rule, view.influence, view.objective))
            self._answers[which] = Answer(kept.entry, kept.cf, view, kept.naming)
        self._answers.move_to_end(which)
        while len(self._answers) > _ANSWERS:
            self._answers.popitem(last=False)
        return self._answers[which]

    def _episode(self, key: str, question: Any) -> _Kept:
        kept = self._episodes.get(key)
        if kept is None or (question not in kept.asked and len(kept.asked) >= _QUESTIONS):
            entry = self.offered.entry(key)
            cf = entry.open()
            kept = self._episodes[key] = _Kept(entry, cf, Naming(cf.mdp), set())
            self._forget(lambda of: of[0] == key)
        kept.asked.add(question)
        self._episodes.move_to_end(key)
        while len(self._episodes) > 1 and (len(self._episodes) > _EPISODES or self._bytes() > _BYTES):
            gone, _ = self._episodes.popitem(last=False)
            self._forget(lambda of, gone=gone: of[0] == gone)  # type: ignore[misc]
        return kept

    def _bytes(self) -> int:
        return sum(kept.cf.nbytes for kept in self._episodes.values())

    def _forget(self, which: Callable[[Any], bool]) -> None:
        for one in [one for one in self._answers if which(one)]:
            del self._answers[one]
