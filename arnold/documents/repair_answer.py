"""What ``arnold repair --json`` prints; it can be repaired again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from arnold.documents.place_answer import PlacedCell, placed_cells
from scheduler.job import Family
from scheduler.jobfile import JobDocument, job_document
from scheduler.objective import Spread
from scheduler.outcome import Instance
from scheduler.repair import Prefer, Repair
from topology.json_record import JsonRecord
from topology.validate import ClusterSummary, summarise_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedCell(JsonRecord):
    """One cell that changes its node."""

    source: str
    """Node that it leaves."""
    target: str
    """Node that it goes to."""
    dp: Annotated[int, Ge(0)]
    """Row of the cell: which PP group."""
    pp: Annotated[int, Ge(0)]
    """Column of the cell: which stage."""
    node_rank: Annotated[int, Ge(0)]
    """Rank of the cell among the job's nodes; it does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementWorth(JsonRecord):
    """What a placement is worth."""

    spread: Spread
    """Spread at the level that counts."""
    objective: float
    """Eq. 2 plus soft constraints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDocument(JsonRecord):
    """A placement after a repair."""

    prefer: Prefer
    """What came first: the fewest moved cells, or the best objective."""
    lost: tuple[str, ...]
    """Nodes that were lost."""
    moves: tuple[MovedCell, ...]
    """Cells that change their node, in order of rank; all others keep theirs."""
    fewest_moves: int
    """Certified: no valid placement moves fewer cells (with the best objective known, when that comes first)."""
    moves_proved: bool
    """Fewer moves are impossible."""
    before: PlacementWorth
    """The placement before nodes were lost."""
    spread: Spread
    """Spread now, at the level that counts."""
    objective: float
    """Objective now."""
    objective_bound: float
    """Certified: no valid placement has a smaller objective (of those with as few moves, when moves come first)."""
    objective_proved: bool
    """A better objective is impossible, in the same sense."""
    level: str
    """The level whose domains spread counts."""
    spread_by_level: Mapping[str, Mapping[Family, int]]
    """Largest spread of a group, for every level and family."""
    used_flagged: tuple[str, ...]
    """Flagged nodes in use."""
    domains: Mapping[str, int]
    """Cells in each domain of the level that counts."""
    solve_seconds: Annotated[float, Ge(0)]
    """Wall time of the repair."""
    assignment: tuple[PlacedCell, ...]
    """One row for each cell, in order of node rank."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""
    job: JobDocument
    """The job as it was saved."""
    cluster: ClusterSummary
    """The cluster as it was read."""


def repair_document(instance: Instance, repair: Repair, *, lost: Sequence[str]) -> RepairDocument:
    """Return the document of a repair; notes of reading the cluster stand before those of the repair.

    :param instance: the cluster, and the job as it was saved.
    :param lost: names of the lost nodes.
    """
    names, before, after = instance.cluster.names, repair.before, repair.after
    return RepairDocument(
        prefer=repair.prefer,
        lost=tuple(lost),
        moves=tuple(
            MovedCell(
                source=names[move.source],
                target=names[move.target],
                dp=move.row,
                pp=move.column,
                node_rank=move.node_rank,
            )
            for move in repair.moves
        ),
        fewest_moves=repair.fewest_moves,
        moves_proved=repair.moves_proved,
        before=PlacementWorth(spread=before.spread, objective=before.objective),
        spread=after.spread,
        objective=after.objective,
        objective_bound=repair.objective_bound,
        objective_proved=repair.objective_proved,
        level=instance.level.name,
        spread_by_level=after.by_level,
        used_flagged=tuple(names[i] for i in after.flagged),
        domains=after.domains,
        solve_seconds=repair.solve_seconds,
        assignment=placed_cells(instance, repair.nodes),
        notes=(*instance.notes, *repair.notes),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )
