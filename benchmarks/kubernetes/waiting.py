"""10,000 waiting pods in 100 gangs on a full cluster: memory, and how soon the next gang has its nodes when one leaves.

The cluster is filled with gangs of the same size through Arnold itself.  Then, every few seconds, the oldest running
gang is deleted and a new one joins the queue: it stays as long as it was, and each departure makes room for one gang.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter, sleep

import msgspec
import numpy as np

from benchmarks.kubernetes.stage import Watch, gangs_of, new_namespace, say, warm_arnold
from benchmarks.report import Promise, promises, section, table
from tests.e2e.harness.arnold import Arnold
from tests.e2e.harness.client import JSON
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.waiting import wait_until
from topology.cluster import Cluster

SIZE = 100
STAGES = (2, 4, 5, 10)
MEGABYTES = 600.0
GROWTH = 0.05
PLAN_SECONDS = 2.0
PERIOD = 3.0
"""Seconds between two departures."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What was measured.

    :param waiting: pods that wait, all the time.
    :param memory: bytes that the extender holds, once a second.
    :param latencies: seconds from the deletion of a gang's pods to the plan of the next gang.
    :param solved: answers of the solver, and their seconds altogether.
    """

    nodes: int
    gangs: int
    waiting: int
    running: int
    minutes: float
    memory: Sequence[int]
    latencies: Sequence[float]
    unserved: int
    solved: tuple[int, float]

    @property
    def growth(self) -> float:
        """Median memory of the last fifth over that of the second, less 1; the first belongs to the start."""
        fifth = max(1, len(self.memory) // 5)
        return float(np.median(self.memory[-fifth:]) / np.median(self.memory[fifth : 2 * fifth]) - 1.0)


def measure(plane: ControlPlane, cluster: Cluster, *, gangs: int, minutes: float) -> Queue:
    """Fill the cluster and the queue, and let gangs come and go for so long."""
    space = new_namespace(plane, "waiting")
    room = sum(node.free_gpus == node.gpus for node in cluster) // SIZE
    with warm_arnold(plane, cluster, space) as arnold:
        for pods in gangs_of(room + gangs, space, size=SIZE, stages=STAGES):
            plane.admin.create_all(pods)
        wait_until(lambda: len(_in_phase(plane, space, "Bound")) == room, "the cluster to be full", seconds=600.0)
        wait_until(
            lambda: len(_in_phase(plane, space, "Queued")) == gangs, "the rest to be told that they wait", seconds=600.0
        )
        say(f"waiting: {room} gangs run, {gangs} wait; {arnold.extender.resident / 1e6:.0f} MB")
        before = _solver(arnold)
        path = f"apis/arnold.dev/v1alpha1/namespaces/{space}/gangplans?watch=true"
        with Watch(plane, path, accept=JSON) as watch:
            running = sorted(_in_phase(plane, space, "Bound"))
            memory, departures = _come_and_go(plane, arnold, space, deque(running), first=room + gangs, minutes=minutes)
        after = _solver(arnold)
        latencies = _latencies(departures, _planned(watch, set(running)))
        waiting = gangs * SIZE
        plane.admin.delete_all("pods", space)
    return Queue(
        nodes=len(cluster),
        gangs=gangs,
        waiting=waiting,
        running=room,
        minutes=minutes,
        memory=memory,
        latencies=latencies,
        unserved=len(departures) - len(latencies),
        solved=(after[0] - before[0], after[1] - before[1]),
    )


def report(queue: Queue) -> str:
    """Memory and latency against what we promise."""
    most = max(queue.memory) / 1e6
    p50, p99 = (float(np.percentile(queue.latencies, share)) for share in (50, 99))
    answers, seconds = queue.solved
    return section(
        f"{queue.waiting:,} waiting pods in {queue.gangs} gangs on {queue.nodes:,} nodes, {queue.minutes:g} minutes",
        f"{queue.running} gangs of {SIZE} run beside them; one leaves and one comes every {PERIOD:g} s. The solver was "
        f"asked {answers} times, {seconds / max(1, answers) * 1000:.0f} ms on average.",
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
            [
                Promise(f"memory below {MEGABYTES:g} MB", f"{most:.0f} MB", most < MEGABYTES),
                Promise(
                    f"flat: at most {GROWTH:.0%} more in the last fifth of the time than in the second",
                    f"{queue.growth:+.1%} in {queue.minutes:g} minutes",
                    queue.growth <= GROWTH,
                ),
                Promise(
                    f"plan latency: p99 below {PLAN_SECONDS:g} s",
                    f"p50 {p50:.2f} s, p99 {p99:.2f} s of {len(queue.latencies)}"
                    + (f", {queue.unserved} not in time for the next" if queue.unserved else ""),
                    p99 < PLAN_SECONDS and not queue.unserved,
                ),
            ]
        ),
    )


def _come_and_go(
    plane: ControlPlane, arnold: Arnold, space: str, running: deque[str], *, first: int, minutes: float
) -> tuple[list[int], list[float]]:
    """Memory once a second, and when gangs left.

    :param running: gangs, the oldest first.
    :param first: number of the first gang that comes.
    """
    memory: list[int] = []
    departures: list[float] = []
    newcomers = gangs_of(10**6, space, size=SIZE, stages=STAGES, first=first)
    begin = monotonic()
    due = begin
    while monotonic() < begin + 60.0 * minutes:
        memory.append(arnold.extender.resident)
        if monotonic() >= due:
            due += PERIOD
            if not running:
                running.extend(sorted(_in_phase(plane, space, "Bound")))
            if running:
                plane.admin.each(lambda name: plane.admin.delete("pods", name, space), _pods_of(running.popleft()))
                departures.append(perf_counter())
                plane.admin.create_all(next(newcomers))
        sleep(max(0.0, min(1.0, due - monotonic())))
    sleep(2 * PERIOD)
    return memory, departures


def _pods_of(name: str) -> list[str]:
    return [f"{name}-{rank}" for rank in range(SIZE)]


def _in_phase(plane: ControlPlane, space: str, phase: str) -> list[str]:
    return [
        thing["spec"]["gang"]
        for thing in plane.admin.all("gangplans", space)
        if thing.get("status", {}).get("phase") == phase
    ]


def _planned(watch: Watch, known: set[str]) -> list[float]:
    """When each gang was first seen with nodes."""
    moments = []
    seen = set(known)
    for moment, line in watch.lines:
        thing = msgspec.json.decode(line)["object"]
        name, phase = thing["spec"]["gang"], thing.get("status", {}).get("phase")
        if phase in ("Planned", "Released", "Bound") and name not in seen:
            seen.add(name)
            moments.append(moment)
    return moments


def _latencies(departures: Sequence[float], planned: Sequence[float]) -> list[float]:
    """One gang is planned for each that leaves, in the same order."""
    return [there - left for left, there in zip(departures, planned, strict=False)]


def _solver(arnold: Arnold) -> tuple[int, float]:
    """Answers of the solver so far, and their seconds, as the extender counts them."""
    status, page = arnold.call("GET", "metrics", caller=arnold.plane.certificates.client("arnold-scheduler"))
    assert status == 200, page
    count, total = (
        sum(float(value) for value in re.findall(rf"^arnold_plan_seconds_{what}\{{.*\}} (\S+)$", page, re.MULTILINE))
        for what in ("count", "sum")
    )
    return int(count), total
