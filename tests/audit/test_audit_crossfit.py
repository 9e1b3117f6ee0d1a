"""Cross-fitted audits: plans are chosen and valued by models that saw neither the episode nor each other's part."""

from dataclasses import replace

import numpy as np
import pytest
from hospital import hospital, learned, log_of

import tether
from tether.auditing.followed import Guaranteed
from tether.auditing.placebos import shuffled
from tether.learning.folds import BLOCKS, fold_models, folded, with_counts
from tether.learning.follower import Follower
from tether.logs.batches import open_log
from tether.logs.cohort import search
from tether.plan.objective import asked


@pytest.fixture(scope="module")
def log():
    return log_of(hospital(5, 1.0), 400, 5)


@pytest.fixture(scope="module")
def mdp(log):
    return learned(log)


@pytest.fixture(scope="module")
def cohort(log, mdp):
    from tether.logs.cohort import joined

    return joined([one for _, one in open_log(log).batches(mdp)])


@pytest.fixture(scope="module")
def folds(mdp, cohort):
    return folded(mdp, [cohort], 2, 7)


def entries_of(mdp, cohort):
    form, pair = mdp.form, cohort.pair
    return search(form.next_state, form.row_start[pair], form.row_start[pair + 1], cohort.next_state)


# --- Folds ----------------------------------------------------------------------------------------------


def test_the_models_of_an_episode_have_the_counts_of_other_episodes_only(mdp, cohort, folds):
    """By brute force: which episodes are in the counts of the two models that answer an episode."""
    block = folds.blocks(cohort.ids)
    entry, owner = entries_of(mdp, cohort), np.repeat(np.arange(len(cohort)), np.diff(cohort.start))
    counts = folds.model_counts()
    for i in range(0, len(cohort), 37):
        others, own = (int(which[0]) for which in folds.models(block[[i]]))
        fold = block // BLOCKS
        in_other_folds = fold != fold[i]
        in_own_fold = (fold == fold[i]) & (block != block[i])
        for model, members in ((others, in_other_folds), (own, in_own_fold)):
            assert not members[i]
            expected = np.bincount(entry[members[owner]], minlength=mdp.n_transitions)
            assert counts[model].tolist() == expected.tolist()


def test_the_folds_of_a_log_do_not_depend_on_its_order_and_their_counts_are_those_of_the_model(mdp, cohort, folds):
    backwards = [cohort.part(i, i + 1) for i in range(len(cohort) - 1, -1, -1)]
    assert np.array_equal(folded(mdp, backwards, 2, 7).counts, folds.counts)
    assert np.array_equal(folds.counts.sum(axis=0), mdp.counts.transitions)
    assert not np.array_equal(folded(mdp, [cohort], 2, 8).counts, folds.counts)


def test_what_a_model_was_learned_from_beyond_the_log_is_in_the_folds_too(mdp, cohort, folds):
    part = folded(mdp, [cohort.part(0, 3)], 2, 7)
    assert np.array_equal(part.counts.sum(axis=0), mdp.counts.transitions)
    sizes = part.counts.sum(axis=1)
    assert sizes.max() < 1.3 * sizes.min()
    block = part.blocks(cohort.ids[:3])
    entry = entries_of(mdp, cohort)[: cohort.start[3]]
    own = np.zeros_like(part.counts)
    np.add.at(own, (np.repeat(block, np.diff(cohort.start[:4])), entry), 1)
    assert np.all(own <= part.counts)


@pytest.mark.parametrize("prior", ["pooled", 1, 0])
def test_everything_that_happened_is_possible_in_every_fold(log, prior):
    mdp = learned(log, prior=prior)
    cohorts = [one for _, one in open_log(log).batches(mdp)]
    for model in fold_models(mdp, folded(mdp, cohorts, 3, 0)):
        assert np.all(model.form.probability > 0)
        assert np.allclose(np.add.reduceat(model.form.probability, model.form.row_start[:-1]), 1.0)


def test_without_any_count_all_actions_of_a_state_are_alike(mdp):
    model = with_counts(mdp, np.zeros(mdp.n_transitions))
    rows = [model.row(model.states[0], action)[1] for action in model.actions_in(model.states[0])]
    for row in rows[1:]:
        np.testing.assert_allclose(row, rows[0])


# --- Answers --------------------------------------------------------------------------------------------


def by_single_calls(mdp, folds, path, episode, m):
    """The cross-fitted value of an episode, one model after the other; and the model that chooses its changes.

    Where a plan knows nothing, the observed action is taken in both ways; it is available in these episodes.
    """
    models = fold_models(mdp, folds)
    both = [models[int(which[0])] for which in folds.models(folds.blocks([episode]))]
    cfs = [tether.counterfactual(model, path) for model in both]
    values = [
        Follower([a.plan(k=3, m=m)], [m]).follow(asked(b, None, widely=True))[0].item() for a, b in (cfs, cfs[::-1])
    ]
    return np.mean(values), both[0]


@pytest.mark.parametrize("m", [1, 2])
def test_an_audit_is_what_single_calls_say(log, mdp, m):
    some = {i: log[i] for i in range(0, 60)}
    audit = tether.audit(mdp, some, k=3, m=m, seed=7, certify=False)
    cut = folded(mdp, [one for _, one in open_log(some).batches(mdp)], 2, 7)
    rows, compared = audit.table.to_pylist(), 0
    for i in range(0, 60, 5):
        value, chooser = by_single_calls(mdp, cut, log[i], i, m)
        compared += rows[i]["gain"] != 0.0
        assert rows[i]["value"] == pytest.approx(value, abs=1e-9)
        plan = tether.counterfactual(chooser, log[i]).plan(k=3, m=m)
        assert rows[i]["k"] == plan.k == audit.plan(i).k
        assert plan.value == pytest.approx(audit.plan(i).value)
    assert compared >= 2


def test_what_holds_holds_in_both_models(log, mdp):
    # The worst gains are a - b·(1 - 1/Γ) in one model, and the least of two such is 0 at a strength known by hand.
    first, second = ((4.0, 8.0), (3.0, 1.0))

    def model(a, b):
        def above(some, gamma):
            assert not some.any()  # only the first episode gains anything
            return a - b * (1.0 - 1.0 / gamma)

        return Guaranteed(np.array([a, -9.0]), np.array([a, -9.0]), above)

    held = Guaranteed.least([model(*first), model(*second)])
    assert held.every.tolist() == [3.0, -9.0]
    assert held.strengths() == pytest.approx([2.0, 1.0], rel=1e-6)
    audit = tether.audit(mdp, {i: log[i] for i in range(40)}, k=3)
    for row in audit.table.to_pylist():
        assert (row["gamma_star"] > 1.0) == (row["guaranteed_gain"] > 1e-9)
    assert np.mean([row["guaranteed_gain"] > 0 for row in audit.table.to_pylist()]) > 0.1
    assert any("hidden reason" in one.lower() for one in audit.sentences())


def test_one_fold_is_the_plain_audit(log, mdp):
    some = {i: log[i] for i in range(20)}
    one, none = (tether.audit(mdp, some, k=3, folds=n, certify=False) for n in (1, 0))
    assert one.table.equals(none.table)
    assert one.question["folds"] == 0
    plans = [tether.counterfactual(mdp, log[i]).plan(k=3, m=1).value for i in range(20)]
    np.testing.assert_allclose(one.table.column("value").to_numpy(), plans, atol=1e-9)
    assert "these gains are too large" in str(one) or one.placebo.shows_nothing


def test_gains_and_ends_are_means_that_add_up(log, mdp):
    audit = tether.audit(mdp, {i: log[i] for i in range(40)}, seed=1)
    for row in audit.table.to_pylist():
        assert row["gain"] == pytest.approx(row["value"] - row["observed"], abs=1e-9)
        assert sum(one["probability"] for one in row["ends"]) == pytest.approx(1.0)
        assert row["guaranteed_gain"] <= row["gain"] + 1e-9
        assert row["least_seen"] is not None or not row["changes"]


def test_threads_directories_and_conditions_change_nothing(log, mdp, tmp_path):
    some = {i: log[i] for i in range(270)}
    here = tether.audit(mdp, some, workers=1)
    there = tether.audit(mdp, some, workers=2, out=tmp_path / "audit")
    assert here.table.equals(there.table)
    assert here.placebo == there.placebo
    again = tether.audit(mdp, some, out=tmp_path / "audit")
    assert again.placebo == here.placebo
    assert again.plan(3).value == here.plan(3).value
    with pytest.raises(tether.FileError, match="another question was asked"):
        tether.audit(mdp, some, folds=3, out=tmp_path / "audit")
    died = tether.audit(mdp, some, where="outcome == 'died'").table
    wanted = {row["episode"]: row["gain"] for row in here.table.to_pylist()}
    assert all(wanted[row["episode"]] == row["gain"] for row in died.to_pylist())
    assert died.num_rows < 270


def test_intervals_come_from_draws_of_the_models_that_value(log, mdp):
    table = tether.audit(mdp, {i: log[i] for i in range(30)}, draws=20, certify=False).table
    low, high, value, gain = (
        table.column(name).to_numpy() for name in ("credible_low", "credible_high", "value", "gain")
    )
    changed = np.abs(gain) > 1e-9
    assert np.all(low <= high)
    assert np.mean((low <= value) & (value <= high)) > 0.8
    assert np.all(high[changed] > low[changed])


@pytest.mark.parametrize("rule", ["assured", "published"])
def test_other_rules_are_cross_fitted_too(log, mdp, rule):
    some = {i: log[i] for i in range(40)}
    audit = tether.audit(mdp, some, k=2, rule=rule, certify=False)
    cut = folded(mdp, [one for _, one in open_log(some).batches(mdp)], 2, 0)
    models = fold_models(mdp, cut)
    for i in range(0, 40, 8):
        cfs = [tether.counterfactual(models[int(which[0])], log[i]) for which in cut.models(cut.blocks([i]))]
        plans = [(a.tether(rule=rule).plan(2, 1), b) for a, b in (cfs, cfs[::-1])]
        value = np.mean([Follower([plan], [1]).follow(asked(b, None, widely=True))[0].item() for plan, b in plans])
        assert audit.table.column("value")[i].as_py() == pytest.approx(value, abs=1e-9)


def test_properties_and_the_smallest_value(log, mdp):
    some = {i: log[i] for i in range(40)}
    risk = tether.audit(mdp, some, objective=tether.reach("died"), minimise=True)
    assert np.all(risk.table.column("value").to_numpy() >= 0)
    assert risk.table.column("gain").to_numpy().mean() >= 0


def test_folds_are_for_plans_of_learned_models():
    case = tether.cases.epidemic()
    with pytest.raises(tether.QueryError, match="cuts the log of a learned model"):
        tether.audit(case.mdp, [case.path], folds=2)
    assert tether.audit(case.mdp, [case.path], k=3, folds=0).placebo is None


# --- Placebos -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["pooled", 1])
def test_a_placebo_permutes_the_actions_of_each_state_and_nothing_else(log, prior):
    mdp = learned(log, prior=prior)
    cohort = next(one for _, one in open_log(log).batches(mdp))
    folds = folded(mdp, [one for _, one in open_log(log).batches(mdp)], 2, 0)
    placebo, split, shuffled_cohort = shuffled(mdp, folds, cohort, (0, 1))

    def margins(model, counts):
        pair = np.repeat(np.arange(model.n_pairs), np.diff(model.form.row_start))
        state = np.repeat(np.arange(model.n_states), np.diff(model.form.pair_start))[pair]
        after = np.zeros((model.n_states, model.n_states))
        np.add.at(after, (state, model.form.next_state), counts)
        return np.bincount(pair, counts).tolist(), after.tolist()

    assert margins(mdp, mdp.counts.transitions) == margins(placebo, placebo.counts.transitions)
    assert np.array_equal(split.counts.sum(axis=0), placebo.counts.transitions)
    assert np.array_equal(split.counts.sum(axis=1), folds.counts.sum(axis=1))
    assert np.array_equal(shuffled_cohort.state, cohort.state)
    assert np.array_equal(shuffled_cohort.next_state, cohort.next_state)
    assert np.mean(shuffled_cohort.action != cohort.action) > 0.3
    # The episodes are those behind the counts.
    own = np.zeros_like(split.counts)
    known = np.flatnonzero(shuffled_cohort.next_state >= 0)
    block = np.repeat(split.blocks(cohort.ids), np.diff(cohort.start))
    np.add.at(own, (block[known], entries_of(placebo, shuffled_cohort)[known]), 1)
    assert np.all(own <= split.counts)


def test_permutations_are_uniform():
    """One state, two actions, two outcomes: the count of a cell is hypergeometric."""
    seen = {("a", "x"): 3, ("a", "y"): 1, ("b", "x"): 1, ("b", "y"): 3}
    log = [tether.Path(["s", j], [a]) for (a, j), times in seen.items() for _ in range(times)]
    mdp = tether.learn(log)
    cohort = next(one for _, one in open_log(log).batches(mdp))
    folds = folded(mdp, [cohort], 2, 0)
    found = []
    for seed in range(200):
        placebo = shuffled(mdp, folds, cohort, (seed,))[0]
        entry = placebo.entries(placebo.pair_index("s", "a")).start
        found.append(int(placebo.counts.transitions[entry]))
    chances = np.bincount(found, minlength=5) / 200  # 4 of 8 draws, 4 of them good: 1, 16, 36, 16, 1 of 70
    np.testing.assert_allclose(chances, np.array([1, 16, 36, 16, 1]) / 70, atol=0.1)


def test_the_first_line_is_the_placebo_and_nobody_is_listed_where_nothing_can_be_shown(log, mdp, tmp_path):
    real = tether.audit(mdp, log)
    assert real.sentences()[0] == str(real.placebo)
    assert real.placebo.shows_gain
    assert real.listed(10).num_rows == 10
    none = shuffled(mdp, folded(mdp, [one for _, one in open_log(log).batches(mdp)], 2, 0),
                    next(one for _, one in open_log(log).batches(mdp)), (3,))[0]  # fmt: skip
    assert none.learned.pooling.rho == 0
    audit = tether.audit(none, {i: log[i] for i in range(50)})
    assert audit.placebo.shows_nothing
    assert audit.sentences()[:2] == [
        "With the actions shuffled, the same audit would find a gain of 0 per episode; it finds 0: no more than "
        "chance.",
        "Nothing can be shown from this log: no episode is listed as worth a look.",
    ]
    assert audit.listed(10).num_rows == 0
    page = audit.report(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "no more than chance" in page
    assert not list(tmp_path.glob("audit-episodes/*"))


def test_gains_that_may_be_chance_are_not_listed_beside_mistakes(log, mdp):
    audit = tether.audit(mdp, log)
    measured = replace(audit._placebo, gain=1.0)
    same = (getattr(audit, name) for name in ("_read", "_asked", "question", "mdp", "log"))
    doubtful = type(audit)(*same, None, None, measured, audit._gathered)
    assert not doubtful.placebo.shows_gain
    assert doubtful.placebo.shows_mistakes
    assert all(row["claimed"] > 0 for row in doubtful.listed(300).to_pylist())
    assert doubtful.sentences()[0].endswith("no more than chance.")
