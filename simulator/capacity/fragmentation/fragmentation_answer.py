"""What fragmentation costs: by size of job, by shape, and the answer."""

from __future__ import annotations

from dataclasses import dataclass

from ground.records import AtLeastOne, Count, JsonRecord, Share
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.largest_job import Family, LargestJob


@dataclass(frozen=True, slots=True)
class SizedJob(JsonRecord):
    """A job of some size, now and on the empty cluster."""

    share: float
    """Size of the job, of the free nodes."""
    nodes: AtLeastOne
    """Nodes of the job."""
    dp: int | None
    """DP spread now; null = nothing valid was found."""
    pp: int | None
    """PP spread now; null = nothing valid was found."""
    objective: float | None
    """Eq. 2 now; null = nothing valid was found."""
    alpha: Share
    """DP affinity."""
    objective_if_empty: float | None
    """Eq. 2 on the empty cluster; null = nothing valid was found."""
    ratio: float | None
    """Objective now over that on the empty cluster: 1 = fragmentation costs nothing."""


@dataclass(frozen=True, slots=True)
class ShapeLeft(JsonRecord):
    """What is left for one shape."""

    shape: str
    """tp x pp."""
    tp: AtLeastOne
    """Tensor-parallel degree."""
    pp: AtLeastOne
    """Pipeline stages."""
    most_nodes: Count
    """Nodes of the largest job whatever its spread."""
    largest: tuple[LargestJob, ...]
    """Largest jobs, by family and spread."""
    too_small: Count
    """Free nodes in domains with fewer of them than one PP group has."""
    left_over: Count
    """Free nodes that remain when every domain is filled with whole PP groups."""
    sizes: tuple[SizedJob, ...]
    """Jobs of several sizes."""

    def fitting(self, family: Family, spread: int) -> LargestJob | None:
        """Return the largest job of a family and spread; ``None`` where the shape has no such groups."""
        return next((one for one in self.largest if (one.family, one.spread) == (family, spread)), None)


@dataclass(frozen=True, kw_only=True)
class FragmentationAnswer(CapacityAnswer):
    """What fragmentation costs, by job shape."""

    cluster: str
    """What the cluster is called."""
    level: str
    """The level whose domains count."""
    nodes: AtLeastOne
    """Nodes in all."""
    free: Count
    """Nodes that a gang may use."""
    free_by_domain: tuple[int, ...]
    """Free nodes of each domain, the most first."""
    alpha: float | None
    """DP affinity of the jobs; null = they differ, as their model has it."""
    trace: str | None
    """The trace that was replayed; null = none."""
    states: Count
    """States of the cluster that the range is over; 0 = the one state alone."""
    shapes: tuple[ShapeLeft, ...]
    """Results by shape of job."""
