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
    reading = reader.read(Source("f", text), levels=None, now=NOW)
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
