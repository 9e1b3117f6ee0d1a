"""Models of stormpy, and files that Storm builds a model from; without stormpy, what to do instead."""

import sys

import numpy as np
import pytest
from commands import run
from hypothesis import given
from modelfiles import assert_same
from worlds import worlds

import tether
from tether.io import from_stormpy, read_model

COIN = """mdp
const int N;
module coin
  x : [0..2] init 0;
  on : bool init true;
  [toss] x=0 -> 0.5 : (x'=1) + 0.5 : (x'=2) & (on'=false);
  [keep] x=0 -> (x'=0);
  [toss] x=1 & N>1 -> 1/3 : (x'=0) + 2/3 : (x'=2);
  [stop] x=2 -> true;
endmodule
rewards "steps"
  [toss] true : 1;
  x=2 : 3;
endrewards
rewards "energy"
  on : 2;
endrewards
label "heads" = x=1;
"""


@pytest.fixture
def coin(tmp_path):
    file = tmp_path / "coin.nm"
    file.write_text(COIN)
    return file


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dice.nm", "export an explicit file: prism dice.nm -exportmodel dice.all"),
        ("dice.prism", "or storm --prism dice.prism --buildfull --exportbuild dice.drn"),
        ("dice.jani", "export an explicit file: storm --jani dice.jani --buildfull --exportbuild dice.drn"),
        ("dice.umb", "export an explicit file: storm --explicit-umb dice.umb --exportbuild dice.drn"),
    ],
)
def test_without_stormpy_the_error_names_the_extra_and_the_command(tmp_path, monkeypatch, name, text):
    monkeypatch.setitem(sys.modules, "stormpy", None)
    (tmp_path / name).write_text("mdp")
    with pytest.raises(tether.FileError) as caught:
        read_model(tmp_path / name)
    assert "needs stormpy, which is not installed; pip install 'tether[storm]'" in str(caught.value)
    assert text in str(caught.value)
    with pytest.raises(tether.QueryError, match="a model of stormpy needs stormpy"):
        from_stormpy(object())
    with pytest.raises(tether.QueryError, match="a model of stormpy needs stormpy"):
        tether.cases.toy().mdp.to_stormpy()


def test_these_formats_are_not_written(tmp_path):
    mdp = tether.cases.toy().mdp
    with pytest.raises(tether.QueryError, match="models are read from the format jani, but not written in it"):
        tether.io.write_model(mdp, tmp_path / "toy.jani")


def test_a_model_in_the_language_of_prism(coin):
    pytest.importorskip("stormpy")
    mdp = read_model(coin, constants="N=2", reward_model="steps")
    assert [tuple(state) for state in mdp.states] == [(True, 0), (True, 1), (False, 2), (True, 2)]
    assert mdp.actions_in((True, 0)) == ("toss", "keep")
    states, chances = mdp.row((True, 1), "toss")
    assert dict(zip(states, chances, strict=True)) == {(True, 0): 1 / 3, (True, 2): 2 / 3}  # all digits are kept
    assert (mdp.reward((True, 0), "toss"), mdp.reward((True, 0), "keep"), mdp.reward((True, 2), "stop")) == (1, 0, 3)
    assert list(mdp.labels["heads"]) == [(True, 1)]
    assert read_model(coin, constants={"N": 2}, reward_model="energy").reward((True, 0), "keep") == 2


def test_what_storm_needs_to_know(coin, tmp_path):
    pytest.importorskip("stormpy")
    with pytest.raises(tether.FileError, match="constants without a value: N; give them: constants='N=…'"):
        read_model(coin)
    with pytest.raises(tether.QueryError, match="say which is meant, reward_model='energy'") as caught:
        read_model(coin, constants="N=2")
    assert (caught.value.problems[0].file, caught.value.problems[0].line) == (str(coin), None)
    (tmp_path / "no.prism").write_text("hello")
    with pytest.raises(tether.FileError, match=r"Storm cannot build a model from it: .*expecting <model type>"):
        read_model(tmp_path / "no.prism")
    with pytest.raises(tether.FileError, match="there is no such file"):
        read_model(tmp_path / "gone.jani")
    answer = " ".join(run("check", coin, "--constants", "N=2", "--reward-model", "steps").split())
    assert "a sound model. states 4 (2 absorbing)" in answer


def test_models_that_are_no_mdp_are_refused_by_their_own_name(tmp_path, capfd):
    """Not by the name of a file that only Tether knew; and what Storm prints never stands in the answer."""
    stormpy = pytest.importorskip("stormpy")
    file = tmp_path / "rates.sm"
    file.write_text(
        "ctmc\nmodule one\n  x : [0..1] init 0;\n  [] x=0 -> 2 : (x'=1);\n  [] x=1 -> 3 : (x'=0);\nendmodule\n"
    )
    with pytest.raises(tether.FileError, match=r"rates\.sm: the model is a continuous-time Markov chain"):
        read_model(file)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "CTMC" in captured.err  # Storm's own warning
    model = stormpy.build_model(stormpy.parse_prism_program(str(file), prism_compatibility=True))
    with pytest.raises(tether.QueryError, match=r"^the model is a continuous-time Markov chain"):
        from_stormpy(model)


def test_what_is_no_model_of_stormpy_is_refused(coin):
    stormpy = pytest.importorskip("stormpy")
    program = stormpy.parse_prism_program(str(coin))
    for one in (program, 42, stormpy.build_symbolic_model(stormpy.instantiate_constants(program, "N=2")[0])):
        with pytest.raises(tether.QueryError, match=r"expected a sparse MDP or DTMC, not \w+; stormpy\.build_model"):
            from_stormpy(one)
    file, toy = coin.with_name("intervals.drn"), tether.cases.toy()
    tether.robust(toy.mdp, toy.path, assume="nothing").write(file, 2, 1)
    with pytest.raises(tether.QueryError, match="interval"):
        from_stormpy(stormpy.build_model_from_drn[stormpy.Interval](str(file)))


@pytest.mark.parametrize("name", ["toy", "grid_world"])
def test_a_model_passes_through_storm(name):
    pytest.importorskip("stormpy")
    mdp = getattr(tether.cases, name)().mdp
    made = mdp.to_stormpy()
    assert (made.nr_states, made.nr_choices) == (mdp.n_states, mdp.n_pairs)
    back = from_stormpy(made)
    assert np.array_equal(back.form.probability, mdp.form.probability)
    assert np.array_equal(back.form.next_state, mdp.form.next_state)
    assert np.array_equal(back.form.pair_start, mdp.form.pair_start)
    assert np.array_equal(back.rewards.values, mdp.rewards.values)
    assert list(back.states) == list(mdp.states)
    if name == "grid_world":
        assert_same(back.with_names(actions=list(mdp.actions)), mdp)


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ([(True, -3, "a b"), (False, 10**17, "é"), (True, 0, "c,d")], True),
        (["sick", "well", "dead"], True),
        ([5, -2, 0], True),
        ([5, "five", 0], False),  # two types
        ([2**63, 1, 0], False),
        (["a", "a & b", "c"], False),  # Storm's own sign
    ],
)
def test_names_of_states_pass_through_storm_where_its_files_hold_them(names, kept):
    pytest.importorskip("stormpy")
    back = from_stormpy(tether.MDP.from_arrays(np.eye(3)[:, None, :], states=names, actions=["x"]).to_stormpy())
    assert list(back.states) == (names if kept else [0, 1, 2])


@given(world=worlds())
def test_every_small_model_passes_through_storm_with_rewards_of_transitions(world):
    """As Storm holds it, read entry by entry; and back."""
    pytest.importorskip("stormpy")
    mdp = world.cf.mdp
    if mdp.rewards.horizon is not None:
        with pytest.raises(tether.QueryError, match="depend on time, which Storm does not hold"):
            mdp.to_stormpy()
        return
    made, names = mdp.to_stormpy(), {str(action): action for action in mdp.actions}
    earned, rows = made.reward_models["reward"], {}
    matrix = earned.transition_rewards if earned.has_transition_rewards else None  # held: its rows point into it
    for state in made.states:
        for action in state.actions:
            choice = made.get_choice_index(state.id, action.id)
            (label,) = made.choice_labeling.get_labels_of_choice(choice)
            rows[mdp.states[state.id], names[label]] = choice, {e.column: e.value for e in action.transitions}
    back = from_stormpy(made)
    for state in mdp.states:
        for action in mdp.actions_in(state):
            choice, row = rows.pop((state, action))
            of_transition = {}
            if matrix is not None:
                of_transition = {e.column: e.value for e in matrix.get_row(choice)}
            reached, chances = mdp.row(state, action)
            assert row == {mdp.states.index(to): chance for to, chance in zip(reached, chances, strict=True)}
            for to in reached:
                j = mdp.states.index(to)
                own = earned.get_state_action_reward(choice) if earned.has_state_action_rewards else 0.0
                assert own + of_transition.get(j, 0.0) == mdp.reward(state, action, to)
                assert back.reward(state, str(action), to) == mdp.reward(state, action, to)
    ends = {state for state in mdp.states if not mdp.actions_in(state)}
    assert all(state in ends and row == {mdp.states.index(state): 1.0} for (state, _), (_, row) in rows.items())


def test_umb_and_jani_are_the_same_model(coin, tmp_path):
    stormpy = pytest.importorskip("stormpy")
    mdp = read_model(coin, constants="N=2", reward_model="steps")
    program, _ = stormpy.instantiate_constants(stormpy.parse_prism_program(str(coin)), "N=2")
    stormpy.io.export_jani_to_file(str(tmp_path / "coin.jani"), program.to_jani([])[0])
    stormpy.io.export_to_umb(mdp.to_stormpy(), str(tmp_path / "coin.umb"))
    jani = read_model(tmp_path / "coin.jani", reward_model="steps")
    assert (jani.n_states, jani.n_pairs, jani.n_transitions) == (mdp.n_states, mdp.n_pairs, mdp.n_transitions)
    umb = read_model(tmp_path / "coin.umb")
    assert np.array_equal(np.sort(umb.form.probability), np.sort(mdp.form.probability))
