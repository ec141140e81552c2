"""How many GPUs nodes have whose device plugin hands them out in parts, in the labels that its documents give."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.files import Source
from tests.case_counts import examples
from tests.facts import says
from topology.kubernetes.nodes import node_gpus
from topology.kubernetes.objects import NodeObject
from topology.readers.kubernetes import Kubernetes
from topology.readers.reading import Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
A100 = "NVIDIA-A100-SXM4-80GB"
Json = dict[str, Any]


def gfd(product: str = A100, count: int = 8, replicas: int = 1, strategy: str = "none") -> dict[str, str]:
    """The labels that GPU feature discovery sets on every node."""
    words = {"product": product, "count": count, "replicas": replicas, "sharing-strategy": strategy}
    return {f"{GPU}.{key}": str(value) for key, value in words.items()}


def gke(strategy: str, clients: int) -> dict[str, str]:
    """The labels of GKE's own sharing."""
    return {
        "cloud.google.com/gke-gpu-sharing-strategy": strategy,
        "cloud.google.com/gke-max-shared-clients-per-gpu": str(clients),
    }


def node_json(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None, **amounts: int) -> Json:
    """A node that offers so much of each resource."""
    offers = {resource: str(amount) for resource, amount in amounts.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "status": {"capacity": offers, "allocatable": offers},
    }


def read(*items: Json) -> Reading:
    """What is read of a list with these objects."""
    return Kubernetes().read(Source("f", json.dumps({"kind": "List", "items": items})), levels=None, now=NOW)


HAMI = ",".join(f'{{"id":"GPU-{i}","count":10,"devmem":81920,"type":"NVIDIA-A100"}}' for i in range(8))
SLICES = gfd(f"{A100}-MIG-1g.10gb", 56) | {"nvidia.com/mig.strategy": "single"}
MIXED = gfd() | {"nvidia.com/mig.strategy": "mixed"}
CPX = {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}

WAYS: dict[str, tuple[dict[str, str], dict[str, int], str]] = {
    # eight GPUs in each case: labels, resources, how they are shared
    "whole": (gfd(), {GPU: 8}, ""),
    "whole, without labels": ({}, {GPU: 8}, ""),
    "time-slicing": (gfd(f"{A100}-SHARED", 8, 4, "time-slicing"), {GPU: 32}, "time-slicing x4"),
    "time-slicing, renamed": (gfd(A100, 8, 4, "time-slicing"), {GPU: 0, SHARED: 32}, "time-slicing x4"),
    "time-slicing, no count": ({f"{GPU}.replicas": "4"}, {GPU: 32}, "shared x4"),
    "MPS": (gfd(f"{A100}-SHARED", 8, 10, "mps"), {GPU: 80}, "MPS x10"),
    "time-sharing of GKE": (gke("time-sharing", 3), {GPU: 24}, "time-slicing x3"),
    "MPS of GKE": (gke("mps", 5), {GPU: 40}, "MPS x5"),
    "MIG of GKE": ({"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}, {GPU: 56}, "MIG 1g.5gb"),
    "MIG single": (SLICES, {GPU: 56}, "MIG 1g.10gb"),
    "MIG single, sliced in time": (
        gfd(f"{A100}-MIG-1g.10gb-SHARED", 56, 2, "time-slicing"), {GPU: 112}, "MIG 1g.10gb, time-slicing x2",
    ),
    "MIG mixed": (MIXED, {GPU: 0, "nvidia.com/mig-1g.10gb": 56}, "MIG 1g.10gb"),
    "MIG mixed, some whole": (
        MIXED,
        {GPU: 6, "nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-3g.40gb": 2},
        "MIG 1g.10gb, 3g.40gb on 2 of 8 GPUs",
    ),
    "MIG mixed, without labels": ({}, {GPU: 6, "nvidia.com/mig-1g.10gb": 14}, "MIG 1g.10gb on 2 of 8 GPUs"),
    "more than the label counts": (gfd(), {GPU: 80}, "shared x10"),
    "partitions of AMD": (CPX, {"amd.com/gpu": 64}, "CPX x8"),
    "partitions of AMD, named": ({}, {"amd.com/cpx_nps4": 64}, "CPX x8"),
    "whole GPUs of AMD": ({"amd.com/gpu.compute-memory-partition": "spx_nps1"}, {"amd.com/gpu": 8}, ""),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_eight_gpus_are_eight_however_they_are_handed_out(way: str) -> None:
    """The documents' own examples, for a node of eight GPUs: all are there, and whether they are whole is told."""
    labels, amounts, sharing = WAYS[way]
    row = read(node_json("n", labels, **amounts)).cluster.node(0)
    assert (row.gpus, row.free_gpus, row.sharing) == (8, 8, sharing)
    assert row.free == (not sharing)
    assert row.gpu_type in ("", A100)  # the marks of sharing are no part of the type


@pytest.mark.parametrize(
    "annotation", [f"[{HAMI}]", "".join(f"GPU-{i},10,81920,100,NVIDIA-A100,0,true:" for i in range(8))]
)
def test_gpus_that_hami_registers(annotation: str) -> None:
    """Ten times as many are offered; both forms of its annotation have an entry a GPU."""
    row = read(node_json("n", {}, {"hami.io/node-nvidia-register": annotation}, **{GPU: 80})).cluster.node(0)
    assert (row.gpus, row.sharing) == (8, "HAMi x10")


def test_pods_hold_parts() -> None:
    """Two pods with three slices, and one with two shares: as many GPUs are not free for sure, and none faulty."""

    def pod(name: str, node: str, resource: str, amount: int) -> Json:
        limits = {"resources": {"limits": {resource: str(amount)}}}
        return {"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node, "containers": [limits]}}

    sliced = node_json("sliced", MIXED, **{"nvidia.com/mig-1g.10gb": 56})
    shared = node_json("shared", gfd(f"{A100}-SHARED", 8, 4, "time-slicing"), **{GPU: 32})
    slices = [pod("p", "sliced", "nvidia.com/mig-1g.10gb", 2), pod("q", "sliced", "nvidia.com/mig-1g.10gb", 1)]
    cluster = read(sliced, shared, *slices, pod("r", "shared", GPU, 2)).cluster
    assert [(row.free_gpus, row.slowdown) for row in cluster] == [(5, 1.0), (6, 1.0)]


def test_parts_that_are_not_allocatable_make_a_node_faulty() -> None:
    """Four of 32 shares are one GPU: it is broken, as for whole GPUs."""
    node = node_json("n", gfd(f"{A100}-SHARED", 8, 4, "time-slicing"), **{GPU: 32})
    node["status"]["allocatable"] = {GPU: "28"}
    cluster = read(node).cluster
    assert says(cluster.flags[0].evidence, "1 of 8 GPUs", "not allocatable")


def test_a_resource_that_the_user_names_is_counted_as_it_is() -> None:
    """Slices are the GPUs of whoever asks for them by name, and a note says that they are parts."""
    node = node_json("n", MIXED, **{"nvidia.com/mig-1g.10gb": 56})
    text = json.dumps({"kind": "List", "items": [node]})
    reading = Kubernetes().counting("nvidia.com/mig-1g.10gb").read(Source("f", text), levels=None, now=NOW)
    assert [(row.gpus, row.sharing) for row in reading.cluster] == [(56, "")]
    assert says(reading.notes, "nvidia.com/mig-1g.10gb", "parts of GPUs", "--gpu-resource")


def test_more_gpus_than_any_server_has_are_doubted() -> None:
    """Without a label that counts GPUs, 32 of them may be shares: a note says so."""
    assert says(read(node_json("n", {}, **{GPU: 32})).notes, "no label", "shared")
    assert not any("shared" in note for note in read(node_json("n", gfd(), **{GPU: 8})).notes)


@examples(200)
@given(
    count=st.integers(1, 16),
    replicas=st.integers(1, 10),
    renamed=st.booleans(),
    strategy=st.sampled_from(["time-slicing", "mps"]),
)
def test_never_more_gpus_than_the_label_counts(count: int, replicas: int, renamed: bool, strategy: str) -> None:
    """Shares of every number and name: the GPUs are those of the label, and shared exactly where there are shares."""
    labels = gfd(A100 if renamed else f"{A100}-SHARED", count, replicas, strategy) if replicas > 1 else gfd(count=count)
    amounts = {SHARED if renamed and replicas > 1 else GPU: count * replicas}
    found = node_gpus(msgspec.convert(node_json("n", labels, **amounts), NodeObject))
    assert (found.physical, found.allocatable, found.shares) == (count, count, replicas)
    assert bool(found.sharing) == (replicas > 1)
