"""The answers of an audit by the calls for a single episode: what each number means, and a slow twin of the engine."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tether._foundation.rounding import gain_of
from tether.auditing.answer_arrays import UNRECORDED, Answers, not_reviewed, unanswered
from tether.auditing.answering import conditioned_on
from tether.errors import QueryError, TetherError
from tether.evaluation.certificate import VERDICTS, certificate_of, why_uncertified
from tether.evaluation.evaluate import evaluate_plan, evaluate_policy
from tether.evaluation.plan_risk import risk_of
from tether.evaluation.review import Batch, horizons
from tether.evaluation.sightings import least_sightings
from tether.evaluation.tailoring import about_plan
from tether.explanation.mistakes import value_in_replay
from tether.observation.changes import done_then, is_change
from tether.plan.best_values import observed_value
from tether.plan.objective import asked as asked_of
from tether.plan.standard import Standard
from tether.plan.tether_record import tether


@dataclass(frozen=True, slots=True)
class Change:
    """An advised change: when, where, what was done, what to do instead, and how likely the change is."""

    t: int
    state: int
    observed: int
    advised: int
    probability: float


@dataclass(frozen=True, slots=True)
class Row:
    """The answer to one episode; see `tether.auditing.tables` for what the fields mean."""

    steps: int
    observed: float
    logged: float
    outcome: int
    value: float
    gain: float
    k: int
    m: int
    changes: Sequence[Change]
    labels: Sequence[float]
    ends: Sequence[tuple[int, float]]
    strength: float
    influenced_steps: float
    guaranteed_gain: float = np.nan
    gamma_star: float = np.nan
    verdict: int = -1
    least_seen: int = -1
    credible_low: float = np.nan
    credible_high: float = np.nan
    model_value: float = np.nan
    about_episode: float = np.nan
    p_worse: float = np.nan
    foreseeable: float = np.nan
    worse_end: int = -1


def answer_each(asked, cohort):
    """Answer the episodes one after the other; for an episode that cannot be answered, a sentence says why."""
    rows = []
    for i, problem in enumerate(cohort.problem):
        if problem is not None:
            rows.append(problem)
            continue
        try:
            rows.append(answer_one(asked, cohort.observation(i)))
        except TetherError as error:
            rows.append(str(error))
    return gather(cohort.ids, rows, len(asked.mdp.label_sets.ends))


def answer_one(asked, seen):
    """The answer to one episode."""
    question = asked.question
    cf = conditioned_on(asked.mdp, seen, question)
    if question.policy is None:
        tied = tether(cf, question.rule, question.influence, question.objective, question.minimise, question.advisable)
        plan = tied.plan(question.k, question.m)
        return _row(asked, cf, plan, evaluate_plan(plan), plan.value)
    outlook = evaluate_policy(cf, question.policy, question.influence, question.objective)
    return _row(asked, cf, None, outlook, outlook.value)


def _row(asked, cf, plan, outlook, value):
    tailoring, earned, last = outlook.tailoring, cf.earned, int(cf.observation.states[-1])
    observed = observed_value(asked_of(cf, asked.question.objective, asked.question.minimise))
    assert tailoring is not None
    chances = outlook.outcomes()
    certificate = _certificate(asked, cf, plan)
    low, high = (np.nan, np.nan)
    if asked.posterior is not None and plan is not None:
        low, high = asked.posterior.of(plan).interval()
    return Row(
        steps=cf.T,
        observed=observed,
        logged=np.nan if earned is None else earned.logged,
        outcome=UNRECORDED if last < 0 else int(asked.codes[last]),
        value=value,
        gain=gain_of(value, observed) if plan is None else plan.gain,
        k=-1 if plan is None else plan.k,
        m=-1 if plan is None else plan.m,
        changes=likeliest_changes(cf, outlook),
        labels=[chances[name] for name in cf.mdp.label_sets.ends],
        ends=_ends(asked, outlook),
        strength=tailoring.mean_strength(),
        influenced_steps=tailoring.expected_influenced_steps,
        guaranteed_gain=np.nan if certificate is None else certificate.gain,
        gamma_star=np.nan if certificate is None else certificate.gamma_star,
        verdict=-1 if certificate is None else VERDICTS.index(certificate.verdict),
        least_seen=_least_seen(cf, asked.question.policy if plan is None else plan),
        credible_low=low,
        credible_high=high,
        model_value=np.nan if cf.horizon is None else asked.model_value(int(cf.observation.states[0]), cf.horizon),
        about_episode=np.nan if plan is None else about_plan(plan),
        p_worse=np.nan if plan is None or cf.after is not None else risk_of(plan).worse,
        foreseeable=_best_value(asked, cf),
        worse_end=_worse_end(asked, outlook, np.nan if plan is None else plan.gain, observed, last),
    )


def _worse_end(asked, outlook, gain, observed, last):
    states, chance = outlook.ends
    good, bad = (float(chance @ one[states]) for one in asked.sides)
    return int(asked.worse_ends(good, bad, gain, observed, np.array(last)))


def _least_seen(cf, policy):
    least = least_sightings(cf, policy)
    return -1 if least is None else least


def _best_value(asked, cf):
    """The value of the plain model's best policy with the luck of an episode; NaN where the model has no value."""
    question, mdp = asked.question, asked.mdp
    longest = max(question.longest, mdp.horizon or 0)
    until = int(horizons(mdp, Batch.of(cf.observation), question.horizon, longest)[0])
    try:
        value = value_in_replay(cf, Standard(mdp, "best", question.objective, question.minimise), until)
    except QueryError:
        return np.nan
    return value if np.isfinite(value) else np.nan


def _certificate(asked, cf, plan):
    if not asked.question.certify or asked.question.objective is not None:
        return None
    if plan is None:
        return certificate_of(cf, asked.question.policy, compare=False)
    return None if why_uncertified(plan) else certificate_of(cf, plan, compare=False)


def likeliest_changes(cf, outlook):
    """The likeliest change of each step that may change; of equally likely ones, the first by state and action."""
    form, found = cf.mdp.form, []
    for t, decided in enumerate(outlook.chain.taken):
        states, observed = outlook.chain.visits[t].states[decided.source], int(cf.observation.actions[t])
        recorded = done_then(form, np.array([t]), cf.observation.states[t : t + 1], np.array([observed]))
        differs = np.flatnonzero(is_change(form, states, decided.pairs, observed) & ~outlook.chain.at_rest(t))
        if differs.size == 0:
            continue
        pairs, which = np.unique(decided.pairs[differs], return_inverse=True)
        weight = outlook.occupancy[t][decided.source[differs]] * decided.probability[differs]
        chance = np.bincount(which.reshape(-1), weight)
        best = int(np.argmax(chance))
        pair = int(pairs[best])
        state = int(np.searchsorted(form.pair_start, pair, side="right")) - 1
        found.append(Change(t, state, int(recorded[0]), int(form.pair_action[pair]), float(chance[best])))
    return found


def _ends(asked, outlook):
    """The probability of each class of outcomes at the end, by code, ascending."""
    states, probability = outlook.ends
    classes, which = np.unique(asked.codes[states], return_inverse=True)
    chance = np.bincount(which.reshape(-1), probability)
    return [(int(code), float(one)) for code, one in zip(classes, chance, strict=True) if one > 0]


def gather(ids, rows, n_labels):
    """Rows put together, not reviewed yet; a sentence in place of a row says why there is no answer."""
    found = [None if isinstance(row, str) else row for row in rows]
    problem = [row if isinstance(row, str) else None for row in rows]
    columns = {}
    without = unanswered(ids, problem, n_labels)
    for name in (one.name for one in fields(Row) if one.name not in ("changes", "labels", "ends")):
        missing = getattr(without, name)
        given = [missing[i] if row is None else getattr(row, name) for i, row in enumerate(found)]
        columns[name] = np.array(given, dtype=missing.dtype)
    labels = np.full((len(rows), n_labels), np.nan)
    changes = []
    ends = []
    change_start, end_start = [0], [0]
    for i, row in enumerate(found):
        if row is not None:
            labels[i] = row.labels
            changes += row.changes
            ends += row.ends
        change_start.append(len(changes))
        end_start.append(len(ends))
    for field in fields(Change):
        kind = np.float64 if field.name == "probability" else np.int64
        columns[f"change_{field.name}"] = np.array([getattr(one, field.name) for one in changes], dtype=kind)
    columns["end_outcome"] = np.array([code for code, _ in ends], dtype=np.int64)
    columns["end_probability"] = np.array([chance for _, chance in ends], dtype=np.float64)
    starts = {"change_start": np.array(change_start), "end_start": np.array(end_start)}
    columns |= {"ids": ids, "problem": problem, "labels": labels, **starts}
    return Answers(**columns, **not_reviewed(len(rows)))
