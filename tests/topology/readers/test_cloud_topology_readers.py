"""What AWS and Google say of the places of their machines, and Alibaba's lists of nodes, which say nothing of them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import recognise
from tests.facts import saying, says
from topology.readers.reading import TOPOLOGY_READERS, Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> Reading:
    """Read a text called f, by the reader that recognises it."""
    return recognise(TOPOLOGY_READERS, Source("f", text)).read(Source("f", text), levels=None, now=NOW)


def instance(name: str, kind: str, *nodes: str, **more: str) -> dict[str, Any]:
    """An instance as AWS describes it."""
    return {"InstanceId": name, "InstanceType": kind, "NetworkNodes": list(nodes)} | more


def test_aws_from_broad_to_close() -> None:
    """The first network node is the broadest; GPUs come from the type of instance."""
    found = [instance("i-1", "p5.48xlarge", "t", "s", "l1"), instance("i-2", "p5.48xlarge", "t", "s", "l2")]
    reading = read(json.dumps({"Instances": found}))
    assert [level.name for level in reading.cluster.levels] == [f"network-node-layer-{i}" for i in (1, 2, 3)]
    assert [(one.path, one.gpus, one.gpu_type) for one in reading.cluster] == [
        (("t", "s", "l1"), 8, "H100"),
        (("t", "s", "l2"), 8, "H100"),
    ]
    assert not reading.notes


def test_an_ultraserver_is_closer_than_any_switch() -> None:
    """Its instances share NVLink: 4 GPUs each."""
    found = [instance(f"i-{k}", "p6e-gb200.36xlarge", "t", "s", "l", CapacityBlockId=f"cb-{k // 2}") for k in range(4)]
    cluster = read(json.dumps({"Instances": found}, indent=2)).cluster
    assert cluster.levels[-1].name == "capacity-block"
    assert cluster.levels[-1].domain_of.tolist() == [0, 0, 1, 1]
    assert cluster.gpus.tolist() == [4] * 4


def test_a_capacity_block_that_cuts_switches_is_a_second_hierarchy() -> None:
    """One of several switches is broader than they; one that has a part of a switch, too, nests nowhere."""
    wide = [instance(f"i-{k}", "p5.48xlarge", "t", f"s{k // 2}", CapacityBlockId=f"cb-{k // 4}") for k in range(8)]
    cluster = read(json.dumps({"Instances": wide})).cluster
    assert [level.name for level in cluster.levels] == [
        "network-node-layer-1",
        "capacity-block",
        "network-node-layer-2",
    ]
    across = [instance(f"i-{k}", "p5.48xlarge", "t", f"s{k // 2}", CapacityBlockId=f"cb-{k // 3}") for k in range(6)]
    reading = read(json.dumps({"Instances": across}))
    assert [level.name for level in reading.cluster.levels] == ["network-node-layer-1", "network-node-layer-2"]
    (beside,) = reading.cluster.second_levels
    assert (beside.name, beside.domain_of.tolist()) == ("@capacity-block", [0, 0, 0, 1, 1, 1])
    assert "cut across each other" in reading.notes[0]


def test_a_page_and_strange_types_are_said() -> None:
    """Then the GPUs of all are assumed; YAML and a list alone are read too."""
    yaml = "Instances:\n- InstanceId: i-1\n  InstanceType: x9.large\n  NetworkNodes: [a, b]\nNextToken: more\n"
    reading = read(yaml)
    assert reading.cluster.gpus_assumed
    assert "a page of several" in reading.notes[0]
    assert "1 (x9.large)" in reading.notes[1]
    assert read(json.dumps([instance("i-1", "p5.48xlarge", "a")])).cluster.names == ("i-1",)


def test_aws_instances_without_network_nodes_are_said() -> None:
    """AWS: "null or empty if the instance type is not supported", or the instance does not run."""
    found = [instance("i-1", "p5.48xlarge", "a"), instance("i-2", "p5.48xlarge"), instance("i-3", "p5.48xlarge")]
    reading = read(json.dumps({"Instances": [*found[:2], found[2] | {"NetworkNodes": None}]}))
    assert len(reading.cluster) == 3
    assert "2 (i-2, i-3)" in reading.notes[0]


def test_aws_pages_one_behind_the_other() -> None:
    """The last page has no token, so none is missing; a fault in the second has its line."""
    pages = [{"Instances": [instance("i-1", "p5.48xlarge", "a")], "NextToken": "t"}]
    pages += [{"Instances": [instance("i-2", "p5.48xlarge", "a")]}]
    reading = read("\n".join(map(json.dumps, pages)))
    assert (reading.cluster.names, reading.notes) == (("i-1", "i-2"), ())
    stream = "".join(f"- {json.dumps(page)}\n" for page in pages)  # --output yaml-stream
    assert read(stream).cluster.names == ("i-1", "i-2")
    with pytest.raises(InvalidInput, match="appears twice") as caught:
        read("\n".join(map(json.dumps, [*pages, pages[0]])))
    assert caught.value.where == "f:3"


@pytest.mark.parametrize(
    ("found", "complaint", "where"),
    [
        ([instance("i-1", "p5.48xlarge", "a"), instance("i-1", "p5.48xlarge", "a")], "'i-1' appears twice", "f:10"),
        ([instance("i-1", "p5.48xlarge", "a") | {"NetworkNodes": "a"}], "valid list", "f:6"),
        ([{"InstanceType": "p5.48xlarge", "NetworkNodes": [], "x": "InstanceId:"}], "'InstanceId' is missing", "f:3"),
    ],
)
def test_bad_answers_of_aws(found: list[dict[str, Any]], complaint: str, where: str) -> None:
    """Have the line."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(json.dumps({"Instances": found}, indent=1))
    assert caught.value.where == where


def machine(name: str, *place: str, **more: Any) -> dict[str, Any]:
    """A machine of Compute Engine: its cluster, block, subblock and host."""
    host = dict(zip(("cluster", "block", "subblock", "host"), place, strict=False))
    return {"name": name, "resourceStatus": {"physicalHostTopology": host} if place else {}} | more


H100 = [{"acceleratorCount": 8, "acceleratorType": "https://x/zones/z/acceleratorTypes/nvidia-h100-80gb"}]


@pytest.mark.parametrize("shape", ["gcloud", "zone", "project", "yaml"])
def test_google_in_all_its_shapes(shape: str) -> None:
    """``gcloud`` in JSON and YAML, the API for a zone and for a project; a machine without a host is left out."""
    machines = [
        machine("vm1", "c", "b1", "s1", "h1", guestAccelerators=H100),
        machine("vm2", "c", "b1", "s2", "h2", guestAccelerators=H100),
        machine("login"),
    ]
    text = {
        "gcloud": json.dumps(machines, indent=1),
        "zone": json.dumps({"kind": "compute#instanceList", "items": machines}),
        "project": json.dumps({"items": {"zones/a": {"instances": machines}, "zones/b": {"warning": {}}}}),
        "yaml": "".join(f"---\n{json.dumps(one)}\n" for one in machines),
    }[shape]
    reading = read(text)
    assert [level.name for level in reading.cluster.levels] == ["cluster", "block", "subblock", "host"]
    assert reading.cluster.node("vm2").path == ("c", "b1", "s2", "h2")
    assert [(one.gpus, one.gpu_type) for one in reading.cluster] == [(8, "nvidia-h100-80gb")] * 2
    (note,) = reading.notes
    assert says(note, "without a physical host", "1 (login)")


def test_google_before_the_topology_had_fields() -> None:
    """Block, subblock and host in one text; the type of machine says how many GPUs."""
    old = {"name": "vm1", "resourceStatus": {"physicalHost": "/b/s7/h3"}, "machineType": "z/machineTypes/a3-megagpu-8g"}
    cluster = read(json.dumps([old])).cluster
    assert [level.name for level in cluster.levels] == ["block", "subblock", "host"]
    assert [(one.path, one.gpus) for one in cluster] == [(("b", "s7", "h3"), 8)]


def test_google_without_hosts_is_refused() -> None:
    """With what to do."""
    text = json.dumps([machine("vm1") | {"resourceStatus": {"physicalHost": ""}}])
    with pytest.raises(InvalidInput, match=saying("1 machines", "physical host")) as caught:
        read(text)
    assert "compact placement policy" in caught.value.fix
    with pytest.raises(InvalidInput, match="none of the 0 machines") as caught:
        read("resource:\n  physicalTopology:\n    instances:\n    - physicalHostTopology: {host: h}\n")
    assert "gcloud compute instances list" in caught.value.fix


@pytest.mark.parametrize(
    "text",
    [
        "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,96000,1,0,\nn3,96000,1,8,V100M32\n",
        "gpu_model,gpu_capacity_num,cpu_num,node_name\nP100,2,64,n1\n,0,96,n2\nV100M32,8.0,96,n3\n",
    ],
)
def test_lists_of_nodes_of_alibaba(text: str) -> None:
    """Two nodes with GPUs, one without; nothing says where they are."""
    reading = read(text)
    assert [(one.name, one.path, one.gpus, one.gpu_type) for one in reading.cluster] == [
        ("n1", ("cluster",), 2, "P100"),
        ("n3", ("cluster",), 8, "V100M32"),
    ]
    without_gpus, places = reading.notes
    assert says(without_gpus, "without GPUs", "1")
    assert says(places, "one level")


@pytest.mark.parametrize(
    ("row", "complaint", "where"),
    [
        ("n1,1,1,two,P100", "gpu is 'two', not a whole number", "f:2"),
        ("n1,1,1,-2,P100", "not a whole number", "f:2"),
        ("n1,1,1,0,", "no node has a GPU", "f"),
        ("n1,1,1,2,P100\nn1,1,1,2,P100", "'n1' appears twice", "f:3"),
    ],
)
def test_bad_lists_of_alibaba(row: str, complaint: str, where: str) -> None:
    """Have the line."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(f"sn,cpu_milli,memory_mib,gpu,model\n{row}\n")
    assert caught.value.where == where
