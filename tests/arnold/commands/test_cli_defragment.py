"""`arnold defragment`: the JSON contract, the text, exit codes, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from arnold.documents.defragment_answer import DefragmentDocument
from ground.records import json_data, read_json
from scheduler.witnesses import NOT_TO_BE_CHECKED
from tests.arnold.commands.conftest import write_cluster
from tests.facts import says

Arnold = Callable[..., Any]


def job_file(folder: Path, name: str, dp: int) -> Path:
    """A job of dp nodes in a column."""
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\nparallelism: {{tp: 8, dp: {dp}, pp: 1}}\nalpha: 0.25\n")
    return path


@pytest.fixture
def world(arnold: Arnold, tmp_path: Path) -> Arnold:
    """Three minipods of four nodes.  One job has a node of the first and two of the second, another one of each of
    these; a new one needs four nodes in one minipod.
    """
    cluster = write_cluster(tmp_path / "cluster.csv", [f"n{i:02},mp{i // 4},r{i // 2},8,8," for i in range(12)])
    folder = tmp_path / "placements"
    folder.mkdir()
    for name, nodes, age in (("a", ["n00"], 7200), ("b", ["n04", "n05"], None), ("c", ["n08", "n09", "n10"], 60)):
        saved = arnold("place", "--cluster", cluster, "--job", job_file(tmp_path, name, len(nodes)), "--json").json
        for cell, node in zip(saved["assignment"], nodes, strict=True):
            cell["node"] = node
        (folder / f"{name}.json").write_text(json.dumps(saved | ({} if age is None else {"checkpoint_age": age})))

    def run(*words: object, pattern: str = "*.json", dp: int = 4) -> Any:
        job = job_file(tmp_path, "new", dp)
        return arnold("defragment", "--cluster", cluster, "--running", folder / pattern, "--job", job, *words)

    return run


def test_where_no_moves_make_room_somebody_is_stopped(world: Arnold, tmp_path: Path) -> None:
    """A job on three nodes, 24 GPUs for an hour, leaves three free: five are there when it is stopped, as proved."""
    other = tmp_path / "other.yaml"
    other.write_text('jobs: [{name: s, nodes: "n[01-03]", preemptible: true, started: 2026-11-29T01:00:00Z}]')
    ran = world("--running", other, "--at", "2026-11-29T02:00:00Z", "--json", dp=5)
    assert (ran.code, ran.json["status"]) == (3, "infeasible")
    instead = ran.json["instead"]
    assert [(job["name"], job["gpu_hours_lost"]) for job in instead["stop"]] == [("s", 24.0)]
    assert (instead["status"], instead["bound"]) == ("optimal", 24.0)
    assert says(world("--running", other, "--at", "2026-11-29T02:00:00Z", dp=5).out, "s", "24.0", "--stop")


def test_one_node_moves(world: Arnold) -> None:
    """The first minipod is freed of one node, the fewest; the job reaches what it has on the empty cluster."""
    ran = world("--json")
    said = ran.json
    assert (ran.code, said["status"], said["measure"], said["cost"], said["least_cost"]) == (
        0,
        "optimal",
        "moves",
        1,
        1,
    )
    assert (said["target"], said["reached"], said["objective"], said["now"]) == (1.0, True, 1.0, 1.25)
    (move,) = said["moves"]
    assert (move["job"], move["source"], move["node_rank"]) == ("a", "n00", 0)
    assert {cell["node"] for cell in said["placement"]["assignment"]} == {"n00", "n01", "n02", "n03"}
    moved = {one["job"]: one["moved"] for one in said["running"]}
    assert moved == {"a": 1, "b": 0, "c": 0}
    assert said["running"][0]["gpu_hours"] == 16.0  # two hours of eight GPUs
    assert said["running"][0]["assignment"][0]["node"] == move["target"]
    assert json_data(DefragmentDocument, read_json(DefragmentDocument, said)) == said


def test_no_move_is_what_place_gives(world: Arnold) -> None:
    """K = 0: nothing moves, and the target is not reached."""
    said = world("--moves", "0", "--json").json
    assert (said["cost"], said["moves"], said["reached"], said["objective"]) == (0, [], False, 1.25)
    assert said["objective"] == said["now"]


def test_gpu_hours_instead_of_nodes(world: Arnold) -> None:
    """Without b the second minipod is free, so nothing is lost; with b the age of its checkpoint is missing."""
    said = world("--cost", "100", "--json", pattern="[ac].json").json
    assert (said["measure"], said["allowed"], said["cost"], said["reached"]) == ("gpu-hours", 100.0, 0.0, True)
    ran = world("--cost", "100")
    assert ran.code == 2
    assert says(ran.err, "the checkpoint of 'b'")


def test_the_text_names_jobs_and_moves(world: Arnold) -> None:
    """The verdict, the target, who moves where."""
    out = world().out
    assert says(out, "proved optimal", "1 node moved", "objective 1.0", "if nothing moves: objective 1.25")
    assert "target 1.0: reached" in out
    assert "n00" in out


def test_running_jobs_of_one_name_are_called_by_their_files(world: Arnold, tmp_path: Path) -> None:
    """Many jobs have the default name: then the moves say whose they are."""
    for name in ("a", "b", "c"):
        path = tmp_path / "placements" / f"{name}.json"
        saved = json.loads(path.read_text())
        path.write_text(json.dumps(saved | {"job": saved["job"] | {"name": "x" if name == "c" else "job"}}))
    said = world("--json").json
    folder = tmp_path / "placements"
    names = [f"job ({folder / 'a.json'})", f"job ({folder / 'b.json'})", "x"]
    assert [one["job"] for one in said["running"]] == names
    assert [move["job"] for move in said["moves"]] == names[:1]


def test_too_few_nodes_are_infeasible(world: Arnold) -> None:
    """Moving makes no nodes: seven are wanted of six."""
    ran = world("--json", dp=7)
    assert (ran.code, ran.json["status"], ran.json["objective"]) == (3, "infeasible", None)
    # what was read, and how, is said in the text as it is in JSON
    text = world(dp=7).out
    assert ran.json["placement"]["notes"]
    assert "Assumed" in text.splitlines()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--moves", "-1"], "--moves"),
        (["--cost", "-1"], "--cost"),
        (["--cost", "nan"], "not a finite number"),
        (["--target", "-2"], "--target"),
        (["--target", "1e300"], "--target"),
        (["--moves", "1", "--cost", "1"], "--moves and --cost are both given"),
        (["--running", "nothing*.json"], "no file has such a name"),
    ],
)
def test_bad_input_is_one_error(world: Arnold, words: list[str], said: str) -> None:
    """Exit 2, what is wrong, and how to mend it."""
    ran = world(*words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("To fix: ") == 1


def test_placements_that_cannot_be(world: Arnold, tmp_path: Path) -> None:
    """Two jobs on one node, and a node that the cluster has not; the message names the file and the line."""
    first = json.loads((tmp_path / "placements/a.json").read_text())
    text = json.dumps(first, indent=1)
    (tmp_path / "placements/d.json").write_text(text)
    ran = world()
    assert ran.code == 2
    before, _ = text.split('"node": "n00"')
    line = before.count("\n")  # that of the brace before the name
    assert says(ran.err, f"d.json:{line}", "node 'n00'", "a cell of 'a'")
    first["assignment"][0]["node"] = "elsewhere"
    (tmp_path / "placements/d.json").write_text(json.dumps(first))
    assert says(world().err, "no node 'elsewhere'")
    first["assignment"][0]["node"] = "n11"
    (tmp_path / "placements/d.json").write_text(json.dumps(first | {"checkpoint_age": -5}))
    assert "checkpoint_age" in world().err


def test_numbers_beyond_all_that_runs(world: Arnold, tmp_path: Path) -> None:
    """As many moves, and GPU-hours, as anything can cost are no limit; ages that cannot be added up are refused."""
    said = world("--moves", "9" * 30, "--json").json
    assert (said["status"], said["cost"]) == ("optimal", 1)
    said = world("--cost", "1e300", "--json", pattern="[ac].json").json
    assert (said["status"], said["cost"], said["allowed"]) == ("optimal", 0.0, 1e300)
    for name in "ac":
        old = json.loads((tmp_path / f"placements/{name}.json").read_text())
        (tmp_path / f"placements/{name}.json").write_text(json.dumps(old | {"checkpoint_age": 1e9}))
    with patch("arnold.commands.defragment.MOST_LOST", 10**10):
        ran = world("--cost", "1", pattern="[ac].json")
    assert ran.code == 2
    assert says(ran.err, "10,000,000,000 GPU-seconds", "'c'")


def test_what_the_limit_stopped_says_so(world: Arnold) -> None:
    """With no time to search, in text and JSON; with time it is proved."""
    with patch("scheduler.several.defragmentation.MoveSearch._start"):
        said = world("--time-limit", "0.001", "--json").json
        text = world("--time-limit", "0.001").out
    assert (said["status"], said["stopped_at"]) == ("feasible", 0.001)
    assert said["placement"]["stopped_at"] == 0.001
    assert "stopped at 0.001 s: 0 nodes moved" in text
    assert world("--json").json["stopped_at"] is None


def test_what_no_certificate_shows_is_said_to_be_so(world: Arnold) -> None:
    """That no fewer than one node moves the solver proved; that a job of two nodes needs none is plain."""
    ran = world("--json")
    assert says(ran.json["unchecked"]["moves"], "1.0", NOT_TO_BE_CHECKED)
    assert ran.json["unchecked"]["moves"] in world().out
    assert world("--json", dp=2).json["unchecked"] == {}
