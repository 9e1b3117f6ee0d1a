"""A user's script that mypy --strict and pyright accept: the calls of a study, with own ideas, and typed results."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tether

Numbers = NDArray[np.float64]


def as_often(p: Numbers, observed: int, q: Numbers) -> Numbers:
    """An own mechanism: what happened happens as often as any causal model allows."""
    again = min(1.0, float(q[observed] / p[observed]))
    row: Numbers = q * (1.0 - again) / max(1.0 - float(q[observed]), 1e-300)
    row[observed] = again
    return row


def explains_it(p: Numbers, observed: int, q: Numbers) -> bool:
    """An own test of influence: what happened is likelier than not."""
    return bool(q[observed] > 0.5)


def not_at_first(t: int, state: Any, action: Any) -> int:
    """An own rule: a change in the first two steps needs a longer tether."""
    return 5 if t < 2 else 1


def own_ideas(mdp: tether.MDP, path: tether.Path) -> list[float]:
    """The value of plans under own and built-in ideas."""
    test: tether.Influence = explains_it
    rule: tether.Rule = not_at_first
    cf = tether.counterfactual(mdp, path, mechanism=as_often)
    plans: list[tether.records.Plan] = [
        cf.plan(k=6, m=2),
        cf.plan(k=6, m=2, influence=test),
        cf.plan(k=6, m=2, influence=tether.tv(0.5)),
        cf.plan(k=6, m=2, rule=rule),
        cf.plan(k=6, m=2, rule="assured", objective=tether.avoid("danger")),
    ]
    return [plan.value for plan in plans]


def tables(cf: tether.records.CounterfactualMDP, folder: Path) -> tuple[int, Numbers]:
    """Results as arrays and tables, saved and read again."""
    plan = cf.plan(k=6, m=2)
    plan.save(folder / "plan.arrow")
    saved = tether.io.read_plan(folder / "plan.arrow")
    sweep: tether.records.Sweep = cf.sweep(ks=[1, 6], ms=[1, 2])
    values: Numbers = sweep.values
    certificate: tether.records.Certificate = plan.certify()
    explanation = plan.explain()
    print(saved.action(0, 0, 2), certificate.verdict, explanation.sentences()[0])
    drawn = cf.sample(plan, 100, np.random.default_rng(1))
    returns: Numbers = drawn.returns
    print(returns.mean(), plan.policy.shape, plan.values.shape)
    return int(sweep.sizes[0]), values


def files(mdp: tether.MDP, folder: Path) -> tether.MDP:
    """Models, episodes and policies as files."""
    tether.io.write_model(mdp, folder / "grid.drn")
    tether.io.write_policy("random", mdp, folder / "anything.json")
    episodes: tether.Episodes = mdp.simulate("random", 6, n=20, rng=1)
    one: tether.Path = mdp.simulate("optimal", 6, rng=np.random.SeedSequence(1))
    tether.io.write_episodes(episodes, folder / "log.csv")
    learned = tether.learn(folder / "log.csv")
    audit: tether.records.Audit = tether.audit(learned, episodes, k=2, m=1, mechanism=as_often, certify=False)
    print(one, audit.sentences()[0])
    return tether.io.read_model(folder / "grid.drn")


def main() -> None:
    """Run all of it."""
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    row: Numbers = tether.counterfactual_row(np.array([0.5, 0.5]), 0, np.array([0.2, 0.8]))
    with tempfile.TemporaryDirectory() as name:
        print(own_ideas(grid.mdp, grid.path), row, tables(cf, Path(name)), files(grid.mdp, Path(name)))
    try:
        cf.plan(k=0)
    except tether.QueryError as error:
        print(error.problems[0].value)


if __name__ == "__main__":
    main()
