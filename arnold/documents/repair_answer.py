"""The answer of ``arnold repair``, as JSON and as text; the next repair reads it as a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from arnold.console.output import GOOD, Console, plain
from arnold.documents.answer_frame import Frame, proof_clause
from arnold.documents.place_answer import CellAnswer, PlacedCell, PlacementAnswer, placed_cells
from ground.quantities import decimal, plural
from ground.records import Count, JsonRecord, NotNegative, record_of
from scheduler.job import Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import TOLERANCE, Spread, trivial_bound
from scheduler.outcome import Instance
from scheduler.placement.types import Prefer
from scheduler.witnesses import NOT_TO_BE_CHECKED
from scheduler.work_clock import End
from topology.node_names import spell_names
from topology.summary import ClusterSummary, summarise_cluster

if TYPE_CHECKING:
    from scheduler.repair import Repair


class PlacementWorth(JsonRecord):
    """What a placement is worth."""

    spread: Spread
    """Spread at the level that counts."""
    objective: float
    """Eq. 2 plus soft constraints."""


class MovedCell(CellAnswer, JsonRecord):
    """One cell that changes its node."""

    source: str
    target: str
    dp: Count
    pp: Count
    part: Count
    node_rank: Count


class RepairDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """A placement after a repair."""

    stopped_at: End | None
    """Seconds of the time limit that ended the search, or `interrupted`; null = it ended by itself."""
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
    proved_to: str | None
    """How much of what is asked is proved, in the same sense: `objective`: a better objective is impossible; `all`, or
    a level's name: fewer moves, a smaller EP spread and a better placement at closer levels (down to that one) too;
    null = not even the objective."""
    unchecked: Mapping[str, str]
    level: str
    spread_by_level: Mapping[str, Mapping[Family, int]]
    used_flagged: tuple[str, ...]
    """Flagged nodes in use."""
    domains: Mapping[str, int]
    """Cells in each domain of the level that counts."""
    solve_seconds: NotNegative
    """Wall time of the repair."""
    assignment: tuple[PlacedCell, ...]
    """One row for each cell, in order of node rank."""
    notes: tuple[str, ...]
    job: JobDocument
    """The job as it was saved."""
    cluster: ClusterSummary

    @property
    def sure(self) -> tuple[str, str]:
        """How sure it is that no fewer moves, and no better objective, can be had, in words."""
        fewer = "fewer are impossible" if self.moves_proved else f"{self.fewest_moves} at least"
        better = "proved best" if self.objective_proved else f"at least {decimal(self.objective_bound)}"
        with_as_few = " with as few moves" if self.prefer == "moves" else ""
        return fewer, f"{better}{with_as_few}{proof_clause(self.proved_to)}"


def repair_document(instance: Instance, repair: Repair, *, lost: Sequence[str]) -> RepairDocument:
    """Return the document of a repair; notes of reading the cluster stand before those of the repair.

    :param instance: the cluster, and the job as it was saved.
    :param lost: names of the lost nodes.
    """
    names, before, after = instance.cluster.names, repair.before, repair.after
    # a cell on a lost node has to move; a group touches one domain at least
    unchecked = dict[str, str]()
    if repair.moves_proved and any(names[move.source] not in lost for move in repair.moves):
        unchecked["moves"] = f"fewest moves {len(repair.moves)}: {NOT_TO_BE_CHECKED}"
    if repair.bound > trivial_bound(instance.job) + TOLERANCE:
        what = "objective" if repair.objective_proved else "bound"
        unchecked["objective"] = f"{what} {decimal(repair.bound)}: {NOT_TO_BE_CHECKED}"
    return record_of(
        RepairDocument,
        repair,
        after,
        unchecked=unchecked,
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
        level=instance.level.name,
        spread_by_level=after.by_level,
        used_flagged=tuple(names[i] for i in after.flagged),
        assignment=placed_cells(instance, repair.nodes),
        notes=(*instance.notes, *repair.notes),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


def print_repair(out: Console, document: RepairDocument, *, then: str) -> None:
    """Print what a repair moves, and how sure it is that less would not do; ``then`` is the command to go on with."""
    fewer, better = document.sure
    lost, moved = plural(len(document.lost), "node"), plural(len(document.moves), "cell")
    verdict = f"{document.job.name}: {lost} lost, {moved} moved ({fewer})"
    frame = Frame(out, verdict, GOOD, timing=f"{document.solve_seconds:.2f} s")
    out.print(
        f"objective {decimal(document.before.objective)} -> {decimal(document.objective)} ({better}), "
        f"DP spread {document.before.spread.dp} -> {document.spread.dp}, "
        f"PP spread {document.before.spread.pp} -> {document.spread.pp}"
    )
    for sentence in document.unchecked.values():
        out.print(plain(sentence))
    rows = [(move.node_rank, move.dp, move.pp, move.source, move.target) for move in document.moves]
    frame.rows(("rank", "row (dp)", "stage (pp)", "from", "to"), rows, title="Moves", left=["from", "to"])
    used = document.used_flagged
    flagged = [f"flagged nodes in use: {len(used):,} ({spell_names(used, most=frame.longest_names)})"] if used else []
    frame.end([*flagged, *document.notes], then)
