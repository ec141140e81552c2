"""What users and administrators write and what they are told: labels, single pods, flags, mistakes, ``kubectl get``."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

from tests.e2e.harness.arnold import PROGRAM, running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import judged, plan_in
from tests.e2e.harness.pods import bound, gang, gated, indexed_job, pod
from tests.e2e.harness.waiting import stays, wait_until
from topology.generate import generate

NUMBERED = "batch.kubernetes.io/job-completion-index"


def test_single_pods_leave_domains_whole(arnold_plane: ControlPlane, namespace: str) -> None:
    """Pods without a gang fill one minipod before they break into the other; then a gang still has a whole one."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    minipod = {row.name: row.path[0] for row in cluster}
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        # 16 half nodes fill the 8 nodes of one minipod exactly.
        for number in range(16):
            plane.admin.create(pod(f"single-{number}", namespace, gpus=4, scheduler="arnold"))
            wait_until(partial(_are_bound, plane, namespace, number + 1), "the single pod on a node")
        singles = bound(plane.admin, namespace)
        assert len({minipod[node] for node in singles.values()}) == 1
        plane.admin.create_all(gang("llm", namespace, size=8, parallelism="tp=8,pp=2,dp=4"))
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        assert plan.status["spread"] == {"dp": 1, "pp": 1}


def test_single_pods_stay_off_promised_nodes(arnold_plane: ControlPlane, namespace: str) -> None:
    """While a planned gang waits for its scheduler, single pods get only what is promised to nobody."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        # Nobody has made the claims of its volumes, which a plan leaves to kube-scheduler: it stays a promise.
        plane.admin.create_all(_with_claims(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6")))
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Released"), "the gang to be released")
        plane.admin.create_all(pod(f"single-{number}", namespace, scheduler="arnold") for number in range(16))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 4, "single pods on the four other nodes")
        stays(lambda: len(bound(plane.admin, namespace)) == 4, "the other single pods wait")
        assert set(bound(plane.admin, namespace).values()) == set(cluster.names) - set(plan.nodes)


def test_gang_without_gates_lands_on_plan(arnold_plane: ControlPlane, namespace: str) -> None:
    """Pods without a gate, as no label asks the policy for one, bind where the plan says.

    kube-scheduler tries refused pods again when something happens in the cluster, else after five minutes; being told
    of their nodes is such a thing.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=4, nodes=32)
    make_real(plane.admin, cluster)
    job = indexed_job("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6")
    job["spec"]["template"]["metadata"]["labels"] = {}
    job["spec"]["template"]["spec"]["schedulerName"] = "arnold"
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(job)
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "12 pods on their nodes")
        pods = plane.admin.all("pods", namespace)
        assert {int(it["metadata"]["labels"][NUMBERED]): it["spec"]["nodeName"] for it in pods} == dict(
            enumerate(plan.nodes)
        )
        assert all("affinity" not in it["spec"] for it in pods)


def test_flags_keep_gangs_off_slow_nodes(arnold_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """``arnold flags apply`` marks nodes; a strict gang avoids all of them, and ``clear`` takes the marks off."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    flags = [
        {"node": "n01", "kind": "straggler", "slowdown": 1.5, "source": "test"},
        {"node": "n02", "kind": "faulty", "source": "test"},
    ]
    (tmp_path / "flags.json").write_text(json.dumps(flags))
    _flags(plane, "apply", str(tmp_path / "flags.json"))
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        strict = {"arnold.dev/avoid": "strict"}
        plane.admin.create_all(gang("llm", namespace, size=14, parallelism="tp=8,pp=2,dp=7", annotations=strict))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 14, "14 pods on the 14 nodes without flags")
        assert set(bound(plane.admin, namespace).values()) == set(cluster.names) - {"n01", "n02"}
        plane.admin.create_all(gang("more", namespace, size=2, parallelism="tp=8,dp=2", annotations=strict))
        wait_until(lambda: judged(plane.admin, "more", namespace), "the next gang to wait")
        _flags(plane, "clear", "n01", "n02")
        wait_until(lambda: plan_in(plane.admin, "more", namespace, "Bound"), "the next gang on the cleared nodes")


def test_mistakes_are_told_and_others_go_on(arnold_plane: ControlPlane, namespace: str) -> None:
    """A gang whose size contradicts its parallelism, and one with two pods of a rank, say so; a third one runs."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    twice = gang("twice", namespace, size=4, parallelism="tp=8,dp=4")
    twice[3]["metadata"]["labels"]["arnold.dev/rank"] = "0"
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create_all(gang("wrong", namespace, size=5, parallelism="tp=8,pp=2,dp=3"))
        plane.admin.create_all(twice)
        plane.admin.create_all(gang("right", namespace, size=6, parallelism="tp=8,pp=2,dp=3"))
        wait_until(lambda: plan_in(plane.admin, "right", namespace, "Bound"), "the right gang on its nodes")
        for name in ("wrong", "twice"):
            plan = wait_until(partial(plan_in, plane.admin, name, namespace, "Invalid"), "a word about a mistake")
            assert plan.condition("Valid")["status"] == "False"
            assert "o fix:" in plan.message
        assert gated(plane.admin, namespace) == 9


def test_kubectl_shows_gangs(arnold_plane: ControlPlane, namespace: str) -> None:
    """``kubectl get gangplans`` prints gang, phase, spread, gap, proof and age: a table of the API server."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        table = plane.admin.table("gangplans", namespace)
    shown = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert shown == ["Name", "Gang", "Phase", "Spread", "Gap", "Proved", "Age"]
    # 12 nodes in minipods of 8: by default alpha is 0.3, so each pipeline lies in one minipod (0.3 x 2 + 0.7 x 1 = 1.3)
    # and every DP group touches both; with each stage in one it were 0.3 x 1 + 0.7 x 2 = 1.7.
    assert table["rows"][0]["cells"][:5] == ["llm", "llm", "Bound", "2/1", "0.0%"]


def _are_bound(plane: ControlPlane, namespace: str, count: int) -> bool:
    return len(bound(plane.admin, namespace)) == count


def _with_claims(pods: list[Object]) -> list[Object]:
    for thing in pods:
        thing["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    return pods


def _flags(plane: ControlPlane, *arguments: str) -> None:
    command = [PROGRAM, "flags", *arguments, "--kubeconfig", str(plane.kubeconfig())]
    subprocess.run(command, check=True, capture_output=True)
