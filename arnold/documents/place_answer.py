"""What ``arnold place --json`` and ``arnold repair --json`` print, and ``arnold repair`` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ground.records import Count, JsonRecord, NotNegative, Share, record_of
from scheduler.job import Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import Spread
from scheduler.outcome import CloserSpread, ExpertSpread, Instance, Outcome, RefusedPlacement, TypeOption
from scheduler.placement.types import ParetoPoint, PriceOption
from scheduler.repair import Prefer, Repair
from topology.cluster import IntArray
from topology.flags import NodeFlag
from topology.summary import ClusterSummary, summarise_cluster


@dataclass(frozen=True, slots=True)
class PlacedCell(JsonRecord):
    """Where one node-sized cell of the job goes."""

    node: str
    """Name of the node."""
    dp: Count
    """Row of the grid: which PP group; where a TP group takes several nodes, as many rows of the grid count as one."""
    pp: Count
    """Column of the grid: which stage, and so which DP group."""
    part: Count
    """Which of the nodes of its TP group; 0 where a node has room for TP groups."""
    node_rank: Count
    """Rank of the node among the job's nodes; in the default order (pp * rows + dp) * nodes of a TP group + part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceDocument(JsonRecord):
    """A placement, or why there is none.  What belongs to a placement is null, or empty, when there is none."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """optimal: no placement is better in what decides, the predicted step time where slow nodes have a price, else the
    objective; feasible: valid, with a gap; infeasible; timeout: out of time with nothing valid; gave-up: a
    heuristic found nothing and proved nothing."""
    stopped_at: float | None
    """Seconds of the time limit that stopped the algorithm, or by the clock what came after its proof; null = it ended
    by itself, or proved its answer."""
    algorithm: str
    """Name of the algorithm that made it."""
    reason: str | None
    """Why there is no placement."""
    would_fit_if_empty: bool | None
    """Whether the job would fit if no GPU of the cluster were in use; null = not asked, or not settled in time."""
    spread: Spread | None
    """Spread at the level that counts."""
    objective: float | None
    """alpha * spread.dp + beta * spread.pp, plus the soft constraints of the job and the levels that it weighs."""
    ep: ExpertSpread | None
    """Spread of the expert groups at the level that counts: of placements with equal objectives that with the smallest
    is better; null = no expert group takes several nodes."""
    closer: Mapping[str, CloserSpread]
    """Level -> spread there, for levels closer than the one that counts, from the broadest: of placements still equal
    the one with the least alpha * dp + beta * pp at the first is better, then at the next.  Levels that the
    objective weighs are left out."""
    bound: float | None
    """No placement has a smaller objective, slow nodes and all; on other types of GPU none has a smaller objective /
    speed than this bound has at the speed of the chosen type."""
    gap: Share | None
    """(objective - bound) / objective, 0 when it is proved the least; where slow nodes have a price an optimal answer
    may have a gap, as nodes that would close it make the step longer."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node; null = slow nodes have no price, or there are none that the
    job might have."""
    step_time_bound: float | None
    """No placement on the chosen types of GPU has a shorter predicted step."""
    alpha: Share
    """DP affinity."""
    beta: Share
    """PP affinity, 1 - alpha."""
    level: str
    """The level whose domains spread counts."""
    solve_seconds: NotNegative
    """Wall time of the solver alone."""
    run_seconds: float | None
    """Wall time of the whole run, with what comes after the proof: closer levels, corners of the trade, seating on
    nodes; null = the job was not placed alone."""
    pareto: tuple[ParetoPoint, ...]
    """The trade between DP and PP spread, as far as known."""
    spread_by_level: Mapping[str, Mapping[Family, int]]
    """Largest spread of a group, for every level and family."""
    avoided: tuple[str, ...]
    """Flagged nodes that were otherwise usable and were left out."""
    used_flagged: tuple[str, ...]
    """Flagged nodes in use."""
    flags: tuple[NodeFlag, ...]
    """Why: what is held against the nodes of both lists, by node."""
    domains: Mapping[str, int]
    """Cells in each domain of the level that counts; domains without cells are left out."""
    prices: tuple[PriceOption, ...]
    """How slow nodes were weighed."""
    types: tuple[TypeOption, ...]
    """What each type of GPU that the job may be on would give; empty where nothing says the types of nodes."""
    assignment: tuple[PlacedCell, ...]
    """One row for each cell, in order of node rank."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""


@dataclass(frozen=True, slots=True)
class MovedCell(JsonRecord):
    """One cell that changes its node."""

    source: str
    """Node that it leaves."""
    target: str
    """Node that it goes to."""
    dp: Count
    """Row of the cell: which PP group."""
    pp: Count
    """Column of the cell: which stage."""
    part: Count
    """Which of the nodes of its TP group."""
    node_rank: Count
    """Rank of the cell among the job's nodes; it does not change."""


@dataclass(frozen=True, slots=True)
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
    """Certified: no valid placement has a smaller objective (of those with as few moves, when moves come first, and
    with as few slow nodes more, unless these are ignored)."""
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
    solve_seconds: NotNegative
    """Wall time of the repair."""
    assignment: tuple[PlacedCell, ...]
    """One row for each cell, in order of node rank."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""
    job: JobDocument
    """The job as it was saved."""
    cluster: ClusterSummary
    """The cluster as it was read."""


def place_document(instance: Instance, outcome: Outcome, *, would_fit_if_empty: bool | None = None) -> PlaceDocument:
    """Return the document of an outcome; notes of reading the instance stand before those of the algorithm.

    :raises RefusedPlacement: the evaluator refused what the algorithm proposed.
    """
    if outcome.status == "refused":
        raise RefusedPlacement(outcome)
    cluster, job, proposal, worth = instance.cluster, instance.job, outcome.proposal, outcome.evaluation
    assignment = placed_cells(instance, proposal.nodes)
    used = tuple(cluster.names[i] for i in worth.flagged) if worth else ()
    avoided = {flag.node for flag in instance.flags} - {*used}
    return record_of(
        PlaceDocument,
        outcome,
        reason=outcome.reason or None,
        would_fit_if_empty=would_fit_if_empty,
        alpha=job.alpha,
        beta=job.beta,
        level=instance.level.name,
        solve_seconds=proposal.solve_seconds,
        pareto=proposal.corners if worth else (),
        spread_by_level=worth.by_level if worth else {},
        avoided=tuple(sorted(avoided, key=cluster.index_of.__getitem__)) if worth else (),
        used_flagged=used,
        flags=instance.flags,
        domains=worth.domains if worth else {},
        prices=proposal.prices,
        assignment=assignment,
        notes=(*instance.notes, *outcome.notes),
        job=job_document(instance),
        cluster=summarise_cluster(cluster, instance.source),
    )


def repair_document(instance: Instance, repair: Repair, *, lost: Sequence[str]) -> RepairDocument:
    """Return the document of a repair; notes of reading the cluster stand before those of the repair.

    :param instance: the cluster, and the job as it was saved.
    :param lost: names of the lost nodes.
    """
    names, before, after = instance.cluster.names, repair.before, repair.after
    return record_of(
        RepairDocument,
        repair,
        lost=tuple(lost),
        moves=tuple(
            MovedCell(
                names[move.source],
                names[move.target],
                move.row // instance.job.nodes_of_tp,
                move.column,
                move.row % instance.job.nodes_of_tp,
                move.node_rank,
            )
            for move in repair.moves
        ),
        before=PlacementWorth(before.spread, before.objective),
        spread=after.spread,
        objective=after.objective,
        level=instance.level.name,
        spread_by_level=after.by_level,
        used_flagged=tuple(names[i] for i in after.flagged),
        domains=after.domains,
        assignment=placed_cells(instance, repair.nodes),
        notes=(*instance.notes, *repair.notes),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


def placed_cells(instance: Instance, nodes: IntArray | None) -> tuple[PlacedCell, ...]:
    """Return one row for each cell, in order of node rank; none without a placement.

    :param nodes: shape [rows, columns], index of the node of each cell.
    """
    if nodes is None:
        return ()
    grid, names = instance.job.grid, instance.cluster.names
    rows, columns = grid.cell_of_rank
    cells = zip(nodes[rows, columns].tolist(), rows.tolist(), columns.tolist(), strict=True)
    return tuple(
        PlacedCell(names[node], row // grid.parts, column, row % grid.parts, rank)
        for rank, (node, row, column) in enumerate(cells)
    )
