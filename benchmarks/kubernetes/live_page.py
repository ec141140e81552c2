"""The live page while the cluster changes: how far behind its readers are, and what its process costs."""

import json
import threading
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPResponse
from time import perf_counter, sleep

from benchmarks.kubernetes.processor_time import ProcessorTime
from benchmarks.kubernetes.stage import new_namespace, say
from benchmarks.report import promises, section, table
from tests.e2e.harness.arnold import PROGRAM
from tests.e2e.harness.nodes import level_labels
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import pod
from tests.e2e.harness.process import Process
from tests.ports import free_port
from topology.cluster import Cluster

READERS = 4
BEHIND = 2.0  # seconds, the most that a reader may be behind
WRITERS = 16
PODS = 3  # of so many changes one is a pod that comes or goes, the others are flags of nodes


class Reader(threading.Thread):
    """Reads the events of the page, and notes when the flag of each change arrived."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.arrived: dict[str, float] = {}  # the flag in words -> when
        self.bytes = 0
        self._answer: HTTPResponse = urllib.request.urlopen(f"{address}events")

    def run(self) -> None:
        """Read until the server ends."""
        with closing(self._answer) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    self.bytes += len(line)
                    for row in json.loads(line[6:])["rows"].get("flags", {}).values():
                        self.arrived.setdefault(row[0], perf_counter())


@dataclass(frozen=True, slots=True)
class Behind:
    """What was measured."""

    nodes: int
    rate: float  # changes a second that were made
    lags: Sequence[float]  # seconds from the answer to a change to each reader, those of the readers together
    missed: int  # flags of which a reader never heard: another change of the node came before
    seconds: float
    processor: float  # seconds of the page's process
    memory: int  # bytes that it holds at the end
    sent: float  # bytes a second to each reader


def measure(plane: ControlPlane, cluster: Cluster, *, rate: float, seconds: float) -> Behind:
    """Change nodes and pods at a rate, while readers follow the page."""
    space, address = new_namespace(plane, "page"), f"http://127.0.0.1:{(port := free_port())}/"
    words = ["kube", "page", "--bind", f"127.0.0.1:{port}", "--levels", ",".join(level_labels(cluster))]
    kubeconfig, log = str(plane.kubeconfig()), plane.folder / "arnold-page.log"
    page = Process("arnold-page", [PROGRAM, *words, "--kubeconfig", kubeconfig], log=log, ready=lambda: _drawn(address))
    plane.add(page)
    readers = [Reader(address) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    free = [name for name, idle in zip(cluster.names, cluster.idle, strict=True) if idle]
    made: dict[str, float] = {}

    def change(number: int) -> None:
        name = free[number % len(free)]
        if number % PODS == 0:
            half, place = divmod(number // PODS, 2)
            if place == 0:
                plane.admin.create(pod(f"pod-{half}", space, node=free[half % len(free)]))
            else:
                plane.admin.delete("pods", f"pod-{half}", space)
            return
        factor = f"{1.0 + number / 1000:.4g}"  # as the page writes it, of each change another
        plane.admin.patch("nodes", name, {"metadata": {"annotations": {"arnold.dev/slowdown": factor}}})
        made[f"straggler, {factor} times slower"] = perf_counter()

    clock, began, number = ProcessorTime({"page": page.pid}), perf_counter(), 0
    with ThreadPoolExecutor(WRITERS) as writers:
        while perf_counter() < began + seconds:
            number += 1
            writers.submit(change, number)
            sleep(max(0.0, began + number / rate - perf_counter()))
    took = perf_counter() - began
    processor = clock.spent()["page"]
    sleep(2 * BEHIND)
    lags = [max(0.0, at - made[flag]) for reader in readers for flag, at in reader.arrived.items() if flag in made]
    missed = sum(flag not in reader.arrived for reader in readers for flag in made)
    sent, memory = sum(reader.bytes for reader in readers) / len(readers) / took, page.resident
    say(f"page: {number} changes in {took:.0f} s")
    plane.remove(page.name)
    return Behind(len(cluster), number / took, sorted(lags), missed, took, processor, memory, sent)


def _drawn(address: str) -> bool:
    """Whether the page shows nodes."""
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return b'class="n idle"' in answer.read()
    except OSError:
        return False


def report(found: Behind) -> str:
    """How far behind readers were, against what we promise."""
    middle, most = found.lags[len(found.lags) // 2], found.lags[-1]
    late = found.lags[int(0.95 * len(found.lags))]
    rows = [(f"{middle:.2f}", f"{late:.2f}", f"{most:.2f}", found.missed)]
    changes = f"{found.rate:.0f} changes a second for {found.seconds:.0f} s"
    return section(
        f"Live page of {found.nodes:,} nodes: {changes}, {READERS} readers",
        table(["seconds behind: median", "95 %", "most", "never heard of"], rows),
        f"Its process: {found.processor / found.seconds:.1%} of a processor, {found.memory / 2**20:.0f} MiB; "
        f"{found.sent / 1000:.1f} kB a second to each reader.",
        promises((f"within {BEHIND:g} s", f"{most:.2f} s", most <= BEHIND and not found.missed)),
    )
