"""The answer to ``arnold capacity reserve``: by policy, by remedy, each over the workloads that were drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from ground.records import AtLeastOne, Count, JsonRecord, Share
from simulator.capacity.answer_range import Percentiles, percentiles
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.reserve.reserve_replay import ReservePolicy


@dataclass(frozen=True, slots=True)
class ReserveCase(JsonRecord):
    """A policy under some conditions: P10, P50, P90 over the workloads, of fewer than ten the least, the middle and the
    most; null = not while others are submitted.
    """

    name: str
    """What is done, in words."""
    policy: str
    """Name of the queue policy."""
    notice_hours: float
    """Hours from announcement to arrival."""
    preemptible: Share
    """Share of the others that may be stopped."""
    late: Percentiles
    """Hours after its arrival at which the large job starts."""
    spread: Percentiles
    """Domains that its DP and PP groups touch then, added up; null = it does not start."""
    wait_hours_after: Percentiles
    """Mean wait of others submitted after the arrival: the price of the job itself, and of a zone that is held."""
    zone_held: Percentiles
    """Nodes of the zone that others hold when the large job arrives."""
    idle_node_hours: Percentiles
    """Node-hours that no job held from the announcement until the large job started, or others submitted no more."""
    lost_node_hours: Percentiles
    """Node-hours of work that was done again."""
    wait_hours: Percentiles
    """Mean wait of others submitted between announcement and arrival."""
    stopped: Percentiles
    """Times that others were stopped."""
    cost: float | None
    """Median price of the idle and the lost node-hours; null = no price was given."""


def case_over(
    name: str, notice: float, share: float, found: Sequence[ReservePolicy], *, node_hour: float | None
) -> ReserveCase:
    """Return a case over what its replays came to.

    :param notice: hours from announcement to arrival; ``share`` = of the others, that may be stopped.
    :param node_hour: price of a node-hour; ``None`` = none is given.
    """

    def over(value: Callable[[ReservePolicy], float]) -> Percentiles:
        return percentiles([value(one) for one in found])

    wasted = over(lambda one: one.idle_node_hours + one.lost_node_hours)[1]
    return ReserveCase(
        name=name,
        policy=found[0].policy,
        notice_hours=notice,
        preemptible=share,
        late=over(lambda one: one.late),
        spread=over(lambda one: (one.dp_spread or inf) + (one.pp_spread or inf)),
        wait_hours_after=over(lambda one: one.wait_hours_after),
        zone_held=over(lambda one: one.zone_held_at_arrival),
        idle_node_hours=over(lambda one: one.idle_node_hours),
        lost_node_hours=over(lambda one: one.lost_node_hours),
        wait_hours=over(lambda one: one.wait_hours),
        stopped=over(lambda one: one.stopped),
        cost=None if node_hour is None else node_hour * wasted,
    )


@dataclass(frozen=True, slots=True)
class Migration(JsonRecord):
    """What moving running jobs out of the zone at the arrival comes to, by workload."""

    held: Count
    """Nodes of the zone that others hold."""
    free_outside: Count
    """Nodes outside it that no job holds."""

    @property
    def possible(self) -> bool:
        """Whether there is room for all of them."""
        return self.held <= self.free_outside


@dataclass(frozen=True, kw_only=True)
class ReserveAnswer(CapacityAnswer):
    """When a large job would fit, and what reserving for it costs the others."""

    cluster_nodes: AtLeastOne
    """Nodes of the cluster."""
    nodes: AtLeastOne
    """Nodes of the large job."""
    zone: Count
    """Nodes of its zone."""
    notice_hours: float
    """Hours from announcement to arrival."""
    jobs: int
    """Jobs of the others, of the first workload."""
    load: float
    """GPU time that they ask for, as a share of the cluster's."""
    remaining_hours: Percentiles
    """P95 of the time that jobs in the zone still run at the announcement, by nodes."""
    last_hours: Percentiles
    """Hours until the last of them ends: with as much notice and known run times, the large job starts on arrival."""
    cases: tuple[ReserveCase, ...]
    """The policies, then the remedies under the first policy."""
    migrations: tuple[Migration, ...]
    """Moves of jobs out of the zone under the first policy, by workload."""
    policies: tuple[ReservePolicy, ...]
    """Results by policy, of the first workload."""
