"""Several jobs placed at once: the least weighted sum of their objectives, proved or with its gap.

1. Each job alone on the cluster: the sum of these bounds is a bound for all together.
2. One job after the other, in the order given, in reverse, and in some that are drawn: no answer is worse than these.
3. A program in which each job satisfies what every placement does (a bound for the sum): its shares of nodes are laid
   out or searched by ``exact``, one job after the other; what is proved not to fit into a share is excluded.
4. *Shapes* of all placements seen so far, and even rectangles, laid out anew side by side by an integer program: of all
   jobs, then of a few at a time.
5. While time is left, more of 2, 3 and 4; last the nodes within each domain, for closer levels, and each job whose
   expert groups are apart on its own nodes and free ones.

Every placement is weighed by the one evaluator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from ground.quantities import plural
from scheduler.algorithm_run import judge, run
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, evaluate, slowest_in_use, trivial_bound, worth_of
from scheduler.outcome import LATE, Outcome
from scheduler.placement.admission import admissible
from scheduler.placement.sharing.node_classes import NodeClasses, classify
from scheduler.placement.solver_clock import load_solver
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.second_levels import named_beside
from scheduler.several.joint_question import JointQuestion, bound_at, only, run_on_its_levels, slowest_allowed
from scheduler.several.joint_search import JointSearch
from scheduler.several.lay_out import seated_again
from scheduler.several.leave_out import LeftOut, fewest_left_out
from scheduler.several.turns import TurnResult, in_turn
from scheduler.subproblems.gpu_types import speed_of
from scheduler.work_clock import LEAST_SECONDS, clock, on_clock, stopwatch
from topology.cluster import Cluster, IntArray

ALONE_SHARE = 0.3  # Of the time, for the jobs each alone: their bounds and first shapes are what all else stands on
TURNS_SHARE = 0.3  # Of the time, for both orders together
LAST_SHARE = 0.1  # For nodes within domains, when all else is done
COUNT_SECONDS = 2.0  # To find out which jobs fit together, where the time limit is longer


@dataclass(frozen=True, slots=True)
class JointOutcome:
    """Where several jobs go."""

    status: Status
    outcomes: tuple[Outcome, ...] = ()  # of each job, its bound that of the job alone; empty without a placement
    objective: float | None = None  # sum of weight * objective / speed
    bound: float | None = None  # no placement of all jobs has a smaller sum, slow nodes and all
    left_out: tuple[int, ...] = ()  # where not all fit: the fewest jobs without which the others do, by number
    turns: tuple[TurnResult, ...] = ()  # one after the other: in the order given, and in reverse
    reason: str = ""  # why there is no placement
    notes: tuple[str, ...] = ()
    solve_seconds: float = 0.0
    stopped_at: float | None = None  # seconds of the time limit that ended the search; None = it ended by itself

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective, 0 when it is the least of all; ``None`` without a placement."""
        if self.objective is None or self.bound is None:
            return None
        return max(0.0, (self.objective - self.bound) / self.objective)


def place_together(
    cluster: Cluster, jobs: Sequence[Job], weights: Sequence[float], *, solver: PlacementAlgorithm, limits: Limits
) -> JointOutcome:
    """Place several jobs at once, at least one.

    :param weights: of the jobs' objectives, above 0.
    :param solver: places one job; its bounds are believed only as far as the evaluator goes.
    :raises InvalidJob: a job cannot be cut into nodes; UnknownName: one names a level that the cluster does not have.
    """
    load_solver()
    started = stopwatch()
    question = JointQuestion(cluster, tuple(jobs), tuple(weights))
    with on_clock(limits.clock, limits.seconds) as timer:
        found = _as_priced(question, solver, limits)
    if timer.late and found.status != "infeasible":
        found = replace(found, stopped_at=limits.seconds, notes=(*found.notes, LATE))
    return replace(found, solve_seconds=stopwatch() - started)


def _as_priced(question: JointQuestion, solver: PlacementAlgorithm, limits: Limits) -> JointOutcome:
    """Answer with the slow nodes that each job would use alone; with any, where the jobs fit in no other way."""
    found = _answer(question, solver, limits, notes=())
    if found.status == "infeasible" and any(job.avoid == "price" for job in question.jobs):
        # alone each job may do without slow nodes; together they may need them
        any_node = tuple(job.replace(avoid="ignore") if job.avoid == "price" else job for job in question.jobs)
        again = _answer(replace(question, jobs=any_node), solver, limits, notes=(SLOW_NEEDED,))
        return again if again.status == "infeasible" else _as_asked(question, again)
    return found


SLOW_LEFT_OUT = (
    "Slow nodes have a price: the status is about nodes no slower than each job takes alone, and the bound is of all "
    "nodes."
)
SLOW_NEEDED = "Not all jobs fit on the nodes that each would use alone, so slow nodes are used whatever their price."


def _answer(
    question: JointQuestion, solver: PlacementAlgorithm, limits: Limits, *, notes: tuple[str, ...]
) -> JointOutcome:
    end = clock() + (1.0 - LAST_SHARE) * limits.seconds
    alone = _each_alone(question, solver, replace(limits, seconds=ALONE_SHARE * limits.seconds))
    slowest = [slowest_allowed(question.cluster, job, [one]) for job, one in zip(question.jobs, alone, strict=True)]
    classes = classify(question.cluster, question.jobs, slowest)
    misfits = [j for j, one in enumerate(alone) if one.status == "infeasible"]
    seconds = min(COUNT_SECONDS, limits.seconds)
    left_out = fewest_left_out(classes, question.weights, misfits=misfits, seconds=seconds)
    if left_out is not None and left_out.jobs:
        return _infeasible(question, classes, left_out, alone, solver=solver, limits=limits)
    unplaced = [job for job, one in zip(question.jobs, alone, strict=True) if one.evaluation is None]
    # what is not found alone may be found where each cell is decided
    if any(named_beside(question.cluster, job) is None for job in unplaced):
        reason = f"time ran out before {unplaced[0].name!r} was placed"
        return JointOutcome("timeout", reason=reason, notes=notes, stopped_at=limits.seconds)
    turns, start = _both_orders(question, solver, alone, replace(limits, seconds=TURNS_SHARE * limits.seconds))
    search = JointSearch(question, classes, alone, solver)
    if start:
        search.found(start)
    search.run(limits, end)
    stopped_at = limits.seconds if search.out_of_time else None
    if not search.nodes:
        reason = "time ran out before all jobs were placed"
        if any(named_beside(question.cluster, job) is not None for job in question.jobs):
            reason = (
                "no placement of all jobs was found that keeps their constraints beside the tree, and none is ruled out"
            )
        return JointOutcome("timeout", turns=turns, reason=reason, notes=notes, stopped_at=stopped_at)
    limits.say("closer levels")
    jobs = [question.sized(j, nodes) for j, nodes in enumerate(search.nodes)]
    seated = seated_again(question.cluster, jobs, nodes=search.nodes, classes=classes)
    seated = _experts_together(question, jobs, seated, classes=classes, solver=solver, limits=limits)
    judged = (_judged(question, j, nodes, alone[j]) for j, nodes in enumerate(seated))
    outcomes = tuple(one.after(stopped_at) for one in judged)
    bound = search.bound if search.bound < search.cost - TOLERANCE else search.cost
    status: Status = "optimal" if bound == search.cost else "feasible"
    if any(_hides_slow(question, j, most) for j, most in enumerate(slowest)):
        # what was searched are nodes as slow as each job has alone; on others no job does better than its own bound
        bound = min(bound, sum(_least_anywhere(question, j, one) for j, one in enumerate(alone)))
        if bound < search.cost - TOLERANCE:
            notes = (*notes, SLOW_LEFT_OUT)
    return JointOutcome(status, outcomes, search.cost, bound, turns=turns, notes=notes, stopped_at=stopped_at)


def _hides_slow(question: JointQuestion, j: int, slowest: float) -> bool:
    """Return whether nodes that a job may have are slower than those that it was searched on."""
    usable = admissible(question.cluster, question.jobs[j])
    return bool((question.cluster.slowdown[usable] > slowest).any())


def _least_anywhere(question: JointQuestion, j: int, alone: Outcome) -> float:
    """Return what no placement of one job adds less than to the sum, on whatever nodes it may have."""
    job = question.jobs[j]
    if alone.bound is None or alone.evaluation is None:
        return question.priced(j, trivial_bound(job), max([1.0, *(one.factor for one in job.speed)]))
    return question.priced(j, alone.bound, job.speed_on(alone.evaluation.gpu_types))


def _each_alone(question: JointQuestion, solver: PlacementAlgorithm, limits: Limits) -> list[Outcome]:
    end, outcomes = clock() + limits.seconds, []
    for number, job in enumerate(question.jobs):
        limits.say(f"{job.name} alone")
        # one that takes long must not leave the others without time: a job without a proof leaves the sum without one
        seconds = max(limits.seconds / (2 * len(question.jobs)), (end - clock()) / (len(question.jobs) - number))
        outcomes.append(run_on_its_levels(solver, question.cluster, job, replace(limits, seconds=seconds)))
    return outcomes


def _infeasible(
    question: JointQuestion,
    classes: NodeClasses,
    left_out: LeftOut,
    alone: Sequence[Outcome],
    *,
    solver: PlacementAlgorithm,
    limits: Limits,
) -> JointOutcome:
    """Return that not all jobs fit; and which to leave out, where it is sure that the others fit then."""
    known = left_out.counted or _rest_fits(question, left_out, alone, solver, limits)
    reason = _does_not_fit(question, classes, left_out.jobs, alone, known=known)
    return JointOutcome("infeasible", left_out=left_out.jobs if known else (), reason=reason)


def _rest_fits(
    question: JointQuestion,
    left_out: LeftOut,
    alone: Sequence[Outcome],
    solver: PlacementAlgorithm,
    limits: Limits,
) -> bool:
    """Return whether the other jobs find a place one after the other, in the order given or in reverse."""
    rest = [j for j in range(len(question.jobs)) if j not in left_out.jobs]
    known, limits = dict(enumerate(alone)), replace(limits, seconds=TURNS_SHARE * limits.seconds)
    orders = (rest, rest[::-1]) if rest else ()
    return not rest or any(in_turn(question, one, solver, alone=known, limits=limits)[1] for one in orders)


def _does_not_fit(
    question: JointQuestion, classes: NodeClasses, left_out: Sequence[int], alone: Sequence[Outcome], *, known: bool
) -> str:
    needed, usable = sum(job.grid.cells for job in question.jobs), int(classes.sizes.sum())
    said = next((alone[j].reason for j in left_out if alone[j].status == "infeasible"), "")
    if not said and needed > usable and not any(job.node_sizes for job in question.jobs):
        said = f"they need {needed} nodes together, and may use {usable}"
    elif not said:
        said = "there is no way to share the nodes out so that all keep their hard constraints, each on one type of GPU"
    names = ", ".join(question.jobs[j].name for j in left_out)
    others = f"without {names} the others do" if known else f"at least {plural(len(left_out), 'job')} must be left out"
    return f"not all jobs fit at once; {others}: {said}"


def _both_orders(
    question: JointQuestion, solver: PlacementAlgorithm, alone: Sequence[Outcome], limits: Limits
) -> tuple[tuple[TurnResult, ...], list[IntArray]]:
    """Return the results of both orders, and the nodes of each job in the better one; none if both get stuck."""
    order = range(len(question.jobs))
    limits = replace(limits, seconds=limits.seconds / 2)
    first: Mapping[int, Outcome] = dict(enumerate(alone))
    limits.say("one after the other")
    results = [in_turn(question, one, solver, alone=first, limits=limits) for one in (order, order[::-1])[: len(order)]]
    best, nodes = min(results, key=lambda one: inf if one[0].objective is None else one[0].objective)
    return tuple(result for result, _ in results), nodes if best.objective is not None else []


def _experts_together(
    question: JointQuestion,
    jobs: Sequence[Job],
    nodes: Sequence[IntArray],
    *,
    classes: NodeClasses,
    solver: PlacementAlgorithm,
    limits: Limits,
) -> list[IntArray]:
    """Return placements in which expert groups touch fewer domains, each job placed again on its nodes and free ones.

    Nothing else gets worse: it is the first thing that decides between equal objectives.
    """
    cluster, after = question.cluster, list(nodes)
    spread = [j for j, job in enumerate(jobs) if (evaluate(cluster, job, nodes[j]).experts or 1) > 1]
    for j in spread:
        now = evaluate(cluster, jobs[j], after[j])
        granted = classes.admitted(j) & (cluster.slowdown <= slowest_in_use(cluster, now))
        granted[after[j].ravel()] = True
        for other, taken in enumerate(after):
            if other != j:
                granted[taken.ravel()] = False
        part = replace(limits, seconds=max(LEAST_SECONDS, LAST_SHARE * limits.seconds / len(spread)), told="placement")
        found = run(solver, only(cluster, granted), jobs[j], part).proposal.nodes
        then = None if found is None else worth_of(cluster, jobs[j], found)
        if found is not None and then is not None and _as_good(jobs[j], then, now):
            after[j] = found
    return after


def _as_good(job: Job, then: Evaluation, now: Evaluation) -> bool:
    """Return whether a placement is better by its expert groups, and as good by what comes before these."""
    fewer = (then.experts or 1) < (now.experts or 1)
    same_speed = job.speed_on(then.gpu_types) >= job.speed_on(now.gpu_types)
    return fewer and same_speed and then.objective <= now.objective + TOLERANCE


def _judged(question: JointQuestion, j: int, nodes: IntArray, alone: Outcome) -> Outcome:
    """Return the outcome of one job: its placement beside the others, its bound that of the job alone."""
    cluster, job = question.cluster, question.sized(j, nodes)
    bound = bound_at(speed_of(cluster, job, nodes), job, alone)
    kept = alone.proposal
    proposal = Proposal(
        nodes,
        bound,
        # of types of GPU that were not chosen the step is not known
        None if alone.by_type else alone.step_time_bound,
        complete=kept.complete,
        pareto=kept.pareto,
        solve_seconds=kept.solve_seconds,
    )
    judged = judge(alone.algorithm, cluster, job, proposal)
    return replace(judged, gpus_per_node=job.gpus_per_node) if question.jobs[j].node_sizes else judged


def _as_asked(question: JointQuestion, found: JointOutcome) -> JointOutcome:
    """Return the outcome with the jobs as they were asked for; what is claimed of all nodes stays true."""
    outcomes = []
    for j, one in enumerate(found.outcomes):
        assert one.proposal.nodes is not None
        judged = judge(one.algorithm, question.cluster, question.sized(j, one.proposal.nodes), one.proposal)
        outcomes.append(replace(judged, gpus_per_node=one.gpus_per_node).after(found.stopped_at))
    return replace(found, outcomes=tuple(outcomes))
