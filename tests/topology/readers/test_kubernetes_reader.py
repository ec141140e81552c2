"""Lists of Kubernetes nodes."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from ground.errors import InvalidInput, UnknownName
from ground.files import Source
from tests.facts import saying, says
from topology.readers.kubernetes import Kubernetes
from topology.readers.reading import Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

AWS = "topology.k8s.aws/network-node-layer-"
ZONE = "topology.kubernetes.io/zone"


def node(name: str, labels: dict[str, str] | None = None, *, gpus: Any = "8", ready: str = "True", **more: Any) -> dict:
    """A node as the API server writes it, with the fields that matter and one that does not."""
    resources = {"cpu": "192"} | ({"nvidia.com/gpu": gpus} if gpus is not None else {})
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {ZONE: "z"}, "annotations": more.get("annotations")},
        "spec": more.get("spec", {}),
        "status": {
            "capacity": more.get("capacity", resources),
            "allocatable": resources,
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
        },
    }


def pod(name: str, on: str | None, gpus: int, phase: str = "Running") -> dict:
    """A pod with one container that asks for GPUs."""
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


def aws(first: str, second: str, third: str) -> dict[str, str]:
    """The labels of AWS, layer 1 the broadest."""
    return {f"{AWS}1": first, f"{AWS}2": second, f"{AWS}3": third, ZONE: "us-east-1a"}


def listing(*items: dict) -> str:
    """What kubectl prints, one item a line from line 2 on."""
    return '{"apiVersion": "v1", "kind": "List", "items": [\n' + ",\n".join(json.dumps(item) for item in items) + "]}"


def read(text: str, levels: list[str] | None = None) -> Reading:
    """Read a text called f at noon of 21 November 2026."""
    return Kubernetes().read(Source("f", text), levels=levels, now=NOW)


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        (aws("a", "b", "c"), [f"{AWS}1", f"{AWS}2", f"{AWS}3"]),
        (
            {"fabric.topograph.run/tier-0": "s0", "fabric.topograph.run/tier-1": "s1"},
            ["fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"],
        ),
        (
            {f"network.topology.nvidia.com/{layer}": layer for layer in ("accelerator", "leaf", "spine", "core")},
            [f"network.topology.nvidia.com/{layer}" for layer in ("core", "spine", "leaf", "accelerator")],
        ),
        (
            {f"network.topology.nvidia.com/{layer}": layer for layer in ("block", "spine", "datacenter")},
            [f"network.topology.nvidia.com/{layer}" for layer in ("datacenter", "spine", "block")],
        ),
        (
            {f"cloud.google.com/gce-topology-{layer}": layer for layer in ("host", "subblock", "block")},
            [f"cloud.google.com/gce-topology-{layer}" for layer in ("block", "subblock", "host")],
        ),
        (
            {"oci.oraclecloud.com/host.rack_id": "r", "oci.oraclecloud.com/host.network_block_id": "b"},
            ["oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"],
        ),
        (
            {
                "oci.oraclecloud.com/host.rack_id": "r",
                "oci.oraclecloud.com/rdma.local_block_id": "l",
                "oci.oraclecloud.com/rdma.network_block_id": "n",
            },
            [f"oci.oraclecloud.com/rdma.{layer}_block_id" for layer in ("network", "local")],
        ),
        (
            {f"backend.coreweave.cloud/{layer}": layer for layer in ("leafgroup", "superpod", "fabric")},
            [f"backend.coreweave.cloud/{layer}" for layer in ("fabric", "superpod", "leafgroup")],
        ),
        ({"nvidia.com/gpu.clique": "u.1", ZONE: "z"}, ["nvidia.com/gpu.clique"]),
        ({ZONE: "z"}, [ZONE]),
        ({"backend.coreweave.cloud/fabric": "", "backend.coreweave.cloud/leafgroup": "", ZONE: "z"}, [ZONE]),
    ],
)
def test_presets_run_from_broad_to_close(labels: dict[str, str], levels: list[str]) -> None:
    """Whatever the order of the labels in the file; labels nobody carries, or without a value, are no level."""
    reading = read(listing(node("n1", labels)))
    assert [level.name for level in reading.cluster.levels] == levels
    assert all(label in reading.notes[0] for label in levels)


def test_the_preset_most_nodes_carry_wins_and_the_others_are_named() -> None:
    """Two nodes with AWS labels against one with those of GKE; the zone is only a fallback although all carry it."""
    gke = {"cloud.google.com/gce-topology-block": "b", ZONE: "z"}
    reading = read(listing(node("n1", aws("a", "b", "c")), node("n2", gke), node("n3", aws("a", "b", "d"))))
    assert reading.cluster.levels[0].name == f"{AWS}1"
    assert says(reading.notes[0], "preset aws", "2 of 3")
    assert "gke (1), zone (3)" in reading.notes[0]


def test_levels_may_be_named() -> None:
    """In the order given, broad to close."""
    reading = read(listing(node("n1", {"room": "r", "row": "w"})), levels=["room", "row"])
    assert [level.name for level in reading.cluster.levels] == ["room", "row"]
    assert reading.cluster.node("n1").path == ("r", "w")


def test_a_label_that_nobody_carries_is_refused() -> None:
    """With the one that was probably meant."""
    with pytest.raises(UnknownName, match=saying("'rwo'")) as caught:
        read(listing(node("n1", {"room": "r", "row": "w"})), levels=["room", "rwo"])
    assert "did you mean 'row'?" in caught.value.fix


def test_values_that_repeat_below_different_parents_are_qualified() -> None:
    """Rack 1 of block a is not rack 1 of block b."""
    cluster = read(listing(node("n1", aws("x", "a", "1")), node("n2", aws("x", "b", "1")))).cluster
    assert cluster.levels[2].domains == ("a/1", "b/1")


def test_a_node_without_the_labels_hangs_on_the_root() -> None:
    """It can be used, and is near to nobody."""
    cluster = read(listing(node("n1", aws("x", "a", "1")), node("n2", {"other": "label"}))).cluster
    assert cluster.node("n2").path == ("(root)",) * 3


def test_gpus_come_from_the_status_and_other_nodes_are_left_out() -> None:
    """Nodes without GPUs are counted in a note."""
    reading = read(listing(node("gpu", gpus="4"), node("cpu", gpus=None), node("none", gpus="0")))
    assert [(node.name, node.gpus) for node in reading.cluster] == [("gpu", 4)]
    assert says(reading.notes, "left out", "nvidia.com/gpu", "amd.com/gpu", "2 of 3")


def test_pods_hold_gpus() -> None:
    """Running and pending pods on a node count; finished ones and those without a node do not."""
    pods = [pod("p1", "n1", 3), pod("p2", "n1", 1, "Pending"), pod("p3", "n1", 4, "Succeeded"), pod("p4", None, 8)]
    cluster = read(listing(node("n1"), node("n2"), *pods, pod("p5", "elsewhere", 8))).cluster
    assert cluster.free_gpus.tolist() == [4, 8]


def test_a_pod_holds_what_its_hungriest_moment_needs() -> None:
    """Init containers run one by one before the others: max(2 + 2, 6) = 6 GPUs."""
    ask = [{"resources": {"requests": {"nvidia.com/gpu": count}}} for count in (2, 2, 6)]
    job = {"kind": "Pod", "metadata": {"name": "p"}}
    job |= {"spec": {"nodeName": "n1", "containers": ask[:2], "initContainers": ask[2:]}, "status": {}}
    assert read(listing(node("n1"), job)).cluster.free_gpus.tolist() == [2]


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        ("cordoned", {"spec": {"unschedulable": True}}),
        ("not Ready", {"ready": "False"}),
        ("not Ready", {"ready": "Unknown"}),
        (
            "taint node.kubernetes.io/disk-pressure",
            {"spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}},
        ),
        ("1 of 8 GPUs are not allocatable", {"gpus": "7", "capacity": {"nvidia.com/gpu": "8"}}),
    ],
)
def test_a_node_that_takes_no_pods_is_faulty(reason: str, more: dict[str, Any]) -> None:
    """Not busy: emptying the cluster would not free it.  The flag says why."""
    reading = read(listing(node("n1", **more), node("n2")))
    flag = reading.cluster.flags[0]
    assert (flag.kind, flag.evidence, flag.source) == ("faulty", reason, "kubernetes")
    assert reading.cluster.emptied().idle.tolist() == [False, True]
    assert says(reading.notes, "faulty", "1 of 2")


@pytest.mark.parametrize(
    ("name", "taint"),
    [
        ("dedicated=vision", {"key": "dedicated", "value": "vision", "effect": "NoSchedule"}),
        ("spot", {"key": "spot", "effect": "NoExecute"}),
    ],
)
def test_a_node_of_another_pool_is_kept_out_and_not_faulty(name: str, taint: dict[str, str]) -> None:
    """Emptying the cluster would not free it either; the reason names the taint."""
    cluster = read(listing(node("n1", spec={"taints": [taint]}), node("n2"))).cluster
    assert not cluster.flags
    assert dict(cluster.kept_out) == {0: f"kept out by the taint {name}"}
    assert cluster.emptied().idle.tolist() == [False, True]


def test_the_taint_of_gpus_keeps_no_gpu_pods_away() -> None:
    """GPU pods tolerate it."""
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    assert not read(listing(node("n1", spec={"taints": [taint]}), node("n2"))).cluster.flags


def test_a_preference_is_a_price() -> None:
    """PreferNoSchedule asks to stay away: 1.05 times the step time, less than any slowdown that detectors report."""
    reading = read(listing(node("n1", spec={"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}), node("n2")))
    flag = reading.cluster.flags[0]
    assert (flag.kind, flag.slowdown, flag.source) == ("degraded", 1.05, "kubernetes")
    assert says(flag.evidence, "taint old", "PreferNoSchedule")
    assert reading.cluster.idle.tolist() == [True, True]


def test_a_preference_against_all_nodes_is_none() -> None:
    """It marks the pool; as a price it would only make avoid: strict refuse every node."""
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    assert not read(listing(*(node(name, spec={"taints": [taint]}) for name in ("n1", "n2")))).cluster.flags


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        ("GPUMissing", "True", "False"),
        ("IBLinkFlapping", "True", "Unknown"),
        ("AcceleratedHardwareReady", "False", "True"),
        ("AcceleratedHardwareReady", "False", "Unknown"),
    ],
)
def test_health_conditions_of_the_clouds(kind: str, bad: str, good: str) -> None:
    """AKS says that something is wrong, EKS that something is right; neither knowing is no fault."""

    def faulty(status: str) -> list[str]:
        item = node("n1")
        item["status"]["conditions"].append({"type": kind, "status": status})
        return [flag.evidence for flag in read(listing(item)).cluster.flags.values()]

    assert faulty(bad) == [kind if bad == "True" else f"not {kind}"]
    assert faulty(good) == []


def test_a_taint_that_all_nodes_have_marks_the_pool() -> None:
    """Jobs for the pool tolerate it; unless Kubernetes set it itself."""
    pool = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
    reading = read(listing(*(node(name, spec={"taints": [pool]}) for name in ("n1", "n2"))))
    assert not reading.cluster.flags
    assert any("dedicated" in note for note in reading.notes)
    own = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    assert len(read(listing(*(node(name, spec={"taints": [own]}) for name in ("n1", "n2")))).cluster.flags) == 2


@pytest.mark.parametrize(
    ("annotations", "slowdown"),
    [
        ({"arnold.dev/slowdown": "1.3"}, 1.3),
        ({"arnold.dev/slowdown": "1.3", "arnold.dev/slowdown-until": "2026-11-21T12:00:01Z"}, 1.3),
        ({"arnold.dev/slowdown": "1.3", "arnold.dev/slowdown-until": "2026-11-21T12:00:00Z"}, 1.0),
        ({"arnold.dev/slowdown": "1.3", "arnold.dev/slowdown-until": "2026-11-21T14:00:00+01:00"}, 1.3),
        ({"arnold.dev/slowdown": "faulty"}, math.inf),
        ({"arnold.dev/slowdown": "faulty", "arnold.dev/slowdown-since": "2026-11-21T12:00:01Z"}, 1.0),
        ({"arnold.dev/slowdown": "1.0"}, 1.0),
        ({}, 1.0),
    ],
)
def test_the_annotation_is_a_flag_until_its_end(annotations: dict[str, str], slowdown: float) -> None:
    """It is noon; the end is exclusive, in any time zone; what begins later is kept as that."""
    cluster = read(listing(node("n1", annotations=annotations))).cluster
    assert cluster.slowdown.tolist() == [slowdown]
    assert [flag.kind for flag in cluster.upcoming] == ["faulty"] * ("arnold.dev/slowdown-since" in annotations)


NO_TIME_OF_UTC = "9999-12-31T23:59:59-05:00"


@pytest.mark.parametrize(
    ("text", "complaint", "where"),
    [
        (listing(), "none of the 0 nodes", "f:1"),
        (listing(node("n1", gpus=None)), "none of the 1 nodes", "f:1"),
        (listing(node("n1"), node("n1")), "'n1' appears twice", "f:3"),
        (listing(node("n1"), node("n2", gpus="eight")), "'eight' is not a number of GPUs", "f:3"),
        (listing(node("n1"), node("n2", gpus=-8)), "'-8' is not a number of GPUs", "f:3"),
        (listing(node("n1", gpus="999999")), "999999 GPUs", "f:2"),
        (listing(node("n1"), pod("p", "n1", -1)), "pod 'p': '-1' is not", "f:3"),
        (listing(node("n1", annotations={"arnold.dev/slowdown": "fast"})), "annotation arnold.dev/slowdown", "f:2"),
        (listing(node("n1", annotations={"arnold.dev/slowdown": "0.5"})), "annotation arnold.dev/slowdown", "f:2"),
        (listing(node("n1", annotations={"arnold.dev/slowdown": "nan"})), "annotation arnold.dev/slowdown", "f:2"),
        (
            listing(node("n1", annotations={"arnold.dev/slowdown": "2", "arnold.dev/slowdown-until": "2026-11-21"})),
            "annotation arnold.dev/slowdown-until",
            "f:2",
        ),
        (
            listing(node("n1", annotations={"arnold.dev/slowdown": "2", "arnold.dev/slowdown-since": "Friday"})),
            "annotation arnold.dev/slowdown-since",
            "f:2",
        ),
        (
            listing(node("n1", annotations={"arnold.dev/slowdown": "2", "arnold.dev/slowdown-since": NO_TIME_OF_UTC})),
            "annotation arnold.dev/slowdown-since",
            "f:2",
        ),
        (listing({"kind": "Node"}), "'metadata' is missing", "f:2"),
        ('{"kind": "Node"}', "'metadata' is missing in the object", "f:1"),
        ('{"kind": "Service"}', "holds no items", "f:1"),
        ("items: 3", "a list of objects is expected here", "f:1"),
        (listing(node("n1", {"rack": 3})), "items\\[0\\].metadata.labels.rack: expected str, got int", "f:2"),
        (listing(node("n1"), node("n2", spec={"taints": [{"key": []}]})), "items\\[1\\].spec.taints\\[0\\].key", "f:3"),
        (listing({"kind": "Node", "metadata": {}}), "'name' is missing in items\\[0\\]", "f:2"),
        (listing(node("n1"))[:-20], "truncated", "f:2"),
    ],
)
def test_bad_listings_are_refused(text: str, complaint: str, where: str) -> None:
    """Each fault gives its line, and what to do."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(text)
    assert caught.value.where == where
    assert caught.value.fix


def test_types_of_gpu_are_labels() -> None:
    """NVIDIA's label or AMD's; a node without either has none that is said."""
    items = [
        node("n1", {ZONE: "z", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
        node("n2", {ZONE: "z", "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}),
        node("n3"),
    ]
    types = [one.gpu_type for one in read(listing(*items)).cluster]
    assert types == ["NVIDIA-H100-80GB-HBM3", "AMD_Instinct_MI300X_OAM", ""]


def test_gpus_of_amd() -> None:
    """Counted as those of NVIDIA are, in nodes, pods and taints."""
    amd = {"amd.com/gpu": "8"}
    machine = node("n1", capacity=amd, spec={"taints": [{"key": "amd.com/gpu", "effect": "NoSchedule"}]})
    machine["status"]["allocatable"] = amd
    running = pod("p", "n1", 3)
    running["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": "3"}
    (found,) = read(listing(machine, running)).cluster
    assert (found.gpus, found.free_gpus, found.slowdown) == (8, 5, 1.0)
    with pytest.raises(InvalidInput, match=saying("capacity", "'eight'")):
        read(listing(node("n1", capacity={"amd.com/gpu": "eight"})))
