"""The answer of ``arnold place``, as JSON and as text; ``arnold repair`` reads it.

What answers say of a placement and of its cells is told once, in :class:`PlacementAnswer` and :class:`CellAnswer`; each
document declares those of their fields that it has, in the order of its JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from arnold.console.output import BAD, Console, print_rows
from arnold.documents.answer_frame import COLOURS, LONGEST, Frame, passed_over, print_head
from ground.quantities import decimal, plural, several
from ground.records import Count, JsonRecord, NotNegative, Share, record_of
from scheduler.job import Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.job_on_cluster import going_away
from scheduler.objective import Spread, objective_of
from scheduler.outcome import CloserSpread, ExpertSpread, Instance, Outcome, RefusedPlacement, TypeOption
from scheduler.placement.admission import typed
from scheduler.placement.types import ParetoPoint, PriceOption, Status
from scheduler.rails import RailUse, rail_use
from scheduler.unchecked import unchecked_claims
from scheduler.witnesses import NOT_TO_BE_CHECKED
from scheduler.work_clock import End
from topology.cluster import IntArray, count_nodes
from topology.flags import FAULTY, NodeFlag, in_words
from topology.node_names import spell_names
from topology.summary import ClusterSummary, summarise_cluster

BAR = 10  # Characters of the bar of a domain of which all is taken


class PlacementAnswer:
    """What answers say of a placement.  What belongs to it is null, or empty, when there is none."""

    __slots__ = ()

    status: Status
    """optimal: no placement is better in what decides, the predicted step time where slow nodes have a price, else the
    objective; feasible: valid, with a gap; infeasible; timeout: out of time with nothing valid; gave-up: a
    heuristic found nothing and proved nothing."""
    proved_to: str | None
    """How much of what is asked is proved: `objective`: no placement is better in what decides, and nothing more; a
    level's name: besides, of placements as good none has a smaller EP spread, or less of alpha * dp + beta * pp at
    closer levels, down to that one; `all`: down to the closest; null = not even the objective.  What comes after the
    objective is proved of placements on the chosen types of GPU with no node slower than was admitted."""
    unchecked: Mapping[str, str]
    """What is proved and no certificate shows -> a sentence: `objective`: what decides; `ep`: the EP spread; `moves`:
    what has to move; else a closer level.  The rest of what is proved `arnold verify` recounts."""
    stopped_at: End | None
    """Seconds of the time limit that stopped the algorithm, or by the clock what came after its proof; or
    `interrupted`: Ctrl-C or SIGTERM did; null = it ended by itself, or proved its answer."""
    algorithm: str
    """Name of the algorithm."""
    reason: str | None
    """Why there is no placement."""
    spread: Spread | None
    """Spread at the level that counts."""
    objective: float | None
    """alpha * spread.dp + beta * spread.pp, plus the soft constraints of the job and the levels that it weighs."""
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
    """Wall time of the algorithm alone."""
    pareto: tuple[ParetoPoint, ...]
    """The trade between DP and PP spread, as far as known."""
    spread_by_level: Mapping[str, Mapping[Family, int]]
    """Largest spread of a group, for every level and family."""
    prices: tuple[PriceOption, ...]
    """How slow nodes were weighed."""
    types: tuple[TypeOption, ...]
    """What each type of GPU that the job may be on would give; empty where nothing says the types of nodes."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""


class CellAnswer:
    """What answers say of a node-sized cell of a job."""

    __slots__ = ()

    node: str
    """Name of the node."""
    source: str
    """Node that it leaves."""
    target: str
    """Node that it goes to."""
    dp: Count
    """Row of the grid: which PP group; where a TP group takes several nodes, as many rows of the grid count as one."""
    pp: Count
    """Column of the grid: which stage, and so which DP group."""
    part: Count
    """Which of the nodes of its TP group; 0 where a node has room for TP groups."""
    node_rank: Count
    """Rank of its node among the job's nodes; in the default order (pp * rows + dp) * nodes of a TP group + part.  It
    stays when the cell moves."""


class PlacedCell(CellAnswer, JsonRecord):
    """Where one node-sized cell of the job goes."""

    node: str
    dp: Count
    pp: Count
    part: Count
    node_rank: Count


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


class PlaceDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """A placement, or why there is none.  What belongs to a placement is null, or empty, when there is none."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    proved_to: str | None
    unchecked: Mapping[str, str]
    stopped_at: End | None
    algorithm: str
    reason: str | None
    would_fit_if_empty: bool | None
    """Whether the job would fit if no GPU of the cluster were in use; null = not asked, or not settled in time."""
    spread: Spread | None
    objective: float | None
    ep: ExpertSpread | None
    """Spread of the expert groups at the level that counts: of placements with equal objectives that with the smallest
    is better; null = no expert group takes several nodes."""
    closer: Mapping[str, CloserSpread]
    """Level -> spread there, for levels closer than the one that counts, from the broadest: of placements still equal
    the one with the least alpha * dp + beta * pp at the first is better, then at the next.  Levels that the
    objective weighs are left out."""
    rails: RailUse | None
    """Which groups talk on one rail, a network card of every node: that depends on the order of the parallelism, not on
    the nodes; null = of some node nothing says how many cards it has, or nodes differ."""
    bound: float | None
    gap: Share | None
    step_time: float | None
    step_time_bound: float | None
    alpha: Share
    beta: Share
    level: str
    solve_seconds: NotNegative
    run_seconds: float | None
    """Wall time of the whole run, with what comes after the proof: closer levels, corners of the trade, seating on
    nodes; null = the job was not placed alone."""
    pareto: tuple[ParetoPoint, ...]
    spread_by_level: Mapping[str, Mapping[Family, int]]
    avoided: tuple[str, ...]
    """Flagged nodes that were otherwise usable and were left out."""
    used_flagged: tuple[str, ...]
    """Flagged nodes in use."""
    flags: tuple[NodeFlag, ...]
    """Why: what is held against the nodes of both lists, by node."""
    domains: Mapping[str, int]
    """Cells in each domain of the level that counts; domains without cells are left out."""
    prices: tuple[PriceOption, ...]
    types: tuple[TypeOption, ...]
    assignment: tuple[PlacedCell, ...]
    """One row for each cell, in order of node rank."""
    notes: tuple[str, ...]
    job: JobDocument
    cluster: ClusterSummary


def place_document(instance: Instance, outcome: Outcome, *, would_fit_if_empty: bool | None = None) -> PlaceDocument:
    """Return the document of an outcome; notes of reading the instance stand before those of the algorithm.

    :raises RefusedPlacement: the evaluator refused what the algorithm proposed.
    """
    if outcome.status == "refused":
        raise RefusedPlacement(outcome)
    cluster, job, proposal, worth = instance.cluster, instance.job, outcome.proposal, outcome.evaluation
    used = tuple(cluster.names[i] for i in worth.flagged) if worth else ()
    avoided = {flag.node for flag in instance.flags} - {*used}
    leaving = () if proposal.nodes is None else going_away(cluster, proposal.nodes.ravel().tolist())
    return record_of(
        PlaceDocument,
        outcome,
        proposal,
        job,
        unchecked=unchecked_claims(instance, outcome),
        reason=outcome.reason or None,
        would_fit_if_empty=would_fit_if_empty,
        level=instance.level.name,
        rails=rail_use(cluster, instance.settled(outcome).job, proposal.nodes),
        pareto=proposal.corners if worth else (),
        spread_by_level=worth.by_level if worth else {},
        avoided=tuple(sorted(avoided, key=cluster.index_of.__getitem__)) if worth else (),
        used_flagged=used,
        flags=instance.flags,
        domains=worth.domains if worth else {},
        assignment=placed_cells(instance, proposal.nodes),
        notes=(*instance.notes, *outcome.notes, *leaving),
        job=job_document(instance),
        cluster=summarise_cluster(cluster, instance.source),
    )


def slow_nodes(document: PlaceDocument) -> list[str]:
    """Return how many slow nodes the placement leaves out, and how many it has, with the option for the contrary."""
    lines = []
    for names, words, otherwise in (
        (document.avoided, "left out", "--avoid ignore takes them"),
        (document.used_flagged, "in use", "--avoid strict leaves them out"),
    ):
        slowdowns = [flag.slowdown for flag in document.flags if flag.node in {*names} and flag.slowdown < FAULTY]
        if slowdowns:
            slowest = f"up to {decimal(max(slowdowns))} times slower"
            lines.append(f"{plural(len(slowdowns), 'slow node')} {words}, {slowest} ({otherwise})")
    return lines


def print_placement(out: Console, instance: Instance, outcome: Outcome, document: PlaceDocument, *, then: str) -> None:
    """Print what `arnold place` says of a job; ``then`` is the command to go on with."""
    whole = "" if document.run_seconds is None else f"; {document.run_seconds:.2f} s in all"
    timing = f"{outcome.algorithm}, {document.solve_seconds:.2f} s{whole}"
    frame = Frame(out, outcome.verdict, COLOURS.get(outcome.status, BAD), timing=timing)
    if "objective" in document.unchecked:
        out.print(document.unchecked["objective"])

    def sure(claim: str, *, proved: bool) -> str:
        """Return how sure it is that what decides between equal objectives is the least of its kind."""
        if not proved:
            return "not proved to be the least"
        how = NOT_TO_BE_CHECKED if claim in document.unchecked else "proved"
        return f"the least with this objective, {how}"

    if document.ep is not None:
        out.print(f"{document.level}: EP spread {document.ep.spread}, {sure('ep', proved=document.ep.proved)}")
    for level, spread in document.closer.items():
        out.print(f"{level}: DP spread {spread.dp}, PP spread {spread.pp}, {sure(level, proved=spread.proved)}")
    print_head(out, instance)
    types = [option for option in document.types if len(document.types) > 1]
    assumed = [f"on one of {len(types)} choices of GPU, {option.sentence}" for option in types if option.chosen]
    if outcome.proposal.nodes is not None and outcome.evaluation is not None:
        _print_domains(frame, instance, outcome, outcome.proposal.nodes)
        if frame.shows("the trade", outcome.proposal.corners):
            print_pareto(out, instance, outcome)
        frame.levels(document.spread_by_level)
        flagged = [
            f"{len(names)} {words}: {spell_names(names)}"
            for words, names in (("left out", document.avoided), ("in use", document.used_flagged))
            if names
        ]
        frame.details("rails", [*document.rails.sentences] if document.rails is not None else [])
        frame.details("flagged nodes", [*flagged, *flag_sentences(document.flags)])
        assumed += slow_nodes(document)
    elif document.would_fit_if_empty is not None:
        kept_out = instance.cluster.kept_out
        but = f", without the {plural(len(kept_out), 'node')} that it is kept out of" if kept_out else ""
        fits = "would fit if" if document.would_fit_if_empty else "would not fit even if"
        out.print(f"It {fits} the cluster were empty{but}.")
    frame.details("what slow nodes cost", [price.sentence for price in document.prices])
    frame.details("types of GPU", [option.sentence for option in types])
    frame.end([*passed_over(instance), *assumed, *document.notes], then)


def _print_domains(frame: Frame, instance: Instance, outcome: Outcome, nodes: IntArray) -> None:
    """Print the domains of the level that counts with the cells in each, the fullest first; the others in one row."""
    cluster, level = instance.cluster, instance.level
    domain = level.domain_of[nodes]
    cells = np.bincount(domain.ravel(), minlength=len(level))
    of_types = instance.usable
    for option in outcome.types:
        if option.chosen:
            of_types = of_types & typed(cluster, option.gpu_types)
    usable = count_nodes(level, of_types)
    used = sorted(np.flatnonzero(cells), key=lambda k: (-cells[k], level.domains[k]))
    most = frame.shown(len(used), several(level.name))
    shown, rest = used[:most], used[most:]

    room = frame.longest_names
    if room is not None:
        # beside the name a column of cells, one of usable nodes and the bar, with blanks between them
        longest = max(len(name) for name in (level.name, *(level.domains[k] for k in shown)))
        room = max(24, min(room, frame.out.width - longest - len("  cells  usable    ") - BAR))

    def row(name: str, domains: Sequence[np.intp], inside: Iterable[str]) -> tuple[object, ...]:
        """Return a row of some domains, with the names of what is inside."""
        has, may = cells[domains].sum(), usable[domains].sum()
        filled = round(BAR * has / may) if may else 0
        return name, has, may, "█" * filled + "░" * (BAR - filled), spell_names(inside, most=room)

    rows = [row(level.domains[k], [k], (cluster.names[i] for i in np.sort(nodes[domain == k]))) for k in shown]
    if rest:
        rows.append(row(f"{len(rest)} more", rest, [level.domains[k] for k in sorted(rest)]))
    title = f"Cells in {plural(len(used), level.name)}" if frame.whole else ""
    print_rows(
        frame.out, (level.name, "cells", "usable", "", "nodes"), rows, title=title, left=["", "nodes"], spare=[""]
    )


def print_pareto(out: Console, instance: Instance, outcome: Outcome) -> None:
    """Print the corners of the trade between the two spreads."""
    points, evaluation = outcome.proposal.corners, outcome.evaluation
    if not points or evaluation is None:
        return
    rows, bold = [], []
    for i, point in enumerate(points):
        remark = "" if point.proved else "(not proved)"
        if (point.dp, point.pp) == (evaluation.dp, evaluation.pp):
            remark = f"this one {remark}".strip()
            bold.append(i)
        rows.append((point.dp, point.pp, decimal(objective_of(instance.job, point.dp, point.pp)), remark))
    headers = ("DP spread", "PP spread", f"at alpha {decimal(instance.job.alpha)}", "")
    print_rows(out, headers, rows, title="Trade between the spreads", left=[""], bold=bold)


def flag_sentences(flags: Sequence[NodeFlag]) -> list[str]:
    """Return what is held against nodes, by which source and why; the slowest first, a few of them."""
    ordered = sorted(flags, key=lambda flag: (flag.kind == "faulty", -flag.slowdown, flag.node))
    lines = []
    for flag in ordered[:LONGEST]:
        source = f" (source: {flag.source})" if flag.source else ""
        lines.append(f"{flag.node}: {in_words(flag)}{source}" + (f": {flag.evidence}" if flag.evidence else ""))
    if len(flags) > LONGEST:
        lines.append(f"{len(flags) - LONGEST} more are in `--json`")
    return lines
