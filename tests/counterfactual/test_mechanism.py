"""Mechanisms: the sampled one against the exact one, its bookkeeping, and mechanisms of one's own."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from twins import ASKED, SEEN, asked, check_shares, condition, dense, race, sampling_error, tv, two_rows

import tether
from tether.conditioning.edited_rows import ObservedStep, Rows

SAMPLED = "gumbel-max-sampled"
METHODS = ["top-down", "rejection"]

# Outcome 0 is observed; r = (2, 2, 3/4, 0): outcome 1 is tied with it and must never replace it.
P, Q = [0.2, 0.2, 0.3, 0.0, 0.3], [0.1, 0.1, 0.4, 0.4, 0.0]


@pytest.fixture(scope="module")
def grid():
    return tether.cases.grid_world()


def every_pair(mdp):
    return [(s, a) for s in mdp.states for a in mdp.actions_in(s)]


# --- Agreement with the exact mechanism --------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("o", [0, 1, 2, 4])
def test_sampling_agrees_with_the_closed_form(method, o):
    samples = 20_000
    share = asked(P, Q, o, mechanism=SAMPLED, samples=samples, rng=7, method=method)
    check_shares(share, asked(P, Q, o), samples)
    assert share.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_sampling_agrees_on_a_whole_model(grid, method):
    samples = 4_000
    exact = tether.counterfactual(grid.mdp, grid.path)
    sampled = tether.counterfactual(grid.mdp, grid.path, mechanism=SAMPLED, samples=samples, rng=3, method=method)
    for t in range(4):  # from t = 3 on the robot sits in the pit and every step is alike
        for s, a in every_pair(grid.mdp):
            share, probability = dense(sampled.row(t, s, a), 16), dense(exact.row(t, s, a), 16)
            check_shares(share, probability, samples)
            off = abs(sampled.strength(t, s, a) - exact.strength(t, s, a))
            assert off <= sampling_error(probability, samples).sum() / 2  # triangle inequality
            assert sampled.strength(t, s, a) == pytest.approx(tv(share, dense(sampled.nominal_row(t, s, a), 16)))


def test_the_two_methods_agree_with_races_run_by_hand():
    samples = 20_000
    by_hand = race(P, Q, 2, samples, seed=11)
    for method in METHODS:
        share = asked(P, Q, 2, mechanism=SAMPLED, samples=samples, rng=2, method=method)
        error = np.sqrt(2 * by_hand * (1 - by_hand) / samples)  # of the difference of two shares
        assert np.all(np.abs(share - by_hand) <= 5 * error)


@pytest.mark.parametrize("method", METHODS)
def test_the_observed_pair_repeats_its_outcome_in_every_draw(method):
    cf = condition(two_rows(P, P), 2, mechanism=SAMPLED, samples=5_000, rng=1, method=method)
    for action in (SEEN, ASKED):
        labels, row = cf.row(0, 5, action)
        assert labels == (2,)
        assert row.tolist() == [1.0]


def test_what_was_not_observed_is_not_sampled():
    cf = condition(two_rows([0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.3, 0.7]), 0, mechanism=SAMPLED, samples=10, rng=1)
    assert cf.row(0, 4, ASKED)[1].tolist() == [0.3, 0.7]  # disjoint: nominal, without error
    assert cf.standard_error(0, 4, ASKED).tolist() == [0.0, 0.0]


# --- Standard error ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_standard_error_is_that_of_a_share(method):
    samples = 400
    cf = condition(two_rows(P, Q), 0, mechanism=SAMPLED, samples=samples, rng=5, method=method)
    _, share = cf.row(0, 5, ASKED)
    np.testing.assert_allclose(cf.standard_error(0, 5, ASKED), np.sqrt(share * (1 - share) / samples), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_standard_error_is_the_spread_from_seed_to_seed(method):
    samples, seeds = 100, 400
    mdp, shares, errors = two_rows(P, Q), [], []
    for seed in range(seeds):
        cf = condition(mdp, 0, mechanism=SAMPLED, samples=samples, rng=seed, method=method)
        assert cf.row(0, 5, ASKED)[0] == (0, 2, 3)
        shares.append(cf.row(0, 5, ASKED)[1])
        errors.append(cf.standard_error(0, 5, ASKED))
    # The standard deviation of 400 normal values is itself known to 1 / sqrt(800) = 3.5 %; five times that.
    np.testing.assert_allclose(np.std(shares, axis=0), np.mean(errors, axis=0), rtol=0.18)
    np.testing.assert_allclose(np.mean(shares, axis=0), asked(P, Q, 0)[[0, 2, 3]], atol=5 * 0.05 / np.sqrt(seeds))


def test_the_exact_mechanism_has_no_standard_error():
    cf = condition(two_rows(P, Q), 0)
    assert cf.standard_error(0, 5, ASKED).tolist() == [0.0, 0.0, 0.0]


# --- Randomness is an argument -----------------------------------------------------------------


def bits(cf, questions):
    return {(t, s, a): (cf.row(t, s, a)[0], cf.row(t, s, a)[1].tobytes()) for t, s, a in questions}


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_rows_in_whatever_order(grid, method):
    options = {"mechanism": SAMPLED, "samples": 50, "rng": 9, "method": method}
    questions = [(t, s, a) for t in range(3) for s, a in every_pair(grid.mdp)]
    forwards = bits(tether.counterfactual(grid.mdp, grid.path, **options), questions)
    backwards = bits(tether.counterfactual(grid.mdp, grid.path, **options), reversed(questions))
    assert forwards == backwards
    other = bits(tether.counterfactual(grid.mdp, grid.path, **options | {"rng": 10}), questions)
    assert forwards != other


def test_rows_do_not_depend_on_the_company_they_are_computed_in(grid, monkeypatch):
    mechanism = tether.SampledGumbelMax(samples=50, rng=4)
    form, pairs = grid.mdp.form, np.arange(grid.mdp.n_pairs)
    row = slice(form.row_start[0], form.row_start[1])
    step = ObservedStep(2, form.next_state[row], form.probability[row], int(form.next_state[0]))
    together = mechanism.infer(step).replay(form, pairs)
    alone = [mechanism.infer(step).replay(form, pairs[x : x + 1]).probability for x in pairs]
    assert together.probability.tobytes() == np.concatenate(alone).tobytes()
    monkeypatch.setattr(
        import_module("tether.conditioning.sampled"), "_CHUNK", 5
    )  # a few entries at a time: rows are split into many chunks
    in_chunks = mechanism.infer(step).replay(form, pairs)
    assert together.probability.tobytes() == in_chunks.probability.tobytes()
    assert together.strength.tobytes() == in_chunks.strength.tobytes()


def test_noise_belongs_to_a_state_and_a_time():
    """Equal rows give equal counts at one time, and others at another."""
    mechanism = tether.SampledGumbelMax(samples=200, rng=8)
    mdp = two_rows([0.5, 0.5, 0.0], [0.5, 0.0, 0.5])
    form = mdp.form
    pairs = np.flatnonzero(np.diff(form.row_start) == 2)  # "seen" and "asked": all other rows are point masses
    seen = slice(form.row_start[pairs[0]], form.row_start[pairs[0] + 1])
    at = [
        mechanism.infer(ObservedStep(t, form.next_state[seen], form.probability[seen], 0)).replay(form, pairs)
        for t in (0, 0, 1)
    ]
    assert at[0].probability.tobytes() == at[1].probability.tobytes()
    assert at[0].probability.tobytes() != at[2].probability.tobytes()


def test_a_generator_is_a_source_of_randomness_too():
    rows = [asked(P, Q, 0, mechanism=SAMPLED, samples=100, rng=np.random.default_rng(6)) for _ in range(2)]
    assert rows[0].tobytes() == rows[1].tobytes()
    rng = np.random.default_rng(6)
    rows = [asked(P, Q, 0, mechanism=SAMPLED, samples=1000, rng=rng) for _ in range(2)]
    assert rows[0].tobytes() != rows[1].tobytes()  # the generator has moved on


def test_without_a_seed_no_two_are_alike():
    assert tether.SampledGumbelMax().key != tether.SampledGumbelMax().key  # 128 random bits


# --- Options -----------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [0, -5, 2.5, True, "10", None])
def test_samples_must_be_a_positive_whole_number(samples):
    with pytest.raises(tether.QueryError, match="samples must be a whole number ≥ 1") as error:
        asked(P, Q, 0, mechanism=SAMPLED, samples=samples)
    assert repr(samples) in str(error.value)


def test_samples_may_be_a_numpy_integer():
    assert asked(P, Q, 0, mechanism=SAMPLED, samples=np.int64(10), rng=0).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["bottom-up", None, 1])
def test_the_method_must_be_one_of_two(method):
    with pytest.raises(tether.QueryError, match=r"'top-down' or 'rejection', not") as error:
        asked(P, Q, 0, mechanism=SAMPLED, method=method)
    assert repr(method) in str(error.value)


@pytest.mark.parametrize("rng", ["seed", -1, 0.5])
def test_the_rng_must_be_a_seed(rng):
    with pytest.raises(tether.QueryError, match="rng must be a seed or a numpy Generator") as error:
        asked(P, Q, 0, mechanism=SAMPLED, rng=rng)
    assert repr(rng) in str(error.value)


def test_unknown_names_and_options():
    with pytest.raises(tether.QueryError, match=r"no mechanism 'gumbel'; there is 'gumbel-max', 'gumbel-max-sam"):
        asked(P, Q, 0, mechanism="gumbel")
    with pytest.raises(tether.QueryError, match=r"takes samples, rng, method; got seed="):
        asked(P, Q, 0, mechanism=SAMPLED, seed=1)
    with pytest.raises(tether.QueryError, match=r"'gumbel-max' takes no options; got samples="):
        asked(P, Q, 0, samples=1)
    with pytest.raises(tether.QueryError, match=r"options \(samples\) go with a mechanism given by name"):
        asked(P, Q, 0, mechanism=tether.SampledGumbelMax(rng=1), samples=1)
    with pytest.raises(tether.QueryError, match=r"must be a name .* that returns a row, not 3"):
        asked(P, Q, 0, mechanism=3)
    with pytest.raises(tether.QueryError, match=r"mechanism=tether.Maximal is a class, .* write tether.Maximal\(\)"):
        asked(P, Q, 0, mechanism=tether.Maximal)


def test_a_mechanism_by_name_and_one_built_are_the_same():
    by_name = asked(P, Q, 0, mechanism=SAMPLED, samples=77, rng=1, method="rejection")
    built = asked(P, Q, 0, mechanism=tether.SampledGumbelMax(77, 1, "rejection"))
    assert by_name.tobytes() == built.tobytes()
    assert asked(P, Q, 0).tobytes() == asked(P, Q, 0, mechanism=tether.GumbelMax()).tobytes()


def test_rejection_refuses_to_wait_for_a_miracle():
    mdp = two_rows([1e-9, 1 - 1e-9], [0.5, 0.5])
    with pytest.raises(tether.QueryError) as error:  # 1000 samples at 1e-9: 1e12 draws
        condition(mdp, 0, mechanism=SAMPLED, samples=1000, method="rejection")
    assert "t = 0: the observed outcome has probability 1e-09" in str(error.value)
    assert "1.0e+12 draws for 1,000 samples; use method='top-down'" in str(error.value)
    assert error.value.problems[0].time == 0
    assert error.value.problems[0].value == pytest.approx(1e-9)
    # Top-down needs no luck: outcome 0 became far likelier, so it stands in every draw.
    cf = condition(mdp, 0, mechanism=SAMPLED, samples=1000, rng=0)
    assert cf.row(0, 2, ASKED)[0] == (0,)


def test_mechanisms_are_frozen_and_print_in_a_line():
    mechanism = tether.SampledGumbelMax(10, rng=1)
    with pytest.raises(AttributeError):
        mechanism.samples = 20
    assert repr(mechanism) == "SampledGumbelMax(samples=10, method='top-down')"
    assert repr(tether.GumbelMax()) == "GumbelMax()"
    assert tether.GumbelMax() == tether.GumbelMax()


@pytest.mark.parametrize("mechanism", [tether.GumbelMax(), tether.SampledGumbelMax(10, rng=1)])
def test_rows_are_read_only(mechanism):
    edits = condition(two_rows(P, Q), 0, mechanism=mechanism).graph.layers[0].edits
    for array in edits.arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# --- Mechanisms of one's own -------------------------------------------------------------------


@dataclass(frozen=True)
class Stubborn:
    """What happened happens again wherever it can; where it cannot, the row stays as it is."""

    name: str = "stubborn"

    def infer(self, step):
        return StubbornPosterior(step)

    def standard_error(self, probability):
        return np.full_like(probability, 0.125)


@dataclass(frozen=True)
class StubbornPosterior:
    step: ObservedStep
    key: None = None  # rows are computed anew each time

    def changes(self, candidates):
        return candidates.meeting()

    def replay(self, form, pairs):
        rows, strength = [], []
        for pair in pairs:
            entries = slice(form.row_start[pair], form.row_start[pair + 1])
            nominal, hit = form.probability[entries], form.next_state[entries] == self.step.outcome
            rows.append(hit.astype(float) if hit.any() else nominal)
            strength.append(1 - nominal[hit].sum() if hit.any() else 0.0)
        return Rows.from_entries(form, pairs, np.concatenate(rows), np.array(strength))


def test_a_mechanism_of_ones_own_is_as_good_as_a_built_in_one():
    cf = condition(two_rows(P, Q), 2, mechanism=Stubborn())
    assert cf.row(0, 5, ASKED)[0] == (2,)
    assert cf.row(0, 5, ASKED)[1].tolist() == [1.0]
    assert cf.strength(0, 5, ASKED) == pytest.approx(0.6)  # 1 - Q[2]
    assert cf.standard_error(0, 5, ASKED).tolist() == [0.125]
    assert cf.reachable(1) == (2,)
    assert "stubborn" in repr(cf)
    # Where the outcome is impossible: nominal.
    assert cf.mechanism == Stubborn()
    assert dense(condition(two_rows(P, Q), 4, mechanism=Stubborn()).row(0, 5, ASKED), 5).tolist() == pytest.approx(Q)


@dataclass(frozen=True)
class Forgetful(Stubborn):
    """Nothing is inferred: even the observed action may have another outcome."""

    name: str = "forgetful"

    def infer(self, step):
        return ForgetfulPosterior(step)


@dataclass(frozen=True)
class ForgetfulPosterior(StubbornPosterior):
    def replay(self, form, pairs):
        nominal = [form.probability[form.row_start[pair] : form.row_start[pair + 1]] for pair in pairs]
        return Rows.from_entries(form, pairs, np.concatenate(nominal), np.zeros(len(pairs)))


def test_a_mechanism_that_does_not_agree_with_the_episode_is_refused_with_the_time(grid):
    message = (
        r"^t = \d+: the mechanism's row does not give the observed action in the observed state its observed outcome"
    )
    with pytest.raises(tether.QueryError, match=message) as error:
        tether.counterfactual(grid.mdp, grid.path, mechanism=Forgetful())
    (problem,) = error.value.problems
    assert problem.place == f"t = {problem.time}"
    assert not problem.what.startswith("t =")


@dataclass(frozen=True)
class Changed(Stubborn):
    """The rows of `Stubborn`, with the probabilities of other pairs than the observed one changed."""

    name: str = "changed"
    change: Any = None
    key: Any = None

    def infer(self, step):
        return ChangedPosterior(step, self.key, self.change)


@dataclass(frozen=True)
class ChangedPosterior(StubbornPosterior):
    change: Any = None

    def changes(self, candidates):
        return candidates.all()

    def replay(self, form, pairs):
        rows = super().replay(form, pairs)
        after, chance, other = rows.next_state.copy(), rows.probability.copy(), rows.pairs != self.step.pair
        for i in np.flatnonzero(other):
            items = slice(rows.start[i], rows.start[i + 1])
            after[items], chance[items] = self.change(after[items], chance[items])
        return Rows(rows.pairs, rows.start, after, chance, rows.strength)


def flipped(after, chance):
    return after, np.where(np.arange(chance.size) == 0, -chance, chance)


WRONG = [
    (lambda after, chance: (after, chance / 2), r"does not sum to 1: state 5, action 'asked', .* sum to 0\.5"),
    (flipped, r"has a negative probability: state 5, action 'asked'"),
    (lambda after, chance: (after, chance * np.nan), r"that is no number: state 5, action 'asked'"),
    (lambda after, chance: (after * 0 + 5, chance), r"leads to a state that the model's row cannot lead to: state 5"),
    (lambda after, chance: (after * 0 - 1, chance), r"leads to a state that the model's row cannot lead to: state 5"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_rows_of_a_mechanism_of_ones_own_are_checked(change, message):
    with pytest.raises(tether.QueryError, match=rf"^t = 0: the mechanism's row .*{message}") as error:
        condition(two_rows(P, Q), 2, mechanism=Changed(change=change))
    (problem,) = error.value.problems
    assert (problem.time, problem.state, problem.place) == (0, 5, "t = 0")


def test_a_row_lists_its_next_states_in_their_order(grid):
    class Backwards(ChangedPosterior):
        def replay(self, form, pairs):
            rows = tether.GumbelMax().infer(self.step).replay(form, pairs)
            order = np.lexsort((-rows.next_state, np.repeat(np.arange(pairs.size), np.diff(rows.start))))
            return Rows(pairs, rows.start, rows.next_state[order], rows.probability[order], rows.strength)

    class Reversed(Stubborn):
        def infer(self, step):
            return Backwards(step)

    with pytest.raises(tether.QueryError, match=r"^t = 0: the mechanism's row does not list its next states in their"):
        tether.counterfactual(grid.mdp, grid.path, mechanism=Reversed())


def test_a_mechanism_must_return_the_rows_it_is_asked_for():
    class Short(ChangedPosterior):
        def replay(self, form, pairs):
            return Rows.nominal(form, pairs[:1])

    class Few(Stubborn):
        def infer(self, step):
            return Short(step)

    with pytest.raises(tether.QueryError, match="t = 0: the mechanism must return one row for each pair"):
        condition(two_rows(P, Q), 2, mechanism=Few())


def upwards(after, chance):
    return after, np.full(chance.size, 1.0 / chance.size)


def as_they_are(after, chance):
    return after, chance


@pytest.mark.parametrize("hashable", [True, False])
def test_mechanisms_with_equal_keys_do_not_get_each_others_rows(hashable):
    kind = Changed if hashable else type("Unhashable", (Changed,), {"__hash__": None})
    mdp = two_rows(P, Q)
    for _ in range(2):
        rows = [
            dense(condition(mdp, 4, mechanism=kind(change=change, key="mine")).row(0, 5, ASKED), 5)
            for change in (as_they_are, upwards)
        ]
        assert rows[0].tolist() == pytest.approx(Q)
        np.testing.assert_allclose(rows[1][np.array(Q) > 0], 1.0 / np.count_nonzero(Q))
