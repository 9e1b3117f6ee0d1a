"""Schedulers of Storm as policies: as Storm writes them, and what is refused."""

import json

import pytest

import tether
from tether.errors import FileError, QueryError
from tether.io import from_stormpy, open_policy
from tether.io.valuations import valuation_class

STATE = valuation_class(["on", "x"])
ROWS = [
    ((True, 0), "toss", (True, 1), 0.5), ((True, 0), "toss", (False, 2), 0.5), ((True, 0), "keep", (True, 0), 1.0),
    ((True, 1), "toss", (True, 0), 1.0), ((False, 2), "stop", (False, 2), 1.0),
]  # fmt: skip
COIN = tether.MDP.from_table(
    [STATE(one[0]) for one in ROWS], [one[1] for one in ROWS], [STATE(one[2]) for one in ROWS], [one[3] for one in ROWS]
)


def choice(label, prob=1.0):
    return {"index": 0, "labels": [label] if label else [], "prob": prob, "origin": {"action-label": label}}


def saved(folder, *entries):
    file = folder / "best.json"
    file.write_text(json.dumps(list(entries)))
    return file


def test_states_by_their_variables_or_numbers_and_actions_by_their_labels(tmp_path):
    file = saved(
        tmp_path,
        {"s": {"x": 0, "on": True}, "c": [choice("toss", 0.25), choice("keep", "3/4")]},
        {"s": COIN.states.index((True, 1)), "c": [choice("")]},  # the only choice there
        {"s": {"x": 2, "on": False}, "c": "undefined"},
    )
    policy = open_policy(file, COIN)
    assert policy == {(True, 0): {"toss": 0.25, "keep": 0.75}, (True, 1): {"toss": 1.0}}
    by_hand = {**policy, (False, 2): "stop"}
    wanted = COIN.evaluate(by_hand, 3, start=(True, 0)).outcomes()
    assert COIN.evaluate({**policy, (False, 2): {"stop": 1.0}}, 3, start=(True, 0)).outcomes() == wanted


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"s": {"x": 9, "on": True}, "c": [choice("toss")]}, "[0]: the model has no state x=9, on=True; is it the"),
        ({"s": 99, "c": [choice("toss")]}, "[0]: the model has no state 99"),
        ({"s": 0, "c": [choice("fly")]}, "[0]: the model has no action 'fly'"),
        ({"s": 0, "c": [choice("")]}, "[0]: the choice [] does not name one action; give commands labels"),
        ({"s": 0, "m": 1, "c": [choice("toss")]}, "this scheduler has memory; only schedulers without memory"),
        ({"s": 0, "c": ["toss"]}, "[0]: found ['toss']; expected a list of choices"),
        ({"s": 0, "c": [choice("toss", "half")]}, "[0]: the probability is 'half'; expected a number"),
        ({"states": [0]}, "this is not a policy; expected a scheduler of Storm"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, entry, message):
    assert COIN.states[0] == (True, 0)
    with pytest.raises(FileError) as caught:
        open_policy(saved(tmp_path, entry), COIN)
    assert message in str(caught.value)


def test_no_json_and_no_columns(tmp_path):
    file = tmp_path / "best.json"
    file.write_text("[")
    with pytest.raises(FileError, match="this is not JSON"):
        open_policy(file, COIN)
    with pytest.raises(QueryError, match="is a scheduler of Storm, not a table"):
        open_policy(file, COIN, columns={"state": "s"})


def test_what_storm_itself_writes(tmp_path):
    stormpy = pytest.importorskip("stormpy")
    (tmp_path / "coin.nm").write_text(
        "mdp module coin x:[0..2] init 0; [toss] x=0 -> 0.5:(x'=1)+0.5:(x'=2); [keep] x=0 -> (x'=0); "
        '[toss] x=1 -> (x\'=1); [stop] x=2 -> true; endmodule label "heads" = x=1;'
    )
    program = stormpy.parse_prism_program(str(tmp_path / "coin.nm"))
    options = stormpy.BuilderOptions(build_full=True)
    options.set_build_choice_labels(True)
    options.set_build_state_valuations(True)
    options.set_build_all_labels(True)
    model = stormpy.build_model(program, options=options)
    wanted = stormpy.parse_properties('Pmax=? [F "heads"]', program)[0]
    found = stormpy.model_checking(model, wanted, extract_scheduler=True).get_scheduler()
    (tmp_path / "best.json").write_text(found.to_json_str(model))
    policy = open_policy(tmp_path / "best.json", from_stormpy(model))
    assert policy[0] == {"toss": 1.0}
