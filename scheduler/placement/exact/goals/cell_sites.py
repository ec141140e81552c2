"""Cells and domains told apart as little as the objective allows: units of cells, and sites where they may go.

A *site* is a domain of the closest level with room, a *unit* the cells that holds keep together in one, a single cell
without holds.  Every level is an array that says which of its domains each site lies in: nothing is asked of how levels
lie in each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.job import Family, Job
from scheduler.placement.admission import Blocks, blocks_at
from topology.cluster import BoolArray, Cluster, IntArray, Level, count_nodes
from topology.flags import HEALTHY


@dataclass(frozen=True)
class Sites:
    """Units of a job, and the sites where they may go."""

    cluster: Cluster
    job: Job
    admitted: BoolArray  # shape [nodes], the nodes that may be used

    def __len__(self) -> int:
        return len(self._domains)

    @cached_property
    def closest(self) -> Level:
        """The level whose domains the sites are."""
        return self.cluster.levels[-1]

    @cached_property
    def blocks(self) -> Blocks:
        """The units."""
        return blocks_at(self.cluster, self.job, len(self.cluster.levels) - 1)

    @property
    def units(self) -> int:
        """Number of units."""
        return self.blocks.rows * self.blocks.columns

    @cached_property
    def room(self) -> IntArray:
        """Shape [sites], units that each can take."""
        return self._room_of_domain[self._domains]

    @cached_property
    def healthy(self) -> IntArray:
        """Shape [sites], nodes of each without a flag."""
        return count_nodes(self.closest, self.admitted & (self.cluster.slowdown <= HEALTHY))[self._domains]

    @cached_property
    def domain_at(self) -> Mapping[str, IntArray]:
        """Level -> shape [sites], the domain that each site lies in."""
        first = np.zeros(len(self.closest), dtype=np.int64)
        inside = np.flatnonzero(self.admitted)
        first[self.closest.domain_of[inside]] = inside
        return {level.name: level.domain_of[first[self._domains]] for level in self.cluster.levels}

    def site_of_unit(self, nodes: IntArray) -> IntArray:
        """Return the site of each unit of a placement, shape [units]; ``nodes`` has shape [rows, columns]."""
        index = np.full(len(self.closest), -1, dtype=np.int32)
        index[self._domains] = np.arange(len(self), dtype=np.int32)
        site = np.empty(self.units, dtype=np.int32)
        site[self.blocks.of_cell] = index[self.closest.domain_of[nodes]]
        return site

    def domain_of_cell(self, site_of_unit: IntArray) -> IntArray:
        """Return the domain of the closest level of each cell, shape [rows, columns]."""
        domain_of_unit = self._domains[site_of_unit].astype(np.int32)
        found: IntArray = domain_of_unit[self.blocks.of_cell]
        return found

    def groups(self, family: Family) -> list[tuple[int, ...]]:
        """Return the units of each group of a family; groups within one unit, and repetitions, are left out."""
        if family not in self._groups:
            self._groups[family] = self._several(*self.job.grid.groups[family].paired(self.blocks.of_cell))
        return self._groups[family]

    @cached_property
    def ties(self) -> Mapping[str, Sequence[tuple[int, ...]]]:
        """Level -> units that holds keep in one domain of it."""
        held = {hold.level for hold in self.job.holds_on(self.cluster)}
        unit_of = self.blocks.of_cell
        return {
            level.name: self._several(blocks_at(self.cluster, self.job, depth).of_cell.ravel(), unit_of.ravel())
            for depth, level in enumerate(self.cluster.levels)
            if level.name in held
        }

    @staticmethod
    def _several(group_of: IntArray, unit_of: IntArray) -> list[tuple[int, ...]]:
        """Return the distinct sets of several units that groups have, given pairs of a group and a unit."""
        group, unit = np.unique(np.stack([group_of, unit_of]), axis=1)
        parts = np.split(unit, np.flatnonzero(np.diff(group)) + 1)
        return list(dict.fromkeys(tuple(part.tolist()) for part in parts if len(part) > 1))

    @cached_property
    def _groups(self) -> dict[Family, list[tuple[int, ...]]]:
        return {}

    @cached_property
    def _room_of_domain(self) -> IntArray:
        return count_nodes(self.closest, self.admitted) // self.blocks.size

    @cached_property
    def _domains(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self._room_of_domain > 0)
