"""What people give as a list of Kubernetes nodes: documents, a node alone, other GPUs, no labels of place, cliques."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from tests.facts import saying, says
from topology.kubernetes.labels import places_by_labels
from topology.load import load_topology
from topology.readers.kubernetes import Kubernetes
from topology.readers.reading import Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GKE = "cloud.google.com/gce-topology-"
CLIQUE = "nvidia.com/gpu.clique"


def node(name: str, labels: dict[str, str] | None = None, **resources: str) -> dict[str, Any]:
    """A node with these labels; its GPUs are NVIDIA's unless said."""
    amounts = resources or {"nvidia.com/gpu": "8"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}} | {
        "status": {"capacity": amounts, "allocatable": amounts}
    }


def read(*documents: dict[str, Any], levels: list[str] | None = None) -> Reading:
    """Read documents of YAML, each on a line of its own after its mark: JSON is YAML."""
    text = "".join(f"---\n{json.dumps(one)}\n" for one in documents)
    return Kubernetes().read(Source("f", text), levels=levels, now=NOW)


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """A list as kubectl prints it."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def test_several_documents_are_one_cluster() -> None:
    """Nodes, lists, and what is neither, which is left out."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    cluster = read(node("n1"), listing(node("n2"), node("n3")), service).cluster
    assert cluster.names == ("n1", "n2", "n3")


def test_pods_that_are_not_listed_are_said() -> None:
    """A list of nodes alone says nothing of what is in use, nor one of a single namespace of what others hold; pods of
    two, as kubectl lists them with -A, are all there are.
    """

    def pod(name: str, namespace: str) -> dict[str, Any]:
        about = {"name": name, "namespace": namespace}
        return {"kind": "Pod", "metadata": about, "spec": {"nodeName": "n1", "containers": []}, "status": {}}

    mine, system = pod("train-0", "team"), pod("coredns", "kube-system")
    assert says(read(listing(node("n1"))).notes, "no pods", "-A", "--busy")
    assert says(read(listing(node("n1"), mine, mine)).notes, "no pods", "team", "-A")
    assert not says(read(listing(node("n1"), mine, system)).notes, "no pods")


def test_a_fault_in_a_later_document_has_its_line() -> None:
    """The third document begins in line 5."""
    with pytest.raises(InvalidInput, match=saying("'eight'", "GPUs")) as caught:
        read(node("n1"), node("n2"), node("n3", **{"nvidia.com/gpu": "eight"}))
    assert caught.value.where == "f:6"


def test_json_of_several_commands() -> None:
    """``kubectl get -o json`` called several times, into one file: nothing stands between the objects."""
    parts = [listing(node("n1"), node("n2")), node("n3")]
    text = "\n".join(json.dumps(one, indent=1) for one in parts) + json.dumps(listing())
    assert Kubernetes().read(Source("f", text), levels=None, now=NOW).cluster.names == ("n1", "n2", "n3")
    marked = "\n---\n".join(map(json.dumps, parts))
    assert Kubernetes().read(Source("f", marked), levels=None, now=NOW).cluster.names == ("n1", "n2", "n3")
    broken = text.replace('"n3"', "3")
    with pytest.raises(InvalidInput, match="name: expected str") as caught:
        Kubernetes().read(Source("f", broken), levels=None, now=NOW)
    assert caught.value.where == f"f:{broken[: broken.index(': 3,')].count(chr(10)) + 1}"
    with pytest.raises(InvalidInput, match="is truncated"):
        Kubernetes().read(Source("f", text[:-1]), levels=None, now=NOW)


def test_one_node_alone() -> None:
    """As ``kubectl get node n1 -o json`` prints it."""
    text = json.dumps(node("n1"), indent=1)
    assert Kubernetes().likeness(text.encode())
    assert Kubernetes().read(Source("f", text), levels=None, now=NOW).cluster.names == ("n1",)


def test_without_labels_of_place_all_is_one_level() -> None:
    """It is said, with the way out."""
    reading = read(listing(node("n1"), node("n2", {"pool": "a"})))
    assert [(level.name, level.domains) for level in reading.cluster.levels] == [("cluster", ("cluster",))]
    assert says(reading.notes[0], "2 GPU nodes", "one level")
    assert "--levels" in reading.notes[0]


def test_another_resource_is_gpus(tmp_path: Path) -> None:
    """4 of n1's GPUs are held by a pod; its taint keeps no job of GPUs away; NVIDIA's do not count beside it."""
    name = "alibabacloud.com/gpu-count"
    one, two = node("n1", **{name: "8"}), node("n2", **{name: "2"})
    one["spec"] = {"taints": [{"key": name, "effect": "NoSchedule"}]}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
    pod["spec"] = {"nodeName": "n1", "containers": [{"resources": {"limits": {name: "4"}}}]}
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(listing(one, two, node("n3"), pod)))
    cluster = load_topology(file, gpu_resource=name).cluster
    assert [(n.name, n.gpus, n.free_gpus, n.slowdown) for n in cluster] == [("n1", 8, 4, 1.0), ("n2", 2, 2, 1.0)]


def test_resources_that_may_be_gpus_are_named() -> None:
    """Nothing that is none: not the cores, and no part of a GPU."""
    odd = node("n1", **{"cpu": "8", "gpu.intel.com/i915": "1", "amd.com/spx_nps1": "8", "nvidia.com/mig-1g.5gb": "0"})
    with pytest.raises(InvalidInput, match=saying("1 nodes", "nvidia")) as caught:
        read(listing(odd))
    assert says(caught.value.fix, "--gpu-resource", "amd.com/spx_nps1", "gpu.intel.com/i915")


def test_other_formats_have_no_resources(tmp_path: Path) -> None:
    """A CSV says how many GPUs there are."""
    file = tmp_path / "c.csv"
    file.write_text("node,rack\nn1,r1\n")
    with pytest.raises(InvalidInput, match=saying("csv", "no resource")):
        load_topology(file, gpu_resource="amd.com/gpu")


@pytest.mark.parametrize(
    ("places", "levels"),
    [
        # NVLink domains inside subblocks: below
        ([("b", "s1", "c1"), ("b", "s1", "c2"), ("b", "s2", "c3")], [f"{GKE}block", f"{GKE}subblock", CLIQUE]),
        # a subblock is an NVLink domain: said already
        ([("b", "s1", "c1"), ("b", "s1", "c1"), ("b", "s2", "c2")], [f"{GKE}block", f"{GKE}subblock"]),
        # an NVLink domain has several subblocks: above them
        (
            [("b", "s1", "c1"), ("b", "s2", "c1"), ("b", "s3", "c2"), ("b", "s4", "c2")],
            [f"{GKE}block", CLIQUE, f"{GKE}subblock"],
        ),
        ([("b", "s1", ""), ("b", "s2", "")], [f"{GKE}block", f"{GKE}subblock"]),
    ],
)
def test_the_nvlink_domain_is_a_level_where_it_belongs(places: list[tuple[str, str, str]], levels: list[str]) -> None:
    """Labels of a cloud do not have it; those of NVIDIA's discovery do."""
    nodes = [{f"{GKE}block": block, f"{GKE}subblock": sub, CLIQUE: clique} for block, sub, clique in places]
    assert list(places_by_labels(nodes).levels) == levels


def test_the_nvlink_domain_of_coreweave() -> None:
    """Below the leaf group."""
    base = "backend.coreweave.cloud/"
    nodes = [
        {f"{base}leafgroup": group, "ds.coreweave.com/nvlink.domain": domain}
        for group, domain in (("l1", "d1"), ("l1", "d2"))
    ]
    assert places_by_labels(nodes).levels == (f"{base}leafgroup", "ds.coreweave.com/nvlink.domain")


def test_a_topology_of_kueue_says_the_levels() -> None:
    """Its label of the node itself is no level; the labels are not among the presets."""
    levels = [{"nodeLabel": name} for name in ("example.com/hall", "example.com/row", "kubernetes.io/hostname")]
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "default"}}
    topology["spec"] = {"levels": levels}
    where = {"example.com/hall": "h1", "example.com/row": "r1"}
    reading = read(topology, listing(node("n1", where), node("n2", where | {"example.com/row": "r2"})))
    assert [level.name for level in reading.cluster.levels] == ["example.com/hall", "example.com/row"]
    assert reading.cluster.node("n2").path == ("h1", "r2")
    with pytest.raises(InvalidInput, match="no nodes") as caught:
        read(topology)
    assert says(caught.value.fix, "--levels example.com/hall,example.com/row")


def test_plans_name_the_level_that_counts_where_no_preset_is_known() -> None:
    """Arnold was told it when it was installed, so that gangs that run can be explained; --levels still says otherwise.
    A label that no node carries names nothing, and a preset comes first.
    """

    def plan(level: str | None) -> dict[str, Any]:
        spec = {"gang": "llm"} | ({"level": level} if level else {})
        about = {"name": f"plan-{level}".replace("/", "-"), "namespace": "default"}
        return {"apiVersion": "arnold.dev/v1alpha1", "kind": "GangPlan", "metadata": about, "spec": spec}

    def at(hall: str, row: str, **more: str) -> dict[str, str]:
        return {"example.com/hall": hall, "example.com/row": row, **more}

    def levels(*items: dict[str, Any], asked: list[str] | None = None) -> list[str]:
        return [level.name for level in read(listing(*items), levels=asked).cluster.levels]

    nodes = [node(f"n{i}", at(f"h{i // 4}", f"r{i // 2}")) for i in range(8)]
    hall, row = plan("example.com/hall"), plan("example.com/row")
    assert levels(*nodes, row, plan(None), hall) == ["example.com/hall", "example.com/row"]
    assert levels(*nodes, hall, plan("example.com/gone")) == ["example.com/hall"]
    assert levels(*nodes, plan("example.com/gone")) == levels(*nodes) == ["cluster"]
    assert levels(*nodes, hall, asked=["example.com/row"]) == ["example.com/row"]
    (note, left, _of_pods) = read(listing(*nodes, hall)).notes
    assert says(note, "example.com/hall", "GangPlans", "--levels")
    assert says(left, "--levels example.com/hall,example.com/row")
    known = [
        node(f"n{i}", at("h0", f"r{i}") | {f"{GKE}block": f"b{i // 2}", f"{GKE}subblock": f"s{i}"}) for i in range(4)
    ]
    assert "example.com/hall" not in levels(*known, hall)
