"""Freeze answers: draw small models, episodes and questions, ask them, and store all in `frozen.json.gz`.

Run it only to freeze other questions, with an engine that is trusted: ``python tests/frozen/make_frozen.py``. It takes
a few minutes. The tests do not run it, and need none of its random numbers: what it drew is in the file.

A field of an answer is stored only if rounding does not decide it: the question is asked again in models whose numbers
differ in their last digits, and what differs then is left out. A plan is marked as tied if it changes when the numbers
change by about 1e-7: some other plan is worth the same.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from frozen_questions import FILE, KINDS, Frozen, differences

N_MODELS = 220
SEED = 21
LAST_DIGITS = 2
"""How many models with other last digits are asked."""

RULES = ("definition", "published", "printed", "assured")
MECHANISMS = ("gumbel-max", "independent", "comonotone", "maximal")
ASSUMPTIONS = ("nothing", "stability", "published-stability", "published-monotonicity")
EPS = (0.0437, 0.2113, 0.3719, 0.4421, 0.7109, 0.9301)  # away from ratios of small whole numbers
FOLLOWED = ("states", "actions", "changed", "variance", "returns", "rewards", "strength", "influenced")

Json = dict[str, Any]


# --- Models and episodes -------------------------------------------------------------------------


def draw_model(rng: random.Random) -> Json:
    n = rng.choice([1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8])
    n_actions, T = rng.choice([1, 2, 2, 3, 3, 3, 4, 5]), rng.choice([1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7])
    law = rng.choice(["sure", "even", "whole", "whole", "skewed", "tiny", "any", "any", "few", "few"])
    layout = rng.choice(["line", "line", "ring", "anywhere"])
    names = rng.choice(["s", "s", "number"])
    states: list[Any] = [f"s{i}" for i in range(n)] if names == "s" else list(range(n))
    actions: list[Any] = [f"a{i}" for i in range(n_actions)] if rng.random() < 0.7 else list(range(n_actions))
    absorbing = set(rng.sample(range(n), rng.randint(1, max(1, n // 3)))) if n > 1 and rng.random() < 0.5 else set()
    terminal = absorbing and rng.random() < 0.4
    rows = []
    for s in range(n):
        available = [a for a in range(n_actions) if rng.random() < 0.8] or [rng.randrange(n_actions)]
        if s in absorbing:
            if not terminal:
                rows += [[s, a, [[s, 1.0]]] for a in available]
            continue
        near = _near(layout, n, s)
        for a in available:
            width = 1 if law == "sure" else rng.choice([1, 2, 2, 3, 4])
            after = sorted(rng.sample(near, min(width, len(near))))
            rows.append([s, a, [[j, p] for j, p in zip(after, _probabilities(rng, law, len(after)), strict=True)]])
    all_rows = rows + ([[s, a, [[s, 1.0]]] for s in absorbing for a in range(n_actions)] if terminal else [])
    axes = rng.choice([None, "sa", "sa", "sa", "sas", "sas", "sas", "tsa", "tsa", "tsas", "tsas"])
    if axes == "tsas" and T * n * n * n_actions > 400:
        axes = "tsa"
    R = None if axes is None else _rewards(rng, axes, {"t": T, "s": n, "a": n_actions}, all_rows)
    final = [[s, float(rng.choice([-4, -1, 0, 2, 3.5]))] for s in range(n) if rng.random() < 0.7]
    labels = {name: sorted(rng.sample(range(n), rng.randint(1, max(1, n // 2)))) for name in ("good", "bad")}
    return {
        "made": "table" if axes in (None, "sa", "sas") and rng.random() < 0.4 else "arrays",
        "states": states,
        "actions": actions,
        "rows": rows,
        "terminal": [states[s] for s in sorted(absorbing)] if terminal else [],
        "R": R,
        "axes": axes,
        "discount": rng.choice([1.0, 1.0, 1.0, 1.0, 0.9, 0.9, 0.5, 0.0]),
        "final": final if final and rng.random() < 0.5 else None,
        "labels": labels if rng.random() < 0.6 else {},
        "path": _draw_path(rng, n, T, all_rows, absorbing),
    }


def _near(layout: str, n: int, s: int) -> list[int]:
    if layout == "line":
        return list(range(max(0, s - 1), min(n, s + 2)))
    return sorted({(s + step) % n for step in range(3)}) if layout == "ring" else list(range(n))


def _probabilities(rng: random.Random, law: str, width: int) -> list[float]:
    if law == "any":
        weights = [rng.uniform(0.05, 1.0) for _ in range(width)]
    elif law == "few":  # of few values: many ties
        return {1: [1.0], 2: rng.choice([[0.5, 0.5], [0.25, 0.75], [0.75, 0.25]]), 3: [0.25, 0.5, 0.25]}.get(
            width, [0.25] * 4
        )
    else:
        weight = {
            "sure": [1.0],
            "even": [1.0],
            "whole": [1.0, 2.0, 3.0, 4.0],
            "skewed": [1.0, 1e-3, 1e-9],
            "tiny": [1.0, 1.0, 2.0, 1e-9, 1e-300, 3e-300],
        }[law]
        weights = [rng.choice(weight) for _ in range(width)]
    total = sum(weights)
    return [one / total for one in weights]


def _rewards(rng: random.Random, axes: str, size: dict[str, int], rows: list[Any]) -> Any:
    """Rewards where the model has transitions, of few values or of any; 0 elsewhere."""
    few = rng.random() < 0.6
    R = np.zeros([size[axis] for axis in axes])
    at = {"sa": lambda s, a, _j: (s, a), "sas": lambda s, a, j: (s, a, j)}[axes.removeprefix("t")]
    drawn: dict[Any, float] = {}
    for t in range(size["t"] if axes[0] == "t" else 1):
        for s, a, entries in rows:
            for j, _ in entries:
                place = (t, *at(s, a, j)) if axes[0] == "t" else at(s, a, j)
                drawn[place] = float(rng.choice([-5, -1, 0, 0, 1, 2, 10])) if few else round(rng.uniform(-9, 9), 2)
    for place, reward in drawn.items():
        R[place] = reward
    return R.tolist()


def _draw_path(rng: random.Random, n: int, T: int, rows: list[Any], absorbing: set[int]) -> Json:
    """An episode; where it is absorbed it stops, or goes on with further steps. Its last outcome may be missing."""
    there: dict[int, list[Any]] = {}
    for s, a, entries in rows:
        there.setdefault(s, []).append((a, [j for j, _ in entries]))
    start = rng.choice([s for s in range(n) if s not in absorbing] or range(n))
    seen, did, stops = [start], [], rng.random() < 0.3
    while len(did) < T and not (stops and did and seen[-1] in absorbing):
        action, after = rng.choice(there[seen[-1]])
        did.append(action)
        seen.append(rng.choice(after))
    return {"states": seen if rng.random() < 0.75 else seen[:-1], "actions": did}


# --- Questions -----------------------------------------------------------------------------------


class Asking:
    """Draws questions about one model."""

    def __init__(self, rng: random.Random, model: Json) -> None:
        self.rng, self.model, self.world = rng, model, Frozen(model)
        self.T = len(model["path"]["actions"])

    def questions(self) -> list[tuple[str, Json]]:
        chance = self.rng.random
        kinds = ["sweep", "plan", "plan", "rows", "robust"]
        often = {
            "sweep": 0.8,
            "certify": 0.5,
            "shares": 0.4,
            "decisions": 0.6,
            "range": 0.25,
            "pareto": 0.4,
            "evaluate": 0.6,
            "choose k": 0.4,
            "why": 0.6,
            "classify": 0.5,
            "what if": 0.4,
            "panel": 0.1,
            "constrained plan": 0.15,
            "solve": 0.1,
        }
        kinds += [kind for kind, share in often.items() if chance() < share]
        return [(kind, getattr(self, kind.replace(" ", "_"))()) for kind in sorted(kinds, key=list(KINDS).index)]

    def about(self, *, support: bool = False, objective: bool = True) -> Json:
        """A rule, a test of influence, an objective and a direction; what is left out has its default."""
        rng, asked = self.rng, {}
        rule = rng.choice(RULES)
        if rule != "definition":
            asked["rule"] = rule
        if rule in ("definition", "assured") and not support and rng.random() < 0.55:
            asked["influence"] = [rng.choice(["tv", "effective"]), rng.choice(EPS)]
        if objective and len(self.model["states"]) > 1 and rng.random() < 0.4:
            asked["objective"] = self.property()
        if objective and rng.random() < 0.3:
            asked["minimise"] = True
        return asked

    def property(self) -> list[Any]:
        """A property that is not decided where the episode begins; if none is found, one that is: it is refused."""
        for _ in range(40):
            kind = self.rng.choice(["reach", "avoid", "until"])
            drawn = [kind, *(self.states() for _ in range(2 if kind == "until" else 1))]
            *hold, decides = (self._begins_in(one) for one in drawn[1:])
            if all(hold) and not decides:
                break
        return drawn

    def _begins_in(self, states: Any) -> bool:
        first = self.model["path"]["states"][0]
        return (
            first in self.model["labels"][states] if isinstance(states, str) else self.model["states"][first] in states
        )

    def states(self) -> Any:
        if self.model["labels"] and self.rng.random() < 0.5:
            return self.rng.choice(["good", "bad"])
        n = len(self.model["states"])
        return [self.model["states"][i] for i in sorted(self.rng.sample(range(n), self.rng.randint(1, (n + 1) // 2)))]

    def limits(self) -> Json:
        """Any k and m, more often large ones: they leave more to decide."""
        ks, ms = range(1, self.T + 2), range(min(self.T, 4) + 1)
        return {"k": max(self.rng.choices(ks, k=2)), "m": max(self.rng.choices(ms, k=2))}

    def mechanism(self) -> Json:
        return {} if self.rng.random() < 0.75 else {"mechanism": self.rng.choice(MECHANISMS[1:])}

    def sweep(self) -> Json:
        return {**self.about(), **self.mechanism()}

    def plan(self) -> Json:
        limits = self.limits()
        if self.rng.random() < 0.15:
            del limits["k"]
        return {**limits, **self.about(), **self.mechanism()}

    def constrained_plan(self) -> Json:
        limit = self.rng.choice([0.0, 0.1234, 0.4567, 0.8765])
        about = self.about(objective=False)
        return {"risk": self.property(), "limit": limit, **self.limits(), **about}

    def certify(self) -> Json:
        if self.rng.random() < 0.3:
            return {"policy": self.policy()}
        return {**self.limits(), **self.about()}

    def shares(self) -> Json:
        return {**self.limits(), **self.about()}

    def rows(self) -> Json:
        return {"mechanism": self.rng.choice(["gumbel-max", *MECHANISMS]), "t": self.rng.randrange(self.T)}

    def decisions(self) -> Json:
        return {**self.about(), "m": self.rng.randint(1, self.T), "bounds_of": self.rng.randrange(40)}

    def robust(self) -> Json:
        states = self.model["states"]
        state = self.rng.choice(states)
        pair = [self.rng.randrange(self.T), state, self.rng.choice(self.world.mdp.actions_in(state))]
        return {
            "assume": self.rng.choice(ASSUMPTIONS),
            **self.limits(),
            "pair": pair,
            **self.about(support=True),
        }

    def range(self) -> Json:
        asked = {"objective": self.property()} if self.rng.random() < 0.3 else {}
        return {"assume": self.rng.choice(ASSUMPTIONS), "policy": self.policy(), **asked}

    def pareto(self) -> Json:
        asked = {**self.limits(), **self.about()}
        against = self.rng.choice(["strength", "closeness", self.property()])
        if isinstance(against, list):
            asked.pop("objective", None)
        return {**asked, "against": against}

    def policy(self) -> Any:
        """What to do in each state: probabilities, the same at all times or not; or a policy by its name."""
        if self.rng.random() < 0.25:
            return self.rng.choice(["observed", "optimal", "random"])
        timed = self.rng.random() < 0.4
        tables = [[self._chances(state) for state in self.model["states"]] for _ in range(self.T if timed else 1)]
        return tables if timed else tables[0]

    def _chances(self, state: Any) -> list[float]:
        actions, there = self.model["actions"], self.world.mdp.actions_in(state)
        first, second = self.rng.choice(there), self.rng.choice(there)
        share = self.rng.choice([0.25, 0.5, 1.0])
        return [share * (action == first) + (1.0 - share) * (action == second) for action in actions]

    def evaluate(self) -> Json:
        asked: Json = {"policy": self.policy(), **self.mechanism()}
        if self.rng.random() < 0.4:
            asked["objective"] = self.property()
        if self.rng.random() < 0.4:
            asked["influence"] = [self.rng.choice(["tv", "effective"]), self.rng.choice(EPS)]
        return asked

    def choose_k(self) -> Json:
        """Thresholds between the values of the sweep, so that rounding does not decide."""
        about, m = self.about(), self.rng.randint(1, self.T)
        values = sorted(set(np.array(self.world.ask("sweep", about)["values"])[:, m].round(6).tolist()))
        thresholds = [values[0] - 1.0, *((a + b) / 2 for a, b in pairwise(values)), values[-1] + 1]
        return {"m": m, "thresholds": thresholds[:4], "shares": [0.313, 0.9], **about}

    def why(self) -> Json:
        t = self.rng.randrange(self.T)
        asked = {"t": t, "k": self.rng.randint(1, self.T // 2 + 1), **self.about()}
        if self.rng.random() < 0.6:
            asked["state"] = self.rng.choice(self.world.cf().reachable(t))
        if asked.get("rule") == "assured":
            asked["uninfluenced"] = self.rng.randint(0, t)
        return asked

    def classify(self) -> Json:
        rollout = self.rng.choice(["counterfactual", "nominal"])
        t, k = self.rng.randint(0, self.T), self.rng.randint(1, self.T + 1)
        return {"t": t, "k": k, "rollout": rollout, **self.about(objective=rollout == "counterfactual")}

    def what_if(self) -> Json:
        times = sorted(self.rng.sample(range(self.T), self.rng.randint(1, min(2, self.T))))
        asked: Json = {"actions": [[t, self.rng.choice(self.model["actions"])] for t in times], **self.about()}
        asked.pop("minimise", None)
        if self.rng.random() < 0.3:
            asked["best_from"] = self.rng.randrange(self.T)
        return asked

    def panel(self) -> Json:
        return {**self.limits(), **self.about(objective=False)}

    def solve(self) -> Json:
        about = self.about()
        return {name: one for name, one in about.items() if name in ("objective", "minimise")}


# --- What rounding decides -----------------------------------------------------------------------


def last_digits(model: Json, rng: random.Random) -> Json:
    """The model with other last digits; numbers that are equal stay equal."""
    moved, other = copy.deepcopy(model), {}
    for _, _, entries in moved["rows"]:
        if len(entries) > 1:
            for entry in entries:
                entry[1] *= other.setdefault(entry[1], 1.0 + rng.randint(-2, 2) * 2.0**-52)
    return _scaled(moved, 1.0 + rng.randint(-3, 3) * 2.0**-51)


def _scaled(model: Json, factor: float) -> Json:
    if model["R"] is not None:
        model["R"] = (np.array(model["R"]) * factor).tolist()
    if model["final"] is not None:
        model["final"] = [[state, value * factor] for state, value in model["final"]]
    return model


def clearly_other(model: Json, rng: random.Random) -> Json:
    """The model with every probability and reward moved by about 1e-7."""
    moved = copy.deepcopy(model)
    for _, _, entries in moved["rows"]:
        if len(entries) > 1:
            weights = [p * (1.0 + rng.uniform(-1e-7, 1e-7)) for _, p in entries]
            for entry, weight in zip(entries, weights, strict=True):
                entry[1] = weight / sum(weights)
    if moved["R"] is not None:
        R = np.array(moved["R"])
        noise = np.array([rng.uniform(-1e-7, 1e-7) for _ in range(R.size)]).reshape(R.shape)
        moved["R"] = (R + noise).tolist()
    return moved


def main() -> None:
    rng = random.Random(SEED)
    models, kinds, left_out, refused, tied = [], Counter(), Counter(), Counter(), 0
    while len(models) < N_MODELS:
        model = draw_model(rng)
        world = Frozen(model)
        questions = Asking(rng, model).questions()
        others = [Frozen(last_digits(model, rng)) for _ in range(LAST_DIGITS)]
        moved = [Frozen(clearly_other(model, rng)) for _ in range(1)]
        stored = []
        for kind, given in questions:
            answer = world.ask(kind, given)
            fields = dict(answer)
            for other in others:
                fields = {
                    name: one
                    for name, one in fields.items()
                    if not differences({name: one}, other.ask(kind, given), tolerance=2e-13, within_rows=1e-7)
                }
            left_out.update(f"{kind}: {name}" for name in answer.keys() - fields.keys())
            refused.update([f"{kind}: {answer['error']}"] if "error" in answer else [])
            if fields:
                kinds[kind] += 1
                stored.append([kind, given, fields])
                if "actions" in fields and kind == "plan":
                    seen = {name: fields[name] for name in FOLLOWED if name in fields}
                    if any(differences(seen, other.ask(kind, given), tolerance=1e-5) for other in moved):
                        tied += 1
                        stored[-1].append("tied")
        models.append({**model, "questions": stored})
    text = json.dumps(models, separators=(",", ":"), ensure_ascii=False)
    FILE.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    said = [
        f"{len(models)} models, {kinds.total()} questions, {tied} tied plans, {FILE.stat().st_size:,} bytes",
        f"questions: {dict(kinds)}",
        f"refused: {dict(refused)}",
        f"fields left out: {left_out.total()}, {dict(left_out)}",
    ]
    sys.stdout.write("\n".join(said) + "\n")


if __name__ == "__main__":
    main()
