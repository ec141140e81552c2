"""Gangs of two roles as real controllers make them, from recordings; of Volcano, Grove and Kubeflow v1 as sources say.

``python -m tests.e2e.record_forms`` records.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extender.objects import decode_owner
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import SPACE, Json, key, minipods, pod_json, uid
from tests.facts import says

FORMS = Path(__file__).parents[1] / "forms"


def recorded(name: str) -> list[Json]:
    """The objects of a recording."""
    objects: list[Json] = json.loads((FORMS / f"{name}.json").read_text(encoding="utf-8"))["objects"]
    return objects


VOLCANO_GROUP = "llm-5f2c1c6e-5d0f-4a41-9a3c-1f1d2a8b7c60"


def volcano() -> list[Json]:
    """Two tasks of a Volcano Job and one without GPUs, as its controller (1.14.1, ``createJobPod``) makes them.

    The PodGroup is named after the Job and its UID, and counts all pods: ``gang-size`` says how many have GPUs.
    """

    def pod(task: str, index: int, gpus: int) -> Json:
        labels = {"task-spec": task, "task-index": str(index), "job-name": "llm", "queue-name": "default"}
        said = {f"volcano.sh/{name}": text for name, text in labels.items()}
        notes = {**said, "scheduling.k8s.io/group-name": VOLCANO_GROUP, "volcano.sh/template-uid": f"llm-{task}"}
        notes |= {"arnold.dev/gang-size": "4"}
        owner = ("Job", "llm")
        return pod_json(f"llm-{task}-{index}", gpus=gpus, labels=said, annotations=notes, gate=gpus > 0, owner=owner)

    about = {"name": VOLCANO_GROUP, "namespace": SPACE, "uid": uid(VOLCANO_GROUP)}
    each = {"decode": 2, "prefill": 2, "router": 1}
    group: Json = {"kind": "PodGroup", "metadata": about, "spec": {"minMember": 5, "minTaskMember": each}}
    tasks = [("decode", 0, 8), ("decode", 1, 8), ("prefill", 0, 8), ("prefill", 1, 8), ("router", 0, 0)]
    return [group, *(pod(*task) for task in tasks)]


def pytorchjob() -> list[Json]:
    """Master and workers of a PyTorchJob, as the Training Operator (1.9.3, ``createNewPod``) labels them."""

    def pod(role: str, index: int) -> Json:
        said = {"job-name": "llm", "operator-name": "pytorchjob-controller", "replica-type": role}
        said |= {"replica-index": str(index)} | ({"job-role": "master"} if role == "master" else {})
        labels = {f"training.kubeflow.org/{name}": text for name, text in said.items()}
        notes = {"arnold.dev/gang-size": "3"}
        owner = ("PyTorchJob", "llm")
        return pod_json(f"llm-{role}-{index}", labels=labels, annotations=notes, gate=True, owner=owner)

    return [pod("worker", 0), pod("worker", 1), pod("master", 0)]


GROVE_GATE = {"name": "grove.io/podgang-pending-creation"}


def grove() -> list[Json]:
    """Two cliques of a PodCliqueSet, as Grove (0.1.0-alpha.9, ``buildResource``) makes pods, its own gate lifted.

    It leaves no other gate in a template: the label of the cliques names the gang, and our policy adds gate and
    scheduler.
    """

    def pod(clique: str, index: int) -> Json:
        said = {"podclique": f"llm-0-{clique}", "podgang": "llm-0", "podclique-pod-index": str(index)}
        said |= {"podcliqueset-replica-index": "0"}
        labels = {"arnold.dev/gang": "llm", "app.kubernetes.io/part-of": "llm"}
        labels |= {f"grove.io/{name}": text for name, text in said.items()}
        notes = {"arnold.dev/gang-size": "4"}
        owner = ("PodClique", f"llm-0-{clique}")
        hostname = f"llm-0-{clique}-{index}"
        name = f"{hostname}-x7k2p"
        return pod_json(name, labels=labels, annotations=notes, gate=True, owner=owner, hostname=hostname)

    return [pod("prefill", 1), pod("prefill", 0), pod("decode", 0), pod("decode", 1)]


def test_pods_that_grove_holds_wait_for_it() -> None:
    """Until it has made their PodGang, which the plan names; then they start."""
    pods = grove()
    for pod in pods:
        pod["spec"]["schedulingGates"].append(GROVE_GATE)
    world = settled(pods)
    assert (world.phase("llm"), world.plan("llm").reason) == (PlanPhase.WAITING, "OtherGates")
    assert says(world.plan("llm").message, GROVE_GATE["name"])
    for name in [*world.pods]:
        world.change(name, lambda pod: pod["spec"]["schedulingGates"].remove(GROVE_GATE))
    world.settle()
    assert world.phase("llm") is PlanPhase.RELEASED


CASES = [
    pytest.param(
        "llm-0", recorded("lws-cpu-leader"), "llm-0-1 llm-0-2 llm-0-3", id="LeaderWorkerSet, leader without GPUs"
    ),
    pytest.param(
        "llm",
        recorded("jobset-roles"),
        "llm-actors-0-0 llm-actors-1-0 llm-learners-0-0 llm-learners-0-1",
        id="JobSet of two jobs, a third without GPUs",
    ),
    pytest.param("llm", recorded("trainjob"), "llm-node-0-0 llm-node-0-1", id="TrainJob, data fetched without GPUs"),
    pytest.param("llm", recorded("mpijob"), "llm-worker-0 llm-worker-1", id="MPIJob"),
    pytest.param(
        "llm",
        recorded("mpijob-launcher-works"),
        "llm-launcher llm-worker-0 llm-worker-1",
        id="MPIJob, the launcher a worker",
    ),
    pytest.param("llm", pytorchjob(), "llm-master-0 llm-worker-0 llm-worker-1", id="PyTorchJob"),
    pytest.param(
        VOLCANO_GROUP, volcano(), "llm-decode-0 llm-decode-1 llm-prefill-0 llm-prefill-1", id="Volcano Job of two tasks"
    ),
    pytest.param(
        "llm", grove(), "llm-0-decode-0 llm-0-decode-1 llm-0-prefill-0 llm-0-prefill-1", id="Grove, two cliques"
    ),
]


def settled(objects: list[Json]) -> World:
    """The world in which these are all there is, and all that can be done is done."""
    world = World(minipods(4, 4))
    for thing in objects:
        if thing["kind"] != "Pod":
            world.state.put_owner(decode_owner(thing))
    for thing in objects:
        if thing["kind"] == "Pod":
            world.add({**thing, "status": {"phase": "Pending"}})
    world.settle()
    return world


def ranks_of(world: World, gang: str) -> list[str]:
    """The pods of a gang by rank."""
    found = world.state.gang(key(gang))
    assert found is not None
    assert found.problem is None
    return [member.pod.name for member in found.members if member is not None]


@pytest.mark.parametrize("before", [False, True])
def test_groups_of_kuberay(before: bool) -> None:
    """Two groups, of one host and of two to a replica; before 1.6 KubeRay numbers none, and the gang says so."""
    objects = recorded("kuberay-1.6")
    if before:  # 1.5 without its feature gate
        for labels in (thing["metadata"].get("labels", {}) for thing in objects):
            for name in ("worker-group-replica-index", "replica-host-index", "worker-group-replica-name"):
                labels.pop(f"ray.io/{name}", None)
    world = settled(objects)
    if before:
        assert (world.phase("llm"), world.plan("llm").reason) == (PlanPhase.INVALID, "MissingRank")
        assert says(world.plan("llm").message, "RayMultiHostIndexing")
        return
    of_pod = {name: pod["metadata"]["labels"] for name, pod in world.pods.items()}
    places = [
        tuple(
            of_pod[name].get(f"ray.io/{key}", "0")
            for key in ("group", "worker-group-replica-index", "replica-host-index")
        )
        for name in ranks_of(world, "llm")
    ]
    assert places == [
        ("decode", "0", "0"),
        ("decode", "1", "0"),
        *(("prefill", replica, host) for replica in "01" for host in "01"),
    ]
    assert (world.phase("llm"), world.plan("llm").spec.size) == (PlanPhase.RELEASED, 6)


@pytest.mark.parametrize(("gang", "objects", "ranks"), CASES)
def test_every_form_is_placed_whole(gang: str, objects: list[Json], ranks: str) -> None:
    """All pods with GPUs are released, in the order of their roles; the others are none of the gang's."""
    world = settled(objects)
    names = ranks_of(world, gang)
    wanted = ranks.split()
    assert len(names) == len(wanted)
    assert all(name.startswith(start) for name, start in zip(names, wanted, strict=True))
    plan = world.plan(gang)
    assert (plan.phase, plan.spec.size, [world.node_of(name) for name in names]) == (
        PlanPhase.RELEASED,
        len(names),
        list(plan.nodes),
    )
    assert list(world.state.plans) == [key(gang)]
    assert not any(world.gated(name) for name in names)
