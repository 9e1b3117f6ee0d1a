"""A directory is not gone on with where anything changed that its answers depend on."""

import dataclasses

import pytest

import tether

SEEN = {("treat", "well"): 8, ("treat", "dead"): 2, ("wait", "well"): 2, ("wait", "dead"): 3}
LOG = [tether.Path(["sick", after], [did]) for (did, after), times in SEEN.items() for _ in range(times)]
TABLE = {
    "episode": [i for i in range(len(LOG)) for _ in range(2)],
    "t": [0, 1] * len(LOG),
    "state": [one for path in LOG for one in path.states],
    "action": [one for path in LOG for one in (*path.actions, None)],
    "ward": ["A" if i % 3 else "B" for i in range(len(LOG)) for _ in range(2)],
}


def learned(log=LOG, **options):
    return tether.learn(log, **{"prior": 0, **options}).with_objective(final_reward={"well": 1.0})


def test_a_model_with_the_same_rows_and_other_counts_is_another_model(tmp_path):
    """Folds, placebos and draws are made of counts: with other counts they are others."""
    one, other = learned(), learned(LOG * 3)
    assert [one.row("sick", a)[1].tolist() for a in one.actions] == [
        other.row("sick", a)[1].tolist() for a in other.actions
    ]
    assert one.counts.concentration.tolist() != other.counts.concentration.tolist()
    few = learned(minimum=8)
    pooled = tether.learn(LOG).with_objective(final_reward={"well": 1.0})
    likely = dataclasses.replace(pooled.counts.pooling, likely=(0.0, 0.5))
    unsure = dataclasses.replace(pooled, counts=dataclasses.replace(pooled.counts, pooling=likely))
    for number, (first, second) in enumerate(((one, other), (one, few), (pooled, unsure))):
        before = tether.audit(first, LOG, out=tmp_path / f"{number}", certify=False, draws=5)
        with pytest.raises(tether.FileError, match="another audit in this directory: the model is another one"):
            tether.audit(second, LOG, out=tmp_path / f"{number}", certify=False, draws=5)
        again = tether.audit(first, LOG, out=tmp_path / f"{number}", certify=False, draws=5)
        assert again.table.equals(before.table)


@pytest.mark.parametrize("ask", [tether.audit, tether.rules])
def test_further_columns_that_a_condition_uses_are_part_of_the_log(tmp_path, ask):
    options = {"where": 'ward == "A"', "out": tmp_path}
    moved = {**TABLE, "ward": ["A" if one == "B" else "B" for one in TABLE["ward"]]}
    mdp = learned()
    ask(mdp, TABLE, **options)
    with pytest.raises(tether.FileError, match="the log is another one, or changed"):
        ask(mdp, moved, **options)
    ask(mdp, {**TABLE, "doctor": TABLE["ward"]}, **options)  # no condition uses it


def test_another_reason_why_an_episode_is_broken_is_another_log(tmp_path):
    def with_times(times):
        return {
            "episode": [*TABLE["episode"], 99, 99],
            "t": [*TABLE["t"], *times],
            "state": [*TABLE["state"], "sick", "well"],
            "action": [*TABLE["action"], "treat", None],
        }

    mdp = learned()
    before = tether.audit(mdp, with_times([0, 2]), out=tmp_path, certify=False).problems.to_pylist()
    with pytest.raises(tether.FileError, match="the log is another one, or changed"):
        tether.audit(mdp, with_times([0, 0]), out=tmp_path, certify=False)
    after = tether.audit(mdp, with_times([0, 0]), out=tmp_path, certify=False, fresh=True).problems.to_pylist()
    assert [one["episode"] for one in before] == [one["episode"] for one in after] == [99]
    assert before != after
