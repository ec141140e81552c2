"""The zone of a reservation: the nodes that the solver would choose on the empty cluster (Algorithm 1).

It is chosen once.  When nodes of it are lost, they alone are replaced, if that is possible: the others may have been
emptied with patience.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from extender.cluster_cache import ClusterCache
from extender.fleet.gang_view import Own
from extender.gangs.types import InvalidGang
from extender.planner.question import placed_in
from extender.planner.solve import by_cell, by_rank
from extender.plans.reservation import Reservation
from scheduler.job import Job
from scheduler.placement.admission import shortage
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.arnold import place_zone
from scheduler.repair import repair
from topology.cluster import Cluster
from topology.errors import ArnoldError


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
    counted = frozenset((job.level or "", *(hold.level for hold in job.holds)))
    own = Own(reservation.zone, job.gpus_per_node, {}) if lost else None
    view = state.fleet.view(frozenset((reservation.demand,)), now, counted=counted, own=own)
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
                return _mended(question, cluster, job, limits)
        outcome = place_zone(cluster, job, algorithm=ALGORITHMS.load("exact"), limits=limits, taken=question.taken)
    except ArnoldError as error:
        return _without_zone(reservation, str(error))
    evaluation, nodes = outcome.evaluation, outcome.proposal.nodes
    if evaluation is None or nodes is None:
        empty = cluster.emptied().with_busy(question.taken)
        return _without_zone(reservation, shortage(empty, job) or outcome.reason)
    zoned = reservation.replace(zone=by_rank(cluster, job, nodes), message="")
    return zoned.with_worth(evaluation, bound=outcome.bound, gap=outcome.gap)


def _mended(question: ZoneQuestion, cluster: Cluster, job: Job, limits: Limits) -> Reservation:
    """Return the zone with other nodes in place of those that are lost."""
    before = question.reservation
    empty = cluster.emptied().with_busy(question.taken)
    found = repair(empty, job, by_cell(cluster, job, before.zone), question.lost, limits=limits)
    zoned = before.replace(zone=by_rank(cluster, job, found.nodes), message="")
    return zoned.with_worth(found.after, bound=found.bound, gap=found.gap)


def _without_zone(reservation: Reservation, why: str) -> Reservation:
    return reservation.without_worth().replace(zone=(), message=why)
