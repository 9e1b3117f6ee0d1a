"""Makes examples/ward.csv: 400 patients of a ward that never was. Run it here: `python make_ward.py`.

Every day a patient is sick or worse, and somebody waits or treats. The reward is 1 for getting well, and 0 otherwise:
so the return means what it says, and a larger one is never a worse end. Treatment helps the sick a lot, and those who
are worse a little. The records end after 10 days: some patients are then still under way.
"""

from pathlib import Path

import numpy as np

import tether

MOVES = {
    ("sick", "wait"): {"sick": 0.45, "worse": 0.3, "well": 0.25},
    ("sick", "treat"): {"sick": 0.25, "worse": 0.15, "well": 0.6},
    ("worse", "wait"): {"worse": 0.55, "sick": 0.15, "dead": 0.3},
    ("worse", "treat"): {"worse": 0.5, "sick": 0.3, "dead": 0.2},
}
ENDS = {"well": 1, "dead": 0}
HABIT = {"sick": {"wait": 0.6, "treat": 0.4}, "worse": {"wait": 0.4, "treat": 0.6}, "well": "wait", "dead": "wait"}
PATIENTS, DAYS = 400, 10


def ward() -> tether.MDP:
    """The model that the patients come from."""
    rows = [(s, a, after, p, ENDS.get(after, 0)) for (s, a), to in MOVES.items() for after, p in to.items()]
    return tether.MDP.from_table(*zip(*rows, strict=True), terminal=list(ENDS)).with_labels(good="well", bad="dead")


def patients() -> dict[int, tether.Path]:
    """Their records, each up to its end or for ten days."""
    mdp, rng, found = ward(), np.random.default_rng(7), {}
    for number in range(1, PATIENTS + 1):
        start = "sick" if rng.random() < 0.8 else "worse"
        path = mdp.simulate(HABIT, DAYS, start=start, rng=rng)
        T = next((t for t, state in enumerate(path.states) if state in ENDS), DAYS)
        states, actions = path.states[: T + 1], path.actions[:T]
        rewards = [ENDS.get(after, 0) for after in states[1:]]
        found[number] = tether.Path(states, actions, rewards)
    return found


if __name__ == "__main__":
    tether.io.write_episodes(patients(), Path(__file__).parent / "ward.csv")
