"""What Prometheus may scrape.  Names begin with ``arnold_``; kubernetes.md of the docs lists them."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.plans.reservation import Reservation, ReservationPhase

FAST = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """All metrics of one process; gauges are counted when they are asked for, so that they cannot go stale."""

    def __init__(
        self,
        *,
        plans: Callable[[], Iterable[GangPlan]],
        leads: Callable[[], bool],
        reservations: Callable[[], Iterable[Reservation]] = tuple,
        passed_over: Callable[[], int] = int,
        free_nodes: Callable[[], int] = int,
        ready: Callable[[], bool] = bool,
        wanted_nodes: Callable[[GangPlan], int] = attrgetter("size"),
    ) -> None:
        self._plans, self._leads, self._reservations, self._passed_over = plans, leads, reservations, passed_over
        self._free_nodes, self._ready, self._wanted_nodes = free_nodes, ready, wanted_nodes
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(self)

        def timed(name: str, about: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, about, labels, buckets=buckets, registry=self.registry)

        def tallied(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=self.registry)

        self.filter_seconds = timed("arnold_filter_seconds", "Time to answer a Filter request", FAST)
        self.preempt_seconds = timed("arnold_preempt_seconds", "Time to answer a Preempt request", FAST)
        self.refused = tallied("arnold_refused_total", "Pods for which Filter let no node pass", "reason")
        self.plan_seconds = timed("arnold_plan_seconds", "Time of the solver for one gang", SLOW, "outcome")
        self.release_seconds = timed(
            "arnold_release_seconds", "Time of one release patch, waiting for its turn included", SLOW
        )
        self.writes = tallied("arnold_writes_total", "Writes to the API server", "kind", "outcome")
        self.preemptions = tallied("arnold_preemptions_total", "Gangs for which others of lower priority were stopped")
        self.decide_seconds = timed("arnold_decide_seconds", "Time to decide what to do next, on the event loop", FAST)

    def wrote(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a write to the API server."""
        self.writes.labels(kind=kind, outcome=outcome).inc()
        if kind == "release":
            self.release_seconds.observe(seconds)

    def text(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self.registry)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the gauges."""
        yield GaugeMetricFamily("arnold_leader", "1 on the replica that plans", float(self._leads()))
        yield GaugeMetricFamily("arnold_ready", "1 while /readyz says so", float(self._ready()))
        about = "Pods with GPUs that say they are of a gang, and which another scheduler places one by one"
        yield GaugeMetricFamily("arnold_passed_over_pods", about, self._passed_over())
        plans = list(self._plans())
        yield _by_phase("arnold_gangs", "Gangs by phase", PlanPhase, plans)
        about, labels = "Domains that the widest group touches", ["namespace", "gang", "family"]
        spread = GaugeMetricFamily("arnold_gang_spread", about, labels=labels)
        gap = GaugeMetricFamily("arnold_gang_gap", "(objective - bound) / objective", labels=["namespace", "gang"])
        holding = [plan for plan in plans if plan.holding]
        for plan in holding:
            for family, domains in zip(("dp", "pp"), plan.spread or (), strict=False):
                spread.add_metric([*plan.key, family], domains)
            if plan.gap is not None:
                gap.add_metric([*plan.key], plan.gap)
        yield spread
        yield gap
        nodes = sum(len(plan.promised) for plan in holding)
        yield GaugeMetricFamily("arnold_promised_nodes", "Nodes that plans hold", nodes)
        unbound = sum(max(0, plan.size - plan.bound_pods) for plan in holding)
        yield GaugeMetricFamily("arnold_unbound_ranks", "Ranks whose node is promised, and no pod is on it", unbound)
        yield GaugeMetricFamily("arnold_free_nodes", "Whole nodes that no pod and no plan has", self._free_nodes())
        yield from _queued(plans, self._wanted_nodes)
        reservations = list(self._reservations())
        yield _by_phase("arnold_reservations", "Reservations by phase", ReservationPhase, reservations)
        held = [reservation for reservation in reservations if reservation.held]
        reserved = sum(len(reservation.zone) for reservation in held)
        yield GaugeMetricFamily("arnold_reserved_nodes", "Nodes of zones that are kept for announced gangs", reserved)
        about, others = (
            "Of those, nodes that others still have",
            sum(reservation.held_by_others or 0 for reservation in held),
        )
        yield GaugeMetricFamily("arnold_reserved_nodes_held_by_others", about, others)


def _queued(plans: Iterable[GangPlan], wanted_nodes: Callable[[GangPlan], int]) -> Iterable[GaugeMetricFamily]:
    """Yield how long each complete gang has waited for nodes, and for how many."""
    labels, now = ["namespace", "gang", "reason"], datetime.now(UTC)
    waited = GaugeMetricFamily("arnold_gang_queued_seconds", "Time since all pods of a gang were there", labels=labels)
    wanted = GaugeMetricFamily("arnold_gang_queued_nodes", "Nodes that the gang waits for", labels=labels)
    for plan in plans:
        complete = plan.condition("Complete")
        if plan.phase is PlanPhase.QUEUED and complete is not None:
            row = [*plan.key, plan.reason]
            waited.add_metric(row, max(0.0, (now - complete.since).total_seconds()))
            wanted.add_metric(row, wanted_nodes(plan))
    yield waited
    yield wanted


def _by_phase(
    name: str, about: str, phases: type[StrEnum], items: Iterable[GangPlan | Reservation]
) -> GaugeMetricFamily:
    counted: Tally[StrEnum] = Tally(item.phase for item in items)
    gauge = GaugeMetricFamily(name, about, labels=["phase"])
    for phase in phases:
        gauge.add_metric([phase], counted[phase])
    return gauge
