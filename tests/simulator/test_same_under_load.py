"""Replays with limits that bite have the same bytes whatever else the machine does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arnold.commands.run import run
from scheduler.placement.exact.solve import GRIDS
from tests.conftest import busy_loops

ROOT = Path(__file__).parents[2]
SIZES = (23, 23, 22, 21, 17, 16, 16, 15, 12, 11, 10, 10, 9, 9, 6, 6, 6, 6, 4, 3)
"""Nodes of each pod: 245, on which grids of 240 cells have pairs that only long searches build."""

CLUSTER = "node,pod,gpus\n" + "".join(f"p{pod}n{node},p{pod},8\n" for pod in range(20) for node in range(SIZES[pod]))
JOBS = "job_id,submit_time,duration,gpus,tp,pp,dp\na,0,10,1920,8,12,20\nb,20,10,1920,8,20,12\n"
TIMES = ("policy_seconds", "wall_seconds")
"""What the result says of the run itself."""


def replayed(folder: Path, capsys: pytest.CaptureFixture[str], limit: float) -> tuple[str, bytes]:
    """Return the result of a run, without its own times, and the bytes of its jobs."""
    (folder / "cluster.csv").write_text(CLUSTER)
    (folder / "jobs.csv").write_text(JOBS)
    GRIDS.clear()
    asked = ["simulate", "--cluster", f"{folder}/cluster.csv", "--trace", f"{folder}/jobs.csv", "--json"]
    assert run([*asked, "--jobs-out", f"{folder}/out.csv", "--time-limit", str(limit)]) == 0
    said = json.loads(capsys.readouterr().out)
    kept = {key: value for key, value in said.items() if key not in TIMES}
    return json.dumps(kept), (folder / "out.csv").read_bytes()


def test_load_changes_no_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run alone and one beside busy loops; the limit bites, for with ten times as much the gangs lie elsewhere."""
    alone = replayed(tmp_path, capsys, 0.02)
    with busy_loops():
        beside = replayed(tmp_path, capsys, 0.02)
    assert beside == alone
    assert replayed(tmp_path, capsys, 0.2) != alone


def test_no_search_of_a_replay_looks_at_the_wall_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one place where searches read it fails."""

    def look() -> float:
        raise AssertionError("the wall clock was looked at")

    monkeypatch.setattr("scheduler.work_clock.perf_counter", look)
    replayed(tmp_path, capsys, 0.02)


def test_placement_has_one_clock() -> None:
    """No module of placement, nor one that asks it for its parts, imports a clock but by ``scheduler.work_clock``."""
    rooms = [path for room in ("placement", "subproblems") for path in (ROOT / "scheduler" / room).rglob("*.py")]
    for path in (*rooms, ROOT / "scheduler" / "algorithm_run.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(("from time ", "import time"))], path
