"""Gangs of two roles as real controllers make them, from recordings; of Grove as its source says.

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


def of_kind(kind: str, objects: list[Json]) -> Json:
    """The only one of its kind."""
    (found,) = (thing for thing in objects if thing["kind"] == kind)
    return found


GROVE_GATE = {"name": "grove.io/podgang-pending-creation"}


def grove() -> list[Json]:
    """Two cliques of a PodCliqueSet, as Grove (0.1.0-alpha.11, ``buildResource``) makes pods, held by its own gate.

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
        made = pod_json(
            f"{hostname}-x7k2p", labels=labels, annotations=notes, gate=True, owner=owner, hostname=hostname
        )
        made["spec"]["schedulingGates"].append(GROVE_GATE)
        return made

    return [pod("prefill", 1), pod("prefill", 0), pod("decode", 0), pod("decode", 1)]


def test_pods_that_grove_holds_wait_for_it() -> None:
    """Until it takes off all gates, ours too (``checkAndRemovePodSchedulingGates``), pod by pod; then they start."""
    world = settled(grove())
    assert (world.phase("llm"), world.plan("llm").reason) == (PlanPhase.WAITING, "OtherGates")
    assert says(world.plan("llm").message, GROVE_GATE["name"])
    for name in [*world.pods]:
        assert world.phase("llm") is PlanPhase.WAITING
        world.change(name, lambda pod: pod["spec"].pop("schedulingGates"))
        world.settle()
    plan = world.plan("llm")
    assert (plan.phase, plan.spec.size, len(set(plan.nodes))) == (PlanPhase.RELEASED, 4, 4)
    cliques = [name.removesuffix("-x7k2p") for name in ranks_of(world, "llm")]
    assert cliques == ["llm-0-decode-0", "llm-0-decode-1", "llm-0-prefill-0", "llm-0-prefill-1"]


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
    pytest.param("llm", recorded("pytorchjob"), "llm-master-0 llm-worker-0 llm-worker-1", id="PyTorchJob"),
    pytest.param(
        "llm",
        recorded("tfjob"),
        "llm-chief-0 llm-evaluator-0 llm-worker-0 llm-worker-1",
        id="TFJob of three roles, a fourth without GPUs",
    ),
    pytest.param(
        of_kind("PodGroup", recorded("volcano"))["metadata"]["name"],
        recorded("volcano"),
        "llm-decode-0 llm-decode-1 llm-prefill-0 llm-prefill-1",
        id="Volcano Job of two tasks, a third without GPUs",
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


def test_groups_that_kuberay_does_not_number() -> None:
    """KubeRay 1.5 by default: the gang says which feature would."""
    world = settled(recorded("kuberay-1.5"))
    assert (world.phase("llm"), world.plan("llm").reason) == (PlanPhase.INVALID, "MissingRank")
    assert says(world.plan("llm").message, "RayMultiHostIndexing")


@pytest.mark.parametrize("name", ["kuberay-1.5-indexed", "kuberay-1.6"])
def test_groups_of_kuberay(name: str) -> None:
    """Two groups, of one host and of two to a replica: the hosts of a replica follow each other."""
    world = settled(recorded(name))
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
