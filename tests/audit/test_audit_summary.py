"""What the table of episodes comes to: the same from a table and from its file, part by part, as from its rows."""

from collections import Counter
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
CHANGES = st.fixed_dictionaries(
    dict.fromkeys(("observed_action", "advised_action"), st.sampled_from(["wait", "treat"]))
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "observed": st.floats(-5, 5),
            "outcome": st.sampled_from(["died", "still under way"]),
            "mistakes": MISTAKES,
            "claimed": MISTAKES,
            "gain": NUMBERS,
            "guaranteed_gain": NUMBERS,
            "gamma_star": st.none() | st.sampled_from([1.0, 2.5, float("inf")]),
            "verdict": st.sampled_from([None, "holds", "could do harm"]),
            "worse_end": st.sampled_from([None, True, False]),
            "about_episode": st.sampled_from([0.0, 0.1, 0.9]),
            "p_worse": st.sampled_from([None, 0.0, 0.25]),
            "changes": st.none() | st.lists(CHANGES, max_size=2),
            "value": NUMBERS,
            "model_value": NUMBERS,
            "problem": st.sampled_from([None, "row 3: a gap"]),
        }
    ),
    max_size=12,
)
KINDS = {name: pa.string() for name in ("outcome", "verdict", "problem")} | {"worse_end": pa.bool_()}
KINDS["changes"] = pa.list_(pa.struct({name: pa.string() for name in ("observed_action", "advised_action")}))


def both(rows, folder):
    """The rows as a table, and as a file of several groups of rows."""
    columns = {"episode": pa.array(range(len(rows)), pa.int64())}
    names = (
        "observed outcome mistakes claimed gain guaranteed_gain gamma_star verdict worse_end about_episode "
        "p_worse changes value model_value problem"
    )
    for name in names.split():
        columns[name] = pa.array([row[name] for row in rows], KINDS.get(name, pa.float64()))
    parquet.write_table(pa.table(columns), folder / "episodes.parquet", row_group_size=3)
    return TableRows(pa.table(columns)), FileRows(lambda: folder / "episodes.parquet")


@given(ROWS, st.booleans())
def test_the_summary_is_that_of_the_rows(tmp_path_factory, rows, apart):
    def is_more(value, row):
        return value is not None and value > 1e-9 * max(1.0, abs(row["observed"]))

    bad = [row for row in rows if row["claimed"]]
    ended = [row for row in rows if not (apart and row["outcome"] == "still under way")]
    gained = [row for row in ended if is_more(row["gain"], row)]
    lost = [row for row in ended if row["gain"] is not None and is_more(-row["gain"], row)]
    for found in both(rows, tmp_path_factory.mktemp("rows")):
        summary = summarize(found, apart=apart)
        assert summary.unfinished == len(rows) - len(ended)
        assert summary.worse_ends == sum(bool(row["worse_end"]) for row in gained)
        assert summary.about == sum(row["about_episode"] >= 0.1 for row in gained)
        risks = [row["p_worse"] for row in gained]
        assert summary.p_worse == (None if None in risks or not risks else pytest.approx(fmean(risks)))
        assert (summary.episodes, len(found)) == (len(rows), len(rows))
        assert summary.answered == sum(row["problem"] is None for row in rows)
        assert summary.mistaken.tolist() == [row["claimed"] for row in bad]
        assert summary.unsure == sum(bool(row["mistakes"]) and not row["claimed"] for row in rows)
        assert summary.hindsight_only == sum(not row["claimed"] for row in gained)
        assert summary.gained.tolist() == [row["gain"] for row in gained]
        assert summary.lost.tolist() == [row["gain"] for row in lost]
        strong = [row for row in gained if row["gamma_star"] is not None]
        assert summary.strengths.tolist() == [row["gamma_star"] for row in strong]
        assert summary.held.tolist() == [row["gamma_star"] for row in strong if row["verdict"] == "holds"]
        verdicts = [row["verdict"] for row in gained if row["verdict"]]
        assert summary.verdicts == {one: verdicts.count(one) for one in verdicts}
        changed = [(row["changes"][0], row["verdict"]) for row in gained if row["changes"]]
        firsts = [(one["observed_action"], one["advised_action"], verdict) for one, verdict in changed]
        assert sum(one.episodes for one in summary.changed) == len(firsts)
        for one in summary.changed:
            mine = [verdict for *pair, verdict in firsts if pair == [one.observed, one.advised]]
            assert (one.episodes, one.verdicts) == (len(mine), Counter(verdict or "" for verdict in mine))
        assert summary.is_certified == any(row["verdict"] for row in rows)
        for name, helped in summary.outcomes.items():
            counts = [sum(row["outcome"] == name for row in some) for some in (rows, bad, gained, lost)]
            assert [helped.episodes, helped.mistaken, helped.gained, helped.lost] == counts
        pairs = [(row["value"], row["model_value"]) for row in rows if None not in (row["value"], row["model_value"])]
        if not pairs:
            assert summary.consistency is None
        else:
            differences = [one - other for one, other in pairs]
            consistency = summary.consistency
            assert consistency.episodes == len(pairs)
            assert [consistency.counterfactual, consistency.model, consistency.difference] == pytest.approx(
                [fmean(one for one, _ in pairs), fmean(other for _, other in pairs), fmean(differences)], abs=1e-12
            )
            error = stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else float("inf")
            assert consistency.standard_error == pytest.approx(error, abs=1e-12)


@given(
    ROWS,
    st.integers(1, 5),
    st.sampled_from(["gain", "guaranteed_gain"]),
    *[st.booleans()] * 2,
    st.sampled_from([None, True, False]),
)
def test_the_top_is_what_sorting_all_rows_gives(tmp_path_factory, rows, n, by, losses, apart, worse):
    sign = -1 if losses else 1
    values = [None if row[by] is None else sign * row[by] for row in rows]
    wanted = [
        i for i, value in enumerate(values) if value is not None and value > 1e-9 * max(1, abs(rows[i]["observed"]))
    ]
    wanted = [i for i in wanted if not (apart and rows[i]["outcome"] == "still under way")]
    wanted = [i for i in wanted if worse is None or bool(rows[i]["worse_end"]) == worse]
    wanted = sorted(wanted, key=lambda i: -values[i])[:n]
    for found in both(rows, tmp_path_factory.mktemp("rows")):
        places = find_top(found, n, by, losses=losses, apart=apart, worse_end=worse)
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
