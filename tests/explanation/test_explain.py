"""Explanations: steps, sentences, groups; and the demonstration that prints them."""

import shutil
import sys
import threading

import pytest

import tether
from tether.cli import demo
from tether.explanation.explain import Explanation
from tether.explanation.steps import ExplainedStep, explained_steps
from tether.explanation.terms import beyond_sentences


def explained(k, m, case=None, **options):
    case = tether.cases.epidemic() if case is None else case
    return tether.counterfactual(case.mdp, case.path).plan(k, m, **options).explain()


def test_the_steps_are_those_of_the_path_and_the_plan():
    explanation = explained(7, 4)
    outlook = explanation.outlook
    assert [step.t for step in explanation.steps] == list(range(8))
    for step in explanation.steps:
        chances = dict(zip(*outlook.distribution(step.t), strict=True))
        together: dict = {}  # the states of one outcome count together
        for state, chance in chances.items():
            name = "over" if state.I == 0 else state
            together[name] = together.get(name, 0.0) + chance
        likeliest = max(together, key=lambda one: (together[one], one != "over"))
        assert step.outcome == ("over" if likeliest == "over" else None)
        assert likeliest in (step.state, step.outcome)
        assert step.state_probability == pytest.approx(chances[step.state])
        assert (step.outcome_probability or step.state_probability) == pytest.approx(together[likeliest])
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
    said = explained(6, 4).sentences(str)
    (mistake, luck, what, hindsight, fixed, near), (ended, gain, risk), (*episode, sure) = said[:6], said[6:9], said[9:]
    strength, no_plan, influenced = episode
    assert fixed.startswith("A fixed sequence ")
    assert near.endswith(" within 5 % of its gain.")
    assert mistake.startswith("6 decisions were mistakes that could be known at the time; together they cost 35.9.")
    assert luck == "Bad luck cost 1.14 more, the largest part at step 2."
    assert hindsight == "All of the gain could be foreseen."
    assert risk == "Of 100 replays, none end worse than what happened, and all better."
    assert no_plan == "No plan that helps is about this episode."
    assert ended.startswith("Over at step 7: ")
    assert ended.endswith("instead of 0 %; still under way: 99 % instead of certain.")
    # Changes at step 2, 3, 4 for certain, at step 5 nearly so: 3.997 on average.
    assert what.startswith("Change 4 actions on average: at step 2 V_I instead of NIL")
    assert "at step 5 V_I instead of NIL (over 99 % of the time)." in what
    assert gain == (
        "The expected return is -22.9 (half of the replays between -25 and -21) instead of -38: a gain of 15.1."
    )
    assert strength == (
        "From step 2 on, nothing in this is specific to this episode: it is what the model expects of anyone."
    )
    assert influenced == (
        "2 of the 7 steps are on known ground: what happened tells how chance would have fallen there. The longest "
        "stretch off it is 5 steps, "
        "fewer than k = 6."
    )
    assert sure == (
        "It is expected to do better than what happened, under every causal model in which the luck of one step says "
        "nothing about the luck of another. "
        "The expected return is from -26.79 to -17.01 over all of these that agree with the model and the episode; "
        "observed -38. If the luck of different steps may be related, it is from -27.75 to -13.14. "
        "No hidden reason for the "
        "actions can undo the gain, if what the model calls impossible is impossible."
    )


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_what_the_steps_gain_sums_to_the_gain_of_the_plan(discount):
    case = tether.cases.grid_world()
    mdp = case.mdp.with_objective(discount=discount, final_reward={15: 50.0, 6: -5.0})
    for path in (case.path, tether.Path(case.path.states[:-1], case.path.actions)):
        explanation = tether.counterfactual(mdp, path).plan(6, 4).explain()
        plan, outlook = explanation.plan, explanation.outlook
        assert sum(step.gain for step in explanation.steps) == pytest.approx(plan.gain)
        # The robot earned R(s, a) of what it did.
        seen = mdp.reward(path.states[3], path.actions[3])
        assert explanation.steps[3].gain == pytest.approx(discount**3 * (outlook.rewards[3] - seen))


def test_the_action_of_a_step_is_the_likeliest_of_its_state_and_the_observed_one_among_equals(grid):
    steps = explained_steps(grid, grid.evaluate("random"))
    for step in steps[:-1]:
        done = grid.path.actions[step.t]
        assert step.action == (None if step.state in (6, 15) else done)  # there nothing is left to do
        assert step.action_probability == (0.25 if step.action else 0.0)
        assert step.observed_action == (None if step.observed_state in (6, 15) else done)  # nothing was done after it
        assert not step.differs
    assert steps[-1].action_probability == 0.0


def test_instead_is_the_likeliest_of_the_changes():
    explanation = explained(6, 4)
    for step in explanation.steps[:-1]:
        done = explanation.plan.cf.path.actions[step.t]
        others = {a: p for a, p in explanation.outlook.actions(step.t).items() if a != done}
        assert step.instead == (max(others, key=others.get) if others else None)


def test_a_long_list_of_changes_is_cut_and_rare_ones_are_counted():
    def told(shares):
        steps = [_changed(t, share) for t, share in enumerate(shares)]
        explanation = explained(1, 0)
        return Explanation(explanation.plan, explanation.outlook, tuple(steps)).answer(str).change[0]

    assert told([1.0, 0.04, 1.0]) == (
        "Change 2.04 actions on average: at step 0 b instead of a, at step 2 b instead of a, "
        "and more rarely at 1 other step."
    )
    assert told([0.01]) == "Change 0.01 actions on average: at step 0 b instead of a (1 % of the time)."
    many = told([1.0] * 14)
    assert many.startswith("Change 14 actions: at step 0 b instead of a, ")
    assert many.endswith("at step 11 b instead of a, and at 2 other steps.")


def test_actions_that_are_numbers_are_called_actions():
    mdp = tether.cases.grid_world().mdp.with_names(actions=range(4))
    path = tether.cases.grid_world().path
    moves = {"up": 0, "right": 1, "down": 2, "left": 3}
    cf = tether.counterfactual(mdp, tether.Path(path.states, [moves[action] for action in path.actions]))
    assert cf.plan(6, 1).explain().answer().change[0] == "Change 1 action: at step 2 action 1 instead of 2."


def _changed(t, share):
    return ExplainedStep(t, "s", "a", "s", 1.0, "b", 1.0, "b", share, 0.0, 0.0, 0.0, 0.0)


def test_sentences_of_a_plan_that_changes_nothing():
    what, gain, strength, influenced, sure = explained(1, 3).sentences()[2:]
    assert what == "Change nothing: no policy within these limits does better than what was done."
    assert gain == "The return stays -38."
    assert strength == (
        "Nothing is changed. On average over the 7 steps, the observation moves 41 % of the probability."
    )
    assert influenced == "All 7 steps are on known ground: what happened tells how chance would have fallen there."
    assert sure == "Every causal model that agrees with the model and the episode gives the observed return."


def test_sentences_of_a_plan_off_the_tether():
    assert explained(8, 1).sentences()[-4:-1] == [
        "Nothing in this is specific to this episode: it is what the model expects of anyone.",
        "No plan that helps is about this episode.",
        "No step is on known ground: what happened tells nowhere how chance would have fallen.",
    ]


def test_a_rule_that_only_asks_for_possibility_is_called_that():
    grid = tether.cases.grid_world()
    sentence = explained(6, 4, grid).sentences()[-2]
    run = tether.counterfactual(grid.mdp, grid.path).plan(6, 4).evaluate().tailoring.longest_run
    assert run >= 6
    assert f"The longest stretch off it is {run} steps (probability " in sentence
    assert sentence.endswith(", not fewer than k = 6: the rule 'definition' only keeps a way back possible.")
    assured = explained(10, 4, grid, rule="assured").sentences()[-2]
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
    assert explanation.answer(str).change[0] == "Change 1 action: at step 0 b instead of a."
    still = tether.counterfactual(mdp, two).plan(3, 2).explain()  # s was seen to lead to u: t cannot happen
    assert still.answer().change[0].startswith("Change nothing")


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
    sentence = tether.counterfactual(scaled, case.path).plan(6, 4).explain().answer().follows[0]
    assert sentence == (
        "The expected return is -22,900 (half of the replays between -25,000 and -21,000) instead of -38,000: "
        "a gain of 15,100."
    )


def test_the_demonstration_shows_an_episode(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(demo, "sepsis", _small_patient)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))  # as `make demo` has it
    monkeypatch.setattr(shutil, "which", lambda name: None)
    demo.main()
    text = capsys.readouterr().out
    assert "A patient of a ward: sick, waited four times, died" in text
    assert "About this patient? Yes." in text  # and the other one is not: the ward's is about its episode
    together = " ".join(text.split())
    assert [together.count(one) for one in ("Mistake or luck? ", "About this ", "How sure? ")] == [2, 2, 2]
    assert len(text.splitlines()) <= 40
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "Where to look next:" in text
    assert text.index("Computed exactly") < text.index("Where to look next:")
    for name in ("ward", "sepsis"):
        assert f"tether-demo/{name}.html" in " ".join(text.split())
        assert (tmp_path / "tether-demo" / f"{name}.html").read_text().startswith("<!DOCTYPE html>")


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


@pytest.mark.compiled
def test_the_demonstration_says_treatments_in_words():
    patient = demo.stories()[1]
    text = " ".join(" ".join(one.sentences(str)) for one in patient.explanations())
    assert "antibiotics instead of antibiotics + ventilation" in text
    assert " – " not in text


def test_compiling_is_said_where_it_lasts_and_is_not_counted(monkeypatch, capsys):
    noted, said = [], threading.Event()

    def put(*what):
        noted.extend(what)
        said.set()

    monkeypatch.setattr(demo, "put", put)
    monkeypatch.setattr(demo, "_PATIENCE", 600.0)
    demo._compile()
    assert noted == []
    monkeypatch.setattr(demo, "_PATIENCE", 0.0)
    monkeypatch.setattr(demo, "toy", lambda: said.wait(60) and tether.cases.toy())
    demo._compile()
    assert noted == [demo.COMPILING]


@pytest.mark.parametrize(("cost", "wasted"), [(0.0, 0.0), (1.0, 1.0)])
def test_what_is_done_where_nothing_is_left_to_do_is_no_change(cost, wasted):
    """At the end every action leads back: another one is a change only where it costs something else."""
    rows = [("ill", "wait", "dead", 1.0, 0.0), ("ill", "treat", "well", 1.0, 1.0)]
    rows += [(end, did, end, 1.0, cost * (did == "treat")) for end in ("well", "dead") for did in ("wait", "treat")]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True))
    cf = tether.counterfactual(mdp, tether.Path(["ill", "dead", "dead"], ["wait", "wait"]))
    outlook = cf.evaluate({"ill": "treat", "well": "treat", "dead": "wait"})
    assert outlook.changed.tolist() == [1.0, wasted]
    first, second, _ = explained_steps(cf, outlook)
    assert (first.action, first.instead) == ("treat", "treat")
    assert (second.action, second.instead) == (("treat", "treat") if cost else (None, None))


def test_what_only_both_limits_together_would_gain():
    """To wait at once is not influenced, and to wait on needs a second change: neither limit alone lets it."""
    mdp = tether.MDP.from_table(
        ["home", "home", "home", "fine", "bad"],
        ["go", "go", "wait", "stay", "stay"],
        ["fine", "bad", "home", "fine", "bad"],
        [0.5, 0.5, 1.0, 1.0, 1.0],
    )
    cf = tether.counterfactual(mdp, tether.Path(["home", "bad", "bad"], ["go", "stay"]))
    asked = {"objective": tether.avoid("bad")}
    told = beyond_sentences(cf.plan(**asked).explain())
    assert told[:3] == [
        "A longer tether (a larger k) would add nothing.",
        "More changes (a larger m) would add nothing.",
        "Only together would a longer tether and more changes gain anything.",
    ]
    assert cf.plan(k=3, m=2, **asked).gain == 1.0
    assert not any("together" in one for one in beyond_sentences(cf.plan(k=3, m=2, **asked).explain()))
