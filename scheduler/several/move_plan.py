"""What a search for moves is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement.sharing.share_model import Expression, ShareModel, Variable
    from scheduler.placement.sharing.share_part import SharePart


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Where the new job goes, and where running ones are then."""

    nodes: IntArray  # shape [rows, columns], of the new job
    running: tuple[IntArray, ...]  # of each running job, shape [rows, columns]
    rank: tuple[
        int, int
    ]  # objective of the new job, not below the target, in whole numbers; then the cost of the moves


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """What is asked for, in whole numbers."""

    target: int  # a smaller objective of the new job is worth nothing
    most: int | None  # the most that the moves may cost; None = as it must be
    by_jobs: bool  # cost: GPU-seconds of every job of which a cell moves; else moved nodes


@dataclass(frozen=True, slots=True)
class MoveProgram:
    """A program of a search: the new job and the running ones on the same classes of nodes."""

    model: ShareModel
    new: SharePart
    objective: Variable  # of the new job
    rank: Expression  # that, not below the target, and the cost of the moves as one number
