"""Sentences: two measures with two names, and none that promises more than holds."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.explanation.about_episode import influenced_steps, left_to_chance, strength
from tether.explanation.sentences import policy_sentences
from tether.explanation.steps import explained_steps
from tether.explanation.terms import tether_in_words


def corridor(T=30):
    """Rooms in a row, and nothing is random: each move leads where it leads."""
    rooms, moves = range(6), {"left": -1, "right": 1}
    rows = [(room, move, min(5, max(0, room + step))) for room in rooms for move, step in moves.items()]
    states, actions, after = zip(*rows, strict=True)
    mdp = tether.MDP.from_table(states, actions, after, [1.0] * len(rows), [float(room == 5) for room in after])
    return tether.counterfactual(mdp, mdp.simulate(lambda _: "left", T, start=0))


@pytest.mark.parametrize(("k", "m"), [(1, 0), (3, 2), (31, 30)])
def test_where_nothing_is_random_there_is_no_luck_to_keep(k, m):
    """On a model without chance it was said that the observation speaks "in every one" of 30 steps."""
    cf = corridor()
    sentences = cf.plan(k, m).explain().sentences(str)
    assert sentences[-2].startswith("No step is random: the episode has no luck to keep")
    assert not any(re.search(r"\d+ steps are on known ground|strength", one) for one in sentences)


def test_a_weak_influence_at_every_step_is_called_weak():
    """Steps that all pass the test, at a strength of about 0.01, are not told as an answer about this episode."""
    rows = [
        ("on", a, after, p)
        for a, chance in (("x", 0.98), ("y", 0.97))
        for after, p in (("on", chance), ("off", 1 - chance))
    ]
    rows += [("off", a, "off", 1.0) for a in "xy"]
    s, a, n, p = zip(*rows, strict=True)
    mdp = tether.MDP.from_table(
        s, a, n, p, [1.0 if (one, act) == ("on", "y") else 0.0 for one, act in zip(s, a, strict=True)]
    )
    cf = tether.counterfactual(mdp, tether.Path(["on"] * 5, ["x"] * 4))
    answer = cf.plan(k=1, m=4).explain().answer(str)
    assert answer.change[0].startswith("Change 3.94 actions")
    first, _, second = answer.episode
    assert re.match(r"(under )?\d % of it is about this episode: so much of the probability the observation", first)
    assert second == "All 4 steps are on known ground: what happened tells how chance would have fallen there."


def test_strength_is_told_before_known_ground():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    for k in range(1, cf.T + 2):
        first, *_, second = cf.plan(k=k, m=3).explain().answer(str).episode
        assert "moves" in first
        assert "known ground" in second


def test_no_sentence_says_that_an_observation_speaks():
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    for k in range(1, cf.T + 2):
        text = " ".join(cf.plan(k=k, m=2).explain(certificate=False).sentences(str))
        assert not re.search(r"speak|say|silent", text)


def test_only_the_rule_assured_promises_influence():
    assert tether_in_words("assured", 3, 7) == "never 3 steps in a row off known ground"
    for rule in ("definition", "published", "printed"):
        assert "never" not in tether_in_words(rule, 3, 7)
    assert "it could be back on known ground within 3 steps" in tether_in_words("definition", 3, 7)
    for rule in ("published", "printed"):  # these look at supports, not at influence
        assert "influence" not in tether_in_words(rule, 1, 7)


@st.composite
def models(draw):
    """A small random model and an episode of it; some rows deterministic, some actions not available."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, rows = draw(st.integers(1, 4)), []
    for s in range(n):
        for a in range(draw(st.integers(1, 3))):
            support = rng.choice(n, size=rng.integers(1, n + 1), replace=False)
            for after, p in zip(support, rng.dirichlet(np.ones(support.size)), strict=True):
                rows.append((s, a, int(after), float(p), float(rng.integers(-2, 3))))
    mdp = tether.MDP.from_table(*map(list, zip(*rows, strict=True)))
    return tether.counterfactual(mdp, mdp.simulate("random", draw(st.integers(1, 5)), rng=rng))


@given(models(), st.integers(1, 6), st.integers(0, 5))
def test_what_is_told_is_what_the_records_hold(cf, k, m):
    """Chance, strength and influenced steps of the sentences, beside a slow walk over all that the plan can meet."""
    plan = cf.plan(k=k, m=m)
    explanation = plan.explain()
    outlook = explanation.outlook
    random = any(len(cf.mdp.row(s, a)[0]) > 1 for s, a in zip(cf.path.states, cf.path.actions, strict=False))
    for t in range(cf.T):
        for state in outlook.distribution(t)[0]:
            for action in outlook.actions(t, state):
                random |= len(cf.mdp.row(state, action)[0]) > 1
    assert left_to_chance(cf, outlook.chain) == random
    of_strength = strength(cf, outlook, explanation.steps)
    assert ("No step is random" in of_strength) == (not random)
    if random:
        moved = float(outlook.tailoring.strength.max()) > 1e-9
        assert ("no probability at any step" in of_strength) == (not moved)
        counted = influenced_steps(outlook.tailoring, plan.k, plan.rule)
        assert ("only keeps influence possible" in counted) == (outlook.tailoring.longest_run >= plan.k)
    assert all(sentence.endswith(".") for sentence in explanation.sentences(str))


def test_a_policy_is_told_in_the_same_words():
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    plan = cf.plan(k=6, m=4)
    explanation = plan.explain()
    sentences = policy_sentences(cf, explanation.outlook, explanation.steps, plan.observed_value)
    assert sentences[0] == "It changes 4 of the 7 actions on average."
    assert sentences[1] == explanation.answer(str).follows[0]
    assert sentences[3] == explanation.answer(str).episode[0]
    assert (
        sentences[4]
        == "2 of the 7 steps are on known ground: what happened tells how chance would have fallen there. The longest "
        "stretch off it is 5 steps."
    )


def test_steps_are_counted_until_the_question_is_decided():
    """A plan that avoids death has no steps after it: they are no part of what is counted."""
    patient = tether.cases.sepsis()
    cf = tether.counterfactual(patient.mdp, patient.path)
    outlook = cf.plan(k=9, m=1, objective=tether.avoid("died")).evaluate()
    died, steps = set(patient.mdp.labels["died"]), 0.0
    for t in range(cf.T):
        steps += sum(chance for state, chance in zip(*outlook.distribution(t), strict=True) if state not in died)
    assert outlook.tailoring.expected_steps == pytest.approx(steps, abs=1e-12)
    assert influenced_steps(outlook.tailoring).startswith("On average 1.19 of 4.54 steps until it is decided are")
    seen = cf.plan(k=9, m=0, objective=tether.avoid("died")).explain(certificate=False)
    assert influenced_steps(seen.outlook.tailoring).startswith("Every step until it is decided is on known ground")
    text = "Nothing is changed. On average over the steps until it is decided, "
    assert strength(cf, seen.outlook, seen.steps).startswith(text)


def test_the_mean_strength_is_that_of_the_steps_until_the_question_is_decided():
    """By hand. Waiting: s or g, one half each; jumping: s 1/4, g 3/4. Seen: s, s, g, g; asked for: g."""
    rows = [("s", "wait", "s", 0.5), ("s", "wait", "g", 0.5), ("s", "jump", "s", 0.25), ("s", "jump", "g", 0.75)]
    rows += [("g", action, "g", 1.0) for action in ("wait", "jump")]
    cf = tether.counterfactual(tether.MDP.from_table(*zip(*rows, strict=True)), tether.Path([*"ssgg"], ["wait"] * 3))
    seen = cf.plan(k=4, m=0, objective=tether.reach("g")).explain(certificate=False)
    about = seen.outlook.tailoring
    assert about.strength.tolist() == [0.5, 0.5, 0.0]  # a point mass in place of (1/2, 1/2), twice; then g is reached
    assert about.mean_strength() == 0.5
    assert strength(cf, seen.outlook, seen.steps) == (
        "Nothing is changed. On average over the steps until it is decided, the observation moves 50 % of the "
        "probability."
    )
    jumps = cf.evaluate(lambda t, _state: "wait" if t else "jump", objective=tether.reach("g"))
    # Jumping where waiting led to s: r = (2, 2/3), D(2) = 2, so s with 1/2. Where it does, waiting leads to g, as seen.
    np.testing.assert_allclose(jumps.tailoring.strength, [0.25, 0.5 * 0.5, 0.0], atol=1e-15)
    assert [jumps.tailoring.mean_strength(t) for t in range(3)] == pytest.approx([0.5 / 1.5, 0.5, 0.0], abs=1e-15)
    sentences = policy_sentences(cf, jumps, explained_steps(cf, jumps), 1.0, tether.reach("g"))
    assert sentences[-2] == (
        "33 % of it is about this episode until it is decided: so much of the probability the observation moves."
    )


def test_every_verdict_of_a_certificate_has_a_word():
    """A report of a learned model failed where a verdict was new."""
    from tether.evaluation.certificate import VERDICTS
    from tether.explanation import verdicts

    assert set(VERDICTS) == set(verdicts._SURE)
