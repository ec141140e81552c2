"""The answer of ``arnold defragment``, as JSON and as text: what moves, what that costs, where the new job goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from arnold.console.output import BAD, Console, plain
from arnold.documents.answer_frame import COLOURS, SHORT, Frame, passed_over, print_head, proof_clause
from arnold.documents.place_answer import (
    CellAnswer,
    PlacedCell,
    PlaceDocument,
    PlacementAnswer,
    place_document,
    placed_cells,
)
from arnold.documents.repair_answer import PlacementWorth
from arnold.documents.start_answers import StopAnswer, loss, stop_answer
from ground.errors import some
from ground.quantities import decimal, plural
from ground.records import Count, JsonRecord, NotNegative, record_of
from scheduler.objective import TOLERANCE
from scheduler.outcome import Instance, status_words
from scheduler.start_times import StopProposal
from scheduler.witnesses import NOT_TO_BE_CHECKED
from scheduler.work_clock import End
from topology.node_names import spell_names

if TYPE_CHECKING:
    from scheduler.several.defragmentation import Defragmentation, MoveBudget


class MovedNode(CellAnswer, JsonRecord, kw_only=True):
    """One cell of a running job that changes its node."""

    job: str
    """Name of the job, as in `running`."""
    source: str
    target: str
    dp: Count
    pp: Count
    node_rank: Count


class RunningDocument(JsonRecord, kw_only=True):
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


class DefragmentDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """Where a new job goes, and which nodes of running jobs move for it."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """optimal: no smaller objective, down to the target, is possible at the cost that is allowed, and no smaller cost
    for that objective; infeasible: the job does not fit even so."""
    proved_to: str | None
    """How much of what is asked is proved: `objective`: that, and the cost of the moves; `all`: besides, no moves that
    cost as little give the new job a smaller EP spread, or a better placement at a closer level; null = not even
    these."""
    unchecked: Mapping[str, str]
    stopped_at: End | None
    """Seconds of the time limit that ended the search, or `interrupted`; null = it ended by itself, or proved its
    answer."""
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
    instead: StopAnswer | None
    """Where no moves make room, whom to stop, as `arnold explain --stop`; null = it is not asked."""
    solve_seconds: NotNegative
    """Wall time of the search, seconds."""
    notes: tuple[str, ...]


def defragment_document(
    instance: Instance, result: Defragmentation, budget: MoveBudget, stopping: StopProposal | None
) -> DefragmentDocument:
    """Return the document of a defragmentation.

    :param instance: the new job on the cluster as it was read.
    :param stopping: whom to stop where no moves make room.
    """
    by_hours = budget.gpu_hours is not None
    placed = result.outcome.evaluation
    running, moves = list[RunningDocument](), list[MovedNode]()
    often = Counter(moved.running.job.name for moved in result.running)
    for moved in result.running:
        job, of_job = moved.running.job, Instance(instance.cluster, moved.running.job)
        name = job.name if often[job.name] == 1 else f"{job.name} ({moved.running.source})"
        cells, old = placed_cells(of_job, moved.nodes), placed_cells(of_job, moved.running.nodes)
        moves += [
            MovedNode(job=name, source=was.node, target=now.node, dp=now.dp, pp=now.pp, node_rank=now.node_rank)
            for was, now in zip(old, cells, strict=True)
            if was.node != now.node
        ]
        document = RunningDocument(
            file=moved.running.source,
            job=name,
            nodes=len(cells),
            moved=moved.moved,
            gpu_hours=moved.lost_hours,
            before=PlacementWorth(moved.before.spread, moved.before.objective),
            after=PlacementWorth(moved.after.spread, moved.after.objective),
            assignment=cells if moved.moved else (),
        )
        running.append(document)
    reached = placed is not None and result.reached <= result.target + TOLERANCE
    unchecked = dict[str, str]()
    if placed is None:
        counted = instance.job.grid.cells > int((instance.cluster.gpus == instance.job.gpus_per_node).sum())
        if result.status == "infeasible" and not counted:
            unchecked["objective"] = f"it does not fit whatever moves: {NOT_TO_BE_CHECKED}"
    else:
        # what costs nothing has the least cost; what reaches its target is asked no more
        if result.least_cost > TOLERANCE:
            unchecked["moves"] = f"least cost of the moves {decimal(result.least_cost)}: {NOT_TO_BE_CHECKED}"
        if result.status == "optimal" and not reached:
            unchecked["objective"] = f"objective {decimal(placed.objective)} at that cost: {NOT_TO_BE_CHECKED}"
    return record_of(
        DefragmentDocument,
        result,
        unchecked=unchecked,
        status="gave-up" if result.status == "refused" else result.status,
        reached=reached,
        now=result.now.objective,
        objective=result.outcome.objective,
        measure="gpu-hours" if by_hours else "moves",
        allowed=budget.gpu_hours if by_hours else budget.moves,
        moves=tuple(moves),
        running=tuple(running),
        instead=None if stopping is None else stop_answer(stopping),
        placement=place_document(instance, result.outcome),
    )


def print_defragmentation(out: Console, instance: Instance, document: DefragmentDocument, *, then: str) -> None:
    """Print what moves, what that costs, and where the new job goes then; ``then`` is the command to go on with."""

    def amount(cost: float) -> str:
        if document.measure == "moves":
            return f"{plural(round(cost), 'node')} moved"
        return f"{decimal(cost)} GPU-hours lost"

    verdict = f"{status_words(document.status, document.stopped_at)}: "
    if document.objective is None:
        verdict += document.placement.reason or ""
    else:
        cost = amount(document.cost)
        if document.cost > document.least_cost + 1e-9:
            cost += f" (at least {amount(document.least_cost)})"
        now = "does not fit" if document.now is None else f"objective {decimal(document.now)}"
        verdict += f"{cost}, then objective {decimal(document.objective)}; if nothing moves: {now}"
        verdict += proof_clause(document.proved_to)
    frame = Frame(out, verdict, COLOURS.get(document.status, BAD), timing=f"{document.solve_seconds:.2f} s")
    if document.objective is not None:
        out.print(f"target {decimal(document.target)}: {'reached' if document.reached else 'not reached'}")
    instead = list[str]()
    if (stopping := document.instead) is not None:
        instead = ["to stop preemptible jobs would not make room either", *stopping.notes]
        if stopping.stop and stopping.gpu_hours_lost is not None:
            lost = loss(stopping.status, stopping.gpu_hours_lost, stopping.bound)
            names = some([job.name for job in stopping.stop])
            instead[0] = f"to stop {names} would make room, {lost}: `arnold explain --stop`"
    for sentence in (*document.unchecked.values(), *instead):
        out.print(plain(sentence))
    print_head(out, instance)
    rows = []
    for job in document.running:
        hours = "?" if job.gpu_hours is None else f"{job.gpu_hours:,.1f}"
        if job.moved:
            objectives = decimal(job.before.objective), decimal(job.after.objective)
            rows.append((job.job, job.nodes, job.moved, hours, *objectives))
    headers = ["job", "nodes", "moved", "GPU-hours lost", "objective", "then"]
    frame.rows(headers, rows, title="Running jobs that move", left=[])
    table = [[move.job, move.node_rank, move.source, move.target] for move in document.moves]
    if len(table) <= SHORT + 1 or frame.shows(f"all {len(table):,} moves", table):
        frame.rows(["job", "rank", "from", "to"], table, title="Moves", left=["from", "to"])
    if document.objective is not None:
        placed = spell_names((cell.node for cell in document.placement.assignment), most=frame.longest_names)
        frame.details(f"nodes of {instance.job.name}", [placed])
    frame.end([*passed_over(instance), *document.placement.notes, *document.notes], then)
