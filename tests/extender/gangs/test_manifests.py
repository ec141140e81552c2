"""Manifests as job files: what their pods would ask as a gang."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.gangs.manifests import as_job_file
from extender.gangs.types import InvalidGang
from ground.errors import InvalidInput, InvalidJob
from ground.files import Source
from scheduler.job import Hold
from scheduler.job_files.job_file import JobFile, load_job

LIMITS = {"limits": {"nvidia.com/gpu": "8"}}


def template(annotations: dict[str, str] | None = None, resources: dict[str, Any] | None = None) -> dict[str, Any]:
    """Pods of 8 GPUs unless said."""
    spec = {"containers": [{"name": "c", "image": "x", "resources": LIMITS if resources is None else resources}]}
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def job_of(*manifests: dict[str, Any]) -> JobFile:
    """The job of a file with some objects."""
    text = "\n---\n".join(json.dumps({"apiVersion": "v1", "metadata": {"name": "train"}} | of) for of in manifests)
    return load_job(as_job_file(Source("train.yaml", text)))


DEGREES = {"arnold.dev/parallelism": "tp=8,pp=2,dp=2"}


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Job", "spec": {"parallelism": 4, "template": template(DEGREES)}},
        {
            "kind": "JobSet",
            "spec": {
                "replicatedJobs": [
                    {"name": "driver", "template": {"spec": {"template": template(resources={})}}},
                    {
                        "name": "w",
                        "replicas": 2,
                        "template": {"spec": {"parallelism": 2, "template": template(DEGREES)}},
                    },
                ]
            },
        },
        {"kind": "LeaderWorkerSet", "spec": {"leaderWorkerTemplate": {"size": 4, "workerTemplate": template(DEGREES)}}},
        {
            "kind": "PyTorchJob",
            "spec": {
                "pytorchReplicaSpecs": {
                    "Master": {"template": template(DEGREES)},
                    "Worker": {"replicas": 3, "template": template(DEGREES)},
                }
            },
        },
    ],
)
def test_each_kind_is_a_job_of_four_nodes(manifest: dict[str, Any]) -> None:
    """Pods without GPUs are no part of it, and neither is another object of the file."""
    job = job_of({"kind": "Service", "spec": {}}, manifest).job
    assert (job.name, job.parallelism.gpus, job.grid.cells) == ("train", 32, 4)
    assert (job.parallelism.pp, job.parallelism.dp) == (2, 2)


def test_what_annotations_ask() -> None:
    """Kueue's slices of two ranks are the pipelines; ours say affinity and hours."""
    asks = {
        "kueue.x-k8s.io/podset-slice-required-topology": "rack",
        "kueue.x-k8s.io/podset-slice-size": "2",
        "kueue.x-k8s.io/podset-preferred-topology": "block",
        "arnold.dev/alpha": "0.9",
        "arnold.dev/expected-duration": "2h",
    }
    job = job_of({"kind": "Job", "spec": {"parallelism": 4, "template": template(DEGREES | asks)}}).job
    assert (job.level, job.alpha, job.expected_hours) == ("block", 0.9, 2.0)
    # ranks go along dp first: two consecutive ones are the replicas of a stage
    assert job.holds == (Hold("dp", "rack"),)


@pytest.mark.parametrize(
    ("manifests", "error"),
    [
        ([{"kind": "Service", "spec": {}}], InvalidJob),
        ([{"kind": "Job", "spec": {"parallelism": 4, "template": template(resources={})}}], InvalidJob),
        ([{"kind": "Job", "spec": {"template": template()}}] * 2, InvalidJob),
        (
            [{"kind": "Job", "spec": {"template": template(resources={"limits": {"nvidia.com/gpu": "many"}})}}],
            InvalidJob,
        ),
        ([{"kind": "JobSet", "spec": {"replicatedJobs": [3, {"template": []}]}}], InvalidJob),
        ([{"kind": "Job", "spec": {"parallelism": 3, "template": template(DEGREES)}}], InvalidGang),
    ],
)
def test_what_is_no_job(manifests: list[dict[str, Any]], error: type[InvalidInput]) -> None:
    """No pods with GPUs, two objects that make some, other pods than the degrees make: each says what to do."""
    if error is InvalidGang:  # the degrees make the number of pods unless an annotation says it
        manifests[0]["spec"]["template"]["metadata"]["annotations"]["arnold.dev/gang-size"] = "3"
    with pytest.raises(error) as refused:
        job_of(*manifests)
    assert refused.value.fix
