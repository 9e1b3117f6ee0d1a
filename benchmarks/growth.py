"""How the time grows with each size of the question: the slope of its logarithm, and a plot of each.

The model is one in which everything is reached (successors anywhere), and k = T + 1, so that nothing is pruned and
the work is what the size says; for k it is a grid, where the distance to the observed path, and so the k that a pair
needs, takes every value. A slope of 1 is linear, 0 is flat. It is fitted to the larger sizes, where what every call
costs by itself no longer matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from figures import growth_figure
from harness import Anew, Result, peak_of, slope, time_for
from models import local_model, local_path, random_model, random_path

import tether

STATES, T, M, LONG = 2000, 20, 3, 32
FITTED = 4
"""How many of the largest sizes the slope is fitted to."""

Job = Callable[[], Any]


@dataclass(frozen=True)
class Axis:
    """One size that is varied, and what is timed at each: curves by name, given the size."""

    name: str
    label: str
    sizes: tuple[int, ...]
    curves: Mapping[str, Callable[[int], Job]]


def _random(actions: int = 4, outcomes: int = 5, T: int = T) -> tuple[tether.MDP, tether.Path]:
    mdp = random_model(STATES, actions, outcomes)
    return mdp, random_path(mdp, T)


def _local() -> tuple[tether.MDP, tether.Path]:
    return local_model(10_000), local_path(10_000, LONG)


def _condition(mdp: tether.MDP, path: tether.Path) -> Job:
    return lambda: tether.counterfactual(mdp, path)


def _plan(mdp: tether.MDP, path: tether.Path, m: int = M, k: int | None = None) -> Job:
    return Anew(_condition(mdp, path), lambda cf: cf.plan(k=path.T + 1 if k is None else k, m=m))


def _sweep(mdp: tether.MDP, path: tether.Path, ks: int) -> Job:
    return Anew(_condition(mdp, path), lambda cf: cf.sweep(ks=range(1, ks + 1), ms=[M]))


def _both(case: Callable[[int], tuple[tether.MDP, tether.Path]]) -> Mapping[str, Callable[[int], Job]]:
    return {"plan": lambda n: _plan(*case(n)), "conditioning": lambda n: _condition(*case(n))}


AXES = (
    Axis("T", "steps of the episode, $T$", (5, 10, 20, 40, 80, 160), _both(lambda n: _random(T=n))),
    Axis("m", "actions that may change, $m$", (1, 2, 4, 8, 16, 32), {"plan": lambda n: _plan(*_random(T=LONG), m=n)}),
    Axis(
        "k",
        "length of the tether, $k$",
        (1, 2, 4, 8, 16, 32),
        {"every k = 1 … K": lambda n: _sweep(*_local(), n), "plan for one k": lambda n: _plan(*_local(), k=n)},
    ),
    Axis("actions", "actions of a state", (2, 4, 8, 16, 32, 64), _both(lambda n: _random(actions=n))),
    Axis("support", "outcomes of a pair", (2, 4, 8, 16, 32, 64, 128), _both(lambda n: _random(outcomes=n))),
)


def measure(quick: bool) -> list[Result]:
    results = []
    for axis in AXES:
        sizes = axis.sizes[-FITTED:-1] if quick else axis.sizes
        seconds = 0.05 if quick else 0.3
        curves = {name: [time_for(job(n), seconds) for n in sizes] for name, job in axis.curves.items()}
        for name, times in curves.items():
            memory = None if quick else peak_of("growth", f"{axis.name}: {name}")
            results.append(_result(axis, name, sizes, times, memory))
        if not quick:
            last = next(iter(curves.values()))[-1]
            line = ("linear", sizes, [last * n / sizes[-1] for n in sizes])
            growth_figure(axis.name, axis.label, {name: (sizes, times) for name, times in curves.items()}, line)
    return results


def line(results: Sequence[Result]) -> str:
    """Which of the slopes are linear, in a sentence."""
    kinds: dict[str, list[str]] = {"linear": [], "less than linear": [], "more than linear": []}
    for result in results:
        kind = "linear" if 0.8 <= result.value <= 1.2 else f"{'less' if result.value < 0.8 else 'more'} than linear"
        kinds[kind].append(f"{result.name.removeprefix('growth in ')} ({result.value:.2f})")
    return "growth: " + "; ".join(f"{kind} are {', '.join(told)}" for kind, told in kinds.items() if told)


def _result(axis: Axis, name: str, sizes: Sequence[int], times: Sequence[float], memory: float | None) -> Result:
    exponent = slope(sizes[-FITTED:], times[-FITTED:])
    by_size = ", ".join(f"{n}: {time * 1e3:.3g} ms" for n, time in zip(sizes, times, strict=True))
    detail = f"exponent over {sizes[-FITTED:][0]} … {sizes[-1]}; {by_size}"
    return Result(f"growth in {axis.name}: {name}", exponent, "", detail, memory=memory)


JOBS = {f"{axis.name}: {name}": partial(job, axis.sizes[-1]) for axis in AXES for name, job in axis.curves.items()}
