"""`arnold place --running`: a job goes where running jobs read the same data, and never on their nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.arnold.commands.conftest import write_cluster
from tests.facts import says

Arnold = Callable[..., Any]


def job_file(folder: Path, name: str, more: str = "") -> Path:
    """A job of two nodes."""
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\nparallelism: {{tp: 8, dp: 2, pp: 1}}\nalpha: 0.5\n{more}")
    return path


@pytest.fixture
def world(arnold: Arnold, tmp_path: Path) -> Arnold:
    """Three minipods of two racks of four nodes; a job reads two data sets of 100 on two nodes of the last minipod."""
    cluster = write_cluster(tmp_path / "cluster.csv", [f"n{i:02},mp{i // 8},r{i // 4},8,8," for i in range(24)])
    first = [f"n{i:02},mp{i // 8},r{i // 4},8,{8 * (i > 15)}," for i in range(24)]
    full = write_cluster(tmp_path / "full.csv", first)
    old = job_file(tmp_path, "old", "data_sets: {web: 100, code: 100}\n")
    arnold("place", "--cluster", full, "--job", old, "--output", tmp_path / "old.json")

    def run(more: str = "", *words: object) -> Any:
        job = job_file(tmp_path, "new", more)
        return arnold("place", "--cluster", cluster, "--running", tmp_path / "old.json", "--job", job, *words)

    return run


def test_it_shares_the_rack(world: Arnold) -> None:
    """100 of the 200 that either reads are common: the rack of the running job is taken, its two other nodes."""
    said = world("data_sets: {code: 100}\n", "--json").json
    assert said["status"] == "optimal"
    assert {cell["node"] for cell in said["assignment"]} <= {f"n{i}" for i in range(16, 24)}
    (note,) = [note for note in said["notes"] if "share a rack" in note]
    assert says(note, "2 of 2 nodes", "running job", "affinity up to 0.50")
    assert said["job"]["data_sets"] == {"code": 100.0}


def test_a_level_for_the_caches(world: Arnold) -> None:
    """With a cache for a minipod, any node of the minipod will do."""
    said = world("data_sets: {code: 100}\ndata_level: minipod\n", "--json").json
    assert any("2 of 2 nodes share a minipod" in note for note in said["notes"])


def test_a_name_that_no_job_reads(world: Arnold) -> None:
    """It may be meant so; the name that is near is told."""
    said = world("data_sets: {cod: 100}\n", "--json").json
    assert says(said["notes"], "'cod'", "did you mean 'code'?")


@pytest.mark.parametrize(
    ("more", "line", "fix"),
    [
        ("data_sets: {code: -1}\n", "new.yaml:4: data_sets.code: input should be greater than 0", "correct data_sets"),
        ("data_sets: [code]\n", "new.yaml:4: data_sets: ", "correct data_sets"),
        ("data_level: rak\n", "new.yaml:4: the cluster has no level 'rak'", "did you mean 'rack'?"),
    ],
)
def test_bad_input(world: Arnold, more: str, line: str, fix: str) -> None:
    """Exit code 2, with the line and what to do."""
    ran = world(more)
    assert ran.code == 2
    assert line in ran.err
    assert f"To fix: {fix}" in ran.err


def test_running_jobs_keep_their_nodes(world: Arnold, tmp_path: Path) -> None:
    """Also where the job reads nothing: their nodes are in use."""
    taken = {cell["node"] for cell in json.loads((tmp_path / "old.json").read_text())["assignment"]}
    said = world("", "--json").json
    assert taken.isdisjoint(cell["node"] for cell in said["assignment"])


def test_a_certificate_knows_no_running_jobs(world: Arnold, tmp_path: Path) -> None:
    """`arnold verify` counts the rooms of the cluster's files, where their nodes may be free: it is refused."""
    ran = world("", "--certificate", tmp_path / "proof.json")
    assert ran.code == 2
    assert says(ran.err, "certificate")
    assert not (tmp_path / "proof.json").exists()


def test_several_jobs_and_running_ones(world: Arnold, tmp_path: Path) -> None:
    """Running jobs are looked at for one job: more are refused, rather than placed without regard."""
    ran = world("", "--job", job_file(tmp_path, "other"), "--output", str(tmp_path / "p-{job}.json"))
    assert ran.code == 2
    assert says(ran.err, "one job")
