"""Gangs that come and go on nodes that fail and heal, while pods and plans are deleted; one seed makes all choices."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import urllib3

from tests.e2e.harness.client import ApiError, Object, create_missing
from tests.e2e.harness.demands import apart, asking, claims_for, storage_class, volume
from tests.e2e.harness.failing_nodes import FailingNodes
from tests.e2e.harness.invariants import live_pods, off_plan
from tests.e2e.harness.nodes import level_labels
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import GangPlan, all_plans, spread
from tests.e2e.harness.pods import GANG, RANK, gang, indexed_job, priority_class
from tests.e2e.harness.waiting import wait_until
from topology.cluster import Cluster

SIZES = (1, 2, 4, 8, 12, 16, 24, 48)
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
MOST_GANGS = 10
PATIENCE = 300.0
"""Seconds that something may take before it is given up: this bounds a failure, and measures nothing."""


class Outcome(Enum):
    """What is to become of a gang, and in which phases it waits for that with none of its pods on a node."""

    BOUND = ("bound", ("Queued", "Expired"))
    QUEUED = ("asks for more CPU than any node has", ("Queued",))
    INVALID = ("has a rule that its pods be apart", ("Invalid",))
    REFUSED = ("has its volumes elsewhere", ("Planned", "Released", "Expired", "Queued"))

    def __init__(self, told: str, waits_in: tuple[str, ...]) -> None:
        self.told = told
        self.waits_in = waits_in


@dataclass(frozen=True, slots=True)
class SubmittedGang:
    """A gang that was submitted.

    :param pods: as its user made them; empty = a Job makes them.
    :param dp: data-parallel degree.
    :param elastic: whether its Job says its size, and may be told another.
    :param urgent: whether its priority is higher than that of all others.
    """

    name: str
    size: int
    dp: int
    outcome: Outcome
    pods: tuple[Object, ...] = ()
    elastic: bool = False
    urgent: bool = False


_PODS_MISSING = ", its pods are not all made"
"""How a line about a gang ends that waits for its Job: pods by hand are made anew at every look."""


class Turmoil:
    """What users and machines do to a cluster, one random thing after the other.

    :param cluster: as it was made real; its nodes with tenants have volumes that no gang can reach.
    """

    def __init__(self, plane: ControlPlane, cluster: Cluster, namespace: str, chance: random.Random) -> None:
        self._plane = plane
        self._admin = plane.admin
        self._namespace = namespace
        self._chance = chance
        self._domain = {row.name: row.path[0] for row in cluster}
        self._level = level_labels(cluster)[0]
        self.counts: Counter[str] = Counter()
        self.nodes = FailingNodes(plane.admin, cluster, chance, self.counts)
        self._gangs: dict[str, SubmittedGang] = {}
        self._number = 0
        self._actions: Mapping[Callable[[], None], int] = {
            self.submit_pods: 4,
            self.submit_job: 3,
            self.submit_urgent: 4,
            self.submit_elastic: 2,
            self.resize: 3,
            self.submit_what_never_runs: 2,
            self.delete_gang: 2,
            self.delete_pods: 3,
            self.delete_plan: 2,
            self.nodes.fail: 3,
            self.nodes.heal: 2,
        }
        self._admin.apply(storage_class(namespace))
        self._admin.apply(priority_class("urgent", 1000))
        taken = [row.name for row in cluster if row.free_gpus < row.gpus]
        self._admin.create_all(volume(namespace, name) for name in taken[:8])

    def act(self, times: int) -> None:
        """Do so many things, chosen by weight."""
        for action in self._chance.choices([*self._actions], [*self._actions.values()], k=times):
            action()

    # Gangs

    def submit_pods(self) -> None:
        """A gang as pods by hand."""
        self._submit(Outcome.BOUND, self._chance.choice(SIZES))

    def submit_job(self) -> None:
        """A gang as an Indexed Job."""
        self._submit(Outcome.BOUND, self._chance.choice(SIZES), job=True)

    def submit_urgent(self) -> None:
        """A gang as pods by hand, of a higher priority than all others: it may take their nodes."""
        self._submit(Outcome.BOUND, self._chance.choice(SIZES[-3:]), priority="urgent")

    def submit_elastic(self) -> None:
        """A gang as an Indexed Job that is resized later."""
        self._submit(Outcome.BOUND, self._chance.choice(SIZES), job=True, elastic=True)

    def resize(self) -> None:
        """One of these gets another size."""
        if elastic := sorted(name for name, one in self._gangs.items() if one.elastic):
            name = self._chance.choice(elastic)
            size = self._chance.choice([size for size in SIZES if size != self._gangs[name].size])
            change = {"spec": {"completions": size, "parallelism": size}}
            self._admin.patch("jobs", name, change, self._namespace)
            self._gangs[name] = replace(self._gangs[name], size=size, dp=size)
            self.counts["gangs resized"] += 1

    def submit_what_never_runs(self) -> None:
        """A gang that can never be bound, for one of three reasons."""
        self._submit(self._chance.choice((Outcome.QUEUED, Outcome.INVALID, Outcome.REFUSED)), 4)

    def _submit(
        self, outcome: Outcome, size: int, *, job: bool = False, elastic: bool = False, priority: str | None = None
    ) -> None:
        if len(self._gangs) >= MOST_GANGS:
            self.delete_gang()
        name = f"gang-{self._number:04d}"
        self._number += 1
        dp = size if elastic else self._chance.choice([it for it in range(1, size + 1) if size % it == 0])
        parallelism = None if elastic else f"tp=8,pp={size // dp},dp={dp}"
        pods = [] if job else gang(name, self._namespace, size=size, parallelism=parallelism, priority=priority)
        claims: list[Object] = []
        if outcome is Outcome.QUEUED:
            asking(pods, cpu="500")
        elif outcome is Outcome.INVALID:
            apart(pods, self._level)
        elif outcome is Outcome.REFUSED:
            claims = claims_for(pods, self._namespace)
        made = [indexed_job(name, self._namespace, size=size, parallelism=parallelism)] if job else [*claims, *pods]
        create_missing(self._admin, made)
        self._gangs[name] = SubmittedGang(name, size, dp, outcome, tuple(pods), elastic, priority is not None)
        kind = f"{'elastic ' * elastic}{'urgent ' * (priority is not None)}{'Indexed Job' if job else 'pods'}"
        self.counts[f"gangs: {kind}, {outcome.told}"] += 1
        self.counts["pods of gangs"] += size

    def delete_gang(self) -> None:
        """One gang is deleted, wherever it is."""
        if self._gangs:
            self._delete(self._gangs[self._chance.choice(sorted(self._gangs))])
            self.counts["gangs deleted"] += 1

    def _delete(self, one: SubmittedGang) -> None:
        del self._gangs[one.name]
        if one.pods:
            names = [pod["metadata"]["name"] for pod in one.pods]
            self._admin.each(lambda name: self._admin.delete("pods", name, self._namespace), names)
        else:
            where = f"apis/batch/v1/namespaces/{self._namespace}/jobs/{one.name}"
            self._admin.request("DELETE", where, {"propagationPolicy": "Background"})

    def delete_pods(self) -> None:
        """Up to three pods of one gang are deleted; they come again."""
        if not self._gangs:
            return
        one = self._gangs[self._chance.choice(sorted(self._gangs))]
        ranks = self._chance.sample(range(one.size), min(one.size, self._chance.randint(1, 3)))
        for pod in self._pods().get(one.name, ()):
            about = pod["metadata"]
            if int(about["labels"].get(RANK) or about["labels"][JOB_INDEX]) in ranks:
                self._admin.delete("pods", about["name"], self._namespace)
                self.counts["pods deleted"] += 1
        self.replenish()

    def replenish(self) -> None:
        """Make pods by hand that are missing anew, as a controller would; a Job has its own."""
        found = self._pods()
        for one in self._gangs.values():
            there = {pod["metadata"]["name"] for pod in found.get(one.name, ())}
            create_missing(self._admin, [pod for pod in one.pods if pod["metadata"]["name"] not in there])

    def delete_plan(self) -> None:
        """A GangPlan is deleted by hand."""
        if self._gangs:
            self._admin.delete("gangplans", self._chance.choice(sorted(self._gangs)), self._namespace)
            self.counts["GangPlans deleted"] += 1

    # What becomes of it

    def settle(self) -> tuple[float, float, str]:
        """Wait until all is as it must be; programs that ended by themselves are started again.

        :return: the seconds that this took; the seconds of these in which nothing was amiss but pods that the Job
            controller, which backs off for up to minutes, had yet to make; and what was so last.
        :raises AssertionError: it never is; says what is not.
        """
        quiet, of_jobs, last = time.monotonic(), 0.0, ""
        while found := self.unsettled():
            look = time.monotonic()
            assert look < quiet + PATIENCE, "\n".join(found)
            last = found[0]
            self.counts.update(f"{name} ended by itself" for name in self._plane.revive())
            time.sleep(0.2)
            if all(line.endswith(_PODS_MISSING) for line in found):
                of_jobs += time.monotonic() - look
        return time.monotonic() - quiet, of_jobs, last

    def unsettled(self) -> list[str]:
        """What is not as it must be in the end: each gang whole on the nodes of its plan, with the spread that their
        labels say, or waiting whole and told why; no plan without a gang, no pod off its plan.

        What cannot be asked now is unsettled too.
        """
        try:
            self.replenish()
            pods, plans = self._pods(), {plan.name: plan for plan in all_plans(self._admin, self._namespace)}
            told = [self._unsettled(one, pods.get(one.name, ()), plans.get(one.name)) for one in self._gangs.values()]
            gone = [f"{name} is gone, and its plan is there" for name in plans.keys() - self._gangs.keys()]
            return [*filter(None, told), *gone, *off_plan(self._admin)]
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            return [f"the API server: {error}"]

    def _unsettled(self, one: SubmittedGang, pods: Iterable[Object], plan: GangPlan | None) -> str:
        nodes = [pod["spec"].get("nodeName") for pod in pods]
        on_nodes = sum(node is not None for node in nodes)
        state = f"{one.name}: {on_nodes} of {one.size} on nodes, {len(nodes)} there"
        if len(nodes) != one.size:
            return f"{state}{_PODS_MISSING}"
        if plan is None:
            return f"{state}, no plan"
        if on_nodes == one.size and plan.phase == "Bound" and one.outcome is Outcome.BOUND:
            if {*nodes} != {*plan.promised}:
                return f"{state}, and {len({*plan.promised})} nodes promised"
            dp, pp = spread([self._domain[node] for node in plan.nodes], dp=one.dp)
            said = plan.status.get("spread")
            return "" if said == {"dp": dp, "pp": pp} else f"{state}, its plan says {said}, its labels {dp} and {pp}"
        if one.urgent and plan.status.get("reason") == "NoRoom" and not _outlook_forbids(plan.message):
            return f"{state}, and takes no nodes of others: {plan.message}"
        if not on_nodes and plan.phase in one.outcome.waits_in:
            return ""
        growing = any("grows from" in found["message"] for found in plan.status.get("conditions", ()))
        if growing and on_nodes == len(plan.nodes):
            return ""  # there is no room for more
        return f"{state}, {plan.phase}: {plan.message}"

    def serve_all(self) -> None:
        """Let every gang that can run have its turn: those on nodes go, until none waits.  Then all go.

        :raises WaitedTooLong: a gang waits although the others are gone, or its plan outlives it.
        """
        while waiting := self._waiting():
            for one in [it for it in self._gangs.values() if it.name not in waiting and it.outcome is Outcome.BOUND]:
                self._delete(one)
            wait_until(
                lambda before=waiting: len(self._waiting()) < len(before),  # type: ignore[misc]
                f"one of {', '.join(waiting)} to be bound",
                seconds=PATIENCE,
            )
        for one in [*self._gangs.values()]:
            self._delete(one)
        wait_until(lambda: not all_plans(self._admin, self._namespace), "all plans to go", seconds=PATIENCE)

    def _waiting(self) -> list[str]:
        """Gangs that can run and do not."""
        pods = self._pods()
        return [
            one.name
            for one in self._gangs.values()
            if one.outcome is Outcome.BOUND
            and sum("nodeName" in pod["spec"] for pod in pods.get(one.name, ())) < one.size
        ]

    def _pods(self) -> Mapping[str, list[Object]]:
        """Pods by gang."""
        found: defaultdict[str, list[Object]] = defaultdict(list)
        for pod in live_pods(self._admin, self._namespace):
            found[pod["metadata"]["labels"].get(GANG, "")].append(pod)
        return found


def _outlook_forbids(message: str) -> bool:
    """Whether a gang was told when it starts, and not that stopping others would start it now, or what keeps it."""
    told = "when it starts cannot be told" in message or "; starts " in message
    return told and ("would start it now" not in message or "would start it now, but " in message)
