"""Groups of a log compared, and further columns of a log."""

import numpy as np
import pytest
from effort import tries
from wards import HABIT, until_the_end

import tether


def rows(ward, habits, starts, seed=0, n=300):
    """A log with the column ward: group A begins in the first state, group B in the second."""
    rng = np.random.default_rng(seed)
    names = ("episode", "t", "state", "action", "next_state", "ward", "month")
    found = {name: [] for name in names}
    for episode in range(n):
        group = episode % 2
        start = starts[group] if rng.random() < 0.8 else starts[1 - group]
        path = until_the_end(ward.simulate(habits[group], 5, start=start, rng=rng))
        for t in range(path.T):
            values = episode, t, path.states[t], path.actions[t], path.states[t + 1], "AB"[group], 1 + episode % 3
            for name, value in zip(names, values, strict=True):
                found[name].append(value)
    return found


def test_groups_that_differ_only_in_case_mix_do_not_differ(ward):
    found = tether.compare(rows(ward, (HABIT, HABIT), ("sick", "worse")), "ward", mdp=ward)
    assert [one.episodes for one in found.groups] == [150, 150]
    assert found.groups[0].bad[0] < found.groups[1].bad[0]  # those who came worse died more often
    assert not any(one.differs for one in found.groups)
    assert found.to_arrow().num_rows == 2
    assert "no difference" in str(found)


def test_many_groups_seldom_differ_by_chance(ward):
    """Of twelve groups with the same practice none is said to differ in about nine of ten logs, not in one of four."""
    none, n = 0, tries(12, 100)
    log, rng = rows(ward, (HABIT, HABIT), ("sick", "worse"), n=200), np.random.default_rng(0)
    for _ in range(n):
        group = rng.integers(12, size=200)
        found = tether.compare({**log, "ward": group[log["episode"]].tolist()}, "ward", mdp=ward)
        none += not any(one.differs for one in found.groups)
        assert "hold for all 12 groups together" in str(found)
    assert none >= 0.7 * n


def test_the_interval_of_a_difference_is_that_of_welch(ward):
    """Against SciPy's test of two means with unequal spreads: 0 is left out where its p is below 0.1."""
    from scipy.stats import ttest_ind

    careless = {**HABIT, "sick": {"wait": 0.9, "treat": 0.1}, "worse": {"wait": 0.8, "treat": 0.2}}
    seen = set()
    for seed in range(6):
        log = rows(ward, (HABIT, careless), ("sick", "sick"), seed=seed, n=40)
        found, usual = tether.compare(log, "ward", mdp=ward), shares_of(log)
        beyond, expected = {"A": [], "B": []}, {}
        for group, states, actions in episodes_of(log):
            T = len(actions) if states[-1] not in ("well", "dead") else 5
            earned = sum({"wait": -1, "treat": -3}[did] for did in actions) - 20 * (states[-1] == "dead")
            expected[T, states[0]] = expected.get((T, states[0])) or ward.evaluate(usual, T, start=states[0]).value
            beyond[group].append(earned - expected[T, states[0]])
        p = ttest_ind(beyond["A"], beyond["B"], equal_var=False).pvalue
        seen.add(found.groups[0].differs)
        assert found.groups[0].differs == found.groups[1].differs == (p < 0.1)
    assert seen == {False, True}


def episodes_of(log):
    """The group, the states and the actions of each episode of such a log."""
    found = {}
    for episode, state, did, after, group in zip(
        *(log[name] for name in ("episode", "state", "action", "next_state", "ward")), strict=True
    ):
        one = found.setdefault(episode, (group, [state], []))
        one[1].append(after)
        one[2].append(did)
    return list(found.values())


def shares_of(log):
    """Usual practice of the log, counted by hand."""
    usual = {"well": "wait", "dead": "wait"}
    for state in ("sick", "worse"):
        done = [did for here, did in zip(log["state"], log["action"], strict=True) if here == state]
        usual[state] = {did: done.count(did) / len(done) for did in set(done)}
    return usual


def test_another_practice_is_a_difference(ward):
    careless = {**HABIT, "sick": "wait", "worse": "wait"}
    found = tether.compare(rows(ward, (HABIT, careless), ("sick", "sick")), "ward", mdp=ward)
    assert found.groups[1].differs
    assert found.groups[1].difference[0] < 0 < found.groups[0].difference[0]


def test_an_audit_is_compared_by_its_log(ward):
    log = rows(ward, (HABIT, HABIT), ("sick", "sick"), n=60)
    audit = tether.audit(ward, log, k=2, m=1, certify=False)
    assert [one.episodes for one in tether.compare(audit, by="month").groups] == [20, 20, 20]


def test_what_is_said_of_a_group_is_what_its_numbers_are(ward):
    """Of a property in percentage points; the bad ends to be expected are those of usual practice from the starts."""
    log = rows(ward, (HABIT, HABIT), ("sick", "worse"), n=200)
    found = tether.compare(log, "ward", mdp=ward, objective=tether.avoid("dead"))
    one, usual = found.groups[0], shares_of(log)
    lengths = {group: [] for group in "AB"}
    for group, states, actions in episodes_of(log):
        T = 5 if states[-1] in ("well", "dead") else len(actions)
        lengths[group].append((states[0], T))
    dies = {(s, T): 1 - ward.evaluate(usual, T, start=s, objective=tether.avoid("dead")).value
            for own in lengths.values() for s, T in set(own)}  # fmt: skip
    expected = np.mean([dies[key] for key in lengths["A"]])
    assert one.bad[0] - one.bad_beyond[0] == pytest.approx(expected, abs=1e-12)
    text = found.sentences()[0]
    assert f"ended in death ({100 * one.bad[1]:.0f} % to {100 * one.bad[2]:.0f} %; {100 * expected:.0f} % were" in text
    assert f"luck added {100 * one.luck[0]:.3g} percentage points" in text
    less = tether.compare(log, "ward", mdp=ward, objective=tether.reach("dead"), minimise=True)
    assert less.groups[0].difference == pytest.approx(one.difference, abs=1e-12)
    assert less.sentences()[0] == text.replace("luck added", "luck saved")


def test_an_episode_with_several_values_counts_with_its_first(ward):
    log = rows(ward, (HABIT, HABIT), ("sick", "worse"), n=60)
    moved = [i for i in range(1, len(log["t"])) if log["episode"][i] == log["episode"][i - 1] == 4]
    wards = ["C" if i in moved else ward for i, ward in enumerate(log["ward"])]
    found = tether.compare({**log, "ward": wards}, "ward", mdp=ward)
    assert [one.group for one in found.groups] == ["A", "B"]
    assert bool(moved)
    assert found.changing == 1
    assert found.sentences()[-1] == "1 episode has several values in ward; its first one counts."


def test_further_columns_select_episodes(ward):
    log = rows(ward, (HABIT, HABIT), ("sick", "sick"), n=60)
    some = tether.audit(ward, log, k=2, m=1, certify=False, where='ward == "A" and month < 3')
    assert len(some.table) == 20
    half = tether.evaluate_rules(ward, log, [tether.rule("sick", do="treat")], where='ward == "A"')
    assert half[0].episodes == 30
    with pytest.raises(tether.QueryError, match="there is no column 'floor'"):
        tether.audit(ward, log, k=2, where="floor == 2")


def test_groups_that_cannot_be_compared(ward):
    log = rows(ward, (HABIT, HABIT), ("sick", "sick"), n=20)
    with pytest.raises(tether.QueryError, match=r"no column 'floor'.*ward"):
        tether.compare(log, "floor", mdp=ward)
    alone = {**log, "ward": ["C" if episode == 0 else "A" for episode in log["episode"]]}
    with pytest.raises(tether.QueryError, match=r"has one episode.*A \(19 episodes\)"):
        tether.compare(alone, "ward", mdp=ward)
    with pytest.raises(tether.QueryError, match="only one group"):
        tether.compare({**log, "ward": ["A"] * len(log["t"])}, "ward", mdp=ward)
    with pytest.raises(tether.QueryError, match="give mdp="):
        tether.compare(log, "ward")


def test_every_outcome_is_counted_and_a_condition_selects(ward):
    log, calls = rows(ward, (HABIT, HABIT), ("sick", "worse"), n=60), []
    found = tether.compare(log, "ward", mdp=ward, where="month < 3", progress=lambda *one: calls.append(one))
    last = {}
    for episode, end, group, month in zip(*(log[n] for n in ("episode", "next_state", "ward", "month")), strict=True):
        last[episode] = group, month, end if end in ("well", "dead") else "still under way"
    for one in found.groups:
        ends = [end for group, month, end in last.values() if group == one.group and month < 3]
        assert one.episodes == len(ends) == 20
        assert {end: share[0] for end, share in one.outcomes.items()} == {
            end: ends.count(end) / 20 for end in ("dead", "well", "still under way")
        }
        assert all(0 <= low <= share <= high <= 1 for share, low, high in one.outcomes.values())
        assert one.outcomes["dead"] == one.bad
    assert calls[-1] == (2 * len(log["t"]),) * 2
    row = found.to_arrow().to_pylist()[0]
    assert [one["outcome"] for one in row["outcomes"]] == list(found.groups[0].outcomes)
    assert "ended in well" in found.sentences()[0]
    assert found.sentences()[0].count("ended in death") == 1
    assert tether.compare(log, "ward", mdp=ward, objective=tether.avoid("dead")).bad == "dead"
    audit = tether.audit(ward, log, k=2, m=1, certify=False, where="month < 3")
    assert [one.episodes for one in tether.compare(audit, by="ward").groups] == [20, 20]
    with pytest.raises(tether.QueryError, match=r"'month > 9' holds for no episode"):
        tether.compare(log, "ward", mdp=ward, where="month > 9")
