"""Whatever text a reader gets, only a cluster or an ArnoldError comes out."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ground.errors import ArnoldError
from ground.files import Source, decode_source
from tests.allocation_objects import claim_json, claiming, request, slice_json
from tests.case_counts import examples
from topology.load import load_topology
from topology.readers.reading import TOPOLOGY_READERS
from topology.writers import TOPOLOGY_WRITERS

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

HYPER_NODE = "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {}}}\nspec: {}\n"

VALID = {
    "snapshot": json.dumps(
        {
            "arnold": "snapshot",
            "version": 1,
            "time": "2026-11-21T12:00:00Z",
            "utc_offset": 0,
            "source": "c.csv",
            "cluster": {"name": "c.csv", "text": "node,rack,gpus\nn1,r,8\nn2,r,8\n"},
            "running": [{"name": "jobs.yaml", "text": "jobs: [{name: a, nodes: n1}]\n"}],
            "flags": [{"name": "flags.yaml", "text": "- {node: n2, slowdown: 1.2}\n"}],
        },
        indent=1,
    ),
    "alibaba-nodes": "sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,8,A10\nn2,1,1,0,\nn3,1,1,2.0,V100\n",
    "aws": json.dumps(
        {
            "Instances": [
                {"InstanceId": "n1", "InstanceType": "p5.48xlarge", "NetworkNodes": ["a", "b"]},
                {"InstanceId": "n2", "InstanceType": "x", "NetworkNodes": ["a"], "CapacityBlockId": "cb"},
            ],
            "NextToken": "t",
        },
        indent=1,
    ),
    "gcp": json.dumps(
        [
            {"name": "n1", "resourceStatus": {"physicalHostTopology": {"cluster": "c", "block": "b", "host": "h"}}},
            {"name": "n2", "resourceStatus": {"physicalHost": "/c/b/s/h"}, "machineType": "a/a3-megagpu-8g"},
            {"name": "n3", "guestAccelerators": [{"acceleratorCount": 8, "acceleratorType": "a/h100"}]},
        ],
        indent=1,
    ),
    "infiniband": (
        'Switch\t65 "S-1"\t\t# "MF0;leaf:MQM9700/U1" enhanced port 0 lid 7 lmc 0\n'
        '[1]\t"H-2"[1](2) \t\t# "n1 mlx5_0" lid 9\n[2]\t"H-3"[1](3) \t\t# "n2 mlx5_0" lid 9\n'
        '[3]\t"S-4"[1]\t\t# "s" lid 9\n'
        '"MF0;l2:MQM8700/U1", Mellanox, 0x4, LID 24328\n 1 : 1 : ACT : X : 0x5 : 40 : 257 : "n1 mlx5_1"\n'
        'Ca\t1 "H-2"\t\t# "n1 mlx5_0"\n'
    ),
    "netq": json.dumps(
        [
            {
                "links": [{"id": "a-*-m"}, {"id": "m2-*-b"}, {"id": "a-*-b"}],
                "nodes": [
                    {"compounded_nodes": [{"id": name, "name": f"N{name}", "tier": tier}]}
                    for name, tier in {"a": 1, "b": 1, "m": -1, "m2": -1}.items()
                ],
            }
        ],
        indent=1,
    ),
    "topograph-model": (
        "switches:\n  top: {switches: [l1, l2]}\n  l1: {annotations: {accelerator.topology.test/domain: v}}\n"
        "blocks:\n- {switch: l1, nodes: ['n[1-2]']}\n- switch: l2\n  nodes: [n3]\n  nvlink: w\n"
    ),
    "kind": (
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
        "- role: worker\n  labels: {example.com/row: a}\n- role: worker\n---\nkind: Topology\n"
        "metadata: {name: t}\nspec: {levels: [{nodeLabel: example.com/row}]}\n"
    ),
    "volcano": "---\n".join(
        HYPER_NODE.format(name, spec)
        for name, spec in {
            "s1": "{tier: 1, members: [{type: Node, selector: {exactMatch: {name: n1}}}]}",
            "s2": "{tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: 'n[2-9]+$'}}}]}",
            "s3": "{tier: 2, tierName: spine, members: [{type: HyperNode, selector: {regexMatch: {pattern: s}}}]}",
        }.items()
    ).replace("pattern: s}", "pattern: s1}"),
    "csv": "node,minipod,rack,gpus,free_gpus,slowdown\nn1,a,r1,8,8,\nn2,a,r1,8,0,1.4\nn3,a,,8,,\nn4,b,r2,4,4,faulty\n",
    "lingjun": "ip,DSW,PSW,ASW\nn1,G6,P10,S14\nn2,G6,P12,S2\nn3,G6,P10,S2\n",
    "slurm-conf": (
        "# tree\nSwitchName=s1 Nodes=n[01-04],x LinkSpeed=10\nSwitchName=s2 Nodes=a[1-2]b[3-4]\n"
        "SwitchName=top Switches=s[1-2]\n#BlockName=b1 Nodes=n[1-2]\n#BlockSizes=1,2\n"
    ),
    "slurm-nodes": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=0\n   Gres=gpu:h100:8(S:0)\n   State=MIXED+DRAIN\n\n"
        "NodeName=n2 CoresPerSocket=1 CPUAlloc=0 CPUTot=8 Gres=(null) State=DOWN* CfgTRES=cpu=8,gres/gpu=4\n"
    ),
    "slurm-yaml": (
        "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n    - switch: top\n      children: s[1-2]\n"
        "    - {switch: s1, nodes: 'n[01-04]'}\n    - {switch: s2, nodes: x}\n"
        "- topology: u\n  block:\n    block_sizes: [1, 2]\n    blocks: [{block: b, nodes: 'n[1-2]'}]\n"
    ),
    "topograph": json.dumps(
        {
            "instances": [
                {"id": "n1", "network_layers": ["l1", "s1"], "labels": {"accelerator.topograph.run/domain": "a"}},
                {"id": "n2", "network_layers": ["l2", "s1"], "attributes": {"nvlink": "b"}},
                {"id": "n3", "network_layers": None},
            ]
        },
        indent=1,
    ),
    "kubernetes": json.dumps(
        {
            "apiVersion": "v1",
            "items": [
                {
                    "kind": "Node",
                    "metadata": {
                        "name": "n1",
                        "labels": {"cloud.google.com/gce-topology-block": "b", "topology.kubernetes.io/zone": "z"},
                        "annotations": {"arnold.dev/slowdown": "1.3", "arnold.dev/slowdown-until": "2027-01-01T00:00Z"},
                    },
                    "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
                    "status": {
                        "capacity": {"nvidia.com/gpu": "8"},
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
                {
                    "kind": "Pod",
                    "metadata": {"name": "p"},
                    "spec": {
                        "nodeName": "n1",
                        "containers": [{"resources": {"requests": {"nvidia.com/gpu": 2}}}],
                    },
                    "status": {"phase": "Running"},
                },
                {
                    "kind": "Node",
                    "metadata": {"name": "n2", "labels": {"cloud.google.com/gce-topology-block": "b"}},
                    "status": {"capacity": {"cpu": "8"}},
                },
                slice_json("n2", 1),
                claim_json("c", "team", request(1), given={"gpus": 1}, users=["p"]),
                claiming(
                    {
                        "kind": "Pod",
                        "metadata": {"name": "q", "namespace": "team", "uid": "p"},
                        "spec": {"nodeName": "n2", "containers": [{"resources": {}}]},
                        "status": {},
                    },
                    claim="c",
                ),
            ],
        },
        indent=1,
    ),
}

PIECES = st.sampled_from(
    [
        *(
            "",
            ",",
            "\n",
            '"',
            "'",
            "[",
            "]",
            "{",
            "}",
            ":",
            "-",
            "=",
            "#",
            " ",
            "\t",
            "\\",
            "&a",
            "*a",
            "!!x ",
            "0",
            "-1",
        ),
        *("1e999", "nan", "null", "true", "999999999999", "[1-999999999]", "\x00", "\x1b", "\ud800", "é", "node", "n1"),
    ]
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """A text with one to four pieces cut out, put in, doubled or moved."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 1, 3, 10, 60])))
        middle = draw(st.one_of(PIECES, st.just(text[start:end] * 2), st.text(max_size=3)))
        text = text[:start] + middle + text[end:]
    return text


def test_every_installed_reader_is_fuzzed() -> None:
    """And what the fuzzing starts from is valid."""
    assert set(VALID) == set(TOPOLOGY_READERS.names())
    for name, text in VALID.items():
        assert len(TOPOLOGY_READERS.load(name).read(Source("f", text), levels=None, now=NOW).cluster) >= 1


@pytest.mark.parametrize("name", VALID)
@examples(120)
@given(data=st.data())
def test_mutations_of_a_valid_file(name: str, data: st.DataObject) -> None:
    """What can still be read can be written in every format, or is refused there."""
    text = data.draw(mutated(VALID[name]))
    with suppress(ArnoldError):
        source = decode_source("f", text.encode("utf-8", "surrogatepass"))
        cluster = TOPOLOGY_READERS.load(name).read(source, levels=None, now=NOW).cluster
        assert len(cluster) >= 1
        for writer in TOPOLOGY_WRITERS.names():
            with suppress(ArnoldError):
                TOPOLOGY_WRITERS.load(writer).write(cluster)


@pytest.mark.parametrize("name", VALID)
@examples(60)
@given(text=st.text(max_size=60))
def test_any_text(name: str, text: str) -> None:
    """Given to each reader as if it had been recognised, by itself and after a valid beginning."""
    for candidate in (text, VALID[name][: len(VALID[name]) // 2] + text):
        with suppress(ArnoldError):
            TOPOLOGY_READERS.load(name).read(Source("f", candidate), levels=None, now=NOW)


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes, tmp_path: Path) -> None:
    """From the file to the cluster."""
    file = tmp_path / "f"
    file.write_bytes(data)
    with suppress(ArnoldError):
        load_topology(file)


@pytest.mark.parametrize("name", VALID)
def test_truncation_anywhere(name: str) -> None:
    """A file cut off at any character is an error or a smaller cluster, never a crash."""
    for end in range(0, len(VALID[name]), 3):
        with suppress(ArnoldError):
            TOPOLOGY_READERS.load(name).read(Source("f", VALID[name][:end]), levels=None, now=NOW)
