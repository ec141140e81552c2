"""`arnold place` and `arnold explain` with images: column `cache` of the cluster, key `images` of the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arnold.commands.run import run
from tests.facts import says

CLUSTER = "node,pod,gpus,cache\n" + "".join(
    f"n{i},p{i // 4},8,{'train:1 base' if i in (1, 6) else 'base'}\n" for i in range(8)
)
JOB = "parallelism: {tp: 8, dp: 3}\nimages:\n  train:1: 18\n  base: 3\n"


def ask(folder: Path, command: str, *arguments: str, job: str = JOB) -> int:
    """Run a command on eight nodes of two pods, of which one each has both images."""
    (folder / "c.csv").write_text(CLUSTER)
    (folder / "job.yaml").write_text(job)
    return run([command, "--cluster", str(folder / "c.csv"), "--job", str(folder / "job.yaml"), *arguments])


def test_what_nodes_would_pull_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three nodes of a pod, of which one has all images: two pull 18 GB, in the notes of both commands."""
    for command in ("place", "explain"):
        assert ask(tmp_path, command, "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert says(said["notes"], "2 of 3 nodes", "18 GB")
        assert said["job"]["images"] == {"train:1": 18.0, "base": 3.0}
        assert ask(tmp_path, command) == 0
        assert says(capsys.readouterr().out, "2 of 3 nodes", "18 GB")


def test_a_size_below_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, with the line and what to do."""
    assert ask(tmp_path, "place", "--json", job=JOB.replace("18", "-18")) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["where"] == f"{tmp_path / 'job.yaml'}:3"
    assert "greater than or equal to 0" in error["message"]
    assert error["fix"] == "correct images.train:1"


def test_the_csv_keeps_the_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Converted to the same format, the images of each node are the same."""
    (tmp_path / "c.csv").write_text(CLUSTER)
    assert run(["topology", "convert", str(tmp_path / "c.csv"), "--to", "csv"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert rows[0][-1] == "cache"
    assert [set(row[-1].split()) for row in rows[1:3]] == [{"base"}, {"train:1", "base"}]
