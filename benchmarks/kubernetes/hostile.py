"""Requests as nobody honest sends them, by the thousand, and what an honest client beside them notices.

At the same time some clients send a byte now and then, and at the end several send as long a body as is taken.
"""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter, sleep

import numpy as np

from benchmarks.kubernetes.stage import Bindings, clear, new_namespace, say, warm_arnold
from benchmarks.kubernetes.wire import Door, OneByOne
from benchmarks.report import promises, section, table
from tests.e2e.harness.arnold import Arnold
from tests.e2e.harness.certificates import LOOPBACK
from tests.e2e.harness.client import client_context
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import gang
from tests.extender.service.hostile_requests import hostile_requests, request, statuses
from topology.cluster import Cluster

SIZE = 96
NODES = 20  # Named in an honest question; what is mutated must be short, or most of it is names
AT_ONCE = 24
SLOW = 16  # Clients that send a byte a second
LONG, LONG_BYTES = 8, 60_000_000
PATIENCE = 2.0
PERIOD = 0.02  # Seconds between two honest questions
MEGABYTES = 600.0
TELL = 2_000  # Requests between two words on how it goes


@dataclass(frozen=True, slots=True)
class Siege:
    """What was measured."""

    requests: int
    seconds: float
    statuses: Mapping[int, int]  # How often each status came
    long: Mapping[int, int]  # Statuses of the longest bodies
    honest: Sequence[float]  # Seconds of each answer to the honest client
    wrong: int  # Answers to it that were wrong, or none
    memory: tuple[int, int, int]  # Bytes before, at the most, and in the end
    tracebacks: int


def measure(plane: ControlPlane, cluster: Cluster, *, requests: int, seed: int) -> Siege:
    """Send so many hostile requests to a replica that has a gang on its nodes."""
    space = new_namespace(plane, "hostile")
    with warm_arnold(plane, cluster, space) as arnold:
        with Bindings(plane, space) as bindings:
            plane.admin.create_all(gang("gang", space, size=SIZE, parallelism="tp=8,pp=8,dp=12"))
            bindings.moment(SIZE)
        door = Door(arnold.ports[0], plane.certificates.authority, plane.certificates.client("arnold-scheduler"))
        tls = client_context(door.authority, door.caller)
        names = [node["metadata"]["name"] for node in plane.admin.all("nodes")[:NODES]]
        members = plane.admin.all("pods", space)[:8]
        bodies = [json.dumps({"Pod": one, "Nodes": None, "NodeNames": names}).encode() for one in members]
        before = arnold.extender.resident
        with _honest(arnold, door, bodies) as honest:
            start = perf_counter()
            found = asyncio.run(_besiege(door.port, tls, bodies, requests, seed))
            seconds = perf_counter() - start
            long = asyncio.run(_long_bodies(door.port, tls))
        text = arnold.extender.log.read_text(encoding="utf-8", errors="replace")
        memory = (before, max(honest.memory), arnold.extender.resident)
        clear(plane, space)
    return Siege(
        requests=requests,
        seconds=seconds,
        statuses=found,
        long=long,
        honest=honest.seconds,
        wrong=honest.wrong,
        memory=memory,
        tracebacks=text.count("Traceback"),
    )


def report(siege: Siege) -> str:
    """Answers, memory and the honest client's waiting against what we promise."""
    faults = siege.statuses.get(500, 0) + siege.long.get(500, 0)
    before, most, after = (bytes_ / 1e6 for bytes_ in siege.memory)
    p50, p99, slowest = (float(np.percentile(siege.honest, share)) * 1000.0 for share in (50, 99, 100))
    long = ", ".join(f"{count} x {status}" for status, count in sorted(siege.long.items()))
    return section(
        f"{siege.requests:,} hostile requests by {AT_ONCE} clients, {SLOW} slow ones beside them",
        table(["status", "answers"], [(status, f"{count:,}") for status, count in sorted(siege.statuses.items())]),
        f"In {siege.seconds:.0f} s. {LONG} bodies of {LONG_BYTES // 10**6} MB at once were answered: {long or 'none'}.",
        table(
            ["honest questions", "wrong or none", "p50 ms", "p99 ms", "slowest ms"],
            [(f"{len(siege.honest):,}", siege.wrong, f"{p50:.1f}", f"{p99:.1f}", f"{slowest:.0f}")],
        ),
        promises(
            ("no answer 500", str(faults), not faults),
            ("no traceback in the log", str(siege.tracebacks), not siege.tracebacks),
            ("no wrong answer to the honest client", str(siege.wrong), not siege.wrong),
            (
                f"memory below {MEGABYTES:g} MB",
                f"{before:.0f} MB before, {most:.0f} at the most, {after:.0f} in the end",
                most < MEGABYTES,
            ),
        ),
    )


class _Honest:
    """One client that asks all the time, on one connection as kube-scheduler does, and looks at the memory."""

    def __init__(self, arnold: Arnold, door: Door, bodies: Sequence[bytes]) -> None:
        self._arnold = arnold
        self._door = door
        self._requests = [door.framed("filter", body) for body in bodies]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds: list[float] = []
        self.memory: list[int] = []
        self.wrong = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        wanted: dict[bytes, bytes] = {}
        while not self._done.is_set():
            try:
                with OneByOne(self._door) as connection:
                    while not self._done.is_set():
                        asked = self._requests[len(self.seconds) % len(self._requests)]
                        seconds, answer = connection.ask(asked)
                        self.seconds.append(seconds)
                        self.wrong += wanted.setdefault(asked, answer) != answer
                        self.memory.append(self._arnold.extender.resident)
                        sleep(PERIOD)
            except OSError:
                self.wrong += 1


@contextmanager
def _honest(arnold: Arnold, door: Door, bodies: Sequence[bytes]) -> Iterator[_Honest]:
    client = _Honest(arnold, door, bodies)
    client.start()
    try:
        yield client
    finally:
        client.stop()


async def _besiege(port: int, tls: ssl.SSLContext, bodies: Sequence[bytes], requests: int, seed: int) -> Counter[int]:
    found: Counter[int] = Counter()
    questions = enumerate(hostile_requests(bodies, requests, seed=seed), 1)

    async def ask() -> None:
        for number, (_, sent) in questions:
            found.update(await statuses(port, tls, sent, patience=PATIENCE))
            if number % TELL == 0:
                say(f"hostile: {number} requests, {dict(sorted(found.items()))}")

    slow = [asyncio.create_task(_slow(port, tls, bodies[0])) for _ in range(SLOW)]
    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    return found


async def _slow(port: int, tls: ssl.SSLContext, body: bytes) -> None:
    """Send a byte a second, and begin again when the server hangs up."""
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls, server_hostname="localhost")
            try:
                for byte in request(body):
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1.0)
            finally:
                writer.transport.abort()


async def _long_bodies(port: int, tls: ssl.SSLContext) -> Counter[int]:
    sent = request(b"[" + b" " * LONG_BYTES)
    found = await asyncio.gather(*(statuses(port, tls, sent, patience=60.0) for _ in range(LONG)))
    return Counter(status for one in found for status in one)
