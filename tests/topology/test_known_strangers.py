"""Texts that people give for a cluster or a list of nodes, and that are neither, are called what they are."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from topology.build import build_cluster
from topology.cluster import Node
from topology.load import STRANGERS, NodeList, load_topology, read_node_lists, stranger_fault
from topology.readers.reading import TOPOLOGY_READERS
from topology.slurm_snapshot import NO_REQUEST

CLUSTER = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(4)])

TEXTS = {
    "sinfo, which": "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*  up infinite 2   idle n[1-2]\n",
    "table of sinfo": "gpu*  up  infinite  2  idle n[1-2]\n",
    "sinfo": "NODELIST   NODES PARTITION STATE\nn1             1      gpu* idle\n",
    "squeue": "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n",
    "sacct": "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode\n1 a b c 1 COMPLETED 0:0\n",
    "slurm.conf": "ClusterName=c\nNodeName=n[1-4] CPUs=64 Gres=gpu:8 State=UNKNOWN\nPartitionName=gpu Nodes=ALL\n",
    "`kubectl get nodes`": "NAME   STATUS   ROLES    AGE   VERSION\nn1     Ready    <none>   4d    v1.31.0\n",
    "kubectl's pods": "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE\na           b      1/1     Running   0\n",
    "`kubectl top nodes`": "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)\nn1     250m         3%       1Gi\n",
    "`kubectl describe`": "Name:               n1\nRoles:              <none>\nLabels:             a=b\n",
    "nvidia-smi": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPIX\t0-51\n",
    "ibstat": "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n",
    "ibswitches": 'Switch\t: 0x1070fd03001adeb4 ports 65 "MF0;leaf-1:MQM9700/U1" enhanced port 0 lid 7 lmc 0\n',
    "pbsnodes": "n1\n     Mom = n1.site\n     state = free\n     resources_available.ngpus = 8\n",
    "bhosts": "HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN\nn1                 ok              -\n",
    "web page": "<!DOCTYPE html>\n<html><body>Login</body></html>\n",
    "job file": "gpus_per_node: 8\nparallelism: {tp: 8, dp: 4}\n",
    "commas": "n1,gpu:8(S:0-3)\nn2,gpu:8(S:0-3)\n",
}
"""What the error says it is, and such a text."""


def list_of(text: str) -> NodeList:
    """The one list of a text."""
    (read,) = read_node_lists([Source("f", text)], CLUSTER, NO_REQUEST, now=datetime(2026, 11, 28, tzinfo=UTC))
    return read


@pytest.mark.parametrize(("words", "text"), TEXTS.items(), ids=TEXTS)
def test_a_cluster_that_is_none_is_called_what_it_is(words: str, text: str) -> None:
    """With the command whose answer is one, in place of the names of all formats."""
    with pytest.raises(InvalidInput) as caught:
        load_topology(Source("f", text))
    assert words in caught.value.message
    assert "arnold formats" not in caught.value.fix
    assert caught.value.fix


@pytest.mark.parametrize(
    "words", ["squeue", "`kubectl get nodes`", "`kubectl describe`", "bhosts", "web page", "commas"]
)
def test_a_list_that_is_none_is_called_what_it_is(words: str) -> None:
    """And not where a hostlist in it breaks."""
    with pytest.raises(InvalidInput) as caught:
        list_of(TEXTS[words])
    assert words in caught.value.message
    assert "hostlist" not in caught.value.message
    assert caught.value.fix


def test_a_table_of_states_is_a_list() -> None:
    """What is no cluster may be a list of nodes, and is read as one."""
    for words in ("sinfo, which", "sinfo"):
        assert list_of(TEXTS[words]).states


def test_lists_of_nodes_are_no_strangers() -> None:
    """Names, hostlists and comments, however odd."""
    for text in ("n1\n", "n[1-3],m2\n", "# PARTITION AVAIL\nn1 # NAME STATUS ROLES \n", "gpu-01,gpu-02\n", ""):
        assert stranger_fault(text, nodes=True) is None


def test_what_a_reader_knows_is_no_stranger() -> None:
    """The words by which a reader tells its format stand in no kind of stranger, so that the order does not matter."""
    for text in TEXTS.values():
        assert not any(TOPOLOGY_READERS.load(name).likeness(text.encode()) for name in TOPOLOGY_READERS.names())
    # each kind has its text above
    marks = [re.compile(f"^{stranger.mark}", re.MULTILINE) for stranger in STRANGERS]
    assert all(any(mark.search(text) for text in TEXTS.values()) for mark in marks)
