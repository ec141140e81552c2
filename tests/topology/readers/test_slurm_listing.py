"""Slurm's nodes without a topology."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import recognise
from tests.facts import saying, says
from topology.load import load_topology
from topology.readers.reading import TOPOLOGY_READERS
from topology.readers.slurm import SlurmListing

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NodeName=g1 Gres=gpu:8 State=IDLE Partitions=train\n", True),
        ("NodeName=g1 State=IDLE Gres=gpu:8\n   BootTime=2026-11-20T08:00:00\n", True),
        ("NodeName=g[1-4] Gres=gpu:8 CPUs=64 State=UNKNOWN\nPartitionName=train Nodes=ALL Default=YES\n", False),
    ],
)
def test_records_are_told_from_a_configuration(text: str, expected: bool) -> None:
    """By a key that slurm.conf never has in the line of a node, wherever in the record it stands."""
    assert SlurmListing().likeness(text.encode()) == expected


@pytest.mark.parametrize("text", [NODES, NODES.replace("\n\n", "\0").replace("\n  ", "").replace("\0", "\n")])
def test_nodes_are_one_level_with_their_states(text: str) -> None:
    """On several lines and with --oneliner: three nodes of 4 GPUs, of which one is free; the login node has none."""
    reader = recognise(TOPOLOGY_READERS, Source("f", text))
    assert reader.format.name == "slurm-nodes"
    reading = load_topology(Source("f", text), now=NOW)
    assert [(one.name, one.path, one.gpus, one.gpu_type) for one in reading.cluster] == [
        (name, ("cluster",), 4, "h100") for name in ("g2", "g1", "g3")
    ]
    assert reading.cluster.free_gpus.tolist() == [4, 4, 0]
    assert [reading.cluster.names[i] for i in reading.cluster.flags] == ["g2"]
    assert says(reading.notes, "without GPUs", "1 (login)")


@pytest.mark.parametrize(
    ("gres", "gpus", "sharing", "gpu_type"),
    [
        ("gpu:a100:8", 8, "", "a100"),
        ("gpu:1g.10gb:56", 8, "MIG 1g.10gb", ""),  # seven a GPU
        ("gpu:a100:6,gpu:a100_3g.40gb:4", 8, "MIG 3g.40gb on 2 of 8 GPUs", "a100"),
        ("gpu:nvidia_a100_1g.10gb:16,gpu:nvidia_a100_2g.20gb:8,gpu:nvidia_a100_3g.40gb:8",
         8, "MIG 1g.10gb, 2g.20gb, 3g.40gb", "nvidia_a100"),
        ("gpu:a100:8(S:0-1),shard:a100:32(S:0-1)", 8, "", "a100"),  # Slurm gives a GPU away whole, or in shards
        ("gpu:8,mps:800", 8, "", ""),
    ],
)  # fmt: skip
def test_slices_are_no_gpus(gres: str, gpus: int, sharing: str, gpu_type: str) -> None:
    """Eight GPUs are there, whatever they are cut into; a gang gets them where none is."""
    text = record("g1", "IDLE", gres)
    reading = load_topology(Source("f", text), now=NOW)
    row = reading.cluster.node(0)
    assert (row.gpus, row.sharing, row.gpu_type, row.free) == (gpus, sharing, gpu_type, not sharing)
    assert any("whole or in shards (4 a GPU)" in note for note in reading.notes) == ("shard" in gres)


def test_shards_in_use_are_a_node_in_use() -> None:
    """Slurm calls the node mixed, and no GPU of it goes to a gang."""
    text = record("g1", "MIXED", "gpu:a100:8,shard:32") + record("g2", "IDLE", "gpu:a100:8,shard:32")
    reading = load_topology(Source("f", text), now=NOW)
    assert reading.cluster.idle.tolist() == [False, True]


def test_slices_in_trackable_resources() -> None:
    """Without generic resources in sight: of 13 GPUs, as Slurm counts them, seven are slices of one."""
    cfg = "CfgTRES=cpu=128,gres/gpu=13,gres/gpu:a100=6,gres/gpu:1g.10gb=7"
    text = record("g1", "IDLE", "(null)").replace("   State", f"   {cfg}\n   State")
    row = load_topology(Source("f", text), now=NOW).cluster.node(0)
    assert (row.gpus, row.sharing, row.gpu_type) == (7, "MIG 1g.10gb on 1 of 7 GPUs", "a100")


def test_a_list_over_another_file_says_which_nodes_are_cut(tmp_path: Path) -> None:
    """The file counts eight GPUs, Slurm the slices: no gang gets the node."""
    (tmp_path / "c.csv").write_text("node,rack,gpus\ng1,r,8\ng2,r,8\n")
    (tmp_path / "sinfo").write_text("g1 idle gpu:1g.10gb:56\ng2 idle gpu:a100:8\n")
    loaded = load_topology(tmp_path / "c.csv", busy=[tmp_path / "sinfo"])
    assert loaded.cluster.idle.tolist() == [False, True]
    assert says(loaded.notes, "1 of 2 nodes", "MIG 1g.10gb", "--shared-gpus whole")


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
    assert not SlurmListing().likeness(b"NodeName=n[1-4] CPUs=128 CoresPerSocket=64 Gres=gpu:8 State=UNKNOWN\n")
    with pytest.raises(InvalidInput, match=saying("no node with its state")):
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
    assert says(loaded.notes, "levels", "the topology default")


def test_of_several_topologies_one_is_read() -> None:
    """That of the partition; else the one that most nodes are in, of these the deepest; a leaf alone is one level."""
    text = placed("w0", "tree:s1:l1,blocks:b1") + placed("w1", "tree:s1:l2,blocks:b1") + placed("w2", "blocks:b2")
    loaded = load_topology(Source("f", text))
    assert [level.domains for level in loaded.cluster.levels] == [("b1", "b2")]
    assert says(loaded.notes, "the topology blocks", "tree, blocks")
    partitions = "".join(
        f"PartitionName={name} Nodes=w[0-2] Default={default} State=UP Topology={topology}\n"
        for name, default, topology in (("a", "YES", "tree"), ("b", "NO", "blocks"))
    )
    loaded = load_topology(Source("f", text), busy=[Source("p", partitions)])
    assert loaded.cluster.node("w1").path == ("s1", "l2")
    assert says(loaded.notes, "no switch", "1 (w2)")


@pytest.mark.parametrize(
    ("positions", "domains"),
    [
        (("ring-1:0", "ring-1:1", "ring-2:0", "ring-2:1"), ("ring-1", "ring-2")),
        (("torus:0:0:0", "torus:1:0:0", "torus:0:1:0", "torus:1:1:0"), ("torus",)),
        (("root:1", "root:1", "root:2", "root:2"), ("root",)),
    ],
)
def test_positions_in_rings_and_tori_are_no_switches(positions: Sequence[str], domains: Sequence[str]) -> None:
    """Each node has its own, which would be the closest level; switches with numbers for names have nodes in common."""
    loaded = load_topology(Source("f", "".join(placed(f"w{i}", f"t:{at}") for i, at in enumerate(positions))))
    assert loaded.cluster.levels[0].domains == domains
    assert len(loaded.cluster.levels) == (2 if "root" in domains else 1)
    assert says(loaded.notes, "levels are", "the topology t")


@pytest.mark.parametrize("topology", ["default", "default:", ":leaf", "default:a::b"])
def test_a_place_that_is_none(topology: str) -> None:
    """Refused with its line."""
    with pytest.raises(InvalidInput, match="is no place in a topology") as caught:
        load_topology(Source("f", placed("w0", "default:leaf") + placed("w1", topology)))
    assert caught.value.where == "f:6"
