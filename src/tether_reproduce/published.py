"""The published numbers, and the exact ones that must not change; both are data of the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

__all__ = ["Expected", "Published", "PublishedOffPolicy", "PublishedPath", "expected", "published"]


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
    """The follow-up on sets of causal models: the average of the worst case over random paths of two of its models."""

    source: str
    mean_worst_case: float
    frozen_lake: float
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


class Expected(msgspec.Struct, frozen=True):
    """Exact numbers that must not change, to some digits; or, with ``digits`` 0, whole numbers or words."""

    digits: int
    values: list[float | str]


@cache
def published() -> Published:
    """The published numbers."""
    return msgspec.json.decode(_read("published.json"), type=Published, strict=False)


@cache
def expected() -> dict[str, Expected]:
    """The exact numbers that `tether reproduce --check` compares with, by what they are."""
    return msgspec.json.decode(_read("expected.json"), type=dict[str, Expected])


def _read(name: str) -> bytes:
    return (files("tether_reproduce") / "data" / name).read_bytes()
