"""Auditing a log: its answers are those to each of its episodes; what is wrong with one is told of it alone."""

import functools
import re
from collections import Counter, defaultdict
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import as_audited
from singly import answer_each
from twins import episodes
from worlds import tiny_worlds

import tether
from tether.auditing.answer_arrays import Answers, join
from tether.auditing.answering import PreparedQuestion
from tether.auditing.audit_question import make_question
from tether.conditioning.model_sets import EVERY_MODEL
from tether.logs.batches import open_log


def walks(n=12, steps=8):
    """Noisy episodes of the grid world, of several lengths."""
    mdp = tether.cases.grid_world().mdp
    return mdp, [mdp.simulate("optimal", steps + seed % 3, rng=seed, noise=0.4) for seed in range(n)]


@given(episodes(), st.integers(1, 4), st.integers(0, 3), st.sampled_from(["definition", "assured", "published"]))
def test_each_row_is_what_the_single_calls_say(episode, k, m, rule):
    mdp = episode.mdp()
    log = [episode.path, tether.Path(episode.path.states, episode.path.actions, [1.5] * episode.path.T)]
    rows = tether.audit(mdp, log, k, m, rule=rule).table.to_pylist()
    plan = tether.counterfactual(mdp, episode.path).plan(k, m, rule=rule)
    outlook, certificate = plan.evaluate(), plan.certify()
    for row in rows:
        assert (row["value"], row["gain"], row["observed"]) == (plan.value, plan.gain, plan.observed_value)
        assert (row["k"], row["m"], row["steps"]) == (plan.k, plan.m, plan.T)
        assert row["influenced_steps"] == outlook.tailoring.expected_influenced_steps
        assert row["strength"] == outlook.tailoring.strength.mean()
        assert (row["guaranteed_gain"], row["verdict"]) == (certificate.gain, certificate.verdict)
        assert sum(end["probability"] for end in row["ends"]) == pytest.approx(1.0)
        assert row["problem"] is None
        changed = {t for t in range(plan.T) if outlook.changed[t] > 0}
        assert {change["t"] for change in row["changes"]} == changed
        for change in row["changes"]:
            assert change["observed_action"] == episode.path.actions[change["t"]]
            assert 0 < change["probability"] <= outlook.changed[change["t"]] + 1e-12
    assert rows[0]["logged"] is None
    assert rows[1]["logged"] == tether.counterfactual(mdp, log[1]).earned.logged


def test_what_was_found_in_words():
    mdp = tether.MDP.from_table(["s", "s", "t"], ["a", "b", "a"], ["t", "s", "t"], [1.0] * 3, [0.0, 1.0, 0.0])
    left, stayed = tether.Path(["s", "t"], ["a"]), tether.Path(["s", "s"], ["b"])

    def found(model, *log, **options):
        return tether.audit(model, list(log), **{"k": 2, "m": 1, "certify": False, **options}).sentences()[1:]

    bad = "a decision was a mistake that could be known at the time"
    assert found(mdp, left, left) == [
        f"In all of them {bad}.",
        "Such mistakes cost 1 on average, per episode that has one.",
        "With hindsight, at most 1 change would have gained something in all of them: 1 on average.",
        "No replay of these plans ends worse than what happened.",
        "In none of these 2 the plan is about its episode (10 % of it or more).",
    ]
    assert found(mdp, left, stayed) == [
        f"In 1 of them (50 %) {bad}; in the other one every decision was the model's best.",
        "Such mistakes cost 1.",
        "With hindsight, at most 1 change would have gained something in 1 of them (50 %): 1.",
        "No replay of the plan ends worse than what happened.",
        "The plan is not about its episode (less than 10 % of it is).",
    ]
    assert found(mdp, stayed) == [
        "In it every decision was the model's best at the time.",
        "Hindsight would have gained nothing within these limits.",
    ]
    assert found(mdp, stayed, stayed) == [
        "In all of them every decision was the model's best at the time.",
        "Hindsight would have gained nothing within these limits in any of them.",
    ]
    assert found(mdp, left)[:3] == [
        f"In it {bad}.",
        "Such mistakes cost 1.",
        "With hindsight, at most 1 change would have gained something: 1.",
    ]
    certain = f"the expected gain holds under {EVERY_MODEL}."
    hidden = "No hidden reason for the actions can undo the gain, if what the model calls impossible is impossible."
    assert found(mdp, left, left, stayed, certify=True)[5:] == [
        f"In all of these 2 {certain}",
        f"In half of these 2, {hidden.replace('No', 'no', 1)}",
    ]
    assert found(mdp, left, certify=True)[5:] == [certain.replace("the", "The", 1), hidden]
    free = tether.MDP.from_table(["s", "s", "t"], ["a", "b", "a"], ["t", "s", "t"], [1.0] * 3)
    assert found(free, stayed)[2].startswith("All rewards of the model are 0: no plan can gain anything. Ask for")
    assert found(mdp, left, stayed, k=None, policy="optimal")[2] == (
        "The policy would have gained something in 1 of them (50 %): 1, and lost nothing in any of them."
    )


def best_by_recursion(mdp):
    """V and Q of the plain model, by recursion over states and steps left."""

    @functools.cache
    def best(state, left):
        return max(worth(state, action, left) for action in mdp.actions_in(state)) if left else 0.0

    def worth(state, action, left):
        rows = zip(*mdp.row(state, action), strict=True)
        return sum(p * (mdp.reward(state, action, after) + best(after, left - 1)) for after, p in rows)

    return best, worth


def test_outcomes_are_counted_over_all_episodes():
    mdp, log = walks()
    audit = tether.audit(mdp, log, k=3, m=2)
    matrix = Counter()
    for path in log:
        plan = as_audited(mdp, log, path).plan(k=3, m=2)
        names = {15: "goal", 6: "danger"}
        before = names.get(path.states[-1], "still under way")
        outlook = plan.evaluate()
        for state, chance in zip(*outlook.distribution(outlook.horizon), strict=True):
            matrix[before, names.get(state, "still under way")] += chance
    found = {(row["observed"], row["counterfactual"]): row for row in audit.outcomes.to_pylist()}
    for key, row in found.items():
        assert row["episodes"] == pytest.approx(matrix[key], abs=1e-12)
        assert row["percent"] == pytest.approx(100 * matrix[key] / len(log), abs=1e-12)
    assert set(matrix) <= set(found)


def test_decisions_are_counted_by_state_and_action_over_all_episodes():
    mdp, log = walks(30)
    longest = max(path.T for path in log)
    best, worth = best_by_recursion(mdp)
    done, mistakes, better, who = Counter(), Counter(), defaultdict(Counter), defaultdict(set)
    costs, turns = defaultdict(list), Counter()
    for i, path in enumerate(log):
        horizon = longest if path.states[-1] in (6, 15) else path.T
        for t, (state, action) in enumerate(zip(path.states, path.actions, strict=False)):
            if state in (6, 15):
                continue  # it has ended: nothing is decided there
            cost = best(state, horizon - t) - worth(state, action, horizon - t)
            after = best(path.states[t + 1], horizon - t - 1) if t + 1 < horizon else 0.0
            turn = mdp.reward(state, action, path.states[t + 1]) + after - best(state, horizon - t)
            turns[state, action, np.sign(turn) if abs(turn) > 1e-9 else 0] += 1
            done[state, action] += 1
            who[state, action].add(i)
            costs[state, action].append(cost)
            if cost > 1e-9:
                mistakes[state, action] += 1
                there = {b: worth(state, b, horizon - t) for b in mdp.actions_in(state)}
                better[state, action][max(there, key=there.get)] += 1
    rows = tether.audit(mdp, log, k=3, m=2).decisions.to_pylist()
    assert sorted((row["state"], row["action"]) for row in rows) == sorted(done)
    assert any(row["mistakes"] for row in rows)
    assert any(row["gained"] for row in rows)
    for row in rows:
        key = row["state"], row["action"]
        there = [cost for (state, _), some in costs.items() if state == key[0] for cost in some]
        assert (row["times"], row["episodes"], row["mistakes"]) == (done[key], len(who[key]), mistakes[key])
        assert (row["gained"], row["lost"]) == (turns[*key, 1], turns[*key, -1])
        assert row["total_cost"] == pytest.approx(sum(costs[key]), abs=1e-9)
        assert row["mean_cost"] == pytest.approx(np.mean(costs[key]), abs=1e-9)
        assert row["effect"] == pytest.approx(np.mean(there) - np.mean(costs[key]), abs=1e-9)
        often = better[key].most_common()
        assert row["best"] in [action for action, n in often if n == often[0][1]] if often else row["best"] is None
        assert row["better"] is None
    total = [row["total_cost"] for row in rows]
    assert total == sorted(total, reverse=True)


def test_a_policy_against_the_log():
    mdp, log = walks(6)
    audit = tether.audit(mdp, log, policy="optimal", certify=False)
    for row, path in zip(audit.table.to_pylist(), log, strict=True):
        outlook = as_audited(mdp, log, path).evaluate("optimal")
        assert (row["value"], row["k"], row["m"]) == (pytest.approx(outlook.value, rel=1e-12), None, None)
        expected = mdp.evaluate("optimal", as_audited(mdp, log, path).horizon, start=path.states[0]).value
        assert row["model_value"] == pytest.approx(expected, rel=1e-12)
    assert audit.question["policy"] == "optimal"
    same_as_done = tether.audit(mdp, log, policy="observed", certify=False).table
    assert same_as_done.column("gain").to_pylist() == [0.0] * 6
    assert same_as_done.column("changes").to_pylist() == [[]] * 6
    with pytest.raises(tether.QueryError, match="leave k out"):
        tether.audit(mdp, log, k=2, policy="optimal")
    with pytest.raises(tether.QueryError, match="a policy by name is 'observed'"):
        tether.audit(mdp, log, policy="best")


def test_a_policy_as_an_array():
    """A policy that compares item by item is still one policy."""
    mdp, log = walks(2)
    actions = np.zeros(mdp.n_states, dtype=np.int64)
    table = tether.audit(mdp, log, policy=actions, certify=False).table
    for row, path in zip(table.to_pylist(), log, strict=True):
        assert row["value"] == pytest.approx(as_audited(mdp, log, path).evaluate(actions).value, rel=1e-12)
        expected = mdp.evaluate(actions, as_audited(mdp, log, path).horizon, start=path.states[0]).value
        assert row["model_value"] == pytest.approx(expected, rel=1e-12)


@given(tiny_worlds(), st.integers(0, 2**32 - 1))
def test_counterfactual_values_average_to_the_value_in_the_model(world, seed):
    """METHOD, section 12: over all episodes that a behaviour can make, whatever the policy that is asked about."""
    mdp, start = world.cf.mdp, world.path.states[0]
    T = min(2, world.path.T)
    chances = {(): 1.0}
    for _ in range(T):
        after = {}
        for steps, chance in chances.items():
            state = steps[-1][1] if steps else start
            there = mdp.actions_in(state)
            for action in there:
                for following, p in zip(*mdp.row(state, action), strict=True):
                    after[(*steps, (action, following))] = chance * p / len(there)
        chances = after
    log = [tether.Path([start, *(s for _, s in steps)], [a for a, _ in steps]) for steps in chances]
    rng = np.random.default_rng(seed)
    policy = {s: mdp.actions_in(s)[rng.integers(len(mdp.actions_in(s)))] for s in mdp.states if mdp.actions_in(s)}
    table = tether.audit(mdp, log, policy=policy, certify=False).table
    weight = np.array(list(chances.values()))
    mean, model = (table.column(name).to_numpy() @ weight for name in ("value", "model_value"))
    assert mean == pytest.approx(model, rel=1e-9, abs=1e-9)


def test_a_log_that_the_model_did_not_make_is_told():
    mdp, _ = walks(1)
    rare = [tether.Path([0, 1, 2, 2], ["right", "right", "down"])] * 20  # where 6 is what happens nine times in ten
    consistency = tether.audit(mdp, rare, policy="optimal", certify=False).consistency
    assert (consistency.episodes, consistency.holds) == (20, False)
    assert consistency.difference == pytest.approx(consistency.counterfactual - consistency.model)
    assert "may mislead" in str(consistency)
    assert tether.audit(mdp, rare, k=2, certify=False).consistency is None
    simulated = [mdp.simulate("random", 3, start=0, rng=seed) for seed in range(60)]
    assert "this test finds no contradiction" in str(tether.audit(mdp, simulated, policy="optimal", certify=False))


def test_a_property_instead_of_the_return():
    mdp, log = walks(6)
    for options in ({"objective": tether.avoid("danger")}, {"objective": tether.reach("goal"), "minimise": True}):
        audit = tether.audit(mdp, log, 3, 2, **options, where="observed <= 1")
        for row, path in zip(audit.table.to_pylist(), log, strict=True):
            plan = as_audited(mdp, log, path).plan(3, 2, **options)
            outlook = plan.evaluate()
            assert (row["value"], row["gain"], row["observed"]) == (plan.value, plan.gain, plan.observed_value)
            assert [change["t"] for change in row["changes"]] == np.flatnonzero(outlook.changed).tolist()
            assert (row["verdict"], row["guaranteed_gain"]) == (None, None)
        assert audit.question["objective"] == str(options["objective"])
    row = tether.audit(mdp, log[:1], policy="random", objective=tether.reach("goal")).table.to_pylist()[0]
    assert row["value"] == as_audited(mdp, log, log[0]).evaluate("random", objective=tether.reach("goal")).value


def test_credible_intervals_of_a_learned_model():
    world = tether.cases.grid_world()
    log = [world.mdp.simulate("random", 6, rng=seed) for seed in range(60)]
    mdp = tether.learn(log, prior=1).with_objective(final_reward=lambda s: 10.0 * (s == 8))
    rows = tether.audit(mdp, log[:2], k=4, m=2, certify=False, draws=10, seed=3, folds=0).table.to_pylist()
    for row, path in zip(rows, log[:2], strict=True):
        plan = as_audited(mdp, log, path).plan(k=4, m=2)
        interval = tether.posterior(mdp, 10, rng=3).of(plan).interval()
        assert (row["credible_low"], row["credible_high"]) == interval
        assert row["guaranteed_gain"] is None


BROKEN = """episode,t,state,action,reward
1,0,0,right,1
1,1,1,right,1
1,2,2,,
2,0,0,right,1
2,0,1,right,1
3,0,0,jump,1
3,1,1,,
4,0,99,up,1
4,1,1,,
5,0,0,right,1
5,1,15,,
6,0,0,,
7,soon,0,right,1
8,0,0,right,lots
9,0,0,right,1
9,1,1,,
,0,0,right,1
"""
REASONS = {
    2: "t = 0 is given twice",
    3: "no action 'jump'",
    4: "no state '99'|no state 99",
    5: "cannot lead to 15",
    6: "a single row, without an action",
    7: "t is 'soon'",
    8: "the reward 'lots' is not a finite number",
    None: "the episode is empty",
}


def test_broken_episodes_are_listed_and_the_others_answered(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(BROKEN)
    mdp = tether.cases.grid_world().mdp
    audit = tether.audit(mdp, file, k=2)
    rows = {row["episode"]: row for row in audit.table.to_pylist()}
    assert list(rows) == [*range(1, 10), None]
    for one, row in rows.items():
        if one in REASONS:
            assert re.search(REASONS[one], row["problem"])
            assert (row["value"], row["changes"], row["ends"], row["verdict"]) == (None, None, None, None)
        else:
            assert row["problem"] is None
    alone = tether.counterfactual(mdp, tether.Path([0, 1, 2], ["right", "right"])).plan(k=2)
    assert rows[1]["value"] == alone.value
    assert rows[1]["logged"] == 2.0
    assert "line 6" in rows[2]["problem"]
    for one, line in ((3, 7), (4, 9), (5, 11)):  # what the model does not know, or not allow
        assert rows[one]["problem"].startswith(f"{file}, line {line}: t = 0: ")
    assert [row["episode"] for row in audit.problems.to_pylist()] == [2, 3, 4, 5, 6, 7, 8, None]
    assert audit.sentences()[0] == "2 episodes."
    last = audit.sentences()[-1]
    assert last.startswith("8 episodes could not be answered: 2 (")
    assert "line 6" in last
    assert last.endswith("; and 5 more, in the column problem.")
    with pytest.raises(tether.PathError, match="8 problems"):
        tether.audit(mdp, file, k=2, strict=True)
    frame = {"episode": ["a", "a", "b"], "t": [0, 1, 0], "state": [0, 1, (5, 5)], "action": ["right", None, "up"]}
    found = tether.audit(mdp, frame, k=2).table.to_pylist()
    assert [row["problem"] is None for row in found] == [True, False]
    assert found[0]["episode"] == "a"


def test_a_log_of_another_model_does_not_compare_each_step_with_every_state():
    written = []

    class State(str):
        def __str__(self):
            written.append(self)
            return str.__str__(self)

    mdp = tether.cases.grid_world().mdp.with_names(states=[State(f"room {i}") for i in range(16)])
    log = [tether.Path(["room_1", "room_2"] * 10, ["up"] * 19) for _ in range(30)]
    audit = tether.audit(mdp, log, 1, 1, certify=False, workers=1)
    assert "(did you mean 'room 2'?)" in audit.problems["problem"][29].as_py()
    assert len(written) < 100


def test_a_log_whose_t_is_a_time_is_refused_as_a_whole(tmp_path):
    file = tmp_path / "log.csv"
    rows = [f"{e},{4 * t},0,right" for e in range(3) for t in range(3)]
    file.write_text("\n".join(["episode,t,state,action", *rows]))
    with pytest.raises(tether.TetherError, match="if it is a time, name its column"):
        tether.audit(tether.cases.grid_world().mdp, file)


def test_what_is_asked_is_checked():
    mdp, log = walks(1)
    for wrong, words in [
        ({"objective": "reach"}, "the objective 'reach' is none of"),
        ({"draws": 5, "minimise": True}, "leave draws out"),
        ({"policy": "optimal", "minimise": True}, "nothing to minimise"),
        ({"k": 0}, "k must be"),
        ({"m": -1}, "m must be"),
        ({"rule": "strict"}, "rule must be one of"),
        ({"influence": "much"}, "influence must be"),
        ({"draws": 5}, "not learned from episodes"),
        ({"policy": "optimal", "draws": 5}, "leave draws out"),
        ({"columns": {"t": "hour"}}, "these episodes are read already"),
    ]:
        with pytest.raises(tether.QueryError, match=words):
            tether.audit(mdp, log, **wrong)
    with pytest.raises(tether.QueryError, match=r"expected a tether\.MDP"):
        tether.audit(None, log)
    with pytest.raises(tether.FileError, match="no such file"):
        tether.audit(mdp, "nowhere.csv")
    with pytest.raises(tether.QueryError, match="by must be"):
        tether.audit(mdp, log).top(1, by="value")


@pytest.mark.parametrize("cuts", [(0, 8), (0, 1, 8), (0, 3, 3, 5, 8)])
def test_answers_to_parts_of_a_batch_are_joined_to_those_of_the_batch(cuts):
    """By every field; the empty part, and the broken episode, are parts like others."""
    mdp = tether.cases.grid_world().mdp
    log = [mdp.simulate("optimal", 4, rng=seed, noise=0.5) for seed in range(7)] + [tether.Path([0, 15], ["right"])]
    asked = PreparedQuestion.of(mdp, make_question(3, 1, "definition", "support", None, True, None, 0, 0))
    ((_, cohort),) = open_log(log).batches(mdp)
    whole = answer_each(asked, cohort)
    parts = [answer_each(asked, cohort.part(low, high)) for low, high in pairwise(cuts)]
    found = join(parts)
    again = Answers.from_arrow(found.to_arrow(pa.int64()), len(mdp.label_sets.ends))
    for field in fields(Answers):
        expected = getattr(whole, field.name)
        for one in (found, again):
            np.testing.assert_array_equal(getattr(one, field.name), expected, err_msg=field.name)
            assert np.asarray(getattr(one, field.name)).dtype == np.asarray(expected).dtype
    said = join([replace(part, said=["left"] * len(part)) for part in parts]).said
    assert said == ["left"] * len(whole)
