"""Gangs that run and get more ranks, or fewer, or are done with some: nodes promised are nodes needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects import decode_owner
from extender.plans.gang_plan import PlanPhase, decode_plan, encode_plan
from extender.verbs import planned_node
from tests.case_counts import examples
from tests.extender.controller.world import World
from tests.extender.things import SPACE, Json, key, pod_json, uid
from tests.facts import says

INDEX = {"StatefulSet": "apps.kubernetes.io/pod-index", "Job": "batch.kubernetes.io/job-completion-index"}


class Elastic(World):
    """A gang ``t`` of pods that a controller numbers, on two minipods of four nodes."""

    def __init__(self, kind: str = "StatefulSet", **more: Any) -> None:
        super().__init__(**more)
        self.kind = kind

    def says(self, size: int, status: Mapping[str, object] | None = None, **spec: object) -> None:
        """The controller says how many pods it has."""
        field = {"StatefulSet": {"replicas": size}, "Job": {"completions": size, "parallelism": size}}[self.kind]
        meta = {"name": "t", "namespace": SPACE, "uid": uid("t")}
        document = {"kind": self.kind, "metadata": meta, "spec": field | spec, "status": status or {}}
        self.state.put_owner(decode_owner(document))

    def make(self, *indices: int, annotations: Mapping[str, str] | None = None, gpus: int = 8) -> list[str]:
        """The controller makes pods."""
        owner = (self.kind, "t")
        made = []
        for index in indices:
            labels = {INDEX[self.kind]: str(index)}
            made.append(
                self.add(
                    pod_json(f"t-{index}", owner=owner, labels=labels, annotations=annotations, gate=True, gpus=gpus)
                )
            )
        return made

    def run(self, *names: str) -> None:
        """Pods are released and bound, and all is settled."""
        self.settle()
        self.bind(*names)
        self.settle()

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """A pod ends."""
        self.change(name, lambda pod: pod["status"].update(phase=phase))
        self.settle()

    @property
    def promised(self) -> set[str]:
        """Nodes that are promised to any gang."""
        return {name for i in range(8) if self.state.fleet.promised_to(name := f"m{i // 4}-{i % 4}") is not None}

    @property
    def needed(self) -> set[str]:
        """Nodes of pods that run."""
        pods = (pod for pod in self.pods.values() if pod["status"]["phase"] == "Pending")
        return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def running(size: int, kind: str = "StatefulSet", **more: Any) -> Elastic:
    """A gang of which all pods run."""
    world = Elastic(kind)
    world.says(size)
    world.run(*world.make(*range(size), **more))
    assert world.phase("t") is PlanPhase.BOUND
    return world


def healthy(world: World) -> str:
    """What is not as planned; empty = all is."""
    condition = world.plan("t").condition("Healthy")
    return "" if condition is None or condition.status == "True" else condition.message


@pytest.mark.parametrize("kind", INDEX)
def test_four_pods_become_six_and_two_and_four(kind: str) -> None:
    """New ranks get nodes beside the old, which stay; the nodes of ranks that go are given back."""
    world = running(4, kind)
    old = world.plan("t").nodes
    world.says(6)
    world.run(*world.make(4, 5))
    assert world.plan("t").nodes[:4] == old
    assert world.promised == world.needed == {*world.plan("t").nodes}
    assert (len(world.promised), world.phase("t"), world.plan("t").spec.size, healthy(world)) == (
        6,
        PlanPhase.BOUND,
        6,
        "",
    )
    world.says(2)
    world.delete("t-5", "t-4", "t-3", "t-2")
    world.settle()
    assert world.plan("t").nodes == old[:2]
    assert world.promised == world.needed == {*old[:2]}
    # two whole nodes in one minipod: the least that there is
    assert (world.plan("t").spread, world.plan("t").spec.size) == ((1, 1), 2)
    world.says(4)
    world.run(*world.make(2, 3))
    assert world.plan("t").nodes[:2] == old[:2]
    assert world.promised == world.needed
    assert (len(world.promised), world.phase("t")) == (4, PlanPhase.BOUND)


def test_a_jobset_of_two_jobs_gets_three_and_one() -> None:
    """Two pods to a job; the labels of those that run say how many jobs there were when they were made."""
    world = Elastic()

    def jobs(count: int) -> None:
        pods = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}
        template = {"spec": {"parallelism": 2, "template": pods}}
        spec = {"replicatedJobs": [{"name": "w", "replicas": count, "template": template}]}
        meta = {"name": "t", "namespace": SPACE, "uid": uid("t")}
        world.state.put_owner(decode_owner({"kind": "JobSet", "metadata": meta, "spec": spec}))

    def make(job: int, of: int) -> list[str]:
        labels = {"jobset-name": "t", "jobset-uid": uid("t"), "job-index": str(job), "global-replicas": str(of)}
        labels |= {"replicatedjob-replicas": str(of)}
        of_jobset = {f"jobset.sigs.k8s.io/{name}": text for name, text in labels.items()}
        return [
            world.add(
                pod_json(
                    f"t-{job}-{i}", owner=("Job", f"t-{job}"), labels={**of_jobset, INDEX["Job"]: str(i)}, gate=True
                )
            )
            for i in range(2)
        ]

    jobs(2)
    world.run(*make(0, 2), *make(1, 2))
    nodes = world.plan("t").nodes
    jobs(3)
    world.run(*make(2, 3))
    assert (world.plan("t").nodes[:4], len(world.promised), healthy(world)) == (nodes, 6, "")
    assert world.promised == world.needed
    jobs(1)
    world.delete("t-1-0", "t-1-1", "t-2-0", "t-2-1")
    world.settle()
    world.recreate("t-0-1")
    world.run("t-0-1")
    assert (world.plan("t").nodes, world.promised, healthy(world)) == (nodes[:2], world.needed, "")


def test_new_pods_are_placed_together() -> None:
    """The first of two new pods waits for the second, and the GangPlan says so."""
    world = running(4)
    world.says(6)
    world.make(4)
    world.settle()
    assert world.gated("t-4")
    assert "rank 5" in healthy(world)
    assert len(world.promised) == 4
    world.make(5)
    world.settle()
    assert not world.gated("t-4")


def test_pods_that_come_before_their_controller_says_so() -> None:
    """They fit no rank until it does."""
    world = running(4)
    world.make(4, 5)
    world.settle()
    assert world.gated("t-4")
    world.says(6)
    world.run("t-4", "t-5")
    assert world.promised == world.needed
    assert len(world.promised) == 6


def test_no_room_to_grow() -> None:
    """Six of eight nodes are taken; the four that run are repaired meanwhile, and grow when there is room."""
    world = running(4)
    others = world.gang("b", 3)
    world.settle()
    world.bind(*others)
    world.settle()
    world.says(6)
    world.make(4, 5)
    world.settle()
    assert world.gated("t-4")
    assert "grows from 4 to 6" in healthy(world)
    assert len(world.plan("t").nodes) == 4
    world.recreate("t-1")
    world.settle()
    assert not world.gated("t-1")
    world.bind("t-1")
    world.delete(*others)
    world.run("t-4", "t-5")
    assert (len(world.plan("t").nodes), healthy(world)) == (6, "")


def test_no_room_to_grow_and_something_else_is_wrong() -> None:
    """A gang whose growth has no room says that beside what else is wrong, once: it is not written again and again."""
    world = running(4)
    others = world.gang("b", 3)
    world.settle()
    world.bind(*others)
    world.says(6)
    world.make(4, 5, 6)  # the last is of seven that were asked for in between
    world.settle()
    assert says(healthy(world), "rank 6", "grows from 4 to 6")
    written = world.version
    world.settle()
    assert world.version == written
    world.delete("t-6")
    world.settle()
    assert says(healthy(world), "grows from 4 to 6", "no other node")
    world.delete(*others)
    world.run("t-4", "t-5")
    assert (len(world.plan("t").nodes), healthy(world)) == (6, "")


def test_time_runs_out_while_it_grows() -> None:
    """One of two pods is late, and two more have come: the plan goes on with its two ranks, and can be read."""
    world = Elastic()
    world.says(2)
    world.make(0, 1)
    world.settle()
    world.bind("t-0")
    world.says(4)
    world.make(2, 3)
    world.later(310)
    world.do(world.decide())
    plan = world.plan("t")
    assert (len(plan.nodes), plan.phase) == (2, PlanPhase.PLANNED)
    assert decode_plan(encode_plan(plan)).pods == plan.pods == (uid("t-0"), uid("t-1"))
    world.run("t-1")
    world.run("t-2", "t-3")
    assert (world.phase("t"), len(world.promised), world.promised, healthy(world)) == (
        PlanPhase.BOUND,
        4,
        world.needed,
        "",
    )


def test_time_runs_out_before_it_shrinks() -> None:
    """None of its pods was bound, others have its nodes since, and then it is to have fewer: it is planned as those."""
    world = Elastic()
    world.says(5)
    world.make(*range(5))
    world.settle()
    world.delete("t-1")
    world.later(310)
    world.settle()
    world.run(*world.gang("b", 6))
    assert (world.phase("t"), world.phase("b")) == (PlanPhase.WAITING, PlanPhase.BOUND)
    world.says(2)
    world.make(1)
    world.run("t-0", "t-1")
    assert (world.phase("t"), len(world.plan("t").nodes), world.promised) == (PlanPhase.BOUND, 2, world.needed)


def test_a_node_is_kept_until_its_pod_leaves() -> None:
    """The controller says two before it has deleted the others."""
    world = running(4)
    world.says(2)
    world.settle()
    assert len(world.promised) == 4
    world.delete("t-3")
    world.settle()
    assert len(world.promised) == 4
    world.change("t-2", lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-21T12:00:00Z"))
    world.settle()
    assert len(world.promised) == 2


def test_pods_that_share_nodes() -> None:
    """Two pods of four GPUs to a node: a fourth lies beside the third, a fifth on a node of its own."""
    world = running(3, gpus=4)
    nodes = world.plan("t").nodes
    assert nodes[0] == nodes[1] != nodes[2]
    world.says(5)
    world.run(*world.make(3, 4, gpus=4))
    after = world.plan("t").nodes
    assert after[:4] == (*nodes, nodes[2])
    assert after[4] not in after[:4]
    world.says(3)
    world.delete("t-4", "t-3")
    world.settle()
    assert world.promised == {*nodes}


@pytest.mark.parametrize(
    ("before", "after", "grows"),
    [
        ("tp=8,dp=4", "tp=8,dp=6", True),
        ("tp=8,pp=2,dp=2", "tp=8,pp=3,dp=2", True),
        # rank 2 would be of another stage
        ("tp=8,pp=2,dp=2", "tp=8,pp=2,dp=3", False),
    ],
)
def test_degrees_that_are_written(before: str, after: str, *, grows: bool) -> None:
    """All pods say other degrees: more replicas keep each rank's place in the grid, another shape does not."""
    world = running(4, annotations={"arnold.dev/parallelism": before})
    for index in range(4):
        world.change(f"t-{index}", lambda pod: pod["metadata"]["annotations"].update({"arnold.dev/parallelism": after}))
    world.says(6)
    world.make(4, 5, annotations={"arnold.dev/parallelism": after})
    world.settle()
    assert world.gated("t-4") is not grows
    assert len(world.plan("t").nodes) == (6 if grows else 4)
    assert (healthy(world) == "") is grows


@pytest.mark.parametrize("failed", [False, True])
def test_a_rank_that_is_done_gives_its_node_back(*, failed: bool) -> None:
    """A pod succeeds, or fails for good: another gang starts on its node while the others run."""
    world = running(8, "Job")
    single = world.gang("b", 1)
    world.settle()
    assert world.gated("b-0")
    if failed:
        world.finish("t-3", "Failed")
        assert world.gated("b-0")
        world.says(8, {"failedIndexes": "1-0,3"})
        world.settle()
    else:
        world.finish("t-3")
    node = world.plan("t").nodes[3]
    assert not world.gated("b-0")
    assert world.node_of("b-0") == node
    world.bind(*single)
    world.settle()
    assert (world.plan("t").ended, world.plan("t").bound_pods, healthy(world)) == ((3,), 8, "")
    # the pod that ended is deleted: its node is the other's all the same
    world.delete("t-3")
    world.settle()
    assert str(world.state.fleet.promised_to(str(node))) == f"{SPACE}/b"


def test_a_pod_that_ended_is_deleted() -> None:
    """With its node, say: its rank is not missed, neither when another is bound nor when the Job grows."""
    world = Elastic("Job")
    world.says(4)
    pods = world.make(*range(4))
    world.settle()
    world.bind(*pods[:3])
    world.finish("t-1")
    world.delete("t-1")
    world.bind("t-3")
    world.settle()
    assert (world.phase("t"), world.plan("t").bound_pods, healthy(world)) == (PlanPhase.BOUND, 4, "")
    world.says(5)
    world.run(*world.make(4))
    assert (len(world.plan("t").nodes), world.plan("t").ended, healthy(world)) == (5, (1,), "")
    assert world.promised == world.needed


@pytest.mark.parametrize("gpus", [8, 4])
def test_a_plan_that_is_lost_while_a_rank_is_done(gpus: int) -> None:
    """It is read off the pods that run and the one that ended: nobody is planned elsewhere than it runs."""
    world = running(4, "Job", gpus=gpus)
    nodes = world.plan("t").nodes
    world.finish("t-1")
    world.state.drop_plan(world.plan("t").key)
    world.settle()
    assert (world.plan("t").nodes, world.plan("t").ended, healthy(world)) == (nodes, (1,), "")
    assert world.promised == world.needed


def test_a_plan_that_is_lost_after_ranks_that_share_a_node_have_moved() -> None:
    """One had ended on the node before: what counts is where the other runs."""
    world = running(4, "Job", gpus=4)
    world.finish("t-1")
    world.state.drop_node(str(world.plan("t").nodes[0]))
    world.recreate("t-0")
    world.run("t-0")
    nodes = world.plan("t").nodes
    world.state.drop_plan(world.plan("t").key)
    world.settle()
    assert (world.plan("t").nodes, world.plan("t").ended, healthy(world)) == (nodes, (1,), "")


def test_a_pod_that_ended_is_deleted_and_all_others_are_made_anew() -> None:
    """The Job says that its index is complete: nobody waits for it, be the plan there or lost."""
    for lost in (False, True):
        world = running(3, "Job")
        world.finish("t-1")
        world.says(3, {"completedIndexes": "1"})
        world.delete("t-1")
        world.settle()
        if lost:
            world.state.drop_plan(world.plan("t").key)
            world.settle()
            assert (world.phase("t"), world.promised, healthy(world)) == (PlanPhase.BOUND, world.needed, "")
        world.recreate("t-0")
        world.recreate("t-2")
        world.run("t-0", "t-2")
        assert (world.phase("t"), world.promised, healthy(world)) == (PlanPhase.BOUND, world.needed, "")
        assert len(world.promised) == 2


def test_a_pod_that_ended_beyond_the_ranks_that_are_left() -> None:
    """A Job keeps it when it is to have fewer: the others start all the same."""
    world = running(2, "Job")
    world.finish("t-1")
    world.says(1)
    world.recreate("t-0")
    world.run("t-0")
    assert (world.phase("t"), world.promised) == (PlanPhase.BOUND, world.needed)


def test_a_gang_whose_last_rank_failed_before_it_ran_is_bound() -> None:
    """Seven pods are on their nodes and the eighth is given up: nothing is waited for."""
    world = Elastic("Job")
    world.says(8)
    pods = world.make(*range(8))
    world.settle()
    world.bind(*pods[:7])
    world.change("t-7", lambda pod: pod["status"].update(phase="Failed"))
    world.says(8, {"failedIndexes": "7"})
    world.settle()
    assert world.phase("t") is PlanPhase.BOUND
    assert len(world.promised) == 7


def test_a_rank_that_comes_back_gets_another_node() -> None:
    """Its pod had succeeded, and others have its node: where none is free it waits, and the plan names it."""
    world = running(7, "Job")
    node = world.plan("t").nodes[2]
    world.finish("t-2")
    world.run(*world.gang("b", 2))
    assert str(world.state.fleet.promised_to(str(node))) == f"{SPACE}/b"
    world.delete("t-2")
    world.make(2)
    world.settle()
    assert world.gated("t-2")
    vacant = world.plan("t")
    assert vacant.nodes[2] is None
    assert decode_plan(encode_plan(vacant)).nodes == vacant.nodes
    world.delete("b-0", "b-1")
    world.run("t-2")
    assert world.promised == world.needed
    assert len(world.promised) == 7


@pytest.mark.parametrize(
    ("kind", "spec", "cure"),
    [
        ("StatefulSet", {"podManagementPolicy": "OrderedReady"}, "podManagementPolicy: Parallel"),
        ("Job", {"parallelism": 2}, "parallelism: 4"),
    ],
)
def test_a_controller_that_makes_pods_one_after_the_other(kind: str, spec: Json, cure: str) -> None:
    """The gang waits for pods that wait for it: what to set is said."""
    world = Elastic(kind)
    world.says(4, **spec)
    world.make(0)
    world.later(10)
    world.settle()
    assert world.phase("t") is PlanPhase.WAITING
    assert cure in world.plan("t").message


@pytest.mark.parametrize("kind", INDEX)
@pytest.mark.parametrize("left", [(4, 5), (4,)])
def test_a_plan_that_is_lost_while_a_gang_shrinks_and_grows_again(kind: str, left: tuple[int, ...]) -> None:
    """Six are to be four, and some of the others are still there, when the plan is deleted; then they are to be six
    again: those that are on nodes keep these.
    """
    world = running(6, kind)
    before = world.plan("t").nodes
    world.says(4)
    world.delete(*(f"t-{rank}" for rank in (4, 5) if rank not in left))
    world.settle()
    world.state.drop_plan(world.plan("t").key)
    world.settle()
    world.says(6)
    world.run(*world.make(*(rank for rank in (4, 5) if rank not in left)))
    assert world.plan("t").nodes[: 4 + len(left)] == before[: 4 + len(left)]
    assert world.promised == world.needed == {*world.plan("t").nodes}
    assert (len(world.promised), world.phase("t"), healthy(world)) == (6, PlanPhase.BOUND, "")


def test_groups_of_ray_are_scaled_one_by_one() -> None:
    """The autoscaler takes any replica and adds to any group: those that run keep their nodes, by UID."""
    world = Elastic()

    def groups(**replicas: int) -> None:
        template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}
        head = {"template": {"spec": {"containers": [{"name": "c"}]}}}
        workers = [{"groupName": name, "replicas": count, "template": template} for name, count in replicas.items()]
        meta = {"name": "t", "namespace": SPACE, "uid": uid("t")}
        spec = {"headGroupSpec": head, "workerGroupSpecs": workers}
        world.state.put_owner(decode_owner({"kind": "RayCluster", "metadata": meta, "spec": spec}))

    def make(group: str, *replicas: int) -> list[str]:
        of_ray = {"cluster": "t", "node-type": "worker", "group": group, "replica-host-index": "0"}
        labels = {f"ray.io/{name}": text for name, text in of_ray.items()}
        owner, index = ("RayCluster", "t"), "ray.io/worker-group-replica-index"
        return [
            world.add(pod_json(f"{group}-{one}", owner=owner, labels={**labels, index: str(one)}, gate=True))
            for one in replicas
        ]

    groups(a=2, b=2)
    world.run(*make("a", 0, 1), *make("b", 0, 1))
    before = on_nodes(world)
    groups(a=3, b=3)
    world.run(*make("a", 2), *make("b", 2))
    assert on_nodes(world).items() >= before.items()
    assert (len(world.promised), world.promised, healthy(world)) == (6, world.needed, "")
    groups(a=2, b=1)
    world.delete("a-0", "b-0", "b-2")
    world.settle()
    assert (len(world.promised), world.promised, healthy(world)) == (3, world.needed, "")
    world.recreate("a-2")
    groups(a=3, b=1)
    world.run("a-2", *make("a", 0))
    assert on_nodes(world)["b-1"] == before["b-1"]
    assert (len(world.promised), world.promised, healthy(world)) == (4, world.needed, "")


def on_nodes(world: World) -> dict[str, str]:
    """Node of each pod that has one."""
    return {name: pod["spec"]["nodeName"] for name, pod in world.pods.items() if pod["spec"].get("nodeName")}


@examples(600, deadline=None)
@given(data=st.data())
def test_whatever_happens_in_between_nodes_promised_are_nodes_needed(data: st.DataObject) -> None:
    """The number changes, pods are made, remade and deleted, some are bound, and the plan is lost, in any order: once
    the controller is done each rank is on its node, and no other node is promised.
    """
    kind, size = data.draw(st.sampled_from(sorted(INDEX))), data.draw(st.integers(1, 6))
    world = running(size, kind)

    def there() -> set[int]:
        return {int(name.removeprefix("t-")) for name in world.pods}

    def bind() -> None:
        for name, pod in [*world.pods.items()]:
            seen = world.state.pods[pod["metadata"]["uid"]]
            place = world.state.plan_of_pod(seen.uid)
            node = None if place is None else planned_node(world.state, seen, *place, world.now)
            if isinstance(node, str) and seen.node is None and not world.gated(name):
                world.bind(name, node=node)

    for _ in range(data.draw(st.integers(1, 8))):
        event = data.draw(st.sampled_from(("number", "make", "remake", "delete", "plan lost", "settle", "bind")))
        missing, surplus = sorted({*range(size)} - there()), sorted(there() - {*range(size)})
        if event == "number":
            size = data.draw(st.integers(1, 8))
            world.says(size)
        elif event == "make" and missing:
            world.make(data.draw(st.sampled_from(missing)))
        elif event == "remake" and (present := sorted(there() & {*range(size)})):
            world.recreate(f"t-{data.draw(st.sampled_from(present))}")
        elif event == "delete" and surplus:
            world.delete(f"t-{data.draw(st.sampled_from(surplus))}")
        elif event == "plan lost" and key("t") in world.state.plans:
            world.state.drop_plan(key("t"))
        elif event == "settle":
            world.settle()
        elif event == "bind":
            bind()
    world.delete(*(f"t-{rank}" for rank in sorted(there() - {*range(size)})))
    world.make(*sorted({*range(size)} - there()))
    for _ in range(3):
        world.settle()
        bind()
    world.settle()
    assert world.promised == world.needed == {*world.plan("t").nodes}
    assert (len(world.needed), world.phase("t"), healthy(world)) == (size, PlanPhase.BOUND, "")
