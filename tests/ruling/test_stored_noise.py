"""Rules against brute force: patients drawn twice with the same noise, and every order of rules tried."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from effort import tries
from wards import HABIT

import tether

ENDS = ("well", "dead")
FAMILY = [
    tether.rule(state, instead_of=before, do=after)
    for state in ("sick", "worse")
    for before, after in permutations(("wait", "treat"))
]


def drawn_twice(ward, rule, kind, n, seed, steps=5):
    """Patients as they were, and with the rule: the same noise at each time, and the same habit in the same state."""
    rng, found = np.random.default_rng(seed), []
    rows = {
        (state, did): np.array([dict(zip(*ward.row(state, did), strict=True)).get(one, 0.0) for one in ward.states])
        for state in ("sick", "worse")
        for did in ("wait", "treat")
    }

    def after(row, noise):
        if kind == "comonotone":
            return ward.states[int(np.searchsorted(np.cumsum(row), noise[0], side="right"))]
        with np.errstate(divide="ignore"):
            return ward.states[int(np.argmax(np.log(row) + noise[1:]))]

    def ruled(state, did):
        return rule.do if state == str(rule.condition) and did == rule.instead_of else did

    for _ in range(n):
        worlds = [["sick"], ["sick"]], [[], []]
        for _ in range(steps):
            noise = np.concatenate((rng.random(1), rng.gumbel(size=len(ward.states))))
            here = [states[-1] for states in worlds[0]]
            waits = [state not in ENDS and rng.random() < HABIT[state]["wait"] for state in here]
            did = ["wait" if one else "treat" for one in waits]
            if here[0] not in ENDS and here[1] == here[0]:
                did[1] = did[0]
            for world, (state, chosen) in enumerate(zip(here, did, strict=True)):
                if state not in ENDS:
                    taken = ruled(state, chosen) if world else chosen
                    worlds[1][world].append(taken)
                    worlds[0][world].append(after(rows[state, taken], noise))
        found.append([tether.Path(*one) for one in zip(*worlds, strict=True)])
    return found


def earned(path):
    return sum({"wait": -1, "treat": -3}[did] for did in path.actions) - 20 * (path.states[-1] == "dead")


@pytest.mark.parametrize("kind", ["gumbel", "comonotone"])
@pytest.mark.parametrize("number", range(len(FAMILY)))
def test_every_rule_of_a_family_is_that_of_stored_noise(ward, number, kind):
    """Who is helped, harmed, saved and lost, counted; by Gumbel-max as expected, and otherwise within the bounds."""
    rule, n = FAMILY[number], tries(400, 4_000)
    pairs = drawn_twice(ward, rule, kind, n, (number, len(kind)))
    one = tether.evaluate_rules(ward, [before for before, _ in pairs], rule, holdout=0, bad="dead", workers=1)[0]
    died = np.array([[path.states[-1] == "dead" for path in pair] for pair in pairs])
    gain = np.array([earned(after) - earned(before) for before, after in pairs])
    counted = {
        "saved": np.sum(died[:, 0] & ~died[:, 1]), "lost": np.sum(~died[:, 0] & died[:, 1]),
        "helped": np.sum(gain > 0), "harmed": np.sum(gain < 0),
    }  # fmt: skip
    for name, times in counted.items():
        expected, low, high = (getattr(one, f"{name}{end}") for end in ("", "_low", "_high"))
        chance = 4.5 * np.sqrt(max(times, expected, 1.0))
        assert low - 1e-9 <= expected <= high + 1e-9
        assert low - chance <= times <= high + chance
        if kind == "gumbel":
            assert abs(times - expected) <= chance


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_the_best_at_each_step(seed):
    """The first rule gains most of all, the second adds most to it: all rules and pairs of them, by the plain model."""
    rng = np.random.default_rng(seed)
    states = ("a", "b", "c")
    rows = rng.dirichlet(np.full(4, 0.7), (3, 2))
    table = [
        (state, did, end, rows[s, a, j])
        for s, state in enumerate(states)
        for a, did in enumerate("xy")
        for j, end in enumerate((*states, "over"))
    ]
    reward = [{"a": 0.0, "b": 1.0, "c": -1.0, "over": 2.0}[end] for _, _, end, _ in table]
    mdp = tether.MDP.from_table(*zip(*table, strict=True), reward, terminal=["over"])
    log = []
    for number in range(60):
        path = mdp.simulate("random", 4, start=states[number % 3], rng=rng)
        T = next((t for t, state in enumerate(path.states) if state == "over"), path.T)
        log.append(tether.Path(path.states[: T + 1], path.actions[:T]))
    steps = [step for path in log for step in zip(path.states, path.actions, strict=False)]
    usual = {"over": "x"}
    for state in states:
        done = [did for here, did in steps if here == state]
        usual[state] = {did: done.count(did) / len(done) for did in "xy"}

    def gain(*rules):
        policy = usual | {state: {did: 1.0} for state, did in rules}
        begun = Counter((4 if path.states[-1] == "over" else path.T, path.states[0]) for path in log)
        total = 0.0
        for (T, start), times in begun.items():
            total += times * (mdp.evaluate(policy, T, start=start).value - mdp.evaluate(usual, T, start=start).value)
        return total / len(log)

    single = {(state, did): gain((state, did)) for state in states for did in "xy"}
    found = tether.rules(mdp, log, most=2, holdout=0, workers=1)
    best = max(single, key=single.get)
    assert (str(found.chosen[0].rule.condition), found.chosen[0].rule.do) == best
    assert found.chosen[0].gain == pytest.approx(single[best], abs=1e-9)
    pairs = {other: gain(best, other) for other in single if other[0] != best[0]}
    second = max(pairs, key=pairs.get)
    if pairs[second] > single[best] + 1e-9:
        assert (str(found.chosen[1].rule.condition), found.chosen[1].rule.do) == second
        assert found.chosen[1].gain == pytest.approx(pairs[second], abs=1e-9)
    else:
        assert len(found.chosen) == 1
