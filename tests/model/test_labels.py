"""Labels: named sets of states."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from savedmodels import forge

import tether
from tether.errors import ModelError, QueryError


def ring(names):
    """A model that walks round the named states."""
    n = len(names)
    return tether.MDP.from_table(names, ["on"] * n, [*names[1:], names[0]], [1.0] * n, states=names)


ABC = ring(["a", "b", "c"])


@pytest.mark.parametrize(
    "given",
    [
        ["c", "a"],
        ("a", "c", "a"),
        {"a", "c"},
        iter(["c", "a"]),
        pd.Series(["a", "c"]),
        pa.array(["c", "a"]),
        lambda name: name != "b",
        lambda name: np.bool_(name != "b"),
        [True, False, True],
        np.array([True, False, True]),
        pd.Series([True, False, True]),
        pa.array([True, False, True]),
    ],
)
def test_a_label_from_a_list_a_predicate_a_column(given):
    mdp = ABC.with_labels({"ends": given})
    assert list(mdp.labels) == ["ends"]
    assert list(mdp.labels["ends"]) == ["a", "c"]  # in the model's order
    assert mdp.labels["ends"].indices.tolist() == [0, 2]
    assert mdp.labels["ends"] == {"c", "a"}
    assert "a" in mdp.labels["ends"]
    assert "b" not in mdp.labels["ends"]
    assert "z" not in mdp.labels["ends"]
    assert len(ABC.labels) == 0


@given(st.data())
def test_any_subset_comes_back(data):
    names = data.draw(st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.integers())), min_size=1, unique=True))
    chosen = data.draw(st.sets(st.sampled_from(names), min_size=1))
    mdp = ring(names).with_labels({"it": chosen})
    assert set(mdp.labels["it"]) == chosen
    assert [name in mdp.labels["it"] for name in names] == [name in chosen for name in names]
    column = [name in chosen for name in names]
    assert ring(names).with_labels({"it": column}).labels["it"] == mdp.labels["it"]
    assert ring(names).with_labels({"it": chosen.__contains__}).labels["it"] == mdp.labels["it"]


def test_truth_values_that_are_names_are_states():
    mdp = ring([True, False])
    assert mdp.with_labels({"yes": [True]}).labels["yes"].indices.tolist() == [0]
    assert ring([0, 1]).with_labels({"yes": [False, True]}).labels["yes"] == {1}  # a column: no state is called True


def test_labels_cannot_be_changed():
    labels = ABC.with_labels({"ends": ["a"]}).labels
    with pytest.raises(ValueError, match="read-only"):
        labels["ends"].indices[0] = 1
    with pytest.raises(TypeError):
        labels["ends"] = ["b"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"x": ["d"]}, "the label 'x': the model has no state 'd'; it has 3 states: 'a', 'b', 'c'"),
        ({"x": []}, "the label 'x': no state has it"),
        ({"x": lambda name: False}, "the label 'x': no state has it"),
        ({"x": [False, False, False]}, "the label 'x': no state has it"),
        ({"x": [True, False]}, "the label 'x': the column has 2 truth values, but the model has 3 states"),
        ({"x": "a"}, "takes a list of states, a function of a name, or a column of truth values, not 'a': ['a']"),
        ({"x": 3}, "takes a list of states, a function of a name, or a column of truth values, not 3: [3]"),
        ({"x": lambda name: None}, "the label 'x': the function gave None for state 'a', not True or False"),
        ({"": ["a"]}, "the label '' cannot be: a label is a text, without spaces around it"),
        ({" x": ["a"]}, "the label ' x' cannot be"),
        ({3: ["a"]}, "the label 3 cannot be"),
        ({"old": ["a"]}, "the label 'old' exists already, for other states: StateSet('b'); choose another name"),
        ({"x": None}, "the label 'x' cannot be removed: there is none; its labels are 'old'"),
        (["a"], "labels are given as a mapping, {\"died\": [state, …]}, not ['a']"),
    ],
)
def test_what_is_no_label(given, expected):
    with pytest.raises(ModelError) as caught:
        ABC.with_labels({"old": ["b"]}).with_labels(given)
    assert expected in str(caught.value)


def test_an_error_in_a_predicate_says_where():
    with pytest.raises(AttributeError) as caught:
        ABC.with_labels({"x": lambda name: name.missing})
    assert caught.value.__notes__ == ["while looking for the states of the label 'x': state 'a'"]


def test_the_same_label_twice_is_one_and_none_takes_it_away():
    mdp = ABC.with_labels({"x": ["a"]}).with_labels({"x": ["a"], "y": ["b", "c"]})
    assert dict(mdp.labels) == {"x": {"a"}, "y": {"b", "c"}}
    assert list(mdp.with_labels({"x": None}).labels) == ["y"]


# Terminal states.


def ending(ends):
    return tether.MDP.from_table(["on"] * len(ends), range(len(ends)), ends, [1.0] * len(ends), terminal=ends)


def test_terminal_states_are_labels_by_themselves():
    mdp = ending(["dead", 15, (0, 3)])
    assert list(mdp.labels) == ["dead", "15", "(0, 3)"]
    assert mdp.labels["15"] == {15}
    assert mdp.labels["(0, 3)"] == {(0, 3)}
    assert mdp.labels.find("dead") == {"dead"}
    with pytest.raises(KeyError):
        mdp.labels["on"]  # a state, but not a terminal one
    both = ending([1, "1"])
    assert dict(both.labels) == {"1": {1, "1"}}


def test_a_label_called_like_a_terminal_state():
    mdp = ending(["dead", "well"])
    assert list(mdp.with_labels({"dead": ["dead"]}).labels) == ["dead", "well"]
    with pytest.raises(
        ModelError, match="the label 'dead' has the name of a terminal state, which is a label by itself"
    ):
        mdp.with_labels({"dead": ["dead", "well"]})
    with pytest.raises(ModelError, match="the label 'dead' cannot be removed: it is a terminal state"):
        mdp.with_labels({"dead": None})
    labelled = mdp.with_labels({"over": ["dead", "well"]})
    with pytest.raises(ModelError, match="the label 'over' has the name of a terminal state"):
        labelled.with_names(states=["on", "over", "well"])


def test_an_unknown_label_says_what_there_is():
    with pytest.raises(QueryError) as caught:
        ABC.with_labels({"x": ["a"]}).labels.find("y")
    assert str(caught.value) == "the model has no label 'y'; its labels are 'x'"
    with pytest.raises(QueryError, match=r"the model has no label 'y'; it has none: give some with mdp.with_labels"):
        ABC.labels.find("y")


# What keeps them.


def test_labels_are_kept(tmp_path):
    mdp = ending(["dead", "well"]).with_labels({"over": ["dead", "well"], "far away": ["on"]})
    expected = {"over": {"dead", "well"}, "far away": {"on"}, "dead": {"dead"}, "well": {"well"}}
    mdp.save(tmp_path / "m")
    for twin in (
        tether.MDP.load(tmp_path / "m"),
        pickle.loads(pickle.dumps(mdp)),
        mdp.with_objective(discount=0.5, final_reward={"dead": -1}),
        mdp.with_names(actions=["x", "y"]),
    ):
        assert {name: set(states) for name, states in twin.labels.items()} == expected
        assert list(twin.labels) == list(expected)
        assert not twin.label_sets["over"].flags.writeable
    renamed = mdp.with_names(states=[0, 1, 2])
    assert dict(renamed.labels) == {"over": {1, 2}, "far away": {0}, "1": {1}, "2": {2}}


def test_a_damaged_label_is_refused(tmp_path):
    mdp = ABC.with_labels({"x": ["a", "b"]})
    mdp.save(tmp_path / "m")
    for bad in ([0, 3], [-1, 0], [1, 0]):
        forge(tmp_path / "m", "label_0", np.array(bad, dtype="<i4"))
        with pytest.raises(tether.FileError, match="a set of states cannot be part of a model"):
            tether.MDP.load(tmp_path / "m")


def test_describe_counts_them():
    described = ABC.with_labels({"ends": ["a", "c"]}).describe()
    assert described.labels == {"ends": 2}
    assert "labels        ends (2 states)" in str(described)
    assert "labels" not in str(ABC.describe())


def test_they_print():
    labels = ABC.with_labels({"ends": ["a", "c"], "middle": ["b"]}).labels
    assert repr(labels) == "Labels(ends: 2 states, middle: 1 state)"
    assert repr(labels["ends"]) == "StateSet('a', 'c')"
    many = ring(list(range(20)))
    assert repr(many.with_labels({"all": lambda s: True}).labels["all"]).endswith("11, … (20 in all))")
    assert repr(many.with_labels({f"l{i}": [i] for i in range(20)}).labels).endswith("l11: 1 state, … (20 in all))")
    assert labels["ends"] & {"a"} == {"a"}
    assert hash(labels["ends"]) == hash(frozenset(("a", "c")))
