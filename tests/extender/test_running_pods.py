"""Pods as jobs that run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from extender.gangs.types import GangKey
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, encode_plan
from extender.running_pods import RunningPods
from ground.files import Source
from scheduler.job import Job, Parallelism
from topology.running_jobs import LiveJob

NOW = datetime(2026, 11, 29, 1, tzinfo=UTC)


def pod(
    name: str, node: str, *, owner: tuple[str, str] = ("", ""), gpus: int = 8, phase: str = "Running",
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A pod of the namespace lab, bound at midnight."""
    kind, owner_name = owner
    owners = [{"kind": kind, "name": owner_name, "uid": owner_name, "controller": True}] if kind else []
    meta = {"name": name, "namespace": "lab", "labels": labels or {}, "annotations": annotations or {}}
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-29T00:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": meta | {"ownerReferences": owners},
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]},
        "status": {"phase": phase, "conditions": [bound]},
    }


def jobs_of(*pods: dict[str, Any]) -> list[LiveJob]:
    """What the reader makes of a list."""
    return [*RunningPods().read(Source("pods.json", json.dumps({"kind": "List", "items": pods})), now=NOW)]


def test_pods_of_a_job_are_one_in_the_order_of_their_ranks() -> None:
    """Completion indices number them; annotations say the grid, how long it runs, and that it may be stopped."""
    said = {
        "arnold.dev/parallelism": "tp=8,dp=2",
        "arnold.dev/expected-duration": "2h",
        "arnold.dev/preemptible": "true",
    }
    index, owner = "batch.kubernetes.io/job-completion-index", ("Job", "train")
    (job,) = jobs_of(
        pod("b", "n1", owner=owner, labels={index: "1"}, annotations=said),
        pod("a", "n3", owner=owner, labels={index: "0"}, annotations=said),
    )
    assert (job.name, job.group, job.nodes, job.ranked, job.gpus) == ("lab/train", "lab", ("n3", "n1"), True, 8)
    assert job.preemptible
    assert job.parallelism is not None
    assert (job.parallelism["tp"], job.parallelism["dp"]) == (8, 2)
    midnight = datetime(2026, 11, 29, tzinfo=UTC).timestamp()
    assert (job.started, job.ends, job.ends_by) == (midnight, midnight + 7200, "time limit")


def test_the_plan_of_a_gang_says_its_grid_and_its_order() -> None:
    """Pods of a PyTorchJob of which no annotation says a grid, and ranks that their names do not say."""
    labels = {"training.kubeflow.org/job-name": "train"}
    key = GangKey("lab", "train")
    job = Job("train", Parallelism(tp=8, pp=2, dp=1), gpus_per_node=8, alpha=0.7)
    spec = PlanSpec.of(job, dialect="kubeflow", priority=0)
    plan = GangPlan(key=key, phase=PlanPhase.BOUND, spec=spec, nodes=("n4", "n3"))
    (live,) = jobs_of(pod("a", "n3", labels=labels), pod("b", "n4", labels=labels), encode_plan(plan))
    assert (live.name, live.nodes, live.ranked) == ("lab/train", ("n4", "n3"), True)
    assert live.asks is not None
    assert live.parallelism is not None
    assert (live.parallelism["tp"], live.parallelism["pp"], live.asks["alpha"]) == (8, 2, 0.7)


def test_what_belongs_together_by_other_names() -> None:
    """JobSet, LeaderWorkerSet, PyTorchJob and a ReplicaSet are a job each; several pods of one may share a node."""
    jobs = jobs_of(
        pod("s", "n0", labels={"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/job-index": "0"}),
        pod(
            "l",
            "n1",
            labels={"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "2"},
        ),
        pod("p", "n2", labels={"training.kubeflow.org/job-name": "torch", "training.kubeflow.org/replica-index": "0"}),
        *(pod(f"w{i}", node, owner=("ReplicaSet", "web"), gpus=1) for i, node in enumerate(("n3", "n3", "n4"))),
    )
    assert [(job.name, job.nodes) for job in jobs] == [
        ("lab/set", ("n0",)),
        ("lab/lws-2", ("n1",)),
        ("lab/torch", ("n2",)),
        ("lab/web", ("n3", "n4")),
    ]
    assert (jobs[-1].gpus, jobs[-1].ranked) == ((2, 1), False)


def test_pods_that_hold_nothing_are_no_jobs() -> None:
    """One has ended, one has no node, one asks for no GPUs."""
    assert jobs_of(pod("a", "n0", phase="Succeeded"), pod("b", ""), pod("c", "n0", gpus=0)) == []
