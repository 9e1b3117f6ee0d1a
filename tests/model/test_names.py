"""Names: any hashable, in the model's order, found again by equality."""

import copy
import datetime
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from columnlike import Column
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.model.encode import encode
from tether.model.names import Unknown, is_missing, make_names, name_list, plain


class NotSaying:
    """Compares like pandas' NA: the answer is neither true nor false."""

    def __ne__(self, other):
        return self

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


hashables = st.one_of(
    st.integers(), st.text(max_size=3), st.booleans(), st.tuples(st.integers(), st.text(max_size=2)), st.floats(0, 9)
)


@given(st.lists(hashables, unique=True))
def test_a_label_is_found_where_it_stands(items):
    labels = make_names(items, None, "state")
    assert len(labels) == len(items)
    assert list(labels) == items
    assert [labels.find(item) for item in items] == list(range(len(items)))
    assert [labels[i] for i in range(len(items))] == items
    assert all(item in labels for item in items)


@given(st.integers(0, 20), hashables)
def test_counting_labels_answer_like_listed_ones(n, label):
    """0 … n-1 are not stored; a dictionary of them says the same."""
    index = {i: i for i in range(n)}
    assert make_names(None, n, "state").find(label) == index.get(label, -1)


@pytest.mark.parametrize(
    "label", [2, 2.0, np.int8(2), np.uint64(2), np.float32(2), np.float64(2), Fraction(2), Decimal(2)]
)
def test_equal_numbers_are_one_label(label):
    assert make_names(None, 3, "state").find(label) == 2
    assert make_names([5, 7, 2], None, "state").find(label) == 2


@pytest.mark.parametrize("label", ["2", 2.5, -1, 3, None, [2], (2,), np.array([2]), 2**70, float("nan"), float("inf")])
def test_what_is_no_label_is_not_found(label):
    assert make_names(None, 3, "state").find(label) == -1
    assert make_names([0, 1, 2, "x"], None, "state").find(label) == -1


def test_labels_are_a_sequence():
    labels = make_names(["a", "b", "c"], None, "state")
    assert labels[-1] == "c"
    assert tuple(labels[1:]) == ("b", "c")
    assert labels.index("b") == 1
    assert labels.index("b", 1, 2) == 1
    assert labels.count("b") == 1
    for start, stop in [(2, None), (0, 1)]:
        with pytest.raises(ValueError, match="'b' is not among the names"):
            labels.index("b", start, stop)
    with pytest.raises(ValueError, match="'z' is not among the names"):
        labels.index("z", -5)
    with pytest.raises(IndexError):
        labels[3]
    with pytest.raises(TypeError):
        labels[0] = "z"


def test_counting_labels_are_a_sequence():
    labels = make_names(None, 4, "state")
    assert labels[-1] == 3
    assert tuple(labels[1:3]) == (1, 2)
    assert list(labels) == [0, 1, 2, 3]


def test_labels_are_equal_by_content():
    counted, listed = make_names(None, 2, "state"), make_names([0.0, 1.0], None, "state")
    assert counted == listed
    assert hash(counted) == hash(listed)
    assert counted != make_names(None, 3, "state")
    assert counted != make_names([1, 0], None, "state")
    assert counted != [0, 1]
    assert hash(make_names([], None, "state")) == hash(make_names(None, 0, "state"))


@pytest.mark.parametrize("given", [None, ["a", ("b", 1), 3]])
def test_labels_survive_pickling(given):
    labels = make_names(given, 3, "state")
    for twin in (pickle.loads(pickle.dumps(labels)), copy.deepcopy(labels)):
        assert twin == labels
        assert twin.find(labels[1]) == 1


def test_labels_print_on_one_line():
    assert repr(make_names(None, 1_000_000, "state")) == "Names(0 … 999,999)"
    assert repr(make_names(None, 0, "state")) == "Names()"
    assert repr(make_names(["a", 1], None, "state")) == "Names('a', 1)"
    names = [f"s{i}" for i in range(13)]
    assert repr(make_names(names[:12], None, "state")) == f"Names({', '.join(map(repr, names[:12]))})"
    assert repr(make_names(names, None, "state")) == "Names('s0', 's1', … 's12': 13 names)"
    many = make_names([f"s{i}" for i in range(1500)], None, "state")
    assert repr(many) == "Names('s0', 's1', … 's1499': 1,500 names)"


def test_labels_that_count_cost_nothing():
    """However they were given: 0 … n-1 is known by its length."""
    assert repr(make_names(list(range(2000)), None, "state")) == "Names(0 … 1,999)"
    assert repr(make_names([0, 2, 1], None, "state")) == "Names(0, 2, 1)"
    assert repr(make_names([False, True], None, "state")) == "Names(False, True)"


@pytest.mark.parametrize(
    "values",
    [
        [3, 1],
        (3, 1),
        np.array([3, 1]),
        np.array([3, 1], dtype=np.int8),
        [np.int64(3), np.int64(1)],
        Column([3, 1]),
        {3: "x", 1: "y"},
        iter([3, 1]),
    ],
)
def test_labels_become_plain_objects(values):
    items = plain(values)
    assert items == [3, 1]
    assert {type(item) for item in items} == {int}


def test_arrow_columns_become_plain_objects():
    class Arrow:
        def to_pylist(self):
            return ["a", "b"]

    assert plain(Arrow()) == ["a", "b"]


def test_a_list_of_labels_is_cut():
    assert name_list("abc") == name_list("abc", limit=3) == "'a', 'b', 'c'"
    assert name_list(range(1500), limit=3) == "0, 1, 2, … (1,500 in all)"


# Order in a table: whole numbers ascend, others come as they appear.


@pytest.mark.parametrize("dtype", [None, np.int8, np.int16, np.int64, object])
def test_whole_numbers_ascend(dtype):
    first, second = [5, -120, 5], [127, 5, -120]
    if dtype is not None:
        first, second = np.array(first, dtype=dtype), np.array(second, dtype=dtype)
    labels, codes = encode([first, second], "state", ["state", "next state"])
    assert list(labels) == [-120, 5, 127]
    assert {type(label) for label in labels} == {int}
    assert [code.tolist() for code in codes] == [[1, 0, 1], [2, 1, 0]]


def test_numbers_from_far_apart():
    labels, codes = encode([np.array([10**15, 0]), np.array([-(10**15), 0])], "state", ["state", "next state"])
    assert list(labels) == [-(10**15), 0, 10**15]
    assert [code.tolist() for code in codes] == [[2, 1], [0, 1]]


def test_numbers_beyond_int64():
    big = 2**63
    assert list(encode([np.array([big, 3], dtype=np.uint64)], "state", ["state"])[0]) == [3, big]
    assert list(encode([np.array([big - 1, 3], dtype=np.uint64)], "state", ["state"])[0]) == [3, big - 1]
    labels, codes = encode([np.array([big + 1, big], dtype=np.uint64), np.array([big, 0], dtype=np.uint64)], "s", "ab")
    assert list(labels) == [0, big, big + 1]
    assert [code.tolist() for code in codes] == [[2, 1], [1, 0]]


@pytest.mark.parametrize(
    ("signed", "unsigned"),
    [
        ([-5, 2**60 + 1], [2**60, 7]),  # NumPy would join the two columns as floats, and 2**60 is 2**60 + 1 there
        ([-5, 2**62 + 1], [2**63 + 1, 2**63]),  # no integer type holds both
        ([-1, 0], [1, 2]),
    ],
)
def test_signed_beside_unsigned_numbers(signed, unsigned):
    columns = [np.array(signed, dtype=np.int64), np.array(unsigned, dtype=np.uint64)]
    labels, codes = encode(columns, "state", ["state", "next state"])
    assert list(labels) == sorted({*signed, *unsigned})
    assert {type(label) for label in labels} == {int}
    assert [[labels[i] for i in code] for code in codes] == [signed, unsigned]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), min_size=1, max_size=8),
)
def test_arrays_and_lists_of_numbers_encode_alike(first, second):
    labels, codes = encode([first, second], "state", ["state", "next state"])
    arrays = [np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)]
    twins, twin_codes = encode(arrays, "state", ["state", "next state"])
    assert list(twins) == list(labels) == sorted({*first, *second})
    assert [code.tolist() for code in codes] == [code.tolist() for code in twin_codes]


def test_other_labels_come_as_they_appear_the_first_column_first():
    labels, codes = encode([["well", "sick"], ["dead", "well"]], "state", ["state", "next state"])
    assert list(labels) == ["well", "sick", "dead"]
    assert [code.tolist() for code in codes] == [[0, 1], [2, 0]]


def test_mixed_types_come_as_they_appear():
    labels, _ = encode([[3, "a", (1, 2), None.__class__, 1]], "state", ["state"])
    assert list(labels) == [3, "a", (1, 2), type(None), 1]
    assert list(encode([[True, False]], "state", ["state"])[0]) == [True, False]
    assert list(encode([np.array([2.5, 1.5])], "state", ["state"])[0]) == [2.5, 1.5]


def test_no_rows_no_labels():
    labels, codes = encode([np.array([], dtype=int)], "state", ["state"])
    assert len(labels) == 0
    assert codes[0].size == 0


def test_a_given_order_is_kept():
    labels, codes = encode([np.array([1, 2]), [2, 3]], "state", ["state", "next state"], given=[3, 2, 1])
    assert list(labels) == [3, 2, 1]
    assert [code.tolist() for code in codes] == [[2, 1], [1, 0]]


def test_a_given_order_must_hold_every_label():
    with pytest.raises(tether.ModelError) as caught:
        encode([["a", "b"], ["a", "1"]], "state", ["state", "next state"], given=["a", "1"])
    assert str(caught.value) == "row 1: the state 'b' is not among the names given by states="
    assert caught.value.problems[0].row == 1
    assert caught.value.problems[0].value == "b"
    with pytest.raises(tether.ModelError) as caught:
        encode([["a"], [1]], "state", ["state", "next state"], given=["a", "1"])
    assert str(caught.value) == (
        "row 0: the next state 1 is not among the names given by states= "
        "(there is '1', a name of type str, but 1 is a int)"
    )


def test_unknown_labels_are_counted():
    with pytest.raises(tether.ModelError) as caught:
        encode([["z"] * 300], "action", ["action"], given=["a"])
    assert caught.value.total == 300
    assert len(caught.value.problems) == 100
    assert str(caught.value).startswith("300 problems:\n  - row 0: the action 'z' is not among")


# What cannot be a label.


@pytest.mark.parametrize("missing", [None, float("nan"), Decimal("NaN"), NotSaying()])
def test_missing_values_are_no_labels(missing):
    assert is_missing(missing)
    with pytest.raises(tether.ModelError, match=r"^state 1: the name is missing \(.*\); give it one$"):
        make_names(["a", missing], None, "state")
    with pytest.raises(tether.ModelError, match=r"^row 1: the next state is missing \(.*\)$") as caught:
        encode([["a", "b"], ["a", missing]], "state", ["state", "next state"])
    assert caught.value.problems[0].row == 1
    assert caught.value.problems[0].value is missing


def test_dates_are_labels():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    labels, codes = encode([days], "state", ["state"])
    assert list(labels) == [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    assert codes[0].tolist() == [0, 1]
    assert labels.find(days[1]) == labels.find(datetime.date(2020, 1, 2)) == 1
    assert is_missing(np.datetime64("NaT", "D"))
    with pytest.raises(tether.ModelError, match=r"^row 1: the state is missing \(None\)$"):
        encode([np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")], "state", ["state"])


@pytest.mark.parametrize("label", [0, "", (), False, float("inf"), "nan", (None,), np.datetime64("2020-01-01")])
def test_what_looks_empty_may_be_a_label(label):
    assert not is_missing(label)
    assert make_names([label, "other"], None, "state").find(label) == 0


@pytest.mark.parametrize("label", [[0, 1], {0, 1}, {"x": 1}, np.array([0, 1]), ([0], 1)])
def test_unhashable_labels(label):
    with pytest.raises(tether.ModelError, match=r"^action 1: the name .* cannot be hashed.*; use a tuple$") as caught:
        make_names(["a", label], None, "action")
    assert caught.value.problems[0].value is label
    with pytest.raises(tether.ModelError, match=r"^row 0: the state .* is not hashable; use a tuple$") as caught:
        encode([[label]], "state", ["state"])
    assert caught.value.problems[0].row == 0


def test_labels_that_repeat():
    with pytest.raises(tether.ModelError) as caught:
        make_names(["a", "b", "c", "b"], None, "state")
    assert str(caught.value) == "the state name 'b' is given twice, at positions 1 and 3"
    assert caught.value.problems[0].value == "b"
    with pytest.raises(tether.ModelError, match=r"the action name 1\.0 is given twice, at positions 0 and 1"):
        make_names([1, 1.0], None, "action")


def test_labels_are_as_many_as_the_model_needs():
    with pytest.raises(tether.ModelError, match=r"^states= gives 1 name, but the model has 2 states$"):
        make_names(["a"], 2, "state")
    with pytest.raises(tether.ModelError, match=r"^actions= gives 2 names, but the model has 1 action$"):
        make_names(["a", "b"], 1, "action")


def test_labels_are_a_list():
    with pytest.raises(tether.ModelError, match=r"^states= takes a list of names, not 5$"):
        make_names(5, 5, "state")


# What an error says about a label it does not know.


def test_few_labels_are_listed():
    assert make_names(["a", "b"], None, "state").missing("c", "state").message == (
        "the model has no state 'c'; it has 2 states: 'a', 'b'"
    )
    assert make_names(["a"], None, "action").missing("c", "action").message == (
        "the model has no action 'c'; it has 1 action: 'a'"
    )


def test_many_labels_are_summed_up():
    assert make_names(None, 12, "state").known("state").startswith("it has 12 states: 0, 1, 2, 3,")
    assert make_names(None, 13, "state").known("state") == "it has 13 states, 0 … 12"
    assert make_names(None, 1_000_000, "state").missing(-1, "state").message == (
        "the model has no state -1; it has 1,000,000 states, 0 … 999999"
    )


def test_a_label_of_another_type_is_pointed_out():
    assert (
        make_names(None, 2, "state")
        .missing("1", "state")
        .message.endswith("(there is 1, a name of type int, but '1' is a str)")
    )


def test_a_near_miss_is_pointed_out():
    labels = make_names([f"patient {i}" for i in range(50)], None, "state")
    assert labels.missing("patient_7", "state").message.endswith("(did you mean 'patient 7'?)")
    assert labels.missing("weather", "state").message.endswith("'patient 49'")


def test_an_unknown_name_is_compared_once_and_few_are_compared():
    """A log of another model must not compare each of its steps with every state."""
    looked = []

    class Seen(str):
        def __str__(self):
            looked.append(self)
            return str.__str__(self)

    names = make_names([Seen(f"patient {i}") for i in range(50)], None, "state")
    unknown = Unknown()
    for t in range(100):
        assert "(did you mean 'patient 7'?)" in unknown.problem(names, "patient_7", "state", time=t).message
    assert len(looked) == 50
    hints = [unknown.problem(names, f"patient_{i}", "state").message.endswith("?)") for i in range(50)]
    assert (hints.count(True), len(looked)) == (20, 20 * 50)


def test_a_list_is_taken_for_a_tuple():
    labels = make_names([(0, 0), (0, 1)], None, "state")
    assert labels.missing([0, 1], "state").message.endswith("(a list cannot be a name; did you mean the tuple (0, 1)?)")
