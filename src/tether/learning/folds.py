"""A learned model without some of its episodes: models that did not see an episode, or did not choose its plan.

Whoever asks the model of a log for the best plan of one of its episodes gets the plan that was luckiest in that log.
Its value in the same model is too large. So the log is cut by episode into *folds*. The plan of an episode is chosen on
the model of the other folds, and valued on the model of its own fold; then the two exchange their parts, and the two
values are averaged. A model of the own fold would have seen the episode itself. So each fold has `BLOCKS` blocks, and
the model of the own fold leaves out the block of the episode: neither model has seen it.

Which block an episode is in depends on its id and on the seed alone. What a model was learned from, beyond the log that
is asked about (all of it, if the log is another one), is cut step by step at random: steps of an MDP are independent,
given their states and actions.

All models have the states, pairs and transitions of the learned one, and its rewards. An effect is drawn towards 0 as
far as the whole log demands, not further because the log was cut: a part of the log has as large a part of the κ
pseudo-counts of the common row (`tether.model.pooling`). This rule was chosen by trial, on simulated logs;
docs/trusting-a-log.md says which. An outcome that the remaining counts of a state do not have did happen: it keeps half
a count. A state that they do not have has one visit of usual practice: all its actions are alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.checks import random_generator, whole_number
from tether._foundation.rounding import ROUNDING, gain_of
from tether._foundation.words import number
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import QueryError
from tether.io.names_as_text import text_of
from tether.learning.follower import Follower
from tether.learning.posterior import posterior
from tether.learning.worlds import asked_of_each, block_size, drawn_worlds
from tether.logs.cohort import Cohort, search
from tether.model.form import Form
from tether.model.model_record import ModelRecord
from tether.model.pooling import StateCounts, pooled_rows, recounted, state_counts
from tether.model.practice import learned_counts
from tether.model.several_types import Types
from tether.observation.path import Observation, Path, observe
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import tether
from tether.plan.typed_record import TypedRecord

BLOCKS = 4
"""How many blocks a fold has: a model of the own fold has all but one of them."""

_KEPT = 0.5
"""The count of an outcome that no other episode has: it did happen, so it stays possible."""

_MOST = 100
"""More folds than anyone needs."""

_Kind = TypeVar("_Kind", bound=ModelRecord)


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The counts behind a learned model by block; the blocks of a fold are side by side.

    Attributes
    ----------
    folds, seed : int
    counts : array (folds · BLOCKS, entries)
        How often each transition of the model is in each block.
    """

    folds: int
    seed: int
    counts: Ints

    def blocks(self, ids: Sequence[Any]) -> Ints:
        """The block of each of some episodes, by id."""
        return _blocks(ids, self.seed, len(self.counts))

    def models(self, block: Ints) -> tuple[Ints, Ints]:
        """Which two models answer the episodes of some blocks: that of the other folds, and that of the own one."""
        return block // BLOCKS, self.folds + block

    def model_counts(self) -> Floats:
        """The counts of every model: first all folds but one, for each; then each fold without one of its blocks."""
        fold = self.counts.reshape(self.folds, BLOCKS, -1).sum(axis=1)
        others = fold.sum(axis=0) - fold
        return np.concatenate((others, np.repeat(fold, BLOCKS, axis=0) - self.counts)).astype(np.float64)


def checked_folds(folds: Any) -> int:
    """The number of folds, at least 2; 0 for none."""
    folds = whole_number("folds", folds, 0)
    if folds > _MOST:
        raise QueryError(f"folds must be at most {_MOST}, not {folds:,}; 2 are usual")
    return 0 if folds == 1 else folds


def folded(mdp: ModelRecord, cohorts: Iterable[Cohort], folds: int, seed: int) -> Folds:
    """The counts of a learned model by block, in one pass over the log."""
    return filled(mdp, counted_by_block(mdp, cohorts, folds, seed), seed)


def counted_by_block(mdp: ModelRecord, cohorts: Iterable[Cohort], folds: int, seed: int) -> Ints:
    """How often each transition of a model is in each block of a log, (folds · BLOCKS, entries)."""
    form = mdp.form
    found = np.zeros((folds * BLOCKS, form.next_state.size), dtype=np.int64)
    for cohort in cohorts:
        block = np.repeat(_blocks(cohort.ids, seed, len(found)), np.diff(cohort.start))
        known = np.flatnonzero(cohort.next_state >= 0)
        pair = cohort.pair[known]
        entry = search(form.next_state, form.row_start[pair], form.row_start[pair + 1], cohort.next_state[known])
        np.add.at(found, (block[known], entry), 1)
    return found


def halves(mdp: _Kind, rng: np.random.Generator) -> list[_Kind]:
    """Two models, each of one half of the steps behind a learned model, cut at random."""
    counts = learned_counts(mdp)
    times = np.floor(counts.transitions).astype(np.int64)
    half = rng.binomial(times, 0.5)
    return _models(mdp, [half.astype(np.float64), counts.transitions - half])


def rest_of(mdp: ModelRecord, own: Ints) -> Ints | None:
    """What a learned model has seen beside a log with some counts; None if the model was learned from another log."""
    total = np.asarray(learned_counts(mdp).transitions)
    return None if np.any(own > total) else np.rint(total).astype(np.int64) - own


def filled(mdp: ModelRecord, found: Ints, seed: int) -> Folds:
    """What the log does not have of the counts of a model, added to the blocks at random; all, if it is another log."""
    found, rest, folds = found.copy(), rest_of(mdp, found.sum(axis=0)), len(found) // BLOCKS
    if rest is None:
        found[:] = 0
        rest = np.rint(learned_counts(mdp).transitions).astype(np.int64)
    some = np.flatnonzero(rest)
    if some.size:
        n = len(found)
        found[:, some] += np.random.default_rng((seed, n)).multinomial(rest[some], np.full(n, 1.0 / n)).T
    return Folds(folds, seed, found)


def _blocks(ids: Sequence[Any], seed: int, n: int) -> Ints:
    key = f"tether {seed}".encode()
    texts = (b"" if one is None else text_of(one).encode("utf-8", "surrogatepass") for one in ids)
    digests = (hashlib.blake2b(text, digest_size=8, key=key).digest() for text in texts)
    return np.array([int.from_bytes(one, "little") % n for one in digests], dtype=np.int64)


def fold_models(mdp: _Kind, folds: Folds) -> list[_Kind]:
    """The models of all folds, in the order of `Folds.model_counts`."""
    return _models(mdp, folds.model_counts())


def _models(mdp: _Kind, rows: Iterable[Floats]) -> list[_Kind]:
    """Models of parts of the counts of a learned one."""
    counts = learned_counts(mdp)
    full, pooling, found = state_counts(mdp.form, counts.transitions), counts.pooling, []
    for row in rows:
        part, share = pooling, row.sum() / max(1.0, float(full.of_entry.sum()))
        if pooling is not None:
            likely = tuple(_of_part(rho, share) for rho in pooling.likely)
            part = replace(pooling, rho=_of_part(pooling.rho, share), likely=likely)
        found.append(with_counts(replace(mdp, counts=replace(counts, pooling=part)), row, full))
    return found


def _of_part(rho: float, share: float) -> float:
    """ρ whose κ is a share of that of ``rho``."""
    return rho / (rho + (1.0 - rho) * share) if rho > 0 else 0.0


def with_counts(mdp: _Kind, transitions: Floats, full: StateCounts | None = None) -> _Kind:
    """A learned model from fewer counts of its own transitions; see the head of this file. ``full`` are all of them."""
    counts, form = learned_counts(mdp), mdp.form
    full = state_counts(form, counts.transitions) if full is None else full
    left = _completed(full, np.asarray(transitions, np.float64), counts.pooling is not None)
    changed = replace(counts, transitions=left)
    if counts.pooling is not None:
        probability = pooled_rows(recounted(full, left, mdp.n_states), counts.pooling.rho)
    else:
        total = np.add.reduceat(changed.concentration, form.row_start[:-1])[full.entry_pair]
        probability = np.where(total > 0, changed.concentration / np.where(total > 0, total, 1.0), form.probability)
    return replace(mdp, form=replace(form, probability=probability), counts=changed)


def _completed(full: StateCounts, left: Floats, pooled: bool) -> Floats:
    """Fewer counts, in which everything that happened is still possible."""
    seen = full.of_entry > 0
    if not pooled:
        of_pair = summed(full.entry_pair, left, full.of_pair.size)
        alike = np.where(seen, full.share[full.group], 0.0)
        alike /= np.maximum(summed(full.entry_pair, alike, full.of_pair.size), 1e-300)[full.entry_pair]
        return np.where(seen & (of_pair[full.entry_pair] == 0), alike, np.where(seen & (left == 0), _KEPT, left))
    of_group = summed(full.group, left, full.of_group.size)
    of_state = summed(full.group_state, of_group, full.of_state.size)
    state = full.group_state[full.group]
    kept = _KEPT * full.of_entry / np.maximum(full.of_group, 1)[full.group]
    usual = full.of_pair[full.entry_pair] / np.maximum(full.of_state, 1)[state] * full.share[full.group]
    left = np.where((of_group == 0)[full.group], kept, left)
    return np.where((of_state == 0)[state] & (full.of_state > 0)[state], usual, left)


def without(mdp: _Kind, episode: Path | Observation, times: float = 1.0) -> _Kind:
    """A learned model without the counts of an episode: how far rows are pooled stays as it is, rewards too.

    ``times`` is how often it counts: a part of once, in a model of a type that it may be of.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.folds import without
    >>> paths = [tether.Path(["sick", after], ["wait"]) for after in ("well", "well", "dead", "dead")]
    >>> mdp = tether.learn(paths)
    >>> mdp.row("sick", "wait"), without(mdp, paths[0]).row("sick", "wait")
    ((('well', 'dead'), array([0.5, 0.5])), (('well', 'dead'), array([0.33333333, 0.66666667])))
    """
    counts = learned_counts(mdp)
    observed = observe(mdp, episode) if isinstance(episode, Path) else episode
    taken = _entries(mdp.form, observed)
    left = counts.transitions.astype(np.float64)
    np.subtract.at(left, taken, times)
    if np.any(left[taken] < -ROUNDING):
        raise QueryError("the episode is not one of those that the model was learned from: it has steps that were seen "
                         "less often in them")  # fmt: skip
    found = with_counts(mdp, np.maximum(left, 0.0))
    assert found.counts is not None
    fewer = replace(found.counts, episodes=max(0, counts.episodes - 1), steps=counts.steps - observed.actions.size)
    return replace(found, counts=replace(fewer, left_out=counts.left_out + 1))


def unseen(mdp: _Kind, episode: Path | Observation, times: float = 1.0) -> _Kind:
    """The model that an episode is asked of: a learned one without its counts, if its steps are among them.

    ``times`` is how often it counts.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.folds import unseen
    >>> paths = [tether.Path(["sick", after], ["wait"]) for after in ("well", "well", "dead", "dead")]
    >>> mdp = tether.learn(paths)
    >>> unseen(mdp, paths[0]).counts.episodes, unseen(tether.cases.toy().mdp, tether.cases.toy().path).counts
    (3, None)
    """
    if mdp.counts is None or mdp.counts.left_out:
        return mdp
    observed = observe(mdp, episode) if isinstance(episode, Path) else episode
    left = mdp.counts.transitions.astype(np.float64)
    np.subtract.at(left, _entries(mdp.form, observed), times)
    return mdp if np.any(left < -ROUNDING) else without(mdp, observed, times)


def unseen_types(types: Types, episode: Path) -> Types:
    """The types that an episode is asked of: each learned one without it, as if it were of that type.

    Of types that nobody recorded it counts for each with the chance that it is of it, and so much is left out.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.folds import unseen_types
    >>> log = [tether.Path(["sick", "sick", end], ["wait"] * 2) for end in ("well", "well", "dead", "dead")]
    >>> types = tether.learn_types(log, by=["robust", "robust", "frail", "frail"])
    >>> for one in (types, unseen_types(types, log[2])):
    ...     print(round(tether.counterfactual(one, log[2]).posterior["frail"], 2), one.episodes)
    0.9 4
    0.89 3
    """
    if types.episodes is None:
        return types
    models = dict(types.models)
    for name, share in TypedRecord(types, episode).posterior.items():
        if share > 0.0:
            models[name] = unseen(models[name], episode, share if types.caveat else 1.0)
    return types.with_models(models)


def _entries(form: Form, episode: Observation) -> Ints:
    """The entries of the transitions of an episode that were recorded."""
    pairs, after = np.asarray(episode.pairs), np.asarray(episode.states[1:])
    known = after >= 0
    entry = search(form.next_state, form.row_start[pairs[known]], form.row_start[pairs[known] + 1], after[known])
    return entry[entry >= 0]


# ---- A plan valued by models of other folds ------------------------------------------------------------------------
# The value of a plan in models that did not choose it, for one episode: the counts of a learned model cut in two.
#
# The plan that is best in a learned model is partly the luckiest one, and its value there is too large. So the steps
# behind the model are cut into two halves at random, a few times (`halves`). The best plan of each half, within the
# same limits, is followed in the other half. The mean of these values is what such a plan is worth;
# models that the other half leaves possible give its interval.


_SPLITS = 4
"""How often the counts are cut in two."""


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """What plans within some limits are worth where they were not chosen; made by `cross_fitted`.

    Attributes
    ----------
    value, gain : float
        The mean over both halves of each split; and how much better than what was done.
    low, high : float
        The 90 % interval of the value, from models that the halves leave possible.
    promised : float
        What the plan is worth in the model that chose it.
    splits, draws : int
    """

    value: float
    gain: float
    low: float
    high: float
    promised: float
    splits: int
    draws: int

    @property
    def sentence(self) -> str:
        """The value and its interval, beside what the model that chose the plan says."""
        return (
            f"Where it was not chosen, in the other half of the log, such a plan is worth {number(self.value)} (90 %: "
            f"{number(self.low)} to {number(self.high)}); the model that chose it says {number(self.promised)}."
        )


def cross_fitted(plan: PlanRecord, draws: int, rng: Any = 0) -> CrossFitted:
    """The cross-fitted value of a plan of a learned model; ``draws`` models in all give the interval."""
    cf, generator = plan.cf, random_generator(rng)
    values: list[float] = []
    drawn: list[float] = []
    each, size = max(2, -(-draws // (2 * _SPLITS))), block_size(cf.mdp, cf.T)
    for _ in range(_SPLITS):
        models = halves(cf.mdp, generator)
        worlds = [CounterfactualRecord.again(model, cf.path, cf.mechanism, cf.after) for model in models]
        for chooser, valuer in ((0, 1), (1, 0)):
            tied = tether(worlds[chooser], plan.rule, plan.influence, plan.objective, plan.minimise)
            chosen = Follower([tied.plan(plan.k, plan.m)], [plan.m])
            own = models[valuer].form.probability
            some = [own, *(one.form.probability for one in posterior(models[valuer], each, rng=generator).models())]
            found: list[float] = []
            for first in range(0, len(some), size):
                block = drawn_worlds(worlds[valuer], np.stack(some[first : first + size]))
                asking = asked_of_each(block, worlds[valuer], plan.objective, plan.minimise)
                found += chosen.follow(asking)[0].reshape(-1).tolist()
            values.append(found[0])
            drawn += found[1:]
    value = float(np.mean(values))
    low, high = np.quantile(drawn, (0.05, 0.95)).tolist()
    gain = float(gain_of(value, plan.observed_value, plan.minimise))
    return CrossFitted(value, gain, low, high, plan.value, _SPLITS, len(drawn))
