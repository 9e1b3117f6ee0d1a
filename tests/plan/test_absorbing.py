"""Where episodes end, another action than the observed one is no change (METHOD: planning in absorbing states)."""

import pytest

import tether

SIDE, GOAL = 60, (59, 59)
MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}


def moved(cell, move):
    row, column = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
    return min(max(row, 0), SIDE - 1), min(max(column, 0), SIDE - 1)


def step(cell, action):
    """The move that was chosen with 0.85, each of the four with 0.05 besides."""
    if cell == GOAL:
        return {GOAL: 1.0}
    chances = {}
    for move in MOVES:
        after = moved(cell, move)
        chances[after] = chances.get(after, 0.0) + (0.85 if move == action else 0.05)
    return chances


def reward(cell, action, after):
    return 10.0 if after == GOAL != cell else -0.1 if cell != GOAL else 0.0


def grid(goal_actions, **options):
    """The grid with so many actions in its goal."""
    return tether.MDP.from_function(
        (59, 50), lambda cell: goal_actions if cell == GOAL else list(MOVES), step, reward, **options
    )


def walk():
    """Eight steps towards the goal, one short of it, and twelve away from it."""
    actions = ["right"] * 8 + ["left"] * 12
    cells = [(59, 50)]
    for action in actions:
        cells.append(moved(cells[-1], action))
    return tether.Path(cells, actions)


@pytest.mark.compiled
def test_one_action_in_the_goal_is_as_good_as_four():
    """Twelve steps are left when the goal can be entered: with m = 1 … 3, none may be spent on staying there."""
    four = grid(list(MOVES))
    worlds = {"one": grid(["stay"]), "four": four, "terminal": grid(None, terminal=[GOAL])}
    found = {name: tether.counterfactual(mdp, walk()) for name, mdp in worlds.items()}
    for m in (1, 2, 3):
        values = {name: cf.plan(m=m).value for name, cf in found.items()}
        assert values["one"] == pytest.approx(values["four"], rel=1e-12)
        assert values["terminal"] == pytest.approx(values["four"], rel=1e-12)
        assert values["four"] > found["four"].plan(m=0).value + 5
