"""The search for rules: which of all possible ones are replayed, and which are chosen, each on top of those before it.

A rule of a learned model is chosen only if it surely helps in the part of the log on which rules are chosen, and if it
promises more there than any rule does in logs whose actions were permuted: on top of others it is judged by what it
adds. What is reported about it comes from the other part, or from all of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.checks import whole_number
from tether._foundation.words import percent
from tether.errors import Problem, QueryError
from tether.learning.learn import relearned
from tether.model.names import name_list
from tether.ruling.conditions import all_conditions
from tether.ruling.counting import CHOOSING
from tether.ruling.deciding_rules import RuleRun
from tether.ruling.edits import Actions
from tether.ruling.practised import Candidate, apply_rules
from tether.ruling.rule_results import EvaluatedRule
from tether.ruling.searching import SURE, Ranked, permuted

_REPLAYED = 6
"""How many of the best rules are replayed at a time."""

_TRIED = 10
"""How many times more rules are replayed if those that were replayed harm too many."""

_SMALL = 1_000
"""In a model with at most so many pairs every replayed rule gets all ranges; in a larger one the best rule does."""

PLACEBOS = 19
"""How many logs with permuted actions are searched. A rule is chosen only if none shows as much: a test at 5 %."""


def search_rules(
    run: RuleRun, conditions: Any, edits: Any, most: int, harm: float | None, depth: int
) -> dict[str, Any]:
    """Search for rules: what `RulesRecord` takes."""
    mdp, most, depth = run.world.mdp, whole_number("most", most, 1), whole_number("depth", depth, 1)
    if harm is not None and not (isinstance(harm, int | float) and 0 <= harm <= 1):
        raise QueryError(Problem(f"harm must be a share from 0 to 1, not {harm!r}", value=harm, argument="harm"))
    choices, changes = all_conditions(mdp, conditions, depth), Actions(mdp.actions).all_edits(edits)
    if not changes:
        fix = f"there are actions: {name_list(mdp.actions)}"
        raise QueryError(Problem("there is no rule to search in: no action could be done instead", fix=fix))
    if not choices:
        message = "there is no rule to search in: nothing can be decided where the conditions hold"
        open_states = [mdp.states[s] for s in np.flatnonzero(~run.world.closed).tolist()]
        fix = f"there are states with decisions: {name_list(open_states)}"
        raise QueryError(Problem(message, value=conditions, fix=fix, argument="conditions"))
    found: list[EvaluatedRule] = []
    chosen: list[EvaluatedRule] = []
    held: list[Candidate] = []
    drawn, placebo, reason = None, None, ""
    for level in range(most):
        shown = _placebo(run, changes, choices, held)
        if not level and shown is not None:
            placebo = int(np.sum(shown >= run.choosing.scores(changes, choices).max()))
        search = _Search(run, changes, choices, held, shown, harm)
        best = search.choose(f"{level + 1}", drawn)
        found += search.replayed if not level else []
        if best is None:
            reason = search.reason() if not level else ""
            break
        one, drawn = best
        chosen.append(one)
        held.append(search.taken)
    compared = len(choices) * len(changes)
    return {
        "rules": [*chosen, *(one for one in found if not chosen or one.rule != chosen[0].rule)],
        "chosen": chosen,
        "searched": compared,
        "placebo": placebo,
        "reason": reason,
        "broken": run.counts.broken,
        "best_gain": run.best_gain(),
        "settings": {"rules compared": compared, "depth": depth, "most": most, "harm": harm, **run.settings},
    }


class _Search:
    """The search for one rule on top of others: which ones are replayed, and which of them is chosen."""

    def __init__(
        self, run: RuleRun, edits: Any, conditions: Any, held: Sequence[Candidate], placebo: Floats | None,
        harm: float | None,
    ) -> None:  # fmt: skip
        self.run, self.held, self.harm = run, list(held), harm
        self._ranked = run.choosing.candidates(edits, conditions, 2 * _REPLAYED, held)
        self._chance = -np.inf if placebo is None else float(placebo.max())
        self._best: Ranked | None = None
        self.replayed: list[EvaluatedRule] = []

    def is_sure(self, ranked: Ranked) -> bool:
        """Whether a rule surely adds something, and more than any rule does where actions are permuted."""
        return self.run.choosing.is_sure(ranked.gain) and ranked.score > self._chance

    def choose(self, name: str, drawn: Floats | None) -> tuple[EvaluatedRule, Floats] | None:
        """The rule that is chosen, and its random sums; ``drawn`` are those of the rules that hold already."""
        run, is_small = self.run, self.run.world.mdp.n_pairs <= _SMALL
        for number, several in enumerate(self._groups()):
            sure, rules = [self.is_sure(one) for one in several], [one.candidate for one in several]
            own = name if not number else f"{name}-{number + 1}"
            whole = {*range(len(several))} if is_small else {sure.index(True) if any(sure) else 0}
            tried, numbers = run.evaluate(self.held, rules, sure, own, whole, drawn, is_searched=True)
            self.replayed += tried
            fit = [i for i, one in enumerate(tried) if sure[i] and self._is_harmless(one)]
            if not fit:
                continue
            i = fit[0]
            if np.isnan(tried[i].helped_low):
                again, _ = run.evaluate(self.held, [rules[i]], [True], f"{name}-chosen", {0}, drawn, is_searched=True)
                tried[i] = again[0]
            self.taken = rules[i]
            return run.with_shares(tried[i], [*self.held, rules[i]]), numbers.drawn[i]
        return None

    def _groups(self) -> Iterator[list[Ranked]]:
        """Rules to replay, a few at a time: the best; if few may be harmed, then all others that surely help."""
        first = next(self._ranked, [])
        if not first:
            return
        self._best = first[0]
        yield first[:_REPLAYED]
        if self.harm is not None:
            others = chain(first[_REPLAYED:], chain.from_iterable(self._ranked))
            sure = (one for one in others if self.is_sure(one))
            for _ in range(_TRIED):
                if several := list(islice(sure, _REPLAYED)):
                    yield several

    def _is_harmless(self, judged: EvaluatedRule) -> bool:
        return self.harm is None or judged.harmed_chosen <= self.harm

    def reason(self) -> str:
        """Why no rule was chosen, in a sentence."""
        best = self._best
        if best is None:
            return "In the part of the log on which rules are chosen, no rule gains anything."
        rule = f"Where {best.candidate.condition}: {best.candidate.edit}"
        sure = [one for one in self.replayed if one.is_chosen]
        if sure:
            least = min(sure, key=lambda one: one.harmed_chosen)
            assert self.harm is not None
            return (
                f"Of {len(self.replayed)} that were replayed, {len(sure)} would help on average, but harm more than "
                f"{percent(self.harm)} of those whom they touch. {least.rule} It harms {percent(least.harmed_chosen)}, "
                "the least."
            )
        if best.gain.mean > 1e-12 and best.score <= self._chance:
            return f"The one that promises most ({rule}) promises no more than rules do where actions are permuted."
        return (
            f"The one that promises most ({rule}) is better with a probability of {percent(best.gain.better)} in the "
            f"part of the log on which rules are chosen; {percent(SURE)} is asked for."
        )


def _placebo(run: RuleRun, edits: Any, conditions: Any, held: Sequence[Candidate]) -> Floats | None:
    """The best score on top of rules that hold, for each of some logs whose actions were permuted within each state.

    None for a model that was not learned: its effects do not come from the log.
    """
    part = run.choosing
    if not part.is_learned:
        return None
    assert run.world.mdp.counts is not None
    which = CHOOSING if part is not run.every else None
    seen = run.counts.of("transitions", which)
    best = np.empty(PLACEBOS)
    before = apply_rules(part.usual, run.world.pair_state, held) if held else None
    for number in range(PLACEBOS):
        mixed = permuted(run.world.mdp, seen, np.random.default_rng((run.seed, 2, number)))
        taught = replace(part, mdp=relearned(part.mdp, mixed, int(part.episodes)))
        best[number] = float(taught.scores(edits, conditions, before).max(initial=0.0))
    return best
