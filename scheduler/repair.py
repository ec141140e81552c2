"""Repair: replace lost nodes of a placed job, moving as little as possible.

A job that runs on thousands of nodes loses some of them; the others hold its state.  Two orders, the user's choice:

- ``moves``: the fewest moved cells first, then the best objective among those.
- ``objective``: the best objective that any placement reaches first, then the fewest moved cells for it.

In both, healthy spares go first: a slow node is newly taken only where the job does not fit without (unless it says
``avoid: ignore``).  Cells that do not move keep their node, and every cell keeps its rank.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ground.errors import Infeasible, InvalidPlacement, SolverTimeout
from ground.quantities import plural
from scheduler.algorithm_run import run
from scheduler.grid import joined
from scheduler.job import Job
from scheduler.job_on_cluster import closest_named, within_the_tree
from scheduler.objective import TOLERANCE, Evaluation, evaluate, trivial_bound
from scheduler.outcome import late_note, proved_down_to
from scheduler.placement.admission import admissible, blocks_at, capacity_by_level, room_beside, typed
from scheduler.placement.cpsat import load_solver
from scheduler.placement.moves import (
    Goal,
    GoalValue,
    MoveChoices,
    MoveModel,
    bands_of,
    free_blocks,
    greedy_targets,
    move_segments,
    relabel,
    trimmed,
)
from scheduler.placement.node_classes import NodeKinds
from scheduler.placement.node_order import natural
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm, Prefer
from scheduler.work_clock import LEAST_SECONDS, End, clock, ended_at, on_clock, stopwatch
from topology.cluster import BoolArray, Cluster, FloatArray, IntArray, Level
from topology.flags import FAULTY, HEALTHY


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """A repaired placement with what is certified about it."""

    nodes: IntArray  # shape [rows, columns], index of the node of each cell
    after: Evaluation  # worth of the placement now
    # certified: no valid placement moves fewer cells than this (with the best objective known, when the objective comes
    # first)
    fewest_moves: int
    # certified: no valid placement has a smaller objective (of those with as few moves, when moves come first)
    objective_bound: float
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each


@dataclass(frozen=True, slots=True)
class Move:
    """A cell that goes from one node to another, both by index; row = PP group, column = stage; its rank stays."""

    row: int
    column: int
    node_rank: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(RepairPlan):
    """A placement after a repair, beside the one before."""

    moves: tuple[Move, ...]  # the cells that change their node, by rank
    before: Evaluation  # worth of the placement before nodes were lost
    prefer: Prefer  # the order that was asked for
    solve_seconds: float  # wall time
    stopped_at: End | None  # what ended the search; None = it ended by itself

    @property
    def moves_proved(self) -> bool:
        """Whether fewer moved cells are impossible."""
        return self.fewest_moves >= len(self.moves)

    @property
    def bound(self) -> float:
        """The objective bound, or the objective now where rounding made that the smaller."""
        return min(self.objective_bound, self.after.objective)

    @property
    def gap(self) -> float:
        """(objective - bound) / objective of the placement now; 0 when proved."""
        return (self.after.objective - self.bound) / self.after.objective

    @property
    def objective_proved(self) -> bool:
        """Whether a better objective is impossible."""
        return self.objective_bound >= self.after.objective - TOLERANCE

    @property
    def proved_to(self) -> str | None:
        """How much of what the job asks is proved in the same sense; ``None`` = not even the objective."""
        if not self.objective_proved:
            return None
        return proved_down_to(self.after) if self.moves_proved else "objective"


_DEFAULT_LIMITS = Limits()


def repair(
    cluster: Cluster,
    job: Job,
    nodes: IntArray,
    lost: Sequence[str],
    *,
    prefer: Prefer = "moves",
    limits: Limits = _DEFAULT_LIMITS,
    algorithm: PlacementAlgorithm | None = None,
) -> Repair:
    """Give the cells on lost nodes other nodes.

    A node of the job that may not be used any more (faulty, or slow under ``avoid: strict``) is replaced like a lost
    one, with a note.  The types of GPU stay those of the placement before, unless the job may mix them.

    :param cluster: the cluster now; whether it shows the job's own nodes as in use makes no difference.
    :param nodes: shape [rows, columns], the placement before.
    :param algorithm: for ``objective``, finds the best placement when all may move; default ``exact``.
    :raises UnknownName: a lost node is not in the cluster.
    :raises InvalidPlacement: the placement before was not valid, lost nodes apart.
    :raises Infeasible: fewer nodes are left than the job needs, or no placement keeps its constraints.
    :raises SolverTimeout: time ran out before a repair was found, or none was found that keeps a hard constraint at a
        second hierarchy, and none is ruled out.
    """
    started = stopwatch()
    gone = nodes[np.isin(nodes, [cluster.index_of.get(name, -1) for name in lost])]
    kept = np.setdiff1d(nodes, gone) if gone.size < nodes.size else nodes
    job = of_its_type(cluster, job, kept)
    # worth when its nodes were its own, with nothing held against them; what came back in place of one may be another
    free, gpus, types = cluster.free_gpus.copy(), cluster.gpus.copy(), cluster.gpu_type_of.copy()
    gpus[gone], types[gone] = job.gpus_per_node, types[kept.flat[0]]
    free[nodes] = gpus[nodes]
    was = cluster.replace(free_gpus=free, gpus=gpus, gpu_type_of=types).excused(set(nodes.ravel().tolist()))
    try:
        before = evaluate(was, job, nodes)
    except InvalidPlacement:  # it may be elsewhere, too
        cluster, was = (_with_the_kept(tree, job, nodes, gone) for tree in (cluster, was))
        before = evaluate(was, job, nodes)
    algorithm = algorithm or ALGORITHMS.load("exact")
    load_solver()
    with on_clock(limits.clock, limits.seconds) as timer:
        end = clock() + limits.seconds
        problem, plan = _planned(problem_of(cluster, job, nodes, lost), prefer, algorithm, limits)
        stopped_at = ended_at(limits.seconds) if timer.late or clock() >= end else None
    cells = np.nonzero(plan.nodes != problem.old)
    facts = (*cells, job.grid.node_rank[cells], problem.old[cells], plan.nodes[cells])
    moves = (Move(*map(int, of_cell)) for of_cell in zip(*facts, strict=True))
    return Repair(
        plan.nodes,
        plan.after,
        plan.fewest_moves,
        plan.objective_bound,
        (*problem.notes, *plan.notes, *([late_note(stopped_at)] if timer.late and stopped_at else ())),
        moves=tuple(sorted(moves, key=lambda move: move.node_rank)),
        before=before,
        prefer=prefer,
        solve_seconds=stopwatch() - started,
        stopped_at=stopped_at,
    )


def _planned(
    problem: RepairProblem, prefer: Prefer, algorithm: PlacementAlgorithm, limits: Limits
) -> tuple[RepairProblem, RepairPlan]:
    """Return a repair, and the problem with the spares that it needs.

    :param algorithm: for a placement anew, and for the best one where all may move.
    :raises Infeasible: no placement keeps a constraint.
    :raises SolverTimeout: no repair was found in time, or in all that was searched.
    """
    if problem.stays.all():
        now = evaluate(problem.cluster, problem.job, problem.old)
        return problem, RepairPlan(problem.old, now, 0, now.objective, ("no node of the job is lost: nothing moves",))
    end = clock() + limits.seconds
    beside = len(within_the_tree(problem.cluster, problem.job).holds) < len(problem.job.holds)
    while True:
        left = replace(limits, seconds=max(LEAST_SECONDS, end - clock()))
        own = replace(left, seconds=left.seconds / 2) if beside else left
        try:
            if prefer == "moves":
                return problem, fewest_moves(problem, own)
            return problem, best_objective(problem, own, algorithm)
        except Infeasible:
            # with slower spares there may be one: blocks alone do not say how many are needed
            if (wider := problem.widened()) is None:
                raise
            problem = wider
        except SolverTimeout:
            if not beside:
                raise
            return problem, _placed_anew(problem, algorithm, left)


def _placed_anew(problem: RepairProblem, algorithm: PlacementAlgorithm, limits: Limits) -> RepairPlan:
    """Return a placement of the whole job, with cells where they were wherever that is as good.

    :raises Infeasible: there is none.
    :raises SolverTimeout: none was found.
    """
    anew = run(algorithm, problem.cluster, problem.job, limits)
    if anew.status == "infeasible":
        fix = "free more nodes, or leave the hard constraint out of the job"
        raise Infeasible(anew.reason, where="--lost", fix=fix)
    if anew.proposal.nodes is None or anew.evaluation is None:
        raise SolverTimeout(
            "no repair that keeps the hard constraints beside the tree was found, and none is ruled out",
            where="--time-limit",
            fix="give more seconds, or leave those constraints out of the job",
        )
    # cells are on their old nodes where these lie in the same domains of all hierarchies
    placed, kinds = anew.proposal.nodes, NodeKinds.of(problem.cluster, problem.job, len(problem.cluster.levels) - 1)
    alike = kinds.class_of
    stays = problem.stays & (alike[placed] == alike[problem.old])
    nodes = np.where(stays, problem.old, -1).astype(np.int32)
    for kind in np.unique(alike[placed[~stays]]):
        cells = ~stays & (alike[placed] == kind)
        # nodes of the new placement there that no cell has stayed on
        nodes[cells] = np.setdiff1d(placed[alike[placed] == kind], nodes[stays])[: int(cells.sum())]
    note = "no repair of the placement before was found that keeps all constraints: the job is placed anew"
    after = evaluate(problem.cluster, problem.job, nodes)
    return RepairPlan(nodes, after, int((~problem.stays).sum()), trivial_bound(problem.job), (note,))


Cells = npt.NDArray[np.int64]  # Flat numbers of cells


def fewest_moves(problem: RepairProblem, limits: Limits) -> RepairPlan:
    """Take as few slow nodes as possible, move as few cells, then reach the best objective; raises SolverTimeout."""
    deadline = clock() + limits.seconds
    offered, whole = choices(problem), True
    if problem.kinds.finer:
        # where hierarchies cross any cell may have to make room for another
        every = choices(problem, np.ones_like(problem.stays))
        offered, whole = (every, True) if every.few else (offered, False)
    if not offered.few:
        offered, whole = trimmed(offered), False
    model = MoveModel(offered, replace(limits, workers=1))
    quick = greedy_targets(offered)
    model.suggest(quick)
    steps = climb(model, ("slow", "moves", "objective", "touches"), deadline)
    if whole and model.impossible:
        held = " and ".join(f"every {hold.family} group inside one {hold.level}" for hold in problem.job.holds)
        fix = "free more nodes, or leave one of these hard constraints out of the job"
        raise Infeasible(f"no choice of nodes for the cells keeps {held}", where="--lost", fix=fix)
    answer = quick if model.answer is None else model.answer
    try:
        plan = plan_of(problem, offered.class_of_cell(answer), fewest=int((~problem.stays).sum()))
    except InvalidPlacement:
        fix = "give it more seconds"
        raise SolverTimeout("time ran out before a repair was found", where="--time-limit", fix=fix) from None
    if not whole:
        return replace(plan, notes=("too many choices to weigh all: only those that look best were tried",))
    bound = steps["objective"].bound / model.scale if "objective" in steps else 0.0
    return replace(
        plan,
        fewest_moves=max(plan.fewest_moves, steps["moves"].bound if "moves" in steps else 0),
        objective_bound=min(max(bound, plan.objective_bound), plan.after.objective),
    )


def climb(model: MoveModel, goals: tuple[Goal, ...], deadline: float) -> dict[Goal, GoalValue]:
    """Meet one goal after another until time runs out; the last breaks ties only, and gets a tenth of the time left."""
    steps: dict[Goal, GoalValue] = {}
    for goal in goals:
        now = clock()
        until = now + (deadline - now) / 10 if goal == "touches" else deadline
        if (step := model.minimise(goal, until)) is None:
            break
        steps[goal] = step
    return steps


def plan_of(problem: RepairProblem, class_of_cell: IntArray, *, fewest: int) -> RepairPlan:
    """Make a plan from the class of each cell, which the evaluator checks; only the number of moves is certified."""
    nodes = nearest_nodes(problem, class_of_cell)
    return RepairPlan(nodes, evaluate(problem.cluster, problem.job, nodes), fewest, trivial_bound(problem.job))


def cost_of(problem: RepairProblem, plan: RepairPlan) -> tuple[int, int]:
    """Return slow nodes newly taken, and moved cells."""
    slow = ~np.isin(plan.nodes, problem.old) & (problem.slowdown[plan.nodes] > HEALTHY)
    return int(slow.sum()), int((plan.nodes != problem.old).sum())


def nearest_nodes(problem: RepairProblem, class_of_cell: IntArray) -> IntArray:
    """Give every cell a node of its class.

    Of the nodes of a class, healthy spares go first, then healthy nodes that other cells of the job left, then slow
    ones, the least slow first.  A cell takes one in the closest domain it shares with its old node; where there are
    several, one in closer domains that its groups already touch, then the nearest by name.

    :param class_of_cell: shape [rows, columns]; no class has more cells than nodes that may be used.
    """
    class_of, depth = problem.kinds.class_of, problem.depth
    keeps = problem.stays & (class_of[problem.old] == class_of_cell)
    nodes = np.where(keeps, problem.old, -1).astype(np.int32, order="C")  # whose flat view is filled in
    free = problem.admitted.copy()
    free[problem.old[keeps]] = False
    moving = np.flatnonzero(~keeps)
    moving = moving[np.argsort(problem.job.grid.node_rank.ravel()[moving], kind="stable")]
    wanted = class_of_cell.ravel()[moving]
    for number in np.unique(wanted):
        cells, inside = moving[wanted == number], np.flatnonzero(free & (class_of == number))
        # the nodes in classes, the best first
        slowdown, left = problem.slowdown[inside], ~problem.spare[inside]
        order = np.lexsort((left, slowdown))
        ends = np.flatnonzero((np.diff(slowdown[order]) != 0) | (np.diff(left[order].astype(np.int8)) != 0)) + 1
        for alike in np.split(order, ends):
            cells = _match(problem, depth, nodes, cells=cells, offered=inside[alike])
    return nodes


def _match(problem: RepairProblem, depth: int, nodes: IntArray, *, cells: Cells, offered: Cells) -> Cells:
    """Seat as many cells as there are nodes, those first that find one close to their old node; return the others.

    :param nodes: shape [rows, columns], filled in.
    """
    levels, names = problem.cluster.levels, problem.cluster.names
    nodes_by_name = sorted({*offered.tolist(), *problem.old.ravel()[cells].tolist()}, key=lambda i: natural(names[i]))
    place = {node: position for position, node in enumerate(nodes_by_name)}
    for closeness in range(len(levels) - 1, depth - 2, -1):
        left = []
        for cell in cells:
            old = problem.old.ravel()[cell]
            near = offered
            if closeness >= depth:
                domain_of = levels[closeness].domain_of
                near = offered[domain_of[offered] == domain_of[old]]
            if not near.size:
                left.append(cell)
                continue
            distance = np.array([abs(place[int(i)] - place[int(old)]) for i in near])
            best = near[np.lexsort((near, distance, -_touched(problem, depth, nodes, cell, near)))[0]]
            nodes.ravel()[cell] = best
            offered = offered[offered != best]
        cells = np.array(left, dtype=np.int64)
    return cells


def _touched(problem: RepairProblem, depth: int, nodes: IntArray, cell: int, near: Cells) -> FloatArray:
    """Return how much of the cell's groups already touches the closer domains of each node, weighed by affinity."""
    (row, column), parts = divmod(int(cell), nodes.shape[1]), problem.job.nodes_of_tp
    score = np.zeros(len(near))
    for weight, group in ((problem.job.alpha, nodes[row % parts :: parts, column]), (problem.job.beta, nodes[row])):
        seated = group[group >= 0]
        for level in problem.cluster.levels[depth + 1 :]:
            score += weight * np.isin(level.domain_of[near], level.domain_of[seated])
    return score


_WIDENINGS = 3  # How often the neighbourhood of the lost nodes is widened from the start, with other lines each time
_SLICES = 12  # Slices into which the time left is cut, one for each neighbourhood
_NEARBY = 0.6
"""Part of that time that neighbourhoods may take; the rest is for all cells at once, which alone proves anything."""

_FIRST, _ALGORITHM, _SEGMENTS = 4, 2, 8
"""Time for the repair with the fewest moves (a quarter of all), for the best placement (half of what is left then) and
for moving segments (an eighth of what is left after that, on either view)."""


def best_objective(problem: RepairProblem, limits: Limits, algorithm: PlacementAlgorithm) -> RepairPlan:
    """Reach the best objective that ``algorithm`` finds when all may move, then move as few cells as possible.

    Fewer moves are sought in four ways, each starting from the best before: rename the new placement, move whole
    segments of the old one, let the surroundings of the lost nodes change, let everything change.  What the algorithm
    finds is put aside where it takes more slow nodes than the repair with the fewest moves.
    """
    deadline = clock() + limits.seconds
    near = fewest_moves(problem, replace(limits, seconds=limits.seconds / _FIRST))
    limits.say("searching the best placement with all nodes of the job free to move")
    others = np.flatnonzero(~problem.admitted)
    cluster, job = problem.cluster.with_busy(others), problem.job.replace(avoid="ignore")
    best = run(algorithm, cluster, job, _part(limits, deadline, _ALGORITHM))
    bound = best.bound if best.bound is not None else trivial_bound(job)
    near = replace(near, objective_bound=min(bound, near.after.objective))
    if best.evaluation is None or best.proposal.nodes is None:
        return replace(near, notes=(*near.notes, f"{algorithm.name} found no placement: {best.reason}"))
    kinds = problem.kinds
    class_of_cell = kinds.class_of[best.proposal.nodes]
    if _bare(problem):
        old = np.where(problem.stays, kinds.class_of[problem.old], -1)
        class_of_cell = relabel(class_of_cell, old, room=kinds.count(problem.admitted))
    nodes = nearest_nodes(problem, class_of_cell)
    start = replace(near, nodes=nodes, after=evaluate(problem.cluster, problem.job, nodes))
    better = start.after.objective < near.after.objective - TOLERANCE
    if not better or cost_of(problem, start)[0] > cost_of(problem, near)[0]:
        return near
    limits.say("searching the fewest moves for it")
    for nodes in _banded(problem, start.after.objective, _part(limits, deadline, _SEGMENTS)):
        banded = replace(start, nodes=nodes, after=evaluate(problem.cluster, problem.job, nodes))
        start = min(start, banded, key=lambda plan: cost_of(problem, plan))
    plan = _fewest_moves_for(problem, start, near, limits, deadline)
    return replace(plan, objective_bound=min(bound, plan.after.objective))


def _part(limits: Limits, deadline: float, parts: int) -> Limits:
    """Return a part of the time that is left; a moment where none is."""
    return replace(limits, seconds=max(0.05, (deadline - clock()) / parts))


def _banded(problem: RepairProblem, objective: float, limits: Limits) -> Iterator[IntArray]:
    """Yield placements of that objective that keep the bands of columns, or of rows, shape [rows, columns]."""
    if not _bare(problem):
        return
    kinds, job = problem.kinds, problem.job
    room = kinds.count(problem.admitted)
    for transposed, domains_cost, bands_cost in ((False, job.alpha, job.beta), (True, job.beta, job.alpha)):
        old, stays = kinds.class_of[problem.old], problem.stays
        if transposed:
            old, stays = old.T, stays.T
        band_of = bands_of(old)
        left = objective + TOLERANCE - bands_cost * (int(band_of.max()) + 1)
        if left < domains_cost:
            continue
        most = int(min(left / domains_cost, len(room))) if domains_cost else len(room)
        answer = move_segments(old, stays, band_of=band_of, room=room, most=most, limits=limits)
        if answer is not None:
            yield nearest_nodes(problem, answer.T if transposed else answer)


def _bare(problem: RepairProblem) -> bool:
    """Return whether rows and columns are all that counts: holds and soft terms look at more."""
    job = problem.job
    return job.grid.aligned and not job.holds_groups and not job.soft


def _fewest_moves_for(
    problem: RepairProblem, start: RepairPlan, near: RepairPlan, limits: Limits, deadline: float
) -> RepairPlan:
    """Move as few cells as possible for the objective of ``start``, which the repair with the fewest moves misses.

    Few moves lie near the lost nodes: first the lines that lost one may change and a few others, then ever more, until
    the objective can be had.  Then all cells may: that finds the rest, or proves that there is none.
    """
    plan, begun = start, clock()
    for movable in _widening(problem, limits.seed):
        until = min(clock() + (deadline - begun) / _SLICES, deadline)
        searched = _search(problem, movable, start, hint=near, limits=limits, until=until)
        if searched is not None and cost_of(problem, searched) < cost_of(problem, plan):
            plan = replace(searched, fewest_moves=start.fewest_moves)
            break
        if clock() > begun + _NEARBY * (deadline - begun):
            break
    everything = np.ones_like(problem.stays)
    if (searched := _search(problem, everything, start, hint=plan, limits=limits, until=deadline)) is None:
        return plan
    fewest = max(start.fewest_moves, searched.fewest_moves)
    return replace(min(plan, searched, key=lambda plan: cost_of(problem, plan)), fewest_moves=fewest)


def _widening(problem: RepairProblem, seed: int) -> Iterator[BoolArray]:
    """Yield cells that may move, shape [rows, columns]: whole lines along the shorter side, those with lost cells
    and 4, 8, 16, ... others by chance; and again, as the choice of others matters.
    """
    rows, columns = problem.old.shape
    cell = np.arange(rows * columns).reshape(rows, columns)
    line = cell // columns if rows >= columns else cell % columns
    lost = np.unique(line[~problem.stays])
    others = np.setdiff1d(line, lost)
    chance = np.random.default_rng(seed)
    for _ in range(_WIDENINGS):
        count = 4
        while count < len(others):
            yield np.isin(line, lost) | np.isin(line, chance.choice(others, count, replace=False))
            count *= 2


def _search(
    problem: RepairProblem, movable: BoolArray, target: RepairPlan, *, hint: RepairPlan, limits: Limits, until: float
) -> RepairPlan | None:
    """Search the fewest moves among some cells for the objective of a plan; the bound is one for those cells."""
    offered = choices(problem, movable)
    if not offered.few or clock() > until:
        return None
    model = MoveModel(offered, limits)
    model.suggest(offered.target_of_mover(hint.nodes))
    model.at_most("objective", model.value_of(target.after))
    steps = climb(model, ("slow", "moves", "touches"), until)
    if model.answer is None or "moves" not in steps:
        return None
    return plan_of(problem, offered.class_of_cell(model.answer), fewest=steps["moves"].bound)


@dataclass(frozen=True)
class RepairProblem:
    """What is left to a job that lost nodes."""

    cluster: Cluster  # the job's own nodes are idle in it, the lost ones are not
    job: Job
    old: IntArray  # shape [rows, columns], the node of each cell before
    # shape [nodes], the nodes that may host a cell: those that the job has, and spares no slower than they need to be
    # for every cell to find a node
    admitted: BoolArray
    notes: tuple[str, ...]  # what was found out on the way

    @cached_property
    def stays(self) -> BoolArray:
        """Shape [rows, columns], the cells that may keep their node."""
        stays: BoolArray = self.admitted[self.old]
        return stays

    @cached_property
    def depth(self) -> int:
        """Depth of the closest level that the objective or a hold looks at."""
        return closest_named(self.cluster, self.job)

    @cached_property
    def kinds(self) -> NodeKinds:
        """The classes that its nodes are told apart by."""
        return NodeKinds.of(self.cluster, self.job, self.depth)

    def widened(self) -> RepairProblem | None:
        """Return the problem with the next slower spares admitted as well; ``None`` = there are none."""
        others = admissible(self.cluster, self.job) & ~self.admitted
        if not others.any():
            return None
        slowest = self.cluster.slowdown[others].min()
        return replace(self, admitted=self.admitted | (others & (self.cluster.slowdown <= slowest)))

    @cached_property
    def spare(self) -> BoolArray:
        """Shape [nodes], the nodes that may be used and that the job did not use."""
        spare = self.admitted.copy()
        spare[self.old] = False
        return spare

    @cached_property
    def slowdown(self) -> FloatArray:
        """Shape [nodes], as the job minds it: under ``avoid: ignore`` no node is slow."""
        return np.ones(len(self.cluster)) if self.job.avoid == "ignore" else self.cluster.slowdown


def _held_together(cluster: Cluster, job: Job) -> IntArray:
    """Return of each cell, row by row, which part of the job it is in: parts that no hard constraint ties together."""
    tied = np.arange(job.grid.cells, dtype=np.int32)
    for hold in job.holds_on(cluster):
        groups = job.grid.groups[hold.family]
        tied = joined(tied, groups.cell, groups.group)
    return tied


def _with_the_kept(cluster: Cluster, job: Job, nodes: IntArray, gone: IntArray) -> Cluster:
    """Return the cluster with each lost node at the place of one that is kept, of those it is held together with."""
    flat, tied = nodes.ravel(), _held_together(cluster, job)
    lost = np.isin(flat, gone)
    kept = {int(tied[cell]): flat[cell] for cell in np.flatnonzero(~lost)}
    like = [kept.get(int(tied[cell]), flat[cell]) for cell in np.flatnonzero(lost)]

    def moved(level: Level) -> Level:
        domain_of = level.domain_of.copy()
        domain_of[flat[lost]] = domain_of[like]
        return replace(level, domain_of=domain_of)

    levels, second_levels = (tuple(map(moved, some)) for some in (cluster.levels, cluster.second_levels))
    return cluster.replace(levels=levels, second_levels=second_levels)


def of_its_type(cluster: Cluster, job: Job, nodes: IntArray) -> Job:
    """Return a placed job as one for the type of GPU of its nodes, shape [rows, columns]; unless it may mix them."""
    used = np.unique(cluster.gpu_type_of[nodes])
    if job.mix_types or len(cluster.gpu_types) < 2 or len(used) > 1:
        return job
    return job.replace(gpu_types=(cluster.gpu_types[used[0]],))


def problem_of(cluster: Cluster, job: Job, nodes: IntArray, lost: Sequence[str]) -> RepairProblem:
    """Find what is left to the job once nodes are lost, which are given by name.

    :param nodes: shape [rows, columns], a valid placement.
    :raises Infeasible: fewer nodes are left than the job has cells.
    """
    cluster = cluster.tolerating(job.tolerations)
    gone = np.unique(np.array([cluster.index(name, where="--lost") for name in lost], dtype=np.int32))
    free = cluster.free_gpus.copy()
    free[nodes] = cluster.gpus[nodes]
    free[gone] = 0
    away = _away(cluster, nodes)
    free[away] = 0
    after = cluster.replace(free_gpus=free)
    admitted = _admitted(after, job, nodes)
    unused, refused = np.setdiff1d(gone, nodes), np.setdiff1d(nodes[~admitted[nodes]], gone)
    notes = [f"{cluster.names[i]} is not used by the job; it is not taken as a spare either" for i in unused]
    for i in refused:
        fault = (
            "faulty"
            if cluster.slowdown[i] == FAULTY
            else cluster.kept_out.get(int(i), "flagged and the job says avoid: strict")
        )
        notes.append(f"{cluster.names[i]} is {fault}: replaced as if lost")
    if away.any():
        notes.append(f"no spare is taken from {int(away.sum()):,} nodes that no switch joins to those of the job")
    problem = RepairProblem(after, job, nodes, admitted, tuple(notes))
    if _room(after, job, admitted) < job.grid.cells:
        raise _shortage(problem, gone)
    return problem


def choices(problem: RepairProblem, movable: BoolArray | None = None) -> MoveChoices:
    """Return the choices for some cells; by default those that a repair with the fewest moves can need.

    Blocks are equal, so a block without a lost node never has to make room for one with: that one goes where the other
    would have gone.  Hence only blocks with lost nodes move, together with what holds at broader levels tie to them.

    :param movable: shape [rows, columns], cells that may change their domain, with those tied to them.
    """
    cluster, job, kinds = problem.cluster, problem.job, problem.kinds
    class_of, blocks = kinds.class_of, free_blocks(cluster, job, problem.depth, kinds)
    tied = blocks_at(cluster, within_the_tree(cluster, job), 0).of_cell
    if kinds.finer:
        tied = _held_together(cluster, job).reshape(problem.old.shape)
    movable = np.isin(tied, tied[~problem.stays if movable is None else movable | ~problem.stays])
    count, block_of = blocks.rows * blocks.columns, blocks.of_cell
    home = np.empty(count, dtype=np.int32)
    home[block_of] = class_of[problem.old]
    fixed = np.bincount(class_of[problem.old[~movable]], minlength=len(kinds))
    room = (kinds.count(problem.admitted) - fixed) // blocks.size
    slow = kinds.count(problem.spare & (problem.slowdown > HEALTHY))
    targets = np.flatnonzero(room > 0)
    return MoveChoices(
        cluster=cluster,
        job=job,
        old=problem.old,
        kinds=kinds,
        block_of=block_of,
        size=blocks.size,
        movers=np.unique(block_of[movable]).astype(np.int32),
        home=home,
        lost=np.bincount(block_of[~problem.stays], minlength=count).astype(np.int32),
        targets=targets.astype(np.int32),
        room=room[targets].astype(np.int32),
        healthy=(kinds.count(problem.admitted) - slow - fixed)[targets].astype(np.int32),
    )


def _admitted(cluster: Cluster, job: Job, old: IntArray) -> BoolArray:
    """Return the job's own nodes, and the spares up to the least slowdown that leaves room for all cells."""
    admitted = admissible(cluster, job)
    if job.avoid == "ignore":
        return admitted
    spare = admitted.copy()
    spare[old] = False

    def no_slower(slowest: float) -> BoolArray:
        return admitted & ~(spare & (cluster.slowdown > slowest))

    # room only grows with the slowdown admitted, so bisection finds the least that suffices
    steps = sorted({HEALTHY, *cluster.slowdown[spare].tolist()})
    enough = bisect_left(steps, True, key=lambda slowest: _room(cluster, job, no_slower(slowest)) >= job.grid.cells)
    return no_slower(steps[min(enough, len(steps) - 1)])


def _away(cluster: Cluster, nodes: IntArray) -> BoolArray:
    """Return the nodes outside the trunk that a placement lies in, shape [nodes]; none where all are joined."""
    if (trunks := cluster.trunks) is None:
        return np.zeros(len(cluster), dtype=np.bool_)
    away: BoolArray = trunks.domain_of != trunks.domain_of[nodes.flat[0]]
    return away


def _room(cluster: Cluster, job: Job, nodes: BoolArray) -> int:
    """Return the cells that some nodes can take in whole blocks, as far as each hierarchy by itself says."""
    in_tree = int(capacity_by_level(cluster, within_the_tree(cluster, job), nodes)[0].sum())
    return min(in_tree, *(asked.room * asked.size for asked in room_beside(cluster, job, nodes)), len(cluster))


def _shortage(problem: RepairProblem, gone: IntArray) -> Infeasible:
    """Return the error that says why not all cells find a node, and what would help."""
    job, cluster = problem.job, problem.cluster
    spare, size = int(problem.spare.sum()), f"of {job.gpus_per_node} GPUs"
    wanted, missing = int((~problem.stays).sum()), job.grid.cells - _room(cluster, job, problem.admitted)
    others = (cluster.gpus == job.gpus_per_node) & ~problem.spare
    others[gone] = others[problem.old] = False
    other_type = others & ~typed(cluster, job.gpu_types)
    others &= ~other_type
    away = others & _away(cluster, problem.old)
    faulty = others & ~away & (cluster.slowdown == FAULTY)
    kept_out = np.zeros(len(cluster), dtype=np.bool_)
    kept_out[list(cluster.kept_out)] = True
    kept_out &= others & ~away & ~faulty
    others &= ~kept_out
    used = others & ~away & ~faulty & (cluster.free_gpus < cluster.gpus)
    slow = others & ~away & ~faulty & ~used
    kinds = {
        "with another type of GPU": other_type,
        "joined to those of the job by no switch": away,
        "in use": used,
        "flagged, refused by avoid: strict": slow,
        "faulty": faulty,
    }
    counts = {kind: int(nodes.sum()) for kind, nodes in kinds.items()}
    counts |= Counter(why for i, why in cluster.kept_out.items() if kept_out[i])
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    in_tree = blocks_at(cluster, within_the_tree(cluster, job), 0).size
    block = max(in_tree, *(asked.size for asked in room_beside(cluster, job, problem.admitted)), 1)
    held = " and ".join(dict.fromkeys(cluster.level(hold.level).name for hold in job.holds_on(cluster)))
    tied = f"; hard constraints keep {block} cells in one {held}, and none has room for them" if block > 1 else ""
    remedies = [f"free {plural(missing, 'more node')} {size}" + (" in one domain" if tied else "")]
    if slow.any():
        remedies.append(f"admit {plural(int(slow.sum()), 'slow node')} with avoid: price")
    return Infeasible(
        f"nodes needed: {wanted}, spare nodes {size} left: {spare}{tied}"
        + (f" (the others: {listed})" if listed else ""),
        where="--lost",
        fix=", or ".join([*remedies, "place a smaller job"]),
    )
