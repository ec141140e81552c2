"""GPUs of dynamic resource allocation on a live cluster: slices make nodes, claims make members and tenants."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.objects import decode_allocation, decode_node, decode_owner, decode_pod
from extender.plans.gang_plan import PlanPhase
from extender.verbs import decode_filter, decode_preempt, encode, filter_nodes, preempt
from scheduler.queue.priority import PriorityAge
from tests.allocation_objects import (
    DRIVER,
    claim_json,
    claiming,
    class_json,
    gpu,
    request,
    slice_json,
    template_json,
)
from tests.case_counts import examples
from tests.extender.things import (
    MINIPOD,
    NOW,
    RACK,
    SPACE,
    Json,
    gang_of,
    member_json,
    node_json,
    plan_all,
    pod_json,
    uid,
)
from tests.facts import says
from topology.kubernetes.claim_table import reference_to

BIG = template_json("big", SPACE)  # eight GPUs


def bare(name: str, minipod: str = "mp0") -> Json:
    """A node without a device plugin."""
    return node_json(name, minipod, f"{minipod}r0", gpus=0)


def member(gang: str, rank: int, size: int, *, template: str = "big", **more: Any) -> Json:
    """A member of a gang that claims its GPUs."""
    return claiming(member_json(gang, rank, size, gpus=0, **more), template=template)


def put(state: ClusterCache, *documents: Json) -> ClusterCache:
    """Let the cache see some objects, in this order."""
    for document in documents:
        kind, raw = document["kind"], json.dumps(document).encode()
        if kind in decode_allocation:
            state.claimed.put(decode_allocation[kind](raw))
        elif kind == "Node":
            state.put_node(decode_node(raw))
        elif kind == "Pod":
            state.put_pod(decode_pod(raw))
        else:
            state.put_owner(decode_owner(raw))
    return state


def drop(state: ClusterCache, document: Json) -> None:
    """Let the cache see that an object of dynamic allocation is gone."""
    state.claimed.drop(reference_to(decode_allocation[document["kind"]](json.dumps(document).encode())))


def seen(*documents: Json) -> ClusterCache:
    """What the cache knows after these, and the usual class."""
    return put(ClusterCache([MINIPOD, RACK]), class_json(), *documents)


def cluster(*nodes: str) -> list[Json]:
    """Nodes of eight GPUs each in slices, two to a minipod."""
    return [one for i, name in enumerate(nodes) for one in (bare(name, f"mp{i // 2}"), slice_json(name))]


def free(state: ClusterCache) -> dict[str, int]:
    """Free GPUs of each node."""
    found = state.fleet.occupancy.free.tolist()
    return {host.name: found[i] for i, host in enumerate(state.fleet.table.hosts)}


def test_a_gang_that_claims_is_planned_like_any_other() -> None:
    """Four pods of eight GPUs on two minipods of two nodes: one has a tenant by claim, so that the gang waits; then
    it has all four.  Its pods hold their nodes once they are there.
    """
    tenant = claiming(pod_json("t", gpus=0, node="n0"), template="one", made="t-claim")
    held = claim_json("t-claim", SPACE, request(1), given={"gpus": 1}, users=[uid("t")])
    gang = [member("llm", rank, 4) for rank in range(4)]
    state = seen(BIG, *cluster("n0", "n1", "n2", "n3"), tenant, held, *gang)
    assert free(state) == {"n0": 7, "n1": 8, "n2": 8, "n3": 8}
    assert state.fleet.gpu_types == ("NVIDIA-H100-80GB-HBM3",)
    answer = plan_all(state)["llm"]
    assert answer.plan.phase is PlanPhase.QUEUED
    assert says(answer.plan.message, "3 of 4", "1 in use")
    state.drop_pod(uid("t"))
    plan = plan_all(state)["llm"].plan
    assert sorted(plan.nodes) == ["n0", "n1", "n2", "n3"]
    for rank, name in enumerate(plan.nodes):
        put(state, member("llm", rank, 4, node=name))
    assert free(state) == dict.fromkeys(plan.nodes, 0)


def test_a_gang_by_claims_goes_to_nodes_with_slices() -> None:
    """Two of four nodes have a device plugin, whose GPUs nobody gets by claim."""
    plugged = [node_json(name, "mp0", "mp0r0") for name in ("p0", "p1")]
    state = seen(BIG, *plugged, *cluster("n0", "n1"), *(member("llm", rank, 2) for rank in range(2)))
    assert sorted(plan_all(state)["llm"].plan.nodes) == ["n0", "n1"]
    larger = seen(BIG, *plugged, *cluster("n0"), *(member("llm", rank, 2) for rank in range(2)))
    assert f"2 with less than 8 {DRIVER}" in plan_all(larger)["llm"].plan.message


def test_single_pods_that_claim_keep_off_promised_nodes() -> None:
    """Filter and Preempt count the claims of the pod they are asked about, also one that the cache has not seen."""
    state = seen(BIG, *cluster("n0", "n1", "n2"), *(member("llm", rank, 2) for rank in range(2)))
    promised = set(plan_all(state)["llm"].plan.nodes)
    (left,) = {"n0", "n1", "n2"} - promised
    names = ["n0", "n1", "n2"]
    victims = {name: {"Pods": [{"UID": "x"}], "NumPDBViolations": 0} for name in names}
    for asked in ("big", "all"):
        put(state, template_json("all", SPACE, request(None)))
        single = claiming(pod_json("s", gpus=0), template=asked)
        body = json.dumps({"Pod": single, "Nodes": None, "NodeNames": names}).encode()
        answer = filter_nodes(state, decode_filter(body), NOW, PriorityAge()).answer
        assert json.loads(encode(answer))["NodeNames"] == [left]
        body = json.dumps({"Pod": single, "NodeNameToMetaVictims": victims}).encode()
        found = json.loads(encode(preempt(state, decode_preempt(body), NOW, PriorityAge())))
        assert list(found["NodeNameToMetaVictims"]) == [left]


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([], "ResourceClaimTemplate big is not there"),
        ([template_json("big", SPACE, request(of="gpu.nvida.com"))], "DeviceClass gpu.nvida.com, which is not there"),
        ([template_json("big", SPACE, request(None))], "asks for all GPUs of a node (allocationMode All)"),
        (
            [template_json("big", SPACE, {"name": "g", "firstAvailable": [{"name": "x", **request()["exactly"]}]})],
            "has alternatives (firstAvailable)",
        ),
        (
            [template_json("big", SPACE, request(of="nic.example.com")), class_json("nic.example.com")],
            "asks for no GPUs",
        ),
    ],
)
def test_claims_that_cannot_be_counted(objects: list[Json], told: str) -> None:
    """The gang is Invalid, and says which claim and what to do; a template that is right later mends it."""
    state = seen(*objects, *cluster("n0", "n1"), *(member("llm", rank, 2) for rank in range(2)))
    problem = gang_of(state, "llm").problem
    assert problem is not None
    assert problem.reason == ("NoGpus" if "no GPUs" in told else "InvalidClaim")
    assert told in problem.message
    assert problem.fix
    assert len(str(problem)) < 1_000
    put(state, BIG)
    assert gang_of(state, "llm").problem is None
    drop(state, BIG)
    assert gang_of(state, "llm").problem is not None


def test_members_that_name_one_claim() -> None:
    """They would share its GPUs on one node; a claim for each will do.  Other devices may be shared."""
    channel = claim_json("channel", SPACE, request(1, of="nic.example.com"))
    claims = [claim_json(name, SPACE) for name in ("c-0", "c-1")]
    pods = [claiming(claiming(member_json("llm", rank, 2, gpus=0), claim="c-0"), claim="channel") for rank in range(2)]
    state = seen(class_json("nic.example.com"), channel, *cluster("n0", "n1"), *claims, *pods)
    problem = gang_of(state, "llm").problem
    assert problem is not None
    assert "several pods name ResourceClaim c-0" in problem.message
    state.drop_pod(uid("llm-1"))
    put(state, claiming(claiming(member_json("llm", 1, 2, gpus=0), claim="c-1"), claim="channel"))
    assert gang_of(state, "llm").problem is None


def test_what_claims_say_in_expressions_is_left_to_kube_scheduler() -> None:
    """Selectors and constraints are told in the condition Checked."""
    cel = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'x'"}}]
    same = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
    template = template_json("big", SPACE, request(selectors=cel), constraints=same)
    state = seen(template, *cluster("n0"), member("llm", 0, 1))
    told = "selectors of ResourceClaimTemplate big, constraints of ResourceClaimTemplate big"
    assert told in gang_of(state, "llm").unchecked


def test_size_of_a_jobset_that_claims() -> None:
    """Jobs whose pods claim GPUs count, others do not; a template that comes late is counted then."""

    def job(name: str, pods: int, *claims: Json) -> Json:
        spec: Json = {"containers": [{"name": "c"}], "resourceClaims": list(claims)}
        return {"name": name, "replicas": 1, "template": {"spec": {"parallelism": pods, "template": {"spec": spec}}}}

    jobs = [job("workers", 3, {"name": "g", "resourceClaimTemplateName": "big"}), job("driver", 1)]
    about = {"name": "llm", "namespace": SPACE, "uid": "jobset"}
    jobset = {"kind": "JobSet", "metadata": about, "spec": {"replicatedJobs": jobs}}
    labels = {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/jobset-uid": "jobset"}
    one = claiming(pod_json("w", gpus=0, labels=labels, gate=True), template="big")
    state = seen(*cluster("n0"), jobset, one)
    assert gang_of(state, "llm").problem is not None
    put(state, BIG)
    assert gang_of(state, "llm").size == 3


def test_without_classes_nothing_is_counted() -> None:
    """A cluster that has no dynamic allocation in this version, or may not show it: its gangs go on as before."""
    state = put(ClusterCache([MINIPOD, RACK]), node_json("n0"), claiming(member_json("llm", 0, 1), template="nic"))
    assert plan_all(state)["llm"].plan.nodes == ("n0",)
    put(state, class_json())
    assert gang_of(state, "llm").problem is not None
    drop(state, class_json())
    assert gang_of(state, "llm").problem is None


def test_a_bound_pod_keeps_what_it_has_when_its_claim_goes() -> None:
    """All devices of a node, by a claim that is deleted while the pod ends."""
    claim = claim_json("made", SPACE, request(None), given={"gpus": 8}, users=[uid("p")])
    tenant = claiming(pod_json("p", gpus=0, node="n0"), template="all", made="made")
    state = seen(*cluster("n0"), claim, tenant)
    assert free(state) == {"n0": 0}
    drop(state, claim)
    assert free(state) == {"n0": 0}
    state.drop_pod(uid("p"))
    assert free(state) == {"n0": 8}


def test_problems_are_told_once_for_all_nodes() -> None:
    """A slice that is missing, and one of several nodes; both go when they are mended."""
    torn = [
        one | {"spec": one["spec"] | {"pool": {**one["spec"]["pool"], "resourceSliceCount": 2}}}
        for one in map(slice_json, ("n0", "n1"))
    ]
    state = seen(bare("n0"), bare("n1"), *torn, slice_json(None, name="far", allNodes=True))
    devices, far = state.claimed.problems
    assert says(devices.message, "2 nodes", "n0", "gpu.nvidia.com", "1 of 2")
    assert says(far.message, "ResourceSlices", "1", "far")
    put(state, slice_json("n0"), slice_json("n1"))
    drop(state, slice_json(None, name="far"))
    assert not [*state.claimed.problems]
    assert free(state) == {"n0": 8, "n1": 8}


@examples(40)
@given(st.randoms(use_true_random=False))
def test_the_order_of_news_does_not_matter(shuffled: Any) -> None:
    """Whatever comes first, and however often: the same GPUs, free ones, gang and doubts."""
    tenant = claiming(pod_json("t", gpus=0, node="n0"), claim="named")
    held = claim_json("named", SPACE, request(3), given={"gpus": 3}, users=[uid("t")])
    parts = [
        slice_json("n1", 4, name=f"s{i}", slices=2, generation=2, devices=[gpu(f"{i}{j}") for j in range(4)])
        for i in range(2)
    ]
    things = [class_json(), BIG, bare("n0"), bare("n1"), slice_json("n0"), *parts, tenant, held]
    things += [member("llm", rank, 2) for rank in range(2)]
    again = things + shuffled.sample(things, 5)
    shuffled.shuffle(again)
    state = put(ClusterCache([MINIPOD, RACK]), *again)
    assert free(state) == {"n0": 5, "n1": 8}
    gang = gang_of(state, "llm")
    assert (gang.problem, gang.complete, {pod.gpus for pod in gang.pods}) == (None, True, {8})
    assert not [*state.claimed.problems]
