"""Building a model of a million states from matrices, conditioning and querying it: peak memory, in its own process."""

from __future__ import annotations

import json
import sys

from harness import Result, in_fresh_process, peak_memory, timed


def measure(quick: bool) -> list[Result]:
    n_states = 100_000 if quick else 1_000_000
    facts = in_fresh_process("building", str(n_states))
    ratio = facts["peak"] / facts["model"]
    detail = (
        f"{n_states:,} states, 4 actions, {facts['transitions']:,} transitions, T = 20; the model's arrays "
        f"{facts['model'] / 1e6:.0f} MB, peak above the start {facts['peak'] / 1e6:.0f} MB with the user's matrices "
        f"({facts['input'] / 1e6:.0f} MB); built in {facts['build']:.2f} s, conditioned in {facts['condition']:.2f} s"
    )
    # In a small model what Python and numba need of their own outweighs the arrays: the target is for the full size.
    met = None if quick else ratio <= 3
    return [Result("building: peak memory / model", ratio, "×", detail, "≤ 3×", met, facts["peak"] - facts["model"])]


def _inside(n_states: int) -> dict[str, float]:

    import numpy as np
    import scipy.sparse

    import tether

    warm = tether.cases.grid_world()
    tether.counterfactual(warm.mdp, warm.path).strength(0, 1, "up")
    rng = np.random.default_rng(0)
    indptr = np.arange(0, 5 * n_states + 1, 5, dtype=np.int32)  # what scipy itself would use
    start = peak_memory()
    P = []
    for _ in range(4):
        # Five distinct successors: a random stride from a random state.
        first = rng.integers(0, n_states, n_states, dtype=np.int32)
        stride = rng.integers(1, n_states // 5, n_states, dtype=np.int32)
        indices = ((first[:, None] + stride[:, None] * np.arange(5, dtype=np.int64)) % n_states).astype(np.int32)
        data = rng.dirichlet(np.ones(5), n_states)
        P.append(scipy.sparse.csr_array((data.reshape(-1), indices.reshape(-1), indptr), shape=(n_states, n_states)))
        del first, stride, indices, data
    R = rng.normal(size=(n_states, 4))
    given = R.nbytes + sum(one.data.nbytes + one.indices.nbytes + one.indptr.nbytes for one in P)
    build, mdp = timed(lambda: tether.MDP.from_arrays(P, R))
    path = _walk(mdp, rng)
    condition, cf = timed(lambda: tether.counterfactual(mdp, path))
    for t in range(20):
        cf.row(t, path.states[t], 3 - path.actions[t])
    return {
        "peak": peak_memory() - start,
        "model": mdp.nbytes,
        "input": given,
        "transitions": mdp.n_transitions,
        "build": build,
        "condition": condition,
    }


def _walk(mdp, rng):
    import tether

    states, actions = [0], []
    for _ in range(20):
        actions.append(int(rng.integers(4)))
        after, chance = mdp.row(states[-1], actions[-1])
        states.append(after[int(rng.choice(len(after), p=chance))])
    return tether.Path(states, actions)


if __name__ == "__main__":
    print(json.dumps(_inside(int(sys.argv[1]))))
