"""What Prometheus may scrape.  Names begin with ``arnold_``; docs/kubernetes.md lists them."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.plans.reservation import Reservation, ReservationPhase

FAST = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """All metrics of one process.

    :param plans: the plans as they are now; asked at each scrape.
    :param leads: whether this replica leads.
    :param reservations: the reservations as they are now.
    """

    def __init__(
        self,
        *,
        plans: Callable[[], Iterable[GangPlan]],
        leads: Callable[[], bool],
        reservations: Callable[[], Iterable[Reservation]] = tuple,
    ) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(_Plans(plans, leads))
        self.registry.register(_Reservations(reservations))
        self.filter_seconds = Histogram(
            "arnold_filter_seconds", "Time to answer a Filter request", buckets=FAST, registry=self.registry
        )
        self.preempt_seconds = Histogram(
            "arnold_preempt_seconds", "Time to answer a Preempt request", buckets=FAST, registry=self.registry
        )
        self.refused = Counter(
            "arnold_refused_total", "Pods for which Filter let no node pass", ["reason"], registry=self.registry
        )
        self.plan_seconds = Histogram(
            "arnold_plan_seconds", "Time of the solver for one gang", ["outcome"], buckets=SLOW, registry=self.registry
        )
        self.release_seconds = Histogram(
            "arnold_release_seconds",
            "Time of one release patch, waiting for its turn included",
            buckets=SLOW,
            registry=self.registry,
        )
        self.writes = Counter(
            "arnold_writes_total", "Writes to the API server", ["kind", "outcome"], registry=self.registry
        )
        self.decide_seconds = Histogram(
            "arnold_decide_seconds",
            "Time to decide what to do next, on the event loop",
            buckets=FAST,
            registry=self.registry,
        )

    def decided(self, seconds: float) -> None:
        """Count a decision on the event loop."""
        self.decide_seconds.observe(seconds)

    def planned(self, seconds: float, outcome: str) -> None:
        """Count an answer of the solver about one gang."""
        self.plan_seconds.labels(outcome=outcome).observe(seconds)

    def wrote(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a write to the API server."""
        self.writes.labels(kind=kind, outcome=outcome).inc()
        if kind == "release":
            self.release_seconds.observe(seconds)

    def text(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self.registry)


class _Plans(Collector):
    """Gauges that are counted when they are asked for, so that they cannot go stale."""

    def __init__(self, plans: Callable[[], Iterable[GangPlan]], leads: Callable[[], bool]) -> None:
        self._plans = plans
        self._leads = leads

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the gauges."""
        leader = GaugeMetricFamily("arnold_leader", "1 on the replica that plans")
        leader.add_metric([], float(self._leads()))
        gangs = GaugeMetricFamily("arnold_gangs", "Gangs by phase", labels=["phase"])
        spread = GaugeMetricFamily(
            "arnold_gang_spread", "Domains that the widest group touches", labels=["namespace", "gang", "family"]
        )
        gap = GaugeMetricFamily("arnold_gang_gap", "(objective - bound) / objective", labels=["namespace", "gang"])
        promised = GaugeMetricFamily("arnold_promised_nodes", "Nodes that plans hold")
        phases: Tally[PlanPhase] = Tally()
        nodes = 0
        for plan in self._plans():
            phases[plan.phase] += 1
            nodes += len(plan.nodes) * plan.holding
            if plan.holding and plan.spread is not None:
                for family, domains in zip(("dp", "pp"), plan.spread, strict=True):
                    spread.add_metric([*plan.key, family], domains)
            if plan.holding and plan.gap is not None:
                gap.add_metric([*plan.key], plan.gap)
        for phase in PlanPhase:
            gangs.add_metric([phase.value], phases[phase])
        promised.add_metric([], nodes)
        return (leader, gangs, spread, gap, promised)


class _Reservations(Collector):
    """The same for reservations."""

    def __init__(self, reservations: Callable[[], Iterable[Reservation]]) -> None:
        self._reservations = reservations

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the gauges."""
        count = GaugeMetricFamily("arnold_reservations", "Reservations by phase", labels=["phase"])
        reserved = GaugeMetricFamily("arnold_reserved_nodes", "Nodes of zones that are kept for announced gangs")
        others = GaugeMetricFamily("arnold_reserved_nodes_held_by_others", "Of those, nodes that others still have")
        found = list(self._reservations())
        held = [one for one in found if one.held]
        phases = Tally(one.phase for one in found)
        for phase in ReservationPhase:
            count.add_metric([phase.value], phases[phase])
        reserved.add_metric([], sum(len(one.zone) for one in held))
        others.add_metric([], sum(one.held_by_others or 0 for one in held))
        return (count, reserved, others)
