"""Hidden diabetes (the paper's first appendix): policies made without knowing who is diabetic, evaluated exactly.

The observer's model mixes the two populations, 0.8 and 0.2, over the 720 states without the diabetes flag.
For each k the best policy of the mixed counterfactual MDP is lifted to the full states and evaluated exactly on
the full counterfactual MDP of the diabetic patient. The paper's two observed paths were not published; these are
drawn by seed: one from the optimal policy, one from it with random actions mixed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

import tether
from tether.cases import sepsis
from tether.cases.hidden_diabetes import split_by_diabetes
from tether.cases.sepsis import most_likely_reward, state_reward
from tether.views.figures import plot_lines
from tether_reproduce.causal_sets import robust_sepsis
from tether_reproduce.draws import Floats, Ints
from tether_reproduce.findings import Comparison, Figure, Section, Table, published
from tether_reproduce.types_of_patients import (
    Beside,
    advise,
    compare_policies,
    first_states,
    one_change_table,
    several_changes_table,
    shares_table,
)

_SHARE = (0.8, 0.2)
_T = 10
_START = 777
_SEED = 1
_NOISE = {"optimal": 0.0, "suboptimal": 0.5}
_MORE = 8
_PATIENTS = 40
"""Patients of both kinds who are advised single changes; three times as many two changes."""

_OTHERS = 2025
"""The seed of those with the paper's rewards; with rewards of states it is 0."""


def mixed_model(full: tether.MDP) -> tether.MDP:
    """The sepsis model for someone who does not know who is diabetic: 720 states, rows mixed with weights 0.8 and 0.2."""
    form, half = full.form, full.n_states // 2
    s, a = np.divmod(np.repeat(np.arange(full.n_pairs), np.diff(form.row_start)), 8)
    share = np.where(s < half, *_SHARE)
    key, index = np.unique(((s % half) * 8 + a) * half + form.next_state % half, return_inverse=True)
    probability: Floats = np.bincount(index, form.probability * share).astype(np.float64, copy=False)
    s, a, j = key // (8 * half), key // half % 8, key % half
    mdp = tether.MDP.from_table(s, a, j, probability, most_likely_reward(s, a, j, probability))
    return mdp.with_names(states=[tuple(label)[1:] for label in full.states[:half]], actions=full.actions)


def by_states() -> tuple[tether.MDP, tether.MDP, tether.Types]:
    """The model that knows, the mixed model and the types, all with rewards of states."""
    full, mixed, reward = robust_sepsis().mdp, mixed_model(sepsis().mdp), state_reward()
    form, half = mixed.form, mixed.n_states
    s, a = np.divmod(np.repeat(np.arange(mixed.n_pairs), np.diff(form.row_start)), mixed.n_actions)
    mixed = tether.MDP.from_table(s, a, form.next_state, form.probability, reward[s])
    mixed = mixed.with_names(states=[tuple(label)[1:] for label in full.states[:half]], actions=full.actions)
    return full, mixed.with_objective(final_reward=reward[:half]), split_by_diabetes(full)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Values for the patient of the policies for k = 1 … T + 1, and the expected steps outside their plans.

    ``known`` is the value of the policy that knows, ``observed`` the observed return.
    """

    values: Floats
    outside: Floats
    known: float
    observed: float

    @property
    def verdict(self) -> str:
        """Whether some k is better for the patient than no tether, and whether some k is worse."""
        free = self.values[-1]
        margin = 1e-6 * max(1.0, abs(free))
        if not np.any(self.values > free + margin):
            return "does not hold"
        return "holds in part" if np.any(self.values < free - margin) else "holds"


_VERDICTS = {
    "holds": "The paper's conclusion holds here: some k is better for the patient than no tether, and no k is worse.",
    "holds in part": "The paper's conclusion holds here in part: some k are better for the patient than no tether, some worse.",
    "does not hold": "The paper's conclusion does not hold here: no k is better for the patient than no tether.",
}


def hidden_section() -> Section:
    """Both observed paths: the value of the lifted policy for each k, between the two reference lines."""
    full = tether.cases.sepsis().mdp
    mixed = mixed_model(full)
    types, starts = split_by_diabetes(full), first_states(full)
    figures, tables, text, comparisons, beside = [], [], [], [], {}
    ks = np.arange(1, _T + 2)
    for name in _NOISE:
        outcome = _evaluate(full, mixed, _path(full, name, _SEED))
        theirs = published().hidden_diabetes[f"{name}_observation"]
        references = {
            "policy that knows": outcome.known,
            "policy made without knowing, k = 11": float(outcome.values[-1]),
        }
        figures.append(
            Figure(
                f"hidden-{name}",
                f"Hidden diabetes, path observed under the {name} policy: exact value for the diabetic patient.",
                partial(plot_lines, ks, outcome.values, references, ylabel="expected return"),
            )
        )
        rows = []
        for k, value, outside, their in zip(ks, outcome.values, outcome.outside, theirs.k_cf_policies, strict=True):
            rows.append((str(k), f"{value:,.2f}", f"{outside:.3g}", f"{their:,.2f}"))
            comparisons.append(Comparison("value for the patient", float(value), path=name, k=int(k)))
        columns = ("k", "value for the patient", "steps outside the plan", "published, on their own path")
        tables.append(Table(f"Path observed under the {name} policy", columns, tuple(rows)))
        text.append(
            f"{_in_words(name, outcome)} {_VERDICTS[outcome.verdict]} On {_MORE} more paths, drawn in the same way with "
            f"other seeds, the conclusion {_other_seeds(full, mixed, name)}."
        )
        beside[name] = [_beside(full, mixed, types, _path(full, name, s, s)) for s in starts]
    others = by_states()
    tables += [
        shares_table(beside),
        one_change_table(advise(full, mixed, types, _PATIENTS, _OTHERS, 1)),
        one_change_table(advise(*others, _PATIENTS, 0, 1), "of states"),
        several_changes_table(advise(*others, 3 * _PATIENTS, 0, 2)),
    ]
    text.append(_of_types(beside))
    text.append(
        "The paths are ours, drawn with a fixed seed. So the values cannot be compared with the published ones, but the "
        "shapes of the curves can. A step is outside the plan if the patient is in a state that is impossible in the mixed "
        "model at that time; the unconstrained mixed policy is followed there."
    )
    return Section("hidden_diabetes", "Hidden diabetes", tuple(text), tuple(comparisons), tuple(tables), tuple(figures))


def _in_words(name: str, outcome: _Outcome) -> str:
    best = int(np.argmax(outcome.values))
    return (
        f"Path observed under the {name} policy (observed return {outcome.observed:,.0f}): the value for the patient is "
        f"{outcome.known:,.1f} under the policy that knows, {outcome.values[-1]:,.1f} under the unconstrained policy made "
        f"without knowing, and {outcome.values[best]:,.1f} under the best of all k (k = {best + 1})."
    )


def _other_seeds(full: tether.MDP, mixed: tether.MDP, name: str) -> str:
    """In how many paths drawn with other seeds each verdict is given."""
    seeds = range(_SEED + 1, _SEED + 1 + _MORE)
    verdicts = [_evaluate(full, mixed, _path(full, name, seed)).verdict for seed in seeds]
    return ", ".join(f"{verdict} in {verdicts.count(verdict)}" for verdict in _VERDICTS if verdict in verdicts)


def _beside(full: tether.MDP, mixed: tether.MDP, types: tether.Types, path: tether.Path) -> Beside:
    """One path of the sample: the policies of this page, and the one that uses the posterior over types."""
    outcome = _evaluate(full, mixed, path)
    values = outcome.observed, float(outcome.values[-1]), float(outcome.values.max()), outcome.known
    return compare_policies(full, types, path, values, outcome.verdict)


def _of_types(beside: dict[str, list[Beside]]) -> str:
    """What the third policy does, in words."""
    parts = []
    for name, some in beside.items():
        good = sum(one.typed >= one.tethered - one.margin for one in some)
        knows = sum(one.typed >= one.known - one.margin for one in some)
        parts.append(
            f"{good} of {len(some)} paths of the {name} policy, and as good as the policy that knows in {knows}"
        )
    return (
        "A third policy: nobody sees the type, but the episode says something of it, and so does what is met later "
        "(tether.Types). Over other starting states of diabetic patients, it is at least as good for the patient as the "
        f"best of all k in {'; in '.join(parts)}."
    )


def _path(full: tether.MDP, name: str, seed: int, start: int = _START) -> tether.Path:
    return full.simulate("optimal", _T, start=full.states[start], rng=seed, noise=_NOISE[name])


def _evaluate(full: tether.MDP, mixed: tether.MDP, path: tether.Path) -> _Outcome:
    known = tether.counterfactual(full, path)
    unknown = tether.counterfactual(mixed, tether.Path([tuple(state)[1:] for state in path.states], path.actions))
    free, _ = _policy(unknown, _T + 1, mixed.solve(_T).choices)
    values, outside = np.empty(_T + 1), np.zeros(_T + 1)
    for k in range(1, _T + 2):
        actions, own = _policy(unknown, k, free)
        outlook = known.evaluate(np.tile(actions, (1, 2)))
        values[k - 1] = outlook.value
        for t in range(_T):
            states, chance = outlook.distribution(t)
            seen = [full.state_index(state) % mixed.n_states for state in states]
            outside[k - 1] += chance[~own[t, seen]].sum()
    best = known.plan(_T + 1, _T)
    return _Outcome(values, outside, best.value, best.observed_value)


def _policy(cf: tether.records.CounterfactualMDP, k: int, otherwise: Ints) -> tuple[Ints, Ints]:
    """The best action for k at each time in each state, as indices; and where it comes from the plan for k itself.

    ``otherwise`` has the actions for the other states, which the plan never allows or reaches.
    """
    form, plan = cf.mdp.form, cf.plan(k, cf.T, rule="published")
    actions = np.array(otherwise, dtype=np.int64)
    own = np.zeros(actions.shape, dtype=bool)
    for t in range(cf.T):
        choice = plan.choices[t][:, -1]
        states, choice = plan.nodes[t].states[choice >= 0], choice[choice >= 0]
        actions[t, states] = form.pair_action[form.pair_start[states] + choice]
        own[t, states] = True
    return actions, own
