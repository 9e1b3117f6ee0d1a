"""What the table of episodes comes to: the same from a table and from its file, part by part, as from its rows."""

from statistics import fmean, stdev

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tether.auditing.summary import FileRows, TableRows, find_problems, find_top, summarize

NUMBERS = st.none() | st.sampled_from([-2.0, -1e-12, 0.0, 1e-12, 0.5, 1.0, 3.0])
MISTAKES = st.none() | st.sampled_from([0.0, 0.5, 2.0])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "observed": st.floats(-5, 5),
            "outcome": st.sampled_from(["died", "(none)"]),
            "mistakes": MISTAKES,
            "claimed": MISTAKES,
            "gain": NUMBERS,
            "guaranteed_gain": NUMBERS,
            "gamma_star": st.none() | st.sampled_from([1.0, 2.5, float("inf")]),
            "verdict": st.sampled_from([None, "holds", "could do harm"]),
            "value": NUMBERS,
            "model_value": NUMBERS,
            "problem": st.sampled_from([None, "row 3: a gap"]),
        }
    ),
    max_size=12,
)
KINDS = {name: pa.string() for name in ("outcome", "verdict", "problem")}


def both(rows, folder):
    """The rows as a table, and as a file of several groups of rows."""
    columns = {"episode": pa.array(range(len(rows)), pa.int64())}
    names = "observed outcome mistakes claimed gain guaranteed_gain gamma_star verdict value model_value problem"
    for name in names.split():
        columns[name] = pa.array([row[name] for row in rows], KINDS.get(name, pa.float64()))
    parquet.write_table(pa.table(columns), folder / "episodes.parquet", row_group_size=3)
    return TableRows(pa.table(columns)), FileRows(lambda: folder / "episodes.parquet")


@given(ROWS)
def test_the_summary_is_that_of_the_rows(tmp_path_factory, rows):
    def is_more(value, row):
        return value is not None and value > 1e-9 * max(1.0, abs(row["observed"]))

    bad = [row for row in rows if row["claimed"]]
    gained = [row for row in rows if is_more(row["gain"], row)]
    lost = [row for row in rows if row["gain"] is not None and is_more(-row["gain"], row)]
    for found in both(rows, tmp_path_factory.mktemp("rows")):
        summary = summarize(found)
        assert (summary.episodes, len(found)) == (len(rows), len(rows))
        assert summary.answered == sum(row["problem"] is None for row in rows)
        assert summary.mistaken.tolist() == [row["claimed"] for row in bad]
        assert summary.unsure == sum(bool(row["mistakes"]) and not row["claimed"] for row in rows)
        assert summary.hindsight_only == sum(not row["claimed"] for row in gained)
        assert summary.gained.tolist() == [row["gain"] for row in gained]
        assert summary.lost.tolist() == [row["gain"] for row in lost]
        holds = [row for row in gained if row["verdict"] == "holds" and row["gamma_star"] is not None]
        assert summary.strengths.tolist() == [row["gamma_star"] for row in holds]
        verdicts = [row["verdict"] for row in gained if row["verdict"]]
        assert summary.verdicts == {one: verdicts.count(one) for one in verdicts}
        assert summary.is_certified == any(row["verdict"] for row in rows)
        for name, helped in summary.outcomes.items():
            counts = [sum(row["outcome"] == name for row in some) for some in (rows, bad, gained, lost)]
            assert [helped.episodes, helped.mistaken, helped.gained, helped.lost] == counts
        pairs = [(row["value"], row["model_value"]) for row in rows if None not in (row["value"], row["model_value"])]
        if not pairs:
            assert summary.consistency is None
        else:
            apart = [one - other for one, other in pairs]
            consistency = summary.consistency
            assert consistency.episodes == len(pairs)
            assert [consistency.counterfactual, consistency.model, consistency.difference] == pytest.approx(
                [fmean(one for one, _ in pairs), fmean(other for _, other in pairs), fmean(apart)], abs=1e-12
            )
            error = stdev(apart) / len(apart) ** 0.5 if len(apart) > 1 else float("inf")
            assert consistency.standard_error == pytest.approx(error, abs=1e-12)


@given(ROWS, st.integers(1, 5), st.sampled_from(["gain", "guaranteed_gain"]), st.booleans())
def test_the_top_is_what_sorting_all_rows_gives(tmp_path_factory, rows, n, by, losses):
    sign = -1 if losses else 1
    values = [None if row[by] is None else sign * row[by] for row in rows]
    wanted = [
        i for i, value in enumerate(values) if value is not None and value > 1e-9 * max(1, abs(rows[i]["observed"]))
    ]
    wanted = sorted(wanted, key=lambda i: -values[i])[:n]
    for found in both(rows, tmp_path_factory.mktemp("rows")):
        places = find_top(found, n, by, losses=losses)
        assert places.tolist() == wanted
        assert found.take(places[::-1]).column("episode").to_pylist() == wanted[::-1]
        broken = [i for i, row in enumerate(rows) if row["problem"]]
        assert find_problems(found).column("episode").to_pylist() == broken
        assert find_problems(found, 2).column("episode").to_pylist() == broken[:2]


@given(ROWS, st.integers(1, 5), st.booleans())
def test_the_costliest_mistakes_and_the_gains_of_hindsight_only(tmp_path_factory, rows, n, mistakes):
    by = "claimed" if mistakes else "gain"
    wanted = [i for i, row in enumerate(rows) if mistakes or not row["claimed"]]
    wanted = [i for i in wanted if rows[i][by] is not None and rows[i][by] > 1e-9 * max(1, abs(rows[i]["observed"]))]
    wanted = sorted(wanted, key=lambda i: -rows[i][by])[:n]
    for found in both(rows, tmp_path_factory.mktemp("rows")):
        assert find_top(found, n, by, hindsight_only=not mistakes).tolist() == wanted


def test_no_rows_at_all(tmp_path):
    for found in both([], tmp_path):
        assert find_top(found, 3).size == 0
        assert found.take(np.empty(0, np.int64)).num_rows == 0
