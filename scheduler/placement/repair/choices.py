"""The choices of a repair: which blocks of cells may change their domain, and where there is room for them.

Domains are those of the closest level that the objective or a hold looks at; a block is what holds tie together there,
one cell without holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduler.placement.admission import BoolArray
from scheduler.placement.blocks import blocks_at
from scheduler.placement.repair.situation import Situation
from scheduler.placement.repair.terms import closest_depth
from topology.cluster import IntArray
from topology.flags import HEALTHY

LARGEST = 60_000
"""Choices (mover x target) of the largest model."""


@dataclass(frozen=True)
class Choices:
    """Blocks on one side, domains on the other.

    :param found: what is left to the job.
    :param depth: of the level that the domains belong to.
    :param block_of: shape [rows, columns], the block of each cell.
    :param size: cells in a block.
    :param movers: the blocks that may change their domain.
    :param home: shape [blocks], the domain of each block before.
    :param lost: shape [blocks], cells of each block that need a new node wherever it goes.
    :param targets: the domains with room for a mover.
    :param room: shape [targets], movers that each can take.
    :param healthy: shape [targets], cells of movers that each can take without a further slow node.
    """

    found: Situation
    depth: int
    block_of: IntArray
    size: int
    movers: IntArray
    home: IntArray
    lost: IntArray
    targets: IntArray
    room: IntArray
    healthy: IntArray

    def __len__(self) -> int:
        return len(self.movers) * len(self.targets)

    @property
    def few(self) -> bool:
        """Whether a model of them all is solved while someone waits."""
        return len(self) <= LARGEST

    def domain_of_cell(self, target_of_mover: IntArray) -> IntArray:
        """Shape [rows, columns], given for each mover an index into ``targets``."""
        domain_of_block = self.home.copy()
        domain_of_block[self.movers] = self.targets[target_of_mover]
        domain_of_cell: IntArray = domain_of_block[self.block_of]
        return domain_of_cell

    def target_of_mover(self, domain_of_cell: IntArray) -> IntArray:
        """Shape [movers], the index into ``targets`` of the domain each mover is given; -1 where it has no room."""
        domain_of_block = np.empty_like(self.home)
        domain_of_block[self.block_of] = domain_of_cell
        return self._index(domain_of_block[self.movers])

    @property
    def target_at_home(self) -> IntArray:
        """Shape [movers], the index into ``targets`` of the domain each mover comes from; -1 where it has no room."""
        return self._index(self.home[self.movers])

    def _index(self, domains: IntArray) -> IntArray:
        index = np.full(int(max(domains.max(), self.targets.max())) + 1, -1, dtype=np.int32)
        index[self.targets] = np.arange(len(self.targets))
        found: IntArray = index[domains]
        return found


def choices(found: Situation, movable: BoolArray | None = None) -> Choices:
    """The choices for some cells; by default those that a repair with the fewest moves can need.

    Blocks are equal, so a block without a lost node never has to make room for one with: that one goes where the other
    would have gone.  Hence only blocks with lost nodes move, together with what holds at broader levels tie to them.

    :param movable: shape [rows, columns], cells that may change their domain, with those tied to them.
    """
    cluster, job = found.cluster, found.job
    depth = closest_depth(cluster, job)
    domain_of = cluster.levels[depth].domain_of
    blocks = blocks_at(cluster, job, depth)
    tied = blocks_at(cluster, job, 0).of_cell
    movable = np.isin(tied, tied[~found.stays if movable is None else movable | ~found.stays])
    count, block_of = blocks.rows * blocks.columns, blocks.of_cell
    home = np.empty(count, dtype=np.int32)
    home[block_of] = domain_of[found.old]
    domains = len(cluster.levels[depth])
    fixed = np.bincount(domain_of[found.old[~movable]], minlength=domains)
    room = (np.bincount(domain_of[found.admitted], minlength=domains) - fixed) // blocks.size
    slow = np.bincount(domain_of[found.spare & (found.slowdown > HEALTHY)], minlength=domains)
    healthy = np.bincount(domain_of[found.admitted], minlength=domains) - slow - fixed
    targets = np.flatnonzero(room > 0)
    return Choices(
        found=found,
        depth=depth,
        block_of=block_of,
        size=blocks.size,
        movers=np.unique(block_of[movable]).astype(np.int32),
        home=home,
        lost=np.bincount(block_of[~found.stays], minlength=count).astype(np.int32),
        targets=targets.astype(np.int32),
        room=room[targets].astype(np.int32),
        healthy=healthy[targets].astype(np.int32),
    )


def trimmed(choices: Choices) -> Choices:
    """Fewer choices: the roomiest targets, enough of them for all movers."""
    most = LARGEST // len(choices.movers)
    order = np.argsort(-choices.room, kind="stable")
    enough = int(np.searchsorted(np.cumsum(choices.room[order]), len(choices.movers))) + 1
    kept = np.sort(order[: max(most, enough)])
    return replace(choices, targets=choices.targets[kept], room=choices.room[kept], healthy=choices.healthy[kept])
