"""Models as arrays: every order of the axes, never guessed; no pickles; the same model comes back."""

import io
import struct
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modelfiles import assert_same, models
from scipy import io as scipy_io
from scipy import sparse

import tether
from tether.errors import FileError
from tether.io import read_arrays, write_arrays
from tether.io.names_as_text import text_of

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

# Three states, two actions; action 1 is not available in state 2.
P = np.zeros((3, 2, 3))
P[:, 0] = np.eye(3)
P[0, 1] = [0.25, 0.75, 0.0]
P[1, 1] = [0.0, 0.5, 0.5]
R = np.arange(18.0).reshape(3, 2, 3)
MEANT = tether.MDP.from_arrays(P, R)


def moved(array, order):
    """(S, A, S) in another order."""
    return {"SAS": array, "ASS": array.transpose(1, 0, 2), "SSA": array.transpose(0, 2, 1)}[order]


@pytest.fixture(params=["npz", "mat"])
def save(request, tmp_path):
    """Write arrays to a file of either kind; give its name."""

    def save(**arrays):
        file = str(tmp_path / f"a.{request.param}")
        if request.param == "npz":
            np.savez(file, **arrays)
        else:
            scipy_io.savemat(file, arrays)
        return file

    return save


def message(file, kind=tether.ModelError, **options):
    with pytest.raises(kind) as caught:
        read_arrays(file, **options)
    assert all(problem.file == file for problem in caught.value.problems)
    return str(caught.value).removeprefix(f"{file}: ")


# --- Orders ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["SAS", "ASS", "SSA"])
@pytest.mark.parametrize("said", [False, True])
def test_the_shape_tells_the_order(save, order, said):
    file = save(P=moved(P, order), R=moved(R, order))
    assert_same(read_arrays(file, order=order if said else None), MEANT)


@pytest.mark.parametrize("reward_order", ["SAS", "ASS", "SSA"])
def test_rewards_may_have_another_order_than_transitions(save, reward_order):
    assert_same(read_arrays(save(P=moved(P, "ASS"), R=moved(R, reward_order))), MEANT)


def test_an_order_that_does_not_fit_is_an_error(save):
    file = save(P=P, R=R)
    assert message(file, order="ASS") == "P has shape (3, 2, 3), which is not order='ASS'; what fits is 'SAS'"
    expected = "R has shape (3, 2, 3) for 3 states and 2 actions, which is not reward_order='SA'; what fits is 'SAS'"
    assert message(file, reward_order="SA") == expected
    with pytest.raises(tether.QueryError, match="order= must be one of 'SAS', 'ASS', 'SSA', not 'sas'"):
        read_arrays(file, order="sas")
    with pytest.raises(tether.QueryError, match="reward_order= must be one of 'S', 'SA', 'AS'"):
        read_arrays(file, reward_order="sa")


def test_as_many_actions_as_states_is_never_guessed(save):
    rng = np.random.default_rng(0)
    cube = rng.random((2, 2, 2))
    cube /= cube.sum(axis=2, keepdims=True)
    rewards = rng.random((2, 2, 2))
    file = save(P=cube, R=rewards)
    assert message(file) == (
        "P has shape (2, 2, 2), which fits 'SAS', 'ASS', 'SSA'; say which it is: order='SAS' or order='ASS' or "
        "order='SSA'"
    )
    assert read_arrays(file, order="SAS").row(0, 1)[1].tolist() == pytest.approx(cube[0, 1])
    assert read_arrays(file, order="SAS").reward(0, 1, 0) == rewards[0, 1, 0]
    assert read_arrays(file, order="ASS").row(0, 1)[1].tolist() == pytest.approx(cube[1, 0])
    assert read_arrays(file, order="ASS").reward(0, 1, 0) == rewards[1, 0, 0]
    assert read_arrays(file, order="ASS", reward_order="SAS").reward(0, 1, 0) == rewards[0, 1, 0]


def test_rewards_of_pairs_with_as_many_actions_as_states_are_not_guessed_either(save):
    file = save(P=np.full((2, 2, 2), 0.5), R=np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert message(file, order="ASS") == (
        "R has shape (2, 2) for 2 states and 2 actions, which fits 'SA', 'AS'; say which it is: reward_order='SA' or "
        "reward_order='AS'"
    )
    assert read_arrays(file, order="ASS", reward_order="SA").reward(0, 1) == 2.0
    assert read_arrays(file, order="ASS", reward_order="AS").reward(0, 1) == 3.0


def test_one_state_and_one_action_leave_nothing_to_guess(save):
    mdp = read_arrays(save(P=np.ones((1, 1, 1)), R=np.array([[7.0]])))
    assert mdp.reward(0, 0) == 7.0


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (np.array([1.0, 2.0, 3.0]), [[1, 1], [2, 2], [3]]),
        (np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [[1, 2], [3, 4], [5]]),
        (np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]), [[1, 2], [3, 4], [5]]),
        (np.array([[1.0], [2.0], [3.0]]), [[1, 1], [2, 2], [3]]),  # a column, as MATLAB has vectors
        (np.array([[1.0, 2.0, 3.0]]), [[1, 1], [2, 2], [3]]),
    ],
)
def test_rewards_of_states_and_of_pairs(save, rewards, expected):
    mdp = read_arrays(save(P=P, R=rewards))
    assert [[mdp.reward(s, a) for a in mdp.actions_in(s)] for s in mdp.states] == expected


def test_rewards_that_depend_on_time(save):
    timed = np.arange(24.0).reshape(4, 3, 2)
    file = save(P=P, R=timed)
    assert "which fits none of" in message(file)
    mdp = read_arrays(file, reward_order="TSA")
    assert (mdp.horizon, mdp.reward(1, 0, t=3)) == (4, timed[3, 1, 0])


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"P": np.zeros((2, 3, 4))}, "P has shape (2, 3, 4), which fits none of 'SAS', 'ASS', 'SSA'"),
        ({"P": np.zeros((2, 3))}, "P has shape (2, 3); expected (S, A, S), (A, S, S) or (S, S, A)"),
        (
            {"P": P, "R": np.zeros((4, 5))},
            "R has shape (4, 5) for 3 states and 2 actions, which fits none of 'S', 'SA'",
        ),
        ({"P": P * 0.5}, "5 problems:"),
        ({"P": P * np.nan}, "18 problems:"),
    ],
)
def test_shapes_and_numbers_that_are_no_model(save, arrays, expected):
    assert message(save(**{"R": R} | arrays)).startswith(expected)


def test_problems_of_the_model_name_the_file(save):
    wrong = P.copy()
    wrong[0, 1] = [0.25, 0.5, 0.0]
    expected = "state 0, action 1: probabilities sum to 0.75; expected 1 (tolerance 1e-06)"
    assert message(save(P=wrong, R=R)) == expected
    assert read_arrays(save(P=wrong, R=R), tolerance=0.3).describe().normalised_rows == 1


# --- Names and labels --------------------------------------------------------------------------


def test_arrays_of_other_names(save):
    file = save(T=P, gain=R)
    assert_same(read_arrays(file, transitions="T", rewards="gain"), MEANT)
    expected = "there is no array 'P'; found 'T', 'gain'; say which holds the transitions: transitions='<its name>'"
    assert message(file, FileError) == expected
    expected = (
        "there is no array 'R'; found 'T', 'gain'; say which holds the rewards: rewards='<its name>', or rewards=None "
        "if there are none"
    )
    assert message(file, FileError, transitions="T") == expected
    assert not read_arrays(file, transitions="T", rewards=None).rewards.values.any()


def test_labels_given_or_in_the_file(save):
    file = save(P=P, R=R, states=np.array(["a", "b", "c"]), actions=[[5], [6]])
    mdp = read_arrays(file, states="xyz", actions=["stay", "go"])
    assert (list(mdp.states), list(mdp.actions)) == (["x", "y", "z"], ["stay", "go"])
    mdp = read_arrays(file)
    assert (list(mdp.states), list(mdp.actions)) == (["a", "b", "c"], [5, 6])


@pytest.mark.parametrize("other", [np.array(3), np.eye(3), np.array([0.5, 1.5, 2.5])])
def test_something_else_called_states_is_left_alone(save, other):
    assert list(read_arrays(save(P=P, R=R, states=other)).states) == [0, 1, 2]


def test_terminal_states(save):
    ending = P.copy()
    ending[2] = 0
    assert "no row says what happens in state 2" in message(save(P=ending, R=R))
    assert read_arrays(save(P=ending, R=R), terminal=[2]).actions_in(2) == (0, 1)


# --- One matrix per action ----------------------------------------------------------------------


def cells(matrices):
    made = np.empty(len(matrices), dtype=object)
    made[:] = matrices
    return made


@pytest.mark.parametrize("how", [np.asarray, sparse.csc_matrix, sparse.csr_array])
@pytest.mark.parametrize("reward_how", [np.asarray, sparse.csc_matrix])
def test_cell_arrays_as_mdp_toolboxes_write_them(tmp_path, how, reward_how):
    file = str(tmp_path / "a.mat")
    by_action = cells([how(P[:, a]) for a in range(2)])
    scipy_io.savemat(file, {"P": by_action, "R": cells([reward_how(R[:, a]) for a in range(2)])})
    assert_same(read_arrays(file), MEANT)
    assert_same(read_arrays(file, order="ASS"), MEANT)
    assert message(file, order="SAS") == "P has one matrix per action, which is order='ASS', not 'SAS'"
    vectors = cells([np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])])
    scipy_io.savemat(file, {"P": by_action, "R": vectors})
    assert [read_arrays(file).reward(0, a) for a in range(2)] == [1.0, 4.0]


def test_cells_of_both_kinds(tmp_path):
    file = str(tmp_path / "a.mat")
    scipy_io.savemat(file, {"P": cells([P[:, 0], sparse.csc_matrix(P[:, 1])]), "R": R})
    assert_same(read_arrays(file), MEANT)


def test_one_matrix_is_one_action(tmp_path):
    file = str(tmp_path / "a.mat")
    for only in (np.eye(3), sparse.csc_matrix(np.eye(3))):
        scipy_io.savemat(file, {"P": only, "R": sparse.csc_matrix(np.array([[1.0], [2.0], [3.0]]))})
        mdp = read_arrays(file)
        assert (mdp.n_states, mdp.n_actions, mdp.reward(2, 0)) == (3, 1, 3.0)


@pytest.mark.parametrize(
    ("given_p", "given_r", "expected"),
    [
        (cells([np.eye(3), np.eye(2)]), R, "P[1] has shape (2, 2); expected one square (S, S) matrix per action"),
        (cells([np.ones((2, 3))]), R, "P[0] has shape (2, 3); expected one square (S, S) matrix per action"),
        (P, cells([np.eye(3)]), "R has 1 parts; expected one for each of 2 actions"),
        (
            P,
            cells([np.eye(3), np.eye(2)]),
            "the parts of R have shapes (2, 2), (3, 3); expected all (3,) or all (3, 3)",
        ),
        (np.empty(0, dtype=object), R, "P is an empty list; expected one (S, S) matrix per action"),
    ],
)
def test_cells_that_do_not_fit(tmp_path, given_p, given_r, expected):
    file = str(tmp_path / "a.mat")
    scipy_io.savemat(file, {"P": given_p, "R": given_r})
    assert message(file) == expected


# --- Writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.npz", "a.mat"])
@pytest.mark.parametrize("order", ["SAS", "ASS", "SSA"])
@in_a_folder
@given(mdp=models())
def test_a_model_comes_back(tmp_path, name, order, mdp):
    file = tmp_path / name
    write_arrays(mdp, file, order=order)
    found = read_arrays(file, order=order, reward_order=None if mdp.rewards.by_entry else "SA")
    check_back(found, mdp)


@in_a_folder
@given(mdp=models())
def test_a_model_comes_back_from_sparse_matrices(tmp_path, mdp):
    file = tmp_path / "a.mat"
    write_arrays(mdp, file, order="ASS", sparse=True)
    check_back(read_arrays(file, reward_order=None if mdp.rewards.by_entry else "SA"), mdp)


def check_back(found, mdp):
    """The same model with the same labels in the same order: text where they are not all whole numbers."""
    whole = all(type(label) is int for label in [*mdp.states, *mdp.actions])
    name = (lambda label: label) if whole else text_of
    assert list(found.states) == [name(state) for state in mdp.states]
    assert list(found.actions) == [name(action) for action in mdp.actions]
    assert_same(found, mdp, name)


def test_other_options_of_writing(tmp_path):
    mdp = tether.cases.grid_world().mdp
    with pytest.raises(tether.QueryError, match="order= must be one of 'SAS', 'ASS', 'SSA', not 'AS'"):
        write_arrays(mdp, tmp_path / "a.npz", order="AS")
    with pytest.raises(tether.QueryError, match="sparse=True writes one matrix per action"):
        write_arrays(mdp, tmp_path / "a.npz", order="ASS", sparse=True)
    with pytest.raises(FileError, match=r"cannot hold what this model has: the discount 0\.5"):
        write_arrays(mdp.with_objective(discount=0.5), tmp_path / "a.npz")
    with pytest.raises(FileError, match=r"expected \.npz or \.mat"):
        write_arrays(mdp, tmp_path / "a.txt")
    with pytest.raises(FileError, match="is written like the name"):
        write_arrays(mdp.with_names(actions=[1, "1", 2, 3]), tmp_path / "a.npz")
    many = tether.MDP.from_table(range(20_000), [0] * 20_000, range(20_000), [1.0] * 20_000)
    with pytest.raises(FileError, match="dense arrays of this model would hold 400,000,000 numbers; write a table"):
        write_arrays(many, tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []
    write_arrays(many, tmp_path / "a.mat", order="ASS", sparse=True)
    assert read_arrays(tmp_path / "a.mat").n_transitions == 20_000
    write_arrays(mdp, tmp_path / "a.data", kind="npz")
    assert_same(read_arrays(tmp_path / "a.data", kind="npz"), mdp)


# --- Files that are not what they say ------------------------------------------------------------


class Trap:
    """An object whose pickle would do something when it is loaded."""

    def __reduce__(self):
        return sys.exit, ("a pickle was loaded",)


def test_no_pickle_is_loaded(tmp_path):
    file = str(tmp_path / "a.npz")
    np.savez(file, P=np.array([Trap()], dtype=object), R=R)
    assert message(file, FileError) == (
        "it holds Python objects, which only a pickle can; pickles can run any code and are not loaded; save plain "
        "arrays instead: np.savez(file, P=np.stack(P), R=np.stack(R))"
    )


def test_a_name_with_an_impossible_letter(tmp_path):
    """It is beyond Unicode: NumPy's conversion to Python raises a SystemError, or a ValueError."""
    names = np.array([0x110000, 1, 2], np.uint32).view("<U1")
    np.savez(tmp_path / "a.npz", P=P, R=R, states=names)
    assert "it cannot be read as an array file; it is damaged" in message(str(tmp_path / "a.npz"), FileError)


def test_damaged_names_are_not_replaced_by_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", P=P, R=R, states=np.array(["north", "south", "east"]))
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(data.replace("south".encode("utf-32-le"), "sauth".encode("utf-32-le")))
    assert "Bad CRC-32 for file 'states.npy'" in message(str(tmp_path / "a.npz"), FileError)


def npz():
    sink = io.BytesIO()
    np.savez(sink, P=P, R=R)
    return sink.getvalue()


def mat(**options):
    sink = io.BytesIO()
    scipy_io.savemat(
        sink, {"P": cells([P[:, 0], sparse.csc_matrix(P[:, 1])]), "R": R, "states": ["a", "é", "c"]}, **options
    )
    return sink.getvalue()


def npy():
    sink = io.BytesIO()
    np.save(sink, P)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.npz", b"", "this is not an .npz file, whatever its name says; np.savez(file, P=P, R=R) makes one"),
        ("a.npz", b"hello", "this is not an .npz file, whatever its name says; np.savez(file, P=P, R=R) makes one"),
        ("a.npz", npy(), "this is a single NumPy array (.npy); expected several: np.savez(file, P=P, R=R)"),
        ("a.npz", npz()[:100], "it cannot be read as an .npz file; it is damaged, or something else: "),
        ("a.mat", b"", "this is not a MATLAB file of version 5 to 7, whatever its name says"),
        ("a.mat", npz(), "this is not a MATLAB file of version 5 to 7, whatever its name says"),
        ("a.mat", mat()[:300], "it cannot be read as a MATLAB file; it is damaged or cut off: "),
        ("a.mat", b"\x89HDF\r\n\x1a\n", "MATLAB saved it in version 7.3; save it again: save(file, '-v7')"),
        ("a.mat", mat()[:124] + b"\x00\x02IM", "MATLAB saved it in version 7.3; save it again: save(file, '-v7')"),
        ("a.txt", b"", "the name does not say what this is; expected .npz or .mat"),
    ],
)
def test_files_that_are_something_else(tmp_path, name, data, expected):
    (tmp_path / name).write_bytes(data)
    assert message(str(tmp_path / name), FileError).startswith(expected)


def test_files_that_are_not_there(tmp_path):
    for name in ("no.npz", "no.mat"):
        assert message(str(tmp_path / name), FileError) == "there is no such file"


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([1j])])
def test_arrays_that_are_no_numbers(save, value):
    assert "not numbers; expected an array of numbers" in message(save(P=value, R=R), FileError)


def test_a_struct_is_no_array_and_others_beside_do_not_matter(tmp_path):
    file = str(tmp_path / "a.mat")
    scipy_io.savemat(file, {"P": {"x": 1}, "R": R})
    assert message(file, FileError) == "'P' is a struct, an object or a function; expected an array of numbers"
    scipy_io.savemat(file, {"P": P, "R": R, "settings": {"x": 1}, "states": {"y": 2}})
    assert_same(read_arrays(file), MEANT)


def test_labels_of_a_matlab_file(tmp_path):
    (tmp_path / "a.mat").write_bytes(mat())
    mdp = read_arrays(tmp_path / "a.mat")
    assert mdp.n_states == 3


def no_crash(file, data):
    file.write_bytes(data)
    try:
        assert read_arrays(file).n_states > 0
    except tether.TetherError as error:
        assert str(error)  # noqa: PT017


flips = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4)


@pytest.mark.parametrize("compressed", [False, True])
@in_a_folder
@given(flips=flips, keep=st.floats(0.3, 1))
def test_damaged_matlab_files(tmp_path, compressed, flips, keep):
    # scipy alone would crash on some of these.
    data = bytearray(mat(do_compression=compressed))
    for where, value in flips:
        data[int(where * len(data))] = value
    no_crash(tmp_path / "a.mat", bytes(data[: int(keep * len(data))] if keep < 0.6 else data))


@in_a_folder
@given(flips=flips)
def test_damaged_npz_files(tmp_path, flips):
    data = bytearray(npz())
    for where, value in flips:
        data[int(where * len(data))] = value
    no_crash(tmp_path / "a.npz", bytes(data))


def test_sparse_indices_beyond_the_matrix(tmp_path):
    sink = io.BytesIO()
    scipy_io.savemat(sink, {"P": cells([sparse.csc_matrix(np.eye(3))]), "R": np.zeros((3, 1))})
    rows = struct.pack("<3i", 0, 1, 2)
    assert rows in sink.getvalue()
    (tmp_path / "a.mat").write_bytes(sink.getvalue().replace(rows, struct.pack("<3i", 0, 1, 9_999_999)))
    assert message(str(tmp_path / "a.mat"), FileError).startswith("the sparse matrix 'P' is damaged: ")


def test_a_damaged_directory_of_an_archive(tmp_path):
    """Under another name the names of the actions would not be found, and be numbers without a word."""
    np.savez(tmp_path / "a.npz", P=P, R=R, actions=np.array(["go", "stay"]))
    data = (tmp_path / "a.npz").read_bytes()
    at = data.rindex(b"actions.npy")
    (tmp_path / "a.npz").write_bytes(data[:at] + b"bctions.npy" + data[at + 11 :])
    assert "File name in directory 'bctions.npy' and header b'actions.npy' differ" in message(
        str(tmp_path / "a.npz"), FileError
    )
