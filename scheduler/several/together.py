"""Several jobs placed at once: the least weighted sum of their objectives, proved or with its gap.

1. Each job alone on the cluster: the sum of these bounds is a bound for all together.
2. One job after the other, in the order given, in reverse, and in some that are drawn: no answer is worse than these.
3. A program in which each job satisfies what every placement does (a bound for the sum): its shares of nodes are laid
   out or searched by ``exact``, one job after the other; what is proved not to fit into a share is excluded.
4. *Shapes* of all placements seen so far, and even rectangles, laid out anew side by side by an integer program: of all
   jobs, then of a few at a time.
5. While time is left, more of 2, 3 and 4; last the nodes within each domain, for closer levels, and each job whose
   expert groups are apart on its own nodes and free ones.

Where not all fit, the fewest jobs are left out.  Every placement is weighed by the one evaluator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, factorial, inf
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ground.errors import InvalidInput
from ground.quantities import plural
from ground.records import checked
from scheduler.algorithm_run import judge, run
from scheduler.job import Job
from scheduler.job_on_cluster import named_beside
from scheduler.objective import TOLERANCE, evaluate, slowest_in_use, trivial_bound, worth_of
from scheduler.outcome import Outcome, TurnResult, late_note, proved_down_to
from scheduler.placement.admission import admissible
from scheduler.placement.cpsat import Slice
from scheduler.placement.node_classes import NodeClasses, classify
from scheduler.placement.share_parts import ways_by_cell
from scheduler.placement.share_program import ShareModel, taken
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.several.joint_question import (
    WHOLE,
    JointQuestion,
    SeenPlacements,
    bound_at,
    bounded_cost,
    disjoint_grants,
    last_of_each,
    least_alone,
    only,
    placed_as_in,
    run_on_its_levels,
    seated_again,
    slowest_allowed,
)
from scheduler.subproblems import speed_of
from scheduler.work_clock import LEAST_SECONDS, End, clock, ended_at, on_clock, spend, stopwatch
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement.share_program import Solution, Variable


ALONE_SHARE = 0.3  # Of the time, for the jobs each alone: their bounds and first shapes are what all else stands on
TURNS_SHARE = 0.3  # Of the time, for both orders together
LAST_SHARE = 0.1  # For nodes within domains, when all else is done
COUNT_SECONDS = 2.0  # To find out which jobs fit together, where the time limit is longer
TAKE_SECONDS = 2e-5  # Of work: to write down what a job takes of a class of nodes


SLOW_LEFT_OUT = (
    "Slow nodes have a price: the status is about nodes no slower than each job takes alone, and the bound is of all "
    "nodes."
)
SLOW_NEEDED = "Not all jobs fit on the nodes that each would use alone, so slow nodes are used whatever their price."


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
    stopped_at: End | None = None  # what ended the search; None = it ended by itself

    @property
    def proved_to(self) -> str | None:
        """``all``: besides the sum no job could lie better anywhere; ``objective``: the sum; ``None``: not even it."""
        if self.status != "optimal":
            return None
        best = (
            outcome.evaluation is not None and "all" in (outcome.proved_to, proved_down_to(outcome.evaluation))
            for outcome in self.outcomes
        )
        return "all" if all(best) else "objective"

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective, 0 when it is the least of all; ``None`` without a placement."""
        if self.objective is None or self.bound is None:
            return None
        return max(0.0, (self.objective - self.bound) / self.objective)


@checked
def place_together(
    cluster: Cluster,
    jobs: Sequence[Job],
    weights: Sequence[float],
    *,
    solver: PlacementAlgorithm,
    limits: Limits,
    seen: Sequence[Cluster] = (),
) -> JointOutcome:
    """Place several jobs at once, at least one.

    :param weights: of the jobs' objectives, above 0.
    :param seen: the cluster as each job has it, where flags or nodes kept out differ; empty = all have it alike.
    :param solver: places one job; its bounds are believed only as far as the evaluator goes.
    :raises InvalidInput: there is no job, or not a weight above 0 for each.
    :raises InvalidJob: a job cannot be cut into nodes; UnknownName: one names a level that the cluster does not have.
    """
    started = stopwatch()
    if not jobs or len(weights) != len(jobs) or not all(0.0 < weight < inf for weight in weights):
        problem = f"{plural(len(jobs), 'job')}, and as weights {[*weights]}"
        raise InvalidInput(problem, where="weights", fix="give a job or more, and a weight above 0 for each")
    question = JointQuestion(cluster, tuple(jobs), tuple(weights), tuple(seen))
    with on_clock(limits.clock, limits.seconds) as timer:
        answer = _answer(question, solver, limits, notes=())
        if answer.status == "infeasible" and any(job.avoid == "price" for job in question.jobs):
            # with the slow nodes that each job would use alone they do not fit; together they may need more of them
            any_node = tuple(job.replace(avoid="ignore") if job.avoid == "price" else job for job in question.jobs)
            with_any = _answer(replace(question, jobs=any_node), solver, limits, notes=(SLOW_NEEDED,))
            # the jobs are again as they were asked for; what is claimed of all nodes stays true
            outcomes = []
            for j, outcome in enumerate(with_any.outcomes):
                assert outcome.proposal.nodes is not None
                job = question.sized(j, outcome.proposal.nodes)
                judged = judge(outcome.algorithm, question.seen_by(j), job, outcome.proposal)
                judged = replace(judged, gpus_per_node=outcome.gpus_per_node)
                outcomes.append(judged.after(with_any.stopped_at))
            answer = replace(with_any, outcomes=tuple(outcomes))
    if timer.late and answer.status != "infeasible":
        stopped_at = ended_at(limits.seconds)
        answer = replace(answer, stopped_at=stopped_at, notes=(*answer.notes, late_note(stopped_at)))
    return replace(answer, solve_seconds=stopwatch() - started)


def _answer(
    question: JointQuestion, solver: PlacementAlgorithm, limits: Limits, *, notes: tuple[str, ...]
) -> JointOutcome:
    end = clock() + (1.0 - LAST_SHARE) * limits.seconds
    alone: list[Outcome] = []
    count, seconds = len(question.jobs), ALONE_SHARE * limits.seconds
    alone_end = clock() + seconds
    for j, job in enumerate(question.jobs):
        limits.say(f"{job.name} alone")
        # one that takes long must not leave the others without time: a job without a proof leaves the sum without one
        part = replace(limits, seconds=max(seconds / (2 * count), (alone_end - clock()) / (count - j)))
        alone.append(run_on_its_levels(solver, question.seen_by(j), job, part))
    slowest = [slowest_allowed(question.seen_by(j), job, [alone[j]]) for j, job in enumerate(question.jobs)]
    classes = classify(question.cluster, question.jobs, slowest, seen=question.seen)
    misfits = [j for j, own in enumerate(alone) if own.status == "infeasible"]
    seconds = min(COUNT_SECONDS, limits.seconds)
    left_out = fewest_left_out(classes, question.weights, misfits=misfits, seconds=seconds)
    if left_out is not None and left_out.jobs:
        return _infeasible(question, classes, left_out, alone, solver=solver, limits=limits)
    unplaced = [job for job, own in zip(question.jobs, alone, strict=True) if own.evaluation is None]
    # what is not found alone may be found where each cell is decided
    if any(named_beside(question.cluster, job) is None for job in unplaced):
        reason = f"time ran out before {unplaced[0].name!r} was placed"
        return JointOutcome("timeout", reason=reason, notes=notes, stopped_at=ended_at(limits.seconds))
    limits.say("one after the other")
    orders = (range(count), range(count)[::-1])[:count]
    half = replace(limits, seconds=TURNS_SHARE * limits.seconds / 2)
    in_turns = [in_turn(question, order, solver, alone=dict(enumerate(alone)), limits=half) for order in orders]
    turns = tuple(result for result, _ in in_turns)
    best, start = min(in_turns, key=lambda turn: inf if turn[0].objective is None else turn[0].objective)
    search = JointSearch(question, classes, alone, solver)
    if best.objective is not None:
        search.found(start)
    search.run(limits, end)
    stopped_at = ended_at(limits.seconds) if search.out_of_time else None
    if not search.nodes:
        reason = "time ran out before all jobs were placed"
        if any(named_beside(question.cluster, job) is not None for job in question.jobs):
            reason = (
                "no placement of all jobs was found that keeps their constraints beside the tree, and none is ruled out"
            )
        return JointOutcome("timeout", turns=turns, reason=reason, notes=notes, stopped_at=stopped_at)
    limits.say("closer levels")
    jobs = [question.sized(j, nodes) for j, nodes in enumerate(search.nodes)]
    seated = seated_again(question, jobs, nodes=search.nodes, classes=classes)
    seated = _experts_together(question, jobs, seated, classes=classes, solver=solver, limits=limits)
    outcomes = tuple(_judged(question, j, nodes, alone[j]).after(stopped_at) for j, nodes in enumerate(seated))
    bound = search.bound if search.bound < search.cost - TOLERANCE else search.cost
    status: Status = "optimal" if bound == search.cost else "feasible"
    seen = [question.seen_by(j) for j in range(count)]
    if any(
        (its.slowdown[admissible(its, job)] > most).any()
        for its, job, most in zip(seen, question.jobs, slowest, strict=True)
    ):
        # what was searched are nodes as slow as each job has alone; on others no job does better than its own bound
        least = 0.0
        for j, (job, own) in enumerate(zip(question.jobs, alone, strict=True)):
            if own.bound is None or own.evaluation is None:
                fastest = max([1.0, *(speed.factor for speed in job.speed)])
                least += question.priced(j, trivial_bound(job), fastest)
            else:
                least += question.priced(j, own.bound, job.speed_on(own.evaluation.gpu_types))
        bound = min(bound, least)
        if bound < search.cost - TOLERANCE:
            notes = (*notes, SLOW_LEFT_OUT)
    return JointOutcome(status, outcomes, search.cost, bound, turns=turns, notes=notes, stopped_at=stopped_at)


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
    rest = [j for j in range(len(question.jobs)) if j not in left_out.jobs]
    # where counting is not enough, the others are placed one after the other, in the order given or in reverse
    part, own = replace(limits, seconds=TURNS_SHARE * limits.seconds), dict(enumerate(alone))
    fits = left_out.counted or not rest
    fits = fits or any(in_turn(question, order, solver, alone=own, limits=part)[1] for order in (rest, rest[::-1]))
    needed, usable = sum(job.grid.cells for job in question.jobs), int(classes.sizes.sum())
    why = next((alone[j].reason for j in left_out.jobs if alone[j].status == "infeasible"), "")
    if not why and needed > usable and not any(job.node_sizes for job in question.jobs):
        why = f"they need {needed} nodes together, and may use {usable}"
    elif not why:
        why = "there is no way to share the nodes out so that all keep their hard constraints, each on one type of GPU"
    names = ", ".join(question.jobs[j].name for j in left_out.jobs)
    at_least = f"at least {plural(len(left_out.jobs), 'job')} must be left out"
    reason = f"not all jobs fit at once; {f'without {names} the others do' if fits else at_least}: {why}"
    return JointOutcome("infeasible", left_out=left_out.jobs if fits else (), reason=reason)


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
    after = list(nodes)
    spread = [j for j, job in enumerate(jobs) if (evaluate(question.seen_by(j), job, nodes[j]).experts or 1) > 1]
    for j in spread:
        cluster = question.seen_by(j)
        now = evaluate(cluster, jobs[j], after[j])
        granted = classes.admitted(j) & (cluster.slowdown <= slowest_in_use(cluster, now))
        granted[after[j].ravel()] = True
        for other, held in enumerate(after):
            if other != j:
                granted[held.ravel()] = False
        part = replace(limits, seconds=max(LEAST_SECONDS, LAST_SHARE * limits.seconds / len(spread)), told="placement")
        again = run(solver, only(cluster, granted), jobs[j], part).proposal.nodes
        then = None if again is None else worth_of(cluster, jobs[j], again)
        if again is None or then is None or (then.experts or 1) >= (now.experts or 1):
            continue
        same_speed = jobs[j].speed_on(then.gpu_types) >= jobs[j].speed_on(now.gpu_types)
        if same_speed and then.objective <= now.objective + TOLERANCE:
            after[j] = again
    return after


def _judged(question: JointQuestion, j: int, nodes: IntArray, alone: Outcome) -> Outcome:
    """Return the outcome of one job: its placement beside the others, its bound that of the job alone."""
    cluster, job = question.seen_by(j), question.sized(j, nodes)
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


ANY_ORDER = 0.6  # Of the drawn orders that are any; the others are close to the best one


class OrderDraw:
    """Orders of some jobs, by number, none twice and neither that given nor its reverse."""

    def __init__(self, count: int, seed: int) -> None:
        own = tuple(range(count))
        self._own, self._random, self._known = own, Random(seed), {own, own[::-1]}
        self._best: tuple[float, tuple[int, ...]] = inf, own

    @property
    def over(self) -> bool:
        """Whether all orders were drawn."""
        return len(self._known) >= factorial(len(self._own))

    def draw(self) -> tuple[int, ...]:
        """Return a new order: any, or the best one with two jobs exchanged."""
        order = self._own
        while order in self._known:
            if self._best[0] == inf or self._random.random() < ANY_ORDER:
                order = tuple(self._random.sample(self._own, len(self._own)))
            else:
                exchanged = list(self._best[1])
                a, b = self._random.sample(self._own, 2)
                exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
                order = tuple(exchanged)
        self._known.add(order)
        return order

    def weigh(self, order: tuple[int, ...], objective: float) -> None:
        """Take in the sum that an order came to."""
        self._best = min(self._best, (objective, order))


def in_turn(
    question: JointQuestion,
    order: Sequence[int],
    solver: PlacementAlgorithm,
    *,
    alone: Mapping[int, Outcome],
    limits: Limits,
) -> tuple[TurnResult, list[IntArray]]:
    """Place the jobs of an order one after the other; of several jobs it may have a part.

    :param alone: what each job gets when it has the cluster for itself, for the first of the order.
    :returns: the result, and the nodes of each job in order of numbers, shape [rows, columns]; none when one is stuck.
    """
    names = tuple(question.jobs[j].name for j in order)
    busy, placed, end = list[int](), dict[int, IntArray](), clock() + limits.seconds
    for at, j in enumerate(order):
        seconds = max(LEAST_SECONDS, (end - clock()) / (len(order) - at))
        part = replace(limits, seconds=seconds)
        cluster = question.seen_by(j).with_busy(busy)
        outcome = run_on_its_levels(solver, cluster, question.jobs[j], part) if at else alone[j]
        if outcome.evaluation is None or outcome.proposal.nodes is None:
            return TurnResult(names, None, question.jobs[j].name), []
        placed[j] = outcome.proposal.nodes
        busy += placed[j].ravel().tolist()
    nodes = dict(sorted(placed.items()))
    objective = sum(question.cost(j, of_job) for j, of_job in nodes.items())
    return TurnResult(names, objective, None), list(nodes.values())


EFFORT = 5.0  # Of the search, in CP-SAT's deterministic time; whole numbers of nodes are shared out, which is quick


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Which jobs have to be left out."""

    jobs: tuple[int, ...]  # numbers; empty = all fit, as far as is counted
    counted: bool  # whether the others fit then; else there may be more of them


def fewest_left_out(
    classes: NodeClasses, weights: Sequence[float], *, misfits: Collection[int] = (), seconds: float
) -> LeftOut | None:
    """Return the smallest set of jobs without which the others fit, of equal ones that of least weight.

    Whether jobs fit is a matter of counting: whole blocks in every domain, each node once.  With hard constraints at
    second hierarchies each cell is decided; where these are too many, counting alone shows what does not fit.

    :param misfits: numbers of jobs that do not fit even alone.
    :returns: ``None`` = not settled in time.
    """
    making = TAKE_SECONDS * sum(np.count_nonzero(way.admits) for demands in classes.demands for way in demands)
    if making > seconds:
        return None
    spend(making)
    model = ShareModel(classes.sizes)
    parts = [model.add_job(demands, optional=True) for demands in classes.demands]
    model.share()
    for j in misfits:
        model.cp.add(parts[j].present == 0)
    by_cell, counted = ways_by_cell(classes.demands), True
    for j, part in enumerate(parts):
        for w, way in enumerate(part.ways):
            if way.demand.beside and (j, w) in by_cell:
                way.add_cells()
            elif way.demand.beside:
                counted = False
    # one job fewer outweighs any sum of ranks
    ranks = {weight: rank for rank, weight in enumerate(sorted(set(weights)))}
    many = len(weights) * len(weights) + 1
    out = sum((many + ranks[weight]) * (1 - part.present) for part, weight in zip(parts, weights, strict=True))
    answer, solver = model.least(out, Slice(EFFORT, seconds))
    if answer != "yes" or solver.best_objective_bound < solver.objective_value - 0.5:
        return None
    return LeftOut(tuple(j for j, part in enumerate(parts) if not solver.boolean_value(part.present)), counted)


MOST_SHAPES = 12  # Of one job in one program, the cheapest: dearer ones hardly ever win and cost time
MOST_ORDERS = 12  # Drawn in a row, one after the other: a tenth of a second each
ORDERS_SHARE = 0.2  # Most of the time that is left, for orders in a row
MOST_TOGETHER = 3  # Jobs that are laid out again at a time: as few are decided in tenths of a second
MOST_PACKS = 16  # Such choices of jobs in a row, of each number
SOME_EFFORT = 0.3  # Of each
SOME_SHARE = 0.3  # Most of the time that is left, for all in a row
PACK_EFFORT = 1.5  # Of laying shapes out, in CP-SAT's deterministic time, about seconds
BOUND_EFFORT = 3.0  # Of one round of the bound
BOUND_SHARE = 0.45  # Most of the time that is left, for each search of it
RUN_SECONDS = 1.0  # Of searching the share of one job in a round


class JointSearch:
    """What is known so far of one question; only gets better."""

    def __init__(
        self, question: JointQuestion, classes: NodeClasses, alone: Sequence[Outcome], solver: PlacementAlgorithm
    ) -> None:
        self.question, self.classes, self._solver = question, classes, solver
        self.nodes: list[IntArray] = []  # of each job in the best placement known; empty = none is known
        self.cost = inf  # of that placement
        # of each job alone, in the sum: no placement of all has a smaller one
        self.least = [self._bound_alone(j, outcome) for j, outcome in enumerate(alone)]
        self.bound = sum(self.least)
        self.out_of_time = False  # whether it ended without a proof, and more time could have found more
        self._limits, self._end, self._random = Limits(), inf, Random()
        self._alone, self._orders = alone, OrderDraw(len(alone), 0)
        self._order_seconds = 0.0  # that the last one took
        self._by_cell = ways_by_cell(classes.demands)
        self._seen = [SeenPlacements(question, j, classes, self._by_cell) for j in range(len(alone))]
        for seen, outcome in zip(self._seen, alone, strict=True):
            if outcome.proposal.nodes is not None:
                seen.learn(outcome.proposal.nodes)
        self._model: ShareModel | None = None  # the program of the bound, and the cost of each job in it
        self._costs: list[Variable] = []

    @property
    def proved(self) -> bool:
        """Whether no placement has a smaller sum."""
        return self.bound >= self.cost - TOLERANCE

    def found(self, nodes: Sequence[IntArray]) -> None:
        """Take in a placement of all jobs, no node twice, each weighed by the evaluator."""
        flat = np.concatenate([of_job.ravel() for of_job in nodes])
        cost = sum(self.question.cost(j, of_job) for j, of_job in enumerate(nodes))
        if cost == inf or len(np.unique(flat)) < len(flat):
            return
        for seen, of_job in zip(self._seen, nodes, strict=True):
            seen.learn(of_job)
        if cost < self.cost - TOLERANCE:
            self.nodes, self.cost = list(nodes), cost

    def run(self, limits: Limits, end: float) -> None:
        """Search until the sum is proved, nothing is left to try, or the clock reads ``end``."""
        self._limits, self._end, self._random = limits, end, Random(limits.seed)
        self._orders = OrderDraw(len(self._alone), self._limits.seed)
        seen, more, everyone, bounded = -1, True, range(len(self.question.jobs)), inf
        self._prove_alone()
        if not self.nodes:
            self._pack(everyone, PACK_EFFORT)
        self._more_orders()
        while not self.proved and clock() < self._end:
            # the less the best sum, the sooner nothing is left below it
            if more or self.cost < bounded:
                bounded, more = self.cost, self._round()
            if self.proved or clock() > self._end:
                break
            orders = self._more_orders()
            if (count := sum(map(len, self._seen))) > seen and not self.proved:
                seen = count
                self._limits.say("laying shapes out")
                self._pack(everyone, PACK_EFFORT)
                self._pack_some()
            if not orders and not more and self.cost >= bounded:
                break
        self.out_of_time = not self.proved and (self.out_of_time or clock() >= end)

    def _more_orders(self) -> bool:
        """Place the jobs one after the other in some new orders; return whether there was any."""
        until = clock() + ORDERS_SHARE * (self._end - clock())
        for count in range(MOST_ORDERS):
            if self.proved or (count and clock() > until):
                return count > 0
            started = clock()
            late = self._end - started < self._order_seconds
            self.out_of_time |= late and not self._orders.over
            if late or self._orders.over:
                return count > 0
            self._limits.say("another order")
            order, alone = self._orders.draw(), dict(enumerate(self._alone))
            limits = replace(self._limits, seconds=max(LEAST_SECONDS, self._end - started))
            result, nodes = in_turn(self.question, order, self._solver, alone=alone, limits=limits)
            self._order_seconds = clock() - started
            if result.objective is not None:
                self._orders.weigh(order, result.objective)
                self.found(nodes)
        return True

    def _pack_some(self) -> None:
        """Lay shapes of a few jobs out again, the others left where they are: all pairs, then more at a time."""
        count, until = len(self.question.jobs), clock() + SOME_SHARE * (self._end - clock())
        for few in range(2, min(MOST_TOGETHER, count - 1) + 1):
            several = list(combinations(range(count), few))
            for some in self._random.sample(several, min(MOST_PACKS, len(several))):
                if self.proved or clock() > until or not self.nodes:
                    return
                self._pack(some, SOME_EFFORT)

    def _prove_alone(self) -> None:
        """Search the jobs again whose bound alone is not proved: what is open there is open in the sum."""
        unproved = [j for j, outcome in enumerate(self._alone) if outcome.status != "optimal"]
        for place, j in enumerate(unproved):
            seconds = (self._end - clock()) / (2 * (len(unproved) - place))
            if self.proved or seconds < LEAST_SECONDS:
                self.out_of_time = True
                return
            # each on the nodes that it may have, as before
            again = self._run(j, only(self.question.seen_by(j), self.classes.admitted(j)), seconds)
            self.out_of_time |= again.stopped_at is not None
            if again.proposal.nodes is not None:
                self.least[j] = max(self.least[j], self._bound_alone(j, again))
                self._seen[j].learn(again.proposal.nodes)
        self.bound = max(self.bound, sum(self.least))

    def _run(self, j: int, cluster: Cluster, seconds: float) -> Outcome:
        return run_on_its_levels(self._solver, cluster, self.question.jobs[j], replace(self._limits, seconds=seconds))

    def _bound_alone(self, j: int, alone: Outcome) -> float:
        if (least := least_alone(self.question, j, alone)) is not None:
            return least
        fastest = max(demand.fastest for demand in self.classes.demands[j])
        return self.question.priced(j, trivial_bound(self.question.jobs[j]), fastest)

    def _pack(self, moving: Sequence[int], effort: float) -> None:
        """Lay shapes of some jobs out, the least sum, and seat what is better than the best placement known.

        :param moving: numbers of the jobs; all others stay where they are. Of all, where no placement is known.
        """
        if clock() >= self._end:
            self.out_of_time = True
            return
        question, free = self.question, self.classes.class_of >= 0
        for nodes in (nodes for j, nodes in enumerate(self.nodes) if j not in moving):
            free[nodes.ravel()] = False
        model, costs = ShareModel(self.classes.count(free)), []
        for j in moving:
            part = model.add_job(self.classes.demands[j])
            costs.append(self._seen[j].offer(part, most=self._most(j), count=MOST_SHAPES))
        model.share()
        if self.nodes:
            model.cp.add(sum(costs) < question.whole(sum(question.cost(j, self.nodes[j]) for j in moving)))
        answer, solver = model.least(sum(costs), Slice(effort, self._end - clock(), light=True))
        if answer != "yes":
            return
        shares = [taken(part, solver) for part in model.parts]
        grants = disjoint_grants(question.cluster, self.classes, shares, free=free)
        after = list(self.nodes) or [np.empty(0, dtype=np.int32)] * len(moving)
        for j, part, granted in zip(moving, model.parts, grants, strict=True):
            chosen = part.chosen(solver)
            placed = placed_as_in(question.seen_by(j), chosen, solver, classes=self.classes, granted=granted)
            assert placed is not None
            after[j] = placed
        self.found(after)

    def _most(self, j: int) -> int | None:
        """Return what a job costs at most where the sum is less than that of the best placement known."""
        return None if self.cost == inf else self.question.whole(self.cost - sum(self.least) + self.least[j])

    def _round(self) -> bool:
        """Raise the bound by its program, and search the shares of nodes that it is reached with; return whether there
        is more to try.

        With little presolve most is decided in tenths of a second.  That there is nothing better a second search has to
        say too, as false answers of one alone have been reported.
        """
        question = self.question
        if self._model is None:
            model = self._model = ShareModel(self.classes.sizes)
            for j, demands in enumerate(self.classes.demands):
                part, least = model.add_job(demands), question.whole(self.least[j])
                cost = bounded_cost(question, j, part, least=least, most=self._most(j), by_cell=self._by_cell)
                self._costs.append(cost)
            model.share()
        self._limits.say("raising the bound")
        model, total = self._model, sum(self._costs)
        if self.cost < inf:
            # no other placement is of use
            model.cp.add(total < question.whole(self.cost))
        wall = BOUND_SHARE * (self._end - clock())
        answer, solver = model.least(total, Slice(BOUND_EFFORT, wall, light=True, bounding=True))
        if answer != "yes":
            doubted = answer == "no"
            if not doubted:
                self._raise(solver.best_objective_bound)
            wall, linear = BOUND_SHARE * (self._end - clock()), 2 if doubted else 1
            again = Slice(BOUND_EFFORT, wall, seed=1, linearization=linear, light=doubted, bounding=True)
            answer, solver = model.least(total, again)
        self.out_of_time |= model.out_of_time
        if answer != "no":
            self._raise(solver.best_objective_bound)
        elif self.cost < inf:
            self._raise(question.whole(self.cost))
        if answer != "yes" or self.proved or clock() > self._end:
            return False
        seen, before = sum(map(len, self._seen)), self.cost
        excluded = self._search_shares(model, solver)
        return excluded or sum(map(len, self._seen)) > seen or self.cost < before

    def _raise(self, least: float) -> None:
        """Take in a bound of the program; costs are whole numbers, so is their sum."""
        self.bound = max(self.bound, min(self.cost, ceil(least - WHOLE) / self.question.scale))

    def _search_shares(self, model: ShareModel, solver: Solution) -> bool:
        """Search the share of each job, with all that is left besides; return whether any was proved to be dearer than
        the program thought, and is excluded from it.
        """
        question, excluded = self.question, False
        shares = [taken(part, solver) for part in model.parts]
        free: BoolArray = self.classes.class_of >= 0
        nodes: list[IntArray] = []
        for j, (job, part) in enumerate(zip(question.jobs, model.parts, strict=True)):
            if clock() > self._end:
                return excluded
            cluster = question.seen_by(j)
            later = last_of_each(cluster, self.classes, free, sum(shares[j + 1 :], Counter()))
            granted = free & self.classes.admitted(j) & ~later
            cost = int(solver.value(self._costs[j]))
            # as it is in the solution, if that has the cost that the program thinks
            placed = placed_as_in(cluster, part.chosen(solver), solver, classes=self.classes, granted=granted)
            if placed is not None:
                reached = question.cost(j, placed)
                placed = placed if reached < inf and question.whole(reached) <= cost else None
            if placed is None:
                seconds = max(LEAST_SECONDS, min(RUN_SECONDS, (self._end - clock()) / (len(shares) - j)))
                there = self._run(j, only(cluster, granted), seconds)
                if there.evaluation is None or there.proposal.nodes is None or there.bound is None:
                    return excluded
                placed = there.proposal.nodes
                least = question.whole(question.priced(j, there.bound, job.speed_on(there.evaluation.gpu_types)))
                if least > cost:
                    part.exclude(self.classes.count(granted), cost=self._costs[j], least=least)
                    excluded = True
            self._seen[j].learn(placed)
            nodes.append(placed)
            free = free.copy()
            free[placed.ravel()] = False
        self.found(nodes)
        return excluded
