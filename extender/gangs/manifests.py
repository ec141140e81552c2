"""Manifests of Kubernetes as job files: what the pods that they make would ask for as a gang.

Of a Job, a JobSet, a LeaderWorkerSet (one of its groups), a job of Kubeflow or a Pod.  Read are the GPUs and the number
of the pods, our annotations, and those of Kueue, KAI, Volcano and LeaderWorkerSet, as the extender reads them of pods.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from extender.gangs.annotations import ANNOTATIONS, hints_of
from extender.gangs.job import understand
from extender.gangs.recognise import requests_of
from extender.gangs.types import GangKey, GangRequest
from ground.documents import load_document
from ground.errors import InvalidJob
from ground.files import Source
from ground.quantities import HOUR, plural
from ground.records import json_data
from scheduler.job_files.job_file import JobDocument, document_of
from topology.kubernetes.pods import Pod


def as_job_file(source: Source) -> Source:
    """Return the job file that asks what a manifest asks.

    :raises InvalidInput: not YAML or JSON.
    :raises InvalidJob: it makes no pods with GPUs, or pods with different numbers of them.
    :raises InvalidGang: an annotation cannot be read, or contradicts another.
    """
    documents = load_document(source, several=True).data
    found = [(item, pods) for item in documents if isinstance(item, dict) and (pods := [*_pods(item, source.name)])]
    if len(found) != 1:
        problem = f"it is a manifest of Kubernetes, and {plural(len(found), 'object')} in it make pods with GPUs"
        fix = "give one Job, JobSet, LeaderWorkerSet, job of Kubeflow or Pod, or a job file"
        raise InvalidJob(problem, where=source.name, fix=fix)
    (manifest, pods) = found[0]
    gpus = {pod.gpus for _, pod in pods}
    if len(gpus) > 1:
        numbers = " and ".join(map(str, sorted(gpus)))
        raise InvalidJob(f"its pods have {numbers} GPUs", where=source.name, fix="give a job file, with gpus_per_node")
    count, pod = sum(count for count, _ in pods), pods[0][1]
    annotations = {**_part(_part(manifest, "metadata"), "annotations"), **pod.annotations}
    asked = GangRequest(
        **{name: annotations.get(key) for name, key in ANNOTATIONS.items()},
        requests=requests_of(annotations, pod.labels),
    )
    name = str(_part(manifest, "metadata").get("name", "job"))
    job = understand(GangKey(pod.namespace, name), asked, gpus.pop(), size=count).job
    if job is None:
        raise InvalidJob("it says not how many pods it makes", where=source.name, fix="give a job file")
    job, seconds = job.replace(name=name), hints_of([pod]).seconds
    document = document_of(job if seconds is None else job.replace(expected_hours=seconds / HOUR), level=job.level)
    alpha = None if asked.alpha is None and asked.model is None else document.alpha
    text = json.dumps(json_data(JobDocument, replace(document, gpus_per_node=None, alpha=alpha), without_defaults=True))
    return Source(source.name, text, numbered=False)


def _pods(manifest: Mapping[str, Any], where: str) -> Iterator[tuple[int, Pod]]:
    """Yield the pods with GPUs that an object makes, one of each kind with how many there are."""
    for count, template in _templates(str(manifest.get("kind")), manifest):
        about = {"name": "pod", **_part(template, "metadata")}
        try:
            pod = msgspec.convert({"metadata": about, "spec": _part(template, "spec")}, Pod)
            has_gpus = pod.gpus > 0
        except ValueError as error:  # msgspec's are among them
            fix = "correct the manifest, or give a job file"
            raise InvalidJob(f"its pods cannot be read: {error}", where=where, fix=fix) from None
        if has_gpus:
            yield count, pod


def _templates(kind: str, manifest: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the templates of pods of an object, with how many pods each makes at once."""
    spec = _part(manifest, "spec")
    if kind == "Pod":
        yield 1, manifest
    elif kind == "Job":
        yield _count(spec, "parallelism"), _part(spec, "template")
    elif kind == "JobSet":
        parts = spec.get("replicatedJobs")
        for part in parts if isinstance(parts, list) else ():
            for count, template in _templates("Job", _part(part, "template")):
                yield _count(part, "replicas") * count, template
    elif kind == "LeaderWorkerSet":
        group = _part(spec, "leaderWorkerTemplate")
        leader = _part(group, "leaderTemplate")
        if leader:
            yield 1, leader
        yield _count(group, "size") - bool(leader), _part(group, "workerTemplate")
    else:
        for name in spec:
            roles = _part(spec, name) if name.endswith("ReplicaSpecs") else {}
            for role in roles:
                yield _count(_part(roles, role), "replicas"), _part(_part(roles, role), "template")


def _part(of: Any, key: str) -> Mapping[str, Any]:
    """Return the mapping under a key, an empty one where there is none."""
    part = of.get(key) if isinstance(of, dict) else None
    return part if isinstance(part, dict) else {}


def _count(of: Mapping[str, Any], key: str) -> int:
    """Return the number under a key; 1, as Kubernetes takes it, where there is none."""
    count = of.get(key, 1) if isinstance(of, dict) else 1
    return count if isinstance(count, int) else 1
