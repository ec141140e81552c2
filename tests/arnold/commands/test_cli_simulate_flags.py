"""`arnold simulate --flags`: flags begin and end on the clock of the trace, or it is said why they cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.run import run
from tests.facts import says

JOBS = "job_id,submit_time,duration,gpus,nodes\na,{0},10,16,2\nb,{1},10,16,2\n"
CLUSTER = "node,rack,gpus\n" + "".join(f"n{i},r{i // 2},8\n" for i in range(4))
FLAGS = [
    {
        "node": "n0",
        "kind": "straggler",
        "slowdown": 2,
        "since": "2026-11-17T00:00:20Z",
        "until": "2026-11-17T00:01:00Z",
    },
    {"node": "n1", "kind": "straggler", "slowdown": 3, "until": "2026-11-16T23:00:00Z"},
    {"node": "n1", "kind": "straggler", "slowdown": 3, "since": "2027-01-01T00:00:00Z"},
]


def placed(folder: Path, *arguments: str, times: tuple[str, str] = ("0", "30")) -> list[str]:
    """Return where each job of a run was placed."""
    (folder / "c.csv").write_text(CLUSTER)
    (folder / "t.csv").write_text(JOBS.format(*times))
    (folder / "f.json").write_text(json.dumps(FLAGS))
    files = ["--cluster", str(folder / "c.csv"), "--trace", str(folder / "t.csv"), "--flags", str(folder / "f.json")]
    out = folder / "jobs.jsonl"
    code = run(["simulate", *files, *arguments, "--jobs-out", str(out), "--json"])
    assert code == 0
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    return [row["placed_on"] for row in rows]


def test_the_start_of_a_trace_without_dates_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second job comes at 00:00:30, while n0 is slow, and goes to the other rack; what lies outside is told."""
    assert placed(tmp_path, "--starts-at", "2026-11-17T00:00:00Z") == ["n0 n1", "n2 n3"]
    said = capsys.readouterr().err
    assert says(said, "before the first job was submitted (2026-11-17T00:00:00Z)", "without effect", "1 of 3")
    assert says(said, "after the last job is submitted", "1 of 3")


def test_the_dates_of_a_trace_say_it(tmp_path: Path) -> None:
    """With dates the trace's clock is that of the flags, and --starts-at moves it: then the second job is too early."""
    dates = "2026-11-17 00:00:00", "2026-11-17 00:00:30"
    assert placed(tmp_path, times=dates) == ["n0 n1", "n2 n3"]
    assert placed(tmp_path, "--starts-at", "2026-11-16T23:59:00Z", times=dates) == ["n0 n1", "n0 n1"]


def test_without_either_it_cannot_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers from 0 say nothing of the wall clock: an error with what to do."""
    with pytest.raises(AssertionError):
        placed(tmp_path)
    said = json.loads(capsys.readouterr().out)["error"]
    assert says(said["message"], "n0", "no dates")
    assert says(said["fix"], "--starts-at")


def test_a_study_takes_flags_of_any_of_its_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both policies run with the flags, and a node that no cluster has is refused."""
    placed(tmp_path, "--starts-at", "2026-11-17")
    files = ["--cluster", str(tmp_path / "c.csv"), "--trace", str(tmp_path / "t.csv"), "--starts-at", "2026-11-17"]
    capsys.readouterr()
    files += ["--policy", "fifo,fifo-backfill", "--flags", str(tmp_path / "f.json"), "--json"]
    assert run(["simulate", *files]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2
    (tmp_path / "f.json").write_text('[{"node": "n9", "kind": "faulty"}]')
    assert run(["simulate", *files]) == 2
    assert "the cluster has no node 'n9'" in capsys.readouterr().out
