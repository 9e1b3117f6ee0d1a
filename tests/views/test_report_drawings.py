"""The drawings of a report: in the ink of the page, with names of their own, and no more than can happen."""

import re

import numpy as np
import pytest
from pages import ODD, PLANS, read, write, written_once

import tether
from tether.figures.style import text_width
from tether.views.figures.replay_figure import _wrapped


def test_names_of_drawings_do_not_meet(outbreak):
    """What one drawing defines, such as a mark or a clip, another one never uses by accident."""
    _, page = outbreak
    names = [value for name, value in page.attributes if name == "id"]
    assert len(names) == len(set(names)) > 10
    used = [value.removeprefix("#") for name, value in page.attributes if name == "href" and value.startswith("#")]
    used += [found for name, value in page.attributes for found in re.findall(r"url\(#([^)]*)\)", value)]
    assert set(used) <= set(names)
    assert used


def test_drawings_take_the_page_s_ink(outbreak):
    _, page = outbreak
    style = [value for name, value in page.attributes if name == "style"]
    assert not [value for value in style if re.search("(fill|stroke): #(000000|ffffff)", value)]
    assert [value for value in style if "var(--ink)" in value]
    assert [value for value in style if "var(--paper)" in value]


def test_words_in_drawings_are_words(outbreak):
    """Text stays text: it can be searched, read aloud, and set in the reader's own fonts."""
    _, page = outbreak
    assert "text" in page.tags
    assert "vaccinate" not in page.parts["How sure?"]  # the picture stands below the third card
    assert "what happened" in page.parts["How sure?"]
    assert "filled: strength" in page.parts["For the analyst"]


def test_names_without_room_stay_apart():
    """Where two names of actions are too long for a step, each is cut so that they can be told apart."""
    assert _wrapped("antibiotics + ventilation", 60.0) != _wrapped("antibiotics", 60.0)
    fluids = [_wrapped(f"fluids {i}, vasopressors {j}", 60.0) for i in range(3) for j in range(3)]
    assert len({*map(tuple, fluids)}) == len(fluids)
    assert all(text_width(line) <= 60.0 for lines in fluids for line in lines)
    assert _wrapped("fluids 2, vasopressors 0", 12.0) == []


def test_bands_stay_within_what_can_happen():
    """Of the sepsis path, mean ± standard deviation promised more than any future holds."""
    outlook = PLANS["sepsis"]().evaluate()
    low, high = outlook.returns.band()
    assert ((outlook.returns.mean + outlook.returns.std) > high + 1).any()
    returns = np.zeros((4000, 11))
    drawn = PLANS["sepsis"]().sample(4000, rng=1)
    for i, path in enumerate(drawn.paths):
        pairs = zip(path.states[:-1], path.actions, strict=True)
        returns[i, 1:] = np.cumsum([outlook.mdp.reward(state, action) for state, action in pairs])
    assert (returns.min(axis=0) >= outlook.returns.lowest - 1e-9).all()
    assert (returns.max(axis=0) <= outlook.returns.highest + 1e-9).all()
    assert (low >= outlook.returns.lowest).all()
    assert (high <= outlook.returns.highest).all()


def test_rows_that_are_cut_stay_apart(tmp_path_factory):
    """Names of 500 letters that differ in the last: no two rows of a strip, or of the table, look alike."""
    page = read(written_once("long labels", tmp_path_factory))
    seen = [row[1] for row in page.steps if row[1] != "as before"]
    states = ODD["long labels"]().cf.path.states
    assert len(set(seen)) == len(set(states)) > 1
    strips = "".join(page.parts["For the analyst"].split("Over time")[1:2]).split("The states over time")[0]
    rows = re.findall("x+…x*[0-9]", strips)
    assert len(rows) == len(set(rows)) > 1


@pytest.mark.usefixtures("only_words")
def test_where_nothing_is_left_to_chance_there_is_no_luck_to_keep(tmp_path):
    mdp = tether.MDP.from_table(["a", "a", "b"], ["stay", "go", "stay"], ["a", "b", "b"], [1.0] * 3, [0.0, 1.0, 0.0])
    page = write(tether.counterfactual(mdp, tether.Path(["a", "a", "a"], ["stay", "stay"])).plan(3, 1), tmp_path)
    assert "the episode has no luck to keep" in page.parts["About this episode?"]
    assert "Influenced steps" not in page.text
