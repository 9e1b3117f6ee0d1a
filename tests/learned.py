"""A model learned from a small log of a clinic, and a plan in it."""

import tether
from tether.learning.learn import learn

CLINIC = {("treat", "well"): 8, ("treat", "dead"): 2, ("wait", "well"): 2, ("wait", "dead"): 3}
"""How often each action led to each state, from "sick"."""


def clinic(prior=1.0, **options):
    paths = [tether.Path(["sick", j], [a]) for (a, j), times in CLINIC.items() for _ in range(times)]
    return learn(paths, prior, **options).with_objective(final_reward={"well": 1.0})


def clinic_plan(mdp):
    return tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=1, m=1)
