"""How soon the second replica plans after the leader was killed (SIGKILL)."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmarks.kubernetes.stage import clear, new_namespace, say, warm_arnold
from benchmarks.report import promises, section
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import HOLDING, plan_in
from tests.e2e.harness.pods import gang
from tests.e2e.harness.waiting import wait_until
from topology.cluster import Cluster

SECONDS = 20.0
SIZE = 96


@dataclass(frozen=True, slots=True)
class Failovers:
    """Seconds from each kill to the plan of a gang that was complete right after it."""

    nodes: int
    seconds: Sequence[float]


def measure(plane: ControlPlane, cluster: Cluster, *, kills: int) -> Failovers:
    """Kill the leader so many times; each is started again as the follower."""
    space = new_namespace(plane, "failover")
    taken = []
    with warm_arnold(plane, cluster, space, replicas=2) as arnold:
        for number in range(kills):
            leader = wait_until(arnold.leader, "a leader")
            *others, last = gang(f"gang-{number}", space, size=SIZE, parallelism=f"tp=8,pp=8,dp={SIZE // 8}")
            plane.admin.create_all(others)
            leader.kill()
            killed = perf_counter()
            plane.admin.create(last)
            wait_until(lambda: plan_in(plane.admin, f"gang-{number}", space, *HOLDING), "a plan", every=0.02)  # noqa: B023
            taken.append(perf_counter() - killed)
            say(f"fail-over {number + 1}: {taken[-1]:.1f} s")
            leader.start()
            clear(plane, space)
    return Failovers(len(cluster), taken)


def report(found: Failovers) -> str:
    """The slowest against what we promise."""
    each = ", ".join(f"{seconds:.1f}" for seconds in found.seconds)
    slowest = max(found.seconds)
    return section(
        f"Fail-over on {found.nodes:,} nodes: from the leader's SIGKILL to the second replica's plan",
        f"{len(found.seconds)} kills: {each} s.",
        promises((f"within {SECONDS:g} s", f"{slowest:.1f} s", slowest <= SECONDS)),
    )
