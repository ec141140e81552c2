"""What minipod sizes and oversubscriptions are worth: jobs, cells, the answer."""

from __future__ import annotations

from dataclasses import dataclass

from ground.records import AtLeastOne, JsonRecord, Share
from simulator.capacity.capacity_question import CapacityAnswer

Percentiles = tuple[float, float, float]
"""P10, P50, P90."""


@dataclass(frozen=True, slots=True)
class StudiedJob(JsonRecord):
    """A job that is placed on every cluster."""

    shape: str
    """tp x pp."""
    rows: AtLeastOne
    """PP groups."""
    nodes: AtLeastOne
    """Nodes."""
    alpha: Share
    """DP affinity."""


@dataclass(frozen=True, slots=True)
class MinipodCell(JsonRecord):
    """One algorithm on clusters of one size of minipod under one oversubscription."""

    algorithm: str
    """Name of the placement algorithm."""
    minipod_nodes: AtLeastOne
    """Nodes of a minipod, rounded so that minipods are as even as can be."""
    minipods: AtLeastOne
    """Minipods of the cluster."""
    oversubscription: float
    """Oversubscription between minipods; 1 = none, the network on which spread was measured."""
    throughput: Percentiles | None
    """Share of the throughput of a flat network that the jobs keep, weighted by their nodes: P10, P50, P90 over states
    and crossing traffic; null = no job was placed."""
    cost: Percentiles | None
    """Cost of a useful GPU-hour, with the ports between minipods; null = no prices, or no job was placed."""
    hierarchical: float | None
    """Share of the throughput by the model `hierarchical`, a mean over states: how much the model decides; null = no
    job was placed.
    """
    dp_spread: float | None
    """Mean DP spread of the jobs; null = no job was placed."""
    pp_spread: float | None
    """Mean PP spread of the jobs; null = no job was placed."""
    placed: Share
    """Share of the jobs that found a place."""
    cut_short: Share
    """Share of the jobs for which the algorithm ran into its time limit, of counted work: a longer one may place them
    better."""


@dataclass(frozen=True, slots=True)
class CheapestRatio(JsonRecord):
    """The oversubscription that costs least for one size of minipod, placed by the first algorithm."""

    minipod_nodes: AtLeastOne
    """Nodes of a minipod."""
    choice: float
    """The oversubscription with the least mean cost of a useful GPU-hour: what to build, not knowing what comes."""
    ratio: Percentiles
    """The oversubscription that would cost least if what comes were known: P10, P50, P90."""


@dataclass(frozen=True, kw_only=True)
class MinipodsAnswer(CapacityAnswer):
    """Minipod size and oversubscription against throughput."""

    nodes: AtLeastOne
    """Nodes of each cluster."""
    busy_share: float
    """Share of the nodes that other jobs use."""
    seeds: AtLeastOne
    """States of each cluster."""
    alpha: float | None
    """DP affinity of the jobs; null = they differ, as their model has it."""
    jobs: tuple[StudiedJob, ...]
    """The jobs."""
    cells: tuple[MinipodCell, ...]
    """Results by algorithm, size and oversubscription."""
    cheapest: tuple[CheapestRatio, ...]
    """Oversubscription at least cost, by size; empty without prices of nodes and ports."""

    def cell(self, algorithm: str, size: int, ratio: float) -> MinipodCell:
        """Return one cell."""
        wanted = (algorithm, size, ratio)
        return next(one for one in self.cells if (one.algorithm, one.minipod_nodes, one.oversubscription) == wanted)
