"""The tethered question: κ is computed once, equal questions are one object, and k and m have defaults."""

import pickle
import shlex

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from worlds import RULES, criteria_for, in_package, worlds

import tether
from tether.cli import main
from tether.plan import tether_record as tethered


@pytest.fixture
def passes(monkeypatch):
    """How often κ is computed."""
    counted = []
    compute = tethered.thresholds

    def counting(*args, **options):
        counted.append(args[1])
        return compute(*args, **options)

    monkeypatch.setattr(tethered, "thresholds", counting)
    return counted


@pytest.mark.parametrize("rule", RULES)
def test_kappa_is_computed_once(passes, rule):
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    cf.sweep(rule=rule)
    explanation = cf.plan(rule=rule).explain()
    assert None not in (
        explanation.beyond,
        explanation.certificate,
    )  # properties that sweep, and look at other causal models
    cf.plan(7, 4, rule=rule)
    cf.choose_k(2, -30.0, rule=rule)
    cf.enough_k(rule=rule)
    cf.why(0, (9, 1, 20), "NIL", k=3, rule=rule)
    cf.pareto(rule=rule)
    assert passes == [rule]


def test_assured_looks_again_only_for_a_longer_run(passes):
    case = tether.cases.epidemic()
    question = tether.counterfactual(case.mdp, case.path).tether(rule="assured")
    short = question.plan(3, 2).value
    question.plan(2, 2)
    assert passes == ["assured"]
    question.plan(6, 2)
    assert passes == ["assured"] * 2
    assert question.plan(3, 2).value == short
    assert passes == ["assured"] * 2


def test_equal_questions_are_one_object():
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    assert cf.tether() is cf.tether(rule="definition", influence="support")
    assert cf.tether(influence=tether.tv(0.5)) is cf.tether(influence=tether.tv(0.5))
    assert cf.tether(rule="assured") is not cf.tether()
    assert not pickle.loads(pickle.dumps(cf))._questions


@pytest.mark.parametrize("rule", RULES)
@given(world=worlds(), data=st.data())
def test_without_k_the_plan_is_on_the_shortest_tether_that_is_enough(rule, world, data):
    test = in_package(data.draw(criteria_for(rule)))
    m = data.draw(st.integers(0, world.T))
    question = world.cf.tether(rule=rule, influence=test)
    k = question.enough_k(m)
    plan = world.cf.plan(m=m, rule=rule, influence=test)
    table = world.cf.sweep(rule=rule, influence=test, ms=[m])
    plans = [question.plan(one, m) for one in range(1, world.T + 1)]
    about = [one for one in plans if one.gain > table.rounding and one.about_episode >= 0.1]
    most = max((one.gain for one in about), default=0.0)
    gaining_most = [one.k for one in about if one.gain >= most - table.rounding]
    assert plan.k == (min(gaining_most) if gaining_most else k or 1)
    gains = table.values[: world.T, 0] - table.observed_value
    rounding = 1e-9 * max(1.0, abs(table.observed_value))
    if k is None:
        assert np.all(gains <= rounding)
    else:
        assert gains[k - 1] >= 0.9 * gains.max() - rounding
        assert np.all(gains[: k - 1] < 0.9 * gains.max())


def test_without_m_one_action_changes():
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    assert (cf.plan().k, cf.plan().m) == (7, 1)
    assert cf.pareto(m=1).values.tolist() == cf.pareto().values.tolist()


@given(world=worlds(), data=st.data())
def test_a_part_of_a_sweep_that_was_made_is_the_same_as_one_made_for_it(world, data):
    ks = data.draw(st.lists(st.integers(1, world.T + 1), min_size=1))
    ms = data.draw(st.lists(st.integers(0, world.T), min_size=1))
    alone = world.conditioned().sweep(ks=ks, ms=ms)
    world.cf.sweep()
    part = world.cf.sweep(ks=ks, ms=ms)
    assert part.values.tobytes() == alone.values.tobytes()
    assert (part.ks.tolist(), part.ms.tolist(), part.sizes.tolist()) == (ks, ms, alone.sizes.tolist())


@pytest.mark.parametrize("ask", [lambda mdp: mdp.evaluate("observed", 3), lambda mdp: mdp.simulate("observed", 3)])
def test_the_plain_model_has_no_observed_policy(ask):
    with pytest.raises(tether.QueryError, match="the policy 'observed' needs an observed episode"):
        ask(tether.cases.grid_world().mdp)


@given(world=worlds())
def test_policies_by_name(world):
    cf = world.cf
    assert cf.evaluate("observed").value == pytest.approx(cf.plan(1, 0).value, rel=1e-9, abs=1e-9)
    assert cf.evaluate("optimal").value == cf.evaluate(cf.mdp.solve(cf.T)).value


@pytest.mark.parametrize(
    "asked", ["", "-k 3", "--objective 'reach over'", "--minimise", "--rule assured --objective 'avoid over'"]
)
@pytest.mark.parametrize("command", [["explain"], ["report", "-o", "page.html"]])
def test_one_command_computes_kappa_once(passes, tmp_path, monkeypatch, command, asked):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [command[0], "case:epidemic", *command[1:], *shlex.split(asked)])
    assert done.exit_code == 0, done.output
    assert passes == ["assured" if "assured" in asked else "definition"]
