"""How long kube-scheduler waits for the extender: Filter on a cluster with a gang on its nodes, over mutual TLS."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.kubernetes.stage import Bindings, clear, new_namespace, say, warm_arnold
from benchmarks.kubernetes.wire import Door, OneByOne, answers_a_second
from benchmarks.report import Promise, promises, section, table
from tests.e2e.harness.arnold import Arnold
from tests.e2e.harness.client import Object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import gang, pod
from tests.e2e.harness.waiting import wait_until
from topology.cluster import Cluster

NOMINATED_MS = 0.7
NAMES_MS = 2.0
FULL_MS = 30.0
FULL_NODES = 1_000
NODE_BYTES = 7_000  # A real node lists its images and conditions
NOMINATED_RATE = 2_000.0
CONNECTIONS = 16
PODS = 64  # Different pods that are asked about in turn

NOMINATED = "nominated pod: 1 name"
LISTED = "gang pod without a nomination: all names"
SINGLE = "single pod with one GPU: all names"
FULL = f"gang pod, {FULL_NODES:,} whole nodes of {NODE_BYTES // 1000} kB"


@dataclass(frozen=True, slots=True)
class Latencies:
    """What was measured."""

    nodes: int
    gang: int
    # Kind of question -> time of each answer, from the first byte sent to the last received
    seconds: Mapping[str, Sequence[float]]
    bytes_: Mapping[str, tuple[int, int]]  # Kind of question -> length of a question and of its answer
    rate: float  # Answers a second about nominated pods over all connections at once

    def p99(self, kind: str) -> float:
        """Milliseconds that 99 of 100 answers take at the most."""
        return float(np.percentile(self.seconds[kind], 99)) * 1000.0


def measure(plane: ControlPlane, cluster: Cluster, *, size: int, seconds: float) -> Latencies:
    """Each kind of question for so long, one at a time; then of nominated ones on many connections.

    :param size: of the gang that is on its nodes.
    """
    space = new_namespace(plane, "filter")
    with warm_arnold(plane, cluster, space) as arnold:
        with Bindings(plane, space) as bindings:
            plane.admin.create_all(gang("gang", space, size=size, parallelism=f"tp=8,pp=8,dp={size // 8}"))
            bindings.moment(size)
        wait_until(lambda: plan_in(plane.admin, "gang", space, "Bound"), "the plan to be bound")
        pair = plane.certificates.client("arnold-scheduler")
        door = Door(arnold.ports[0], plane.certificates.authority, pair)
        questions = _questions(plane, space)
        requests = {kind: [door.request("filter", one) for one in asked] for kind, asked in questions.items()}
        taken, lengths = {}, {}
        for kind, texts in requests.items():
            _check(arnold, questions[kind][0], kind)
            with OneByOne(door) as connection:
                answer = connection.ask(texts[0])[1]
                taken[kind] = _for_a_while(connection.ask, texts, seconds)
            lengths[kind] = (len(texts[0]), len(answer))
            say(f"filter, {kind}: median {float(np.median(taken[kind])) * 1000:.2f} ms of {len(taken[kind])}")
        rate = answers_a_second(door, requests[NOMINATED], connections=CONNECTIONS, seconds=seconds)
        say(f"filter, {CONNECTIONS} connections: {rate:.0f} answers/s")
        clear(plane, space)
    return Latencies(len(cluster), size, taken, lengths, rate)


def report(found: Latencies) -> str:
    """Percentiles against what we promise."""
    rows = []
    for kind, seconds in found.seconds.items():
        p50, p99, most = (float(np.percentile(seconds, share)) * 1000.0 for share in (50, 99, 100))
        sent, received = found.bytes_[kind]
        rows.append(
            [
                kind,
                len(seconds),
                f"{sent / 1000:,.1f}",
                f"{received / 1000:,.1f}",
                f"{p50:.2f}",
                f"{p99:.2f}",
                f"{most:.1f}",
            ]
        )
    names = max(found.p99(LISTED), found.p99(SINGLE))
    return section(
        f"Filter, mutual TLS, one request at a time; {found.nodes:,} nodes, a gang of {found.gang:,} on its nodes",
        table(["question", "asked", "kB sent", "kB received", "p50 ms", "p99 ms", "slowest ms"], rows),
        promises(
            _at_most(f"p99 at most {NAMES_MS:g} ms for {found.nodes:,} names", names, NAMES_MS),
            _at_most(f"p99 at most {NOMINATED_MS:g} ms for a nominated pod", found.p99(NOMINATED), NOMINATED_MS),
            _at_most(f"{FULL_NODES:,} whole nodes: p99 at most {FULL_MS:g} ms", found.p99(FULL), FULL_MS),
            (
                f"{CONNECTIONS} connections: at least {NOMINATED_RATE:,.0f} nominated answers/s",
                f"{found.rate:,.0f}/s",
                found.rate >= NOMINATED_RATE,
            ),
        ),
    )


def _at_most(wanted: str, measured: float, limit: float) -> Promise:
    return (wanted, f"{measured:.2f} ms", measured <= limit)


def _questions(plane: ControlPlane, space: str) -> dict[str, list[Object]]:
    """Of each kind, questions about real pods and nodes."""
    nodes = plane.admin.all("nodes")
    names = [node["metadata"]["name"] for node in nodes]
    members = plane.admin.all("pods", space)[:PODS]
    places = [member["spec"].pop("nodeName") for member in members]
    whole = {node["metadata"]["name"]: _padded(node) for node in nodes}
    single = plane.admin.create(pod("single", space, gpus=1, scheduler="nobody"))
    plane.admin.delete("pods", "single", space)

    def ask(thing: Object, asked: Sequence[str]) -> Object:
        return {"Pod": thing, "Nodes": None, "NodeNames": list(asked)}

    def ask_whole(thing: Object, place: str) -> Object:
        chosen = [place, *(name for name in names if name != place)][:FULL_NODES]
        return {"Pod": thing, "Nodes": {"metadata": {}, "items": [whole[name] for name in chosen]}, "NodeNames": None}

    return {
        NOMINATED: [ask(member, [place]) for member, place in zip(members, places, strict=True)],
        LISTED: [ask(member, names) for member in members],
        SINGLE: [ask(single, names)],
        FULL: [ask_whole(member, place) for member, place in zip(members[:4], places, strict=False)],
    }


def _padded(node: Object) -> Object:
    """A node as long as real ones are."""
    image = {"names": ["registry.example.com/train@sha256:" + "0" * 64], "sizeBytes": 123_456_789}
    about = {key: value for key, value in node["metadata"].items() if key != "managedFields"}
    return {**node, "metadata": about, "status": {**node["status"], "images": [image] * (NODE_BYTES // 150)}}


def _check(arnold: Arnold, question: Object, kind: str) -> None:
    """That the answer is one: fast and wrong does not count."""
    status, answer = arnold.ask("filter", question)
    passed = answer["NodeNames"] or [node["metadata"]["name"] for node in (answer["Nodes"] or {}).get("items", ())]
    assert status == 200, f"{kind}: {status} {answer}"
    assert passed, f"{kind}: no node passed: {list(answer['FailedAndUnresolvableNodes'].items())[:1]}"


def _for_a_while(ask: Callable[[bytes], tuple[float, bytes]], requests: Sequence[bytes], seconds: float) -> list[float]:
    """Time of each answer, without this process's own garbage collection."""
    taken: list[float] = []
    gc.disable()
    try:
        for number in range(50):
            ask(requests[number % len(requests)])
        end = perf_counter() + seconds
        while perf_counter() < end:
            taken.append(ask(requests[len(taken) % len(requests)])[0])
    finally:
        gc.enable()
    return taken
