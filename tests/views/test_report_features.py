"""States and names in the report: text and nothing else; what they are made of, over time."""

import collections

import numpy as np
import pytest
from pages import EVIL, ODD, PLANS, Position, walk, write, written_once

import tether
from tether._foundation.words import percent
from tether.views.report.report_features import Band, Strip, over_time

# --- Names ------------------------------------------------------------------------------------------------


def test_labels_are_text_and_nothing_else(tmp_path):
    plan = ODD["evil labels"]()
    page = write(plan, tmp_path, title=EVIL, about={EVIL: EVIL}, features={EVIL: str})
    assert not {"script", "img", "b>"} & page.tags - {"b"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    shown = EVIL.replace("\x00", "\N{REPLACEMENT CHARACTER}").replace("\ud800", "?")
    assert page.parts[""].count(shown) >= 2
    assert f"{shown}0" in page.parts["What made this report"] or f"{shown}2" in page.parts["What made this report"]


def test_the_page_holds_no_character_that_pages_may_not(tmp_path_factory):
    text = written_once("evil labels", tmp_path_factory).read_text(encoding="utf-8")
    assert not [letter for letter in text if ord(letter) < 32 and letter != "\n"]


def test_names_are_the_caller_s(tmp_path):
    case = tether.cases.epidemic()
    plan = tether.counterfactual(case.mdp, case.path).plan(7, 4)
    page = write(
        plan,
        tmp_path,
        state_name=lambda state: f"{state.I} ill",
        action_name={"NIL": "leave alone", "V_I": "vaccinate the ill", "V_S": "vaccinate the well"}.get,
        features={"ill": lambda state: state.I, "many": lambda state: state.I > 4},
    )
    assert "vaccinate the ill instead of leave alone from step 1 to 4" in page.text
    steps = plan.explain(group=lambda state: f"{state.I} ill").steps
    assert [row[3] for row in page.steps[1:4]] == [
        "as observed",
        f"2 ill {percent(steps[2].state_probability)}",
        f"as before {percent(steps[3].state_probability)}",
    ]
    assert [name for name in page.drawings if name.endswith("over time")][2:] == ["ill over time", "many over time"]


# --- Features ------------------------------------------------------------------------------------------------


def courses(plan, features=None):
    return over_time(plan, plan.evaluate(), features, str)


def test_features_are_the_fields_of_the_labels(outbreak):
    plan, _ = outbreak
    found = courses(plan)
    assert [one.name for one in found.drawn] == ["S", "I", "V"]
    for one in found.drawn:
        expected = plan.evaluate().feature(one.name)
        np.testing.assert_allclose(one.mean, expected.mean, atol=1e-12)
        assert one.observed.tolist() == [getattr(state, one.name) for state in plan.cf.path.states]


def test_a_band_holds_the_middle_four_fifths(outbreak):
    plan, _ = outbreak
    outlook = plan.evaluate()
    infected = courses(plan, ["I"]).drawn[0]
    for t in range(plan.T + 1):
        states, chances = outlook.distribution(t)
        low, high = infected.low[t], infected.high[t]
        ill = np.array([state.I for state in states])
        assert chances[ill < low].sum() < 0.1 + 1e-9
        assert chances[ill > high].sum() <= 0.1 + 1e-9
        assert {low, high} <= set(ill)


def test_words_and_truth_values_are_strips():
    plan = walk(12, 8, [Position(i, i % 2 == 0, "abc"[i // 4]) for i in range(12)]).plan(4, 2)
    found = courses(plan)
    assert [(type(one), one.name) for one in found.drawn] == [(Band, "x"), (Strip, "warm"), (Strip, "zone")]
    assert found.steady == (("level", "same"),)
    warm, zone = found.drawn[1:]
    assert warm.rows == ("no", "yes")
    assert zone.rows == ("a", "b", "c")  # the model's order, also of what does not occur
    outlook = plan.evaluate()
    for t in range(plan.T + 1):
        states, chances = outlook.distribution(t)
        for i, name in enumerate(zone.rows):
            share = sum(p for s, p in zip(states, chances, strict=True) if s.zone == name)
            assert zone.chance[i, t] == pytest.approx(share, abs=1e-12)
    assert [zone.rows[i] for i in zone.observed] == [state.zone for state in plan.cf.path.states]


def test_states_without_fields_are_shown_themselves():
    plan = PLANS["grid_world"]()
    found = courses(plan)
    (strip,) = found.drawn
    assert found.by_state
    assert len(strip.rows) == 9
    assert strip.rows[0].endswith(" others")
    np.testing.assert_allclose(strip.chance.sum(axis=0), 1.0, atol=1e-12)
    outlook = plan.evaluate()
    for row, chance in list(zip(strip.rows, strip.chance, strict=True))[1:]:
        shares = [dict(zip(*outlook.distribution(t), strict=True)).get(int(row), 0.0) for t in range(plan.T + 1)]
        np.testing.assert_allclose(chance, shares, atol=1e-12)
    assert [strip.rows[i] for i in strip.observed] == [str(state) for state in plan.cf.path.states]


def test_very_many_states_are_not_all_named(monkeypatch):
    monkeypatch.setattr("tether.views.report.report_features._LOOKED_AT", 5)
    plan = PLANS["grid_world"]()
    named = []
    strip = over_time(plan, plan.evaluate(), None, lambda state: named.append(state) or str(state)).drawn[0]
    assert len(named) == 8
    assert strip.rows[0].endswith(" others")
    np.testing.assert_allclose(strip.chance.sum(axis=0), 1.0, atol=1e-12)


def test_an_outcome_that_was_not_recorded_has_no_mark():
    plan = walk(20, 20, last=False).plan(9, 3)
    assert courses(plan).drawn[0].observed[-1] == -1
    assert np.isnan(courses(plan, {"place": float}).drawn[0].observed[-1])


def test_too_many_features_are_counted(tmp_path):
    page = write(walk(6, 4).plan(3, 2), tmp_path, features={f"f{i}": (lambda s, i=i: s * i) for i in range(1, 21)})
    assert "8 more features not drawn." in page.text


def test_a_scale_that_only_part_of_the_model_has():
    plan = walk(6, 4).plan(3, 2)
    reached = {state for t in range(5) for state in plan.evaluate().distribution(t)[0]} | set(plan.cf.path.states)
    word = {state: "even" if state % 2 == 0 else "odd" for state in reached}
    (strip,) = courses(plan, {"parity": word}).drawn
    assert set(strip.rows) == set(word.values())


def test_fields_go_by_either_name():
    case = tether.cases.sepsis()
    states = [case.mdp.states[s] for s in (0, 500, 1000)]
    mdp = tether.MDP.from_table(states, ["a"] * 3, [*states[1:], states[2]], [1.0] * 3)
    plan = tether.counterfactual(mdp, tether.Path(states, ["a", "a"])).plan(1, 0)
    found = courses(plan, ["heart_rate", "heart rate", "abnormal"]).drawn  # the last is a property
    assert [one.name for one in found] == ["heart_rate", "heart rate", "abnormal"]
    assert found[0].rows == found[1].rows
    assert found[2].observed.tolist() == [state.abnormal for state in states]
    with pytest.raises(tether.QueryError, match="the states have no field 'x'; their names have no fields"):
        courses(PLANS["toy"](), ["x"])


def test_numbers_of_every_kind():
    plan = walk(6, 4).plan(3, 2)
    found = courses(plan, {"a": np.float32, "b": lambda state: 10**400 + state, "c": lambda state: (state, "x")}).drawn
    assert [type(one) for one in found] == [Band, Strip, Strip]  # what no float can hold is a word
    assert found[0].whole


def test_a_long_scale_shows_what_occurs():
    plan = walk(40, 4).plan(3, 2)
    (strip,) = courses(plan, {"place": str}).drawn
    seen = {state for t in range(5) for state in plan.evaluate().distribution(t)[0]} | set(plan.cf.path.states)
    assert strip.rows == tuple(str(state) for state in sorted(seen))


def test_labels_of_several_kinds_are_shown_themselves():
    mdp = tether.MDP.from_table([(1, 2), "end"], ["a", "a"], ["end", "end"], [1.0, 1.0])
    found = courses(tether.counterfactual(mdp, tether.Path([(1, 2), "end"], ["a"])).plan(1, 0))
    assert found.by_state
    assert found.drawn[0].rows == ("end", "(1, 2)")  # from below


def test_an_outcome_beside_states_with_fields_is_a_row_of_each_field():
    reading = collections.namedtuple("Reading", "status, lactate")
    states = [reading("ill", 10), reading("ill", 9), reading("well", 3)]
    mdp = tether.MDP.from_table(
        [states[0], states[0], states[1], states[1], states[2]],
        ["wait"] * 5,
        [states[1], states[2], states[1], "died", "home"],
        [0.5, 0.5, 0.5, 0.5, 1.0],
        terminal=["died", "home"],
    )
    path = tether.Path([states[0], states[1], "died"], ["wait", "wait"])
    found = courses(tether.counterfactual(mdp, path).plan(1, 0))
    assert not found.by_state
    assert [(one.name, one.rows) for one in found.drawn] == [
        ("status", ("ill", "well", "died", "home")),
        ("lactate", ("3", "9", "10", "died", "home")),  # numbers by size, words after them
    ]
    assert [found.drawn[1].rows[i] for i in found.drawn[1].observed] == ["10", "9", "died"]
