"""From an audit to a rule: rules of a log judged on everyone whom they touch, and checked on held-out episodes."""

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
from tether.logs.batches import Log, open_log
from tether.logs.fingerprint import digest_of_model, digest_of_values
from tether.mdp import MDP
from tether.model.properties import make_property
from tether.model.several_types import refuse_types
from tether.plan.standard import Standard
from tether.ruling.conditions import variables_of
from tether.ruling.counting import CHOOSING, REPORTING, LogCounts, count_log
from tether.ruling.edits import Actions
from tether.ruling.hidden_reasons import undoing_gamma
from tether.ruling.one_rule import OneRule
from tether.ruling.practised import Candidate, Values, apply_rules, practice_of
from tether.ruling.recorded import RuleWorld, bad_states, refuse_unrewarded
from tether.ruling.replaying import NUMBERS, Asked, BatchNumbers, RuleWork
from tether.ruling.rule_results import EvaluatedRule, RulePolicy
from tether.ruling.searching import Gain, Part

if TYPE_CHECKING:
    from tether.auditing.running import Progress

_LEVEL = 0.9
"""The level of intervals."""

_ALL, _HELD_OUT = 0, 1
"""Whose random sums: of all episodes, or of those that did not help to choose (rows of `BatchNumbers.drawn`)."""


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
    sure = [run.choosing.is_sure(run.choosing.gain([one])) for one in candidates]
    tried, _ = run.evaluate((), candidates, sure, "given", {*range(len(candidates))}, is_searched=False)
    return {
        "rules": [
            replace(run.with_shares(one, [candidate]), rule=own)
            for one, candidate, own in zip(tried, candidates, given, strict=True)
        ],
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
    reporting: Part
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
        refuse_unrewarded(mdp, wanted)
        opened = open_log(log, **(read_as_learned(mdp, reading) if isinstance(log, str | os.PathLike) else reading))
        selection = selection_of(where, mdp, opened, wanted, bool(minimise))
        world = RuleWorld(mdp, wanted, bool(minimise), opened.longest())
        counts = count_log(world, opened, float(holdout), seed, selection)
        states, name = bad_states(world, bad, counts.ends)
        world = replace(world, bad=states, bad_name=name)
        every = Part.of(world, counts, None)
        choosing = reporting = every
        if holdout > 0 and counts.episodes.min() > 0:
            choosing, reporting = (Part.of(world, counts, one) for one in (CHOOSING, REPORTING))
        return cls(
            world, opened, counts, every, choosing, reporting, float(holdout), seed, workers, client, selection,
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
        self, held: Sequence[Candidate], candidates: Sequence[Candidate], sure: Sequence[bool], name: str,
        whole: set[int], drawn: Floats | None = None, *, is_searched: bool,
    ) -> tuple[list[EvaluatedRule], BatchNumbers]:  # fmt: skip
        """Rules, each on top of those that are held, with their numbers; ``whole`` are those with all ranges.

        ``sure`` says which may be chosen. ``is_searched``: the log helped to choose them, so how sure they are is said
        by its other part alone. ``drawn`` are the random sums of the rules that are held.
        """
        several = [[*held, one] for one in candidates]
        other = self.choosing if self.choosing is not self.every else None
        asked = tuple(Asked.of(rules, self.every, other, i in whole) for i, rules in enumerate(several))
        found = self._replay(RuleWork(self.world, asked, self.holdout if other else 0.0, self.seed), several, name)
        whose = _HELD_OUT if is_searched and found.counted[1] else _ALL
        return [
            self._evaluated(rules, found, number, number in whole, drawn, whose, sure[number])
            for number, rules in enumerate(several)
        ], found

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
        self, rules: Sequence[Candidate], numbers: BatchNumbers, number: int, whole: bool, base: Floats | None,
        whose: int, is_chosen: bool,
    ) -> EvaluatedRule:  # fmt: skip
        world, every, sign = self.world, self.every, self.world.sign
        sums = dict(zip(NUMBERS, numbers.sums[number].tolist(), strict=True))
        gain = every.gain(rules)
        ruled = apply_rules(every.usual, world.pair_state, rules)
        before = after = float("nan")
        if world.bad is not None:
            share = np.asarray(every.usual @ ruled).ravel()
            starts = every.first, every.horizon, every.weight
            before = every.values.end_chance(world.bad, *starts)
            after = Values(world, every.mdp, share).end_chance(world.bad, *starts)
        bad, drawn = world.bad is not None, numbers.drawn[number]
        touched, harmed = numbers.chosen[number]
        words = [OneRule(one.condition, one.edit.instead_of, one.edit.do) for one in rules]
        low, high = sorted(sign * end for end in self._interval(gain, numbers, number, whose))
        own = drawn if base is None else drawn - base
        held, added = (self._held_out(one, numbers) for one in (drawn, own))
        more = every.gain(rules[-1:], rules[:-1])
        return EvaluatedRule(
            rule=words[-1],
            on_top_of=tuple(words[:-1]),
            episodes=int(numbers.counted[0]),
            touched=int(sums["touched"]),
            steps=int(sums["steps"]),
            gain=sign * gain.mean,
            gain_low=low,
            gain_high=high,
            added=sign * more.mean,
            helped=(sums["helped"] + sums["helped_most"]) / 2,
            harmed=(sums["harmed"] + sums["harmed_most"]) / 2,
            **{f"{name}_{end}": sums[f"{name}_{end}"] for name in ("helped", "harmed") for end in ("low", "high")},
            bad=world.bad_name,
            bad_ended=numbers.bad,
            bad_touched=int(sums["bad_touched"]),
            **{name: sums[name] if bad else float("nan") for name in NUMBERS if name.startswith(("saved", "lost"))},
            bad_before=before,
            bad_after=after,
            saved_share=None,
            lost_share=None,
            held_out=int(numbers.counted[1]),
            held_out_gain=held[0],
            held_out_low=held[1],
            held_out_high=held[2],
            held_out_added=added[0],
            held_out_added_low=added[1],
            held_out_added_high=added[2],
            harmed_chosen=float(harmed / touched) if touched else 0.0,
            policy=RulePolicy(world.mdp, every.usual, ruled),
            minimise=world.minimise,
            objective="" if world.objective is None else str(world.objective),
            gamma_star=undoing_gamma(every.values, ruled, every.first, every.horizon, every.weight) if whole else None,
            better=_chance_of_more(own, numbers, whose) if every.is_learned else more.better,
            is_chosen=is_chosen,
        )

    def _interval(self, gain: Gain, numbers: BatchNumbers, number: int, whose: int) -> tuple[float, float]:
        """The interval of a gain, over episodes. A learned model draws the gain towards 0: it is not the middle.

        The effects of such a model come from the log. Where the log helped to choose the rule, its other part counts.
        """
        ends = 0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2
        if self.every.is_learned:
            low, high = np.quantile(_means(numbers.drawn[number], numbers, whose), ends).tolist()
            return min(gain.mean, low), max(gain.mean, high)
        drawn = _means(numbers.drawn[number], numbers, _ALL)
        mean = numbers.sums[number, NUMBERS.index("gain")] / max(int(numbers.counted[0]), 1)
        low, high = np.quantile(drawn - mean, ends).tolist()
        return gain.mean + low, gain.mean + high

    def _held_out(self, sums: Floats, numbers: BatchNumbers) -> tuple[float, float, float]:
        """The gain on held-out episodes, and its interval over episodes; ``sums`` are as in `BatchNumbers.drawn`."""
        n, sign = int(numbers.counted[1]), self.world.sign
        if n == 0:
            return (float("nan"),) * 3
        drawn = sign * _means(sums, numbers, _HELD_OUT)
        low, high = np.quantile(drawn, (0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2))
        return sign * float(sums[2, 0] / n), float(low), float(high)

    def with_shares(self, judged: EvaluatedRule, rules: Sequence[Candidate]) -> EvaluatedRule:
        """A rule with the shares of bad ends averted, and of others caused, under every causal model: two worlds."""
        from tether.core.two_worlds import two_worlds

        every, bad, before = self.every, self.world.bad, judged.bad_before
        if bad is None or not rounding_of(before) < before < 1 - rounding_of(before):
            return judged
        practice = practice_of(every.usual, apply_rules(every.usual, self.world.pair_state, rules))
        weight = every.weight / every.episodes
        found = two_worlds(self.world.model, every.usual, practice, bad, every.first, every.horizon, weight)
        if found is None:
            return judged
        (saved, most_saved), (lost, most_lost) = (np.clip(np.array(ends), 0.0, 1.0).tolist() for ends in found)
        of_saved = min(saved / before, 1.0), min(most_saved / before, 1.0)
        return replace(
            judged, saved_share=of_saved, lost_share=(min(lost / (1 - before), 1.0), min(most_lost / (1 - before), 1.0))
        )


def _means(sums: Floats, numbers: BatchNumbers, whose: int) -> Floats:
    """The mean gain per episode with each random weighing; ``sums`` are as in `BatchNumbers.drawn`."""
    weights = numbers.drawn[-1, whose]
    means: Floats = sums[whose][weights > 0] / weights[weights > 0]
    return means


def _chance_of_more(sums: Floats, numbers: BatchNumbers, whose: int) -> float:
    """The probability that a mean gain is above 0, by its spread over episodes; ½ where nothing tells."""
    from scipy.special import ndtr

    means = _means(sums, numbers, whose)
    mean, spread = float(means.mean()), float(means.std())
    return 0.5 if spread <= rounding_of(mean) else float(ndtr(mean / spread))
