"""Explanations: steps, sentences, groups; and the demonstration that prints them."""

import numpy as np
import pytest
from rich.console import Console

import tether
from tether import demo


def explained(k, m, case=None, **options):
    case = tether.cases.epidemic() if case is None else case
    return tether.counterfactual(case.mdp, case.path).plan(k, m, **options).explain()


def test_the_steps_are_those_of_the_path_and_the_plan():
    explanation = explained(7, 4)
    outlook = explanation.outlook
    assert [step.t for step in explanation.steps] == list(range(8))
    for step in explanation.steps:
        states, chances = outlook.distribution(step.t)
        assert step.state == states[int(np.argmax(chances))]
        assert step.state_probability == chances.max()
        assert step.return_so_far == outlook.returns.mean[step.t]
    for step in explanation.steps[:-1]:
        assert step.changed == outlook.changed[step.t]
        assert step.influenced == outlook.tailoring.influenced[step.t]
        assert step.strength == outlook.tailoring.strength[step.t]
        shares = outlook.actions(step.t, step.state)
        assert shares[step.action] == max(shares.values())
    assert explanation.steps[-1].action is None
    assert [step.t for step in explanation.changes] == [1, 2, 3, 4]


def test_sentences_of_a_plan_that_changes_something():
    what, gain, tether_told = explained(6, 4).sentences(str)
    # Changes at t = 2, 3, 4 for certain, at t = 5 nearly so: 3.997 on average.
    assert what.startswith("Change 4 actions on average: at t = 2 V_I instead of NIL")
    assert "at t = 5 V_I instead of NIL (over 99 % of the time)." in what
    assert gain == "The expected return is -22.9 (± 3.255) instead of -38: a gain of 15.1."
    assert tether_told == (
        "The observation still speaks in 2.00 of 7 steps; the longest stretch without it is 5 steps, fewer than k = 6."
    )


def test_sentences_of_a_plan_that_changes_nothing():
    what, gain, told = explained(1, 3).sentences()
    assert what == "Change nothing: no policy within these limits does better than what was done."
    assert gain == "The return stays -38."
    assert told == "The observation still speaks in 7.00 of 7 steps: in every one."


def test_sentences_of_a_plan_off_the_tether():
    assert explained(8, 1).sentences()[-1] == (
        "The observation speaks in none of the steps: this is what the model expects of anyone."
    )


def test_a_rule_that_only_asks_for_possibility_is_called_that():
    grid = tether.cases.grid_world()
    told = explained(6, 4, grid).sentences()[-1]
    run = tether.counterfactual(grid.mdp, grid.path).plan(6, 4).evaluate().tailoring.longest_run
    assert run >= 6
    assert f"the longest stretch without it is {run} steps, with probability " in told
    assert told.endswith(", no fewer than k = 6: this rule asks only that influence stays possible.")
    assured = explained(10, 4, grid, rule="assured").sentences()[-1]
    assert assured.endswith("fewer than k = 10.")


def test_rare_changes_are_told_as_rare():
    mdp = tether.MDP.from_table(
        ["s", "s", "t", "t", "u"],
        ["a", "a", "a", "b", "a"],
        ["t", "u", "u", "u", "u"],
        [0.002, 0.998, 1.0, 1.0, 1.0],
        [0, 0, 0, 1, 0],
        actions=["a", "b"],
    )
    path = tether.Path(["s", "u"], ["a"])
    two = tether.Path([*path.states, "u"], ["a", "a"])
    explanation = tether.counterfactual(mdp, tether.Path(["t", "u"], ["a"])).plan(2, 1).explain()
    assert explanation.sentences(str)[0] == "Change 1 action: at t = 0 b instead of a."
    still = tether.counterfactual(mdp, two).plan(3, 2).explain()  # s was seen to lead to u: t cannot happen
    assert still.sentences()[0].startswith("Change nothing")


def test_an_outcome_that_was_not_recorded():
    case = tether.cases.epidemic()
    cut = tether.Path(case.path.states[:-1], case.path.actions)
    explanation = tether.counterfactual(case.mdp, cut).plan(3, 1).explain()
    assert explanation.steps[-1].observed_state is None


def test_groups_take_states_together():
    case = tether.cases.epidemic()
    plan = tether.counterfactual(case.mdp, case.path).plan(6, 4)
    explanation = plan.explain(group=lambda state: "many" if state.I > 4 else "few")
    states, chances = plan.evaluate().distribution(5)
    many = sum(chance for state, chance in zip(states, chances, strict=True) if state.I > 4)
    step = explanation.steps[5]
    assert (step.state, step.observed_state) == ("many" if many > 0.5 else "few", "many")
    assert step.state_probability == pytest.approx(max(many, 1 - many))


def test_large_numbers_are_told_without_exponents():
    case = tether.cases.epidemic()
    scaled = tether.MDP.from_function(
        case.path.states[0],
        case.mdp.actions_in,
        lambda s, a: dict(zip(*case.mdp.row(s, a), strict=True)),
        lambda s, a: -1000.0 * s.I,
        horizon=7,
    )
    sentence = tether.counterfactual(scaled, case.path).plan(6, 4).explain().sentences()[1]
    assert sentence == "The expected return is -22,900 (± 3,255) instead of -38,000: a gain of 15,100."


def test_the_demonstration_shows_an_episode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(demo, "sepsis", _small_patient)
    demo.main()
    text = (tmp_path / "tether-demo" / "demo.txt").read_text()
    assert "An outbreak among ten people, left alone" in text
    assert "best, k = 3, m = 1" in text
    assert "Change 1 action: at t = 5 V_I instead of NIL." in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def _small_patient():
    """Two states of the sepsis model's labels and two of its treatments: enough for the demonstration's words."""
    ill = tether.cases.sepsis().mdp.states[777]
    dead = next(state for state in tether.cases.sepsis().mdp.states if state.abnormal >= 3)
    mdp = tether.MDP.from_table(
        [ill, ill, ill, ill, dead, dead],
        ["no treatment", "no treatment", "antibiotics + ventilation", "antibiotics + ventilation", "no treatment",
         "antibiotics + ventilation"],
        [ill, dead, ill, dead, dead, dead],
        [0.2, 0.8, 0.7, 0.3, 1.0, 1.0],
        [0, -10, 0, -10, -10, -10],
    )  # fmt: skip
    path = tether.Path([ill, *[dead] * 11], ["no treatment"] * 11)
    return tether.cases.Case("small patient", mdp, {"observed": path})


def test_cells_say_how_far_the_observation_reaches():
    console = Console(width=100, record=True)
    explanation = explained(6, 4)
    console.print(demo._side_by_side([explanation], str))
    text = console.export_text()
    assert "●" in text
    assert "○" in text
    assert "V_I*" in text
