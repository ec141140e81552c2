"""Pods of Kubernetes as jobs that run: those that belong together are one job, with its ranks where pods are numbered.

What belongs together is said by the same labels, annotations and owners that make gangs of pods
(:mod:`extender.gangs.recognise`), whether they were scheduled as a gang or not; pods of any other controller are one
job, and a pod by itself is one.  Its degrees of parallelism and its order are those of its GangPlan, where that is
listed, else of our annotations, which also say how long it runs at most and whether it may be stopped; its end is the
latest, by that hint.  Pods without GPUs, and those that have ended or have no node yet, hold nothing.  Gangs wait that
their plans say are queued.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any, ClassVar

from extender.gangs.annotations import hints_of
from extender.gangs.recognise import group_of, index_of
from extender.gangs.types import GangKey, InvalidGang
from extender.kubernetes_names import ALPHA, KIND, LEVEL, ORDER, PARALLELISM
from extender.plans.gang_plan import GangPlan, PlanPhase, decode_plan
from ground.documents import Document, load_document
from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat
from ground.records import json_data
from scheduler.job_files.job_file import JobDocument, document_of
from topology.kubernetes.objects import START_OF_TIME, Place
from topology.kubernetes.pods import Pod
from topology.node_gpus import GPUS
from topology.readers.kubernetes import Kubernetes, Listing
from topology.running_jobs import LiveJob, degrees_in


class RunningPods:
    """Reader of pods."""

    format: ClassVar = FileFormat(
        name="pods",
        source="Pods of Kubernetes, JSON or YAML",
        export="`kubectl get pods,gangplans -A -o json`",
        read="jobs by gang, Job, JobSet, LWS, Kubeflow or another owner; ranks, GPUs, priority, start; annotations "
        "and plans",
        left_out="pods without GPUs, without a node, or that have ended",
        marks=("kind", "items", "pod"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether it is a list of Kubernetes objects."""
        return Kubernetes().likeness(head)

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:  # noqa: ARG002
        """Yield the jobs in the order of their first pods."""
        document = load_document(source, several=True)
        groups: dict[GangKey, list[tuple[Place, Pod]]] = {}
        for place, pod in Listing(document, GPUS).pods:
            if pod.node is not None and not pod.terminal and pod.readable_gpus:
                groups.setdefault(group_of(pod), []).append((place, pod))
        plans = _plans(document.data)
        for key, members in groups.items():
            yield _job(key, members, document, plans.get(key))
        for key, plan in plans.items():
            if plan.phase is PlanPhase.QUEUED and plan.spec.size and plan.spec.gpus_per_pod:
                complete, estimate = plan.condition("Complete"), plan.estimate
                yield LiveJob(
                    str(key), (), f"GangPlan {key}", gpus=plan.spec.gpus_per_pod, group=key.namespace,
                    priority=plan.spec.priority, wanted=plan.spec.size,
                    submitted=None if complete is None else complete.since.timestamp(),
                    seconds=None if estimate is None else estimate.seconds,
                    hindered="too large for the cluster" if plan.would_fit_if_empty is False else "",
                )  # fmt: skip


def _plans(data: Any) -> Mapping[GangKey, GangPlan]:
    """Return the plans of gangs among the objects of a list."""
    plans = {}
    for part in data if isinstance(data, list) else [data]:
        for item in part.get("items", [part]) if isinstance(part, dict) else ():
            if isinstance(item, dict) and item.get("kind") == KIND:
                with suppress(InvalidInput):  # somebody else's
                    plan = decode_plan(item)
                    plans[plan.key] = plan
    return plans


def _job(key: GangKey, members: Sequence[tuple[Place, Pod]], document: Document, plan: GangPlan | None) -> LiveJob:
    pods = [pod for _, pod in members]
    ordered, ranked = _by_rank(pods)
    nodes = tuple(dict.fromkeys(pod.node or "" for pod in ordered))
    # ranks that lie on a node, leave it and come back are no order of nodes
    ranked &= sum(pod.node != before.node for before, pod in pairwise(ordered)) == len(nodes) - 1
    gpus = Counter[str]()
    for pod in pods:
        gpus[pod.node or ""] += pod.readable_gpus
    bound = [pod.bound_at for pod in pods if pod.bound_at > START_OF_TIME]
    started = min(bound).timestamp() if bound else None
    hints = hints_of(pods)
    ends = None if started is None or hints.seconds is None else started + hints.seconds
    written = pods[0].annotations
    asks: dict[str, Any] | None = None
    if PARALLELISM in written:
        asks = {"parallelism": degrees_in(written[PARALLELISM])}
        asks |= {name: written[key] for name, key in (("order", ORDER), ("level", LEVEL)) if key in written}
        with suppress(KeyError, ValueError):
            asks["alpha"] = float(written[ALPHA])
    if plan is not None and (job := plan.spec.job(key.name)) is not None:
        planned = replace(document_of(job, level=job.level), gpus_per_node=None)  # those of the nodes
        asks = json_data(JobDocument, planned, without_defaults=True)
        if {*plan.node_names} == {*nodes}:
            nodes, ranked = plan.node_names, True
    return LiveJob(
        str(key),
        nodes,
        document.where(*members[0][0]),
        ranked,
        tuple(gpus[node] for node in nodes) if len({*gpus.values()}) > 1 else next(iter(gpus.values())),
        group=key.namespace,
        priority=max((pod.spec.priority for pod in pods if pod.spec.priority is not None), default=None),
        preemptible=hints.preemptible,
        asks=asks,
        started=started,
        ends=ends,
        ends_by="" if ends is None else "time limit",
    )


def _by_rank(pods: Sequence[Pod]) -> tuple[list[Pod], bool]:
    """Return pods in the order of their ranks, and whether these are known; else as they are listed."""
    try:
        indices = [index_of(pod) for pod in pods]
    except InvalidGang:
        return [*pods], False
    ranks = [index for index in indices if index is not None]
    if len({*ranks}) < len(pods) or len({len(index) for index in ranks}) > 1:
        return [*pods], len(pods) == 1
    return [pod for _, pod in sorted(zip(ranks, pods, strict=True), key=lambda ranked: ranked[0])], True
