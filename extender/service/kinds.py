"""The kinds of objects that the cache follows."""

from __future__ import annotations

from extender.cluster_api import Resource

JOBS = Resource("batch", "v1", "jobs", "Job")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
POD_GROUPS = (
    # Native ones are alpha, and each release has had its own version.
    Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"),
    Resource("scheduling.k8s.io", "v1alpha3", "podgroups", "PodGroup"),
    Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
)

OWNERS = (JOBS, STATEFUL_SETS, JOB_SETS, *POD_GROUPS)
"""Makers of pods, and groups of them, which say how many belong together; a cluster need not have them."""
