"""Episodes: from the rows of a log, in any order, to paths; and every way a log can contradict itself."""

import pickle

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from logs import Row, logs

import tether
from tether._foundation.problems import Source
from tether.observation.arrange import ByRow
from tether.observation.episodes import Episodes
from tether.observation.path import observe


def from_rows(rows):
    return Episodes.from_columns(**{name: [getattr(row, name) for row in rows] for name in Row._fields})


def refuse(*columns, **more):
    with pytest.raises(tether.PathError) as caught:
        Episodes.from_columns(*columns, **more)
    return caught.value


# --- What a log says -----------------------------------------------------------------------------


@given(logs())
def test_a_log_in_any_order_gives_its_paths_and_rewards(log):
    episodes = from_rows(log.rows)
    assert dict(episodes) == log.paths
    for name, expected in log.rewards.items():
        known = [np.nan if reward is None else reward for reward in expected]
        np.testing.assert_array_equal(episodes.rewards(name), known)
    assert episodes.n_steps == sum(path.T for path in log.paths.values())
    assert episodes.unrecorded == sum(not path.last_recorded for path in log.paths.values())


@given(logs())
def test_paths_give_the_same_as_rows(log):
    episodes, again = from_rows(log.rows), Episodes.from_paths(log.paths)
    assert dict(again) == dict(episodes)
    if any(path.rewards is not None for path in log.paths.values()):
        for name in log.paths:
            np.testing.assert_array_equal(again.rewards(name), episodes.rewards(name))
    else:
        assert again.reward is None


@given(logs(), st.booleans())
def test_a_table_of_episodes_is_a_log_again(log, by_pandas):
    episodes = from_rows(log.rows)
    table = episodes.to_arrow()
    own = {(row["episode"], row["t"]): row for row in table.to_pylist()}
    for name, path in log.paths.items():
        for t, state in enumerate(path.states):
            found = own.pop((name, t))
            assert found["state"] == (state if not isinstance(state, tuple) else {"0": state[0], "1": state[1]})
            assert found["action"] == (path.actions[t] if t < path.T else None)
            assert "reward" not in found or found["reward"] == ([*log.rewards[name], None][t])
    assert not own
    again = tether.io.read_episodes(episodes.to_pandas() if by_pandas else table)
    assert dict(again) == log.paths


def test_the_order_of_labels():
    log = Episodes.from_columns([7, 2, 2], [0, 1, 0], ["z", "a", "m"], [5, 3, 3], next_state=["q", None, None])
    assert list(log.ids) == [2, 7]  # whole numbers ascend
    assert list(log.states) == ["z", "a", "m", "q"]  # others as they first appear, states before next states
    assert list(log.actions) == [3, 5]
    assert log[2] == tether.Path(["m", "a"], [3, 3])
    assert log[7] == tether.Path(["z", "q"], [5])
    backwards = Episodes.from_paths({7: log[7], 2: log[2]})
    assert list(backwards.ids) == [2, 7]
    assert dict(backwards) == dict(log)


COLUMNS = {
    "episode": [1, 1, 2],
    "t": [0, 1, 0],
    "state": [10, 11, 10],
    "action": [0, None, 1],
    "reward": [0.5, None, 2.0],
    "next_state": [None, None, 11],
}


@pytest.mark.parametrize(
    "kind",
    [
        lambda column: column,
        lambda column: np.array([np.nan if x is None else x for x in column]),  # ints with NaN are floats
        lambda column: np.array(column, dtype=object),
        pandas.Series,
        lambda column: pandas.Series(column, dtype="Float64"),
        polars.Series,
        pyarrow.array,
        iter,
        tuple,
    ],
    ids=["list", "floats", "objects", "pandas", "pandas-nullable", "polars", "arrow", "iterator", "tuple"],
)
def test_any_kind_of_column(kind):
    log = Episodes.from_columns(**{name: kind(column) for name, column in COLUMNS.items()})
    assert dict(log) == {1: tether.Path([10, 11], [0], [0.5]), 2: tether.Path([10, 11], [1], [2.0])}
    assert log.rewards(1).tolist() == [0.5]
    assert log.rewards(2).tolist() == [2.0]
    assert [type(label) for label in (*log.ids, *log.states, *log.actions)] == [int] * 6


@pytest.mark.parametrize("empty", [None, "", float("nan"), pandas.NA, pandas.NaT, np.nan])
def test_what_counts_as_empty(empty):
    log = Episodes.from_columns(["e", "e"], [0, 1], ["a", "b"], ["go", empty])
    assert log["e"] == tether.Path(["a", "b"], ["go"])


def test_a_log_without_rewards_has_none():
    log = Episodes.from_columns([1], [0], ["a"], ["go"])
    assert log.reward is None
    assert log.rewards(1) is None
    assert not log[1].last_recorded


def test_numbers_in_one_column_and_names_in_another():
    log = Episodes.from_columns([1, 1], [0, 1], np.array([5.0, 6.0]), ["go", "go"], next_state=[6, "end"])
    assert log[1] == tether.Path([5, 6, "end"], ["go", "go"])
    log = Episodes.from_columns(
        [1, 1], [0, 1], np.array(["a", "b"]), np.array([3, np.nan]), next_state=np.array([np.nan, np.nan])
    )
    assert log[1] == tether.Path(["a", "b"], [3])


def test_unsigned_and_huge_numbers():
    log = Episodes.from_columns(np.array([1, 1], np.uint8), np.array([0, 1], np.uint64), [2**70, 5], ["go", None])
    assert log[1] == tether.Path([2**70, 5], ["go"])
    late = Episodes.from_columns([1, 1], [2**62, 2**62 + 1], ["a", "b"], ["go", None])
    assert late[1].T == 1


# --- A collection ----------------------------------------------------------------------------------


def test_it_is_a_mapping_from_ids_to_paths():
    log = Episodes.from_columns(["x", "y"], [0, 0], ["a", "b"], ["go", "go"], next_state=["b", "a"])
    assert len(log) == 2
    assert list(log) == ["x", "y"] == list(log.ids)
    assert list(log.values()) == [log["x"], log["y"]]
    assert "x" in log
    assert "z" not in log
    assert log.get("z") is None
    assert log.get("y") == log["y"]


def test_an_unknown_id_says_what_there_is():
    log = Episodes.from_columns([17, 18], [0, 0], ["a", "b"], ["go", "go"])
    with pytest.raises(tether.QueryError, match=r"no episode '17'; there are 2 episodes: 17, 18 \(there is 17, a name"):
        log["17"]
    with pytest.raises(tether.QueryError, match="no episode 3"):
        log.rewards(3)
    many = Episodes.from_columns(range(50), [0] * 50, ["a"] * 50, ["go"] * 50)
    with pytest.raises(tether.QueryError, match="there are 50 episodes: 0 … 49"):
        many[50]


def test_arrays_are_read_only_and_pickles_remember_it():
    log = Episodes.from_columns([1], [0], ["a"], ["go"], reward=[1.0])
    again = pickle.loads(pickle.dumps(log))
    assert dict(again) == dict(log)
    for one in (log, again):
        for array in (one.start, one.state, one.action, one.next_state, one.reward):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_how_it_shows_itself():
    log = Episodes.from_columns(range(12), [0] * 12, ["<b>"] * 12, ["go"] * 12, reward=[1] * 12)
    assert repr(log) == (
        "<Episodes: 12 episodes, 12 steps, 1 state, 1 action, with rewards; 12 last outcomes not recorded>"
    )
    html = log._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert html.count("<tr>") == 12  # a head, ten episodes, and how many more
    assert "2 more" in html


# --- What a log must not say -----------------------------------------------------------------------


BAD = {
    "gap": (
        ([1, 1, 1], [0, 1, 4], "abc", "xyx"),
        "row 2: episode 1: t goes from 1 to 4; t = 2 … 3 are missing",
    ),
    "twice": (
        (["e", "f", "e"], [3, 3, 3], "abc", "xyx"),
        "row 2: episode 'e': t = 3 is given twice (first in row 0)",
    ),
    "no action": (
        ([1, 1], [1, 0], "ab", ["x", ""]),
        "row 1: episode 1, t = 0: the action is empty; only an episode's last row may lack it",
    ),
    "no step": (
        ([1], [0], "a", [None]),
        "row 0: episode 1: a single row, without an action: nothing happens in it; leave it out",
    ),
    "no episode": (([None], [0], "a", "x"), "row 0: the episode is empty"),
    "no state": (([1], [0], [float("nan")], "x"), "row 0: the state is empty"),
    "no t": (([1], [None], "a", "x"), "row 0: t is empty; expected a whole number"),
    "half a t": (([1], [0.5], "a", "x"), "row 0: t is 0.5; expected a whole number"),
    "t as text": (([1], ["0"], "a", "x"), "row 0: t is '0'; expected a whole number"),
    "t is true": (([1], [True], "a", "x"), "row 0: t is True; expected a whole number"),
    "t infinite": (([1], np.array([np.inf]), "a", "x"), "row 0: t is inf; expected a whole number"),
    "t too large": (([1], np.array([2**63], np.uint64), "a", "x"), f"row 0: t is {2**63}; expected a whole number"),
    "a list for a label": (
        ([1], [0], [["a"]], "x"),
        "row 0: the state ['a'] cannot be a name, it is not hashable; use a tuple",
    ),
    "a list for the outcome of an episode": (
        ([1, 2], [0, 0], "aa", "xx", None, None, [["died"], "died"]),
        "row 0: the outcome ['died'] cannot be a name, it is not hashable; use a tuple",
    ),
    "reward infinite": (([1], [0], "a", "x", [np.inf]), "row 0: the reward inf is not a finite number"),
    "reward as text": (([1], [0], "a", "x", ["5"]), "row 0: the reward '5' is not a finite number"),
    "a list for a reward": (([1], [0], "a", "x", [[5]]), "row 0: the reward [5] is not a finite number"),
    "reward without an action": (
        ([1, 1], [0, 1], "ab", ["x", None], [2, 5]),
        "row 1: episode 1, t = 1: the reward 5 has no action that earned it; a reward belongs in the row of its action",
    ),
    "outcome without an action": (
        ([1, 1], [0, 1], "ab", ["x", None], None, [None, "b"]),
        "row 1: episode 1, t = 1: next_state is given, but no action led there",
    ),
    "another outcome": (
        ([1, 1], [0, 1], "ab", "xx", None, "cb"),
        "row 0: episode 1, t = 0: next_state is 'c', but the state of t = 1 is 'b' (row 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_named(case):
    columns, message = BAD[case]
    error = refuse(*(list(column) if isinstance(column, str) else column for column in columns))
    assert str(error) == message
    assert error.problems[0].row == int(message.split(":")[0].removeprefix("row "))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([], [], [], []), "the log is empty: it has no rows"),
        (([1, 1], [0], ["a"], ["x"]), "the columns differ in length: episode 2, t 1, state 1, action 1"),
        ((1, [0], ["a"], ["x"]), "the column episode must be a list or array with one item per row, not 1"),
        (("ab", [0], ["a"], ["x"]), "the column episode must be a list or array with one item per row, not 'ab'"),
        (([1], np.zeros((1, 1)), ["a"], ["x"]), "the column t must be flat; got an array of shape (1, 1)"),
    ],
)
def test_columns_that_are_no_log(columns, message):
    assert str(refuse(*columns)) == message


def test_everything_is_reported_at_once_in_the_order_of_the_rows():
    error = refuse([1, 1, 2, 3, 3, 4], [0, 2, None, 0, 1, 0], list("abcdee"), ["x", "", "x", "", "x", "x"])
    assert [problem.row for problem in error.problems] == [1, 2, 3]
    assert error.problems[0].time == 2
    assert error.problems[0].state == "b"


def test_a_bad_cell_is_not_reported_again_as_a_gap():
    error = refuse([1, 1, 1], [0, "?", 2], list("abc"), list("xyz"))
    assert str(error) == "row 1: t is '?'; expected a whole number"


def test_problems_of_no_row_are_raised_where_those_of_rows_are_kept():
    """A collector of what is wrong with each row has nowhere to keep them: they are not dropped."""
    found = ByRow(Source("log.csv"), tether.PathError)
    found.add_each(np.array([3, 1]), lambda item: f"item {item} is wrong", row=lambda item: item + 1)
    assert [found.problem(row).message for row in found.rows()] == [
        "log.csv, row 3: item 1 is wrong",
        "log.csv, row 5: item 3 is wrong",
    ]
    with pytest.raises(tether.PathError, match=r"log\.csv, line 7: item 0 is wrong"):
        found.add_each(np.array([0]), lambda item: f"item {item} is wrong", lines=np.array([7]))
    with pytest.raises(tether.PathError, match=r"log\.csv: item 0 is wrong"):
        found.add_each(np.array([0]), lambda item: f"item {item} is wrong", row=lambda _: None)


def test_problems_are_counted_beyond_those_kept():
    error = refuse(list(range(1000)), [0] * 1000, ["a"] * 1000, [None] * 1000)
    assert error.total == 1000
    assert len(error.problems) == 100
    assert "1,000 problems" in str(error)
    assert "… and 992 more" in str(error)


SPOILERS = st.sampled_from(["lose", "repeat", "blank action", "other outcome", "blank state"])


@given(logs(), SPOILERS, st.data())
def test_any_spoiled_row_is_found(log, spoiler, data):
    inner = {  # rows with one before and one after them in their episode
        i
        for i, row in enumerate(log.rows)
        if {row.t - 1, row.t + 1} <= {other.t for other in log.rows if other.episode == row.episode}
    }
    assume(inner)
    at = data.draw(st.sampled_from(sorted(inner)))
    rows, row = list(log.rows), log.rows[at]
    if spoiler == "lose":
        del rows[at]
    elif spoiler == "repeat":
        rows.append(row)
    elif spoiler == "blank action":
        rows[at] = row._replace(action=None, reward=None, next_state=None)
    elif spoiler == "blank state":
        rows[at] = row._replace(state=None)
    else:
        rows[at] = row._replace(next_state="elsewhere")
    with pytest.raises(tether.PathError) as caught:
        from_rows(rows)
    found = caught.value.problems
    if spoiler == "lose":
        assert [rows[problem.row][:2] for problem in found] == [(row.episode, row.t + 1)]
    else:
        assert {rows[problem.row][:2] for problem in found} == {(row.episode, row.t)}


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2), st.just([1]), st.just(np.array([1, 2])),
    st.just((1, 2)), st.fractions(), st.just(10**400), st.dates(),
)  # fmt: skip


@given(st.lists(st.tuples(*[CELLS] * 6), max_size=4))
def test_no_cells_crash_it(rows):
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 6
    try:
        log = Episodes.from_columns(*columns)
    except tether.TetherError:
        return
    assert log.n_steps > 0


STEP = tether.Path(["a", "b"], ["x"])
NO_LABEL = "a state, an action or an id of the paths is empty (None, NaN or ''); give each a name"


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "there are no paths"),
        (STEP, "expected a list of paths; for a single one: [path]"),
        ([("a", "b")], "episode 0: expected a tether.Path, not tuple"),
        ([tether.Path([None, "a"], ["x"])], NO_LABEL),
    ],
)
def test_paths_that_are_no_episodes(paths, message):
    with pytest.raises(tether.PathError) as caught:
        Episodes.from_paths(list(paths) if isinstance(paths, list) else paths)
    assert str(caught.value) == message


def test_paths_with_and_without_rewards():
    log = Episodes.from_paths([tether.Path(["a", "b", "c"], ["x", "x"], [1, None]), STEP])
    np.testing.assert_array_equal(log.reward, [1.0, np.nan, np.nan])
    assert log[0].rewards == (1.0, None)
    assert log[1].rewards is None


@given(logs())
def test_an_episode_in_the_indices_of_a_model_is_the_same_as_its_path(log):
    episodes = from_rows(log.rows)
    order = list(reversed(episodes.states))  # another order than that of the log
    mdp = tether.learn(episodes, states=order, empty_rewards="mean")
    for name, path in log.paths.items():
        seen = episodes.observation(name, mdp)
        again = observe(mdp, path)
        for field in ("states", "actions", "pairs"):
            np.testing.assert_array_equal(getattr(seen, field), getattr(again, field))
        assert seen.rewards == again.rewards == path.rewards


def test_an_episode_that_a_model_does_not_know_is_named():
    log = Episodes.from_columns([1, 1], [0, 1], ["a", "b"], ["go", None])
    other = tether.learn([tether.Path(["a", "c"], ["go"])])
    with pytest.raises(tether.PathError, match="t = 1: the model has no state 'b'"):
        log.observation(1, other)
