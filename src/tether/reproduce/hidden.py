"""Hidden diabetes (the paper's first appendix): policies made without knowing who is diabetic, evaluated exactly.

The observer's model mixes the two populations, 0.8 and 0.2, over the 720 states without the diabetes flag.
For each k the best policy of the mixed counterfactual MDP is lifted to the full states and evaluated exactly on
the full counterfactual MDP of the diabetic patient. The paper's two observed paths were not published; these are
drawn by seed: one from the optimal policy, one from it with random actions mixed in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.cases import sepsis
from tether.cases.sepsis import most_likely_reward
from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.influence.one_step import Support
from tether.influence.thresholds import thresholds
from tether.model.form import all_pair_states
from tether.model.mdp import MDP
from tether.observation.path import Path
from tether.plan.backward import solve_backward
from tether.plan.chain import collect
from tether.reproduce.compare import draw_later
from tether.reproduce.published import published
from tether.reproduce.records import Comparison, Figure, Section, Table

__all__ = ["hidden_section", "mixed_model"]

_SHARE = (0.8, 0.2)
_T = 10
_START = 777
_SEED = 1
_NOISE = 0.5
_MORE = 8


def mixed_model(full: MDP) -> MDP:
    """The sepsis model for someone who does not know who is diabetic: 720 states, rows mixed with weights 0.8 and 0.2."""
    form, half = full.form, full.n_states // 2
    lengths = np.diff(form.row_start)
    pair_state = all_pair_states(form.pair_start)
    s, a = np.repeat(pair_state, lengths), np.repeat(form.pair_action.astype(np.int64), lengths)
    share = np.where(s < half, _SHARE[0], _SHARE[1])
    key, index = np.unique(((s % half) * 8 + a) * half + form.next_state % half, return_inverse=True)
    probability = collect(index.reshape(-1), form.probability * share, key.size)
    s, a, j = key // (8 * half), key // half % 8, key % half
    mdp = MDP.from_table(s, a, j, probability, most_likely_reward(s, a, j, probability))
    return mdp.with_names(states=[tuple(label)[1:] for label in full.states[:half]], actions=full.actions)


@dataclass(frozen=True, slots=True)
class _Outcome:
    values: Floats
    outside: Floats
    known: float
    observed: float


def hidden_section() -> Section:
    """Both observed paths: the value of the lifted policy for each k, between the two reference lines."""
    from tether.views.figures import plot_lines

    full = sepsis().mdp
    mixed = mixed_model(full)
    paths = {name: _path(full, name, _SEED) for name in ("optimal", "suboptimal")}
    figures, tables, text, comparisons = [], [], [], []
    ks = np.arange(1, _T + 2)
    for name, path in paths.items():
        outcome = _evaluate(full, mixed, path)
        theirs = published().hidden_diabetes[f"{name}_observation"]
        references = {
            "policy that knows": outcome.known,
            "policy made without knowing, k = 11": float(outcome.values[-1]),
        }
        figures.append(
            Figure(
                f"hidden-{name}",
                f"Hidden diabetes, path observed under the {name} policy: exact value for the diabetic patient.",
                draw_later(plot_lines, ks, outcome.values, references, ylabel="expected return"),
            )
        )
        rows = [
            (str(k), f"{value:,.2f}", f"{outside:.3g}", f"{their:,.2f}")
            for k, value, outside, their in zip(ks, outcome.values, outcome.outside, theirs.k_cf_policies, strict=True)
        ]
        columns = ("k", "value for the patient", "steps outside the plan", "published, on their own path")
        tables.append(Table(f"Path observed under the {name} policy", columns, tuple(rows)))
        comparisons += [
            Comparison("value for the patient", float(value), path=name, k=int(k))
            for k, value in zip(ks, outcome.values, strict=True)
        ]
        text.append(
            f"{_outcome_in_words(name, outcome)} {_VERDICTS[_verdict(outcome)]}{_other_seeds(full, mixed, name)}"
        )
    text.append(
        "The paths are ours, drawn with a fixed seed. So the values cannot be compared with the published ones, but the "
        "shapes of the curves can. A step is outside the plan if the patient is in a state that is impossible in the mixed "
        "model at that time; the unconstrained mixed policy is followed there."
    )
    return Section("hidden_diabetes", "Hidden diabetes", tuple(text), tuple(comparisons), tuple(tables), tuple(figures))


_VERDICTS = {
    "holds": "The paper's conclusion holds here: some k is better for the patient than no tether, and no k is worse.",
    "in part": "The paper's conclusion holds here in part: some k are better for the patient than no tether, some worse.",
    "does not": "The paper's conclusion does not hold here: no k is better for the patient than no tether.",
}


def _verdict(outcome: _Outcome) -> str:
    """Whether some k is better for the patient than no tether, and whether some k is worse."""
    free = outcome.values[-1]
    margin = 1e-6 * max(1.0, abs(free))
    if not np.any(outcome.values > free + margin):
        return "does not"
    return "in part" if np.any(outcome.values < free - margin) else "holds"


def _outcome_in_words(name: str, outcome: _Outcome) -> str:
    best = int(np.argmax(outcome.values))
    return (
        f"Path observed under the {name} policy (observed return {outcome.observed:,.0f}): the value for the patient is "
        f"{outcome.known:,.1f} under the policy that knows, {outcome.values[-1]:,.1f} under the unconstrained policy made "
        f"without knowing, and {outcome.values[best]:,.1f} under the best of all k (k = {best + 1})."
    )


def _other_seeds(full: MDP, mixed: MDP, name: str) -> str:
    """The verdicts for paths drawn with other seeds."""
    counts = dict.fromkeys(_VERDICTS, 0)
    for seed in range(_SEED + 1, _SEED + 1 + _MORE):
        counts[_verdict(_evaluate(full, mixed, _path(full, name, seed)))] += 1
    words = {"holds": "holds", "in part": "holds in part", "does not": "does not hold"}
    verdicts = ", ".join(f"{words[verdict]} in {n}" for verdict, n in counts.items() if n)
    return f" On {_MORE} more paths, drawn in the same way with other seeds, the conclusion {verdicts}."


def _path(full: MDP, name: str, seed: int) -> Path:
    return full.simulate("optimal", _T, start=full.states[_START], rng=seed, noise=0.0 if name == "optimal" else _NOISE)


def _evaluate(full: MDP, mixed: MDP, path: Path) -> _Outcome:
    known = counterfactual(full, path)
    unknown = counterfactual(mixed, Path([tuple(state)[1:] for state in path.states], path.actions))
    free, _ = _policy(unknown, _T + 1, mixed.solve(_T).choices)
    values, outside = np.empty(_T + 1), np.empty(_T + 1)
    for k in range(1, _T + 2):
        actions, own = _policy(unknown, k, free)
        outlook = known.evaluate(np.tile(actions, (1, 2)))
        values[k - 1] = outlook.value
        outside[k - 1] = sum(
            float(mass[~own[t, visits.states % mixed.n_states]].sum())
            for t, (mass, visits) in enumerate(zip(outlook.occupancy[:-1], outlook.chain.visits[:-1], strict=True))
        )
    best = known.plan(_T + 1, _T)
    return _Outcome(values, outside, best.value, best.observed_value)


def _policy(cf: CounterfactualMDP, k: int, otherwise: Ints) -> tuple[Ints, Ints]:
    """The best action for k at each time in each state, as indices; and where it comes from the plan for k itself.

    ``otherwise`` has the actions for the other states, which the plan never allows or reaches.
    """
    form, T = cf.mdp.form, cf.T
    kappa = thresholds(cf.graph, "published", Support(), up_to=k)
    solved = solve_backward(kappa, np.array([k]), T, keep=True)
    actions = np.array(otherwise, dtype=np.int64)
    own = np.zeros(actions.shape, dtype=bool)
    for t in range(T):
        states, local = solved.nodes[t].states, solved.choices[t][:, -1]
        taken = local >= 0
        pairs = form.pair_start[states[taken]] + local[taken]
        actions[t, states[taken]] = form.pair_action[pairs]
        own[t, states[taken]] = True
    return actions, own
