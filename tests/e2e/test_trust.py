"""What the extender must not believe: its own old news, pods that claim what they are not, callers without a name."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from tests.e2e.harness.arnold import running
from tests.e2e.harness.certificates import Certificates
from tests.e2e.harness.client import Object
from tests.e2e.harness.forwarder import Forwarder
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import GANG, RANK, bound, gang, pod
from tests.e2e.harness.waiting import stays, wait_until
from topology.cluster import Cluster
from topology.generate import generate

REFUSED = "FailedAndUnresolvableNodes"


@pytest.fixture
def cluster(arnold_plane: ControlPlane) -> Cluster:
    """Two minipods of 8 free nodes."""
    return make_real(arnold_plane.admin, generate("minipods", minipods=2, nodes=16))


@pytest.fixture
def network(arnold_plane: ControlPlane) -> Iterator[Forwarder]:
    """A network to the API server that can be held."""
    with Forwarder([arnold_plane.api_port]) as forwarder:
        yield forwarder


def test_old_news_of_a_gang(arnold_plane: ControlPlane, namespace: str, cluster: Cluster, network: Forwarder) -> None:
    """An extender that hears nothing of a recreated pod refuses it; hearing again, it gives it the rank's node."""
    plane = arnold_plane
    with running(plane, levels=level_labels(cluster), networks={0: network}) as arnold, guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        before = bound(plane.admin, namespace)
        network.hold()
        plane.admin.delete("pods", "llm-3", namespace)
        new = plane.admin.create(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6")[3])
        status, answer = arnold.ask("filter", {"Pod": new, "Nodes": None, "NodeNames": list(cluster.names)})
        assert status == 200
        assert not answer["NodeNames"]
        assert set(answer[REFUSED]) == set(cluster.names)
        network.let_flow()
        wait_until(lambda: bound(plane.admin, namespace) == before, "the new pod on the old one's node")


def test_old_news_of_a_promise(
    arnold_plane: ControlPlane, namespace: str, cluster: Cluster, network: Forwarder
) -> None:
    """Pods that an extender without news let onto promised nodes stay; the gang waits whole until they are gone."""
    plane = arnold_plane
    with (
        Forwarder([plane.api_port]) as second,
        running(
            plane,
            levels=level_labels(cluster),
            replicas=2,
            options=["--bind-timeout=5"],
            networks={0: network, 1: second},
        ) as arnold,
        guarded(plane),
    ):
        # On a busy machine the second may be the faster one.
        leader = wait_until(arnold.leader, "a replica to lead")
        follower, network = (1, second) if leader is arnold.replicas[0] else (0, network)
        network.hold()
        arnold.service.targets.sort(key=lambda port: port != arnold.ports[follower])
        arnold.service.cut()
        plane.admin.create_all(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Released"), "the gang to be released")
        plane.admin.create_all(pod(f"stranger-{number}", namespace, scheduler="arnold") for number in range(16))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 16, "a stranger on every node")
        network.let_flow()
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Queued", "Expired"), "the gang to wait whole")
        for number in range(16):
            plane.admin.delete("pods", f"stranger-{number}", namespace)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 12, "the gang on nodes", seconds=120.0)


def test_forged_label(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """A pod that claims a rank of a running gang gets no node, and the gang keeps its own."""
    plane = arnold_plane
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        before = bound(plane.admin, namespace)
        labels = {GANG: "llm", RANK: "3"}
        plane.admin.create(pod("forged", namespace, gpus=8, scheduler="arnold", labels=labels))
        stays(lambda: bound(plane.admin, namespace) == before, "the gang alone has nodes")
        now = plan_in(plane.admin, "llm", namespace, "Bound")
        assert now is not None
        assert (now.nodes, now.pods) == (plan.nodes, plan.pods)
        plane.admin.delete("pods", "forged", namespace)


def test_wrong_uid(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """A pod that is like a member in everything but its UID may go nowhere; the member itself to its node alone."""
    plane = arnold_plane
    with running(plane, levels=level_labels(cluster)) as arnold, guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        member = plane.admin.get("pods", "llm-3", namespace)
        question: Object = {"Pod": member, "Nodes": None, "NodeNames": list(cluster.names)}
        _, answer = arnold.ask("filter", question)
        assert answer["NodeNames"] == [member["spec"]["nodeName"]]
        question["Pod"] = copy.deepcopy(member)
        question["Pod"]["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
        _, answer = arnold.ask("filter", question)
        assert not answer["NodeNames"]
        assert set(answer[REFUSED]) == set(cluster.names)


def test_callers_without_a_name(arnold_plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """Without a certificate of our CA anybody may ask how we are, and nobody for nodes, preemption or metrics."""
    stranger = Certificates(tmp_path / "elsewhere").client("arnold-scheduler")
    question = {"Pod": {"metadata": {"name": "pod"}}, "Nodes": None, "NodeNames": list(cluster.names)}
    with running(arnold_plane, levels=level_labels(cluster)) as arnold:
        assert arnold.call("GET", "healthz", caller=None) == (200, "ok")
        assert arnold.call("GET", "readyz", caller=None) == (200, "ok")
        assert arnold.call("POST", "filter", question, caller=None)[0] == 401
        assert arnold.call("POST", "preempt", question, caller=None)[0] == 401
        assert arnold.call("GET", "metrics", caller=None)[0] == 401
        with pytest.raises(urllib3.exceptions.HTTPError):
            arnold.call("POST", "filter", question, caller=stranger)
        assert arnold.ask("filter", question)[0] == 200


def test_requests_that_are_too_long(arnold_plane: ControlPlane, cluster: Cluster) -> None:
    """A request over the limit is refused before it is read; the extender goes on."""
    question = {"Pod": {"metadata": {"name": "pod"}}, "Nodes": None, "NodeNames": list(cluster.names)}
    with running(arnold_plane, levels=level_labels(cluster), options=["--body-limit=100000"]) as arnold:
        assert arnold.ask("filter", b"[" * 100_001)[0] == 413
        assert arnold.ask("filter", question)[0] == 200
        assert arnold.extender.alive
