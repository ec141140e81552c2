"""The least that the extender may do: each verb of its roles is taken away in turn, and it says what it cannot do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

import pytest
import yaml

from extender.cluster_api.client import ClusterApi
from extender.cluster_api.connect import find_cluster
from extender.cluster_api.flow import FlowControl
from extender.cluster_cache import ClusterCache
from extender.controller.store import Stores
from extender.kubernetes_names import HISTORY_NAME
from extender.service.followed_cluster import OWNERS, make_reflectors
from tests.e2e.harness.arnold import Arnold, component, running
from tests.e2e.harness.client import Object
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.nodes import namespace as namespace_object
from tests.e2e.harness.plane import ControlPlane, stand_in
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang, priority_class
from tests.e2e.harness.waiting import WaitedTooLong, wait_until
from tests.manifests.rendering import MANIFESTS, SYSTEM
from topology.generate import generate

FOLLOWING = ("list", "watch")
REFUSAL = re.compile(r'cannot (\w+) resource \\?"([\w/]+)\\?" in API group \\?"([\w.-]*)\\?"')
"""What the API server says to who may not, as the extender's log repeats it."""
EXTENDER = {"kind": "ServiceAccount", "name": "arnold-extender", "namespace": SYSTEM}


class Right(NamedTuple):
    """A verb, a resource (``pods/status``) and its API group."""

    verb: str
    resource: str
    group: str


def roles() -> list[Object]:
    """All roles that the manifests bind to the extender, those of components too."""
    files = (MANIFESTS / "base" / "extender-rbac.yaml", MANIFESTS / "components" / "preemption" / "rbac.yaml")
    things = [thing for file in files for thing in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    names = {thing["roleRef"]["name"] for thing in things if EXTENDER in thing.get("subjects", ())}
    return [thing for thing in things if thing["kind"].endswith("Role") and thing["metadata"]["name"] in names]


def rights_of(rule: Object) -> Iterator[Right]:
    """What a rule of a role lets one do."""
    for verb in rule["verbs"]:
        for resource in rule["resources"]:
            yield from (Right(verb, resource, group) for group in rule["apiGroups"])


RIGHTS = sorted({right for role in roles() for rule in role["rules"] for right in rights_of(rule)})


@contextmanager
def without(plane: ControlPlane, missing: Right) -> Iterator[None]:
    """All roles as they are but for one right, while the block runs."""
    for role in roles():
        rules = [
            {**rule, "apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
            for rule in role["rules"]
            for right in rights_of(rule)
            if right != missing
        ]
        plane.admin.apply({**role, "rules": rules})
    client = plane.service_account_client("arnold-extender", SYSTEM)
    resource, _, part = missing.resource.partition("/")
    asked = {"verb": missing.verb, "group": missing.group, "resource": resource, "subresource": part}
    # a Lease is granted in one namespace, by name
    asked |= {"namespace": SYSTEM, "name": "arnold-extender"} if missing.resource == "leases" else {}
    review: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}}
    review["spec"] = {"resourceAttributes": asked}
    wait_until(lambda: not client.create(review)["status"]["allowed"], f"{missing} to be gone", every=0.02)
    try:
        yield
    finally:
        for role in roles():
            plane.admin.apply(role)
        wait_until(lambda: client.create(review)["status"]["allowed"], f"{missing} to be there again", every=0.02)


@pytest.fixture
def extender_plane(arnold_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with every component that gives the extender a right."""
    with component(arnold_plane, "preemption/rbac.yaml"):
        arnold_plane.admin.apply(priority_class("urgent", 1000))
        yield arnold_plane


def test_a_kind_that_cannot_be_followed_is_named(
    extender_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    """Each verb by which the extender follows a kind; with all of them nothing is refused, and all is known."""
    plane = extender_plane
    others = [resource for resource in OWNERS if not resource.version and resource.group != "scheduling.k8s.io"]
    # a test before may have left the real ones, whose versions may not go
    there = plane.admin.request("GET", "apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    stand_ins = [stand_in(resource.group, "v1alpha1", resource.kind) for resource in others]
    names = {thing["metadata"]["name"] for thing in there}
    plane.define(thing for thing in stand_ins if thing["metadata"]["name"] not in names)
    kubeconfig = plane.service_account("arnold-extender", SYSTEM)
    followed = [right for right in RIGHTS if right.verb in FOLLOWING]

    async def follow(missing: Right | None) -> bool:
        """Follow all kinds until the lack of a right is said, or else until all are known."""
        credentials = await find_cluster(str(kubeconfig))
        flow = FlowControl(rate=1000.0, burst=1000, parallel=8)
        async with ClusterApi(credentials.configuration, flow=flow) as api:
            stores = Stores(ClusterCache())
            reflectors = make_reflectors(api, stores, changed=lambda: None, sharing=True, evicts=True)
            tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
            try:
                async with asyncio.timeout(10.0):
                    while missing not in {Right(*words) for words in REFUSAL.findall(caplog.text)}:
                        if missing is None and all(reflector.synced for reflector in reflectors):
                            break
                        await asyncio.sleep(0.02)
            except TimeoutError:
                return False
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return True

    async def silent() -> list[Right]:
        """The rights of which nobody would know that they are missing."""
        assert await follow(None)
        assert not REFUSAL.findall(caplog.text)
        unsaid = []
        for missing in followed:
            caplog.clear()
            with without(plane, missing):
                if not await follow(missing):
                    unsaid.append(missing)
        await asyncio.sleep(0.25)  # connections close after their sessions, as aiohttp's documentation has it
        return unsaid

    assert asyncio.run(silent()) == []


def _small(plane: ControlPlane, namespace: str) -> None:
    """Two pods of a gang, the second after the plan is there, if it may be."""
    first, second = gang("llm", namespace, size=2)
    plane.admin.create(first)
    with suppress(WaitedTooLong):
        wait_until(partial(plan_in, plane.admin, "llm", namespace, "Waiting"), "the plan of one pod", seconds=3.0)
    plane.admin.create(second)


def _ended(plane: ControlPlane, namespace: str) -> None:
    for rank in range(2):
        plane.admin.delete("pods", f"llm-{rank}", namespace)


def _ran(plane: ControlPlane, namespace: str) -> None:
    """A gang of two is on its nodes."""
    plane.admin.create_all(gang("llm", namespace, size=2))
    wait_until(partial(plan_in, plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")


def _ran_twice(plane: ControlPlane, namespace: str) -> None:
    """Another has run in that namespace before."""
    _ran(plane, namespace)
    _ended(plane, namespace)
    wait_until(lambda: plane.admin.all("ganghistories", namespace), "it to be remembered")
    wait_until(lambda: not plane.admin.all("gangplans", namespace), "its plan to go")
    _ran(plane, namespace)


def _ran_after_nonsense(plane: ControlPlane, namespace: str) -> None:
    """What is remembered there cannot be read, so the extender takes it for absent until it is to be written."""
    sums = {"jobs": 1, "seconds": -1, "logs": 0, "squares": 0}
    spec = {"kinds": [{"pattern": "llm", "gpus": 16, "runTimes": sums}]}
    about = {"name": HISTORY_NAME, "namespace": namespace}
    history = {"apiVersion": "arnold.dev/v1alpha1", "kind": "GangHistory", "metadata": about, "spec": spec}
    plane.service_account_client("arnold-extender", SYSTEM).create(history)
    _ran(plane, namespace)


def _reserved(plane: ControlPlane, namespace: str) -> None:
    spec = {"parallelism": "tp=8,dp=2", "arrives": "2099-01-01T00:00:00Z"}
    about = {"name": "llm", "namespace": namespace}
    plane.admin.create(
        {"apiVersion": "arnold.dev/v1alpha1", "kind": "CapacityReservation", "metadata": about, "spec": spec}
    )


def _renewed(plane: ControlPlane, namespace: str) -> None:
    """The Lease is had again, so that it is news when it is not."""

    def renewal() -> str:
        lease = plane.admin.find("leases", "arnold-extender", SYSTEM)
        return str(lease["spec"]["renewTime"]) if lease else ""

    last = renewal()
    wait_until(lambda: renewal() not in ("", last), "the Lease to be renewed")


def _lease_gone(plane: ControlPlane, namespace: str) -> None:
    plane.admin.delete("leases", "arnold-extender", SYSTEM)


def _nothing(plane: ControlPlane, namespace: str) -> None:
    """Nothing need happen."""


Does = Callable[[ControlPlane, str], None]
WRITES: dict[Right, tuple[Does, Does]] = {
    Right("patch", "pods", ""): (_nothing, _small),
    Right("patch", "pods/status", ""): (_nothing, _small),
    Right("create", "events", "events.k8s.io"): (_nothing, _small),
    Right("create", "gangplans", "arnold.dev"): (_nothing, _small),
    Right("update", "gangplans", "arnold.dev"): (_nothing, _small),
    Right("update", "gangplans/status", "arnold.dev"): (_nothing, _small),
    Right("delete", "gangplans", "arnold.dev"): (_ran, _ended),
    Right("create", "ganghistories", "arnold.dev"): (_ran, _ended),
    Right("update", "ganghistories", "arnold.dev"): (_ran_twice, _ended),
    Right("get", "ganghistories", "arnold.dev"): (_ran_after_nonsense, _ended),
    Right("update", "capacityreservations/status", "arnold.dev"): (_nothing, _reserved),
    Right("get", "leases", "coordination.k8s.io"): (_nothing, _nothing),
    Right("update", "leases", "coordination.k8s.io"): (_renewed, _nothing),
    Right("create", "leases", "coordination.k8s.io"): (_renewed, _lease_gone),
}
"""Right -> what happened before it is taken away, and what happens then."""
STOPPING = {Right("delete", "pods", ""): "advise", Right("create", "pods/eviction", ""): "on"}
"""Right -> how the extender runs that needs it."""


def test_every_right_is_looked_at() -> None:
    """Each verb of the manifests is one of those that are taken away in this file."""
    looked_at = {right for right in RIGHTS if right.verb in FOLLOWING} | WRITES.keys() | STOPPING.keys()
    assert looked_at == {*RIGHTS}


def _says(arnold: Arnold, missing: Right, *, since: int) -> bool:
    """Whether the extender's log tells of a refusal, after so many bytes."""
    said = arnold.extender.log.read_bytes()[since:].decode(errors="replace")
    return missing in {Right(*words) for words in REFUSAL.findall(said)}


def test_what_cannot_be_written_is_named(extender_plane: ControlPlane, namespace: str) -> None:
    """Each verb by which the extender writes; when it has it again, what waited is done."""
    plane = extender_plane
    cluster = generate("minipods", minipods=2, nodes=40)
    make_real(plane.admin, cluster)
    silent = []
    with running(plane, levels=level_labels(cluster)) as arnold:
        for number, (missing, (before, then)) in enumerate(WRITES.items()):
            space = f"{namespace}-{number}"
            plane.admin.create(namespace_object(space))
            before(plane, space)
            since = arnold.extender.log.stat().st_size
            with without(plane, missing):
                then(plane, space)
                try:
                    wait_until(partial(_says, arnold, missing, since=since), str(missing), seconds=15.0)
                except WaitedTooLong:
                    silent.append(missing)
        assert silent == []
        # nothing but the events is lost for good: every gang that has pods is on nodes
        _all_bound(plane, namespace)


def _all_bound(plane: ControlPlane, prefix: str) -> None:
    def waiting() -> list[str]:
        pods = [pod for pod in plane.admin.all("pods") if pod["metadata"]["namespace"].startswith(f"{prefix}-")]
        return [pod["metadata"]["name"] for pod in pods if "nodeName" not in pod["spec"]]

    wait_until(lambda: not waiting(), "all pods on nodes")


@pytest.mark.parametrize("missing", STOPPING, ids=lambda right: f"{right.verb} {right.resource}")
def test_what_cannot_be_stopped_is_named(extender_plane: ControlPlane, namespace: str, missing: Right) -> None:
    """Four nodes, taken by a gang that may be stopped; the one for which it has to go waits, and then gets them."""
    plane = extender_plane
    cluster = generate("minipods", minipods=2, nodes=4)
    make_real(plane.admin, cluster)
    options = ["--policy=arnold", f"--preemption={STOPPING[missing]}"]
    with running(plane, levels=level_labels(cluster), options=options) as arnold:
        _reserved(plane, namespace)
        wait_until(lambda: plane.admin.get("capacityreservations", "llm", namespace).get("status"), "a zone")
        spare = gang("spare", namespace, size=4, annotations={"arnold.dev/preemptible": "true"})
        plane.admin.create_all(spare)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 4, "the gang that may be stopped on nodes")
        since = arnold.extender.log.stat().st_size
        with without(plane, missing):
            urgent = gang("llm", namespace, size=2, parallelism="tp=8,dp=2", priority="urgent")
            plane.admin.create_all(urgent)
            wait_until(partial(_says, arnold, missing, since=since), str(missing))
        wait_until(partial(plan_in, plane.admin, "llm", namespace, "Bound"), "the gang on the nodes of the other")
