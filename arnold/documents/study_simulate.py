"""The JSON of ``arnold study simulate``."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from arnold.documents.common import Document
from simulator.study.compared import Band, Comparison, Group


class BandDoc(Document):
    """A number over seeds."""

    mean: float
    """Over the runs of the group."""
    half: float = Field(ge=0)
    """Half of the 95 % interval of the mean, by Student's t; 0 with one run."""


class GroupDoc(Document):
    """Runs that differ in their seed alone."""

    name: str
    """What tells it from the others of its load."""
    policy: str
    """Of the queue."""
    algorithm: str
    """Of placement; `none` = GPUs were only counted."""
    cluster: str
    """Name of its file, without folder and suffix where that tells it from the others."""
    load: float = Field(gt=0)
    """Scale of the load."""
    runs: int = Field(ge=0)
    """That came to an end."""
    diverged: int = Field(ge=0)
    """That were ended because they would not."""
    metrics: dict[str, BandDoc]
    """By column of the rows; a number that no run has is left out."""
    against: dict[str, BandDoc]
    """Differences from the first group of this load, seed by seed; empty in the first group."""


class StudyDocument(Document):
    """Many replays of a trace."""

    title: str
    """Name of the trace."""
    runs: int = Field(ge=0)
    """Runs that were asked for."""
    made: int = Field(ge=0)
    """Of these, made now; the others were there."""
    groups: list[GroupDoc]
    """In order of policy, algorithm, cluster, load."""


def study_document(compared: Comparison, *, runs: int, made: int) -> StudyDocument:
    """The document of a study."""
    return StudyDocument(
        title=compared.title, runs=runs, made=made, groups=[_group(group) for group in compared.groups]
    )


def _group(group: Group) -> GroupDoc:
    return GroupDoc(
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


def _bands(found: Mapping[str, Band | None]) -> dict[str, BandDoc]:
    return {name: BandDoc(mean=band.mean, half=band.half) for name, band in found.items() if band is not None}
