"""The twelve-state example of the paper's appendix on notions of influence."""

from __future__ import annotations

from tether.cases.case import Case
from tether.errors import QueryError
from tether.mdp import MDP
from tether.observation.path import Path


def twelve_states(far: float = 0.01) -> Case:
    """Twelve states in four layers; from s3 a rare transition leads far away, to s7.

    The paper gives the graph and the row of s3 (0.9, 0.09, 0.01); the other rows are uniform here, and the choice at
    s0 is between two actions. No rewards.

    Parameters
    ----------
    far : float
        The probability of the transition from s3 to s7, from 0 to below 1; the others keep their proportion.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.twelve_states()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> [cf.why(0, "s0", "a1", k=2, rule=rule).allowed for rule in ("definition", "published")]
    [True, False]
    """
    if not 0.0 < far < 1.0:
        raise QueryError(f"far is a probability between 0 and 1, not {far!r}")
    rows = [
        ("s0", "a0", {"s2": 1.0}),
        ("s0", "a1", {"s3": 1.0}),
        ("s1", "a0", {"s3": 0.5, "s4": 0.5}),
        ("s2", "a0", {"s5": 1.0}),
        ("s3", "a0", {"s5": 0.9 * (1 - far) / 0.99, "s6": 0.09 * (1 - far) / 0.99, "s7": far}),
        ("s4", "a0", {"s7": 1.0}),
        ("s5", "a0", {"s8": 0.5, "s9": 0.5}),
        ("s6", "a0", {"s9": 0.5, "s10": 0.5}),
        ("s7", "a0", {"s11": 1.0}),
        *((f"s{i}", "a0", {f"s{i}": 1.0}) for i in range(8, 12)),
    ]
    columns = [(s, a, after, chance) for s, a, row in rows for after, chance in row.items()]
    mdp = MDP.from_table(*zip(*columns, strict=True), states=[f"s{i}" for i in range(12)])
    path = Path(["s0", "s2", "s5", "s9"], ["a0"] * 3)
    return Case(
        "twelve states", mdp, {"observed": path}, stories={"observed": "From s0 by a0: to s2, to s5, and to s9."}
    )
