"""Rules of a log: their means against the plain model, the search, the check on held-out episodes, the placebo."""

import math
from itertools import combinations

import numpy as np
import pytest
from effort import tries
from wards import HABIT, until_the_end

import tether
from tether.ruling.conditions import all_conditions
from tether.ruling.edits import Actions


@pytest.fixture(scope="module")
def found(ward, ward_log):
    return tether.rules(ward, ward_log, most=2)


def shares(log, states):
    """Usual practice of a log, counted by hand."""
    seen = {}
    for path in log:
        for state, action in zip(path.states, path.actions, strict=False):
            seen.setdefault(state, {}).setdefault(action, 0)
            seen[state][action] += 1
    usual = {state: {a: n / sum(done.values()) for a, n in done.items()} for state, done in seen.items()}
    return usual | {state: {"wait": 0.5, "treat": 0.5} for state in states if state not in usual}


def test_means_are_those_of_the_plain_model(ward, ward_log, found):
    usual = shares(ward_log, ward.states)
    for one in found:
        ruled = {**usual, **{str(other.condition): {"treat": 1.0} for other in (*one.on_top_of, one.rule)}}
        ends = [path.T if path.states[-1] not in ("well", "dead") else 5 for path in ward_log]
        values = {}
        for T in set(ends):
            values[T] = [ward.evaluate(p, T, start="sick").value for p in (usual, ruled)]
        gain = np.mean([values[T][1] - values[T][0] for T in ends])
        assert one.gain == pytest.approx(gain, abs=1e-9)
    assert [one.rule for one in found[:2]] == [one.rule for one in found.chosen]
    assert found[1].on_top_of == (found[0].rule,)
    assert found[1].added == pytest.approx(found[1].gain - found[0].gain, abs=1e-9)
    assert found[1].held_out_added == pytest.approx(found[1].held_out_gain - found[0].held_out_gain, abs=1e-9)
    assert found.table["on_top_of"].to_pylist() == ["", str(found[0].rule), ""]
    change = found[0].bad_before - found[0].bad_after
    assert change == pytest.approx((found[0].saved - found[0].lost) / len(ward_log), abs=0.04)  # the mean over luck


def test_the_policy_of_a_rule(ward, ward_log, found):
    policy = found[0].policy
    assert policy(0, "sick") == {"treat": pytest.approx(1.0)}
    given = policy.given(tether.Path(["sick", "worse", "dead"], ["wait", "treat"]))
    assert given(0, "sick") == {"treat": 1.0}
    assert given(1, "worse") == {"treat": 1.0}  # as recorded
    assert given(1, "sick") == {"treat": pytest.approx(1.0)}
    assert set(given(0, "worse")) == {"wait", "treat"}  # elsewhere, as usual
    one = next(path for path in ward_log if "wait" in path.actions)
    assert tether.counterfactual(ward, one).evaluate(policy).value < 10
    audit = tether.audit(ward, ward_log[:5], policy=policy, certify=False)
    assert len(audit.table) == 5


def test_single_episodes_are_those_of_cf_evaluate(ward, ward_log):
    """The chance to die of an episode under the rule, by the call for one episode."""
    from tether.logs.cohort import find_episodes
    from tether.ruling.recorded import Recorded, RuleWorld
    from tether.ruling.replaying import NUMBERS, replay_episodes

    rule = tether.rule("worse", instead_of="wait", do="treat")
    policy = tether.evaluate_rules(ward, ward_log, [rule])[0].policy
    longer = [path for path in ward_log if path.T == 5][:20]
    world = RuleWorld(ward, None, False, 5, np.array([state == "dead" for state in ward.states]), "dead")
    found = Recorded.of(world, find_episodes(ward, tether.Episodes.from_paths(longer), {}))
    some, numbers = replay_episodes(world, policy.practice, found)
    assert some.size
    for place, row in zip(some.tolist(), numbers, strict=True):
        outlook = tether.counterfactual(ward, longer[place]).evaluate(policy)
        dies = outlook.value  # the expected return
        assert row[NUMBERS.index("gain")] + found.total[place] == pytest.approx(dies, abs=1e-9)


def test_rules_one_after_the_other(ward, ward_log, found):
    """Greedy is the best pair here: all pairs, by the plain model."""
    usual = shares(ward_log, ward.states)
    single = [("sick", "treat"), ("sick", "wait"), ("worse", "treat"), ("worse", "wait")]
    values = {}
    for pair in combinations(single, 2):
        ruled = usual | {state: {did: 1.0} for state, did in pair}
        values[pair] = ward.evaluate(ruled, 5, start="sick").value
    best = max(values, key=values.get)
    assert {(str(one.rule.condition), one.rule.do) for one in found.chosen} == set(best)
    assert found.chosen[1].on_top_of == (found.chosen[0].rule,)
    assert found.shares[0] < found.shares[1] <= 1.0 + 1e-9


def test_harm_excludes(ward, ward_log):
    free, careful = (tether.rules(ward, ward_log, harm=harm) for harm in (None, 0.0))
    assert free.chosen
    assert not careful.chosen
    assert all(one.harmed_chosen > 0 for one in careful)
    with pytest.raises(tether.QueryError, match="harm must be a share"):
        tether.rules(ward, ward_log, harm=2)


def test_workers_directories_and_whole_logs_agree(ward, ward_log, tmp_path):
    here = tether.rules(ward, ward_log).table
    several = tether.rules(ward, ward_log, workers=2, out=tmp_path / "found").table
    again = tether.rules(ward, ward_log, workers=1, out=tmp_path / "found").table
    for name in here.column_names:
        for other in (several, again):
            if here[name].type == "double":
                assert np.allclose(here[name].to_numpy(), other[name].to_numpy(), atol=1e-12, equal_nan=True)
            else:
                assert here[name].to_pylist() == other[name].to_pylist()
    with pytest.raises(tether.FileError, match="another"):
        tether.rules(ward, ward_log, seed=1, out=tmp_path / "found")


def test_a_property_and_the_other_direction(ward, ward_log):
    alive = tether.rules(ward, ward_log, objective=tether.avoid("dead"))
    dead = tether.rules(ward, ward_log, objective=tether.reach("dead"), minimise=True)
    assert str(alive[0].rule) == str(dead[0].rule)
    assert alive[0].gain == pytest.approx(-dead[0].gain, abs=1e-12)
    assert alive[0].saved == pytest.approx(alive[0].helped)
    assert alive[0].gain == pytest.approx(alive[0].bad_before - alive[0].bad_after, abs=1e-12)
    assert "gain (percentage points)" in alive._repr_html_()
    with pytest.raises(tether.QueryError, match="a bad end is one where it fails"):
        tether.rules(ward, ward_log, objective=tether.avoid("dead"), bad="well")


def test_held_out_gains_are_covered(ward):
    """The truth is in the 90 % interval of the held-out gain about nine times of ten; simulated, learned models."""
    ruled = {**HABIT, "worse": {"treat": 1.0}}
    rule, inside, n = tether.rule("worse", instead_of="wait", do="treat"), 0, tries(12, 100)
    objective = tether.avoid("dead")
    truth = ward.evaluate(HABIT, 5, start="sick", objective=objective).value
    truth = ward.evaluate(ruled, 5, start="sick", objective=objective).value - truth
    for seed in range(n):
        rng = np.random.default_rng(seed)
        log = [until_the_end(ward.simulate(HABIT, 5, start="sick", rng=rng)) for _ in range(150)]
        one = tether.evaluate_rules(tether.learn(log), log, [rule], objective=objective, seed=seed)[0]
        inside += one.held_out_low <= truth <= one.held_out_high
    assert inside >= 0.7 * n


def test_the_placebo_selects_nothing(ward):
    """Actions that do nothing: the search chooses no rule in at least 80 % of the seeds."""
    n, nothing = tries(10, 60), 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        paths = []
        for _ in range(120):
            states, actions = [f"s{rng.integers(4)}"], []
            for _ in range(3):
                actions.append("ab"[rng.integers(2)])
                states.append(f"s{rng.integers(4)}" if rng.random() < 0.7 else ("well", "dead")[rng.integers(2)])
                if states[-1] in ("well", "dead"):
                    break
            paths.append(tether.Path(states, actions))
        mdp = tether.learn(paths).with_objective(final_reward={"well": 1.0})
        nothing += not tether.rules(mdp, paths, seed=seed).chosen
    assert nothing >= 0.8 * n


def test_conditions_and_edits_of_sepsis():
    mdp = tether.cases.sepsis().mdp
    assert len(all_conditions(mdp)) * len(Actions(mdp.actions).all_edits()) == 126
    assert len(all_conditions(mdp, ["heart rate", "died"])) == 3  # nothing can be changed for those who died
    edit = Actions(mdp.actions).read("vasopressors", "no vasopressors")
    assert edit.to == (0, 0, 2, 2, 4, 4, 6, 6)
    assert Actions(mdp.actions).read("vasopressors", "ventilation").to[1] == 2
    assert len(all_conditions(mdp, ["diabetic", "oxygen"], depth=2)) == 4 + 4


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (("blood pressure = low", "wait", "treat"), "names no variable"),
        (("worse", "wait", "pray"), "which is no action"),
        (("well", "wait", "treat"), r"nothing is ever decided where well; .* in sick \([\d,]+ times\)"),
        (("worse", "treat", "treat"), "changes nothing: treat is done instead of treat"),
    ],
)
def test_bad_rules_say_what_there_is(ward, ward_log, rule, message):
    condition, instead_of, do = rule
    with pytest.raises(tether.QueryError, match=message) as caught:
        tether.evaluate_rules(ward, ward_log, [tether.rule(condition, instead_of=instead_of, do=do)])
    assert caught.value.problems[0].fix


def test_what_nobody_ever_did_there(ward, ward_log):
    log = [path for path in ward_log if ("worse", "treat") not in zip(path.states, path.actions, strict=False)]
    learned = tether.learn([*log, tether.Path(["sick", "sick"], ["treat"])]).with_objective(final_reward={"well": 1.0})
    with pytest.raises(tether.QueryError, match=r"nobody ever did treat.*wait \d+ times"):
        tether.evaluate_rules(learned, log, [tether.rule("worse", instead_of="wait", do="treat")])
    with pytest.raises(tether.QueryError, match="touches nobody"):
        tether.evaluate_rules(learned, log, [tether.rule("worse", instead_of="treat", do="wait")])
    with pytest.raises(tether.QueryError, match=r"nothing but wait is ever done.*with do=.*wait \d+ times"):
        tether.evaluate_rules(learned, log, [tether.rule("worse", instead_of="wait")])
    with pytest.raises(tether.QueryError, match="changes nothing"):
        tether.rule("worse")
    with pytest.raises(tether.QueryError, match="states with decisions: 'sick', 'worse'"):
        tether.rules(ward, ward_log, conditions=["well"])


def test_page_and_figures(found, ward, ward_log, tmp_path):
    page = found.report(tmp_path / "rules.html").read_text(encoding="utf-8")
    for text in ("Where sick: treat instead of wait.", "Held-out check", "What it cannot know", "causal model"):
        assert text in page
    assert all(math.isfinite(one.gamma_star) and one.gamma_star > 1 for one in found.chosen)
    assert page.count("The gain survives hidden reasons that changed the odds of an action by less than") == len(
        found.chosen
    )
    class_ = "in which the luck of one step says nothing about the luck of another"
    assert all(class_ in " ".join(one.split()) for one in found.chosen)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert len(found.plot().patches) == 2 * len(found)
    assert list(found.to_pandas()["rule"]) == [str(one.rule) for one in found]
    backwards = tether.evaluate_rules(ward, ward_log, [tether.rule("sick", instead_of="treat", do="wait")])
    assert backwards[0].gamma_star == 1.0
    page = backwards.report(tmp_path / "no-gain.html").read_text(encoding="utf-8")
    assert "there is no gain that hidden reasons could undo" in page
