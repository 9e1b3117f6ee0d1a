"""Models, questions and answers that were frozen: how a model is built, how a question is asked, what counts as equal.

`make_frozen.py` asks and stores, `test_frozen.py` asks again. Only public calls are used. An answer is a mapping from
fields to plain values: numbers, texts, None, and lists of these.
"""

from __future__ import annotations

import gzip
import json
import math
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tether

FILE = Path(__file__).with_name("frozen.json.gz")

TOLERANCE = 1e-12
"""Numbers may differ by this, relatively; numbers below 1, and so all probabilities, absolutely."""

WITHIN_ROWS = 1e-6
"""Probabilities of rows may also not differ by more than this, relatively: tiny ones count too."""


@cache
def frozen() -> list[dict[str, Any]]:
    """All models, each with its questions and their answers."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        stored: list[dict[str, Any]] = json.load(file)
    return stored


class Frozen:
    """One stored model and its episode, built by the public constructors."""

    def __init__(self, stored: dict[str, Any]) -> None:
        self.stored = stored

    @cached_property
    def mdp(self) -> tether.MDP:
        given = self.stored
        states, actions, rows = given["states"], given["actions"], given["rows"]
        R = None if given["R"] is None else np.array(given["R"], dtype=float)
        if R is not None and (given["axes"] or "").startswith("t"):
            # The engine that was frozen asked about no time after the record.
            R = R[: len(given["path"]["actions"])]
        if given["made"] == "table":
            columns: dict[str, list[Any]] = {name: [] for name in ("state", "action", "next_state", "probability")}
            rewards = []
            for s, a, entries in rows:
                for j, p in entries:
                    for column, one in zip(columns.values(), (states[s], actions[a], states[j], p), strict=True):
                        column.append(one)
                    rewards.append(0.0 if R is None else float(R[s, a] if given["axes"] == "sa" else R[s, a, j]))
            about: Any = {"states": states, "actions": actions, "terminal": given["terminal"]}
            mdp = tether.MDP.from_table(**columns, reward=rewards, **about)
        else:
            P = np.zeros((len(states), len(actions), len(states)))
            for s, a, entries in rows:
                for j, p in entries:
                    P[s, a, j] = p
            mdp = tether.MDP.from_arrays(
                P, R, states=states, actions=actions, terminal=given["terminal"], reward_axes=given["axes"]
            )
        if given["labels"]:
            mdp = mdp.with_labels({name: [states[i] for i in members] for name, members in given["labels"].items()})
        final = None if given["final"] is None else {states[i]: value for i, value in given["final"]}
        return mdp.with_objective(discount=given["discount"], final_reward=final)

    @cached_property
    def path(self) -> tether.Path:
        states, actions = self.stored["states"], self.stored["actions"]
        return tether.Path(
            [states[s] for s in self.stored["path"]["states"]], [actions[a] for a in self.stored["path"]["actions"]]
        )

    @cache  # noqa: B019 - a few of these objects, all small
    def cf(self, mechanism: str = "gumbel-max") -> tether.records.CounterfactualMDP:
        return tether.counterfactual(self.mdp, self.path, mechanism)

    @cache  # noqa: B019
    def robust(self, assume: str) -> tether.records.Robust:
        return tether.robust(self.mdp, self.path, assume=assume)

    def ask(self, kind: str, given: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question now; of a question that is refused, the class of the error."""
        try:
            return _plain(KINDS[kind](self, **{name: _argument(name, one) for name, one in given.items()}))
        except tether.TetherError as error:
            return {"error": type(error).__name__}


def _argument(name: str, given: Any) -> Any:
    """An argument as the package takes it, from what is stored."""
    if name == "influence" and given != "support":
        test, eps = given
        return {"tv": tether.tv, "effective": tether.effective}[test](eps)
    if name in ("objective", "risk") or (name == "against" and isinstance(given, list)):
        kind, *sets = given
        return {"reach": tether.reach, "avoid": tether.avoid, "until": tether.until}[kind](*sets)
    if name == "policy" and isinstance(given, list):
        return np.array(given)
    return given


def _plain(value: Any) -> Any:
    """Names as they are, numbers of NumPy as those of Python, tuples and arrays as lists."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


# --- The kinds of questions ----------------------------------------------------------------------


def _sweep(world: Frozen, mechanism: str = "gumbel-max", **asked: Any) -> dict[str, Any]:
    table = world.cf(mechanism).sweep(**asked)
    return {
        "values": table.values,
        "sizes": table.sizes,
        "distinct": table.distinct,
        "observed": float(table.observed_value),
    }


def _plan(world: Frozen, mechanism: str = "gumbel-max", **asked: Any) -> dict[str, Any]:
    if "k" not in asked:  # when the answers were frozen, this was the tether that was taken
        asked["k"] = world.cf(mechanism).enough_k(**asked) or 1
    plan = world.cf(mechanism).plan(**asked)
    outlook = plan.evaluate()
    return {
        "k": plan.k,
        "value": float(plan.value),
        "observed": float(plan.observed_value),
        "gain": float(plan.gain),
        "mean": float(outlook.value),
        **_outlook(outlook),
    }


def _outlook(outlook: tether.records.Evaluation) -> dict[str, Any]:
    """What follows from a policy, beyond its value."""
    about = outlook.tailoring
    return {
        "states": [_dense(outlook, t) for t in range(outlook.T + 1)],
        "actions": [sorted(outlook.actions(t).items(), key=str) for t in range(outlook.T)],
        "changed": outlook.changed,
        "variance": float(outlook.std) ** 2,
        "returns": outlook.returns.mean,
        "rewards": outlook.rewards,
        "strength": about.strength,
        "influenced": about.influenced,
        "longest_run": about.longest_run,
        "longest_run_probability": float(about.longest_run_probability),
        "outcomes": sorted(outlook.outcomes().items()),
    }


def _dense(outlook: tether.records.Evaluation, t: int) -> list[float]:
    """The probability of every state of the model at a time."""
    chance = dict(zip(*outlook.distribution(t), strict=True))
    return [float(chance.get(state, 0.0)) for state in outlook.mdp.states]


def _constrained(world: Frozen, risk: Any, limit: float, **asked: Any) -> dict[str, Any]:
    plan = world.cf().plan(subject_to=(risk, limit), **asked)
    mixture = plan.constraint.mixture
    return {
        "k": plan.k,
        "value": float(plan.value),
        "probability": float(plan.constraint.probability),
        "mixture": None if mixture is None else [*map(float, mixture.weights), float(mixture.value)],
    }


def _certify(world: Frozen, **asked: Any) -> dict[str, Any]:
    policy = asked.pop("policy", None)
    cf = world.cf()
    certificate = cf.plan(**asked).certify() if policy is None else tether.certify(cf, policy)
    sets = {
        one.assume: [float(each) for each in (one.worst, one.best, one.gain, one.breakdown)]
        for one in (certificate.nothing, certificate.stability)
    }
    return {
        "value": float(certificate.value),
        "observed": float(certificate.observed_value),
        "verdict": certificate.verdict,
        **sets,
    }


def _shares(world: Frozen, **asked: Any) -> dict[str, Any]:
    shares = world.cf().plan(**asked).shares()
    return {
        "gain": float(shares.gain),
        "steps": [[one.t, float(one.share), float(one.alone), float(one.changed)] for one in shares.steps],
    }


def _rows(world: Frozen, mechanism: str, t: int) -> dict[str, Any]:
    cf = world.cf(mechanism)
    pairs = [(s, a) for s in world.mdp.states for a in world.mdp.actions_in(s)]
    rows = [cf.row(t, *pair) for pair in pairs]
    return {
        "reachable": cf.reachable(t),
        "next_states": [names for names, _ in rows],
        "rows": [chances for _, chances in rows],
        "strengths": [float(cf.strength(t, *pair)) for pair in pairs],
    }


def _decisions(world: Frozen, bounds_of: int | None = None, **asked: Any) -> dict[str, Any]:
    found = world.cf().decisions(**asked)
    rows = found.rows
    answer = {
        "observed": float(found.observed_value),
        "outcome": found.outcome,
        "which": [[row.t, row.state, row.action, row.is_observed] for row in rows],
        "value": [row.value for row in rows],
        "gain": [row.gain for row in rows],
        "best": [row.best for row in rows],
        "necessity": [row.necessity for row in rows],
        "strength": [row.strength for row in rows],
        "needed_k": [row.needed_k for row in rows],
    }
    if bounds_of is not None and found.outcome is not None:
        row = rows[bounds_of % len(rows)]
        bounds = found.necessity_bounds(row.t, row.action)
        answer["bounds"] = [[one.assume, float(one.least), float(one.most)] for one in bounds]
    return answer


def _robust(world: Frozen, assume: str, k: int, m: int, pair: list[Any], **asked: Any) -> dict[str, Any]:
    robust = world.robust(assume)
    plan = robust.plan(k, m, **asked)
    table = robust.sweep(**asked)
    names, lower, upper = robust.bounds(*pair)
    return {
        "value": float(plan.value),
        "observed": float(plan.observed_value),
        "best_case": float(plan.best_case),
        "best_possible": float(robust.best_possible(k, m, **asked)),
        "values": table.values,
        "sizes": table.sizes,
        "distinct": table.distinct,
        "bounded": names,
        "lower": lower,
        "upper": upper,
    }


def _range(world: Frozen, assume: str, policy: Any, **asked: Any) -> dict[str, Any]:
    worst, best = world.robust(assume).range(policy, **asked)
    return {"worst": float(worst), "best": float(best)}


def _pareto(world: Frozen, **asked: Any) -> dict[str, Any]:
    front = world.cf().pareto(**asked)
    return {"values": front.values, "measures": front.measures, "lost": front.lost, "complete": front.complete}


def _evaluate(world: Frozen, mechanism: str = "gumbel-max", **asked: Any) -> dict[str, Any]:
    outlook = world.cf(mechanism).evaluate(**asked)
    return {"value": float(outlook.value), **_outlook(outlook)}


def _choose_k(world: Frozen, m: int, thresholds: list[float], shares: list[float], **asked: Any) -> dict[str, Any]:
    cf = world.cf()
    side = "at_most" if asked.get("minimise") else "at_least"
    return {
        "chosen": [cf.choose_k(m=m, **{side: each}, **asked) for each in thresholds],
        "enough": [cf.enough_k(m=m, share=share, **asked) for share in shares],
    }


def _why(world: Frozen, **asked: Any) -> dict[str, Any]:
    found = world.cf().why(**asked)
    return {
        name: [getattr(one, name) for one in found]
        for name in ("action", "allowed", "needed", "reason", "nearest", "successor")
    }


def _classify(world: Frozen, **asked: Any) -> dict[str, Any]:
    return {"classes": list(world.cf().classify(**asked).values())}


def _what_if(world: Frozen, actions: list[Any], **asked: Any) -> dict[str, Any]:
    found = world.cf().what_if(dict(actions), **asked)
    return {
        "value": float(found.value),
        "observed": float(found.observed_value),
        "changes": float(found.changes),
        "needed_k": found.needed_k,
        "states": [_dense(found.outlook, t) for t in range(world.path.T + 1)],
    }


def _panel(world: Frozen, **asked: Any) -> dict[str, Any]:
    panel = tether.compare_mechanisms(world.mdp, world.path, **asked)
    return {"mechanisms": panel.mechanisms, "values": panel.values, "agreement": panel.agreement}


def _solve(world: Frozen, **asked: Any) -> dict[str, Any]:
    solution = world.mdp.solve(steps=world.path.T, **asked)
    return {"values": [float(solution.value(state)) for state in world.mdp.states]}


KINDS: dict[str, Any] = {
    "sweep": _sweep,
    "plan": _plan,
    "constrained plan": _constrained,
    "certify": _certify,
    "shares": _shares,
    "rows": _rows,
    "decisions": _decisions,
    "robust": _robust,
    "range": _range,
    "pareto": _pareto,
    "evaluate": _evaluate,
    "choose k": _choose_k,
    "why": _why,
    "classify": _classify,
    "what if": _what_if,
    "panel": _panel,
    "solve": _solve,
}


# --- What counts as equal ------------------------------------------------------------------------


def differences(
    expected: dict[str, Any], got: dict[str, Any], tolerance: float = TOLERANCE, within_rows: float = WITHIN_ROWS
) -> list[str]:
    """In which of the expected fields two answers differ, and where first; other fields are not compared."""
    found = []
    for field, value in expected.items():
        if field not in got:
            found.append(f"{field}: expected {value!r}, got an answer with {', '.join(got)}: {got!r}"[:400])
            continue
        place = _first_difference(value, got[field], tolerance, within_rows if field == "rows" else None)
        if place is not None:
            found.append(field + place)
    return found


def _first_difference(expected: Any, got: Any, tolerance: float, relative: float | None) -> str | None:
    if isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return f": expected {len(expected)} items, {expected!r}, got {len(got)}, {got!r}"
        places = (_first_difference(*both, tolerance, relative) for both in zip(expected, got, strict=True))
        return next((f"[{i}]{place}" for i, place in enumerate(places) if place is not None), None)
    if _equal(expected, got, tolerance, relative):
        return None
    off = f" (off by {got - expected:.3g})" if type(expected) is type(got) is float else ""
    return f": expected {expected!r}, got {got!r}{off}"


def _equal(expected: Any, got: Any, tolerance: float, relative: float | None) -> bool:
    if type(expected) is not float or type(got) is not float:
        return type(expected) is type(got) and bool(expected == got)
    if not (math.isfinite(expected) and math.isfinite(got)):
        return expected == got or (math.isnan(expected) and math.isnan(got))
    off = abs(expected - got)
    return off <= tolerance * max(1.0, abs(expected)) and (relative is None or off <= relative * abs(expected))
