"""Compile the kernels once, before the tests: otherwise every process of the tests would compile the same kernels.

Tests also pass without it. A kernel that is not compiled here is compiled by the first test that needs it.
"""

import numpy as np

import tether
from tether._kernels import parallel
from tether.core.risk import chances
from tether.evaluation.plan_risk import _replays


def ask_everything(case: tether.cases.Case) -> None:
    """Ask each kind of question once, on a small case."""
    cf = tether.counterfactual(case.mdp, case.path)
    for rule in ("definition", "assured"):
        tethered = cf.tether(rule=rule)
        tethered.plan(3, 2).certify()
        tethered.sweep()
        tethered.sweep(measures=["about_episode"])
    cf.plan(3, 1, never={"step": 0})
    for assume in ("stability", "nothing"):
        guaranteed = tether.robust(case.mdp, case.path, assume=assume)
        guaranteed.range(guaranteed.plan(3, 1))
        guaranteed.bounds(0, case.path.states[0], case.path.actions[0])
    tether.counterfactual(case.mdp, case.path, mechanism="comonotone").plan(3, 1)
    case.mdp.simulate("optimal", case.path.T, rng=1)
    tether.counterfactual(case.mdp, case.path, mechanism="maximal").plan(3, 1)
    str(cf.plan(1, 1).explain())
    for m in (1, 2):
        tether.audit(case.mdp, [case.path], k=3, m=m, certify=True)
    tether.audit(case.mdp, [case.path], k=3, influence=tether.tv(0.5), rule="assured")
    log = [case.mdp.simulate("random", case.path.T, rng=seed) for seed in range(60)]
    learned = tether.learn(log).with_objective(final_reward={case.path.states[-1]: 1.0})
    str(tether.rules(learned, log))
    short = [case.mdp.simulate("random", 2, rng=seed) for seed in range(60)]
    rule, end = tether.rule(short[0].states[0], do=case.path.actions[0]), tether.avoid(short[0].states[-1])
    tether.evaluate_rules(tether.learn(short), short, rule, objective=end)
    types = tether.Types({"one": case.mdp, "other": case.mdp}, prior={"one": 0.5, "other": 0.5})
    tether.counterfactual(types, case.path).plan(m=1)


def rounded_returns() -> None:
    """What is for plans with very many returns, on a small one; as if what happened had been worth what is expected."""
    case = tether.cases.grid_world()
    plan = tether.counterfactual(case.mdp, case.path).plan(6, 2)
    chances(_replays(plan)._replace(observed=np.array([plan.value])), most=0)


def on_all_cores() -> None:
    """The forms of kernels for large models, on a small one."""
    parallel.LARGE = 1
    rng = np.random.default_rng(1)
    P = rng.random((6, 2, 6))
    mdp = tether.MDP.from_arrays(P / P.sum(axis=2, keepdims=True), rng.random((6, 2)))
    tether.counterfactual(mdp, tether.Path([0, 1, 2], [0, 1])).plan(2, 1)
    mdp.solve(2)


if __name__ == "__main__":
    ask_everything(tether.cases.toy())
    rounded_returns()
    on_all_cores()
