"""From arrays to a model: dense and sparse, rewards in every shape, and every way they can be wrong."""

import gc
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether import MDP

# Three states, two actions; the second is not available in state 1, and state 2 is left by neither.
P = np.array(
    [
        [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]],
        [[0.125, 0.0, 0.875], [0.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)
S, A = 3, 2
SPARSE = [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array]


def matrices(kind, array=P):
    return [kind(array[:, a, :]) for a in range(array.shape[1])]


def refuse(*args, **options):
    with pytest.raises(tether.ModelError) as caught:
        MDP.from_arrays(*args, **options)
    return caught.value


def message(*args, **options):
    return str(refuse(*args, **options))


def same(one, two):
    """Whether two models are the same, bit for bit."""
    fields = ("pair_start", "pair_action", "row_start", "next_state", "probability")
    return (
        one.states == two.states
        and one.actions == two.actions
        and all(np.array_equal(getattr(one.form, f), getattr(two.form, f)) for f in fields)
        and np.array_equal(one.rewards.values, two.rewards.values)
        and one.rewards.by_entry == two.rewards.by_entry
    )


def test_dense():
    mdp = MDP.from_arrays(P)
    assert (mdp.n_states, mdp.n_actions, mdp.n_pairs, mdp.n_transitions) == (3, 2, 5, 8)
    assert list(mdp.states) == [0, 1, 2]
    assert list(mdp.actions) == [0, 1]
    assert mdp.actions_in(1) == (0,)
    assert mdp.row(0, 0)[0] == (0, 1, 2)
    assert mdp.row(0, 0)[1].tolist() == [0.5, 0.25, 0.25]
    assert mdp.row(1, 0)[0] == (0, 2)
    assert mdp.reward(0, 0) == 0.0


@pytest.mark.parametrize("given_p", [P.tolist(), np.asfortranarray(P), P.astype(np.float32)])
def test_dense_of_any_kind(given_p):
    assert same(MDP.from_arrays(given_p), MDP.from_arrays(P))


def test_whole_numbers_and_truth_values_are_probabilities():
    move = np.eye(2, dtype=int).reshape(2, 1, 2)
    assert same(MDP.from_arrays(move), MDP.from_arrays(move.astype(float)))
    assert same(MDP.from_arrays(move.astype(bool)), MDP.from_arrays(move.astype(float)))


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse(kind):
    assert same(MDP.from_arrays(matrices(kind)), MDP.from_arrays(P))
    assert same(MDP.from_arrays(tuple(matrices(kind))), MDP.from_arrays(P))


def test_an_object_array_of_sparse_matrices():
    boxed = np.empty(2, dtype=object)
    boxed[:] = matrices(sp.csr_matrix)
    assert same(MDP.from_arrays(boxed), MDP.from_arrays(P))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_untidy_sparse_matrices_are_tidied_but_left_alone(kind):
    """Row 0 has its columns out of order and a stored zero; the user's matrix keeps both."""
    data, indices, indptr = [0.25, 0.5, 0.25, 0.0, 0.125, 0.875, 1.0], [2, 0, 1, 1, 0, 2, 2], [0, 3, 6, 7]
    untidy = kind((np.array(data), np.array(indices), np.array(indptr)), shape=(3, 3))
    other = kind(P[:, 1, :])
    mdp = MDP.from_arrays([untidy, other])
    assert same(mdp, MDP.from_arrays(P))
    assert untidy.data.tolist() == data
    assert untidy.indices.tolist() == indices
    assert untidy.indptr.tolist() == indptr
    untidy.data[:] = 9.0
    assert same(mdp, MDP.from_arrays(P))
    assert untidy.data.flags.writeable


def test_dense_input_is_left_alone():
    given_p, given_r = P.copy(), np.arange(6.0).reshape(3, 2)
    mdp = MDP.from_arrays(given_p, given_r)
    assert np.array_equal(given_p, P)
    assert given_p.flags.writeable
    assert given_r.flags.writeable
    given_p[:] = 0.0
    given_r[:] = 99.0
    assert same(mdp, MDP.from_arrays(P, np.arange(6.0).reshape(3, 2)))


def test_rows_are_normalised_in_a_copy():
    given_p = np.array([[[1 - 1e-9]]])
    mdp = MDP.from_arrays(given_p)
    assert mdp.row(0, 0)[1].tolist() == [1.0]
    assert given_p.tolist() == [[[1 - 1e-9]]]


def test_labels():
    mdp = MDP.from_arrays(P, states=["a", "b", ("c", 1)], actions=np.array(["x", "y"]))
    assert mdp.row("b", "x")[0] == ("a", ("c", 1))
    assert mdp.actions_in("a") == ("x", "y")


def test_terminal():
    open_end = P.copy()
    open_end[2] = 0.0
    assert same(MDP.from_arrays(open_end, terminal=[2]), MDP.from_arrays(P))
    named = MDP.from_arrays(open_end, states=["a", "b", "end"], terminal=["end"])
    assert named.row("end", 1)[0] == ("end",)


# Rewards.

SA = np.arange(6.0).reshape(S, A)
SAS = np.arange(18.0).reshape(S, A, S)


@pytest.mark.parametrize(
    ("R", "expected", "horizon"),
    [
        (SA, lambda s, a, j, t: SA[s, a], None),
        (SAS, lambda s, a, j, t: SAS[s, a, j], None),
        (np.stack([SA, -SA, 2 * SA, SA]), lambda s, a, j, t: np.stack([SA, -SA, 2 * SA, SA])[t, s, a], 4),
        (np.stack([SAS, -SAS]), lambda s, a, j, t: np.stack([SAS, -SAS])[t, s, a, j], 2),
    ],
    ids=["sa", "sas", "tsa", "tsas"],
)
def test_rewards_in_four_shapes(R, expected, horizon):
    mdp = MDP.from_arrays(P, R)
    assert mdp.rewards.horizon == mdp.horizon == horizon
    for t in range(horizon or 1):
        for s, a, j in np.argwhere(P > 0):
            assert mdp.reward(s, a, j, t=t) == expected(s, a, j, t)
    for twin in (MDP.from_arrays(matrices(sp.csr_array), R), MDP.from_arrays(P, R.tolist())):
        assert same(mdp, twin)


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_rewards(kind):
    assert same(MDP.from_arrays(P, matrices(kind, SAS)), MDP.from_arrays(P, SAS))
    assert same(MDP.from_arrays(matrices(kind), matrices(kind, SAS)), MDP.from_arrays(P, SAS))


def test_sparse_rewards_are_0_where_nothing_is_stored():
    """Whatever transitions there are: an entry that is not stored is a reward of 0, one that P excludes is not read."""
    R = np.zeros((S, A, S))
    R[0, 0, 1] = 5.0
    R[1, 1, 1] = np.nan
    mdp = MDP.from_arrays(P, matrices(sp.csr_matrix, R))
    assert [mdp.reward(0, 0, j) for j in range(3)] == [0.0, 5.0, 0.0]


def test_an_action_that_is_available_nowhere():
    never = np.concatenate([P, np.zeros((S, 1, S))], axis=1)
    mdp = MDP.from_arrays(matrices(sp.csr_array, never), matrices(sp.csr_array, never))
    assert mdp.n_actions == 3
    assert mdp.n_pairs == 5
    assert mdp.reward(1, 0, 2) == 0.875


def test_rewards_are_looked_at_only_where_something_happens():
    blank = np.where(P.sum(axis=2) > 0, SA, np.nan)
    assert np.isnan(blank).any()
    assert same(MDP.from_arrays(P, blank), MDP.from_arrays(P, SA))
    assert same(MDP.from_arrays(P, np.where(P > 0, SAS, np.inf)), MDP.from_arrays(P, SAS))


def test_rewards_that_do_not_depend_on_the_next_state_are_kept_by_pair():
    assert same(MDP.from_arrays(P, np.repeat(SA[:, :, None], S, axis=2)), MDP.from_arrays(P, SA))
    in_time = np.repeat(np.stack([SA, -SA])[..., None], S, axis=3)
    assert same(MDP.from_arrays(P, in_time), MDP.from_arrays(P, np.stack([SA, -SA])))


def test_terminal_states_earn_nothing_at_any_time():
    open_end = P.copy()
    open_end[2] = 0.0
    R = np.full((2, S, A, S), np.nan)
    R[:, :2] = np.arange(24.0).reshape(2, 2, A, S)
    mdp = MDP.from_arrays(open_end, R, terminal=[2])
    assert [mdp.reward(2, 1, t=t) for t in (0, 1)] == [0.0, 0.0]
    assert mdp.reward(1, 0, 2, t=1) == R[1, 1, 0, 2]


def test_a_cube_is_read_as_sas_unless_said_otherwise():
    cube_p = np.zeros((2, 2, 2))
    cube_p[:, :, 1] = 1.0
    cube_r = np.arange(8.0).reshape(2, 2, 2)
    assert MDP.from_arrays(cube_p, cube_r).reward(0, 1) == cube_r[0, 1, 1]
    assert MDP.from_arrays(cube_p, cube_r, reward_axes="sas").reward(0, 1) == cube_r[0, 1, 1]
    in_time = MDP.from_arrays(cube_p, cube_r, reward_axes="tsa")
    assert in_time.horizon == 2
    assert in_time.reward(0, 1, t=1) == cube_r[1, 0, 1]


def test_reward_axes_are_checked():
    assert message(P, SA, reward_axes="sas") == "R has shape (3, 2); expected (S, A, S) with S = 3, A = 2"
    assert message(P, SA, reward_axes="as") == "reward_axes= must be one of 'sa', 'sas', 'tsa', 'tsas', not 'as'"


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((), ""),
        ((3,), "; for a reward that depends on the state alone, repeat it for each action: "
               "np.repeat(R[:, None], 2, axis=1)"),
        ((2, 3), "; this looks like (A, S): pass R.T"),
        ((3, 3), ""),
        ((4, 3, 3), ""),
        ((0, 3, 2), ""),
        ((1, 1, 3, 2, 3), ""),
    ],
)  # fmt: skip
def test_rewards_of_the_wrong_shape(shape, hint):
    assert message(P, np.zeros(shape)) == (
        f"R has shape {shape}; expected (S, A) or (S, A, S) or (T, S, A) or (T, S, A, S) with S = 3, A = 2{hint}"
    )


def test_the_hint_for_rewards_by_state_works():
    R = np.array([1.0, 2.0, 3.0])
    mdp = MDP.from_arrays(P, np.repeat(R[:, None], 2, axis=1))
    assert [mdp.reward(s, 0) for s in range(3)] == [1.0, 2.0, 3.0]


def test_sparse_rewards_of_the_wrong_shape():
    one = sp.csr_matrix((3, 3))
    assert message(P, [one]) == "R has sparse matrices of shapes (3, 3); expected 2 of (3, 3)"
    assert message(P, [one, sp.csr_matrix((3, 2))]) == (
        "R has sparse matrices of shapes (3, 3), (3, 2); expected 2 of (3, 3)"
    )
    assert message(P, one) == (
        "R is one sparse matrix; give a list with one sparse (S, S) matrix per action: [R0, R1, …]"
    )
    assert message(P, [one, SA]) == "R[1] is a ndarray, not a sparse matrix as the others are"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_not_finite(value):
    R = SA.copy()
    R[1, 0] = value
    error = refuse(P, R, states="abc", actions="xy")
    assert str(error) == f"state 'b', action 'x': the reward {value} is not a finite number"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state, problem.time) == ("b", "x", None, None)
    assert str(problem.value) == str(value)


def test_rewards_that_are_not_finite_name_time_and_next_state():
    R = np.zeros((4, S, A, S))
    R[2, 1, 0, 2] = np.nan
    R[3, 0, 1, 1] = np.inf
    error = refuse(P, R)
    assert str(error).splitlines() == [
        "2 problems:",
        "  - state 1, action 0, next state 2, t = 2: the reward nan is not a finite number",
        "  - state 0, action 1, next state 1, t = 3: the reward inf is not a finite number",
    ]
    assert [(p.state, p.action, p.next_state, p.time) for p in error.problems] == [(1, 0, 2, 2), (0, 1, 1, 3)]
    in_time = np.zeros((4, S, A))
    in_time[0, 2, 1] = np.nan
    assert message(P, in_time) == "state 2, action 1, t = 0: the reward nan is not a finite number"


# Probabilities that are none.


def changed(index, value):
    array = P.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (-0.5, "-0.5 is negative"),
        (np.nan, "nan is not a finite number"),
        (np.inf, "inf is not a finite number"),
        (-np.inf, "-inf is not a finite number"),
    ],
)
@pytest.mark.parametrize("as_given", [lambda array: array, lambda array: matrices(sp.csr_matrix, array)])
def test_a_bad_probability(value, what, as_given):
    error = refuse(as_given(changed((1, 0, 2), value)), states="abc", actions="xy")
    assert str(error) == f"state 'b', action 'x', next state 'c': the probability {what}"
    (problem,) = error.problems
    assert (problem.state, problem.action, problem.next_state, problem.row) == ("b", "x", "c", None)


@pytest.mark.parametrize("as_given", [lambda array: array, lambda array: matrices(sp.coo_array, array)])
def test_rows_that_do_not_sum_to_1(as_given):
    array = changed((0, 1, 1), 0.9)
    array[1, 0, 2] = 0.9
    error = refuse(as_given(array))
    assert str(error).splitlines() == [
        "2 problems:",
        "  - state 0, action 1: probabilities sum to 0.9; expected 1 (tolerance 1e-06)",
        "  - state 1, action 0: probabilities sum to 1.025; expected 1 (tolerance 1e-06)",
    ]
    assert [(p.state, p.action, p.value) for p in error.problems] == [(0, 1, 0.9), (1, 0, 1.025)]


def test_a_transition_stored_twice():
    """In CSR that is two entries; in COO, by its own convention, a sum."""
    twice = sp.csr_matrix((np.array([0.5, 0.5]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    error = refuse([twice])
    assert str(error) == ("state 0, action 0, next state 0: this transition is given twice; add the two up or drop one")
    assert twice.nnz == 2
    summed = sp.coo_matrix(([0.5, 0.5], ([0, 0], [0, 0])), shape=(1, 1))
    assert MDP.from_arrays([summed]).row(0, 0)[1].tolist() == [1.0]


def test_a_state_without_rows_that_can_be_reached():
    array = changed(2, 0.0)
    error = refuse(array)
    assert str(error) == (
        "state 0, action 0, next state 2: no row says what happens in state 2; "
        "give its rows, or declare it terminal (absorbing, reward 0): terminal=[2]"
    )
    assert error.problems[0].value == 2
    assert MDP.from_arrays(array, terminal=[2]).row(2, 0)[0] == (2,)


def test_a_state_without_rows_that_cannot_be_reached_is_no_problem():
    array = np.zeros((2, 1, 2))
    array[0, 0, 0] = 1.0
    assert MDP.from_arrays(array).actions_in(1) == ()


@pytest.mark.parametrize(
    "empty", [[], np.zeros((0, 0, 0)), np.zeros((2, 0, 2)), np.zeros((2, 1, 2)), [sp.csr_array((2, 2))]]
)
def test_an_empty_model(empty):
    assert message(empty) == "the model is empty: it has no transitions"


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((2, 2), ""),
        ((3, 2, 2), "; this looks like (A, S, S): pass P.transpose(1, 0, 2)"),
        ((2, 2, 3), ""),
        ((1, 2, 1, 2), ""),
    ],
)
def test_probabilities_of_the_wrong_shape(shape, hint):
    assert message(np.ones(shape)) == (
        f"P has shape {shape}; expected (S, A, S), or one sparse (S, S) matrix per action{hint}"
    )


def test_the_hint_for_the_other_order_works():
    by_action = np.stack([P[:, 0, :], P[:, 1, :]])
    assert message(by_action).endswith("pass P.transpose(1, 0, 2)")
    assert same(MDP.from_arrays(by_action.transpose(1, 0, 2)), MDP.from_arrays(P))


def test_sparse_matrices_of_the_wrong_shape():
    eye = sp.eye_array(3).tocsr()
    assert message(eye) == "P is one sparse matrix; give a list with one sparse (S, S) matrix per action: [P0, P1, …]"
    assert message([eye, sp.csr_array((4, 4))]) == (
        "P[1] has shape (4, 4); expected (3, 3), a row and a column for each of the 3 rows of P[0]"
    )
    assert message([sp.csr_array((3, 4))]).startswith("P[0] has shape (3, 4); expected (3, 3)")
    assert message([eye, np.eye(3)]) == "P[1] is a ndarray, not a sparse matrix as the others are"
    assert message({"go": eye}) == ("P is a dict; give a list with one sparse (S, S) matrix per action, and actions=")


def test_what_is_no_array_of_numbers():
    assert message(P.astype(str)).startswith("P is not an array of numbers: its data type is <U")
    assert message(P.astype(complex)) == "P is not an array of numbers: its data type is complex128"
    assert message([[[1.0], [1.0, 2.0]]]).startswith("P is not an array of numbers: ")
    assert message([[["a"]]]).startswith("P is not an array of numbers: ")
    assert message(P, SA.astype(str)).startswith("R is not an array of numbers: ")
    assert message(P, [[object()] * 2] * 3).startswith("R is not an array of numbers: ")
    assert message([sp.csr_array(P[:, 0, :] * 1j)]) == "P is not an array of numbers: its data type is complex128"


def test_labels_of_the_wrong_number():
    assert message(P, states=["a"]) == "states= gives 1 name, but the model has 3 states"
    assert message(P, actions="xyz") == "actions= gives 3 names, but the model has 2 actions"


def test_many_problems_are_counted():
    n = 500
    error = refuse(np.full((n, 1, n), 1.0))
    assert error.total == n
    assert str(error).startswith("500 problems:\n  - state 0, action 0: probabilities sum to 500; expected 1")
    assert str(error).endswith("… and 492 more")


weights = st.integers(1, 4).flatmap(
    lambda n: st.integers(1, 3).flatmap(
        lambda m: st.lists(st.integers(0, 3), min_size=n * m * n, max_size=n * m * n).map(
            lambda flat: np.array(flat, dtype=float).reshape(n, m, n)
        )
    )
)


@given(weights, st.sampled_from(SPARSE))
def test_dense_and_sparse_agree(array, kind):
    array[:, 0, 0] += 1.0
    array /= np.where(array.sum(axis=2, keepdims=True) > 0, array.sum(axis=2, keepdims=True), 1.0)
    mdp = MDP.from_arrays(array, array)
    assert same(mdp, MDP.from_arrays(matrices(kind, array), matrices(kind, array)))
    assert mdp.n_pairs == np.count_nonzero(array.any(axis=2))
    for s, a in np.argwhere(array.any(axis=2)):
        states, probabilities = mdp.row(s, a)
        assert states == tuple(np.flatnonzero(array[s, a]))
        assert probabilities == pytest.approx(array[s, a][array[s, a] > 0], abs=1e-15)


def large(n_states, n_actions, n_successors):
    """Random sparse matrices, tidy: successors scattered over all states, and a reward for each pair."""
    rng = np.random.default_rng(7)
    made = []
    for _ in range(n_actions):
        first = rng.integers(0, n_states // n_successors, size=(n_states, n_successors))
        columns = first + n_states // n_successors * np.arange(n_successors)  # one in each fifth: sorted, distinct
        chances = rng.random((n_states, n_successors)) + 0.01
        chances /= chances.sum(axis=1, keepdims=True)
        start = np.arange(0, n_states * n_successors + 1, n_successors)
        made.append(sp.csr_array((chances.reshape(-1), columns.reshape(-1), start), shape=(n_states, n_states)))
    return made, rng.random((n_states, n_actions)), rng


def walk(mdp, steps, rng):
    """A path drawn from the model."""
    states, actions = [mdp.states[0]], []
    for _ in range(steps):
        actions.append(mdp.actions[int(rng.integers(mdp.n_actions))])
        after, probability = mdp.row(states[-1], actions[-1])
        states.append(after[int(rng.choice(len(after), p=probability))])
    return tether.Path(states, actions)


@pytest.mark.compiled
def test_a_large_model_is_built_and_conditioned_within_three_times_its_own_memory():
    tiny, rewards, rng = large(10, 2, 5)
    mdp = MDP.from_arrays(tiny, rewards)
    tether.counterfactual(mdp, walk(mdp, 3, rng)).row(0, 1, 0)  # compiles the kernels
    given_p, given_r, rng = large(200_000, 4, 5)
    gc.collect()
    tracemalloc.start()
    try:
        mdp = MDP.from_arrays(given_p, given_r)
        built = tracemalloc.get_traced_memory()[1]
        path = walk(mdp, 20, rng)
        cf = tether.counterfactual(mdp, path)
        for t in range(20):
            cf.row(t, path.states[t], path.actions[t])
            cf.strength(t, 199_999 - t, 3)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert mdp.n_transitions == 4_000_000
    assert mdp.nbytes > 4_000_000 * 12
    assert built <= 3 * mdp.nbytes
    assert peak <= 3 * mdp.nbytes
    assert kept <= 1.5 * mdp.nbytes
