"""The JSON of ``arnold study simulate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt

from simulator.study.compared import Band, Comparison, RunGroup
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns(JsonRecord):
    """Runs that differ in their seed alone."""

    name: str
    """What tells it from the others of its load."""
    policy: str
    """Of the queue."""
    algorithm: str
    """Of placement; `none` = GPUs were only counted."""
    cluster: str
    """Name of its file, without folder and suffix where that tells it from the others."""
    load: Annotated[float, Gt(0)]
    """Scale of the load."""
    runs: Annotated[int, Ge(0)]
    """That came to an end."""
    diverged: Annotated[int, Ge(0)]
    """That were ended because they would not."""
    metrics: Mapping[str, Band]
    """By column of the rows; a number that no run has is left out."""
    against: Mapping[str, Band]
    """Differences from the first group of this load, seed by seed; empty in the first group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDocument(JsonRecord):
    """Many replays of a trace."""

    title: str
    """Name of the trace."""
    runs: Annotated[int, Ge(0)]
    """Runs that were asked for."""
    made: Annotated[int, Ge(0)]
    """Of these, made now; the others were there."""
    groups: tuple[ComparedRuns, ...]
    """In order of policy, algorithm, cluster, load."""


def study_document(compared: Comparison, *, runs: int, made: int) -> StudyDocument:
    """Return the document of a study."""
    return StudyDocument(
        title=compared.title, runs=runs, made=made, groups=tuple(_group(group) for group in compared.groups)
    )


def _group(group: RunGroup) -> ComparedRuns:
    return ComparedRuns(
        name=group.name,
        policy=group.policy,
        algorithm=group.algorithm,
        cluster=group.cluster,
        load=group.load,
        runs=group.seeds,
        diverged=group.diverged,
        metrics=_bands(group.bands),
        against=_bands(group.against),
    )


def _bands(found: Mapping[str, Band | None]) -> Mapping[str, Band]:
    return {name: band for name, band in found.items() if band is not None}
