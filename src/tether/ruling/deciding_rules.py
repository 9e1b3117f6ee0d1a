"""From an audit to a rule: which single change of practice would have helped most, and whom would it have harmed?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.checks import whole_number
from tether._foundation.rounding import rounding_of
from tether.errors import Problem, QueryError
from tether.learning.learn import relearned
from tether.logs.batches import open_log
from tether.logs.fingerprint import digest_of_model, digest_of_values
from tether.mdp import MDP
from tether.model.names import name_list
from tether.model.properties import make_property
from tether.model.several_types import refuse_types
from tether.plan.standard import Standard
from tether.ruling.conditions import all_conditions, variables_of
from tether.ruling.counting import CHOOSING, LogCounts, count_log
from tether.ruling.edits import Actions
from tether.ruling.hidden_reasons import undoing_gamma
from tether.ruling.one_rule import OneRule
from tether.ruling.practised import Candidate, Values, apply_rules, practice_of
from tether.ruling.recorded import RuleWorld, bad_states
from tether.ruling.replaying import NUMBERS, Asked, BatchNumbers, RuleWork
from tether.ruling.rule_results import EvaluatedRule, RulePolicy
from tether.ruling.searching import Gain, Part, permuted

if TYPE_CHECKING:
    from tether.auditing.running import Progress
    from tether.logs.batches import Log

__all__ = ["RuleRun", "judge_rules", "search_rules"]

_REPLAYED = 6
"""How many of the best rules are replayed."""

_SMALL = 1_000
"""In a model with at most so many pairs every replayed rule gets all ranges; in a larger one the best rule does."""

PLACEBOS = 19
"""How many logs with permuted actions are searched. A rule is chosen only if none shows as much: a test at 5 %."""

_LEVEL = 0.9
"""The level of intervals."""


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
    part, placebo = run.choosing, _placebo(run, changes, choices)
    found: list[EvaluatedRule] = []
    chosen: list[EvaluatedRule] = []
    held: list[Candidate] = []
    for level in range(most):
        best = part.candidates(changes, choices, _REPLAYED, held)
        if not best:
            break
        several, gains = [[*held, one] for one, _ in best], [gain for _, gain in best]
        if not level and placebo is not None and part.scores(changes, choices).max() <= placebo.max():
            gains = [replace(gain, better=min(gain.better, 0.5)) for gain in gains]  # permuted actions show as much
        first = next((i for i, gain in enumerate(gains) if part.is_chosen(gain)), 0)
        small = mdp.n_pairs <= _SMALL
        tried = run.evaluate(several, gains, f"{level + 1}", {*range(len(best))} if small else {first})
        found = found or tried
        fit = [
            i for i, one in enumerate(tried)
            if one.is_chosen and (harm is None or one.harmed_chosen <= harm)
        ]  # fmt: skip
        if not fit:
            break
        if np.isnan(tried[fit[0]].helped_low):
            tried[fit[0]] = run.evaluate([several[fit[0]]], [gains[fit[0]]], f"{level + 1}-chosen", {0})[0]
        chosen.append(tried[fit[0]])
        held.append(best[fit[0]][0])
        if level == 0 and harm is not None:
            found.sort(key=lambda one: one.harmed_chosen > harm)
    settings = {
        "rules compared": len(choices) * len(changes), "depth": depth, "most": most, "harm": harm, **run.settings,
    }  # fmt: skip
    return {
        "rules": found,
        "chosen": chosen,
        "searched": len(choices) * len(changes),
        "placebo": None if placebo is None else int(np.sum(placebo >= part.scores(changes, choices).max())),
        "broken": run.counts.broken,
        "best_gain": run.best_gain(),
        "settings": settings,
    }


def judge_rules(run: RuleRun, rules: Any) -> dict[str, Any]:
    """Rules of the user, with their numbers: what `RulesRecord` takes."""
    mdp = run.world.mdp
    given = [rules] if isinstance(rules, OneRule) else list(rules)
    wrong = next((one for one in given if not isinstance(one, OneRule)), None)
    if not given or wrong is not None:
        fix = "tether.rule('worse', instead_of='wait', do='treat')"
        raise QueryError(Problem("expected rules", value=wrong, fix=fix, argument="rules"))
    variables, actions = variables_of(mdp), Actions(mdp.actions)
    candidates = [Candidate.read(run.world, one, variables, actions) for one in given]
    for one in candidates:
        one.check(run.world, run.every.visits, run.every.is_learned)
    gains = [run.choosing.gain([one]) for one in candidates]
    tried = run.evaluate([[one] for one in candidates], gains, "given", {*range(len(candidates))})
    return {
        "rules": [replace(one, rule=own) for one, own in zip(tried, given, strict=True)],
        "broken": run.counts.broken,
        "best_gain": run.best_gain(),
        "settings": run.settings,
    }


@dataclass(frozen=True, eq=False)
class RuleRun:
    """One call: the log counted, its parts, and who replays."""

    world: RuleWorld
    log: Log
    counts: LogCounts
    every: Part
    choosing: Part
    holdout: float
    seed: int
    workers: int | None
    client: Any
    selection: Any
    out: FilePath | None
    fresh: bool
    where: str | None
    progress: Progress | None

    @classmethod
    def of(
        cls, mdp: MDP, log: Any, *, objective: Any, minimise: bool, holdout: float, seed: int, workers: int | None,
        client: Any, bad: Any, where: str | None, out: Any, fresh: bool, reading: dict[str, Any], progress: Any,
    ) -> RuleRun:  # fmt: skip
        """Check what is asked, and count the log."""
        from tether.auditing.where import selection_of
        from tether.io.opening import read_as_learned

        refuse_types(
            mdp,
            "a rule is the same for everybody, so it is judged in one model of everybody",
            "learn one model of the whole log, tether.learn(log); if the log says the type, leave it in the states: "
            "rules can then ask for it. tether.audit(types, log) is about single episodes",
        )
        if not isinstance(mdp, MDP):
            raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.learn(log), …")
        if not (isinstance(holdout, int | float) and 0 <= holdout < 1):
            what = f"holdout must be a share of the episodes, from 0 to less than 1, not {holdout!r}"
            raise QueryError(Problem(what, value=holdout, argument="holdout"))
        if client is not None and (out is None or workers is not None):
            raise QueryError(
                "with client= the workers of the cluster answer, into out=, a directory that all of them see"
            )
        seed = whole_number("seed", seed, 0)
        workers = None if workers is None else whole_number("workers", workers, 1)
        wanted = make_property(objective)
        opened = open_log(log, **(read_as_learned(mdp, reading) if isinstance(log, str | os.PathLike) else reading))
        selection = selection_of(where, mdp, opened, wanted, bool(minimise))
        world = RuleWorld(mdp, wanted, bool(minimise), opened.longest())
        counts = count_log(world, opened, float(holdout), seed, selection)
        states, name = bad_states(world, bad, counts.ends)
        world = replace(world, bad=states, bad_name=name)
        every = Part.of(world, counts, None)
        choosing = Part.of(world, counts, CHOOSING) if holdout > 0 and counts.episodes.min() > 0 else every
        return cls(
            world, opened, counts, every, choosing, float(holdout), seed, workers, client, selection,
            None if out is None else FilePath(out), fresh, where, progress,
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked, in plain values."""
        return {
            "objective": None if self.world.objective is None else str(self.world.objective),
            "minimise": self.world.minimise,
            "bad": self.world.bad_name,
            "holdout": self.holdout,
            "seed": self.seed,
            "where": self.where,
            "episodes": int(self.counts.episodes.sum()),
        }

    def best_gain(self) -> float:
        """What the best policy of the plain model would change per episode."""
        every, standard = self.every, Standard(self.world.mdp, "best", self.world.objective, self.world.minimise)
        best = np.empty(every.first.size)
        for steps in np.unique(every.horizon).tolist():
            some = every.horizon == steps
            values = standard.values_at(0, steps, every.first[some]) if steps else np.zeros(some.sum())
            best[some] = self.world.sign * values
        return float(every.weight @ best / every.episodes) - every.value_of(every.values)

    def evaluate(
        self, several: Sequence[Sequence[Candidate]], gains: Sequence[Gain], name: str, whole: set[int]
    ) -> list[EvaluatedRule]:
        """Rules, each on top of those before it, with their numbers; ``whole`` are those with all ranges."""
        other = self.choosing if self.choosing is not self.every else None
        asked = tuple(Asked.of(rules, self.every, other, i in whole) for i, rules in enumerate(several))
        found = self._replay(RuleWork(self.world, asked, self.holdout if other else 0.0, self.seed), several, name)
        return [
            self._evaluated(rules, gain, found, number, number in whole)
            for number, (rules, gain) in enumerate(zip(several, gains, strict=True))
        ]

    def _digest(self, several: Sequence[Sequence[Candidate]]) -> str:
        """A digest of what is asked, as it is decided: which states count, and what the rules change."""
        decided = None if self.world.objective is None else self.world.objective.on(self.world.mdp)
        asked = [] if decided is None else [decided.ended, decided.holds]
        asked += [] if self.world.bad is None else [self.world.bad]
        ruled = [array for rules in several for one in rules for array in (one.states, one.to)]
        return digest_of_values(array.tobytes() for array in (*asked, *ruled))

    def _replay(self, work: RuleWork, several: Sequence[Sequence[Candidate]], name: str) -> BatchNumbers:
        """Replay every batch of the log: here, by workers, or on a cluster; in a directory what was done is kept."""
        from tether.auditing.cluster import Cluster
        from tether.auditing.directory import open_directory
        from tether.auditing.running import Batches, answer_missing
        from tether.auditing.workers import Workers, make_workers

        mdp, log = self.world.mdp, self.log
        if self.out is None:
            batches = Batches(log, mdp, self.selection, (), self.progress)
            with closing(make_workers(mdp, work, self.workers, log.n_rows)) as hired:
                done = {}
                for number, numbers in hired.answers(batches):
                    done[number] = numbers
                    batches.report(number)
            return BatchNumbers.joined([done[number] for number in sorted(done)])
        words = [[f"{one.condition}: {one.edit}" for one in rules] for rules in several]
        question = {**self.settings, "rules": words, "with all ranges": [one.is_whole for one in work.rules]}
        question["digest"] = self._digest(several)  # of what the words do not say
        digest = log.digest() if self.selection is None else self.selection.digest(log)
        about = {"model": digest_of_model(mdp), "log": digest, "question": question}
        with open_directory(self.out / f"replays-{name}", about, fresh=self.fresh) as directory:

            def hire() -> Workers:
                if self.client is None:
                    return make_workers(mdp, work, self.workers, log.n_rows)
                return Cluster(self.client, mdp, work, directory.parts, log.id_type)

            n = answer_missing(log, mdp, hire, self.selection, directory, False, self.progress)
            files = directory.parts.find_sound()
            return BatchNumbers.joined(
                [BatchNumbers.from_arrow(directory.parts.read(i, files.get(i))) for i in range(n)]
            )

    def _evaluated(
        self, rules: Sequence[Candidate], chosen: Gain, found: BatchNumbers, number: int, whole: bool
    ) -> EvaluatedRule:
        world, every, n = self.world, self.every, int(found.counted[0])
        sums = dict(zip(NUMBERS, found.sums[number].tolist(), strict=True))
        gain = every.gain(rules)
        low, high = self._interval(gain, found, number)
        ruled = apply_rules(every.usual, world.pair_state, rules)
        share = np.asarray(every.usual @ ruled).ravel()
        before = after = float("nan")
        split = None
        if world.bad is not None:
            starts = every.first, every.horizon, every.weight
            before = every.values.end_chance(world.bad, *starts)
            after = Values(world, every.mdp, share).end_chance(world.bad, *starts)
            split = self._split(practice_of(every.usual, ruled), before) if whole else None
        held, held_low, held_high = self._held_out(found, number)
        bad = world.bad is not None
        touched, harmed = found.chosen[number]
        words = [OneRule(one.condition, one.edit.instead_of, one.edit.do) for one in rules]
        sign = world.sign
        ends = (sign * low, sign * high) if sign > 0 else (sign * high, sign * low)
        held_ends = (sign * held_low, sign * held_high) if sign > 0 else (sign * held_high, sign * held_low)
        return EvaluatedRule(
            rule=words[-1],
            on_top_of=tuple(words[:-1]),
            episodes=n,
            touched=int(sums["touched"]),
            steps=int(sums["steps"]),
            gain=sign * gain.mean,
            gain_low=ends[0],
            gain_high=ends[1],
            better=gain.better,
            helped=(sums["helped"] + sums["helped_most"]) / 2,
            harmed=(sums["harmed"] + sums["harmed_most"]) / 2,
            **{f"{name}_{end}": sums[f"{name}_{end}"] for name in ("helped", "harmed") for end in ("low", "high")},
            bad=world.bad_name,
            bad_ended=found.bad,
            bad_touched=int(sums["bad_touched"]),
            **{name: sums[name] if bad else float("nan") for name in NUMBERS if name.startswith(("saved", "lost"))},
            bad_before=before,
            bad_after=after,
            saved_share=None if split is None else split[0],
            lost_share=None if split is None else split[1],
            held_out=int(found.counted[1]),
            held_out_gain=sign * held,
            held_out_low=held_ends[0],
            held_out_high=held_ends[1],
            harmed_chosen=float(harmed / touched) if touched else 0.0,
            is_chosen=self.choosing.is_chosen(chosen),
            policy=RulePolicy(world.mdp, every.usual, ruled),
            minimise=world.minimise,
            gamma_star=undoing_gamma(every.values, ruled, every.first, every.horizon, every.weight) if whole else None,
        )

    def _interval(self, gain: Gain, found: BatchNumbers, number: int) -> tuple[float, float]:
        """The interval of a gain: of the learned advantages; or over episodes, in a model that was given."""
        from scipy.special import ndtri

        if self.every.is_learned:
            half = float(ndtri(0.5 + _LEVEL / 2)) * gain.sd
            return gain.mean - half, gain.mean + half
        weights = found.drawn[-1, 0]
        drawn = found.drawn[number, 0][weights > 0] / weights[weights > 0]
        mean = found.sums[number, NUMBERS.index("gain")] / max(int(found.counted[0]), 1)
        low, high = np.quantile(drawn - mean, (0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2))
        return gain.mean + float(low), gain.mean + float(high)

    def _held_out(self, found: BatchNumbers, number: int) -> tuple[float, float, float]:
        """The gain on held-out episodes, and its interval over episodes."""
        n, weights = int(found.counted[1]), found.drawn[-1, 1]
        if n == 0 or not np.any(weights > 0):
            return (float("nan"),) * 3
        drawn = found.drawn[number, 1][weights > 0] / weights[weights > 0]
        low, high = np.quantile(drawn, (0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2))
        return float(found.drawn[number, 2, 0] / n), float(low), float(high)

    def _split(self, practice: Any, before: float) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """The shares of bad ends averted, and of others turned bad, under every causal model: two worlds."""
        from tether.core.two_worlds import two_worlds

        every = self.every
        assert self.world.bad is not None
        weight = every.weight / every.episodes
        rounding = rounding_of(before)
        found = two_worlds(self.world.model, every.usual, practice, self.world.bad, every.first, every.horizon, weight)
        if found is None or before <= rounding or before >= 1 - rounding:
            return None
        saved, lost = (np.clip(np.array(one), 0.0, 1.0) for one in found)
        of_saved = float(min(saved[0] / before, 1.0)), float(min(saved[1] / before, 1.0))
        of_lost = float(min(lost[0] / (1 - before), 1.0)), float(min(lost[1] / (1 - before), 1.0))
        return of_saved, of_lost


def _placebo(run: RuleRun, edits: Any, conditions: Any) -> Floats | None:
    """The best score that the search finds in logs whose actions were permuted within each state, for each such log.

    None for a model that was not learned: its effects do not come from the log.
    """
    part = run.choosing
    if not part.is_learned:
        return None
    assert run.world.mdp.counts is not None
    which = CHOOSING if part is not run.every else None
    seen = run.counts.of("transitions", which)
    best = np.empty(PLACEBOS)
    for number in range(PLACEBOS):
        mixed = permuted(run.world.mdp, seen, np.random.default_rng((run.seed, 2, number)))
        taught = replace(part, mdp=relearned(part.mdp, mixed, int(part.episodes)))
        best[number] = float(taught.scores(edits, conditions).max(initial=0.0))
    return best
