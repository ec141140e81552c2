"""What a hunter knows beside the files: the cluster, where ranks run, the degrees; given, or in the folder itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evidence.tested_pairs import csv, measure, tree
from ground.files import Source
from health.look.folder import look_at_folder
from health.look.in_hand import InHand
from health.pairs.rounds import plan_rounds
from tests.conftest import Arnold
from tests.facts import says
from tests.health.look.test_watchdog_text import signal, timeout
from topology.load import load_topology

BEHIND = "".join(timeout(rank, 42) for rank in (0, 1, 3)) + signal(2, 41)  # rank 2 has not come to number 42
MAP = "rank,node\n0,n0\n1,n0\n2,n7\n3,n7\n"


def test_a_map_says_where_the_suspected_rank_runs(tmp_path: Path) -> None:
    """Given as an option, or found in the folder; without one the rank is named alone."""
    (tmp_path / "job.log").write_text(BEHIND)
    (suspect,) = look_at_folder(str(tmp_path)).suspects
    assert (suspect.node, suspect.rank) == (None, 2)
    (suspect,) = look_at_folder(str(tmp_path), given={"node-map": Source("map.csv", MAP)}).suspects
    assert (suspect.node, suspect.rank) == ("n7", 2)
    (tmp_path / "ranks.csv").write_text(MAP)
    found = look_at_folder(str(tmp_path))
    assert [(suspect.node, suspect.rank) for suspect in found.suspects] == [("n7", 2)]
    assert [(file.kind, file.read) for file in found.files if file.name == "ranks.csv"] == [("node-map", True)]


def test_a_placement_says_the_node_and_the_gpu(arnold: Arnold, tmp_path: Path) -> None:
    """Rank 2 of a job with one GPU for each of its ranks on nodes of two."""
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text(csv(2, 4))
    job.write_text("parallelism: {tp: 2, pp: 2, dp: 1}\ngpus_per_node: 2\n")
    crash = tmp_path / "crash"
    crash.mkdir()
    (crash / "job.log").write_text(BEHIND)
    saved = arnold("place", "--cluster", cluster, "--job", job, "--gpus-per-node", "2", "--json")
    (crash / "placement.json").write_text(saved.out)
    second = next(cell["node"] for cell in saved.json["assignment"] if cell["node_rank"] == 1)
    ran = arnold("health", "look", crash, "--cluster", cluster, "--json")
    assert ran.code == 1
    assert [(one["node"], one["rank"], one["gpu"]) for one in ran.json["suspects"]] == [(second, 2, 0)]


def test_a_map_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """In the folder it is a file that was not read."""
    (tmp_path / "job.log").write_text(BEHIND)
    (tmp_path / "ranks.csv").write_text("rank,node\n0,n0\n0,n1\n")
    found = look_at_folder(str(tmp_path))
    (file,) = (file for file in found.files if file.name == "ranks.csv")
    assert not file.read
    assert says(file.note, "rank 0", "another node")


@pytest.mark.parametrize(("kind", "name"), [("node", "n0010"), ("link", "d1"), ("domain", "d1")])
def test_pairs_are_judged_by_the_topology(kind: str, name: str, tmp_path: Path) -> None:
    """An uplink or a domain is named in place of all its nodes; without the cluster its nodes are."""
    cluster = tree(4, 8)
    pairs = measure(cluster, plan_rounds(cluster, range(32)), {(kind, name): 2.0}, np.random.default_rng(0))
    (tmp_path / "pairs.txt").write_text("".join(f"{a} {b} {value:.2f}\n" for a, b, value in pairs))
    found = look_at_folder(str(tmp_path), cluster=cluster).suspects
    assert {(one.node, (one.domain or "").partition(" ")[0]) for one in found} == {
        (name, "") if kind == "node" else (None, name)
    }
    assert len(look_at_folder(str(tmp_path)).suspects) == 1 or kind != "node"


CLUSTER = load_topology(Source("c.csv", "node,rack\nalpha1.dc.net,r0\nbeta-2,r0\ng1,r1\ng1-b,r1\n")).cluster


def test_nodes_are_called_as_the_cluster_calls_them() -> None:
    """With the domain or without it; a name that the cluster does not have stays, and so does an address."""
    hand = InHand(CLUSTER)
    assert [hand.node(name) for name in ("alpha1", "beta-2.dc.net", "gamma", "10.0.0.1")] == [
        "alpha1.dc.net",
        "beta-2",
        "gamma",
        "10.0.0.1",
    ]


def test_files_are_of_nodes_that_the_cluster_has() -> None:
    """Whatever nodes are called; of g1 and g1-b the longer; two in one name are none."""
    hand = InHand(CLUSTER)
    names = ["dmesg-beta-2", "kernel_alpha1.dc.net", "g1-b_smi", "g1.beta-2", "run-7"]
    assert [hand.node_in(name) for name in names] == ["beta-2", "alpha1.dc.net", "g1-b", None, None]


def test_what_the_cluster_does_not_have_is_asked_for(arnold: Arnold, tmp_path: Path) -> None:
    """A host of the log that no node is called like; and suspects that share a leaf, which may be at fault."""
    cluster, crash = tmp_path / "cluster.csv", tmp_path / "crash"
    cluster.write_text(csv(4, 4))
    crash.mkdir()
    xid = "[  812.1] NVRM: Xid (PCI:0000:1c:00): 79, pid=4411, name=python3, GPU has fallen off the bus.\n"
    for node in ("n0004", "n0006"):
        (crash / f"kern-{node}.txt").write_text(xid)
    (crash / "dmesg-box9.txt").write_text(xid)
    document = arnold("health", "look", crash, "--cluster", cluster, "--json").json
    assert {one["node"] for one in document["suspects"]} == {"n0004", "n0006", "box9"}
    steps = json.dumps(document["next"])
    assert says(steps, "box9", "--node-map")
    assert says(steps, "n0004", "n0006", "level0 d1", "--suspects n0004,n0006")
