"""What an ordinary user, the owner of a namespace or anybody on the network may try, on a real cluster."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.harness.arnold import Arnold, running
from tests.e2e.harness.certificates import LOOPBACK
from tests.e2e.harness.client import ApiError, Client, Object, client_context, path
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import all_plans, judged, plan_in
from tests.e2e.harness.pods import bound, gang, gated, pod, priority_class
from tests.e2e.harness.waiting import stays, wait_until
from topology.cluster import Cluster
from topology.generate import generate

RBAC = "rbac.authorization.k8s.io"
MERGE = "application/merge-patch+json"
SLOWLY = "--write-rate=10"
"""Writes a second, so that there is time for something to fail while a gang is being released."""


def user(plane: ControlPlane, name: str, namespace: str, *resources: str) -> Client:
    """Somebody with all rights to some resources of a namespace; ``*`` = to all."""
    about = {"name": name, "namespace": namespace}
    rules = [{"apiGroups": ["*"], "resources": list(resources), "verbs": ["*"]}]
    plane.admin.apply({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": about, "rules": rules})
    binding: Object = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": about}
    binding["roleRef"] = {"apiGroup": RBAC, "kind": "Role", "name": name}
    binding["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": name}]
    plane.admin.apply(binding)
    client = plane.client(name)

    def heeded() -> bool:
        try:
            client.all("pods", namespace)
        except ApiError:
            return False
        return True

    wait_until(heeded, "the user's rights to be heeded")
    return client


@pytest.fixture
def cluster(arnold_plane: ControlPlane) -> Cluster:
    """Two minipods of 8 free nodes."""
    return make_real(arnold_plane.admin, generate("minipods", minipods=2, nodes=16))


# Texts of any length


def test_a_long_name_of_a_gang(arnold_plane: ControlPlane, namespace: str) -> None:
    """A user names a gang with 200 kB on 1,500 nodes: answers stay short, the extender small, and others are served."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=50, nodes=1_500)
    make_real(plane.admin, cluster)
    mallory = user(plane, "mallory", namespace, "pods")
    with running(plane, levels=level_labels(cluster)) as arnold:
        before = peak_memory(arnold)
        long = pod("long", namespace, scheduler="arnold", labels={"arnold.dev/rank": "0"})
        long["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "n" * 200_000, "arnold.dev/gang-size": "1"}
        made = mallory.create(long)
        _, answer = arnold.ask("filter", {"Pod": made, "Nodes": None, "NodeNames": list(cluster.names)})
        size = len(json.dumps(answer).encode())
        # 400 bytes for each node, as 2 MB for 5,000; a node's name has some 20, its reason at most 253.
        assert size < 400 * 1_500
        mallory.create(pod("other", namespace, scheduler="arnold"))
        wait_until(lambda: "other" in bound(plane.admin, namespace), "somebody else's pod on a node")
        (plan,) = wait_until(lambda: all_plans(plane.admin, namespace), "a GangPlan that says what is wrong")
        plan = wait_until(lambda: plan_in(plane.admin, plan.name, namespace, "Invalid"), "the gang to be invalid")
        assert "200,000 bytes" in plan.message
        grown = peak_memory(arnold) - before
        print(f"1,500 nodes: answer {size / 1e6:.2f} MB, peak {before} MB, grown by {grown} MB")
        # Nodes, pods and the solver's library take some 50 MB after the start; the answer alone took 300.
        assert grown < 150
        longest = max(map(len, Path(arnold.extender.log).read_bytes().splitlines()))
        assert longest < 6_000


def peak_memory(arnold: Arnold) -> int:
    """The most memory that the extender has had, in MB."""
    status = Path(f"/proc/{arnold.extender.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


# Nodes of one's own choice


def test_a_gang_that_pins_itself(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """Without a gate, with a node in each pod: it passes nobody, is told why, and once corrected waits for its turn."""
    plane = arnold_plane
    plane.admin.apply(priority_class("urgent", 1_000))
    mallory = user(plane, "mallory", namespace, "pods")
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(pod("single", namespace, node=cluster.names[0]))
        first = gang("first", namespace, size=16, parallelism="tp=8,pp=2,dp=8")
        for thing in first:
            thing["spec"]["priorityClassName"] = "urgent"
        plane.admin.create_all(first)
        wait_until(lambda: judged(plane.admin, "first", namespace), "the first gang to wait for one node")
        mallory.create_all(self_pinned("jumper", namespace, cluster.names[1:9]))
        plan = wait_until(lambda: plan_in(plane.admin, "jumper", namespace, "Invalid"), "the other to be refused")
        assert plan.status["reason"] == "ChoosesNodes"
        stays(lambda: list(bound(plane.admin, namespace)) == ["single"], "nobody else has a node")
        for thing in self_pinned("jumper", namespace, cluster.names[1:9]):
            mallory.delete("pods", thing["metadata"]["name"], namespace)
            del thing["spec"]["affinity"]
            mallory.create(thing)
        wait_until(lambda: plan_in(plane.admin, "jumper", namespace, "Queued"), "the other to wait behind the first")
        plane.admin.delete("pods", "single", namespace)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 16, "the first gang on its nodes")
        assert {name.partition("-")[0] for name in bound(plane.admin, namespace)} == {"first"}


def self_pinned(name: str, namespace: str, nodes: tuple[str, ...] | list[str]) -> list[Object]:
    """A gang in a form to which no policy adds a gate, whose pods each name a node."""
    made = []
    for rank, node in enumerate(nodes):
        labels = {"scheduling.x-k8s.io/pod-group": name, "arnold.dev/rank": str(rank)}
        notes = {"arnold.dev/gang-size": str(len(nodes))}
        thing = pod(f"{name}-{rank}", namespace, scheduler="arnold", labels=labels, annotations=notes)
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        thing["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        made.append(thing)
    return made


def test_a_plan_is_lost_while_its_gang_is_released(arnold_plane: ControlPlane, namespace: str) -> None:
    """The extender dies half way, and the GangPlan is deleted: back again, it knows its own pods by their mark."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=4, nodes=64)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster), options=[SLOWLY]) as arnold, guarded(plane):
        arnold.scheduler.kill()
        plane.admin.create_all(gang("llm", namespace, size=48, parallelism="tp=8,pp=4,dp=12"))
        wait_until(lambda: gated(plane.admin, namespace) < 48, "some gates to come off", every=0.01)
        arnold.extender.kill()
        there = [thing["metadata"] for thing in plane.admin.all("pods", namespace)]
        released = {about["name"]: node for about in there if (node := about["annotations"].get("arnold.dev/node"))}
        assert 0 < len(released) < 48
        plane.admin.delete("gangplans", "llm", namespace)
        arnold.extender.start()
        arnold.scheduler.start()
        wait_until(lambda: len(bound(plane.admin, namespace)) == 48, "48 pods on nodes", seconds=120.0)
        assert bound(plane.admin, namespace).items() >= released.items()


def test_a_plan_is_lost_of_a_gang_without_the_gate(
    arnold_plane: ControlPlane, namespace: str, cluster: Cluster
) -> None:
    """Its GangPlan goes and one of its pods is made anew: the others, which bear no mark, stay, and it runs again."""
    plane = arnold_plane
    pods = self_pinned("llm", namespace, cluster.names[:8])
    for thing in pods:
        del thing["spec"]["affinity"]
    with running(plane, levels=level_labels(cluster)) as arnold, guarded(plane):
        plane.admin.create_all(pods)
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        arnold.extender.kill()
        plane.admin.delete("gangplans", "llm", namespace)
        plane.admin.delete("pods", "llm-3", namespace)
        wait_until(lambda: plane.admin.find("pods", "llm-3", namespace) is None, "one of its pods to go")
        others = bound(plane.admin, namespace)
        plane.admin.create(pods[3])
        arnold.extender.start()
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes", seconds=120.0)
        assert others.items() < bound(plane.admin, namespace).items()


# Many gangs


def test_a_gang_behind_many_of_another_namespace(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """500 gangs of one pod ask for 16 nodes: one that comes after them hears that it is queued before they all do."""
    plane = arnold_plane
    name = "patient"
    plane.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create_all(one for number in range(500) for one in gang(f"g{number}", namespace, size=1))
        plane.admin.create_all(gang("late", name, size=2))
        wait_until(lambda: plane.admin.find("gangplans", "late", name), "the late one to hear of itself", every=0.05)
        assert len(plane.admin.all("gangplans", namespace)) < 450
    plane.admin.request("DELETE", f"api/v1/namespaces/{name}")


# Plans of others


def test_the_owner_of_a_namespace_holds_no_nodes(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """All rights in a namespace, and a plan there: its status cannot be written, and the cluster stays everybody's."""
    plane = arnold_plane
    owner = user(plane, "owner", namespace, "*", "*/*")
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        owner.create_all(gang("own", namespace, size=1, parallelism="tp=8"))
        plan = wait_until(lambda: plan_in(plane.admin, "own", namespace, "Bound"), "the owner's gang on its node")
        where = f"{path('gangplans', namespace)}/own"
        more = {"status": {"assignment": {"nodes": "x"}}}
        for method, place, body in (
            ("PATCH", f"{where}/status", more),
            ("PATCH", where, {"spec": {"size": 45}}),
            ("DELETE", where, None),
            ("DELETE", path("gangplans", namespace), None),
        ):
            with pytest.raises(ApiError) as refusal:
                owner.request(method, place, body, content_type=MERGE)
            assert "arnold-plans" in str(refusal.value)
        assert plan_in(plane.admin, "own", namespace, "Bound") == plan
        owner.create_all(gang("all", namespace, size=15, parallelism="tp=8,dp=15"))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 16, "all nodes for who needs them")


def test_plans_go_with_their_namespace(arnold_plane: ControlPlane, cluster: Cluster) -> None:
    """Deleting a namespace takes its GangPlans along; so does an administrator, waiting for dependents first."""
    plane = arnold_plane
    for name in ("leaving", "foreground"):
        plane.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    with running(plane, levels=level_labels(cluster)) as arnold:
        for name in ("leaving", "foreground"):
            plane.admin.create_all(gang("llm", name, size=4, parallelism="tp=8,dp=4"))
            wait_until(partial(plan_in, plane.admin, "llm", name, "Bound"), "the gang on its nodes")
        # What the extender would do for itself, the others do.
        arnold.extender.kill()
        plane.admin.request("DELETE", "api/v1/namespaces/leaving")
        wait_until(lambda: plane.admin.find("namespaces", "leaving") is None, "the namespace to go", seconds=120.0)
        where = f"{path('gangplans', 'foreground')}/llm"
        plane.admin.request("DELETE", where, {"propagationPolicy": "Foreground"})
        wait_until(lambda: plane.admin.find("gangplans", "llm", "foreground") is None, "the plan to go")
        plane.admin.request("DELETE", "api/v1/namespaces/foreground")


# Anybody on the network


@contextmanager
def connections(arnold: Arnold, number: int, request: bytes) -> Iterator[list[ssl.SSLSocket]]:
    """Connections without a certificate that each send something and are left alone."""
    context = client_context(arnold.plane.certificates.authority)
    with ExitStack() as stack:
        held = []
        for _ in range(number):
            raw = stack.enter_context(socket.create_connection((LOOPBACK, arnold.ports[0])))
            held.append(stack.enter_context(context.wrap_socket(raw, server_hostname=LOOPBACK)))
            held[-1].sendall(request)
        yield held


@pytest.mark.parametrize("request_", [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /hea"], ids=["idle", "half"])
def test_connections_without_a_certificate(arnold_plane: ControlPlane, cluster: Cluster, request_: bytes) -> None:
    """999 of them that are kept: kube-scheduler is answered, probes are, and in the end all are cut off."""
    question = {"Pod": {"metadata": {"name": "pod"}}, "Nodes": None, "NodeNames": list(cluster.names)}
    with (
        running(arnold_plane, levels=level_labels(cluster)) as arnold,
        connections(arnold, 999, request_) as held,
    ):
        for _ in range(10):
            assert arnold.ask("filter", question)[0] == 200
            assert arnold.call("GET", "healthz", caller=None) == (200, "ok")
        wait_until(lambda: all(map(hung_up, held)), "the extender to hang up on all of them")
        assert arnold.extender.alive


def hung_up(connection: ssl.SSLSocket) -> bool:
    """Whether the other side has closed a connection, whatever it said before."""
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except (ssl.SSLWantReadError, BlockingIOError):
        return False
    except OSError:
        return True
    return True


def test_nodes_and_names_that_contradict_each_other(arnold_plane: ControlPlane, cluster: Cluster) -> None:
    """Both forms of a question at once, of different lengths: an answer that says so, and no fault in the log."""
    items = [{"metadata": {"name": name}} for name in cluster.names]
    question = {"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": items}, "NodeNames": list(cluster.names[:3])}
    with running(arnold_plane, levels=level_labels(cluster)) as arnold:
        status, answer = arnold.ask("filter", question)
        assert (status, answer["Error"].partition(",")[0]) == (200, "Nodes has 16 nodes")
        assert "Traceback" not in Path(arnold.extender.log).read_text(encoding="utf-8")
