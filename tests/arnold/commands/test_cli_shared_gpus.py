"""Nodes that hand out GPUs in parts: what commands say of them, what a job gets, and the way to count them as whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.topology.kubernetes.test_kubernetes_shares import WAYS, node_json

Arnold = Callable[..., Any]

PARTED = [name for name, (_, _, sharing) in WAYS.items() if sharing]


def cluster_file(path: Path, *ways: str) -> Path:
    """A list of nodes of eight GPUs that hand them out in these ways, in one zone."""
    nodes = []
    for i, way in enumerate(ways):
        labels, amounts, _ = WAYS[way]
        nodes.append(node_json(f"n{i}", labels | {"topology.kubernetes.io/zone": "z"}, **amounts))
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Four nodes of 8 GPUs: 32."""
    path = tmp_path / "job.yaml"
    path.write_text("gpus_per_node: 8\nparallelism: {tp: 8, dp: 4}\nalpha: 0.3\n")
    return path


@pytest.mark.parametrize("way", PARTED)
def test_a_job_of_whole_gpus_gets_no_shares(arnold: Arnold, tmp_path: Path, job: Path, way: str) -> None:
    """Four nodes with the 32 GPUs that it asks for, all in parts: infeasible, empty or not, and the reason says how."""
    ran = arnold("place", "--cluster", cluster_file(tmp_path / "c.json", *[way] * 4), "--job", job, "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["status"], document["would_fit_if_empty"]) == (3, "infeasible", False)
    assert f"4 with shared GPUs: {WAYS[way][2]}" in document["reason"]
    assert any("--shared-gpus whole" in note for note in document["notes"])


def test_clean_nodes_of_a_mixed_cluster_are_used(arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """Each way of sharing once, and four whole nodes, which the job gets."""
    ways = ["whole", "MIG mixed", "whole", *PARTED, "whole", "whole"]
    ran = arnold("place", "--cluster", cluster_file(tmp_path / "c.json", *ways), "--job", job, "--json")
    nodes = {row["node"] for row in json.loads(ran.out)["assignment"]}
    assert (ran.code, nodes) == (0, {f"n{i}" for i, way in enumerate(ways) if way == "whole"})


def test_a_job_that_leaves_the_size_open_is_for_whole_nodes(arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """Slices of one GPU of a node that is nearly empty of them are no other size of node."""
    file = cluster_file(tmp_path / "c.json", *["whole"] * 4, "MIG single")
    document = json.loads(file.read_text())
    document["items"][4]["status"]["capacity"] = {"nvidia.com/gpu": "7"}  # one GPU of the same type
    file.write_text(json.dumps(document))
    job.write_text("parallelism: {tp: 8, dp: 4}\nalpha: 0.3\n")
    assert arnold("place", "--cluster", file, "--job", job).code == 0


def test_they_count_as_whole_where_the_user_says_so(arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """As if the sharing were switched off: four nodes of eight, not one of 32."""
    file = cluster_file(tmp_path / "c.json", *["time-slicing"] * 4)
    ran = arnold("place", "--cluster", file, "--shared-gpus", "whole", "--job", job, "--json")
    document = json.loads(ran.out)
    assert (ran.code, len(document["assignment"])) == (0, 4)
    assert any(note.startswith("counted as whole") for note in document["notes"])


def test_explain_says_what_would_have_to_change(arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """Whole GPUs instead of shares, solved as such."""
    file = cluster_file(tmp_path / "c.json", *["MPS"] * 4)
    ran = arnold("explain", "--cluster", file, "--job", job, "--json")
    options = {change["kind"]: change["sentence"] for change in json.loads(ran.out)["diagnosis"]["changes"]}
    assert ran.code == 3
    assert "MPS x10" in options["admit-shared"]


@pytest.mark.parametrize("way", WAYS)
def test_the_table_has_the_gpus_that_are_there(arnold: Arnold, tmp_path: Path, job: Path, way: str) -> None:
    """Written as CSV: 8 GPUs, and how they are shared; read again, it is the same answer."""
    file, table = cluster_file(tmp_path / "c.json", *[way] * 4), tmp_path / "c.csv"
    assert arnold("topology", "convert", file, "--to", "csv", "-o", table).code == 0
    header, *rows = (line.split(",") for line in table.read_text().replace('"', "").splitlines())
    assert {row[header.index("gpus")] for row in rows} == {"8"}
    again = json.loads(arnold("topology", "show", table, "--json").out)["cluster"]
    assert again == json.loads(arnold("topology", "show", file, "--json").out)["cluster"] | {"source": str(table)}
    assert again["free"] == (0 if WAYS[way][2] else 4)
    placed = arnold("place", "--cluster", table, "--job", job)
    assert placed.code == (3 if WAYS[way][2] else 0)


def test_a_public_list_of_time_sliced_nodes(arnold: Arnold, job: Path) -> None:
    """Its README: 4 nodes of 8 GPUs, offered as 32 each; never 32 GPUs on one of them."""
    if "ARNOLD_DATA" not in os.environ:
        pytest.skip("ARNOLD_DATA names no folder")
    file = Path(os.environ["ARNOLD_DATA"]) / "real/k8s_clouds/time_slicing.json"
    summary = json.loads(arnold("topology", "show", file, "--json").out)["cluster"]
    assert (summary["nodes"], summary["free"], summary["sharing"]) == (4, 0, {"time-slicing x4": 4})
    assert arnold("place", "--cluster", file, "--job", job).code == 3


def test_types_that_differ_in_case_are_told(arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """Two spellings of one name are two types, of which a gang is on one: five nodes are not enough for four."""
    rows = [("n1", "H100"), ("n2", "h100"), ("n3", "H100"), ("n4", "H-100"), ("n5", "H100")]
    file = tmp_path / "c.csv"
    file.write_text("node,rack,gpus,gpu_type\n" + "".join(f"{name},r,8,{of}\n" for name, of in rows))
    ran = arnold("place", "--cluster", file, "--job", job, "--json")
    assert ran.code == 3
    assert any("H100 and h100 and H-100" in note for note in json.loads(ran.out)["notes"])
