"""Kubernetes nodes whose GPUs are in ResourceSlices, and pods that have them by ResourceClaim."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from tests.allocation_objects import claim_json, claiming, class_json, gpu, request, slice_json, template_json
from tests.case_counts import examples
from tests.facts import says
from topology.readers.kubernetes import Kubernetes
from topology.readers.reading import Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"

Json = dict[str, Any]


def node(name: str, *, gpus: int = 0, labels: Json | None = None) -> Json:
    """A node; with GPUs, a device plugin offers them."""
    amounts = {"cpu": "192"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    about = {"name": name, "labels": {ZONE: "z", **(labels or {})}}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    return {"kind": "Node", "metadata": about, "spec": {}, "status": status}


def pod(name: str, on: str) -> Json:
    """A pod that runs on a node, without GPUs but for what it claims."""
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {}}]}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, "namespace": "team"},
        "spec": spec,
        "status": {"phase": "Running"},
    }


def read(*items: Json) -> Reading:
    """Read what kubectl prints, one item a line from line 2 on."""
    text = '{"apiVersion": "v1", "kind": "List", "items": [\n' + ",\n".join(map(json.dumps, items)) + "]}"
    return Kubernetes().read(Source("f", text), levels=None, now=NOW)


def gpus(*items: Json) -> list[tuple[int, int]]:
    """GPUs and free ones of each node."""
    return [(one.gpus, one.free_gpus) for one in read(*items).cluster]


def test_nodes_without_a_device_plugin_have_the_gpus_of_their_slices() -> None:
    """The type is the product, written as the label would be; a label wins, and so do GPUs of a device plugin."""
    labelled = node("b", labels={"nvidia.com/gpu.product": "H100"})
    reading = read(
        node("a"), labelled, node("c", gpus=4), node("cpu"), slice_json("a"), slice_json("b", 4), slice_json("c")
    )
    found = {one.name: (one.gpus, one.free_gpus, one.gpu_type) for one in reading.cluster}
    assert found == {"a": (8, 8, "NVIDIA-H100-80GB-HBM3"), "b": (4, 4, "H100"), "c": (4, 4, "")}
    assert says(reading.notes, "ResourceSlices", "3")


def test_what_pods_have_by_claim_is_in_use() -> None:
    """Of a claim that is allocated the devices that it was given, alternatives and *all* too; else what is asked.
    A claim of two pods counts once; one that is for administrators, or of other devices, not at all.
    """
    nodes = [node(name) for name in "abcdef"]
    slices = [slice_json(name) for name in "abcdef"]
    all_of = claim_json("all", "team", request(None), given={"gpus": 6}, users=["p-a"])
    either = {"name": "g", "firstAvailable": [{"name": "x", **request(2)["exactly"]}]}
    first = claim_json("first", "team", either, given={"g/x": 2}, users=["p-b"])
    shared = claim_json("shared", "team", request(4), given={"gpus": 4}, users=["p-c", "q-c"])
    other = claim_json(
        "other", "team", request(3, of="nic.example.com"), given={"gpus": 3}, users=["p-d"], driver="nic"
    )
    watching = claim_json("admin", "team", request(8, adminAccess=True))
    made = template_json("one", "team", request(1))
    pods = [
        claiming(pod("p-a", "a"), template="gone", made="all"),
        claiming(pod("p-b", "b"), claim="first"),
        claiming(pod("p-c", "c"), claim="shared"),
        claiming(pod("q-c", "c"), claim="shared"),
        claiming(pod("p-d", "d"), claim="other"),
        claiming(pod("p-e", "e"), claim="admin"),
        claiming(claiming(pod("p-f", "f"), template="one"), template="one"),
    ]
    free = [free for _, free in gpus(*nodes, *slices, *pods, all_of, first, shared, other, watching, made)]
    assert free == [2, 6, 4, 8, 8, 6]


def test_a_class_is_of_the_driver_that_its_expression_names() -> None:
    """Slices bear the driver's name, claims that of the class."""
    renamed = class_json(driver="gpu.example.com")
    assert gpus(node("a"), slice_json("a", 4, driver="gpu.example.com"), slice_json("a", 2), renamed) == [(4, 4)]


@pytest.mark.parametrize(
    ("slices", "found", "told"),
    [
        ([slice_json("a", generation=1, name="old"), slice_json("a", 4, generation=2)], (4, 4), ""),
        ([slice_json("a", 4, slices=2)], (4, 0), "pool a of gpu.nvidia.com: 1 of 2 slices of generation 1 are there"),
        ([slice_json("a", 4, name="x", pool="p"), slice_json("a", 2, name="y", pool="q")], (6, 6), ""),
        ([slice_json("a", 2), slice_json(None, allNodes=True)], (2, 2), "ResourceSlices of several nodes, left out: 1"),
        ([slice_json("a", devices=[gpu("g"), gpu("m", type="mig")])], (1, 1), ""),
        (
            [slice_json("a", devices=[gpu("g", consumesCounters=[{}]), gpu("m", type="mig", consumesCounters=[{}])])],
            (1, 1),
            "its devices can be cut, and each part that a claim has counts as a GPU",
        ),
        ([slice_json("a", devices=[gpu("g"), gpu("p", type=None, consumesCounters=[{}])])], (1, 1), "can be cut"),
        ([slice_json("a", devices=[gpu("g"), gpu("s", allowMultipleAllocations=True)])], (2, 2), "share a device"),
        ([slice_json("a", devices=[gpu("g"), gpu("t", taints=[{"key": "k", "effect": "NoExecute"}])])], (2, 1), ""),
    ],
)
def test_pools_as_kube_scheduler_takes_them(slices: list[Json], found: tuple[int, int], told: str) -> None:
    """Old generations do not count, incomplete pools and tainted devices are not allocatable, parts are no GPUs; what
    makes a number uncertain is told.
    """
    reading = read(node("a"), *slices)
    assert [(one.gpus, one.free_gpus) for one in reading.cluster] == [found]
    assert any(told in note for note in reading.notes)
    assert bool(told) == any("certain" in note or "several nodes" in note for note in reading.notes)


def test_gpus_that_are_cut_into_slices_of_mig() -> None:
    """Two GPUs cut in two and one whole are three, and shared, told by the UUIDs of the GPUs that the slices are of;
    where a device may be given to several claims, all are.
    """

    def mig(name: str, parent: str) -> Json:
        device = gpu(name, type="mig")
        device["attributes"] |= {"profile": {"string": "3g.40gb"}, "parentUUID": {"string": parent}}
        return device

    cut = slice_json("a", devices=[gpu("g"), mig("m1", "GPU-1"), mig("m2", "GPU-1"), mig("m3", "GPU-2")])
    reading = read(node("a"), node("b"), cut, slice_json("b", devices=[gpu("s", allowMultipleAllocations=True)]))
    found = [(row.gpus, row.free_gpus, row.sharing) for row in reading.cluster]
    assert found == [(3, 3, "MIG 3g.40gb on 2 of 3 GPUs"), (1, 1, "several claims a GPU")]
    assert not reading.cluster.flags


def test_a_slice_that_a_claim_has_is_in_use() -> None:
    """Of devices that can be cut: the GPU of the slice is not free, whatever class the claim names."""
    parts = [gpu(f"g{i}", consumesCounters=[{}]) for i in range(2)]
    slices = claim_json("s", "team", request(1, of="mig.nvidia.com"), given={"gpus": 1}, users=["p"])
    assert gpus(node("a"), slice_json("a", devices=parts), slices, claiming(pod("p", "a"), claim="s")) == [(2, 1)]


def test_claims_that_are_not_in_the_list_are_told() -> None:
    """Their pods are counted as if they had no GPUs."""
    reading = read(node("a"), slice_json("a"), claiming(pod("p", "a"), claim="gone"))
    assert [one.free_gpus for one in reading.cluster] == [8]
    wanted = "pods with claims that are not known, counted as none: 1 (the first: ResourceClaim gone is not there)"
    assert wanted in reading.notes


def test_other_versions_of_the_api_are_refused() -> None:
    """They have other fields, so that nothing would be counted."""
    old = slice_json("a") | {"apiVersion": "resource.k8s.io/v1beta1"}
    with pytest.raises(InvalidInput, match="which is not read") as caught:
        read(node("a"), old)
    assert caught.value.where == "f:3"


@examples(60)
@given(
    parts=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(1, 3)), max_size=6),
    shuffled=st.randoms(use_true_random=False),
)
def test_the_order_of_slices_does_not_matter(parts: list[tuple[str, int, int]], shuffled: Any) -> None:
    """Nodes have the devices of the newest generation, whatever comes first; none of it is free if slices lack."""
    newest = max((generation for *_, generation in parts), default=0)
    slices = [
        slice_json(name, count, name=f"s{i}", pool="p", generation=generation, slices=3)
        for i, (name, count, generation) in enumerate(parts)
    ]
    shuffled.shuffle(slices)
    current = [(name, count) for name, count, generation in parts if generation == newest]
    wanted = [sum(count for name, count in current if name == one) for one in "ab"]
    free = wanted if len(current) == 3 else [0, 0]
    found = {
        one.name: (one.gpus, one.free_gpus) for one in read(node("a"), node("b"), node("c", gpus=1), *slices).cluster
    }
    assert [found.get(one, (0, 0)) for one in "ab"] == list(zip(wanted, free, strict=True))
