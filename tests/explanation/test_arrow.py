"""Results as Arrow tables: their rows against the records they come from, and labels of every kind."""

import dataclasses
import datetime as dt
import enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Position
from worlds import FEWER, in_package, rules_and_criteria, worlds

import tether
from tether._foundation.arrow import NameColumn, name_array


@pytest.fixture(scope="module")
def plan(epidemic):
    return epidemic.plan(7, 4)


# --- Tables ------------------------------------------------------------------------------------------


def test_a_sweep(epidemic):
    table = epidemic.sweep()
    rows = table.to_arrow()
    assert rows.column_names == ["k", "m", "value", "gain", "size"]
    assert rows.num_rows == 64
    for row in rows.to_pylist():
        assert row["value"] == table.value(row["k"], row["m"])
        assert row["gain"] == row["value"] + 38
        assert row["size"] == table.sizes[row["k"] - 1]


def test_a_sweep_of_some(epidemic):
    rows = epidemic.sweep(ks=[8, 3], ms=[2]).to_arrow().to_pylist()
    assert [(row["k"], row["m"]) for row in rows] == [(8, 2), (3, 2)]


def test_a_plan(epidemic, plan):
    rows = plan.to_arrow()
    assert rows.column_names == [
        "t", "state", "changes_left", "probability", "value",
        "action", "observed_action", "changed", "influenced", "strength",
    ]  # fmt: skip
    outlook = plan.evaluate()
    for row in rows.to_pylist():
        state = tuple(row["state"].values())
        if row["t"] == 7:
            assert {row[name] for name in rows.column_names[5:]} == {None}
            continue
        assert row["action"] == plan.action(row["t"], state, row["changes_left"])
        assert row["observed_action"] == "NIL"
        assert row["changed"] == (row["action"] != "NIL")
        assert row["strength"] == epidemic.strength(row["t"], state, row["action"])
        assert row["influenced"] == (row["strength"] > 0)  # of this plan: a shared outcome that moves nothing is rare
    frame = rows.to_pandas()
    for t in range(8):
        here = frame[frame.t == t]
        assert here.probability.sum() == pytest.approx(1.0)
        if t < 7:
            assert here.probability[here.changed == True].sum() == pytest.approx(outlook.changed[t])  # noqa: E712


@FEWER
@given(worlds(), rules_and_criteria(), st.data())
def test_any_plan(world, chosen, data):
    rule, criterion = chosen
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    outlook = plan.evaluate()
    rows = plan.to_arrow().to_pylist()
    assert ("uninfluenced" in rows[0]) == (rule == "assured")
    seen = [0.0] * world.T
    for row in rows:
        if row["t"] < world.T:
            run = row.get("uninfluenced", 0)
            assert row["action"] == plan.action(row["t"], row["state"], row["changes_left"], uninfluenced=run)
            seen[row["t"]] += row["probability"] * row["influenced"]
        at = row["t"], world.cf.mdp.states.index(row["state"]), row["changes_left"]
        assert row["value"] == plan.values[at + ((row["uninfluenced"],) if rule == "assured" else ())]
    assert rows[0]["value"] == pytest.approx(plan.value, abs=1e-9)
    np.testing.assert_allclose(seen, outlook.tailoring.influenced, atol=1e-12)
    states = outlook.to_arrow().to_pylist()
    for t in range(world.T + 1):
        here = {row["state"]: row["probability"] for row in states if row["t"] == t}
        assert here == dict(zip(*outlook.distribution(t), strict=True))


def test_an_explanation(plan):
    explanation = plan.explain()
    rows = explanation.to_arrow().to_pylist()
    for row, step in zip(rows, explanation.steps, strict=True):
        fields = dataclasses.asdict(step)
        assert row | {"state": None, "observed_state": None} == fields | {"state": None, "observed_state": None}
        assert tuple(row["state"].values()) == step.state
    grouped = plan.explain(group=lambda state: state.I > 2).to_arrow()
    assert grouped.schema.field("state").type == pa.bool_()


def test_an_outcome_that_was_not_recorded():
    case = tether.cases.epidemic()
    cut = tether.Path(case.path.states[:-1], case.path.actions)
    explanation = tether.counterfactual(case.mdp, cut).plan(3, 1).explain()
    assert explanation.to_arrow().column("observed_state").to_pylist()[-1] is None


# --- Names ------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    x: int
    name: str


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([1, 2, 3], pa.int64()),
        ([1, 2.5], pa.float64()),
        ([True, False], pa.bool_()),
        (["a", "b"], pa.string()),
        ([b"a"], pa.binary()),
        ([dt.date(2024, 1, 2)], pa.date32()),
        ([dt.datetime(2024, 1, 2, 3)], pa.timestamp("us")),
        ([Pair(1, "a"), Pair(2, "b")], pa.struct([("x", pa.int64()), ("name", pa.string())])),
        ([Position(1, True, "a")], pa.struct(
            [("x", pa.int64()), ("warm", pa.bool_()), ("zone", pa.string()), ("level", pa.string())]
        )),
        ([(1, 2.0), (3, 4.5)], pa.struct([("0", pa.int64()), ("1", pa.float64())])),
        ([(1, (True, "a"))], pa.struct([("0", pa.int64()), ("1", pa.struct([("0", pa.bool_()), ("1", pa.string())]))])),
        ([(1, None), (2, 3)], pa.struct([("0", pa.int64()), ("1", pa.int64())])),
    ],
)  # fmt: skip
def test_labels_keep_their_type(labels, kind):
    array = name_array([*labels, None])
    assert array.type == kind
    back = [tuple(item.values()) if isinstance(item, dict) else item for item in array.to_pylist()]
    flat = [dataclasses.astuple(one) if dataclasses.is_dataclass(one) else one for one in labels]
    if "struct" not in str(kind)[1:]:  # nested ones come back as nested dicts
        assert back == [*flat, None]


@pytest.mark.parametrize(
    "labels",
    [
        [1, "a"],
        [True, 2],
        [(1, 2), (1, 2, 3)],
        [(1,), "a"],
        [Colour.RED],
        [frozenset({1})],
        [2**70],
        [2**60, 0.5],
        [dt.datetime(2024, 1, 2, tzinfo=dt.UTC)],
        [()],
    ],
)
def test_other_labels_become_text(labels):
    array = name_array(labels)
    assert array.type == pa.string()
    assert array.to_pylist() == list(map(str, labels))


def test_a_text_that_is_no_text():
    assert name_array(["\ud800"]).to_pylist() == ["?"]


def test_two_plans_of_one_model_have_one_schema():
    """Also where one reaches only labels of one type."""
    mdp = tether.MDP.from_table([1, 1, 2, "end"], ["a", "b", "a", "a"], [2, "end", 2, "end"], [1.0] * 4, [0, 1, 0, 0])
    path = tether.Path([1, 2], ["a"])
    cf = tether.counterfactual(mdp, path)
    stays, goes = cf.plan(1, 0).to_arrow(), cf.plan(2, 1).to_arrow()
    assert stays.schema == goes.schema
    assert stays.column("state").to_pylist() == ["1", "2"]
    assert goes.column("state").to_pylist() == ["1", "end"]


@given(st.lists(st.integers(0, 40), max_size=30), st.booleans())
def test_names_by_index(indices, few):
    """Few indices of many names, and many of few, with some missing and more rows than indices."""
    names = [f"s{i}" for i in range(41 if few else 100_000)]
    indices = np.array([i if few else i * 2_000 for i in indices], dtype=np.int64)
    empty = np.arange(indices.size + 2) % 3 == 1
    empty[indices.size :] = True
    wanted = [None if gone else names[i] for i, gone in zip([*indices, 0, 0], empty, strict=True)]
    assert NameColumn(names).take(indices, empty).to_pylist() == wanted
    assert NameColumn(names).take(indices).to_pylist() == [names[i] for i in indices]
