"""From a path to a cluster: formats recognised by content, state laid over, errors with their place."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ground.errors import InvalidInput, InvalidTopology, TooLarge, UnknownName
from ground.files import Source
from ground.formats import recognise
from tests.facts import saying
from topology.load import load_topology
from topology.readers.reading import TOPOLOGY_READERS

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

SAMPLES = {
    "snapshot": """{"arnold": "snapshot", "version": 1, "time": "2026-11-21T12:00:00Z", "utc_offset": 0,
"source": "c.csv", "cluster": {"name": "c.csv", "text": "node,rack,gpus\\nn1,r,8\\nn2,r,8\\n"}}""",
    "alibaba-nodes": "sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,8,A10\nn2,1,1,8,A10\n",
    "aws": """{"Instances": [
{"InstanceId": "n1", "InstanceType": "p5.48xlarge", "NetworkNodes": ["a"]},
{"InstanceId": "n2", "InstanceType": "p5.48xlarge", "NetworkNodes": ["a"]}]}""",
    "gcp": """[{"name": "n1", "resourceStatus": {"physicalHostTopology": {"cluster": "c", "block": "b"}}},
{"name": "n2", "resourceStatus": {"physicalHostTopology": {"cluster": "c", "block": "b"}}}]""",
    "infiniband": """
Switch\t65 "S-1"\t\t# "MF0;leaf:MQM9700/U1" enhanced port 0 lid 7 lmc 0
[1]\t"H-2"[1](2) \t\t# "n1 mlx5_0" lid 9 4xNDR
[2]\t"H-3"[1](3) \t\t# "n2 mlx5_0" lid 9 4xNDR
""",
    "netq": """[{"links": [{"id": "s-*-a"}, {"id": "b-*-s"}], "nodes": [{"compounded_nodes": [
{"id": "s", "name": "leaf", "tier": 1}, {"id": "a", "name": "n1", "tier": -1}, {"id": "b", "name": "n2", "tier": -1}
]}]}]""",
    "topograph-model": "switches: {s: {}}\nblocks:\n- {switch: s, nodes: ['n[1-2]']}\n",
    "kind": """
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
name: n
nodes:
- role: control-plane
- {role: worker, labels: {cloud.provider.com/topology-block: a}}
- {role: worker, labels: {cloud.provider.com/topology-block: a}}
""",
    "volcano": """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec:
  tier: 1
  members:
  - {type: Node, selector: {exactMatch: {name: n1}}}
  - {type: Node, selector: {exactMatch: {name: n2}}}
""",
    "csv": "node,minipod\nn1,a\nn2,a\n",
    "lingjun": "ip,DSW,PSW,ASW\nn1,G,P,S\nn2,G,P,S\n",
    "slurm-conf": "# our tree\n\n   switchname=a Nodes=n[1-2]\n",
    "slurm-nodes": "NodeName=n1 CoresPerSocket=1 \n   CPUAlloc=0\n   State=IDLE\n\n"
    "NodeName=n2 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=0\n   State=IDLE\n",
    "slurm-yaml": "# our tree\n---\n- topology: t\n  tree:\n    switches:\n    - switch: a\n      nodes: n[1-2]\n",
    "topograph": '{"instances": [{"id": "n1", "network_layers": ["a"]}, {"id": "n2", "network_layers": ["a"]}]}',
    "kubernetes": """
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}
  status: {capacity: {nvidia.com/gpu: "8"}}
- kind: Node
  metadata: {name: n2, labels: {topology.kubernetes.io/zone: a}}
  status: {capacity: {nvidia.com/gpu: "8"}}
""",
}


NAMES = {"kind": ("n-worker", "n-worker2")}
"""What the two nodes are called where the format names them."""


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """Two nodes in one minipod."""
    file = tmp_path / "cluster.csv"
    file.write_text(SAMPLES["csv"])
    return file


def test_every_installed_reader_has_a_sample_here() -> None:
    """So that a new format cannot be forgotten by the tests below; each says what it reads."""
    assert set(TOPOLOGY_READERS.names()) == set(SAMPLES)
    assert all(TOPOLOGY_READERS.load(name).format.name == name for name in SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_recognised_by_its_content(name: str, tmp_path: Path) -> None:
    """Whatever the file is called; all samples describe the same two nodes."""
    file = tmp_path / "cluster.txt"
    file.write_text(SAMPLES[name])
    topology = load_topology(file)
    assert topology.format == name
    assert topology.cluster.names == NAMES.get(name, ("n1", "n2"))
    assert len(topology.cluster.levels[-1]) == 1


def test_json_of_the_api_server_is_recognised() -> None:
    """A NodeList begins with its kind, and its items do not repeat theirs."""
    text = '{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"}}]}'
    assert recognise(TOPOLOGY_READERS, Source("f", text)).format.name == "kubernetes"


def test_the_name_of_a_format_overrides() -> None:
    """And a wrong one is answered with the one that was meant."""
    with pytest.raises(UnknownName, match="'slurm_conf'") as caught:
        TOPOLOGY_READERS.load("slurm_conf")
    assert "did you mean 'slurm-conf'?" in caught.value.fix


def test_an_overridden_format_reads_what_it_is_told_to(csv_file: Path) -> None:
    """The CSV is not JSON, and says so with its line."""
    with pytest.raises(InvalidInput) as caught:
        load_topology(csv_file, format="topograph")
    assert caught.value.where == f"{csv_file}:1"


@pytest.mark.parametrize("text", ["hello", "a: 1", "{}", "[1, 2]", "<svg></svg>", "nodes,minipod\nn1,a", "\ufeff,"])
def test_an_unknown_format_is_answered_with_the_known_ones(text: str, tmp_path: Path) -> None:
    """By name."""
    file = tmp_path / "f"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="no format that is known") as caught:
        load_topology(file)
    assert all(name in caught.value.fix for name in SAMPLES)


def test_the_nearest_format_is_named(tmp_path: Path) -> None:
    """Of a graph of Topograph without layers: what is missing for it."""
    file = tmp_path / "f"
    file.write_text('{"version": 1, "instances": []}')
    with pytest.raises(InvalidInput, match=saying("topograph", '"network_layers"')):
        load_topology(file)


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """For ``-``; but only for one of the files."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SAMPLES["slurm-conf"].encode())))
    assert len(load_topology("-").cluster) == 2
    with pytest.raises(InvalidInput, match="once"):
        load_topology("-", busy=["-"])


def test_state_is_laid_over(csv_file: Path, tmp_path: Path) -> None:
    """Busy nodes and flags; a flag that has ended is left out with a note."""
    (tmp_path / "busy").write_text("n[1-2]\n")
    (tmp_path / "flags").write_text(
        "- {node: n1, kind: faulty}\n- {node: n2, kind: straggler, slowdown: 2, until: 2026-01-01T00:00:00Z}\n"
    )
    topology = load_topology(csv_file, busy=[tmp_path / "busy"], flags=[tmp_path / "flags"], now=NOW)
    assert topology.cluster.free_gpus.tolist() == [0, 0]
    assert topology.cluster.slowdown.tolist() == [float("inf"), 1.0]
    assert topology.notes[-1].endswith("left out: 1")


def test_levels_have_a_meaning_for_some_formats_only(csv_file: Path) -> None:
    """A CSV names its own."""
    with pytest.raises(InvalidInput, match="names its own levels"):
        load_topology(csv_file, levels=["minipod"])


def test_errors_about_the_whole_file_name_the_file(tmp_path: Path) -> None:
    """Where there is no line to point at."""
    file = tmp_path / "cluster.csv"
    file.write_text("node,minipod\n")
    with pytest.raises(InvalidInput, match="no nodes") as caught:
        load_topology(file)
    assert caught.value.where == str(file)


def test_a_cluster_beyond_the_limit_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Well formed and merely too big: exit code 3."""
    monkeypatch.setattr("topology.readers.cluster_csv.MAX_NODES", 1)
    file = tmp_path / "cluster.csv"
    file.write_text(SAMPLES["csv"])
    with pytest.raises(TooLarge) as caught:
        load_topology(file)
    assert caught.value.exit_code == 3


def test_levels_take_other_names(tmp_path: Path) -> None:
    """From the broadest to the closest, with their domains as they were; another number of names is refused with the
    levels that there are, and a name that no level can have with the option.
    """
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=root Switches=s[1-2]\nSwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2\n")
    cluster = load_topology(file, level_names=["spine", "leaf"]).cluster
    assert [(level.name, level.domains) for level in cluster.levels] == [("spine", ("root",)), ("leaf", ("s1", "s2"))]
    with pytest.raises(InvalidTopology, match=saying("1 name", "2 levels", "level-0, level-1")):
        load_topology(file, level_names=["leaf"])
    with pytest.raises(InvalidTopology, match=saying("two levels", "'leaf'")) as caught:
        load_topology(file, level_names=["leaf", "leaf"])
    assert caught.value.where == "--level-names"
