"""A gang on its nodes: from its last pod's creation to its last binding, against kube-scheduler alone and bare patches.

All of it on the same control plane, in turn, with all pods there before the clock starts:

- *kube-scheduler alone*: the program and configuration of the manifests without the extender, on the same pods without
  gates; it stands still (SIGSTOP) while they are made.  Once it looks at every node, as it must for the extender, and
  once at a sample, as it does by default.
- *patches alone*: what releases the gang, sent to the API server by 16 threads with the extender's own token, so that
  the same roles and admission policies are weighed; no scheduler runs.
- *Arnold*: everything from recognising the gang to the last binding.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from itertools import islice
from statistics import median
from time import perf_counter

import yaml

from benchmarks.kubernetes.stage import Bindings, clear, new_namespace, say, warm_arnold
from benchmarks.report import Promise, promises, section, table
from extender.controller.pod_release import release_patch
from extender.objects import decode_pod
from tests.e2e.harness.arnold import MANIFESTS, SYSTEM
from tests.e2e.harness.client import Object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import gang, pod
from topology.cluster import Cluster

STAGES = 8
AGAINST_SCHEDULER = 1.5
AGAINST_PATCHES = 0.8
EVERY_NODE = 100
DEFAULT_SAMPLE = 0
ALONE = "alone"
"""Name of the scheduler that runs alone."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Pods a second, one of each for each round.

    :param every_node: kube-scheduler alone, looking at all nodes as it must for the extender.
    :param sampling: kube-scheduler alone, looking at as many nodes as it does by default.
    :param patches: release patches alone.
    :param arnold: through the extender.
    :param first_bind: seconds from the last create to the first binding, in each round of Arnold.
    """

    nodes: int
    gang: int
    every_node: tuple[float, ...]
    sampling: tuple[float, ...]
    patches: tuple[float, ...]
    arnold: tuple[float, ...]
    first_bind: tuple[float, ...]


def measure(plane: ControlPlane, cluster: Cluster, *, size: int, rounds: int) -> Rates:
    """All of them in turn, so many times."""
    space = new_namespace(plane, "binding")
    every_node, sampling, patches, arnold, first = [], [], [], [], []
    for number in range(1, rounds + 1):
        every_node.append(size / _scheduler_alone(plane, space, size, sample=EVERY_NODE))
        sampling.append(size / _scheduler_alone(plane, space, size, sample=DEFAULT_SAMPLE))
        patches.append(size / _patches_alone(plane, cluster, space, size))
        begins, seconds = _arnold(plane, cluster, space, size)
        arnold.append(size / seconds)
        first.append(begins)
        say(
            f"binding, round {number}: alone {every_node[-1]:.0f}/s, sampling {sampling[-1]:.0f}/s, "
            f"patches {patches[-1]:.0f}/s, arnold {arnold[-1]:.0f}/s (first bind after {begins:.2f} s)"
        )
    return Rates(len(cluster), size, *map(tuple, (every_node, sampling, patches, arnold, first)))


def report(rates: Rates) -> str:
    """Medians and their ratios."""
    rows = [
        ("kube-scheduler alone, every node", rates.every_node),
        ("kube-scheduler alone, its default sample", rates.sampling),
        ("release patches alone", rates.patches),
        ("Arnold: plan, release, verify, bind", rates.arnold),
    ]
    arnold, rival = median(rates.arnold), max(median(rates.every_node), median(rates.sampling))
    ratio, share = arnold / rival, arnold / median(rates.patches)
    return section(
        f"A gang of {rates.gang:,} on {rates.nodes:,} nodes, last create to last bind",
        table(
            ["", "pods/s, median", "least", "most"],
            [(what, f"{median(found):.0f}", f"{min(found):.0f}", f"{max(found):.0f}") for what, found in rows],
        ),
        f"{len(rates.arnold)} rounds in turn. Arnold's first pod is on its node {median(rates.first_bind):.2f} s after "
        "the last create; that is recognising, solving, writing the plan.",
        promises(
            [
                Promise(
                    f"at least {AGAINST_SCHEDULER:g} times kube-scheduler alone",
                    f"{ratio:.2f} times the faster, {arnold / median(rates.every_node):.2f} times that of every node",
                    ratio >= AGAINST_SCHEDULER,
                ),
                Promise(
                    f"at least {AGAINST_PATCHES:g} times the patches alone",
                    f"{share:.2f} times",
                    share >= AGAINST_PATCHES,
                ),
            ]
        ),
    )


def _parallelism(size: int) -> str:
    return f"tp=8,pp={STAGES},dp={size // STAGES}"


def _scheduler_alone(plane: ControlPlane, space: str, size: int, *, sample: int) -> float:
    """Seconds that kube-scheduler takes for pods that are all there."""
    text = (MANIFESTS / "base/scheduler-config.yaml").read_text(encoding="utf-8")
    shipped: Object = yaml.safe_load(text)
    connection = shipped["clientConnection"] | {"kubeconfig": str(plane.kubeconfig("system:kube-scheduler"))}
    scheduler = plane.add_scheduler(
        ALONE,
        {
            "clientConnection": connection,
            "percentageOfNodesToScore": sample,
            "profiles": [{"schedulerName": ALONE}],
        },
    )
    try:
        with Bindings(plane, space) as bindings:
            plane.admin.create(pod("warm-up", space, scheduler=ALONE))
            bindings.moment(1)
            plane.admin.delete("pods", "warm-up", space)
            os.kill(scheduler.pid, signal.SIGSTOP)
            pods = gang("gang", space, size=size, parallelism=_parallelism(size), gated=False)
            for thing in pods:
                thing["spec"]["schedulerName"] = ALONE
            plane.admin.create_all(pods)
            start = perf_counter()
            os.kill(scheduler.pid, signal.SIGCONT)
            return bindings.moment(size + 1) - start
    finally:
        plane.remove(ALONE)
        clear(plane, space)


def _patches_alone(plane: ControlPlane, cluster: Cluster, space: str, size: int) -> float:
    """Seconds that the API server takes for the release patches of a gang."""
    client = plane.service_account_client("arnold-extender", SYSTEM)
    plane.admin.create(pod("warm-up", space))
    client.each(lambda _: client.get("pods", "warm-up", space), range(64))
    made = plane.admin.create_all(gang("gang", space, size=size, parallelism=_parallelism(size)))
    free = islice((node.name for node in cluster if node.free_gpus == node.gpus), size)
    things = [decode_pod(thing) for thing in made]
    changes = [(thing.name, release_patch(thing, node)) for thing, node in zip(things, free, strict=True)]
    start = perf_counter()
    client.each(lambda change: client.patch("pods", change[0], change[1], space), changes)
    seconds = perf_counter() - start
    clear(plane, space)
    return seconds


def _arnold(plane: ControlPlane, cluster: Cluster, space: str, size: int) -> tuple[float, float]:
    """Seconds from the last create to the first and to the last binding."""
    with warm_arnold(plane, cluster, space), Bindings(plane, space) as bindings:
        plane.admin.create_all(gang("gang", space, size=size, parallelism=_parallelism(size)))
        start = perf_counter()
        last = bindings.moment(size)
        first = bindings.moment(1)
        clear(plane, space)
        return first - start, last - start
