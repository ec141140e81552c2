"""10,000 waiting pods on a full cluster: memory, and how soon the next gang has its nodes when one leaves.

The cluster is filled with gangs of the same size through Arnold itself.  Then, all the time, the oldest running gang
is deleted and a new one joins the queue: it stays as long as it was, and each departure makes room for one gang.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter, sleep

import msgspec
import numpy as np

from benchmarks.kubernetes.stage import Watch, gangs_of, new_namespace, say, warm_arnold
from benchmarks.report import promises, section, table
from tests.e2e.harness.arnold import Arnold
from tests.e2e.harness.client import JSON, Object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import HOLDING
from tests.e2e.harness.waiting import wait_until
from topology.cluster import Cluster

WAITING = 10_000  # Pods
STAGES = (1, 2, 4, 5, 10)
MEGABYTES = 600.0
GROWTH = 0.05
PLAN_SECONDS = 2.0
PATIENCE = 10.0  # Seconds that the last gangs have to be planned


@dataclass(frozen=True, slots=True)
class Traffic:
    """How gangs come and go."""

    size: int  # Pods of each gang
    period: float  # Seconds between two departures
    minutes: float


@dataclass(frozen=True, slots=True)
class Queue:
    """What was measured."""

    traffic: Traffic
    nodes: int
    gangs: int  # That wait, all the time
    running: int
    memory: Sequence[int]  # Bytes that the extender holds, once a second
    latencies: Sequence[float]  # Seconds from the deletion of a gang's pods to the plan of the next gang
    unserved: int
    solved: tuple[int, float]  # Answers of the solver, and their seconds altogether

    @property
    def growth(self) -> float:
        """Median memory of the last fifth over that of the second, less 1; the first belongs to the start."""
        fifth = max(1, len(self.memory) // 5)
        return float(np.median(self.memory[-fifth:]) / np.median(self.memory[fifth : 2 * fifth]) - 1.0)


def measure(plane: ControlPlane, cluster: Cluster, traffic: Traffic) -> Queue:
    """Fill the cluster and the queue, and let gangs come and go for so long."""
    space = new_namespace(plane, f"waiting-{traffic.size}")
    gangs, room = WAITING // traffic.size, sum(node.free_gpus == node.gpus for node in cluster) // traffic.size
    with warm_arnold(plane, cluster, space) as arnold:
        for pods in _gangs(space, traffic, number=room + gangs):
            plane.admin.create_all(pods)
        wait_until(lambda: len(_in_phase(plane, space, "Bound")) == room, "the cluster to be full", seconds=900.0)
        wait_until(
            lambda: len(_in_phase(plane, space, "Queued")) == gangs, "the rest to be told that they wait", seconds=900.0
        )
        say(f"waiting: {room} gangs run, {gangs} wait; {arnold.extender.resident / 1e6:.0f} MB")
        before = _solver(arnold)
        path = f"apis/arnold.dev/v1alpha1/namespaces/{space}/gangplans?watch=true"
        running = sorted(_in_phase(plane, space, "Bound"))
        with Watch(plane, path, accept=JSON) as watch:
            plans = _Plans(watch, running)
            memory, departures = _come_and_go(plane, arnold, space, traffic, plans, first=room + gangs)
        after = _solver(arnold)
    # Arnold is gone: it would plan those that wait for as long as others are deleted.
    plane.admin.delete_all("pods", space)
    latencies = [there - left for left, there in zip(departures, plans.moments, strict=False)]
    return Queue(
        traffic=traffic,
        nodes=len(cluster),
        gangs=gangs,
        running=room,
        memory=memory,
        latencies=latencies,
        unserved=len(departures) - len(latencies),
        solved=(after[0] - before[0], after[1] - before[1]),
    )


def report(queue: Queue) -> str:
    """Memory and latency against what we promise."""
    traffic, most = queue.traffic, max(queue.memory) / 1e6
    p50, p99 = (float(np.percentile(queue.latencies, share)) for share in (50, 99))
    answers, seconds = queue.solved
    departed = len(queue.latencies) + queue.unserved
    return section(
        f"{WAITING:,} waiting pods in {queue.gangs:,} gangs on {queue.nodes:,} nodes, {traffic.minutes:g} minutes",
        f"{queue.running} gangs of {traffic.size} run beside them; one leaves, one comes every {traffic.period:g} s, "
        f"{departed:,} in all. The solver was asked {answers:,} times, {seconds / max(1, answers) * 1000:.0f} ms on "
        "average.",
        table(
            ["", "least", "median", "most"],
            [
                ["memory, MB", *(f"{np.percentile(queue.memory, share) / 1e6:.0f}" for share in (0, 50, 100))],
                [
                    "gang leaves -> next gang is planned, s",
                    *(f"{np.percentile(queue.latencies, share):.2f}" for share in (0, 50, 100)),
                ],
            ],
        ),
        promises(
            (f"memory below {MEGABYTES:g} MB", f"{most:.0f} MB", most < MEGABYTES),
            (
                f"flat: at most {GROWTH:.0%} more in the last fifth of the time than in the second",
                f"{queue.growth:+.1%} in {traffic.minutes:g} minutes",
                queue.growth <= GROWTH,
            ),
            (
                f"plan latency: p99 below {PLAN_SECONDS:g} s",
                f"p50 {p50:.2f} s, p99 {p99:.2f} s of {len(queue.latencies)}"
                + (f", {queue.unserved} not in time for the next" if queue.unserved else ""),
                p99 < PLAN_SECONDS and not queue.unserved,
            ),
        ),
    )


class _Plans:
    """When each gang was first seen with nodes.

    :param known: gangs that have nodes already, the oldest first.
    """

    def __init__(self, watch: Watch, known: Sequence[str]) -> None:
        self._watch = watch
        self._seen = dict.fromkeys(known)
        self.running = deque(known)
        self.moments: list[float] = []

    def look(self) -> None:
        """Take in what the watch brought since the last look."""
        for moment, line in self._watch.take():
            thing = msgspec.json.decode(line)["object"]
            name, phase = thing["spec"]["gang"], thing.get("status", {}).get("phase")
            if phase in HOLDING and name not in self._seen:
                self._seen[name] = None
                self.running.append(name)
                self.moments.append(moment)


def _come_and_go(
    plane: ControlPlane, arnold: Arnold, space: str, traffic: Traffic, plans: _Plans, *, first: int
) -> tuple[list[int], list[float]]:
    """Memory about once a second, and when gangs left.

    :param first: number of the first gang that comes.
    """
    memory: list[int] = []
    departures: list[float] = []
    newcomers = _gangs(space, traffic, first=first)
    begin = due = monotonic()
    while monotonic() < begin + 60.0 * traffic.minutes:
        plans.look()
        memory.append(arnold.extender.resident)
        if monotonic() >= due and plans.running:
            due += traffic.period
            leaving = plans.running.popleft()
            names = [f"{leaving}-{rank}" for rank in range(traffic.size)]
            plane.admin.each(lambda name: plane.admin.delete("pods", name, space), names)
            departures.append(perf_counter())
            plane.admin.create_all(next(newcomers))
        sleep(max(0.0, min(1.0, due - monotonic())))
    sleep(PATIENCE)
    plans.look()
    return memory, departures


def _gangs(space: str, traffic: Traffic, *, number: int = 10**6, first: int = 0) -> Iterator[list[Object]]:
    stages = [it for it in STAGES if traffic.size % it == 0]
    return gangs_of(number, space, size=traffic.size, stages=stages, first=first)


def _in_phase(plane: ControlPlane, space: str, phase: str) -> list[str]:
    return [
        thing["spec"]["gang"]
        for thing in plane.admin.all("gangplans", space)
        if thing.get("status", {}).get("phase") == phase
    ]


def _solver(arnold: Arnold) -> tuple[int, float]:
    """Answers of the solver so far, and their seconds, as the extender counts them."""
    status, page = arnold.call("GET", "metrics", caller=arnold.plane.certificates.client("arnold-scheduler"))
    assert status == 200, page
    count, total = (
        sum(float(value) for value in re.findall(rf"^arnold_plan_seconds_{what}\{{.*\}} (\S+)$", page, re.MULTILINE))
        for what in ("count", "sum")
    )
    return int(count), total
