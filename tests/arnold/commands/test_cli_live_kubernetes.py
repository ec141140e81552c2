"""``--cluster kube:``: nodes, pods and plans of a cluster in memory, read as the files that kubectl prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cluster_api.client import ALLOCATION, GANGPLANS, NODES, PODS, refusal
from extender.controller.actions import release_mark, release_patch
from extender.objects import decode_pod
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, encode_plan
from scheduler.job import Job, Parallelism
from tests.allocation_objects import claim_json, claiming, request, slice_json, template_json
from tests.extender.fake_cluster import FakeCluster, merged, stand_in, unreachable
from tests.extender.things import MINIPOD, NOW, RACK, key, member_json, node_json, pod_json, uid
from tests.facts import says

Arnold = Callable[..., Any]

LEVELS = f"{MINIPOD},{RACK}"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Three minipods of three nodes, n00 to n22; nodes and pods have fields besides that nobody reads."""
    api = FakeCluster()
    for minipod in range(3):
        for i in range(3):
            document = node_json(f"n{minipod}{i}", f"mp{minipod}", f"r{minipod}{i // 2}")
            document["status"]["images"] = [{"names": ["registry.example.com/train"], "sizeBytes": 1}]
            api.put(NODES, document)
    stand_in(api, monkeypatch)
    return api


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Three replicas of one node each."""
    file = tmp_path / "three.yaml"
    file.write_text("parallelism: {tp: 8, dp: 3}\n")
    return file


def plan_of(*nodes: str, phase: PlanPhase = PlanPhase.PLANNED) -> dict[str, Any]:
    """The GangPlan of a gang with these nodes, none of its pods bound yet."""
    asked = Job("team/waiting", Parallelism(tp=8, dp=len(nodes)), level=MINIPOD)
    spec = PlanSpec.of(asked, dialect="job", priority=0)
    return encode_plan(GangPlan(key("waiting"), phase, spec=spec, nodes=nodes, pods=(None,) * len(nodes)))


def placed(arnold: Arnold, job: Path, *more: object) -> dict[str, Any]:
    """The document of a placement on the live cluster."""
    found: dict[str, Any] = arnold(
        "place", "--cluster", "kube:", "--levels", LEVELS, "--job", job, *more, "--json"
    ).json
    return found


def test_only_what_is_free_is_used(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """A pod with GPUs on a node of mp0, one that is cordoned in mp1: the three replicas lie in mp2, the only minipod
    with three free nodes.  A pod without GPUs, one that has ended and one without a node hold nothing.
    """
    api.put(PODS, pod_json("tenant", node="n00", gpus=1))
    api.put(NODES, node_json("n11", "mp1", "r10", unschedulable=True))
    for name, more in {
        "launcher": {"node": "n20", "gpus": 0},
        "ended": {"node": "n21", "phase": "Succeeded"},
        "pending": {},
    }.items():
        api.put(PODS, pod_json(name, **more))
    found = placed(arnold, job)
    assert {cell["node"] for cell in found["assignment"]} == {"n20", "n21", "n22"}
    assert (found["status"], found["objective"]) == ("optimal", 1.0)
    assert found["cluster"]["source"] == "kube:made"
    assert (found["cluster"]["nodes"], found["cluster"]["free"]) == (9, 7)
    assert {verb for verb, _, _ in api.asked} == {"page"}, "a live cluster is only read"


def test_an_idle_cluster_is_no_list_without_pods(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """That no pod holds GPUs is known of a live cluster, whose pods were all looked at."""
    for space in ("kube-system", "team"):
        pod = pod_json("p", node="n20", gpus=0)
        api.put(PODS, pod | {"metadata": {**pod["metadata"], "namespace": space}})
    found = placed(arnold, job)
    assert found["cluster"]["free"] == 9
    assert not says(found["notes"], "no pods")


def test_it_reads_as_the_file_of_kubectl_does(api: FakeCluster, arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """The same objects in a file give the same document, but for the name: flags, taints, types, annotations too."""
    api.put(NODES, node_json("n00", "mp0", "r00", annotations={"arnold.dev/slowdown": "1.5"}))
    api.put(NODES, node_json("n01", "mp0", "r00", taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}]))
    api.put(NODES, node_json("n02", "mp0", "r01", ready="False"))
    labels = {MINIPOD: "mp1", RACK: "r10", "nvidia.com/gpu.product": "H100"}
    api.put(NODES, node_json("n10", labels=labels))
    api.put(NODES, node_json("cpu", gpus=0))
    api.put(PODS, pod_json("tenant", node="n11"))
    items = [one for kind in (NODES, PODS) for one in api.objects[kind.plural].values()]
    file = tmp_path / "listed.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    live, read = (arnold("topology", "show", name, "--levels", LEVELS, "--json").json for name in ("kube:", str(file)))
    assert (live["cluster"].pop("source"), read["cluster"].pop("source")) == ("kube:made", str(file))
    assert live == read
    assert any("faulty" in note for note in live["notes"])


def test_gangs_are_jobs_that_run(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """A gang of two pods across minipods says its grid: 2 domains where 1 would do, so 0.3 x 2 + 0.7 = 1.3;
    by its name, among all, and from a snapshot of the live cluster, in which its nodes are in use.
    """
    for rank, node in enumerate(("n00", "n10")):
        said = {"arnold.dev/parallelism": "tp=8,dp=2"}
        api.put(PODS, member_json("train", rank, 2, said, node=node, gate=False))
    asked = ("score", "--cluster", "kube:", "--levels", LEVELS)
    assert arnold(*asked, "--nodes", "team/train", "--json").json["objective"] == 1.3
    (scored,) = arnold(*asked, "--all", "--json").json["jobs"]
    assert (scored["name"], scored["objective"], scored["empty_cluster"]["objective"]) == ("team/train", 1.3, 1.0)
    file = tmp_path / "kube.json"
    saved = arnold("snapshot", "--cluster", "kube:", "--levels", LEVELS, "--output", file, "--json").json
    assert (saved["states"], [run["nodes"] for run in saved["jobs"]]) == ({"free": 7, "busy": 2}, [["n00", "n10"]])
    assert arnold("score", "--cluster", file, "--nodes", "train", "--json").json["objective"] == 1.3


def test_images_of_nodes_are_read(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """A node of mp2 lists one that others have not: the job that names it is in that minipod, and two would pull."""
    document = node_json("n21", "mp2", "r20")
    document["status"]["images"] = [{"names": ["registry.example.com/llm:v1"], "sizeBytes": 1}]
    api.put(NODES, document)
    job.write_text(f"{job.read_text()}images: {{'registry.example.com/llm:v1': 18}}\n")
    found = placed(arnold, job)
    assert {cell["node"] for cell in found["assignment"]} == {"n20", "n21", "n22"}
    assert says(found["notes"], "2 of 3 nodes", "18 GB")


def test_gpus_in_slices_are_those_of_the_nodes(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """Minipod mp2 without a device plugin: its GPUs are in slices, and one node's are claimed by a pod.  Without the
    slices the three nodes have no GPUs.
    """
    for i in range(3):
        api.put(NODES, node_json(f"n2{i}", "mp2", f"r2{i // 2}", gpus=0))
        api.put(ALLOCATION[0], slice_json(f"n2{i}"))
    api.put(ALLOCATION[3], claim_json("c", "team", request(2), given={"gpus": 2}, users=[uid("p")]))
    api.put(PODS, claiming(pod_json("p", gpus=0, node="n20"), claim="c"))
    found = placed(arnold, job)["cluster"]
    assert (found["nodes"], found["free"]) == (9, 8)
    for kind in ALLOCATION:
        api.objects[kind.plural].clear()
    assert placed(arnold, job)["cluster"]["nodes"] == 6


def test_nodes_that_plans_promise_are_in_use(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """A gang has its plan and its pods are still on their way; once the plan has expired the nodes are free again.
    What is no plan of ours, or of a later version, is passed over, which is said.
    """
    api.put(GANGPLANS, plan_of("n00", "n10"))
    api.put(GANGPLANS, {"metadata": {"name": "odd", "namespace": "team"}, "status": {"phase": "Odd"}})
    found = placed(arnold, job)
    assert {cell["node"] for cell in found["assignment"]} == {"n20", "n21", "n22"}
    assert says(found["notes"], "in use", "2 nodes", "promised to gangs")
    assert says(found["notes"], "team/odd", "count as free")
    api.put(GANGPLANS, plan_of("n00", "n10", phase=PlanPhase.EXPIRED))
    assert placed(arnold, job)["cluster"]["free"] == 9


@pytest.mark.parametrize("by_claim", [False, True], ids=["by resource", "by claim"])
def test_nodes_of_released_pods_are_in_use_while_a_plan_is_lost(
    api: FakeCluster, arnold: Arnold, job: Path, *, by_claim: bool
) -> None:
    """Two pods are on their way, and the GangPlan only says that a third is missing; given back, nodes are free.  So it
    is where they ask for their GPUs by a claim, which their Job says and no label.
    """
    mark = release_mark(key("g"), 3)
    if by_claim:
        api.put(ALLOCATION[2], template_json("big", "team"))
    for rank, node in enumerate(("n00", "n10")):
        gated = member_json("g", rank, 3)
        if by_claim:
            numbered = {"batch.kubernetes.io/job-completion-index": str(rank)}
            gated = claiming(
                pod_json(f"g-{rank}", gpus=0, labels=numbered, gate=True, owner=("Job", "g")), template="big"
            )
        api.put(
            PODS,
            merged(gated, release_patch(decode_pod(gated), node, mark, version=gated["metadata"]["resourceVersion"])),
        )
    plan = GangPlan(key("g"), PlanPhase.WAITING)
    api.put(GANGPLANS, encode_plan(plan))
    assert {cell["node"] for cell in placed(arnold, job)["assignment"]} == {"n20", "n21", "n22"}
    api.put(GANGPLANS, encode_plan(plan.with_condition("Released", False, "Expired", "", NOW)))
    assert placed(arnold, job)["cluster"]["free"] == 9


def test_the_rest_of_a_node_is_a_gangs_while_its_plan_is_lost(api: FakeCluster, arnold: Arnold) -> None:
    """One of two pods that share a node is on it, the other is missing: the GPUs left are the gang's, as before."""
    gated = member_json("g", 0, 2, gpus=4)
    change = release_patch(decode_pod(gated), "n00", release_mark(key("g"), 2), version="1")
    bound = merged(gated, change)
    bound["spec"]["nodeName"] = "n00"
    api.put(PODS, bound)
    found = arnold("kube", "nodes", "--levels", f"{MINIPOD},{RACK}", "--json").json["nodes"]
    assert [(node["node"], node["free_gpus"]) for node in found if node["gang"] == "team/g"] == [("n00", 0)]


@pytest.mark.parametrize(("status", "notes"), [(404, False), (403, True)])
def test_plans_that_are_not_there_or_hidden(
    api: FakeCluster, arnold: Arnold, job: Path, monkeypatch: pytest.MonkeyPatch, *, status: int, notes: bool
) -> None:
    """Without Arnold in the cluster there are none; a user who may not list them gets the answer with a word on it."""
    page = api.page

    async def refusing(resource: Any, **more: Any) -> bytes:
        if resource is GANGPLANS:
            raise refusal(status, b'{"message": "no"}', where="GET /apis/arnold.dev")
        return await page(resource, **more)

    monkeypatch.setattr(api, "page", refusing)
    found = placed(arnold, job)
    assert found["status"] == "optimal"
    assert any("may not be listed" in note for note in found["notes"]) is notes


def test_second_hierarchies_and_flags_lie_over_it(api: FakeCluster, arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """`--domains` takes labels as it does of a file: three replicas held on one feed, of which only mp1 has three."""
    for minipod, feeds in {0: "aab", 1: "ccc", 2: "bba"}.items():
        for i, feed in enumerate(feeds):
            labels = {MINIPOD: f"mp{minipod}", RACK: f"r{minipod}{i // 2}", "example.com/feed": feed}
            api.put(NODES, node_json(f"n{minipod}{i}", labels=labels))
    job.write_text("parallelism: {tp: 8, dp: 3}\nconstraints: [{family: dp, within: '@power'}]\n")
    found = placed(arnold, job, "--domains", "power=example.com/feed")
    assert {cell["node"] for cell in found["assignment"]} == {"n10", "n11", "n12"}


def test_a_cluster_that_refuses(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """Which permission is missing, on what; and a server that is away: exit 2 each, with the way out."""
    said = b'{"message": "nodes is forbidden: User \\"ann\\" cannot list resource \\"nodes\\"", "reason": "Forbidden"}'
    api.fail_next("page", refusal(403, said, where="GET /api/v1/nodes"))
    ran = arnold("place", "--cluster", "kube:", "--job", job, "--json")
    error = ran.json["error"]
    assert (ran.code, error["kind"], error["where"]) == (2, "Refused", "GET /api/v1/nodes")
    assert 'User "ann" cannot list' in error["message"]
    assert says(error["fix"], "the verb list", "nodes", "all namespaces")
    api.fail_next("page", unreachable())
    ran = arnold("explain", "--cluster", "kube:", "--job", job, "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (2, "Unreachable")


def test_other_resources_may_be_gpus(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """Nodes of another maker alone count, and pods that hold theirs."""
    name = "example.com/accelerator"
    for i in range(5):
        api.put(NODES, node_json(f"x{i}", "mp9", "r9", gpus=0, offers={name: "8"}))
    api.put(PODS, pod_json("p", gpus=0, asks={name: "1"}, node="x0", phase="Running"))
    found = placed(arnold, job, "--gpu-resource", name)
    assert found["cluster"]["nodes"] == 5
    assert found["cluster"]["free"] == 4
    assert "x0" not in {cell["node"] for cell in found["assignment"]}


def test_nodes_that_make_no_cluster(api: FakeCluster, arnold: Arnold, job: Path) -> None:
    """Errors of the reader name the cluster, and no line: nobody sees the text that was read.  Without labels of place
    it is one level.
    """
    notes = arnold("place", "--cluster", "kube:", "--job", job, "--json").json["notes"]
    assert any("so all are one level" in note for note in notes)
    for name in [name for _, name in api.objects[NODES.plural]]:
        api.remove(NODES, name)
    api.put(NODES, node_json("cpu", gpus=0))
    error = arnold("place", "--cluster", "kube:", "--job", job, "--json").json["error"]
    assert error["where"] == "kube:made"
    assert says(error["message"], "none of the 1 nodes")


def write_kubeconfig(folder: Path, *contexts: str, current: str | None) -> Path:
    """A kubeconfig with these contexts; its server listens nowhere."""
    named = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in contexts],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(named | ({"current-context": current} if current else {})))
    return file


@pytest.mark.parametrize(
    ("current", "name", "kind", "said", "fix"),
    [
        ("prod", "kube:", "Unreachable", "does not answer", "address in the kubeconfig"),
        ("prod", "kube:test", "Unreachable", "does not answer", "address in the kubeconfig"),
        ("prod", "kube:tset", "InvalidKubeconfig", "no context 'tset'", "did you mean 'test'? contexts of the file"),
        (None, "kube:", "InvalidKubeconfig", "no current context", "kubectl config use-context NAME"),
        ("gone", "kube:", "InvalidKubeconfig", "no context 'gone'", "contexts of the file: prod, test"),
    ],
)
def test_contexts_of_the_kubeconfig(
    arnold: Arnold,
    tmp_path: Path,
    job: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    current: str | None,
    name: str,
    kind: str,
    said: str,
    fix: str,
) -> None:
    """The current context unless one is named; what cannot be is said before anything is asked."""
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "prod", "test", current=current)))
    ran = arnold("place", "--cluster", name, "--job", job, "--json")
    error = ran.json["error"]
    assert (ran.code, error["kind"]) == (2, kind)
    assert said in error["message"]
    assert fix in error["fix"]


def test_a_context_is_heeded_in_a_pod(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's own service account is another cluster's, perhaps: a context that is named is that of a kubeconfig."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    error = arnold("place", "--cluster", "kube:prod", "--job", job, "--json").json["error"]
    assert error["kind"] == "InvalidKubeconfig"
    assert says(error["message"], "~/.kube/config")
    assert "$KUBECONFIG" in error["fix"]
