"""What happened against what a policy would do, step by step.

Everything here is a plain record made from exact evaluations; nothing is simulated. The likeliest state of a step is
the likeliest state at that time, not a state of the likeliest path. States of one outcome are taken together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.markup import Displayed
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.evaluation.evaluate import Evaluation, chance_of_changes, evaluate_policy
from tether.evaluation.outcomes import outcome_classes
from tether.explanation.state_words import outcome_name
from tether.observation.changes import is_change, nothing_left

if TYPE_CHECKING:
    from tether.plan.plan_record import PlanRecord


@dataclass(frozen=True, slots=True)
class ExplainedStep(Displayed):
    """One time step, observed and counterfactual.

    Attributes
    ----------
    t : int
    observed_state, observed_action
        What happened; None for an outcome that was not recorded, for the action at T, and for actions after the end.
    state : name
        The likeliest counterfactual state, or group of states, with its ``state_probability``. The states of one
        outcome count together here; the likeliest of them stands for all.
    action : name or None
        What the plan does there most often, with its ``action_probability`` there (it may depend on how many
        changes are left). None if nothing is left to do there.
    instead : name or None
        The action that the plan takes most often instead of the observed one; None if it never changes the action.
    changed : float
        Probability that the action differs from the observed one. Actions where nothing is left to do count neither
        here nor in ``instead``.
    influenced : float
        Probability that the step is known ground: that it is influenced by the observation, which k counts.
    strength : float
        Expected total variation between the counterfactual and the nominal row taken.
    return_so_far : float
        Expected return before this step; for a property, the probability that it holds if the episode ended here.
    gain : float
        How much more the step is expected to earn than in the observed episode; at T, how much more the final reward
        is. The gains of all steps sum to the gain of the plan.
    observed_outcome, outcome : str or None
        The outcome that ``observed_state`` and ``state`` belong to, if any: their label, or the name of an absorbing
        state.
    outcome_probability : float or None
        Probability of any state with that ``outcome`` at this time, not only of ``state``.
    ended : bool
        Whether the observed episode had ended: its state is absorbing, so that nothing was decided at this step.
    differs : bool
        Whether ``action`` counts as a change. After the end every action does but the one that the record has there.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> step = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain().steps[5]
    >>> step.observed_action, step.action, step.changed
    ('NIL', 'V_I', 1.0)
    """

    t: int
    observed_state: Any
    observed_action: Any
    state: Any
    state_probability: float
    action: Any
    action_probability: float
    instead: Any
    changed: float
    influenced: float
    strength: float
    return_so_far: float
    gain: float
    observed_outcome: str | None = None
    outcome: str | None = None
    outcome_probability: float | None = None
    ended: bool = False
    differs: bool = False


@dataclass(frozen=True, slots=True)
class ElsewhereChange:
    """A change that a robust plan makes where Gumbel-max never leads, but another causal model of its set does.

    Attributes
    ----------
    t : int
    state : name
    changes_left, uninfluenced : int
        The changes left there; and the uninfluenced steps just passed, which only the rule `assured` uses.
    observed_action, action : name
        What was done at this time, and what the plan does in this state.
    depends : bool
        Whether the plan takes another action in this state with other changes left, or after another run.

    Examples
    --------
    >>> import tether
    >>> state, action = ["s"] * 4 + ["o", "j", "j"], ["a", "a", "b", "b", "x", "x", "y"]
    >>> after, chance = ["o", "j", "o", "j", "end", "end", "end"], [0.5, 0.5, 0.6, 0.4, 1, 1, 1]
    >>> mdp = tether.MDP.from_table(state, action, after, chance, [0, 0, 10, 10, 5, 0, 5], terminal=["end"])
    >>> plan = tether.robust(mdp, tether.Path(["s", "o", "end"], ["a", "x"]), assume="nothing").plan(k=3, m=2)
    >>> [(one.t, one.state, one.action) for one in plan.explain().elsewhere]
    [(1, 'j', 'y')]
    """

    t: int
    state: Any
    changes_left: int
    uninfluenced: int
    observed_action: Any
    action: Any
    depends: bool


def changes_elsewhere(plan: PlanRecord) -> tuple[ElsewhereChange, ...]:
    """The changes of a plan in nodes that it covers but never visits; none, unless it is a `RobustPlan`."""
    found: list[ElsewhereChange] = []
    mdp, chain = plan.cf.mdp, plan.covered
    if chain is plan.chain:
        return ()
    for t, decided in enumerate(chain.taken):
        visits, observed = chain.visits[t], int(plan.cf.observation.actions[t])
        changed = is_change(mdp.form, visits.states, decided.pairs, observed) & ~chain.at_rest(t)
        for node in np.flatnonzero(changed & (plan.chain.visits[t].locate(visits) < 0)):
            pair, state = int(decided.pairs[node]), int(visits.states[node])
            found.append(
                ElsewhereChange(
                    t,
                    mdp.states[state],
                    int(visits.changes[node]),
                    int(visits.runs[node]),
                    mdp.actions[observed],
                    mdp.actions[int(mdp.form.pair_action[pair])],
                    bool(np.any(decided.pairs[visits.states == state] != pair)),
                )
            )
    return tuple(found)


def explained_steps(
    cf: CounterfactualRecord,
    outlook: Evaluation,
    group: Callable[[Any], Any] | None = None,
    *,
    world: CounterfactualRecord | None = None,
) -> tuple[ExplainedStep, ...]:
    """What happened against what a policy would do, step by step; ``outlook`` is its evaluation on ``cf``.

    If a property was asked for, the evaluation is on ``world`` instead (`tether.plan.objective.asked`).

    Examples
    --------
    >>> import tether
    >>> from tether.explanation.steps import explained_steps
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> explained_steps(cf, cf.evaluate(case.mdp.solve(7)))[0].instead
    'V_I'
    """
    path, about, changed = cf.path, outlook.tailoring, outlook.changed
    assert about is not None
    assert changed is not None
    gains = _gains(world or cf, outlook)
    name = group or _own_name
    steps = []
    for t in range(cf.T + 1):
        state, likely, among = _likeliest(outlook, t, group)
        last, outcome = t == cf.T, outcome_name(cf.mdp, among)
        done = None if last else path.actions[t]
        shares = {} if last else _shares(outlook, t, among)
        action = max(shares, key=lambda one: (shares[one], one == done)) if shares else None
        ended = not last and bool(nothing_left(cf.mdp.form, t, cf.observation.states[t : t + 1])[0])
        steps.append(
            ExplainedStep(
                t,
                name(path.states[t]) if t < len(path.states) else None,
                None if ended else done,
                state,
                likely,
                action,
                shares.get(action, 0.0),
                None if last else _instead(world or cf, outlook, t),
                0.0 if last else float(changed[t]),
                0.0 if last else float(about.influenced[t]),
                0.0 if last else float(about.strength[t]),
                float(outlook.returns.mean[t]),
                float(gains[t]),
                outcome_name(cf.mdp, [path.states[t]]) if t < len(path.states) else None,
                outcome,
                None if outcome is None else _outcome_probability(outlook, t, outcome, likely),
                ended,
                action is not None and action != done,
            )
        )
    return tuple(steps)


def _shares(outlook: Evaluation, t: int, states: list[Any]) -> dict[Any, float]:
    """How likely each action is in some states; empty if nothing is left to do in them."""
    here = np.array([outlook.mdp.state_index(state) for state in states])
    return {} if nothing_left(outlook.mdp.form, t, here).all() else outlook.actions_among(t, states)


def _instead(cf: CounterfactualRecord, outlook: Evaluation, t: int) -> Any:
    """The change that is made most often at t; None if none is."""
    chance = chance_of_changes(cf, outlook.chain, t, outlook.occupancy[t])
    by_action = np.bincount(cf.mdp.form.pair_action[outlook.chain.taken[t].pairs], chance)
    return cf.mdp.actions[int(np.argmax(by_action))] if by_action.any() else None


def _likeliest(outlook: Evaluation, t: int, group: Callable[[Any], Any] | None) -> tuple[Any, float, list[Any]]:
    """The likeliest state or group of states at time t, its probability, and the states in it."""
    if group is None:
        return _likeliest_one(outlook, t)
    groups: dict[Any, list[Any]] = {}
    mass: dict[Any, float] = {}
    for label, share in zip(*outlook.distribution(t), strict=True):
        one = group(label)
        groups.setdefault(one, []).append(label)
        mass[one] = mass.get(one, 0.0) + float(share)
    state = max(mass, key=lambda one: mass[one])
    return state, mass[state], groups[state]


def _likeliest_one(outlook: Evaluation, t: int) -> tuple[Any, float, list[Any]]:
    """The likeliest state. The states of one outcome count together; the likeliest of them stands for all."""
    visits, mdp = outlook.chain.visits[t], outlook.mdp
    states, index = np.unique(visits.states, return_inverse=True)
    chance = np.bincount(index.reshape(-1), outlook.occupancy[t], minlength=states.size)
    names, code = outcome_classes(mdp, states)
    alone = np.array([not names[i] for i in code])
    code = np.where(alone, len(names) + np.arange(states.size), code)
    mass = np.bincount(code, chance)
    members = np.flatnonzero(code == np.argmax(mass))
    best = members[int(np.argmax(chance[members]))]
    return mdp.states[int(states[best])], float(chance[best]), [mdp.states[int(states[i])] for i in members]


def _outcome_probability(outlook: Evaluation, t: int, outcome: str, likely: float) -> float:
    """Probability of a label at time t; ``likely`` is the probability of an absorbing state without a label."""
    members = outlook.mdp.label_sets.get(outcome)
    if members is None:
        return likely
    return float(outlook.occupancy[t][np.isin(outlook.chain.visits[t].states, members)].sum())


def _gains(cf: CounterfactualRecord, outlook: Evaluation) -> Floats:
    """How much more each step, and at the end the final reward, earns than in the observed episode."""
    seen = evaluate_policy(cf, "observed")  # with its luck, the observed states again
    worth = np.power(cf.mdp.discount, np.arange(cf.T, dtype=np.float64))
    ends = (outlook.mean - outlook.returns.mean[-1]) - (seen.mean - seen.returns.mean[-1])
    gains: Floats = np.append(worth * (outlook.rewards - seen.rewards), ends)
    scale = np.append(worth * np.maximum(np.abs(outlook.rewards), np.abs(seen.rewards)), abs(ends))
    gains[np.abs(gains) <= 1e-14 * scale] = 0.0  # only rounding
    return gains


def _own_name(label: Any) -> Any:
    return label
