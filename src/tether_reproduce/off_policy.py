"""Oberst and Sontag (ICML 2019): how good is a learned policy, and how would each episode have ended under it?

The paper's log is drawn again, patient by patient. So are the resamples; the printed numbers are means over them. On
that log the truth and the estimates are computed exactly: importance sampling (WIS), the learned model by itself (MB),
and the counterfactual outcome of every episode under the policy (CF).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import factorial

import numpy as np

import tether
from tether.auditing.consistency import Consistency
from tether_reproduce.draws import Floats
from tether_reproduce.findings import Comparison, PublishedOffPolicy, Section, Table, published
from tether_reproduce.learned_policy import (
    LearnedPolicy,
    as_model,
    as_paths,
    end_rewards,
    follow_learned,
    learn_from,
    model_outcomes,
    policy_by_step,
    policy_steps,
)
from tether_reproduce.patients import PatientLog, World, draw_log, make_world, seen, truth_for_all
from tether_reproduce.redrawn import RESAMPLES, Redrawing

DRAWS = 5
"""How many counterfactual trajectories the paper draws per episode."""

_SEED = 0
_LOGS = 20
_REWARD = np.array([-1.0, 0.0, 1.0])
_NAMES = ("died", "no change", "discharged")
_DRAWN = "the paper's draws"

_RESAMPLING = (
    "the printed number is the mean over 100 resamples of the log, the exact number is that of the log itself: they differ, "
    "because few episodes have a weight ({matching} of {n:,})"
)

_TEXT = (
    "Oberst and Sontag (Counterfactual Off-Policy Evaluation with Gumbel-Max Structural Causal Models, ICML 2019). 1,000 "
    "patients of the sepsis simulator are treated by a physician who knows everything. A policy is learned from the log by "
    "someone who sees neither diabetes nor glucose. Death earns -1, discharge 1, no end within 20 steps 0. The published "
    "estimates are those that the released notebook (plots-main-paper, github.com/clinicalml/gumbel-max-scm) prints; the matrix "
    "of outcomes is the paper's figure, in whole percent.",
    "The published log is drawn again here, patient by patient, with the same order of draws from the same seed. These printed "
    "numbers are equal to the last digit: the observed return, the truth (1,000 more simulated patients), WIS, and MB (1,000 "
    "patients drawn from the learned model). CF is not drawn again: it needs half an hour of draws (5 trajectories per episode, "
    "and 1,000 draws for each of their rows). On the same log everything is also computed exactly, without draws: the truth with "
    "the simulator's own transition table, the learned model's value, and the counterfactual outcome of every episode.",
    "What differs. The matrix counts each episode by the most frequent of its 5 draws. The expected counts are computed exactly, "
    "and the published cells are compared with them. The matrix of the probabilities themselves is on the page. "
    "The simulator has a mistake: glucose of non-diabetic patients that should rise becomes at most low. The published log has this "
    "mistake, the case sepsis of this package does not. The physician's policy was computed on a table sampled from the simulator. In "
    "{changed} states with almost equal actions it differs from the exact rules: these actions are taken from the table. Death and "
    "discharge do not end an episode for that policy. In the learned model a dead patient is in a state that "
    "living ones share, from which one count per such state leads to death. Actions that were never tried in a state are taken to be deadly.",
)


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """One log, the model and policy learned from it, and every estimate, exact.

    ``ends`` has for each episode the probabilities of death, no end, and discharge under the learned policy.
    ``for_anyone`` has the same by the model alone, for the same first state. ``truth`` has them for the simulator.
    ``weights`` are those of importance sampling.
    """

    log: PatientLog
    learned: LearnedPolicy
    truth: Floats
    ends: Floats
    for_anyone: Floats
    weights: Floats

    @property
    def estimates(self) -> dict[str, float]:
        """Observed, truth, WIS, MB, CF: mean returns."""
        return {
            "observed": float(self.log.outcome.mean()),
            "truth": float(self.truth @ _REWARD),
            "WIS": float(self.weights @ self.log.outcome / self.weights.sum()),
            "MB": float(self.for_anyone.mean(axis=0) @ _REWARD),
            "CF": float(self.ends.mean(axis=0) @ _REWARD),
        }

    @property
    def outcomes(self) -> Floats:
        """Percent of the episodes by observed (rows) and counterfactual outcome, expected."""
        return self._matrix(self.ends)

    @property
    def counted(self) -> Floats:
        """Percent of the episodes, if each counts for the most frequent of `DRAWS` draws; expected."""
        return self._matrix(likeliest_of_draws(self.ends))

    @property
    def count_errors(self) -> Floats:
        """The standard error of these counts, with that of printing whole percent."""
        chance = likeliest_of_draws(self.ends)
        variance = self._matrix(chance * (1.0 - chance)) * 100.0 / len(self.ends)
        return np.sqrt(variance + 1.0 / 12.0)

    @property
    def consistency(self) -> Consistency:
        """Whether CF and MB agree, as they do if the model made the log."""
        ours, model = self.ends @ _REWARD, self.for_anyone @ _REWARD
        apart = ours - model
        error = float(apart.std(ddof=1) / np.sqrt(apart.size))
        return Consistency(apart.size, float(ours.mean()), float(model.mean()), float(apart.mean()), error)

    def _matrix(self, chance: Floats) -> Floats:
        rows = [chance[self.log.outcome == outcome].sum(axis=0) for outcome in (-1, 0, 1)]
        return 100.0 * np.array(rows) / len(chance)


def run_experiment(world: World, log: PatientLog) -> Experiment:
    """Learn from a log, and compute every estimate."""
    learned = learn_from(log)
    truth = truth_for_all(world, learned.policy)
    for_anyone = model_outcomes(learned)[seen(log.states[:, 0])]
    return Experiment(log, learned, truth, follow_learned(learned, log), for_anyone, _weights(learned, log))


def _weights(learned: LearnedPolicy, log: PatientLog) -> Floats:
    """The weight of each episode: 0 if the policy would have taken another action at some step."""
    i, t = np.nonzero(log.actions >= 0)
    s, a = seen(log.states[i, t]), log.actions[i, t]
    ratio = np.ones(log.actions.shape)
    ratio[i, t] = (learned.policy[s] == a) / learned.behaviour[s, a]
    weights: Floats = ratio.prod(axis=1)
    return weights


def likeliest_of_draws(chance: Floats) -> Floats:
    """The probability that each outcome is the most frequent of `DRAWS` draws; the first counts if several are."""
    most_frequent = np.zeros_like(chance)
    for counts in product(range(DRAWS + 1), repeat=3):
        if sum(counts) == DRAWS:
            ways = factorial(DRAWS) / np.prod([factorial(n) for n in counts])
            most_frequent[:, int(np.argmax(counts))] += ways * np.prod(chance ** np.array(counts), axis=1)
    return most_frequent


def released_world() -> World:
    """The simulator as released, with its physician."""
    world, theirs = make_world(as_released=True), published().off_policy.physician
    physician = world.physician.copy()
    physician[list(theirs)] = list(theirs.values())
    return replace(world, physician=physician)


def redraw(world: World) -> tuple[Experiment, dict[str, float]]:
    """The exact estimates for the published log; and the numbers that the notebook prints from its own draws."""
    run, n = Redrawing(_SEED), published().off_policy.patients
    log = run.under_physician(world.physician, n)
    experiment = run_experiment(world, log)
    treated = run.under_policy(experiment.learned.policy, n)
    returns = log.outcome.astype(np.float64)
    redrawn = {"truth": run.resampled(treated.outcome.astype(np.float64)), "observed": run.resampled(returns)}
    redrawn["WIS"] = run.resampled(returns, experiment.weights)
    run.resampled(returns)  # for a softened policy, which is not in the paper
    first = np.bincount(seen(log.states[:, 0]), minlength=experiment.learned.policy.size) / n
    redrawn["MB"] = run.resampled(run.in_model(policy_steps(experiment.learned), first, end_rewards(), n))
    return experiment, redrawn


def off_policy_section(logs: int = _LOGS) -> Section:
    """Every estimate beside the published one; ``logs`` more logs show how much depends on the patients."""
    theirs, world = published().off_policy, released_world()
    experiment, redrawn = redraw(world)
    drawn_again = [
        Comparison("return, drawn as published", value, theirs.estimates[name], of=name)
        for name, value in redrawn.items()
    ]
    text = [paragraph.format(changed=len(theirs.physician)) for paragraph in _TEXT]
    text.append(_identity(experiment.consistency))
    others = {"as released": _other_logs(world, logs), "corrected": _other_logs(make_world(as_released=False), logs)}
    text.append(_depends(theirs, others, logs))
    return Section(
        "off_policy",
        "Off-policy evaluation (Oberst and Sontag 2019)",
        tuple(text),
        (*drawn_again, *_compare_exact(experiment, theirs), *_compare_outcomes(experiment, theirs)),
        (_outcome_table(experiment), _died_table(experiment), _others_table(experiment, others)),
    )


def _compare_exact(experiment: Experiment, theirs: PublishedOffPolicy) -> list[Comparison]:
    """Exact numbers, with the error of the paper's draws: patients, trajectories, resamples."""
    n, exact = len(experiment.log.outcome), experiment.estimates
    returns = np.array([np.count_nonzero(experiment.log.outcome == outcome) for outcome in (-1, 0, 1)]) / n
    again = 1.0 / RESAMPLES  # the mean over resamples varies around the number that is resampled
    of_draws = _variance(experiment.ends).mean() / DRAWS
    of_episodes = _variance(experiment.ends.mean(axis=0)) / DRAWS
    errors = {
        "observed": _variance(returns) * again / n,
        "truth": _variance(experiment.truth) * (1.0 + again) / n,
        "MB": _variance(experiment.for_anyone.mean(axis=0)) * (1.0 + again) / n,
        "CF": (of_draws + of_episodes * again) / n,
    }
    compared = []
    for name, error in errors.items():
        numbers = exact[name], theirs.estimates[name], exact[name], float(np.sqrt(error))
        compared.append(Comparison("return, exact", *numbers, of=name, sampled=_DRAWN))
    reason = _RESAMPLING.format(matching=np.count_nonzero(experiment.weights), n=n)
    return [*compared, Comparison("WIS, exact", exact["WIS"], theirs.estimates["WIS"], reason=reason)]


def _variance(chance: Floats) -> Floats:
    """The variance of the return of one draw."""
    spread: Floats = chance @ _REWARD**2 - (chance @ _REWARD) ** 2
    return spread


def _compare_outcomes(experiment: Experiment, theirs: PublishedOffPolicy) -> list[Comparison]:
    counted, errors = experiment.counted.tolist(), experiment.count_errors.tolist()
    compared = []
    for i, j in product(range(3), repeat=2):
        numbers = counted[i][j], float(theirs.outcomes[i][j]), counted[i][j], errors[i][j]
        about = f"{_NAMES[i]}, would be {_NAMES[j]}"
        compared.append(Comparison("outcomes in percent", *numbers, of=about, sampled=_DRAWN))
    return compared


def _identity(consistency: Consistency) -> str:
    verb = "holds" if consistency.holds else "fails"
    return (
        "A check of any cohort: if a model made the log, the mean of the counterfactual values of a policy is its value in the "
        f"model. Here it {verb}: {consistency.counterfactual:.4f} with the luck of the episodes, {consistency.model:.4f} without, with a "
        f"standard error of {consistency.standard_error:.4f}. "
        + (
            "It does not say how far both are from the truth."
            if consistency.holds
            else "The learned model did not make this log, and the log alone shows it."
        )
    )


def _other_logs(world: World, logs: int) -> Floats:
    """Observed, truth and MB of some more logs, one row per log."""
    rows = []
    for seed in range(logs):
        log = draw_log(world, published().off_policy.patients, np.random.default_rng(seed))
        learned = learn_from(log)
        truth = truth_for_all(world, learned.policy) @ _REWARD
        model = model_outcomes(learned)[seen(log.states[:, 0])].mean(axis=0) @ _REWARD
        rows.append((log.outcome.mean(), truth, model))
    return np.array(rows)


def _depends(theirs: PublishedOffPolicy, others: dict[str, Floats], logs: int) -> str:
    released, corrected = others["as released"], others["corrected"]
    (observed, truth, model), (_, truth_std, model_std) = released.mean(axis=0), released.std(axis=0, ddof=1)
    z = (theirs.estimates["truth"] - truth) / truth_std
    return (
        f"How much depends on the log: over {logs} more logs of 1,000 patients the true value of the learned policy is "
        f"{truth:.2f} on average, with a standard deviation of {truth_std:.2f}: the published log is "
        f"{abs(z):.1f} of these {'below' if z < 0 else 'above'} it. The model's own estimate is {model:.2f} "
        f"(± {model_std:.2f}), above the truth in {np.count_nonzero(released[:, 2] > released[:, 1])} of {logs}. Without "
        f"the simulator's mistake the physician does better ({corrected[:, 0].mean():.2f} instead of {observed:.2f}), and so "
        f"does the learned policy ({round(corrected[:, 1].mean(), 2) + 0.0:.2f} ± {corrected[:, 1].std(ddof=1):.2f})."
    )


def _outcome_table(experiment: Experiment) -> Table:
    rows = tuple((_NAMES[i], *(f"{share:.2f} %" for share in experiment.outcomes[i])) for i in range(3))
    heads = ("would have died", "no change", "would have been discharged")
    return Table("Observed (rows) and counterfactual outcomes under the learned policy, exact", ("", *heads), rows)


def _died_table(experiment: Experiment) -> Table:
    """Patients who died, by `tether.audit`: those who would most likely have died under the learned policy come first."""
    died = np.flatnonzero(experiment.log.outcome == -1)
    log = PatientLog(experiment.log.states[died], experiment.log.actions[died], experiment.log.outcome[died])
    episodes = dict(zip(died.tolist(), as_paths(log), strict=True))
    answers = tether.audit(
        as_model(experiment.learned), episodes, policy=policy_by_step(experiment.learned), certify=False, workers=1
    )
    table = answers.table.sort_by([("P(died)", "descending")]).slice(0, 5)
    columns = [table.column(name).to_pylist() for name in ("episode", "P(died)", "P(discharged)", "strength")]
    steps = experiment.log.steps
    rows = tuple(
        (str(episode), str(int(steps[episode])), *(f"{number:.3f}" for number in numbers))
        for episode, *numbers in zip(*columns, strict=True)
    )
    return Table(
        f"Of the {died.size} patients who died (tether.audit), those who would most likely have died under the learned policy too",
        ("patient", "steps", "P(died)", "P(discharged)", "mean strength"),
        rows,
    )


def _others_table(experiment: Experiment, others: dict[str, Floats]) -> Table:
    exact = experiment.estimates
    rows = [("the published log", *(f"{exact[name]:.3f}" for name in ("observed", "truth", "MB")))]
    for name, logs in others.items():
        rows.append(
            (f"other logs, simulator {name}", *(f"{each.mean():.3f} ± {each.std(ddof=1):.3f}" for each in logs.T))
        )
    return Table("How much depends on the log", ("", "observed", "truth", "MB"), tuple(rows))
