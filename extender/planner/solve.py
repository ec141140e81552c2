"""The questions put to the solver and the evaluator of ``arnold place``: plans of gangs, zones of reservations.

The zone of a reservation is what the solver would choose on the empty cluster (Algorithm 1).  It is chosen once: when
nodes of it are lost, they alone are replaced, if that is possible: the others may have been emptied with patience.
"""

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet.images import pulling
from extender.fleet.table import NOWHERE, Own
from extender.gangs.job import nodes_of_pods
from extender.gangs.types import GangKey, InvalidGang
from extender.kubernetes_names import EXPECTED_DURATION, PREEMPTIBLE
from extender.planner.question import Asked, NotAsked, PlanningCase, Question, RepairedPlan, levels_counted, placed_in
from extender.plans.gang_plan import NO_PLAN, WEIGHED, GangPlan, PlanPhase, PlanSpec, uids_of, with_doubts
from extender.plans.reservation import Reservation
from extender.queue_views import UsableRows
from extender.texts import named
from ground.errors import ArnoldError, Infeasible, few
from scheduler.algorithm_run import fits, judge, run
from scheduler.explanation import enough_to_free, shares
from scheduler.grid import filling
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

logger = logging.getLogger(__name__)
_FITS_SHARE = 0.2  # part of the time limit that each of the questions behind a refusal may take
_LIMITS = Limits()


@dataclass(frozen=True)
class Answer:
    """What came of a question."""

    key: GangKey
    placed: bool  # whether there is a placement
    # placed: phase Planned (expires is left to its writer), or of a repair the phase before, with the new nodes.
    # Otherwise phase Queued with the reason, or of a repair the plan before with condition Healthy false
    plan: GangPlan
    moved: tuple[int, ...] = ()  # of a repair, ranks that have another node now
    # of a gang that has no room, the nodes that it could use if the cluster were empty; None when it would not fit even
    # then
    usable: UsableRows | None = field(default=None, compare=False)


def answer_to(question: Question, limits: Limits = _LIMITS) -> Answer:
    """Answer a question; why there is no placement becomes the plan's reason and is never raised."""
    if isinstance(question, NotAsked):
        return _unplaced(question, question.why)
    try:
        return solve(question, limits)
    except ArnoldError as error:
        return _unplaced(question, str(error))
    except Exception as error:
        logger.exception("a bug in Arnold; the others are planned", extra={"gang": str(question.case.gang.key)})
        return _unplaced(question, f"a bug in Arnold: {error!r}\nTo fix: report it, with the log of the extender")


def solve(question: Asked, limits: Limits) -> Answer:
    """Ask the solver, or raise ``ArnoldError``: it has no placement to offer, or no other nodes."""
    if question.repair is not None:
        return _repaired(question, question.repair, limits)
    case, job, cluster = question.case, question.job, question.cluster
    check_held_together(cluster, within_the_tree(cluster, job))
    if question.chosen:
        job = _on_chosen_nodes(question)
    notes = list[str]()
    for attempt in question.attempts:
        outcome = run(ALGORITHMS.load("exact"), attempt, job, limits)
        if question.chosen:
            best, outcome = outcome.evaluation, _as_chosen(question, attempt, job, outcome)
            if best is not None:
                notes = [
                    f"on the nodes that its pods select; the best of all that are free has spread {best.dp}/{best.pp}"
                ]
        if outcome.evaluation is not None:
            break
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        if not question.chosen:
            return _no_room(question, outcome, limits)
        # it cannot have the nodes that its pods select: now, or ever
        later = _as_chosen(question, cluster.emptied(), job, outcome).evaluation is not None
        fix = f"{'wait, or ' if later else ''}{_LET_GO}"
        why = f"its pods select their nodes, and cannot have them: {outcome.reason}\nTo fix: {fix}"
        answer = _unplaced(question, why, reason="NoRoom" if later else "", fits_empty=later)
        rows = np.array([question.table.index_of[name] for name in question.chosen])
        return replace(answer, usable=_usable(question, rows) if later else None)
    evaluation = outcome.evaluation
    job = job.replace(gpus_per_node=outcome.gpus_per_node or job.gpus_per_node, node_sizes=())
    if job.nodes_of_tp == 1:  # a level was named for nodes of another size
        job = job.replace(tp_level=question.of_pods.tp_level)
    names, pods = by_rank(cluster, job, outcome.proposal.nodes), uids_of(case.gang)
    pods_per_node = job.gpus_per_node // question.of_pods.gpus_per_node
    notes += [f"uses {len(evaluation.flagged)} flagged nodes"] if evaluation.flagged else []
    if outcome.step is not None and outcome.status == "optimal" and outcome.gap:
        notes.append(f"of the nodes that it may have, slow ones among them: {outcome.step.in_words}")
    if len({choice.gpu_types for choice in outcome.types}) > 1 or job.gpu_types is not None:
        notes += [f"on GPUs of the type {in_words(choice.gpu_types)}" for choice in outcome.types if choice.chosen]
    notes += pulling(cluster, job, outcome.proposal.nodes)
    if pods_per_node > 1:
        notes.append(f"{pods_per_node} pods on each node of {job.gpus_per_node} GPUs")
    notes += filling(job.parallelism.dense, job.gpus_per_node)
    plan = _base(question, job).with_worth(evaluation, answer=outcome)
    nodes = nodes_of_pods(names, len(pods), pods_per_node)
    plan = plan.replace(phase=PlanPhase.PLANNED, nodes=nodes, pods=pods, pods_per_node=pods_per_node)
    plan = plan.replace(reason="Planned", message="; ".join(notes), would_fit_if_empty=None)
    return Answer(case.gang.key, True, plan.with_condition("Planned", True, "Planned", plan.message, case.now))


_LET_GO = "take kubernetes.io/hostname out of the nodeSelector of its pods, then Arnold chooses"


def _on_chosen_nodes(question: Asked) -> Job:
    """Return the job on nodes of the size of those that its pods select, or raise ``Infeasible``: these cannot be."""
    cluster, chosen, pods = question.cluster, question.chosen, question.of_pods.gpus_per_node
    if away := [name for name in dict.fromkeys(chosen) if name not in cluster.index_of]:
        message = f"its pods select nodes that are none of those that they can use: {named(away)}"
        raise Infeasible(f"{message}{f' ({question.left_out})' if question.left_out else ''}", fix=_LET_GO)
    gpus = int(cluster.gpus[cluster.index_of[chosen[0]]])
    if gpus % pods or any(len({*chosen[i : i + gpus // pods]}) > 1 for i in range(0, len(chosen), gpus // pods)):
        message = f"its pods select nodes otherwise than {gpus // pods} consecutive ranks to a node of {gpus} GPUs"
        raise Infeasible(message, fix=_LET_GO)
    return question.job.replace(gpus_per_node=gpus, node_sizes=())


def _as_chosen(question: Asked, cluster: Cluster, job: Job, best: Outcome) -> Outcome:
    """Return the nodes that the gang's pods select, weighed by what is proved of the best ones."""
    nodes = by_cell(cluster, job, question.chosen[:: job.gpus_per_node // question.of_pods.gpus_per_node])
    return judge(best.algorithm, cluster, job, replace(best.proposal, nodes=nodes, in_order=True))


def _base(question: Question, job: Job | None) -> GangPlan:
    """Return the plan before, or a new one, of a complete gang, with what is asked now."""
    case, gang = question.case, question.case.gang
    plan = with_doubts(case.before or GangPlan(gang.key, PlanPhase.QUEUED), gang, case.now)
    plan = plan.with_condition("Complete", True, "Complete", "", case.now)
    if isinstance(question, NotAsked) or job is None:
        spec = plan.spec.replace(dialect=gang.dialect, size=gang.size, priority=gang.priority)
    else:
        of_pods = job.replace(gpus_per_node=question.of_pods.gpus_per_node, node_sizes=())
        spec = PlanSpec.of(of_pods, dialect=gang.dialect, priority=gang.priority)
    return plan.replace(spec=spec, bound_pods=0, estimate=case.estimate)


def by_rank(cluster: Cluster, job: Job, nodes: IntArray) -> tuple[str, ...]:
    """Return names of the nodes, shape [rows, columns], in the order of their ranks."""
    order = np.empty(job.grid.cells, dtype=np.int32)
    order[job.grid.node_rank.ravel()] = nodes.ravel()
    return tuple(cluster.names[i] for i in order)


def by_cell(cluster: Cluster, job: Job, nodes: Iterable[str]) -> IntArray:
    """Return indices of nodes, shape [rows, columns], from names in the order of their ranks."""
    cells: IntArray = np.array([cluster.index_of[name] for name in nodes], dtype=np.int32)[job.grid.node_rank]
    return cells


def _no_room(question: Asked, outcome: Outcome, limits: Limits) -> Answer:
    """Return why a gang has no room, and what would give it some."""
    candidate, offers = question.case.candidate, question.case.offers
    part = replace(limits, seconds=_FITS_SHARE * limits.seconds)
    cluster, job, solver = question.cluster, question.job.replace(images=()), ALGORITHMS.load("exact")
    # whether anything is kept from it even in the last attempt
    kept = not offers or (offers[-1] is not None and bool(offers[-1].any()))
    fits_now = kept and fits(cluster, job, solver=solver, limits=part)
    fits_empty = fits(cluster.emptied(), job, solver=solver, limits=part)
    if fits_now:
        why, fix = _kept_from_it(question.case)
        sentences = [f"it would fit, but {why}"]
        reason = "Reserved" if question.case.closed else "BehindOthers"
        if candidate is not None and candidate.emptying:
            reason = "ZoneNotClear"
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
            freed, enough = enough_to_free(cluster, job, solver=solver, limits=replace(part, told="placement"))
            if enough is not None:
                sentences.append(f"{len(freed)} nodes in use would have to be freed: {shares(cluster, job, freed)}")
        fix = "ask for fewer nodes (`arnold explain` says how few), or add some"
        if fits_empty is not False:
            fix = f"wait until nodes are free, or {fix}"
        reason = "TooLarge" if fits_empty is False else "NoRoom"
    answer = _unplaced(question, f"{'; '.join(sentences)}\nTo fix: {fix}", reason=reason, fits_empty=fits_empty)
    if fits_empty is False:
        return answer
    rows = question.rows[admissible(cluster.emptied(), job)]
    return replace(answer, usable=_usable(question, rows[rows >= 0]))


def _usable(question: Asked, rows: IntArray) -> UsableRows:
    mask = np.zeros(len(question.table.hosts), dtype=np.bool_)
    mask[rows] = True
    return UsableRows(question.table, mask)


def _kept_from_it(case: PlanningCase) -> tuple[str, str]:
    """Return for which gangs nodes are kept on which this one would fit, and what would change that."""
    candidate = case.candidate
    if candidate is not None and candidate.emptying:
        return "its reserved zone is being emptied for it", "wait: those that may be stopped are asked to go"
    if case.closed:
        zones = []
        for zone in case.closed:
            arrives = f"arrives {datetime.fromtimestamp(zone.arrives, UTC):%Y-%m-%dT%H:%M:%SZ}"
            zones.append(f"{zone.name} ({'due now' if zone.arrives <= case.now.timestamp() else arrives})")
        why = (
            f"only on nodes that are reserved for {', '.join(zones)}, and nobody says that it ends before that arrives"
        )
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


def _unplaced(question: Question, why: str, *, reason: str = "", fits_empty: bool | None = None) -> Answer:
    """Return the answer without a placement, the reason in its plan."""
    case = question.case
    if case.repairs and case.before is not None:
        plan = case.before.replace(message=why)
        return Answer(plan.key, False, plan.with_condition("Healthy", False, "CannotBeRepaired", why, case.now))
    plan = _base(question, question.job if isinstance(question, Asked) else None).without_nodes()
    plan = plan.replace(phase=PlanPhase.QUEUED, would_fit_if_empty=fits_empty)
    plan = plan.replace(reason=reason or NO_PLAN, message=why)
    return Answer(case.gang.key, False, plan.with_condition("Planned", False, plan.reason, why, case.now))


def _repaired(question: Asked, broken: RepairedPlan, limits: Limits) -> Answer:
    """Return a repair with the fewest moves, in which pods that run stay, or raise ``Infeasible``: no spares.

    Where its pods select their nodes, these are the repair.
    """
    job, now = question.job, question.case.now
    *first, last = question.attempts
    if question.chosen:
        _on_chosen_nodes(question)
        kept = {*broken.nodes} - {*broken.lost}
        plan = _with_worth(question, broken.plan.moved_to(question.chosen), last, limits, kept=kept)
    else:
        nodes = by_cell(question.cluster, job, broken.nodes)
        mended: Repair | None = None
        for attempt in first:
            with suppress(Infeasible):
                mended = repair(attempt, job, nodes, broken.lost, limits=limits)
                break
        mended = mended or repair(last, job, nodes, broken.lost, limits=limits)
        plan = broken.plan.moved_to(by_rank(question.cluster, job, mended.nodes))
        plan = plan.with_worth(mended.after, answer=mended)
    ranks = enumerate(zip(broken.plan.nodes, plan.nodes, strict=True))
    moved = tuple(rank for rank, (old, new) in ranks if old != new)
    if question.chosen and not moved:
        why = "its pods select their nodes: no rank can have another"
        raise Infeasible(why, fix="delete all its pods, or wait until those of lost nodes select others")
    if running := [rank for rank in moved if rank in broken.fixed]:
        why = f"pods that run would have to move: rank {few(running)}; delete the gang's pods to move all"
        return _unplaced(question, why)
    plan = plan.unweighed(now) if broken.guessed & {*plan.node_names} else plan
    moves = f"{len(moved)} of {len(plan.nodes)} ranks have another node"
    return Answer(plan.key, True, plan.with_condition("Healthy", True, "Repaired", moves, now), moved)


def weigh(question: Question, limits: Limits) -> GangPlan:
    """Return the plan of a question with what its nodes are worth, and how far that is from the best of these and all
    that are free; without, where it cannot be told.
    """
    plan = question.case.before
    assert plan is not None
    if isinstance(question, NotAsked) or question.repair is None:
        return plan.without_condition(WEIGHED)
    if question.repair.guessed:
        return plan.unweighed(question.case.now)
    try:
        return _with_worth(question, plan, question.cluster, limits, kept={*plan.node_names})
    except ArnoldError:
        return plan.without_condition(WEIGHED)


def _with_worth(
    question: Asked, plan: GangPlan, cluster: Cluster, limits: Limits, *, kept: AbstractSet[str]
) -> GangPlan:
    """Return a plan with what its nodes are worth, beside the best of these and all that are free.

    :param kept: nodes on which pods may stay, whatever is said of them.
    :raises ArnoldError: these nodes cannot be had.
    """
    assert question.repair is not None
    job, own = question.job, [cluster.index_of[name] for name in question.repair.nodes]
    free = cluster.free_gpus.copy()
    free[own] = cluster.gpus[own]
    flags = {node: flag for node, flag in cluster.flags.items() if cluster.names[node] not in kept}
    cluster = cluster.replace(free_gpus=free, flags=flags)
    worth = evaluate(cluster, job, by_cell(cluster, job, plan.node_names))
    best = run(ALGORITHMS.load("exact"), cluster, job, limits)
    weighed = best.weighed(best.proposal, worth, trivial_bound(job) if best.bound is None else best.bound)
    return plan.with_worth(worth, answer=weighed)


@dataclass(frozen=True)
class ZoneQuestion:
    """A reservation that wants a zone, or other nodes in its zone."""

    reservation: Reservation
    job: Job
    cluster: Cluster  # the nodes that the gang's pods may use; nothing of it in use but the zones of other reservations
    taken: tuple[int, ...]  # nodes of these
    lost: tuple[str, ...]  # nodes of the zone that it cannot have any more


def zone_question(
    state: ClusterCache, reservation: Reservation, lost: Sequence[str], now: datetime
) -> ZoneQuestion | Reservation:
    """Return what to ask about a reservation with a job that is understood; or that without a zone, and the reason."""
    job = reservation.understanding
    assert isinstance(job, Job)
    try:
        job = placed_in(job, (), state.fleet)
    except InvalidGang as error:
        return reservation.without_zone(str(error))
    own = Own(reservation.zone, job.gpus_per_node, {}) if lost else NOWHERE
    view = state.fleet.view(frozenset((reservation.demand,)), now, counted=levels_counted(job), pods=1, own=own)
    if view.cluster is None:
        others = f": {view.counted_out}" if view.left_out else ""
        return reservation.without_zone(f"no node with GPUs can be used{others}")
    zones = (other.zone for other in state.reservations.values() if other.held and other.key != reservation.key)
    others_nodes = {name for zone in zones for name in zone}
    taken = tuple(i for i, name in enumerate(view.cluster.names) if name in others_nodes)
    return ZoneQuestion(reservation, job, view.cluster, taken, tuple(lost))


def find_zone(question: ZoneQuestion | Reservation, limits: Limits) -> Reservation:
    """Return the reservation with its zone and what the gang will be worth there, or with the reason as its message."""
    if isinstance(question, Reservation):
        return question
    reservation, job, cluster = question.reservation, question.job, question.cluster
    empty = cluster.emptied().with_busy(question.taken)
    try:
        if question.lost:
            # other nodes in place of those that are lost, if there are any
            with suppress(ArnoldError):
                mended = repair(empty, job, by_cell(cluster, job, reservation.zone), question.lost, limits=limits)
                zoned = reservation.replace(zone=by_rank(cluster, job, mended.nodes), message="")
                return zoned.with_worth(mended.after, answer=mended)
        outcome = place_zone(cluster, job, algorithm=ALGORITHMS.load("exact"), limits=limits, taken=question.taken)
    except ArnoldError as error:
        return reservation.without_zone(str(error))
    evaluation, nodes = outcome.evaluation, outcome.proposal.nodes
    if evaluation is None or nodes is None:
        return reservation.without_zone(shortage(empty, job) or outcome.reason)
    zoned = reservation.replace(zone=by_rank(cluster, job, nodes), message="")
    return zoned.with_worth(evaluation, answer=outcome)
