"""Storm as an independent peer, where its Python wheel installs: the plain model, the episode, its intervals.

Every number is found twice: by Tether; and by Storm, in a file that one of the two wrote.
"""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, RULES, worlds

import tether
from tether.io import read_model, write_model

stormpy = pytest.importorskip("stormpy", minversion="2.0")

NEAR = {"abs": 1e-9, "rel": 1e-9}


def values(model, question):
    """Storm's answer for every state."""
    return list(stormpy.model_checking(model, stormpy.parse_properties(question)[0]).get_value_vector())


def assert_same_answers(mdp, model, steps, goal, direction):
    """Returns and chances within some steps, in every state that can be left."""
    minimise, living = direction == "min", [i for i, s in enumerate(mdp.states) if mdp.actions_in(s)]
    questions = {f'P{direction}=? [F<={steps} "{goal}"]': tether.reach(goal)}
    if any(one.has_state_rewards or one.has_state_action_rewards for one in model.reward_models.values()):
        questions[f"R{direction}=? [C<={steps}]"] = None
    for question, objective in questions.items():
        ours, theirs = mdp.solve(steps, objective=objective, minimise=minimise), values(model, question)
        assert [theirs[i] for i in living] == pytest.approx([ours.value(mdp.states[i]) for i in living], **NEAR)


@given(world=worlds(), steps=st.integers(1, 6), direction=st.sampled_from(["max", "min"]), data=st.data())
def test_the_plain_model_as_we_write_it_and_as_storm_writes_it(tmp_path_factory, world, steps, direction, data):
    assume(world.axes in (None, "sa", "sas"))  # the others are rewards that depend on time
    place, goal = tmp_path_factory.mktemp("storm"), data.draw(st.sampled_from(world.states))
    mdp = world.cf.mdp.with_objective(discount=1.0, final_reward={}).with_labels({"goal": [goal]})
    write_model(mdp, place / "ours.drn", mean_rewards=True)
    model = stormpy.build_model_from_drn(str(place / "ours.drn"))
    assert_same_answers(mdp, model, steps, "goal", direction)
    options = stormpy.io.DirectEncodingExporterOptions()
    options.output_precision = 17
    stormpy.io.export_to_drn(model, str(place / "theirs.drn"), options=options)
    assert_same_answers(read_model(place / "theirs.drn"), model, steps, "goal", direction)


@pytest.mark.parametrize("name", ["prism_mdp_coin_2_2", "prism_mdp_slipgrid", "prism_mdp_maze"])
@pytest.mark.parametrize("direction", ["max", "min"])
def test_models_of_storm(tmp_path, name, direction):
    from stormpy.examples import files

    options = stormpy.BuilderOptions(build_full=True)
    options.set_build_all_reward_models(True)
    model = stormpy.build_model(stormpy.parse_prism_program(getattr(files, name)), options=options)
    for label in sorted(model.labeling.get_labels() - {"init", "deadlock"})[:2]:
        mdp = tether.io.from_stormpy(model, reward_model=next(iter(model.reward_models), False))
        assert_same_answers(mdp, model, 12, label, direction)


@FEWER
@pytest.mark.parametrize("rule", RULES)
@given(world=worlds(), minimise=st.booleans(), data=st.data())
def test_the_plan_of_an_episode(tmp_path_factory, rule, world, minimise, data):
    """The counterfactual MDP unfolded over time, k and m: its best value is that of the plan."""
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    goal = data.draw(st.sampled_from([None, *(s for s in world.states if s != world.path.states[0])]))
    about = {"rule": rule, "minimise": minimise, "objective": None if goal is None else tether.reach(goal)}
    place = tmp_path_factory.mktemp("storm") / "episode.drn"
    made = world.cf.write(place, k, m, **about)
    model = stormpy.build_model_from_drn(str(place))
    (first,) = model.initial_states
    wanted = world.cf.plan(k, m, **about).value
    assert values(model, made.question)[first] == pytest.approx(wanted, **NEAR)


FORMULAS = [
    '(F "a") & (F "b")', '(F "a") & (G !"b")', 'F ("a" & (F "b"))', 'F ("a" & (F<=2 "b"))', 'F<=1 ("a" & (F "b"))',
    '(F<=2 "a") & (F "b")',
    '(F "a") | (G !"b")', '(!"b") U ("a" & (F "b"))', 'F<=3 "a"', '!"a" U<=2 "b"',
]  # fmt: skip


@FEWER
@given(world=worlds(), direction=st.sampled_from(["max", "min"]), formula=st.sampled_from(FORMULAS), data=st.data())
def test_formulas_of_an_episode(tmp_path_factory, world, direction, formula, data):
    """Storm's own automata, on the counterfactual MDP unfolded over time, whose ends are stayed in for ever."""
    some = st.lists(st.sampled_from(world.states), min_size=1, unique=True)
    sets = {"a": data.draw(some), "b": data.draw(some)}
    cf = tether.counterfactual(world.cf.mdp.with_labels(sets), world.path)
    place = tmp_path_factory.mktemp("storm") / "episode.drn"
    unfolded = cf.to_mdp()
    members = {name: [node for node in unfolded.states if node[1] in states] for name, states in sets.items()}
    assume(all(members.values()))
    write_model(unfolded.with_labels(members).with_objective(final_reward={}), place, mean_rewards=True)
    model = stormpy.build_model_from_drn(str(place))
    (first,) = model.initial_states
    try:
        plan = cf.plan(world.T + 1, world.T, objective=f"P=? [ {formula} ]", minimise=direction == "min")
    except tether.QueryError as error:  # it is decided at once, or about no step; or about a set without a state
        empty = any(f'!"{name}"' in formula and len(some) == len(world.states) for name, some in sets.items())
        assert "decided at t = 0" in str(error) or (empty and "no state is in" in str(error))  # noqa: PT017
        return
    assert values(model, f"P{direction}=? [ {formula} ]")[first] == pytest.approx(plan.value, **NEAR)


@FEWER
@pytest.mark.parametrize("rule", RULES)
@given(world=worlds(), data=st.data())
def test_the_guarantee_of_a_robust_plan(tmp_path_factory, rule, world, data):
    """The worst over the intervals is what is guaranteed; the best over them is the best possible."""
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    sets = ["nothing", "published-stability", "published-monotonicity"]
    sure = tether.robust(world.cf.mdp, world.path, assume=data.draw(st.sampled_from(sets)))
    goal = data.draw(st.sampled_from([None, *(s for s in world.states if s != world.path.states[0])]))
    about = {"rule": rule, "objective": None if goal is None else tether.reach([goal])}
    place = tmp_path_factory.mktemp("storm") / "episode.drn"
    made = sure.write(place, k, m, **about)
    model = stormpy.build_model_from_drn[stormpy.Interval](str(place))
    question = stormpy.parse_properties(made.question)[0]
    for mode, wanted in (
        (stormpy.UncertaintyResolutionMode.ROBUST, sure.plan(k, m, **about).value),
        (stormpy.UncertaintyResolutionMode.COOPERATIVE, sure.best_possible(k, m, **about)),
    ):
        found = stormpy.model_checking(model, question, uncertainty_resolution_mode=mode).get_value(0)
        assert found - made.shift == pytest.approx(wanted, abs=1e-9 * max(1.0, abs(wanted), made.shift), rel=1e-9)
