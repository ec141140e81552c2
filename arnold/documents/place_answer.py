"""Answers about placements, as JSON and as text: of ``arnold place``, ``repair``, ``explain``, ``compare``,
``defragment`` and ``demo``.

What they say of a placement and of its cells is told once, in :class:`PlacementAnswer` and :class:`CellAnswer`; each
document declares those of their fields that it has, in the order of its JSON.  ``arnold repair`` reads what ``arnold
place`` and itself print.

Texts have one frame (:class:`Frame`) of about fifteen lines: the answer and how sure it is, where it is, what was
assumed, what to do next.  ``-v`` prints what is folded and left out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np

from arnold.console.output import BAD, GOOD, SO_SO, is_verbose, plain, print_rows, print_sentences
from ground.errors import few
from ground.quantities import capitalised, decimal, plural, several
from ground.records import Count, JsonRecord, NotNegative, Share, record_of
from scheduler.explanation import (
    AvoidanceOption,
    CheaperPair,
    Misfit,
    TypeBinding,
    cheaper_pairs,
    comparison,
    left_over,
    what_binds,
    why_not,
)
from scheduler.job import FAMILIES, Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.job_on_cluster import going_away
from scheduler.objective import TOLERANCE, Spread, objective_of, trivial_bound
from scheduler.outcome import (
    CloserSpread,
    ExpertSpread,
    Instance,
    Outcome,
    RefusedPlacement,
    TurnResult,
    TypeOption,
    proof_in_words,
    status_words,
)
from scheduler.placement.admission import held_nodes, typed
from scheduler.placement.types import ALGORITHMS, ParetoPoint, Prefer, PriceOption, Status
from scheduler.rails import RailUse, rail_use
from scheduler.subproblems import in_words as types_in_words
from scheduler.unchecked import unchecked_claims
from scheduler.witnesses import NOT_TO_BE_CHECKED
from scheduler.work_clock import End
from topology.cluster import IntArray, count_nodes
from topology.flags import FAULTY, NodeFlag, in_words
from topology.node_names import spell_names
from topology.summary import ClusterSummary, summarise_cluster

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.repair import Repair
    from scheduler.several.together import JointOutcome

LONGEST, SHORT = 40, 3  # Most rows of a table, and most sentences of a list: with -v, and without
FEW = 2  # Sentences of a list that is folded: they are longer than rows
LONGEST_NAMES = 72  # Most characters of a list of nodes without -v
BAR = 10  # Characters of the bar of a domain of which all is taken
COLOURS = {"optimal": GOOD, "feasible": SO_SO}  # Of verdicts; all others are bad


class PlacementAnswer(JsonRecord):
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


class CellAnswer(JsonRecord):
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


@dataclass(frozen=True, slots=True)
class PlacedCell(CellAnswer):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceDocument(PlacementAnswer):
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
        unchecked=unchecked_claims(instance, outcome),
        reason=outcome.reason or None,
        would_fit_if_empty=would_fit_if_empty,
        alpha=job.alpha,
        beta=job.beta,
        level=instance.level.name,
        rails=rail_use(cluster, instance.settled(outcome).job, proposal.nodes),
        solve_seconds=proposal.solve_seconds,
        pareto=proposal.corners if worth else (),
        spread_by_level=worth.by_level if worth else {},
        avoided=tuple(sorted(avoided, key=cluster.index_of.__getitem__)) if worth else (),
        used_flagged=used,
        flags=instance.flags,
        domains=worth.domains if worth else {},
        prices=proposal.prices,
        assignment=placed_cells(instance, proposal.nodes),
        notes=(*instance.notes, *outcome.notes, *leaving),
        job=job_document(instance),
        cluster=summarise_cluster(cluster, instance.source),
    )


class Frame:
    """The text of an answer, short, or with ``-v`` whole: what is folded or left out is named in its last line."""

    def __init__(self, out: Console, verdict: str, style: str, *, timing: str = "") -> None:
        """Print the verdict.

        :param timing: by what it was found, and in how many seconds.
        """
        from rich.text import Text

        from arnold.console.fitted_table import AnswerPage

        self.out, self.whole = out, is_verbose() or isinstance(out, AnswerPage)
        self.most = LONGEST if self.whole else SHORT
        self.longest_names = None if self.whole else LONGEST_NAMES
        self._under_v: list[str] = []
        out.print(Text(verdict, style) + Text(f"  ({timing})" if timing else "", "dim"))

    def folds(self, rows: int, what: str) -> bool:
        """Return whether so many rows or sentences are more than are shown; then ``-v`` has all."""
        if rows > self.most and not self.whole:
            self._under_v.append(f"all {rows:,} {what}")
        return rows > self.most

    def rows(
        self, headers: Sequence[str], rows: Sequence[Sequence[object]], *, title: str, left: Sequence[str]
    ) -> None:
        """Print a table, folded."""
        # a fold of one row takes the line of the row
        most = None if len(rows) == self.most + 1 or not self.folds(len(rows), title.lower()) else self.most
        print_rows(self.out, headers, rows, title=title, left=left, most=most)

    def sentences(self, title: str, sentences: Sequence[str]) -> None:
        """Print a list, folded."""
        shown, most = [*sentences], self.most if self.whole else FEW
        if len(shown) > self.most and self.folds(len(shown), "reasons"):
            shown[most:] = [f"{len(shown) - most:,} more"]
        print_sentences(self.out, title, shown)

    def details(self, title: str, sentences: Sequence[str]) -> None:
        """Print a list with ``-v`` alone."""
        if self.shows(title, sentences):
            print_sentences(self.out, capitalised(title), sentences)

    def shows(self, title: str, details: Sequence[object]) -> bool:
        """Return whether details are shown; else they are named as left out, where there are any."""
        if details and not self.whole:
            self._under_v.append(title)
        return bool(details) and self.whole

    def end(self, assumed: Sequence[str], then: str) -> None:
        """Print what was assumed, a line each kind, and the command to go on with; then what ``-v`` has more."""
        from rich.text import Text

        from arnold.console.fitted_table import Wrapped

        print_sentences(self.out, "Assumed", [*dict.fromkeys(assumed)])
        if then:
            self.out.print(Wrapped(plain(f"Next: {then}")))
        if self._under_v:
            self.out.print(Text(f"-v shows {', '.join(self._under_v)}", "dim"))


def passed_over(instance: Instance) -> list[str]:
    """Return how many nodes the job may not have, by what holds them, the commonest first; and the slow ones.

    Notes of the cluster's readers name the options that would admit them.
    """
    held = Counter(held_nodes(instance.cluster, instance.job))
    if not held:
        return []
    kinds = ", ".join(f"{nodes:,} {why}" for why, nodes in held.most_common())
    return [f"{held.total():,} of {len(instance.cluster):,} nodes passed over: {kinds}"]


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
    """Print what `arnold place` says of a job.

    :param then: the command to go on with.
    """
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
        levels = [(level, *(of[family] for family in FAMILIES)) for level, of in document.spread_by_level.items()]
        if frame.shows("every level", levels):
            print_rows(out, ("largest spread at", *FAMILIES), levels, title="Every level and family")
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


def print_head(out: Console, instance: Instance) -> None:
    """Print one line about the job, one about the cluster."""
    from rich.text import Text

    job, cluster, level = instance.job, instance.cluster, instance.level
    grid = job.grid
    size = f": {grid.rows} x {grid.columns} cells, {grid.cells:,} nodes of {job.gpus_per_node} GPUs; "
    out.print(Text(job.name, "bold") + Text(size + f"alpha {decimal(job.alpha)}, beta {decimal(job.beta)}"))
    out.print(
        f"{instance.source}: {len(cluster):,} nodes, {int(instance.usable.sum()):,} usable; "
        f"spread counts {plural(len(level), level.name)}"
    )


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
    shown, rest = used, list[np.intp]()
    if len(used) > frame.most + 1 and frame.folds(len(used), several(level.name)):
        shown, rest = used[: frame.most], used[frame.most :]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JointDocument(PlacementAnswer):
    """Where several jobs go, no two on one node; or which of them do not fit."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """Status of all jobs together. optimal: no placement of all has a smaller sum, where slow nodes have a price on
    nodes that are no slower than each job takes alone; infeasible: they do not all fit."""
    proved_to: str | None
    """How much of what is asked is proved: `objective`: the sum; `all`: besides, no job could have a smaller EP spread,
    or lie better at a closer level, on the whole cluster; null = not even the sum."""
    unchecked: Mapping[str, str]
    stopped_at: End | None
    """Seconds of the time limit that ended the search, or `interrupted`; null = it ended by itself, or proved its
    answer."""
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
    one_after_the_other: tuple[TurnResult, ...]
    """What the jobs would get one after the other: in the order given, and in reverse."""
    solve_seconds: NotNegative
    """Wall time of the whole search."""
    notes: tuple[str, ...]


def joint_document(instances: Sequence[Instance], weights: Sequence[float], outcome: JointOutcome) -> JointDocument:
    """Return the document of a joint placement; notes of reading a job stand in the document of that job."""
    names = [instance.job.name for instance in instances]
    placed = zip(names, instances, outcome.outcomes, strict=False)
    jobs = {name: place_document(instance, alone) for name, instance, alone in placed}
    unchecked = dict[str, str]()
    if outcome.status == "infeasible":
        counted = sum(instance.job.grid.cells for instance in instances) > int(instances[0].cluster.idle.sum())
        unchecked = {} if counted else {"objective": f"not all jobs fit: {NOT_TO_BE_CHECKED}"}
    elif outcome.bound is not None and any(job.gap or "objective" in job.unchecked for job in jobs.values()):
        # where each job has what the certificate of it alone says that it costs at least, that is the least sum
        what = "sum" if outcome.status == "optimal" else "bound"
        unchecked = {"objective": f"{what} {decimal(outcome.bound)}: {NOT_TO_BE_CHECKED}"}
    return record_of(
        JointDocument,
        outcome,
        unchecked=unchecked,
        status=outcome.status if outcome.status != "refused" else "gave-up",
        jobs=jobs,
        weights=dict(zip(names, weights, strict=True)),
        left_out=tuple(names[j] for j in outcome.left_out),
        reason=outcome.reason or None,
        one_after_the_other=outcome.turns,
    )


def print_joint_placement(out: Console, instances: Sequence[Instance], document: JointDocument, *, then: str) -> None:
    """Print where several jobs go, or which of them to leave out.

    :param then: the command to go on with.
    """
    verdict = status_words(document.status, document.stopped_at)
    if document.gap:
        verdict += f", gap {document.gap:.1%}"
    worth = (
        f"sum {decimal(document.objective)}, "
        f"proved bound {decimal(document.bound or 0.0)}{proved_words(document.proved_to)}"
        if document.objective is not None
        else document.reason
    )
    frame = Frame(
        out, f"{verdict}: {worth}", COLOURS.get(document.status, BAD), timing=f"{document.solve_seconds:.2f} s"
    )
    for sentence in document.unchecked.values():
        out.print(plain(sentence))
    if document.left_out:
        out.print(f"Fewest jobs to leave out: {', '.join(document.left_out)}")
    cluster = instances[0].cluster
    idle = int(cluster.idle.sum())
    out.print(
        f"{plural(len(instances), 'job')} at once on {instances[0].source}: {len(cluster):,} nodes, {idle:,} idle"
    )
    rows = list[tuple[object, ...]]()
    for name, placed in document.jobs.items():
        if placed.spread is not None and placed.objective is not None:
            numbers = placed.spread.dp, placed.spread.pp, decimal(placed.objective), decimal(placed.bound or 0.0)
            where = spell_names(placed.domains, most=frame.longest_names)
            rows.append((name, decimal(document.weights[name]), len(placed.assignment), *numbers, where))
    headers = ("job", "weight", "nodes", "DP spread", "PP spread", "objective", "alone", "where")
    frame.rows(headers, rows, title="Jobs", left=["where"])
    if document.objective is not None:
        objective = document.objective
        proofs = [f"{name}: {why}" for name, job in document.jobs.items() for why in job.unchecked.values()]
        frame.details("what of each job is not to be checked", proofs)
        frame.details(
            "one job after the other", [_turn_in_words(turn, objective) for turn in document.one_after_the_other]
        )
    # what is assumed of a job once, with the names of its jobs unless it is of all
    jobs_of = dict[str, list[str]]()
    for instance in instances:
        own = passed_over(instance)
        if (answer := document.jobs.get(instance.job.name)) is not None:
            own += [*slow_nodes(answer), *answer.notes]
        for line in own:
            jobs_of.setdefault(line, []).append(instance.job.name)
    lines = [line if len(names) == len(instances) else f"{', '.join(names)}: {line}" for line, names in jobs_of.items()]
    frame.end([*lines, *document.notes], then)


def joint_cards(document: JointDocument) -> list[tuple[str, list[str]]]:
    """Return a card of the pages: the sum and how sure it is, each job, and what one after the other would give."""
    if document.objective is None:
        return []
    bound = f"proved bound {decimal(document.bound or 0.0)}{proved_words(document.proved_to)}"
    jobs = [
        f"{name}: {plural(len(placed.assignment), 'node')}, objective {decimal(placed.objective or 0.0)}, alone "
        f"{decimal(placed.bound or 0.0)}, weight {decimal(document.weights[name])}."
        for name, placed in document.jobs.items()
    ]
    turns = [
        f"One after the other, {_turn_in_words(turn, document.objective)}." for turn in document.one_after_the_other
    ]
    return [("Placed at once", [f"Weighted sum of objectives {decimal(document.objective)}, {bound}.", *jobs, *turns])]


def proved_words(proved_to: str | None) -> str:
    """Return what is proved, to end a sentence with; empty = not even the objective."""
    return "" if proved_to is None else f"; {proof_in_words(proved_to)}"


def _turn_in_words(turn: TurnResult, objective: float) -> str:
    order = ", ".join(turn.order)
    if turn.objective is None:
        return f"{order}: {turn.stuck} finds no place any more"
    more = turn.objective / objective - 1.0
    return f"{order}: sum {decimal(turn.objective)}, {f'{more:.1%} more' if more > 1e-9 else 'as good'}"


@dataclass(frozen=True, slots=True)
class PlacementWorth(JsonRecord):
    """What a placement is worth."""

    spread: Spread
    """Spread at the level that counts."""
    objective: float
    """Eq. 2 plus soft constraints."""


@dataclass(frozen=True, slots=True)
class MovedCell(CellAnswer):
    """One cell that changes its node."""

    source: str
    target: str
    dp: Count
    pp: Count
    part: Count
    node_rank: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDocument(PlacementAnswer):
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
        return fewer, f"{better}{with_as_few}{proved_words(self.proved_to)}"


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


def print_repair(out: Console, document: RepairDocument, *, then: str) -> None:
    """Print what a repair moves, and how sure it is that less would not do.

    :param then: the command to go on with.
    """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainDocument(PlacementAnswer):
    """Why a placement cannot be better, or why there is none."""

    status: Status
    """Status of the exact solver: optimal, feasible, infeasible or timeout."""
    proved_to: str | None
    unchecked: Mapping[str, str]
    stopped_at: End | None
    verdict: str
    """The answer in one sentence."""
    alpha: float
    beta: float
    level: str
    spread: Spread | None
    objective: float | None
    bound: float | None
    gap: float | None
    step_time: float | None
    step_time_bound: float | None
    cheaper: tuple[CheaperPair, ...]
    """Every pair that would cost less, dearest first, with what rules it out."""
    pareto: tuple[ParetoPoint, ...]
    prices: tuple[PriceOption, ...]
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
    job: JobDocument
    cluster: ClusterSummary


def explain_document(
    instance: Instance, outcome: Outcome, *, options: Sequence[AvoidanceOption], diagnosis: Misfit | None
) -> ExplainDocument:
    """Return the document of an explanation."""
    return record_of(
        ExplainDocument,
        outcome,
        unchecked=unchecked_claims(instance, outcome),
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
        notes=(
            *instance.notes,
            *outcome.notes,
            *(f"{sentence}." for sentence in left_over(instance.cluster, instance.job)),
        ),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


BINDS = {
    "nodes": "There are too few nodes, whatever the shape of the job.",
    "hold": "There are enough nodes; a hard constraint of the job binds.",
    "unknown": "There are enough nodes.",
}
EMPTY = {
    True: "If the cluster were empty, the job would fit.",
    False: "Even if the cluster were empty, the job would not fit.",
    None: "Whether it would fit on the empty cluster was not settled in time.",
}


def print_explanation(
    out: Console, instance: Instance, outcome: Outcome, document: ExplainDocument, *, then: str
) -> None:
    """Print why a placement cannot be better, or why there is none.

    :param then: the command to go on with.
    """
    frame = Frame(out, document.verdict, COLOURS.get(outcome.status, BAD), timing=f"{document.solve_seconds:.2f} s")
    for sentence in document.unchecked.values():
        out.print(plain(sentence))
    print_head(out, instance)
    if outcome.evaluation is not None:
        title = "Nothing can be cheaper"
        if document.cheaper:
            avoided = any(option.chosen and option.way == "avoid" for option in document.options)
            where = " without slow nodes" if avoided else ""
            if len(document.types) > 1:
                where += "".join(f" on {types_in_words(kind.gpu_types)}" for kind in document.types if kind.chosen)
            why = "why it cannot be" if document.status == "optimal" else "what is known of it"
            pairs = "1 pair" if len(document.cheaper) == 1 else f"{len(document.cheaper):,} pairs"
            title = f"What would be cheaper, and {why}{where}: {pairs} of (DP spread, PP spread)"
        # a line for each pair that no other exceeds, with -v followed by the smaller ones that go with it
        reasons = []
        for reason in why_not(document.cheaper):
            reasons.append(reason.line)
            if reason.with_it and frame.whole:
                names = [f"({pair.dp}, {pair.pp})" for pair in reason.with_it]
                reasons.append(f"{few(names, most=LONGEST)}: {reason.rest}")
        frame.sentences(title, reasons or ["every group touches one domain"])
        if frame.shows("the trade", outcome.proposal.corners):
            print_pareto(out, instance, outcome)
    for card, sentences in explanation_cards(document, names=frame.whole):
        if card == FLAGGED:
            frame.details("why nodes are flagged", sentences)
        else:
            frame.sentences(card, sentences)
    frame.details("types of GPU", [option.sentence for option in document.types if len(document.types) > 1])
    frame.end([*passed_over(instance), *document.notes], then)


FLAGGED = "Why they are flagged"


def explanation_cards(document: ExplainDocument, *, names: bool = True) -> list[tuple[str, Sequence[str]]]:
    """Return title and sentences of what is said besides the cheaper pairs; some have no sentence.

    :param names: whether nodes are named that are slow.
    """
    cards: list[tuple[str, Sequence[str]]] = []
    if document.diagnosis is not None:
        changes = [change.sentence for change in document.diagnosis.changes]
        none = "No single change that was tried: a smaller dp, fewer constraints, nodes freed, slow nodes, taints."
        cards = [
            ("Why", [BINDS[document.diagnosis.constraint], EMPTY[document.diagnosis.would_fit_if_empty]]),
            ("Any one of these would help", changes) if changes else ("What would help", [none]),
        ]
    # what avoiding slow nodes costs against using them, and which they are
    ways = []
    for option in document.options:
        named = {"in use": option.used, "left out" if option.way == "avoid" else "not needed": option.left_out}
        parts = (f"{words} {spell_names(slow)}" for words, slow in named.items() if names and slow)
        ways.append("; ".join([capitalised(option.sentence), *parts]))
    if compared := comparison(document.options):
        ways.append(compared)
    prices = document.prices if len(document.prices) > len(document.options) else ()
    binding = [f"{types_in_words(option.gpu_types)}: {option.sentence}" for option in document.binding]
    return [
        *cards,
        ("Slow nodes: avoid them or use them", ways),
        (FLAGGED, flag_sentences(document.flags)),
        ("Slow nodes, by how slow", [price.sentence for price in prices]),
        ("What binds on each type", binding),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAlgorithm(PlacementAnswer):
    """What one algorithm made of the instance.  Numbers of a placement are null when there is none."""

    algorithm: str
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up (found, proved nothing), refused (its placement is invalid)."""
    proved_to: str | None
    stopped_at: End | None
    reason: str | None
    spread: Spread | None
    objective: float | None
    bound: float | None
    """What this algorithm proved: no placement has a smaller objective."""
    gap: float | None
    ratio: float | None
    """Objective over the best objective of all algorithms here; 1 = the best."""
    domains: int | None
    """Number of domains in use."""
    used_flagged: int | None
    """Number of flagged nodes in use."""
    gpu_types: tuple[str, ...]
    """Types of GPU of its nodes; empty where nothing says the types, or there is no placement."""
    solve_seconds: NotNegative
    notes: tuple[str, ...]
    """What the algorithm has to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareDocument(PlacementAnswer):
    """Every algorithm on one instance, best objective first."""

    job: JobDocument
    cluster: ClusterSummary
    level: str
    best: float | None
    """Smallest objective found; null = no algorithm found a placement."""
    bound: float | None
    """Best bound that any of the algorithms proved."""
    results: tuple[ComparedAlgorithm, ...]
    """One for each algorithm."""
    notes: tuple[str, ...]
    """What is worth knowing about how the input was read."""


def compare_document(instance: Instance, outcomes: Sequence[Outcome]) -> CompareDocument:
    """Return the document of several outcomes on one instance."""
    best = min((outcome.objective for outcome in outcomes if outcome.objective is not None), default=None)
    results = []
    for outcome in sorted(outcomes, key=lambda outcome: inf if outcome.objective is None else outcome.objective):
        worth, objective = outcome.evaluation, outcome.objective
        result = record_of(
            ComparedAlgorithm,
            outcome,
            reason=outcome.reason or None,
            objective=objective,
            ratio=None if objective is None or best is None else objective / best,
            domains=len(worth.domains) if worth else None,
            used_flagged=len(worth.flagged) if worth else None,
            gpu_types=next((option.gpu_types for option in outcome.types if option.chosen), ()),
            solve_seconds=outcome.proposal.solve_seconds,
        )
        results.append(result)
    return CompareDocument(
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
        level=instance.level.name,
        best=best,
        bound=max((outcome.bound for outcome in outcomes if outcome.bound is not None), default=None),
        results=tuple(results),
        notes=instance.notes,
    )


def print_results(out: Console, document: CompareDocument) -> None:
    """Print the table, best objective first; below it those that found no placement, with the reason."""
    gpus = ("GPUs",) if len(document.cluster.gpu_types) > 1 else ()
    worth_of = ("objective", "x best", "DP spread", "PP spread", "domains", "flagged", "seconds")
    spare = ("domains", "flagged", "seconds", "x best")
    rows, bold, without = list[tuple[str, ...]](), list[int](), list[str]()
    for result in document.results:
        status = status_words(result.status, result.stopped_at)
        if result.spread is None or result.objective is None or result.ratio is None:
            without.append(f"{result.algorithm}: {status}: {result.reason}")
            continue
        worth = decimal(result.objective), f"{result.ratio:.2f}", str(result.spread.dp), str(result.spread.pp)
        counts = str(result.domains), str(result.used_flagged), f"{result.solve_seconds:.3f}"
        types = [" + ".join(result.gpu_types)] if gpus else []
        bold += [len(rows)] if result.ratio == 1.0 else []
        rows.append((result.algorithm, *worth, *counts, *types, status))
    headers = ("algorithm", *worth_of, *gpus, "status")
    print_rows(out, headers, rows, title="Algorithms, best first", left=["status"], spare=spare, bold=bold)
    print_sentences(out, "Without a placement", without)


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


def algorithms_document() -> AlgorithmsDocument:
    """Return all installed algorithms."""
    names = ALGORITHMS.names()
    return AlgorithmsDocument(tuple(InstalledAlgorithm(name, ALGORITHMS.load(name).summary) for name in names))


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
