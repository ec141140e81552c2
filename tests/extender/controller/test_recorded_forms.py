"""Gangs of two roles as real controllers make them, from recordings; where none can be built, as their sources say.

``python -m tests.e2e.record_forms`` records.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extender.objects import decode_owner
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import Json, key, minipods, pod_json
from tests.facts import says

FORMS = Path(__file__).parents[1] / "forms"


def recorded(name: str) -> list[Json]:
    """The objects of a recording."""
    objects: list[Json] = json.loads((FORMS / f"{name}.json").read_text(encoding="utf-8"))["objects"]
    return objects


def volcano() -> list[Json]:
    """Two tasks of a Volcano Job, as its controller (1.15, ``createJobPod``) annotates and labels them."""

    def pod(task: str, index: int, gpus: int) -> Json:
        said = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index), "volcano.sh/job-name": "llm"}
        notes = {**said, "scheduling.k8s.io/group-name": "llm", "arnold.dev/gang-size": "4"}
        return pod_json(f"llm-{task}-{index}", gpus=gpus, labels=said, annotations=notes, gate=gpus > 0)

    tasks = [("decode", 0, 8), ("decode", 1, 8), ("prefill", 0, 8), ("prefill", 1, 8), ("router", 0, 0)]
    return [pod(*task) for task in tasks]


def pytorchjob() -> list[Json]:
    """Master and workers of a PyTorchJob, as the Training Operator 1.9 labels them."""

    def pod(role: str, index: int) -> Json:
        said = {"job-name": "llm", "operator-name": "pytorchjob-controller", "replica-type": role}
        said |= {"replica-index": str(index)} | ({"job-role": "master"} if role == "master" else {})
        labels = {f"training.kubeflow.org/{name}": text for name, text in said.items()}
        notes = {"arnold.dev/gang-size": "3"}
        owner = ("PyTorchJob", "llm")
        return pod_json(f"llm-{role}-{index}", labels=labels, annotations=notes, gate=True, owner=owner)

    return [pod("worker", 0), pod("worker", 1), pod("master", 0)]


def grove() -> list[Json]:
    """Two cliques of a PodCliqueSet, as Grove 0.1 labels pods; it writes gates itself, so the label names the gang."""

    def pod(clique: str, index: int) -> Json:
        said = {"podclique": f"llm-0-{clique}", "podgang": "llm-0", "podclique-pod-index": str(index)}
        labels = {"arnold.dev/gang": "llm", **{f"grove.io/{name}": text for name, text in said.items()}}
        notes = {"arnold.dev/gang-size": "4"}
        owner = ("PodClique", f"llm-0-{clique}")
        return pod_json(f"llm-0-{clique}-{index}", labels=labels, annotations=notes, gate=True, owner=owner)

    return [pod("prefill", 1), pod("prefill", 0), pod("decode", 0), pod("decode", 1)]


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
        "llm", volcano(), "llm-decode-0 llm-decode-1 llm-prefill-0 llm-prefill-1", id="Volcano Job of two tasks"
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
