"""The published numbers, and the exact ones that must not change; both are data of the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from tether.conditioning.sets import Assumption
from tether.influence.rules import Rule

__all__ = ["Expected", "Published", "PublishedPath", "expected", "published"]


class PublishedPath(msgspec.Struct, frozen=True):
    """Figures and tables of one observed path: values by k for m = 1, 2, …, and sizes by k."""

    observed: float
    values: dict[int, list[float]]
    sizes: dict[int, int]


class PublishedCourse(msgspec.Struct, frozen=True):
    """A simulated mean over time, with its spread."""

    mean: list[float]
    std: list[float]


class PublishedHidden(msgspec.Struct, frozen=True):
    """One figure of the first appendix."""

    k_cf_policies: list[float]
    fully_known: float
    hidden: float


class PublishedFollowUp(msgspec.Struct, frozen=True):
    """The follow-up on sets of causal models: the average of the worst case over random paths of GridWorld (0.9)."""

    source: str
    mean_worst_case: float
    paths: int


class PublishedOffPolicy(msgspec.Struct, frozen=True):
    """Oberst and Sontag: mean returns by name; outcomes in percent, rows observed, columns counterfactual.

    ``physician`` has the actions of the released table, for the states where they differ from the exact rules.
    """

    source: str
    patients: int
    estimates: dict[str, float]
    outcomes: list[list[float]]
    physician: dict[int, int]


class Published(msgspec.Struct, frozen=True):
    """All numbers that the papers print."""

    source: str
    note: str
    run_time: str
    paths: dict[str, PublishedPath]
    mean_infected: dict[str, PublishedCourse]
    hidden_diabetes: dict[str, PublishedHidden]
    follow_up: PublishedFollowUp
    off_policy: PublishedOffPolicy


class ExpectedGrid(msgspec.Struct, frozen=True):
    """Grid World."""

    observed: float
    values: list[float]
    first_k: dict[Rule, int]
    assured_full_from: int
    layered_sizes: list[int]


class ExpectedEpidemic(msgspec.Struct, frozen=True):
    """Epidemic."""

    observed: float
    values: dict[int, list[float]]
    layered_sizes: list[int]
    sizes: list[int]


class ExpectedSepsis(msgspec.Struct, frozen=True):
    """Sepsis, exact model."""

    observed: float
    values: list[float]
    first_k: dict[Rule, int]


class ExpectedTable(msgspec.Struct, frozen=True):
    """Sepsis, sampled table."""

    observed: float
    values: list[float]
    first_k: int
    free_values: list[float]
    layered_sizes: list[int]
    component: int
    suboptimal: float


class ExpectedRobust(msgspec.Struct, frozen=True):
    """Sets of causal models: numbers of the follow-up's models, and ranges of our plans under every causal model.

    ``grids`` is by model and path: observed, Gumbel-max; and by set: guaranteed, Gumbel-max's plan at worst, best
    possible. ``ranges`` is by model: k, m, Gumbel-max, worst, best.
    """

    grids: dict[str, dict[str, list[float]]]
    sets: dict[str, dict[str, dict[Assumption, list[float]]]]
    changes: list[float]
    ranges: dict[str, list[tuple[int, int, float, float, float]]]


class ExpectedFewChanges(msgspec.Struct, frozen=True):
    """Tsirtsis et al., synthetic, by α: mean outcomes for m = 0, 1, 2, 5, 10; relative improvements from m = 1 on."""

    outcomes: dict[float, list[float]]
    improvements: dict[float, list[float]]


class ExpectedOffPolicy(msgspec.Struct, frozen=True):
    """Oberst and Sontag: mean returns drawn as published, exact ones, and outcomes in percent, exact."""

    redrawn: dict[str, float]
    exact: dict[str, float]
    outcomes: list[list[float]]


class Expected(msgspec.Struct, frozen=True):
    """The exact numbers that `--check` compares with."""

    source: str
    grid_world: ExpectedGrid
    epidemic: ExpectedEpidemic
    sepsis: ExpectedSepsis
    sepsis_table: ExpectedTable
    robust: ExpectedRobust
    few_changes: ExpectedFewChanges
    off_policy: ExpectedOffPolicy


@cache
def published() -> Published:
    """The published numbers."""
    return msgspec.json.decode(_read("published.json"), type=Published, strict=False)


@cache
def expected() -> Expected:
    """The exact numbers."""
    return msgspec.json.decode(_read("expected.json"), type=Expected, strict=False)


def _read(name: str) -> bytes:
    return (files("tether.reproduce") / "data" / name).read_bytes()
