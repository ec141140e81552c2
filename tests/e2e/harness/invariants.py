"""What must be true of the cluster whatever happens to the programs that run it."""

from __future__ import annotations

import threading
import time
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
LONGEST_GAP = 3.0
"""Seconds between two looks that count: in a longer one there was no API server to be asked, or to be told."""


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
        for rank, node in enumerate(plan.promised):
            if node:
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


def released_in_vain(pods: Sequence[Object], plans: Sequence[GangPlan]) -> list[str]:
    """Released pods on no node whose gang does not have the node that they were released to.

    A plan that has nodes has theirs.  Without one it is in the plan of no other gang, until one gives it back.
    """
    of_gang = {(plan.namespace, plan.name): plan for plan in plans}
    holder = {node: (plan.namespace, plan.name) for plan in plans for node in plan.promised}
    lines = []
    for pod in _on_their_way(pods):
        key, node = _gang_of(pod), _node(pod)
        plan = of_gang.get(key)
        if holder.get(node) == key or (plan is not None and not plan.holding and plan.gave_back):
            continue
        if (plan is not None and plan.holding) or node in holder:
            other = "/".join(holder[node]) if node in holder else "nobody"
            lines.append(f"{'/'.join(key)}: {_named(pod)} was released to {node}, which {other} has")
    return lines


def unused(nodes: Sequence[Object], pods: Sequence[Object], plans: Sequence[GangPlan]) -> list[str]:
    """Sound nodes that are promised to a gang, by its plan or by its released pods, and on which no pod of it is.

    A rank without a pod uses none: its controller has yet to make it.
    """
    sound = {node["metadata"]["name"] for node in nodes if _sound(node)}
    used = {(*_gang_of(pod), where) for pod in pods if (where := pod["spec"].get("nodeName"))}
    there = {pod["metadata"]["uid"]: pod for pod in pods}
    promised = {
        (plan.namespace, plan.name, node): _named(there[uid])
        for plan in plans
        for uid, node in zip(plan.pods, plan.promised, strict=False)
        if uid in there
    }
    silent = {(plan.namespace, plan.name) for plan in plans if plan.holding or plan.gave_back}
    on_their_way = (pod for pod in _on_their_way(pods) if _gang_of(pod) not in silent)
    promised |= {(*_gang_of(pod), _node(pod)): _named(pod) for pod in on_their_way}
    return [
        f"{space}/{name}: {node} is promised for {pod}, which is not on it"
        for (space, name, node), pod in promised.items()
        if node in sound and (space, name, node) not in used
    ]


def unneeded(jobs: Sequence[Object], plans: Sequence[GangPlan]) -> list[str]:
    """Nodes that are promised for ranks which the Job of the gang does not have any more."""
    sizes = {(job["metadata"]["namespace"], job["metadata"]["name"]): job["spec"].get("completions") for job in jobs}
    return [
        f"{plan.namespace}/{plan.name}: {node} is promised for rank {rank} of {size}"
        for plan in plans
        if (size := sizes.get((plan.namespace, plan.name))) is not None
        for rank, node in enumerate(plan.promised)
        if node and rank >= size
    ]


def _on_their_way(pods: Sequence[Object]) -> list[Object]:
    """Pods that were released, are on no node, and are not being deleted."""
    released = [pod for pod in pods if "arnold.dev/released" in pod["metadata"].get("labels", {})]
    return [pod for pod in released if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]


def _node(pod: Object) -> str:
    """The node that a pod was released to."""
    node: str = pod["metadata"]["annotations"]["arnold.dev/node"]
    return node


def _gang_of(pod: Object) -> tuple[str, str]:
    about = pod["metadata"]
    return about["namespace"], about.get("labels", {}).get(GANG, "")


def _named(pod: Object) -> str:
    """A pod's name, and enough of its UID to tell it from others of that name."""
    return f"{pod['metadata']['name']} ({pod['metadata']['uid'][:8]})"


def _sound(node: Object) -> bool:
    """Whether pods can start on a node."""
    spec, conditions = node.get("spec", {}), node["status"].get("conditions", [])
    is_ready = any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
    return is_ready and not spec.get("unschedulable") and not spec.get("taints")


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

    :param patience: seconds that a released pod may wait for a node that its gang has not, and that a promised node
        may be unused, or promised for a rank that its Job has no more, but for those in which the API server did not
        answer; ``None`` = not looked at.
    """

    def __init__(self, client: Client, *, every: float, patience: float | None = None) -> None:
        self._client = client
        self._every = every
        self._patience = patience
        self._lasting: dict[str, float] = {}  # what is not as it should be for a while -> seconds
        self._looked = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: list[str] = []
        self.looks = 0
        self.longest: dict[str, float] = {}  # seconds for which each kind of thing was seen, at most

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
                self.seen += used_twice(self._client) + promised_twice(plans := all_plans(self._client))
                if self._patience is not None:
                    self._look_at_lasting(plans, self._patience)
            except (ApiError, urllib3.exceptions.HTTPError):
                continue
            self.looks += 1

    def _look_at_lasting(self, plans: Sequence[GangPlan], patience: float) -> None:
        """Note what has been wrong for too long, and not only between two writes."""
        nodes, pods = self._client.all("nodes"), live_pods(self._client)
        kinds = {"released in vain": released_in_vain(pods, plans), "unused": unused(nodes, pods, plans)}
        kinds["unneeded"] = unneeded(self._client.all("jobs"), plans)
        now, elapsed, lasting = time.monotonic(), time.monotonic() - self._looked, self._lasting
        self._looked, self._lasting = now, {}
        for kind, lines in kinds.items():
            self.longest.setdefault(kind, 0.0)
            for line in lines:
                self._lasting[line] = lasting[line] + min(elapsed, LONGEST_GAP) if line in lasting else 0.0
                self.longest[kind] = max(self.longest[kind], self._lasting[line])
                if self._lasting[line] > patience:
                    self.seen.append(f"for {patience:g} s: {line}")


@contextmanager
def guarded(plane: ControlPlane, *, every: float = 0.2, patience: float | None = None) -> Iterator[Lookout]:
    """Look all the time, not only at the end, that no node is promised or used twice; then check all invariants.

    :param patience: see :class:`Lookout`.
    """
    with Lookout(plane.admin, every=every, patience=patience) as lookout:
        yield lookout
    assert not lookout.seen, lookout.seen[:3]
    assert lookout.looks
    invariants(plane)


def live_pods(client: Client, namespace: str | None = None) -> list[Object]:
    """Pods that use GPUs or may come to: not finished."""
    return [pod for pod in client.all("pods", namespace) if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def _gpus(pod: Object) -> int:
    return sum(int(it["resources"].get("limits", {}).get(GPU, 0)) for it in pod["spec"]["containers"])
