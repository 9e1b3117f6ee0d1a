"""Names as text and back."""

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.io.names_as_text import find_index, text_of
from tether.model.names import make_names

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("sick", "sick"),
        (7, "7"),
        (0.5, "0.5"),
        ((9, 1, 20), "(9, 1, 20)"),
        ((9,), "(9,)"),
        (("a", Point(1, (2, 3))), "('a', (1, (2, 3)))"),
        (Point(1, 2), "(1, 2)"),
        ((np.int64(1), np.float64(0.5)), "(1, 0.5)"),
        (np.int64(3), "3"),
        (True, "True"),
    ],
)
def test_labels_as_text(label, expected):
    assert text_of(label) == expected


labels = st.one_of(
    st.text(max_size=5),
    st.integers(),
    st.tuples(st.integers(), st.integers()),
    st.tuples(st.text(max_size=3), st.integers()),
)


@given(st.lists(labels, min_size=1, max_size=8, unique_by=text_of))
def test_every_label_is_found_by_itself_and_by_its_text(given_labels):
    known = make_names(given_labels, None, "state")
    for i, label in enumerate(given_labels):
        assert find_index(known, label) == i
        assert find_index(known, text_of(label)) == i
        if isinstance(label, tuple):
            assert find_index(known, list(label)) == i


def test_a_label_that_equals_comes_before_one_that_reads_the_same():
    known = make_names([1, "1", (1, 2), "(1, 2)"], None, "state")
    assert [find_index(known, one) for one in (1, "1", (1, 2), "(1, 2)", [1, 2])] == [0, 1, 2, 3, 2]


def test_numbers_and_text_find_each_other():
    assert find_index(make_names(["0", "1"], None, "state"), 1) == 1
    assert find_index(make_names([5, 6], None, "state"), "6") == 1
    assert find_index(make_names([(1, -2.5)], None, "state"), "( 1,-2.5 )") == 0


@pytest.mark.parametrize(
    "value",
    ["x", "(9, 1", "(9)", "(" * 500 + ")" * 500, "('a',)", "(1)(2)", "(1-2,)", "(0777,)", [[1, {}]], {}, None, 3.5],
)
def test_what_is_not_there(value):
    assert find_index(make_names([1, (1, 2), "a"], None, "state"), value) == -1


def test_a_text_that_could_be_several_is_an_error():
    known = make_names([Point(1, "a"), 1.0, "b", frozenset("c"), Text("frozenset({'c'})")], None, "state")
    with pytest.raises(tether.QueryError, match="could be any of 2 names"):
        find_index(known, "frozenset({'c'})")


class Text:
    """A label that is not text but reads like one."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def test_a_named_tuple_is_found_as_answers_and_errors_write_it():
    known = make_names([Point(1, "a"), Point("1", "a"), Point(2, "b"), "end"], None, "state")
    assert find_index(known, "Point(x=2, y='b')") == 2
    assert find_index(known, "Point(x=1, y='a')") == 0  # the text of the two differs
    assert find_index(known, "Point(x=3, y='b')") == -1


def test_very_many_labels_are_indexed_once():
    known = make_names([f"s{i}" for i in range(200_000)], None, "state")
    # An index of its own for each of these questions would take minutes.
    assert [find_index(known, f"({i}, 1)") for i in range(1000)] == [-1] * 1000
    assert find_index(known, "s199999") == 199_999


def test_truth_values_in_the_spelling_of_others():
    states = make_names([(0, True), (0, False)], None, "state")
    assert [find_index(states, one) for one in ("(0,true)", "(0, False)", "(0,1)", "(false,true)")] == [0, 1, -1, -1]
    switch = make_names([False, True], None, "state")
    assert [find_index(switch, one) for one in ("true", "True", "false", "yes")] == [1, 1, 0, -1]
    numbers = make_names([0, 1], None, "state")
    assert [find_index(numbers, one) for one in ("true", "False")] == [-1, -1]  # True equals 1, and is not meant
