"""What minipod sizes and oversubscriptions are worth: jobs, cells, the answer."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.capacity.capacity_question import CapacityAnswer
from topology.field_types import AtLeastOne, NotNegative, Share
from topology.json_record import JsonRecord


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
    oversubscription: float | None
    """Between minipods; null = the loss measured between minipods on an otherwise quiet network."""
    throughput: float | None
    """Share of the throughput of a flat network that the jobs keep, weighted by their nodes, a mean over seeds; null =
    no job was placed."""
    half_width: NotNegative
    """Half of the 95 % interval of the throughput; 0 with one seed."""
    dp_spread: float | None
    """Mean DP spread of the jobs; null = no job was placed."""
    pp_spread: float | None
    """Mean PP spread of the jobs; null = no job was placed."""
    placed: Share
    """Share of the jobs that found a place."""
    cut_short: Share
    """Share of the jobs for which the algorithm ran into its time limit: they may come out otherwise on a machine of
    another speed."""


@dataclass(frozen=True, kw_only=True)
class MinipodsAnswer(CapacityAnswer):
    """Minipod size and oversubscription against throughput."""

    nodes: AtLeastOne
    """Nodes of each cluster."""
    busy_share: float
    """Nodes that other jobs use."""
    seeds: AtLeastOne
    """States of each cluster."""
    alpha: float | None
    """DP affinity of the jobs; null = they differ, as their model has it."""
    jobs: tuple[StudiedJob, ...]
    """The jobs."""
    cells: tuple[MinipodCell, ...]
    """By algorithm, size and oversubscription."""

    def cell(self, algorithm: str, size: int, ratio: float | None) -> MinipodCell:
        """Return one cell."""
        wanted = (algorithm, size, ratio)
        return next(one for one in self.cells if (one.algorithm, one.minipod_nodes, one.oversubscription) == wanted)
