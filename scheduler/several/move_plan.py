"""What a search for moves is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Where the new job goes, and where running ones are then."""

    nodes: IntArray  # shape [rows, columns], of the new job
    running: tuple[IntArray, ...]  # of each running job, shape [rows, columns]
    # objective of the new job, not below the target, in whole numbers; then the cost of the moves
    rank: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """What is asked for, in whole numbers."""

    target: int  # a smaller objective of the new job is worth nothing
    most: int | None  # the most that the moves may cost; None = as it must be
    by_jobs: bool  # cost: GPU-seconds of every job of which a cell moves; else moved nodes
