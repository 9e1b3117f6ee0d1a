"""What the tests of files share: random models, and files with random errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import tether

# Text that a text file does not change: no spaces around it, no whole numbers, no characters that CSV reads as space.
words = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=6
).filter(lambda text: text == text.strip() and text.strip("-0123456789.") != "")

KINDS = ("counted", "numbers", "words", "tuples")


def labels(n: int, kind: str) -> st.SearchStrategy[Any]:
    """``n`` labels of one kind; None for 0 … n-1."""
    if kind == "counted":
        return st.none()
    one = {
        "numbers": st.integers(-(2**63), 2**63 - 1),
        "words": words,
        "tuples": st.tuples(st.integers(0, 9), st.integers(-9, 9)),
    }[kind]
    return st.lists(one, min_size=n, max_size=n, unique=True)


@st.composite
def models(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> tether.MDP:
    """Up to five states and three actions; some actions not available; rewards of pairs, of transitions, or none."""
    S, A = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.6)
    P[rng.random((S, A)) < 0.2] = 0.0
    for s in range(S):
        if not P[s].any():
            P[s, rng.integers(A), rng.integers(S)] = 1.0
    for a in range(A):  # a table has no action that is never available
        if not P[:, a].any():
            P[rng.integers(S), a, rng.integers(S)] = 1.0
    sums = P.sum(axis=2, keepdims=True)
    P = np.divide(P, sums, out=np.zeros_like(P), where=sums > 0)
    R = draw(st.sampled_from([None, rng.normal(size=(S, A)), rng.normal(size=(S, A, S))]))
    kind = draw(st.sampled_from(kinds))
    return tether.MDP.from_arrays(P, R, states=draw(labels(S, kind)), actions=draw(labels(A, kind)))


def transitions(mdp: tether.MDP, name: Any = lambda label: label) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Every transition by its labels, with its probability and reward: the same for models in another order."""
    found = {}
    for state in mdp.states:
        for action in mdp.actions_in(state):
            for after, chance in zip(*mdp.row(state, action), strict=True):
                reward = mdp.reward(state, action, after)
                found[name(state), name(action), name(after)] = (float(chance), reward)
    return found


def assert_same(found: tether.MDP, expected: tether.MDP, name: Any = lambda label: label) -> None:
    """The same model up to the order of its labels, and to the rounding of one more normalisation."""
    got, wanted = transitions(found), transitions(expected, name)
    assert got.keys() == wanted.keys()
    for key, (chance, reward) in wanted.items():
        assert abs(got[key][0] - chance) <= 4e-16
        assert got[key][1] == reward


@st.composite
def mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid file with some bytes changed, added or removed, and perhaps cut off."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from(["change", "insert", "delete", "repeat"]))
        odd = draw(
            st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"\t", b"nan", b"-", b"1e999", b"{", b"["])
        )
        if what == "change":
            data[at : at + len(odd)] = odd
        elif what == "insert":
            data[at:at] = draw(st.one_of(st.just(odd), st.binary(max_size=4)))
        elif what == "delete":
            del data[at : at + draw(st.integers(1, 20))]
        else:
            data[at:at] = data[max(at - 20, 0) : at]
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)
