"""Random numbers: every public function that draws some takes a seed, and the same seed gives the same answer.

What draws within the call takes ``rng`` (`tether.io.record`: ``seed``, as environments call it): a whole number, a
SeedSequence or a Generator. What keeps the number with its answer, so that it can be gone on with, takes ``seed``, a
whole number.
"""

import inspect

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


def sampled(rng):
    mechanism = tether.SampledGumbelMax(samples=20, rng=rng)
    return tether.counterfactual(GRID.mdp, GRID.path, mechanism=mechanism).plan(k=6, m=2).value


DRAWS = {
    "io.record": lambda rng: tether.io.record(LAKE, seed=rng),
    "records.CounterfactualMDP.sample": lambda rng: CF.sample("random", 5, rng).returns.tolist(),
    "records.Plan.explain": lambda rng: PLAN.explain(draws=5, rng=rng).uncertainty.values.tolist(),
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


REPORT = "records.Plan.report"
"""It hands its seed on to `Plan.explain`; a page takes seconds."""


def test_a_report_draws_as_its_explanation_does(tmp_path, monkeypatch):
    class AskedError(Exception):
        pass

    def explain(plan, *_, rng, draws, **__):
        raise AskedError(rng, draws)

    monkeypatch.setattr("tether.views.report.report_page.explain", explain)
    with pytest.raises(AskedError) as caught:
        PLAN.report(tmp_path / "plan.html", draws=7, rng=5)
    assert caught.value.args == (5, 7)


def test_every_function_that_draws_is_here():
    taken = {"rng", "seed"}
    found = {name for name, function in _public_functions() if taken & inspect.signature(function).parameters.keys()}
    assert {name for name in found if ".RobustPlan." not in name} | {"tether.SampledGumbelMax"} == {
        *DRAWS,
        *KEEPS,
        REPORT,
    }


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_the_same_seed_gives_the_same_answer(name):
    ask = DRAWS[name]
    kinds = (int, np.int64, np.random.SeedSequence, np.random.default_rng)
    of_five = [repr(ask(kind(5))) for kind in kinds]
    # A SeedSequence and a Generator are not numbers that an environment takes: its own seed is then drawn from them.
    same = of_five[:2] if name == "io.record" else of_five
    assert len(set(same)) == 1
    assert [repr(ask(kind(5))) for kind in kinds] == of_five
    assert any(repr(ask(seed)) != of_five[0] for seed in range(10, 20))
    for wrong in ("x", -1, 1.5):
        with pytest.raises(tether.QueryError, match="must be a seed or a numpy Generator"):
            ask(wrong)


@pytest.mark.parametrize("name", sorted(KEEPS))
def test_the_same_number_gives_the_same_answer(name):
    ask = KEEPS[name]
    first = repr(ask(5))
    assert repr(ask(np.int64(5))) == first
    assert any(repr(ask(seed)) != first for seed in range(10, 14))
    for wrong in ("x", -1, 1.5, None, np.random.default_rng(5)):
        with pytest.raises(tether.QueryError, match="seed must be a whole number"):
            ask(wrong)
