"""Slurm's nodes without a topology."""

from datetime import UTC, datetime

import pytest

from topology.errors import InvalidInput
from topology.files import Source
from topology.readers import load_topology, recognise
from topology.readers.slurm.slurm_listing import SlurmListing

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def record(name: str, state: str, gres: str) -> str:
    """A node as ``scontrol show nodes`` prints it; one that never answered has no ``Arch``."""
    arch = "" if state == "DOWN" else " Arch=x86_64"
    head = f"NodeName={name}{arch} CoresPerSocket=64 \n   CPUAlloc=0 CPUEfctv=128 CPUTot=128\n"
    return f"{head}   Gres={gres}\n   State={state} ThreadsPerCore=1\n\n"


NODES = (
    record("g2", "DOWN", "gpu:h100:4")
    + record("g1", "IDLE", "gpu:h100:4(S:0-1)")
    + record("g3", "ALLOCATED", "gpu:h100:4")
    + record("login", "IDLE", "(null)")
)


@pytest.mark.parametrize("text", [NODES, NODES.replace("\n\n", "\0").replace("\n  ", "").replace("\0", "\n")])
def test_nodes_are_one_level_with_their_states(text: str) -> None:
    """On several lines and with --oneliner: three nodes of 4 GPUs, of which one is free; the login node has none."""
    reader = recognise(Source("f", text))
    assert reader.format.name == "slurm-nodes"
    reading = load_topology(Source("f", text), now=NOW)
    assert [(one.name, one.path, one.gpus, one.gpu_type) for one in reading.cluster] == [
        (name, ("cluster",), 4, "h100") for name in ("g2", "g1", "g3")
    ]
    assert reading.cluster.free_gpus.tolist() == [4, 4, 0]
    assert [reading.cluster.names[i] for i in reading.cluster.flags] == ["g2"]
    assert any("nodes without GPUs, left out: 1 (login)" in note for note in reading.notes)


def test_json_is_recognised() -> None:
    """Of scontrol and of sinfo."""
    shown = '{"nodes": [{"name": "n1", "slurmd_start_time": {"number": 1}, "state": ["IDLE"], "gres": "gpu:2"}]}'
    summed = '{"sinfo": [{"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n1"]}, "gres": {"total": "gpu:2"}}]}'
    for text in (shown, summed):
        loaded = load_topology(Source("f", text))
        assert (loaded.format, loaded.cluster.names, loaded.cluster.gpus.tolist()) == ("slurm-nodes", ("n1",), [2])


def test_a_table_of_sinfo_needs_the_name_of_the_format() -> None:
    """Hostlists and node names look alike, so such a table is not recognised."""
    text = "NODELIST STATE GRES\nn[1-3] idle gpu:8\nn4 mix gpu:8\n"
    loaded = load_topology(Source("f", text), format="slurm-nodes")
    assert (loaded.cluster.names, int(loaded.cluster.free_gpus.sum())) == (("n1", "n2", "n3", "n4"), 24)


def test_gpus_that_slurm_does_not_say_are_assumed() -> None:
    """Where it keeps no generic resources."""
    loaded = load_topology(Source("f", record("n1", "IDLE", "(null)")), gpus_per_node=2)
    assert loaded.cluster.gpus.tolist() == [2]


def test_slurm_conf_is_no_list_of_states() -> None:
    """Its lines of NodeName= say nothing of what nodes do now."""
    assert not SlurmListing().recognises("NodeName=n[1-4] CPUs=128 CoresPerSocket=64 Gres=gpu:8 State=UNKNOWN\n")
    with pytest.raises(InvalidInput, match="lists no node with its state"):
        SlurmListing().read(Source("f", "n1\nn2\n"), levels=None, now=NOW)


def placed(name: str, topology: str, state: str = "IDLE") -> str:
    """A node of 25.05 and later, which says where it is."""
    return f"NodeName={name} Arch=x86_64 CoresPerSocket=64\n   Gres=gpu:8\n   State={state}\n   Topology={topology}\n\n"


def test_nodes_may_say_where_they_are() -> None:
    """Broad to close, below one root: three levels of 1, 2 and 3 switches."""
    places = {"w0": "spine-a:leaf-1", "w1": "spine-a:leaf-1", "w2": "spine-a:leaf-2", "w3": "spine-b:leaf-3"}
    loaded = load_topology(Source("f", "".join(placed(name, f"default:root:{path}") for name, path in places.items())))
    assert loaded.format == "slurm-nodes"
    assert [(level.name, level.domains) for level in loaded.cluster.levels] == [
        ("level-0", ("root",)),
        ("level-1", ("spine-a", "spine-b")),
        ("level-2", ("leaf-1", "leaf-2", "leaf-3")),
    ]
    assert loaded.cluster.node("w2").path == ("root", "spine-a", "leaf-2")
    assert "levels are the switches above the nodes in the topology default" in loaded.notes


def test_of_several_topologies_one_is_read() -> None:
    """That of the partition; else the one that most nodes are in, of these the deepest; a leaf alone is one level."""
    text = placed("w0", "tree:s1:l1,blocks:b1") + placed("w1", "tree:s1:l2,blocks:b1") + placed("w2", "blocks:b2")
    loaded = load_topology(Source("f", text))
    assert [level.domains for level in loaded.cluster.levels] == [("b1", "b2")]
    assert any("the topology blocks, of 2 (tree, blocks)" in note for note in loaded.notes)
    partitions = "".join(
        f"PartitionName={name} Nodes=w[0-2] Default={default} State=UP Topology={topology}\n"
        for name, default, topology in (("a", "YES", "tree"), ("b", "NO", "blocks"))
    )
    loaded = load_topology(Source("f", text), busy=[Source("p", partitions)])
    assert loaded.cluster.node("w1").path == ("s1", "l2")
    assert any("below no switch of the topology tree: 1 (w2)" in note for note in loaded.notes)


@pytest.mark.parametrize("topology", ["default", "default:", ":leaf", "default:a::b"])
def test_a_place_that_is_none(topology: str) -> None:
    """Refused with its line."""
    with pytest.raises(InvalidInput, match="is no place in a topology") as caught:
        load_topology(Source("f", placed("w0", "default:leaf") + placed("w1", topology)))
    assert caught.value.where == "f:6"
