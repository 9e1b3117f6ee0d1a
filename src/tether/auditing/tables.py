"""Answers as tables: one row per episode; one per state and action that was taken there; and how episodes end.

The columns of the table of episodes, one row per episode in the log's order:

| column | type | what it holds |
|---|---|---|
| ``episode`` | int64, or text | the id by the log; empty for a row of the log that belongs to no episode |
| ``steps`` | int64 | T |
| ``observed`` | float64 | the observed return, by the model's rewards; for a property, 1 or 0 |
| ``logged`` | float64 | the same by the log's own rewards, if it has them |
| ``outcome`` | text | how it ended, by the log's own column if it has one; else by the model: a label, or |
| | | an absorbing state; ``still under way``, ``(not recorded)`` |
| ``expected`` | float64 | what was to be expected at the beginning, with the model's best decisions |
| ``mistakes`` | float64 | what decisions cost, compared with these; it could be known at the time |
| ``claimed`` | float64 | the part of ``mistakes`` that is claimed; less only for a learned model, where |
| | | estimation can produce some of it |
| ``largest_mistake`` | struct | of those claimed: ``t``, ``state``, ``action``, ``best``, ``cost``, |
| | | ``probability``; empty if none is |
| ``luck`` | float64 | what chance added: ``expected - mistakes + luck`` is ``observed`` |
| ``foreseeable`` | float64 | what the model's best policy would have gained with the luck of this episode |
| ``value``, ``gain`` | float64 | the expected return of the plan or policy; how much better than ``observed`` |
| ``k``, ``m`` | int64 | the limits of the plan; empty for a policy |
| ``changes`` | list of struct | for each step the likeliest change, if any: ``t``, ``state``, ``observed_action`` |
| | | (empty where the episode had ended), ``advised_action``, and ``probability``, that exactly this change is made |
| ``P(label)`` | float64 | for each label of the model, the probability of ending in one of its states |
| ``ends`` | list of struct | ``outcome``, ``probability``: the same by class, one per state (its first label) |
| ``worse_end`` | bool | whether the plan gains return, but makes a good end less likely or a bad one likelier |
| ``about_episode`` | float64 | how much of the plan is about this episode, from its first change on: 0 to 1 |
| ``p_worse`` | float64 | the chance of a replay of the plan to end worse than what happened; an upper bound |
| | | where there are very many returns |
| ``strength`` | float64 | mean of the expected strength over the steps (until the objective is decided) |
| ``influenced_steps`` | float64 | the expected number of influenced steps |
| ``guaranteed_gain`` | float64 | the gain under every causal model; below 0 if it could do harm |
| ``gamma_star`` | float64 | the strength of hidden causes that undoes the gain (`tether.certify`): 1 if no gain is |
| | | guaranteed, infinite if none undoes it |
| ``verdict`` | text | of the certificate: ``holds``, …, ``could do harm`` |
| ``least_seen`` | int64 | how often the log of a learned model has the advised action that it has least often |
| ``credible_low``, ``credible_high`` | float64 | the 90 % credible interval of ``value``, if models were drawn |
| ``model_value`` | float64 | the value of the policy from the same first state without the observation |
| ``problem`` | text | why there is no answer; empty if there is one |

Cells are empty if they were not asked for, or if a broken episode does not have them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import NameColumn
from tether.auditing.answer_arrays import NONE, UNKNOWN, UNRECORDED, Answers
from tether.auditing.reviewed import LargestMistakes, mistake_column
from tether.evaluation.certificate import VERDICTS
from tether.evaluation.outcomes import UNDER_WAY
from tether.mdp import MDP
from tether.model.form import pair_states
from tether.model.labels import name_text
from tether.model.properties import Property
from tether.plan.standard import Standard

NO_OUTCOME, NOT_RECORDED = UNDER_WAY, "(not recorded)"
"""The names of an end that is no outcome, and of an end that was not recorded."""


_SAID = -1000
"""The code of the first outcome that a column of the log has and the model does not."""


class TableMaker:
    """The names of a model, and of the ids of a log, as columns; made once for all batches."""

    def __init__(self, mdp: MDP, id_type: Any, objective: Property | None = None, minimise: bool = False) -> None:
        self._mdp, self._id_type = mdp, id_type
        self._standard = Standard(mdp, "best", objective, minimise)
        self.states, self.actions = NameColumn(mdp.states), NameColumn(mdp.actions)

    def episodes(self, answers: Answers) -> Any:
        """The table of episodes."""
        columns = {
            "episode": pa.array(answers.ids, type=self._id_type),
            "steps": _whole(answers.steps),
            "observed": _numbers(answers.observed),
            "logged": _numbers(answers.logged),
            "outcome": self._observed(answers),
            "expected": _numbers(answers.expected),
            "mistakes": _numbers(answers.mistakes),
            "claimed": _numbers(answers.claimed),
            "largest_mistake": self._mistakes(answers),
            "luck": _numbers(answers.luck),
            "foreseeable": _numbers(answers.foreseeable),
            "value": _numbers(answers.value),
            "gain": _numbers(answers.gain),
            "k": _whole(answers.k),
            "m": _whole(answers.m),
            "changes": self._changes(answers),
            **{f"P({name})": _numbers(answers.labels[:, i]) for i, name in enumerate(self._mdp.label_sets.ends)},
            "ends": self._ends(answers),
            "worse_end": pa.array(answers.worse_end == 1, pa.bool_(), mask=answers.worse_end < 0),
            "about_episode": _numbers(answers.about_episode),
            "p_worse": _numbers(answers.p_worse),
            "strength": _numbers(answers.strength),
            "influenced_steps": _numbers(answers.influenced_steps),
            "guaranteed_gain": _numbers(answers.guaranteed_gain),
            "gamma_star": _numbers(answers.gamma_star),
            "verdict": pa.array(VERDICTS, pa.string()).take(_whole(answers.verdict)),
            "least_seen": _whole(answers.least_seen),
            "credible_low": _numbers(answers.credible_low),
            "credible_high": _numbers(answers.credible_high),
            "model_value": _numbers(answers.model_value),
            "problem": pa.array(answers.problem, pa.string()),
        }
        return pa.table(columns)

    def _mistakes(self, answers: Answers) -> Any:
        columns = (getattr(answers, f"mistake_{name}") for name in LargestMistakes._fields)
        return mistake_column(LargestMistakes(*columns), self.states, self.actions)

    def _changes(self, answers: Answers) -> Any:
        parts = {
            "t": pa.array(answers.change_t),
            "state": self.states.take(answers.change_state),
            "observed_action": self.actions.take(np.maximum(answers.change_observed, 0), answers.change_observed < 0),
            "advised_action": self.actions.take(answers.change_advised),
            "probability": pa.array(answers.change_probability),
        }
        return self._lists(answers, answers.change_start, parts)

    def _ends(self, answers: Answers) -> Any:
        parts = {"outcome": self._outcomes(answers.end_outcome), "probability": pa.array(answers.end_probability)}
        return self._lists(answers, answers.end_start, parts)

    def _lists(self, answers: Answers, start: Ints, parts: dict[str, Any]) -> Any:
        """One list per episode, null for one without an answer."""
        items = pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
        return pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), items, mask=pa.array(~answers.is_answered))

    def _observed(self, answers: Answers) -> Any:
        """How each episode ended: as the log says, else by the model."""
        known = self._outcomes(answers.outcome)
        if answers.said is None:
            return known
        said = pc.if_else(pa.array(answers.is_answered), pa.array(answers.said, pa.string()), None)
        return pc.coalesce(said, known)

    def _outcomes(self, codes: Ints) -> Any:
        used, at = np.unique(codes, return_inverse=True)
        names = [self.outcome_name(int(code)) for code in used]
        return pa.array(names, pa.string()).take(pa.array(at.reshape(-1)))

    def outcome_name(self, code: int) -> str | None:
        """What a class of outcomes is called."""
        if code < 0:
            return {NONE: NO_OUTCOME, UNRECORDED: NOT_RECORDED, UNKNOWN: None}[code]
        labels = self._labels
        return labels[code] if code < len(labels) else name_text(self._mdp.states[code - len(labels)])

    def of_pairs(self, pairs: Ints) -> tuple[Ints, Ints]:
        """The state and the action of each pair, by index."""
        form = self._mdp.form
        return pair_states(form.pair_start, pairs), form.pair_action[pairs].astype(np.int64)

    def action_of_pair(self, pairs: Ints) -> Any:
        """The action of each pair, by name; null for -1."""
        actions = self._mdp.form.pair_action[np.maximum(pairs, 0)].astype(np.int64)
        return self.actions.take(actions, pairs < 0)

    def effects(self, pairs: Ints, states: Ints, times: Floats, cost: Floats) -> tuple[Floats, Floats]:
        """What actions do for anyone in their state, compared with what was done there; and how likely that is above 0.

        In a learned model it is the advantage over usual practice (`tether.practice`), in another the difference of
        mean costs.
        """
        if self._mdp.counts is not None:
            mean, _, better = self._standard.advantages
            return mean[pairs], better[pairs]
        _, at = np.unique(states, return_inverse=True)
        usual = np.bincount(at, cost) / np.bincount(at, times) if pairs.size else np.empty(0)
        return usual[at] - cost / times, np.full(pairs.size, np.nan)

    @property
    def n_labels(self) -> int:
        """How many labels the model has."""
        return len(self._mdp.label_sets.ends)

    @cached_property
    def _labels(self) -> list[str]:
        return list(self._mdp.label_sets.ends)


class Tally:
    """Decisions and outcomes, counted batch after batch."""

    def __init__(self) -> None:
        self._decisions: dict[int, Floats] = {}
        self._best: dict[int, dict[int, int]] = {}
        self._ends: dict[tuple[int, int], float] = {}
        self._said: dict[str, int] = {}
        self._answered = 0

    def add(self, answers: Answers) -> None:
        """Count one more batch."""
        self._answered += int(np.count_nonzero(answers.is_answered))
        self._add_decisions(answers)
        self._add_ends(answers)

    def _add_decisions(self, answers: Answers) -> None:
        pairs, which = np.unique(answers.decision_pair, return_inverse=True)
        owner, n = np.repeat(np.arange(len(answers)), np.diff(answers.decision_start)), len(answers)
        # An episode that has the same decision at several steps counts once.
        episodes = np.bincount(np.unique(which * n + owner) // max(n, 1), minlength=pairs.size)
        bad = answers.decision_claimed > 0
        columns = (
            episodes,
            np.bincount(which, minlength=pairs.size),
            np.bincount(which, answers.decision_cost, minlength=pairs.size),
            np.bincount(which[bad], minlength=pairs.size),
            *(np.bincount(which[answers.decision_turn == turn], minlength=pairs.size) for turn in (1, -1)),
        )
        for pair, *counts in zip(pairs.tolist(), *(column.tolist() for column in columns), strict=True):
            self._decisions[pair] = self._decisions.get(pair, 0.0) + np.array(counts, dtype=np.float64)
        better, times = np.unique(
            np.stack((answers.decision_pair, answers.decision_best))[:, bad], axis=1, return_counts=True
        )
        for (pair, best), count in zip(better.T.tolist(), times.tolist(), strict=True):
            known = self._best.setdefault(pair, {})
            known[best] = known.get(best, 0) + count

    def _add_ends(self, answers: Answers) -> None:
        observed = np.repeat(self._observed(answers), np.diff(answers.end_start))
        pairs, which = np.unique(np.stack((observed, answers.end_outcome), axis=1), axis=0, return_inverse=True)
        mass = np.bincount(which.reshape(-1), answers.end_probability, minlength=len(pairs))
        for (before, after), one in zip(pairs.tolist(), mass.tolist(), strict=True):
            self._ends[before, after] = self._ends.get((before, after), 0.0) + one

    def _observed(self, answers: Answers) -> Ints:
        """The codes of observed outcomes; those that only the log has get codes of their own, below `_SAID`."""
        if answers.said is None:
            return answers.outcome
        codes = answers.outcome.copy()
        for i, said in enumerate(answers.said):
            if said is not None:
                codes[i] = _SAID - self._said.setdefault(said, len(self._said))
        return codes

    def _outcome_name(self, code: int, naming: TableMaker) -> str | None:
        return list(self._said)[_SAID - code] if code <= _SAID else naming.outcome_name(code)

    def decisions(self, naming: TableMaker) -> Any:
        """One row per state and action that was taken there; those whose mistakes cost most come first.

        All episodes count that were there, also those that ended well. ``episodes`` is how many did this, ``times`` how
        often. ``mistakes`` is how often it was a mistake that could be known at the time, ``best`` what was mostly
        better then. ``gained`` and ``lost`` are how often it turned out better, and worse, than was to be expected
        before the decision. ``mean_cost`` and ``total_cost`` are what it cost, over all times. ``effect`` is what the
        action does for anyone there, compared with what was done there on average; ``better`` is how likely it is that
        this is above 0, for a learned model.
        """
        found = self._decisions
        order = np.array(sorted(found, key=lambda pair: (-found[pair][2], -found[pair][1], pair)), dtype=np.int64)
        rows = np.array([found[pair] for pair in order.tolist()]).reshape(-1, 6)
        episodes, times, cost, mistakes, gained, lost = rows.T
        best = [
            max(known, key=lambda one: (known[one], -one)) if (known := self._best.get(pair)) else -1
            for pair in order.tolist()
        ]
        states, actions = naming.of_pairs(order)
        effect, better = naming.effects(order, states, times, cost)
        return pa.table(
            {
                "state": naming.states.take(states),
                "action": naming.actions.take(actions),
                "episodes": pa.array(episodes.astype(np.int64)),
                "times": pa.array(times.astype(np.int64)),
                "mistakes": pa.array(mistakes.astype(np.int64)),
                "best": naming.action_of_pair(np.array(best, dtype=np.int64)),
                "gained": pa.array(gained.astype(np.int64)),
                "lost": pa.array(lost.astype(np.int64)),
                "mean_cost": pa.array(cost / times),
                "total_cost": pa.array(cost),
                "effect": pa.array(effect),
                "better": _numbers(better),
            }
        )

    def outcomes(self, naming: TableMaker) -> Any:
        """One row per observed and counterfactual outcome: the expected number of ``episodes``, and ``percent`` of all.

        Exact: the probabilities of all episodes are added up, nothing is drawn.
        """

        def rank(code: int) -> tuple[bool, int]:
            return code < 0, abs(code)

        before = sorted({one for one, _ in self._ends}, key=rank)
        after = sorted({one for _, one in self._ends}, key=rank)
        cells = [(one, other, self._ends.get((one, other), 0.0)) for one in before for other in after]
        return pa.table(
            {
                "observed": pa.array([self._outcome_name(one, naming) for one, _, _ in cells], pa.string()),
                "counterfactual": pa.array([naming.outcome_name(other) for _, other, _ in cells], pa.string()),
                "episodes": pa.array([mass for _, _, mass in cells], pa.float64()),
                "percent": pa.array([100.0 * mass / self._answered for _, _, mass in cells], pa.float64()),
            }
        )


def _numbers(values: Any) -> Any:
    """Numbers, empty where there is none."""
    return pa.array(np.ascontiguousarray(values), pa.float64(), mask=np.isnan(values))


def _whole(values: Any) -> Any:
    return pa.array(np.asarray(values, np.int64), pa.int64(), mask=np.asarray(values) < 0)
