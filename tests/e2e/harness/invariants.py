"""What must be true of the cluster whatever happens to the programs that run it."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import urllib3

from tests.e2e.harness.client import ApiError, Client, Object
from tests.e2e.harness.nodes import GPU
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import GangPlan, all_plans
from tests.e2e.harness.waiting import wait_until

GANG = "arnold.dev/gang"


def used_twice(client: Client) -> list[str]:
    """Nodes on which more GPUs are in use than there are."""
    there = {node["metadata"]["name"]: int(node["status"]["allocatable"][GPU]) for node in client.all("nodes")}
    held: Counter[str] = Counter()
    for pod in live_pods(client):
        if where := pod["spec"].get("nodeName"):
            held[where] += _gpus(pod)
    return [f"{node}: {held[node]} GPUs in use, {there[node]} there" for node in there if held[node] > there[node]]


def promised_twice(plans: Sequence[GangPlan]) -> list[str]:
    """Nodes that two plans promise, or one plan to ranks that do not share a node."""
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for plan in plans:
        for rank, node in enumerate(plan.nodes if plan.holding else ()):
            holders[node].add(f"{plan.namespace}/{plan.name}[{rank // plan.pods_per_node}]")
    return [f"{node}: promised to {', '.join(sorted(who))}" for node, who in holders.items() if len(who) > 1]


def off_plan(client: Client) -> list[str]:
    """Members of gangs on another node than their plan gives to them."""
    pods = {pod["metadata"]["uid"]: pod for pod in live_pods(client)}
    wrong = []
    for plan in all_plans(client):
        for uid, node in zip(plan.pods, plan.nodes, strict=False):
            where = pods[uid]["spec"].get("nodeName") if uid in pods else None
            if plan.holding and where not in (None, node):
                wrong.append(f"{pods[uid]['metadata']['name']} is on {where}; its plan says {node}")
    return wrong


def half_placed(client: Client) -> list[str]:
    """Gangs of which some members are on nodes and some are not."""
    gangs: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for pod in live_pods(client):
        about = pod["metadata"]
        if name := about.get("labels", {}).get(GANG):
            gangs[about["namespace"], name].append("nodeName" in pod["spec"])
    return [f"{space}/{name}: {sum(on)} of {len(on)}" for (space, name), on in gangs.items() if 0 < sum(on) < len(on)]


def invariants(plane: ControlPlane, *, seconds: float = 90.0) -> None:
    """No node promised or used twice, no member off its plan, and no gang half placed for good.

    :param seconds: a gang that is half placed must be whole, or wait whole, by then.
    """
    wait_until(lambda: not half_placed(plane.admin), "gangs to be placed whole or not at all", seconds=seconds)
    assert used_twice(plane.admin) == []
    assert promised_twice(all_plans(plane.admin)) == []
    assert off_plan(plane.admin) == []


class Lookout:
    """Looks all the time, in a thread of its own, that no node is promised or used twice.

    A look that the API server does not answer, as it is away or without its store, is none.
    """

    def __init__(self, client: Client, *, every: float) -> None:
        self._client = client
        self._every = every
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: list[str] = []
        self.looks = 0

    def __enter__(self) -> Lookout:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            over = self._done.wait(self._every)  # one look at least, however soon it is over
            try:
                self.seen += used_twice(self._client) + promised_twice(all_plans(self._client))
            except (ApiError, urllib3.exceptions.HTTPError):
                continue
            self.looks += 1


@contextmanager
def guarded(plane: ControlPlane, *, every: float = 0.2) -> Iterator[Lookout]:
    """Look all the time, not only at the end, that no node is promised or used twice; then check all invariants."""
    with Lookout(plane.admin, every=every) as lookout:
        yield lookout
    assert not lookout.seen, lookout.seen[:3]
    assert lookout.looks
    invariants(plane)


def live_pods(client: Client, namespace: str | None = None) -> list[Object]:
    """Pods that use GPUs or may come to: not finished."""
    return [pod for pod in client.all("pods", namespace) if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def _gpus(pod: Object) -> int:
    return sum(int(it["resources"].get("limits", {}).get(GPU, 0)) for it in pod["spec"]["containers"])
