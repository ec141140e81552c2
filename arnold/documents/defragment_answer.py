"""What ``arnold defragment --json`` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from arnold.documents.place_answer import PlacedCell, PlaceDocument, PlacementWorth, place_document, placed_cells
from ground.records import Count, JsonRecord, NotNegative, record_of
from scheduler.objective import TOLERANCE
from scheduler.outcome import Instance
from scheduler.several.defragmentation import Defragmentation, MoveBudget
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedNode(JsonRecord):
    """One cell of a running job that changes its node."""

    job: str
    """Name of the job, as in `running`."""
    source: str
    """Node that it leaves."""
    target: str
    """Node that it goes to."""
    dp: Count
    """Row of the cell: which PP group."""
    pp: Count
    """Column of the cell: which stage."""
    node_rank: Count
    """Rank of the cell among the job's nodes; it does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDocument(JsonRecord):
    """A running job before and after."""

    file: str
    """The file that says where it runs."""
    job: str
    """Name of the job; where several have it, with the file behind it."""
    nodes: Count
    """Nodes that it has."""
    moved: Count
    """Nodes that it leaves."""
    gpu_hours: float | None
    """GPU-hours since its last checkpoint, all of which it loses if any node moves; 0 if none does; null = unknown."""
    before: PlacementWorth
    """Its placement now."""
    after: PlacementWorth
    """Its placement then; never a larger objective."""
    assignment: tuple[PlacedCell, ...]
    """Where each cell is then, in order of node rank; empty if none moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentDocument(JsonRecord):
    """Where a new job goes, and which nodes of running jobs move for it."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """optimal: no smaller objective, down to the target, is possible at the cost that is allowed, and no smaller cost
    for that objective; infeasible: the job does not fit even so."""
    stopped_at: float | None
    """Seconds of the time limit that ended the search; null = it ended by itself, or proved its answer."""
    target: float
    """Objective / speed that the new job is to reach; by default what it has on the empty cluster."""
    reached: bool
    """Whether it does."""
    now: float | None
    """Objective of the new job if nothing moves; null = it does not fit."""
    objective: float | None
    """Objective of the new job once the nodes have moved; null = no placement."""
    measure: Literal["moves", "gpu-hours"]
    """What the moves cost: moved nodes, or GPU-hours lost since the last checkpoints."""
    cost: NotNegative
    """Cost of the moves, by that measure."""
    least_cost: NotNegative
    """Certified: no moves that let the new job have this objective cost less."""
    allowed: float | None
    """The most that the moves may cost; null = no limit."""
    moves: tuple[MovedNode, ...]
    """Nodes that move, by job and rank."""
    running: tuple[RunningDocument, ...]
    """The running jobs, in the order of their files; empty without a placement."""
    placement: PlaceDocument
    """The new job once the nodes have moved, as `arnold place` would print it."""
    solve_seconds: NotNegative
    """Wall time of the search, seconds."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""


def defragment_document(instance: Instance, found: Defragmentation, budget: MoveBudget) -> DefragmentDocument:
    """Return the document of a defragmentation; ``instance`` is the new job on the cluster as it was read."""
    by_hours = budget.gpu_hours is not None
    placed = found.outcome.evaluation
    running = _running(instance.cluster, found)
    return record_of(
        DefragmentDocument,
        found,
        status="gave-up" if found.status == "refused" else found.status,
        reached=placed is not None and found.reached <= found.target + TOLERANCE,
        now=found.now.objective,
        objective=found.outcome.objective,
        measure="gpu-hours" if by_hours else "moves",
        allowed=budget.gpu_hours if by_hours else budget.moves,
        moves=tuple(move for _, moved in running for move in moved),
        running=tuple(one for one, _ in running),
        placement=place_document(instance, found.outcome),
    )


def _running(cluster: Cluster, found: Defragmentation) -> Sequence[tuple[RunningDocument, tuple[MovedNode, ...]]]:
    """Return each running job with its moves."""
    documents = []
    often = Counter(one.running.job.name for one in found.running)
    for one in found.running:
        running, instance = one.running, Instance(cluster, one.running.job)
        name = running.job.name if often[running.job.name] == 1 else f"{running.job.name} ({running.source})"
        cells = placed_cells(instance, one.nodes)
        old = placed_cells(instance, running.nodes)
        moves = tuple(
            MovedNode(job=name, source=was.node, target=now.node, dp=now.dp, pp=now.pp, node_rank=now.node_rank)
            for was, now in zip(old, cells, strict=True)
            if was.node != now.node
        )
        document = RunningDocument(
            file=running.source,
            job=name,
            nodes=len(cells),
            moved=one.moved,
            gpu_hours=one.lost_hours,
            before=PlacementWorth(one.before.spread, one.before.objective),
            after=PlacementWorth(one.after.spread, one.after.objective),
            assignment=cells if one.moved else (),
        )
        documents.append((document, moves))
    return documents
