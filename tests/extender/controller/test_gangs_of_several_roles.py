"""Gangs whose pods have roles: groups of Ray, tasks of Volcano, leaders without GPUs; each has a rank of its own."""

from __future__ import annotations

from collections.abc import Iterable

from extender.objects import decode_owner
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import SPACE, Json, key, pod_json, uid

TOGETHER = {"arnold.dev/gang-size": "4"}


def ranks(world: World, gang: str) -> list[str]:
    """The pods of a gang by rank."""
    found = world.state.gang(key(gang))
    assert found is not None
    assert found.problem is None
    return [member.pod.name for member in found.members if member is not None]


def started(world: World, pods: Iterable[Json]) -> World:
    """The world after a gang of these pods was released whole."""
    names = [world.add(pod) for pod in pods]
    world.settle()
    assert not any(world.gated(name) for name in names)
    return world


def test_two_worker_groups_of_ray() -> None:
    """Replicas of each group count from 0: a group of the alphabet after the other, in each the replicas."""

    def worker(group: str, replica: int) -> Json:
        labels = {"ray.io/cluster": "r", "ray.io/node-type": "worker", "ray.io/group": group}
        labels |= {"ray.io/worker-group-replica-index": str(replica), "ray.io/replica-host-index": "0"}
        return pod_json(f"{group}-{replica}", labels=labels, annotations=TOGETHER, gate=True)

    world = started(World(), [worker(group, replica) for replica in (1, 0) for group in ("b", "a")])
    assert ranks(world, "r") == ["a-0", "a-1", "b-0", "b-1"]


def test_two_tasks_of_volcano() -> None:
    """Prefill and decode, two pods each: decode is first in the alphabet; a master would be before both."""

    def pod(task: str, index: int) -> Json:
        notes = {"scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
        return pod_json(f"{task}-{index}", annotations={**notes, **TOGETHER}, gate=True)

    tasks = [("prefill", 0), ("prefill", 1), ("decode", 0), ("master", 0)]
    world = started(World(), [pod(task, index) for task, index in tasks])
    assert ranks(world, "v") == ["master-0", "decode-0", "prefill-0", "prefill-1"]


def lws(index: int, *, gpus: int = 8) -> Json:
    """A pod of a LeaderWorkerSet of size 4; index 0 is the leader."""
    labels = {"leaderworkerset.sigs.k8s.io/name": "l", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    labels |= {"leaderworkerset.sigs.k8s.io/worker-index": str(index)}
    notes = {"leaderworkerset.sigs.k8s.io/size": "4"}
    name = "l-0" if index == 0 else f"l-0-{index}"
    return pod_json(name, gpus=gpus, labels=labels, annotations=notes, gate=gpus > 0)


def test_a_leader_without_gpus_is_no_member() -> None:
    """Its StatefulSet says so: the gang has three ranks, from worker 1 on."""
    world = World()
    meta = {"name": "l", "namespace": SPACE, "uid": uid("l")}
    containers = [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]
    spec = {"replicas": 1, "template": {"spec": {"containers": containers}}}
    world.state.put_owner(decode_owner({"kind": "StatefulSet", "metadata": meta, "spec": spec}))
    started(world, [lws(0, gpus=0), *(lws(index) for index in (1, 2, 3))])
    assert ranks(world, "l-0") == ["l-0-1", "l-0-2", "l-0-3"]
    assert world.plan("l-0").spec.size == 3


def test_a_leader_of_which_nothing_is_known_is_waited_for() -> None:
    """Without its StatefulSet nobody knows whether a leader is to come."""
    world = World()
    for index in (1, 2, 3):
        world.add(lws(index))
    world.later(10)
    world.settle()
    assert world.phase("l-0") is PlanPhase.WAITING
    assert "rank 0" in world.plan("l-0").message
