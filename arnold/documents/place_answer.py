"""Answers about placements as JSON: of ``arnold place``, ``repair``, ``explain``, ``compare``, ``defragment``,
``demo``.

``arnold repair`` reads what ``arnold place`` and itself print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from ground.records import Count, JsonRecord, NotNegative, Share, record_of
from scheduler.explanation import (
    AvoidanceOption,
    CheaperPair,
    Misfit,
    TypeBinding,
    cheaper_pairs,
    left_over,
    what_binds,
)
from scheduler.job import Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import TOLERANCE, Spread
from scheduler.outcome import CloserSpread, ExpertSpread, Instance, Outcome, RefusedPlacement, TypeOption
from scheduler.placement.types import ALGORITHMS, ParetoPoint, PriceOption, Status
from scheduler.repair import Prefer, Repair
from scheduler.several.defragmentation import Defragmentation, MoveBudget
from scheduler.several.together import JointOutcome, TurnResult
from topology.cluster import Cluster, IntArray
from topology.flags import NodeFlag
from topology.summary import ClusterSummary, summarise_cluster

# -- place_answer --
# What ``arnold place --json`` and ``arnold repair --json`` print, and ``arnold repair`` reads.


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


# -- joint_answer --
# What ``arnold place --json`` prints for several jobs.


@dataclass(frozen=True, slots=True, kw_only=True)
class JointDocument(JsonRecord):
    """Where several jobs go, no two on one node; or which of them do not fit."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """Status of all jobs together. optimal: no placement of all has a smaller sum, where slow nodes have a price on
    nodes that are no slower than each job takes alone; infeasible: they do not all fit."""
    stopped_at: float | None
    """Seconds of the time limit that ended the search; null = it ended by itself, or proved its answer."""
    jobs: Mapping[str, PlaceDocument]
    """Name of the job -> its placement.  Its bound and its status are those of the job alone on the cluster, so a job
    may be feasible where the sum is optimal.  Empty without a placement of all."""
    objective: float | None
    """Sum of weight * objective / speed over the jobs; speed is 1 where a job names none.  null = no placement."""
    bound: float | None
    """No placement of all jobs has a smaller sum, slow nodes and all."""
    gap: Share | None
    """(objective - bound) / objective, 0 when it is proved the least of all."""
    weights: Mapping[str, float]
    """Name of the job -> weight of its objective."""
    left_out: tuple[str, ...]
    """Where not all fit: a smallest set of jobs without which the others do; empty where none is known."""
    reason: str | None
    """Why there is no placement."""
    one_after_the_other: tuple[TurnResult, ...]
    """What the jobs would get one after the other: in the order given, and in reverse."""
    solve_seconds: NotNegative
    """Wall time of the whole search."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""


def joint_document(instances: Sequence[Instance], weights: Sequence[float], found: JointOutcome) -> JointDocument:
    """Return the document of a joint placement; notes of reading a job stand in the document of that job."""
    names = [instance.job.name for instance in instances]
    placed = zip(names, instances, found.outcomes, strict=False)
    return record_of(
        JointDocument,
        found,
        status=found.status if found.status != "refused" else "gave-up",
        jobs={name: place_document(instance, outcome) for name, instance, outcome in placed},
        weights=dict(zip(names, weights, strict=True)),
        left_out=tuple(names[j] for j in found.left_out),
        reason=found.reason or None,
        one_after_the_other=found.turns,
    )


# -- defragment_answer --
# What ``arnold defragment --json`` prints.


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


# -- explain_answer --
# What ``arnold explain --json`` prints.


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainDocument(JsonRecord):
    """Why a placement cannot be better, or why there is none."""

    status: Status
    """Status of the exact solver: optimal, feasible, infeasible or timeout."""
    stopped_at: float | None
    """Seconds of the time limit that stopped it, or by the clock what came after a proof; null = it ended by itself, or
    proved its answer."""
    verdict: str
    """The answer in one sentence."""
    alpha: float
    """DP affinity."""
    beta: float
    """PP affinity."""
    level: str
    """The level whose domains spread counts."""
    spread: Spread | None
    """Spread of the placement found."""
    objective: float | None
    """Its objective."""
    bound: float | None
    """No placement has a smaller objective, slow nodes and all."""
    gap: float | None
    """(objective - bound) / objective."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node; null = slow nodes have no price, or there are none that the
    job might have."""
    step_time_bound: float | None
    """No placement on the chosen types of GPU has a shorter predicted step."""
    cheaper: tuple[CheaperPair, ...]
    """Every pair that would cost less, dearest first, with what rules it out."""
    pareto: tuple[ParetoPoint, ...]
    """The trade between DP and PP spread, as far as known."""
    prices: tuple[PriceOption, ...]
    """How slow nodes were weighed."""
    types: tuple[TypeOption, ...]
    """What each type of GPU that the job may be on would give, each solved; the pairs and the trade are those of the
    chosen one.  Empty where nothing says the types of nodes."""
    binding: tuple[TypeBinding, ...]
    """What binds on each of these types; empty where there is nothing to choose."""
    options: tuple[AvoidanceOption, ...]
    """To avoid slow nodes against to use them, each solved; empty where no node that the job could use is slow."""
    flags: tuple[NodeFlag, ...]
    """Why: the flags of the nodes that the options name, and of faulty ones that are idle, by node."""
    diagnosis: Misfit | None
    """Why the job does not fit; null when it does."""
    solve_seconds: float
    """Wall time of the solver on the instance itself."""
    notes: tuple[str, ...]
    """What is worth knowing about this run."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""


def explain_document(
    instance: Instance, outcome: Outcome, *, options: Sequence[AvoidanceOption], diagnosis: Misfit | None
) -> ExplainDocument:
    """Return the document of an explanation."""
    return record_of(
        ExplainDocument,
        outcome,
        alpha=instance.job.alpha,
        beta=instance.job.beta,
        level=instance.level.name,
        cheaper=cheaper_pairs(instance.cluster, instance.job, outcome),
        pareto=outcome.proposal.corners,
        prices=outcome.proposal.prices,
        binding=what_binds(instance.cluster, outcome),
        options=tuple(options),
        flags=instance.flags,
        diagnosis=diagnosis,
        solve_seconds=outcome.proposal.solve_seconds,
        notes=(*instance.notes, *outcome.notes, *(f"{one}." for one in left_over(instance.cluster, instance.job))),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


# -- compare_answer --
# What ``arnold compare --json`` and ``arnold demo --json`` print.


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAlgorithm(JsonRecord):
    """What one algorithm made of the instance.  Numbers of a placement are null when there is none."""

    algorithm: str
    """Name of the algorithm."""
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up (found, proved nothing), refused (its placement is invalid)."""
    stopped_at: float | None
    """Seconds of the time limit that stopped the algorithm, or by the clock what came after its proof; null = it ended
    by itself, or proved its answer."""
    reason: str | None
    """Why there is no placement."""
    spread: Spread | None
    """Spread at the level that counts."""
    objective: float | None
    """Eq. 2 plus soft constraints."""
    bound: float | None
    """What this algorithm proved: no placement has a smaller objective."""
    gap: float | None
    """(objective - bound) / objective."""
    ratio: float | None
    """Objective over the best objective of all algorithms here; 1 = the best."""
    domains: int | None
    """Number of domains in use."""
    used_flagged: int | None
    """Number of flagged nodes in use."""
    gpu_types: tuple[str, ...]
    """Types of GPU of its nodes; empty where nothing says the types, or there is no placement."""
    solve_seconds: NotNegative
    """Wall time of the algorithm alone."""
    notes: tuple[str, ...]
    """What the algorithm has to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareDocument(JsonRecord):
    """Every algorithm on one instance, best objective first."""

    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""
    level: str
    """The level whose domains spread counts."""
    best: float | None
    """Smallest objective found; null = no algorithm found a placement."""
    bound: float | None
    """Best bound that any of the algorithms proved."""
    results: tuple[ComparedAlgorithm, ...]
    """One for each algorithm."""
    notes: tuple[str, ...]
    """What is worth knowing about how the input was read."""


@dataclass(frozen=True, slots=True)
class InstalledAlgorithm(JsonRecord):
    """An installed algorithm."""

    name: str
    """Name for --algorithm."""
    summary: str
    """What it does, in one line."""


@dataclass(frozen=True, slots=True)
class AlgorithmsDocument(JsonRecord):
    """What ``arnold compare --list --json`` prints."""

    algorithms: tuple[InstalledAlgorithm, ...]
    """All installed algorithms."""


CompareOutput = CompareDocument | AlgorithmsDocument  # Either of the two


@dataclass(frozen=True, slots=True)
class DemoDocument(JsonRecord):
    """What ``arnold demo --json`` prints: what the demonstration wrote, and the comparison it shows."""

    page: str
    """The HTML page."""
    files: tuple[str, ...]
    """Files to try other commands on, with --save: cluster and job first."""
    comparison: CompareDocument
    """Every algorithm on the demonstration's instance."""


def algorithms_document() -> AlgorithmsDocument:
    """Return all installed algorithms."""
    names = ALGORITHMS.names()
    return AlgorithmsDocument(tuple(InstalledAlgorithm(name, ALGORITHMS.load(name).summary) for name in names))


def compare_document(instance: Instance, outcomes: Sequence[Outcome]) -> CompareDocument:
    """Return the document of several outcomes on one instance."""
    best = min((outcome.objective for outcome in outcomes if outcome.objective is not None), default=None)
    ordered = sorted(outcomes, key=lambda outcome: inf if outcome.objective is None else outcome.objective)
    return CompareDocument(
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
        level=instance.level.name,
        best=best,
        bound=max((outcome.bound for outcome in outcomes if outcome.bound is not None), default=None),
        results=tuple(_result(outcome, best) for outcome in ordered),
        notes=instance.notes,
    )


def _result(outcome: Outcome, best: float | None) -> ComparedAlgorithm:
    worth, objective = outcome.evaluation, outcome.objective
    return record_of(
        ComparedAlgorithm,
        outcome,
        reason=outcome.reason or None,
        objective=objective,
        ratio=None if objective is None or best is None else objective / best,
        domains=len(worth.domains) if worth else None,
        used_flagged=len(worth.flagged) if worth else None,
        gpu_types=next((type_.gpu_types for type_ in outcome.types if type_.chosen), ()),
        solve_seconds=outcome.proposal.solve_seconds,
    )
