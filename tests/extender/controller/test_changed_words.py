"""Gangs that run while what their pods say changes: what was planned stays in force, and the words are a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import MINIPOD, Json, key, member_json, pod_json

OWNER = ("StatefulSet", "t")
GRID = {
    "arnold.dev/parallelism": "tp=8,pp=2,dp=2",
    "arnold.dev/microbatches": "16",
    "arnold.dev/peak-watts": "9000",
}


def running(size: int = 4, annotations: dict[str, str] | None = None) -> World:
    """A gang of which all pods run."""
    world = World()
    pods = world.gang("t", size, GRID if annotations is None else annotations, owner=OWNER)
    world.settle()
    world.bind(*pods)
    world.settle()
    assert world.phase("t") is PlanPhase.BOUND
    return world


def healthy(world: World) -> tuple[str, str]:
    """Whether all is as planned, and what is not."""
    condition = world.plan("t").condition("Healthy")
    return ("True", "") if condition is None else (condition.status, condition.message)


def anew(world: World, name: str, change: Callable[[Json], object]) -> None:
    """A pod comes anew, changed."""
    document = world.pods[name]
    change(document)
    world.recreate(name)


def annotated(**values: str | None) -> Callable[[Json], object]:
    """A change of annotations of ours; ``None`` = without."""

    def change(pod: Json) -> None:
        for name, value in values.items():
            annotation = f"arnold.dev/{name.replace('_', '-')}"
            pod["metadata"]["annotations"].pop(annotation, None)
            if value is not None:
                pod["metadata"]["annotations"][annotation] = value

    return change


def asking(gpus: int) -> Callable[[Json], object]:
    """A change of the GPUs that a pod asks for."""
    amounts = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    resources = {"limits": amounts, "requests": amounts}
    return lambda pod: pod["spec"]["containers"][0].update(resources=resources)


WORDS = {
    "microbatches": annotated(microbatches="32"),
    "avoid": annotated(avoid="strict"),
    "peak watts": annotated(peak_watts="10200"),
    "alpha": annotated(alpha="0.5"),
    "types": annotated(gpu_types="H100"),
    "constraints": annotated(constraints=f"[{{family: dp, within: {MINIPOD}}}]"),
    "another size": annotated(gang_size="8", parallelism="tp=8,pp=2,dp=4"),
    "another shape": annotated(parallelism="tp=8,pp=4,dp=1"),
    "nonsense": annotated(avoid="prize"),
    "a size that contradicts the degrees": annotated(gang_size="5"),
    "fewer GPUs": asking(4),
}


@pytest.mark.parametrize("change", WORDS.values(), ids=WORDS)
def test_a_rolling_update_that_changes_what_is_asked_ends(change: Callable[[Json], object]) -> None:
    """One pod after the other comes anew with other words, and is on its rank's node before the next goes."""
    world = running()
    before = world.plan("t")
    for rank in (3, 2, 1):
        anew(world, f"t-{rank}", change)
        world.settle()
        assert not world.gated(f"t-{rank}")
        assert healthy(world)[0] == "False"
        world.bind(f"t-{rank}")
        world.settle()
    after = world.plan("t")
    assert (after.nodes, after.phase, after.spec) == (before.nodes, PlanPhase.BOUND, before.spec)


def test_changed_words_are_named_and_the_condition_ends_with_them() -> None:
    """Which annotation, which pods; when all say the same as before, all is as planned."""
    world = running()
    anew(world, "t-3", annotated(microbatches="32"))
    world.settle()
    status, message = healthy(world)
    assert status == "False"
    assert all(part in message for part in ("arnold.dev/microbatches", "'16' (t-0)", "'32' (t-3)"))
    anew(world, "t-3", annotated(microbatches="16"))
    world.settle()
    assert healthy(world) == ("True", "")


def test_words_count_when_the_gang_is_made_anew() -> None:
    """All its pods come anew together: this is another gang, which is planned as it asks."""
    world = running()
    for rank in range(4):
        anew(world, f"t-{rank}", annotated(microbatches="32"))
    world.settle()
    assert (world.phase("t"), world.plan("t").spec.microbatches) == (PlanPhase.RELEASED, 32)


@pytest.mark.parametrize("bound", [0, 2])
def test_size_or_degrees_edited_after_the_release(bound: int) -> None:
    """The pods go where the plan says, and the GangPlan says that they ask otherwise now."""
    world = World()
    pods = world.gang("t", 4, GRID, owner=OWNER)
    world.settle()
    world.bind(*pods[:bound])
    before = world.plan("t")
    for name in pods:
        world.change(name, annotated(parallelism="tp=8,pp=4,dp=1"))
    world.settle()
    after = world.plan("t")
    assert (after.nodes, after.spec.parallelism) == (before.nodes, before.spec.parallelism)
    assert healthy(world)[0] == "False"
    world.bind(*pods[bound:])
    world.settle()
    assert world.phase("t") is PlanPhase.BOUND


def test_words_that_change_while_the_gang_rests_do_not_stop_it() -> None:
    """Its time ran out with two of four pods on nodes and one missing; the others say something else by then."""
    world = World()
    pods = world.gang("t", 4, GRID, owner=OWNER)
    world.settle()
    world.bind(*pods[:2])
    world.settle()
    world.delete("t-3")
    world.later(301)
    world.settle()
    assert not world.plan("t").holding
    world.add(member_json("t", 3, 4, {**GRID, "arnold.dev/microbatches": "32"}, owner=OWNER))
    world.settle()
    world.bind("t-2", "t-3")
    world.settle()
    assert (world.phase("t"), world.plan("t").spec.microbatches) == (PlanPhase.BOUND, 16)


def test_words_that_change_while_the_plan_is_lost() -> None:
    """Nothing but the pods says what was in force: those that were released, the eldest first."""
    world = running()
    before = world.plan("t").nodes
    anew(world, "t-3", annotated(microbatches="32"))
    world.state.drop_plan(key("t"))
    world.settle()
    world.bind("t-3")
    world.settle()
    plan = world.plan("t")
    assert (plan.phase, plan.nodes[:3], plan.spec.microbatches) == (PlanPhase.BOUND, before[:3], 16)


# Pods that are no part of what was planned

STRANGERS: dict[str, Json] = {
    "one too many": member_json("t", 4, 4, GRID, name="extra"),
    "a rank that is taken": member_json("t", 1, 4, GRID, name="extra"),
    "no rank": pod_json("extra", labels={"arnold.dev/gang": "t"}, annotations=GRID, gate=True),
    "a rank that is none": pod_json(
        "extra", labels={"arnold.dev/gang": "t", "arnold.dev/rank": "x"}, annotations=GRID, gate=True
    ),
    "GPUs that are none": member_json("t", 4, 4, GRID, name="extra", gpus="many"),
    "numbered otherwise": pod_json(
        "extra",
        labels={
            "arnold.dev/gang": "t",
            "jobset.sigs.k8s.io/job-index": "0",
            "batch.kubernetes.io/job-completion-index": "1",
        },
        annotations=GRID,
        gate=True,
    ),
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_a_pod_that_fits_no_vacant_rank_is_the_problem_alone(stranger: Json) -> None:
    """It waits, and is named; a rank whose pod comes anew gets its node as ever, also after its node was lost."""
    world = running()
    before = world.plan("t").nodes
    world.add(stranger)
    world.settle()
    assert world.gated("extra")
    assert healthy(world)[0] == "False"
    assert "extra" in healthy(world)[1]
    world.recreate("t-2")
    world.settle()
    assert (world.gated("extra"), world.node_of("t-2")) == (True, before[2])
    world.bind("t-2")
    world.state.drop_node(before[3])
    world.recreate("t-3")
    world.settle()
    after = world.plan("t").nodes
    assert (world.gated("extra"), world.node_of("t-3")) == (True, after[3])
    assert (after[:3], after[3] == before[3]) == (before[:3], False)
    world.bind("t-3")
    world.delete("extra")
    world.settle()
    assert healthy(world) == ("True", "")


def test_a_pod_too_many_keeps_no_nodes_when_all_ranks_are_done() -> None:
    """The gang has ended, and gives its nodes back; the pod that was none of it gets none."""
    world = running()
    world.add(member_json("t", 4, 4, GRID, name="extra"))
    world.settle()
    for rank in range(4):
        world.change(f"t-{rank}", lambda pod: pod["status"].update(phase="Succeeded"))
    world.settle()
    nodes = [f"m{m}-{i}" for m in (0, 1) for i in range(4)]
    assert [world.state.fleet.promised_to(node) for node in nodes] == [None] * 8
    assert world.gated("extra")


def test_two_pods_for_one_vacant_rank() -> None:
    """The elder gets its node; the other is the problem, alone."""
    world = running()
    where = world.plan("t").nodes[1]
    world.delete("t-1")
    world.add(member_json("t", 1, 4, GRID, name="younger", created="2026-11-21T11:50:00Z"))
    world.add(member_json("t", 1, 4, GRID, name="zelder", created="2026-11-21T11:40:00Z"))
    world.settle()
    assert (world.node_of("zelder"), world.gated("younger")) == (where, True)
    assert "younger" in healthy(world)[1]


def test_a_pod_that_asks_for_more_than_its_rank_has_waits() -> None:
    """Two pods of four GPUs share each node; one that comes anew for eight would take its fellow's."""
    world = World()
    pods = world.gang("t", 4, {}, gpus=4, owner=OWNER)
    world.settle()
    world.bind(*pods)
    world.settle()
    anew(world, "t-3", asking(8))
    world.settle()
    assert world.gated("t-3")
    assert "t-3" in healthy(world)[1]


def test_a_label_that_is_edited_moves_no_pod_that_runs() -> None:
    """The plan names pods by UID: each keeps its rank, whatever its label says now."""
    world = running()
    before = world.plan("t")
    world.change("t-1", lambda pod: pod["metadata"]["labels"].update({"arnold.dev/rank": "2"}))
    world.recreate("t-3")
    world.settle()
    assert (world.node_of("t-3"), world.plan("t").nodes) == (before.nodes[3], before.nodes)
    assert world.plan("t").pods[:3] == before.pods[:3]
    assert healthy(world)[0] == "False"


def test_two_groups_of_one_name_while_one_of_them_runs() -> None:
    """A StatefulSet called as the Job that runs: its pods wait, and the Job goes on."""
    world = World()

    def member(kind: str, label: str, index: int, **more: Any) -> Json:
        notes = {"arnold.dev/gang-size": "2"}
        return pod_json(f"{kind}-{index}", owner=(kind, "t"), labels={label: str(index)}, annotations=notes, **more)

    for index in range(2):
        world.add(member("Job", "batch.kubernetes.io/job-completion-index", index, gate=True))
    world.settle()
    world.bind("Job-0", "Job-1")
    world.settle()
    world.add(member("StatefulSet", "apps.kubernetes.io/pod-index", 1, gate=True))
    world.recreate("Job-1")
    world.settle()
    assert (world.gated("Job-1"), world.gated("StatefulSet-1")) == (False, True)
