"""What a gang that waits may hope for: when it starts, and who would have to be stopped so that it starts now.

Both are what ``arnold explain --when`` and ``--stop`` say (:mod:`scheduler.start_times`), of the nodes that its pods
can use and that are reserved for nobody else.  Pods say how long they run at most, or ended gangs tell it; of others no
end is known.  Those that wait before it are counted, and not foreseen.  Whoever has a lower priority may be stopped,
unless it says that it may not (``arnold.dev/preemptible: "false"``), and for a gang that preempts at all.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, inf

from extender.cluster_cache import ClusterCache
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import EXPECTED_DURATION
from extender.objects import DISRUPTED
from extender.planner.question import Asked, question_of
from extender.plans.gang_plan import NO_PLAN, PlanPhase
from extender.queue_views import FleetState, unevictable, waiting_gang
from extender.texts import clip
from ground.errors import ArnoldError, few
from ground.quantities import HOUR, MINUTE, plural
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.dispatch import live_candidate
from scheduler.queue.policy import QueuePolicy
from scheduler.start_times import StartTimes, StopProposal, start_times, whom_to_stop
from scheduler.work_clock import on_clock
from topology.cluster import Cluster
from topology.kubernetes.objects import instant
from topology.kubernetes.pods import Pod
from topology.running_jobs import LiveJob

LATE = timedelta(seconds=60)  # after the end of its grace a pod that is not gone is taken to stay
BUDGET = 0.5  # seconds for one gang: it is for people, and planning has the processor
_LIMITS = Limits(seconds=0.2, workers=1, told="placement")


@dataclass(frozen=True)
class OutlookQuestion:
    """A gang that waits, and all that has nodes."""

    key: GangKey
    priority: int
    asked: Asked
    cluster: Cluster  # of these nodes those that are not reserved for others
    running: tuple[LiveJob, ...]  # on these
    stops: bool  # whether it is asked who could be stopped
    evicted: bool  # whether pods that were evicted from these nodes are about to leave them
    ahead: int  # gangs that wait and come before it
    now: datetime


def outlook_question(
    state: ClusterCache,
    gang: Gang,
    now: datetime,
    policy: QueuePolicy,
    *,
    preempts: bool,
    spared: Collection[GangKey] = (),
) -> OutlookQuestion | None:
    """Return what to ask about a complete gang without nodes; ``None`` = the solver cannot be asked about it.

    :param preempts: whether others of lower priority may be stopped for it.
    :param spared: those that are not to be stopped for now, beside those that disruption budgets keep.
    """
    fleet_state, waiting = FleetState(state, now), waiting_gang(state, gang)
    asked = question_of(state, gang, now, live_candidate(policy, waiting, fleet_state))
    if not isinstance(asked, Asked) or (cluster := asked.unreserved) is None:
        return None
    hosts, running, spared = asked.table.hosts, [], unevictable(state).union(spared)
    for entry in fleet_state.running:
        nodes = tuple(name for row in entry.places if (name := hosts[row].name) in cluster.index_of)
        elsewhere = policy.sharing and entry.key.namespace != gang.key.namespace  # where priority counts for nothing
        if nodes:
            ends = None if entry.ends == inf else entry.ends
            job = LiveJob(
                str(entry.key), nodes, "", gpus=entry.gpus, priority=entry.priority,
                preemptible=not (entry.protected or elsewhere or entry.key in spared),
                started=entry.started, ends=ends, ends_by="" if ends is None else "time limit",
            )  # fmt: skip
            running.append(job)
    place, ahead = policy.rank(waiting), 0
    for plan in state.plans.values():
        other = state.gang(plan.key) if plan.phase is PlanPhase.QUEUED and plan.key != gang.key else None
        waits = other is not None and other.complete and plan.reason != NO_PLAN
        if other is not None and waits and plan.would_fit_if_empty is not False:
            ahead += policy.rank(waiting_gang(state, other)) < place
    preempts = preempts and all(pod.spec.preemption_policy != "Never" for pod in gang.needed_pods)
    evicted = any(pod.node in cluster.index_of and _being_evicted(pod, now) for pod in state.pods.values())
    return OutlookQuestion(gang.key, gang.priority, asked, cluster, tuple(running), preempts, evicted, ahead, now)


def _being_evicted(pod: Pod, now: datetime) -> bool:
    if not pod.leaving or now >= instant(pod.metadata.deletion_timestamp) + LATE:
        return False
    return any(found.type == DISRUPTED and found.status == "True" for found in pod.status.conditions or ())


def outlook(question: OutlookQuestion, stopping_limits: Limits = _LIMITS) -> tuple[str, StopProposal | None]:
    """Return when the gang starts, and whom to stop so that it does now, in a sentence; empty = there is room for it.

    Beside it whom to stop, where that is asked and makes room; for that there may be more time.

    It takes :data:`BUDGET` seconds, and some fractions that end what was begun.
    """
    cluster, job, now = question.cluster, question.asked.job.replace(images=()), question.now.timestamp()
    solver = ALGORITHMS.load("exact")
    try:
        with on_clock("wall", BUDGET):
            starts = start_times(cluster, job, question.running, now=now, solver=solver, limits=_LIMITS)
        stopping, priority = None, question.priority
        if question.stops:
            with on_clock("wall", max(BUDGET, stopping_limits.seconds)):
                stopping = whom_to_stop(
                    cluster, job, question.running, now=now, solver=solver, limits=stopping_limits, priority=priority
                )
    except ArnoldError:
        return "", None
    if starts.earliest <= now and starts.now.evaluation is not None:
        return "", None
    if stopping is not None and (not stopping.jobs or stopping.outcome.evaluation is None):
        stopping = None
    words = _when(starts, question, now)
    if stopping is not None:
        told = {
            other.name: f" ({plural(len(other.nodes), 'node')}, priority {other.priority or 0:g})"
            for other in stopping.jobs
        }
        words += f"; stopping {_names(told, question, told)} would start it now"
    return words, stopping


def _when(starts: StartTimes, question: OutlookQuestion, now: float) -> str:
    if starts.p10 == inf:
        return f"when it starts cannot be told, as nobody says when those end that have its nodes ({EXPECTED_DURATION})"
    low, high = _span(starts.p10 - now), _span(starts.p90 - now)
    span = f" in {low} to {high}"
    if starts.p90 == inf:
        span = f" in {low} or later"
    elif low == high:
        span = f" in {low}"
    elif low.split()[1] == high.split()[1]:
        span = f" in {low.split()[0]} to {high}"
    if starts.p90 - now < 1.0:
        span = " at any time"  # those that have its nodes are past the ends that they said
    others = f", if those before it take other nodes: {plural(question.ahead, 'gang')}" if question.ahead else ""
    ends = "ends" if len(starts.after) == 1 else "end"
    when = f" when {_names(starts.after, question)} {ends}" if starts.after else ""
    return f"starts{span}{when}{others}"


def _names(names: Iterable[str], question: OutlookQuestion, told: dict[str, str] | None = None) -> str:
    """Return gangs and pods as those of its own namespace call them."""
    own = f"{question.key.namespace}/"
    return few(
        f"{'' if name.removeprefix(own).startswith('pod/') else 'gang '}{clip(name.removeprefix(own))}"
        f"{(told or {}).get(name, '')}"
        for name in names
    )


def _span(seconds: float) -> str:
    """Return a time to wait, in minutes, or from three hours on in hours."""
    if seconds == inf:
        return ""
    return f"{ceil(seconds / MINUTE)} min" if seconds < 3 * HOUR else f"{ceil(seconds / HOUR)} h"
