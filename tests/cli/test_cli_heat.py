"""The k × m table of a terminal: the better, the stronger the colour."""

import pytest

import tether
from tether.cli.heat_table import heat_tables


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_best_has_the_strongest_colour(monkeypatch, sign):
    """Where less is better too: there the worst was shaded most."""
    for name, value in (("FORCE_COLOR", "1"), ("COLORTERM", "truecolor"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    mdp = tether.MDP.from_table([*"ssw"], [*"abb"], [*"wws"], [1.0] * 3, [0.0, 3.0 * sign, 0.0])
    table = tether.counterfactual(mdp, tether.Path([*"sw"], [*"a"])).sweep(minimise=sign < 0)
    (block,) = heat_tables(table)
    worst, best = (list(column.cells)[-1] for column in block.columns[1:])
    assert (worst.plain, best.plain) == ("0.00", f"{3 * sign:.2f}")
    assert [cell.spans[0].style for cell in (worst, best)] == [
        "rgb(0,0,0) on rgb(240,246,251)",
        "rgb(0,0,0) on rgb(127,184,217)",
    ]
