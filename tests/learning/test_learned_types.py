"""Types learned from a log: by a part of the states, and by expectation-maximisation where nothing was recorded."""

from collections import namedtuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tether
from tether.learning.folds import unseen_types

State = namedtuple("State", ["health", "diabetes"])


def true_models():
    """Two types with the same states and actions; in one of them treating helps."""
    models = []
    for get_well in ((0.1, 0.5), (0.5, 0.1)):
        rows = []
        for action, well in zip(("wait", "treat"), get_well, strict=True):
            rows += [("sick", action, "well", well), ("sick", action, "sick", 1 - well)]
            rows += [("well", action, "sick", 0.4), ("well", action, "well", 0.6)]
        models.append(tether.MDP.from_table(*zip(*rows, strict=True)))
    return models


def drawn(n, steps=12, share=0.3, seed=0):
    models, rng = true_models(), np.random.default_rng(seed)
    kinds = rng.random(n) >= share
    return [
        models[int(z)].simulate("random", steps, rng=seed + 7 * i, start="sick") for i, z in enumerate(kinds)
    ], kinds


def test_actions_that_are_too_rare_in_the_log_of_a_type_are_not_advised():
    log, kinds = drawn(60)
    by = ["a" if kind else "b" for kind in kinds]
    advised = []
    for minimum in (1, 100):
        types = tether.learn_types(log, by=by, minimum=minimum).with_objective(final_reward={"well": 1.0})
        kept = np.logical_and.reduce([mdp.learned.advisable for mdp in types.models.values()])
        advised.append(0)
        for path in log[:10]:
            pairs = tether.counterfactual(types, path).plan(m=2).changed_pairs()
            assert all(kept[pair] for pair in pairs)
            advised[-1] += len(pairs)
    assert advised[0] > 0 == advised[1]


def test_em_finds_the_types_of_a_simulated_ward():
    log, kinds = drawn(250)
    types = tether.learn_types(log, k=3, starts=2)
    assert types.best_k == 2
    types = tether.learn_types(log, k=2, starts=4)
    first, second = types.models.values()
    for learned, true in ((first, true_models()[1]), (second, true_models()[0])):
        for action in ("wait", "treat"):
            mine, theirs = (dict(zip(*mdp.row("sick", action), strict=True)) for mdp in (learned, true))
            assert mine["well"] == pytest.approx(theirs["well"], abs=0.08)
    assert types.shares["type 1"] == pytest.approx(0.7, abs=0.08)
    right = (types.responsibilities[:, 0] > 0.5) == kinds
    assert right.mean() > 0.85
    assert types.stability > types.by_chance + 0.2
    assert 1 <= types.reached <= 4
    said = " ".join(types.sentences())
    assert "The Bayesian information criterion is" in said
    assert "halves of the log" in said
    # an episode of the log has the posterior that EM gave it
    cf = tether.counterfactual(types, log[5])
    assert list(cf.posterior.values()) == pytest.approx(types.responsibilities[5], abs=1e-6)
    again = tether.learn_types(log, k=2, starts=4)
    assert again.responsibilities.tolist() == types.responsibilities.tolist()


def test_the_likelihood_and_the_criterion_by_hand():
    """With one action there is nothing to pool: the rows that are kept are those for which the log is likely."""
    log = [tether.Path(path.states, ["wait"] * 4) for path in drawn(30, steps=4)[0]]
    types = tether.learn_types(log, k=2, starts=3)
    total = 0.0
    for path in log:
        chance = 0.0
        for name, mdp in types.models.items():
            likely = types.shares[name]
            for s, a, j in zip(path.states, path.actions, path.states[1:], strict=False):
                likely *= dict(zip(*mdp.row(s, a), strict=True))[j]
            chance += likely
        total += np.log(chance)
    assert types.log_likelihood == pytest.approx(total, rel=1e-5)  # EM has settled
    free = 2 * 2 + 1  # for each type one number for each of the two states, and the share of the first
    assert types.bic[2] == pytest.approx(-2 * total + free * np.log(30), abs=1e-3)


def test_without_types_the_criterion_says_so():
    models = true_models()
    log = [models[0].simulate("random", 12, rng=i, start="sick") for i in range(200)]
    types = tether.learn_types(log, k=2, starts=3)
    assert types.best_k == 1
    assert "these 2 types, and the log does not show them: 1 type explains it better." in " ".join(types.sentences())


def test_rows_by_a_part_of_the_states_are_counts_drawn_towards_everybody():
    log = []
    for sick, ends in ((True, ["dead"] * 6 + ["well"] * 2), (False, ["dead"] + ["well"] * 7)):
        log += [tether.Path([State("sick", sick), State(end, sick)], ["wait"]) for end in ends]
    log.append(tether.Path([State("sick", True), State("well", True)], ["treat"]))
    types = tether.learn_types(log, by="diabetes", prior=2.0)
    for sick, dead, of in ((True, 6, 9), (False, 1, 8)):
        mdp = types.models[f"diabetes = {sick}"]
        assert mdp.counts.pooling.rho == 0.0  # no effect of treating can be shown, and it was never seen without
        for action in ("wait", "treat"):
            row = dict(zip(*mdp.row(("sick",), action), strict=True))
            assert row[("dead",)] == pytest.approx((dead + 2 * 7 / 17) / (of + 2))
    assert types.shares == pytest.approx({"diabetes = False": 8 / 17, "diabetes = True": 9 / 17})
    assert types.best_k is None
    assert "as their diabetes says" in types.sentences()[0]


WORTH = {"well": 1.0, "sick": 0.3}


def test_a_type_is_learned_as_its_own_log_would_be():
    log, kinds = drawn(120)
    types = tether.learn_types(log, by=[bool(one) for one in kinds], prior=1e-9).with_objective(final_reward=WORTH)
    for kind in (True, False):
        own = tether.learn([path for path, one in zip(log, kinds, strict=True) if one == kind])
        own = own.with_objective(final_reward=WORTH)
        learned = types.models[str(kind)]
        assert own.counts.pooling.rho > 0.0
        assert learned.counts.pooling.rho == pytest.approx(own.counts.pooling.rho, rel=1e-6)
        for state in ("sick", "well"):
            for action in ("wait", "treat"):
                assert dict(zip(*learned.row(state, action), strict=True)) == pytest.approx(
                    dict(zip(*own.row(state, action), strict=True))
                )


@pytest.mark.parametrize("how", ["by", "k"])
def test_what_actions_do_is_found_and_if_they_are_shuffled_nothing_is(how):
    """The same log with its actions exchanged within each state: whatever is then found of actions is chance."""
    log, kinds = drawn(150)
    rng, taken = np.random.default_rng(0), {}
    for path in log:
        for state, action in zip(path.states, path.actions, strict=False):
            taken.setdefault(state, []).append(action)
    left = {state: iter(rng.permutation(actions).tolist()) for state, actions in taken.items()}
    shuffled = [tether.Path(path.states, [next(left[state]) for state in path.states[:-1]]) for path in log]
    found = {}
    for name, paths in (("real", log), ("shuffled", shuffled)):
        asked = {"by": ["a" if one else "b" for one in kinds]} if how == "by" else {"k": 2, "starts": 2}
        types = tether.learn_types(paths, **asked).with_objective(final_reward=WORTH)
        cfs = [tether.counterfactual(types, path) for path in paths[:20]]
        claimed, gain = sum(cf.review().claimed for cf in cfs), sum(cf.plan(m=1).gain for cf in cfs)
        found[name] = claimed, gain, "No effect of any action can be shown for any type" in " ".join(types.rests_on())
    assert found["shuffled"] == (0.0, 0.0, True)
    assert found["real"][0] > 1.0
    assert found["real"][1] > 2.0
    assert not found["real"][2]


def test_a_learned_type_is_no_surer_than_a_learned_model(tmp_path):
    """One type gives the review and the verdict of its model; also when it was saved."""
    log, kinds = drawn(40)
    own = [path for path, one in zip(log, kinds, strict=True) if one]
    mdp = tether.learn(own).with_objective(final_reward=WORTH)
    types = tether.Types({"any": mdp}, {"any": 1.0})
    types.save(tmp_path / "types")
    reviewed = 0
    for path in own[:12]:
        usual = tether.counterfactual(mdp, path)
        known, sure = usual.review(), usual.plan(k=13, m=1).certify()
        for one in (types, tether.io.read_types(tmp_path / "types")):
            cf = tether.counterfactual(one, path)
            found, held = cf.review(), cf.plan(m=1).certify()
            for mine, theirs in zip(found.steps, known.steps, strict=True):
                if theirs.mistake > 1e-9:
                    assert mine.probability == pytest.approx(theirs.probability, abs=1e-9)
            assert found.claimed == pytest.approx(known.claimed)
            assert found.gamma_star == (None if known.gamma_star is None else pytest.approx(known.gamma_star))
            assert found.verdict(str) == known.verdict(str)
            assert held.least_seen == sure.least_seen
            assert (held.verdict == "seen too rarely") == (sure.verdict == "seen too rarely")
        reviewed += known.claimed > 0
    assert reviewed > 0
    rare = [tether.Path(["sick", "well"], ["treat"])] * 15 + [tether.Path(["sick", "dead"], ["wait"])] * 200
    mdp = tether.learn(rare).with_objective(final_reward=WORTH)
    died = tether.Path(["sick", "dead"], ["wait"])
    known = tether.counterfactual(mdp, died).plan(k=2, m=1).certify()
    found = tether.counterfactual(tether.Types({"any": mdp}, {"any": 1.0}), died).plan(m=1).certify()
    assert (known.verdict, known.least_seen) == (found.verdict, found.least_seen) == ("seen too rarely", 15)
    assert "an advised action was seen 15 times" in str(found)


def test_the_usual_practice_of_types_is_saved_with_them(tmp_path):
    log, _ = drawn(30, steps=4)
    types = tether.learn_types(log, by=["yes" if i % 3 else "no" for i in range(len(log))])
    types.save(tmp_path / "types")
    again = tether.io.read_types(tmp_path / "types")
    assert again.usual.tolist() == types.usual.tolist()
    states = types.models["no"].states
    for s, state in enumerate(states):
        done = [a for path in log for now, a in zip(path.states, path.actions, strict=False) if now == state]
        start, end = types.models["no"].form.pair_start[s : s + 2]
        for pair in range(start, end):
            action = types.models["no"].actions[int(types.models["no"].form.pair_action[pair])]
            assert types.usual[pair] == pytest.approx(done.count(action) / len(done))
    (tmp_path / "types" / "types.json").write_text(
        (tmp_path / "types" / "types.json").read_text().replace('"usual": [', '"usual": [7,')
    )
    with pytest.raises(tether.errors.FileError, match="the list of types was changed or damaged"):
        tether.io.read_types(tmp_path / "types")


@pytest.mark.parametrize("kind", ["csv", "dataframe", "arrow", "dict"])
def test_a_column_that_is_no_part_of_the_states_gives_the_same_types(kind, tmp_path):
    log, _ = drawn(40, steps=5)
    frail = ["yes" if i % 3 else "no" for i in range(len(log))]
    rows = [
        (100 + i, t, state, action, who if t == 0 else None)  # told once
        for i, (path, who) in enumerate(zip(log, frail, strict=True))
        for t, (state, action) in enumerate(zip(path.states, [*path.actions, None], strict=True))
    ]
    table = pd.DataFrame(rows, columns=["id", "t", "state", "action", "frail"])
    reading = {"columns": {"episode": "id"}}
    given = table
    if kind == "csv":
        given = tmp_path / "log.csv"
        table.to_csv(given, index=False)
    elif kind == "arrow":
        given = pa.Table.from_pandas(table)
    elif kind == "dict":
        given = pa.Table.from_pandas(table).to_pydict()
        reading, given["episode"] = {}, given.pop("id")
    types = tether.learn_types(given, by="frail", **reading)
    for told in (frail, np.array(frail), dict(enumerate(frail))):
        beside = tether.learn_types(log, by=told)
        assert list(beside.models) == ["no", "yes"]
        assert beside.responsibilities.tolist() == types.responsibilities.tolist()
        for who in ("no", "yes"):
            same = zip(
                beside.models[who].form.probability, types.models[f"frail = {who}"].form.probability, strict=True
            )
            assert all(one == pytest.approx(other) for one, other in same)
    parts = [
        tether.Path([State(s, who) for s in path.states], path.actions) for path, who in zip(log, frail, strict=True)
    ]
    twin = tether.learn_types(parts, by="diabetes")
    assert list(types.models) == ["frail = no", "frail = yes"]
    for who in ("no", "yes"):
        mine, theirs = types.models[f"frail = {who}"], twin.models[f"diabetes = {who}"]
        for state in mine.states:
            for action in ("wait", "treat"):
                row = {(j,): chance for j, chance in zip(*mine.row(state, action), strict=True)}
                assert row == pytest.approx(dict(zip(*theirs.row((state,), action), strict=True)))
    assert list(types.shares.values()) == pytest.approx(list(twin.shares.values()))
    assert types.responsibilities.tolist() == twin.responsibilities.tolist()
    if kind == "dataframe":
        table.loc[1, "frail"] = "perhaps"
        with pytest.raises(tether.QueryError, match="episode '100': frail changes"):
            tether.learn_types(table, by="frail", **reading)
        table.loc[table["id"] == 100, "frail"] = None
        with pytest.raises(tether.QueryError, match="1 episode without a value of frail, the first is 100"):
            tether.learn_types(table, by="frail", **reading)
        with pytest.raises(tether.QueryError, match="no column 'insulin'"):
            tether.learn_types(table, by="insulin", **reading)


def test_the_prior_may_depend_on_the_first_state():
    log, _ = drawn(60)
    log += [tether.Path(["well", *path.states[1:]], path.actions) for path in log[:20] if path.states[1] == "well"]
    types = tether.learn_types(log, k=2, starts=2, by_first_state=True)
    for start in ("sick", "well"):
        mine = [i for i, path in enumerate(log) if path.states[0] == start]
        assert list(types.prior(start).values()) == pytest.approx(types.responsibilities[mine].mean(axis=0))


def test_an_episode_of_the_log_does_not_speak_for_itself():
    """Left out of each type, as if it were of it: nearer to models that were learned without it."""
    rng, models = np.random.default_rng(0), []
    for _ in range(2):
        models.append(tether.MDP.from_arrays(rng.dirichlet(np.ones(5), size=(5, 1))))
    who = ["a" if rng.random() < 0.7 else "b" for _ in range(40)]
    log = [models["ab".index(one)].simulate("random", 6, rng=i, start=0) for i, one in enumerate(who)]
    types, found = tether.learn_types(log, by=who), []
    for i in range(20):
        others = [*log[:i], *log[i + 1 :]], [*who[:i], *who[i + 1 :]]
        anew = tether.learn_types(others[0], by=others[1])
        fewer = unseen_types(types, log[i])
        found.append([tether.counterfactual(one, log[i]).posterior[who[i]] for one in (anew, fewer, types)])
        assert fewer.episodes == 39
        assert unseen_types(fewer, log[i]).models == fewer.models  # it is left out once
    anew, left_out, inside = np.mean(found, axis=0)
    assert inside > left_out + 0.01
    assert abs(left_out - anew) < abs(inside - anew)
    stays = next(s for s in types.models["a"].states if s in types.models["a"].row(s, 0)[0])
    elsewhere = tether.Path([stays] * 90, [0] * 89)  # so often no type has that step
    assert unseen_types(types, elsewhere).models == types.models
    hidden = tether.learn_types(log, k=2, starts=2)
    share = tether.counterfactual(hidden, log[0]).posterior
    for name, mdp in unseen_types(hidden, log[0]).models.items():
        gone = hidden.models[name].counts.transitions.sum() - mdp.counts.transitions.sum()
        assert gone == pytest.approx(6 * share[name], abs=1e-6)
    row = tether.audit(types, {"one": log[0]}, certify=False).rows[0]
    assert row.posterior == tether.counterfactual(unseen_types(types, log[0]), log[0]).posterior
    rows = [("s", "go", end, 0.5) for end in "tu"], [("s", "go", "t", 1.0)]
    apart = [tether.learn([tether.Path([s, j], [a]) for s, a, j, _ in one], states="stu") for one in rows]
    types = tether.Types(dict(zip("ab", apart, strict=True)), {"a": 0.3, "b": 0.7})
    known = tether.Path(["s", "u"], ["go"])
    assert unseen_types(types, known).models["b"] is types.models["b"]  # it cannot be of that type
    given = tether.Types(dict(zip("ab", models, strict=True)), {"a": 0.3, "b": 0.7})
    assert unseen_types(given, log[0]) is given


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        ({}, "give by=, a part of the states"),
        ({"k": 2, "by": "diabetes"}, "give by=, a part of the states"),
        ({"k": 2, "prior": 0}, "prior is a number above 0"),
        ({"by": "insulin"}, "has no part 'insulin'"),
        ({"k": 2}, "nothing tells hidden types apart"),
        ({"by": "health"}, "a type stays the same during an episode"),
        ({"by": ["a"]}, "by= has 1 type for 2 episodes"),
        ({"by": {0: "a"}}, "1 episode without a type in by=, the first is 1"),
        ({"k": 1, "colour": 1}, "no argument 'colour'"),
    ],
)
def test_what_it_refuses(ask, why):
    log = [tether.Path([State("sick", True), State(end, True)], ["wait"]) for end in ("well", "dead")]
    with pytest.raises(tether.QueryError, match=why):
        tether.learn_types(log, **ask)
