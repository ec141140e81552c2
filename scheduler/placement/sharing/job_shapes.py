"""Shapes: the parts of a job that lie together, without saying where.

A placement with some (S, R) stays one, or gets better, when all cells of a domain move together to another domain with
room: so a placement stands for every way to lay its parts out, also several parts in one domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.job import Job
from scheduler.objective import Evaluation, objective_of, spread
from scheduler.placement.admission import blocks_at
from scheduler.placement.types import Pair
from topology.cluster import Cluster, IntArray


@dataclass(frozen=True)
class PlacementShape:
    """A grid of blocks cut into parts."""

    part_of_block: IntArray  # shape [rows, columns] of blocks, parts numbered from 0
    soft: float = 0.0  # soft terms of the placement that it was taken from; others have what the evaluator says
    homes: tuple[int, ...] = ()  # the domain that each part must lie in; empty = any

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Blocks of each part."""
        return tuple(np.bincount(self.part_of_block.ravel()).tolist())

    @cached_property
    def pair(self) -> Pair:
        """(S, R) with every part in a domain of its own: no way to lay the parts out has a larger S or R."""
        position = np.indices(self.part_of_block.shape, dtype=np.int32)
        return spread(position[1], self.part_of_block), spread(position[0], self.part_of_block)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What two shapes share that are the same to a program: spreads, sizes of parts, homes."""
        return self.pair, tuple(sorted(Counter(self.sizes).items())), self.homes, round(self.soft, 9)


def shape_placed(cluster: Cluster, job: Job, worth: Evaluation, nodes: IntArray, *, movable: bool) -> PlacementShape:
    """Return the shape of a placement.

    :param nodes: shape [rows, columns], node of each cell; ``worth``: what that is worth.
    :param movable: whether its parts may go to other domains with room.
    """
    level = cluster.level(job.level)
    blocks, domain_of_cell = blocks_at(cluster, job, cluster.level_index(level.name)), level.domain_of[nodes]
    soft = worth.objective - objective_of(job, worth.dp, worth.pp)
    first_row = np.unique(blocks.row_of, return_index=True)[1]
    first_column = np.unique(blocks.column_of, return_index=True)[1]
    homes, parts = np.unique(domain_of_cell[np.ix_(first_row, first_column)], return_inverse=True)
    part_of_block: IntArray = parts.reshape(len(first_row), len(first_column)).astype(np.int32)
    return PlacementShape(part_of_block, soft, () if movable else tuple(homes.tolist()))


def even_rectangles(rows: int, columns: int, pair: Pair) -> PlacementShape:
    """Return the grid cut into S bands of rows and R bands of columns, as even as can be."""
    bands, stacks = np.arange(rows) * pair[0] // rows, np.arange(columns) * pair[1] // columns
    return PlacementShape((bands[:, None] * pair[1] + stacks[None, :]).astype(np.int32))


def pairs_up_to(rows: int, columns: int, most: Pair) -> Iterator[Pair]:
    """Yield the pairs (S, R) that a grid can have, none larger than the one given."""
    for dp in range(1, min(rows, most[0]) + 1):
        for pp in range(1, min(columns, most[1]) + 1):
            yield dp, pp
