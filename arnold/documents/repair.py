"""What ``arnold repair --json`` prints; it can be repaired again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from arnold.documents.common import ClusterDoc, Document, SpreadDoc, cluster_doc, job_doc
from arnold.documents.place import CellDoc, assignment_docs
from scheduler.job import Family, Job
from scheduler.job_document import JobDocument
from scheduler.placement.repair import Repair
from scheduler.spread import Evaluation, job_level
from topology.cluster import Cluster


class MoveDoc(Document):
    """One cell that changes its node."""

    source: str
    """Node that it leaves."""
    target: str
    """Node that it goes to."""
    dp: int = Field(ge=0)
    """Row of the cell: which PP group."""
    pp: int = Field(ge=0)
    """Column of the cell: which stage."""
    node_rank: int = Field(ge=0)
    """Rank of the cell among the job's nodes; it does not change."""


class WorthDoc(Document):
    """What a placement is worth."""

    spread: SpreadDoc
    """Spread at the level that counts."""
    objective: float
    """Eq. 2 plus soft constraints."""


class RepairDocument(Document):
    """A placement after a repair."""

    prefer: Literal["moves", "objective"]
    """What came first: the fewest moved cells, or the best objective."""
    lost: list[str]
    """Nodes that were lost."""
    moves: list[MoveDoc]
    """Cells that change their node, in order of rank; all others keep theirs."""
    fewest_moves: int
    """Certified: no valid placement moves fewer cells (with the best objective known, when that comes first)."""
    moves_proved: bool
    """Fewer moves are impossible."""
    before: WorthDoc
    """The placement before nodes were lost."""
    spread: SpreadDoc
    """Spread now, at the level that counts."""
    objective: float
    """Objective now."""
    objective_bound: float
    """Certified: no valid placement has a smaller objective (of those with as few moves, when moves come first)."""
    objective_proved: bool
    """A better objective is impossible, in the same sense."""
    level: str
    """The level whose domains spread counts."""
    spread_by_level: dict[str, dict[Family, int]]
    """Largest spread of a group, for every level and family."""
    used_flagged: list[str]
    """Flagged nodes in use."""
    domains: dict[str, int]
    """Cells in each domain of the level that counts."""
    solve_seconds: float = Field(ge=0.0)
    """Wall time of the repair."""
    assignment: list[CellDoc]
    """One row for each cell, in order of node rank."""
    notes: list[str]
    """What is worth knowing, one sentence each."""
    job: JobDocument
    """The job as it was saved."""
    cluster: ClusterDoc
    """The cluster as it was read."""


def repair_document(
    cluster: Cluster, job: Job, repair: Repair, *, lost: Sequence[str], source: str, notes: Sequence[str] = ()
) -> RepairDocument:
    """The document of a repair.

    :param lost: names of the lost nodes.
    :param source: name of the cluster's file.
    """
    after = repair.after
    return RepairDocument(
        prefer=repair.prefer,
        lost=list(lost),
        moves=[
            MoveDoc(
                source=cluster.names[move.source],
                target=cluster.names[move.target],
                dp=move.row,
                pp=move.column,
                node_rank=move.node_rank,
            )
            for move in repair.moves
        ],
        fewest_moves=repair.fewest_moves,
        moves_proved=repair.moves_proved,
        before=_worth(repair.before),
        spread=SpreadDoc(dp=after.dp, pp=after.pp),
        objective=after.objective,
        objective_bound=repair.objective_bound,
        objective_proved=repair.objective_proved,
        level=job_level(cluster, job).name,
        spread_by_level={name: dict(families) for name, families in after.by_level.items()},
        used_flagged=[cluster.names[i] for i in after.flagged],
        domains=dict(after.domains),
        solve_seconds=repair.solve_seconds,
        assignment=assignment_docs(cluster, job, repair.nodes),
        notes=[*notes, *repair.notes],
        job=job_doc(cluster, job),
        cluster=cluster_doc(cluster, source),
    )


def _worth(evaluation: Evaluation) -> WorthDoc:
    return WorthDoc(spread=SpreadDoc(dp=evaluation.dp, pp=evaluation.pp), objective=evaluation.objective)
