"""Random numbers: every public function that draws some takes a seed, and the same seed gives the same answer.

What draws within the call takes ``rng`` (`tether.io.record`: ``seed``, as environments call it): a whole number, a
SeedSequence or a Generator. What keeps the number with its answer, so that it can be gone on with, takes ``seed``, a
whole number.
"""

import inspect
import pathlib
import tempfile

import gymnasium
import numpy as np
import pytest
from learned import CLINIC, clinic, clinic_plan
from test_public import _public_functions

import tether

GRID = tether.cases.grid_world()
CF = tether.counterfactual(GRID.mdp, GRID.path)
LEARNED = clinic()
PLAN = clinic_plan(LEARNED)
LOG = [tether.Path(["sick", state], [action]) for (action, state), times in CLINIC.items() for _ in range(times)]
STAYS = [GRID.mdp.simulate("random", 3, start=5, rng=i) for i in range(30)]
LAKE = gymnasium.make("FrozenLake-v1")


def report(rng):
    with tempfile.TemporaryDirectory() as folder:
        return PLAN.report(pathlib.Path(folder, "plan.html"), draws=5, rng=rng, certificate=False).read_text(
            encoding="utf-8"
        )


def sampled(rng):
    mechanism = tether.SampledGumbelMax(samples=20, rng=rng)
    return tether.counterfactual(GRID.mdp, GRID.path, mechanism=mechanism).plan(k=6, m=2).value


DRAWS = {
    "io.record": lambda rng: tether.io.record(LAKE, seed=rng),
    "records.CounterfactualMDP.sample": lambda rng: CF.sample("random", 5, rng).returns.tolist(),
    "records.Plan.explain": lambda rng: PLAN.explain(draws=5, rng=rng).uncertainty.values.tolist(),
    "records.Plan.report": report,
    "records.Plan.sample": lambda rng: CF.plan(k=6, m=4).sample(50, rng).returns.tolist(),
    "records.Plan.uncertainty": lambda rng: PLAN.uncertainty(5, rng=rng).values.tolist(),
    "tether.MDP.simulate": lambda rng: GRID.mdp.simulate("random", 6, n=3, rng=rng).state.tolist(),
    "tether.SampledGumbelMax": sampled,
    "tether.posterior": lambda rng: tether.posterior(LEARNED, 2, rng=rng).draw(1).form.probability.tolist(),
}
"""What draws within the call, as an answer to be compared. A `RobustPlan` has the methods of a `Plan`."""

KEEPS = {
    "tether.audit": lambda seed: tether.audit(LEARNED, LOG, k=1, folds=3, seed=seed).table.to_pylist(),
    "tether.evaluate_rules": lambda seed: tether.evaluate_rules(
        LEARNED, LOG, tether.rule("sick", do="treat"), seed=seed
    ).table.to_pylist(),
    "tether.learn_types": lambda seed: tether.learn_types(STAYS, k=2, starts=1, seed=seed).responsibilities.tolist(),
    "tether.rules": lambda seed: tether.rules(LEARNED, LOG, seed=seed).table.to_pylist(),
}
"""What keeps the number with its answer."""


def test_every_function_that_draws_is_here():
    taken = {"rng", "seed"}
    found = {name for name, function in _public_functions() if taken & inspect.signature(function).parameters.keys()}
    assert {name for name in found if ".RobustPlan." not in name} | {"tether.SampledGumbelMax"} == {*DRAWS, *KEEPS}


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_the_same_seed_gives_the_same_answer(name):
    ask = DRAWS[name]
    kinds = (int, np.int64, np.random.SeedSequence, np.random.default_rng)
    if name == "records.Plan.report":  # a page takes a second
        kinds = (np.random.SeedSequence,)
    of_five = [repr(ask(kind(5))) for kind in kinds]
    # A SeedSequence and a Generator are not numbers that an environment takes: its own seed is then drawn from them.
    same = of_five[:2] if name == "io.record" else of_five
    assert len(set(same)) == 1
    assert [repr(ask(kind(5))) for kind in kinds] == of_five
    assert any(repr(ask(seed)) != of_five[0] for seed in range(10, 20))
    for wrong in ("x", -1, 1.5)[: len(kinds)]:
        with pytest.raises(tether.QueryError, match="must be a seed or a numpy Generator"):
            ask(wrong)


@pytest.mark.parametrize("name", sorted(KEEPS))
def test_the_same_number_gives_the_same_answer(name):
    ask = KEEPS[name]
    assert repr(ask(5)) == repr(ask(np.int64(5))) == repr(ask(5))
    assert any(repr(ask(seed)) != repr(ask(5)) for seed in range(10, 14))
    for wrong in ("x", -1, 1.5, None, np.random.default_rng(5)):
        with pytest.raises(tether.QueryError, match="seed must be a whole number"):
            ask(wrong)
