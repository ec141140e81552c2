"""The parts of the benchmark ``kubernetes``, and what may be said about each on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the help of the benchmarks waits for no control plane
    from tests.e2e.harness.plane import ControlPlane
    from topology.cluster import Cluster

KUBERNETES = ("binding", "filter", "waiting", "failover", "churn", "hostile")  # All parts


def add_kubernetes(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command, by a function that adds one with its name, what runs it and a line about it."""
    command = add("kubernetes", _run, "gangs on a real control plane: speed, latency, memory, fail-over")
    command.add_argument("--parts", nargs="+", default=list(KUBERNETES), choices=KUBERNETES, metavar="PART")
    command.add_argument("--nodes", type=int, default=5_000)
    command.add_argument("--gang", type=int, default=1_200, help="pods of the gang, a multiple of 8")
    command.add_argument("--rounds", type=int, default=3, help="of binding, each way in turn")
    command.add_argument("--seconds", type=float, default=10.0, help="of each kind of Filter question")
    command.add_argument("--minutes", type=float, default=10.0, help="of waiting and of churn")
    command.add_argument("--rate", type=float, default=2.0, help="gangs a second that leave and come in churn")
    command.add_argument("--requests", type=int, default=20_000, help="of hostile")
    command.add_argument("--kills", type=int, default=3, help="of the leader")


def _run(options: argparse.Namespace) -> str:
    from benchmarks.kubernetes import binding, failover, filtering, hostile, waiting
    from benchmarks.kubernetes.stage import measured_cluster, stage

    cluster = measured_cluster(options.nodes)
    with stage(cluster, kubelets="churn" in options.parts) as plane:
        parts: dict[str, Callable[[], str]] = {
            "binding": lambda: binding.report(
                binding.measure(plane, cluster, size=options.gang, rounds=options.rounds)
            ),
            "filter": lambda: filtering.report(
                filtering.measure(plane, cluster, size=options.gang, seconds=options.seconds)
            ),
            "waiting": lambda: waiting.report(
                waiting.measure(plane, cluster, waiting.Traffic(size=100, period=3.0, minutes=options.minutes))
            ),
            "failover": lambda: failover.report(failover.measure(plane, cluster, kills=options.kills)),
            "churn": lambda: _churn(plane, cluster, rate=options.rate, minutes=options.minutes),
            "hostile": lambda: hostile.report(hostile.measure(plane, cluster, requests=options.requests, seed=5)),
        }
        return "\n".join(parts[part]() for part in options.parts)


def _churn(plane: ControlPlane, cluster: Cluster, *, rate: float, minutes: float) -> str:
    from benchmarks.kubernetes import waiting

    plane.kwok.start()
    try:
        return waiting.report(waiting.measure(plane, cluster, waiting.Traffic(10, 1.0 / rate, minutes)))
    finally:
        plane.kwok.stop()
