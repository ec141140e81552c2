"""The questions put to the solver and the evaluator of ``arnold place``: plans of gangs, zones of reservations.

The zone of a reservation is what the solver would choose on the empty cluster (Algorithm 1).  It is chosen once: when
nodes of it are lost, they alone are replaced, if that is possible: the others may have been emptied with patience.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet.images import pulling
from extender.fleet.table import NOWHERE, Own
from extender.gangs.job import nodes_of_pods
from extender.gangs.types import InvalidGang
from extender.kubernetes_names import EXPECTED_DURATION, PREEMPTIBLE
from extender.planner.question import Question, levels_counted, placed_in
from extender.planner.round import Answer
from extender.plans.gang_plan import NO_PLAN, WEIGHED, GangPlan, PlanPhase, PlanSpec, uids_of, with_doubts
from extender.plans.reservation import Reservation
from extender.queueing import UsableRows
from ground.errors import ArnoldError, Infeasible
from scheduler.algorithm_run import fits, run
from scheduler.explanation import nodes_to_free, shares
from scheduler.job import Job
from scheduler.job_on_cluster import within_the_tree
from scheduler.objective import evaluate, trivial_bound
from scheduler.outcome import Outcome
from scheduler.placement.admission import admissible, check_held_together, shortage
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.arnold import place_zone
from scheduler.repair import Repair, repair
from scheduler.subproblems import in_words
from topology.cluster import Cluster, IntArray

_FITS_SHARE = 0.2  # part of the time limit that each of the questions behind a refusal may take
_LIMITS = Limits()


def solve(question: Question, limits: Limits = _LIMITS) -> Answer:
    """Ask the solver; why there is no placement becomes the plan's reason and is never raised."""
    try:
        return _mended(question, limits) if question.lost else _placed(question, limits)
    except ArnoldError as error:
        return _unplaced(question, str(error))


def _placed(question: Question, limits: Limits) -> Answer:
    job, cluster = question.job, question.cluster
    if question.refused or job is None or cluster is None:
        return _unplaced(question, question.refused)
    check_held_together(cluster, within_the_tree(cluster, job))
    for attempt in question.attempts:
        outcome = run(ALGORITHMS.load("exact"), attempt, job, limits)
        if outcome.evaluation is not None:
            break
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        return _no_room(question, cluster, job, outcome, limits)
    evaluation = outcome.evaluation
    job = job.replace(gpus_per_node=outcome.gpus_per_node or job.gpus_per_node, node_sizes=())
    if job.nodes_of_tp == 1:  # a level was named for nodes of another size
        job = job.replace(tp_level=question.of_pods.tp_level)
    names, pods = by_rank(cluster, job, outcome.proposal.nodes), uids_of(question.gang)
    pods_per_node = job.gpus_per_node // question.of_pods.gpus_per_node
    notes = [f"uses {len(evaluation.flagged)} flagged nodes"] if evaluation.flagged else []
    if outcome.step is not None and outcome.status == "optimal" and outcome.gap:
        notes.append(f"of the nodes that it may have, slow ones among them: {outcome.step.in_words}")
    if len({type_.gpu_types for type_ in outcome.types}) > 1 or job.gpu_types is not None:
        notes += [f"on GPUs of the type {in_words(type_.gpu_types)}" for type_ in outcome.types if type_.chosen]
    notes += pulling(cluster, job, outcome.proposal.nodes)
    if pods_per_node > 1:
        notes.append(f"{pods_per_node} pods on each node of {job.gpus_per_node} GPUs")
    plan = _base(question, job).with_worth(evaluation, bound=outcome.bound, gap=outcome.gap)
    nodes = nodes_of_pods(names, len(pods), pods_per_node)
    plan = plan.replace(phase=PlanPhase.PLANNED, nodes=nodes, pods=pods, pods_per_node=pods_per_node)
    plan = plan.replace(reason="Planned", message="; ".join(notes), would_fit_if_empty=None)
    plan = plan.with_condition("Planned", True, "Planned", plan.message, question.now)
    return Answer(question.gang.key, True, plan)


def _base(question: Question, job: Job | None) -> GangPlan:
    """Return the plan before, or a new one, of a complete gang, with what is asked now."""
    gang = question.gang
    plan = with_doubts(question.before or GangPlan(gang.key, PlanPhase.QUEUED), gang, question.now)
    plan = plan.with_condition("Complete", True, "Complete", "", question.now)
    if job is None:
        spec = plan.spec.replace(dialect=gang.dialect, size=gang.size, priority=gang.priority)
    else:
        of_pods = job.replace(gpus_per_node=question.of_pods.gpus_per_node, node_sizes=())
        spec = PlanSpec.of(of_pods, dialect=gang.dialect, priority=gang.priority)
    return plan.replace(spec=spec, bound_pods=0, estimate=question.estimate)


def by_rank(cluster: Cluster, job: Job, nodes: IntArray) -> tuple[str, ...]:
    """Return names of the nodes, shape [rows, columns], in the order of their ranks."""
    order = np.empty(job.grid.cells, dtype=np.int32)
    order[job.grid.node_rank.ravel()] = nodes.ravel()
    return tuple(cluster.names[i] for i in order)


def by_cell(cluster: Cluster, job: Job, nodes: Iterable[str]) -> IntArray:
    """Return indices of nodes, shape [rows, columns], from names in the order of their ranks."""
    order = np.array([cluster.index_of[name] for name in nodes], dtype=np.int32)
    found: IntArray = order[job.grid.node_rank]
    return found


def _no_room(question: Question, cluster: Cluster, job: Job, outcome: Outcome, limits: Limits) -> Answer:
    """Return why a gang has no room, and what would give it some."""
    part, job = replace(limits, seconds=_FITS_SHARE * limits.seconds), job.replace(images=())
    solver = ALGORITHMS.load("exact")
    fits_now = question.kept_from_it and fits(cluster, job, solver=solver, limits=part)
    fits_empty = fits(cluster.emptied(), job, solver=solver, limits=part)
    if fits_now:
        why, fix = _kept_from_it(question)
        sentences = [f"it would fit, but {why}"]
    else:
        lasting = cluster.subset(np.flatnonzero(~question.short).astype(np.int32)) if question.shortages else cluster
        sentences = [shortage(lasting, job) or outcome.reason]
        if question.shortages:
            sentences.append(f"nodes with free GPUs that have no room for its pods: {question.shortages}")
        if question.left_out:
            sentences.append(f"nodes that its pods cannot use: {question.left_out}")
        if fits_empty is False:
            sentences.append("it would not fit even if the cluster were empty")
        elif fits_empty:
            sentences.append("it fits if the cluster were empty")
            if len(freed := nodes_to_free(cluster, job)):
                sentences.append(f"{len(freed)} nodes in use would have to be freed: {shares(cluster, job, freed)}")
        fix = "ask for fewer nodes (`arnold explain` says how few), or add some"
        if fits_empty is not False:
            fix = f"wait until nodes are free, or {fix}"
    emptying = question.candidate is not None and question.candidate.emptying
    kept = "ZoneNotClear" if emptying else "Reserved" if question.closed else "BehindOthers"
    reason = kept if fits_now else "TooLarge" if fits_empty is False else "NoRoom"
    answer = _unplaced(question, f"{'; '.join(sentences)}\nTo fix: {fix}", reason=reason, fits_empty=fits_empty)
    if fits_empty is False or question.table is None:
        return answer
    rows = question.rows[admissible(cluster.emptied(), job)]
    mask = np.zeros(len(question.table.hosts), dtype=np.bool_)
    mask[rows[rows >= 0]] = True
    return replace(answer, usable=UsableRows(question.table, mask))


def _kept_from_it(question: Question) -> tuple[str, str]:
    """Return for which gangs nodes are kept on which this one would fit, and what would change that."""
    candidate = question.candidate
    if candidate is not None and candidate.emptying:
        return "its reserved zone is being emptied for it", "wait: those that may be stopped are asked to go"
    if question.closed:
        names = ", ".join(f"{one.name} ({_arrival(one.arrives, question.now)})" for one in question.closed)
        why = f"only on nodes that are reserved for {names}, and nobody says that it ends before that arrives"
        says = f"that it does ({EXPECTED_DURATION}), or that it may be stopped ({PREEMPTIBLE})"
        return why, f"wait, or say on all its pods {says}"
    ahead = () if candidate is None else candidate.ahead
    first = f"gang {ahead[0].key}" if ahead else "a gang"
    others = f"{first} is" if len(ahead) < 2 else f"{first} and {len(ahead) - 1} more are"
    if candidate is not None and not candidate.passing:
        return f"{others} before it, and nobody passes under this queue policy", "wait"
    fix = "wait for them, or give the gang a higher priority"
    if candidate is not None and candidate.outshared:
        fix = "wait: the namespace with fewer GPUs for its weight comes first"
    return f"{others} before it and could use the same nodes", fix


def _arrival(arrives: float, now: datetime) -> str:
    if arrives <= now.timestamp():
        return "due now"
    return f"arrives {datetime.fromtimestamp(arrives, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _unplaced(question: Question, why: str, *, reason: str = "", fits_empty: bool | None = None) -> Answer:
    """Return the answer without a placement, the reason in its plan."""
    key = question.gang.key
    if question.lost and question.before is not None:
        plan = question.before.replace(message=why)
        return Answer(key, False, plan.with_condition("Healthy", False, "CannotBeRepaired", why, question.now))
    plan = _base(question, question.job).without_nodes()
    plan = plan.replace(phase=PlanPhase.QUEUED, would_fit_if_empty=fits_empty)
    plan = plan.replace(reason=reason or NO_PLAN, message=why)
    return Answer(key, False, plan.with_condition("Planned", False, plan.reason, why, question.now))


def _repaired(question: Question, job: Job, nodes: IntArray, limits: Limits) -> Repair:
    """Return the repair under the first offer that has spares, or raise ``Infeasible``: none has."""
    *first, last = question.attempts
    for attempt in first:
        with suppress(Infeasible):
            return repair(attempt, job, nodes, question.lost, limits=limits)
    return repair(last, job, nodes, question.lost, limits=limits)


def _mended(question: Question, limits: Limits) -> Answer:
    """Return a repair with the fewest moves, in which pods that run stay."""
    job, cluster, before = question.job, question.cluster, question.before
    if question.refused or job is None or cluster is None or before is None:
        return _unplaced(question, question.refused)
    found = _repaired(question, job, by_cell(cluster, job, before.node_names), limits)
    plan = before.moved_to(by_rank(cluster, job, found.nodes))
    moved = tuple(rank for rank, (old, new) in enumerate(zip(before.nodes, plan.nodes, strict=True)) if old != new)
    if running := [rank for rank in moved if rank in question.fixed]:
        ranks = ", ".join(map(str, running[:5])) + (", ..." if len(running) > 5 else "")
        why = f"pods that run would have to move: rank {ranks}; delete the gang's pods to move all"
        return _unplaced(question, why)
    plan = plan.with_worth(found.after, bound=found.bound, gap=found.gap)
    plan = plan.unweighed(question.now) if question.guessed & {*plan.nodes} else plan
    moves = f"{len(moved)} of {len(plan.nodes)} ranks have another node"
    return Answer(question.gang.key, True, plan.with_condition("Healthy", True, "Repaired", moves, question.now), moved)


def weigh(question: Question, limits: Limits) -> GangPlan:
    """Return the plan of a question with what its nodes are worth, and how far that is from the best of these and all
    that are free; without, where it cannot be told.
    """
    job, cluster, plan = question.job, question.cluster, question.before
    assert plan is not None
    if job is None or cluster is None or question.guessed:
        return plan.unweighed(question.now) if question.guessed else plan.without_condition(WEIGHED)
    own, free = [cluster.index_of[name] for name in plan.node_names], cluster.free_gpus.copy()
    free[own] = cluster.gpus[own]
    flags = {node: flag for node, flag in cluster.flags.items() if node not in own}
    cluster = cluster.replace(free_gpus=free, flags=flags)
    try:
        worth = evaluate(cluster, job, by_cell(cluster, job, plan.node_names))
        best = run(ALGORITHMS.load("exact"), cluster, job, limits)
    except ArnoldError:
        return plan.without_condition(WEIGHED)
    found = best.weighed(best.proposal, worth, trivial_bound(job) if best.bound is None else best.bound)
    return plan.with_worth(worth, bound=found.bound, gap=found.gap)


@dataclass(frozen=True)
class ZoneQuestion:
    """A reservation that wants a zone, or other nodes in its zone."""

    reservation: Reservation
    job: Job | None = None
    # the nodes that the gang's pods may use; nothing of it in use but the zones of other reservations
    cluster: Cluster | None = None
    taken: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()  # nodes of the zone that it cannot have any more
    refused: str = ""  # why the solver need not be asked


def zone_question(state: ClusterCache, reservation: Reservation, lost: Sequence[str], now: datetime) -> ZoneQuestion:
    """Return what to ask about a reservation with a job that is understood."""
    question = ZoneQuestion(reservation, lost=tuple(lost))
    job = reservation.understanding
    assert isinstance(job, Job)
    try:
        job = placed_in(job, (), state.fleet)
    except InvalidGang as error:
        return replace(question, refused=str(error))
    own = Own(reservation.zone, job.gpus_per_node, {}) if lost else NOWHERE
    view = state.fleet.view(frozenset((reservation.demand,)), now, counted=levels_counted(job), pods=1, own=own)
    if view.cluster is None:
        others = f": {view.counted_out}" if view.left_out else ""
        return replace(question, refused=f"no node with GPUs can be used{others}")
    others_zones = {
        name for one in state.reservations.values() if one.held and one.key != reservation.key for name in one.zone
    }
    taken = tuple(i for i, name in enumerate(view.cluster.names) if name in others_zones)
    return replace(question, job=job, cluster=view.cluster, taken=taken)


def find_zone(question: ZoneQuestion, limits: Limits) -> Reservation:
    """Return the reservation with its zone and what the gang will be worth there, or with the reason as its message."""
    reservation, job, cluster = question.reservation, question.job, question.cluster
    if job is None or cluster is None:
        return _without_zone(reservation, question.refused)
    try:
        if question.lost:
            with suppress(ArnoldError):
                return _mended_zone(question, cluster, job, limits)
        outcome = place_zone(cluster, job, algorithm=ALGORITHMS.load("exact"), limits=limits, taken=question.taken)
    except ArnoldError as error:
        return _without_zone(reservation, str(error))
    evaluation, nodes = outcome.evaluation, outcome.proposal.nodes
    if evaluation is None or nodes is None:
        empty = cluster.emptied().with_busy(question.taken)
        return _without_zone(reservation, shortage(empty, job) or outcome.reason)
    zoned = reservation.replace(zone=by_rank(cluster, job, nodes), message="")
    return zoned.with_worth(evaluation, bound=outcome.bound, gap=outcome.gap)


def _mended_zone(question: ZoneQuestion, cluster: Cluster, job: Job, limits: Limits) -> Reservation:
    """Return the zone with other nodes in place of those that are lost."""
    before = question.reservation
    empty = cluster.emptied().with_busy(question.taken)
    found = repair(empty, job, by_cell(cluster, job, before.zone), question.lost, limits=limits)
    zoned = before.replace(zone=by_rank(cluster, job, found.nodes), message="")
    return zoned.with_worth(found.after, bound=found.bound, gap=found.gap)


def _without_zone(reservation: Reservation, why: str) -> Reservation:
    return reservation.without_worth().replace(zone=(), message=why)
