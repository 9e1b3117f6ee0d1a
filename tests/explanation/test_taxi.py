"""Real Taxi: nothing in it is left to chance, so nothing may be claimed to be influenced by what was observed."""

import re

import gymnasium
import pytest
from click.testing import CliRunner
from pages import read, undrawn

import tether
from tether.cli import main

ACTIONS = [4, 0, 1, 3, 5, 0, 2, 4]


@pytest.fixture(scope="module")
def ride():
    env = gymnasium.make("Taxi-v4")
    state, _ = env.reset(seed=3)
    states = [state, *(env.step(action)[0] for action in ACTIONS)]
    return tether.from_gymnasium(env), tether.Path([int(s) for s in states], ACTIONS)


NO_LUCK = "No step is random: the episode has no luck to keep, and the answer does not depend on it."


def test_a_ride_in_a_taxi_has_no_luck_to_keep(ride):
    explanation = tether.counterfactual(*ride).plan(k=2, m=2).explain()
    assert explanation.plan.gain > 0
    assert NO_LUCK in explanation.sentences()
    notebook = explanation._repr_html_()
    assert NO_LUCK in notebook
    assert not re.search("influence|strength", notebook)


def test_the_terminal_claims_no_influence(ride, tmp_path):
    path = ride[1]
    rows = [f"{t},{s},{a}" for t, (s, a) in enumerate(zip(path.states, [*path.actions, ""], strict=True))]
    (tmp_path / "ride.csv").write_text("\n".join(["t,state,action", *rows]) + "\n")
    done = CliRunner().invoke(main, ["explain", "gym:Taxi-v4", str(tmp_path / "ride.csv"), "-k", "2", "-m", "2"])
    output = " ".join(done.output.split())
    assert NO_LUCK in output
    assert "strength" not in output
    assert "influence" not in output
    (k,) = re.findall(r"[^.]*known ground[^.]*\.[^.]*\.", output)  # what k is
    assert k.endswith("As no step is random, this only says how near the plan stays to what was done.")


def test_the_report_claims_no_influence(ride, tmp_path):
    with undrawn():
        file = tether.counterfactual(*ride).plan(k=2, m=2).report(tmp_path / "ride.html")
    text = read(file).text
    assert NO_LUCK in text
    assert "this only says how near the plan stays to what was done" in text
    assert "with the luck it had" not in text
    heads = re.findall('<th scope="col">([^<]*)</th>', (tmp_path / "ride.html").read_text())
    assert "Score added" in heads
    assert not any(head.startswith("About this") for head in heads)
